"""The clean check: answers are found in every state editors leave a notebook in, and run in a process of their own."""

import json

import nbformat
import pytest

from labsupport import catalog
from labsupport.answering import reference_answer
from labsupport.clean import clean_check, run_apart
from labsupport.course import Outcome
from labsupport.grading.finding import take_answers
from labsupport.journal import Journal
from labsupport.plain_child import run_in_child

LESSON = catalog.find_lesson("start_here")
EXERCISES = catalog.exercises("start_here")
EXERCISE = catalog.find_exercise("start-here/return-shape")
REFERENCE = reference_answer(EXERCISE).source
STUB = catalog.stubs("start_here")[EXERCISE.id]
MARK = f"# exercise: {EXERCISE.id}\n"
WRONG = f"def {EXERCISE.names[0]}(*args):\n    return 'wrong'\n"


@pytest.fixture(autouse=True, params=[run_apart, run_in_child], ids=["apart", "plain child"])
def runner(request, monkeypatch):
    """Every test runs twice: as on this system, and as where no cage can be built."""
    monkeypatch.setattr("labsupport.clean.run_apart", request.param)


def checked(tmp_path, *cells, exercises=(EXERCISE,), journal=None):
    path = tmp_path / LESSON.notebook
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    path.write_text(nbformat.writes(notebook), encoding="utf-8")
    before = path.read_bytes()
    found = clean_check(path, exercises, journal=journal)
    assert path.read_bytes() == before
    return found


def verdict(tmp_path, *cells, exercises=(EXERCISE,)):
    found = {key: one.verdict for key, one in checked(tmp_path, *cells, exercises=exercises).items()}
    return found if len(exercises) > 1 else found[EXERCISE.id]


def taken(*cells, ids=None):
    ids = ids or [""] * len(cells)
    return take_answers(list(zip(ids, cells, strict=True)), (EXERCISE,))[0]


def test_all_references_pass_in_one_child(tmp_path):
    cells = [f"# exercise: {e.id}\n{reference_answer(e).source}" for e in EXERCISES]
    assert {v.outcome for v in verdict(tmp_path, *cells, exercises=EXERCISES).values()} == {Outcome.PASSED}


def test_a_stub_is_not_yet_and_a_missing_cell_too(tmp_path):
    assert verdict(tmp_path, STUB).outcome is Outcome.NOT_YET
    told = verdict(tmp_path, "x = 1")
    assert (told.outcome, "lab reset" in told.next) == (Outcome.NOT_YET, True)


def test_a_wrong_answer_never_gets_the_expected_value(tmp_path):
    told = verdict(tmp_path, MARK + WRONG)
    assert told.outcome is Outcome.WRONG
    assert "expected" not in told.why or "expected tuple" in told.why


def test_a_death_and_a_syntax_error_cost_only_their_exercise(tmp_path):
    dies = f"{MARK}import os\ndef {EXERCISE.names[0]}(*args):\n    os._exit(3)\n"
    others = [f"# exercise: {e.id}\n{reference_answer(e).source}" for e in EXERCISES if e is not EXERCISE]
    told = verdict(tmp_path, dies, *others, exercises=EXERCISES)
    assert told[EXERCISE.id].outcome is Outcome.CRASHED
    assert "exit code 3" in told[EXERCISE.id].why
    assert {v.outcome for key, v in told.items() if key != EXERCISE.id} == {Outcome.PASSED}
    assert "SyntaxError" in verdict(tmp_path, MARK + "def broken(:").why


def test_the_last_answer_that_is_not_the_stub_is_taken():
    assert taken(MARK + REFERENCE, MARK + WRONG, STUB).source == MARK + WRONG
    assert "2 cells answer it" in taken(MARK + REFERENCE, MARK + WRONG).how


def test_answers_survive_lost_markers_and_lost_ids():
    cell_id = "ex-start-here-return-shape"
    assert taken(REFERENCE, ids=[cell_id]).how == "by its cell id"
    assert taken(REFERENCE).how == "by the name it defines"
    assert taken("print(1)").source == ""


def test_helpers_of_earlier_cells_come_along(tmp_path):
    helped = MARK + f"def {EXERCISE.names[0]}(*args):\n    return helper(*args)\n"
    helper = REFERENCE.replace(f"def {EXERCISE.names[0]}", "def helper")
    assert verdict(tmp_path, helper, helped).passed
    told = verdict(tmp_path, helped, helper)
    assert "NameError" in told.why


def test_course_cells_that_cannot_run_alone_do_no_harm(tmp_path):
    cells = [
        "lab = lesson('start_here')",
        "x = lab.data('digits')",
        "1 / 0",
        "%matplotlib inline",
        "import os; os._exit",
    ]
    assert verdict(tmp_path, *cells, MARK + REFERENCE).passed


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"cells": 3}', '{"worksheets": []}', '{"cells": [{"cell_type": "code"}]}']
)
def test_a_file_that_is_no_notebook_is_unreadable_and_left_alone(tmp_path, text):
    path = tmp_path / LESSON.notebook
    path.write_text(text, encoding="utf-8")
    told = clean_check(path, (EXERCISE,))[EXERCISE.id].verdict
    assert told.outcome is Outcome.UNREADABLE
    assert path.read_text(encoding="utf-8") == text


def test_source_as_a_list_of_lines_is_read(tmp_path):
    path = tmp_path / LESSON.notebook
    lines = (MARK + REFERENCE).splitlines(keepends=True)
    path.write_text(json.dumps({"cells": [{"cell_type": "code", "source": lines}]}), encoding="utf-8")
    assert clean_check(path, (EXERCISE,))[EXERCISE.id].verdict.passed


# -- why the live check disagrees --------------------------------------------------------------------------------


@pytest.fixture
def passed_live(tmp_path, monkeypatch):
    """Return a function that passes an answer live and gives the journal that recorded it."""
    monkeypatch.setenv("LAB_WORK", str(tmp_path / "work"))

    def pass_live(source):
        from labsupport import lesson
        from labsupport.answering import Answer, load

        namespace = load(Answer(source, EXERCISE.names))
        shown = lesson("start_here").check(EXERCISE.short_id, namespace[EXERCISE.names[0]])
        assert str(shown).startswith("passed")
        return Journal()

    return pass_live


HELPED = f"def {EXERCISE.names[0]}(*args):\n    return helper(*args)\n"
HELPER = REFERENCE.replace(f"def {EXERCISE.names[0]}", "def helper")


@pytest.mark.parametrize(
    ("live", "cells", "words"),
    [
        (REFERENCE, [MARK + WRONG], "is not the one in the file: save the notebook"),
        (HELPER + HELPED, [MARK + HELPED], "no cell of the notebook defines it"),
        (HELPER + HELPED, [MARK + HELPED, HELPER], "is defined in a cell below the answer"),
        (REFERENCE, [MARK + REFERENCE], ""),
    ],
)
def test_the_cause_is_named(tmp_path, passed_live, live, cells, words):
    journal = passed_live(live)
    told = checked(tmp_path, *cells, journal=journal)[EXERCISE.id].disagrees
    assert words in told if words else told == ""
