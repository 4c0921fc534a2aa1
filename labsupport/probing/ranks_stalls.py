"""From where every rank stands to a sentence: who waits for whom."""

import json
import re
from dataclasses import dataclass

from labsupport.ranks import recorder
from labsupport.ranks.scene import Scene
from labsupport.ranks.waiting import Standing
from labsupport.ranks.waiting import explain as explain_standings

__all__ = ["Stuck", "explain", "standings_of"]

_ENDED = re.compile(r"\b(ranks? [\d, -]+ (?:has|have)) ended\b")


@dataclass(frozen=True)
class Stuck:
    """Why ranks will not be done.

    Args:
        sentence: which limit they were over, as words that follow "the answer was".
        kind: what kind of waiting it is and in which call ("ended early: all_reduce"), "" when nothing is known.
        certain: nobody can go on, whatever the time.
        busy_s: after how many seconds it was given up because the machine had no time for the ranks; None otherwise.
    """

    sentence: str
    kind: str = ""
    certain: bool = False
    busy_s: float | None = None


def standings_of(replies, where):
    """Return {rank: Standing}.

    Args:
        replies: per rank what it replied, or None while it is at it.
        where: {rank: what it told about itself} of those whose processes live.
    """
    return {rank: _standing(where.get(rank, {}), reply) for rank, reply in enumerate(replies)}


def _standing(told, reply):
    state = "running"
    if reply is not None:
        state = "gone" if "ended" in reply else "failed" if reply.get("raised") else "done"
    calls = json.loads(told.get("calls") or "null")
    calls = None if calls is None else recorder.from_dicts(calls)
    return Standing(state, calls, told.get("lineno") or None, told.get("line", ""))


def explain(now, earlier):
    """Return the `Stuck` of ranks that wait for each other, or None; `now` and `earlier` are standings of two looks."""
    stall = explain_standings(now, earlier)
    if stall is None:
        return None
    scene = Scene(now)
    calls = {call.op.removeprefix("i") for rank in stall.waiting if (call := scene.blocking(rank))}
    # A rank whose function has come to its end has not ended: its process lives, and the check asked no more of it.
    sentence = _ENDED.sub(r"\1 returned", stall.sentence)
    return Stuck(f"stuck: {sentence}", f"{stall.kind}: {', '.join(sorted(calls))}", stall.certain)
