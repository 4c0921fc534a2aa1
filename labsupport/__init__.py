"""The ML engineering lab: `from labsupport import lesson` is all a notebook needs.

Everything is imported when first asked for, so that this import is quick.
"""

__version__ = "0.1.0"
__all__ = ["LabError", "lesson", "progress"]

_HOME = {"LabError": "labsupport.errors", "lesson": "labsupport.live", "progress": "labsupport.live"}


def __getattr__(name):
    if name not in _HOME:
        raise AttributeError(f"module 'labsupport' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__():
    return sorted([*__all__, "__version__"])
