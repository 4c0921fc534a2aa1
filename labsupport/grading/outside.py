"""Observing from outside the child: facts that do not depend on what the child says about itself.

Whether inputs were changed, and whether a result is a view, is found out by the judge in memory it owns: the input
lies in sealed shared memory, the judge compares it afterwards, rewrites it, and asks for the result again. A copy does
not follow. To fool this, an answer would have to compute the right result a second time from the new bytes. Which
words an answer uses is read by the judge from its text. Allocations, lines run and memory released are counted beside
the answer and are best effort.
"""

import functools
import math
import secrets

import numpy as np

from labsupport.comparing import differs
from labsupport.course import Observation, Raised
from labsupport.grading import reading, shared
from labsupport.grading.allowance import limit_behind
from labsupport.probing.plain import Opaque, identical, plain

__all__ = ["VERSION", "counted", "observation_of", "observe", "two_steps", "uncounted", "vocabulary"]

VERSION = 3  # of what is observed; kept observations of another version are not used
_SPARE_S = 1.0
_ANOTHER = "something else when it is called again"
_COUNTED = {"max_allocated": 2, "max_kept": 2, "max_steps": 1, "releases": 1}  # option -> calls it takes
_LONGEST = 500  # characters of a text from a child that are kept
_MOST_ITEMS = 100


def vocabulary(exercise, program):
    """Return which forbidden words a program uses, or None when the exercise forbids none."""
    words = exercise.probe.options.get("forbid")
    return _words_reached(program, tuple(words)) if words else None


@functools.lru_cache(maxsize=1024)  # the course's own programs come again with every submission
def _words_reached(program, words):
    return reading.words_reached(program, words)


def observe(child, exercise, names, inputs, words=None):
    """Return the observation of one case.

    What is counted is asked for only once the value is there, so that an answer that hangs is ended after the time of
    one call.

    Args:
        child: a runner's child in which the answer is loaded.
        exercise: the exercise; its probe and limits are sent along.
        names: the names the probe looks at.
        inputs: the case's inputs, a tuple of plain data.
        words: the `vocabulary` of the answer.

    Raises:
        Died, OverLimit, WireError: what became of the child.
    """
    first, beside = two_steps(exercise)
    twice = _is_shared(exercise, inputs)
    if twice:
        seen = _in_shared_memory(child, names, inputs, first, exercise.limits)
    else:
        seen = _ask(child, exercise, names, inputs, first, 1)
    # After a call in shared memory one in memory of the child's own: an answer may behave where it knows it is watched.
    if (beside or twice) and not (seen.raised or seen.over):
        seen = _counted(child, exercise, names, inputs, beside, seen)
    if words is not None and not (seen.raised or seen.over):
        seen = Observation(value=seen.value, facts=dict(seen.facts) | {"vocabulary": words}, notes=seen.notes)
    return seen


def counted(exercise):
    """Return whether anything is counted on calls of its own."""
    return any(key in _COUNTED for key in exercise.probe.options)


def uncounted(exercise):
    """Return the probe's options without those."""
    return {key: value for key, value in exercise.probe.options.items() if key not in _COUNTED}


def two_steps(exercise):
    """Return (options of the first call, options of the calls beside it) in which a case is observed."""
    options = {key: value for key, value in exercise.probe.options.items() if key != "forbid"}
    first = {key: value for key, value in options.items() if key not in _COUNTED}
    return first, {key: value for key, value in options.items() if key in _COUNTED}


def _is_shared(exercise, inputs):
    has_arrays = any(type(value) is np.ndarray and value.size for value in inputs)
    return exercise.probe.name == "call" and has_arrays and shared.AVAILABLE


def _counted(child, exercise, names, inputs, beside, seen):
    """Return an observation with what is counted beside the answer, on calls of its own."""
    again = _ask(child, exercise, names, inputs, beside, 1 + sum(_COUNTED.get(key, 0) for key in beside))
    if again.raised or again.over:
        return again
    known = Observation(value=seen.value)
    if exercise.probe.name == "call" and not differs(known, known) and differs(again, known):
        # Otherwise one call could show the right values and another one the right numbers.
        return Observation(value=Opaque(_ANOTHER), facts=seen.facts, notes=seen.notes)
    facts = dict(again.facts) | dict(seen.facts)
    facts["inputs changed"] = tuple(sorted({*_indices(again.facts, len(inputs)), *_indices(seen.facts, len(inputs))}))
    return Observation(value=seen.value, facts=facts, notes=dict(seen.notes) | dict(again.notes))


def _ask(child, exercise, names, inputs, options, calls):
    call_s = exercise.limits.call_s
    question = {
        "op": "observe",
        "probe": {"name": exercise.probe.name, "options": options},
        "names": list(names),
        "inputs": inputs,
        "limits": {"call_s": call_s},
    }
    return observation_of(child.ask(question, call_s * calls + _SPARE_S))


def _in_shared_memory(child, names, inputs, options, limits):
    """Return the observation of one call whose arrays lie in the judge's memory: value, inputs changed, layout."""
    with shared.Memory(inputs) as memory:
        question = {
            "op": "call_shared",
            "names": list(names),
            "inputs": memory.described,
            "limits": {"call_s": limits.call_s},
        }
        seen = observation_of(child.ask(question, limits.call_s + _SPARE_S, fds=(memory.fd,)))
        if seen.raised or seen.over:
            return seen
        # A change the child itself reports happened, too; one it does not report is seen all the same.
        changed = {*memory.changed_inputs(), *_indices(seen.facts, len(inputs))}
        facts = {"inputs changed": tuple(sorted(changed))}
        if options.get("writeable"):
            facts["writeable"] = seen.facts.get("writeable")
        if options.get("view_of") is not None and not isinstance(seen.value, Opaque):
            has_elements = type(seen.value) is np.ndarray and seen.value.size
            facts["layout"] = _layout(child, memory, seen, limits) if has_elements else None
    return Observation(value=seen.value, facts=facts, notes=seen.notes)


def _indices(facts, count):
    told = facts.get("inputs changed")
    return {i for i in told if type(i) is int and 0 <= i < count} if type(told) is tuple else set()


def _layout(child, memory, before, limits):
    """Return "view", "copy" or "partly" for the result the child still holds."""
    mask = 1 + secrets.randbelow(255)  # not known beforehand: nothing prepared can have followed
    memory.rewrite(mask)
    after = observation_of(child.ask({"op": "reread"}, limits.call_s + _SPARE_S))
    arrays = type(before.value) is np.ndarray and type(after.value) is np.ndarray
    if not arrays or before.value.shape != after.value.shape:
        return None
    if identical(plain(before.value), plain(after.value)):
        return "copy"
    followed = np.frombuffer(before.value.tobytes(), np.uint8) ^ mask
    return "view" if followed.tobytes() == after.value.tobytes() else "partly"


def observation_of(reply):
    """Return a reply as an `Observation`; whatever is not of its proper type and size in it is left out or cut.

    The reply comes from a process that runs a learner's code: nothing in it may make comparing or printing it fail.
    """
    raised, over = reply.get("raised"), reply.get("over")
    raised = _raised(raised) if isinstance(raised, dict) else None
    over = None if over is None else over[:_LONGEST] if type(over) is str else "over a limit"
    if raised and (which := limit_behind(raised.type, raised.message)):
        raised, over = None, f"asking for more {which} than it may have ({raised.type})"
    return Observation(
        value=reply.get("value"),
        raised=raised,
        over=over or None,
        facts=_checked(reply.get("facts"), _FACTS),
        notes=_checked(reply.get("notes"), _NOTES),
    )


def _raised(fields):
    lineno = fields.get("lineno")
    return Raised(
        type=_text(fields, "type") or "Exception",
        message=_text(fields, "message"),
        line=_text(fields, "line"),
        lineno=lineno if type(lineno) is int and 0 <= lineno < 1 << 31 else 0,
        bases=_names(fields.get("bases")),
    )


def _names(value):
    """Return at most a few names; a class does not derive from many exceptions."""
    if not isinstance(value, (tuple, list)) or len(value) > _MOST_ITEMS:
        return ()
    return tuple(name[:_LONGEST] for name in value if type(name) is str)


def _text(fields, name):
    value = fields.get(name)
    return value[:_LONGEST] if type(value) is str else ""


def _checked(found, kinds):
    """Return the fields of a dict that are of the kind their name calls for; other names may hold any small value."""
    if type(found) is not dict:
        return {}
    names = [name for name in found if type(name) is str and len(name) < _MOST_ITEMS]
    checked = {name: kinds.get(name, _fact)(found[name]) for name in names}
    return {name: value for name, value in checked.items() if value is not ...}


def _fact(value):
    """Return a fact that can be compared and shown, or `...`."""
    return value if value is None or type(value) is bool else _note(value)


def _note(value):
    return _text_of(value) if type(value) is str else _number(value)


def _text_of(value):
    return value[:_LONGEST] if type(value) is str else ...


def _number(value):
    countable = (type(value) is int and abs(value) < 1 << 63) or (type(value) is float and math.isfinite(value))
    return value if countable else ...


def _numbers(value):
    if type(value) not in (tuple, list) or len(value) > _MOST_ITEMS:
        return ...
    return tuple(item for item in value if type(item) is int and 0 <= item < _MOST_ITEMS)


def _words(value):
    if type(value) not in (tuple, list) or len(value) > _MOST_ITEMS:
        return ...
    return tuple(item[:_LONGEST] for item in value if type(item) is str)


_FACTS = {
    "inputs changed": _numbers,
    "vocabulary": _words,
    "layout": lambda value: value if value is None else _text_of(value),
    "allocation": _text_of,
    "kept": _text_of,
    "steps": _text_of,
}
_NOTES = {"printed": _text_of, "allocated_bytes": _number, "kept_bytes": _number, "steps": _number}
