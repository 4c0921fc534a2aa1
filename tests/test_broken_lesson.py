"""One broken lesson: its file is named, and the other lessons go on."""

import importlib
import sys

import little_course
import pytest

import labsupport.exercises
from labsupport import building, catalog, workspace
from labsupport.cli import main
from labsupport.cli.drill import _value
from labsupport.errors import LabError
from labsupport.grading.shipped import shipped_lesson

GOOD = """\
from labsupport.course import Case, Drill, Exercise, Misconception, Probe


def double(x):
    return 2 * x


EXERCISES = (
    Exercise(
        id="demo/predict-sum", kind="prediction", task="Say it.", names=("total",), reference=double,
        cases=(Case("three", lambda rng: (3,)),), probe=Probe("literal"),
        misconceptions=(Misconception("keeps-it", 3, "It is kept as it was, once and not twice.", "Look again."),),
        hints=("What is twice three?",), core=True, level=1, minutes=5, source="arithmetic",
        drill=Drill(lambda rng: (3,), lambda x: f"What is twice {x}?"),
    ),
)
"""
BROKEN = {
    "does not parse": ("def f(:\n", "SyntaxError", "line 1"),
    "stops": ("x = 1\ny = 1 / 0\n", "ZeroDivisionError", "line 2"),
    "has no exercises": ("x = 1\n", "AttributeError", "EXERCISES"),
    "has one that is not a list": ("EXERCISES = 3\n", "TypeError", "int"),
    "has something else in it": ("EXERCISES = (3,)\n", "TypeError", "no exercise"),
    "is not text": (b"x = '\xff'\n", "SyntaxError", "tail.py"),
    "wants a part that is not there": ("from labsupport.exercises._tail_x import A\n", "_tail_x", "line 1"),
    "declares a wrong one": (GOOD.replace("level=1", "level=9"), "ValueError", "line 9"),
}


@pytest.fixture
def course(tmp_path, monkeypatch):
    """Return the folder of a course with a good lesson, 05 demo, and a second one, 06 tail."""
    little_course.use(tmp_path, monkeypatch.setattr)
    monkeypatch.setattr(catalog, "exercises", _EXERCISES)
    little_course.release(tmp_path)
    text = little_course.LESSON.replace("demo", "tail").replace("Look twice", "Look at the tail")
    (building.SOURCE / "06_tail.py").write_text(text, encoding="utf-8")
    assert main(["build"]) == 0
    modules = tmp_path / "labsupport" / "exercises"
    modules.mkdir(parents=True)
    (modules / "demo.py").write_text(GOOD, encoding="utf-8")
    monkeypatch.setattr(labsupport.exercises, "__path__", [str(modules)])
    monkeypatch.setenv("LAB_WORK", str(tmp_path / "work"))
    importlib.invalidate_caches()
    shipped_lesson.cache_clear()
    yield tmp_path
    shipped_lesson.cache_clear()
    for name in ("demo", "tail"):
        sys.modules.pop(f"labsupport.exercises.{name}", None)
        vars(labsupport.exercises).pop(name, None)


_EXERCISES = catalog.exercises.__wrapped__


@pytest.fixture(params=BROKEN)
def broken(request, course):
    """Return what is said about the second lesson's module."""
    content, *said = BROKEN[request.param]
    path = course / "labsupport" / "exercises" / "tail.py"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    importlib.invalidate_caches()
    return said


def test_a_broken_module_of_exercises_is_named_with_line_and_reason(broken):
    with pytest.raises(LabError, match="the exercises of tail cannot be used") as raised:
        catalog.exercises("tail")
    assert "exercises/tail.py" in raised.value.why
    for words in broken:
        assert words in raised.value.why
    with pytest.raises(LabError, match="tail"):
        catalog.find_exercise("tail/predict-sum")


def test_the_other_lessons_are_listed_and_found(broken, capsys):
    assert main(["lessons"]) == 1
    out = capsys.readouterr().out
    assert "not started: 1 core exercises" in out and "the exercises of tail cannot be used" in out
    assert main(["exercises"]) == 1
    out, err = capsys.readouterr()
    assert "demo/predict-sum" in out and "tail.py" in err
    assert main(["exercises", "demo"]) == 0 and main(["exercises", "tail"]) == 1
    assert catalog.find_exercise("demo/predict-sum").id == catalog.find_exercise("predict-sum").id
    assert main(["hint", "demo/predict-sum"]) == 0


def test_a_lesson_is_checked_while_another_is_broken(broken, capsys):
    workspace.start_all()
    assert main(["check", "demo"]) == 0
    assert "not yet: demo/predict-sum" in capsys.readouterr().out
    assert main(["check"]) == 1
    out, err = capsys.readouterr()
    assert "not yet: demo/predict-sum" in out and "the exercises of tail cannot be used" in err


def test_a_drill_of_all_lessons_leaves_the_broken_one_out(broken, capsys, monkeypatch):
    answers = iter(["6", ""])
    monkeypatch.setattr("builtins.input", lambda prompt: next(answers))
    assert main(["drill"]) == 1
    out, err = capsys.readouterr()
    assert "1 of 1 right" in out and "the exercises of tail" in err


def test_a_package_that_is_missing_is_not_the_modules_fault(course):
    path = course / "labsupport" / "exercises" / "tail.py"
    path.write_text("import a_package_that_nobody_has\n", encoding="utf-8")
    importlib.invalidate_caches()
    with pytest.raises(ModuleNotFoundError):  # the `lab` command tells it, or the launcher installs it
        catalog.exercises("tail")


SOURCES = {"not text": b"# %% [markdown]\n# # A\xff\n", "a folder": None}


@pytest.mark.parametrize("name", SOURCES)
def test_a_source_that_cannot_be_read_is_named_and_the_others_are_built(course, capsys, name):
    source = building.SOURCE / "06_tail.py"
    source.unlink()
    source.mkdir() if SOURCES[name] is None else source.write_bytes(SOURCES[name])
    (course / "notebooks" / "05_demo.ipynb").unlink()
    capsys.readouterr()
    assert main(["build"]) == 1
    out, err = capsys.readouterr()
    assert "built notebooks/05_demo.ipynb" in out and "notebooks/source/06_tail.py cannot be read" in err
    assert main(["build", "--check"]) == 1 and main(["build", "demo"]) == 0
    capsys.readouterr()
    assert main(["lint"]) == 1
    out = capsys.readouterr().out
    assert "06_tail.py cannot be read" in out and "3 sources" in out
    assert main(["lessons"]) == 1
    out = capsys.readouterr().out
    assert "Look twice" in out and "06_tail.py cannot be read" in out
    assert catalog.find_lesson("tail").ready, "the built notebook is there and can be opened"


BUILT = {"an open brace": b"{", "no cells": b'{"nbformat": 4}', "no notebook": b"[]", "no text": b"\xff"}


@pytest.mark.parametrize("name", BUILT)
def test_a_built_notebook_that_cannot_be_read_is_named_with_the_way_to_build_it(course, name):
    (course / "notebooks" / "05_demo.ipynb").write_bytes(BUILT[name])
    with pytest.raises(LabError, match=r"notebooks/05_demo\.ipynb, as the course ships it") as raised:
        catalog.stubs("demo")
    assert raised.value.next_step == "lab build demo" and raised.value.why
    assert "tail/double-up" in catalog.stubs("tail")


@pytest.mark.parametrize("name", BUILT)
def test_answers_are_checked_while_a_built_notebook_cannot_be_read(course, capsys, name):
    (course / "labsupport" / "exercises" / "tail.py").write_text(GOOD.replace("demo", "tail"), encoding="utf-8")
    importlib.invalidate_caches()
    workspace.start_all()
    (course / "notebooks" / "05_demo.ipynb").write_bytes(BUILT[name])
    shipped_lesson.cache_clear()
    assert main(["check", "tail"]) == 0
    assert main(["check"]) == 1 and main(["check", "demo"]) == 1
    out, err = capsys.readouterr()
    assert "not yet: tail/predict-sum" in out and "lab build demo" in err


def test_a_notebook_that_is_not_built_has_no_stubs(course):
    (course / "notebooks" / "05_demo.ipynb").unlink()
    assert catalog.stubs("demo") == {}


# lab drill


def drilled(monkeypatch, *answers):
    left = iter([*answers, ""])
    monkeypatch.setattr("builtins.input", lambda prompt: next(left))
    return main(["drill", "demo"])


ODD = ["{[]: 1}", "1+" * 100_000 + "1", "(" * 300 + ")" * 300, "-" * 5000 + "1", "9" * 6000, "\0", "1e999", "{*()}"]


@pytest.mark.parametrize("typed", ODD, ids=lambda typed: typed[:10])
def test_whatever_is_typed_into_a_drill_is_an_answer(course, monkeypatch, capsys, typed):
    assert drilled(monkeypatch, typed, "6") == 0
    out = capsys.readouterr().out
    assert "wrong" in out and "0 of 1 right at the first try" in out


def test_what_is_typed_is_a_value_or_a_word():
    typed = {"(8, 32)": (8, 32), "view": "view", "'view'": "view", "-1": -1, "[1,": "[1,"}
    assert {text: _value(text) for text in typed} == typed


def test_python_says_nothing_about_what_is_typed(recwarn):
    assert _value("(1)(2)") == "(1)(2)" and _value(r"'\d'") == r"\d"
    assert not recwarn.list


def test_bytes_that_are_no_text_are_asked_for_again(course, monkeypatch, capsys):
    answers = iter([UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), "6", ""])

    def typed(prompt):
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr("builtins.input", typed)
    assert main(["drill", "demo"]) == 0
    assert "1 of 1 right at the first try" in capsys.readouterr().out


def test_a_negative_seed_is_wrong_use(course, capsys):
    assert main(["drill", "--seed=-1"]) == 2
    assert "there is no seed -1" in capsys.readouterr().err
