"""A program's observations: its text goes to a child, then a question per case; an end or a hang is an answer too."""

from dataclasses import dataclass

import numpy as np

from labsupport.course import Observation, Raised
from labsupport.grading import outside
from labsupport.grading.errors import Died, OverLimit
from labsupport.grading.wire import MAX_BYTES, WireError

__all__ = ["RESULT_BYTES", "Children", "Program", "observe_course", "observe_program"]

COURSE = "course"  # the name of the child that runs references and specimens
_PROGRAMS_PER_CHILD = 300

LOAD_S = 10.0  # a cell may take this long
_SPARE_S = 1.0  # beyond a limit inside the child, until the judge ends it from outside
RESULT_BYTES = MAX_BYTES // 2  # of all cases of an exercise together
_ENDINGS = (Died, OverLimit, WireError)


@dataclass(frozen=True)
class Program:
    """What is sent to a child: text, and which names it should define."""

    setup: str
    helpers: tuple
    source: str
    names: tuple


def observe_program(exercise, program, inputs, children, child_name):
    """Return one observation per case, made in a caged child.

    After a case that hangs, or once the results are too large together, the rest is not asked and counts the same.

    Args:
        exercise: the exercise; its names, probe and limits are sent along.
        program: a `Program`.
        inputs: a tuple of inputs per case.
        children, child_name: a `Children` and which of its children is to run it.
    """
    try:
        child = children.get(child_name)
        problem = _load(child, program)
    except _ENDINGS as ending:
        problem = children.ended(child_name, ending, LOAD_S)
    if problem:
        return (problem,) * len(inputs)
    words = outside.vocabulary(exercise, program)
    seen, size = [], 0
    for index, one in enumerate(inputs):
        names = [exercise.names[index]] if exercise.kind == "prediction" else list(exercise.names)
        try:
            seen.append(outside.observe(child, exercise, names, one, words))
        except _ENDINGS as ending:
            return _and_the_rest(seen, children.ended(child_name, ending, exercise.limits.call_s), inputs)
        size += _bytes_of(seen[-1].value)
        if size > RESULT_BYTES:
            del seen[-1]
            return _and_the_rest(seen, Observation(over=f"returning more than {RESULT_BYTES:,} bytes in all"), inputs)
        if seen[-1].over:
            return _and_the_rest(seen, seen[-1], inputs)
    return tuple(seen)


def observe_course(exercise, program, inputs, children):
    """Return what `observe_program` does for one of the course's own programs, by a single question.

    A reference or a specimen does not lie about itself, so what the child says needs no second look from outside. One
    that hangs, dies or returns too much is asked case by case, as an answer is.
    """
    words = outside.vocabulary(exercise, program)
    predicted = exercise.kind == "prediction"
    names = [[name] for name in exercise.names] if predicted else [list(exercise.names)] * len(inputs)
    question = _loading(program) | {
        "op": "program",
        "cases": [_case(exercise, n, one) for n, one in zip(names, inputs, strict=True)],
        "limits": {"call_s": exercise.limits.call_s},
    }
    for _ in range(2):  # the child may have been near its own limits before this program came
        try:
            reply = children.get(COURSE).ask(question, LOAD_S + len(inputs) * exercise.limits.call_s + _SPARE_S)
        except _ENDINGS as ending:
            children.ended(COURSE, ending, LOAD_S)
            continue
        loaded, seen = reply.get("loaded"), reply.get("seen")
        if loaded and not (loaded["over"] or loaded["missing"]) and len(seen) == len(inputs):
            return tuple(_with_words(outside.observation_of(one), words) for one in seen)
        break
    return observe_program(exercise, program, inputs, children, COURSE)


def _case(exercise, names, inputs):
    first, beside = outside.two_steps(exercise)
    return {
        "names": names,
        "inputs": inputs,
        "probe": {"name": exercise.probe.name, "options": first},
        "beside": beside,
    }


def _with_words(seen, words):
    if words is None or seen.raised or seen.over:
        return seen
    return Observation(value=seen.value, facts=dict(seen.facts) | {"vocabulary": words}, notes=seen.notes)


def _and_the_rest(seen, last, inputs):
    return (*seen, *(last,) * (len(inputs) - len(seen)))


def _load(child, program):
    """Return None, or the observation that stands for every case because the program did not define its names."""
    reply = child.ask(_loading(program), LOAD_S + _SPARE_S)
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


class Children:
    """The children a submission needs: one for its answers, one for references and specimens, each made when needed.

    The second runs the course's own programs only, so it serves one submission after the other, until it has run many.
    """

    def __init__(self, runner):
        self._runner, self._open, self._asked, self._used = runner, {}, {}, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for name in list(self._open):
            if name != COURSE:
                self.close(name)

    def get(self, name):
        """Return a child to run one more program in.

        Raises:
            CannotRunHere, GradingImpossible: no such child can be had.
        """
        if name == COURSE:
            return self._course_child()
        if name not in self._open:
            self._open[name], self._asked[name] = self._runner.child(), 0
        self._asked[name] += 1
        return self._open[name]

    def _course_child(self):
        child, programs = getattr(self._runner, "course", None) or (None, 0)
        if child is not None and programs >= _PROGRAMS_PER_CHILD:
            child.close()
            child = None
        if child is None:
            child, programs = self._runner.child(), 0
        self._runner.course = child, programs + 1
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
        if name == COURSE:
            child, self._runner.course = (getattr(self._runner, "course", None) or (None, 0))[0], None
        else:
            child = self._open.pop(name, None)
        if child is not None:
            child.close()
            if name == "answer":
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
