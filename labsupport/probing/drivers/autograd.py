"""Drivers of lesson 09: scalar engines on programs given as data, steps of training, custom functions, kept bytes.

A program is a list of instructions on numbered values: the leaves come first, each instruction adds one.
(name, i) and (name, i, j) work on values i and j; a plain number takes the place of an index as ("number", c).
"""

import operator

import numpy as np

from labsupport.probing.call import within
from labsupport.probing.drivers import Driven, Unusable
from labsupport.probing.drivers._kept_bytes import KeptBytes
from labsupport.probing.drivers.tensors import to_arrays, to_tensors

__all__ = ["engine", "recorder", "round_function", "segments", "slopes", "soft_maximum", "summed", "training"]

_MOST_READS = 40  # of one node's parents in one pass; each of several sensible algorithms needs a handful
_OF_A_LEAF = {
    "grad": ((int, float, np.floating), 0.0, "0.0"),
    "parents": (tuple, (), "an empty tuple"),
    "op": (str, "", "an empty text"),
}
_TWO = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}


def recorder(answer, leaves, program, cotangent):
    """Return what `Value` records of a program of + and *, and the gradients when each node pushes once, last first."""
    values = [answer.Value(leaf) for leaf in leaves]
    _check_leaf(values[0])
    values = _run(program, values)
    values[-1].grad = cotangent
    for value in reversed(values):
        value.push()
    told = {
        "data of the result": values[-1].data,
        "gradients of the leaves": [value.grad for value in values[: len(leaves)]],
    }
    pure = [(i, one) for i, one in enumerate(program, len(leaves)) if all(type(part) is int for part in one[1:])]
    told["parents of each result"] = [_places(values, values[i]) for i, _ in pure]
    told["op of each result"] = [values[i].op for i, _ in pure]
    return told


def _check_leaf(leaf):
    for name in ("data", "grad", "parents", "op"):
        if not hasattr(leaf, name):
            raise Unusable(f"`Value(2.0)` has no attribute `{name}`.")
    for name, (kind, expected, words) in _OF_A_LEAF.items():
        held = getattr(leaf, name)
        if not isinstance(held, kind) or held != expected:
            raise Unusable(f"`Value(2.0).{name}` is {repr(held)[:60]}, expected {words}.")


def _places(values, made):
    """Return which values a node names as its parents, by number."""
    if not isinstance(made.parents, tuple):
        raise Unusable(f"`parents` is a {type(made.parents).__name__}, expected a tuple.")
    places = {id(value): index for index, value in enumerate(values)}
    return [places.get(id(parent), "a copy") for parent in made.parents]


def _run(program, values):
    values = list(values)
    for name, *parts in program:
        parts = [part[1] if isinstance(part, tuple) else values[part] for part in parts]
        if name in _TWO:
            values.append(_TWO[name](*parts))
        elif name.startswith("**"):
            values.append(parts[0] ** float(name[2:]))
        else:
            values.append(getattr(parts[0], name)())
    return values


def engine(answer, leaves, program, calls):
    """Return the gradients of the leaves after each of `calls`: (number of a value, the cotangent it is given)."""
    reads = {}

    class Watched(answer.Scalar):
        """The learner's class; whoever asks a node for its parents is counted."""

        @property
        def parents(self):
            reads[id(self)] = reads.get(id(self), 0) + 1
            return self._parents

        @parents.setter
        def parents(self, parents):
            self._parents = parents

    Watched.__name__ = answer.Scalar.__name__  # errors name the learner's class
    values = _run(program, [Watched(leaf) for leaf in leaves])
    told = {"data of the result": values[-1].data}
    for number, (index, cotangent) in enumerate(calls, 1):
        values[index].backward(*(() if cotangent is None else (cotangent,)))
        told[f"gradients of the leaves after call {number}"] = [value.grad for value in values[: len(leaves)]]
    busiest = max(reads.values(), default=0)
    facts = {"times that one node was asked for its parents": within(busiest, _MOST_READS)}
    return Driven(value=told, facts=facts)


def slopes(answer, *inputs, names):
    """Return the result for all inputs but the last, and the gradient of each in `names`, the last being its cotangent.

    Unlike `tensors:gradients` it also tells the values of a result that no gradient can flow back from.
    """
    *given, cotangent = inputs
    tensors = to_tensors(tuple(given), requires_grad=True)
    (function,) = vars(answer).values()
    result = function(*tensors)
    told = {"the result": to_arrays(result)}
    traced = getattr(result, "grad_fn", None) is not None
    told["graph behind the result"] = "yes" if traced else "none"
    if traced and result.shape == cotangent.shape:
        result.backward(to_tensors(cotangent).to(result.dtype))
    grads = dict(zip(names, (tensor.grad for tensor in tensors[: len(names)]), strict=True))
    told["inputs that a gradient reaches"] = ", ".join(n for n, grad in grads.items() if grad is not None) or "none"
    return told | {f"gradient of {name}": None if grad is None else to_arrays(grad) for name, grad in grads.items()}


def summed(answer, grad, shape):
    """Return the gradient of an operand of `shape`; a NumPy number counts as an array without axes."""
    result = answer.unbroadcast(grad, shape)
    return np.asarray(result) if isinstance(result, np.generic) else result


def training(answer, w, x, y, lr, steps, before=None):
    """Return losses and weights of gradient descent on a leaf whose `grad` is full of `before` when it arrives."""
    import torch

    weights, x, y = to_tensors((w.copy(), x, y))
    weights.requires_grad_()
    if before is not None:
        weights.grad = torch.full_like(weights, before)
    losses = answer.train(weights, x, y, lr, steps)
    if not isinstance(losses, list):
        raise Unusable(f"It returns {type(losses).__name__}, expected a list of Python numbers.")
    leaf = weights.is_leaf and weights.requires_grad
    return Driven(
        value={"loss before each step": to_arrays(losses), "weights of the caller": to_arrays(weights)},
        facts={"the caller's tensor": "a leaf that wants a gradient" if leaf else "no leaf that wants a gradient"},
    )


def round_function(answer, x, limit, cotangent):
    """Return result and gradient of a custom function, and how many bytes of tensors hang on its `ctx`."""
    import torch

    leaf = to_tensors(x, requires_grad=True)
    result = answer.RoundWithin.apply(leaf, limit)
    if result.grad_fn is None:
        raise Unusable("No gradient can flow back from the result: it has no `grad_fn`.")
    attributes = vars(result.grad_fn).values()
    hung = sum(value.nbytes for value in attributes if isinstance(value, torch.Tensor))
    result.backward(to_tensors(cotangent))
    facts = {"tensors kept as attributes of ctx": "some" if hung else "none"}
    value = {"the result": to_arrays(result), "gradient that reaches x": "none" if leaf.grad is None else "one"}
    value["gradient of x"] = None if leaf.grad is None else to_arrays(leaf.grad)
    return Driven(value=value, facts=facts)


def soft_maximum(answer, x, dim, cotangent):
    """Return the gradient a backward function gives, and whether gradcheck and gradgradcheck agree with it."""
    import torch

    inside = []

    class LogSumExp(torch.autograd.Function):
        """torch's forward with the learner's backward."""

        @staticmethod
        def forward(ctx, x):
            result = torch.logsumexp(x, dim)
            ctx.save_for_backward(x, result)
            return result

        @staticmethod
        def backward(ctx, cotangent):
            if inside:  # without end: it would fill the memory before anything stops it
                raise Unusable(_ASKS_ITSELF)
            inside.append(True)
            try:
                return _one(answer.logsumexp_backward(cotangent, *ctx.saved_tensors, dim))
            finally:
                inside.clear()

    leaf = to_tensors(x, requires_grad=True)
    LogSumExp.apply(leaf).backward(to_tensors(cotangent))
    right = torch.softmax(leaf.detach(), dim) * to_tensors(cotangent).unsqueeze(dim)
    if leaf.grad is None or not torch.allclose(leaf.grad, right):  # that is told; what follows from it would be noise
        facts = dict.fromkeys(_CHECKS, "not called, since the gradient differs")
    else:
        facts = {name: _agrees(getattr(torch.autograd, name), LogSumExp.apply, leaf) for name in _CHECKS}
    return Driven(value={"gradient of x": to_arrays(leaf.grad)}, facts=facts)


def _one(gradient):
    """Return what a backward returns; torch would let Nones behind the gradient pass."""
    if isinstance(gradient, (tuple, list)):
        raise Unusable(f"It returns a {type(gradient).__name__} of {len(gradient)}, expected one tensor.")
    return gradient


_CHECKS = ("gradcheck", "gradgradcheck")
_ASKS_ITSELF = "While it runs, your function has autograd go back from `result`, and that calls your function again."


def _agrees(check, function, leaf):
    import torch

    # Which cotangents gradgradcheck draws is this check's business, and not that of whoever draws next.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        try:
            return "agrees" if check(function, (leaf.detach().requires_grad_(),), raise_exception=False) else "fails"
        except RuntimeError as error:
            return f"fails with {type(error).__name__}"


def segments(answer, weights, x, cotangent, most_kept, most_at_once):
    """Return result and gradients of a chain of blocks, and within which bytes it stayed on the way.

    Args:
        answer: has `run_blocks(blocks, x)`.
        weights: (block, features, features); block i is tanh(x @ weights[i]).
        x: (rows, features); it wants no gradient, as data do not.
        cotangent: of the result.
        most_kept: bytes that may be kept for backward, beside weights and x.
        most_at_once: bytes that may be alive at one time during backward, beside weights and x.
    """
    import torch

    class Block(torch.nn.Module):
        def __init__(self, weight):
            super().__init__()
            self.weight, self.runs = torch.nn.Parameter(weight), 0

        def forward(self, x):
            self.runs += 1
            return torch.tanh(x @ self.weight)

    blocks = [Block(weight) for weight in to_tensors(weights)]
    x, cotangent = to_tensors((x, cotangent))
    with KeptBytes() as kept:
        result = answer.run_blocks(blocks, x)
        after_forward = kept.peak = kept.bytes
        if result.grad_fn is not None and result.shape == cotangent.shape:
            result.backward(cotangent)
    grads = [block.weight.grad for block in blocks]
    value = {
        "the result": to_arrays(result),
        "graph behind the result": "none" if result.grad_fn is None else "yes",
        "blocks whose weights have a gradient": sum(grad is not None for grad in grads),
        "gradients of the weights": to_arrays(grads),
    }
    runs, plain = [block.runs for block in blocks], len(blocks) * x.nbytes
    facts = {
        "bytes kept for backward": _spared(after_forward, most_kept, plain),
        "bytes at once during backward": _spared(kept.peak, most_at_once, plain),
        "runs of one block": within(max(runs), 2),
        "blocks that ran again": "some" if max(runs) > 1 else "none",
    }
    notes = {"bytes kept for backward": after_forward, "bytes at once during backward": kept.peak}
    return Driven(value=value, facts=facts, notes=notes)


def _spared(count, most, plain):
    """Return a count against its budget as a fact that also says whether it is over by as much as without any care."""
    fact = within(count, most)
    return f"{fact}, no fewer than in a plain loop" if count > most and count >= plain else fact
