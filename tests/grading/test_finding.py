"""Which cells answer which exercise: found in every state editors leave a notebook in, and said."""

import ast

import accidents
import nbformat
import pytest
import rearranged
from accidents import LESSONS, cell_of, code, index_of, shipped, solved
from handed_in import CHECK, FUNCTION, MARK, NAME, REFERENCE, SEVERAL, STUB, WRONG, holds, literals, submission, taken
from rearranged import ACCIDENTS

from labsupport import catalog
from labsupport.grading import finding
from labsupport.grading import shipped as lessons_shipped

# -- accidents ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.slug)
@pytest.mark.parametrize("accident", ACCIDENTS, ids=lambda accident: accident.__name__)
def test_answers_survive(tmp_path, accident, lesson):
    notebook = solved(lesson.slug)
    accident(notebook)
    found = submission(tmp_path, notebook, "handed in.ipynb")
    assert (found.unreadable, found.lesson) == ("", lesson.slug)
    lost = {e.id: found.answers[e.id].told for e in catalog.exercises(lesson.slug) if not holds(e, found.answers[e.id])}
    assert lost == {}
    assert found.answered == len(found.answers)


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.slug)
@pytest.mark.parametrize(
    "accident",
    [
        accidents.strip_metadata,
        accidents.new_ids,
        accidents.no_ids,
        accidents.windows_line_ends,
        accidents.checks_deleted,
    ],
    ids=lambda accident: accident.__name__,
)
def test_stubs_stay_stubs(tmp_path, accident, lesson):
    notebook = shipped(lesson.slug)
    accident(notebook)
    found = submission(tmp_path, notebook)
    assert found.answered == 0
    assert all(one.untouched and one.how == "the stub as shipped" for one in found.answers.values())


def test_most_accidents_need_no_comment_and_some_do(tmp_path):
    def said(accident):
        notebook = solved("start_here")
        accident(notebook)
        found = submission(tmp_path, notebook)
        return " ".join(note for one in found.answers.values() for note in one.notes)

    quiet = (
        accidents.strip_metadata,
        accidents.new_ids,
        accidents.markers_deleted,
        rearranged.moved_to_the_end,
        accidents.colab,
    )
    assert [said(accident) for accident in quiet] == [""] * len(quiet)
    assert "is a markdown cell; its text was taken" in said(rearranged.made_markdown)
    assert "is a raw cell; its text was taken" in said(rearranged.made_raw)
    assert "were joined" in said(rearranged.split_in_the_middle)
    assert "holds several exercises" in said(rearranged.merged_two_by_two)
    assert "Calls of the lesson" in said(rearranged.merged_with_their_checks)
    assert "Text around the answer" in said(rearranged.merged_with_the_text_above)
    assert "for IPython only" in said(accidents.timed)
    assert "as well: not taken" in said(accidents.tried_out_below)


def test_all_accidents_at_once(tmp_path):
    notebook = solved("broadcasting")
    for accident in (
        rearranged.answers_copied,
        accidents.markers_and_ids_gone,
        accidents.strip_metadata,
        rearranged.moved_to_the_end,
    ):
        accident(notebook)
    found = submission(tmp_path, notebook)
    assert all(holds(e, found.answers[e.id]) for e in catalog.exercises("broadcasting"))


# -- which of several ---------------------------------------------------------------------------------------------


def test_it_says_which_cell_was_taken_and_why(tmp_path):
    found = submission(tmp_path, solved("start_here"))
    number = index_of(solved("start_here"), FUNCTION) + 1
    assert (found.answers[FUNCTION.id].cells, found.answers[FUNCTION.id].told) == (
        (number,),
        f"cell {number}, by its marker",
    )


def test_the_last_copy_that_is_not_the_stub_is_taken(tmp_path):
    assert taken(tmp_path, MARK + WRONG, MARK + REFERENCE, STUB).source == MARK + REFERENCE
    one = taken(tmp_path, MARK + REFERENCE, STUB, MARK + WRONG)
    assert (one.source, one.how) == (MARK + WRONG, "by its marker; 2 cells answer it, the last one was taken")


def test_an_answer_with_its_marker_beats_one_without(tmp_path):
    one = taken(tmp_path, MARK + REFERENCE, CHECK, WRONG)
    assert one.source == MARK + REFERENCE
    assert one.notes == (f"`{NAME}` defined in cell 4 as well: not taken.",)


def test_a_new_definition_before_the_check_is_what_the_check_sees(tmp_path):
    one = taken(tmp_path, MARK + WRONG, REFERENCE, CHECK)
    assert (one.source, one.cells) == (REFERENCE, (3,))
    assert "before the check" in one.how


def test_an_answer_overwritten_below_its_check_is_judged_at_its_own_point(tmp_path):
    one = taken(tmp_path, MARK + REFERENCE, CHECK, f"{NAME} = None")
    assert (one.source, one.helpers) == (MARK + REFERENCE, ())


def test_an_answer_beside_the_untouched_stub_is_taken(tmp_path):
    for cells_ in ((STUB, CHECK, REFERENCE), (REFERENCE, STUB, CHECK)):
        one = taken(tmp_path, *cells_)
        assert (one.source, one.how) == (REFERENCE, "by the name it defines")


def test_code_wins_over_text(tmp_path):
    one = taken(tmp_path, MARK + WRONG, MARK + REFERENCE, kinds=["markdown", "code"])
    assert one.source == MARK + REFERENCE
    one = taken(tmp_path, STUB, MARK + REFERENCE, kinds=["code", "markdown"])
    assert (one.source, one.how) == (MARK + REFERENCE, "in a markdown cell")


def test_a_stub_made_text_is_still_a_stub(tmp_path):
    one = taken(tmp_path, STUB, kinds=["raw"])
    assert (one.untouched, one.how) == (True, "the stub as shipped")


def test_stub_with_new_comments_or_another_docstring_is_untouched(tmp_path):
    lines = [line for line in STUB.splitlines() if '"""' not in line]
    assert taken(tmp_path, "\n".join([*lines, "# I will do this later", "print('hello')"])).untouched


def test_parts_in_cells_of_their_own_are_joined(tmp_path):
    parts = [f"{name} = {n}" for n, name in enumerate(SEVERAL.names)]
    one = taken(tmp_path, *parts, 'lab.check("predict-strides")', exercise=SEVERAL)
    assert literals(one.source) == {name: n for n, name in enumerate(SEVERAL.names)}
    assert one.cells == tuple(range(2, 2 + len(parts)))


def test_predictions_half_filled_in_are_an_answer(tmp_path):
    stub = catalog.stubs("strides")[SEVERAL.id]
    one = taken(tmp_path, stub.replace("...", "(8,)", 1), exercise=SEVERAL)
    assert (one.untouched, one.how) == (False, "by its marker")


def test_a_renamed_answer_is_found_by_its_likeness_and_its_names_are_told(tmp_path):
    text = (
        STUB.split("\n", 1)[1]
        .replace(NAME, "batch_shapes")
        .replace("raise NotImplementedError", "return samples.shape")
    )
    one = taken(tmp_path, text)
    assert (one.source, one.how) == (text, "by its likeness to the stub")
    assert one.notes == (f"The cell does not define `{NAME}`; it defines `batch_shapes`.",)


def test_an_answer_nothing_like_the_stub_is_found_by_its_place(tmp_path):
    notebook = solved("start_here")
    cell = cell_of(notebook, FUNCTION)
    cell.id, cell.source = "new", "mine = lambda s, n: (n, *s.shape[1:])"
    one = submission(tmp_path, notebook).answers[FUNCTION.id]
    assert (one.source, one.how) == (cell.source, "by its place in the lesson")


def test_a_misspelt_marker_is_understood(tmp_path):
    one = taken(tmp_path, f"# exercise: start-here/retrun-shape\n{REFERENCE}")
    assert (holds(FUNCTION, one), one.how) == (True, "by its marker, which is nearly right")


def test_a_broken_answer_is_taken_as_it_is(tmp_path):
    broken = f"{MARK}def {NAME}(samples, batch_rows):\n    return (\n"
    one = taken(tmp_path, broken, "print(1)", CHECK)
    assert (one.source, one.cells) == (broken, (2,))
    assert taken(tmp_path, broken.removeprefix(MARK)).how == "by the name it defines"


def test_no_cell_is_no_answer(tmp_path):
    one = taken(tmp_path, "x = 1")
    assert (one.source, one.how, one.cells, one.untouched) == ("", "no cell found", (), False)


def test_a_cell_another_program_would_run_is_not_an_answer(tmp_path):
    assert taken(tmp_path, f"%%bash\n{NAME} = 3").how != "by the name it defines"


# -- what comes along ---------------------------------------------------------------------------------------------


def test_helpers_come_along_in_order_and_only_those_the_answer_leans_on(tmp_path):
    answer = f"{MARK}def {NAME}(samples, batch_rows):\n    return outer(samples, batch_rows)\n"
    one = taken(
        tmp_path,
        "import math, os\nfrom itertools import count as counting",
        "def outer(s, n):\n    return (inner(n), *s.shape[1:])",
        "table = {}\nfor k in range(3):\n    table[k] = k\nrows = []\nrows.append(table)\nother = [1]\nother.append(2)",
        "def inner(n):\n    return table.get(n, next(counting(n))) + len(rows) * 0",
        "while True: forever = 1",
        "unused = 1 / 0",
        answer,
        "late = 5",
        CHECK,
    )
    assert one.helpers == (
        "from itertools import count as counting",
        "def outer(s, n):\n    return (inner(n), *s.shape[1:])",
        "table = {}",
        "for k in range(3):\n    table[k] = k",
        "rows = []",
        "rows.append(table)",
        "def inner(n):\n    return table.get(n, next(counting(n))) + len(rows) * 0",
    )


def test_a_helper_below_counts_only_up_to_the_check(tmp_path):
    answer, helper = f"{MARK}def {NAME}(*args):\n    return helper(*args)\n", "def helper(*args):\n    return 1"
    assert taken(tmp_path, answer, helper, CHECK).helpers == (helper,)
    assert taken(tmp_path, answer, CHECK, helper).helpers == ()
    assert taken(tmp_path, answer, helper).helpers == ()


def test_parameters_and_locals_are_no_reason_to_bring_something(tmp_path):
    answer = f"{MARK}def {NAME}(samples, batch_rows):\n    half = [k for k in samples]\n    return half\n"
    one = taken(tmp_path, "samples = 1\nhalf = 2\nk = 3\nbatch_rows = 4", answer)
    assert one.helpers == ()


def test_what_talks_to_the_lesson_stays_behind(tmp_path):
    answer = f"{MARK}def {NAME}(samples, batch_rows):\n    return digits, images, shell\n"
    one = taken(tmp_path, "digits = lab.data('digits')\nimages = 3\nshell = get_ipython()", answer)
    assert one.helpers == ("images = 3",)


def test_names_of_a_star_import_come_along(tmp_path):
    assert taken(tmp_path, "from math import *", MARK + REFERENCE).helpers == ("from math import *",)


def test_code_of_the_lesson_in_the_answers_cell_is_set_apart_and_may_help(tmp_path):
    notebook = solved("strides")
    given = next(c for c in notebook.cells if c.source.startswith("from numpy.lib.stride_tricks import as_strided"))
    exercise = catalog.find_exercise("strides/address-of")
    cell = cell_of(notebook, exercise)
    cell.source = f"# exercise: {exercise.id}\n{given.source}\ndef address_of(*args):\n    return x\n"
    one = submission(tmp_path, notebook).answers[exercise.id]
    assert "Code of the lesson in the same cell was set apart." in one.notes
    assert ("x = np.arange(5.0)" in one.helpers, "as_strided(" in one.source) == (True, False)


# -- code that is hard to look into ---------------------------------------------------------------------------------


def test_a_number_without_end_costs_its_own_cell_only(tmp_path):
    endless = "x = 0x" + "f" * 4000
    assert holds(FUNCTION, taken(tmp_path, endless, MARK + REFERENCE))
    one = taken(tmp_path, f"{MARK}{endless}\n{REFERENCE}")
    assert (one.source, "more than 3,000 digits" in one.unreadable) == ("", True)


@pytest.mark.parametrize("row", ["1,", "[0.125,2,-3],"])
def test_an_answer_may_lean_on_a_table_that_grows_when_it_is_written_out(tmp_path, row):
    table = f"table=[{row * (29_000 // len(row))}]"
    one = taken(tmp_path, table, f"{MARK}def {NAME}(*args):\n    table[0]\n    return table")
    assert len(one.helpers) == 1
    assert len(one.helpers[0]) > 30_000
    assert ast.literal_eval(one.helpers[0].removeprefix("table = ")) == ast.literal_eval(table[6:])


@pytest.mark.parametrize(
    "calls", ["lab.x(10); lab.e(1)", "lab.x('ä'); y = 'öä'; lab.show('address-pass')", "lab.x(\n1); lab.e(2)"]
)
def test_several_calls_of_the_lesson_in_one_line_are_left_out(tmp_path, calls):
    one = taken(tmp_path, f"{MARK}{calls}\n{REFERENCE}")
    assert holds(FUNCTION, one)
    assert "lab" not in one.source.removeprefix(MARK)
    ast.parse(one.source)


def test_endless_blanks_in_a_text_cell_hold_nobody(tmp_path):
    odd = "# exercise" + " " * 200_000 + "!"
    assert holds(FUNCTION, taken(tmp_path, odd, MARK + REFERENCE, kinds=["markdown", "code"]))


def test_so_many_misspelt_markers_are_compared_and_no_more(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(lessons_shipped.Shipped, "meant_by", lambda self, mark: asked.append(mark))
    texts = ["\n".join(f"# exercise: start-here/retrun-shape{n}-{k}" for k in range(50)) for n in range(20)]
    one = taken(tmp_path, *texts, MARK + REFERENCE, kinds=["markdown"] * 20 + ["code"])
    assert holds(FUNCTION, one)
    assert len(asked) == len(set(asked)) <= 200


def test_what_cannot_be_looked_into_costs_one_exercise(tmp_path, monkeypatch):
    whole = finding._Search.alike

    def alike(search):
        if search.exercise.id == FUNCTION.id:
            raise RecursionError
        return whole(search)

    monkeypatch.setattr(finding._Search, "alike", alike)
    found = submission(tmp_path, nbformat.v4.new_notebook(cells=[code('lab = lesson("start_here")')])).answers
    assert "cannot be looked into (RecursionError)" in found[FUNCTION.id].unreadable
    assert [one.unreadable for one in found.values()].count("") == len(found) - 1
