"""Small notebooks handed in, and whether the right answer was taken from them."""

import ast
import json

import nbformat
from accidents import code

from labsupport import answering, catalog
from labsupport.grading.intake import read_submission

LESSON = catalog.find_lesson("start_here")
FUNCTION = catalog.find_exercise("start-here/return-shape")
SEVERAL = catalog.find_exercise("strides/predict-strides")  # a prediction of several names
MARK = f"# exercise: {FUNCTION.id}\n"
NAME = FUNCTION.names[0]
REFERENCE = answering.reference_answer(FUNCTION).source
WRONG = f"def {NAME}(*args):\n    return 'wrong'\n"
STUB = catalog.stubs("start_here")[FUNCTION.id]
CHECK = 'lab.check("return-shape")'


def save(path, notebook):
    """Write a notebook as it is, valid or not, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(notebook), encoding="utf-8")
    return path


def submission(tmp_path, notebook, name=LESSON.notebook):
    return read_submission(save(tmp_path / "learner-a" / name, notebook))


def taken(tmp_path, *texts, exercise=FUNCTION, kinds=None):
    """Return what is taken of a notebook with these cells (code, unless `kinds` says otherwise)."""
    kinds = kinds or ["code"] * len(texts)
    new = {"code": code, "markdown": nbformat.v4.new_markdown_cell, "raw": nbformat.v4.new_raw_cell}
    opened = code(f'lab = lesson("{exercise.slug}")')
    made = [new[kind](text) for kind, text in zip(kinds, texts, strict=True)]
    return submission(tmp_path, nbformat.v4.new_notebook(cells=[opened, *made])).answers[exercise.id]


def holds(exercise, one):
    """Return whether the reference is what was taken."""
    reference = answering.reference_answer(exercise).source
    if exercise.kind == "prediction":
        return all(literals(one.source).get(name) == value for name, value in literals(reference).items())
    mine, right = (answering.definition_in(text, exercise.names[0]) for text in (one.source, reference))
    return mine is not None and answering.same_program(mine, right)


def literals(text):
    found = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                found[node.targets[0].id] = ast.literal_eval(node.value)
            except ValueError:
                continue
    return found
