"""Where things lie: the course (read-only for a learner) and the workspace (theirs)."""

import os
from pathlib import Path

__all__ = ["DATA", "NOTEBOOKS", "ROOT", "SOURCE", "workspace"]

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = ROOT / "notebooks"
SOURCE = NOTEBOOKS / "source"
DATA = ROOT / "data"


def workspace():
    """Return the learner's folder: `LAB_WORK` when set, else `work/` beside the course."""
    return Path(os.environ.get("LAB_WORK") or ROOT / "work").resolve()
