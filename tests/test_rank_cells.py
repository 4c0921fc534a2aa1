"""Answers that are `%%torchrun` cells: built, found in notebooks, grafted, linted, and checked by the text last run."""

import json
import sys

import little_course
import pytest
from rank_course import LESSON, MEAN, exercise_of

from labsupport import answering, building, catalog, disagreeing, linting, live
from labsupport.cli import main
from labsupport.course import Outcome
from labsupport.grading import shipped
from labsupport.grading.cells import Cell
from labsupport.grading.finding import take_answers
from labsupport.reading import load
from labsupport.torchrun import cells

ANSWER = """\
import torch
import torch.distributed as dist


def scaled(x):
    return x / dist.get_world_size()


def shared_mean(x):
    total = x.clone()
    dist.all_reduce(total)
    return scaled(total)


if __name__ == "__main__":
    dist.init_process_group()
    print(shared_mean(torch.arange(4.0)))"""
CELL = f"%%torchrun --nproc 2\n# exercise: demo/shared-mean\n{ANSWER}\n"


@pytest.fixture
def course(tmp_path, monkeypatch):
    """The little course with the rank lesson as its only one; returns its built notebook."""
    little_course.use(tmp_path, monkeypatch.setattr)

    def exercises(slug=None):
        return (MEAN,) if slug in (None, "demo") else ()

    exercises.cache_clear = lambda: None
    monkeypatch.setattr(catalog, "exercises", exercises)
    monkeypatch.setattr("labsupport.grading.finding.shipped_lesson", shipped.shipped_lesson.__wrapped__)
    monkeypatch.setenv("LAB_WORK", str(tmp_path / "work"))
    little_course.release(tmp_path, LESSON)
    cells.forget()
    yield load(tmp_path / "notebooks" / "05_demo.ipynb")
    cells.forget()


def stub_of(notebook):
    return next(cell for cell in notebook["cells"] if cell["id"] == "ex-demo-shared-mean")["source"]


def taken_from(*sources):
    (taken,) = take_answers([Cell(n, f"c{n}", "code", text) for n, text in enumerate(sources, 1)], (MEAN,))
    return taken


# -- building and grafting --------------------------------------------------------------------------------------------


def test_the_cell_is_built_with_its_magic_awake_and_known_by_its_marker(course):
    lines = stub_of(course).splitlines()
    assert lines[:2] == ["%%torchrun --nproc 2", "# exercise: demo/shared-mean"]
    assert catalog.stubs("demo")["demo/shared-mean"] == stub_of(course)


def test_a_graft_keeps_the_magic_the_imports_and_what_the_cell_does_as_a_program(course):
    reference = answering.source_of(MEAN.reference, "shared_mean")
    solved = stub_of(building.graft(course, {"demo/shared-mean": reference}))
    lines = solved.splitlines()
    assert lines[:4] == [*stub_of(course).splitlines()[:2], "import torch", "import torch.distributed as dist"]
    assert 'if __name__ == "__main__":' in lines and "NotImplementedError" not in solved
    compile(answering.without_magic(solved), "cell", "exec")


def test_a_graft_of_a_whole_answer_repeats_nothing(course):
    for source in (ANSWER, answering.without_magic(CELL), CELL):
        solved = stub_of(building.graft(course, {"demo/shared-mean": source}))
        assert solved.count("import torch\n") == 1 and solved.count("__main__") == 1
        assert solved.count("%%torchrun") == 1 and solved.count("# exercise:") == 1


def test_linting_looks_at_the_body_alone(course, tmp_path):
    source = tmp_path / "notebooks" / "source" / "05_demo.py"
    assert [p for p in linting.lint(source) if p.rule in ("programs", "exercises", "checks", "answers")] == []
    broken = source.read_text(encoding="utf-8").replace("def shared_mean(x):", "def shard_mean(x):\n    lab")
    source.write_text(broken, encoding="utf-8")
    found = {(p.rule, p.what) for p in linting.lint(source) if p.rule in ("programs", "exercises")}
    assert ("exercises", "the cell of demo/shared-mean does not define shared_mean") in found
    assert ("programs", "F821: Undefined name `lab`") in found


# -- taking answers ---------------------------------------------------------------------------------------------------


def test_the_answer_is_the_cell_without_its_magic(course):
    taken = taken_from("lab = 1", CELL)
    assert taken.source == answering.without_magic(CELL) and taken.source.startswith("# %%torchrun")
    assert (taken.how, taken.helpers, taken.notes, taken.untouched) == ("by its marker", (), (), False)
    assert taken_from(stub_of(course)).untouched


@pytest.mark.parametrize(
    ("change", "how"),
    [
        (lambda text: text.replace("# exercise: demo/shared-mean\n", ""), "by the name it defines"),
        (lambda text: text.partition("\n")[2], "by its marker"),
        (lambda text: text.replace("shared-mean", "shared-maen"), "by its marker, which is nearly right"),
        (lambda text: text.replace("--nproc 2", "--nproc 4 --cold"), "by its marker"),
    ],
)
def test_the_usual_anchors_find_it(course, change, how):
    taken = taken_from("x = 1", change(CELL))
    assert taken.how == how and "return scaled(total)" in taken.source


def test_no_other_cell_helps_it_and_it_helps_no_other(course):
    alone = CELL.replace("def scaled(x):\n    return x / dist.get_world_size()\n", "")
    taken = taken_from("def scaled(x):\n    return x / 2", "%%torchrun --nproc 2\ndef scaled(x):\n    return x", alone)
    assert taken.helpers == ()
    from labsupport.grading.helping import helpers_of

    others = [Cell(1, "a", "code", "%%torchrun\ndef scaled(x):\n    return x"), Cell(2, "b", "code", "n = 3")]
    assert helpers_of("scaled(n)", others, shipped.Shipped("demo", ())) == ("n = 3",)


def test_ipython_lines_inside_are_left_out_with_a_note(course):
    taken = taken_from(CELL.replace("def scaled", "%matplotlib inline\ndef scaled"))
    assert "%matplotlib inline" in taken.source and any("IPython only" in note for note in taken.notes)
    compile(taken.source, "cell", "exec")


def test_a_digest_does_not_see_the_magic(course):
    digests = {
        disagreeing.digest_of_answer(MEAN, source=text)
        for text in (CELL, ANSWER, answering.without_magic(CELL), CELL.replace("--nproc 2", "--nproc 3"))
    }
    assert len(digests) == 1 and None not in digests


# -- checking ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def lab(course, monkeypatch):
    monkeypatch.setattr(live, "_callers_namespace", dict)
    return live.lesson("demo")


def test_before_the_cell_was_run_the_check_says_so(lab):
    said = str(lab.check("shared-mean"))
    assert said.startswith("not yet") and "has not been run in this kernel" in said


def test_a_stub_that_was_run_is_not_yet(lab, course):
    cells.remember("demo/shared-mean", stub_of(course).partition("\n")[2])
    said = str(lab.check("shared-mean"))
    assert said.startswith("not yet") and "still the stub" in said


def test_a_cell_without_the_name_is_told(lab):
    cells.remember("demo/shared-mean", "# exercise: demo/shared-mean\nmean = 3")
    assert "does not define `shared_mean`" in str(lab.check("shared-mean"))


needs_fork = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere ranks take long to start")


@needs_fork
def test_the_text_last_run_is_judged(lab, tmp_path):
    cells.remember("demo/shared-mean", CELL.partition("\n")[2])
    assert str(lab.check("shared-mean")).startswith("passed")
    (record,) = lab._journal.about("demo/shared-mean")
    assert record["answer"] == disagreeing.digest_of_answer(MEAN, source=CELL)
    cells.remember("demo/shared-mean", ANSWER.replace("/ dist.get_world_size()", ""))
    said = str(lab.check("shared-mean"))
    assert said.startswith("wrong") and "You return the sum, not the mean." in said


@needs_fork
def test_lines_are_counted_as_in_the_cell(lab):
    body, line = CELL.partition("\n")[2], "dist.all_reduce(total)"
    cells.remember("demo/shared-mean", body.replace(line, "dist.barrier(); 1 / 0"))
    said = str(lab.check("shared-mean"))
    assert "On every rank your line `dist.barrier(); 1 / 0` raised ZeroDivisionError" in said
    cells.remember("demo/shared-mean", body.replace(line, "dist.get_rank() or dist.barrier()"))
    number = 1 + CELL.splitlines().index(f"    {line}")
    assert f"rank 0 waits in it at line {number};" in str(lab.check("shared-mean"))


@needs_fork
def test_a_function_or_a_text_can_be_handed_over(lab):
    for answer in (MEAN.reference, ANSWER, CELL):
        assert str(lab.check("shared-mean", answer)).startswith("passed")


def test_listing_hinting_and_showing_work_as_for_others(course, capsys):
    assert main(["exercises", "demo", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["id"], row["kind"]) == ("demo/shared-mean", "ranks")
    assert main(["hint", "demo/shared-mean"]) == 0
    assert "Which call adds up" in capsys.readouterr().out
    assert main(["solution", "demo/shared-mean"]) in (0, 1)
    assert "opens after one attempt" in capsys.readouterr().out


def test_a_rank_exercise_may_be_one_of_repairing():
    broken = exercise_of(MEAN.reference, name="shared_mean", kind="debug")
    assert broken.on_ranks and broken.kind == "debug"
    from labsupport.judging import Observed, judge

    said = judge(broken, Observed(answer=None, reference=(), untouched=True))
    assert said.outcome is Outcome.NOT_YET and said.why == "`shared_mean` is unchanged."
