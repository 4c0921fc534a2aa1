"""lab grade: exit codes, first line, rows for everybody, signatures, GitHub, clean runs; no learner text acts."""

import csv
import io
import json
import re
import shutil
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from classroom import EXERCISES, LESSON, notebook_text

from labsupport import answering, catalog, places
from labsupport.cli import main
from labsupport.grading import engine, workers
from labsupport.grading.engine import Secret
from labsupport.grading.errors import GradingImpossible
from labsupport.grading.runner import Runner
from labsupport.grading.tiers import TierReport

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="cages need Linux")
SECRET = "a secret of the tests, not of a course"
FILE = "00_start_here.ipynb"


@pytest.fixture(autouse=True)
def own_environment(monkeypatch):
    for name in ("LAB_SECRET", "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)


def hand_in(folder, learner, wrong=(), text=None, more=None):
    path = folder / learner / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(notebook_text(wrong, more=more) if text is None else text, encoding="utf-8")
    return path


@pytest.fixture
def room(tmp_path):
    """Return a folder with three learners: right, wrong in one exercise, and a file that was cut off."""
    room = tmp_path / "room"
    hand_in(room, "ada")
    hand_in(room, "bob", wrong=EXERCISES[:1])
    hand_in(room, "cy", text=notebook_text()[:200])
    return room


@pytest.fixture
def grade(tmp_path, capsys):
    """Return `grade(*words)` -> (exit code, output, errors); records go to `tmp_path / "out"`."""

    def run(*words):
        code = main(["grade", "--out", str(tmp_path / "out"), *map(str, words)])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def table(tmp_path):
    text = (tmp_path / "out" / "grades.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(io.StringIO(text)))


# What everybody gets


def test_a_room_is_graded_and_everybody_has_every_row(room, grade, tmp_path):
    code, out, _ = grade(room)
    assert code == 0
    found = {(r["learner"], r["exercise"]): r["outcome"] for r in table(tmp_path)}
    expected = {("ada", e): "passed" for e in EXERCISES} | {("cy", e): "unreadable" for e in EXERCISES}
    expected |= {("bob", e): "wrong" if e == EXERCISES[0] else "passed" for e in EXERCISES}
    assert found == expected
    assert re.match(r"feedback \| tier A caged: \d+ layers ok \| course \S+ \(\w+\) \| the same public inputs", out)
    assert "3 learners, 9 results: 5 passed, 1 wrong, 3 unreadable" in out
    assert "cy: unreadable, 3 exercises" in out
    root = ET.parse(tmp_path / "out" / "junit.xml").getroot()
    assert (root.get("tests"), root.get("failures")) == ("9", "4")
    assert len(list((tmp_path / "out" / "learners").glob("*.html"))) == 3


def test_a_second_run_says_the_same_and_grades_nothing(room, grade, tmp_path, monkeypatch):
    first, before = grade(room), table(tmp_path)
    monkeypatch.setattr(workers, "open_runner", lambda *_: pytest.fail("nothing is left to run"))
    assert grade(room) == (first[0], first[1], "")
    assert table(tmp_path) == before


def test_only_a_new_file_is_graded(room, grade):
    grade(room)
    hand_in(room, "dee")
    code, out, err = grade(room)
    assert (code, "3 of 4 submissions are graded already" in out, err.splitlines()) == (0, True, ["graded 1 of 1"])


def test_one_learner_reads_their_messages(room, grade):
    _, out, _ = grade(room / "bob")
    assert f"wrong   {EXERCISES[0]}   case: " in out
    assert "  why:  " in out and "  next: " in out
    assert "1 learner, 3 results" in out


def as_format_3(text):
    old = json.loads(text)
    cells = [{**cell, "input": cell.get("source", "")} for cell in old["cells"]]
    return json.dumps({"nbformat": 3, "nbformat_minor": 0, "metadata": {}, "worksheets": [{"cells": cells}]})


def without_metadata(text):
    notebook = json.loads(text)
    for cell in notebook["cells"]:
        cell.pop("id", None)
        cell["metadata"] = {}
        cell["source"] = [line for line in cell["source"] if not line.startswith("# exercise:")]
    return json.dumps(notebook | {"metadata": {}, "nbformat_minor": 4})


def with_cells_twice(text):
    notebook = json.loads(text)
    return json.dumps(notebook | {"cells": [cell for cell in notebook["cells"] for _ in range(2)]})


def defining(body):
    """Return {the second exercise: an answer with this body}."""
    return {EXERCISES[1]: f"def {catalog.find_exercise(EXERCISES[1]).names[0]}(*args):\n    {body}\n"}


MIXED = {  # what is handed in -> the outcomes of the three exercises
    "right": (lambda: notebook_text(), ("passed", "passed", "passed")),
    "wrong": (lambda: notebook_text(EXERCISES), ("wrong", "wrong", "wrong")),
    "crashed": (lambda: notebook_text(more=defining("return 1 / 0")), ("passed", "crashed", "passed")),
    "ended": (lambda: notebook_text(more=defining("import os; os._exit(0)")), ("passed", "crashed", "passed")),
    "hung": (lambda: notebook_text(more=defining("while True: pass")), ("passed", "over limit", "passed")),
    "truncated": (lambda: notebook_text()[:-200], ("unreadable",) * 3),
    "empty": (lambda: "", ("unreadable",) * 3),
    "duplicated cells": (lambda: with_cells_twice(notebook_text()), ("passed", "passed", "passed")),
    "stripped metadata": (lambda: without_metadata(notebook_text()), ("passed", "passed", "passed")),
    "format 3": (lambda: as_format_3(notebook_text()), ("unreadable",) * 3),
    "as shipped": (lambda: (places.NOTEBOOKS / FILE).read_text(encoding="utf-8"), ("not yet",) * 3),
}
NAMES = ("ada", "Zoë Ångström", "李雷", "أحمد", 'o\'neil, "q"', "a & b <c>")


@pytest.mark.slow
def test_thirty_mixed_learners_each_get_what_is_theirs(tmp_path, grade):
    expected = {}
    for number in range(30):
        make, outcomes = list(MIXED.values())[number % len(MIXED)]
        learner = f"{NAMES[number % len(NAMES)]} {number}"
        hand_in(tmp_path / "room", learner, text=make())
        expected |= {(learner, exercise): outcome for exercise, outcome in zip(EXERCISES, outcomes)}
    code, out, err = grade(tmp_path / "room", "--jobs", "2")
    assert code == 0, err
    found = {(r["learner"], r["exercise"]): r["outcome"] for r in table(tmp_path)}
    assert len(table(tmp_path)) == 90
    assert {key: (found.get(key), outcome) for key, outcome in expected.items() if found.get(key) != outcome} == {}
    assert "30 learners, 90 results" in out
    assert "save" in next(r["next"] for r in table(tmp_path) if r["learner"].endswith(" 9")).lower()


# Exit codes


@pytest.mark.parametrize(
    ("share", "code", "who"),
    [("0.5", 1, "cy 0%"), ("80%", 1, "bob 67%, cy 0%"), ("0", 0, ""), ("1.5", 2, ""), ("much", 2, ""), ("101%", 2, "")],
)
def test_fail_under_names_who_is_below(room, grade, share, code, who):
    assert (told := grade(room, "--fail-under", share))[0] == code
    assert who in told[1]


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("not there",),
        (".", "--lesson", "no such lesson"),
        ("ROOM", "--jobs", "0"),
        ("EMPTY",),
        ("ROOM", "--regrade"),
    ],
)
def test_wrong_use_exits_with_2_and_says_what_to_do(room, grade, tmp_path, words):
    (tmp_path / "empty").mkdir()
    code, _, err = grade(*(str({"ROOM": room, "EMPTY": tmp_path / "empty"}.get(word, word)) for word in words))
    assert code == 2 and err.strip() and "Traceback" not in err


def test_without_a_cage_the_first_line_names_the_tier_and_the_reason_and_nothing_is_stored(
    room, grade, monkeypatch, tmp_path
):
    report = TierReport("B", {"seccomp": "ok"}, ("user namespaces: EPERM Operation not permitted",))

    def refuse(allow_fenced):
        raise GradingImpossible("no cage here, only a fence", report=report, next_step="--allow-fenced")

    monkeypatch.setattr(workers, "open_runner", refuse)
    code, out, err = grade(room)
    assert code == 3
    assert out.splitlines()[0].startswith("feedback | tier B fenced: 1 layer ok; ") and "EPERM" in out.splitlines()[0]
    assert "--allow-fenced" in err
    assert not (tmp_path / "out" / "grades.csv").exists()


def test_a_fence_grades_when_it_is_allowed_and_every_row_says_so(room, grade, monkeypatch, tmp_path):
    asked = []

    def fenced(allow_fenced):
        asked.append(allow_fenced)
        return Runner(tier="B").__enter__()

    monkeypatch.setattr(workers, "open_runner", fenced)
    code, out, _ = grade(room, "--allow-fenced")
    assert (code, asked) == (0, [True])
    assert out.startswith("feedback | tier B fenced")
    assert {r["tier"] for r in table(tmp_path)} == {"B"}


def test_a_fault_of_the_grader_exits_with_3_and_costs_nobody_a_point(room, grade, monkeypatch, tmp_path):
    usual = engine.grade_submission

    def fails_for_ada(one, **more):
        if one.learner == "ada":
            raise ZeroDivisionError
        return usual(one, **more)

    monkeypatch.setattr(engine, "grade_submission", fails_for_ada)
    code, out, _ = grade(room, "--fail-under", "0.01")
    assert code == 3 and "count against nobody" in out
    monkeypatch.setattr(engine, "grade_submission", usual)
    assert grade(room)[0] == 0
    assert {r["outcome"] for r in table(tmp_path) if r["learner"] == "ada"} == {"passed"}


# Secrets and signatures


def test_with_a_secret_it_is_a_grade_and_the_record_can_be_verified(room, grade, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("LAB_SECRET", SECRET)
    _, out, err = grade(room)
    assert out.startswith("grade | tier A") and "inputs of its own for every file" in out
    record = str(tmp_path / "out" / "grades.json")
    assert main(["grade", "--verify", record]) == 0
    assert "the signature is right: 9 rows" in capsys.readouterr().out
    text = (tmp_path / "out" / "grades.json").read_text(encoding="utf-8")
    (tmp_path / "out" / "grades.json").write_text(text.replace('"wrong"', '"passed"'), encoding="utf-8")
    assert main(["grade", "--verify", record]) == 1
    monkeypatch.delenv("LAB_SECRET")
    assert main(["grade", "--verify", record]) == 2
    for path in (tmp_path / "out").rglob("*"):
        assert path.is_dir() or SECRET.encode() not in path.read_bytes()
    assert SECRET not in out + err


def test_what_is_told_of_kept_results_is_told_of_the_run_that_made_them(room, grade, monkeypatch, tmp_path):
    assert grade(room)[1].startswith("feedback | ")
    monkeypatch.setenv("LAB_SECRET", SECRET)
    assert grade(room, "--regrade")[0] == 2
    assert grade(room)[1].startswith("grade | ")
    monkeypatch.setattr(workers, "open_runner", lambda *_: pytest.fail("nothing is left to run"))
    monkeypatch.delenv("LAB_SECRET")
    assert grade(room)[1].startswith("feedback | ") and {row["mode"] for row in table(tmp_path)} == {"feedback"}
    monkeypatch.setenv("LAB_SECRET", SECRET)
    assert grade(room, "--regrade")[1].startswith("grade | ")


def test_a_secret_can_be_in_a_file_of_its_own(room, grade, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text(SECRET, encoding="utf-8")
    secret.chmod(0o600)
    assert grade(room, "--secret-file", secret)[1].startswith("grade | ")
    secret.chmod(0o644)
    code, _, err = grade(room, "--secret-file", secret)
    assert code == 2 and "chmod 600" in err


@pytest.mark.parametrize("text", ["x", " ", "\n", "fifteen bytes !", " " * 20 + "x" + " " * 20])
def test_a_short_secret_is_refused_wherever_it_comes_from(text, room, grade, tmp_path, monkeypatch):
    secret = tmp_path / "secret"
    secret.write_text(text, encoding="utf-8")
    secret.chmod(0o600)
    code, _, err = grade(room, "--secret-file", secret)
    assert code == 2 and "at least 16 random ones" in err
    monkeypatch.setenv("LAB_SECRET", text)
    code, _, err = grade(room)
    assert code == 2 and "LAB_SECRET has" in err and "unset it" in err and not (tmp_path / "out").exists()


@pytest.mark.parametrize("text", [None, ""])
def test_no_secret_in_the_environment_means_feedback(text, monkeypatch):
    monkeypatch.delenv("LAB_SECRET", raising=False)
    if text is not None:
        monkeypatch.setenv("LAB_SECRET", text)
    assert not Secret.load()


def test_blanks_around_a_secret_are_no_part_of_it(tmp_path, monkeypatch):
    secret = tmp_path / "secret"
    secret.write_text(f"{SECRET}\n", encoding="utf-8")
    secret.chmod(0o600)
    monkeypatch.setenv("LAB_SECRET", f" {SECRET}\n")
    assert Secret.load() == Secret.load(secret) == Secret(SECRET.encode())


# Hostile text

ESCAPES = "\x1b[31m\x1b]0;owned\x07::error::owned ##[add-path]owned\u202e<script>alert(1)</script>=1+1|`x`\x9b1m"
RAISES = f"def {{name}}(*args):\n    raise ValueError({ESCAPES!r})\n"


def test_nothing_a_learner_raises_or_names_acts_anywhere(tmp_path, grade, monkeypatch):
    source = RAISES.format(name=catalog.find_exercise(EXERCISES[1]).names[0])
    hand_in(tmp_path / "room", "a\x1b[31m<b>::x", more={EXERCISES[1]: source})
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    code, out, err = grade(tmp_path / "room", "--github")
    assert code == 0
    assert {r["outcome"] for r in table(tmp_path)} == {"passed", "crashed"}
    unseen = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]")
    written = [p for p in (tmp_path / "out").rglob("*") if p.is_file() and p.suffix != ".sqlite"]
    for text in (out, err, *(p.read_text(encoding="utf-8") for p in [*written, summary])):
        assert not unseen.search(text)
    inside = re.search(r"::stop-commands::(\w+)\n(.*)\n::\1::\n", out, re.DOTALL)
    assert not [one for one in inside[2].splitlines() if one.strip().startswith("::") or "##[" in one]
    after = out.split(f"::{inside[1]}::\n")[1].splitlines()
    assert len(after) == 1 and after[0].startswith("::warning title=crashed ")
    assert "<script" not in summary.read_text(encoding="utf-8")
    assert all("<script" not in p.read_text(encoding="utf-8") for p in written if p.suffix in (".html", ".xml"))


def test_in_actions_the_summary_comes_by_itself(room, grade, tmp_path, monkeypatch):
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    _, out, _ = grade(room / "bob")
    assert summary.read_text(encoding="utf-8").startswith("### 2 passed, 1 wrong")
    assert "::warning title=wrong " in out


# Regrading


def test_regrade_judges_kept_observations_and_names_who_changed(room, grade, monkeypatch, tmp_path):
    grade(room)
    usual = catalog.exercises
    first, *rest = usual(LESSON)
    renamed = replace(first.misconceptions[0], id="said-better")
    corrected = (replace(first, misconceptions=(renamed, *first.misconceptions[1:])), *rest)
    monkeypatch.setattr(catalog, "exercises", lambda slug=None: corrected if slug == LESSON else usual(slug))
    monkeypatch.setattr(engine, "course_version", lambda: "corrected")
    monkeypatch.setattr(workers, "open_runner", lambda *_: pytest.fail("a regrade runs nothing"))
    code, out, _ = grade(room, "--regrade")
    old = first.misconceptions[0].id
    assert code == 0
    assert f"changed: bob {first.id} wrong ({old}) -> wrong (said-better)" in out
    assert "said-better" in {r["misconception"] for r in table(tmp_path) if r["learner"] == "bob"}
    assert "changed" not in grade(room, "--regrade")[1]


# Clean runs under nbmake


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap")
@pytest.mark.slow
def test_a_clean_run_says_where_the_notebook_stops(tmp_path, grade):
    room = tmp_path / "room"
    hand_in(room, "ada")
    hand_in(room, "bob", more={EXERCISES[1]: "import not_a_module_of_this_world"})
    code, _, _ = grade(room, "--clean-run")
    found = {(r["learner"], r["exercise"]): r["clean_run"] for r in table(tmp_path)}
    assert code == 0
    assert {found["ada", e] for e in EXERCISES} == {"ran from top to bottom"}
    stopped = found["bob", EXERCISES[1]]
    assert re.fullmatch(rf"stopped at cell \d+ \({EXERCISES[1]}\): ModuleNotFoundError", stopped)
    assert found["bob", EXERCISES[0]] == f"ran; the notebook {stopped}"
    assert found["bob", EXERCISES[2]] == f"not reached: the notebook {stopped}"


def test_help_lists_grade(capsys):
    assert main(["--help"]) == 0
    assert "for graders:\n  grade " in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["link", "nothing"])
def test_no_name_acts_in_an_error(tmp_path, grade, kind):
    path = tmp_path / "a\x1b[31m\x07\u202e\n::error::owned"
    if kind == "link":
        try:
            path.symlink_to(tmp_path / "nowhere")
        except OSError:
            pytest.skip("such links cannot be made here")
    code, out, err = grade(path)
    assert (code, out) == (2, "")
    assert ("a link that leads to no file" in err) == (kind == "link")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]|^\\s*::", err, re.MULTILINE)


def test_what_nobody_foresaw_ends_in_words_and_with_3(room, grade, monkeypatch):
    def broken(*_, **__):
        raise ZeroDivisionError("\x1b[31m\n::error::owned")

    monkeypatch.setattr("labsupport.grading.batch.collect", broken)
    code, _, err = grade(room)
    assert code == 3
    assert "grading stopped on our side at test_cli_grade.py:" in err and "ZeroDivisionError" in err
    assert "Traceback" not in err and "\x1b" not in err and "\n::" not in err


def test_one_strange_file_does_not_stop_a_class(room, grade, tmp_path, monkeypatch):
    endless = "N = 0x" + "f" * 4000 + "\n"
    hand_in(room, "dora", more={EXERCISES[1]: endless + engine_reference(EXERCISES[1])})
    code, _, _ = grade(room)
    assert code == 0
    found = {(r["learner"], r["exercise"]): r["outcome"] for r in table(tmp_path)}
    assert [found["dora", e] for e in EXERCISES].count("unreadable") == 1
    assert {found["ada", e] for e in EXERCISES} == {"passed"}


def engine_reference(exercise):
    return answering.reference_answer(catalog.find_exercise(exercise)).source


def test_results_too_large_together_are_the_answers_and_not_the_graders(room, grade, tmp_path):
    slug = "broadcasting"
    path = room / "mal" / catalog.find_lesson(slug).notebook
    path.parent.mkdir()
    source = "def result_shape(*shapes):\n    return T\nT=[" + "1," * 14_000 + "]\n"
    path.write_text(notebook_text(lesson=slug, more={f"{slug}/result-shape": source}), encoding="utf-8")
    code, _, _ = grade(path.parent)
    (row,) = (r for r in table(tmp_path) if r["exercise"] == f"{slug}/result-shape")
    assert (code, row["outcome"]) == (0, "over limit")
    assert "too large to be compared" in row["why"]
