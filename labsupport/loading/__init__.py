"""Datasets that workers can import, and a loader that runs on a clock of its own.

A class from a notebook cell exists in the notebook's process only; a worker that is spawned looks for it by its
module's name. So everything that lesson 12 sends to workers stands here. Nothing loads torch before it is used.
"""

import importlib

_HOME = {
    "Photos": "photos", "DecodedPhotos": "photos",
    "Paced": "paced", "Tiny": "paced", "busy_step": "paced",
    "Hours": "hours", "RemoteHours": "hours",
    "CountingSampler": "workers", "EpochSampler": "workers",
    "Jitter": "workers", "NoisyInit": "workers", "Who": "workers",
    "NameList": "names", "NameBuffer": "names", "file_names": "names", "worker_megabytes": "memory",
    "start_method": "starting",
    "trace": "tracing", "TRACES": "tracing",
    "play": "clock", "steady_ms": "clock",
}  # fmt: skip

__all__ = list(_HOME)


def __getattr__(name):
    if name in _HOME:
        return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
