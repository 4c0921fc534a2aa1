"""lab new: what it writes runs at once, fits every layout of an exercise module, and breaks nothing that is there."""

import importlib
import shutil
import sys

import little_course
import pytest

import labsupport.exercises
from labsupport import answering, building, catalog, linting
from labsupport.cli import main, new
from labsupport.course import Outcome
from labsupport.observing import verdict_on
from labsupport.places import ROOT
from labsupport.probing import Subject


@pytest.fixture
def course(tmp_path, monkeypatch):
    """Return a folder with a course of its own, into which `lab new` writes; its modules can be imported."""
    little_course.use(tmp_path, monkeypatch.setattr)
    little_course.release(tmp_path)
    modules = tmp_path / "labsupport" / "exercises"
    modules.mkdir(parents=True)
    for name, value in (("SOURCE", building.SOURCE), ("EXERCISES", modules), ("ROOT", tmp_path)):
        monkeypatch.setattr(new, name, value)
    monkeypatch.setattr(catalog, "exercises", _EXERCISES)
    before = {name: module for name, module in sys.modules.items() if name.startswith("labsupport.exercises.")}
    # Ours first: modules of the real course are found only where this one has none.
    monkeypatch.setattr(labsupport.exercises, "__path__", [str(modules), *labsupport.exercises.__path__])
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("labsupport.exercises.")]:
        forget(name)
    sys.modules.update(before)  # classes find their source through the module they were made in
    for name, module in before.items():
        setattr(labsupport.exercises, name.rsplit(".", 1)[1], module)


_EXERCISES = catalog.exercises.__wrapped__


def forget(name):
    del sys.modules[name]
    if hasattr(labsupport.exercises, name.rsplit(".", 1)[1]):
        delattr(labsupport.exercises, name.rsplit(".", 1)[1])


def made(module):
    """Return the exercises of a module as it is on the disk now."""
    for name in [n for n in sys.modules if n.startswith((f"labsupport.exercises.{module}", "labsupport.exercises._"))]:
        forget(name)
    importlib.invalidate_caches()
    return importlib.import_module(f"labsupport.exercises.{module}").EXERCISES


def with_lesson(course, slug="vectorizing", module=None):
    assert main(["new", "lesson", f"07_{slug}"]) == 0
    path = course / "labsupport" / "exercises" / f"{slug}.py"
    if module is not None:
        path.write_text(module, encoding="utf-8")
    return path


def everything(course):
    return {path: path.read_bytes() for path in course.rglob("*.py")}


def test_a_lesson_and_an_exercise_that_work_as_they_are(course, capsys):
    with_lesson(course)
    source = building.SOURCE / "07_vectorizing.py"
    assert linting.lint(source) == []
    assert main(["new", "exercise", "vectorizing/sum-rows"]) == 0
    said = capsys.readouterr().out
    for name in ("labsupport/exercises/_vectorizing_sum_rows.py", "labsupport/exercises/vectorizing.py"):
        assert name in said and (course / name).is_file()
    (exercise,) = made("vectorizing")
    assert exercise.id == "vectorizing/sum-rows" and linting.lint(source) == []
    source = answering.reference_answer(exercise).source
    subject = Subject(exercise.names, answering.load(answering.Answer(source, exercise.names)), source)
    assert verdict_on(exercise, subject).outcome is Outcome.PASSED
    assert main(["build", "vectorizing"]) == 0
    assert "exercise: vectorizing/sum-rows" in catalog.stubs("vectorizing")["vectorizing/sum-rows"]


ONE_BY_ONE = '"""Lesson."""\n\nfrom labsupport.exercises._{0} import A_ONE\n\nEXERCISES = (\n    A_ONE,{1}\n)\n'
LAYOUTS = {
    "empty": '"""Lesson."""\n\nEXERCISES = ()\n',
    "no docstring": "EXERCISES = ()\n",
    "only what it needs is imported": '"""é"""\n\nimport numpy as np\n\nA_ONE = "é"\nEXERCISES = (A_ONE,)\n',
    "two in a line": "A_ONE, B_TWO = 'é', 2\nEXERCISES = (A_ONE, B_TWO)\n",
    "made by an earlier lab new": '"""Lesson."""\n\nA_ONE = 1\n\nEXERCISES = ()\nEXERCISES += (A_ONE,)\n',
    "parts": ONE_BY_ONE.format("vectorizing_a_one", ""),
    "parts that come later in the alphabet": ONE_BY_ONE.format("vectorizing_zz", ""),
    "a comment behind the last": ONE_BY_ONE.format("vectorizing_zz", "  # the easiest"),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_of_a_module_takes_two_more(course, name, monkeypatch):
    module = with_lesson(course, module=LAYOUTS[name])
    for part in ("a_one", "zz"):
        module.with_name(f"_vectorizing_{part}.py").write_text("A_ONE = 1\n", encoding="utf-8")
    before = [getattr(e, "id", e) for e in made("vectorizing")] if name != "made by an earlier lab new" else [1]
    monkeypatch.setattr(catalog, "exercises", lambda slug=None: ())  # what stands for exercises above has no names
    assert main(["new", "exercise", "vectorizing/sum-rows"]) == 0
    assert main(["new", "exercise", "vectorizing/count-cells"]) == 0
    found = {getattr(e, "id", e) for e in made("vectorizing")}
    assert found == {*before, "vectorizing/sum-rows", "vectorizing/count-cells"}


@pytest.mark.parametrize("slug, number", [("strides", "05"), ("broadcasting", "06"), ("start_here", "00")])
def test_the_lessons_of_the_course_take_one_more(course, slug, number):
    for path in (ROOT / "labsupport" / "exercises").glob(f"*{slug}*.py"):
        shutil.copy(path, course / "labsupport" / "exercises")
    for path in building.SOURCE.glob("*.py"):
        path.unlink()
    shutil.copy(ROOT / "notebooks" / "source" / f"{number}_{slug}.py", building.SOURCE)
    before = [exercise.id for exercise in made(slug)]
    prefix = slug.replace("_", "-")
    assert main(["new", "exercise", f"{prefix}/try-this"]) == 0
    assert [exercise.id for exercise in made(slug)] == [*before, f"{prefix}/try-this"]
    assert main(["build", slug]) == 0 and f"{prefix}/try-this" in catalog.stubs(slug)


@pytest.mark.parametrize(
    "words",
    [
        ["lesson", "Vectors"], ["lesson", "٠٧_vectors"], ["lesson", "7_vectors"], ["lesson", "07_2d"],
        ["lesson", "07_class"], ["lesson", "07_a__b"], ["lesson", "07_" + "v" * 260], ["lesson", "05_vectors"],
        ["lesson", "08_vectorizing"], ["lesson", "../07_vectors"], ["lesson", ""],
        ["exercise", "vectorizing/sum"], ["exercise", "vectorizing/2-3"], ["exercise", "vectorizing/-sum-rows"],
        ["exercise", "vectorizing/sum-rows-"], ["exercise", "vectorizing/" + "very-" * 60 + "long"],
        ["exercise", "vectorizing/summe-über"], ["exercise", "vectors/sum-rows"], ["exercise", "sum-rows"],
        ["exercise", "vectorizing/has-it"], ["exercise", "vectorizing/is-bound"], ["exercise", "vectorizing/in-lesson"],
        ["exercise", "vectorizing/count-rows"], ["exercise", ""],
    ],
)  # fmt: skip
def test_names_that_would_break_something_are_refused_and_nothing_is_written(course, words, capsys):
    module = with_lesson(course)
    assert main(["new", "exercise", "vectorizing/count-rows"]) == 0
    kept = module.read_text(encoding="utf-8")
    module.write_text(f"{kept}\ndef has_it(): ...\n\n\nIS_BOUND = 1\n", encoding="utf-8")
    source = building.SOURCE / "07_vectorizing.py"
    source.write_text(source.read_text(encoding="utf-8") + "\n# %%\nin_lesson = 3\n", encoding="utf-8")
    before = everything(course)
    capsys.readouterr()
    assert main(["new", *words]) == 2
    assert "next:" in capsys.readouterr().err
    assert everything(course) == before


@pytest.mark.parametrize("broken", ["module", "lesson"])
def test_a_file_that_is_not_python_is_named_and_nothing_is_written(course, capsys, broken):
    module = with_lesson(course)
    path = module if broken == "module" else building.SOURCE / "07_vectorizing.py"
    path.write_text(path.read_text(encoding="utf-8") + "\ndef f(:\n", encoding="utf-8")
    before = everything(course)
    assert main(["new", "exercise", "vectorizing/sum-rows"]) == 1
    assert path.name in capsys.readouterr().err and everything(course) == before


def test_a_module_that_collects_its_exercises_in_another_way_is_left_alone(course, capsys):
    with_lesson(course, module="EXERCISES = tuple(x for x in ())\n")
    before = everything(course)
    assert main(["new", "exercise", "vectorizing/sum-rows"]) == 1
    assert "EXERCISES" in capsys.readouterr().err and everything(course) == before


def test_after_a_full_disk_the_same_command_goes_on(course):
    with_lesson(course)
    part = course / "labsupport" / "exercises" / "_vectorizing_sum_rows.py"
    assert main(["new", "exercise", "vectorizing/sum-rows"]) == 0
    text = part.read_text(encoding="utf-8")
    part.unlink()
    for path in (course / "labsupport" / "exercises" / "vectorizing.py", building.SOURCE / "07_vectorizing.py"):
        path.unlink()
    made_again = with_lesson(course)
    part.write_text(text, encoding="utf-8")
    assert main(["new", "exercise", "vectorizing/sum-rows"]) == 0 and "SUM_ROWS" in made_again.read_text("utf-8")
