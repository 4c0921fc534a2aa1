"""A program's observations: its text goes to a child, then a question per case; an end or a hang is an answer too."""

import math
from dataclasses import dataclass, replace

import numpy as np

from labsupport.course import Observation, Raised
from labsupport.grading import artifacts, on_ranks, outside
from labsupport.grading.allowance import LIBRARIES, Allowance
from labsupport.grading.errors import Died, OverLimit
from labsupport.grading.together import Together, frame_of
from labsupport.grading.wire import MAX_BYTES, WireError

__all__ = ["RESULT_BYTES", "Children", "Program", "child_for", "observe_course", "observe_program"]

COURSE = "course"  # the name of the child that runs references and specimens
_WITH_LIBRARIES = " with libraries"
_PROGRAMS_PER_CHILD = 300

LOAD_S = 10.0  # a cell may take this long
_SPARE_S = 1.0  # beyond a limit inside the child, until the judge ends it from outside
RESULT_BYTES = MAX_BYTES // 2  # of all cases of an exercise together
_TOO_MUCH = Observation(over=f"returning more than {RESULT_BYTES:,} bytes in all")
_ENDINGS = (Died, OverLimit, WireError)


@dataclass(frozen=True)
class Program:
    """What is sent to a child: text, and which names it should define."""

    setup: str
    helpers: tuple
    source: str
    names: tuple


def observe_program(exercise, program, inputs, children, child_name, frame=None):
    """Return one observation per case, made in a caged child.

    After a case that hangs, or once the results are too large together, the rest is not asked and counts the same.

    Args:
        exercise: the exercise; its names, probe and limits are sent along.
        program: a `Program`.
        inputs: a tuple of inputs per case.
        children, child_name: a `Children` and which of its children is to run it.
        frame: the inputs as `together.frame_of` gives them, when that is at hand.
    """
    if exercise.on_ranks:
        return on_ranks.observe(exercise, program, inputs, children, child_name)
    child_name = child_for(exercise, child_name)
    if artifacts.writes(exercise):
        made = observe_program(artifacts.only_made(exercise), program, inputs, children, child_name, frame)
        return artifacts.inspected(exercise, made, inputs, children, artifacts.INSPECTION)
    words = outside.vocabulary(exercise, program)
    with Together(exercise, inputs, frame, words) as asked:
        seen, end, is_clear = _asked(asked, program, children, child_name)
    if not is_clear:  # and again, each case by questions of its own
        seen, again = _one_by_one(exercise, program, inputs[: len(seen)], children, child_name, words)
        end = again or end
    return _and_the_rest(seen, end, inputs)


def _asked(asked, program, children, child_name):
    """Return (observations, the one that stands for the cases after them, whether they say all there is to see)."""
    seen, size, seconds, children.silent = [], 0, LOAD_S, True
    try:
        loaded = asked.begin(children.get(child_name), _loading(program), LOAD_S + _SPARE_S)
        children.silent = False
        if problem := _missing_in(loaded, program):
            return [], problem, True
        seconds = asked.exercise.limits.call_s
        for one in asked.cases():
            size += _bytes_of(one.value)
            if size > RESULT_BYTES:
                children.close(child_name)  # it has more to say
                return asked.memory_looked_at(seen), _TOO_MUCH, not asked.looks_again
            if one.over:
                break
            seen.append(one)
        found = asked.second_look(seen)
        return found or seen, one if one.over else None, found is not None
    except _ENDINGS as ending:
        end = children.ended(child_name, ending, seconds)
        return asked.memory_looked_at(seen), end, not (asked.looks_again and seen)


def _one_by_one(exercise, program, inputs, children, child_name, words):
    """Return (observations, the one that stands for the cases after them or None)."""
    seen, seconds = [], LOAD_S
    try:
        child = children.get(child_name, again=True)
        if problem := _missing_in(child.ask(_loading(program), LOAD_S + _SPARE_S), program):
            return [], problem
        seconds = exercise.limits.call_s
        for index, one in enumerate(inputs):
            names = [exercise.names[index]] if exercise.kind == "prediction" else list(exercise.names)
            seen.append(outside.observe(child, exercise, names, one, words))
            if sum(_bytes_of(one.value) for one in seen) > RESULT_BYTES:
                return seen[:-1], _TOO_MUCH
            if seen[-1].over:
                return seen[:-1], seen[-1]
    except _ENDINGS as ending:
        return seen, children.ended(child_name, ending, seconds)
    return seen, None


def observe_course(exercise, programs, inputs, children, frame=None):
    """Return what `observe_program` does for each of the course's own programs, by a single question.

    A reference or a specimen does not lie about itself, so what the child says needs no second look from outside. If
    one hangs, dies or returns too much, each is asked alone, and that one case by case, as an answer is.
    """
    if exercise.on_ranks:
        return [on_ranks.observe(exercise, one, inputs, children, COURSE) for one in programs]
    if artifacts.writes(exercise):
        made = observe_course(artifacts.only_made(exercise), programs, inputs, children, frame)
        own = child_for(exercise, COURSE)
        return [artifacts.inspected(exercise, seen, inputs, children, own) for seen in made]
    found = _from_course(exercise, programs, inputs, children, frame)
    if found is None and len(programs) > 1:
        return [observe_course(exercise, [one], inputs, children, frame)[0] for one in programs]
    if found is None:
        return [observe_program(exercise, programs[0], inputs, children, COURSE, frame)]
    return found


def _from_course(exercise, programs, inputs, children, frame):
    """Return the observations of each program, or None when there are not all of them."""
    first, beside = outside.two_steps(exercise)
    question = {
        "op": "programs",
        "programs": [_loading(program) for program in programs],
        "asked": [list(exercise.names)] * len(inputs),
        "probe": {"name": exercise.probe.name, "options": first},
        "beside": beside,
        "limits": {"call_s": exercise.limits.call_s},
        "inputs": frame if frame is not None else frame_of(inputs),
    }
    seconds = len(programs) * (LOAD_S + len(inputs) * exercise.limits.call_s) + _SPARE_S
    name = child_for(exercise, COURSE)
    for _ in range(2):  # the child may have been near its own limits before these programs came
        try:
            replies = children.get(name, len(programs)).ask(question, seconds).get("seen", ())
        except _ENDINGS as ending:
            children.ended(name, ending, LOAD_S)
            continue
        if len(replies) == len(programs) and all(_is_whole(reply, inputs) for reply in replies):
            words = [outside.vocabulary(exercise, program) for program in programs]
            return [_with_words(reply["seen"], said) for reply, said in zip(replies, words, strict=True)]
        break
    return None


def _is_whole(reply, inputs):
    loaded = reply["loaded"]
    return not (loaded["over"] or loaded["missing"]) and len(reply["seen"]) == len(inputs)


def _with_words(replies, words):
    return tuple(outside.with_words(outside.observation_of(one), words) for one in replies)


def _and_the_rest(seen, last, inputs):
    return (*seen, *(last,) * (len(inputs) - len(seen)))


def _missing_in(reply, program):
    """Return None, or the observation that stands for every case because the program did not define its names."""
    loaded = outside.observation_of(reply)
    if loaded.over:
        return Observation(over=loaded.over)
    missing = reply.get("missing")
    missing = missing if type(missing) is list else []
    if not missing:
        return None  # lines below a definition may fail: they try the answer out, they are not part of it
    if loaded.raised:
        return Observation(raised=loaded.raised)
    name = next((name for name in missing if type(name) is str and name in program.names), program.names[0])
    return Observation(raised=Raised(type="NotImplementedError", message=f"`{name}` is not defined"))


def _loading(program):
    return {
        "op": "load",
        "setup": program.setup,
        "helpers": list(program.helpers),
        "source": program.source,
        "names": list(program.names),
        "cell_s": LOAD_S,
    }


def _bytes_of(value):
    """Return about how many bytes a value takes on the wire."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.nbytes
    if isinstance(value, (str, bytes)):
        return len(value)
    if isinstance(value, (list, tuple)):
        return 16 + sum(map(_bytes_of, value))
    if isinstance(value, dict):
        return 16 + sum(_bytes_of(key) + _bytes_of(item) for key, item in value.items())
    return 16 + value.bit_length() // 8 if type(value) is int else 16


def child_for(exercise, name):
    """Return what the child is called that runs an exercise's programs where `name` would run another's."""
    return name + _WITH_LIBRARIES if exercise.needs_libraries and not name.endswith(_WITH_LIBRARIES) else name


def _limits_of(name):
    limits = LIBRARIES if name.endswith(_WITH_LIBRARIES) else on_ranks.limits_of(name)
    if name.startswith(COURSE):  # it serves many: how long that takes in all says nothing about any of them
        return replace(limits or Allowance(), submission_s=math.inf)
    return limits


def _is_answers(name):
    return name.startswith("answer")


def _is_course(name):
    return name in (COURSE, COURSE + _WITH_LIBRARIES)


def _held_by(runner):
    """Return {name: (child, programs it has run)} of the children that outlive a submission."""
    if not hasattr(runner, "course"):
        runner.course = {}
    return runner.course


class Children:
    """The children a submission needs: one for its answers, one for references and specimens, each made when needed.

    The second runs the course's own programs only, so it serves one submission after the other, until it has run many.
    `silent` says that there was no reply at all to the last program: what ran before it may have taken the question.
    `spent_s` is how many seconds the answers have taken: those in which they had no processor do not count, nor what
    references and specimens take.
    """

    def __init__(self, runner):
        self.silent, self._closed_s = False, 0.0
        self._runner, self._open, self._asked, self._used = runner, {}, {}, []

    @property
    def spent_s(self):
        return self._closed_s + sum(child.spent_s for name, child in self._open.items() if _is_answers(name))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for name in list(self._open):
            self.close(name)

    def get(self, name, programs=1, *, again=False):
        """Return a child to run one more program in, or several of the course's.

        Args:
            again: it is the program that ran last, in whichever child; whether others ran before it stays as it was.

        Raises:
            CannotRunHere, GradingImpossible: no such child can be had.
        """
        if _is_course(name):
            return self._course_child(name, programs)
        if name in self._open and self._open[name].usage:  # it ended, and whoever asked it went on
            self.close(name)
        if name not in self._open:
            self._open[name] = self._runner.child(_limits_of(name))
            self._asked[name] = self._asked.get(name, 0) if again else 0
        self._asked[name] += not again
        return self._open[name]

    def _course_child(self, name, more):
        held = _held_by(self._runner)
        child, programs = held.get(name, (None, 0))
        if child is not None and (child.usage or programs >= _PROGRAMS_PER_CHILD):
            child.close()
            child = None
        if child is None:
            child, programs = self._runner.child(_limits_of(name)), 0
        held[name] = child, programs + more
        return child

    def is_shared(self, name):
        """Return whether the child of this name has run, or the last one had run, more than one program."""
        return self._asked.get(name, 0) > 1

    def ended(self, name, ending, seconds):
        """Close a child that is of no more use and return what its end means for the program it was on.

        Args:
            ending: the exception that told of it.
            seconds: the time its program had.
        """
        self.close(name)
        if isinstance(ending, OverLimit):
            limit = min(seconds, ending.limit) if ending.which == "time" else ending.limit
            return Observation(over=_OVER.get(ending.which, "over its limit").format(limit))
        if isinstance(ending, WireError):
            message = "it wrote to the grader's connection and was ended"
        else:
            message = str(ending)
        return Observation(raised=Raised(type="ProcessEnded", message=message))

    def close(self, name):
        """End a child, if there is one of this name."""
        if _is_course(name):
            child, _ = _held_by(self._runner).pop(name, (None, 0))
        else:
            child = self._open.pop(name, None)
        if child is not None:
            child.close()
            if _is_answers(name):
                self._closed_s += child.spent_s
                self._used.append(child.usage)

    def usage(self):
        """Return CPU seconds and peak bytes of the children that ran the answers (those still open are closed)."""
        for name in list(self._open):
            self.close(name)
        used = [u for u in self._used if u]
        return {
            "cpu_s": round(sum(u.get("cpu_s", 0) for u in used), 3),
            "peak_bytes": max((u.get("peak_bytes", 0) for u in used), default=0),
            "children": len(self._used),
        }


_OVER = {
    "time": "still running after {:g} s",
    "cpu": "using the processor for more than {:g} s",
    "memory": "using more than {:,} bytes of memory",
    "disk": "writing more than {:,} bytes to disk",
    "processes": "starting more than {} processes or threads",
    "open files": "opening more files than it may",
    "answer": "returning more than {:,} bytes",
}
