"""When ranks computed, communicated and waited: arithmetic on intervals of time. Pure; microseconds throughout.

A transfer that all ranks take part in begins for each of them when it arrives there, and cannot move data before the
last one arrives. So the time from a rank's arrival to the last arrival is waiting, and the rest is communicating.
"""

from dataclasses import dataclass, field

__all__ = ["Spans", "Sums", "Timeline", "common", "length", "minus", "union"]

# What nobody leaves before everybody came. A broadcast or a send may end on one side before it begins on the other.
_TOGETHER = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier", "allreduce", "allgather")


def union(spans):
    """Return the union of [begin, end] pairs as sorted pairs that do not touch."""
    found = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1][1] = max(found[-1][1], end)
        elif end > begin:
            found.append([begin, end])
    return found


def minus(spans, others):
    """Return what of a union no pair of another union covers."""
    found, at = [], 0
    for begin, end in spans:
        while at and others[at - 1][1] > begin:
            at -= 1
        while at < len(others) and others[at][1] <= begin:
            at += 1
        while at < len(others) and others[at][0] < end:
            if others[at][0] > begin:
                found.append([begin, others[at][0]])
            begin = others[at][1]
            at += 1
        if begin < end:
            found.append([begin, end])
    return found


def common(spans, others):
    """Return what two unions have in common."""
    return minus(spans, minus(spans, others))


def length(spans):
    """Return how long the pairs of a union are together."""
    return sum(end - begin for begin, end in spans)


@dataclass(frozen=True)
class Spans:
    """One rank: `computing`, a union; `communicating`, (op, begin, end) of each transfer."""

    computing: list
    communicating: list


@dataclass(frozen=True)
class Sums:
    """One rank's sums in microseconds. `exposed` is the part of `communicating` that no computing overlaps."""

    computing: float
    communicating: float
    exposed: float
    waiting: float
    other: float


@dataclass
class Lanes:
    """One rank, drawn apart: unions that cover no moment twice, except `hidden`, which lies within `computing`."""

    computing: list
    hidden: list
    exposed: list
    waiting: list


@dataclass
class Timeline:
    """The ranks of one attempt: {rank: Spans}, on one clock."""

    ranks: dict
    begin: float = field(init=False)
    end: float = field(init=False)
    _lanes: dict = field(default_factory=dict, repr=False)

    def __post_init__(self):
        computing = [span for one in self.ranks.values() for span in one.computing]
        moments = computing + [span[1:] for one in self.ranks.values() for span in one.communicating]
        self.begin = min((span[0] for span in moments), default=0.0)
        self.end = max((span[1] for span in moments), default=0.0)

    def lanes(self, rank):
        """Return the `Lanes` of a rank."""
        if not self._lanes:
            arrivals = _last_arrivals(self.ranks)
            self._lanes = {r: _lanes(spans, arrivals[r]) for r, spans in self.ranks.items()}
        return self._lanes[rank]

    def sums(self, rank):
        """Return the `Sums` of a rank; together, without `communicating - exposed`, they fill the whole time."""
        lanes = self.lanes(rank)
        computing, exposed, waiting = map(length, (lanes.computing, lanes.exposed, lanes.waiting))
        total = self.end - self.begin
        return Sums(computing, exposed + length(lanes.hidden), exposed, waiting, total - computing - exposed - waiting)


def _lanes(spans, arrivals):
    moving, held = [], []
    for (_, begin, end), last in zip(spans.communicating, arrivals):
        split = min(max(begin, last), end)
        held.append([begin, split])
        moving.append([split, end])
    computing, moving = union(spans.computing), union(moving)
    return Lanes(
        computing=computing,
        hidden=common(moving, computing),
        exposed=minus(moving, computing),
        waiting=minus(minus(union(held), computing), moving),
    )


def _last_arrivals(ranks):
    """Return {rank: [when the last rank arrived at each of its transfers]}.

    The profiler gives transfers no number. The k-th of a name on one rank is the k-th on the others if all have as
    many of that name; where they have not (groups of some ranks only), nobody is said to have waited.
    """
    begins = {rank: _by_name(spans.communicating) for rank, spans in ranks.items()}
    found = {}
    for rank, spans in ranks.items():
        seen, found[rank] = {}, []
        for name, begin, _ in spans.communicating:
            k = seen[name] = seen.get(name, -1) + 1
            same = [times.get(name, []) for times in begins.values()]
            together = name.strip("_").startswith(_TOGETHER) and len({len(times) for times in same}) == 1
            found[rank].append(max(times[k] for times in same) if together else begin)
    return found


def _by_name(communicating):
    times = {}
    for name, begin, _ in communicating:
        times.setdefault(name, []).append(begin)
    return times
