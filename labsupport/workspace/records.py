"""Releases of the course as notebooks, checked before anything is concluded from them; and what no check foresaw."""

import traceback
from pathlib import Path

from labsupport.errors import LabError
from labsupport.reading import load

__all__ = ["load_release", "went_wrong"]


def load_release(path, rebuilt_by=None):
    """Return the notebook of a release, as `lab build` made it.

    Args:
        path: a built notebook, or the record of one.
        rebuilt_by: the command that makes the file anew, told with an error.

    Raises:
        LabError: it cannot be read, or tools have changed it: its cells have no ids of their own any more.
    """
    try:
        notebook = load(path)
        reason = _why_not_a_release(notebook)
    except LabError as error:
        reason = error.why or error.what
    if reason:
        raise LabError(
            f"notebooks/{path.name}, as the course ships it, cannot be used", why=reason, next_step=rebuilt_by
        )
    return notebook


def _why_not_a_release(notebook):
    names = [cell.get("id") for cell in notebook["cells"]]
    if None in names:
        return f"cell {names.index(None) + 1} has no id"
    if len(set(names)) < len(names):
        return "two of its cells have one id"
    for number, cell in enumerate(notebook["cells"], 1):
        tags = cell["metadata"].get("tags", [])
        if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
            return f"cell {number} has tags that are not a list of words"
    return None


def went_wrong(path, done, error):
    """Return the `LabError` for a copy with which something happened that nobody foresaw.

    Args:
        path: the learner's copy; files are written whole, so it is the old one or the new one.
        done: what was to be done to it: `updated` or `reset`.
        error: the exception.
    """
    what = f"{path.name} was not {done}"
    if isinstance(error, OSError):
        named = f"{error.filename}: " if error.filename else ""
        return LabError(
            what, why=f"{named}{error.strerror or error}", next_step="put that right, then repeat the command"
        )
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(frame.filename).name}, line {frame.lineno}"
    return LabError(
        what,
        why=f"{type(error).__name__}: {str(error)[:200]} ({where}); this is a mistake in lab, not yours",
        next_step="your notebook is whole; please report this with a copy of it",
    )
