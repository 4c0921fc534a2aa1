"""The zygote: one thread, clean environment, forks on request, reports every end, and takes everything with it."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from caged import needs_linux

pytestmark = needs_linux

ROOT = Path(__file__).resolve().parents[2]
WITHIN_S = 10  # a guard against hanging, never a measure

TARGETS = """
import ctypes, json, os, signal, sys, threading, time

def leave(code):
    return code

def crash():
    raise RuntimeError("as told")

def end_by(number):
    os.kill(os.getpid(), number)

def tell(fd):
    known = {
        "environ": dict(os.environ), "threads": len(os.listdir("/proc/self/task")),
        "fds": sorted(os.listdir("/proc/self/fd")), "pid": os.getpid(), "started": open("/proc/self/environ").read(),
        "frozen": __import__("gc").get_freeze_count(), "parent": os.getppid(),
    }
    os.write(fd, json.dumps(known).encode())

def wait(fd=None):
    signal.pause()

def leave_an_orphan(fd):
    # Twice forked and in a session of its own: the classic way to outlive a parent.
    if os.fork() == 0:
        os.setsid()
        pid = os.fork()
        if pid == 0:
            os.close(fd)
            signal.pause()
        os.write(fd, b"%d" % pid)
        os._exit(0)
    os.wait()

def start_a_thread():
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
"""


@pytest.fixture(scope="module")
def code(tmp_path_factory):
    folder = tmp_path_factory.mktemp("code")
    (folder / "targets.py").write_text(TARGETS, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def zygote(code):
    from labsupport.processes.zygote import Zygote

    os.environ["LAB_TEST_SECRET"] = "do not tell"
    try:
        with Zygote(("targets", "json"), path=[ROOT, code]) as started:
            yield started
    finally:
        del os.environ["LAB_TEST_SECRET"]


def until(condition):
    ends = time.monotonic() + WITHIN_S
    while not (found := condition()):
        assert time.monotonic() < ends, "it did not happen"
    return found


def is_gone(pid):
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z"
    return True


def told_by(zygote, target, **options):
    """Return (what a target wrote, its ending)."""
    out, into = os.pipe()
    handle = zygote.spawn(f"targets:{target}", fds=[into], options=options)
    os.close(into)
    with os.fdopen(out, "rb") as file:
        text = file.read()
    ending = handle.wait(WITHIN_S)
    handle.close()
    return text, ending


def test_ends_are_reported_with_their_code(zygote):
    for target, options, code in (
        ("leave", {"code": 0}, 0),
        ("leave", {"code": 7}, 7),
        ("crash", {}, 70),
        ("end_by", {"number": int(signal.SIGTERM)}, -signal.SIGTERM),
        ("end_by", {"number": int(signal.SIGKILL)}, -signal.SIGKILL),
    ):
        handle = zygote.spawn(f"targets:{target}", options=options)
        ending = handle.wait(WITHIN_S)
        assert ending.code == code
        assert ending.peak_bytes > 0
        handle.close()


def test_a_child_has_one_thread_a_clean_environment_and_only_its_descriptors(zygote):
    text, _ = told_by(zygote, "tell")
    known = json.loads(text)
    assert known["threads"] == zygote.ready["threads"] == 1
    assert "LAB_TEST_SECRET" not in known["environ"]
    assert "do not tell" not in known["started"]
    assert known["environ"]["OMP_NUM_THREADS"] == "1"
    assert known["environ"]["OPENBLAS_NUM_THREADS"] == "1"
    assert len(known["fds"]) == 3 + 1 + 1  # the standard ones, the one it was given, the one that lists
    assert known["frozen"] > 1000
    assert known["parent"] == zygote.pid


def test_children_live_side_by_side_and_closing_one_ends_only_it(zygote):
    handles = [zygote.spawn("targets:wait") for _ in range(5)]
    first = handles.pop(0)
    assert first.close().code == -signal.SIGKILL
    assert is_gone(first.pid)
    assert not any(is_gone(handle.pid) for handle in handles)
    assert [handle.close().code for handle in handles] == [-signal.SIGKILL] * 4


def test_an_orphan_is_ended_with_the_child_that_left_it(zygote):
    text, _ = told_by(zygote, "leave_an_orphan")
    until(lambda: is_gone(int(text)))


def test_a_refusal_and_a_wrong_target_leave_it_working(zygote):
    handle = zygote.spawn("targets:no_such_function")
    assert handle.wait(WITHIN_S).code == 70
    handle.close()
    handle = zygote.spawn("targets:leave", options={"code": 3})
    assert handle.wait(WITHIN_S).code == 3
    handle.close()


def test_a_second_thread_is_refused(code):
    from labsupport.processes.zygote import Zygote, ZygoteError

    with pytest.raises(ZygoteError) as refused:
        Zygote(("targets:start_a_thread",), path=[ROOT, code]).start()
    assert "2 threads" in refused.value.why


def test_a_module_that_cannot_be_imported_is_named(code):
    from labsupport.processes.zygote import Zygote, ZygoteError

    with pytest.raises(ZygoteError) as refused:
        Zygote(("no_such_module",), path=[ROOT, code]).start()
    assert "no_such_module" in refused.value.why


def test_words_may_be_put_before_the_interpreter(code):
    from labsupport.processes.zygote import Zygote

    with Zygote(("targets",), path=[ROOT, code], command_prefix=["/usr/bin/env", "LAB_PREFIXED=1"]) as zygote:
        text, _ = told_by(zygote, "tell")
    assert json.loads(text)["environ"]["LAB_PREFIXED"] == "1"


def test_closing_ends_every_child(code):
    from labsupport.processes.zygote import Zygote

    zygote = Zygote(("targets",), path=[ROOT, code]).start()
    handles = [zygote.spawn("targets:wait") for _ in range(3)]
    zygote.close()
    assert all(is_gone(handle.pid) for handle in handles)
    assert is_gone(zygote.pid)
    assert [handle.close().code for handle in handles] == [-signal.SIGKILL] * 3


JUDGE = """
import sys
from labsupport.processes.zygote import Zygote
zygote = Zygote(("targets",), path=sys.argv[1:]).start()
handles = [zygote.spawn("targets:wait") for _ in range(3)]
print(zygote.pid, *(handle.pid for handle in handles), flush=True)
sys.stdin.read()
"""


def test_it_dies_with_its_parent_and_so_does_everything(code):
    judge = subprocess.Popen(
        [sys.executable, "-c", JUDGE, str(ROOT), str(code)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    pids = [int(text) for text in judge.stdout.readline().split()]
    assert not any(is_gone(pid) for pid in pids)
    judge.send_signal(signal.SIGKILL)
    judge.wait()
    until(lambda: all(is_gone(pid) for pid in pids))
    judge.stdin.close()
    judge.stdout.close()


def test_the_end_of_the_thread_that_started_it_does_not_end_it(code):
    import threading

    from labsupport.processes.zygote import Zygote

    started = []
    thread = threading.Thread(target=lambda: started.append(Zygote(("targets",), path=[ROOT, code]).start()))
    thread.start()
    thread.join()
    with started[0] as zygote:
        handle = zygote.spawn("targets:leave", options={"code": 4})
        assert handle.wait(WITHIN_S).code == 4
        handle.close()


def test_whole_trees_are_ended():
    from labsupport.processes import reaping

    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import signal; signal.pause()'])"
    process = subprocess.Popen([sys.executable, "-c", code])
    try:
        (below,) = until(lambda: reaping.descendants_of(process.pid))
        assert process.pid in reaping.children_of(os.getpid())
        assert reaping._children_by_parent(process.pid) == [below]
    finally:
        for pid in [*reaping.descendants_of(process.pid), process.pid]:
            os.kill(pid, signal.SIGKILL)
        process.wait()
