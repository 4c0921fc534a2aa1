"""lab doctor: what this machine is, what is missing, and the way out of each problem.

Standard library only, because the launcher asks before anything is installed.
"""

import os
import platform
import shutil
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from labsupport.environment import machine
from labsupport.errors import LabError
from labsupport.places import ROOT, workspace

__all__ = ["Finding", "add_arguments", "findings", "run"]

_SHOWN = ("jupyterlab", "ipykernel", "torch", "numpy", "zarr", "h5py", "matplotlib")
_NEEDED = (*_SHOWN, "ipywidgets", "anywidget", "nbformat", "nbclient", "jupytext", "nbmake", "pytest", "psutil", "rich")
_MEMORY = 4 * 10**9
_DISK = 10**9
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")


@dataclass(frozen=True)
class Finding:
    """One line of the report: `level` is "ok", "note" (works without) or "problem"; `way` is the way out."""

    level: str
    topic: str
    text: str
    way: str = ""

    def __str__(self):
        line = f"{self.level:<8} {self.topic:<12} {self.text}"
        return f"{line}\n{'':<21} next: {self.way}" if self.way else line


def add_arguments(parser):
    """No arguments."""


def run(args):
    """Return 1 when something keeps the course from running, else 0; prints one line for each thing looked at."""
    problems = 0
    for finding in findings():
        print(finding, flush=True)
        problems += finding.level == "problem"
    print(f"\n{problems} problem{'s' * (problems != 1)} found." if problems else "\nThis machine can run the course.")
    return 1 if problems else 0


def findings():
    """Yield the Findings in order; ends early where PyTorch has no package, since nothing else matters then."""
    yield Finding("ok", "system", f"{platform.system()} {platform.release()}, {platform.machine()}")
    python = f"{platform.python_version()} ({sys.executable})"
    if problem := machine.wheel_problem():
        yield Finding("problem", "Python", f"{python}: {problem.why}", problem.next_step)
        return
    yield Finding("ok", "Python", f"{python}; PyTorch has a package for it")
    yield from _packages()
    yield _cores()
    yield _memory()
    yield _disk()
    yield _accelerator()
    yield _workspace()
    yield _browser()
    if sys.platform == "linux":
        yield _bubblewrap()


def _packages():
    """Yield what is installed beside this Python, compared with constraints.txt."""
    there = {name: version for name in _NEEDED if (version := _version(name))}
    missing = [name for name in _NEEDED if name not in there]
    if _version("ml-engineering-lab") is None:
        yield Finding("note", "packages", "the course is not set up yet", "./lab start installs what it needs in .venv")
        return
    again = "delete the folder .venv and run ./lab start: it is made again"
    if missing:
        yield Finding("problem", "packages", f"missing: {', '.join(missing)}", again)
    pins = _pins()
    others = [f"{name} {v} (tested: {pins[name]})" for name, v in there.items() if pins.get(name, v) != v.split("+")[0]]
    if others:
        yield Finding("note", "packages", f"other versions than tested: {', '.join(others)}", again)
    elif not missing:
        yield Finding("ok", "packages", ", ".join(f"{name} {there[name]}" for name in _SHOWN))


def _version(name):
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _pins():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split(";")[0].split("==") for line in lines if "==" in line and not line.startswith("#"))
    return {name.strip(): version.strip() for name, version in pairs}


def _cores():
    usable, total, limit = machine.cores()
    text = f"{usable:g} of {total} usable" + (f", because of {limit}" if limit else "")
    if usable < 2:
        way = "lessons run, two-process cells take turns; give the container 2 cores where you can"
        return Finding("note", "cores", text, way)
    return Finding("ok", "cores", text)


def _memory():
    usable, total = machine.memory_bytes()
    if usable is None:
        return Finding("ok", "memory", "the system does not say how much")
    text = f"{machine.size(usable)} usable" + (f" of {machine.size(total)}" if total and usable < total else "")
    if usable < _MEMORY:
        return Finding("note", "memory", text, f"{machine.size(_MEMORY)} is comfortable; close other programs")
    return Finding("ok", "memory", text)


def _disk():
    free = machine.free_bytes(ROOT)
    if free < _DISK:
        way = f"free {machine.size(_DISK - free)} on the disk of {ROOT}"
        return Finding("problem", "disk", f"{machine.size(free)} free, {machine.size(_DISK)} needed", way)
    return Finding("ok", "disk", f"{machine.size(free)} free")


def _accelerator():
    gpus = machine.nvidia_gpus()
    torch = _version("torch")
    cuda_build = any(name.startswith(("nvidia-", "cuda-")) for name in _installed()) or "+cu" in (torch or "")
    if gpus and torch and not cuda_build:
        text = f"{'; '.join(gpus)}, but torch {torch} is a build without CUDA"
        return Finding("note", "accelerator", text, "./lab start --torch cuda installs the other build")
    if gpus:
        return Finding("ok", "accelerator", "; ".join(gpus))
    if sys.platform == "darwin" and platform.machine() == "arm64":
        return Finding("ok", "accelerator", "Apple GPU (torch calls it mps)")
    if Path("/dev/kfd").exists():
        return Finding("ok", "accelerator", "an AMD GPU, which the course does not use; every lesson runs without one")
    return Finding("ok", "accelerator", "none found; every lesson runs without one")


def _installed():
    return [(dist.name or "").lower() for dist in metadata.distributions()]


def _workspace():
    try:
        folder = workspace()
    except LabError as error:
        return Finding("problem", "workspace", f"{error.what}: {error.why}", error.next_step)
    parent = next(path for path in (folder, *folder.parents) if path.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        way = "make it writable, or set LAB_WORK to a folder that is"
        return Finding("problem", "workspace", f"{folder} cannot be written to", way)
    return Finding("ok", "workspace", f"{folder}" + ("" if folder.exists() else " (lab start makes it)"))


def _browser():
    named = os.environ.get("LAB_CHROMIUM")
    found = named or next((path for name in _BROWSERS if (path := shutil.which(name))), None)
    if found:
        return Finding("ok", "browser", f"{found}, for the browser tests")
    way = {"linux": "sudo apt install chromium", "darwin": "brew install --cask chromium"}.get(sys.platform)
    text = "no Chromium on the PATH or in LAB_CHROMIUM; only ./lab test uses one, and skips those tests"
    return Finding("note", "browser", text, way or "install Chromium or Chrome")


def _bubblewrap():
    if path := shutil.which("bwrap"):
        return Finding("ok", "bubblewrap", f"{path}, for `lab grade --clean-run`")
    text = "not found; only `lab grade --clean-run` needs it"
    return Finding("note", "bubblewrap", text, "sudo apt install bubblewrap")
