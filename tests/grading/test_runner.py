"""The runner from outside: how ends and limits are told, what a job of two ranks may do, and that nothing is left."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from caged import call, load, needs_linux, opened

from labsupport.grading.allowance import JOB, Allowance
from labsupport.grading.errors import Died, GradingImpossible, OverLimit
from labsupport.grading.wire import WireError

pytestmark = needs_linux

ROOT = Path(__file__).resolve().parents[2]
MB = 1 << 20
GONE_WITHIN_S = 10  # a guard against hanging; how fast it is, the benchmark says


def forks_of(runner):
    """Return the pids of every process below the runner's zygote that a test of this file can have left."""
    from labsupport.grading.programs import COURSE, Children
    from labsupport.processes.reaping import descendants_of

    Children(runner).close(COURSE)  # it outlives submissions, and an earlier test may have graded some
    return descendants_of(runner._zygote.pid)


def nothing_left(runner):
    ends = time.monotonic() + GONE_WITHIN_S
    while forks_of(runner) and time.monotonic() < ends:
        pass
    return not forks_of(runner)


def alive(pid):
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    return False


# -- ends ---------------------------------------------------------------------------------------------------------

ENDS = {
    "os._exit(0)": "exit code 0",
    "os._exit(7)": "exit code 7",
    "os.kill(os.getpid(), signal.SIGKILL)": "signal SIGKILL",
    "os.kill(os.getpid(), signal.SIGTERM)": "signal SIGTERM",
    "os.abort()": "signal SIGABRT",
    "ctypes.string_at(0)": "signal SIGSEGV",
}


@pytest.mark.parametrize("how", ENDS)
def test_an_end_is_told_in_words(runner, how):
    with runner.child() as child:
        load(child, f"import ctypes, os, signal\ndef f():\n    {how}\n")
        with pytest.raises(Died) as died:
            call(child)
    assert died.value.how == ENDS[how]
    assert nothing_left(runner)


def test_an_end_while_loading_is_an_end(runner):
    with runner.child() as child, pytest.raises(Died):
        load(child, "import os\nos._exit(0)\n")


ENDLESS = {
    "a loop": "while True:\n        pass",
    "a loop that ignores signals": "[signal.signal(n, signal.SIG_IGN) for n in range(1, 32) if n not in (9, 19)]\n"
    "    while True:\n        pass",
    "a loop that catches everything": "while True:\n        try:\n            while True:\n                pass\n"
    "        except BaseException:\n            pass",
    "inside C": "signal.signal(signal.SIGALRM, signal.SIG_IGN)\n    ctypes.CDLL(None).pause()",
    "a sleep": "time.sleep(1000)",
    "a lock": "threading.Lock().acquire() and threading.Semaphore(0).acquire()",
}


@pytest.mark.parametrize("how", ENDLESS)
def test_whatever_does_not_end_is_ended(runner, how):
    with runner.child() as child:
        load(child, f"import ctypes, signal, threading, time\ndef f():\n    {ENDLESS[how]}\n")
        started = time.monotonic()
        try:
            assert "still running after 0.5 s" in call(child, call_s=0.5)["over"]
        except OverLimit as over:
            assert (over.which, over.limit) == ("time", 0.5)
        waited = time.monotonic() - started
    assert waited < 0.5 + 5  # limit + 1 s on a machine that is not loaded: the benchmark prints it
    assert nothing_left(runner)


def test_a_submission_has_a_limit_of_its_own(caged):
    with caged.child(Allowance(submission_s=0.7, call_s=60)) as child:
        load(child, "import time\ndef f():\n    time.sleep(100)\n")
        with pytest.raises(OverLimit) as over:
            call(child, call_s=60.0)
    assert (over.value.which, over.value.limit) == ("time", 0.7)


def test_cpu_is_limited_for_all_threads_together(runner):
    source = """
import hashlib, signal, threading
def spin():
    while True:
        hashlib.sha256(bytes(1 << 20)).digest()  # without the interpreter's lock
def f():
    signal.signal(signal.SIGXCPU, signal.SIG_IGN)
    for _ in range(3):
        threading.Thread(target=spin, daemon=True).start()
    spin()
"""
    with runner.child(Allowance(cpu_s=1)) as child:
        load(child, source)
        with pytest.raises(OverLimit) as over:
            call(child, call_s=60.0)
    assert (over.value.which, over.value.limit) == ("cpu", 1)
    assert child.usage["cpu_s"] >= 1


def test_the_cpu_clock_of_a_child_is_read_from_outside(runner):
    source = """
import threading, time
def spin():
    while time.thread_time() < 0.1:
        pass
def f():
    for _ in range(3):
        thread = threading.Thread(target=spin)
        thread.start()
        thread.join()
    return time.process_time()
"""
    with runner.child() as child:
        load(child, source)
        before = child.cpu_s()
        inside = call(child)["value"]
        after = child.cpu_s()
        assert 0.3 <= after - before <= after
        assert after >= inside
    assert child.cpu_s() is None
    assert child.usage["cpu_s"] >= 0.3


def test_usage_is_told_after_closing(runner):
    with runner.child() as child:
        load(child, f"def f():\n    return len(bytearray({100 * MB}))\n")
        call(child)
        assert child.usage is None
    assert set(child.usage) == {"wall_s", "cpu_s", "peak_bytes"}
    assert 100 * MB < child.usage["peak_bytes"] < 400 * MB
    assert 0 < child.usage["cpu_s"]


WRITES = """
import os
def f():
    for fd in range(3, 20):
        if os.path.exists(f"/proc/self/fd/{fd}"):
            os.write(fd, bytes(100))
"""


def test_a_wire_error_ends_the_child(runner):
    with runner.child() as child:
        load(child, WRITES)
        with pytest.raises((WireError, Died)):
            call(child)
        assert child.usage is not None
    assert nothing_left(runner)


def test_children_work_side_by_side(runner):
    """One after the other asked, all alive; then asked from several threads at once."""
    children = [runner.child() for _ in range(6)]
    try:
        for number, child in enumerate(children):
            load(child, f"def f(x):\n    return x * {number}\n")
        results = {}
        threads = [
            threading.Thread(target=lambda n=n, c=c: results.update({n: [call(c, k)["value"] for k in range(20)]}))
            for n, c in enumerate(children)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == {n: [k * n for k in range(20)] for n in range(6)}
        children[0].close()
        assert call(children[1], 3)["value"] == 3
    finally:
        for child in children:
            child.close()
    assert nothing_left(runner)


def test_what_children_get_is_the_same_for_each(runner):
    """Hash seeds and the like: a second grading sees what the first one saw."""
    source = "import random\ndef f():\n    return [hash('x'), list({'a', 'b', 'c', 'd'}), np.random.rand(3)]\n"
    seen = []
    for _ in range(2):
        with runner.child() as child:
            load(child, source)
            seen.append(str(call(child)["value"]))
    assert seen[0] == seen[1]


# -- nothing is left ----------------------------------------------------------------------------------------------

BOMBS = {
    "forks": """
    while True:
        os.fork()
""",
    "daemons": """
    for _ in range(50):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                signal.pause()
            os._exit(0)
""",
    "programs": """
    for _ in range(20):
        held.append(subprocess.Popen(["/bin/sleep", "1000"], start_new_session=True))
""",
    "threads": """
    for _ in range(100_000):
        threading.Thread(target=signal.pause, daemon=True).start()
""",
    "ignoring": """
    for number in (1, 2, 3, 15):
        signal.signal(number, signal.SIG_IGN)
    os.fork()
    while True:
        pass
""",
}


@pytest.mark.parametrize("how", BOMBS)
def test_bombs_and_daemons_leave_nothing(caged, how):
    if not caged.counts_together:
        pytest.skip("no control groups for this user here, so no jobs")
    with caged.child(JOB) as child:
        load(child, f"import os, signal, subprocess, threading\nheld = []\ndef f():{BOMBS[how]}")
        with contextlib.suppress(OverLimit, Died, WireError):
            call(child, call_s=1.0)
        assert child.usage or len(forks_of(caged)) <= 202
    # Closing has waited for the end of all: not one of them may be found now.
    assert forks_of(caged) == []


def test_memory_of_several_processes_counts_together(caged):
    if not caged.counts_together:
        pytest.skip("no control groups for this user here, so no jobs")
    source = f"""
import os, signal
def f():
    for _ in range(6):
        if os.fork() == 0:
            held = bytearray({150 * MB})
            signal.pause()
    return os.wait()[1]
"""
    with caged.child(replace(JOB, memory_bytes=500 * MB)) as child:
        load(child, source)
        assert call(child, call_s=60.0)["value"] == signal.SIGKILL
        assert child.memory_killed() >= 1
    assert child.ended.over == "memory"
    assert child.usage["peak_bytes"] <= (500 + 64) * MB


JUDGE = """
import sys
from labsupport.grading.runner import Runner
with Runner(sys.argv[1], allow_fenced=True) as runner:
    child = runner.child()
    child.ask({"op": "load", "setup": "", "helpers": [], "source": "x = 1", "names": ["x"]})
    from labsupport.processes.reaping import descendants_of
    print(runner._zygote.pid, *descendants_of(runner._zygote.pid), flush=True)
    print(runner._runtime.folder, flush=True)
    sys.stdin.read()
"""


def test_when_the_judge_is_killed_nothing_is_left(runner):
    judge = subprocess.Popen(
        [sys.executable, "-c", JUDGE, runner.report.tier],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    pids = [int(text) for text in judge.stdout.readline().split()]
    folder = Path(judge.stdout.readline().strip())
    assert len(pids) == 3  # zygote, nanny, child
    assert all(map(alive, pids))
    judge.send_signal(signal.SIGKILL)
    judge.wait()
    judge.stdin.close()
    judge.stdout.close()
    ends = time.monotonic() + GONE_WITHIN_S
    while any(map(alive, pids)) and time.monotonic() < ends:
        pass
    assert not any(map(alive, pids))
    assert folder.exists()  # nobody was left to remove it; the next run does
    with opened(runner.report.tier):
        assert not folder.exists()


def test_leaving_a_runner_removes_everything(tmp_path, monkeypatch):
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with opened("A") as runner:
        child = runner.child()
        assert list(tmp_path.iterdir())
    assert list(tmp_path.iterdir()) == []
    assert child.close() is not None


def test_a_group_is_removed_with_its_child(caged):
    if not caged.counts_together:
        pytest.skip("no control groups for this user here")
    with caged.child() as child:
        folder = child._tree.group.folder
        assert folder.exists()
    assert not folder.exists()


def test_when_the_zygote_is_gone_it_is_said(monkeypatch):
    with opened("A") as runner:
        child = runner.child()
        load(child, "def f():\n    return 1\n")
        os.kill(runner._zygote.pid, signal.SIGKILL)
        with pytest.raises(Died):
            while call(child)["value"]:  # its nanny is told by the kernel, in a moment
                pass
        with pytest.raises(GradingImpossible):
            runner.child()


def test_where_nothing_can_be_handed_over_a_child_connects_and_shows_a_token(monkeypatch):
    """As on Windows."""
    from labsupport.grading.trees import OpenTree

    monkeypatch.setattr(OpenTree, "_start_with_pair", OpenTree._start_with_port)
    with opened("C") as runner, runner.child() as child:
        assert child._tree.sock.family == socket.AF_INET
        load(child, "def f(x):\n    return x + 1\n")
        assert call(child, 2)["value"] == 3
    assert child.usage["wall_s"] > 0


# -- a job of two ranks -------------------------------------------------------------------------------------------

TWO_RANKS = '''
import subprocess, sys
RANK = """
import socket, sys
import numpy as np
rank, port = int(sys.argv[1]), int(sys.argv[2])
mine = np.full(3, rank + 1.0)
if rank == 0:
    with socket.create_server(("127.0.0.1", port)) as server:
        print("listening", flush=True)
        peer, _ = server.accept()
        with peer:
            total = mine + np.frombuffer(peer.recv(24, socket.MSG_WAITALL))
            peer.sendall(total.tobytes())
else:
    with socket.create_connection(("localhost", port)) as peer:
        peer.sendall(mine.tobytes())
        total = np.frombuffer(peer.recv(24, socket.MSG_WAITALL))
print(*total, flush=True)
"""
def start(rank):
    return subprocess.Popen([sys.executable, "-c", RANK, str(rank), "29500"], stdout=subprocess.PIPE, text=True)
def f():
    zero = start(0)
    zero.stdout.readline()
    one = start(1)
    return [p.communicate()[0].split() for p in (zero, one)], [p.wait() for p in (zero, one)]
'''


def test_two_ranks_talk_over_a_loopback_of_their_own(caged):
    if not caged.counts_together:
        pytest.skip("no control groups for this user here, so no jobs")
    with caged.child(JOB) as child:
        load(child, TWO_RANKS)
        reply = call(child, call_s=30.0)
        assert reply["value"] == ([["3.0"] * 3] * 2, [0, 0]), reply["raised"]
        # The same port again, in a second cage, while the first one lives: each has a network of its own.
        with caged.child(JOB) as other:
            load(other, TWO_RANKS)
            assert call(other, call_s=30.0)["value"][1] == [0, 0]
    assert forks_of(caged) == []


def test_a_job_reaches_neither_the_host_nor_the_references(caged):
    if not caged.counts_together:
        pytest.skip("no control groups for this user here, so no jobs")
    source = """
import os, socket, subprocess, sys
def f(port):
    told = []
    try:
        socket.create_connection(("127.0.0.1", port), 1)
        told.append("connected")
    except OSError:
        pass
    program = "import labsupport.exercises"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    told += [done.returncode, "No module named 'labsupport.exercises'" in done.stderr]
    told += [subprocess.run(["/bin/ls", "/root", "/home"], capture_output=True, text=True).stdout.count(".ssh")]
    try:
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    except OSError as error:
        told.append(error.strerror)
    return told
"""
    with socket.create_server(("127.0.0.1", 0)) as server, caged.child(JOB) as child:
        load(child, source)
        assert call(child, server.getsockname()[1], call_s=30.0)["value"] == [1, True, 0, "Operation not permitted"]


GLOO = """
import os
import torch
import torch.distributed as dist
def rank(number):
    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:29500", rank=number, world_size=2)
    x = torch.ones(3) * (number + 1)
    dist.all_reduce(x)
    dist.destroy_process_group()
    return x.tolist()
def f():
    pid = os.fork()
    if pid == 0:
        try:
            rank(1)
        finally:
            os._exit(0)
    return rank(0), os.waitpid(pid, 0)[1], torch.get_num_threads()
"""


@pytest.mark.slow
def test_two_ranks_reduce_with_gloo():
    with opened("A", preload=("torch", "torch.distributed")) as runner:
        if not runner.counts_together:
            pytest.skip("no control groups for this user here, so no jobs")
        with runner.child(JOB) as child:
            load(child, GLOO)
            reply = call(child, call_s=60.0)
            assert reply["value"] == ([3.0, 3.0, 3.0], 0, 1), reply["raised"]
