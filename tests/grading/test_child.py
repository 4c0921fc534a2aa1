"""What a child answers: the same questions get the same replies in a cage, behind a fence, and in the open."""

import os
import sys

import numpy as np
import pytest
from caged import call, load, needs_linux, opened

from labsupport.course import Limits, Probe
from labsupport.grading.errors import Died, OverLimit
from labsupport.grading.wire import WireError
from labsupport.probing import Subject, observe
from labsupport.probing.plain import Opaque, identical

KB, MB = 1 << 10, 1 << 20


@pytest.fixture(scope="module", params=["A", "B", "C"] if sys.platform == "linux" else ["C"])
def runner(request):
    with opened(request.param) as runner:
        yield runner


@pytest.fixture
def child(runner):
    with runner.child() as child:
        yield child


# -- load ---------------------------------------------------------------------------------------------------------


def test_setup_helpers_and_answer_run_in_one_namespace_in_order(child):
    helpers = ["scale = 2", "1 / 0", "scale = np.int64(scale + 1)"]
    reply = load(child, "def f(x):\n    return x * scale\n", helpers=helpers)
    assert reply == {"raised": None, "over": None, "missing": [], "printed": "", "printed_bytes": 0}
    assert call(child, 5)["value"] == 15


def test_each_load_starts_afresh(child):
    load(child, "kept = 1\ndef f():\n    return 1\n")
    load(child, "def g():\n    return kept\n", "g")
    assert call(child, name="g")["raised"]["type"] == "NameError"


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("def f(:", "SyntaxError"),
        ("raise NotImplementedError", "NotImplementedError"),
        ("raise SystemExit(0)", "SystemExit"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("class Odd(BaseException):\n    def __str__(self):\n        raise ValueError\nraise Odd", "Odd"),
        ("raise type('N' * 1000, (Exception,), {})", "N" * 200),
    ],
)
def test_what_a_cell_raises_is_data(child, source, kind):
    reply = load(child, source)
    assert reply["raised"]["type"] == kind
    assert reply["missing"] == ["f"]
    assert load(child, "def f():\n    return 1\n")["raised"] is None


def test_the_line_of_an_exception_is_the_answers_own(child):
    load(child, "def f(x):\n    y = x + 1\n    return np.concatenate(y)\n")
    raised = call(child, 1.0)["raised"]
    assert (raised["line"], raised["lineno"]) == ("return np.concatenate(y)", 3)


def test_names_that_are_not_defined_are_listed(child):
    assert load(child, "def f():\n    pass\n", "f", "g", "h")["missing"] == ["g", "h"]


def test_output_is_capped_and_kept(child):
    reply = load(child, "import sys\nprint('hello')\nfor _ in range(1000):\n    sys.stderr.write('x' * 1000)\n")
    assert reply["printed"].startswith("hello\nxxx")
    assert len(reply["printed"]) == 64 * KB
    assert reply["printed_bytes"] == 6 + 1_000_000


def test_the_standard_streams_lead_nowhere(child):
    source = "import os\nos.write(1, b'x' * 100_000)\nos.write(2, b'y')\ndef f():\n    return input()\n"
    assert load(child, source)["raised"] is None
    assert call(child)["raised"]["type"] == "EOFError"


def test_warnings_and_progress_do_no_harm(child):
    source = """
import sys, warnings
def f():
    warnings.warn("look out")
    print("100 %", file=sys.stderr)
    print("done")
    return 7
"""
    load(child, source)
    reply = call(child)
    assert (reply["value"], reply["raised"]) == (7, None)


def test_classes_find_their_module(child):
    source = """
from __future__ import annotations
import dataclasses, pickle
@dataclasses.dataclass
class Point:
    x: int
    y: dataclasses.InitVar[int] = 0
def f():
    return pickle.loads(pickle.dumps(Point(3))).x
"""
    assert load(child, source)["raised"] is None
    assert call(child)["value"] == 3


# -- observe ------------------------------------------------------------------------------------------------------

ANSWERS = {
    "a view": "def f(x):\n    return x[::2].T\n",
    "a copy": "def f(x):\n    return x[::2].copy()\n",
    "a loop": "def f(x):\n    return np.array([[v + 1 for v in row] for row in x])\n",
    "changes its input": "def f(x):\n    x += 1\n    return x\n",
    "raises": "def f(x):\n    return x[:, 99]\n",
    "a subclass": "class Mine(np.ndarray):\n    pass\ndef f(x):\n    return x.view(Mine)\n",
    "imports": "def f(x):\n    import fractions\n    return np.linalg.norm(x), float(fractions.Fraction(1, 3))\n",
}
OPTIONS = {
    "view_of": 0,
    "writeable": True,
    "max_allocated": 10_000,
    "max_steps": 20,
    "forbid": ("for", "comprehension"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_observation_is_the_one_made_in_this_process(child, name):
    source, inputs = ANSWERS[name], (np.arange(12.0).reshape(4, 3)[:, ::-1],)
    load(child, source)
    reply = call(child, *inputs, options=OPTIONS)
    namespace = {"np": np}
    exec(source, namespace)
    here = observe(Probe("call", OPTIONS), Subject(("f",), namespace, source), inputs, Limits())
    if isinstance(here.value, Opaque):
        assert reply["value"].type_name == here.value.type_name
    else:
        assert identical(reply["value"], here.value)
    assert reply["facts"] == dict(here.facts)
    assert (reply["raised"] or {}).get("type") == (here.raised.type if here.raised else None)


BOX = """
class Box:
    def __init__(self, n):
        self.n = n
    def add(self, k):
        return self.n + k
"""


@pytest.mark.parametrize(
    ("probe", "source", "name", "inputs"),
    [
        ("drive", BOX, "Box", ([("Box", (3,)), ("add", (4,)), (".n", ())],)),
        ("literal", "answer = [8, np.int64(32)]", "answer", ()),
    ],
)
def test_classes_and_predictions_are_observed_too(child, probe, source, name, inputs):
    load(child, source, name)
    question = {"op": "observe", "probe": {"name": probe, "options": {}}, "names": [name], "inputs": inputs}
    reply = child.ask(question | {"limits": {"call_s": 5.0}})
    namespace = {"np": np}
    exec(source, namespace)
    here = observe(Probe(probe), Subject((name,), namespace, source), inputs, Limits())
    assert reply["raised"] is None
    assert identical(reply["value"], here.value)


def test_inputs_arrive_with_their_layout_and_what_they_share(child):
    source = """
def f(x, y):
    facts = x.strides, x.flags.writeable, bool(np.shares_memory(x, y))
    y[...] = 0
    return facts, x.copy()
"""
    whole = np.arange(24, dtype=np.int32).reshape(4, 6)
    load(child, source)
    facts, seen = call(child, whole[::-2, 1::2], whole[1])["value"]
    assert facts == ((-48, 8), True, True)
    assert seen.tolist() == [[19, 21, 23], [0, 0, 0]]


def test_no_threads_are_started_by_libraries(child):
    source = "import os, threading\ndef f():\n    a = np.ones((600, 600))\n    (a @ a).sum()\n    return TASKS\n"
    tasks = "len(os.listdir('/proc/self/task'))" if sys.platform == "linux" else "threading.active_count()"
    load(child, source.replace("TASKS", tasks))
    assert call(child)["value"] == 1


# -- inputs in the judge's memory ---------------------------------------------------------------------------------

SHARED = needs_linux


def call_shared(child, memory, name="f"):
    question = {"op": "call_shared", "names": [name], "inputs": memory.described, "limits": {"call_s": 5.0}}
    return child.ask(question, fds=(memory.fd,))


@SHARED
@pytest.mark.parametrize(("body", "follows"), [("x[1:]", True), ("x[1:] + 0", False), ("[x[:1], 3]", True)])
def test_a_view_follows_the_judges_memory_and_a_copy_does_not(child, body, follows):
    from labsupport.grading.shared import Memory

    load(child, f"def f(x):\n    return {body}\n")
    with Memory((np.arange(6.0),)) as memory:
        before = call_shared(child, memory)
        assert before["raised"] is None
        memory.rewrite(0xFF)
        after = child.ask({"op": "reread"})
        assert identical(before["value"], after["value"]) is not follows


@SHARED
def test_a_change_of_an_input_is_seen_from_outside(child):
    from labsupport.grading.shared import Memory

    load(child, "def f(x, y):\n    y[0] = 9\n    return 1\n")
    with Memory((np.arange(6.0), np.arange(3))) as memory:
        call_shared(child, memory)
        assert memory.changed_inputs() == (1,)


@SHARED
def test_the_memory_cannot_be_shrunk_by_who_keeps_its_descriptor(child):
    from labsupport.grading.shared import Memory

    source = """
import os
kept, close = [], os.close
os.close = kept.append
def f(x):
    tried = []
    for change, *args in (os.ftruncate, 0), (os.ftruncate, 1 << 16), (os.pwrite, b"0", 1 << 16):
        try:
            change(kept[0], *args)
            tried.append("done")
        except PermissionError:
            tried.append("refused")
    return tried
"""
    load(child, source)
    with Memory((np.arange(6.0),)) as memory:
        assert call_shared(child, memory)["value"] == ["refused"] * 3
        assert memory.changed_inputs() == ()


# -- attacks on the wire ------------------------------------------------------------------------------------------

WRITES = """
import os
def f():
    for fd in range(3, 64):
        try:
            os.write(fd, {what})
        except OSError:
            pass
"""


@pytest.mark.parametrize(
    "what", ["b'x' * 200", "b'\\xff' * 1000", "bytes(16) + b'LAB1' + b'\\xff' * 8", "b'[' * 200_000", "b''"]
)
def test_bytes_of_its_own_on_the_wire_end_the_child(child, what):
    load(child, WRITES.format(what=what))
    if what == "b''":
        assert call(child)["raised"] is None
        return
    with pytest.raises((WireError, OverLimit, Died)):
        call(child)
    assert child.usage is not None


def test_an_answer_before_the_question_ends_the_child(child):
    source = """
import gc
from labsupport.grading.wire import Channel
channel = next(o for o in gc.get_objects() if isinstance(o, Channel))
def f():
    reply = {"value": 42, "raised": None, "over": None, "facts": {}, "notes": {}}
    for _ in range(2):
        channel.send(reply)
"""
    load(child, source)
    assert call(child)["value"] == 42  # what it says for itself it may say in any way
    with pytest.raises(WireError):
        call(child)


def test_an_answer_too_large_is_over_a_limit_and_costs_nothing_else(child):
    load(child, f"def f(n):\n    return bytes(n)\ndef g():\n    return [0] * {10**6}\n")
    with pytest.raises(OverLimit) as over:
        call(child, 17 * MB)
    assert (over.value.which, over.value.limit) == ("answer", 16 * MB)
    with pytest.raises(OverLimit):
        call(child, name="g")
    assert call(child, 3)["value"] == b"\0\0\0"


def test_whatever_it_does_to_its_own_python_it_only_fools_itself(child):
    source = """
import builtins, sys, numpy
from labsupport.probing import call, running
import labsupport.grading.child as child
builtins.exec = builtins.compile = None
sys.modules.clear()
numpy.array_equal = lambda *_: True
call.run = None
def f():
    return 1
"""
    load(child, source)
    reply = call(child)
    assert reply["raised"] is not None or reply["value"] == 1


def test_a_child_that_was_ended_says_so(runner):
    child = runner.child()
    usage = child.close()
    assert usage["wall_s"] > 0
    assert child.close() is usage
    with pytest.raises(Died):
        call(child)


def test_its_file_descriptors_are_few(child):
    if sys.platform != "linux":
        pytest.skip("counted in /proc")
    load(child, "import os\ndef f():\n    return sorted(map(int, os.listdir('/proc/self/fd')))\n")
    assert len(call(child)["value"]) == 5  # the standard ones, the wire, the one that lists
    assert os.name == "posix"
