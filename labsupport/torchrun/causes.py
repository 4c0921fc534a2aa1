"""From how every rank ended to the one cause: a crash before an exception before a missing call before the rest.

torchrun names the rank whose end it saw first, which is often the victim: when one rank stands still, it is another
one whose connection times out.
"""

import contextlib
import dataclasses
import json
import re
import signal
from dataclasses import dataclass

from labsupport.ranks import recorder, waiting
from labsupport.ranks.wording import ranks_in_words
from labsupport.torchrun.raised import error_of

__all__ = ["Cause", "End", "ends_of", "find", "first_sentence", "is_echo"]

# What a rank says when another one is gone, slow, or did something else: a consequence, never a cause.
_ECHO = re.compile(
    r"gloo/transport|Connection (closed|reset|refused)|Timed out waiting \d+ ?ms|connectFullMesh|Connect timeout"
    r"|timed out connecting|Broken pipe|failed to pass monitoredBarrier|Monitored Barrier encountered|pair closure"
    r"|recvValue failed|sendBytes failed|Failed to recv|Socket Timeout|wait timeout after|NCCL communicator was aborted"
    r"|remote process exited|Detected at least one rank that exhausted inputs|Detected mismatch between collectives",
    re.IGNORECASE,
)
_DETAIL = "Detected mismatch between collectives"
_SIZES = re.compile(r"op\.preamble\.length <= op\.nbytes|collective mismatch in your code")
_AT_EXIT = "terminate called without an active exception"
_IN_CELL = re.compile(r'File "cell\.py", line (\d+)')
_ASKED = (-signal.SIGTERM, -getattr(signal, "SIGKILL", signal.SIGTERM))  # how a rank ends that is asked to
_TAIL = 4000  # characters of the error output that are looked at


@dataclass(frozen=True, kw_only=True)
class End:
    """How one rank ended, or where it is. `asked`: torchrun ended it because of another one; `kill`: see `kill_of`."""

    rank: int
    state: str
    code: int | None
    asked: bool = False
    kill: str = ""  # "rank 1 was killed by --kill at step 2", where that is how it ended
    error: dict | None = None
    calls: tuple = ()
    said: str = ""
    stack: str = ""
    source: str = ""

    @property
    def stack_line(self):
        """The line of the cell at which it crashed, or was when it was last asked; None where nobody asked."""
        found = _IN_CELL.search(self.stack)
        return int(found[1]) if found else None

    @property
    def line(self):
        """The text of the line it ended at, or was at."""
        lines = self.source.splitlines()
        return lines[self.lineno - 1].strip() if self.lineno and self.lineno <= len(lines) else ""

    @property
    def message(self):
        return f"{self.error['type']}: {self.error['message']}" if self.error else ""

    @property
    def lineno(self):
        return self.error.get("lineno") if self.error else self.stack_line


@dataclass(frozen=True, kw_only=True)
class Cause:
    """What failed: `kind` is signal, exception, mismatch, missing, exit or timeout; `about` chooses the hint."""

    kind: str
    ranks: tuple
    headline: str
    about: str = ""
    why: str = ""
    end: End | None = None
    rows: tuple = ()
    columns: tuple = ()


def ends_of(ranks, events=(), source=""):
    """Return the `End` of each rank of a snapshot.

    Args:
        ranks: `RankNow`s of one attempt.
        events: the job's.
        source: the text of the cell.
    """
    asked = {(e["rank"], e["attempt"]) for e in events if e["event"] == "rank ended" and e.get("asked")}
    return [
        _end_of(rank, (rank.rank, rank.attempt) in asked and rank.code in _ASKED, source, kill_of(rank, events))
        for rank in ranks
    ]


def kill_of(rank, events):
    """Return "rank 1 was killed by --kill at step 2" when that is how a rank ended, or its node; else ""."""
    if rank.attempt or (rank.code or 0) >= 0:
        return ""
    for event in events:
        if event["event"] == "kill":
            who, _, when = event["what"].partition("@")
            kind, _, number = who.partition("=")
            if (rank.rank if kind == "rank" else getattr(rank, "node", 0)) == int(number):
                unit, _, at = when.partition("=")
                moment = f"at step {at}" if unit == "step" else f"after {at} s"
                return f"{kind} {number} was killed by --kill {moment}"
    return ""


def _end_of(rank, asked, source, kill):
    stack = _text(rank.folder / "stack.txt")
    return End(
        rank=rank.rank,
        state=rank.state,
        code=rank.code,
        asked=asked,
        kill=kill,
        error=error_of(rank.folder) or None,
        calls=_calls(rank),
        said=_tail_of(rank.folder / "err"),
        stack=stack[max(0, stack.rfind("Current thread")) :],  # the latest, and in it the thread that takes signals
        source=source,
    )


def _text(file):
    with contextlib.suppress(OSError):
        return file.read_text(encoding="utf-8", errors="replace")
    return ""


def _tail_of(file):
    """Return the last characters of a file that may be very long."""
    with contextlib.suppress(OSError), file.open("rb") as opened:
        opened.seek(max(0, opened.seek(0, 2) - _TAIL))
        return opened.read().decode("utf-8", "replace")
    return ""


def _json(file):
    with contextlib.suppress(OSError, ValueError):
        return json.loads(file.read_text(encoding="utf-8"))
    return None


def _calls(rank):
    """Return a rank's calls: as it wrote them at its end, or from its ledger, which outlives it."""
    written = _json(rank.folder / "calls.json")
    with contextlib.suppress(TypeError, KeyError):
        if written is not None:
            return recorder.from_dicts(written)
    return recorder.read(rank.folder / "s")


def is_echo(error):
    """Whether an exception only says that another rank is gone, late, or did something else.

    Also one that was raised from such an exception: its full text has both.
    """
    return bool(_ECHO.search(error["message"]) or _ECHO.search(error.get("full", ""))) and not _is_start(error)


def _is_start(error):
    """Whether it comes from finding each other, where the same words are the cause."""
    return error["type"] in ("DistNetworkError", "DistStoreError") and "Connection" not in error["message"]


# -- finding ------------------------------------------------------------------------------------------------------


def find(ends):
    """Return the `Cause` of a failed job, or None when no rank has failed."""
    for look in (_crash, _exception, _exit, _fault_between_ranks, _rest):
        if (cause := look(ends)) is not None:
            return cause
    return None


def _died(ends):
    return [end for end in ends if end.code is not None and end.code < 0 and not end.asked]


def _crash(ends):
    """A rank that was ended by a signal: the first such cause, except an abort that follows from something else."""
    died = _died(ends)
    if not died:
        return None
    if killed := [end for end in died if end.kill]:
        ranks = tuple(end.rank for end in killed if end.kill == killed[0].kill)
        return Cause(kind="signal", ranks=ranks, headline=killed[0].kill, about="kill", end=killed[0],
                     why=_last_call(killed[0]))  # fmt: skip
    name = _signal_name(died[0].code)
    alike = [end for end in died if end.code == died[0].code]
    if name == "SIGABRT":
        return _abort(ends, died)
    ranks = tuple(end.rank for end in alike)
    verb = "was" if len(ranks) == 1 else "were"
    if name == "SIGSEGV":
        what = f"{ranks_in_words(ranks)} crashed in compiled code (SIGSEGV){_line(died[0].lineno)}"
        about = "detail" if "_ddp_init_helper" in died[0].stack else name
        return Cause(kind="signal", ranks=ranks, headline=what, about=about, end=died[0])
    often = " (often out of memory)" if name == "SIGKILL" else ""
    headline = f"{ranks_in_words(ranks)} {verb} killed by {name}{often}"
    return Cause(kind="signal", ranks=ranks, headline=headline, about=name, end=died[0], why=_last_call(died[0]))


def _abort(ends, died):
    if any(_AT_EXIT in end.said for end in died) and not any(_SIZES.search(end.said) for end in died):
        ranks = tuple(end.rank for end in died)
        headline = f"{ranks_in_words(ranks)} ended by SIGABRT when everything was done"
        return Cause(kind="signal", ranks=ranks, headline=headline, about="at exit", end=died[0])
    if (found := _exception(ends)) is not None:
        return found
    if (found := waiting.first_difference(_standings(ends))) is not None:
        why = "gloo found a message of another size and ended the process"
        return _of_stall(found, ends, why=why)
    ranks = tuple(end.rank for end in died)
    headline = f"{ranks_in_words(ranks)} ended by SIGABRT{_line(died[0].lineno)}"
    about = "unequal sizes" if _SIZES.search(died[0].said) else ""
    return Cause(kind="signal", ranks=ranks, headline=headline, about=about, end=died[0], why=_tail(died[0].said))


def _exception(ends):
    """A Python exception that is no echo; of several kinds the one most ranks raised, then the lowest rank's."""
    groups = {}
    for end in ends:
        if end.error and not is_echo(end.error):
            alike = re.sub(r"\d+", "0", end.message)  # a message that names its own rank is the same error
            groups.setdefault((alike, end.lineno), []).append(end)
    if not groups:
        return None
    found = max(groups.values(), key=lambda group: (len(group), -group[0].rank))
    ranks = tuple(end.rank for end in found)
    who = "every rank" if len(ranks) == len(ends) > 1 else ranks_in_words(ranks)
    return Cause(kind="exception", ranks=ranks, headline=f"{who}: {_short(found[0])}", end=found[0])


def _short(end):
    """Return "ValueError: bad batch (line 14)": the message's first line, where it is not too long."""
    text = first_sentence(end.error["message"])
    return f"{end.error['type']}{': ' if text else ''}{text}{_line(end.lineno, ' (line {})')}"


def first_sentence(message):
    """Return the first line of a message, of a long one its first sentence."""
    first = (message.strip().splitlines() or [""])[0]
    if len(first) > 160:
        first = first[: first.find(". ") + 1] if 0 < first.find(". ") < 160 else first[:157].rsplit(" ", 1)[0] + " ..."
    return first


def _fault_between_ranks(ends):
    """Ranks that only heard of another: what they called together, or what one of them did not call."""
    echoes = [end for end in ends if end.error and is_echo(end.error)]
    if not echoes:
        return None
    standings = _standings(ends)
    detail = any(_DETAIL in end.error["message"] for end in echoes)
    stall = waiting.first_difference(standings) if detail else waiting.explain(standings)
    if stall is not None:
        return _of_stall(stall, ends)
    return _of_message(echoes) if detail else None


def _standings(ends):
    """Return the ranks as they stood: one that heard of another's end still stands in the call in which it did."""
    return {end.rank: _standing(end) for end in ends}


def _standing(end):
    state = "done" if end.code == 0 else "failed" if end.error and not is_echo(end.error) else "running"
    if end.code is not None and end.code != 0 and not end.asked and end.error is None:
        state = "gone"
    calls = end.calls
    if state == "running" and end.error:
        calls = _as_it_stood(calls)
    return waiting.Standing(state, calls, end.lineno, end.line)


def _as_it_stood(calls):
    """Return calls with the one that raised, or else torch's own last one, as not done."""
    last = next((i for i in range(len(calls) - 1, -1, -1) if calls[i].raised), None)
    if last is None and calls and calls[-1].origin == "torch":
        last = len(calls) - 1
    if last is None:
        return calls
    own = calls[last].origin == "program"
    stood = dataclasses.replace(calls[last], done=False, waiting=own, raised=False)
    return (*calls[:last], stood, *calls[last + 1 :])


def _of_stall(stall, ends, why=""):
    kind = "mismatch" if stall.kind == "mismatch" else "missing"
    culprit = next((end for end in ends if end.rank in stall.culprits), None)
    return Cause(
        kind=kind, ranks=stall.culprits, headline=stall.sentence, about=_about(stall, ends), why=why, end=culprit,
        rows=stall.rows, columns=stall.columns,
    )  # fmt: skip


def _about(stall, ends):
    if stall.kind in ("mismatch", "both send", "both receive"):
        return "unequal sizes" if "different shapes" in stall.sentence else stall.kind
    waiters = [end for end in ends if end.rank in stall.waiting]
    lines = " ".join([*(call.line for end in waiters for call in end.calls[-1:]), *(end.line for end in waiters)])
    if "called by torch" in stall.sentence or "backward" in lines:
        return "uneven"
    if re.search(r"state_dict|\.save\(|full_tensor", lines):
        return "save"
    return "barrier" if "barrier" in stall.sentence else "missing"


_PRINT = re.compile(
    r"[Rr]ank (\d+) is running collective: CollectiveFingerPrint\(SequenceNumber=\d+,? ?OpType=(\w+)"
    r"(?:, TensorShape=(\[[^\]]*\]))?(?:, TensorDtypes=(\w+))?"
)


def _of_message(echoes):
    """Return torch's own message on a mismatch as a table, where nobody kept an account of the calls."""
    end = next(end for end in echoes if _DETAIL in end.error["message"])
    rows = {
        rank: (rank, op.lower(), shape or "", (dtype or "").lower(), "")
        for rank, op, shape, dtype in _PRINT.findall(end.error["message"])
    }
    lines = {str(e.rank): f"line {e.lineno}" for e in echoes if e.lineno}
    table = tuple((*row[:4], lines.get(rank, "")) for rank, row in sorted(rows.items()))
    sides = "; ".join(f"rank {row[0]} called {row[1]} {row[2]}".rstrip() for row in table)
    return Cause(
        kind="mismatch", ranks=tuple(int(rank) for rank in sorted(rows)), about="mismatch", end=end, rows=table,
        headline=f"ranks called different collectives: {sides}", columns=waiting.COLUMNS,
    )  # fmt: skip


def _exit(ends):
    """A rank that ended by an exit code of its own, without an exception."""
    left = [end for end in ends if (end.code or 0) > 0 and end.error is None and not end.asked]
    if not left:
        return None
    ranks = tuple(end.rank for end in left if end.code == left[0].code)
    headline = f"{ranks_in_words(ranks)} ended with exit code {left[0].code}"
    return Cause(kind="exit", ranks=ranks, headline=headline, about="exit", end=left[0], why=_tail(left[0].said))


def _rest(ends):
    """Only echoes, and nothing is known of the calls."""
    echoes = [end for end in ends if end.error]
    if not echoes:
        return None
    ranks = tuple(end.rank for end in echoes)
    headline = f"{ranks_in_words(ranks)}: {_short(echoes[0])}"
    return Cause(kind="timeout", ranks=ranks, headline=headline, about="timeout", end=echoes[0])


# -- words --------------------------------------------------------------------------------------------------------


def _signal_name(code):
    with contextlib.suppress(ValueError):
        return signal.Signals(-code).name
    return f"signal {-code}"


def _line(lineno, form=" at line {}"):
    return form.format(lineno) if lineno else ""


def _last_call(end):
    """Return where a killed rank was, as far as its ledger tells."""
    call = end.calls[-1] if end.calls else None
    if call is None or call.setup:
        return ""
    place = f" (line {call.lineno})" if call.lineno else ""
    return f"its last call was {call.op}{place}" + (", which it still was in" if call.waiting else "")


def _tail(said):
    """Return the last line of an error output that says something."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1][:200] if lines else ""
