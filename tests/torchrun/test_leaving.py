"""What a program leaves when it ends: its files, what C printed, its threads, where its temporary files go."""

import json
import shutil
from pathlib import Path

import pytest
from engine import WITHIN_S, needs_fork, run, start

from labsupport.errors import LabError
from labsupport.torchrun import helper

pytestmark = needs_fork


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    helper.warm(WITHIN_S)


@pytest.mark.parametrize(("end", "code"), [("sys.exit(0)", 0), ("sys.exit(3)", 3), ("raise ValueError", 1)])
def test_what_was_written_to_open_files_is_there(tmp_path, end, code):
    outcome = run(
        f"""
        import logging, sys
        class Keep:
            pass
        def main():
            file = open("of_a_function", "w")
            file.write("data")
            Keep.file = open("of_a_class", "wb")
            Keep.file.write(b"data")
            logging.a_file = open("of_a_module", "w")
            logging.a_file.write("data")
            {end}
        main()
        """,
        "--nproc", "1",
    )  # fmt: skip
    assert outcome.code == code
    found = {file.name: file.read_text(encoding="utf-8") for file in tmp_path.iterdir()}
    assert found == {"of_a_function": "data", "of_a_class": "data", "of_a_module": "data"}


@pytest.mark.parametrize("end", ["pass", "1 / 0"])
def test_what_c_prints_comes_in_its_place(end):
    source = f"import ctypes\nprint(1)\nctypes.CDLL(None).puts(b'from C')\nprint(2)\n{end}"
    assert run(source, "--nproc", "1").out() == "1\nfrom C\n2\n"


def test_a_thread_that_still_runs_at_the_end_keeps_its_names():
    outcome = run(
        """
        import threading, time, atexit
        import torch
        import torch.distributed as dist
        dist.init_process_group()
        total = torch.ones(3)
        dist.all_reduce(total)
        def go():
            while True:
                time.sleep(0.0001)
                total.sum()
        threading.Thread(target=go, daemon=True).start()
        """
    )
    assert (outcome.code, outcome.err(0), outcome.err(1)) == (0, "", "")


def test_an_executor_that_nobody_shut_down_has_done_its_work_and_ends():
    source = """
    from concurrent.futures import ThreadPoolExecutor
    executor = ThreadPoolExecutor()
    executor.submit(print, "done")
    """
    outcome = run(source, "--nproc", "1")
    assert (outcome.code, outcome.out()) == (0, "done\n")


def test_temporary_files_go_where_the_environment_says(tmp_path):
    (tmp_path / "t").mkdir()
    outcome = run("import tempfile\nprint(tempfile.gettempdir())", "--nproc", "1", env={"TMPDIR": str(tmp_path / "t")})
    assert outcome.out() == f"{tmp_path / 't'}\n"


def test_a_collective_that_a_rank_comes_late_to_fails_after_the_timeout():
    outcome = run(
        """
        import time
        import torch
        import torch.distributed as dist
        dist.init_process_group()
        if dist.get_rank() == 1:
            time.sleep(100)
        dist.all_reduce(torch.ones(1))
        """,
        timeout_s=0.5,
    )
    assert outcome.code == 1
    assert "500ms" in outcome.err(0)


def test_a_rank_with_little_to_do_does_not_leave_while_others_connect():
    source = "import torch.distributed as dist\ndist.init_process_group()\nprint(dist.get_rank())"
    for _ in range(3):
        outcome = run(source, "--nproc", "4")
        assert [outcome.out(rank) for rank in range(4)] == ["0\n", "1\n", "2\n", "3\n"]
        assert outcome.code == 0, outcome.files


def test_an_exception_whose_text_cannot_be_had_is_told():
    outcome = run("class Odd(Exception):\n    def __str__(self):\n        return 1 / 0\nraise Odd", "--nproc", "1")
    assert outcome.code == 1
    error = json.loads(outcome.files["attempt-0/rank-0/error.json"])
    assert (error["type"], error["message"], error["lineno"]) == ("Odd", "(its text cannot be shown)", 4)
    assert "labsupport" not in outcome.err()


@pytest.mark.parametrize("text", ["'A' * 10_000_000", "'line\\n' * 2_000_000"])
def test_of_a_very_long_message_the_beginning_and_the_end_are_told(text):
    outcome = run(f"raise ValueError({text} + 'the end')", "--nproc", "1")
    error = json.loads(outcome.files["attempt-0/rank-0/error.json"])
    for told in (error["message"], error["traceback"], error["full"]):
        assert len(told) < 21_000
        assert "characters left out here" in told
        assert told.rstrip().endswith("the end")
    assert outcome.err() == error["full"]
    assert error["lineno"] == 1


def test_a_full_disk_is_named(monkeypatch):
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
    outcome = run("1 / 0", "--nproc", "1")
    assert outcome.code == 1
    with start("1 / 0", "--nproc", "1") as job:
        job.wait()
        (note,) = [event["text"] for event in job.poll().events if event["event"] == "note"]
    assert note.startswith("No space left on device: ")
    assert str(job.folder.parent.parent) in note
    assert not [e for e in run("pass", "--nproc", "1").events if e["event"] == "note"]
    monkeypatch.setattr(type(job), "_write", lambda _: Path("/dev/full").write_text("x", encoding="utf-8"))
    with pytest.raises(LabError, match="No space left on device"):
        start("pass", "--nproc", "1")
