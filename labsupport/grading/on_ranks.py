"""Answers that ranks run, observed in a cage: a child with torch loaded forks the ranks and watches them.

The child runs nothing of an answer itself. What its ranks say about themselves (calls, files, bytes sent) is best
effort, like everything a process says about itself; values are compared by the judge, as always.
"""

from labsupport.course import Limits, Observation, Raised
from labsupport.grading import outside
from labsupport.grading.allowance import RANKS
from labsupport.grading.errors import Died, OverLimit
from labsupport.grading.wire import WireError
from labsupport.probing.fair import TooBusy
from labsupport.probing.ranks import patience_s
from labsupport.probing.ranks_start import NotMade

__all__ = ["child_name", "limits_of", "observe"]

_SUFFIX = " on ranks"
_ENDINGS = (Died, OverLimit, WireError)


def child_name(name):
    """Return what the child is called that does for rank exercises what the child `name` does for others."""
    return name + _SUFFIX


def limits_of(name):
    """Return the `Allowance` of a child by its name, None for the usual one."""
    return RANKS if name.endswith(_SUFFIX) else None


def observe(exercise, program, inputs, children, name):
    """Return one observation per case; after a case that hangs or ends the child the rest counts the same.

    Args:
        exercise, program, inputs: as for `programs.observe_program`.
        children, name: a `Children` and the name of the child that would run another exercise's program.
    """
    name, seen, words, own = child_name(name), [], outside.vocabulary(exercise, program), name == "course"
    for one in inputs:
        try:
            seen.append(_on_case(exercise, program, one, children.get(name), own))
        except _ENDINGS as ending:
            seen.append(children.ended(name, ending, exercise.limits.call_s))
        last = seen[-1]
        if last.over or (last.raised and last.raised.type == "ProcessEnded" and not _names_a_rank(last.raised)):
            return (*seen, *(last,) * (len(inputs) - len(seen)))
    return tuple(_with_words(one, words) for one in seen)


def _names_a_rank(raised):
    return raised.message.startswith("rank ")


def _on_case(exercise, program, inputs, child, own):
    limits = Limits(call_s=exercise.limits.call_s)
    options = {name: value for name, value in exercise.probe.options.items() if name != "forbid"}
    question = {
        "op": "ranks",
        "setup": program.setup,
        "source": "\n".join([*program.helpers, program.source]),
        "names": list(program.names),
        "options": options,
        "inputs": inputs,
        "limits": {"call_s": limits.call_s},
        "own": own,
    }
    reply = child.ask(question, patience_s(options, limits) + 5.0)
    if type(busy_s := reply.get("busy_s")) is float:
        raise TooBusy(busy_s)
    if type(why := reply.get("not_made")) is str:
        raise NotMade(f"there are no ranks: {why}")
    return _checked(reply)


def _with_words(seen, words):
    if words is None or seen.raised or seen.over:
        return seen
    return Observation(value=seen.value, facts={**seen.facts, "vocabulary": words}, notes=seen.notes)


def _checked(reply):
    """Return a reply as an `Observation`; what ranks returned is a dict, or it is nothing."""
    seen = outside.observation_of(reply)
    if seen.raised or seen.over or type(seen.value) is dict:
        return seen
    return Observation(raised=Raised(type="ProcessEnded", message="the ranks gave no results"))
