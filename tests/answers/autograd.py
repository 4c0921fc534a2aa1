"""Right answers to lesson 09 that are written differently from the course's own."""

from typing import TYPE_CHECKING

import numpy as np

from labsupport.scalars import Node

if TYPE_CHECKING:
    import torch
    from torch.utils.checkpoint import checkpoint


# -- value-add-mul


class ValueOfClosures:
    """Each result carries the function that hands its gradient on."""

    def __init__(self, data):
        self.data, self.grad, self.parents, self.op = data, 0.0, (), ""
        self.push = lambda: None

    def _with(self, other):
        return self, other if isinstance(other, ValueOfClosures) else ValueOfClosures(other)

    def __add__(self, other):
        a, b = self._with(other)
        out = ValueOfClosures(a.data + b.data)
        out.parents, out.op = (a, b), "+"

        def push():
            a.grad += out.grad
            b.grad += out.grad

        out.push = push
        return out

    def __mul__(self, other):
        a, b = self._with(other)
        out = ValueOfClosures(a.data * b.data)
        out.parents, out.op = (a, b), "*"

        def push():
            a.grad += b.data * out.grad
            b.grad += a.data * out.grad

        out.push = push
        return out

    def __radd__(self, other):
        return self + other

    def __rmul__(self, other):
        return self * other


class ValueThatAsksItsOp:
    """No slopes are kept: `push` looks at the operation, and numbers are no parents."""

    def __init__(self, data, parents=(), op="", factor=1.0):
        self.data, self.grad, self.parents, self.op, self.factor = data, 0.0, parents, op, factor

    def __add__(self, other):
        if isinstance(other, ValueThatAsksItsOp):
            return ValueThatAsksItsOp(self.data + other.data, (self, other), "+")
        return ValueThatAsksItsOp(self.data + other, (self,), "+")

    def __mul__(self, other):
        if isinstance(other, ValueThatAsksItsOp):
            return ValueThatAsksItsOp(self.data * other.data, (self, other), "*")
        return ValueThatAsksItsOp(self.data * other, (self,), "+", other)

    __radd__ = __add__
    __rmul__ = __mul__

    def push(self):
        if self.op == "+":
            for parent in self.parents:
                parent.grad += self.factor * self.grad
        elif self.op == "*":
            first, second = self.parents
            first.grad, second_share = first.grad + second.data * self.grad, first.data * self.grad
            second.grad += second_share


# -- topological-backward


class ScalarThatCounts(Node):
    """Counts how many results wait for each node; one whose count is 0 pushes."""

    def backward(self, cotangent=1.0):
        waiting, found = {id(self): 0}, [self]
        for node in found:
            for parent in node.parents:
                if id(parent) not in waiting:
                    waiting[id(parent)] = 0
                    found.append(parent)
                waiting[id(parent)] += 1
        for node in found:
            if node.parents:
                node.grad = 0.0
        self.grad += cotangent
        ready = [self]
        while ready:
            node = ready.pop()
            node.push()
            for parent in node.parents:
                waiting[id(parent)] -= 1
                if waiting[id(parent)] == 0:
                    ready.append(parent)


class ScalarWithGradientsAside(Node):
    """Keeps the gradients of the pass in a dict and hands only the leaves theirs; generators stand for recursion."""

    def backward(self, cotangent=1.0):
        order, seen = [], {id(self)}
        path = [(self, iter(self.parents))]
        while path:
            node, parents = path[-1]
            parent = next((p for p in parents if id(p) not in seen), None)
            if parent is None:
                order.append(path.pop()[0])
            else:
                seen.add(id(parent))
                path.append((parent, iter(parent.parents)))
        flowing = {id(node): 0.0 for node in order}
        flowing[id(self)] = cotangent
        for node in reversed(order):
            arrived = flowing[id(node)]
            pairs = list(zip(node.parents, node.slopes))
            for parent, slope in pairs:
                flowing[id(parent)] += slope * arrived
            if not pairs:
                node.grad += arrived


class ScalarOfGenerations(Node):
    """Each node's distance along the longest way decides: the pass goes outwards, one generation at a time."""

    def backward(self, cotangent=1.0):
        nodes, waits, stack = {id(self): self}, {id(self): 0}, [self]
        while stack:
            for parent in stack.pop().parents:
                waits[id(parent)] = waits.get(id(parent), 0) + 1
                if id(parent) not in nodes:
                    nodes[id(parent)] = parent
                    stack.append(parent)
        for node in nodes.values():
            node.grad = 0.0 if node.parents else node.grad
        self.grad += cotangent
        generation = [self]
        while generation:
            following = []
            for node in generation:
                node.push()
                for parent in node.parents:
                    waits[id(parent)] -= 1
                    if waits[id(parent)] == 0:
                        following.append(parent)
            generation = following


# -- unbroadcast


def unbroadcast_in_two_steps(grad, shape):
    while grad.ndim > len(shape):
        grad = grad.sum(axis=0)
    for axis, n in enumerate(shape):
        if n == 1:
            grad = grad.sum(axis=axis, keepdims=True)
    return grad


def unbroadcast_by_one_product(grad, shape):
    letters = "abcdefgh"[: grad.ndim]
    own = letters[grad.ndim - len(shape) :]
    kept = "".join(letter for letter, n in zip(own, shape) if n != 1)
    return np.einsum(f"{letters}->{kept}", grad).reshape(shape)


def unbroadcast_by_writing_back(grad, shape):
    total = np.zeros(shape, grad.dtype)
    places = np.broadcast_to(np.arange(total.size).reshape(shape), grad.shape)
    np.add.at(total.reshape(-1), places.ravel(), grad.ravel())
    return total


# -- sgd-step


def train_behind_the_back(w, x, y, lr, steps):
    losses = []
    for _ in range(steps):
        if w.grad is not None:
            w.grad.zero_()
        loss = torch.mean((y - x.mv(w)) ** 2)
        loss.backward()
        w.data.sub_(w.grad, alpha=lr)
        losses.append(float(loss))
    return losses


def train_with_an_optimizer(w, x, y, lr, steps):
    optimizer = torch.optim.SGD([w], lr=lr)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(x @ w, y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def train_without_grad_at_all(w, x, y, lr, steps):
    losses = []
    for _ in range(steps):
        loss = ((x @ w - y) ** 2).mean()
        (gradient,) = torch.autograd.grad(loss, w)
        with torch.no_grad():
            w.add_(gradient, alpha=-lr)
        losses.append(loss.item())
    return losses


# -- detached


def relative_scores_by_where(x, w, cap):
    raw = (x @ w).exp()
    scores = torch.where(raw > cap, torch.full_like(raw, cap), raw)
    with torch.no_grad():
        scale = scores.sum() / len(scores)
    return scores**2 / scale**2


def relative_scores_by_number(x, w, cap):
    scores = torch.exp(x @ w)
    scores = torch.minimum(scores, scores.new_tensor(cap))
    return (scores * (1 / scores.mean().item())) ** 2


# -- safe-sqrt


def safe_sqrt_by_index(x):
    result = torch.zeros_like(x)
    positive = x > 0
    result[positive] = x[positive].sqrt()
    return result


def safe_sqrt_by_relu(x):
    """torch's relu stops the gradient at 0 whatever arrives, an infinite one too."""
    return x.relu().sqrt()


def safe_sqrt_by_filling(x):
    return x.masked_fill(x <= 0, 1.0).sqrt().masked_fill(x <= 0, 0.0)


# -- straight-through

_MASK_SAVED = """class RoundWithin(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, limit):
        ctx.save_for_backward((x >= -limit) & (x <= limit))
        return torch.clamp(torch.round(x), min=-limit, max=limit)

    @staticmethod
    def backward(ctx, cotangent):
        inside = ctx.saved_tensors[0]
        return torch.where(inside, cotangent, torch.zeros_like(cotangent)), None
"""

_SETUP_CONTEXT = '''class RoundWithin(torch.autograd.Function):
    """In the newer form, where `forward` has no ctx."""

    @staticmethod
    def forward(x, limit):
        return x.clamp(-limit, limit).round()

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.limit = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, cotangent):
        (x,) = ctx.saved_tensors
        return cotangent.masked_fill(x.abs() > ctx.limit, 0), None
'''


# -- logsumexp-backward


def logsumexp_backward_by_softmax(cotangent, x, result, dim):
    return torch.softmax(x, dim).mul(cotangent.unsqueeze(dim))


def logsumexp_backward_by_moving(cotangent, x, result, dim):
    last = x.movedim(dim, -1)
    share = (last - result[..., None]).exp()
    return (share * cotangent[..., None]).movedim(-1, dim)


def logsumexp_backward_shifted(cotangent, x, result, dim):
    top = x.detach().amax(dim, keepdim=True)
    weights = (x - top).exp()
    return weights / weights.sum(dim, keepdim=True) * cotangent.unsqueeze(dim)


# -- checkpoint-budget


def run_blocks_by_slices(blocks, x):
    width = max(1, round(len(blocks) ** 0.5))
    pieces = [torch.nn.Sequential(*blocks[i : i + width]) for i in range(0, len(blocks), width)]
    for piece in pieces:
        x = checkpoint(piece, x, use_reentrant=False)
    return x


def run_blocks_with_leaf_input(blocks, x):
    """Reentrant, and made to record by an input that wants a gradient; seven blocks a piece."""
    x = x.detach().clone().requires_grad_()
    width = 7 if len(blocks) > 20 else 3

    def run(some, x):
        for block in some:
            x = block(x)
        return x

    for first in range(0, len(blocks), width):
        x = checkpoint(run, blocks[first : first + width], x, use_reentrant=True)
    return x


def run_blocks_sequentially(blocks, x):
    from torch.utils.checkpoint import checkpoint_sequential

    segments = 6 if len(blocks) > 20 else 3
    return checkpoint_sequential(torch.nn.Sequential(*blocks), segments, x, use_reentrant=False)


ANSWERS = {
    "autograd/value-add-mul": [ValueOfClosures, ValueThatAsksItsOp],
    "autograd/topological-backward": [ScalarThatCounts, ScalarWithGradientsAside, ScalarOfGenerations],
    "autograd/unbroadcast": [unbroadcast_in_two_steps, unbroadcast_by_one_product, unbroadcast_by_writing_back],
    "autograd/sgd-step": [train_behind_the_back, train_with_an_optimizer, train_without_grad_at_all],
    "autograd/detached": [relative_scores_by_where, relative_scores_by_number],
    "autograd/safe-sqrt": [safe_sqrt_by_index, safe_sqrt_by_relu, safe_sqrt_by_filling],
    "autograd/straight-through": [_MASK_SAVED, _SETUP_CONTEXT],
    "autograd/logsumexp-backward": [
        logsumexp_backward_by_softmax,
        logsumexp_backward_by_moving,
        logsumexp_backward_shifted,
    ],
    "autograd/checkpoint-budget": [run_blocks_by_slices, run_blocks_with_leaf_input, run_blocks_sequentially],
}


EQUIVALENT_MUTANTS = {
    ("autograd/safe-sqrt", "Constant: 1.0"): "any positive number keeps the root away from 0; it is masked afterwards",
}
