"""Nothing of a job outlives whoever is ended, by whatever signal; and nobody else's process is touched.

A kernel is played by a process with a helper and one job: two ranks, each with a loader worker, a process started by a
thread and a program in a session of its own. Everything is found by the token in its environment.
"""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from engine import WITHIN_S, is_gone, needs_fork, of_token, own_environment, until

from labsupport.torchrun import scratch

pytestmark = needs_fork

CELL = """
import subprocess, sys, threading, time
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

def start_another():
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"], start_new_session=True)

loader = iter(DataLoader(range(100), num_workers=1))
next(loader)
thread = threading.Thread(target=start_another)
thread.start()
thread.join()
dist.init_process_group()
print("here", flush=True)
if dist.get_rank() == 0:
    time.sleep(1000)
dist.all_reduce(torch.ones(1))
"""
KERNEL = """
import json, os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # started in the background, it would be ignored
from labsupport.torchrun import Request, helper, launch, scratch
mode, cell, nodes = sys.argv[1:]
job = launch(Request(source=cell, flags=("--nproc", "2", "--nnodes", nodes), mode=mode))
def said():
    files = list(job.folder.glob("attempt-0/rank-*/out"))
    return sum("here" in file.read_text() for file in files) == 2 * int(nodes)
while not said():
    assert not job.poll().ended, [f.read_text() for f in job.folder.rglob("err")]
    time.sleep(0.02)
now = job.poll()
pid, token = 0, ""
if mode == "warm":
    pid, token = helper.warm().zygote.pid, helper.warm().token
def parents(pids):
    return sorted({int(open(f"/proc/{one}/stat").read().rpartition(")")[2].split()[1]) for one in pids})
made_by = parents(rank.pid for rank in now.ranks)
agents = parents(made_by) if mode == "warm" else made_by
told = {"helper": pid, "token": token, "agents": agents, "made_by": made_by, "ranks": [rank.pid for rank in now.ranks],
        "folder": str(scratch.root())}
print(json.dumps(told), flush=True)
last = sys.stdin.readline()
if last.startswith("wait"):
    record = job.wait()
    job.close()
    print(json.dumps({"code": record.code}), flush=True)
    sys.stdin.readline()
"""
SIGNALS = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL]


class PlayedKernel:
    """A process with a running job; `told` has pids, the token and the folder."""

    def __init__(self, mode="warm", nodes=1):
        self.process = subprocess.Popen(
            [sys.executable, "-c", KERNEL, mode, CELL, str(nodes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=own_environment(),
        )
        line = self.process.stdout.readline()
        assert line, "the played kernel did not start its job"
        self.told = json.loads(line)
        self.token = self.told["token"] or _token_of(self.told["ranks"][0])
        self.everything = of_token(self.token)

    def say(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def answer(self):
        ready, *_ = select.select([self.process.stdout], [], [], WITHIN_S)
        assert ready, "no answer"
        return json.loads(self.process.stdout.readline())

    def end(self):
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            pipe.close()


def _token_of(pid):
    for entry in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
        if entry.startswith(b"LAB_TORCHRUN="):
            return entry.partition(b"=")[2].decode()
    raise AssertionError("a rank without a token")


@pytest.fixture
def bystander(tmp_path):
    """A process of somebody else, called as a worker might be, and one in a session of its own."""
    script = tmp_path / "worker.py"
    script.write_text("import time\ntime.sleep(1000)\n", encoding="utf-8")
    process = subprocess.Popen([sys.executable, str(script)])
    yield process
    assert process.poll() is None, "an unrelated process was ended"
    process.kill()
    process.wait()


@pytest.fixture
def played():
    made = []

    def play(*args, **more):
        made.append(PlayedKernel(*args, **more))
        return made[-1]

    yield play
    for one in made:
        one.end()
        until(lambda one=one: not of_token(one.token), "the end of everything")


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_the_kernels_end_is_the_end_of_all(played, bystander, number):
    kernel = played()
    assert len(kernel.everything) >= 1 + 1 + 2 * 3  # the helper, the agent; each rank and what it started
    kernel.process.send_signal(number)
    kernel.process.wait(WITHIN_S)
    until(lambda: not of_token(kernel.token), "the end of all processes")
    until(lambda: not Path(kernel.told["folder"]).exists(), "the end of the folder")


def test_a_kernel_that_ends_by_itself_leaves_nothing(played, bystander):
    kernel = played()
    kernel.say("go")
    assert kernel.process.wait(WITHIN_S) == 0
    until(lambda: not of_token(kernel.token), "the end of all processes")
    assert not Path(kernel.told["folder"]).exists()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV], ids=lambda number: number.name)
def test_the_helpers_end_is_the_end_of_the_job_and_the_kernel_lives(played, bystander, number):
    kernel = played()
    os.kill(kernel.told["helper"], number)
    kernel.say("wait")
    assert kernel.answer()["code"] == -9
    until(lambda: not of_token(kernel.token), "the end of all processes")
    assert kernel.process.poll() is None


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_the_agents_end_is_the_end_of_the_job(played, bystander, number):
    kernel = played()
    kernel.say("wait")
    os.kill(kernel.told["agents"][0], number)
    assert kernel.answer()["code"] != 0
    until(lambda: of_token(kernel.token) == [kernel.told["helper"]], "the end of the job")


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_a_ranks_end_is_the_end_of_the_job(played, bystander, number):
    kernel = played()
    kernel.say("wait")
    os.kill(kernel.told["ranks"][0], number)  # the one in Python: an interrupt does not reach who waits in C++
    assert kernel.answer()["code"] != 0
    until(lambda: of_token(kernel.token) == [kernel.told["helper"]], "the end of the job")


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGKILL], ids=lambda number: number.name)
def test_the_end_of_what_forks_the_ranks_is_the_end_of_the_job(played, bystander, number):
    kernel = played()
    kernel.say("wait")
    os.kill(kernel.told["made_by"][0], number)
    assert kernel.answer()["code"] != 0
    until(lambda: of_token(kernel.token) == [kernel.told["helper"]], "the end of the job")


def test_helper_and_agent_at_once(played, bystander):
    kernel = played()
    os.kill(kernel.told["helper"], signal.SIGSTOP)  # so that it cannot do its part
    os.kill(kernel.told["agents"][0], signal.SIGKILL)
    until(lambda: all(is_gone(pid) for pid in kernel.told["ranks"]), "the end of the ranks")
    os.kill(kernel.told["helper"], signal.SIGKILL)
    kernel.say("wait")
    assert kernel.answer()["code"] == -9
    until(lambda: not of_token(kernel.token), "the end of all processes")


def test_with_two_nodes_the_kernels_end_is_the_end_of_both(played, bystander):
    kernel = played(nodes=2)
    assert len(kernel.told["agents"]) == 2
    kernel.process.kill()
    kernel.process.wait()
    until(lambda: not of_token(kernel.token), "the end of all processes")


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["cold", "spawned"])
@pytest.mark.parametrize("victim", ["kernel", "agent", "rank"])
def test_where_nothing_is_forked_nothing_is_left_either(played, bystander, mode, victim):
    kernel = played(mode)
    if victim == "kernel":
        kernel.process.kill()
        kernel.process.wait()
    else:
        os.kill(kernel.told["agents" if victim == "agent" else "ranks"][0], signal.SIGKILL)
        kernel.say("wait")
        assert kernel.answer()["code"] != 0
        kernel.process.kill()
        kernel.process.wait()
    until(lambda: not of_token(kernel.token), "the end of all processes")
    if victim != "kernel":  # the job had ended, so nobody may be left who knows of the folder: the next job removes it
        scratch.sweep()
    until(lambda: not Path(kernel.told["folder"]).exists(), "the end of the folder")


def test_what_a_killed_kernel_and_helper_left_is_swept_later():
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    left = Path(tempfile.mkdtemp(prefix=f"labrun-{ended.stdout.strip()}-"))
    (left / "file").write_text("left", encoding="utf-8")
    ours = Path(tempfile.mkdtemp(prefix=f"labrun-{os.getpid()}-"))
    scratch.sweep()
    assert not left.exists()
    assert ours.exists()
    ours.rmdir()
