"""Which cells of a learner's notebook answer which exercise.

Editors strip metadata and ids, copies repeat them, splits halve them, people rename, move and retype. So an answer is
looked for by several anchors, the surest first: the marker comment or the cell's id, the names the exercise declares,
likeness to the stub, the place in the lesson. Whatever was unclear is said in a note.
"""

import functools
from dataclasses import dataclass

from labsupport import catalog
from labsupport.grading.cells import Cell, bindings, bound_by, parse, refusal
from labsupport.grading.helping import helpers_of, offers_of
from labsupport.grading.pieces import assemble, listed
from labsupport.grading.shipped import alike, shipped_lesson

__all__ = ["Taken", "recognised", "take_answers"]

_ALIKE = 0.6
_MOST = 30  # candidates that are looked at; of more, the last
_MOST_MISSPELT = 200  # different markers of one notebook that are compared with the names of exercises
_NEAR = 12  # cells between which the parts of one answer may lie


@dataclass(frozen=True)
class Taken:
    """What was taken from a notebook as the answer of one exercise.

    Args:
        exercise: the exercise's id.
        source: the text of the answer, or "" when there is none to run.
        helpers: statements of other cells that the answer leans on, in the notebook's order.
        how: how the answer was found, in words.
        cells: numbers of the cells it was taken from, counted from 1 over all cells.
        notes: sentences about anything that was in doubt.
        untouched: the answer is the stub as shipped.
        unreadable: why an answer that is there cannot be used, or "".
    """

    exercise: str
    source: str
    helpers: tuple[str, ...]
    how: str
    cells: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    untouched: bool = False
    unreadable: str = ""

    @property
    def told(self):
        """Where the answer was found and how, in words: "cell 7, by its marker"."""
        return f"{listed(self.cells)}, {self.how}" if self.cells else self.how


def recognised(cells):
    """Return the cells; what is read from a text that is the course's own, word for word, is taken from there."""
    known = _course_cells()
    return tuple(_as(known.get((cell.kind, cell.text)), cell) for cell in cells)


@functools.cache
def _course_cells():
    """Return {(kind, text): cell of the course}, with everything that can be read from its text worked out."""
    found = {}
    for lesson in catalog.lessons():
        for cell in shipped_lesson(lesson.slug).cells if lesson.ready else ():
            found.setdefault((cell.kind, cell.text), cell)
    for cell in found.values():
        cell.marked, cell.checks, cell.names, cell.statements, offers_of(cell)  # kept with the cell
    return found


def _as(known, cell):
    if known is not None:
        vars(cell).update({key: value for key, value in vars(known).items() if key not in ("number", "id", "of")})
    return cell


def take_answers(cells, exercises):
    """Return one `Taken` per exercise.

    Among several cells that answer an exercise the last one that is not the shipped stub wins.

    Args:
        cells: the notebook's cells in order, `Cell`s or pairs (id, source) of code cells.
        exercises: exercises of one lesson.
    """
    cells = [c if isinstance(c, Cell) else Cell(n, c[0], "code", c[1]) for n, c in enumerate(cells, 1)]
    meant = {}
    return [_take(_Search(cells, exercise, meant)) for exercise in exercises]


def _take(search):
    """Return the `Taken` of one exercise; code that cannot be looked into costs that exercise and no other."""
    try:
        return search.take()
    except Exception as error:
        why = f"The cells that may answer it cannot be looked into ({type(error).__name__})."
        return Taken(search.exercise.id, "", (), "not found", unreadable=why)


class _Search:
    """The search for the answer of one exercise; `meant` holds what the notebook's misspelt markers mean."""

    def __init__(self, cells, exercise, meant):
        self.cells, self.exercise, self.meant = cells, exercise, meant
        self.lesson = shipped_lesson(exercise.slug)
        self.stub = self.lesson.stubs.get(exercise.id)
        self.names = frozenset(exercise.names)

    def take(self):
        """Return the `Taken` of the first anchor that leads to more than a stub."""
        marked = self.where(lambda cell: cell.kind == "code" and self.is_marked(cell))
        named = [i for i in self.where(self.is_named) if i not in marked]
        anchors = (
            (lambda: sorted([*marked, *(i for i in named if self.is_before_check(i, marked))]), self.how_marked),
            (lambda: named, lambda i: "by the name it defines"),
            (lambda: self.where(self.is_merged), lambda i: "by the name it defines, in the cell of another exercise"),
            (self.in_parts, lambda i: "by the names its parts define"),
            (lambda: self.where(self.is_retyped), lambda i: f"in a {self.cells[i].kind} cell"),
            (self.alike, lambda i: "by its likeness to the stub"),
            (self.in_place, lambda i: "by its place in the lesson"),
        )
        for find, how in anchors:
            if pieces := self.answered(find()):
                more = f"; {len(pieces)} cells answer it, the last one was taken" if len(pieces) > 1 else ""
                return self.taken(pieces[-1], how(pieces[-1].at[0]) + more, named)
        shipped = marked or self.where(self.is_retyped)
        if shipped:
            cell = self.cells[shipped[-1]]
            return Taken(self.exercise.id, cell.text, (), "the stub as shipped", (cell.number,), untouched=True)
        return Taken(self.exercise.id, "", (), "no cell found")

    # -- anchors --------------------------------------------------------------------------------------------------

    def where(self, fits):
        return [i for i, cell in enumerate(self.cells) if not cell.empty and fits(cell)]

    def is_marked(self, cell):
        if cell.marked:
            return self.exercise.id in cell.marked or self.is_misspelt(cell)
        return cell.id == self.lesson.id_of(self.exercise.id)

    def is_misspelt(self, cell):
        """Whether its marker names no exercise, but nearly this one."""
        for mark, _ in cell.marks:
            if mark not in self.meant and len(self.meant) < _MOST_MISSPELT:
                self.meant[mark] = self.lesson.meant_by(mark)
        return any(self.meant.get(mark) == self.exercise.id for mark in cell.marked)

    def has_other_id(self, cell):
        return cell.id in self.lesson.exercise_ids and cell.id != self.lesson.id_of(self.exercise.id)

    def is_named(self, cell):
        claimed = cell.kind != "code" or cell.marked or self.has_other_id(cell)
        return not claimed and self.names <= cell.names and not self.lesson.is_course(cell)

    def is_merged(self, cell):
        return cell.kind == "code" and bool(cell.marked or self.has_other_id(cell)) and self.names <= cell.names

    def is_retyped(self, cell):
        if cell.kind == "code":
            return False
        return self.is_marked(cell) or (self.names <= cell.names and not self.lesson.is_course(cell))

    def is_before_check(self, i, marked):
        """Whether a cell lies between a marked one and its check: the live check sees what it defines."""
        start = max((m for m in marked if m < i), default=None)
        return start is not None and (end := self.check_after(start)) is not None and i < end

    def check_after(self, i):
        wanted = {self.exercise.id, self.exercise.short_id}
        return next((k for k in range(i + 1, len(self.cells)) if self.cells[k].checks & wanted), None)

    def in_parts(self):
        """The first of several cells that each define some of the names and together all."""
        parts = self.where(lambda cell: self.is_free(cell) and bool(cell.names & self.names))
        bound = {name for i in parts for name in self.cells[i].names}
        near = len(parts) > 1 and parts[-1] - parts[0] <= _NEAR
        return parts[:1] if near and self.names <= bound else []

    def is_free(self, cell):
        """Whether a code cell binds something and nothing else claims it."""
        if cell.kind != "code" or cell.marked or self.has_other_id(cell) or self.lesson.is_course(cell):
            return False
        binds = cell.tree is None or bool(cell.names)
        return binds and not self.lesson.answers_other(cell, self.exercise.id)

    def alike(self):
        free = self.where(self.is_free)[-_MOST:] if self.stub else []
        likeness = {i: alike(self.stub.text, self.cells[i].text) for i in free}
        best = max(likeness, key=likeness.get, default=None)
        return [best] if best is not None and likeness[best] >= _ALIKE else []

    def in_place(self):
        """The only free cell between the course's cells before and after the exercise."""
        lower, upper = self.lesson.neighbours(self.exercise.id, self.cells)
        if lower is None or upper is None:
            return []
        found = [i for i in self.where(self.is_free) if lower < i < upper]
        return found if len(found) == 1 else []

    def how_marked(self, i):
        cell = self.cells[i]
        if self.exercise.id in cell.marked:
            return "by its marker"
        if cell.marked:
            return "by its marker, which is nearly right"
        return "by its cell id" if self.is_marked(cell) else "by the name it defines, before the check"

    # -- from an anchor to an answer -----------------------------------------------------------------------------

    def answered(self, found):
        """Return the pieces that begin at these positions and hold more than the stub; no cell is in two pieces."""
        pieces, used = [], set()
        for i in found[-_MOST:]:
            if i not in used:
                piece = assemble(self.cells, i, self.exercise, self.lesson)
                used.update(piece.at)
                pieces += [] if self.is_stub(piece.text) else [piece]
        return pieces

    def is_stub(self, text):
        """Whether every declared name is bound by the very statement that was shipped."""
        if self.stub is None:
            return False
        tree = parse(text)
        if tree is None:
            return text.strip() == self.stub.text.strip()
        shipped = self.lesson.bindings(self.exercise.id, self.names)
        return bool(shipped) and bindings(tree.body, self.names) == shipped

    def taken(self, piece, how, named):
        cells = tuple(self.cells[k].number for k in piece.at)
        notes = (*piece.notes, *self.doubts(piece, named))
        if reason := refusal(piece.text):
            return Taken(
                self.exercise.id, "", (), how, cells, notes, unreadable=f"The answer cannot be read: {reason}."
            )
        around = [*self.cells[: piece.at[0]], *self.up_to_check(piece), Cell(0, "", "code", piece.set_apart)]
        helpers = helpers_of(piece.text, around, self.lesson, self.exercise.setup)
        helpers = () if self.exercise.on_ranks else helpers  # ranks see their own cell and no other
        return Taken(self.exercise.id, piece.text, helpers, how, cells, notes)

    def up_to_check(self, piece):
        """The cells between the answer and its check: the live check sees them, so they may help."""
        end = self.check_after(piece.at[-1])
        between = self.cells[piece.at[-1] + 1 : end] if end is not None else []
        return between if len(between) <= _NEAR else []

    def doubts(self, piece, named):
        first = self.cells[piece.at[0]]
        if first.kind != "code":
            yield f"Cell {first.number} is a {first.kind} cell; its text was taken. A code cell would run."
        others = [self.cells[i].number for i in named if i not in piece.at and not self.is_stub(self.cells[i].program)]
        if others:
            names = ", ".join(f"`{name}`" for name in self.exercise.names)
            yield f"{names} defined in {listed(others)} as well: not taken."
        tree = parse(piece.text)
        bound = {name for node in (tree.body if tree else ()) for name in bound_by(node)}
        missing = [name for name in self.exercise.names if name not in bound]
        if missing:
            made = f"; it defines {', '.join(f'`{name}`' for name in sorted(bound)[:3])}" if bound else ""
            yield f"The cell does not define {', '.join(f'`{name}`' for name in missing)}{made}."
