"""Landlock: which files a process may read and write, and that it reaches nobody by TCP, signal or abstract socket.

The PyPI package of that name knows files only, not the network and the scopes that tier B needs, so this uses the
three system calls directly.
"""

import errno
import os
from pathlib import Path

from labsupport.processes import kernel

__all__ = ["FENCE_ABI", "confine", "version"]

FENCE_ABI = 6  # the first that keeps signals and abstract sockets in: without namespaces nothing less is a fence

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE, _IOCTL_DEV, _REFER = 1 << 14, 1 << 15, 1 << 13
_MAKING = sum(1 << bit for bit in range(4, 13))  # remove and make entries of every kind
_SPECIAL = (1 << 6) | (1 << 11)  # character and block devices
_NETWORK = 0b11  # bind and connect by TCP
_SCOPES = 0b11  # abstract sockets and signals


def version():
    """Return the version of Landlock here, or 0."""
    try:
        return kernel.landlock_abi()
    except OSError:
        return 0


def confine(readable, writable, *, executable=(), network=False, own=()):
    """Confine this process to some files and return "ok" or why not.

    Args:
        readable, writable, executable: folders or files; one that does not exist is passed over.
        network: TCP stays allowed (in a network namespace of its own).
        own: readable folders under /proc, resolved now, for this process.
    """
    try:
        abi = kernel.landlock_abi()
    except OSError as error:
        absent = error.errno in (errno.ENOSYS, errno.EOPNOTSUPP)
        return "absent from this kernel" if absent else str(error)
    known = _known(abi)
    attributes = [known, 0 if network else _NETWORK, _SCOPES][: 3 if abi >= 6 else 2 if abi >= 4 else 1]
    reading, writing = _READ_FILE | _READ_DIR, known & ~_EXECUTE & ~_SPECIAL
    wanted = [(path, reading) for path in [*readable, *own]] + [(path, writing) for path in writable]
    wanted += [(path, reading | _EXECUTE) for path in executable]
    rules = []
    try:
        for path, access in wanted:
            rules += _rule(path, access, known)
        kernel.landlock_restrict(attributes, rules)
    except OSError as error:
        return str(error)
    finally:
        for fd, _ in rules:
            os.close(fd)
    return "ok"


def _known(abi):
    """Return the accesses to files that this version can handle."""
    known = _EXECUTE | _WRITE_FILE | _READ_FILE | _READ_DIR | _MAKING
    known |= _REFER if abi >= 2 else 0
    known |= _TRUNCATE if abi >= 3 else 0
    return known | (_IOCTL_DEV if abi >= 5 else 0)


def _rule(path, access, known):
    """Return [(descriptor, accesses)] for a path, [] when it does not exist.

    The rights of a folder on a file are refused as a whole (EINVAL), so a file gets those that fit it.
    """
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return []
    if not Path(path).is_dir():
        access &= _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
    return [(fd, access & known)]
