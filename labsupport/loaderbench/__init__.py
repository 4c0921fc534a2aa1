"""Measure a DataLoader over your own Dataset: `loaderbench(dataset)`, `record(dataset)`, or the command line.

    python -m labsupport.loaderbench MODULE:FACTORY

Nothing here loads torch before it is used.
"""

import importlib

_HOME = {
    "record": "recording",
    "Run": "runs",
    "bench": "sweeping",
    "Report": "reports",
    "compare": "comparing",
}

__all__ = list(_HOME)


def __getattr__(name):
    if name in _HOME:
        return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
