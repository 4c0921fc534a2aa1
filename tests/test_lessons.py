"""Every lesson run twice from top to bottom by nbmake: as it is shipped, and with the course's own answers in it."""

import os
import subprocess
import sys

import psutil
import pytest

from labsupport import building, catalog, linting
from labsupport.answering import reference_answer
from labsupport.linting.running import text_of
from labsupport.places import ROOT
from labsupport.reading import load

pytestmark = pytest.mark.slow

LESSONS = [lesson.slug for lesson in catalog.lessons() if lesson.ready]


def nbmake(folder, work):
    """Run every notebook of a folder where it lies, outputs included; returns pytest's report when one fails."""
    command = [sys.executable, "-m", "pytest", "--nbmake", "--overwrite", "--nbmake-timeout=300", "-q", str(folder)]
    # Neither this project's settings nor those of an outer pytest are the notebooks' business.
    command += ["-c", os.devnull, "--rootdir", str(folder), "-p", "no:cacheprovider"]
    command += ["-n", "2"] if len(list(folder.glob("*.ipynb"))) > 1 else []
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "LAB_"))}
    env |= {"LAB_WORK": str(work), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, encoding="utf-8", errors="replace")
    return None if done.returncode == 0 else done.stdout + done.stderr


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Return the folder of the executed notebooks, `shipped-slug.ipynb` and `solved-slug.ipynb`."""
    folder = tmp_path_factory.mktemp("lessons")
    work = tmp_path_factory.mktemp("work")
    for slug in LESSONS:
        notebook = load(building.built(building.sources([slug])[0]))
        references = {exercise.id: reference_answer(exercise).source for exercise in catalog.exercises(slug)}
        solved = building.graft(notebook, references)
        for how, made in (("shipped", notebook), ("solved", solved)):
            (folder / f"{how}-{slug}.ipynb").write_text(building.dump(made), encoding="utf-8")
    home = building.built(building.sources(["home"])[0])
    (folder / "shipped-home.ipynb").write_bytes(home.read_bytes())
    report = nbmake(folder, work)
    assert report is None, report
    return folder, work


def checks(path):
    """Return {exercise: first line that its check said} of an executed notebook."""
    said = {}
    for cell in load(path)["cells"]:
        for name in building.checks_in(cell["source"]) if cell["cell_type"] == "code" else ():
            words = [_words(output) for output in cell["outputs"]]
            # A machine that is busy makes a check say before how long it took.
            words = [text for text in words if not text.startswith(f"checking {name_of(path, name)}")]
            said[name] = " ".join(words).partition("\n")[0]
    return said


def name_of(path, name):
    """Return the full id of an exercise of a notebook called shipped-SLUG or solved-SLUG."""
    return f"{path.stem.partition('-')[2].replace('_', '-')}/{name}"


def _words(output):
    return "".join(output.get("text", output.get("data", {}).get("text/plain", "")))


def wanted(slug):
    return {exercise.short_id for exercise in catalog.exercises(slug)}


@pytest.mark.parametrize("slug", LESSONS)
def test_as_shipped_every_check_says_not_yet(runs, slug):
    said = checks(runs[0] / f"shipped-{slug}.ipynb")
    assert set(said) == wanted(slug)
    assert {name: line for name, line in said.items() if not line.startswith("not yet")} == {}


@pytest.mark.parametrize("slug", LESSONS)
def test_solved_every_check_says_passed(runs, slug):
    said = checks(runs[0] / f"solved-{slug}.ipynb")
    assert set(said) == wanted(slug)
    assert {name: line for name, line in said.items() if not line.startswith("passed")} == {}


@pytest.mark.parametrize("slug", LESSONS)
def test_every_quantity_in_prose_is_printed_stated_or_sourced(runs, slug):
    cells = load(runs[0] / f"shipped-{slug}.ipynb")["cells"]
    (source,) = building.sources([slug])
    found = linting.lint(source, outputs=[text_of(cell.get("outputs", [])) for cell in cells])
    assert [f"{source.name}:{problem.line}: {problem.what}" for problem in found] == []


def test_no_cell_of_any_run_ends_in_an_error(runs):
    paths = sorted(runs[0].glob("*.ipynb"))
    assert len(paths) == 2 * len(LESSONS) + 1
    for path in paths:
        outputs = [output for cell in load(path)["cells"] for output in cell.get("outputs", [])]
        assert [output for output in outputs if output["output_type"] == "error"] == [], path.name


def test_the_runs_leave_no_process_behind(runs):
    work = str(runs[1])
    left = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("LAB_WORK") == work:
                left.append(process)
        except psutil.Error:
            continue  # another user's, or gone by now
    _, alive = psutil.wait_procs(left, timeout=30)  # a hang guard: kernels are told to end before nbmake returns
    assert alive == []


def test_a_notebook_that_fails_is_reported(tmp_path):
    failing = tmp_path / "demo.py"
    failing.write_text("# %%\n1 / 0\n", encoding="utf-8")
    (tmp_path / "demo.ipynb").write_text(building.dump(building.build(failing)), encoding="utf-8")
    assert "ZeroDivisionError" in nbmake(tmp_path, tmp_path / "work")
