"""Removing a folder that somebody filled who did not mean to be tidy: any depth, any number, any mode."""

import contextlib
import itertools
import os
import secrets
import shutil
import sys
from pathlib import Path
from stat import S_ISDIR

__all__ = ["remove_tree"]


def remove_tree(folder):
    """Remove a folder and everything in it; what another user's rights protect stays, silently.

    Folders in folders are moved up to the top before they are emptied, so that neither the length of a path nor the
    depth of a recursion ends it. Links are removed, never followed.
    """
    if sys.platform == "win32":
        return shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):
        top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            _empty(top)
        finally:
            os.close(top)
        Path(folder).rmdir()


def _empty(top):
    names_above = (f"{secrets.token_hex(8)}-{number}" for number in itertools.count())
    tried = set()  # what could not be removed is not tried for ever
    while names := [name for name in os.listdir(top) if name not in tried]:  # noqa: PTH208 - of a descriptor
        for name in names:
            tried.add(name)
            with contextlib.suppress(OSError):
                _remove(name, top, names_above)


def _remove(name, top, names_above):
    if not _is_folder(name, top):
        return os.unlink(name, dir_fd=top)
    with contextlib.suppress(OSError):
        os.chmod(name, 0o700, dir_fd=top)
    inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
    try:
        for child in os.listdir(inner):  # noqa: PTH208
            with contextlib.suppress(OSError):
                if _is_folder(child, inner):
                    with contextlib.suppress(OSError):
                        os.chmod(child, 0o700, dir_fd=inner)  # to move a folder is to write its ".."
                    os.rename(child, next(names_above), src_dir_fd=inner, dst_dir_fd=top)
                else:
                    os.unlink(child, dir_fd=inner)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=top)


def _is_folder(name, where):
    return S_ISDIR(os.stat(name, dir_fd=where, follow_symlinks=False).st_mode)
