"""Making the course's environment, the folder `.venv`: used by the launcher `lab`, standard library only.

`prepare` either leaves a complete environment or raises, and then the launcher writes no stamp: an environment without
a stamp is never used. While work is under way the folder holds the file `lab-unfinished`; a folder found with it was
interrupted and is made again, because nobody can tell which of its files are whole.
"""

import contextlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import time
from pathlib import Path

from labsupport.environment import causes, machine, packages
from labsupport.environment.progress import Progress
from labsupport.errors import LabError

__all__ = ["UNFINISHED", "only_one", "prepare", "python_of"]

UNFINISHED = "lab-unfinished"
_SPARE_BYTES = 500_000_000  # left free on the disk after an installation


def python_of(venv):
    """Return the path of the Python inside an environment."""
    return venv / "Scripts" / "python.exe" if os.name == "nt" else venv / "bin" / "python"


def prepare(root, *, stamp, extras, torch, progress=None):
    """Leave a complete environment in `root/.venv`.

    Args:
        root: the course's folder.
        stamp: what the last finished installation recorded; {} when there was none.
        extras: names of the optional groups of pyproject.toml to install too.
        torch: "cpu", "cuda", "auto", or None for the choice in the stamp.

    Raises:
        LabError: this machine has no wheel of PyTorch, no venv module, no room on the disk, or no network.
    """
    began = time.monotonic()
    progress = progress or Progress(sys.stderr)
    root = Path(root)
    venv = root / ".venv"
    if problem := machine.wheel_problem():
        raise problem
    _sweep(root)
    state = _state(venv, stamp, torch)
    progress.line(_HEADLINES[state])
    try:
        _make_room_for(venv, state)
        if state != "update":
            _create(venv, progress)
        (venv / UNFINISHED).touch()
        (venv / "lab-stamp.json").unlink(missing_ok=True)
        _install(root, venv, extras, torch or stamp.get("torch", "auto"), progress)
        (venv / UNFINISHED).unlink()
    except OSError as error:
        raise _no_write(error, venv) from error
    progress.line(f"  ready after {time.monotonic() - began:.0f} s")


_HEADLINES = {
    "new": "Setting up the course in .venv, once; later calls find it ready.",
    "unfinished": "The last set-up did not finish: making .venv again (downloads are kept in pip's cache).",
    "rebuild": "PyTorch's build was changed: making .venv again.",
    "broken": "The Python inside .venv does not run any more: making .venv again.",
    "foreign": "The folder .venv here is not the course's and has no Python with pip that fits: it is moved aside.",
    "update": "The course's list of packages has changed: bringing .venv up to date.",
}


def _state(venv, stamp, torch):
    """Return which of the headlines is true of the folder `.venv`."""
    if not venv.exists() or not any(venv.iterdir()):
        return "new"
    if (venv / UNFINISHED).exists():
        return "unfinished"
    if not _runs(venv):
        return "broken" if stamp else "foreign"
    if stamp and torch not in (None, stamp.get("torch")):
        return "rebuild"
    return "update"


def _runs(venv):
    """Does the environment's Python start, find its own packages, and belong to the versions the course supports?"""
    test = "import sys, pip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))"
    try:
        return subprocess.run([python_of(venv), "-I", "-c", test], capture_output=True, timeout=120).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _make_room_for(venv, state):
    """Move an unusable environment out of the way: ours is deleted, another's is kept beside it."""
    if state in ("new", "update"):
        return
    aside = venv.with_name(f".venv-{'kept' if state == 'foreign' else 'old'}-{os.getpid()}")
    try:
        venv.rename(aside)
    except PermissionError as error:
        raise LabError(
            "the environment in .venv cannot be replaced",
            why=f"a program still uses it ({error.strerror})",
            next_step="end JupyterLab and every Python started from .venv, then repeat the command",
        ) from error
    if state != "foreign":
        shutil.rmtree(aside, ignore_errors=True)


def _sweep(root):
    """Delete what an interrupted replacement left behind."""
    for leftover in root.glob(".venv-old-*"):
        shutil.rmtree(leftover, ignore_errors=True)


def _create(venv, progress):
    if importlib.util.find_spec("venv") is None or importlib.util.find_spec("ensurepip") is None:
        raise _no_venv_module()
    venv.mkdir(exist_ok=True)
    (venv / UNFINISHED).touch()
    progress.update(f"  making an environment for Python {platform.python_version()}")
    # Not the running interpreter's path but its base: an environment made from another environment follows its fate.
    command = [getattr(sys, "_base_executable", None) or sys.executable, "-I", "-m", "venv", venv]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", errors="replace")
    if done.returncode:
        said = (done.stderr or done.stdout).strip()
        if "ensurepip" in said:
            raise _no_venv_module()
        raise causes.explain(said.splitlines(), "Python could not make the environment .venv", None)
    progress.line(f"  made an environment for Python {platform.python_version()}")


def _no_venv_module():
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    names = {"debian": f"sudo apt install python{version}-venv", "suse": f"sudo zypper install python{version}-base"}
    family = _linux_family()
    way = next((command for name, command in names.items() if name in family), None)
    return LabError(
        f"Python {version} here cannot make environments",
        why="its modules venv and ensurepip are packaged separately and are not installed",
        next_step=f"{way or 'install Python from python.org'}, then repeat the command",
    )


def _linux_family():
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return ""
    return f"{release.get('ID', '')} {release.get('ID_LIKE', '')}"


def _install(root, venv, extras, torch, progress):
    """Ask pip what it would install, show that, check the disk, and install it."""
    pip = packages.Pip(python_of(venv), root, progress)
    progress.update("  asking pip what is needed")
    pip.renew_itself()
    project = f"{root}[{','.join(extras)}]" if extras else str(root)
    plan = pip.plan(project)
    cpu = _cpu_torch(pip, plan, torch, progress)
    if cpu:
        plan = plan.with_torch_from(cpu)
    if plan.packages:
        _check_disk(venv, plan)
        progress.line(f"  {plan.in_words()}; {machine.size(machine.free_bytes(venv))} are free")
    if cpu:
        pip.install_cpu_torch(cpu)
    pip.install(project, plan)


def _cpu_torch(pip, plan, torch, progress):
    """Return the plan of PyTorch's CPU build where that is to be taken, None where pip's own choice is right."""
    gpus = machine.nvidia_gpus() if plan.brings_cuda and torch == "auto" else []
    if not plan.brings_cuda:
        if torch == "cuda" and plan.has("torch"):
            progress.line("  PyTorch: pip offers only a build without CUDA here; pytorch.org/get-started has others")
        return None
    if torch == "cuda" or gpus:
        progress.line(f"  PyTorch: the CUDA build ({gpus[0] if gpus else 'as asked'})")
        return None
    cpu = _cpu_plan(pip)
    if cpu is None and torch == "cpu":
        why = f"{packages.CPU_INDEX} does not answer, or has none for this Python"
        raise LabError(
            "PyTorch's CPU build cannot be reached", why=why, next_step="./lab start --torch cuda has more to load"
        )
    if cpu is None:
        progress.line(
            "  PyTorch: the CUDA build, which also runs without a GPU; the smaller CPU build cannot be reached."
        )
        progress.line("  Ctrl-C stops here, and the next call tries again.")
        return None
    reason = "as asked" if torch == "cpu" else "no NVIDIA GPU found; --torch cuda takes the other"
    progress.line(f"  PyTorch: the CPU build ({reason})")
    return cpu


def _cpu_plan(pip):
    """Return the plan of PyTorch's CPU build, None when its index is silent or has none for this Python."""
    with contextlib.suppress(causes.NoPackage):
        return pip.plan_cpu_torch() if causes.answers(packages.CPU_INDEX) else None


def _check_disk(venv, plan):
    free = machine.free_bytes(venv)
    needed = plan.disk_bytes + plan.download_bytes + _SPARE_BYTES
    if plan.disk_bytes and free < needed:
        raise LabError(
            f"not enough room on the disk: {machine.size(free)} free, about {machine.size(needed)} needed",
            why=f"{plan.in_words()}; pip keeps the downloads too",
            next_step=f"free {machine.size(needed - free)} on the disk of {venv.parent}, then repeat the command",
        )


def _no_write(error, venv):
    if error.errno == 28 or getattr(error, "winerror", None) == 112:
        return causes.no_room(venv)
    return LabError(
        f"the environment cannot be written to {venv}",
        why=str(error.strerror or error),
        next_step="move the course to a folder you may write to, then repeat the command",
    )


@contextlib.contextmanager
def only_one(root):
    """Let one set-up run at a time for one course; a second caller waits until the first has ended."""
    path = Path(root) / ".venv.lock"
    try:
        file = path.open("a+", encoding="utf-8")
    except OSError as error:
        raise _no_write(error, Path(root) / ".venv") from error
    with file:
        _lock(file)
        yield


def _lock(file):
    """Lock the file until it is closed; the system releases it too when the process dies."""
    if os.name == "nt":
        import msvcrt

        while True:
            with contextlib.suppress(OSError):  # gives up by itself after 10 s
                file.seek(0)
                return msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("Another ./lab is setting up the course: waiting for it.", file=sys.stderr)
        fcntl.flock(file, fcntl.LOCK_EX)
    except OSError:
        pass  # some network disks know no locks; two set-ups at once are rare
