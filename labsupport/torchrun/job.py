"""A job as the kernel sees it: its folder, what its ranks are doing, and its end."""

import contextlib
import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path

from labsupport.errors import LabError, UsageError
from labsupport.torchrun import recording, scratch
from labsupport.torchrun.events import Events
from labsupport.torchrun.nouns import MODES, RankNow, Snapshot

__all__ = ["Job", "launch", "written_since"]

_STACKS_WITHIN_S = 0.25


def launch(request):
    """Start a job and return it as a `Job`; waits for the helper, not for the ranks.

    Raises:
        LabError: the flags do not fit (torchrun's words), or the ranks cannot be started that way.
    """
    if request.mode not in MODES:
        raise UsageError(f"there is no mode {request.mode!r}", next_step=f"use one of {', '.join(MODES)}")
    _check_kills(request)
    starter, note = _starter(request.mode)
    return Job(request, starter, note)


def _check_kills(request):
    if request.kills:
        from labsupport.torchrun import killing

        for text in request.kills:
            killing.parse(text)


def _starter(mode):
    """Return (what starts jobs in this mode, a sentence about a choice that was made, or None)."""
    from labsupport.torchrun import helper
    from labsupport.torchrun.starting import Warm

    if mode == "auto":
        mode = "warm" if helper.forks() else "spawned"
        if mode == "warm":
            try:
                return Warm(helper.warm()), None
            except LabError as error:
                why = (error.why or str(error)).splitlines()[-1]
                return _cold(), f"the helper did not start ({why}); this was a fresh torchrun, which is slower"
    if mode == "warm":
        return Warm(helper.warm()), None
    if mode == "spawned":
        from labsupport.torchrun.spawned import Spawned

        return Spawned(), None
    return _cold(), None


def _cold():
    from labsupport.torchrun.cold import Cold

    return Cold()


class Job:
    """A running or ended job. Leaving it (`with`) ends what is left of it and removes its folder.

    Args:
        request: what to run.
        starter: starts it; see `starting`.
        note: a sentence to be told with its events, or None.
    """

    def __init__(self, request, starter, note=None):
        self.request, self.record, self.interrupted = request, None, False
        self._starter = starter
        self.began, self.started = time.monotonic(), time.time()
        self.folder = scratch.folder_for_job(request.keep)
        self._ended_at = self._handle = None
        try:
            self._write()
            self._handle = starter.start(self._order())
            self._await_plan()
        except BaseException as error:  # an interrupt too
            if self._handle is not None:
                self._handle.close()
            full = scratch.full_disk(self.folder) if isinstance(error, OSError) else None
            self._remove()
            if full:
                raise LabError(full, next_step="make room there, or set TMPDIR to another folder") from None
            raise
        if note:
            Events(self.folder, self.began).write("note", text=note)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _write(self):
        (self.folder / "cell.py").write_text(self.request.source, encoding="utf-8")
        asked = asdict(self.request) | {"pushed": self.request.pushed is not None}
        (self.folder / "request.json").write_text(json.dumps(asked), encoding="utf-8")
        if self.request.pushed is not None:
            (self.folder / "pushed").write_bytes(self.request.pushed)

    def _order(self):
        """Return what the other side needs to know, as JSON data: the request, and where the kernel stands."""
        from labsupport.ranks.bootstrap import surroundings
        from labsupport.torchrun.preloading import search_path

        request = self.request
        try:
            cwd, path = str(Path.cwd()), search_path()
        except FileNotFoundError:
            raise LabError("the kernel's folder is gone", next_step="change to another one with %cd") from None
        options = {"returns": list(request.returns), "kills": list(request.kills), "trace": request.trace}
        return {
            "folder": str(self.folder),
            "begun": self.began,
            "flags": list(request.flags),
            "arguments": list(request.arguments),
            "cwd": cwd,
            "environ": surroundings(dict(os.environ) | dict(request.env)),
            "path": path,
            "rank_options": {"timeout_s": request.timeout_s, "options": options},
        }

    def _await_plan(self):
        """Wait until torchrun's parser has taken the flags, where that is a matter of milliseconds."""
        while self._starter.parses:
            if self._was_taken() or self._handle.wait(0.002) is not None:
                return

    def _was_taken(self):
        """Return whether the job has told anything; raises what torchrun said of its flags."""
        events = self.events()
        for event in events:
            if event["event"] == "refused":
                raise UsageError(event["what"], why=event["why"], next_step=event["next"])
        return bool(events)

    # -- looking ------------------------------------------------------------------------------------------------

    def events(self):
        """Return what the job told so far, as dicts."""
        return Events(self.folder, self.began).read()

    def poll(self):
        """Return a `Snapshot`; costs a few small files."""
        ended = self._handle.wait(0) is not None
        if ended and self._ended_at is None:
            self._ended_at = time.monotonic()
        events = self.events()
        code = self._handle.ending.code if ended else None
        if code and (full := scratch.full_disk(self.folder)):
            events = (*events, {"t": self._ended_at - self.began, "event": "note", "text": full})
        codes = {(e["attempt"], e["rank"]): e["code"] for e in events if e["event"] == "rank ended"}
        found = [_rank_in(folder, codes, ended) for folder in self.folder.glob("attempt-*/rank-*")]
        found = sorted((rank for rank in found if rank), key=lambda rank: (rank.attempt, rank.rank))
        latest = max((rank.attempt for rank in found), default=0)
        return Snapshot(
            ranks=tuple(rank for rank in found if rank.attempt == latest),
            earlier=tuple(rank for rank in found if rank.attempt < latest),
            events=events,
            ended=ended,
            code=code,
        )

    def stacks(self):
        """Return {rank: every thread's Python lines, innermost first} of the ranks that run; asks them now."""
        before = {}
        for rank in self.poll().ranks:
            file = rank.folder / "stack.txt"
            if rank.code is None and file.exists() and _is_alive(rank.pid):
                before[rank.rank] = (file, file.stat().st_size)
                self._starter.ask_for_stack(rank.pid)
        return written_since(before)

    # -- ending -------------------------------------------------------------------------------------------------

    def wait(self, on_poll=None, every_s=0.05):
        """Return the `Record` when the job has ended; an interrupt ends the job and is raised again.

        Args:
            on_poll: called with a `Snapshot` about every `every_s` seconds, and once more after the end.
        """
        try:
            while self._handle.wait(every_s) is None:
                if on_poll is not None:
                    on_poll(self.poll())
        except KeyboardInterrupt:
            self.interrupt()
            raise
        return self._finish(on_poll)

    def interrupt(self):
        """Write every rank's stack, then end the whole tree; returns the `Record` when nothing is left."""
        if self._handle.wait(0) is None:
            self.interrupted = True
            self.stacks()
        return self._finish(None)

    def _finish(self, on_poll):
        if self.record is None:
            self._handle.close()
            self._starter.clean()
            last = self.poll()
            if on_poll is not None:
                on_poll(last)
            self.record = recording.make(
                self.request,
                last,
                mode=self._starter.mode,
                started=self.started,
                wall_s=(self._ended_at or time.monotonic()) - self.began,
                interrupted=self.interrupted,
            )
            recording.keep(self.record)
            self._was_taken()
        return self.record

    def close(self):
        """End what is left, remove the folder unless it was to be kept, and return the `Record`."""
        if self.record is None:
            self.interrupt()
        self._remove()
        return self.record

    def _remove(self):
        from labsupport.processes.removing import remove_tree

        if not self.request.keep:
            remove_tree(self.folder)


def _rank_in(folder, codes, ended):
    """Return the `RankNow` that a rank's folder tells of, or None while it tells nothing.

    Args:
        folder: the rank's.
        codes: {(attempt, rank): exit code} as the agent told.
        ended: the job has ended, and nobody lives who could tell: then the rank was ended with it.
    """
    try:
        known = json.loads((folder / "state.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    code = codes.get((known["attempt"], known["rank"]), known.get("code"))
    if code is None and ended:
        code = -9
    state = known["state"] if code is None else "failed" if code else "done"
    fields = {name: known[name] for name in ("rank", "local_rank", "node", "attempt", "world", "pid", "socket")}
    return RankNow(**fields, state=state, folder=folder, code=code)


def _is_alive(pid):
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
            return stat.rpartition(")")[2].split()[0] != "Z"
        return False
    with contextlib.suppress(OSError):
        os.kill(pid, 0)
        return True
    return False


def written_since(before):
    """Return what was appended to files once they stop growing, or the time is over."""
    ends, sizes = time.monotonic() + _STACKS_WITHIN_S, {}
    while before:
        time.sleep(0.02)
        now = {rank: file.stat().st_size for rank, (file, _) in before.items()}
        if (now == sizes and all(now[rank] > before[rank][1] for rank in now)) or time.monotonic() > ends:
            break
        sizes = now
    return {rank: file.read_bytes()[size:].decode("utf-8", "replace") for rank, (file, size) in before.items()}
