"""The store: inserted once, never changed, whole after every kill."""

import json
import sqlite3
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from classroom import EXERCISES, row

from labsupport.errors import LabError
from labsupport.grading.store import Store


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "out" / "grades.sqlite") as store:
        yield store


def rows_of(learner, **more):
    return [row(learner, exercise, **more) for exercise in EXERCISES]


def test_rows_come_back_as_they_were(store):
    given = row(notes=("split cell", "é"), usage={"wall_s": 0.5}, misconception="x", case=None, learner="Zoë\ud800")
    store.add([given], {}, "d")
    assert store.rows("d") == [given]
    assert store.rows("other") == []


def test_a_digest_is_stored_once(store):
    store.add(rows_of("ada"), {"k": b"first"}, "d")
    store.add(rows_of("ada", why="later"), {"k": b"second"}, "d")
    assert [r.why for r in store.rows("d")] == [""] * len(EXERCISES)
    assert store.observations("k") == b"first"


def test_grading_again_adds_and_the_newest_is_told(store):
    store.add([row(outcome="grader fault")], {}, "d", again=store.again("d"))
    assert store.again("d") == 1
    store.add([row()], {}, "d", again=store.again("d"))
    assert [r.outcome for r in store.rows("d")] == ["passed"]
    assert sqlite3.connect(store.path).execute("SELECT COUNT(*) FROM verdict").fetchone() == (2,)


def test_observations_are_kept_apart_by_tier(store):
    store.add([row(observed="k", submission="s")], {"k": b"seen in a fence"}, "d", tier="B")
    assert store.known("s", "A") == {}
    assert store.known("s", "B") == {"k": b"seen in a fence"}
    store.add([row(observed="k", submission="s")], {"k": b"seen in a cage"}, "e", tier="A")
    assert (store.observations("k", "A"), store.observations("k", "B")) == (b"seen in a cage", b"seen in a fence")


def test_earlier_and_latest_leave_out_the_digest_asked_about(store):
    store.add([row(submission="s", why="old")], {}, "one")
    store.add([row(submission="s", why="newer")], {}, "two")
    store.add([row(submission="s", why="now")], {}, "three")
    store.add([row(submission="t", why="another file")], {}, "four")
    assert store.earlier("ada", "s", "three")[EXERCISES[0]].why == "newer"
    assert store.latest("ada", EXERCISES[0], "four").why == "now"
    assert store.latest("nobody", EXERCISES[0]) is None


def test_attempts_are_counted_until_there_is_a_verdict(store):
    for _ in range(3):
        store.add_attempt("d", "its worker ended")
    store.take_back("d")
    assert store.attempts("d") == 2
    store.add([row(outcome="grader fault")], {}, "d", decided=False)
    assert store.attempts("d") == 2
    store.add([row()], {}, "d", again=1)
    assert store.attempts("d") == 0
    store.take_back("never begun")


def test_the_first_clean_run_and_every_new_header_stay(store):
    store.add_clean_run("d", {"outcome": "ran"})
    store.add_clean_run("d", {"outcome": "stopped"})
    assert store.clean_run("d") == {"outcome": "ran"}
    for tier in "AAB":
        store.add_run({"tier": tier})
    assert store.runs() == [{"tier": "A"}, {"tier": "B"}]


def test_an_error_in_the_middle_leaves_nothing_of_a_submission(store):
    broken = [row(), replace(row(exercise=EXERCISES[1]), usage={"a": object()})]
    with pytest.raises(TypeError):
        store.add(broken, {"k": b"x"}, "d")
    assert (store.rows("d"), store.observations("k")) == ([], None)
    store.add([row()], {}, "d")
    assert len(store.rows("d")) == 1


def test_a_record_of_another_release_is_read(store):
    record = {name: value for name, value in asdict(row()).items() if name not in ("tier", "course")}
    record["a field to come"] = 1
    store._db.execute("INSERT INTO verdict VALUES ('ada', 'x', 'd', 0, 1, 's', ?)", (json.dumps(record),))
    assert store.rows("d") == [row(tier="")]


@pytest.mark.parametrize("content", [b"no database, but long enough to look at" * 20, "format"])
def test_a_file_that_is_not_ours_is_left_alone_and_named(tmp_path, content):
    path = tmp_path / "grades.sqlite"
    if content == "format":
        sqlite3.connect(path).execute("PRAGMA user_version=99")
    else:
        path.write_bytes(content)
    before = path.read_bytes()
    with pytest.raises(LabError, match=r"grades\.sqlite"):
        Store(path)
    assert path.read_bytes() == before


ADDS = """
import sys
sys.path.insert(0, {here!r})
from pathlib import Path
from classroom import EXERCISES, row
from labsupport.grading.store import Store
store = Store(Path({path!r}))
for i in range({count}):
    store.add([row("ada", e, submission=str(i), observed=str(i)) for e in EXERCISES], {{str(i): b"x" * 5000}}, str(i))
    print(i, flush=True)
"""


def adding(path, count):
    code = ADDS.format(here=str(Path(__file__).parent), path=str(path), count=count)
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("seen", [1, 2, 7])
def test_killed_at_any_moment_it_holds_whole_submissions_and_all_that_were_told(tmp_path, seen):
    path = tmp_path / "grades.sqlite"
    child = adding(path, 100_000)
    told = [int(child.stdout.readline()) for _ in range(seen)]
    child.kill()
    told += [int(line) for line in child.stdout.read().split()]
    child.wait()
    with Store(path) as store:
        for i in told:
            assert len(store.rows(str(i))) == len(EXERCISES)
        for i in range(told[-1] + 3):
            frame = store.observations(str(i))
            assert len(store.rows(str(i))) == (len(EXERCISES) if frame else 0)


def test_two_graders_of_one_folder_store_everything_once(tmp_path):
    path = tmp_path / "grades.sqlite"
    children = [adding(path, 20) for _ in range(2)]
    assert [len(child.communicate(timeout=120)[0].split()) for child in children] == [20, 20]
    with Store(path) as store:
        assert store._db.execute("SELECT COUNT(*) FROM verdict").fetchone() == (20 * len(EXERCISES),)
