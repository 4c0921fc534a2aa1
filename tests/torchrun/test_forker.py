"""Ranks are forked where no thread can hold a lock that they would inherit as taken, and end with the agent."""

import json
import subprocess
import sys

import pytest

from labsupport.places import ROOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="ranks are forked on Linux only")

# A process of its own: the one that runs the tests has threads already. In a child, `become` writes what it sees.
PROGRAM = """
import json, os, signal, sys, threading
sys.path.insert(0, sys.argv[1])
from labsupport.torchrun.forker import Forker

lock = threading.Lock()  # stands for one of the C library's: a forked copy stays as it was

def become(given):
    seen = {"free": lock.acquire(blocking=False), "parent": os.getppid(), "given": given,
            "variable": os.environ.get("LATE"), "fds": len(os.listdir("/proc/self/fd")) - 1}
    os.write(given["fd"], json.dumps(seen).encode())
    os._exit(7)

reads, writes = os.pipe()
forker = Forker(become)
lock.acquire()
os.environ["LATE"] = "set afterwards"
told = []
for _ in range(2):
    pid = forker.fork({"fd": writes})
    told.append(json.loads(os.read(reads, 4096)))
    while (ending := forker.ending(pid)) is None:
        pass
    told[-1] |= {"code": os.waitstatus_to_exitcode(ending[0]), "cpu_s": ending[1]}
forker._ours.send((0, "ending", pid))  # asked, and a signal came before the reply was read
again = forker.ending(pid) == ending
os.kill(forker.pid, signal.SIGKILL)
os.waitpid(forker.pid, 0)
try:
    forker.fork({"fd": writes})
except OSError as error:
    gone = str(error)
print(json.dumps({"told": told, "parent": forker.pid, "gone": gone, "again": again}))
"""


@pytest.fixture(scope="module")
def seen():
    command = [sys.executable, "-c", PROGRAM, str(ROOT)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout)


def test_a_lock_taken_in_the_agent_is_free_in_a_rank(seen):
    assert [told["free"] for told in seen["told"]] == [True, True]


def test_a_rank_has_the_agents_environment_of_now_and_is_told_of_when_it_ends(seen):
    assert [told["parent"] for told in seen["told"]] == [seen["parent"]] * 2
    assert [told["variable"] for told in seen["told"]] == ["set afterwards"] * 2
    assert [told["code"] for told in seen["told"]] == [7, 7]
    assert all(told["cpu_s"] >= 0 for told in seen["told"])


def test_a_rank_keeps_no_descriptor_of_the_way_it_was_made(seen):
    """The pipe of the test is all it has beside the standard three."""
    assert [told["fds"] for told in seen["told"]] == [5, 5]


def test_without_the_process_that_forks_there_is_a_sentence(seen):
    assert "the process that forks ranks is gone" in seen["gone"]


def test_a_reply_that_nobody_read_is_not_taken_for_the_next_and_an_end_is_told_again(seen):
    assert seen["again"]
