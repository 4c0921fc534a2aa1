"""A process becomes a rank: descriptors, signals, death with its parent, random state; then the script; then its end.

A rank that was forked inherits what its parent had set up, and a fresh interpreter has set up other things. Both
come through here, so that a script behaves the same in either.
"""

import atexit
import contextlib
import faulthandler
import io
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from labsupport.ranks import leaving
from labsupport.ranks.files import write_whole

__all__ = ["Place", "attempt_folder", "become", "dump_stack", "let_go_of_files", "play", "surroundings"]

_LINUX = sys.platform == "linux"
_IONBF = 2  # of <stdio.h>, on Linux and macOS


_stack_file, _has_served = None, False


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a rank stands and what is asked of it.

    Args:
        job: the job's folder; `cell.py` in it is the script.
        folder: this rank's folder for this attempt; it exists.
        environ: RANK, WORLD_SIZE and so on, as the elastic agent gave them.
        node: number of the node, from 0.
        agent: the pid of the node's agent; None: the parent of the rank.
        attempt: how often the ranks were started before.
        begun: `time.monotonic()` when the job was asked for.
        arguments: `sys.argv[1:]` of the script.
        timeout_s: what a collective may take, where the script does not say; None: torch's own default.
        options: what `begin` and `finish` need to know, as JSON data.
        begin: called with (place, namespace) before the script runs; what it raises is told as the script's error.
        finish: called with (place, namespace, failed) after it, while its names and its group are still there.
    """

    job: Path
    folder: Path
    environ: dict
    node: int = 0
    agent: int | None = None
    attempt: int = 0
    begun: float = 0.0
    arguments: tuple = ()
    timeout_s: float | None = None
    options: dict = field(default_factory=dict)
    begin: Callable | None = None
    finish: Callable | None = None

    @property
    def rank(self):
        return int(self.environ["RANK"])


def attempt_folder(job, attempt, rank):
    """Return the folder of a rank in an attempt; it need not exist."""
    return Path(job) / f"attempt-{attempt}" / f"rank-{rank}"


def surroundings(environ):
    """Return the environment a job starts with: the kernel's, and what keeps ranks on this machine and quiet.

    A name that is set already is left alone.
    """
    quiet = {
        "OMP_NUM_THREADS": "1",  # torchrun sets it too, with four lines of warning
        "NCCL_SOCKET_IFNAME": "lo",
        "GLOO_SOCKET_IFNAME": "lo0" if sys.platform == "darwin" else "lo",
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # to ask whether there are devices must not open one: ranks are forked
        "TORCH_CPP_LOG_LEVEL": "ERROR",
        "PYTHONUNBUFFERED": "1",
    }
    if sys.platform == "win32":
        del quiet["GLOO_SOCKET_IFNAME"]
        quiet["USE_LIBUV"] = "0"  # torch is built without it there
    merged = quiet | environ
    if "matplotlib_inline" in merged.get("MPLBACKEND", ""):
        merged["MPLBACKEND"] = "agg"  # the kernel's own backend draws into a notebook, which a rank has not
    return merged


def become(place):
    """Make this process the rank of that place, run the script, and leave. Never returns."""
    code = 71
    try:
        _own_signals()
        _die_with_parent()
        code = play(place)
    except BaseException:
        # Not the script's fault, so it goes to the same place as what the script says.
        sys.excepthook(*sys.exc_info())
    finally:
        leaving.flush()
        os._exit(code)


def play(place):
    """Be the rank of that place in this process until its script has ended, and return the exit code.

    After code 0 the process is as it was, as far as that can be: its group is gone, and so are the script's objects.
    """
    _own_ending()
    _own_output(place.folder)
    os.environ.update(place.environ)
    tempfile.tempdir = None  # whoever made this process may have asked, under another TMPDIR
    _tell(place, "starting")
    _dump_on_request(place.folder)
    _repair_torch(place)
    return _run(place)


# -- becoming -----------------------------------------------------------------------------------------------------


def _own_ending():
    """Forget what is to be done when the parent ends; what multiprocessing does for its children stays."""
    from multiprocessing import util

    atexit._clear()
    atexit.register(util._exit_function)


def _own_signals():
    """Undo what the parent does about signals; ranks have a session of their own, as torchrun's have."""
    signal.set_wakeup_fd(-1)
    for name in ("SIGTERM", "SIGHUP", "SIGQUIT", "SIGCHLD", "SIGUSR1", "SIGUSR2"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(os, "setsid"):
        with contextlib.suppress(OSError):  # it leads a session already
            os.setsid()


def _own_output(folder):
    """Put this process's descriptors 1 and 2, so also what C++ writes, into files that only ever grow."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    leaving.flush_c()  # what was in there is not ours
    for fd, name in ((1, "out"), (2, "err")):
        file = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(file, fd)
        os.close(file)
    sys.stdin = open(0, encoding="utf-8", closefd=False)
    # Written through like that of `python -u`, which torchrun starts ranks with: what is printed is there at once.
    sys.stdout = sys.__stdout__ = _written_through(1, "strict")
    sys.stderr = sys.__stderr__ = _written_through(2, "backslashreplace")
    _unbuffer_c()


def _written_through(fd, errors):
    raw = io.FileIO(fd, "w", closefd=False)
    return io.TextIOWrapper(raw, encoding="utf-8", errors=errors, write_through=True)


def _unbuffer_c():
    """Let C write through too, as `python -u` does: else what it prints comes after what Python printed later."""
    with contextlib.suppress(Exception):  # where C's streams have no such names they are written out at the end
        import ctypes

        c = ctypes.CDLL(None)
        for name in ("stdout", "stderr"):
            stream = ctypes.c_void_p.in_dll(c, f"__{name}p" if sys.platform == "darwin" else name)
            c.setvbuf(stream, None, _IONBF, 0)


def _die_with_parent():
    parent = os.getppid()
    if not _LINUX:
        if os.name != "nt":
            threading.Thread(target=_follow, args=(parent,), name="follow the agent", daemon=True).start()
        return
    from labsupport.processes import kernel

    kernel.parent_death_signal(signal.SIGKILL)
    if os.getppid() != parent:  # it died before we asked
        os._exit(71)
    _children_die_too(kernel)


def _follow(parent):
    while os.getppid() == parent:
        time.sleep(0.1)
    with contextlib.suppress(OSError):
        os.killpg(0, signal.SIGKILL)  # our own session, which we lead
    os._exit(71)


def _children_die_too(kernel):
    """Let whatever this rank forks from its main thread (loader workers) end with it, even when nobody watches.

    The signal follows the thread that forked, so children of other threads are left to the supervisor.
    """
    main = threading.main_thread()
    forked_by_main = []

    def before():
        forked_by_main.append(threading.current_thread() is main)

    def in_parent():
        forked_by_main.pop()

    def in_child():
        if forked_by_main and forked_by_main.pop():
            with contextlib.suppress(OSError):
                kernel.parent_death_signal(signal.SIGKILL)

    os.register_at_fork(before=before, after_in_parent=in_parent, after_in_child=in_child)


def _dump_on_request(folder):
    """Write every thread's Python lines on SIGUSR1, and on a crash in C++; the file stays open for that."""
    global _stack_file
    _stack_file = (folder / "stack.txt").open("ab", buffering=0)
    faulthandler.enable(file=_stack_file)
    if hasattr(signal, "SIGUSR1"):
        faulthandler.register(signal.SIGUSR1, file=_stack_file, all_threads=True, chain=False)


def let_go_of_files():
    """Close what `play` opened in the rank's folder, so that a process that lives on does not hold it."""
    global _stack_file
    faulthandler.disable()
    if hasattr(signal, "SIGUSR1"):
        faulthandler.unregister(signal.SIGUSR1)
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    _stack_file, file = None, _stack_file
    if file is not None:
        file.close()
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (1, 2):
        os.dup2(null, fd)
    os.close(null)


def dump_stack():
    """Write every thread's Python lines now, where no signal can ask for it."""
    if _stack_file is not None:
        faulthandler.dump_traceback(_stack_file, all_threads=True)


def _repair_torch(place):
    """Do again what torch does once when it is imported, and undo that every fork has the same random state."""
    import torch
    import torch.distributed as dist

    _connect_together(dist.distributed_c10d)
    threads = os.environ.get("OMP_NUM_THREADS", "1")
    torch.set_num_threads(int(threads) if threads.isdecimal() and int(threads) else 1)
    dist.set_debug_level_from_env()
    if torch.cuda.is_available():  # else everything that says only "cuda" lands on the first device
        torch.cuda.set_device(int(place.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    random.seed()
    torch.default_generator.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    if place.timeout_s is not None:
        limit = timedelta(seconds=place.timeout_s)
        for module in (dist.distributed_c10d, dist.constants):
            module.default_pg_timeout = limit
            module.default_pg_nccl_timeout = limit


def _connect_together(c10d):
    """Let no rank go on from `init_process_group` before all have connected.

    Else one that has little to do is gone while the others still connect to it, and a correct cell fails. Where ranks
    may be started again they connect only when they first talk, and there is nothing to wait for.
    """
    asked = c10d._is_barrier_after_init

    def wait_in_init():  # not in `new_group`: there torch does not wait, and ranks may leave it out
        is_eager = os.environ.get("TORCH_GLOO_LAZY_INIT", "0") == "0"
        return asked() or (is_eager and sys._getframe(1).f_code.co_name == "init_process_group")

    if asked.__name__ != wait_in_init.__name__:
        c10d._is_barrier_after_init = wait_in_init


# -- running ------------------------------------------------------------------------------------------------------


def _run(place):
    """Run the script as `__main__` and return the exit code."""
    from labsupport.ranks import scripts

    socket = _serve(place.folder / "s")
    _tell(place, "running", socket=socket)
    module = scripts.new_main(place.job / scripts.SCRIPT, place.arguments)
    failure, threads = None, threading.enumerate()
    try:
        if place.begin is not None:
            place.begin(place, module.__dict__)
            threads = threading.enumerate()
        scripts.run_in(module, scripts.SCRIPT)
    except BaseException as error:
        failure = error
    code = leaving.leave(place, module, failure, threads)
    _tell(place, "failed" if code else "done", socket=socket, code=code, **leaving.used())
    return code


def _serve(path):
    """Let the flight recorder answer from outside; returns where to ask, or None where that is not possible."""
    global _has_served
    with contextlib.suppress(Exception):
        from labsupport.ranks import recorder

        recorder.serve(path, since_ns=time.time_ns() if _has_served else 0)
        _has_served = True
        return str(path)
    return None


def _tell(place, state, **more):
    """Write state.json, whole or not at all."""
    known = {
        "pid": os.getpid(),
        "rank": place.rank,
        "local_rank": int(place.environ["LOCAL_RANK"]),
        "node": place.node,
        "attempt": place.attempt,
        "world": int(place.environ["WORLD_SIZE"]),
        "state": state,
        "socket": None,
    }
    write_whole(place.folder / "state.json", json.dumps(known | more))
