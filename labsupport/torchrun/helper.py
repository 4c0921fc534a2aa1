"""The kernel's one helper: a process with torch loaded that makes agents and ranks by fork.

It is started in the background, so loading the extension costs the kernel nothing, and the first job waits for it.
"""

import atexit
import json
import os
import sys
import threading
from pathlib import Path

from labsupport.errors import LabError
from labsupport.torchrun.tagging import TAG, end_tagged, new_token

__all__ = ["forks", "start", "state", "stop", "warm"]

ROOT = Path(__file__).resolve().parents[2]


class _Helper:
    """The process that forks others, started by a thread of its own."""

    def __init__(self):
        self.token = new_token()
        self.done = threading.Event()
        self.zygote = self.failed = None
        self.closed = False
        threading.Thread(target=self._start, name="torchrun helper", daemon=True).start()

    def _start(self):
        try:
            from labsupport.processes.zygote import Zygote
            from labsupport.torchrun import scratch
            from labsupport.torchrun.preloading import PATH_VARIABLE, search_path

            env = {
                TAG: self.token,
                PATH_VARIABLE: json.dumps(search_path()),
                "TORCH_CPP_LOG_LEVEL": "ERROR",  # read when torch is loaded
                "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
            }
            preload = ("labsupport.torchrun.preloading:everything",)
            self.zygote = Zygote(preload, path=[ROOT], env=env, scratch=scratch.root()).start()
            if self.closed:
                self.zygote.close()
            scratch.sweep()
        except Exception as error:
            self.failed = error
        finally:
            self.done.set()

    def alive(self):
        return self.zygote is not None and self.zygote.alive()

    def close(self):
        self.closed = True
        if self.zygote is not None:
            self.zygote.close()
            end_tagged(self.token)

    def clean(self):
        """End what is left of a helper that was killed and could not do it itself."""
        if self.zygote.wait(1.0):
            end_tagged(self.token)


_lock = threading.Lock()
_helper = None


def forks():
    """Return whether ranks may be made by fork here: elsewhere, a fork of a process with torch loaded is not safe."""
    return sys.platform == "linux"


def start():
    """Begin to start the helper, in the background; returns at once, also when it runs already."""
    if forks():
        _current()
    else:
        from labsupport.torchrun import spawned

        spawned.start()


def state():
    """Return "off", "starting", "ready" or "failed"."""
    helper = _helper
    if helper is None:
        return "off"
    if not helper.done.is_set():
        return "starting"
    return "ready" if helper.alive() else "failed"


def warm(timeout_s=60.0):
    """Return the helper, its zygote started, waiting until it is ready; a helper that was killed is replaced.

    Raises:
        LabError: it did not start; says why.
    """
    helper = _current()
    if not helper.done.wait(timeout_s):
        raise LabError(f"the helper that starts ranks is not ready after {timeout_s:.0f} s", next_step="run it again")
    if helper.failed is not None:
        raise LabError(
            "the helper that starts ranks did not start",
            why=str(helper.failed),
            next_step="run the cell with --cold, which needs no helper",
        )
    return helper


def stop():
    """End the helper and everything it started; the next job starts another."""
    global _helper
    with _lock:
        helper, _helper = _helper, None
    if helper is not None:
        helper.close()
    if "labsupport.torchrun.spawned" in sys.modules:
        sys.modules["labsupport.torchrun.spawned"].stop()


def _current():
    global _helper
    with _lock:
        helper = _helper
        if helper is not None and helper.done.is_set() and helper.failed is None and not helper.alive():
            helper.close()
            helper = None
        if helper is None:
            helper = _helper = _Helper()
        return helper


def _forget():
    """In a process forked from the kernel: the helper is the kernel's, not ours."""
    global _lock, _helper
    _lock, _helper = threading.Lock(), None
    if "labsupport.torchrun.scratch" in sys.modules:
        sys.modules["labsupport.torchrun.scratch"].forget()


def _at_exit():
    stop()
    if "labsupport.torchrun.scratch" in sys.modules:
        sys.modules["labsupport.torchrun.scratch"].remove()


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
