"""One cell of somebody's notebook as a grader sees it: text, and what the text says when it is read as Python.

Nothing is executed. Reading is bounded: a text too long or nested too deeply is not looked into.
"""

import ast
import functools
import itertools
import re
import unicodedata
import warnings
from dataclasses import dataclass

from labsupport.answering import without_magic

__all__ = ["MAX_TEXT", "Cell", "bindings", "bound_by", "parse", "program_of", "refusal", "statement_key", "without"]

MAX_TEXT = 30_000  # characters of one cell; reading a longer one as Python would cost too much memory
MAX_DEPTH = 100  # levels of nested expressions and blocks
_SHORT = 3_000  # characters; as most answers have
_MOST_MARKS = 50  # marker comments of one cell
_MOST_BITS = 10_000  # of one number: Python writes no number of more than 4,300 digits

_GAP = r"[ \t]{0,8}"  # bounded: two gaps side by side would share an endless one out in every possible way
_MARKER = re.compile(
    rf"^[ \t]*#+{_GAP}exercise{_GAP}[:=]?{_GAP}([\w-]{{1,200}}){_GAP}/{_GAP}([\w-]{{1,200}})[ \t]*$", re.I | re.M
)
_BEGUN = re.compile(r"^(?:(?:async +)?def|class) +(\w+)|^(\w+) *=(?!=)", re.M)
_CHECK = re.compile(r"""^[ \t]*lab\s*\.\s*check\s*\(\s*["']([\w/-]+)["']""", re.M)
_DASHES = dict.fromkeys(map(ord, "‐‑‒–—−_"), "-")
_IPYTHON = re.compile(r"^([ \t]*)(%{1,2}[A-Za-z]|!|\?{1,2}\w)(.*)$|^([ \t]*)([\w.]+)\?{1,2}[ \t]*$", re.M)
_NOT_RUN = re.compile(r"\s*%%(?!time\b|timeit\b|capture\b|prun\b)")  # such a cell's body is not run as Python here
_CAPTURED = re.compile(r"^([ \t]*\w+[ \t]*=)[ \t]*([%!].*)$", re.M)


@dataclass(frozen=True)
class Cell:
    """A cell: `number` counts all cells from 1, as a reader would; `kind` is code, markdown or raw."""

    number: int
    id: str
    kind: str
    text: str

    @functools.cached_property
    def marks(self):
        """The exercise ids its marker comments name, with the position of each in the text."""
        text = self.text if self.kind == "code" else self.text[:MAX_TEXT]
        found = itertools.islice(_MARKER.finditer(text), _MOST_MARKS)
        return tuple((f"{_plain(m[1])}/{_plain(m[2])}", m.start()) for m in found)

    @functools.cached_property
    def marked(self):
        """The exercise ids its marker comments name."""
        return frozenset(exercise for exercise, _ in self.marks)

    @functools.cached_property
    def checks(self):
        """The ids it gives to `lab.check`, as written."""
        return frozenset(_CHECK.findall(self.text)) if self.kind == "code" else frozenset()

    @property
    def on_ranks(self):
        """Whether ranks run it: what it binds is theirs and not the notebook's."""
        return self.kind == "code" and without_magic(self.text) != self.text

    @functools.cached_property
    def program(self):
        """Its text as Python that can be parsed, IPython's own lines put aside; the text itself if it cannot be."""
        return program_of(self.text)

    @functools.cached_property
    def tree(self):
        """The syntax tree of `program`, or None."""
        return parse(self.program)

    @functools.cached_property
    def names(self):
        """The names its top-level statements bind; of code that is not Python yet, what its lines begin to bind."""
        if self.tree is None and self.kind == "code" and not _NOT_RUN.match(self.program):
            return frozenset(name for pair in _BEGUN.findall(self.text[:MAX_TEXT]) for name in pair if name)
        return frozenset(name for node in (self.tree.body if self.tree else ()) for name in bound_by(node))

    @functools.cached_property
    def statements(self):
        """Its top-level statements as comparable text, comments and layout aside."""
        return tuple(statement_key(node) for node in (self.tree.body if self.tree else ()))

    @property
    def empty(self):
        return not self.text.strip()


def _plain(name):
    return unicodedata.normalize("NFKC", name).translate(_DASHES).lower()


def parse(text):
    """Return the syntax tree of a text, or None when it is not Python, too long, or nested too deeply."""
    return _read(text)[0]


def refusal(text):
    """Return why a text may not be looked into at all, or ""; a mere slip in its grammar is no reason."""
    return _read(text)[1]


def _read(text):
    return (_read_short if len(text) <= _SHORT else _read_long)(text)


def _looked_into(text):
    if len(text) > MAX_TEXT:
        return None, f"it has {len(text):,} characters; an answer may have {MAX_TEXT:,}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return None, ""
    except (RecursionError, MemoryError):
        tree = None
    if tree is None or not _depth_within(tree, MAX_DEPTH):
        return None, f"it is nested more than {MAX_DEPTH} levels deep"
    if any(isinstance(node, ast.Constant) and _is_endless(node.value) for node in ast.walk(tree)):
        return None, "it holds a number of more than 3,000 digits"
    return tree, ""


# One candidate is looked at from several sides; more long ones would keep large trees.
_read_short = functools.lru_cache(maxsize=64)(_looked_into)
_read_long = functools.lru_cache(maxsize=4)(_looked_into)


def _is_endless(value):
    return isinstance(value, int) and value.bit_length() > _MOST_BITS


def _depth_within(tree, limit):
    level = [tree]
    for _ in range(limit):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return True
    return False


def program_of(text):
    """Return a text with IPython's own lines (`%timeit f()`, `!ls`, `f?`) put aside when that makes it Python.

    What ranks run is a program like any other once the line that starts them is a comment.
    """
    text = without_magic(text)
    if parse(text) is not None or _NOT_RUN.match(text):
        return text
    changed = _CAPTURED.sub(r"\1 None  # \2", text)
    changed = _IPYTHON.sub(lambda m: f"{m[1] or m[4] or ''}pass  # {m[0].strip()}", changed)
    return changed if changed != text and parse(changed) is not None else text


def bound_by(node):
    """Return the names a statement binds where it stands: definitions, imports, targets of any kind."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return [(alias.asname or alias.name).split(".")[0] for alias in node.names]
    found, waiting = [], [node]
    while waiting:
        part = waiting.pop()
        if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)):
            found += bound_by(part)
        elif isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            found.append(part.id)
        elif not isinstance(part, (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            waiting += ast.iter_child_nodes(part)
    return found


def bindings(body, names):
    """Return {name: key of the last statement that binds it} for those of the names that are bound."""
    return {name: statement_key(node) for node in body for name in bound_by(node) if name in names}


def statement_key(node):
    """Return a statement as text that layout, comments and docstrings do not change."""
    if ast.get_docstring(node, clean=False) if isinstance(node, _WITH_DOCSTRING) else None:
        node = type(node)(**{**dict(ast.iter_fields(node)), "body": node.body[1:] or [ast.Pass()]})
    return ast.dump(node)


_WITH_DOCSTRING = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def without(text, nodes):
    """Return a text with some of its statements replaced by `pass`; the other lines keep their numbers."""
    # From the end: what is replaced moves all that follows in its line. Columns count bytes.
    lines = [line.encode() for line in text.split("\n")]
    for node in sorted(nodes, key=lambda node: (node.lineno, node.col_offset), reverse=True):
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))]) - 1
        last, start = node.end_lineno - 1, node.col_offset
        rest = lines[last][node.end_col_offset :]
        lines[first : last + 1] = [lines[first][:start] + b"pass" + rest, *[b""] * (last - first)]
    return b"\n".join(lines).decode()
