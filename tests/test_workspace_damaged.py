"""Workspaces in which something lies in the way or was changed by other tools: told in words, and nothing is lost."""

import json
import os
from pathlib import Path

import little_course
import pytest

from labsupport import places, workspace
from labsupport.cli import main, start
from labsupport.errors import LabError
from labsupport.reading import load

ANSWER = '# exercise: demo/double-up\ndef double_up(x):\n    """Return twice x."""\n    return x + x'


@pytest.fixture
def course(tmp_path, monkeypatch):
    """Return the folder of a little course in its first release, with a workspace of its own."""
    little_course.use(tmp_path, monkeypatch.setattr)
    little_course.release(tmp_path)
    monkeypatch.setenv("LAB_WORK", str(tmp_path / "work"))
    return tmp_path


def changed(path, change):
    """Apply `change(notebook)` to a notebook file."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    change(notebook)
    path.write_text(json.dumps(notebook), encoding="utf-8")


def answer(notebook):
    for cell in notebook["cells"]:
        if cell.get("id") == "ex-demo-double-up":
            cell["source"] = ANSWER


def texts(path):
    return [cell["source"] for cell in load(path)["cells"]]


# What lies in the way


def in_the_way(course, place, kind):
    path = course / "work" / place
    if path.is_dir():
        for left in path.iterdir():
            left.unlink()
        path.rmdir()
    path.unlink(missing_ok=True)
    path.mkdir() if kind == "folder" else path.write_text("", encoding="utf-8")
    return path


@pytest.mark.parametrize("command", ["start", "update", "reset"])
@pytest.mark.parametrize("place, kind", [(".lab/lock", "folder"), (".lab/base", "file"), (".lab/backups", "file")])
def test_what_lies_in_the_way_is_named(course, command, place, kind):
    workspace.start("demo")
    path = in_the_way(course, place, kind)
    act = {"start": workspace.start, "update": workspace.update, "reset": lambda slug: workspace.reset("double-up")}
    with pytest.raises(LabError, match="cannot be written to") as raised:
        act[command]("demo")
    assert str(path.resolve()) in raised.value.why and kind in raised.value.why
    assert str(path.resolve()) in raised.value.next_step


def test_a_file_in_place_of_the_workspace_is_named(course):
    (course / "work").write_text("", encoding="utf-8")
    with pytest.raises(LabError) as raised:
        workspace.start("demo")
    assert f"{(course / 'work').resolve()} is a file" in raised.value.why


def test_a_workspace_that_became_read_only(course, monkeypatch):
    workspace.start("demo")
    real = Path.open

    def refuse(path, *args, **options):
        if path.name == "lock":
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *args, **options)

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(LabError, match="cannot be written to") as raised:
        workspace.update()
    assert "Permission denied" in raised.value.why and "LAB_WORK" in raised.value.next_step


def test_a_folder_in_place_of_a_backup(course):
    path = workspace.start("demo")
    (course / "work/.lab/backups/05_demo.29990101T000000.000000Z.ipynb").mkdir()
    changed(path, answer)
    with pytest.raises(LabError) as raised:
        workspace.reset("demo/double-up")
    assert "05_demo.2999" in str(raised.value) and ANSWER in texts(path)


def circle(folder):
    (folder / "a").symlink_to(folder / "b")
    (folder / "b").symlink_to(folder / "a")
    return folder / "a" / "work"


@pytest.mark.skipif(os.name == "nt", reason="Windows has no links for everybody")
@pytest.mark.parametrize("make, why", [(circle, "circle"), (lambda folder: folder / ("w" * 300), "long")])
def test_a_workspace_that_leads_nowhere(course, monkeypatch, capsys, make, why):
    monkeypatch.setenv("LAB_WORK", str(make(course)))
    with pytest.raises(LabError) as raised:
        places.workspace()
    assert why in raised.value.why and "LAB_WORK" in raised.value.next_step
    for words in (["start"], ["update"], ["reset", "demo/double-up", "--yes"], ["lessons"], ["check"]):
        assert main(words) == 1
        assert "the workspace cannot be at" in capsys.readouterr().err


# Records that other tools changed


def without_ids(notebook):
    for cell in notebook["cells"]:
        del cell["id"]


def one_id(notebook):
    for cell in notebook["cells"]:
        cell["id"] = "same"


def put(key, value, of="cell"):
    """Return a change that puts a value into every cell, its metadata, or the notebook."""

    def change(notebook):
        for cell in notebook["cells"]:
            {"cell": cell, "metadata": cell["metadata"], "notebook": notebook}[of][key] = value

    return change


RECORDS = {
    "no ids": without_ids, "one id": one_id, "ids that are lists": put("id", [1]), "ids that are numbers": put("id", 7),
    "tags in a table": put("tags", {"a": 1}, "metadata"), "tags that are tables": put("tags", [{}], "metadata"),
    "no metadata": put("metadata", None), "no metadata at all": lambda notebook: notebook.pop("metadata"),
    "a text as metadata": put("metadata", "x", "notebook"), "no cells": put("cells", None, "notebook"),
    "a minor number of null": put("nbformat_minor", None, "notebook"),
}  # fmt: skip


@pytest.mark.parametrize("name", [*RECORDS, "a folder"])
def test_a_record_that_is_not_a_release_is_as_good_as_lost(course, name):
    path = workspace.start("demo")
    changed(path, answer)
    record = course / "work/.lab/base/05_demo.ipynb"
    if name == "a folder":
        record.unlink()
        record.mkdir()
    else:
        changed(record, RECORDS[name])
    little_course.release(course, little_course.SECOND_RELEASE)
    (done,) = workspace.update("demo")
    assert done.answers == ("demo/double-up",) and ANSWER in texts(path)
    assert texts(path)[-1].endswith("That was all.") and len(texts(path)) == 8
    assert record.read_bytes() == (course / "notebooks/05_demo.ipynb").read_bytes()
    workspace.reset("demo/double-up")
    assert ANSWER not in texts(path) and len(texts(path)) == 8


@pytest.mark.parametrize("name", RECORDS)
def test_reset_with_a_record_that_is_not_a_release(course, name):
    path = workspace.start("demo")
    changed(path, answer)
    changed(course / "work/.lab/base/05_demo.ipynb", RECORDS[name])
    workspace.reset("demo/double-up")
    assert path.read_bytes() == (course / "notebooks/05_demo.ipynb").read_bytes()


@pytest.mark.parametrize("name", ["no ids", "one id", "tags in a table", "no cells"])
def test_a_built_notebook_that_is_not_a_release_is_named_with_the_way_to_build_it(course, name):
    path = workspace.start("demo")
    before = path.read_bytes()
    changed(course / "notebooks/05_demo.ipynb", RECORDS[name])
    for act in (lambda: workspace.update("demo"), lambda: workspace.reset("demo/double-up")):
        with pytest.raises(LabError, match=r"notebooks/05_demo\.ipynb") as raised:
            act()
        assert raised.value.next_step == "lab build demo" and path.read_bytes() == before


# Copies that other tools changed


COPIES = {
    "a minor number of null": put("nbformat_minor", None, "notebook"),
    "a minor number as text": put("nbformat_minor", "5", "notebook"),
    "a minor number with a fraction": put("nbformat_minor", 4.5, "notebook"),
    "no minor number": lambda notebook: notebook.pop("nbformat_minor"),
    "ids that are lists": put("id", [1]), "ids that are tables": put("id", {}), "ids that are null": put("id", None),
    "tags that are tables": put("tags", [{"a": [1]}, []], "metadata"), "tags of null": put("tags", None, "metadata"),
    "tags in a table": put("tags", {"a": 1}, "metadata"), "outputs of null": put("outputs", None),
}  # fmt: skip


@pytest.mark.parametrize("name", COPIES)
def test_an_odd_copy_is_updated_and_reset_and_keeps_its_answers(course, name):
    path = workspace.start("demo")
    changed(path, answer)
    changed(path, COPIES[name])
    little_course.release(course, little_course.SECOND_RELEASE)
    (done,) = workspace.update("demo")
    assert done.answers == ("demo/double-up",) and texts(path)[-1].endswith("That was all.")
    whole = json.loads(path.read_text(encoding="utf-8"))
    assert whole["nbformat_minor"] == 5 and len({cell["id"] for cell in whole["cells"]}) == 8
    workspace.reset("demo/double-up")
    assert ANSWER not in texts(path) and len(texts(path)) == 8


def test_what_nobody_foresaw_stops_one_copy_and_not_the_others(course, monkeypatch, capsys):
    path, home = workspace.start_all()
    changed(path, answer)
    before = path.read_bytes()
    little_course.release(course, little_course.SECOND_RELEASE, little_course.HOME.replace("Begin", "Start"))
    real = workspace.merge

    def fails_for_lessons(base, course, mine):
        return real(base, course, mine) if len(mine["cells"]) < 3 else {}["surprise"]

    monkeypatch.setattr(workspace, "merge", fails_for_lessons)
    assert main(["update"]) == 1
    out, err = capsys.readouterr()
    assert "home.ipynb: updated" in out and "Reload Notebook from Disk" in out
    assert "05_demo.ipynb was not updated" in err and "KeyError: 'surprise'" in err and "test_workspace" in err
    assert path.read_bytes() == before and "Start here" in home.read_text(encoding="utf-8")
    monkeypatch.setattr(workspace, "put_back", lambda *args: {}["surprise"])
    assert main(["reset", "demo/double-up", "--yes"]) == 1
    assert "05_demo.ipynb was not reset" in capsys.readouterr().err and path.read_bytes() == before


def test_every_copy_that_fails_is_told(course, capsys):
    for path in workspace.start_all():
        path.write_text("{", encoding="utf-8")
    assert main(["update"]) == 1
    err = capsys.readouterr().err
    assert "05_demo.ipynb cannot be read" in err and "home.ipynb cannot be read" in err


class Counted(str):
    """A text that counts how often it is cut into lines or stripped."""

    cut = 0

    def splitlines(self, *args):
        Counted.cut += 1
        return super().splitlines(*args)

    def strip(self, *args):
        Counted.cut += 1
        return super().strip(*args)


def test_a_cell_with_many_lines_is_cut_into_lines_a_few_times_only(course):
    base = load(course / "notebooks/05_demo.ipynb")
    own = Counted("\n".join(f"x{n} = {n}" for n in range(1000)))
    mine = base | {"cells": [*base["cells"], {"cell_type": "code", "id": "own", "metadata": {}, "source": own}]}
    little_course.release(course, little_course.SECOND_RELEASE)
    merged = workspace.merge(base, load(course / "notebooks/05_demo.ipynb"), mine)
    assert any(cell["source"] == own for cell in merged.notebook["cells"])
    assert Counted.cut <= 2  # once per cell of the course, in both releases, would be 16


# lab start with a notebook that is not there


def test_start_opens_what_is_there_and_names_what_is_missing(course, capsys):
    (course / "notebooks/05_demo.ipynb").unlink()
    assert start._prepare(None) == workspace.copy_of("home")
    err = capsys.readouterr().err
    assert "notebooks/05_demo.ipynb is missing" in err and "lab build demo" in err
    with pytest.raises(LabError, match=r"05_demo\.ipynb is missing"):
        start._prepare("demo")


def test_start_without_the_home_notebook_opens_the_first_lesson(course, capsys):
    (course / "notebooks/home.ipynb").unlink()
    assert start._prepare(None) == workspace.copy_of("demo")
    assert "home.ipynb is missing" in capsys.readouterr().err


def test_start_with_nothing_built_opens_nothing(course):
    for path in (course / "notebooks").glob("*.ipynb"):
        path.unlink()
    with pytest.raises(LabError, match=r"home\.ipynb is missing"):
        start._prepare(None)


def test_a_missing_notebook_does_not_matter_to_a_learner_who_has_a_copy(course, capsys):
    workspace.start_all()
    (course / "notebooks/05_demo.ipynb").unlink()
    assert start._prepare("demo") == workspace.copy_of("demo")
    assert capsys.readouterr().err == ""


def test_an_empty_name_is_not_all_of_them(course, capsys):
    workspace.start_all()
    for words in (["update", ""], ["drill", ""], ["exercises", ""], ["check", ""], ["start", ""], ["reset", ""]):
        assert main(words) == 2, words
        assert "no " in capsys.readouterr().err
