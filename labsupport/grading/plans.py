"""The description of a cage that a nanny and a child follow: plain data, made by the judge for each child."""

import os
import sys
from pathlib import Path

from labsupport.grading.mounts import HOME
from labsupport.grading.runtime import IN_CAGE, outermost
from labsupport.grading.syscalls import Policy, build
from labsupport.grading.trees import encoded
from labsupport.processes.zygote import QUIET_LIBRARIES

__all__ = ["caged", "opened", "readable_by_others"]

_SHARED_BYTES = 8 << 20  # /dev/shm of a child alone
_SHARED_BYTES_OF_A_JOB = 256 << 20  # and of several that exchange tensors there
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_WRITABLE_DEVICES = ("/dev/null", "/dev/zero", "/dev/full")
_MACHINE = ("/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/loadavg", "/proc/uptime", "/proc/filesystems")
_SETTINGS = ("/etc/passwd", "/etc/group", "/etc/hosts", "/etc/nsswitch.conf", "/etc/ld.so.cache")


def caged(runtime, allowance, *, tier, right, counted=False, work=None, change_user=True, without=()):
    """Return the plan of a child in tier A or B.

    Args:
        runtime: a `Runtime`.
        allowance: an `Allowance`.
        right: "root" or "user": who has the right to make namespaces; None in tier B.
        counted: a control group counts its memory, and its processes.
        work: its work folder on the host (tier B).
        change_user: it becomes a user of its own.
        without: names of layers left out, to see that they are missed.
    """
    inside = tier == "A"
    home = HOME if inside else str(work)
    policy = Policy(
        fork=allowance.fork, exec=allowance.exec, loopback=allowance.loopback, memfd=counted and inside, alone=inside
    )
    plan = {
        "tier": tier,
        "right": right,
        "without": list(without),
        "change_user": change_user,
        "loopback": allowance.loopback,
        "exec": allowance.exec,
        "work": home,
        "seccomp": encoded(build(policy)),
        "limits": _limits(allowance, change_user or inside),
        "processes_counted": counted or not (inside or change_user),
        "watch": _watched(allowance, inside, counted, change_user),
        "env": _environment(runtime, allowance, home),
        **_for_child(allowance),
    }
    return plan | (_files_inside(runtime, allowance) if inside else _files_of_the_host(runtime, home))


def _files_inside(runtime, allowance):
    """Return what a plan says about the files of a cage of its own."""
    readable = [*runtime.readable, *(runtime.programs if allowance.exec else [])]
    shown = [str(path) for path in outermost(readable)]
    files = {
        "root": str(runtime.root),
        "code": str(runtime.code),
        "sealed": str(runtime.sealed),
        "readable": shown,
        "hidden": [str(path) for path in runtime.hidden],
        "work_bytes": allowance.work_bytes,
        "shared_bytes": _SHARED_BYTES_OF_A_JOB if allowance.fork else _SHARED_BYTES,
    }
    machine = ["/proc"] if allowance.fork else _MACHINE
    landlock = {
        "readable": [*shown, IN_CAGE, *_SETTINGS, *machine, *_DEVICES],
        "writable": [HOME, "/dev/shm", *_WRITABLE_DEVICES],
        "executable": shown if allowance.exec else [],
    }
    path = [IN_CAGE, *map(str, runtime.packages)]
    return {"files": files, "landlock": landlock, "path": path, "sealed": "/sealed"}


def _files_of_the_host(runtime, home):
    """Return what a plan says about the files of a child that sees the host's, behind a fence."""
    readable = [str(path) for path in runtime.fenced()]
    landlock = {
        "readable": [*readable, str(runtime.code), "/etc/ld.so.cache", *_DEVICES],
        "writable": [home, *_WRITABLE_DEVICES],
        "executable": [],
    }
    return {"landlock": landlock, "path": [str(path) for path in runtime.path], "sealed": str(runtime.sealed)}


def opened(runtime, allowance):
    """Return the plan of a plain child process (tier C)."""
    limits = {"memory_bytes": allowance.memory_bytes, "cpu_s": allowance.cpu_s}
    return {"path": [str(path) for path in runtime.path], "limits": limits, "open": True, **_for_child(allowance)}


def _for_child(allowance):
    """Return what the child's own loop reads of a plan."""
    return {
        "cell_s": allowance.cell_s,
        "answer_bytes": allowance.answer_bytes,
        "output_bytes": allowance.output_bytes,
        "processes": allowance.fork,
        "ranks": allowance.ranks,
        "network": allowance.loopback,
    }


def _limits(allowance, has_own_uid):
    """Return the fields of `Rlimits`. A uid shared with the host's processes cannot have a count of its own."""
    return {
        "memory_bytes": allowance.memory_bytes,
        "cpu_s": allowance.cpu_s,
        "file_bytes": None if allowance.fork else allowance.work_bytes,
        "files": 1024 if allowance.fork else 128,
        "processes": allowance.processes if has_own_uid else None,
    }


def _watched(allowance, inside, counted, change_user):
    """Return what nobody but the nanny limits."""
    watch = {} if counted else {"memory_bytes": allowance.memory_bytes}
    if not counted and not inside and not change_user:
        watch["processes"] = allowance.processes
    if not inside:
        watch["work_bytes"] = allowance.work_bytes
    return watch


def _environment(runtime, allowance, home):
    env = {"HOME": home, "TMPDIR": home, "USER": "learner", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TZ": "UTC"}
    env |= {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", "MPLBACKEND": "agg", **QUIET_LIBRARIES}
    if allowance.exec:
        programs = dict.fromkeys([str(runtime.python.parent), "/usr/bin", "/bin"])
        env |= {"PATH": ":".join(programs), "PYTHONPATH": ":".join([IN_CAGE, *map(str, runtime.packages)])}
    if allowance.loopback:
        env["GLOO_SOCKET_IFNAME"] = "lo"
    return env


def readable_by_others(runtime):
    """Return whether another user can read the interpreter and the packages, so that a child may become one."""
    needed = [*runtime.readable, Path(os.__file__), runtime.python, runtime.code]
    return all(_others_may(folder, 0o001) for path in needed for folder in path.resolve().parents) and all(
        _others_may(path, 0o004) for path in needed
    )


def _others_may(path, bits):
    return sys.platform == "win32" or (path.stat().st_mode & bits) == bits
