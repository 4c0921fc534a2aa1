"""What this machine is: Python, system, processors, memory, disk, accelerator. Standard library only.

Used by the launcher before anything is installed and by `lab doctor`.
"""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

from labsupport.errors import LabError

__all__ = ["cores", "free_bytes", "memory_bytes", "nvidia_gpus", "size", "wheel_problem"]

# torch 2.13.0 as released: CPython 3.10 to 3.14; manylinux_2_28 for x86_64 and aarch64; macOS 14 for arm64; win_amd64.
# Source: the file names of the release, asked from the package index with pip, read 2026-11.
_PYTHONS = ((3, 11), (3, 14))
_GLIBC = (2, 28)
_MACOS = (14, 0)


def wheel_problem(*, python=None, system=None, machine=None, libc=None, mac=None, bits=None):
    """Return the LabError that says why PyTorch cannot be installed here, or None when it can.

    Every argument stands for the fact of the same name about this machine and is asked from it when left out.
    """
    python = python or sys.version_info[:2]
    system = system or platform.system()
    machine = (machine or platform.machine()).lower()
    bits = bits or (64 if sys.maxsize > 2**32 else 32)
    what = f"PyTorch has no package for this machine: {system} {machine}, Python {python[0]}.{python[1]}"
    if not _PYTHONS[0] <= tuple(python[:2]) <= _PYTHONS[1]:
        return LabError(what, why="torch 2.13.0 exists for Python 3.10 to 3.14", next_step="use Python 3.11 to 3.14")
    if bits == 32:
        return LabError(what, why="this Python is a 32-bit build", next_step="install the 64-bit build of Python")
    check = {"Linux": _linux, "Darwin": _macos, "Windows": _windows}.get(system, _other)
    why, next_step = check(machine, libc, mac)
    return LabError(what, why=why, next_step=next_step) if why else None


def _linux(machine, libc, _):
    name, version = libc if libc is not None else platform.libc_ver()
    if machine not in ("x86_64", "aarch64", "amd64", "arm64"):
        return (
            "on Linux it exists for x86_64 and aarch64",
            "use the course on one of these, for example a cloud machine",
        )
    if name != "glibc":
        return (
            "on Linux it needs glibc; Alpine and other musl systems have none",
            "use a Debian, Ubuntu or Fedora image",
        )
    if _numbers(version) < _GLIBC:
        return (
            f"it needs glibc 2.28 or newer; this is {version}",
            "use a newer system (Debian 10, Ubuntu 20.04, RHEL 8 on)",
        )
    return None, None


def _macos(machine, _, mac):
    version = mac if mac is not None else platform.mac_ver()[0]
    if machine != "arm64":
        why = "on macOS it exists for Apple silicon only, and this Python is built for Intel"
        return why, "on Apple silicon install the arm64 Python from python.org; on an Intel Mac use a Linux machine"
    if _numbers(version) < _MACOS:
        return f"it needs macOS 14 or newer; this is {version}", "update macOS, or use a Linux machine"
    return None, None


def _windows(machine, _, __):
    if machine not in ("amd64", "x86_64"):
        return (
            "on Windows it exists for x86-64",
            "install the x86-64 Python (it runs on ARM too), or use a Linux machine",
        )
    return None, None


def _other(*_):
    return "it exists for Linux, macOS and Windows", "use the course on one of these"


def _numbers(version):
    parts = [int(part) for part in version.split(".") if part.isdigit()]
    return tuple(parts[:2]) if parts else (0, 0)


def nvidia_gpus():
    """Return the names of the NVIDIA GPUs with their memory, one string each; empty without a working driver."""
    smi = shutil.which("nvidia-smi")
    if smi is None:
        return [f"NVIDIA GPU {path.name}" for path in sorted(Path("/proc/driver/nvidia/gpus").glob("*"))]
    query = [smi, "--query-gpu=name,memory.total", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, encoding="utf-8", errors="replace", timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [line.strip() for line in done.stdout.splitlines() if line.strip()] if done.returncode == 0 else []


def cores():
    """Return (cores this process may use, cores of the machine, what limits it or None)."""
    total = os.cpu_count() or 1
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else total
    quota = _cgroup_cores()
    if quota is not None and quota < allowed:
        return quota, total, "a container limit"
    return allowed, total, "the process's affinity" if allowed < total else None


def _cgroup_cores(root=Path("/sys/fs/cgroup")):
    """Return the processor share a container is limited to, in cores, or None."""
    try:
        quota, period = (root / "cpu.max").read_text(encoding="ascii").split()
    except (OSError, ValueError):
        try:
            quota = (root / "cpu/cpu.cfs_quota_us").read_text(encoding="ascii").strip()
            period = (root / "cpu/cpu.cfs_period_us").read_text(encoding="ascii").strip()
        except OSError:
            return None
    return None if quota in ("max", "-1") else int(quota) / int(period)


def memory_bytes(cgroup=Path("/sys/fs/cgroup")):
    """Return (bytes this process may use, bytes of the machine); None for what the system does not tell."""
    total = _total_memory()
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        try:
            limit = int((cgroup / name).read_text(encoding="ascii"))
        except (OSError, ValueError):  # no such file, or the word "max"
            continue
        if total is None or limit < total:
            return limit, total
    return total, total


def _total_memory():
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:  # Linux, macOS
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        import psutil

        return psutil.virtual_memory().total
    except ImportError:
        return None


def free_bytes(path):
    """Return the bytes free on the disk that holds `path` (or would hold it, once made)."""
    path = Path(path)
    while not path.exists() and path != path.parent:
        path = path.parent
    return shutil.disk_usage(path).free


def size(count):
    """Return a number of bytes in words: `950 kB`, `87 MB`, `3.1 GB` (powers of ten, as disks are sold)."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= factor:
            value = count / factor
            return f"{value:.1f} {unit}" if unit == "GB" and value < 100 else f"{value:.0f} {unit}"
    return f"{count:.0f} bytes"
