"""Files, lessons and learners: what cannot be read says why and how to repair it, and nobody is lost or mixed up."""

import copy
import json
import os
import shutil
import signal
import unicodedata
from pathlib import Path

import accidents
import nbformat
import pytest
from accidents import LESSONS, cell_of, code, shipped, solved
from handed_in import CHECK, FUNCTION, LESSON, MARK, REFERENCE, holds, save, submission, taken
from rearranged import ACCIDENTS

from labsupport import catalog
from labsupport.errors import UsageError
from labsupport.grading import cells, intake, notebooks, patience
from labsupport.grading.intake import find_submissions, read_submission

# -- files --------------------------------------------------------------------------------------------------------


def notebook_text(slug="start_here"):
    return json.dumps(solved(slug), ensure_ascii=False)


DAMAGED = {
    "empty": (b"", "empty", "JupyterLab"),
    "blank": (b" \n\x00", "empty", "JupyterLab"),
    "cut off": (notebook_text().encode()[:3000], "cut off", "backups"),
    "not JSON": (b'{"cells": [}', "not complete JSON (line 1)", "backups"),
    "a conflict": (b'{\n<<<<<<< HEAD\n"cells": []\n=======\n>>>>>>> x\n}', "git merge", "backups"),
    "UTF-16": (notebook_text().encode("utf-16"), "UTF-16", "save it there"),
    "Latin-1": ('{"cells": "é"}'.encode("latin-1"), "not text in UTF-8 (byte 11", "save it there"),
    "a list": (b"[]", "not a notebook", "save it there"),
    "another table": (b'{"a": 1}', "not a notebook", "save it there"),
    "cells that are no list": (b'{"nbformat": 4, "cells": 3}', "without a list of cells", "save it there"),
    "no cells": (b'{"nbformat": 4}', "without a list of cells", "save it there"),
    "broken cells": (b'{"nbformat": 4, "cells": [{"cell_type": "code"}, 3]}', "None of its cells", "save it there"),
    "deep": (b'{"nbformat": 4, "cells": ' + b"[" * 200_000 + b"]" * 200_000 + b"}", "nested", "save it there"),
    "deep and open": (b"[" * 200_000, "nested", "save it there"),
    "deep objects": (b'{"a":' * 200_000, "nested", "save it there"),
    "format 5": (b'{"nbformat": 5, "cells": []}', "format 5", "JupyterLab of today"),
    "format 2": (b'{"nbformat": 2, "worksheets": []}', "format 2", "save it there"),
    "an archive": (b"PK\x03\x04", "an archive", ".zip"),
    "millions of parts": (b'{"cells": [' + b"1," * 2_000_001 + b"1]}", "2,000,000 parts", "Clear the outputs"),
    "25 MB": (b'{"cells": "' + b"x" * 25_000_000 + b'"}', "20 MB", "Clear Outputs"),
    "10,000 cells": (json.dumps({"nbformat": 4, "cells": [{}] * 10_000}).encode(), "10,000 cells", "Take out"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_says_why_and_how_to_repair_it(tmp_path, name):
    data, why, repair = DAMAGED[name]
    path = tmp_path / "learner-a" / LESSON.notebook
    path.parent.mkdir()
    path.write_bytes(data)
    found = read_submission(path)
    assert why in found.unreadable
    assert repair in found.repair
    assert (found.learner, found.lesson, found.answers) == ("learner-a", "start_here", {})
    assert path.read_bytes() == data


def test_format_3_is_told_how_to_save_again(tmp_path):
    old = nbformat.v3.new_notebook(worksheets=[nbformat.v3.new_worksheet(cells=[nbformat.v3.new_code_cell(REFERENCE)])])
    found = submission(tmp_path, old)
    assert found.unreadable == "It is in notebook format 3; format 4 is read here."
    assert found.repair.startswith("Open it in JupyterLab, save it there")


@pytest.mark.parametrize("slug", [lesson.slug for lesson in LESSONS])
def test_a_damaged_file_with_any_name_is_counted_for_the_lesson_it_speaks_of(tmp_path, slug):
    path = tmp_path / "maria.ipynb"
    path.write_bytes(notebook_text(slug).encode()[:-200])
    found = read_submission(path)
    assert (found.learner, found.lesson) == ("maria", slug)
    assert found.unreadable


def change_text(text):
    return {
        "a BOM": "\ufeff" + text,
        "Windows line ends": json.dumps(json.loads(text), indent=1).replace("\n", "\r\n"),
        "NaN": text.replace('"metadata": {}', '"metadata": {"a": NaN, "b": -Infinity, "c": Infinity}', 1),
        "a number without end": text.replace('"metadata": {}', '"metadata": {"a": ' + "9" * 100_000 + "}", 1),
        "a float without end": text.replace('"metadata": {}', '"metadata": {"a": 1.' + "9" * 1_000_000 + "e5}", 1),
        "control characters": text.replace("\\n", "\n", 1),
        "escapes": json.dumps(json.loads(text), ensure_ascii=True),
        "a key twice": text.replace('"nbformat": 4', '"nbformat": 3, "nbformat": 4'),
        "no format": text.replace('"nbformat": 4, ', "").replace(', "nbformat": 4', ""),
        "format as text": text.replace('"nbformat": 4', '"nbformat": "4"'),
    }


@pytest.mark.parametrize("name", change_text("{}"))
def test_an_odd_file_is_read(tmp_path, name):
    path = tmp_path / LESSON.notebook
    path.write_bytes(change_text(notebook_text())[name].encode())
    found = read_submission(path)
    assert found.unreadable == ""
    assert all(holds(e, found.answers[e.id]) for e in catalog.exercises("start_here"))
    assert bool(found.notes) == ("format" in name)


def test_half_characters_are_replaced_and_told(tmp_path):
    path = tmp_path / LESSON.notebook
    path.write_text(
        notebook_text().replace("# exercise: start-here/return", "# \\ud800\\n# exercise: start-here/return")
    )
    found = read_submission(path)
    assert "\ufffd" in found.answers[FUNCTION.id].source
    assert "half characters" in found.notes[0]
    found.answers[FUNCTION.id].source.encode()


def test_broken_cells_cost_themselves_only(tmp_path):
    notebook = json.loads(notebook_text())
    notebook["cells"][0] = 3
    notebook["cells"].append({"cell_type": "code", "source": [1, 2]})
    notebook["cells"].append({"cell_type": "heading", "source": "x", "metadata": 0})
    found = submission(tmp_path, notebook)
    assert found.answered == len(found.answers)
    last = len(notebook["cells"])
    assert found.notes == (f"Cells that cannot be read were passed over: number 1, {last - 1}, {last}.",)


def test_metadata_outputs_and_attachments_may_be_anything(tmp_path):
    notebook = json.loads(notebook_text())
    notebook["metadata"] = ["x", 5]
    for cell in notebook["cells"]:
        cell |= {"metadata": 7, "outputs": "passed", "execution_count": {"a": []}, "attachments": None, "id": ["a"]}
    assert submission(tmp_path, notebook).answered == len(catalog.exercises("start_here"))


def test_an_answer_too_long_or_too_deep_is_unreadable_and_not_lost(tmp_path):
    long = MARK + REFERENCE + "\nx = [" + "1, " * (cells.MAX_TEXT // 3) + "]"
    deep = MARK + REFERENCE + "\nx = " + "-" * 500 + "1"
    for text, why in ((long, "30,000"), (deep, "levels deep")):
        one = taken(tmp_path, text)
        assert (one.source, why in one.unreadable, one.cells) == ("", True, (2,))


def test_code_beyond_the_cap_is_left_out_and_told(tmp_path):
    notebook = solved("start_here")
    notebook.cells += [code("x" * 25_000) for _ in range(8)]
    found = submission(tmp_path, notebook)
    assert found.answered == len(found.answers)
    assert "left out: cell" in found.notes[0]


def test_nothing_of_a_notebook_is_executed(tmp_path):
    trap = tmp_path / "trap"
    bomb = f"open({str(trap)!r}, 'w').close()"
    one = taken(tmp_path, bomb, f"!touch {trap}", f"{MARK}{bomb}\n{REFERENCE}\n{bomb}", CHECK, bomb)
    assert holds(FUNCTION, one)
    assert not trap.exists()


def test_reading_changes_nothing(tmp_path):
    save(tmp_path / "class" / "learner-a" / LESSON.notebook, solved("start_here"))
    shutil.make_archive(str(tmp_path / "class" / "learner-b"), "zip", tmp_path / "class" / "learner-a")

    def state():
        return {p: (p.stat().st_mtime_ns, p.read_bytes() if p.is_file() else b"") for p in tmp_path.rglob("*")}

    before, here = state(), sorted(Path().iterdir())
    assert len(find_submissions([tmp_path / "class"])) == 2
    assert (state(), sorted(Path().iterdir())) == (before, here)


# -- which lesson -------------------------------------------------------------------------------------------------


def test_the_lesson_is_found_by_what_is_in_it_not_by_its_name(tmp_path):
    found = submission(tmp_path, solved("strides"), "06_broadcasting.ipynb")
    assert found.lesson == "strides"
    assert found.notes == ("The file is named after the lesson broadcasting, but holds strides.",)
    assert submission(tmp_path, solved("strides"), "whatever.ipynb").notes == ()


def test_a_notebook_of_no_lesson_says_so(tmp_path):
    found = submission(tmp_path, nbformat.v4.new_notebook(cells=[code("x = 1")]), "notes.ipynb")
    assert (found.lesson, found.unreadable, found.answers) == ("", "", {})
    assert found.notes == ("No exercise of the course was found in it.",)


def test_a_notebook_of_two_lessons_counts_for_the_one_it_has_more_of(tmp_path):
    notebook = solved("broadcasting")
    notebook.cells += solved("start_here").cells
    found = submission(tmp_path, notebook)
    assert (found.lesson, found.answered) == ("broadcasting", len(catalog.exercises("broadcasting")))
    assert "It also holds exercises of start_here; they count in a notebook of their own only." in found.notes


# -- which learner ------------------------------------------------------------------------------------------------


def learners(tmp_path, *names):
    for name in names:
        save(tmp_path / name, solved("start_here"))
    return [(s.learner, s.lesson) for s in find_submissions([tmp_path])]


@pytest.mark.parametrize(
    ("name", "learner"),
    [
        ("learner-a/00_start_here.ipynb", "learner-a"),
        ("learner-a/work/00_start_here.ipynb", "learner-a"),
        ("learner-a/Work/00_start_here.ipynb", "learner-a"),
        ("learner-a/deeper/more/00_start_here.ipynb", "learner-a"),
        ("learner-a/final.ipynb", "learner-a"),
        ("learner-a/strides.ipynb", "learner-a"),
        ("learner-a/00_start_here (1).ipynb", "learner-a"),
        ("learner-a/00_start_here-Copy1.ipynb", "learner-a"),
        ("learner-a/00_START_HERE - Copy (2).ipynb", "learner-a"),
        ("learner-a/05_strides.ipynb", "learner-a"),
        ("maria.lopez.ipynb", "maria.lopez"),
        ("12_maria.ipynb", "12_maria"),
        ("00_start_here_maria.ipynb", "00_start_here_maria"),
        ("Zoë Müller 学/00_start_here.ipynb", "Zoë Müller 学"),
    ],
)
def test_the_learner_is_the_folder_or_the_stem(tmp_path, name, learner):
    assert learners(tmp_path, name) == [(learner, "start_here")]


def test_a_notebook_directly_in_the_folder_belongs_to_the_folder(tmp_path):
    save(tmp_path / "learner-a" / "work" / LESSON.notebook, solved("start_here"))
    for path in (
        tmp_path / "learner-a",
        tmp_path / "learner-a" / "work",
        tmp_path / "learner-a" / "work" / LESSON.notebook,
    ):
        assert [s.learner for s in find_submissions([path])] == ["learner-a"]


def test_two_writings_of_one_name_are_one_learner(tmp_path):
    composed, decomposed = (unicodedata.normalize(form, "José") for form in ("NFC", "NFD"))
    save(tmp_path / "a" / composed / LESSON.notebook, solved("start_here"))
    save(tmp_path / "b" / decomposed / "05_strides.ipynb", solved("strides"))
    found = find_submissions([tmp_path / "a", tmp_path / "b"])
    assert all("comes from several places: " in s.notes[0] for s in found)
    assert [(s.learner, s.lesson) for s in found] == [
        (composed, "start_here"),
        (composed, "strides"),
    ]


def test_a_name_is_one_line_without_what_does_not_show(tmp_path):
    found = read_submission(save(tmp_path / "x.ipynb", solved("start_here")), learner=None)
    assert found.learner == "x"
    odd = "evil\u202e\x07\nname\u200b" + "x" * 300
    try:
        path = save(tmp_path / (odd[:60] + ".ipynb"), solved("start_here"))
    except OSError:
        pytest.skip("this file system does not take such names")
    assert read_submission(path).learner.startswith("evil???name?x")


def test_what_no_learner_writes_is_passed_over(tmp_path):
    names = (".lab/base", ".lab/backups", ".ipynb_checkpoints", "__MACOSX", ".git", "x/site-packages")
    for folder in names:
        save(tmp_path / "learner-a" / folder / LESSON.notebook, solved("start_here"))
    save(tmp_path / "learner-a" / "home.ipynb", shipped("start_here"))
    (tmp_path / "learner-a" / "._00_start_here.ipynb").write_bytes(b"\0")
    (tmp_path / "learner-a" / "notes.txt").write_text("hello")
    assert find_submissions([tmp_path]) == []


def test_a_scratch_notebook_beside_lessons_is_its_learners(tmp_path):
    save(tmp_path / "learner-a" / LESSON.notebook, solved("start_here"))
    save(tmp_path / "learner-a" / "scratch.ipynb", nbformat.v4.new_notebook(cells=[code("1")]))
    assert {s.learner for s in find_submissions([tmp_path])} == {"learner-a"}


def test_a_link_is_not_followed_and_said(tmp_path):
    secret = save(tmp_path / "learner-b" / "secret.ipynb", solved("start_here"))
    folder = tmp_path / "class" / "learner-a"
    folder.mkdir(parents=True)
    try:
        (folder / LESSON.notebook).symlink_to(secret)
        (tmp_path / "class" / "learner-c").symlink_to(secret.parent, target_is_directory=True)
        (folder / "all.zip").symlink_to(secret)
    except OSError:
        pytest.skip("links cannot be made here")
    found = {s.path.name: s for s in find_submissions([tmp_path / "class"])}
    assert set(found) == {LESSON.notebook, "all.zip"}
    assert {s.learner for s in found.values()} == {"learner-a"}
    assert all("link" in s.unreadable and s.answers == {} for s in found.values())
    assert read_submission(folder / LESSON.notebook).answered == 3  # named by whoever grades, so it is followed


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with a name are Unix's")
def test_a_pipe_does_not_hold_anybody(tmp_path):
    (tmp_path / "learner-a").mkdir()
    os.mkfifo(tmp_path / "learner-a" / LESSON.notebook)
    os.mkfifo(tmp_path / "learner-a" / "more.zip")
    assert [("pipe" in s.unreadable) for s in find_submissions([tmp_path])] == [True, True]


def test_a_folder_with_the_name_of_a_notebook_does_no_harm(tmp_path):
    (tmp_path / "learner-a" / "odd.ipynb").mkdir(parents=True)
    assert learners(tmp_path, "learner-a/00_start_here.ipynb") == [("learner-a", "start_here")]


def test_a_path_that_is_not_there_is_told(tmp_path):
    with pytest.raises(UsageError, match="nothing at"):
        find_submissions([tmp_path / "nowhere"])


def test_a_link_that_was_named_is_followed_to_a_file_or_folder_only(tmp_path):
    save(tmp_path / "there" / "learner-a" / LESSON.notebook, solved("start_here"))
    try:
        (tmp_path / "class").symlink_to(tmp_path / "there", target_is_directory=True)
        (tmp_path / "gone.ipynb").symlink_to(tmp_path / "nowhere")
    except OSError:
        pytest.skip("links cannot be made here")
    assert [s.learner for s in find_submissions([tmp_path / "class"])] == ["learner-a"]
    with pytest.raises(UsageError, match="a link that leads to no file"):
        find_submissions([tmp_path / "gone.ipynb"])


# -- nobody touches anybody else ------------------------------------------------------------------------------------


def test_nothing_inside_a_learners_folder_makes_or_touches_another_learner(tmp_path):
    for name in ("ann", "aaa", "aaa/ann", "aaa/work/bea", "bea"):
        save(tmp_path / name / LESSON.notebook, partly("start_here", 2 if name == "aaa" else 1))
    save(tmp_path / "aaa" / "bea.ipynb", solved("start_here"))
    for n in range(3):
        save(tmp_path / "ghosts" / f"ghost{n}.ipynb", solved("start_here"))
    found = {s.learner: s for s in find_submissions([tmp_path])}
    assert set(found) == {"aaa", "ann", "bea", "ghosts"}
    assert [found[name].answered for name in ("ann", "bea")] == [1, 1]
    assert not found["ann"].notes


@pytest.mark.parametrize("wrapped", ["", "class/"])
def test_a_folder_around_the_whole_class_is_no_learner(tmp_path, wrapped):
    assert [name for name, _ in learners(tmp_path, f"{wrapped}ann/strides.ipynb", f"{wrapped}bob/strides.ipynb")] == [
        "ann",
        "bob",
    ]


def test_groups_are_not_taken_for_one_learner_in_silence(tmp_path):
    save(tmp_path / "sec1" / "li" / LESSON.notebook, partly("start_here", 1))
    save(tmp_path / "sec1" / "wu" / LESSON.notebook, partly("start_here", 2))
    save(tmp_path / "sec2" / "li" / LESSON.notebook, partly("start_here", 2))
    one, two = find_submissions([tmp_path])
    assert (one.learner, two.learner) == ("sec1", "sec2")
    assert "wu/00_start_here.ipynb (2 answered), li/00_start_here.ipynb (1 answered)" in one.notes[0]
    assert "If sec1 is a group" in one.notes[1]
    found = find_submissions([tmp_path / "sec1", tmp_path / "sec2"])
    claimed = [s for s in found if s.unreadable]
    assert len(found) == 3 and len({s.learner for s in claimed}) == 2
    assert all(s.learner.startswith("li ~") and "claimed by sec1/li and sec2/li" in s.unreadable for s in claimed)


def test_a_name_claimed_twice_is_never_the_better_one(tmp_path):
    save(tmp_path / "ann" / LESSON.notebook, partly("start_here", 1))
    save(tmp_path / "ann.ipynb", solved("start_here"))
    found = find_submissions([tmp_path])
    assert [bool(s.unreadable) for s in found] == [True, True]
    assert len({s.learner for s in found}) == 2


def test_names_that_look_alike_stay_apart(tmp_path):
    names = ["ann", "ann\u200b", "ann\u200c", "x" * 110 + "1", "x" * 110 + "2"]
    try:
        found = learners(tmp_path, *(f"{name}/{LESSON.notebook}" for name in names))
    except OSError:
        pytest.skip("this file system does not take such names")
    assert len({learner for learner, _ in found}) == 5
    assert all(len(learner) < 120 and "\u200b" not in learner for learner, _ in found)


def test_one_learner_has_so_many_notebooks_and_no_more(tmp_path):
    text = notebook_text()
    save(tmp_path / "ann" / LESSON.notebook, solved("start_here"))
    for n in range(60):
        path = tmp_path / "mal" / f"{n:02}" / LESSON.notebook
        path.parent.mkdir(parents=True)
        path.write_text(text, encoding="utf-8")
    ann, found = find_submissions([tmp_path])
    assert ann.notes == ()
    assert "more than 50 notebooks of this learner; 10 were left out" in found.notes[0]


# -- one file never costs another -----------------------------------------------------------------------------------


def test_folders_nested_too_deeply_are_told(tmp_path):
    save(tmp_path / "ann" / LESSON.notebook, solved("start_here"))
    save(tmp_path / "mal" / Path(*["a"] * 40) / LESSON.notebook, solved("start_here"))
    found = {s.learner: s for s in find_submissions([tmp_path])}
    assert found["ann"].answered == 3
    assert "more than 30 levels" in found["mal"].unreadable


def test_a_long_name_of_a_copy_is_read_at_once(tmp_path):
    name = "00_start_here" + "1" * 40 + "x.ipynb"
    assert learners(tmp_path, name) == [(name.removesuffix(".ipynb"), "start_here")]


@pytest.mark.parametrize("error", [ZeroDivisionError, RecursionError, MemoryError, patience.TooSlow])
def test_whatever_happens_with_a_file_happens_to_it_alone(tmp_path, monkeypatch, error):
    whole = intake.take_answers

    def take(cells, exercises):
        if any("trouble" in cell.text for cell in cells):
            raise error
        return whole(cells, exercises)

    monkeypatch.setattr(intake, "take_answers", take)
    save(tmp_path / "ann" / LESSON.notebook, solved("start_here"))
    notebook = copy.deepcopy(solved("start_here"))
    notebook.cells.append(code("trouble"))
    save(tmp_path / "mal" / LESSON.notebook, notebook)
    ann, mal = find_submissions([tmp_path])
    assert (ann.answered, ann.unreadable) == (3, "")
    assert (mal.lesson, bool(mal.unreadable), bool(mal.repair)) == ("start_here", True, True)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there is no such timer here")
def test_looking_for_ever_ends():
    with pytest.raises(patience.TooSlow), patience.time_budget(0.05):
        while True:
            pass


# -- two notebooks of one lesson ----------------------------------------------------------------------------------


def partly(slug, count):
    """A lesson with the first `count` exercises answered."""
    notebook = shipped(slug)
    for exercise in catalog.exercises(slug)[:count]:
        cell_of(notebook, exercise).source = accidents.answer_text(exercise)
    return notebook


def test_of_two_notebooks_the_one_with_more_answers_is_taken_and_both_are_named(tmp_path):
    save(tmp_path / "learner-a" / LESSON.notebook, partly("start_here", 1))
    newer = save(tmp_path / "learner-a" / "00_start_here (1).ipynb", partly("start_here", 2))
    os.utime(newer, (0, 0))  # neither the newest nor the oldest: what counts is in them
    (found,) = find_submissions([tmp_path])
    assert (found.path.name, found.answered) == ("00_start_here (1).ipynb", 2)
    (note,) = found.notes
    assert "00_start_here.ipynb (1 answered)" in note
    assert "00_start_here (1).ipynb (2 answered)" in note


def test_an_unreadable_second_notebook_does_not_hide_the_first(tmp_path):
    save(tmp_path / "learner-a" / LESSON.notebook, partly("start_here", 0))
    (tmp_path / "learner-a" / "00_start_here-Copy1.ipynb").write_bytes(b"{")
    (found,) = find_submissions([tmp_path])
    assert (found.path.name, found.unreadable) == (LESSON.notebook, "")
    assert "00_start_here-Copy1.ipynb (unreadable)" in found.notes[0]


def test_the_pristine_lesson_of_a_repository_does_not_count_against_the_work(tmp_path):
    save(tmp_path / "learner-a" / "notebooks" / LESSON.notebook, shipped("start_here"))
    save(tmp_path / "learner-a" / "work" / LESSON.notebook, partly("start_here", 1))
    (found,) = find_submissions([tmp_path])
    assert (found.path.parent.name, found.answered) == ("work", 1)


def test_the_same_path_twice_is_one_submission(tmp_path):
    path = save(tmp_path / "learner-a" / LESSON.notebook, solved("start_here"))
    (found,) = find_submissions([tmp_path, path, path])
    assert "they are the same file" in found.notes[0]


# -- all in order -------------------------------------------------------------------------------------------------


def test_thirty_learners_are_all_there_in_one_order(tmp_path):
    for n, accident in enumerate(ACCIDENTS[:30]):
        notebook = copy.deepcopy(solved("start_here"))
        accident(notebook)
        save(tmp_path / f"learner-{n:02}" / LESSON.notebook, notebook)
    found = find_submissions([tmp_path])
    assert [s.learner for s in found] == [f"learner-{n:02}" for n in range(30)]
    assert len({s.sha256 for s in found}) > 20
    assert all(Path(s.path).is_file() for s in found)
    assert found == find_submissions([tmp_path / f"learner-{n:02}" for n in reversed(range(30))])


def test_caps_are_those_of_the_description():
    assert notebooks.MAX_BYTES == 20 * 1024 * 1024
