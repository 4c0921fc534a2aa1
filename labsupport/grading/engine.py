"""One submission to rows: answers go into a caged child, observations come back, the judge decides.

This process never runs a line of a learner's code. It knows the references; the child that runs the answer does not.
References and specimens are observed through the same questions, in a child of their own.
"""

import functools
import hashlib
import time
from dataclasses import dataclass, field, replace

from labsupport import answering, catalog
from labsupport.comparing import differs
from labsupport.course import Outcome, Probe, Verdict
from labsupport.grading import outside
from labsupport.grading.errors import CannotRunHere, GradingImpossible
from labsupport.grading.programs import Children, Program, observe_course, observe_program
from labsupport.grading.secret import Secret
from labsupport.grading.store import Row
from labsupport.grading.wire import TooLarge, decode, encode
from labsupport.inputs import PUBLIC_SEED
from labsupport.judging import Observed, alike, judge
from labsupport.observing import inputs_for, reference_observations, specimen_observations
from labsupport.places import NOTEBOOKS, ROOT

__all__ = [
    "Graded", "GradingImpossible", "Secret", "course_version", "grade_submission", "grading_key", "judge_again",
]  # fmt: skip

_SUBMISSION_S = 120.0


@dataclass(frozen=True)
class Graded:
    """A submission's rows, the observation frames behind them ({key: bytes}), and what it used."""

    rows: tuple[Row, ...]
    frames: dict = field(default_factory=dict)
    usage: dict = field(default_factory=dict)


@functools.cache
def course_version():
    """Return a digest of everything a verdict depends on: the package and the built notebooks."""
    found = sorted([*(ROOT / "labsupport").rglob("*.py"), *NOTEBOOKS.glob("*.ipynb")])
    digest = hashlib.sha256()
    for path in found:
        digest.update(f"{path.relative_to(ROOT).as_posix()}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def grading_key(submission, secret):
    """Return what verdict rows are tied to: the file, the course and whose inputs were used."""
    parts = (submission.sha256, submission.learner, submission.lesson, course_version(), secret.sign("inputs"))
    return hashlib.sha256("\n".join(str(part) for part in parts).encode()).hexdigest()[:32]


def grade_submission(submission, *, runner, secret, known=lambda key: None):
    """Return a `Graded` with one row per exercise of the submission's lesson.

    Nothing a learner did makes it raise. An answer that hangs or dies costs its own exercise only: the next one gets
    a new child. Observations that `known(key)` still has are judged without running anything.

    Args:
        submission: an `intake.Submission`.
        runner: an open `Runner`.
        secret: a `Secret`.
        known: returns the kept observation frame of a key, or None.

    Raises:
        GradingImpossible: a required layer of the cage did not report that it works.
    """
    exercises = catalog.exercises(submission.lesson) if submission.lesson else ()
    frames, rows = {}, []
    started = time.monotonic()
    with Children(runner) as children:
        for exercise in exercises:
            taken = submission.answers.get(exercise.id)
            left = _SUBMISSION_S - (time.monotonic() - started)
            rows.append(_grade_one(exercise, submission, taken, children, secret, known, frames, left))
        usage = {"wall_s": round(time.monotonic() - started, 3), **children.usage()}
    return Graded(tuple(replace(row, usage=usage) for row in rows), frames, usage)


def check_answers(taken, runner):
    """Yield a `Verdict` per `Taken`, on the public inputs: the same path as a grade, for the learner's own eyes.

    Args:
        taken: answers of one lesson.
        runner: an open `Runner` of any tier.
    """
    with Children(runner) as children:
        for one in taken:
            exercise = catalog.find_exercise(one.exercise)
            asked = (exercise, _Nobody(exercise.slug), one, children, Secret(), lambda key: None, {}, _SUBMISSION_S)
            row = _grade_one(*asked)
            told = {name: getattr(row, name) for name in _told(Verdict(exercise="", outcome=Outcome.PASSED))}
            yield Verdict(exercise=exercise.id, **{**told, "outcome": Outcome(row.outcome)})


@dataclass(frozen=True)
class _Nobody:
    """Stands for a submission where an answer is checked for its author: no learner, no file, the public inputs."""

    lesson: str
    learner: str = ""
    sha256: str = ""
    unreadable: str = ""
    notes: tuple = ()


def _grade_one(exercise, submission, taken, children, secret, known, frames, left):
    seed = secret.seed(submission.sha256, exercise.id)
    problem = _before_running(exercise, submission, taken, left)
    if problem:
        return _row(problem, exercise, submission, taken)
    key = _observation_key(exercise, taken, seed)
    try:
        frame = known(key)
        if frame is None:
            verdict, frame = _run(exercise, taken, seed, children)
        else:
            verdict = _judge(exercise, _unpacked(decode(frame)), seed, children)
        if frame is not None:
            frames[key] = frame
    except GradingImpossible:
        raise
    except CannotRunHere as error:
        step = "Nothing is held against the answer; it is graded where that is possible."
        verdict = Verdict(exercise=exercise.id, outcome=Outcome.CANNOT_RUN_HERE, why=str(error.what), next=step)
    except Exception as error:  # ours: whatever it is, it must not become the learner's zero
        verdict = _fault(exercise, f"{type(error).__name__}: {error}")
    return _row(verdict, exercise, submission, taken, observed=key if key in frames else "")


def _run(exercise, taken, seed, children):
    """Return (verdict, kept frame) of an answer that is run now.

    One that fails where other answers ran before it is run again alone: what they left behind is not its fault.
    """
    program = Program(exercise.setup, tuple(taken.helpers), taken.source, exercise.names)
    inputs = inputs_for(exercise, seed)
    while True:
        seen = observe_program(exercise, program, inputs, children, "answer")
        try:
            frame = encode(_packed(seen))
        except TooLarge as error:  # each result is within bounds, all of them together are not
            return _too_much(exercise, error), None
        answer = _unpacked(decode(frame))
        verdict = _judge(exercise, answer, seed, children)
        hung = any(seen.over and "still running" in seen.over for seen in answer)
        explained = verdict.misconception or hung  # by a mistake of its own, which nothing left behind brings about
        if verdict.outcome not in _FAILED or explained or not children.is_shared("answer"):
            return verdict, frame
        children.close("answer")


def _before_running(exercise, submission, taken, left):
    """Return the verdict on an answer that need not or cannot be run, else None."""
    if submission.unreadable:
        return Verdict(
            exercise=exercise.id, outcome=Outcome.UNREADABLE, why=submission.unreadable, next=submission.repair
        )
    if taken is not None and (unusable := getattr(taken, "unreadable", "")):
        step = "Split the cell, or take out what does not belong to the answer."
        return Verdict(exercise=exercise.id, outcome=Outcome.UNREADABLE, why=unusable, next=step)
    if taken is None or not taken.source:
        why = "No cell of the notebook answers this exercise."
        return Verdict(
            exercise=exercise.id, outcome=Outcome.NOT_YET, why=why, next="Add the cell back from the lesson."
        )
    if left <= 0:
        why = f"The answers before this one used up the {_SUBMISSION_S:g} s a submission has."
        return Verdict(exercise=exercise.id, outcome=Outcome.OVER_LIMIT, why=why, next="Look at what is slow above.")
    if taken.untouched or _is_stub(exercise, taken.source):
        return judge(exercise, Observed(answer=None, reference=(), untouched=True))
    return None


def _is_stub(exercise, source):
    stub = catalog.stubs(exercise.slug).get(exercise.id, "")
    if answering.same_program(source, stub):
        return True
    if exercise.kind == "prediction":
        return False
    mine, shipped = (answering.definition_in(text, exercise.names[0]) for text in (source, stub))
    return mine is not None and shipped is not None and answering.same_program(mine, shipped)


# -- judging -----------------------------------------------------------------------------------------------------


_FAILED = (Outcome.WRONG, Outcome.CRASHED, Outcome.OVER_LIMIT)


def _judge(exercise, answer, seed, children):
    """Return the verdict; specimens are observed only when the answer is not right."""
    reference = _course_observations(exercise, None, seed, children)
    verdict = judge(exercise, Observed(answer=answer, reference=reference))
    if verdict.outcome not in _FAILED:
        return verdict
    first = next(i for i, pair in enumerate(zip(answer, reference, strict=True)) if differs(*pair))
    like = [
        m for m in exercise.misconceptions if alike(answer[first], _on_one_case(exercise, m, first, seed, children))
    ]
    # One that remembers earlier cases may look different alone: without a likeness all are observed in full.
    for misconceptions in (like, exercise.misconceptions):
        specimens = {m.id: _course_observations(exercise, m, seed, children) for m in misconceptions}
        verdict = judge(exercise, Observed(answer=answer, reference=reference, specimens=specimens))
        if verdict.misconception or len(misconceptions) == len(exercise.misconceptions):
            break
    return verdict


# With a secret every submission has inputs of its own and nothing is found here again; without one everything is.
_COURSE = {}
_COURSE_KEPT = 2000


def _kept(key, make):
    if key not in _COURSE:
        if len(_COURSE) >= _COURSE_KEPT:
            _COURSE.clear()
        _COURSE[key] = make()
    return _COURSE[key]


def _course_observations(exercise, misconception, seed, children):
    """Return the observations of a misconception's specimen, or of the reference when it is None."""
    if exercise.kind == "prediction":  # a value is worked out here, by the course's own code; there is nothing to drive
        found = specimen_observations(exercise, seed) if misconception else reference_observations(exercise, seed)
        return found[misconception.id] if misconception else found

    def make():
        program = _course_program(exercise, misconception, seed)
        if misconception is None and seed != PUBLIC_SEED and outside.counted(exercise):
            return _counted_before(exercise, program, seed, children)
        return observe_course(exercise, program, inputs_for(exercise, seed), children)

    return _kept((exercise.id, misconception and misconception.id, seed), make)


def _counted_before(exercise, program, seed, children):
    """Return a reference's observations with what it takes (bytes, lines) as counted once, on the public inputs.

    That depends on the shapes of a case, not on its contents, and the contract holds it well inside its budgets.
    """
    counted = _course_observations(exercise, None, PUBLIC_SEED, children)
    once = replace(exercise, probe=Probe(exercise.probe.name, outside.uncounted(exercise)))
    seen = observe_course(once, program, inputs_for(exercise, seed), children)
    pairs = zip(seen, counted, strict=True)
    return tuple(s if s.raised or s.over else replace(s, facts=dict(c.facts) | dict(s.facts)) for s, c in pairs)


def _on_one_case(exercise, misconception, index, seed, children):
    """Return a specimen's observation on one case alone: most are told apart from an answer by that."""
    whole = _COURSE.get((exercise.id, misconception.id, seed))
    if exercise.kind == "prediction" or whole:
        return (whole or _course_observations(exercise, misconception, seed, children))[index]

    def make():
        program = _course_program(exercise, misconception, seed)
        return observe_course(exercise, program, [inputs_for(exercise, seed)[index]], children)[0]

    return _kept((exercise.id, misconception.id, seed, index), make)


def _course_program(exercise, misconception, seed):
    if misconception:
        answer = answering.specimen_answer(exercise, misconception, seed)
    else:
        answer = answering.reference_answer(exercise, seed)
    return Program(exercise.setup, (), answer.source, exercise.names)


def judge_again(row, frame, exercise, secret):
    """Return the row that the course of today gives on kept observations, or None when the answer must be run again.

    No learner code runs. It must be run again when what is asked has changed: cases, probe, setup or limits.

    Args:
        row: the `Row` made then.
        frame: its kept observations.
        exercise: the exercise as it is now.
        secret: the `Secret` used then.
    """
    seed = secret.seed(row.submission, exercise.id)
    answer = _unpacked(decode(frame))
    if len(answer) != len(exercise.cases) or not row.observed.startswith(_question_digest(exercise, seed)):
        return None
    first = Observed(answer=answer, reference=reference_observations(exercise, seed))
    verdict = judge(exercise, first)
    if verdict.outcome in _FAILED:
        verdict = judge(exercise, replace(first, specimens=specimen_observations(exercise, seed)))
    return replace(row, **_told(verdict))


def _too_much(exercise, error):
    why = f"The answer's results are too large to be compared ({error})."
    step = "Return what is asked for and nothing beside it."
    return Verdict(exercise=exercise.id, outcome=Outcome.OVER_LIMIT, why=why, next=step)


def _fault(exercise, what):
    why = f"Grading failed on our side ({what})."
    step = "Nothing is held against the answer; it is graded again once this is repaired."
    return Verdict(exercise=exercise.id, outcome=Outcome.GRADER_FAULT, why=why, next=step)


def _told(verdict):
    return {
        "outcome": verdict.outcome.value,
        "points": verdict.points,
        "points_of": verdict.points_of,
        "misconception": verdict.misconception,
        "case": verdict.case,
        "why": verdict.why,
        "next": verdict.next,
        "seen": verdict.seen,
        "measured": verdict.measured,
    }


def _row(verdict, exercise, submission, taken, observed=""):
    points = exercise.points if isinstance(exercise.points, (int, float)) else sum(exercise.points.values())
    told = _told(verdict) | {"points_of": points}
    source = taken.source if taken else ""
    return Row(
        learner=submission.learner,
        lesson=submission.lesson,
        exercise=exercise.id,
        taken=taken.told if taken else "no cell found",
        notes=(*submission.notes, *(taken.notes if taken else ())),
        submission=submission.sha256,
        answer=hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest() if source else "",
        observed=observed,
        core=exercise.core,
        **told,
    )


# -- keys and frames ---------------------------------------------------------------------------------------------


def _question_digest(exercise, seed):
    """Return a digest of what is asked: inputs, probe, setup, names and limits; not of how it is judged."""
    digest = hashlib.sha256()
    for part in inputs_for(exercise, seed):
        digest.update(encode(part, keep_layout=True))
    options = sorted((str(k), repr(v)) for k, v in exercise.probe.options.items())
    asked = (
        exercise.id,
        exercise.probe.name,
        options,
        exercise.setup,
        exercise.names,
        exercise.limits,
        outside.VERSION,
    )
    digest.update(repr(asked).encode())
    return digest.hexdigest()[:32]


def _observation_key(exercise, taken, seed):
    answer = hashlib.sha256(repr((taken.source, tuple(taken.helpers))).encode("utf-8", "surrogatepass")).hexdigest()[
        :32
    ]
    return f"{_question_digest(exercise, seed)}-{answer}"


def _packed(observations):
    """Return observations as plain data for the wire's format."""
    return [
        {
            "value": seen.value,
            "raised": vars(seen.raised) if seen.raised else None,
            "over": seen.over,
            "facts": dict(seen.facts),
            "notes": dict(seen.notes),
        }
        for seen in observations
    ]


def _unpacked(packed):
    return tuple(outside.observation_of(one) for one in packed)
