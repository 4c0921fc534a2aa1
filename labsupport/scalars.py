"""A reverse-mode engine for single numbers: small enough to read at one go, and right to the last digits.

`Node` records a computation: each has `data`, `grad`, `parents`, `slopes` (its derivative by each parent, worked out
when it is made) and `op`. `Number` adds the pass backward. Lesson 09 has its readers write both; no array, no torch.
"""

import math

__all__ = ["Node", "Number"]


class Node:
    """A number that remembers how it was made: everything an engine needs but the pass backward.

    Args:
        data: the number.
        parents: the nodes it was made from, in order; none for a leaf.
        slopes: its derivative by each parent, in the same order.
        op: the operation, in a word.
    """

    def __init__(self, data, parents=(), slopes=(), op=""):
        self.data, self.grad = data, 0.0
        self.parents, self.slopes, self.op = parents, slopes, op

    def __repr__(self):
        return f"{type(self).__name__}({self.data:.6g}, grad={self.grad:.6g})"

    def push(self):
        """Hand this node's gradient on to its parents, who add it to theirs."""
        for parent, slope in zip(self.parents, self.slopes, strict=True):
            parent.grad += slope * self.grad

    def _node(self, other):
        return other if isinstance(other, Node) else type(self)(other)

    def __add__(self, other):
        other = self._node(other)
        return type(self)(self.data + other.data, (self, other), (1.0, 1.0), "+")

    def __mul__(self, other):
        other = self._node(other)
        return type(self)(self.data * other.data, (self, other), (other.data, self.data), "*")

    def __pow__(self, power):
        """Return this node to a power that is a plain number."""
        return type(self)(self.data**power, (self,), (power * self.data ** (power - 1),), f"**{power:g}")

    def __neg__(self):
        return self * -1.0

    def __sub__(self, other):
        return self + -self._node(other)

    def __truediv__(self, other):
        return self * self._node(other) ** -1

    def __rsub__(self, other):
        return self._node(other) - self

    def __rtruediv__(self, other):
        return self._node(other) / self

    __radd__, __rmul__ = __add__, __mul__

    def _of(self, function, data, slope):
        return type(self)(data, (self,), (slope,), function)

    def exp(self):
        data = math.exp(self.data)
        return self._of("exp", data, data)

    def log(self):
        return self._of("log", math.log(self.data), 1 / self.data)

    def tanh(self):
        data = math.tanh(self.data)
        return self._of("tanh", data, 1 - data * data)

    def relu(self):
        return self._of("relu", max(self.data, 0.0), float(self.data > 0))


class Number(Node):
    """A `Node` with `backward`, which fills in the gradients of all it was made from."""

    def backward(self, cotangent=1.0):
        """Add `cotangent` times the derivative of this number by each leaf to the leaf's `grad`.

        Nodes in between hold their own part of this pass afterwards: they do not add up from call to call.
        """
        order, seen, stack = [], set(), [(self, False)]
        while stack:  # and no recursion: a long sum is as deep as it has terms
            node, finished = stack.pop()
            if finished:
                order.append(node)  # after all its parents
            elif id(node) not in seen:
                seen.add(id(node))
                stack.append((node, True))
                stack.extend((parent, False) for parent in node.parents)
        for node in order:
            if node.parents:
                node.grad = 0.0
        self.grad += cotangent
        for node in reversed(order):  # before all its parents: what arrives is complete
            node.push()
