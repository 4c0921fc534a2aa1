"""The clean run: it says which cell stopped it, and nothing else gets out; whatever comes out is read without harm."""

import json
import shutil
import socket
import sys
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
    assert (found.outcome, found.exercise, found.error) == ("stopped", EXERCISES[0], "another error")


READS_EVERY_ENVIRONMENT = """
import os
read, found = [], []
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        with open(f"/proc/{{pid}}/environ", "rb") as file:
            environment = file.read()
    except OSError:
        continue
    read.append(pid)
    found += [pid] if {canary!r} in environment else []
if found:
    raise KeyError(found)
if "1" not in read:
    raise LookupError(read)
raise ZeroDivisionError
"""


@bubblewrap
@pytest.mark.slow
def test_no_process_in_the_sandbox_holds_the_graders_environment(monkeypatch):
    """Bubblewrap is the sandbox's process 1, and what it was started with can be read there."""
    monkeypatch.setenv("LAB_SECRET", "a canary of the tests, no secret")
    source = READS_EVERY_ENVIRONMENT.format(canary=b"canary of the tests")
    one = submission("ada")
    answers = one.answers | {EXERCISES[0]: replace_source(one.answers[EXERCISES[0]], source)}
    found = clean_run.clean_run(submission("ada", answers=answers))
    assert (found.outcome, found.exercise, found.error) == ("stopped", EXERCISES[0], "ZeroDivisionError")


SPEAKS_FOR_BUBBLEWRAP = """
import os, signal
for pid in sorted(filter(str.isdigit, os.listdir("/proc")), key=int):
    try:
        with open(f"/proc/{pid}/fd/2", "wb", buffering=0) as file:
            os.set_blocking(file.fileno(), False)
            for _ in range(100):
                file.write(b"bwrap: words of the answer" * 1000)
    except OSError:
        pass
os.kill(os.getppid(), signal.SIGKILL)
"""


@bubblewrap
@pytest.mark.slow
def test_an_answer_cannot_speak_for_bubblewrap():
    one = submission("ada")
    answers = one.answers | {EXERCISES[0]: replace_source(one.answers[EXERCISES[0]], SPEAKS_FOR_BUBBLEWRAP)}
    found = clean_run.clean_run(submission("ada", answers=answers))
    assert "words of the answer" not in str(found) and found.outcome == "stopped"


@pytest.mark.parametrize(
    ("complaint", "told"),
    [
        (b"bwrap: setting up uid map: Permission denied\n", "Permission denied"),
        (b"bwrap: words of the answer", "for a reason of its own"),
    ],
)
def test_only_known_reasons_are_told_of_bubblewrap(complaint, told):
    assert clean_run._reason(complaint) == told


def test_everything_is_started_with_a_small_environment(monkeypatch):
    """Also where there is no bubblewrap to try it with."""
    started = []
    monkeypatch.setenv("LAB_SECRET", "a canary of the tests, no secret")
    monkeypatch.setattr(clean_run.shutil, "which", lambda _: "/usr/bin/bwrap")
    real = clean_run.subprocess.Popen

    def popen(command, **options):
        started.append(options["env"])
        return real([sys.executable, "-I", "-S", "-c", ""], **options)

    monkeypatch.setattr(clean_run.subprocess, "Popen", popen)
    clean_run.clean_run(submission("ada"))
    assert [set(env) for env in started] == [{"PATH", "LANG", "LC_ALL"}]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ("NameError", "NameError"),
        ("CellTimeoutError", "CellTimeoutError"),
        ("BufferError", "another error"),
        ("UnicodeEncodeError", "another error"),
        ("Leak_planted_secret", "another error"),
    ],
)
def test_only_a_few_classes_of_exceptions_are_told(error, told):
    notebook = {"cells": [{"source": "x", "cell_type": "code"}]}
    found = clean_run._read(json.dumps({"cell": 0, "error": error}).encode(), "", notebook)
    assert found == clean_run.CleanRun("stopped", 1, "", told)


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
