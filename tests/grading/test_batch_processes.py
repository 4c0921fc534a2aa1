"""The same class on one process, on several, killed in the middle: the same verdicts, nothing lost, nothing double."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.request
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from classroom import EXERCISES, Deadly, submission

from labsupport.errors import LabError
from labsupport.grading import batch, workers
from labsupport.grading.engine import Secret
from labsupport.grading.store import Store

SECRET = Secret(b"a secret of the tests")


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "grades.sqlite") as store:
        yield store


def grade(submissions, store, desk=None):
    planned = batch.plan(submissions, store, SECRET, "A")
    with desk or workers.Here() as open_desk:
        batch.grade_all(planned, store, SECRET, open_desk, tier="A")
    return planned


linux = pytest.mark.skipif(sys.platform != "linux", reason="cages need Linux")
WRONG = EXERCISES[0]


def told(rows):
    """Return rows without what differs from run to run."""
    return [replace(r, usage={}) for r in rows]


def a_class(count=8):
    return [submission(f"learner-{n}", wrong=(WRONG,) if n % 3 == 0 else ()) for n in range(count)]


@pytest.fixture(scope="module")
def graded_here(tmp_path_factory):
    """The class graded by one process: what every other way has to come to."""
    with Store(tmp_path_factory.mktemp("here") / "grades.sqlite") as store:
        rows, _ = batch.collect(grade(a_class(), store), store)
    return told(rows)


@linux
def test_one_process_grades_right_and_wrong(graded_here):
    by_outcome = {(r.learner, r.exercise): r.outcome for r in graded_here}
    assert len(by_outcome) == 8 * len(EXERCISES)
    wrong = {key for key, outcome in by_outcome.items() if outcome != "passed"}
    assert wrong == {(f"learner-{n}", WRONG) for n in (0, 3, 6)}
    assert all(r.misconception for r in graded_here if r.outcome == "wrong")
    assert {r.tier for r in graded_here} == {"A"} and all(r.course for r in graded_here)


@linux
@pytest.mark.slow
def test_two_processes_shuffled_say_the_same_and_a_deadly_file_costs_only_itself(store, graded_here):
    pytest.importorskip("distributed")
    found = [*reversed(a_class()), submission("zzz", kind=Deadly)]
    planned = grade(found, store, desk=workers.Cluster(2))
    rows, _ = batch.collect(planned, store)
    assert told(rows)[: len(graded_here)] == graded_here
    deadly = rows[len(graded_here) :]
    assert {r.outcome for r in deadly} == {"grader fault"} and "3 times" in deadly[0].why
    assert store.attempts(planned[-1].digest) == 3
    assert not any(one.todo for one in batch.plan(found, store, SECRET, "A"))


@linux
@pytest.mark.slow
def test_workers_killed_in_the_middle_lose_nothing(store, graded_here):
    pytest.importorskip("distributed")
    killed = []

    class Cluster(workers.Cluster):
        def next(self):
            done = super().next()
            if len(killed) < 2:
                pids = [info["id"] for info in self._client.scheduler_info(n_workers=-1)["workers"].values()]
                found = self._client.run(os.getpid)
                killed.append(pid := next(iter(found.values())))
                os.kill(pid, signal.SIGKILL)
                assert pids
            return done

    rows, _ = batch.collect(grade(a_class(), store, desk=Cluster(2)), store)
    assert len(killed) == 2
    assert told(rows) == graded_here


COORDINATOR = """
import sys
sys.path.insert(0, {here!r})
from pathlib import Path
from test_batch_processes import SECRET, a_class, batch, workers
from labsupport.grading.store import Store
if __name__ == "__main__":
    with Store(Path({path!r})) as store, workers.{desk} as desk:
        planned = batch.plan(a_class(), store, SECRET, "A")
        print("begin", flush=True)
        batch.grade_all(planned, store, SECRET, desk, tier="A", progress=lambda done: print(done, flush=True))
"""


def descendants(pid):
    return psutil.Process(pid).children(recursive=True)


@linux
@pytest.mark.slow
@pytest.mark.parametrize("desk", ["Here()", "Cluster(2)"])
def test_a_killed_coordinator_leaves_no_process_and_the_next_run_goes_on(tmp_path, graded_here, desk):
    pytest.importorskip("distributed")
    path, script = tmp_path / "grades.sqlite", tmp_path / "coordinator.py"
    script.write_text(COORDINATOR.format(here=str(Path(__file__).parent), path=str(path), desk=desk), encoding="utf-8")
    process = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
    lines = [process.stdout.readline() for _ in range(4)]  # begin, and three submissions
    assert lines[-1] == "3\n"
    below = descendants(process.pid)
    assert below
    process.kill()
    process.wait()
    ends = time.monotonic() + 30
    while any(one.is_running() and one.status() != "zombie" for one in below) and time.monotonic() < ends:
        time.sleep(0.05)
    assert not [one for one in below if one.is_running() and one.status() != "zombie"]
    db = sqlite3.connect(path)
    before = db.execute("SELECT COUNT(*) FROM verdict").fetchone()[0]
    db.close()
    assert before >= 3 * len(EXERCISES) and before % len(EXERCISES) == 0
    again = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300, check=True)
    assert len(again.stdout.split()) - 1 == 8 - before // len(EXERCISES)
    with Store(path) as store:
        rows, _ = batch.collect(batch.plan(a_class(), store, SECRET, "A"), store)
        count = store._db.execute("SELECT COUNT(*) FROM verdict").fetchone()[0]
    assert (told(rows), count) == (graded_here, len(graded_here))


@linux
@pytest.mark.slow
def test_workers_of_a_scheduler_elsewhere_say_the_same(store, graded_here):
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(2, threads_per_worker=2, dashboard_address="127.0.0.1:0") as elsewhere:
        desk = workers.Cluster(address=elsewhere.scheduler_address)
        with desk:
            assert {found.tier for found in desk.tiers()} == {"A"}
            planned = batch.plan(a_class(), store, SECRET, "A")
            batch.grade_all(planned, store, SECRET, desk, tier="A")
    rows, _ = batch.collect(planned, store)
    assert told(rows) == graded_here


@linux
@pytest.mark.slow
def test_nothing_on_the_loopback_shows_a_class_or_takes_work_from_others():
    pytest.importorskip("distributed")
    answered = []
    with workers.Cluster(1):
        processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
        listening = [one for p in processes for one in p.net_connections("tcp") if one.status == "LISTEN"]
        assert listening and all(one.laddr.ip == "127.0.0.1" for one in listening)
        for one in listening:
            for page in ("status", "info/main/workers.html", "json/counts.json", "metrics"):
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{one.laddr.port}/{page}", timeout=10)
                    answered.append(page)
                except OSError:
                    pass
    assert answered == []


def test_without_dask_more_jobs_say_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(LabError, match="Dask") as told, workers.Cluster(2):
        pass
    assert "cluster" in told.value.next_step


def test_a_scheduler_that_is_not_there_is_named():
    pytest.importorskip("distributed")
    desk = workers.Cluster(address="not an address")
    with pytest.raises(LabError, match="no worker answers"), desk:
        pass
