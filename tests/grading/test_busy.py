"""The grader on a machine that has no time: what is not decided by the answer costs its learner nothing."""

import math
import socket

import pytest

from labsupport import answering, catalog
from labsupport.course import Limits, Outcome
from labsupport.grading import engine, on_ranks, programs
from labsupport.grading.allowance import Allowance
from labsupport.grading.children import Child
from labsupport.grading.errors import Died, OverLimit
from labsupport.grading.finding import Taken
from labsupport.grading.programs import Children, Program
from labsupport.grading.trees import Ended
from labsupport.grading.wire import Channel
from labsupport.probing.fair import TooBusy
from labsupport.probing.ranks_start import NotMade

ASKED = {"op": "load", "names": []}
SHAPE = catalog.find_exercise("start-here/return-shape")


class Tree:
    """A child that is held by the test: its end of the wire, and for how long it has waited for a processor."""

    started, group = 0.0, None

    def __init__(self, waits):
        self.sock, there = socket.socketpair()
        self.channel, self._waits, self._waited, self.ended = Channel(there, asks=False), waits, 0.0, 0
        self.channel.send({"layers": {}, "environment": []})

    def delays(self):
        self._waited += self._waits
        return [self._waited]

    def wait(self):
        return Ended(None)

    def end(self):
        self.ended += 1
        return Ended(None), {"cpu_s": 0.0}


def child(waits=0.0, **limits):
    tree = Tree(waits)
    return Child(tree, Allowance(**limits), "C"), tree


def test_a_child_that_had_its_time_is_over_it():
    asked, tree = child()
    with pytest.raises(OverLimit) as over:
        asked.ask(ASKED, 0.01)
    assert (over.value.which, over.value.limit, tree.ended) == ("time", 0.01, 1)


def test_a_child_without_a_processor_is_not_over_its_limit():
    asked, tree = child(waits=60.0)  # each time somebody looks, as long as has passed
    with pytest.raises(TooBusy):
        asked.ask(ASKED, 0.01)
    assert tree.ended == 1
    with pytest.raises(Died):
        asked.ask(ASKED, 0.01)


def test_only_the_time_of_its_questions_counts_and_only_that_with_a_processor():
    asked, _ = child(waits=60.0, submission_s=5.0)
    with pytest.raises(TooBusy):
        asked.ask(ASKED, 0.01)
    assert asked.spent_s < 0.01
    asked, _ = child(submission_s=0.02)
    with pytest.raises(OverLimit) as over:
        asked.ask(ASKED, 60.0)
    assert over.value.limit == 0.02 and 0.02 <= asked.spent_s


def test_who_reads_late_finds_what_was_sent_in_time():
    here, there = socket.socketpair()
    with here, there:
        asking, answering_ = Channel(here, asks=True), Channel(there, asks=False)
        asking.send({"a": 1})
        answering_.recv(1.0)
        answering_.send({"value": [1] * 100})
        assert asking.recv(0.0)["value"] == [1] * 100
        asking.send({"a": 2})
        with pytest.raises(TimeoutError):
            asking.recv(0.0)


def test_who_sends_bit_by_bit_gains_no_time():
    here, there = socket.socketpair()
    with here, there:
        asking = Channel(here, asks=True)
        asking.send({"a": 1})
        there.send(b"x" * 3)
        with pytest.raises(TimeoutError):
            asking.recv(0.0)


# -- what becomes of it ------------------------------------------------------------------------------------------------


class Submission:
    lesson, learner, sha256, notes, unreadable, repair = "start_here", "ada", "5" * 64, (), "", ""

    def __init__(self):
        source = answering.reference_answer(SHAPE).source
        self.answers = {SHAPE.id: Taken(SHAPE.id, source, (), "")}


class Lost:
    """A runner whose first child of each kind gets no processor, and ends."""

    report = None

    def __init__(self):
        self.made, self.course = [], {}

    def child(self, limits=None):
        self.made.append(limits)
        return child(waits=60.0 if len(self.made) == 1 else 0.0)[0]


def test_an_answer_that_got_no_processor_is_nobodys_zero(monkeypatch):
    monkeypatch.setattr(programs, "LOAD_S", 0.01)
    monkeypatch.setattr(programs, "_SPARE_S", 0.0)
    rows = engine.grade_submission(Submission(), runner=Lost(), secret=engine.Secret()).rows
    row = next(row for row in rows if row.exercise == SHAPE.id)
    assert row.outcome == Outcome.GRADER_FAULT.value and not row.points
    assert "the machine was too busy" in row.why and "Nothing is held against the answer" in row.next


def test_a_child_that_was_given_up_is_not_asked_again():
    runner = Lost()
    with Children(runner) as children:
        first = children.get("answer")
        with pytest.raises(TooBusy):
            first.ask(ASKED, 0.01)
        assert children.get("answer") is not first and len(runner.made) == 2
        assert children.get(programs.COURSE) is children.get(programs.COURSE)
        children.get(programs.COURSE).close()
        assert not children.get(programs.COURSE).usage
    for made, _ in runner.course.values():
        made.close()


@pytest.mark.parametrize("name", [programs.COURSE, f"{programs.COURSE} on ranks", f"{programs.COURSE} with libraries"])
def test_the_courses_own_child_serves_as_long_as_it_takes(name):
    assert programs._limits_of(name).submission_s == math.inf
    answers = programs._limits_of(name.replace(programs.COURSE, "answer"))
    assert answers is None or answers.submission_s == 120.0


def test_what_answers_have_spent_outlives_their_children():
    with Children(Lost()) as children:
        children.get("answer").spent_s = 3.0
        children.get(programs.COURSE).spent_s = 50.0
        assert children.spent_s == 3.0
        children.close("answer")
        children.get("answer on ranks").spent_s = 1.5
        assert children.spent_s == 4.5
        children.close(programs.COURSE)


@pytest.mark.parametrize(
    ("reply", "error", "words"),
    [({"busy_s": 31.0}, TooBusy, "within 31 s"), ({"not_made": "no space"}, NotMade, "no ranks: no space")],
)
def test_ranks_that_are_not_there_are_nobodys_zero(reply, error, words):
    class Without:
        def ask(self, question, seconds):
            return reply

    class Exercise:
        limits, probe = Limits(), SHAPE.probe

    with pytest.raises(error, match=words):
        on_ranks._on_case(Exercise, Program("", (), "", ("f",)), ([(1,)],), Without(), False)
