"""The lesson object: what a learner's cells talk to. It checks in the kernel, at once, and records what happened."""

import contextlib
import os
import random
import sys
import tracemalloc

from labsupport import answering, catalog
from labsupport.course import Outcome, Verdict
from labsupport.errors import LabError
from labsupport.figures.words import count as _count
from labsupport.journal import Journal
from labsupport.rank_answers import source_of_answer, verdict_on_cell
from labsupport.showing import Code, Message, show_verdict
from labsupport.waiting import told_while

__all__ = ["Lab", "lesson", "progress"]

_FAILED = ("wrong", "crashed", "over limit")


def lesson(slug):
    """Return the `Lab` of a lesson.

    Args:
        slug: the lesson's name, number or notebook file name.

    Raises:
        LabError: no lesson is called that.
    """
    return Lab(catalog.find_lesson(slug))


def progress():
    """Return the progress through all lessons, in words, from the journal."""
    passed = Journal().passed()
    ready = [known for known in catalog.lessons() if known.ready]
    return Message("Your progress", [(f"{known.number:02d} {known.slug}", _in_words(known, passed)) for known in ready])


def _in_words(known, passed):
    try:
        return progress_of(known, passed)
    except LabError as error:  # one lesson that cannot be read does not hide the others
        return f"cannot be read: {error.what}"


def progress_of(known, passed):
    exercises = catalog.exercises(known.slug)
    core = [e for e in exercises if e.core]
    more = [e for e in exercises if not e.core]
    done = [sum(e.id in passed for e in part) for part in (core, more)]
    if not any(done):
        return f"not started: {len(core)} core exercises, {known.minutes} minutes"
    words = "core complete" if done[0] == len(core) else f"{done[0]} of {len(core)} core exercises passed"
    return f"{words}, {done[1]} of {len(more)} more" if more else words


_FIGURES = "strides, broadcasting, collective, buckets, graph, timeline, chunks"


class Lab:
    """One lesson in one kernel: `check`, `hint`, `solution`, `drill`, `show`, `data`, `peak_memory`, `machine`."""

    def __init__(self, known):
        self.lesson = known
        self._journal = Journal()
        self._questions = {}
        self._seed = random.SystemRandom().randrange(1 << 32)
        _watch_cells()

    def __repr__(self):
        return f"lesson {self.lesson.slug}: {_in_words(self.lesson, self._journal.passed())}"

    # -- exercises ---------------------------------------------------------------------------------------------

    def check(self, name, *objects):
        """Check an answer now, in this kernel, and return what is to be said about it.

        Args:
            name: the exercise, as named in the lesson ("address-of").
            objects: the answer itself, instead of looking up the declared names; for scripts.

        Raises:
            LabError: no such exercise; or, with LAB_STRICT=1 in the environment, the answer did not pass.
        """
        exercise = self._find(name)
        namespace = self._namespace(exercise, objects, _callers_namespace())
        source = source_of_answer(exercise, objects, namespace) if exercise.on_ranks else None
        verdict = self._verdict_soon(exercise, namespace, source, passed=bool(objects))
        self._journal.append(
            "check",
            exercise.id,
            outcome=verdict.outcome.value,
            misconception=verdict.misconception,
            answer=_digest(exercise, namespace, source) if verdict.passed else None,
        )
        shown = show_verdict(verdict, notes=self._after(exercise, verdict))
        if os.environ.get("LAB_STRICT") == "1" and not verdict.passed:
            raise LabError(str(shown))
        return shown

    def _verdict_soon(self, exercise, namespace, source, passed):
        """Return the verdict; a check that starts ranks or loads a library first says meanwhile that it is at work."""
        try:
            with told_while(f"checking {exercise.id}{' on real ranks' if exercise.on_ranks else ''}"):
                if exercise.on_ranks:
                    return verdict_on_cell(exercise, source)
                return self._verdict(exercise, namespace, passed)
        except Exception as error:
            return _check_failed(exercise, error)

    def _namespace(self, exercise, objects, namespace):
        """Return where the declared names are looked up: among the objects passed, else in the notebook."""
        if not objects:
            return namespace
        if len(objects) != len(exercise.names):
            raise LabError(
                f"{exercise.short_id!r} is answered by {_count(len(exercise.names), 'object')}, "
                f"{len(objects)} {'was' if len(objects) == 1 else 'were'} passed",
                next_step=f"pass {', '.join(exercise.names)}, or only the exercise's name",
            )
        return dict(zip(exercise.names, objects, strict=True))

    def _verdict(self, exercise, namespace, passed):
        from labsupport.observing import verdict_on
        from labsupport.probing import Subject

        if problem := _problem_with(exercise, namespace):
            return problem
        if error := not passed and _FAILED_CELLS.get(exercise.id):
            why = f"The last run of this exercise's cell ended in {error}, so what is defined is the version before it."
            return _say(exercise, Outcome.NOT_YET, why, "Mend the cell, run it, then run this check again.")
        main = namespace[exercise.names[0]]
        source = None if exercise.kind == "prediction" else answering.live_source(main)
        subject = Subject(exercise.names, namespace, source, exercise.setup)
        # A wrong prediction is worth a second thought, so its right value is not told.
        reveal = exercise.kind != "prediction"
        return verdict_on(exercise, subject, untouched=_is_stub(exercise, source), reveal=reveal)

    def _after(self, exercise, verdict):
        """Return the lines that follow a verdict: where a hint or the solution is, once they are of use."""
        if verdict.passed:
            return (
                [("also", f"The course's own solution: `lab.solution({exercise.short_id!r})`.")]
                if exercise.kind != "prediction"
                else []
            )
        about = self._journal.about(exercise.id)
        failures = sum(r["event"] == "check" and r.get("outcome") in _FAILED for r in about)
        if verdict.outcome.value not in _FAILED or failures < 2:
            return []
        hints = sum(r["event"] == "hint" for r in about)
        if hints < len(exercise.hints):
            return [("help", f"`lab.hint({exercise.short_id!r})` gives hint {hints + 1} of {len(exercise.hints)}.")]
        return [("help", f"All hints are read; `lab.solution({exercise.short_id!r})` shows a solution.")]

    def hint(self, name):
        """Return the next hint of an exercise; each call gives one more, then all of them."""
        return give_hint(self._find(name), self._journal)

    def solution(self, name):
        """Return the course's solution, after passing, or after an attempt and all hints; recorded as studied."""
        return give_solution(self._find(name), self._journal)

    def drill(self, name, answer=...):
        """Ask a fresh question; replace the `...` by your answer and run the cell again to have it judged.

        Args:
            name: an exercise that has a drill ("predict-strides").
            answer: your answer to the question asked last, or `...` to see it.
        """
        exercise = self._find(name)
        if exercise.drill is None:
            having = [e.short_id for e in catalog.exercises(self.lesson.slug) if e.drill]
            raise LabError(
                f"{exercise.short_id!r} has no drill", next_step=f"drills here: {', '.join(having) or 'none'}"
            )
        from labsupport.drilling import Question

        question = self._questions.setdefault(exercise.id, Question(exercise, self._seed))
        if answer is ...:
            return question.asked()
        verdict = question.judge(answer)
        self._journal.append("drill", exercise.id, outcome=verdict.outcome.value, misconception=verdict.misconception)
        if verdict.passed:
            self._questions[exercise.id] = question.next()
        return question.answered(verdict, self._questions[exercise.id])

    def _find(self, name):
        return catalog.find_exercise(name, self.lesson.slug)

    # -- figures, data, measurement ----------------------------------------------------------------------------

    def show(self, figure, /, *args, **options):
        """Return a figure drawn from your own objects, for example `lab.show("strides", x)`.

        Raises:
            LabError: no figure has this name.
        """
        import importlib

        try:
            module = importlib.import_module(f"labsupport.figures.{figure.replace('-', '_')}")
            draw = module.draw
        except (ImportError, AttributeError):
            raise LabError(f"no figure is called {figure!r}", next_step=f"figures: {_FIGURES}") from None
        return draw(*args, **options)

    def data(self, name):
        """Return one of the course's data sets as a fresh array; `data/README.md` says what each holds."""
        from labsupport import datasets

        return datasets.load(name)

    @contextlib.contextmanager
    def peak_memory(self):
        """Count the bytes allocated inside a `with` block; the number is in `.bytes` afterwards."""
        used = Peak()
        nested = tracemalloc.is_tracing()
        if not nested:
            tracemalloc.start()
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        try:
            yield used
        finally:
            used.bytes = max(0, tracemalloc.get_traced_memory()[1] - before)
            if not nested:
                tracemalloc.stop()

    def machine(self):
        """Return a short report on this machine: cores, memory, accelerator, versions."""
        from labsupport.machine import report

        return Message("This machine", report())


class Peak:
    """The most bytes that were allocated at once inside a `lab.peak_memory()` block, beyond what was there before."""

    bytes = 0

    def __repr__(self):
        return f"{self.bytes:,} bytes at the peak"


def _check_failed(exercise, error):
    """Return the verdict when the check itself fails: most often something it needs was replaced in this session."""
    if isinstance(error, LabError) and error.next_step:  # it knows better
        return _say(exercise, Outcome.GRADER_FAULT, f"{error.what[:1].upper()}{error.what[1:]}.", error.next_step)
    why = f"The check itself failed ({type(error).__name__}: {str(error)[:200]})."
    step = "Restart the kernel and run the lesson again: something the check needs may have been replaced in it."
    return _say(exercise, Outcome.GRADER_FAULT, why, step)


def _digest(exercise, namespace, source=None):
    """Return a digest of the answer that passed, so that a clean check can tell whether the file holds the same one."""
    from labsupport.disagreeing import digest_of_answer

    if exercise.kind == "prediction":
        return digest_of_answer(exercise, namespace=namespace)
    return digest_of_answer(exercise, source=source or answering.live_source(namespace[exercise.names[0]]))


# Exercise id -> how the last run of its cell failed, in this kernel.
_FAILED_CELLS = {}


def _watch_cells():
    """Have IPython tell how each exercise's cell ended, once per shell."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if shell is not None and not getattr(shell, "_lab_watches_cells", False):
        shell.events.register("post_run_cell", _cell_ended)
        shell._lab_watches_cells = True


def _cell_ended(result):
    exercise_id = catalog.marker_of(getattr(result.info, "raw_cell", "") or "")
    if exercise_id is None:
        return
    error = result.error_before_exec or result.error_in_exec
    _FAILED_CELLS.pop(exercise_id, None)
    if error is not None:
        _FAILED_CELLS[exercise_id] = type(error).__name__


def _callers_namespace():
    """Return the notebook's namespace, or that of the script that called `lab.check`."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if shell is not None:
        return shell.user_ns
    frame = sys._getframe(2)
    return {**frame.f_globals, **frame.f_locals}


def _is_stub(exercise, source):
    if source is None:
        return False
    shipped = catalog.stubs(exercise.slug).get(exercise.id, "")
    stub = answering.definition_in(shipped, exercise.names[0])
    return stub is not None and answering.same_program(stub, source)


def _problem_with(exercise, namespace):
    """Return a verdict when the declared name is missing or holds something that cannot be an answer, else None."""
    missing = [name for name in exercise.names if name not in namespace]
    if missing:
        return _say(exercise, Outcome.NOT_YET, *_missing(missing[0], namespace))
    if exercise.kind == "prediction":
        return None
    name, value = exercise.names[0], namespace[exercise.names[0]]
    if exercise.kind == "class" and not isinstance(value, type):
        kind = "a function" if callable(value) else f"an object of type {type(value).__name__}"
        return _say(exercise, Outcome.WRONG, f"`{name}` is {kind} here; the exercise asks for a class.", _RERUN)
    if not callable(value):
        why = f"`{name}` holds a value of type {type(value).__name__} here; the exercise asks for a function."
        return _say(exercise, Outcome.WRONG, why, _RERUN)
    return None


_RERUN = "A later cell may have used the name for something else: run the cell that defines your answer again."


def _missing(name, namespace):
    import difflib

    own = [key for key in namespace if not key.startswith("_")]
    near = difflib.get_close_matches(name, own, n=1, cutoff=0.75)
    why = f"`{name}` is not defined in this kernel" + (f", but `{near[0]}` is." if near else ".")
    step = f"Rename it to `{name}`." if near else "Run the cell that defines it, then run this check again."
    return why, step


def _say(exercise, outcome, why, step):
    return Verdict(exercise=exercise.id, outcome=outcome, why=why, next=step)


_UNWRITTEN = "not recorded: the workspace cannot be written to"


def _call(action, exercise, typed):
    """Return how something about an exercise is asked for: in a cell, or in a terminal where `typed` is the command."""
    return f"`{typed} {action} {exercise.id}`" if typed else f"`lab.{action}({exercise.short_id!r})`"


def give_hint(exercise, journal, typed=None):
    """Return the next hint as a `Message` and record it; once all are given, all of them.

    Args:
        exercise: which.
        journal: what has been done so far.
        typed: the command to name in what to do next (`./lab`), for a terminal; None for a notebook.
    """
    given = sum(r["event"] == "hint" for r in journal.about(exercise.id))
    if given >= len(exercise.hints):
        lines = [(f"{i}", hint) for i, hint in enumerate(exercise.hints, 1)]
        return Message(
            f"All hints of {exercise.id}",
            [*lines, ("next", f"{_call('solution', exercise, typed)} after one attempt.")],
        )
    kept = journal.append("hint", exercise.id, number=given + 1)
    lines = [("", exercise.hints[given]), ("note", "" if kept else _UNWRITTEN)]
    return Message(f"Hint {given + 1} of {len(exercise.hints)}   {exercise.id}", lines)


def give_solution(exercise, journal, typed=None):
    """Return the solution as a `Message` when it is due, else what is still to do before it; `typed` as for a hint."""
    about = journal.about(exercise.id)
    outcomes = {r.get("outcome") for r in about if r["event"] in ("check", "clean")}
    passed, tried = "passed" in outcomes, not outcomes.isdisjoint(_FAILED)
    hints = sum(r["event"] == "hint" for r in about)
    if not passed and not (tried and hints >= len(exercise.hints)):
        left = [] if tried else ["one attempt"]
        left += [_count(len(exercise.hints) - hints, "more hint")] if hints < len(exercise.hints) else []
        return Message(
            f"The solution of {exercise.id} opens after {' and '.join(left)}",
            [("next", f"{_call('check', exercise, typed)} or {_call('hint', exercise, typed)}")],
            "wait",
        )
    journal.append("solution", exercise.id)
    source = answering.reference_answer(exercise).source
    if exercise.kind != "prediction":  # without the setup: the lesson has imported that already
        source = answering.source_of(exercise.reference, exercise.names[0])
    lines = [("", Code(source.rstrip())), ("source", exercise.source)]
    return Message(f"A solution of {exercise.id}", lines, "good" if passed else "plain")
