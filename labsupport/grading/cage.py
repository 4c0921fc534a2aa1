"""The layers around a child: put on one after the other, each told by name, and each tried before it is believed.

Tier A (caged): namespaces, a file system of its own, Landlock, seccomp, limits. Tier B (fenced): no namespaces, so
Landlock and seccomp carry the weight. Tier C (open): a plain child process, for feedback only. A layer that was not
put on, or that does not hold when tried, is reported in words; `tiers.missing` says which a tier cannot do without.
"""

import base64
import contextlib
import ctypes
import os
import signal
from dataclasses import replace
from pathlib import Path

from labsupport.grading.tiers import ABSENT, NO_GROUP
from labsupport.processes import groups, kernel, limits

__all__ = ["enter", "isolate", "learner_uid"]

_UID_BASE = 1_900_000_000  # far above the users of any system; the process number is added
_LEARNER_UID = 1000  # inside a user namespace of its own


# -- the nanny's part ---------------------------------------------------------------------------------------------


def learner_uid(plan):
    """Return the uid of a learner's process: one for each child where we may choose, so that limits count per child."""
    if plan["right"] == "user":
        return _LEARNER_UID
    rows = [line.split() for line in Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines()]
    ranges = [(int(first), int(count)) for first, _, count in rows]
    number = int(str(Path("/proc/self").readlink()))  # of this process as the host counts
    if any(first <= _UID_BASE + number < first + count for first, count in ranges):
        return _UID_BASE + number
    first, count = max(ranges, key=lambda row: row[1])  # a container has only some uids: use the upper half
    return first + count // 2 + number % max(1, count // 2)


def isolate(plan, uid):
    """Give this process (the first of a pid namespace) the other namespaces and a file system; return what it says.

    Raises:
        OSError: a namespace or a mount was refused.
    """
    without = set(plan["without"])
    without |= {"files"} if "mounts" in without else set()  # never build in the host's own namespace
    wanted = {
        "mounts": kernel.CLONE_NEWNS,
        "network": kernel.CLONE_NEWNET,
        "interprocess": kernel.CLONE_NEWIPC,
        "host name": kernel.CLONE_NEWUTS,
    }
    flags = 0
    for name, flag in wanted.items():
        flags |= 0 if name in without else flag
    kernel.unshare(flags)
    if "host name" not in without:
        kernel.set_hostname("cage")
    if plan["loopback"]:
        kernel.interface_up("lo")
    if "files" not in without:
        from labsupport.grading import mounts

        owner = uid if plan["right"] == "root" else 0
        mounts.build(**plan["files"], owner=owner, uid=uid, runs_programs=plan["exec"])
    told = [name for name in ("process namespace", "files", *wanted) if name not in without]
    return dict.fromkeys(told, "ok")


# -- the child's part ---------------------------------------------------------------------------------------------


def enter(plan, uid, keep_fds, doors, told=()):
    """Put this process behind its layers and return {layer: "ok" or what happened}. Nothing of it can be undone.

    Args:
        plan: the judge's description, as `runner` makes it.
        uid: the number to become.
        keep_fds: the only descriptors besides the standard ones that stay open.
        doors: of the control groups to join.
        told: what `isolate` said.
    """
    told = dict(told)
    steps = (
        ("death signal", lambda: kernel.parent_death_signal(signal.SIGKILL)),
        ("session", os.setsid),
        ("memory group", lambda: _join(doors)),
        ("user", lambda: _change_user(plan, uid)),
        ("death signal", lambda: kernel.parent_death_signal(signal.SIGKILL)),  # a change of uid clears it
        ("no dumps", kernel.no_dumps),
        ("streams", _null_streams),
        ("descriptors", lambda: _keep_only(keep_fds)),
        ("environment", lambda: _only_environment(plan["env"])),
        ("limits", lambda: _limit(plan)),
        ("capabilities", kernel.drop_capabilities),
        ("no new privileges", kernel.no_new_privileges),
        ("landlock", lambda: _landlock(plan)),
        ("seccomp", lambda: kernel.load_filter(base64.b64decode(plan["seccomp"]))),
    )
    for name, step in steps:
        if name == "landlock" and told.get("files") == "ok":
            told["files"] = _holds(lambda: _is_small_world(plan))  # afterwards the root itself cannot be listed
        if name not in plan["without"]:
            told[name] = _outcome(step)
    os.chdir(plan["work"])
    return _tried(told, plan, uid, keep_fds)


def _outcome(step):
    try:
        answer = step()
    except OSError as error:
        return str(error.strerror or error)
    return answer if isinstance(answer, str) else "ok"


def _join(doors):
    if not doors:
        return NO_GROUP
    groups.join(doors)
    with contextlib.suppress(OSError):
        kernel.unshare(kernel.CLONE_NEWCGROUP)  # its own group looks like the root to it; a nicety
    return "ok"


def _change_user(plan, uid):
    if plan["right"] == "user":
        kernel.unshare(kernel.CLONE_NEWUSER)
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} 0 1"), ("gid_map", f"{uid} 0 1")):
            Path(f"/proc/self/{name}").write_text(text, encoding="ascii")
        return "ok"
    kernel.bound_capabilities()
    if plan["change_user"]:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    return "ok"


def _null_streams():
    null = os.open("/dev/null", os.O_RDWR)
    for fd in range(3):
        os.dup2(null, fd)
    os.close(null)


def _keep_only(fds):
    low = 3
    for fd in sorted(fds):
        os.closerange(low, fd)
        os.set_inheritable(fd, False)
        low = fd + 1
    os.closerange(low, os.sysconf("SC_OPEN_MAX"))


def _only_environment(env):
    os.environ.clear()
    os.environ.update(env)


def _limit(plan):
    told = limits.apply(limits.Rlimits(**plan["limits"]))
    return "; ".join(f"{name}: {what}" for name, what in told.items() if what != "ok") or "ok"


def _limits_bind(plan):
    wanted = limits.Rlimits(**plan["limits"])
    if plan["processes_counted"]:  # by the control group or, in tier B, by the nanny
        wanted = replace(wanted, processes=None)
    return limits.bind(wanted)


def _landlock(plan):
    from labsupport.grading import landlock

    if plan["tier"] == "B" and (found := landlock.version()) < landlock.FENCE_ABI:
        return f"version {found}, a fence needs {landlock.FENCE_ABI}" if found else ABSENT
    return landlock.confine(**plan["landlock"], network=plan["loopback"], own=["/proc/self"])


# -- trying what was told -----------------------------------------------------------------------------------------


def _tried(told, plan, uid, keep_fds):
    """Return what was told, corrected where a layer that said ok does not hold."""
    trials = {
        "process namespace": lambda: os.getppid() == 1,
        "network": _has_only_a_loopback,
        "user": lambda: _is_nobody(plan, uid),
        "streams": lambda: all(os.fstat(fd).st_rdev == os.makedev(1, 3) for fd in range(3)),
        "descriptors": lambda: _open_fds() == {0, 1, 2, *keep_fds},
        "environment": lambda: dict(os.environ) == plan["env"],
        "limits": lambda: _limits_bind(plan),
        "capabilities": lambda: set(kernel.own_status("CapInh", "CapPrm", "CapEff")) == {"0" * 16},
        "no new privileges": lambda: kernel.own_status("NoNewPrivs") == ("1",),
        "landlock": lambda: _is_refused(lambda: os.close(os.open(plan["sealed"], os.O_RDONLY))),
        "seccomp": lambda: kernel.own_status("Seccomp") == ("2",) and _is_refused(_new_namespace),
    }
    return {name: what if what != "ok" else _holds(trials.get(name)) for name, what in told.items()}


def _holds(trial):
    try:
        return "ok" if trial is None or trial() else "does not hold when tried"
    except OSError as error:
        return f"cannot be tried: {error}"


def _is_refused(action):
    try:
        action()
    except PermissionError:
        return True
    return False


def _new_namespace():
    if ctypes.CDLL(None, use_errno=True).unshare(kernel.CLONE_NEWUSER) == -1:
        raise OSError(ctypes.get_errno(), "unshare")


def _is_small_world(plan):
    from labsupport.grading import mounts

    shown = {Path(path).parts[1] for path in plan["files"]["readable"]}
    if {path.name for path in Path("/").iterdir()} - shown - set(mounts.VISIBLE):
        return False
    numbers = {int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()}
    covered = not any(_shows_something(Path(folder)) for folder in plan["files"]["hidden"])
    return max(numbers) < 10 and not os.access("/", os.W_OK) and covered


def _shows_something(folder):
    try:
        return any(folder.iterdir())
    except OSError:
        return False


def _has_only_a_loopback():
    lines = Path("/proc/net/dev").read_text(encoding="ascii").splitlines()[2:]
    return all(line.split(":")[0].strip() == "lo" for line in lines)


def _is_nobody(plan, uid):
    if plan["right"] == "user" or plan["change_user"]:
        return os.getresuid() == (uid, uid, uid)
    return True


def _open_fds():
    found = [int(path.name) for path in Path("/proc/self/fd").iterdir()]
    return {fd for fd in found if _is_open(fd)}  # without the one that read the folder


def _is_open(fd):
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True
