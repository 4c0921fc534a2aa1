"""What editors, systems and people do to notebooks. Each accident changes a solved lesson; its answers must be found.

Notebooks are nbformat's, made from the built lessons: `solved(slug)` is a lesson with the references filled in.
"""

import re
import uuid

import nbformat

from labsupport import answering, catalog
from labsupport.places import NOTEBOOKS

LESSONS = tuple(lesson for lesson in catalog.lessons() if lesson.ready)
ACCIDENTS = []
NARROW = {"tags": ["parameters"], "collapsed": True, "scrolled": False}


def accident(change):
    """Register `change(notebook)` as one of the ACCIDENTS."""
    ACCIDENTS.append(change)
    return change


def shipped(slug):
    """Return a lesson as built."""
    return nbformat.read(NOTEBOOKS / catalog.find_lesson(slug).notebook, as_version=4)


def answer_text(exercise):
    """Return the text a learner may have in the exercise's cell: marker and reference."""
    return f"# exercise: {exercise.id}\n{answering.reference_answer(exercise).source}"


def solved(slug):
    """Return a lesson with every answer right."""
    notebook = shipped(slug)
    for exercise in catalog.exercises(slug):
        cell_of(notebook, exercise).source = answer_text(exercise)
    return notebook


def cell_of(notebook, exercise):
    return notebook.cells[index_of(notebook, exercise)]


def index_of(notebook, exercise):
    """Return the position of the cell with an exercise's marker."""
    wanted = f"# exercise: {exercise.id}\n"
    return next(i for i, c in enumerate(notebook.cells) if c.cell_type == "code" and wanted in c.source)


def exercise_cells(notebook):
    return [c for c in notebook.cells if c.cell_type == "code" and c.source.startswith("# exercise: ")]


def check_cells(notebook):
    return [c for c in notebook.cells if c.source.startswith("lab.check(")]


def code(text):
    return nbformat.v4.new_code_cell(text)


# -- ids and metadata ---------------------------------------------------------------------------------------------


@accident
def strip_metadata(notebook):
    notebook.metadata = {}
    for cell in notebook.cells:
        cell.metadata = {}


@accident
def new_ids(notebook):
    for cell in notebook.cells:
        cell.id = uuid.uuid4().hex[:8]


@accident
def no_ids(notebook):
    notebook.nbformat_minor = 4
    for cell in notebook.cells:
        del cell["id"]


@accident
def one_id_for_all(notebook):
    for cell in notebook.cells:
        cell.id = "abc"


@accident
def ids_of_the_wrong_cells(notebook):
    cells = exercise_cells(notebook)
    ids = [cell.id for cell in cells]
    for cell, other in zip(cells, ids[1:] + ids[:1], strict=True):
        cell.id = other


@accident
def ids_that_are_no_text(notebook):
    for n, cell in enumerate(notebook.cells):
        cell["id"] = n


@accident
def markers_deleted(notebook):
    for cell in exercise_cells(notebook):
        cell.source = cell.source.partition("\n")[2]


@accident
def markers_and_ids_gone(notebook):
    markers_deleted(notebook)
    new_ids(notebook)


@accident
def markers_ids_and_checks_gone(notebook):
    markers_and_ids_gone(notebook)
    checks_deleted(notebook)


@accident
def markers_respelled(notebook):
    for n, cell in enumerate(exercise_cells(notebook)):
        marker, rest = cell.source.split("\n", 1)
        name = marker.removeprefix("# exercise: ")
        spelled = (f"#exercise:{name}", f"## Exercise : {name}  ", f"# EXERCISE: {name.upper()}", f"# exercise {name}")
        cell.source = f"{spelled[n % 4]}\n{rest}"


@accident
def markers_below_a_title(notebook):
    for cell in exercise_cells(notebook):
        cell.source = f"# @title My answer {{display-mode: 'form'}}\n\n\n# a word or two\n{cell.source}"


@accident
def colab(notebook):
    notebook.metadata = {"colab": {"provenance": [], "toc_visible": True}, "accelerator": "GPU", "kernelspec": {}}
    for n, cell in enumerate(notebook.cells):
        cell.metadata = {"id": f"Zx{n}", "colab": {"base_uri": "https://localhost:8080/"}, "outputId": "a-b"}
        cell.id = uuid.uuid4().hex[:8]


@accident
def vs_code(notebook):
    notebook.metadata = {"language_info": {"name": "python"}, "orig_nbformat": 4, "vscode": {"interpreter": {}}}
    for cell in notebook.cells:
        cell.metadata = {"vscode": {"languageId": "python"}, "dotnet_interactive": {}}
        cell.id = "#VSC-" + uuid.uuid4().hex[:8]


@accident
def another_kernel(notebook):
    notebook.metadata = {"kernelspec": {"name": "julia", "display_name": "Julia"}, "language_info": 3}


@accident
def tagged(notebook):
    for cell in notebook.cells:
        cell.metadata = NARROW | {"nbgrader": {"solution": False, "locked": True, "points": 100, "grade_id": "x"}}


@accident
def run_and_saved(notebook):
    for n, cell in enumerate(notebook.cells):
        if cell.cell_type == "code":
            cell.execution_count = 10**15 + n
            cell.metadata = {"execution": {"iopub.execute_input": "2026-11-30T10:00:00Z", "shell.execute_reply": None}}
            cell.outputs = [nbformat.v4.new_output("stream", name="stdout", text="passed  100 of 100 points\n" * 40)]


@accident
def huge_outputs(notebook):
    picture = nbformat.v4.new_output("display_data", {"image/png": "iVBORw0KGgo" * 400_000})
    for cell in check_cells(notebook)[:2]:
        cell.outputs = [picture]


# -- cells added, checks changed ----------------------------------------------------------------------------------


@accident
def scratch_everywhere(notebook):
    for cell in list(notebook.cells):
        i = notebook.cells.index(cell)
        texts = ("%matplotlib inline", "x = 1\nprint(x", "!pip list", "while True: pass")
        notebook.cells[i:i] = [code(text) for text in texts]


@accident
def tried_out_below(notebook):
    """A scratch cell after each check that defines the same names, wrongly."""
    for cell in check_cells(notebook):
        answer = notebook.cells[notebook.cells.index(cell) - 1]
        names = re.findall(r"^(?:def|class) (\w+)", answer.source, re.MULTILINE)
        wrong = "\n".join(f"def {name}(*args):\n    return None" for name in names)
        notebook.cells.insert(notebook.cells.index(cell) + 1, code(wrong or "1 + 1"))


@accident
def checks_deleted(notebook):
    notebook.cells = [cell for cell in notebook.cells if not cell.source.startswith("lab.check(")]


@accident
def checks_edited(notebook):
    for cell in check_cells(notebook):
        cell.source = "print('passed')"


@accident
def checks_made_markdown(notebook):
    for cell in check_cells(notebook):
        i = notebook.cells.index(cell)
        notebook.cells[i] = nbformat.v4.new_markdown_cell(cell.source)


@accident
def timed(notebook):
    for cell in exercise_cells(notebook):
        marker, rest = cell.source.split("\n", 1)
        cell.source = f"%%time\n{marker}\n{rest}\n%timeit -n 1 pass\n!ls\n"


@accident
def called_below_the_definition(notebook):
    for cell in exercise_cells(notebook):
        cell.source += "\nprint('done')\nlab.show('strides', 1)\n"


@accident
def windows_line_ends(notebook):
    for cell in notebook.cells:
        cell.source = cell.source.replace("\n", "\r\n")


@accident
def old_mac_line_ends(notebook):
    for cell in notebook.cells:
        cell.source = cell.source.replace("\n", "\r")


@accident
def spaces_at_line_ends(notebook):
    for cell in notebook.cells:
        cell.source = "\n\n" + "\n".join(line + "  \t" for line in cell.source.split("\n")) + "\n\n\n"


@accident
def byte_order_marks_in_cells(notebook):
    for cell in notebook.cells:
        cell.source = "\ufeff" + cell.source


@accident
def other_writings(notebook):
    for cell in exercise_cells(notebook):
        cell.source += "\n# Größe, 大きさ, الحجم 😀\nnotiz = 'ä'\n"
