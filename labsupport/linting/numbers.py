"""The rule that every quantity in prose can be traced: to a cell that produces it, or to a source with a date.

A quantity is a number with a unit (bytes, MB, ms, %, times, m ...). It is traced when one of these holds:

- its cell also has an https link and a month (`2026-11`): it is sourced;
- a cell's output holds it, in bytes, seconds or metres, or with any unit beside it: 51 MB is traced by `51,200,000`
  and by `51.2 MB`, not by `51.2`. Prose may round, never invent: the output must lie within half a unit of the last
  digit written;
- the code around it, or the exercise around it, states it: `shape=(8, 3)`, "at most 1 KB".

Weak quantities (two digits or fewer, no large unit, such as 8 bytes) occur by chance, so they must be traced within
`NEAR` cells; strong ones (51 MB, 999,937 bytes) anywhere in the lesson. Numbers in words are not looked at.
"""

import ast
import io
import re
import tokenize
from dataclasses import dataclass

from labsupport.catalog import marker_of
from labsupport.linting.lesson import Problem, prose_of, python_of

__all__ = ["NEAR", "RULES", "Quantity", "quantities", "traced"]

NEAR = 8

_NUMBER = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"
_UNITS = {
    "bytes": {"byte": 1, "bytes": 1, "B": 1, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}
    | {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40},
    "bits": {"bit": 1, "bits": 1},
    "seconds": {"ns": 1e-9, "µs": 1e-6, "μs": 1e-6, "us": 1e-6, "ms": 1e-3, "s": 1, "second": 1, "seconds": 1},
    "ratio": {"%": 0.01, "percent": 0.01, "×": 1, "times": 1, "x": 1, "fold": 1},
    "metres": {"mm": 1e-3, "cm": 1e-2, "m": 1, "metre": 1, "metres": 1, "km": 1e3},
}
_SCALES = {unit: (kind, scale) for kind, units in _UNITS.items() for unit, scale in units.items()}
_UNIT = "|".join(sorted((re.escape(unit) for unit in _SCALES), key=len, reverse=True))
_QUANTITY = re.compile(rf"(?<![\w.,/-])({_NUMBER})[\s-]?({_UNIT})(?![\w%]|[ ]*\d)")
_PLAIN = re.compile(rf"(?<![\w.])(-?)({_NUMBER})((?:[eE][+-]?\d+)?)(?:[ \u00a0\u202f]?({_UNIT})(?!\w))?")
_SOURCED = re.compile(r"https://")
_DATED = re.compile(r"\b20\d\d-\d\d\b")


@dataclass(frozen=True)
class Quantity:
    """A number of prose: `value` in the base unit of `kind`, `half` is half a unit of its last digit, likewise."""

    words: str
    kind: str
    value: float
    half: float
    strong: bool
    start: int = 0


def quantities(prose):
    """Return the quantities of a markdown text from which code was blanked out."""
    found = []
    for match in _QUANTITY.finditer(prose):
        digits, unit = match[1].replace(",", ""), match[2]
        if unit == "x" and match[0][-2].isspace():  # "3 x 4" and "x axis" are no ratios
            continue
        kind, scale = _SCALES[unit]
        places = len(digits.partition(".")[2])
        significant = len(digits.replace(".", "").strip("0"))
        strong = significant > 2 or scale >= 1000
        words = " ".join(match[0].split())
        half = 0.5 * 10**-places * scale
        found.append(Quantity(words, kind, float(digits) * scale, half, strong, match.start()))
    return found


def numbers_in(text):
    """Return [(value, kind or None)] of every number that a text states."""
    found = []
    for sign, digits, power, unit in _PLAIN.findall(text):
        value = float(f"{sign}{digits.replace(',', '')}{power}")
        kind, scale = _SCALES.get(unit, (None, 1))
        found.append((value * scale, kind))
    return found


def traced(quantity, numbers):
    """Return whether one of the numbers is the quantity, as far as its digits go."""
    for value, kind in numbers:
        if kind not in (None, quantity.kind):
            continue
        # A bare 25 or 0.25 can both be what "25 %" says.
        for known in (value, value / 100) if kind is None and quantity.kind == "ratio" else (value,):
            if abs(abs(known) - quantity.value) <= quantity.half * (1 + 1e-9):
                return True
    return False


def sourced(text):
    """Every quantity in prose is produced by a cell, stated by an exercise, or sourced with a date."""
    stated = [_stated(text, index) for index in range(len(text.cells))]
    for index, cell in text.of_kind("markdown"):
        prose = prose_of(cell.text)
        if _SOURCED.search(cell.text) and _DATED.search(cell.text):
            continue
        near = range(max(0, index - NEAR), min(len(stated), index + NEAR + 1))
        for quantity in quantities(prose):
            cells = range(len(stated)) if quantity.strong else near
            if not any(traced(quantity, stated[n]) for n in cells) and not traced(quantity, _own(cell.text)):
                yield _untraced(text, quantity, cell.line + prose[: quantity.start].count("\n"), index)


def _untraced(text, quantity, line, index):
    where = "in the lesson" if quantity.strong else f"within {NEAR} cells"
    if text.outputs is None:
        why = f"no code or exercise {where} states it, and the lesson was not run to look at what it prints"
        step = "lab lint --run"
    else:
        why = f"no output, code or exercise {where} gives it; a reader cannot tell where it comes from"
        step = 'print it with its unit, give an https source and its month, or `# %% [markdown] allow="numbers: why"`'
    return Problem("numbers", line, f"the quantity {quantity.words!r}", why, step, index)


def _stated(text, index):
    cell = text.cells[index]
    if cell.kind != "code":
        return []
    found = [(value, None) for value in _literals(python_of(cell.text) or cell.text.partition("\n")[2])]
    if exercise := text.exercises.get(marker_of(cell.text)):
        found += numbers_in(_words_of(exercise))
    if text.outputs is not None:
        found += numbers_in(text.outputs[index])
    return found


def _own(markdown):
    """Return the numbers of code quoted in the same prose cell."""
    quoted = re.findall(r"^```.*?^```|`[^`\n]+`", markdown, re.DOTALL | re.MULTILINE)
    return [(value, None) for value, _ in numbers_in("\n".join(quoted))]


def _literals(code):
    values = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            if token.type == tokenize.NUMBER and token.string[-1] not in "jJ":
                values.append(float(ast.literal_eval(token.string)))
    except (tokenize.TokenError, SyntaxError, OverflowError):
        pass  # what was read until there counts; ruff reports the rest
    return values


def _words_of(exercise):
    labels = [case.label for case in exercise.cases]
    return "\n".join([exercise.task, *exercise.hints, *labels, str(dict(exercise.probe.options))])


RULES = (sourced,)
