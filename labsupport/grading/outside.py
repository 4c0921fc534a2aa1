"""Observing from outside the child: facts that do not depend on what the child says about itself.

Whether inputs were changed, and whether a result is a view, is found out by the judge in memory it owns: the input
lies in sealed shared memory, the judge compares it afterwards, flips every bit of it, and asks for the result again.
A copy does not follow. To fool this, an answer would have to compute the right result a second time from the new
bytes. The other facts (allocations, lines run, words used) are counted beside the answer and are best effort.
"""

import numpy as np

from labsupport.course import Observation, Raised
from labsupport.grading import shared
from labsupport.probing.plain import identical, plain

__all__ = ["VERSION", "observation_of", "observe"]

VERSION = 1  # of what is observed; kept observations of another version are not used
_SPARE_S = 1.0
_ROUNDS = 8  # calls a probe makes at most: the value, two rounds of each count, released memory, the shared call


def observe(child, exercise, names, inputs):
    """Return the observation of one case.

    Args:
        child: a runner's child in which the answer is loaded.
        exercise: the exercise; its probe and limits are sent along.
        names: the names the probe looks at.
        inputs: the case's inputs, a tuple of plain data.

    Raises:
        Died, OverLimit, WireError: what became of the child.
    """
    limits, options = exercise.limits, dict(exercise.probe.options)
    question = {
        "op": "observe",
        "probe": {"name": exercise.probe.name, "options": options},
        "names": list(names),
        "inputs": inputs,
        "limits": {"call_s": limits.call_s},
    }
    seen = observation_of(child.ask(question, limits.call_s * _ROUNDS + _SPARE_S))
    if exercise.probe.name != "call" or seen.raised or seen.over:
        return seen
    arrays = [i for i, value in enumerate(inputs) if type(value) is np.ndarray and value.size]
    if not arrays:
        return seen
    return _with_facts_from_outside(child, names, inputs, seen, options, limits)


def _with_facts_from_outside(child, names, inputs, seen, options, limits):
    with shared.Memory(inputs) as memory:
        question = {
            "op": "call_shared",
            "names": list(names),
            "inputs": memory.described,
            "limits": {"call_s": limits.call_s},
        }
        again = observation_of(child.ask(question, limits.call_s + _SPARE_S, fds=(memory.fd,)))
        facts = dict(seen.facts)
        if again.raised or again.over:
            return again
        inside = facts.get("inputs changed", ())
        changed = set(memory.changed_inputs()) | {i for i in inside if i not in memory.indices}
        facts["inputs changed"] = tuple(sorted(changed))
        if facts.get("layout") is not None and options.get("view_of") is not None:
            facts["layout"] = _layout(child, memory, again, limits)
    return Observation(value=seen.value, facts=facts, notes=seen.notes)


def _layout(child, memory, before, limits):
    """Return "view", "copy" or "partly" for the result the child still holds."""
    memory.flip()
    after = observation_of(child.ask({"op": "reread"}, limits.call_s + _SPARE_S))
    if (
        type(before.value) is not np.ndarray
        or type(after.value) is not np.ndarray
        or before.value.shape != after.value.shape
    ):
        return None
    if identical(plain(before.value), plain(after.value)):
        return "copy"
    flipped = np.frombuffer(before.value.tobytes(), np.uint8) ^ 0xFF
    return "view" if flipped.tobytes() == after.value.tobytes() else "partly"


def observation_of(reply):
    """Return a reply as an `Observation`; every field is checked for its type, since the reply is not to be trusted."""
    raised, over = reply.get("raised"), reply.get("over")
    return Observation(
        value=reply.get("value"),
        raised=_raised(raised) if isinstance(raised, dict) else None,
        over=str(over) if over else None,
        facts=_texts_to(reply.get("facts")),
        notes=_texts_to(reply.get("notes")),
    )


def _raised(fields):
    lineno = fields.get("lineno")
    return Raised(
        type=str(fields.get("type", "Exception")),
        message=str(fields.get("message", "")),
        line=str(fields.get("line", "")),
        lineno=lineno if type(lineno) is int else 0,
    )


def _texts_to(value):
    return {key: item for key, item in value.items() if type(key) is str} if type(value) is dict else {}
