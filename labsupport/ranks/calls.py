"""A call of a rank, as it is told: between processes, in records and in pictures."""

import dataclasses
from dataclasses import dataclass

__all__ = ["Call", "from_dicts", "latest", "to_dicts"]


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call of a rank.

    `number` counts the calls of its group from 1; `at` is its place among the group's collectives on the wire, which
    all ranks agree on (an object collective takes two places). `done`: it has completed; `waiting`: the rank stands in
    it, or in `wait()` of it, now. `origin` is "program", or "torch" for what torch calls by itself (DDP's reducer):
    those have no line. `ways` of a pair: "dst" or "src", with `peer` a global rank (None: any), the `nth` of its kind.
    `lost`: there were calls before this one that are not known any more.
    """

    number: int
    op: str
    group: str = "0"
    shapes: tuple = ()
    dtypes: tuple = ()
    done: bool = True
    peer: int | None = None
    lineno: int | None = None
    line: str = ""
    file: str = ""
    at: int | None = None
    waiting: bool = False
    asynchronous: bool = False
    raised: bool = False
    origin: str = "program"
    way: str = ""
    nth: int = 0
    tag: int = 0
    root: int | None = None
    how: str = ""
    members: tuple | None = None
    timeout_ms: int | None = None
    own_timeout: bool = False
    threads: int = 0
    began_ns: int = 0
    lost: bool = False

    @property
    def pair(self):
        """Whether this is a send or a receive rather than a collective."""
        return bool(self.way)

    @property
    def setup(self):
        """Whether this makes a group rather than uses one."""
        return not self.group


def latest(calls, most):
    """Return the last calls, and of those before them what tells who waits for whom: what is not done, last ones.

    How many sends there were to a rank, and how far a group has come, is told by the last call of each kind.

    Args:
        calls: `Call`s of one rank, oldest first.
        most: how many of the last are kept whatever they are.
    """
    before = calls[: max(0, len(calls) - most)]
    last = {(call.group, call.way, call.peer, call.tag): i for i, call in enumerate(before)}
    kept = set(last.values())
    older = [call for i, call in enumerate(before) if i in kept or call.setup or call.lost or not call.done]
    return older + list(calls[len(before) :])


def to_dicts(calls):
    """Return calls as plain dicts, for JSON."""
    return [dataclasses.asdict(call) for call in calls]


def from_dicts(dicts):
    """Return the calls that `to_dicts` made dicts of."""
    known = {field.name for field in dataclasses.fields(Call)}
    tuples = ("shapes", "dtypes", "members")
    rows = [{key: value for key, value in row.items() if key in known} for row in dicts]
    return tuple(
        Call(**{k: _as_tuple(v) if k in tuples and v is not None else v for k, v in row.items()}) for row in rows
    )


def _as_tuple(value):
    return tuple(_as_tuple(item) for item in value) if isinstance(value, list | tuple) else value
