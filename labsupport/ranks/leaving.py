"""How a rank ends: what it says first, what it lets go of, and in which order.

The order is the cure of two faults: a group that is destroyed while tensors of its work are alive, and an interpreter
that is taken down while threads of a group run, both end a correct script by SIGABRT.
"""

import atexit
import contextlib
import gc
import io
import json
import os
import sys
import threading
import traceback
from pathlib import Path

from labsupport.ranks import scripts
from labsupport.ranks.files import write_whole

__all__ = ["code_of", "flush", "flush_c", "leave", "used"]

_PATIENCE_S = 5.0  # what taking a group down may take: peers that are gone can make it wait for ever
_GUARD = "ends the rank"


def code_of(failure):
    """Return the exit code a fresh interpreter would end with."""
    if failure is None:
        return 0
    if isinstance(failure, SystemExit):
        code = failure.code
        return 0 if code is None else code & 0xFF if isinstance(code, int) else 1
    return 130 if isinstance(failure, KeyboardInterrupt) else 1


def leave(place, module, failure, threads=()):
    """End a script: what it says of its error, its threads, its objects, its group, its files. Returns the exit code.

    Args:
        place: the rank's `bootstrap.Place`.
        module: its `__main__`.
        failure: the exception that ended it, or None. The frames it came through are cleared.
        threads: those that are not the script's.
    """
    code = code_of(failure)
    if code:
        _tell_failure(place, failure)
    else:
        _join_threads()
    try:
        if place.finish is not None:
            place.finish(place, module.__dict__, bool(code))
    except Exception as error:
        code = code or 1
        _tell_failure(place, error)
    _write_calls(place.folder)
    if not code:
        atexit._run_exitfuncs()  # as in an interpreter of its own, while the script's names are still there
    with _within(_PATIENCE_S, code):
        flush()
        if not code:
            _let_go(module, failure, threads)
    return code


def flush():
    """Write out what is still in the buffers of this process: of every open file, and of C.

    A process that leaves by `os._exit` loses them, and what holds a file may outlive the script: a class, a module.
    """
    for thing in gc.get_objects():
        if issubclass(type(thing), io.IOBase):
            with contextlib.suppress(Exception):  # it is closed, or its disk is full
                thing.flush()
    flush_c()


def flush_c():
    """Write out the buffers of C's own output, such as that of `puts`."""
    with contextlib.suppress(Exception):
        import ctypes

        ctypes.CDLL("ucrtbase" if os.name == "nt" else None).fflush(None)


def _tell_failure(place, failure):
    """Tell of the exception in error.json and on the error output."""
    if isinstance(failure, SystemExit):
        if not isinstance(failure.code, int):
            print(failure.code, file=sys.stderr)
    else:
        told = scripts.described(failure, scripts.SCRIPT)
        with contextlib.suppress(OSError):  # the disk is full: the exit code still tells
            _write_json(place.folder / "error.json", told)
        with contextlib.suppress(OSError):
            print(told["full"], end="", file=sys.stderr)


def _join_threads():
    executors = sys.modules.get("concurrent.futures.thread")
    if executors is not None:  # their threads are waiting for more work, and are told so by the interpreter's end
        executors._python_exit()
        executors._shutdown = False
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()


def _let_go(module, failure, threads):
    """Take down what the script made. After a failure nothing of this is done: the group's other ranks may be gone."""
    others = set(threading.enumerate()) - {*threads, threading.current_thread()}
    if all(thread.name == _GUARD for thread in others):
        # Not with threads of the script alive: they still use what would be taken away.
        _drop_frames(failure)
        module.__dict__.clear()
        gc.collect()
        flush()
    _destroy_group()


@contextlib.contextmanager
def _within(seconds, code):
    """Leave with that code when something takes longer: a full pipe, or peers that are gone."""
    late = threading.Timer(seconds, os._exit, (code,))
    late.name, late.daemon = _GUARD, True
    late.start()
    yield
    late.cancel()


def _drop_frames(failure):
    """Let go of what the functions held that the script left by `sys.exit`."""
    sys.last_value = sys.last_traceback = None
    while failure is not None:
        traceback.clear_frames(failure.__traceback__)
        failure.__traceback__, failure = None, failure.__context__


def _destroy_group():
    dist = sys.modules.get("torch.distributed")
    if dist is not None and dist.is_available() and dist.is_initialized():
        with contextlib.suppress(Exception):
            dist.destroy_process_group()


def _write_calls(folder):
    with contextlib.suppress(Exception):
        from dataclasses import asdict

        from labsupport.ranks import recorder

        _write_json(folder / "calls.json", [asdict(call) for call in recorder.here()])


def used():
    """Return what this process has used: {"cpu_s": seconds, "peak_bytes": bytes it alone has written}.

    The peak is what is private now and what was given back since the most was resident: pages shared with the process
    it was forked from do not count.
    """
    try:
        import resource
    except ImportError:
        return {"cpu_s": sum(os.times()[:2]), "peak_bytes": None}
    own = resource.getrusage(resource.RUSAGE_SELF)
    return {"cpu_s": round(own.ru_utime + own.ru_stime, 4), "peak_bytes": _private_peak()}


def _private_peak():
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
        rollup = Path("/proc/self/smaps_rollup").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    in_kb = dict(line.split(":", 1) for line in (status + rollup).splitlines() if ":" in line)
    kb = {name: int(value.split()[0]) for name, value in in_kb.items() if value.strip().endswith("kB")}
    return (kb["Private_Dirty"] + kb["VmHWM"] - kb["VmRSS"]) * 1024


def _write_json(file, data):
    write_whole(file, json.dumps(data))
