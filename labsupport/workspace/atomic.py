"""Whole files or none: writing that a crash cannot tear, and one writer at a time."""

import contextlib
import os
import time
from pathlib import Path

from labsupport.errors import LabError

__all__ = ["cannot_write", "clear_leftovers", "locked", "write_atomic"]

_SUFFIX = ".lab-tmp"
_PATIENCE_S = 10.0  # another `lab` command holds the lock for milliseconds; ten seconds mean that it is stuck


def write_atomic(path, data):
    """Put `data` (bytes) at `path` so that any reader, at any moment, finds the old file or the new one.

    A new file beside it is written, brought to the disk, and renamed over the old one; permissions are kept, and a
    link stays a link to the file that is replaced.

    Raises:
        LabError: the folder cannot be written to, or the disk is full; the old file is still there.
    """
    target = Path(path).resolve()
    temporary = target.with_name(f".{target.name}.{os.getpid()}{_SUFFIX}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _write(temporary, data, like=target)
        _replace(temporary, target)
        _to_disk(target.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise LabError(
            f"{target} was not written",
            why=f"{error.strerror or error}; the file there is unchanged",
            next_step="free some disk space or make the folder writable, then repeat the command",
        ) from error


def _write(temporary, data, like):
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0)
    descriptor = os.open(temporary, flags, 0o666)
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    with contextlib.suppress(OSError):  # there is no old file, or a file system without permissions
        temporary.chmod(like.stat().st_mode & 0o7777)


def _replace(temporary, target):
    for pause_s in (0.05, 0.1, 0.2, 0.4, 0.8):
        try:
            temporary.replace(target)
            return
        except PermissionError:
            if os.name != "nt":
                raise
            time.sleep(pause_s)  # on Windows a virus scanner or an editor may hold the old file for a moment
    temporary.replace(target)


def _to_disk(folder):
    """Make a rename survive a power cut; Windows has no such call for folders and needs none."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some network file systems refuse
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def clear_leftovers(*folders):
    """Remove the half-written files of dead processes; call it while holding the lock, so that none is alive."""
    for folder in folders:
        for path in Path(folder).glob(f".*{_SUFFIX}"):
            with contextlib.suppress(OSError):
                path.unlink()


@contextlib.contextmanager
def locked(path, patience_s=_PATIENCE_S):
    """Hold the lock file at `path` inside the `with` block.

    The operating system ties the lock to the open file: it ends with the process, however that ends.

    Raises:
        LabError: another process holds it for longer than `patience_s` seconds, or the file cannot be opened.
    """
    path = Path(path)
    with _opened(path) as file:
        deadline = time.monotonic() + patience_s
        while not _acquired(file):
            if time.monotonic() > deadline:
                raise LabError(
                    f"another lab command is working on {path.parent.parent}",
                    why=f"it has held {path.name} for {patience_s:.0f} seconds",
                    next_step="wait for it or end it, then repeat this command; a lock is never left behind",
                )
            time.sleep(0.02)
        try:
            yield
        finally:
            _release(file)


def _opened(path):
    try:
        return path.open("a+b")
    except OSError as error:
        raise cannot_write(path.parent.parent, error) from error


def cannot_write(workspace, error):
    """Return the `LabError` for a workspace in which an OSError came up, naming the file that stands in the way."""
    path = Path(error.filename or workspace)
    why, step = f"{path}: {error.strerror or error}", "make the folder writable, or set LAB_WORK to one that is"
    if os.path.isdir(path):  # noqa: PTH112 - Path.is_dir raises where the parent may not be looked into
        why, step = f"{path} is a folder, and lab keeps a file there", f"move {path} away"
    elif isinstance(error, FileExistsError | NotADirectoryError):
        there = next((part for part in (path, *path.parents) if part.exists()), path)
        why, step = f"{there} is a file, and lab keeps a folder there", f"move {there} away, or set LAB_WORK"
    return LabError(f"the workspace {workspace} cannot be written to", why=why, next_step=step)


def _acquired(file):
    if os.name == "nt":
        import msvcrt

        file.seek(0)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # a network file system without locks: every write is still whole
    return True


def _release(file):
    if os.name == "nt":
        import msvcrt

        file.seek(0)
        with contextlib.suppress(OSError):
            msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, 1)
