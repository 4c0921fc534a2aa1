"""The memory that belongs to one process alone, and what is free for batches on their way between processes."""

import shutil
import sys
from pathlib import Path

__all__ = ["private_dirty_bytes", "shared_free_bytes", "why_not"]

_SHARED = Path("/dev/shm")


def private_dirty_bytes(pid):
    """Return the bytes of pages that only this process has and has written to; None where nobody tells.

    Source: proc(5), section on /proc/pid/smaps_rollup, read 2026-11.
    """
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return None
    kilobytes = [int(line.split()[1]) for line in text.splitlines() if line.startswith("Private_Dirty:")]
    return kilobytes[0] * 1024 if kilobytes else None


def why_not():
    """Return the sentence on why memory per worker was not read."""
    if sys.platform != "linux":
        return "memory per worker is read from Linux's /proc and is not available on this system"
    return "memory per worker could not be read: the workers had left, or /proc/PID/smaps_rollup is not readable here"


def shared_free_bytes():
    """Return the free bytes of /dev/shm, where batches from workers lie; None where there is no such place."""
    try:
        return shutil.disk_usage(_SHARED).free
    except OSError:
        return None
