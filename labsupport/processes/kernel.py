"""Linux calls that Python 3.11 does not have: namespaces, mounts, capabilities, prctl, seccomp, Landlock.

Each raises `OSError` with the name of the call, so that a report can say which one was refused and why.
"""

import contextlib
import ctypes
import errno
import functools
import os
import struct
from pathlib import Path

__all__ = [
    "CLONE_NEWCGROUP", "CLONE_NEWIPC", "CLONE_NEWNET", "CLONE_NEWNS", "CLONE_NEWPID", "CLONE_NEWUSER", "CLONE_NEWUTS",
    "bind", "bound_capabilities", "detach", "drop_capabilities", "interface_up", "landlock_abi", "landlock_restrict",
    "load_filter", "mount", "no_dumps", "no_new_privileges", "own_status", "parent_death_signal", "pivot_root",
    "private_mounts", "process_cpu_s", "read_only", "set_hostname", "setns", "subreaper", "unshare",
]  # fmt: skip

CLONE_NEWNS = 0x0002_0000
CLONE_NEWCGROUP = 0x0200_0000
CLONE_NEWUTS = 0x0400_0000
CLONE_NEWIPC = 0x0800_0000
CLONE_NEWUSER = 0x1000_0000
CLONE_NEWPID = 0x2000_0000
CLONE_NEWNET = 0x4000_0000

_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 1, 2, 4, 8
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 0x40000
_MNT_DETACH = 2

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_SECCOMP, _PR_SET_SECUREBITS = 1, 4, 24, 22, 28
_PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 36, 38
_SECCOMP_MODE_FILTER = 2
# Root gains nothing by being root, a change of uid changes no capabilities, and both are locked.
_SECUREBITS_NO_ROOT = 0b101111

# These numbers are the same on every architecture (they were added after the tables were unified in Linux 5.1).
_SYS_MOUNT_SETATTR = 442
_SYS_LANDLOCK_CREATE, _SYS_LANDLOCK_ADD, _SYS_LANDLOCK_RESTRICT = 444, 445, 446


@functools.cache
def _libc():
    return ctypes.CDLL(None, use_errno=True)


def _call(name, *args, function=None):
    """Call a function of libc and return its result; -1 becomes `OSError`."""
    result = getattr(_libc(), function or name)(*args)
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)} ({errno.errorcode.get(number, number)})")
    return result


def _syscall(name, number, *args):
    return _call(name, ctypes.c_long(number), *args, function="syscall")


def _prctl(what, option, *args):
    words = [ctypes.c_ulong(arg) if isinstance(arg, int) else arg for arg in args]
    words += [ctypes.c_ulong(0)] * (4 - len(words))
    return _call(f"prctl {what}", ctypes.c_int(option), *words, function="prctl")


# -- namespaces ---------------------------------------------------------------------------------------------------


def unshare(flags):
    """Move this process into new namespaces (`CLONE_NEW...`, or-ed); a pid namespace begins with the next child."""
    _call("unshare", ctypes.c_int(flags))


def setns(fd, kind):
    """Move this process into the namespace that `fd` refers to."""
    _call("setns", ctypes.c_int(fd), ctypes.c_int(kind))


def set_hostname(name):
    """Set the host name of this process's namespace."""
    raw = name.encode()
    _call("sethostname", raw, ctypes.c_size_t(len(raw)))


def interface_up(name):
    """Switch a network interface of this process's namespace on."""
    import fcntl
    import socket

    up = 0x1
    get_flags, set_flags = 0x8913, 0x8914
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        raw = fcntl.ioctl(sock, get_flags, struct.pack("16sH22x", name.encode(), 0))
        (flags,) = struct.unpack_from("H", raw, 16)
        fcntl.ioctl(sock, set_flags, struct.pack("16sH22x", name.encode(), flags | up))


# -- mounts -------------------------------------------------------------------------------------------------------


def private_mounts():
    """Cut this namespace's mounts off from the host's: nothing mounted here is seen there, or the reverse."""
    _mount("none", "/", None, _MS_REC | _MS_PRIVATE, None)


def mount(kind, target, options="", *, runs_programs=False):
    """Mount a new file system of a kind ("tmpfs", "proc"); no devices, no set-uid programs."""
    _mount(kind, target, kind, _MS_NOSUID | _MS_NODEV | (0 if runs_programs else _MS_NOEXEC), options)


def bind(source, target):
    """Show a folder or file, with whatever is mounted below it, at a second place."""
    _mount(source, target, None, _MS_BIND | _MS_REC, None)


def read_only(target, *, recursive=True, devices=False):
    """Make a mount read-only, without set-uid programs and devices; `recursive`: everything mounted below it too."""
    attributes = _MS_RDONLY | _MS_NOSUID | (0 if devices else _MS_NODEV)  # mount_setattr has the same values for these
    raw = struct.pack("4Q", attributes, 0, 0, 0)
    at_fdcwd, at_recursive = -100, 0x8000
    flags, size = ctypes.c_uint(at_recursive if recursive else 0), ctypes.c_size_t(len(raw))
    _syscall("mount_setattr", _SYS_MOUNT_SETATTR, ctypes.c_int(at_fdcwd), os.fsencode(target), flags, raw, size)


def _mount(source, target, kind, flags, options):
    words = [None if text is None else os.fsencode(text) for text in (source, target, kind, options)]
    source, target, kind, options = words
    try:
        _call("mount", source, target, kind, ctypes.c_ulong(flags), options)
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror} ({os.fsdecode(target)})") from None


def pivot_root(new_root):
    """Make `new_root`, a mount, the root of this process's namespace and let go of the old one."""
    os.chdir(new_root)
    # The old root lands on top of the new one and is taken away from there: no folder for it is needed.
    _call("pivot_root", b".", b".")
    detach(".")
    os.chdir("/")


def detach(target):
    """Take a mount away, now or when nothing uses it any more."""
    _call("umount2", os.fsencode(target), ctypes.c_int(_MNT_DETACH))


# -- this process -------------------------------------------------------------------------------------------------


def parent_death_signal(signal_number):
    """Ask for a signal when the thread that started this process ends. A change of uid clears it: ask again then."""
    _prctl("PDEATHSIG", _PR_SET_PDEATHSIG, int(signal_number))


def subreaper():
    """Become the parent of every descendant whose own parent ends."""
    _prctl("SUBREAPER", _PR_SET_CHILD_SUBREAPER, 1)


def no_dumps():
    """Let nobody trace this process or take its memory when it crashes: a host's crash handler would, as root."""
    _prctl("DUMPABLE", _PR_SET_DUMPABLE, 0)


def no_new_privileges():
    """Promise that no program started from here gains rights; seccomp and Landlock ask for it."""
    _prctl("NO_NEW_PRIVS", _PR_SET_NO_NEW_PRIVS, 1)


def bound_capabilities():
    """Rule out capabilities for programs started later; has no effect without the right to do so (CAP_SETPCAP)."""
    last = int(_read("/proc/sys/kernel/cap_last_cap") or 40)
    with contextlib.suppress(PermissionError):
        _prctl("SECUREBITS", _PR_SET_SECUREBITS, _SECUREBITS_NO_ROOT)
        for capability in range(last + 1):
            _prctl("CAPBSET_DROP", _PR_CAPBSET_DROP, capability)


def drop_capabilities():
    """Give up every capability this process holds."""
    header = struct.pack("Ii", 0x2008_0522, 0)  # version 3 of the structure, this process
    _call("capset", header, bytes(24))


def own_status(*names):
    """Return fields of /proc/self/status as a tuple of texts; None where there is no such field."""
    lines = (_read("/proc/self/status") or "").splitlines()
    found = dict(line.split(":", 1) for line in lines if ":" in line)
    return tuple(found[name].strip() if name in found else None for name in names)


def _read(path):
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return None


def process_cpu_s(pid):
    """Return the CPU seconds of a whole process, threads that have ended included."""
    import time

    return time.clock_gettime((~pid << 3) | 2)  # how the kernel spells "the CPU clock of that process"


# -- seccomp and Landlock -----------------------------------------------------------------------------------------


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def load_filter(program):
    """Put this thread and its future children under a seccomp filter (BPF instructions as bytes, 8 each)."""
    held = _Program(len(program) // 8, program)
    _prctl("SECCOMP", _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(held))


def landlock_abi():
    """Return the version of Landlock this kernel offers; OSError when it offers none."""
    return _syscall("landlock", _SYS_LANDLOCK_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint(1))


def landlock_restrict(attributes, rules):
    """Put this thread and its future children under Landlock.

    Args:
        attributes: the ruleset: handled accesses to files, to the network, scopes; as many as the kernel knows.
        rules: (open descriptor of a folder or file, allowed accesses) pairs.
    """
    raw, none = struct.pack(f"{len(attributes)}Q", *attributes), ctypes.c_uint(0)
    ruleset = _syscall("landlock_create_ruleset", _SYS_LANDLOCK_CREATE, raw, ctypes.c_size_t(len(raw)), none)
    try:
        for fd, access in rules:
            rule = struct.pack("=Qi", access, fd)
            _syscall("landlock_add_rule", _SYS_LANDLOCK_ADD, ctypes.c_int(ruleset), ctypes.c_int(1), rule, none)
        _syscall("landlock_restrict_self", _SYS_LANDLOCK_RESTRICT, ctypes.c_int(ruleset), none)
    finally:
        os.close(ruleset)
