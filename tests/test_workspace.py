"""The learner's copies: started once, updated with a backup, reset one exercise at a time, never overwritten."""

import json
import os
import stat
import subprocess
import sys

import little_course
import pytest

from labsupport import workspace
from labsupport.cli import main
from labsupport.errors import LabError, UsageError
from labsupport.reading import load
from labsupport.workspace.atomic import locked, write_atomic

ANSWER = '# exercise: demo/double-up\ndef double_up(x):\n    """Return twice x."""\n    return x + x'


@pytest.fixture
def course(tmp_path, monkeypatch):
    """Return the folder of a little course in its first release, with a workspace of its own."""
    little_course.use(tmp_path, monkeypatch.setattr)
    little_course.release(tmp_path)
    monkeypatch.setenv("LAB_WORK", str(tmp_path / "work"))
    return tmp_path


def answered(path, source=ANSWER):
    """Write an answer into a copy as JupyterLab would save it."""
    notebook = load(path)
    for cell in notebook["cells"]:
        if cell.get("id") == "ex-demo-double-up":
            cell["source"] = source
    path.write_text(json.dumps(notebook), encoding="utf-8")
    return path.read_bytes()


def test_start_copies_the_lesson_and_records_its_release(course):
    path = workspace.start("demo")
    shipped = (course / "notebooks/05_demo.ipynb").read_bytes()
    assert path == (course / "work/05_demo.ipynb").resolve() and path.read_bytes() == shipped
    assert (course / "work/.lab/base/05_demo.ipynb").read_bytes() == shipped
    assert "/backups/" in (course / "work/.lab/.gitignore").read_text(encoding="utf-8")


def test_start_never_overwrites(course):
    path = workspace.start("demo")
    path.write_bytes(b"anything at all")
    assert workspace.start("demo") == path and path.read_bytes() == b"anything at all"


def test_start_all_copies_lessons_and_home(course):
    assert [path.name for path in workspace.start_all()] == ["05_demo.ipynb", "home.ipynb"]


def test_an_unknown_lesson_makes_nothing(course):
    with pytest.raises(UsageError):
        workspace.start("dmeo")
    assert not (course / "work").exists()


def test_a_notebook_that_was_not_built_is_named(course):
    (course / "notebooks/05_demo.ipynb").unlink()
    with pytest.raises(LabError, match=r"05_demo\.ipynb is missing"):
        workspace.start("demo")


def test_update_brings_the_news_keeps_the_answer_and_the_version_before(course):
    path = workspace.start("demo")
    before = answered(path)
    little_course.release(course, little_course.SECOND_RELEASE)
    (done,) = workspace.update("demo")
    texts = [cell["source"] for cell in load(path)["cells"]]
    assert done.changed and done.answers == ("demo/double-up",) and done.backup.read_bytes() == before
    assert ANSWER in texts and "One better promise." in texts[0] and texts[-1].endswith("That was all.")
    assert workspace.update("demo")[0].changed is False


def test_an_untouched_copy_becomes_the_new_release_byte_for_byte(course):
    path = workspace.start("demo")
    little_course.release(course, little_course.SECOND_RELEASE)
    workspace.update()
    assert path.read_bytes() == (course / "notebooks/05_demo.ipynb").read_bytes()


def test_update_without_news_touches_nothing(course):
    path = workspace.start("demo")
    before = answered(path)
    assert workspace.update()[0].changed is False and path.read_bytes() == before
    assert workspace.backups(path) == []


def test_update_of_everything_passes_over_lessons_never_started(course):
    assert workspace.update() == []
    with pytest.raises(LabError, match=r"there is no 05_demo\.ipynb"):
        workspace.update("demo")


@pytest.mark.parametrize("content", [b"", b'{"cells": [', b'{"nbformat": 3}', b"hello"])
def test_a_corrupt_copy_is_named_and_left_as_it_is_while_the_others_are_updated(course, content):
    path, home = workspace.start_all()
    path.write_bytes(content)
    little_course.release(course, little_course.SECOND_RELEASE, little_course.HOME.replace("Begin", "Start"))
    with pytest.raises(LabError, match=r"05_demo\.ipynb"):
        workspace.update()
    assert path.read_bytes() == content and b"Start here" in home.read_bytes()
    with pytest.raises(LabError, match=r"05_demo\.ipynb"):
        workspace.reset("demo/double-up")
    assert path.read_bytes() == content


@pytest.mark.parametrize("record", [None, b"torn {"])
def test_a_lost_or_torn_record_of_the_release_costs_nothing_of_the_learner(course, record):
    path = workspace.start("demo")
    answered(path)
    base = course / "work/.lab/base/05_demo.ipynb"
    base.unlink() if record is None else base.write_bytes(record)
    little_course.release(course, little_course.SECOND_RELEASE)
    workspace.update()
    texts = [cell["source"] for cell in load(path)["cells"]]
    assert ANSWER in texts and texts[-1].endswith("That was all.") and len(texts) == 8
    kept = list((course / "work/.lab/backups").glob("05_demo.base.*"))
    assert [file.read_bytes() for file in kept] == ([] if record is None else [record])


def test_the_last_ten_backups_stay(course):
    path = workspace.start("demo")
    for number in range(13):
        answered(path, ANSWER + f"  # {number}")
        workspace.reset("demo/double-up")
    kept = [file.read_text(encoding="utf-8") for file in workspace.backups(path)]
    assert len(kept) == 10 and "# 3" in kept[0] and "# 12" in kept[-1]


def test_reset_restores_one_exercise_and_leaves_the_rest(course):
    path = workspace.start("demo")
    answered(path)
    notebook = load(path)
    notebook["cells"][1]["source"] += "\nmine = 1"
    path.write_text(json.dumps(notebook), encoding="utf-8")
    done, backup = workspace.reset("double-up")
    texts = [cell["source"] for cell in load(done)["cells"]]
    assert ANSWER not in texts and texts[1].endswith("mine = 1") and "return x + x" in backup.read_text("utf-8")


def test_reset_clears_the_verdict_on_the_answer_that_is_gone_and_no_other(course):
    path = workspace.start("demo")
    answered(path)
    notebook = load(path)
    shown = [{"output_type": "stream", "name": "stdout", "text": "passed"}]
    for cell in notebook["cells"]:
        if cell["id"].startswith("check-"):
            cell.update(outputs=shown, execution_count=7)
    path.write_text(json.dumps(notebook), encoding="utf-8")
    workspace.reset("double-up")
    left = {c["id"]: (c["outputs"], c["execution_count"]) for c in load(path)["cells"] if c["id"].startswith("check-")}
    assert left == {"check-demo-double-up": ([], None), "check-demo-predict-sum": (shown, 7)}


def test_reset_of_a_first_state_changes_nothing_and_says_so(course, capsys):
    path = workspace.start("demo")
    path.write_text(json.dumps(load(path)), encoding="utf-8")  # as another program would write it
    before = path.read_bytes()
    assert main(["reset", "demo/double-up", "--yes"]) == 0
    out = capsys.readouterr().out
    assert "is already at its first state" in out and "save the notebook" in out
    assert path.read_bytes() == before and workspace.backups(path) == []


def test_outdated_copies_are_those_made_from_an_earlier_release(course):
    assert workspace.outdated() == []
    path = workspace.start("demo")
    answered(path)
    assert workspace.outdated() == []
    little_course.release(course, little_course.SECOND_RELEASE)
    assert workspace.outdated() == [path]
    workspace.update()
    assert workspace.outdated() == []


def test_reset_takes_the_stub_of_the_release_the_copy_was_made_from(course):
    path = workspace.start("demo")
    answered(path)
    little_course.release(course, little_course.LESSON.replace("Return twice x.", "Return x, twice."))
    workspace.reset("demo/double-up")
    assert "Return twice x." in path.read_text(encoding="utf-8")
    workspace.update()
    assert "Return x, twice." in path.read_text(encoding="utf-8")


def test_a_copy_made_under_another_number_is_found_again(course):
    path = workspace.start("demo")
    answered(path)
    for old in list((course / "notebooks").glob("05_demo.ipynb")) + list((course / "notebooks/source").glob("05_*")):
        old.rename(old.with_name(old.name.replace("05", "06")))
    assert workspace.start("demo") == path and workspace.update("demo")[0].path == path


def test_an_editor_that_saves_during_the_update_wins(course, monkeypatch):
    path = workspace.start("demo")
    answered(path)
    little_course.release(course, little_course.SECOND_RELEASE)
    real, saved = workspace.merge, []

    def slow(*notebooks):
        if not saved:
            saved.append(answered(path, ANSWER.replace("x + x", "2 * x")))
        return real(*notebooks)

    monkeypatch.setattr(workspace, "merge", slow)
    workspace.update("demo")
    assert "2 * x" in path.read_text(encoding="utf-8")


def test_the_lock_turns_a_second_writer_away_and_ends_with_its_process(tmp_path):
    lock = tmp_path / ".lab" / "lock"
    lock.parent.mkdir()
    with locked(lock), pytest.raises(LabError, match="another lab command"), locked(lock, patience_s=0):
        pass
    code = "import os, sys\nfrom labsupport.workspace.atomic import locked\nwith locked(sys.argv[1]): os._exit(9)"
    assert subprocess.run([sys.executable, "-c", code, str(lock)]).returncode == 9
    with locked(lock, patience_s=0):
        pass


def test_an_unwritable_workspace_is_told_in_words(course, monkeypatch):
    (course / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("LAB_WORK", str(course / "file" / "work"))
    with pytest.raises(LabError, match="cannot be written to"):
        workspace.start("demo")


def test_a_full_disk_leaves_the_old_file_and_no_half_of_a_new_one(tmp_path, monkeypatch):
    path = tmp_path / "a.ipynb"
    path.write_bytes(b"old")

    def full(descriptor, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(LabError, match="was not written") as raised:
        write_atomic(path, b"new")
    assert "No space left" in raised.value.why
    assert path.read_bytes() == b"old" and [file.name for file in tmp_path.iterdir()] == ["a.ipynb"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has neither these permissions nor links for everybody")
def test_permissions_and_links_survive_a_write(tmp_path):
    real, link = tmp_path / "real.ipynb", tmp_path / "link.ipynb"
    real.write_bytes(b"old")
    real.chmod(0o640)
    link.symlink_to(real)
    write_atomic(link, b"new")
    assert link.is_symlink() and real.read_bytes() == b"new" and stat.S_IMODE(real.stat().st_mode) == 0o640


def test_half_written_files_of_dead_processes_are_cleared(course):
    path = workspace.start("demo")
    left = path.with_name(".05_demo.ipynb.99999.lab-tmp")
    left.write_bytes(b"half")
    workspace.start("demo")
    assert not left.exists()


def test_lab_update_says_what_happened_and_how_to_see_it_in_jupyterlab(course, capsys):
    path = workspace.start("demo")
    answered(path)
    little_course.release(course, little_course.SECOND_RELEASE)
    assert main(["update"]) == 0
    said = capsys.readouterr().out
    assert "05_demo.ipynb: updated; 1 answer kept" in said and "Reload Notebook from Disk" in said
    assert main(["update", "demo"]) == 0 and "up to date" in capsys.readouterr().out
    assert main(["update", "dmeo"]) == 2


def test_lab_update_before_any_start(course, capsys):
    assert main(["update"]) == 0 and "no copies yet" in capsys.readouterr().out


def test_lab_reset_asks_first(course, capsys, monkeypatch):
    path = workspace.start("demo")
    before = answered(path)
    assert main(["reset", "demo/double-up"]) == 2 and "--yes" in capsys.readouterr().err
    assert path.read_bytes() == before
    assert main(["reset", "demo/double-down"]) == 2 and "demo/double-up" in capsys.readouterr().err
    monkeypatch.setattr("labsupport.cli.reset.sys.stdin", type("Terminal", (), {"isatty": lambda self: True})())
    monkeypatch.setattr("builtins.input", lambda question: "n")
    assert main(["reset", "demo/double-up"]) == 1 and path.read_bytes() == before
    assert "save it first" in capsys.readouterr().out
    assert main(["reset", "demo/double-up", "--yes"]) == 0
    assert "return x + x" not in path.read_text(encoding="utf-8")
