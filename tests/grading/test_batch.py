"""A class at once: everybody gets rows, what is done stays done, no death of a process loses or doubles a thing."""

import io
from dataclasses import replace
from types import SimpleNamespace

import pytest
from classroom import EXERCISES, LESSON, Submission, row, submission

from labsupport import catalog
from labsupport.grading import batch, engine, workers
from labsupport.grading.engine import Graded, Secret, grading_key
from labsupport.grading.errors import GradingImpossible
from labsupport.grading.progress import progress
from labsupport.grading.store import Store

SECRET = Secret(b"a secret of the tests")
NONE = Secret()


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "grades.sqlite") as store:
        yield store


class Runner:
    """Runs nothing; `report` is what is asked of it."""

    report = SimpleNamespace(tier="A", layers={"a": "ok"}, reasons=())

    def __exit__(self, *_):
        pass


@pytest.fixture
def pretend(monkeypatch):
    """Replace running by pretending; returns the learners graded, in order. `pretend.grade` may be replaced."""
    graded = []

    def grade(submission, *, runner, secret, known):
        graded.append(submission.learner)
        made = replace(row(submission.learner, observed=f"{submission.sha256}-0"), submission=submission.sha256)
        rows = [replace(made, lesson=submission.lesson, exercise=e.id) for e in catalog.exercises(submission.lesson)]
        return Graded(tuple(rows), {rows[0].observed: b"frame"})

    graded_by = SimpleNamespace(learners=graded, grade=grade)
    monkeypatch.setattr(workers, "open_runner", lambda allow_fenced: Runner())
    monkeypatch.setattr(engine, "grade_submission", lambda *args, **more: graded_by.grade(*args, **more))
    return graded_by


def grade(submissions, store, secret=SECRET, tier="A", desk=None, **more):
    planned = batch.plan(submissions, store, secret, tier)
    with desk or workers.Here() as open_desk:
        batch.grade_all(planned, store, secret, open_desk, tier=tier, **more)
    return planned


# Which files, of which lesson


def test_lessons_are_told_guessed_or_asked_for():
    ada, bob = submission("ada"), submission("bob", lesson="strides")
    lost = Submission("cy", lesson="", unreadable="it ends early")
    assert batch.prepare([ada, bob]).submissions == (ada, bob)
    assert batch.prepare([ada, lost]).submissions[1].lesson == LESSON
    assert "counted as start_here" in batch.prepare([ada, lost]).notes[0]
    assert batch.prepare([ada, bob, lost]).submissions[2].lesson == ""
    asked = batch.prepare([ada, bob, lost], "strides")
    assert [(one.learner, one.lesson) for one in asked.submissions] == [("bob", "strides"), ("cy", "strides")]
    assert "left out" in asked.notes[0]


def test_a_notebook_without_exercises_is_left_out_only_beside_one_with_them():
    home = Submission("ada", lesson="", path="home.ipynb")
    assert [one.path for one in batch.prepare([submission("ada"), home]).submissions] == ["00_start_here.ipynb"]
    emptied = Submission("bob", lesson="", path="mine.ipynb")
    assert batch.prepare([submission("ada"), emptied]).submissions[1].lesson == LESSON


# Rows for everybody


def test_every_learner_has_a_row_for_every_exercise(store, pretend):
    lost = Submission("cy", lesson="", unreadable="empty", repair="save")
    found = [submission("ada"), submission("Bob", lesson="strides"), lost]
    rows, exercises = batch.collect(grade(found, store), store)
    assert list(exercises) == [LESSON, "strides", ""]
    both = len(catalog.exercises(LESSON)) + len(catalog.exercises("strides"))
    assert [sum(r.learner == name for r in rows) for name in ("ada", "Bob", "cy")] == [both, both, both + 1]
    missing = next(r for r in rows if r.learner == "Bob" and r.lesson == LESSON)
    assert (missing.outcome, missing.taken, missing.points_of > 0) == ("not yet", "no file", True)
    unknown = rows[-1]
    assert (unknown.outcome, unknown.why, unknown.next, unknown.exercise) == ("unreadable", "empty", "save", "")


def test_the_better_of_two_files_counts_and_the_other_is_told(store):
    first, second = submission("ada", sha256="1" * 64), submission("ada", sha256="2" * 64)
    planned = batch.plan([first, second, first], store, NONE, "A")
    store.add([row(exercise=e, outcome="wrong", points=0) for e in EXERCISES], {}, grading_key(second, NONE))
    store.add([row(exercise=e) for e in EXERCISES], {}, grading_key(first, NONE))
    rows, _ = batch.collect(planned, store)
    assert len(rows) == len(EXERCISES)
    assert {r.outcome for r in rows} == {"passed"}
    assert "1 x wrong" in rows[0].notes[-1]


def test_what_is_said_about_a_file_is_said_as_it_is_today(store, pretend):
    first, later = (submission("ada", notes=(note,)) for note in ("2 notebooks: b was taken.", "alone"))
    grade([first], store)
    rows, _ = batch.collect(grade([later], store), store)
    assert pretend.learners == ["ada"]
    assert "alone" in rows[0].notes and "2 notebooks: b was taken." not in rows[0].notes


def test_why_a_file_cannot_be_read_is_todays_reason(store):
    def told(**fields):
        one = submission("ada", sha256="e" * 64, **fields)
        rows, _ = batch.collect(grade([one], store), store)
        return {(r.outcome, r.why, r.next) for r in rows}

    for why in ("a link", "too large"):
        assert told(unreadable=why, repair="save", answers={}) == {("unreadable", why, "save")}


def test_what_could_not_be_read_then_and_can_be_today_is_graded(store, pretend):
    one = submission("ada")
    store.add([row(outcome="unreadable", points=0)], {}, grading_key(one, SECRET))
    assert batch.plan([one], store, SECRET, "A")[0].todo
    grade([one], store)
    assert not batch.plan([one], store, SECRET, "A")[0].todo


# Done is done


def test_what_is_done_is_not_graded_again(store, pretend):
    found = [submission("ada"), submission("bob")]
    grade(found[:1], store)
    grade(found, store)
    grade(found, store)
    assert pretend.learners == ["ada", "bob"]


@pytest.mark.parametrize("change", ["file", "secret", "course", "tier"])
def test_another_file_secret_course_or_a_stronger_cage_grades_again(store, pretend, monkeypatch, change):
    Runner.report = SimpleNamespace(tier="B", layers={}, reasons=())
    grade([submission("ada")], store, tier="B")
    Runner.report = SimpleNamespace(tier="A", layers={}, reasons=())
    again, secret, tier = submission("ada"), SECRET, "B"
    if change == "file":
        again = replace(again, sha256="0" * 64)
    if change == "secret":
        secret = Secret(b"another secret of the tests")
    if change == "course":
        monkeypatch.setattr(engine, "course_version", lambda: "another")
    if change == "tier":
        tier = "A"
    grade([again], store, secret, tier)
    assert pretend.learners == ["ada", "ada"]
    rows = store.rows(grading_key(again, secret))
    assert len(rows) == len(EXERCISES)
    grade([again], store, secret, "B")
    assert len(pretend.learners) == 2, "a weaker cage is no reason"


def test_what_is_known_of_a_file_travels_along(store, pretend, monkeypatch):
    grade([submission("ada")], store)
    monkeypatch.setattr(engine, "course_version", lambda: "a corrected course")
    found = {}
    usual = pretend.grade

    def grade_again(one, *, runner, secret, known):
        found["frame"], found["nothing"] = known(f"{one.sha256}-0"), known("other")
        return usual(one, runner=runner, secret=secret, known=known)

    pretend.grade = grade_again
    grade([submission("ada")], store)
    assert found == {"frame": b"frame", "nothing": None}


@pytest.mark.parametrize("outcome", ["grader fault", "cannot run here"])
def test_what_was_not_decided_is_tried_again_next_time(store, pretend, outcome):
    usual = pretend.grade
    pretend.grade = lambda one, **more: Graded((row(one.learner, outcome=outcome),))
    planned = grade([submission("ada")], store)
    pretend.grade = usual
    grade([submission("ada")], store)
    rows, _ = batch.collect(planned, store)
    assert {r.outcome for r in rows} == {"passed"}
    grade([submission("ada")], store)
    assert pretend.learners == ["ada"]


# Faults of the grader


def test_a_fault_of_the_grader_is_a_row_and_no_zero_and_the_class_goes_on(store, pretend):
    usual = pretend.grade

    def fails_for_bob(one, **more):
        if one.learner == "bob":
            raise ZeroDivisionError("in the judge")
        return usual(one, **more)

    pretend.grade = fails_for_bob
    rows, _ = batch.collect(grade([submission("bob"), submission("ada")], store), store)
    outcomes = {(r.learner, r.outcome) for r in rows}
    assert outcomes == {("ada", "passed"), ("bob", "grader fault")}
    assert "ZeroDivisionError: in the judge" in next(r.why for r in rows if r.learner == "bob")


def test_where_grading_is_impossible_nothing_is_stored_or_held_against_anybody(store, pretend):
    def impossible(one, **more):
        raise GradingImpossible("a layer does not hold")

    pretend.grade = impossible
    planned = batch.plan([submission("ada")], store, SECRET, "A")
    with pytest.raises(GradingImpossible), workers.Here() as desk:
        batch.grade_all(planned, store, SECRET, desk)
    assert store.rows(planned[0].digest) == []
    assert store.attempts(planned[0].digest) == 0


def test_a_worker_with_another_course_refuses(pretend):
    job = workers.Job(submission=submission("ada"), digest="d", secret=NONE, course="another")
    with pytest.raises(GradingImpossible, match="version"):
        workers._grade(job, Runner())


def test_ctrl_c_is_not_held_against_the_submission(store, pretend):
    def interrupted(one, **more):
        raise KeyboardInterrupt

    pretend.grade = interrupted
    for _ in range(4):
        with pytest.raises(KeyboardInterrupt):
            grade([submission("ada")], store)
    assert store.attempts(grading_key(submission("ada"), SECRET)) == 0


def test_a_file_that_ended_the_grader_three_times_does_not_get_a_fourth_chance(store, pretend):
    deadly, fine = submission("bob"), submission("ada")
    for _ in range(3):  # what three killed graders leave behind
        store.add_attempt(grading_key(deadly, SECRET), "began")
    rows, _ = batch.collect(grade([deadly, fine], store), store)
    assert pretend.learners == ["ada"]
    assert {(r.learner, r.outcome) for r in rows} == {("ada", "passed"), ("bob", "grader fault")}
    grade([deadly, fine], store)
    assert pretend.learners == ["ada"]


# How much at once


def test_no_more_are_sent_than_there_is_room_for(store, pretend):
    most = []

    class Desk(workers.Here):
        room = workers.IN_FLIGHT

        def __enter__(self):
            self.sent = []
            return self

        flying = property(lambda self: len(self.sent))

        def submit(self, job):
            self.sent.append(job)
            most.append(len(self.sent))

        def next(self):
            job = self.sent.pop(0)
            return job, workers._grade(job, Runner())

    grade([submission(f"learner-{n}", answers={}) for n in range(500)], store, desk=Desk())
    assert max(most) == 200
    assert len(pretend.learners) == 500


# Progress


def test_progress_in_lines_says_how_much_time_is_left():
    seconds = iter(range(100))
    out = io.StringIO()
    with progress(20, out, clock=lambda: next(seconds)) as told:
        for done in range(1, 21):
            told(done)
    lines = out.getvalue().splitlines()
    assert len(lines) == 10
    assert (lines[0], lines[-1]) == ("graded 2 of 20, about 18 s left", "graded 20 of 20")


def test_progress_on_a_terminal_is_a_bar():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    out = Terminal()
    with progress(4, out) as told:
        told(4)
    assert "4/4" in out.getvalue()
    with progress(0, out) as told:
        pass
