"""Regrading: a corrected exercise judges everybody again from kept observations, runs nothing, says what changed."""

import sys
from dataclasses import replace

import pytest
from classroom import EXERCISES, LESSON, row, submission

from labsupport import catalog
from labsupport.course import Case
from labsupport.grading import batch, engine, workers
from labsupport.grading.engine import Secret
from labsupport.grading.regrade import changes, regrade
from labsupport.grading.store import Store

SECRET = Secret(b"a secret of the tests")
NAME = EXERCISES[1]
CLASS = [submission("ada"), submission("bob", wrong=(NAME,))]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="answers are run in a cage first, which needs Linux")


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """Return the path of a store in which the class is graded."""
    path = tmp_path_factory.mktemp("graded") / "grades.sqlite"
    with Store(path) as store, workers.Here() as desk:
        batch.grade_all(batch.plan(CLASS, store, SECRET, "A"), store, SECRET, desk, tier="A")
    return path


@pytest.fixture
def store(graded, tmp_path):
    (tmp_path / "grades.sqlite").write_bytes(graded.read_bytes())
    with Store(tmp_path / "grades.sqlite") as store:
        yield store


@pytest.fixture
def correct(monkeypatch):
    """Return `correct(**fields)`: the exercise NAME with other fields, in a new version that runs nothing."""

    def refuse(*_):
        raise AssertionError("a regrade must not run an answer")

    def apply(**fields):
        new = tuple(replace(e, **fields) if e.id == NAME else e for e in catalog.exercises(LESSON))
        usual = catalog.exercises
        monkeypatch.setattr(catalog, "exercises", lambda slug=None: new if slug == LESSON else usual(slug))
        monkeypatch.setattr(engine, "course_version", lambda: "corrected")
        monkeypatch.setattr(workers, "open_runner", refuse)

    return apply


def again(store):
    return regrade(batch.plan(CLASS, store, SECRET, "A"), store, SECRET)


def exercise():
    return next(e for e in catalog.exercises(LESSON) if e.id == NAME)


def test_nothing_changes_where_nothing_changed(store, correct):
    correct()
    done = again(store)
    assert (done.changes, done.rerun) == ((), ())
    assert {r.course for rows in done.rows.values() for r in rows} == {"corrected"}


def test_a_renamed_misconception_is_told_for_those_who_have_it(store, correct):
    first, *others = exercise().misconceptions
    correct(misconceptions=(replace(first, id="said-better", says="Said better now, in a few more words."), *others))
    done = again(store)
    assert [(c.new.learner, c.new.exercise) for c in done.changes] == [("bob", NAME)]
    assert (
        str(done.changes[0])
        == f"bob  {NAME}  wrong ({first.id}) -> wrong (said-better)  (the course judges the same behaviour differently)"
    )
    kept = {r.exercise: r for r in done.rows[batch.plan(CLASS, store, SECRET, "A")[1].digest]}
    assert (kept[NAME].misconception, kept[NAME].tier) == ("said-better", "A")
    assert len(kept) == len(EXERCISES)


def test_a_wrong_reference_put_right_turns_the_class_around(store, correct):
    wrong = exercise().misconceptions[0].specimen
    correct(reference=wrong, misconceptions=())
    told = {(c.new.learner, c.old.outcome, c.new.outcome) for c in again(store).changes}
    assert told == {("ada", "passed", "wrong"), ("bob", "wrong", "passed")}


def test_regraded_rows_are_stored_and_a_second_time_nothing_changes(store, correct):
    correct(points=7)
    assert {c.new.points_of for c in again(store).changes} == {7}
    assert again(store).changes == ()
    planned = batch.plan(CLASS, store, SECRET, "A")
    assert not any(one.todo for one in planned)
    rows, _ = batch.collect(planned, store)
    assert {r.course for r in rows} == {"corrected"}


def test_a_new_case_has_to_be_run_and_says_so(store, correct):
    *cases, last = exercise().cases
    correct(cases=(*cases, last, Case("one more", last.make)))
    done = again(store)
    assert done.rerun == (("ada", NAME), ("bob", NAME))
    planned = batch.plan(CLASS, store, SECRET, "A")
    assert all(one.todo for one in planned), "the next run grades them"
    rows, _ = batch.collect(planned, store, done.rows)
    assert len(rows) == 2 * len(EXERCISES)
    assert [r.outcome for r in rows if r.exercise == NAME] == ["passed", "wrong"]
    assert all("runs the answer again" in r.notes[-1] for r in rows if r.exercise == NAME)
    assert {r.course for r in rows if r.exercise != NAME} == {"corrected"}


def test_other_inputs_are_another_question(store, correct):
    correct()
    other = Secret(b"another secret of the tests")
    done = regrade(batch.plan(CLASS, store, other, "A"), store, other)
    assert len(done.rerun) >= 2 and done.changes == ()


def test_what_did_not_run_stays_as_it_was(store, correct):
    lost = submission("cy", sha256="c" * 64, unreadable="it ends early")
    planned = batch.plan([lost], store, SECRET, "A")
    told = [row("cy", e, "unreadable", why="it ends early", submission="c" * 64, tier="") for e in EXERCISES]
    store.add(told, {}, planned[0].digest)
    correct()
    done = regrade(batch.plan([lost], store, SECRET, "A"), store, SECRET)
    assert (done.changes, done.rerun) == ((), ())
    assert {r.outcome for rows in done.rows.values() for r in rows} == {"unreadable"}


@pytest.mark.parametrize(
    ("new", "why"),
    [
        ({"outcome": "wrong", "answer": "other"}, "another answer"),
        ({"outcome": "wrong", "observed": "other"}, "asks something else"),
        ({"outcome": "wrong"}, "judges the same behaviour"),
        ({"points": 2.0}, "points changed"),
        ({"why": "said better"}, "other words"),
    ],
)
def test_a_change_says_where_it_comes_from(new, why):
    found = changes([row()], [replace(row(), **new)])
    assert why in str(found[0])
    assert changes([row()], [replace(row(), usage={"wall_s": 9}, course="x")]) == []
