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
from labsupport.grading import rank_facts, reading, shared
from labsupport.grading.allowance import limit_behind
from labsupport.probing.gathering import written_alike
from labsupport.probing.plain import Opaque, identical
from labsupport.probing.running import ANOTHER_FILE, ANOTHER_RESULT

__all__ = [
    "VERSION", "agreed", "calls_of", "changed_inputs", "counted", "is_array", "is_shared", "layout_of",
    "observation_of", "observe", "seconds_for", "two_steps", "uncounted", "vocabulary", "watched", "with_words",
]  # fmt: skip

VERSION = 6  # of what is observed; kept observations of another version are not used
_SPARE_S = 1.0
_ANOTHER = "something else when it is called again"
_COUNTED = {"max_allocated": 2, "max_kept": 2, "max_steps": 1, "releases": 1}  # option -> calls it takes
_TOLD_HOW = ("through", "files", "artifact")  # probes whose other options say how the answer is called at all
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
    twice = is_shared(exercise, inputs)
    if twice:
        seen = _in_shared_memory(child, names, inputs, first, exercise)
    else:
        seen = observation_of(_ask(child, exercise, names, inputs, first, 1))
    # After a call in shared memory one in memory of the child's own: an answer may behave where it knows it is watched.
    if (beside or twice) and not (seen.raised or seen.over):
        seen = agreed(exercise, inputs, seen, _ask(child, exercise, names, inputs, beside, calls_of(beside)))
    return with_words(seen, words)


def with_words(seen, words):
    """Return an observation with the words an answer uses among its facts."""
    if words is None or seen.raised or seen.over:
        return seen
    return Observation(value=seen.value, facts=dict(seen.facts) | {"vocabulary": words}, notes=seen.notes)


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
    beside = {key: value for key, value in options.items() if key in _COUNTED}
    if beside and exercise.probe.name in _TOLD_HOW:
        beside = options
    return first, beside


def calls_of(beside):
    """Return how many calls one question with these counted options makes."""
    return 1 + sum(_COUNTED.get(key, 0) for key in beside)


def seconds_for(exercise, calls):
    """Return how long the reply to a question that makes so many calls is waited for."""
    return exercise.limits.call_s * calls + _SPARE_S


def is_shared(exercise, inputs):
    """Return whether a case is called in the judge's memory: its inputs are arrays, and there is such memory."""
    has_arrays = any(type(value) is np.ndarray and value.size for value in inputs)
    return exercise.probe.name == "call" and has_arrays and shared.AVAILABLE


def agreed(exercise, inputs, seen, reply):
    """Return an observation with what a second call beside it told: what was counted, and whether it was the same.

    Args:
        seen: the observation of the first call, which neither raised nor was over a limit.
        reply: the reply to the second, with a "same" of True where its value is the first one's.
    """
    again = observation_of(reply)
    if again.raised or again.over:
        return again
    known = Observation(value=seen.value)
    wrote = exercise.probe.name == "files" and reply.get("same") is not True
    if wrote and not written_alike(seen.value, again.value, exercise.probe.options["file"]):
        return Observation(raised=Raised(type=ANOTHER_RESULT, message=ANOTHER_FILE), notes=seen.notes)
    is_same = reply.get("same") is True or exercise.probe.name not in ("call", "through")
    if not is_same and not differs(known, known) and differs(again, known):
        # Otherwise one call could show the right values and another one the right numbers.
        return Observation(value=Opaque(_ANOTHER), facts=seen.facts, notes=seen.notes)
    facts = dict(again.facts) | dict(seen.facts)
    facts["inputs changed"] = tuple(sorted({*changed_inputs(again, inputs), *changed_inputs(seen, inputs)}))
    return Observation(value=seen.value, facts=facts, notes=dict(seen.notes) | dict(again.notes))


def _ask(child, exercise, names, inputs, options, calls):
    question = {
        "op": "observe",
        "probe": {"name": exercise.probe.name, "options": options},
        "names": list(names),
        "inputs": inputs,
        "limits": {"call_s": exercise.limits.call_s},
    }
    return child.ask(question, seconds_for(exercise, calls))


def _in_shared_memory(child, names, inputs, options, exercise):
    """Return the observation of one call whose arrays lie in the judge's memory: value, inputs changed, layout."""
    with shared.Memory(inputs) as memory:
        question = {
            "op": "call_shared",
            "names": list(names),
            "inputs": memory.described,
            "limits": {"call_s": exercise.limits.call_s},
        }
        seen = observation_of(child.ask(question, seconds_for(exercise, 1), fds=(memory.fd,)))
        if seen.raised or seen.over:
            return seen
        # A change the child itself reports happened, too; one it does not report is seen all the same.
        seen = watched(seen, {*memory.changed_inputs(), *changed_inputs(seen, inputs)}, options)
        if options.get("view_of") is None or isinstance(seen.value, Opaque):
            return seen
        has_elements = is_array(seen.value) and seen.value.size
        layout = _layout(child, memory, seen, exercise) if has_elements else None
    return Observation(value=seen.value, facts=dict(seen.facts) | {"layout": layout}, notes=seen.notes)


def watched(seen, changed, options):
    """Return the observation of a call in the judge's memory with the facts that hold there."""
    facts = {"inputs changed": tuple(sorted(changed))}
    if options.get("writeable"):
        facts["writeable"] = seen.facts.get("writeable")
    return Observation(value=seen.value, facts=facts, notes=seen.notes)


def changed_inputs(seen, inputs):
    """Return which of the inputs an observation says were changed, as a set of indices."""
    told = seen.facts.get("inputs changed")
    return {i for i in told if type(i) is int and 0 <= i < len(inputs)} if type(told) is tuple else set()


def _layout(child, memory, before, exercise):
    """Return "view", "copy" or "partly" for the result the child still holds."""
    mask = 1 + secrets.randbelow(255)  # not known beforehand: nothing prepared can have followed
    memory.rewrite(mask)
    after = observation_of(child.ask({"op": "reread"}, seconds_for(exercise, 1)))
    return layout_of(before.value, after.value, mask)


def is_array(value):
    """Return whether a value is an array and nothing derived from one."""
    return type(value) is np.ndarray


def layout_of(before, after, mask):
    """Return "view", "copy" or "partly" for an array read before and after the memory of its inputs was rewritten.

    None when what was read afterwards is no array of its shape.
    """
    if not (is_array(before) and is_array(after)) or before.shape != after.shape:
        return None
    if identical(before, after):
        return "copy"
    followed = np.frombuffer(before.tobytes(), np.uint8) ^ mask
    return "view" if followed.tobytes() == after.tobytes() else "partly"


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


def _words(value):
    if type(value) not in (tuple, list) or len(value) > _MOST_ITEMS:
        return ...
    return tuple(item[:_LONGEST] for item in value if type(item) is str)


_FACTS = {
    "inputs changed": rank_facts.changed,
    "collectives": rank_facts.collectives,
    "files": rank_facts.files,
    "vocabulary": _words,
    "layout": lambda value: value if value is None else _text_of(value),
    "allocation": _text_of,
    "kept": _text_of,
    "steps": _text_of,
}
_NOTES = {"printed": _text_of, "allocated_bytes": _number, "kept_bytes": _number, "steps": _number}
