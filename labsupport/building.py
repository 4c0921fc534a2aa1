"""Notebooks from text: `notebooks/source/05_strides.py` becomes `notebooks/05_strides.ipynb`, always the same bytes.

A notebook in memory is a plain dict in the shape of nbformat 4.5 whose cells hold their `source` as one text.
"""

import ast
import hashlib
import json
import re
from dataclasses import dataclass, field
from pathlib import Path

from labsupport.catalog import find_lesson, marker_of
from labsupport.errors import LabError, UsageError
from labsupport.places import NOTEBOOKS, SOURCE
from labsupport.reading import shown, text_of_source

__all__ = [
    "FOREIGN", "SourceCell", "build", "built", "checks_in", "content_id", "dump", "exercise_id_of", "graft",
    "read_source", "sources",
]  # fmt: skip

KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
FOREIGN = frozenset("bash cmd html javascript js latex markdown perl ruby script sh svg writefile".split())

_SOURCE_NAME = re.compile(r"^([0-9]{2}_[a-z0-9_]+|home)\.py$")
_CHECK = re.compile(r"^\s*lab\.check\(\s*[\"']([\w/-]+)[\"']", re.MULTILINE)
_CELL_MAGIC = re.compile(r"^# (%%[A-Za-z].*)$")
_LINE_MAGIC = re.compile(r"^(\s*)# (%[A-Za-z].*)$")


@dataclass(frozen=True)
class SourceCell:
    """One cell as written: `kind` is code, markdown or raw, `line` is where its text starts in the source, 1-based."""

    kind: str
    text: str
    line: int
    options: dict = field(default_factory=dict)


def sources(names=()):
    """Return the source files of the named lessons (`home` counts), or all of them, in course order.

    Raises:
        LabError: a name is neither `home` nor a lesson that is written.
    """
    found = sorted(path for path in SOURCE.glob("*.py") if _SOURCE_NAME.match(path.name))
    if not names:
        return found
    stems = [_stem(name) for name in names]
    wanted = ["home" if stem == "home" else find_lesson(stem).notebook.removesuffix(".ipynb") for stem in stems]
    missing = [stem for stem in wanted if not (SOURCE / f"{stem}.py").is_file()]
    if missing:
        raise UsageError(f"there is no source called {missing[0]}.py", next_step=f"look in {shown(SOURCE)}")
    return [SOURCE / f"{stem}.py" for stem in dict.fromkeys(wanted)]


def _stem(name):
    return re.split(r"[/\\]", str(name))[-1].removesuffix(".ipynb").removesuffix(".py")


def built(source):
    """Return the path of the notebook that `source` becomes."""
    return NOTEBOOKS / f"{Path(source).stem}.ipynb"


def read_source(source):
    """Return the cells of a py:percent source, in order, each with the line it starts on.

    `# %%name` on a cell's first line and `# %name` anywhere become magics. jupytext would also wake comments
    such as `# cat the rows` or `# why?`, so its own rule is switched off.

    Raises:
        LabError: the source cannot be read as text.
    """
    text = text_of_source(source)
    lines = text.splitlines()
    skipped = _header_length(lines)
    body = "\n".join(lines[skipped:]) + "\n"
    import jupytext  # half a second, and only authors need it

    percent = {"extension": ".py", "format_name": "percent", "comment_magics": False}
    cells, cursor = [], skipped
    for cell in jupytext.reads(body, fmt=percent).cells:
        cursor = _first_line(lines, cursor, may_be_bare=not cells)
        text = cell.source.rstrip()
        cursor += len(text) - len(text.lstrip("\n"))
        text = _woken(text.lstrip("\n")) if cell.cell_type == "code" else text.lstrip("\n")
        cells.append(SourceCell(cell.cell_type, text, cursor + 1, dict(cell.metadata)))
        cursor += text.count("\n") + 1 if text else 0
    return cells


def _header_length(lines):
    """Return how many lines to leave out before the first cell: jupytext's header and blank lines."""
    end = 0
    if lines and lines[0].strip() == "# ---":
        end = next((n for n, line in enumerate(lines[1:], 2) if line.strip() == "# ---"), 0)
    while end < len(lines) and not lines[end].strip():
        end += 1
    return end


def _first_line(lines, cursor, may_be_bare):
    """Return the index of the line after the next cell marker; the very first cell may have no marker."""
    for index in range(cursor, len(lines)):
        if re.match(r"^# %%(\s|$)", lines[index]):
            return index + 1
        if may_be_bare and lines[index].strip():
            return index
    return cursor


def _woken(text):
    first, *rest = text.split("\n")
    magic = _CELL_MAGIC.match(first)
    if magic and re.match(r"%%(\w+)", magic[1])[1] in FOREIGN:
        return "\n".join([magic[1], *(re.sub(r"^# ?", "", line) for line in rest)])
    head = magic[1] if magic else _LINE_MAGIC.sub(r"\1\2", first)
    return "\n".join([head, *(_LINE_MAGIC.sub(r"\1\2", line) for line in rest)])


def build(source):
    """Return the notebook (a dict) that a source file becomes: no outputs, ids derived from what the cells say."""
    prefix = re.sub(r"^\d\d_", "", Path(source).stem).replace("_", "-")
    seen, cells = {}, []
    for written in read_source(source):
        name = _cell_id(written.kind, written.text, prefix)
        seen[name] = seen.get(name, 0) + 1
        cell = {
            "cell_type": written.kind,
            "id": name if seen[name] == 1 else f"{name}-{seen[name]}",
            "metadata": {"tags": list(written.options["tags"])} if written.options.get("tags") else {},
            "source": written.text,
        }
        if written.kind == "code":
            cell |= {"execution_count": None, "outputs": []}
        cells.append(cell)
    return {"cells": cells, "metadata": {"kernelspec": dict(KERNEL)}, "nbformat": 4, "nbformat_minor": 5}


def _cell_id(kind, text, prefix):
    if kind == "code" and (exercise := marker_of(text)):
        return exercise_id_of(exercise)
    if kind == "code" and (checked := checks_in(text)):
        return exercise_id_of(checked[0] if "/" in checked[0] else f"{prefix}/{checked[0]}", "check")
    return content_id(kind, text)


def content_id(kind, text):
    """Return the cell id that says what the cell says: 8 hex digits of its SHA-256."""
    return hashlib.sha256(f"{kind}\n{text}".encode("utf-8", "surrogatepass")).hexdigest()[:8]


def exercise_id_of(exercise, role="ex"):
    """Return the cell id of an exercise's answer cell (`role="check"`: of its check), at most 60 characters."""
    name = f"{role}-{exercise.replace('/', '-')}"
    return name if len(name) <= 60 else f"{name[:51]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def checks_in(text):
    """Return the ids given to `lab.check` in a code cell, as written."""
    return _CHECK.findall(text) if "lab.check(" in text else []


def dump(notebook):
    """Return a notebook as text exactly as nbformat writes it: sorted keys, LF, one newline at the end."""
    cells = [cell | {"source": cell["source"].splitlines(keepends=True)} for cell in notebook["cells"]]
    whole = notebook | {"cells": cells}
    text = _json(whole, ascii_only=False)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:  # half a surrogate pair, kept as the escape it came as
        text = _json(whole, ascii_only=True)
    return text + "\n"


def _json(value, ascii_only):
    return json.dumps(value, ensure_ascii=ascii_only, indent=1, sort_keys=True, separators=(",", ": "))


def graft(notebook, answers):
    """Return a copy of `notebook` with `answers` ({exercise id: source}) in its exercise cells, markers kept.

    Raises:
        LabError: the notebook has no cell for one of the exercises.
    """
    cells, left = [], dict(answers)
    for cell in notebook["cells"]:
        marker = marker_of(cell["source"]) if cell["cell_type"] == "code" else None
        if marker in left:
            source = _grafted(left.pop(marker), marker, cell["source"])
            cell = cell | {"source": source, "outputs": [], "execution_count": None}
        cells.append(cell)
    if left:
        raise LabError(f"the notebook has no cell for {', '.join(left)}", next_step="look for its marker comment")
    return notebook | {"cells": cells}


def _grafted(source, exercise, shipped):
    """Return an answer as the text of its cell: marked, and where ranks run the cell, with all that they need."""
    if not shipped.startswith("%%") or source.startswith("%%"):
        return _marked(source, exercise)
    magic, _, stub = shipped.partition("\n")
    lines = source.strip("\n").split("\n")
    body = "\n".join(line for line in lines if line != f"# {magic}" and marker_of(line) != exercise).strip("\n")
    imports, guard = _around(stub, body)
    parts = [f"{magic}\n# exercise: {exercise}", *([imports] if imports else []), body, *([guard] if guard else [])]
    return "\n".join([parts[0], "\n\n".join(parts[1:])])


def _around(stub, body):
    """Return what of a stub an answer lacks to run by itself: its imports, and what it does when it is the program."""
    try:
        shipped, own = ast.parse(stub).body, ast.parse(body).body
    except (SyntaxError, ValueError):
        return "", ""
    known = {ast.unparse(node) for node in own}
    imports = [node for node in shipped if isinstance(node, ast.Import | ast.ImportFrom)]
    guards = [node for node in shipped if _is_guard(node)]
    lacking = [ast.get_source_segment(stub, node) for node in imports if ast.unparse(node) not in known]
    guard = ast.get_source_segment(stub, guards[-1]) if guards and not any(map(_is_guard, own)) else ""
    return "\n".join(lacking), guard


def _is_guard(node):
    return isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)


def _marked(source, exercise):
    source = source.strip("\n")
    if marker_of(source) == exercise:
        return source
    line = f"# exercise: {exercise}"
    if source.startswith("%%"):  # a cell magic only works on the first line
        magic, _, rest = source.partition("\n")
        return f"{magic}\n{line}\n{rest}"
    return f"{line}\n{source}"
