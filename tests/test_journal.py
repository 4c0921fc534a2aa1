"""The journal: appended, tolerant of torn lines, safe for two kernels."""

import json
import subprocess
import sys

import pytest

from labsupport.journal import Journal


def test_records_come_back_in_order(tmp_path):
    journal = Journal(tmp_path)
    assert journal.append("check", "strides/a", outcome="wrong", misconception="m")
    assert journal.append("check", "strides/a", outcome="passed")
    assert [r["outcome"] for r in journal.records()] == ["wrong", "passed"]
    assert journal.passed() == {"strides/a"}
    assert len(journal.about("strides/a")) == 2


def test_a_torn_last_line_costs_only_itself(tmp_path):
    journal = Journal(tmp_path)
    journal.append("check", "strides/a", outcome="passed")
    whole = journal.path.read_bytes()
    for cut in range(1, len(whole)):
        journal.path.write_bytes(whole + whole[:cut])
        journal.append("check", "strides/b", outcome="passed")
        assert {"strides/a", "strides/b"} <= journal.passed()
        assert journal.path.read_bytes().startswith(whole + whole[:cut])


def test_foreign_lines_are_skipped_and_kept(tmp_path):
    journal = Journal(tmp_path)
    journal.append("check", "strides/a", outcome="passed")
    with journal.path.open("ab") as file:
        file.write(b'\xff\xfe not json\n[1, 2]\n{"event": 3}\n<<<<<<< HEAD\n')
    journal.append("hint", "strides/a", number=1)
    assert [r["event"] for r in journal.records()] == ["check", "hint"]
    assert journal.unreadable() == 4
    assert b"<<<<<<< HEAD" in journal.path.read_bytes()


def test_a_workspace_that_cannot_be_written_to_does_not_stop_a_check(tmp_path):
    (tmp_path / ".lab").write_text("a file where the folder should be")
    journal = Journal(tmp_path)
    assert journal.append("check", "strides/a", outcome="passed") is False
    assert journal.passed() == {"strides/a"}  # it counts as long as this kernel lives
    assert Journal(tmp_path).records() == []


@pytest.mark.parametrize(
    "line",
    [
        '{"event":"check","outcome":"passed"}',
        '{"event":"check","exercise":[]}',
        "[" * 200_000,
        '{"event":"check","outcome":1}',
    ],
)
def test_odd_lines_stop_nothing(tmp_path, line):
    journal = Journal(tmp_path)
    journal.append("check", "strides/a", outcome="passed")
    with journal.path.open("ab") as file:
        file.write(line.encode() + b"\n")
    assert "strides/a" in journal.passed()


_WRITER = """
import pathlib, sys
from labsupport.journal import Journal
for i in range(200):
    Journal(pathlib.Path(sys.argv[1])).append("check", f"toy/{sys.argv[2]}-{i}", outcome="passed", text="x" * 500)
"""


def test_two_kernels_at_once_lose_nothing(tmp_path):
    writers = [subprocess.Popen([sys.executable, "-c", _WRITER, str(tmp_path), name]) for name in "ab"]
    assert [w.wait(timeout=60) for w in writers] == [0, 0]
    lines = Journal(tmp_path).path.read_text(encoding="utf-8").splitlines()
    assert len([json.loads(line) for line in lines if line]) == 400  # an empty line may stand between two records
    assert len(Journal(tmp_path).passed()) == 400
