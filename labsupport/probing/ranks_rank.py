"""One rank of a rank exercise: a process of its own that loads an answer, joins a group per case and calls it.

The host (see `ranks_host`) tells it what to do. A second connection is served by a thread, so that the host can ask
where this rank stands while it waits in a collective.
"""

import contextlib
import datetime
import gc
import json
import linecache
import os
import sys
import tempfile
import threading
import time
import traceback
from dataclasses import asdict
from pathlib import Path

from labsupport.course import Raised
from labsupport.grading.wire import MAX_QUESTION, Channel, Closed, TooLarge
from labsupport.probing.ranks_inside import Batches, Writes, seed_all
from labsupport.probing.running import attempt
from labsupport.ranks import counting, noting, recorder
from labsupport.ranks.calls import latest, to_dicts

__all__ = ["ALREADY", "SCRIPT", "become"]

SCRIPT = "cell.py"  # how the answer is called in tracebacks; the flight recorder knows a cell by it
_NEVER = 1 << 62  # nanoseconds: no call is told of
_FOREVER_S = 3600.0  # what ends a rank that takes too long is the host
_LONGEST_NAME = 200
_MOST_CALLS = 400  # that are told of a rank; who waits for whom shows in the last ones
ALREADY = (
    "the ranks of a check are in a process group already; keep `init_process_group` below the line "
    '`if __name__ == "__main__":`'
)


def become(rank, world, sock, watch):
    """Be a rank until the host is gone; never returns.

    Args:
        rank, world: which one of how many.
        sock: the connection on which the host asks.
        watch: the connection on which it asks where this rank stands.
    """
    code = 70
    try:
        _settle(rank, world)
        me = _Rank(rank, world)
        threading.Thread(target=_tell_where, args=(watch, me, threading.main_thread().ident), daemon=True).start()
        me.serve(Channel(sock, asks=False))
        code = 0
    except Closed:
        code = 0
    finally:
        os._exit(code)  # threads of gloo, and what an answer left running, must not keep the process


def _settle(rank, world):
    """Make this process quiet and like a rank started by torchrun."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)
    if sys.platform == "linux":
        from labsupport.processes import kernel

        with contextlib.suppress(OSError):  # refused in a cage, which ends everything in it anyway
            kernel.parent_death_signal(9)
    from labsupport.ranks.bootstrap import surroundings

    own = {"RANK": rank, "LOCAL_RANK": rank, "GROUP_RANK": 0, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world}
    own["TORCH_GLOO_LAZY_INIT"] = 1  # ranks connect when they first talk: one that fails early costs no other its start
    os.environ.update(surroundings({name: str(value) for name, value in own.items()}))
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.set_debug_level_from_env()


class _Rank:
    def __init__(self, rank, world):
        self.rank, self.world = rank, world
        self.program = self.namespace = self.problem = None
        self.writes = Writes()
        self.since_ns = _NEVER  # calls before this are another case's, or the making of the group by this module

    def serve(self, channel):
        while True:
            question = channel.recv(None, MAX_QUESTION)
            try:
                reply = getattr(self, "_" + question["op"])(question)
            except Exception:  # ours, unless the answer broke what this module needs
                reply = {"fault": traceback.format_exc(limit=-6)}
            try:
                channel.send(reply)
            except TooLarge as error:
                channel.send({"too_large": str(error)})

    def _load(self, question):
        """Keep a program; it is executed inside the group of the first case, so that its top level may use it."""
        self.namespace, self.problem, self.program = None, None, question["program"]
        return {}

    def _case(self, question):
        os.environ["TORCHELASTIC_RESTART_COUNT"] = str(question["attempt"])
        os.environ["TMPDIR"] = tempfile.tempdir = question["tmp"]
        os.chdir(question["work"])
        try:
            self._note_calls(question["notes"])
            self._join(f"{question['store']}-{question['attempt']}")
        except (OSError, RuntimeError) as error:  # most often: another rank is gone already; or the disk is full
            return {"raised": _as_dict(Raised(type="RuntimeError", message=str(error)[:500])), "joins": True}
        self.writes.begin(question["work"], f"{question['log']}-{self.rank}")
        seed_all(question["seed"] + self.rank)
        if self.namespace is None:
            self.problem, failed = self._execute()
            if failed:  # what failed may have left the group in the middle of something
                self._leave()
                self._join(f"{question['store']}-{question['attempt']}-again")
        if self.problem:
            return {"raised": self.problem}
        return self._call(question)

    def _read(self, question):
        """Load files that an answer wrote; this process has run nothing of it."""
        import torch

        from labsupport.probing.ranks_values import as_plain

        read = {}
        for name in question["names"]:
            try:
                read[name] = as_plain(torch.load(Path(question["work"], name), weights_only=True, map_location="cpu"))
            except Exception as error:
                read[name] = f"cannot be read ({type(error).__name__})"
        return {"read": read}

    def _end(self, question):
        self.writes.end()
        self.since_ns = _NEVER
        self._leave()
        os.chdir("/" if os.sep == "/" else Path.home().anchor)
        return {}

    def _leave(self):
        """Leave the group; an answer may have done so already."""
        import torch.distributed as dist

        with contextlib.suppress(Exception):
            if dist.is_initialized():
                dist.destroy_process_group()
        gc.collect()

    def _join(self, store):
        """Join the group of a case. It is told of when all have, or ranks would seem to wait for one that came late."""
        import torch.distributed as dist

        self.since_ns = _NEVER
        dist.init_process_group(
            "gloo",
            store=dist.FileStore(store, self.world),
            rank=self.rank,
            world_size=self.world,
            timeout=datetime.timedelta(seconds=_FOREVER_S),
        )
        self.since_ns = time.time_ns()

    @staticmethod
    def _note_calls(folder):
        """Note every call of torch.distributed from now on."""
        path = recorder.ledger_path(Path(folder, f"calls-{os.getpid()}"))
        noting.install(path)
        if sys.platform != "win32":
            path.unlink()  # nobody else reads it: this process tells of its calls itself

    def _execute(self):
        """Execute the program; return (what it raised before its names were defined or None, whether it raised)."""
        self.namespace = {"__name__": "answer", "__file__": SCRIPT}
        for text, name in ((self.program["setup"], "<setup>"), (self.program["source"], SCRIPT)):
            _, raised, _, _ = attempt(self._run, (text, name), _FOREVER_S)
            if raised:
                break
        missing = [name for name in self.program["names"] if name not in self.namespace]
        if not missing:
            return None, bool(raised)  # lines below a definition may fail: they try the answer out
        if raised is None:
            raised = Raised(type="NotImplementedError", message=f"`{missing[0]}` is not defined")
        return _as_dict(raised), True

    def _run(self, text, name):
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        exec(compile(text, name, "exec", dont_inherit=True), self.namespace)

    def _call(self, question):
        from labsupport.probing.ranks_values import as_plain, as_tensors, changed, layouts

        args = as_tensors(tuple(question["args"]))
        before, shapes = as_plain(args), layouts(args)
        function = self.namespace[self.program["names"][0]]
        seed_all(question["seed"] + self.rank)
        called_ns = time.time_ns()
        try:
            result, raised, _, printed = attempt(function, self._handed(args, question), _FOREVER_S)
        except KeyboardInterrupt as error:  # an answer's own: nobody sits at a keyboard here
            result, raised, printed = None, Raised(type="KeyboardInterrupt", message=str(error)), ""
        reply = {"raised": _as_dict(raised), "printed": printed, "receives": _has_open_receives()}
        if not raised and question["counts"]:
            calls = recorder.here(called_ns)
            reply |= {"counts": counting.counted(calls), "sent": counting.sent_bytes(calls, self.rank, self.world)}
        if not raised:
            reply |= {"value": as_plain(result), "changed": changed(args, before, shapes)}
        return reply

    def _handed(self, args, question):
        """Return the arguments as the answer gets them: reading a certain batch may be this rank's end."""
        deadly = question["deadly"]
        if deadly is None or deadly["rank"] != self.rank:
            return args
        args = list(args)
        args[deadly["batches"]] = Batches(args[deadly["batches"]], deadly["item"])
        return tuple(args)


def _has_open_receives():
    with contextlib.suppress(Exception):  # it only saves time
        return noting.current().has_open_receives()
    return False


def _as_dict(raised):
    if raised is None:
        return None
    if "initialize the default process group twice" in raised.message:
        raised = Raised(type="RuntimeError", message=ALREADY, line=raised.line, lineno=raised.lineno)
    return {**asdict(raised), "type": raised.type[:_LONGEST_NAME]}


# -- where this rank stands -------------------------------------------------------------------------------------------


def _tell_where(watch, rank, main):
    """Say for each byte that comes, a look's number, where the main thread stands; ends with the connection."""
    with contextlib.suppress(OSError):
        while look := watch.recv(1):
            where = {"look": look[0], **_where(main), "calls": calls_as_text(rank.since_ns)}
            told = json.dumps(where).encode()
            watch.sendall(len(told).to_bytes(4, "little") + told)


def calls_as_text(since_ns):
    """Return the latest of this process's calls since then, as JSON; "null" when they are not known."""
    try:
        return json.dumps(to_dicts(latest(recorder.here(since_ns), _MOST_CALLS)))
    except Exception:  # a rank of which nothing is known may have called anything, so nobody waits in vain for it
        return "null"


def _where(main):
    """Return {"line", "lineno"}: where in the answer the main thread is."""
    frame = sys._current_frames().get(main)
    while frame is not None and frame.f_code.co_filename != SCRIPT:
        frame = frame.f_back
    if frame is None:
        return {"line": "", "lineno": 0}
    return {"line": linecache.getline(SCRIPT, frame.f_lineno).strip(), "lineno": frame.f_lineno}
