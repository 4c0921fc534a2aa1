"""What every rule looks at: one lesson's source as cells, and the problems found in it."""

import ast
import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from labsupport import building, catalog
from labsupport.reading import text_of_source

__all__ = ["KERNEL_MAGICS", "Problem", "Text", "magic_of", "prose_of", "python_of", "tree_of"]

# Their bodies run in the notebook's own kernel and share its names; every other magic's body is a program of its own.
KERNEL_MAGICS = frozenset("capture prun time timeit".split())

_MAGIC = re.compile(r"^%%(\w+)")


@dataclass(frozen=True)
class Problem:
    """One finding: where, which rule, what is there, why that matters, and what to do.

    Args:
        cell: index of the cell, or -1 for the file as a whole; an allowance on that cell can lift it.
    """

    rule: str
    line: int
    what: str
    why: str
    next: str
    cell: int = -1


@dataclass
class Text:
    """One source file: `slug` is None for the home notebook, `cells` are `building.SourceCell`s."""

    path: Path
    cells: list
    slug: str | None = None
    outputs: list | None = None  # per cell the text it printed, once the notebook was run
    lines: list = field(default_factory=list)

    @classmethod
    def of(cls, path):
        path = Path(path)
        slug = None if path.stem == "home" else re.sub(r"^\d\d_", "", path.stem)
        lines = text_of_source(path).splitlines()
        return cls(path, building.read_source(path), slug, lines=lines)

    @cached_property
    def exercises(self):
        """The exercises of this lesson's module, as {id: Exercise}."""
        return {exercise.id: exercise for exercise in catalog.exercises(self.slug)} if self.slug else {}

    def of_kind(self, kind):
        """Return [(index, cell)] of one kind."""
        return [(index, cell) for index, cell in enumerate(self.cells) if cell.kind == kind]

    def at(self, index, needle):
        """Return the line of the source on which `needle` first appears in a cell, or the cell's first line."""
        for offset, line in enumerate(self.cells[index].text.split("\n")):
            if needle in line:
                return self.cells[index].line + offset
        return self.cells[index].line


def magic_of(text):
    """Return the name of the cell magic a code cell starts with, or None."""
    match = _MAGIC.match(text)
    return match[1] if match else None


def python_of(text):
    """Return a code cell with IPython's own lines replaced by `pass`, line for line; "" for a cell magic apart."""
    magic = magic_of(text)
    if magic and magic not in KERNEL_MAGICS:
        return ""
    return "\n".join(re.sub(r"\S.*", "pass", line) if _is_ipython(line) else line for line in text.split("\n"))


def _is_ipython(line):
    return line.lstrip().startswith(("%", "!")) or bool(re.match(r"^\s*[\w.]+\?{1,2}\s*$", line))


def tree_of(text):
    """Return the syntax tree of a code cell, or an empty one when it does not parse (ruff reports that)."""
    try:
        return ast.parse(python_of(text))
    except (SyntaxError, ValueError):
        return ast.parse("")


def prose_of(text):
    """Return markdown with code, formulas, addresses and tags blanked out, line for line."""
    text = re.sub(r"^(```|~~~).*?^\1", _blank, text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"(`+).+?\1", _blank, text, flags=re.DOTALL)
    text = re.sub(r"\$\$?[^$]+\$\$?", _blank, text)
    text = re.sub(r"\]\([^)]*\)", _blank, text)
    return re.sub(r"https?://\S+|<[^>\n]+>", _blank, text)


def _blank(match):
    return re.sub(r"[^\n]", " ", match[0])
