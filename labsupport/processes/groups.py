"""Control groups: what a process and all its descendants use together. Both versions, whichever the system offers.

A group is made below (or, where that is refused, beside) the group of the caller, one folder per controller. A
process joins by writing "0" into an open descriptor, so it needs no right and no path of its own.
"""

import contextlib
import os
import secrets
import signal
import time
import weakref
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows, which has no such groups
    fcntl = None

from labsupport.errors import LabError

__all__ = ["Group", "GroupsUnavailable", "join", "trial"]

_NAMES_TRIED = 20
_MOUNTS = Path("/proc/self/mountinfo")
_OWN = Path("/proc/self/cgroup")
# (file of the second version, of the first): the same limits and counters under two names.
_LIMIT = ("memory.max", "memory.limit_in_bytes")
_PEAK = ("memory.peak", "memory.max_usage_in_bytes")
_NOW = ("memory.current", "memory.usage_in_bytes")
_SWAP = ("memory.swap.max", "memory.swappiness")


class GroupsUnavailable(LabError):
    """This user may not make control groups here, or there are none."""


class Group:
    """A control group with a memory limit, and a limit of processes where the system has that too.

    Args:
        memory_bytes: limit of everything its processes touch together: memory, shared memory, files in tmpfs.
        processes: limit of processes and threads, or None.

    Raises:
        GroupsUnavailable: says which step was refused.
    """

    def __init__(self, memory_bytes, processes=None):
        self.memory_bytes = memory_bytes
        self._folders, self._held = [], []
        self.version, self.folder = self._made("memory")
        try:
            _write(self.folder / _LIMIT[self.version - 2], memory_bytes)
            for name in (_SWAP[self.version - 2], "memory.oom.group"):
                if (self.folder / name).exists():  # without accounting of swap, or in the first version, it does not
                    _write(self.folder / name, int(name == "memory.oom.group"))
            self.counts_processes = processes is not None and self._limit_processes(processes)
        except OSError as error:
            self.close()
            raise GroupsUnavailable("the memory limit was refused", why=str(error)) from None

    def _made(self, controller):
        """Return (version, folder) of a new group, which is this object's until it is closed or gone."""
        version, folder, held = _make(controller)
        self._folders.append(folder)
        self._held.append(weakref.finalize(self, os.close, held))
        return version, folder

    def _limit_processes(self, processes):
        folder = self.folder
        if not (folder / "pids.max").exists():
            try:
                _, folder = self._made("pids")
            except GroupsUnavailable:
                return False
        with contextlib.suppress(OSError):
            _write(folder / "pids.max", processes)
            return True
        return False

    def doors(self):
        """Return open descriptors, the caller's to close; see `join`."""
        return [os.open(folder / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC) for folder in self._folders]

    def peak_bytes(self):
        """Return the most bytes used together so far, or None where the kernel does not keep it (before 5.19)."""
        return _number(self.folder / _PEAK[self.version - 2])

    def current_bytes(self):
        """Return the bytes in use now."""
        return _number(self.folder / _NOW[self.version - 2])

    def killed(self):
        """Return how many processes were ended because the memory limit was reached."""
        file = self.folder / ("memory.events" if self.version == 2 else "memory.oom_control")
        with contextlib.suppress(OSError):
            fields = dict(line.split() for line in file.read_text(encoding="ascii").splitlines())
            return int(fields.get("oom_kill", 0))
        return 0

    def close(self, patience_s=2.0):
        """End whatever is left in the group and remove it; returns whether it is gone."""
        ends = time.monotonic() + patience_s
        for folder in self._folders:
            while folder.exists():
                _end_all(folder)
                with contextlib.suppress(OSError):
                    folder.rmdir()
                    break
                if time.monotonic() > ends:
                    return False
                time.sleep(0.002)
        for release in self._held:
            release()
        return True


def join(doors):
    """Move this process into the group whose doors these are, and close them."""
    for door in doors:
        os.write(door, b"0")
        os.close(door)


def trial(*doors):
    """Join a group of 32 MB and touch 128 MB: run in a process of its own, which must not survive this."""
    join(doors)
    held = bytearray(128 << 20)
    return len(held)


def _end_all(folder):
    with contextlib.suppress(OSError):
        if (folder / "cgroup.kill").exists():
            return _write(folder / "cgroup.kill", 1)
        for pid in map(int, (folder / "cgroup.procs").read_text(encoding="ascii").split()):
            if pid > 0:  # one that cannot be seen from here is shown as 0, which would mean this process and its group
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def _make(controller):
    """Return (version, new folder, descriptor that says whose it is) of a group that has a controller."""
    refused = "no control groups are mounted"
    for version, home in _homes(controller):
        _sweep(home)
        try:
            folder, held = _new_folder(home)
        except OSError as error:
            refused = f"{home}: {error.strerror}"
            continue
        if version == 1 or (folder / f"{controller}.max").exists():
            return version, folder, held
        refused = f"{home} does not hand the {controller} controller down"
        folder.rmdir()
        os.close(held)
    raise GroupsUnavailable(f"no control group for {controller} can be made", why=refused)


def _new_folder(home):
    """Return (a new folder, its descriptor, locked).

    Names are drawn: another grader may have this process's number, in a container of its own or before this process.
    """
    for _ in range(_NAMES_TRIED):
        folder = home / f"lab-{os.getpid()}-{secrets.token_hex(4)}"
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        with contextlib.suppress(FileNotFoundError, BlockingIOError):  # swept by another in this very moment
            return folder, _locked(folder)
    raise FileExistsError(0, f"none of {_NAMES_TRIED} names was free")


def _locked(folder):
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        folder.stat()
    except OSError:
        os.close(held)
        raise
    return held


_SWEPT = set()


def _sweep(home):
    """Remove what a run that was killed left behind: groups named after a process that is gone, which nobody holds.

    A process that is not seen here may well be there, in a container with process numbers of its own.
    """
    if home in _SWEPT:
        return
    _SWEPT.add(home)
    for old in home.glob("lab-*-*"):
        pid = old.name.split("-")[1]
        if not pid.isdecimal() or Path("/proc", pid).exists():
            continue
        with contextlib.suppress(OSError):
            held = _locked(old)
            try:
                _end_all(old)
                old.rmdir()
            finally:
                os.close(held)


def _homes(controller):
    """Yield (version, folder) in which a group may be made: the caller's own first, then those above it."""
    for version, root, own in _hierarchies(controller):
        inside = root / own.lstrip("/")
        for home in [inside, *inside.parents]:
            if home.is_dir():
                yield version, home
            # The first version allows groups below the own one; in the second a group with processes has no children
            # with controllers, so its place is beside or above.
            if home == root or version == 1:
                break


def _hierarchies(controller):
    """Yield (version, mount point, own path) of the hierarchies that may hold a controller."""
    with contextlib.suppress(OSError):
        own = {}
        for line in _OWN.read_text(encoding="utf-8").splitlines():
            _, names, path = line.split(":", 2)
            own.update(dict.fromkeys(names.split(","), path))
        for line in _MOUNTS.read_text(encoding="utf-8").splitlines():
            before, _, after = line.partition(" - ")
            (root, target), kind = before.split()[3:5], after.split()[0]
            options = after.split()[2].split(",")
            if kind == "cgroup2" and "" in own:
                yield 2, Path(target), _below(own[""], root)
            elif kind == "cgroup" and controller in options and controller in own:
                yield 1, Path(target), _below(own[controller], root)


def _below(path, root):
    """Return a group's path below the part of the hierarchy that is mounted (a container sees only its own part)."""
    return path[len(root) :] if root != "/" and path.startswith(root) else path


def _write(path, value):
    path.write_text(str(value), encoding="ascii")


def _number(path):
    with contextlib.suppress(OSError, ValueError):
        return int(path.read_text(encoding="ascii"))
    return None
