"""All cases by one question say what each case says when it is asked alone: values, facts, ends."""

import sys
from dataclasses import replace

import numpy as np
import pytest

from labsupport import catalog
from labsupport.course import Limits
from labsupport.grading import outside, programs
from labsupport.grading.programs import Children, Program, observe_program
from labsupport.inputs import inputs_for
from labsupport.probing.plain import Opaque, identical

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="cages need Linux")]

DIAGONAL = replace(catalog.find_exercise("strides/diagonal-view"), limits=Limits(call_s=0.5))
TILES = catalog.find_exercise("strides/block-view")
N = len(DIAGONAL.cases)
COUNT = "calls = []\ndef diagonal_view(m, k=0):\n    calls.append(k)\n    THIRD\n    return m.diagonal(k)\n"
ON_THIRD = "if len(calls) == 5:\n        "  # two calls a case

ANSWERS = {
    "a view": "def diagonal_view(m, k=0):\n    d = m.diagonal(k)\n    d.flags.writeable = True\n    return d\n",
    "a read-only view": "def diagonal_view(m, k=0):\n    return m.diagonal(k)\n",
    "a copy": "def diagonal_view(m, k=0):\n    return m.diagonal(k).copy()\n",
    "one array for all results": (
        "held = np.zeros(1 << 16, np.uint8)\ndef diagonal_view(m, k=0):\n    d = m.diagonal(k)\n"
        "    out = held[:d.nbytes].view(d.dtype)\n    out[:] = d\n    return out\n"
    ),
    "now a view, now a copy": (
        "calls = []\ndef diagonal_view(m, k=0):\n    calls.append(k)\n"
        "    d = m.diagonal(k)\n    return d if len(calls) % 4 < 2 else d.copy()\n"
    ),
    "a list": "def diagonal_view(m, k=0):\n    return list(m.diagonal(k))\n",
    "nothing": "def diagonal_view(m, k=0):\n    pass\n",
    "an input changed": "def diagonal_view(m, k=0):\n    m[0, 0] += 1\n    return m.diagonal(k)\n",
    "another value the second time": (
        "calls = []\ndef diagonal_view(m, k=0):\n    calls.append(k)\n    return m.diagonal(k) + len(calls) % 2\n"
    ),
    "an exception in the third case": COUNT.replace("THIRD", ON_THIRD + "raise ValueError('third')"),
    "a hang in the third case": COUNT.replace("THIRD", ON_THIRD + "while True: pass"),
    "a hang in C in the third case": COUNT.replace("THIRD", ON_THIRD + "pow(7, 10**10)"),
    "an end in the third case": COUNT.replace("THIRD", ON_THIRD + "import os; os._exit(3)"),
    "too much in the third case": COUNT.replace("THIRD", ON_THIRD + "return np.zeros(5_000_000)"),
    "an end in the second call of the third case": COUNT.replace("THIRD", "if len(calls) == 6:\n        exit_now()"),
    "a name that is not there": "def another(m, k=0):\n    return m\n",
    "no Python": "def diagonal_view(m, k=0:\n",
}


def program(source):
    return Program("import numpy as np\nimport os\ndef exit_now():\n    os._exit(4)", (), source, DIAGONAL.names)


@pytest.mark.parametrize("name", ANSWERS)
def test_a_case_says_what_it_says_alone(caged, monkeypatch, name):
    monkeypatch.setattr(outside, "_SPARE_S", 1.0)
    answer, inputs = program(ANSWERS[name]), inputs_for(DIAGONAL, 3)
    with Children(caged) as children:
        together = observe_program(DIAGONAL, answer, inputs, children, "answer")
    with Children(caged) as children:
        words = outside.vocabulary(DIAGONAL, answer)
        seen, end = programs._one_by_one(DIAGONAL, answer, inputs, children, "answer", words)
    alone = (*seen, *(end,) * (N - len(seen)))
    assert len(together) == len(alone) == N
    for one, other in zip(together, alone, strict=True):
        assert (one.raised, one.over) == (other.raised, other.over)
        assert type(one.value) is type(other.value)
        if isinstance(one.value, Opaque):  # what equals nothing is wrong whatever else is known of it
            assert one.value.type_name == other.value.type_name
        else:
            assert identical(one.value, other.value)
            assert one.facts == other.facts


@pytest.mark.parametrize(
    "name", ["one array for all results", "an end in the third case", "too much in the third case"]
)
def test_an_answer_that_is_asked_case_by_case_is_one_program_still(caged, name):
    answer, inputs = program(ANSWERS[name]), inputs_for(DIAGONAL, 3)
    with Children(caged) as children:
        observe_program(DIAGONAL, answer, inputs, children, "answer")
        assert not children.is_shared("answer")  # or it would be run alone, again and again
        observe_program(DIAGONAL, answer, inputs, children, "answer")
        assert children.is_shared("answer")
        children.close("answer")
        observe_program(DIAGONAL, answer, inputs, children, "answer")
        assert not children.is_shared("answer")


def test_right_answers_are_asked_twice_and_not_case_by_case(caged, monkeypatch):
    monkeypatch.setattr(programs, "_one_by_one", lambda *args: pytest.fail("asked case by case"))
    from labsupport.answering import reference_answer

    for exercise in (DIAGONAL, TILES):
        answer = Program(exercise.setup, (), reference_answer(exercise).source, exercise.names)
        with Children(caged) as children:
            seen = observe_program(exercise, answer, inputs_for(exercise, 3), children, "answer")
        assert {one.facts["layout"] for one in seen if type(one.value) is np.ndarray and one.value.size} == {"view"}
