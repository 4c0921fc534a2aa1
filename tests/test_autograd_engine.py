"""Lesson 09's engine against torch: random expressions, long chains, and the gradients its drivers report."""

from types import SimpleNamespace

import numpy as np
import pytest

from labsupport.answering import load, reference_answer
from labsupport.exercises._autograd_asking import altered, random_program
from labsupport.exercises._autograd_backward import TOPOLOGICAL_BACKWARD, Scalar
from labsupport.exercises._autograd_scalars import VALUE_ADD_MUL, Value
from labsupport.probing.drivers.autograd import _run, recorder
from labsupport.scalars import Node, Number

torch = pytest.importorskip("torch")

EXPRESSIONS = 500


def gradients(make, backward, leaves, program, cotangent):
    """Return (result, gradients of the leaves) of a program on values made by `make`."""
    values = [make(leaf) for leaf in leaves]
    result = _run(program, values)[-1]
    backward(result, cotangent)
    return result.data, [value.grad for value in values]


def by_torch(leaves, program, cotangent):
    tensors = [torch.tensor(leaf, dtype=torch.float64, requires_grad=True) for leaf in leaves]
    result = _run(program, tensors)[-1]
    result.backward(torch.tensor(cotangent, dtype=torch.float64))
    return result.item(), [0.0 if tensor.grad is None else tensor.grad.item() for tensor in tensors]


def expressions():
    """Yield (leaves, program, cotangent), of all operations, structures and numbers different each time."""
    for seed in range(EXPRESSIONS):
        rng = np.random.default_rng(seed)
        count = int(rng.integers(1, 6))
        leaves = [float(x) for x in rng.uniform(0.5, 2.0, count)]
        yield leaves, random_program(seed, count, int(rng.integers(count, 16))), float(rng.normal())


@pytest.mark.parametrize("engine", [Number, Scalar], ids=["the course's engine", "the reference"])
def test_engine_and_torch_agree_on_500_random_expressions(engine):
    used, worst = set(), 0.0
    for leaves, program, cotangent in expressions():
        used |= {name for name, *_ in program}
        data, grads = gradients(engine, engine.backward, leaves, program, cotangent)
        expected_data, expected = by_torch(leaves, program, cotangent)
        assert data == pytest.approx(expected_data, abs=1e-9)
        assert grads == pytest.approx(expected, abs=1e-9)
        worst = max(worst, *(abs(a - b) for a, b in zip(grads, expected, strict=True)))
    assert used >= {"+", "-", "*", "/", "tanh", "exp", "log", "relu", "**2", "**-1"}
    assert 0 < worst < 1e-9  # some differ in the last digits: two engines were compared, not one with itself


def test_the_learners_first_class_and_torch_agree_on_sums_and_products():
    for seed in range(100):
        rng = np.random.default_rng(seed)
        leaves = [float(x) for x in rng.uniform(0.3, 0.9, 3)]
        program = [(str(rng.choice(["+", "*"])), made, int(rng.integers(made + 1))) for made in range(2, 10)]
        told = recorder(SimpleNamespace(Value=Value), leaves, program, 1.7)
        data, expected = by_torch(leaves, program, 1.7)
        assert told["data of the result"] == pytest.approx(data, rel=1e-12)
        assert told["gradients of the leaves"] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("engine", [Number, Scalar], ids=["the course's engine", "the reference"])
def test_a_chain_of_5000_nodes_does_not_meet_the_recursion_limit(engine):
    leaf = engine(1.0)
    result = leaf
    for _ in range(5_000):
        result = result * 1.0001
    result.backward()
    assert leaf.grad == pytest.approx(1.0001**5_000, rel=1e-12)


def test_backward_adds_up_on_leaves_and_starts_again_in_between():
    a = Number(2.0)
    inner = a * a
    result = inner.tanh() + inner
    result.backward()
    once, inner_once = a.grad, inner.grad
    result.backward()
    assert a.grad == pytest.approx(2 * once)
    assert inner.grad == pytest.approx(inner_once)


def test_numbers_may_stand_on_either_side_of_every_operator():
    a = Number(2.0)
    result = (3 + a) * (3 - a) / (6 / a) - a**3 + 2 * a
    result.backward()
    x = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    expected = (3 + x) * (3 - x) / (6 / x) - x**3 + 2 * x
    expected.backward()
    assert (result.data, a.grad) == (pytest.approx(expected.item()), pytest.approx(x.grad.item()))


def test_a_node_says_what_it_is():
    assert repr(Number(0.5)) == "Number(0.5, grad=0)"
    made = Node(2.0) * 3
    assert (made.op, [parent.data for parent in made.parents], made.slopes) == ("*", [2.0, 3], (3, 2.0))


@pytest.mark.parametrize("exercise", [VALUE_ADD_MUL, TOPOLOGICAL_BACKWARD], ids=lambda e: e.id)
def test_the_answer_alone_is_enough(exercise):
    """The text a grader runs, with its setup and nothing else, defines the class."""
    assert isinstance(load(reference_answer(exercise))[exercise.names[0]], type)


def test_altered_refuses_a_change_that_changes_nothing():
    with pytest.raises(ValueError, match="occurs 0 times"):
        altered("x = 1\n", ("y", "z"))
