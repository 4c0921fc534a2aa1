"""All ranks' calls side by side: which fit together, who waits for whom, and who can provably not go on. Pure."""

import math
from dataclasses import dataclass, field

__all__ = ["ENDED", "Scene", "compatible", "differs", "spoiled", "wire"]

# How the program's functions go over the wire first; the recorder of gloo shows these names.
_WIRE = {
    "all_gather_into_tensor": "all_gather", "all_gather_single": "all_gather", "all_gather_coalesced": "all_gather",
    "reduce_scatter": "all_reduce", "reduce_scatter_tensor": "all_reduce", "reduce_scatter_single": "all_reduce",
    "all_to_all_single": "all_to_all", "all_reduce_coalesced": "all_reduce", "all_gather_object": "all_gather",
    "gather_object": "all_gather", "broadcast_object_list": "broadcast", "scatter_object_list": "broadcast",
    "_allgather_base": "all_gather", "_reduce_scatter_base": "all_reduce",
}  # fmt: skip
_KNOWN = {*_WIRE.values(), "reduce", "gather", "scatter", "barrier", "monitored_barrier"}
_ROOTED = ("broadcast", "reduce", "gather", "scatter")
_SAME_SHAPE = ("all_reduce", "broadcast", "reduce", "all_gather", "all_gather_into_tensor", "reduce_scatter_tensor",
               "gather", "scatter")  # fmt: skip
_BYTES = {"float64": 8, "int64": 8, "complex64": 8, "complex128": 16, "float16": 2, "bfloat16": 2, "int16": 2,
          "int8": 1, "uint8": 1, "bool": 1}  # fmt: skip
ENDED = ("done", "failed", "gone")
# A call that gives up by itself this soon is left to do so: the program may have been written for that.
_PATIENT_MS = 15_000


def wire(call):
    """Return the name of a call on the wire."""
    return _WIRE.get(call.op, call.op)


def compatible(one, other):
    """Whether two collectives at the same place of a group can belong together: a wrong False is never given."""
    if wire(one) != wire(other) and {wire(one), wire(other)} <= _KNOWN:
        return False
    if one.op == other.op and one.op in _ROOTED and None not in (one.root, other.root) and one.root != other.root:
        return False
    same_kind = one.op == other.op == "all_reduce" and one.origin == other.origin
    return not (same_kind and _size(one) != _size(other))


def differs(one, other):
    """Return in what two calls at the same place differ ("operation", "root", "shape", "dtype"), or ""."""
    if one.op != other.op and (wire(one) != wire(other) or "torch" not in (one.origin, other.origin)):
        return "operation"
    if None not in (one.root, other.root) and one.root != other.root:
        return "root"
    if one.op == other.op and one.op in _SAME_SHAPE:
        if one.shapes != other.shapes:
            return "shape"
        if one.dtypes != other.dtypes:
            return "dtype"
    return ""


def spoiled(one, other):
    """Return in what two collectives that both completed differ so that their result is worthless, or "".

    gloo compares nothing but the length of what comes: less than expected, another dtype or another reduction pass.
    """
    if (
        one.op != other.op
        or one.op not in ("all_reduce", "reduce", "broadcast")
        or "torch" in (one.origin, other.origin)
    ):
        return ""
    if one.dtypes != other.dtypes:
        return "dtype"
    if one.how != other.how:
        return "reduction"
    return "shape" if _size(one) != _size(other) else ""


def _size(call):
    total = 0
    for shape, dtype in zip(call.shapes, call.dtypes):
        count = 1
        for side in shape:
            count *= side
        total += count * _BYTES.get(dtype, 4)
    return total


@dataclass
class Scene:
    """The calls of all ranks at one moment.

    Args:
        standings: {rank: Standing}.
    """

    standings: dict
    at: dict = field(default_factory=dict)  # (group, place) -> {rank: call}
    reached: dict = field(default_factory=dict)  # (group, rank) -> the highest place called
    posted: dict = field(default_factory=dict)  # (way, group, own rank, peer, tag) -> how many
    wild: set = field(default_factory=set)  # ranks that have received from any rank
    lost: set = field(default_factory=set)  # ranks of which only the last calls are known
    of_group: dict = field(default_factory=dict)  # group -> its ranks, where one that is in it has told

    def __post_init__(self):
        for rank, standing in self.standings.items():
            for call in standing.calls or ():
                self._add(rank, call)
                if call.lost:
                    self.lost.add(rank)
                if call.members:
                    self.of_group[call.group] = call.members

    def _add(self, rank, call):
        if call.pair:
            key = (call.way, call.group, rank, call.peer, call.tag)
            self.posted[key] = max(self.posted.get(key, 0), call.nth)
            if call.peer is None:
                self.wild.add(rank)
        elif not call.setup:
            place = self.place(call)
            self.at.setdefault((call.group, place), {}).setdefault(rank, call)
            self.reached[call.group, rank] = max(self.reached.get((call.group, rank), 0), place)

    @staticmethod
    def place(call):
        """Return the place of a collective in its group, which all ranks agree on."""
        return call.at if call.at is not None else call.number

    def ended(self, rank):
        return self.standings[rank].state in ENDED

    def members(self, call):
        """Return the ranks whose part a call needs, as far as they are known here."""
        members = call.members or self.of_group.get(call.group)
        if members is None and self.lost:  # who is in it was told in calls that are lost
            members = [rank for rank in self.standings if (call.group, rank) in self.reached]
        return [rank for rank in (members or self.standings) if rank in self.standings]

    def blocking(self, rank):
        """Return the call a rank stands in, or the first one of torch's own that is not done, or None."""
        if self.ended(rank) or not self.standings[rank].calls:
            return None
        calls = self.standings[rank].calls
        own = [call for call in calls if call.waiting and not call.done]
        if own:
            return own[-1]
        return next((c for c in calls if c.origin == "torch" and not c.done and self.lacking(rank, c)), None)

    def lacking(self, rank, call):
        """Return the ranks that have not done their part of a call, and so keep it from completing."""
        return [other for other in self._lacking(rank, call) if self.standings[other].calls is not None]

    def _lacking(self, rank, call):
        if call.setup:
            count = sum(c.op == call.op for c in self.standings[rank].calls)
            others = {r: sum(c.op == call.op for c in s.calls or ()) for r, s in self.standings.items() if r != rank}
            late = [r for r, n in others.items() if n < count and r not in self.lost]
            return late if call.op == "init_process_group" else []
        if call.pair:
            partners = self.partners(rank, call)
            there = [peer for peer in partners if self.has_posted(rank, call, peer)]
            return [] if there and call.peer is None else [peer for peer in partners if peer not in there]
        key = (call.group, self.place(call))
        others = [member for member in self.members(call) if member != rank]
        return [m for m in others if self._reached(call.group, m) < key[1] or self.against(rank, call, m)]

    def _reached(self, group, rank):
        """Return how far a rank has come in a group: when in doubt, as far as need be."""
        return self.reached.get((group, rank), math.inf if rank in self.lost else 0)

    def against(self, rank, call, other):
        """Whether another rank has called something at this place that cannot belong to the call."""
        theirs = self.at.get((call.group, self.place(call)), {}).get(other)
        return theirs is not None and not compatible(call, theirs)

    def partners(self, rank, call):
        """Return the ranks that could answer a send or a receive."""
        if call.peer is not None:
            return [call.peer] if call.peer in self.standings else []
        return [member for member in self.members(call) if member != rank]

    def has_posted(self, rank, call, peer):
        """Whether a peer may have made the counterpart of a send or receive: when in doubt, it has."""
        if call.way == "dst" and (peer in self.wild or peer in self.lost):
            return True
        other = "src" if call.way == "dst" else "dst"
        posted = self.posted.get((other, call.group, peer, rank, call.tag), math.inf if peer in self.lost else 0)
        if call.peer is None:  # from any rank: whatever was sent and not yet taken
            return posted > self.posted.get(("src", call.group, rank, peer, call.tag), 0)
        return posted >= call.nth

    def hopeless(self):
        """Return the ranks that have ended or can provably not go on, given that nothing moves between two looks.

        A rank stays in while some part of its call is lacking that only ranks in the set could do, or that was done
        in a way that does not fit. Starting from all candidates, what can go on is taken out until nothing changes.
        """
        calls = {rank: self.blocking(rank) for rank in self.standings}
        candidates = {r for r, call in calls.items() if self.ended(r) or (call is not None and self._patient(r, call))}
        while True:
            free = {r for r in candidates if not self.ended(r) and not self._held(r, calls[r], candidates)}
            if not free:
                return candidates
            candidates -= free

    def _patient(self, rank, call):
        limits = [call.timeout_ms] if call.timeout_ms is not None else []
        quick = call.own_timeout or any(limit < _PATIENT_MS for limit in limits)
        own = [c for c in self.standings[rank].calls if c.origin == "program"]  # in torch's calls nobody counts
        threads = max((c.threads for c in own if c.waiting), default=own[-1].threads if own else 0)
        return not quick and not threads and not self._in_flight(rank, call)

    def _in_flight(self, rank, blocking):
        """Whether something of the rank's may complete yet, and start what others wait for."""
        return any(
            not call.done and call is not blocking and not call.pair and not call.setup and not self.lacking(rank, call)
            for call in self.standings[rank].calls
        )

    def _held(self, rank, call, candidates):
        lacking = self.lacking(rank, call)
        if call.pair and call.peer is None:  # any of them could send
            return bool(lacking) and all(r in candidates for r in lacking)
        if call.pair or call.setup:
            return any(r in candidates for r in lacking)
        return any(r in candidates or self.against(rank, call, r) for r in lacking)
