"""What a job is asked for, what is seen of it while it runs, and what is kept of it."""

from dataclasses import asdict, dataclass, field
from pathlib import Path

__all__ = ["MODES", "RankNow", "RankRecord", "Record", "Request", "Snapshot"]

MODES = ("auto", "warm", "spawned", "cold")


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to run.

    Args:
        source: the script, as text.
        flags: torchrun's own, such as ("--nproc-per-node", "4").
        arguments: the script's `sys.argv[1:]`.
        mode: "auto" (what fits this platform), "warm" (forked), "spawned" (kept warm), "cold" (a real torchrun).
        env: environment variables beyond the kernel's.
        returns: names of variables that rank 0 writes at its end.
        pushed: variables every rank begins with, in the format of `values`.
        kills: such as "rank=2@step=12"; see `killing`.
        trace: write a profile per rank.
        timeout_s: what a collective may take; None: torch's default.
        keep: leave the job's folder in place.
    """

    source: str
    flags: tuple = ()
    arguments: tuple = ()
    mode: str = "auto"
    env: dict = field(default_factory=dict)
    returns: tuple = ()
    pushed: bytes | None = None
    kills: tuple = ()
    trace: bool = False
    timeout_s: float | None = None
    keep: bool = False


@dataclass(frozen=True, kw_only=True)
class RankNow:
    """A rank as last seen. `state`: "starting", "running", "done" or "failed"; `code`: how it ended, None before."""

    rank: int
    local_rank: int
    node: int
    attempt: int
    world: int
    state: str
    pid: int
    socket: str | None
    folder: Path
    code: int | None = None


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A job at one moment: the ranks of the latest attempt in order, those of earlier ones, all events so far."""

    ranks: tuple
    earlier: tuple
    events: tuple
    ended: bool
    code: int | None


@dataclass(frozen=True, kw_only=True)
class RankRecord:
    """What is kept of a rank: how it ended and what it took; None where it could not say."""

    rank: int
    node: int
    attempt: int
    state: str
    code: int | None
    peak_bytes: int | None
    cpu_s: float | None
    collectives: dict
    sent_bytes: int | None
    calls: tuple = field(default=(), repr=False)  # each a dict of `recorder.Call`'s fields, in the order of the calls


@dataclass(kw_only=True)
class Record:
    """What is kept of a job: `report` is set by whoever explains a failure."""

    command: str
    mode: str
    code: int
    started: float
    wall_s: float
    ranks: tuple
    restarts: int
    interrupted: bool = False
    report: object = None

    def as_json(self):
        """Return it as JSON data."""
        report = None if self.report is None else str(self.report)
        return asdict(self) | {"report": report}
