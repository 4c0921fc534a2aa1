"""One candidate for an answer, put together: the parts of a split cell joined, what is not the answer cut out."""

import ast
from dataclasses import dataclass, field

from labsupport.answering import without_magic
from labsupport.grading.cells import Cell, bound_by, parse, statement_key, without
from labsupport.grading.helping import talks_to_lesson

__all__ = ["Piece", "assemble", "listed"]

_MOST = 6  # cells that may continue a split answer


@dataclass
class Piece:
    """A candidate: the positions of its cells, its text, code of the lesson that stood in it, what is worth saying."""

    at: tuple[int, ...]
    text: str
    set_apart: str = ""
    notes: list = field(default_factory=list)


def listed(numbers):
    """Return cell numbers as words: "cell 5", "cells 5 and 6", "cells 5, 6 and 7"."""
    *most, last = map(str, numbers)
    return f"cells {', '.join(most)} and {last}" if most else f"cell {last}"


def assemble(cells, i, exercise, lesson):
    """Return the `Piece` that begins with the cell at position `i`."""
    at, text = _joined(cells, i, exercise, lesson)
    piece = Piece(at, text)
    if len(at) > 1:
        piece.notes.append(f"The answer was split: {listed(cells[k].number for k in at)} were joined.")
    put_aside = [cells[k].number for k in at if cells[k].program != without_magic(cells[k].text)]
    if put_aside:
        piece.notes.append(f"Lines for IPython only (`%`, `!`, `?`) in {listed(put_aside)} were left out.")
    cuts = (_other_exercises, _prose, _calls_of_the_lesson, _course_code)
    for cut in cuts[:-1] if exercise.on_ranks else cuts:  # a program of its own may hold what others hold, too
        piece.text = cut(piece, exercise, lesson)
    return piece


def _defines(text, exercise):
    tree = parse(text)
    return tree is not None and set(exercise.names) <= {name for node in tree.body for name in bound_by(node)}


# -- joining ------------------------------------------------------------------------------------------------------


def _joined(cells, i, exercise, lesson):
    """Return (positions, text) of a cell and the cells that continue it."""
    at, text = (i,), cells[i].program
    best = (at, text)
    whole = _defines(text, exercise)
    for k in range(i + 1, min(len(cells), i + 1 + 2 * _MOST)):
        cell = cells[k]
        if cell.empty or cell.kind != "code":
            continue
        if _ends(cell, exercise, lesson) or len(at) > _MOST or (whole and not _continues(text, cell)):
            break
        at, text = (*at, k), _glued(text, cell.program)
        if _defines(text, exercise):
            best, whole = (at, text), True
    return best


def _ends(cell, exercise, lesson):
    """Whether a cell is somebody else's: another copy, another exercise's, a check, or the course's."""
    if cell.marked or cell.checks or lesson.is_course(cell):
        return True
    return cell.id in lesson.exercise_ids and cell.id != lesson.id_of(exercise.id)


def _continues(text, cell):
    """Whether a cell goes on where a text stops: it begins indented, or the text was cut inside its last line."""
    first = next(line for line in cell.text.splitlines() if line.strip())
    return first[:1] in (" ", "\t") or _is_cut_inside(text, cell.program)


def _is_cut_inside(text, more):
    return text[-1:] in (" ", "\t") and parse(text + more) is not None


def _glued(text, more):
    """Return two parts as one text: line by line, or in the middle of a line when that is what was cut."""
    lines = f"{text}\n{more}"
    inside = _is_cut_inside(text, more) or parse(lines) is None
    return text + more if inside and parse(text + more) is not None else lines


# -- cutting out --------------------------------------------------------------------------------------------------


def _marks(text):
    return Cell(0, "", "code", text).marks


def _other_exercises(piece, exercise, lesson):
    """Of a cell with several markers, the part from this exercise's marker to the next."""
    marks = _marks(piece.text)
    own = [position for mark, position in marks if mark == exercise.id]
    if not own or all(mark == exercise.id for mark, _ in marks):
        return piece.text
    end = min((position for mark, position in marks if position > own[-1] and mark != exercise.id), default=None)
    part = piece.text[own[-1] : end]
    if parse(part) is None:
        return piece.text
    piece.notes.append("Its cell holds several exercises; the part under this one's marker was taken.")
    return part


def _prose(piece, exercise, lesson):
    """Without lines of the lesson's text, when they are what keeps the rest from being Python."""
    if parse(piece.text) is not None:
        return piece.text
    marks = [position for mark, position in _marks(piece.text) if mark == exercise.id]
    for text in (piece.text, piece.text[marks[0] :] if marks else piece.text):
        rest = "\n".join(line for line in text.split("\n") if line.strip() not in lesson.prose)
        if _defines(rest, exercise):
            piece.notes.append("Text around the answer in the same cell was left out.")
            return rest
    return piece.text


def _calls_of_the_lesson(piece, exercise, lesson):
    """Without statements that talk to the lesson, such as its check: no lesson is there where answers are judged."""

    def leaves(node):
        defines = hasattr(node, "decorator_list") or set(bound_by(node)) & set(exercise.names)
        return talks_to_lesson(node) and not defines

    return _without(piece, leaves, "Calls of the lesson (`lab...`) in the same cell were left out.")


def _course_code(piece, exercise, lesson):
    """Without the course's own statements, when a course cell was merged with the answer; they may still help it."""

    def leaves(node):
        kept = isinstance(node, (ast.Import, ast.ImportFrom)) or set(bound_by(node)) & set(exercise.names)
        return not kept and statement_key(node) in lesson.statements

    tree = parse(piece.text)
    piece.set_apart = "\n".join(ast.unparse(node) for node in (tree.body if tree else ()) if leaves(node))
    return _without(piece, leaves, "Code of the lesson in the same cell was set apart.")


def _without(piece, leaves, note):
    tree = parse(piece.text)
    nodes = [node for node in tree.body if leaves(node)] if tree else []
    if not nodes:
        return piece.text
    piece.notes.append(note)
    return without(piece.text, nodes)
