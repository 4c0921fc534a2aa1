"""Where things lie: the course (read-only for a learner) and the workspace (theirs)."""

import errno
import os
import sys
from pathlib import Path

from labsupport.errors import LabError

__all__ = ["DATA", "NOTEBOOKS", "ROOT", "SOURCE", "command", "workspace"]

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = ROOT / "notebooks"
SOURCE = NOTEBOOKS / "source"
DATA = ROOT / "data"


def command():
    """Return how the course's command is typed here: `./lab`, on Windows `py lab`; `lab` where it was installed."""
    launcher = ROOT / "lab"
    called = Path(sys.argv[0] if sys.argv else "")
    installed = called.stem == "lab" and called.parent.resolve() != ROOT
    if installed or not launcher.is_file():
        return "lab"
    return "py lab" if os.name == "nt" else "./lab"


_NOWHERE = (errno.ELOOP, errno.ENAMETOOLONG)


def workspace():
    """Return the learner's folder: `LAB_WORK` when set, else `work/` beside the course; it need not be there yet.

    Raises:
        LabError: its name can lead nowhere: links in a circle, or longer than the system allows.
    """
    named = Path(os.environ.get("LAB_WORK") or ROOT / "work")
    try:
        folder = named.resolve()
        folder.stat()
    except (OSError, RuntimeError) as error:  # before Python 3.13 a circle of links is a RuntimeError
        if isinstance(error, RuntimeError) or error.errno in _NOWHERE:
            raise _leads_nowhere(named, error) from None
    return folder


def _leads_nowhere(named, error):
    circle = isinstance(error, RuntimeError) or error.errno == errno.ELOOP
    return LabError(
        f"the workspace cannot be at {named}",
        why="its links lead in a circle" if circle else error.strerror,
        next_step="set LAB_WORK to another folder, or unset it to use work/ beside the course",
    )
