"""Lesson 09: backward of broadcasting, and of log-sum-exp."""

from typing import TYPE_CHECKING

import numpy as np

from labsupport.course import Case, Exercise, Limits, Misconception, Probe
from labsupport.exercises._autograd_asking import altered

if TYPE_CHECKING:  # torch takes a second to load, and reading the course's exercises must not cost that
    import torch

__all__ = ["LOGSUMEXP_BACKWARD", "UNBROADCAST"]

_BROADCASTING = "https://numpy.org/doc/stable/user/basics.broadcasting.html, read 2026-11"
_EXTENDING = "https://docs.pytorch.org/docs/2.13/notes/extending.html, read 2026-11"


# -- unbroadcast


def unbroadcast(grad, shape):
    """Return `grad` added up to `shape`: over the axes that broadcasting put in front, and those it stretched."""
    front = grad.ndim - len(shape)
    stretched = [front + axis for axis, n in enumerate(shape) if n == 1]
    return grad.sum(axis=(*range(front), *stretched)).reshape(shape)


_AVERAGES = altered(unbroadcast, ("grad.sum(", "grad.mean("))
_ALL_AXES = "(*range(front), *stretched)).reshape(shape)"
_STRETCHED_KEPT = altered(unbroadcast, (_ALL_AXES, "tuple(range(front)))"))
_FRONT_KEPT = altered(unbroadcast, (_ALL_AXES, "tuple(stretched), keepdims=True)"))
_AXES_LOST = altered(unbroadcast, (_ALL_AXES, "(*range(front), *stretched))"))


def _takes_one_of_them(grad, shape):
    front = grad.ndim - len(shape)
    grad = grad[(0,) * front]
    return grad[tuple(slice(0, 1) if n == 1 else slice(None) for n in shape)]


def _all_in_one(grad, shape):
    return grad if grad.shape == shape else np.full(shape, grad.sum())


def _aligned_at_the_left(grad, shape):
    padded = (*shape, *(1,) * (grad.ndim - len(shape)))
    axes = tuple(axis for axis, n in enumerate(padded) if n == 1)
    return grad.sum(axis=axes, keepdims=True).reshape(-1)[: int(np.prod(shape))].reshape(shape)


def _shapes(label, grad, shape, dtype=np.float64):
    return Case(label, lambda rng: (rng.normal(1.0, 1.0, grad).astype(dtype), shape))


UNBROADCAST = Exercise(
    id="autograd/unbroadcast",
    kind="function",
    task="An operand of shape `shape` was broadcast to the shape of `grad`, an array. Return the operand's gradient: "
    "`grad` with what went to one element added up, of exactly shape `shape` and the dtype of `grad`.",
    names=("unbroadcast",),
    setup="import numpy as np",
    reference=unbroadcast,
    probe=Probe("through", {"driver": "autograd:summed"}),
    cases=(
        _shapes("a bias (1,) on (3,)", (3,), (1,)),
        _shapes("a row (3,) on (3, 3)", (3, 3), (3,)),
        _shapes("a column (3, 1) on (3, 3)", (3, 3), (3, 1)),
        _shapes("(1, 3) on (4, 3)", (4, 3), (1, 3)),
        _shapes("nothing was broadcast", (4, 3), (4, 3)),
        _shapes("(4, 1) on (2, 4, 3)", (2, 4, 3), (4, 1)),
        _shapes("a number, shape (), on (5, 4)", (5, 4), ()),
        _shapes("(1, 1, 3) on (4, 1, 3): an axis of 1 that was not stretched", (4, 1, 3), (1, 1, 3)),
        _shapes("float32, (3,) on (2, 3, 3)", (2, 3, 3), (3,), np.float32),
    ),
    misconceptions=(
        Misconception(
            id="averages",
            specimen=_AVERAGES,
            says="You average over the copies. Each copy changes the result on its own, and a change of the operand "
            "changes all of them at once.",
            next="Three copies of one bias, each with gradient 1: by how much does the sum grow?",
        ),
        Misconception(
            id="takes-one-of-them",
            specimen=_takes_one_of_them,
            says="You keep the gradient of one copy and drop those of the others.",
            next="Every element that the operand was stretched to has something to say: add them up.",
        ),
        Misconception(
            id="only-axes-in-front",
            specimen=_STRETCHED_KEPT,
            says="You add up the axes that broadcasting put in front. It also stretches axes of length 1.",
            next="Which axes of `shape` are 1?",
        ),
        Misconception(
            id="only-stretched-axes",
            specimen=_FRONT_KEPT,
            says="You add up the stretched axes. Broadcasting also puts axes in front of a shorter shape, and these "
            "are still there.",
            next="How many more axes has `grad` than `shape`?",
        ),
        Misconception(
            id="loses-the-axis",
            specimen=_AXES_LOST,
            says="The sums are right, but an axis of length 1 is gone: the gradient no longer has the operand's shape.",
            next="`keepdims=True`, or a reshape at the end.",
        ),
        Misconception(
            id="adds-up-everything",
            specimen=_all_in_one,
            says="You add up all of `grad` whenever the shapes differ, and give every element the same total.",
            next="A row that was put on every row gets one sum per column.",
        ),
        Misconception(
            id="aligned-at-the-left",
            specimen=_aligned_at_the_left,
            says="You compare the shapes from the first axis on. Broadcasting lines them up at the last one.",
            next="A shape (3,) against (3, 3): which of the two axes of 3 is its own?",
        ),
    ),
    hints=(
        "Line the shapes up at the right. Axes that `shape` lacks, and axes where it has 1, are those to add up.",
        "`grad.sum(axis=...)` takes a tuple of axes, an empty one too. A reshape to `shape` then puts the axes of "
        "length 1 back.",
    ),
    core=True,
    level=2,
    minutes=7,
    source=_BROADCASTING,
)


# -- logsumexp-backward


def logsumexp_backward(cotangent, x, result, dim):
    """Return the gradient of x, of the shape of x, for `result = torch.logsumexp(x, dim)` with this cotangent."""
    share = torch.exp(x - result.unsqueeze(dim))  # exp(x) / sum of exp(x), and never above 1
    return cotangent.unsqueeze(dim) * share


_SHARE = "torch.exp(x - result.unsqueeze(dim))"
_OVERFLOWS = altered(logsumexp_backward, (_SHARE, "x.exp() / x.exp().sum(dim, keepdim=True)"))
_NO_AXIS = altered(logsumexp_backward, ("return cotangent.unsqueeze(dim) * share", "return cotangent * share"))
_NO_COTANGENT = altered(logsumexp_backward, ("return cotangent.unsqueeze(dim) * share", "return share"))
_LAST_AXIS = altered(logsumexp_backward, (_SHARE, "torch.softmax(x, -1)"))
_DETACHED = altered(logsumexp_backward, (_SHARE, f"{_SHARE}.detach()"))
_ASKS_AUTOGRAD = altered(
    logsumexp_backward,
    (
        "return cotangent.unsqueeze(dim) * share",
        "return torch.autograd.grad(result, x, cotangent, create_graph=True)[0]",
    ),
)
_ONE_SHIFT = altered(logsumexp_backward, (_SHARE, "(x - x.max()).exp() / (x - x.max()).exp().sum(dim, keepdim=True)"))
_LARGEST_ONLY = altered(logsumexp_backward, (_SHARE, "(x == x.amax(dim, keepdim=True)).to(x.dtype)"))


def _soft(label, shape, dim, centre=0.0, masked=False):
    def make(rng):
        x = rng.normal(0.0, 1.0, shape) + np.reshape(centre, (-1, 1) if np.ndim(centre) else ())
        if masked:
            x[0, 1] = -np.inf
        return x, dim, rng.uniform(0.5, 2.0, np.delete(shape, dim))

    return Case(label, make)


LOGSUMEXP_BACKWARD = Exercise(
    id="autograd/logsumexp-backward",
    kind="function",
    task="`result = torch.logsumexp(x, dim)` and `cotangent`, of the shape of `result`, are given. Return the gradient "
    "of x in tensor operations, so that it holds for entries of 1,000 and can be differentiated once more. gradcheck "
    "and gradgradcheck look at it.",
    names=("logsumexp_backward",),
    setup="import torch",
    reference=logsumexp_backward,
    probe=Probe("through", {"driver": "autograd:soft_maximum"}),
    cases=(
        _soft("(2, 3) along axis 1", (2, 3), 1),
        _soft("(3, 3) along axis 0", (3, 3), 0),
        _soft("(3, 3) along the last axis, -1", (3, 3), -1),
        _soft("(2, 3, 2) along axis 1", (2, 3, 2), 1),
        _soft("entries around 1,000", (2, 3), 1, centre=1_000.0),
        _soft("one row around 1,000, one around 0", (2, 3), 1, centre=(1_000.0, 0.0)),
        _soft("an entry of minus infinity, as a mask leaves it", (2, 3), 1, masked=True),
    ),
    misconceptions=(
        Misconception(
            id="overflows",
            specimen=_OVERFLOWS,
            says="Right on paper. In float64 exp(1000) is infinite, and infinite by infinite is no number.",
            next="`result` is the logarithm of the sum: subtract before you take the exponential.",
        ),
        Misconception(
            id="one-shift-for-all",
            specimen=_ONE_SHIFT,
            says="You subtract the largest entry of all of x. A row that lies far below it then has exponentials of 0 "
            "only, and 0 by 0 is no number.",
            next="Each sum has its own scale, and `result` knows it.",
        ),
        Misconception(
            id="asks-autograd",
            specimen=_ASKS_AUTOGRAD,
            says="You ask autograd for the gradient of `result`. To answer, it calls the backward of the operation "
            "that made it: your function, which asks again, without end.",
            next="Write the derivative down: one expression in `x` and `result`.",
        ),
        Misconception(
            id="cotangent-lacks-an-axis",
            specimen=_NO_AXIS,
            says="The cotangent has one axis fewer than x, so it lines up with the wrong axis, or with none.",
            next="Give it back the axis that was summed: `unsqueeze(dim)`.",
        ),
        Misconception(
            id="forgets-the-cotangent",
            specimen=_NO_COTANGENT,
            says="You return the derivative for a cotangent of 1. What comes from above can be any number.",
            next="Multiply by what arrives.",
        ),
        Misconception(
            id="always-the-last-axis",
            specimen=_LAST_AXIS,
            says="Your shares add up to 1 along the last axis. The sum ran along `dim`.",
            next="Use `dim` wherever an axis is named.",
        ),
        Misconception(
            id="no-second-derivative",
            specimen=_DETACHED,
            says="The gradient is right and cannot be differentiated again: the way back to x is cut inside it, so "
            "gradgradcheck finds another second derivative.",
            next="Leave out `detach`, `no_grad` and NumPy: operations on tensors keep the graph.",
        ),
        Misconception(
            id="largest-takes-all",
            specimen=_LARGEST_ONLY,
            says="That is the gradient of a maximum. The smooth one shares among all entries, by their exponentials.",
            next="The derivative of log(sum of exp) by one entry is its part of the sum.",
        ),
    ),
    hints=(
        "d/dx of log(sum(exp(x))) is exp(x) / sum(exp(x)). Write the denominator as exp(result).",
        "A quotient of exponentials is the exponential of a difference.",
    ),
    core=False,
    level=3,
    minutes=8,
    limits=Limits(call_s=20.0),
    source=_EXTENDING,
)
