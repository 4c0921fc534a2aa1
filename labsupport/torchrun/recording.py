"""The records of this kernel's jobs: checks and tests of the course read them."""

import contextlib
import json
import shlex

from labsupport.torchrun.nouns import RankRecord, Record

__all__ = ["keep", "make", "records"]

_RECORDS = []


def records():
    """Return the records of this kernel's jobs, the latest last."""
    return list(_RECORDS)


def keep(record):
    """Add a record and return it."""
    _RECORDS.append(record)
    return record


def make(request, last, *, mode, started, wall_s, interrupted):
    """Return the `Record` of a job that has ended, while its folder is still there.

    Args:
        request: what was asked for.
        last: the last `Snapshot`.
        mode: how it ran: "warm", "spawned" or "cold".
        started: `time.time()` at its beginning; wall_s: seconds it took.
        interrupted: whether it was ended from outside.
    """
    ranks = (*last.earlier, *last.ranks)
    return Record(
        command=shlex.join(["torchrun", *request.flags, "cell.py", *request.arguments]),
        mode=mode,
        code=last.code,
        started=started,
        wall_s=round(wall_s, 4),
        ranks=tuple(_of_rank(rank, last.events) for rank in ranks),
        restarts=max((rank.attempt for rank in ranks), default=0),
        interrupted=interrupted,
    )


def _of_rank(rank, events):
    known = {}
    with contextlib.suppress(OSError, ValueError):
        known = json.loads((rank.folder / "state.json").read_text(encoding="utf-8"))
    ended = [e for e in events if e["event"] == "rank ended" and (e["rank"], e["attempt"]) == (rank.rank, rank.attempt)]
    collectives, sent, calls = _calls(rank)
    return RankRecord(
        rank=rank.rank,
        node=rank.node,
        attempt=rank.attempt,
        state=rank.state,
        code=rank.code,
        peak_bytes=known.get("peak_bytes"),
        cpu_s=next((e["cpu_s"] for e in ended if "cpu_s" in e), known.get("cpu_s")),
        collectives=collectives,
        sent_bytes=sent,
        calls=calls,
    )


def _calls(rank):
    """Return ({operation: how often}, bytes sent, calls as dicts) of a rank, also of one that was killed."""
    from labsupport.ranks import counting, recorder

    with contextlib.suppress(Exception):
        file = rank.folder / "calls.json"
        if file.exists():
            calls = recorder.from_dicts(json.loads(file.read_text(encoding="utf-8")))
        else:
            calls = recorder.read(rank.folder / "s")
        told = tuple(recorder.to_dicts(calls))
        return counting.counted(calls), counting.sent_bytes(calls, rank.rank, rank.world), told
    return {}, None, ()
