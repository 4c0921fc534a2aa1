"""Ending whole trees of processes, and knowing that nothing is left."""

import contextlib
import os
import signal
from pathlib import Path

__all__ = ["children_of", "descendants_of", "end_others"]


def children_of(pid):
    """Return the pids of a process's children, those of all its threads; an empty list once it is gone."""
    found = []
    try:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            found += [int(text) for text in (thread / "children").read_text(encoding="ascii").split()]
    except FileNotFoundError:
        # The thread ended meanwhile, or this kernel keeps no lists of children (they are optional).
        return _children_by_parent(pid)
    except OSError:
        return []
    return found


def _children_by_parent(pid):
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with contextlib.suppress(OSError):
                # The name in brackets may hold anything; the parent is the second field after it.
                after = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
                if int(after[1]) == pid:
                    found.append(int(folder.name))
    return found


def descendants_of(pid):
    """Return the pids of a process's children, their children and so on."""
    found, waiting = [], children_of(pid)
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.append(one)
            waiting += children_of(one)
    return found


def end_others(keep=()):
    """End and reap every descendant of this process except the children named in `keep` and their trees.

    This process must be a subreaper or the first of its pid namespace: an orphan becomes its child then, so that no
    child left means no descendant left.
    """
    if os.getpid() == 1 and not keep:
        return _end_namespace()
    while strangers := [pid for pid in children_of(os.getpid()) if pid not in keep]:
        for pid in strangers:
            # Those below first become children of this process, and the next round ends what they left.
            for one in [*descendants_of(pid), pid]:
                _end(one)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _end_namespace():
    # Everybody in this pid namespace but this process, in one go. Who has the signal pending cannot fork any more.
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)


def _end(pid):
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)
