"""What this machine is, in a few lines for a lesson; nothing heavy is imported to find out."""

import importlib.metadata
import platform
import sys

from labsupport.environment import machine

__all__ = ["report"]

_VERSIONS = ("numpy", "torch", "jupyterlab", "zarr", "h5py")


def report():
    """Return (label, text) pairs: system, cores this process may use, memory (powers of ten), accelerator, versions."""
    usable, _, why = machine.cores()
    memory, _ = machine.memory_bytes()
    return [
        ("system", f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"),
        ("cores", f"{usable:g} usable" + (f" ({why})" if why else "")),
        ("memory", machine.size(memory) if memory else "not told by this system"),
        ("accelerator", _accelerator()),
        ("versions", ", ".join(f"{name} {_version(name)}" for name in _VERSIONS)),
    ]


def _accelerator():
    if gpus := machine.nvidia_gpus():
        return ", ".join(gpus)
    if sys.platform == "darwin" and platform.machine() == "arm64":
        return "Apple GPU (MPS)"
    return "none found; every lesson runs without one"


def _version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
