"""More accidents: cells copied, split, merged, retyped and moved; ACCIDENTS has them all."""

import copy
import uuid

import nbformat
from accidents import ACCIDENTS, accident, code, exercise_cells, index_of, markers_and_ids_gone, markers_deleted

from labsupport import catalog

__all__ = ["ACCIDENTS"]

# -- cells copied, split, merged, moved ---------------------------------------------------------------------------


@accident
def stub_copied_above(notebook):
    _with_stubs(notebook, above=True)


@accident
def stub_copied_below(notebook):
    _with_stubs(notebook, above=False)


def _with_stubs(notebook, above):
    slug = exercise_cells(notebook)[0].source.split(": ")[1].split("/")[0].replace("-", "_")
    for exercise in catalog.exercises(slug):
        i = index_of(notebook, exercise)
        copied = copy.deepcopy(notebook.cells[i])
        copied.source = catalog.stubs(slug)[exercise.id]
        if above:  # the editor gives the second copy a new id, so here the answer's
            notebook.cells[i].id = uuid.uuid4().hex[:8]
        else:
            copied.id = uuid.uuid4().hex[:8]
        notebook.cells.insert(i if above else i + 1, copied)


@accident
def answers_copied(notebook):
    for cell in exercise_cells(notebook):
        notebook.cells.insert(notebook.cells.index(cell) + 1, copy.deepcopy(cell))


def split(notebook, place):
    """Split every answer at the line `place(lines)` as JupyterLab does: the first part keeps the id."""
    for cell in exercise_cells(notebook):
        lines = cell.source.rstrip("\n").split("\n")
        at = place(lines)
        if not 0 < at < len(lines):
            continue
        second = code("\n".join(lines[at:]).strip("\n"))
        cell.source = "\n".join(lines[:at]).strip("\n")
        notebook.cells.insert(notebook.cells.index(cell) + 1, second)


@accident
def split_below_the_marker(notebook):
    split(notebook, lambda lines: 1)


@accident
def split_before_the_last_line(notebook):
    split(notebook, lambda lines: len(lines) - 1)


@accident
def split_in_the_middle(notebook):
    split(notebook, lambda lines: (len(lines) + 2) // 2)


@accident
def split_without_markers(notebook):
    split(notebook, lambda lines: len(lines) - 1)
    markers_and_ids_gone(notebook)


@accident
def split_with_an_empty_cell_and_a_note_between(notebook):
    split(notebook, lambda lines: len(lines) - 1)
    for cell in exercise_cells(notebook):
        i = notebook.cells.index(cell) + 1
        notebook.cells[i:i] = [code(""), nbformat.v4.new_markdown_cell("my note")]


@accident
def split_inside_a_line(notebook):
    for cell in exercise_cells(notebook):
        at = cell.source.rstrip().rfind(" ") + 1
        last_line = cell.source[cell.source.rfind("\n", 0, at) :]
        if "\n    " in cell.source and "#" not in last_line and cell.source[at - 2] != ":":
            second = code(cell.source[at:].strip("\n"))
            cell.source = cell.source[:at]
            notebook.cells.insert(notebook.cells.index(cell) + 1, second)


def merge(notebook, first, count=2):
    texts = [cell.source for cell in notebook.cells[first : first + count]]
    notebook.cells[first].source = "\n\n".join(texts)
    del notebook.cells[first + 1 : first + count]


@accident
def merged_with_their_checks(notebook):
    for cell in exercise_cells(notebook):
        i = notebook.cells.index(cell)
        if notebook.cells[i + 1].source.startswith("lab.check("):
            merge(notebook, i)


@accident
def merged_with_the_text_above(notebook):
    for cell in exercise_cells(notebook):
        i = notebook.cells.index(cell)
        if notebook.cells[i - 1].cell_type == "markdown":
            merge(notebook, i - 1)
            notebook.cells[i - 1].cell_type = "code"
            notebook.cells[i - 1] = code(notebook.cells[i - 1].source)


@accident
def merged_two_by_two(notebook):
    cells = exercise_cells(notebook)
    for first, second in zip(cells[::2], cells[1::2], strict=False):
        first.source += "\n\n" + second.source
        notebook.cells.remove(second)


@accident
def merged_into_one(notebook):
    first, *others = exercise_cells(notebook)
    first.source = "\n\n".join(cell.source for cell in (first, *others))
    for cell in others:
        notebook.cells.remove(cell)


@accident
def merged_into_one_without_markers(notebook):
    markers_deleted(notebook)
    cells = [cell for cell in notebook.cells if cell.id.startswith("ex-")]
    notebook.cells = [cell for cell in notebook.cells if not cell.id.startswith("ex-")]
    notebook.cells.append(code("\n\n".join(cell.source for cell in cells)))


@accident
def merged_with_the_first_cell(notebook):
    setup = next(cell for cell in notebook.cells if cell.cell_type == "code")
    first = exercise_cells(notebook)[0]
    first.source = setup.source + "\n" + first.source
    notebook.cells.remove(setup)


@accident
def made_markdown(notebook):
    _retyped(notebook, "markdown")


@accident
def made_raw(notebook):
    _retyped(notebook, "raw")


def _retyped(notebook, kind):
    for cell in exercise_cells(notebook):
        i = notebook.cells.index(cell)
        notebook.cells[i] = nbformat.NotebookNode(id=cell.id, cell_type=kind, metadata={}, source=cell.source)


@accident
def moved_to_the_end(notebook):
    cells = exercise_cells(notebook)
    notebook.cells = [cell for cell in notebook.cells if cell not in cells] + cells


@accident
def moved_to_the_top(notebook):
    cells = exercise_cells(notebook)
    notebook.cells = cells + [cell for cell in notebook.cells if cell not in cells]


@accident
def upside_down(notebook):
    notebook.cells.reverse()


@accident
def only_the_answers(notebook):
    notebook.cells = exercise_cells(notebook)
