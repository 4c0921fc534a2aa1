"""Reading what lessons are kept in, sources and notebooks; what is wrong with a file is told with its name.

A notebook in memory is a plain dict in the shape of nbformat 4.5 whose cells hold their `source` as one text.
"""

import json
import re
from pathlib import Path

from labsupport.errors import LabError
from labsupport.places import ROOT

__all__ = ["load", "shown", "text_of_source"]


def text_of_source(source):
    """Return the text of a source file.

    Raises:
        LabError: it cannot be opened, or is not text in UTF-8; says which file.
    """
    path = Path(source)
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise LabError(f"{shown(path)} cannot be read", why=_why_closed(path, error)) from None
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        why = f"line {line} is not text in UTF-8"
        raise LabError(f"{shown(path)} cannot be read", why=why, next_step="save it as UTF-8") from None


def _why_closed(path, error):
    return "it is a folder" if path.is_dir() else error.strerror or str(error)


def load(path):
    """Return the notebook stored at `path`, every source as one text.

    What only says how cells are named and numbered is mended, since no answer hangs on it: an id that is not text
    is left out, a format's minor number that is not a whole number becomes 5.

    Raises:
        LabError: the file is missing, unreadable, not JSON, not a notebook, or older than format 4.
    """
    path = Path(path)
    try:
        notebook = json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise LabError(f"there is no notebook {shown(path)}", next_step="lab start copies lessons to work/") from None
    except OSError as error:
        raise LabError(f"{shown(path)} cannot be opened", why=_why_closed(path, error)) from None
    except UnicodeDecodeError:
        raise _not_a_notebook(path, "it is not text in UTF-8") from None
    except (ValueError, RecursionError):
        raise _not_a_notebook(path, _why_not_json(path)) from None
    if reason := _why_not_a_notebook(notebook):
        raise _not_a_notebook(path, reason)
    notebook.setdefault("metadata", {})
    if type(notebook.get("nbformat_minor", 5)) is not int:
        notebook["nbformat_minor"] = 5
    for cell in notebook["cells"]:
        cell["source"] = "".join(cell["source"])
        cell.setdefault("metadata", {})
        if not isinstance(cell.get("id"), str):
            cell.pop("id", None)
    return notebook


def _why_not_json(path):
    text = path.read_text(encoding="utf-8-sig")
    if not text.strip():
        return "the file is empty"
    if re.search(r"^(<<<<<<<|>>>>>>>) ", text, re.MULTILINE):
        return "it holds the conflict markers of a git merge"
    return "it is not complete JSON: it ends early or was edited by hand"


def _why_not_a_notebook(value):
    if not isinstance(value, dict) or not isinstance(value.get("nbformat"), int):
        return "it is JSON, but not a notebook"
    if value["nbformat"] != 4:
        return f"it is in notebook format {value['nbformat']}, and the course writes format 4"
    cells = value.get("cells")
    if not isinstance(cells, list):
        return "it is JSON, but its cells are missing"
    if not isinstance(value.get("metadata", {}), dict):
        return "its metadata is not a table"
    for number, cell in enumerate(cells, 1):
        if not isinstance(cell, dict) or cell.get("cell_type") not in ("code", "markdown", "raw"):
            return f"cell {number} is not a notebook cell"
        text = cell.get("source")
        if not isinstance(text, str | list) or not all(isinstance(part, str) for part in text):
            return f"cell {number} has no text"
        if not isinstance(cell.get("metadata", {}), dict):
            return f"cell {number} has metadata that is not a table"
    return None


def _not_a_notebook(path, why):
    return LabError(
        f"{shown(path)} cannot be read as a notebook",
        why=why,
        next_step="the file is left as it is: repair it, take a copy from .lab/backups, "
        "or move it away and run `lab start` for a fresh one",
    )


def shown(path):
    """Return a path as people read it: below the course when it lies there."""
    path = Path(path)
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else str(path)
