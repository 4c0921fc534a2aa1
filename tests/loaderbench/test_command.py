"""The command line: its arguments, what it keeps, what it refuses, and that it leaves no process."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from labsupport.cli import main
from labsupport.loaderbench import Report, Run
from labsupport.loaderbench.command import subject_of
from labsupport.places import ROOT

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def here(monkeypatch):
    monkeypatch.chdir(HERE)


def lab(*words):
    return main(["loaderbench", *words])


def test_it_measures_and_keeps_what_it_found(tmp_path, capsys):
    kept, recorded = tmp_path / "report.json", tmp_path / "run.json"
    words = ["--workers", "0,1", "--batch-size", "8", "--repeat", "1", "--batches", "4", "--persistent", "no"]
    assert lab("little_datasets:Gathered", *words, "--out", str(kept), "--record", str(recorded)) == 0
    out = capsys.readouterr().out
    assert "Gathered, 64 items" in out and "Recommended:" in out
    report = Report.load(kept)
    assert {setting.workers for setting in report.samples} == {0, 1}
    assert Run.load(recorded).settings["dataset"] == "Gathered"
    assert lab("--compare", str(kept), str(kept)) == 0
    assert "no difference" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no dataset was named"),
        (["little_datasets"], "is not MODULE:NAME"),
        (["no_such_module:Data"], "there is no module"),
        (["no_such_file.py:Data"], "there is no file"),
        (["little_datasets:Nothing"], "it has Numbers"),
        (["little_datasets:Numbers", "--workers", "two"], "whole numbers with commas"),
        (["little_datasets:Numbers", "--start", "thread"], "one of"),
        (["little_datasets:Numbers", "--out", "no/such/folder/a.json"], "there is no folder"),
    ],
    ids=["nothing", "no colon", "no module", "no file", "no name", "workers", "start", "out"],
)
def test_wrong_use_is_told_and_ends_with_2(words, said, capsys):
    assert lab(*words) == 2
    assert said in capsys.readouterr().err


def test_a_problem_of_the_dataset_ends_with_1(capsys):
    assert lab("little_datasets.py:Raising", "--workers", "0") == 1
    assert "item 5" in capsys.readouterr().err


def test_a_factory_may_give_a_dict_or_an_object_or_raise(tmp_path, monkeypatch):
    (tmp_path / "mine_for_test.py").write_text(
        "import little_datasets as little\n"
        "ready = little.Numbers(8)\n"
        "def make():\n    return {'dataset': ready, 'collate_fn': little.list_of}\n"
        "def bad():\n    raise OSError('no such disk')\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert len(subject_of("mine_for_test:ready")["dataset"]) == 8
    assert subject_of("mine_for_test:make")["collate_fn"].__name__ == "list_of"
    with pytest.raises(Exception, match="raised OSError"):
        subject_of("mine_for_test:bad")


@pytest.mark.skipif(sys.platform == "win32", reason="SIGTERM of POSIX")
def test_a_request_to_end_leaves_no_worker():
    words = [
        "little_datasets:HangingInWorkers",
        "--workers",
        "1",
        "--batch-size",
        "4",
        "--start",
        "fork",
        "--deadline",
        "100",
    ]
    command = [sys.executable, "-m", "labsupport.loaderbench", *words, "--batches", "1"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, cwd=HERE, text=True) as program:
        for line in program.stderr:
            if ": workers: " in line:
                break
        while not (family := psutil.Process(program.pid).children(recursive=True)):
            assert program.poll() is None
        program.terminate()
        assert program.wait(60) == 128 + 15
        _, alive = psutil.wait_procs(family, timeout=60)
    assert alive == []


@pytest.mark.skipif(sys.platform == "win32", reason="SIGTERM of POSIX")
def test_a_request_to_end_is_no_error_of_the_item_that_is_read(tmp_path):
    (tmp_path / "waiting.py").write_text(
        "import pathlib, threading\n\n\nclass Waiting:\n    def __len__(self):\n        return 8\n\n"
        "    def __getitem__(self, index):\n        pathlib.Path('reached').touch()\n"
        "        threading.Event().wait()\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "labsupport.loaderbench", "waiting.py:Waiting", "--workers", "0"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, cwd=tmp_path, env=env, text=True) as program:
        while not (tmp_path / "reached").exists():
            assert program.poll() is None
        program.terminate()
        said = program.stderr.read()
        assert program.wait(60) == 128 + 15
    assert "raised" not in said
