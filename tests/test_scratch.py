"""Folders for what a lesson writes: removed at the end, and after an end that was cut short."""

import os
import subprocess
import sys
import tempfile

import pytest

from labsupport import scratch

WRITES = "from labsupport import scratch; f = scratch.folder('test'); (f / 'a').mkdir(); print(f); "


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8")


def test_a_folder_is_empty_and_goes_with_its_process(temporary):
    told = run(WRITES)
    assert told.returncode == 0 and temporary.name in told.stdout
    assert list(temporary.iterdir()) == []


def test_what_a_killed_process_left_is_removed_and_what_lives_stays(temporary, monkeypatch):
    sweep = scratch.sweep
    monkeypatch.setattr(scratch, "sweep", lambda name: None)  # not in the background here
    mine = scratch.folder("test")
    run(WRITES + "import os; os._exit(1)")
    foreign = temporary / f"ml-lab-test-elsewhere-{os.getpid()}-x"
    foreign.mkdir()
    assert len(list(temporary.iterdir())) == 3
    sweep("test")
    assert sorted(temporary.iterdir()) == sorted([mine, foreign])


def test_another_lesson_leaves_it_alone(temporary):
    run(WRITES + "import os; os._exit(1)")
    scratch.sweep("other")
    assert len(list(temporary.iterdir())) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_leaves_it_alone(temporary):
    told = run(WRITES + "import os; child = os.fork(); child and os.waitpid(child, 0); print(f.is_dir())")
    assert told.stdout.split()[-1] == "True" and list(temporary.iterdir()) == []
