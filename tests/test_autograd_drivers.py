"""What the drivers of lesson 09 see: bytes that are alive, what hooks do not notice, results that are none."""

import inspect
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from labsupport.course import Outcome
from labsupport.exercises._autograd_rules import _TEMPLATES, WHO_HAS_GRAD, answered
from labsupport.exercises.autograd import EXERCISES
from labsupport.observing import verdict_on
from labsupport.probing import Subject
from labsupport.probing.drivers import Unusable, autograd
from labsupport.probing.drivers._kept_bytes import KeptBytes
from labsupport.probing.plain import plain_literal

torch = pytest.importorskip("torch")

BY_ID = {exercise.short_id: exercise for exercise in EXERCISES}


def verdict_of(name, source):
    """Return the verdict on source text, as the check of the exercise `name` gives it."""
    exercise = BY_ID[name]
    namespace = {}
    exec(f"{exercise.setup}\n{source}", namespace)
    return verdict_on(exercise, Subject(exercise.names, namespace, source, exercise.setup))


# -- bytes that are alive


def saved_by_hooks(model, x):
    """Return (bytes saved for backward beside the weights and x, the result) as torch's own hooks count them."""
    given = {t.untyped_storage().data_ptr() for t in (*model.parameters(), x)}
    saved = {}

    def note(tensor):
        memory = tensor.untyped_storage()
        if memory.data_ptr() not in given:
            saved[memory.data_ptr()] = memory.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        result = model(x)
    return sum(saved.values()), result


@pytest.mark.parametrize("seed", range(12))
def test_bytes_alive_after_forward_are_those_that_were_saved(seed):
    """Each of these layers saves its result, so nothing else is alive after forward."""
    rng = np.random.default_rng(seed)
    widths = [int(n) for n in rng.integers(1, 20, rng.integers(2, 7))]
    layers = []
    for before, after in pairwise(widths):
        layers += [torch.nn.Linear(before, after), rng.choice([torch.nn.Tanh, torch.nn.Sigmoid, torch.nn.ReLU])()]
    model, x = torch.nn.Sequential(*layers), torch.randn(int(rng.integers(1, 9)), widths[0])
    with KeptBytes() as kept:
        result = model(x)
        alive = kept.bytes
    assert result.grad_fn is not None
    expected, _result = saved_by_hooks(model, x)
    assert alive == expected > 0


def test_bytes_go_when_the_graph_goes_and_the_peak_stays():
    x = torch.randn(100, requires_grad=True)
    with KeptBytes() as kept:
        result = x.exp().tanh()
        assert kept.bytes == 2 * x.nbytes
        del result
        assert (kept.bytes, kept.peak) == (0, 2 * x.nbytes)


def test_views_and_changes_in_place_of_what_was_there_do_not_count():
    x = torch.randn(100)
    with KeptBytes() as kept:
        views = [x.reshape(10, 10), x[::2], x.detach()]
        x.mul_(2)
        x[3] = 1.0
        assert kept.bytes == 0, views


def test_what_a_closure_hides_from_hooks_is_counted():
    x = torch.randn(100, requires_grad=True)

    class Hidden(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.hidden = x * 2
            return ctx.hidden.sum()

        @staticmethod
        def backward(ctx, cotangent):
            return cotangent * ctx.hidden

    with KeptBytes() as kept:
        result = Hidden.apply(x)
        assert kept.bytes == x.nbytes + result.nbytes


def test_counts_do_not_depend_on_the_run():
    exercise = BY_ID["checkpoint-budget"]
    inputs = exercise.cases[1].make(np.random.default_rng(0))

    def plain_loop(blocks, x):
        for block in blocks:
            x = block(x)
        return x

    seen = {tuple(autograd.segments(SimpleNamespace(run_blocks=plain_loop), *inputs).notes.values()) for _ in range(5)}
    activation = inputs[1].nbytes
    assert len(seen) == 1
    assert seen.pop()[0] == 10 * activation


# -- answers that are no specimens


NO_GRAD = """
class Value:
    def __init__(self, data):
        self.data = data
"""

LISTS_PARENTS = """
class Value:
    def __init__(self, data, parents=()):
        self.data, self.grad, self.op, self.parents = data, 0.0, "", list(parents)

    def __add__(self, other):
        return Value(self.data, [self, other])

    __mul__ = __radd__ = __rmul__ = __add__

    def push(self):
        pass
"""

TOLD = {
    "Value without grad": ("value-add-mul", NO_GRAD, "`grad`"),
    "parents in a list": ("value-add-mul", LISTS_PARENTS, "expected an empty tuple"),
    "no backward": ("topological-backward", "class Scalar(Node):\n    pass", "backward"),
    "grad of None": ("value-add-mul", LISTS_PARENTS.replace("data, 0.0,", "data, None,"), "expected 0.0"),
    "backward in its own backward": (
        "logsumexp-backward",
        "def logsumexp_backward(c, x, result, dim):\n    result.backward(c)\n    return x.grad",
        "without end",
    ),
    "a gradient and two Nones": (
        "logsumexp-backward",
        "def logsumexp_backward(c, x, result, dim):\n    return c.unsqueeze(dim) * x.softmax(dim), None, None",
        "a tuple of 3",
    ),
    "a leaf of its own": (
        "detached",
        "def relative_scores(x, w, cap):\n    s = torch.exp(x @ w).clamp(max=cap)\n"
        "    return torch.tensor((s / s.mean()).tolist(), dtype=x.dtype, requires_grad=True).square()",
        "gradient reaches",
    ),
    "another RuntimeError": (
        "detached",
        "def relative_scores(x, w, cap):\n    return (x @ w).exp() / (x @ w).mean().numpy()",
        "Can't call numpy()",
    ),
    "no losses": ("sgd-step", "def train(w, x, y, lr, steps):\n    pass", "list of Python numbers"),
    "no return": ("unbroadcast", "def unbroadcast(grad, shape):\n    pass", "return"),
    "a sum": ("safe-sqrt", "def safe_sqrt(x):\n    return x.sqrt().sum()", "Shape ()"),
    "no tensor": ("safe-sqrt", "def safe_sqrt(x):\n    return x.sqrt().tolist()", "Returns list"),
    "no Function": ("straight-through", "class RoundWithin:\n    pass", "apply"),
    "no gradient": ("logsumexp-backward", "def logsumexp_backward(cotangent, x, result, dim):\n    pass", "gradient"),
    "no blocks": ("checkpoint-budget", "def run_blocks(blocks, x):\n    return x", "the result"),
    "no graph": ("detached", "def relative_scores(x, w, cap):\n    return (x @ w).detach()", "the result"),
}


@pytest.mark.parametrize("case", TOLD)
def test_answers_that_cannot_be_looked_at_are_told_why(case):
    name, source, words = TOLD[case]
    verdict = verdict_of(name, source)
    assert verdict.outcome is not Outcome.PASSED
    assert words in f"{verdict.why} {verdict.seen}", verdict


def test_sys_setrecursionlimit_is_seen():
    recursive = next(m for m in BY_ID["topological-backward"].misconceptions if m.id == "recursion-too-deep").specimen
    source = inspect.getsource(recursive).replace("_Recursive", "Scalar")
    source = source.replace("order, seen = [], set()", "order, seen = [], set()\n        setrecursionlimit(20_000)")
    verdict = verdict_of("topological-backward", f"from sys import setrecursionlimit\n{source}")
    assert verdict.outcome is Outcome.WRONG
    assert "setrecursionlimit" in f"{verdict.why} {verdict.seen}"


def test_gradcheck_leaves_the_learners_random_numbers_alone():
    answer = SimpleNamespace(logsumexp_backward=lambda c, x, r, dim: torch.softmax(x, dim) * c.unsqueeze(dim))
    inputs = BY_ID["logsumexp-backward"].cases[0].make(np.random.default_rng(0))
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    autograd.soft_maximum(answer, *inputs)
    assert torch.equal(torch.rand(3), expected)


def test_a_result_without_a_graph_is_no_custom_function():
    class RoundWithin:
        apply = staticmethod(lambda x, limit: x.detach().round())

    with pytest.raises(Unusable, match="grad_fn"):
        autograd.round_function(SimpleNamespace(RoundWithin=RoundWithin), np.ones(2), 1, np.ones(2))


# -- questions


@pytest.mark.parametrize("number", range(len(_TEMPLATES)))
def test_every_template_of_the_drill_has_an_answer_one_can_write_down(number):
    for a, b, c in ((2, 3, 4), (7, 3, 5), (3, 9, 2)):
        value = plain_literal(answered(_TEMPLATES[number].format(a=a, b=b, c=c)))
        assert value is None or isinstance(value, (bool, tuple))
        assert not isinstance(value, tuple) or all(isinstance(x, (int, float)) for x in value)


def test_beliefs_of_predictions_answer_the_drill_too():
    rng = np.random.default_rng(0)
    asked = [WHO_HAS_GRAD.drill.make(rng) for _ in range(60)]
    right = [answered(*question) for question in asked]
    for misconception in WHO_HAS_GRAD.misconceptions:
        believed = [misconception.specimen(*question) for question in asked]
        if misconception.id in ("everyone-keeps-theirs", "rounding-has-slope-one", "a-new-tensor-remembers"):
            assert believed != right, misconception.id
