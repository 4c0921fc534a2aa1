"""A folder for what a lesson writes: gone when its kernel ends, or at the next visit where that end was cut short.

A kernel that is shut down has a few seconds. Thousands of small files can take longer to remove, so what is left then
is removed by the next lesson that asks for a folder, in the background. Whose it was stands in its name, for the lock
by which `processes.scratch` tells that may be the first file that such a removal takes away.
"""

import atexit
import os
import shutil
import tempfile
import threading
from pathlib import Path

__all__ = ["folder", "sweep"]


def folder(name):
    """Return a new, empty folder in the system's place for temporary files, as a path.

    Args:
        name: the lesson, letters only; part of the folder's name.
    """
    threading.Thread(target=sweep, args=(name,), daemon=True).start()
    made = Path(tempfile.mkdtemp(prefix=f"{_start(name)}{os.getpid()}-"))
    atexit.register(_remove, made, os.getpid())
    return made


def _remove(path, pid):
    if os.getpid() == pid:  # not in a child that was forked from here
        shutil.rmtree(path, ignore_errors=True)


def sweep(name):
    """Remove folders of this name whose process has ended. Those of other machines and containers stay."""
    import psutil

    start = _start(name)
    for old in Path(tempfile.gettempdir()).glob(f"{start}*-*"):
        pid = old.name.removeprefix(start).split("-")[0]
        if pid.isdigit() and not psutil.pid_exists(int(pid)):
            shutil.rmtree(old, ignore_errors=True)


def _start(name):
    """Return how names begin here. Process numbers count within a pid namespace only, so the name has it, too."""
    try:
        space = Path("/proc/self/ns/pid").readlink().name.strip("pid:[]")
    except OSError:  # not Linux
        space = "0"
    return f"ml-lab-{name}-{space}-"
