"""What this machine is, in a few lines; nothing heavy is imported to find out."""

import importlib.metadata
import os
import platform
import shutil
import sys

__all__ = ["cores", "report"]

_VERSIONS = ("numpy", "torch", "jupyterlab", "zarr", "h5py")


def cores():
    """Return how many cores this process may use (its affinity, where the system has one)."""
    if hasattr(os, "process_cpu_count"):
        return os.process_cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def report():
    """Return (label, text) pairs: system, cores, memory in GB (10^9 bytes), accelerator, versions."""
    import psutil

    memory = psutil.virtual_memory()
    return [
        ("system", f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"),
        ("cores", f"{cores()} usable"),
        ("memory", f"{memory.total / 1e9:.1f} GB, {memory.available / 1e9:.1f} GB free"),
        ("accelerator", _accelerator()),
        ("versions", ", ".join(f"{name} {_version(name)}" for name in _VERSIONS)),
    ]


def _accelerator():
    if shutil.which("nvidia-smi"):
        return "NVIDIA driver found"
    if sys.platform == "darwin" and platform.machine() == "arm64":
        return "Apple GPU (MPS)"
    return "none found; every lesson runs without one"


def _version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
