"""What one process may use, enforced by the kernel: address space, CPU, files, processes; and no core files.

These limits count per process. What several processes use together needs a control group: see `groups`.
"""

import _thread
import mmap
import resource
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Rlimits", "address_space_bytes", "apply", "bind"]

# After the soft limit a process is told, after the hard one it is ended: what ignores the first gets this much more.
_CPU_GRACE_S = 2


@dataclass(frozen=True)
class Rlimits:
    """Limits of one process; None leaves one as it is.

    Args:
        memory_bytes: address space beyond what is mapped already. Thread stacks and reserved memory count, so a
            process should run with MALLOC_ARENA_MAX=2.
        cpu_s: CPU seconds, all threads together.
        file_bytes: size of one file, memfd included.
        files: open descriptors.
        processes: processes and threads of its uid. Does not bind root: see `bind`.
    """

    memory_bytes: int | None = None
    cpu_s: int | None = None
    file_bytes: int | None = None
    files: int | None = 256
    processes: int | None = None


def apply(limits):
    """Put this process under limits and return {name: "ok" or why it was refused}."""
    told = {}
    wanted = {
        "address space": (resource.RLIMIT_AS, _plus(address_space_bytes(), limits.memory_bytes)),
        "cpu": (resource.RLIMIT_CPU, limits.cpu_s),
        "file size": (resource.RLIMIT_FSIZE, limits.file_bytes),
        "open files": (resource.RLIMIT_NOFILE, limits.files),
        "processes": (resource.RLIMIT_NPROC, limits.processes),
        # One byte, not none: only then a crash handler that gets dumps through a pipe is not called.
        "core": (resource.RLIMIT_CORE, 1),
    }
    for name, (which, value) in wanted.items():
        if value is not None:
            told[name] = _set(which, value)
    return told


def bind(limits):
    """Return whether limits that were applied hold: more memory and threads cannot be had, the others are set.

    A limit of processes does not bind who is root or has kept its capabilities.
    """
    asked = {
        resource.RLIMIT_CPU: limits.cpu_s,
        resource.RLIMIT_FSIZE: limits.file_bytes,
        resource.RLIMIT_NOFILE: limits.files,
        resource.RLIMIT_NPROC: limits.processes,
    }
    for which, value in asked.items():
        soft, _ = resource.getrlimit(which)
        if value is not None and not 0 <= soft <= value:  # no limit at all is -1
            return False
    if limits.processes is not None and not _processes_are_counted():
        return False
    return limits.memory_bytes is None or _memory_is_refused()


def _memory_is_refused():
    """Return whether as much as the whole limit cannot be mapped on top of what is there."""
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft == resource.RLIM_INFINITY:
        return False
    try:
        mmap.mmap(-1, soft).close()
    except (OSError, MemoryError):
        return True
    return False


def _plus(base, more):
    return None if base is None or more is None else base + more


def _set(which, value):
    _, hard = resource.getrlimit(which)
    grace = _CPU_GRACE_S if which == resource.RLIMIT_CPU else 0
    ceiling = value + grace if hard == resource.RLIM_INFINITY else min(value + grace, hard)
    try:
        resource.setrlimit(which, (min(value, ceiling), ceiling))
    except (OSError, ValueError) as error:
        return str(error)
    return "ok" if resource.getrlimit(which)[0] <= value else "was not set"


def address_space_bytes():
    """Return the bytes of address space this process has mapped, or None where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except OSError:
        return None
    return pages * resource.getpagesize()


def _processes_are_counted():
    """Return whether the limit of processes binds this process: with a limit of none, no thread may start.

    For root it does not, and whether a uid of a user namespace is root outside cannot be read there; so it is tried.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    resource.setrlimit(resource.RLIMIT_NPROC, (0, hard))
    try:
        _thread.start_new_thread(int, ())
    except RuntimeError:
        return True
    finally:
        resource.setrlimit(resource.RLIMIT_NPROC, (soft, hard))
    return False
