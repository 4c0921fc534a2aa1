"""Where job folders lie: in one private folder per kernel, which whoever lives longest removes."""

import contextlib
import itertools
import os
import shutil
import tempfile
import threading
from pathlib import Path

__all__ = ["folder_for_job", "forget", "full_disk", "remove", "root", "sweep"]

_PREFIX, _KEPT = "labrun-", "torchrun-kept-"
_ROOM = 64 * 1024  # bytes: with less even what a rank says of its state may not find room
_lock = threading.Lock()
_root = None
_numbers = itertools.count(1)


def root():
    """Return this kernel's folder (only its user may enter it); made when first asked for."""
    global _root
    with _lock:
        if _root is None or not _root.is_dir():
            _root = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
        return _root


def folder_for_job(keep=False):
    """Return a new folder for a job; one that is to be kept lies beside the others, where nobody removes it."""
    if keep:
        return Path(tempfile.mkdtemp(prefix=_KEPT))
    folder = root() / str(next(_numbers))  # a short name: the path of a unix socket has about a hundred bytes
    folder.mkdir(mode=0o700)
    return folder


def full_disk(folder):
    """Return a sentence when there is no room left where a folder lies, else None."""
    with contextlib.suppress(OSError):
        if shutil.disk_usage(folder).free < _ROOM:
            above = folder.parent if folder.name.startswith(_KEPT) else folder.parent.parent
            return f"No space left on device: {above}, where the ranks' files are, is full"
    return None


def remove():
    """Remove this kernel's folder with all that is in it."""
    from labsupport.processes.removing import remove_tree

    global _root
    with _lock:
        folder, _root = _root, None
    if folder is not None:
        remove_tree(folder)


def forget():
    """In a process forked from the kernel: the folder is the kernel's."""
    global _root, _lock
    _root, _lock = None, threading.Lock()


def sweep():
    """Remove what kernels left that were killed together with their helper: folders of processes that are gone."""
    from labsupport.processes.removing import remove_tree

    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*-*"):
        pid = folder.name.removeprefix(_PREFIX).partition("-")[0]
        with contextlib.suppress(OSError):
            if pid.isdecimal() and not _exists(int(pid)) and _is_ours(folder):
                remove_tree(folder)


def _exists(pid):
    if os.name == "nt":
        import psutil

        return psutil.pid_exists(pid)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _is_ours(folder):
    return not hasattr(os, "getuid") or folder.lstat().st_uid == os.getuid()
