"""Where the ranks of a running job stand: asked from outside, in a thread, so that the display never waits for them.

A rank that says nothing may be computing, or waiting in a collective for one that never comes. Its calls can be read
also while its Python is blocked; what all ranks say together tells the two apart.
"""

import contextlib
import re
import threading
import time

__all__ = ["Watcher", "place_in", "wait_in_words"]

LOOK_S = 0.25
STACKS_AFTER_S = 0.4  # of silence; again after as long as that, doubled each time
SURE_AFTER_S = 0.6  # of silence, when it is certain that nobody can go on
UNSURE_AFTER_S = 3.0  # of silence, when a rank may only be slow

_IN_CELL = re.compile(r'File "cell\.py", line (\d+)')


class Watcher:
    """Looks at a job's ranks while it runs. `said`: {rank: (kind, words)} for a `View`; `stall`: why none moves.

    Args:
        job: has `stacks()`, which makes every rank write where its Python stands and returns {rank: text}.
        source: the cell's program, whose lines are quoted.
        ask: `recorder.ask`, for tests.
    """

    def __init__(self, job, source="", ask=None):
        self._job, self._lines, self._ask = job, source.splitlines(), ask
        self._ranks, self._moved, self._blocked = (), None, {}
        self._watch, self._stacks = None, {}
        self._woken()
        self._stop = threading.Event()
        self._thread = None
        self.said, self.stall = {}, None

    def tell(self, ranks, spoke):
        """Say who there is, and whether anybody has said anything since the last call."""
        if spoke or _states(ranks) != _states(self._ranks):
            self._woken()
        self._ranks = tuple(ranks)
        if self._thread is None and any(now.state == "running" for now in ranks):
            self._thread = threading.Thread(target=self._run, name="torchrun watch", daemon=True)
            self._thread.start()

    def _woken(self):
        self._quiet_since = time.monotonic()
        self._next_stacks_s = STACKS_AFTER_S
        self.stall = None

    @property
    def quiet_s(self):
        """Seconds in which no rank has said or called anything."""
        return time.monotonic() - self._quiet_since

    def close(self):
        """Stop looking."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(2.0)

    def _run(self):
        pause = LOOK_S
        while not self._stop.wait(pause):
            began = time.monotonic()
            with contextlib.suppress(Exception):  # to look is a help; that it fails must not cost the job
                self.look()
            pause = max(LOOK_S, 4 * (time.monotonic() - began))  # a long history takes long to tell

    def look(self):
        """Ask every rank once, and work out who waits for whom when nothing has moved for a while."""
        from labsupport.ranks.scene import Scene
        from labsupport.ranks.waiting import Standing, Watch

        ranks, since = self._ranks, self._quiet_since
        if self.quiet_s > self._next_stacks_s:
            self._next_stacks_s *= 2
            self._stacks = self._job.stacks()
        standings = {now.rank: Standing(now.state, self._calls(now), *self._place(now)) for now in ranks}
        self._notice(standings, Scene(standings))
        if self._watch is None:
            self._watch = Watch()
        stall = self._watch.look(standings)
        sure = stall is not None and (self.quiet_s > (SURE_AFTER_S if stall.certain else UNSURE_AFTER_S))
        if sure and since == self._quiet_since:
            self.stall = stall

    def _calls(self, now):
        if not now.socket:
            return ()
        if self._ask is None:
            from labsupport.ranks import recorder

            self._ask = recorder.ask
        return tuple(self._ask(now.socket, timeout_s=0.5) or ())

    def _place(self, now):
        """Return (line of the cell where a rank was when it was last asked, its text), as far as known."""
        line = line_in(self._stacks.get(now.rank, "")) if now.state == "running" else None
        known = line is not None and 0 < line <= len(self._lines)
        return line, self._lines[line - 1].strip() if known else ""

    def _notice(self, standings, scene):
        """Note who waits, as two looks in a row have seen it, and whether anything has been called since the last."""
        blocked = {rank: call for rank in standings if (call := scene.blocking(rank)) is not None}
        moved = {rank: (len(s.calls), sum(call.done for call in s.calls)) for rank, s in standings.items()}
        if moved != self._moved:
            self._moved = moved
            self._woken()
            self._stacks = {}
        waits = {rank: call for rank, call in blocked.items() if _same(self._blocked.get(rank), call)}
        places = {rank: f"running, at line {s.stack_line}" for rank, s in standings.items() if s.stack_line}
        self.said = {rank: ("running", words) for rank, words in places.items() if rank not in blocked} | {
            rank: ("waiting", wait_in_words(call)) for rank, call in waits.items()
        }
        self._blocked = blocked


def wait_in_words(call):
    """Return "waits in all_reduce 4 (line 12)" for a call that has not come to its end."""
    number = f" {call.number}" if not call.pair and not call.setup else ""
    return f"waits in {call.op}{number}" + (f" (line {call.lineno})" if call.lineno else "")


def line_in(stacks):
    """Return the line of the cell at which the main thread stands in a text that faulthandler wrote, or None."""
    last = stacks[max(0, stacks.rfind("Current thread")) :]  # the thread that takes signals: the main one
    found = _IN_CELL.search(last)
    return int(found[1]) if found else None


def place_in(file):
    """Return the line of the cell where a rank stood when it last wrote its stacks to a file, or None."""
    try:
        return line_in(file.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None


def _states(ranks):
    return [(now.rank, now.attempt, now.state) for now in ranks]


def _same(one, other):
    return one is not None and (one.group, one.number, one.op, one.nth) == (
        other.group, other.number, other.op, other.nth,
    )  # fmt: skip
