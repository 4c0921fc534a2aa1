"""Temporary folders that are removed even when their process was killed: by the next process that makes one."""

import contextlib
import tempfile
from pathlib import Path

from labsupport.processes.removing import remove_tree

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

__all__ = ["Scratch"]


class Scratch:
    """A folder of this process's own, readable by nobody else; `close` removes it.

    Args:
        prefix: how the names of such folders begin. Those of processes that are gone are removed first.
    """

    def __init__(self, prefix):
        _sweep(prefix)
        self.folder = Path(tempfile.mkdtemp(prefix=prefix))
        self._lock = _locked(self.folder)

    def close(self):
        remove_tree(self.folder)
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def _locked(folder):
    """Return an open file that is locked as long as this process lives: a folder with a free lock is nobody's."""
    if fcntl is None:
        return None
    file = (folder / "lock.new").open("w", encoding="ascii")
    fcntl.flock(file, fcntl.LOCK_EX)
    (folder / "lock.new").rename(folder / "lock")  # never seen unlocked
    return file


def _sweep(prefix):
    if fcntl is None:
        return
    for folder in Path(tempfile.gettempdir()).glob(prefix + "*"):
        with contextlib.suppress(OSError), (folder / "lock").open(encoding="ascii") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_tree(folder)
