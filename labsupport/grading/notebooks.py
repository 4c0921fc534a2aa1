"""A notebook file as cells, read with suspicion: bytes in, cells and notes out, nothing else in the file believed.

Metadata, outputs, tags, counts and kernels are not looked at. What cannot be read is told with a way to repair it.
"""

import io
import json
import os
import re
import stat
from dataclasses import dataclass

from labsupport.errors import LabError
from labsupport.grading.cells import MAX_TEXT, Cell

__all__ = ["MAX_BYTES", "Notebook", "Unreadable", "open_file", "read_bytes", "read_notebook"]

MAX_BYTES = 20 * 1024 * 1024
MAX_PARTS = 2_000_000  # brackets, braces and commas of the JSON: a bound on the objects Python makes of it
MAX_CELLS = 1_000
MAX_CODE = 150_000  # characters of all code cells
MAX_PROSE = 1_000_000  # characters of all text cells, very long ones counted in part

_SAVE_AGAIN = "Open it in JupyterLab, save it there, and hand in that file."
_FROM_BACKUP = "Hand in the file JupyterLab saved, or a copy from `.lab/backups/`."
_CONFLICT = re.compile(rb"^(<<<<<<<|>>>>>>>) ", re.MULTILINE)
_SURROGATE = re.compile("[\ud800-\udfff]")


class Unreadable(LabError):
    """A file that cannot be read as a notebook; `what` says why in a sentence, `next_step` how to repair it."""

    def __init__(self, why, repair):
        super().__init__(why, next_step=repair)


@dataclass(frozen=True)
class Notebook:
    """The cells of a notebook in order, and sentences about what was odd."""

    cells: tuple[Cell, ...]
    notes: tuple[str, ...] = ()


def open_file(path, *, follow=False):
    """Return a file opened for reading, unbuffered.

    Args:
        path: the file.
        follow: whether a symbolic link is followed: somebody's link could lead to somebody else's answers.

    Raises:
        Unreadable: it is a link, a folder, a device, a pipe, or cannot be opened.
    """
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    if not follow:
        if path.is_symlink():
            raise Unreadable("It is a link to another file, which is not followed.", "Hand in the file itself.")
        flags |= getattr(os, "O_NOFOLLOW", 0)
    try:
        file = os.fdopen(os.open(path, flags), "rb", buffering=0)
    except OSError as error:
        raise Unreadable(f"It cannot be opened ({error.strerror}).", "Make the file readable and try again.") from None
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise Unreadable("It is not a file but a pipe or a device.", "Hand in the file itself.")
    return file


def read_bytes(path, *, follow=False):
    """Return the bytes of a file, one more than MAX_BYTES at most; `open_file` says the rest."""
    with open_file(path, follow=follow) as raw, io.BufferedReader(raw) as file:
        return file.read(MAX_BYTES + 1)


def read_notebook(data):
    """Return the `Notebook` in a file's bytes.

    Raises:
        Unreadable: the file is too large, not UTF-8, not JSON, not a notebook, or of another format than 4.
    """
    if len(data) > MAX_BYTES:
        why = f"It is larger than the {MAX_BYTES // 1024**2} MB a notebook may have; outputs are what grows."
        raise Unreadable(why, "In JupyterLab: Edit, Clear Outputs of All Cells, then save.")
    content = _json(data)
    _must_be_a_notebook(content)
    notes = [] if content.get("nbformat") == 4 else ["The file does not say its format; it was read as format 4."]
    cells, broken = [], []
    for number, cell in enumerate(content["cells"], 1):
        made = _cell(number, cell, notes)
        (cells if made else broken).append(made or number)
    if broken and not cells:
        raise Unreadable("None of its cells can be read.", _SAVE_AGAIN)
    if broken:
        notes.append(f"Cells that cannot be read were passed over: number {', '.join(map(str, broken[:10]))}.")
    return Notebook(_not_too_much_code(cells, notes), tuple(notes))


def _json(data):
    if not data.strip(b"\x00 \t\r\n"):
        raise Unreadable("The file is empty.", _FROM_BACKUP)
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise Unreadable("It is text in UTF-16; a notebook is UTF-8.", _SAVE_AGAIN)
    if data[:2] == b"PK" or data[:2] == b"\x1f\x8b":
        raise Unreadable("It is an archive with the name of a notebook.", "Give it the ending `.zip` or `.tar.gz`.")
    if sum(map(data.count, (b"[", b"{", b","))) > MAX_PARTS:
        raise Unreadable(
            f"It has more than {MAX_PARTS:,} parts; outputs are what grows.", "Clear the outputs and save it."
        )
    try:
        text = data.decode("utf-8-sig")
        # Numbers are of no interest beyond the format's: none is worth the time a very long one takes.
        return json.loads(text, parse_int=_short_int, parse_float=_nothing, parse_constant=_nothing, strict=False)
    except UnicodeDecodeError as error:
        why = f"It is not text in UTF-8 (byte {error.start:,} does not belong)."
        raise Unreadable(why, _SAVE_AGAIN) from None
    except RecursionError:
        raise Unreadable("It is nested more deeply than a notebook is.", _SAVE_AGAIN) from None
    except ValueError as error:
        raise Unreadable(_why_not_json(data, error), _FROM_BACKUP) from None


def _short_int(text):
    return int(text) if len(text) <= 10 else None


def _nothing(text):
    return None


def _why_not_json(data, error):
    if _CONFLICT.search(data):
        return "It holds the conflict markers of a git merge, so it is no complete notebook."
    if data.rstrip()[-1:] != b"}" and data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{":
        return "It ends in the middle: the file was cut off."
    line = getattr(error, "lineno", 0)
    return f"It is not complete JSON (line {line:,})."


def _must_be_a_notebook(content):
    if not isinstance(content, dict) or not ({"cells", "worksheets", "nbformat"} & set(content)):
        raise Unreadable("It is JSON, but not a notebook.", _SAVE_AGAIN)
    version, cells = content.get("nbformat"), content.get("cells")
    if version != 4 and (isinstance(version, int) or not isinstance(cells, list)):
        said = f"notebook format {version}" if isinstance(version, int) else "an old notebook format"
        newer = isinstance(version, int) and version > 4
        repair = "Save it with a JupyterLab of today." if newer else _SAVE_AGAIN
        raise Unreadable(f"It is in {said}; format 4 is read here.", repair)
    if not isinstance(cells, list):
        raise Unreadable("It is a notebook without a list of cells.", _SAVE_AGAIN)
    if len(cells) > MAX_CELLS:
        raise Unreadable(
            f"It has {len(cells):,} cells; a notebook may have {MAX_CELLS:,}.", "Take out what is not the lesson's."
        )


def _cell(number, cell, notes):
    """Return a `Cell`, or None when it has no kind or no text."""
    kind, source = (cell.get("cell_type"), cell.get("source")) if isinstance(cell, dict) else (None, None)
    if isinstance(source, list) and all(isinstance(part, str) for part in source):
        source = "".join(source)
    if kind not in ("code", "markdown", "raw") or not isinstance(source, str):
        return None
    text = source.replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff")
    if _SURROGATE.search(text):
        notes.append(f"Cell {number} holds half characters (lone surrogates); they were replaced.")
        text = _SURROGATE.sub("\ufffd", text)
    name = cell.get("id")
    return Cell(number, _SURROGATE.sub("", name)[:100] if isinstance(name, str) else "", kind, text)


def _not_too_much_code(cells, notes):
    """Return the cells; code beyond MAX_CODE and text beyond MAX_PROSE are left out, since each line is looked into."""
    limits = {True: MAX_CODE, False: MAX_PROSE}
    kept, used, left = [], {True: 0, False: 0}, {True: [], False: []}
    for cell in cells:
        is_code = cell.kind == "code"
        size = len(cell.text) if is_code else min(len(cell.text), MAX_TEXT)
        if used[is_code] + size > limits[is_code]:
            left[is_code].append(cell.number)
        else:
            kept.append(cell)
            used[is_code] += size
    for is_code, numbers in left.items():
        if numbers:
            many = f"{', '.join(map(str, numbers[:10]))}{' and more' if len(numbers) > 10 else ''}"
            kind = "code" if is_code else "text"
            notes.append(
                f"The {kind} cells together have more than {limits[is_code]:,} characters; left out: cell {many}."
            )
    return tuple(kept)
