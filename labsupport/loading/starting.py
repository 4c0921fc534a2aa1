"""Which start method the lesson's workers use, said out loud so that no system decides it."""

import sys

__all__ = ["start_method"]


def start_method():
    """Return "fork" on Linux, where it starts within milliseconds, and "spawn" elsewhere.

    Python's own default differs: spawn on macOS and Windows; on Linux fork up to 3.13 and forkserver from 3.14.
    """
    return "fork" if sys.platform == "linux" else "spawn"
