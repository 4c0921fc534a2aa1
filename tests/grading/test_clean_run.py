"""The clean run: it says which cell stopped it, and nothing else gets out; whatever comes out is read without harm."""

import shutil
import socket
from dataclasses import replace

import pytest
from classroom import EXERCISES, submission

from labsupport import places
from labsupport.grading import clean_run

bubblewrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap")


STEALS = """
import os, socket
found = [path for path in ({paths}) if os.path.exists(path)]
assert not found and "PLANTED" not in os.environ, found
try:
    socket.create_connection(("127.0.0.1", {port}), timeout=2)
except OSError:
    pass
else:
    raise SystemError
try:
    open({course!r}, "a")
except OSError:
    pass
else:
    raise SystemError
class Leak_planted_secret(Exception): pass
raise Leak_planted_secret
"""


@bubblewrap
@pytest.mark.slow
def test_a_clean_run_sees_no_files_no_environment_and_no_network_of_the_host(tmp_path, monkeypatch):
    planted = tmp_path / "planted"
    planted.write_text("x", encoding="utf-8")
    monkeypatch.setenv("PLANTED", "x")
    with socket.create_server(("127.0.0.1", 0)) as server:
        course = str(places.ROOT / "labsupport" / "course.py")
        paths = ", ".join(map(repr, (str(planted), str(places.ROOT / "tests"), str(places.ROOT / ".git"))))
        source = STEALS.format(paths=paths, port=server.getsockname()[1], course=course)
        one = submission("ada")
        answers = one.answers | {EXERCISES[0]: replace_source(one.answers[EXERCISES[0]], source)}
        found = clean_run.clean_run(submission("ada", answers=answers))
    assert (found.outcome, found.exercise, found.error) == ("stopped", EXERCISES[0], "an exception of its own class")


def replace_source(taken, source):
    return replace(taken, source=source)


@bubblewrap
@pytest.mark.slow
def test_a_kernel_that_dies_stops_the_clean_run(tmp_path):
    one = submission("ada")
    answers = one.answers | {EXERCISES[0]: replace_source(one.answers[EXERCISES[0]], "import os\nos._exit(1)")}
    found = clean_run.clean_run(submission("ada", answers=answers))
    assert str(found) == "stopped before the end: DeadKernelError"


def test_without_bubblewrap_the_clean_run_is_not_made_and_says_so(monkeypatch):
    monkeypatch.setattr(clean_run.shutil, "which", lambda _: None)
    assert str(clean_run.clean_run(submission("ada"))) == "not run: bubblewrap is not installed here"


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"{",
        b"[]",
        b'{"cell": "1", "error": "x"}',
        b'{"cell": 10000, "error": "x"}',
        b'{"cell": true, "error": "x"}',
        b"[" * 4000,
    ],
)
def test_whatever_the_run_writes_is_read_without_harm(said):
    notebook = {"cells": [{"source": "x", "cell_type": "code"}]}
    found = clean_run._read(said, "", notebook)
    assert found == clean_run.CleanRun("stopped", error="the run ended without saying how")
