"""`%%ranks`: ranks that stay alive between cells, with their names and their process group.

    group = Group(flags=("--nproc-per-node", "4"))
    with group.run("x = 1") as cell:
        record = cell.wait()
    group.end()

A group is a job like any other (`job.Job`) whose script runs one cell after the other. A `HeldCell` looks like a job
of its own, so what shows and explains jobs shows and explains cells.

What ends a group: `end()`, a rank that dies, a cell after which the ranks are out of step (one has called a collective
that another has not), one in which ranks wait for a rank that has finished the cell, and an interrupt of ranks that
cannot be stopped singly. Then all its processes are ended and `fate` says why: to go on with ranks of which one is a
collective ahead would give wrong numbers, not an error. An exception after which all ranks are in step ends nothing.
"""

import contextlib
import json
import os
import signal
import time
from dataclasses import dataclass, replace

from labsupport.errors import LabError
from labsupport.figures.words import count
from labsupport.torchrun.job import launch, written_since
from labsupport.torchrun.nouns import Request
from labsupport.torchrun.steps import out_of_step

__all__ = ["Group", "HeldCell"]

_LOOK_S = 0.25  # between two looks at ranks that wait while another one has finished
_INTERRUPT_S = 0.35  # in which interrupted ranks have to be back; with what follows, the prompt is back within 1 s
_END_S = 3.0


@dataclass(frozen=True)
class _Order:
    """What one cell asks for."""

    source: str
    returns: tuple = ()
    pushed: bytes | None = None
    trace: bool = False


class Group:
    """Ranks that stay. `fate`: None while they live, then the sentence that says why they have ended.

    Args:
        flags: torchrun's, such as ("--nproc-per-node", "4").
        mode, env, timeout_s: as of `nouns.Request`.

    Raises:
        LabError: as `launch`.
    """

    def __init__(self, flags=(), *, mode="auto", env=None, timeout_s=None):
        from labsupport.torchrun.held_rank import LOOP

        self.request = Request(source=LOOP, flags=tuple(flags), mode=mode, env=env or {}, timeout_s=timeout_s)
        self.job = launch(self.request)
        (self.job.folder / "cells").mkdir()
        self.n_cells, self.began, self.fate = 0, time.monotonic(), None
        self.destroyed = False  # ended by us, not by itself
        self.fate_is_told = False  # in the notes of the cell in which it ended
        self.cell = None  # the one that runs

    @property
    def folder(self):
        return self.job.folder

    def world(self):
        """Return the number of ranks, 0 as long as none has started."""
        return max((rank.world for rank in self.job.poll().ranks), default=0)

    def is_alive(self):
        """Return whether the ranks can run another cell; finds out that one has died since the last."""
        if self.fate is None and (now := self.job.poll()).ended:
            self._ended(_death(now))
        elif self.fate is None and (why := _departure(now)):  # its agent goes on waiting for the others
            self.destroy(why)
        return self.fate is None

    def run(self, source, *, returns=(), pushed=None, trace=False):
        """Start a cell on all ranks and return it as a `HeldCell`.

        Raises:
            LabError: the group has ended, or its last cell still runs.
        """
        if not self.is_alive():
            raise LabError("this group of ranks has ended", why=self.fate, next_step="start another one")
        if self.cell is not None and not self.cell.poll().ended:
            raise LabError("the last cell still runs on these ranks", next_step="wait for it, or interrupt it")
        order = _Order(source, tuple(map(str, returns)), pushed, trace)
        self.cell = HeldCell(self, self.n_cells, order)
        self.n_cells += 1
        return self.cell

    def put(self, number, data, files=()):
        """Give the ranks an order: a folder that is there whole or not at all."""
        folder = self.folder / "cells" / str(number)
        unfinished = folder.with_name(f"{number}.part")
        unfinished.mkdir()
        for name, content in files:
            (unfinished / name).write_bytes(content)
        (unfinished / "order.json").write_text(json.dumps(data | {"number": number}), encoding="utf-8")
        unfinished.rename(folder)
        return folder

    def end(self):
        """End the ranks as a script ends, by force where they do not; removes the job's folder. Returns nothing."""
        if self.is_alive():
            idle = self.cell is None or self.cell.poll().ended
            if idle and self.fate is None:
                self.put(self.n_cells, {"do": "end"})
                deadline = time.monotonic() + _END_S
                while not self.job.poll().ended and time.monotonic() < deadline:
                    time.sleep(0.01)
            self.destroy("it was ended by --end" if idle else "it was ended while a cell ran")
        self.job.close()

    def destroy(self, why):
        """End every process of the group at once; `why` becomes its fate. What the ranks wrote stays until `end`."""
        if self.fate is None:
            self._ended(why)
            self.destroyed = True
            with contextlib.suppress(KeyboardInterrupt):  # a second one, of a person who cannot wait
                self.job.interrupt()

    def _ended(self, why):
        self.fate = why

    def status(self):
        """Return one sentence on the group."""
        if not self.is_alive():
            return f"No group of ranks is alive: {self.fate}."
        n, cells = self.world(), self.n_cells
        seconds = time.monotonic() - self.began
        since = f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
        busy = self.cell is not None and not self.cell.poll().ended
        doing = "one runs now" if busy else "they wait for the next"
        return (
            f"A group of {count(n, 'rank')} is alive since {since}; it has been given {count(cells, 'cell')}, {doing}."
        )


class HeldCell:
    """A cell that runs on a group's ranks, or has run. The same interface as `job.Job`; leaving it ends nothing."""

    def __init__(self, group, number, order):
        self.group, self.number, self.record = group, number, None
        self.request = replace(group.request, source=order.source, returns=order.returns, trace=order.trace)
        self.began, self.started = time.monotonic(), time.time()
        self.interrupted, self.mode = False, group.job._starter.mode
        self.stall = None  # set when ranks were ended because they waited for one that had finished
        self._watch, self._looked, self._last, self._wall_s = None, 0.0, None, 0.0
        files = [("cell.py", order.source.encode())]
        files += [("pushed", order.pushed)] if order.pushed is not None else []
        self.folder = group.put(number, {"do": "run", "returns": order.returns, "trace": order.trace}, files)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._last is None:
            self.interrupt()

    # -- looking ------------------------------------------------------------------------------------------------

    def poll(self):
        """Return a `job.Snapshot` of this cell. Once the cell has ended, it is decided whether the group lives on."""
        if self._last is None:
            now = self._seen()
            if now.ended:
                self._settle(now)
            elif why := _departure(self.group.job.poll()):
                before = self._seen()
                self.group.destroy(why)
                self._settle(self._after_destruction(before))
            elif any(rank.state in ("done", "failed") for rank in now.ranks):
                self._look_for_waiting(now)
        return self._last or now

    def _seen(self):
        inner = self.group.job.poll()
        ranks = tuple(_rank_of(rank, self.folder) for rank in inner.ranks)
        world = max((rank.world for rank in ranks), default=0)
        back = len(ranks) == world > 0 and all(rank.state in ("done", "failed") for rank in ranks)
        # A rank that has died takes the group along; the agent is given the moment it needs to end the others.
        ended = inner.ended or (back and all(rank.code is None for rank in inner.ranks))
        failed = [rank.code for rank in ranks if rank.code]
        left = any(rank.state == "failed" for rank in ranks)  # also with code 0, by os._exit(0)
        code = (inner.code or (failed[0] if failed else int(left))) if ended else None
        events = tuple(event for event in inner.events if event["event"] == "rank ended")
        return replace(inner, ranks=ranks, earlier=(), events=events, ended=ended, code=code)

    def _look_for_waiting(self, now):
        """End the group when ranks wait for one that has finished this cell, which is certain never to come."""
        if time.monotonic() - self._looked < _LOOK_S:
            return
        self._looked = time.monotonic()
        from labsupport.ranks import recorder, waiting

        calls = {rank.rank: tuple(recorder.ask(rank.socket) or ()) if rank.socket else () for rank in now.ranks}
        if self._watch is None:
            self._watch = waiting.Watch()
        standings = {rank.rank: waiting.Standing(rank.state, calls[rank.rank]) for rank in now.ranks}
        stall = self._watch.look(standings)
        if stall is None or not stall.certain:
            return
        self.stacks()
        if (again := self._seen()).ended:  # it came while we looked
            return self._settle(again)
        self.stall = stall
        self.group.destroy(f"its ranks would have waited for ever: {stall.sentence}")
        self._settle(self._after_destruction(again))

    def stacks(self):
        """Return {rank: every thread's Python lines} of the ranks that run this cell; asks them now."""
        before = {}
        for rank in self._seen().ranks:
            file = rank.folder / "stack.txt"
            if rank.state == "running" and file.exists() and hasattr(signal, "SIGUSR1"):
                before[rank.rank] = (file, file.stat().st_size)
                with contextlib.suppress(OSError):
                    os.kill(rank.pid, signal.SIGUSR1)
        return written_since(before)

    # -- ending -------------------------------------------------------------------------------------------------

    def wait(self, on_poll=None, every_s=0.02):
        """Return the cell's `Record` when it has ended; an interrupt stops the cell and is raised again."""
        try:
            while not (now := self.poll()).ended:
                if on_poll is not None:
                    on_poll(now)
                time.sleep(every_s)
        except KeyboardInterrupt:
            self.interrupt()
            raise
        if on_poll is not None:
            on_poll(now)
        return self._recorded()

    def interrupt(self):
        """Stop the cell and return its `Record`. The group lives on if all ranks came back at once and in step."""
        if self._last is not None:
            return self._recorded()
        self.interrupted = True
        self.stacks()
        for rank in self._seen().ranks:
            if rank.state == "running":
                with contextlib.suppress(OSError):
                    os.kill(rank.pid, signal.SIGINT)
        deadline = time.monotonic() + _INTERRUPT_S
        while not (now := self._seen()).ended and time.monotonic() < deadline:
            time.sleep(0.01)
        if not now.ended:
            stuck = _ranks([rank.rank for rank in now.ranks if rank.state not in ("done", "failed")])
            self.group.destroy(f"the cell was interrupted, and {stuck} could not stop singly")
            now = self._after_destruction(now)
        self._settle(now)
        return self._recorded()

    def close(self):
        """Return the cell's `Record`, stopping the cell if it still runs."""
        return self.interrupt()

    def _after_destruction(self, before):
        """Return the last snapshot of a cell whose group was ended: who ran was ended by us, the others stay."""
        ranks = tuple(
            replace(rank, state="failed", code=-signal.SIGKILL) if rank.code is None else rank for rank in before.ranks
        )
        asked = tuple(
            {"t": 0.0, "event": "rank ended", "rank": rank.rank, "attempt": 0, "code": -9, "asked": True}
            for rank in before.ranks
            if rank.code is None
        )
        own = [rank.code for rank in before.ranks if rank.code]
        return replace(before, ranks=ranks, events=(*before.events, *asked), ended=True, code=own[0] if own else 1)

    def _settle(self, now):
        """Decide whether the group lives on, and let the last snapshot say so."""
        group = self.group
        if group.fate is None and group.job.poll().ended:
            group._ended(_death(group.job.poll()))
        if group.fate is None and (difference := out_of_step(_counts(now), len(now.ranks))):
            group.destroy(difference)
        if group.fate is not None:
            group.fate_is_told = True
            text = f"The group of ranks has ended: {group.fate}. Its names are gone; the next cell starts a new one."
            now = replace(now, events=(*now.events, {"t": 0.0, "event": "note", "text": text}))
        elif now.code:
            text = (
                "The group lives on: all ranks are back and have called the same collectives. Names keep their values."
            )
            now = replace(now, events=(*now.events, {"t": 0.0, "event": "note", "text": text}))
        self._last, self._wall_s = now, time.monotonic() - self.began

    def _recorded(self):
        if self.record is None:
            from labsupport.torchrun import recording

            made = recording.make(
                self.request,
                self._last,
                mode=self.mode,
                started=self.started,
                wall_s=self._wall_s,
                interrupted=self.interrupted,
            )
            self.record = recording.keep(made)
        return self.record


def _rank_of(rank, cell):
    """Return a rank of the job as this cell sees it."""
    folder = cell / "attempt-0" / f"rank-{rank.rank}"
    try:
        known = json.loads((folder / "state.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        known = {"state": "starting", "socket": None}
    state, code = known["state"], known.get("code")
    if code is None and rank.code is not None:
        state, code = "failed", rank.code  # it ended without a word about this cell
    return replace(rank, folder=folder, state=state, code=code, attempt=0, socket=known["socket"])


def _counts(now):
    found = {}
    for rank in now.ranks:
        with contextlib.suppress(OSError, ValueError):
            state = json.loads((rank.folder / "state.json").read_text(encoding="utf-8"))
            found[rank.rank] = (state.get("counts", {}), _members(rank.folder))
    return found


def _members(folder):
    """Return {group: its members} as far as a rank's calls of this cell tell."""
    calls = json.loads((folder / "calls.json").read_text(encoding="utf-8"))
    return {f"group: {call['group']}": tuple(call["members"]) for call in calls if call.get("members")}


def _departure(now):
    """Return that a rank has left by itself though nobody told it to, as a clause; "" while all are there.

    With an exit code of 0 that is no failure to torchrun, which would wait for the others for ever.
    """
    left = [rank.rank for rank in now.ranks if rank.code == 0]
    return f"{_ranks(left)} left it by itself, with exit code 0 (os._exit)" if left and not now.ended else ""


def _death(now):
    """Return how the first rank of a job that has ended died, as a clause."""
    ended = [event for event in now.events if event["event"] == "rank ended" and event["code"]]
    own = [event for event in ended if not event.get("asked")] or ended
    if not own:
        killed = (getattr(now, "code", 0) or 0) < 0
        return "what had started its ranks was killed" if killed else "its ranks have ended"
    first = min(own, key=lambda event: (event["code"] > 0, event["t"]))
    if first["code"] > 0:
        return f"rank {first['rank']} ended with exit code {first['code']}"
    with contextlib.suppress(ValueError):
        return f"rank {first['rank']} was killed by {signal.Signals(-first['code']).name}"
    return f"rank {first['rank']} was killed by signal {-first['code']}"


def _ranks(ranks):
    from labsupport.torchrun.view import in_words

    return in_words(ranks) if ranks else "its ranks"
