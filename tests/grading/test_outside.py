"""What the judge makes of a child's replies: nothing in them makes it fail, wait, or believe what it can see itself."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from labsupport import catalog
from labsupport.course import Observation, Outcome
from labsupport.grading import outside
from labsupport.grading.engine import grade_submission
from labsupport.grading.errors import CannotRunHere, OverLimit
from labsupport.grading.programs import RESULT_BYTES, Children, Program, observe_program
from labsupport.grading.reading import words_reached
from labsupport.grading.wire import WireError
from labsupport.judging import Observed, judge
from labsupport.processes.removing import remove_tree

SHAPE = catalog.find_exercise("start-here/return-shape")
HOT = catalog.find_exercise("broadcasting/one-hot")
PROGRAM = Program("", (), "def batch_shape(*args): pass", ("batch_shape",))
LOADED = {"raised": None, "over": None, "missing": []}

HOSTILE = (
    None, True, -1, 10**5000, float("nan"), float("inf"), "x" * 100_000, b"bytes", [[1]], (), ({},), {"a": {}},
    np.arange(4), np.float32(1), [None] * 1000, {1: 2}, "\x1b[31m", ("a", [1]), -(10**5000),
)  # fmt: skip


class Answering:
    """A runner, its only child, and what the child replies to each question."""

    report = None

    def __init__(self, *replies):
        self.replies, self.asked, self.waited, self.closed, self.usage = list(replies), [], [], 0, None

    def child(self, limits=None):
        self.usage, self.spent_s = None, 0.0
        return self

    def ask(self, question, deadline_s=None, fds=()):
        self.begin(question, deadline_s, fds)
        return self.more(deadline_s)

    def begin(self, question, deadline_s, fds=()):
        self.asked.append(question)

    def more(self, deadline_s):
        self.waited.append(deadline_s)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(reply, Exception):
            raise reply
        return reply

    def close(self):
        self.closed += 1
        self.usage = {"cpu_s": 0.5, "peak_bytes": 10, "wall_s": 1.0}


def observe(runner, exercise=SHAPE, program=PROGRAM, inputs=(((1,), 2),) * 3):
    with Children(runner) as children:
        return observe_program(exercise, program, list(inputs), children, "answer")


# -- replies ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", HOSTILE, ids=lambda v: type(v).__name__)
@pytest.mark.parametrize("field", ["raised", "over", "facts", "notes", "value", "missing"])
def test_any_field_may_be_anything(field, value):
    reply = {"value": (1,), "raised": None, "over": None, "facts": {}, "notes": {}, "missing": []} | {field: value}
    seen = observe(Answering(reply))
    assert len(seen) == 3
    for one in seen:
        told = judged(one)
        assert len(json.dumps([told.why, told.next, told.seen, told.measured])) < 5000


@pytest.mark.parametrize("value", HOSTILE, ids=lambda v: type(v).__name__)
@pytest.mark.parametrize(
    "name", ["inputs changed", "layout", "steps", "vocabulary", "allocated_bytes", "printed", "bases"]
)
def test_any_fact_note_and_part_of_an_exception_may_be_anything(name, value):
    wanted = Observation(
        value=(1,), facts={"inputs changed": (), "layout": "view", "steps": "within 3", "vocabulary": ()}
    )
    for reply in (
        {"value": (1,), "facts": {name: value}, "notes": {name: value}},
        {"value": None, "raised": dict.fromkeys(("type", "message", "line", "lineno", name), value)},
    ):
        seen = outside.observation_of(reply)
        told = judged(seen, wanted)
        assert told.outcome is not Outcome.PASSED
        assert len(told.why) < 2000


def judged(seen, wanted=None):
    wanted = wanted or Observation(value=(2, 8, 8))
    n = len(SHAPE.cases)
    return judge(SHAPE, Observed(answer=(seen,) * n, reference=(wanted,) * n))


def test_a_name_that_is_missing_is_one_of_the_exercises():
    (first, *_) = observe(Answering(LOADED | {"missing": ["<script>", 3]}))
    assert (first.raised.type, first.raised.message) == ("NotImplementedError", "`batch_shape` is not defined")


def test_a_cell_that_fails_below_its_definition_is_asked_all_the_same():
    raised = {"type": "NameError", "message": "name 'x' is not defined"}
    seen = observe(Answering(LOADED | {"raised": raised}, {"value": (1,)}))
    assert [one.value for one in seen] == [(1,)] * 3
    seen = observe(Answering(LOADED | {"raised": raised, "missing": ["batch_shape"]}))
    assert [one.raised.type for one in seen] == ["NameError"] * 3


# -- limits -----------------------------------------------------------------------------------------------------


def test_after_a_case_that_hangs_nothing_more_is_asked():
    child = Answering(LOADED, {"over": "still running after 5 s"})
    assert [bool(one.over) for one in observe(child)] == [True] * 3
    assert [question["op"] for question in child.asked] == ["cases"]
    assert len(child.waited) == 2  # for loading and for the first case


def test_a_call_that_hangs_is_waited_for_once_however_much_is_counted():
    child = Answering(LOADED, OverLimit("time", 5.0))
    inputs = [(np.zeros(3, np.int64), 3)]
    assert "still running after 5 s" in observe(child, HOT, inputs=inputs)[0].over
    assert child.waited[1] <= HOT.limits.call_s + 1
    assert child.asked[0]["beside"]
    assert child.asked[0]["shared"]["cases"] == [(0, 0, 2)]


def test_what_is_no_exception_does_not_spare_an_answer_its_second_call():
    child = Answering(LOADED, {"value": 1, "raised": "x"}, {"value": 2})
    (seen,) = observe(child, HOT, inputs=[(np.zeros(3, np.int64), 3)])
    assert len(child.waited) == 3
    assert seen.value != 1
    assert seen.value.type_name == "something else when it is called again"


def test_results_that_are_large_together_are_over_a_limit():
    child = Answering(LOADED, {"value": "x" * (RESULT_BYTES // 2 - 1)})
    seen = observe(child, inputs=(((1,), 2),) * 5)
    assert [bool(one.over) for one in seen] == [False, False, True, True, True]
    assert len(child.waited) == 4
    assert child.closed == 1  # it has more to say, and nobody listens


@pytest.mark.parametrize(
    ("ending", "said"),
    [
        (OverLimit("memory", 1000), "using more than 1,000 bytes of memory"),
        (OverLimit("processes", 64), "starting more than 64 processes"),
        (OverLimit("answer", 10), "returning more than 10 bytes"),
        (OverLimit("something new", 1), "over its limit"),
        (WireError("noise"), "wrote to the grader's connection"),
    ],
)
def test_an_end_is_told_in_words_and_the_next_program_gets_another_child(ending, said):
    child = Answering(ending)
    with Children(child) as children:
        (first, *_) = observe_program(SHAPE, PROGRAM, [((1,), 2)], children, "answer")
        assert said in (first.over or first.raised.message)
        assert child.closed == 1
        children.get("answer")
        assert not children.is_shared("answer")


def test_where_no_child_can_be_had_nothing_is_held_against_anybody():
    class Weak(Answering):
        def child(self, limits=None):
            raise CannotRunHere("this exercise starts processes of its own")

    from test_scenarios import RIGHT_SHAPE, SECRET, Submission, Taken

    answers = {SHAPE.id: Taken(SHAPE.id, RIGHT_SHAPE, (), "by its marker")}
    graded = grade_submission(Submission("start_here", answers), runner=Weak(), secret=SECRET)
    row = {row.exercise: row for row in graded.rows}[SHAPE.id]
    assert row.outcome == "cannot run here"
    assert "processes of its own" in row.why


# -- words ------------------------------------------------------------------------------------------------------

WORDS = ("broadcast_to", "for")
USES = [
    ("def f(x):\n    return np.broadcast_to(x, 3)", ()),
    ("def f(x):\n    return helper(x)", ("def helper(x):\n    return np.broadcast_to(x, 3)",)),
    ("def f(x):\n    return helper(x)", ("helper = np.broadcast_to",)),
    ("def f(x):\n    return helper(x)", ("from numpy import broadcast_to as helper",)),
    ("def f(x):\n    return outer(x)", ("inner = np.broadcast_to", "def outer(x):\n    return inner(x)")),
    ("f = np.broadcast_to", ()),
    ("def f(x):\n    return x\nf = np.broadcast_to", ()),
    ("def f(x):\n    return (lambda: helper)()(x)", ("helper = np.broadcast_to",)),
    ("class f:\n    def run(self, x):\n        return helper(x)", ("helper = np.broadcast_to",)),
    ("def f(x):\n    return getattr(np, 'broadcast_to')(x, 3)", ()),
    ("@decorated\ndef f(x):\n    return x", ("def decorated(g):\n    return np.broadcast_to",)),
    ("def f(x, how=helper):\n    return how(x)", ("helper = np.broadcast_to",)),
    ("def f(x):\n    return tools['b'](x)", ("tools = {'b': np.broadcast_to}",)),
    ("def f(x):\n    return tools['b'](x)", ("tools = {}", "tools['b'] = np.broadcast_to")),
    ("def f(x):\n    return tools[0](x)", ("tools = []", "tools.append(np.broadcast_to)")),
    ("def f(x):\n    return x + " + "-" * 150 + "1  # broadcast_to", ()),
    ("def f(x):\n    return np.broadcast_to(x, 3)\n" + "#" * 200_000, ()),
]
USES_NOT = [
    ("def f(x):\n    return x\nassert np.broadcast_to(f(3), 2)", ()),
    ("def f(x):\n    helper = 3\n    return helper", ("helper = np.broadcast_to",)),
    ("def f(helper):\n    return helper", ("helper = np.broadcast_to",)),
    ("def f(x):\n    '''Without broadcast_to.'''\n    raise ValueError('use broadcast_to')", ()),
    ("def f(x):\n    return x", ("trial = np.broadcast_to(3, 2)",)),
    ("import numpy as np\ndef f(x):\n    return np.sum(x)\nnp.testing.assert_equal(f(3), np.broadcast_to(3, 1))", ()),
]


@pytest.mark.parametrize(("source", "helpers"), USES)
def test_words_are_found_in_whatever_the_answer_leads_to(source, helpers):
    assert words_reached(Program("", helpers, source, ("f",)), WORDS) == ("broadcast_to",)


@pytest.mark.parametrize(("source", "helpers"), USES_NOT)
def test_words_elsewhere_do_not_count(source, helpers):
    assert words_reached(Program("", helpers, source, ("f",)), WORDS) == ()


# -- what is left on the disk -----------------------------------------------------------------------------------


@pytest.mark.skipif(os.name == "nt", reason="descriptors of folders are POSIX")
def test_a_folder_deeper_than_any_path_is_removed_and_links_are_not_followed(tmp_path):
    outside_it = tmp_path / "kept"
    outside_it.mkdir()
    (outside_it / "file").write_text("here", encoding="ascii")
    folder = tmp_path / "deep"
    folder.mkdir()
    here = Path.cwd()
    os.chdir(folder)
    try:
        for i in range(300):
            Path("d" * 200).mkdir(mode=0o700 if i % 2 else 0o300)
            os.chdir("d" * 200)
            Path("link").symlink_to(outside_it)
            Path("file").write_text("x", encoding="ascii")
    finally:
        os.chdir(here)
    remove_tree(folder)
    assert not folder.exists()
    assert (outside_it / "file").read_text(encoding="ascii") == "here"
    remove_tree(tmp_path / "was never there")
