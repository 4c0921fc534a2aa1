"""Rank exercises in a cage: the same words as in a kernel, and nothing that a rank does reaches further."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent.parent))
from rank_course import MEAN, SETUP, exercise_of

from labsupport.answering import source_of
from labsupport.comparing import compare
from labsupport.course import Observation, Outcome
from labsupport.describing import describe
from labsupport.grading import engine, on_ranks
from labsupport.grading.errors import CannotRunHere
from labsupport.grading.finding import Taken
from labsupport.grading.programs import Children, Program, observe_program
from labsupport.inputs import inputs_for
from labsupport.observing import verdict_on
from labsupport.probing import Subject

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="cages need Linux")


@pytest.fixture(scope="module")
def children(caged):
    with Children(caged) as children:
        yield children


def observed(children, body, **options):
    """Return the observation of `def f(x)` with this body on two ranks in a cage."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    exercise = exercise_of("", **options)
    program = Program(SETUP, (), f"def f(x):\n{lines}", ("f",))
    (seen,) = observe_program(exercise, program, inputs_for(exercise), children, "answer")
    return seen


ANSWERS = {
    "right": MEAN.reference,
    "sum": MEAN.misconceptions[0].specimen,
    "one rank asks": MEAN.misconceptions[1].specimen,
    "sends first": MEAN.misconceptions[2].specimen,
    "raises": "def shared_mean(x):\n    if dist.get_rank():\n        raise ValueError('no')\n    dist.barrier()",
    "leaves": "def shared_mean(x):\n    import os\n    os._exit(3)",
    "wrong": "def shared_mean(x):\n    return x.double()",
    "not written": "def shared_mean(x):\n    raise NotImplementedError",
    "group twice": "import torch.distributed as dist\ndist.init_process_group()\n\ndef shared_mean(x):\n    return x",
}


@pytest.fixture(scope="module")
def told(caged):
    """What the engine says about each answer, as a clean check would."""
    find, stub = engine.catalog.find_exercise, engine._is_stub
    engine.catalog.find_exercise, engine._is_stub = (lambda name: MEAN), (lambda *_: False)
    try:
        taken = [Taken(MEAN.id, source_of(answer, "shared_mean"), (), "") for answer in ANSWERS.values()]
        return dict(zip(ANSWERS, engine.check_answers(taken, caged), strict=True))
    finally:
        engine.catalog.find_exercise, engine._is_stub = find, stub


@pytest.mark.parametrize("name", ANSWERS)
def test_a_cage_says_what_a_kernel_says(told, name):
    source = source_of(ANSWERS[name], "shared_mean")
    live = verdict_on(MEAN, Subject(("shared_mean",), {}, source, SETUP), reveal=False)
    assert told[name] == live


def test_each_has_its_outcome(told):
    outcomes = {name: verdict.outcome for name, verdict in told.items()}
    assert outcomes == {
        "right": Outcome.PASSED,
        "sum": Outcome.WRONG,
        "one rank asks": Outcome.OVER_LIMIT,
        "sends first": Outcome.OVER_LIMIT,
        "raises": Outcome.CRASHED,
        "leaves": Outcome.CRASHED,
        "wrong": Outcome.WRONG,
        "not written": Outcome.NOT_YET,
        "group twice": Outcome.CRASHED,
    }
    assert [told[name].misconception for name in ("sum", "one rank asks", "sends first")] == [
        m.id for m in MEAN.misconceptions
    ]


def test_lessons_without_ranks_do_not_pay_for_torch():
    from caged import opened

    with opened("A") as runner:
        with runner.child():
            pass
        assert not runner._loaded


def test_a_fence_is_not_enough():
    from caged import opened

    with opened("B") as runner, Children(runner) as children, pytest.raises(CannotRunHere):
        observed(children, "return 1")


# -- what a rank cannot do --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "raised"),
    [
        ("open('/etc/shadow').read()", "OSError"),
        ("open('/tmp/mine', 'w')", "PermissionError"),
        ("import labsupport.exercises", "ModuleNotFoundError"),
        ("import socket\nsocket.create_connection(('192.0.2.1', 80), 2)", "OSError"),
        ("import subprocess\nsubprocess.run(['true'])", "PermissionError"),
        ("import os\nos.kill(1, 9)", "PermissionError"),
    ],
)
def test_a_rank_reaches_nothing(children, body, raised):
    seen = observed(children, body)
    assert seen.raised is not None and seen.raised.is_a(raised), seen


def test_a_rank_that_ends_what_made_it_costs_its_own_exercise(children):
    seen = observed(children, "import os, time\nos.kill(os.getppid(), 9)\ntime.sleep(5)")
    assert seen.raised.type == "ProcessEnded"
    assert observed(children, "return 1").value == {"rank 0": 1, "rank 1": 1}


def test_ranks_leave_nothing_behind(children):
    body = (
        "import os, time\n"
        "if os.fork() == 0:\n    os.setsid()\n    time.sleep(600)\n"
        "return len([name for name in os.listdir('/proc') if name.isdigit()])"
    )
    first = observed(children, body).value["rank 0"]
    again = observed(children, body + "  # another answer").value["rank 0"]
    assert again == pytest.approx(first, abs=1)  # those of the first answer are gone, ranks and what they started


def test_files_restarts_and_budgets_work_inside(children):
    body = (
        "if dist.get_rank() == 0:\n    torch.save({'w': x}, 'model.pt')\n"
        "dist.barrier()\ndist.all_reduce(x.contiguous())\nreturn None"
    )
    options = {"files": True, "read_back": ["model.pt"], "max_collectives": {"all_reduce": 1}, "max_sent": 1000}
    seen = observed(children, body, collectives=("barrier",), **options)
    assert seen.value["file model.pt"]["w"].shape == (4,)
    assert seen.facts == {
        "inputs changed": ((), ()),
        "collectives": ((("barrier", 1),),) * 2,
        "calls": "within the budget",
        "sent": "within the budget",
        "files": {"model.pt": (0,)},
    }
    killed = observed(children, "return [v for v in [x][0]]", kill={"rank": 1, "item": 0})
    assert killed.facts.get("killed") is False or killed.raised  # a tensor is no list of batches


# -- what a child may say ---------------------------------------------------------------------------------------------


FORGED = [None, 3, "text", [1, 2], {"a": 3}, {1: 2}, [[("x", "y")]], [["z"] * 9999], [[-1]], {"m": [1 << 80]}, [[], 1]]


@pytest.mark.parametrize("fact", ["inputs changed", "collectives", "files"])
@pytest.mark.parametrize("forged", FORGED, ids=str)
def test_facts_of_ranks_are_checked_and_can_be_compared(fact, forged):
    right = {"inputs changed": ((), (0,)), "collectives": ((("send", 1),),) * 2, "files": {"m": (0,)}}
    seen = on_ranks._checked({"value": {"rank 0": 1}, "facts": {fact: forged}})
    difference = compare(seen, Observation(value={"rank 0": 1}, facts={fact: right[fact]}))
    assert difference.kind == fact and describe(difference, reveal=False)


def test_a_reply_without_results_is_no_result():
    assert on_ranks._checked({"value": 3, "facts": {}}).raised.type == "ProcessEnded"


FORGED = {
    "no dict": "['fault'] * 3",
    "a fault that is a number": "{'fault': 7}",
    "nothing of what was asked": "{'restarts': 5}",
    "parts of other types": "{'value': 1, 'raised': [1], 'changed': [{}], 'counts': {1: 'x'}}",
}


@pytest.mark.parametrize("reply", FORGED)
def test_a_rank_that_forges_its_reply_costs_its_own_exercise(children, reply):
    body = (
        "import importlib\nchannel = importlib.import_module('labsupport.grading.wire').Channel\nreal = channel.send\n"
        f"channel.send = lambda self, value, *args, **more: real(self, {FORGED[reply]}, *args, **more)\nreturn 1"
    )
    assert observed(children, body).raised is not None
    assert observed(children, "return 1").value == {"rank 0": 1, "rank 1": 1}


def test_a_rank_that_writes_to_all_its_connections_costs_its_own_exercise(children):
    body = (
        "import os, socket, stat, time\ntold = b'[' * 300_000\n"
        "for fd in range(3, 40):\n"
        "    try:\n"
        "        if stat.S_ISSOCK(os.fstat(fd).st_mode):\n"
        "            sock = socket.socket(fileno=os.dup(fd))\n"
        "            sock.setblocking(False)\n"
        "            sock.send(len(told).to_bytes(4, 'little') + told)\n"
        "    except OSError:\n        pass\n"
        "time.sleep(60)"
    )
    seen = observed(children, body)
    assert seen.raised is not None or seen.over
    assert observed(children, "return 1").value == {"rank 0": 1, "rank 1": 1}


def test_a_run_that_brings_nothing_back_after_a_restart_is_wrong(children):
    from labsupport.catalog import find_exercise

    exercise = find_exercise("ddp/elastic-resume")
    source = (
        "def train_and_resume(batches, weight):\n"
        "    model = DDP(linear(weight))\n"
        "    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)\n"
        "    for x, y in batches:\n"
        "        optimizer.zero_grad()\n"
        "        (model(x) - y).square().mean().backward()\n"
        "        optimizer.step()\n"
        "    return next(model.parameters()).detach()[0], len(batches) - 4\n"  # as many as if it had
    )
    inputs = inputs_for(exercise)
    right = Program(exercise.setup, (), source_of(exercise.reference, exercise.names[0]), exercise.names)
    programs = (right, Program(exercise.setup, (), source, exercise.names))
    (wanted,), (seen,) = (observe_program(exercise, one, inputs, children, "answer") for one in programs)
    assert seen.facts == wanted.facts
    assert seen.value["rank 0"][1] == wanted.value["rank 0"][1]
    assert abs(seen.value["rank 0"][0] - wanted.value["rank 0"][0]).max() > 0.01
