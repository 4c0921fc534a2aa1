"""Rules on the shape of a lesson: header, title, headings, cells, lengths, minutes, set-up."""

import re

from labsupport import building, catalog
from labsupport.linting.lesson import Problem, magic_of, prose_of

__all__ = ["RULES"]

MOST_CELLS = 60
MOST_BYTES = 100_000
MOST_LINES = 15
MOST_TORCHRUN_LINES = 25
MOST_SETUP_LINES = 8
MOST_MINUTES = 60
_CHECKS = re.compile(r"\s*lab\.(check|drill)\(")


def header(text):
    """The header holds the kernel's name or is not there."""
    if not text.lines or text.lines[0].strip() != "# ---":
        return
    for number, line in enumerate(text.lines[1:], 2):
        if line.strip() == "# ---":
            return
        if not re.fullmatch(r"# *(jupyter:|kernelspec:|name: python3|display_name: .*|language: python)", line):
            why = "settings in the header differ from author to author and never reach the notebook"
            yield Problem("header", number, f"the header says {line[1:].strip()!r}", why, "remove the line")


def marked(text):
    """Every line of prose is a comment: without a marker before it, code becomes prose."""
    for index, cell in text.of_kind("markdown"):
        length = cell.text.count("\n") + 1
        if text.lines[cell.line - 2].strip().startswith(('"""', "'''", 'r"""')):
            continue
        for number, line in enumerate(text.lines[cell.line - 1 : cell.line - 1 + length], cell.line):
            if line.strip() and not line.startswith("#"):
                why = "the line would be shown as text and never run"
                yield Problem(
                    "marked", number, f"{line.strip()!r} stands in a markdown cell", why, "put # %% above", index
                )
                break


def empty(text):
    """No cell is empty."""
    for index, cell in enumerate(text.cells):
        if not cell.text.strip():
            why = "a reader takes it for a cell to fill in"
            yield Problem("empty", cell.line, "the cell is empty", why, "remove its marker", index)


def title(text):
    """The first cell is markdown and holds the only heading of level one."""
    if not text.cells or text.cells[0].kind != "markdown" or not text.cells[0].text.startswith("# "):
        line = text.cells[0].line if text.cells else 1
        why = "the title, its promise and the minutes are read from it"
        yield Problem("title", line, "the first cell is not a title", why, "begin with a cell `# # Title with a verb`")
    ones = [(index, line) for index, line, level in _headings(text) if level == 1]
    for index, line in ones[1:]:
        why = "a notebook has one title; the outline and readers of headings by ear depend on it"
        yield Problem("title", line, "a second heading of level one", why, "make it `##`", index)


def headings(text):
    """Levels never skip."""
    above = 0
    for index, line, level in _headings(text):
        if level > above + 1:
            why = f"a heading of level {above or 'none'} cannot have a child of level {level} in the outline"
            yield Problem("headings", line, f"a heading of level {level}", why, f"use {'#' * (above + 1)}", index)
        above = level


def _headings(text):
    for index, cell in text.of_kind("markdown"):
        for offset, line in enumerate(prose_of(cell.text).split("\n")):
            if match := re.match(r"^(#{1,6}) ", line):
                yield index, cell.line + offset, len(match[1])


def lengths(text):
    """Cells and the file stay short enough to be read in one go."""
    for index, cell in text.of_kind("code"):
        most = MOST_TORCHRUN_LINES if magic_of(cell.text) == "torchrun" else MOST_LINES
        count = cell.text.count("\n") + 1
        if count > most:
            why = f"{most} lines are what a reader takes in at once"
            yield Problem("lengths", cell.line, f"the cell has {count} lines", why, "split it, or give the code", index)
    count = sum(not _CHECKS.match(cell.text) for cell in text.cells)  # a check is one line, and nothing to read
    if count > MOST_CELLS:
        why = f"a lesson of more than {MOST_CELLS} is not finished in one sitting"
        yield Problem("lengths", 1, f"the lesson has {count} cells beside its checks", why, "split it in two lessons")
    size = len(building.dump(building.build(text.path)).encode("utf-8"))
    if size > MOST_BYTES:
        why = f"more than {MOST_BYTES:,} bytes are slow to open and to compare"
        yield Problem("lengths", 1, f"the notebook has {size:,} bytes", why, "move data to data/")


def minutes(text):
    """The first cell says how long the core takes and on what."""
    if not text.slug:
        return
    known = next((lesson for lesson in catalog.lessons() if lesson.slug == text.slug), None)
    if not known or not known.minutes:
        why = "the list of lessons shows it"
        yield Problem(
            "minutes",
            1,
            "no line says the minutes and the hardware",
            why,
            "write `**25 minutes (core), any laptop.**`",
            0,
        )
    elif known.minutes > MOST_MINUTES:
        line = text.at(0, "minutes (core)")
        why = f"the core of a lesson takes at most {MOST_MINUTES}"
        yield Problem(
            "minutes", line, f"{known.minutes} minutes", why, "mark exercises as more, or split the lesson", 0
        )


def setup(text):
    """One short cell makes the lesson object, for this lesson."""
    made = [(i, c) for i, c in text.of_kind("code") if re.search(r"^lab = lesson\(", c.text, re.MULTILINE)]
    if not text.slug or not text.cells:
        return
    if len(made) != 1:
        why = "checks, hints and figures are reached through it"
        yield Problem("setup", 1, f'{len(made)} cells say lab = lesson("...")', why, "make it once, near the top")
        return
    index, cell = made[0]
    named = re.search(r"^lab = lesson\([\"']([^\"']*)", cell.text, re.MULTILINE)
    if not named or named[1] != text.slug:
        why = f"this is the lesson {text.slug!r}; its exercises would not be found"
        line = text.at(index, "lab = lesson(")
        yield Problem("setup", line, "the lesson object is another lesson's", why, f'lesson("{text.slug}")', index)
    if (count := cell.text.count("\n") + 1) > MOST_SETUP_LINES:
        why = f"set-up longer than {MOST_SETUP_LINES} lines is read by nobody"
        yield Problem(
            "setup", cell.line, f"the set-up cell has {count} lines", why, "move the rest further down", index
        )


RULES = (header, marked, empty, title, headings, lengths, minutes, setup)
