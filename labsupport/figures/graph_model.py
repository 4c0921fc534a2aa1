"""A computation as plain data: nodes in the order in which they were computed, and the steps of its backward pass.

`graph_values.py` reads it from objects of one's own, `graph_torch.py` from a tensor; the rest draws what is here.
"""

from dataclasses import dataclass, field, replace
from math import prod

from labsupport.figures.words import clip_label, tuple_text, value_label

__all__ = ["Add", "Amount", "Graph", "Node", "Saved", "Step", "Stop", "amount_of", "children_of", "name_nodes"]

MOST_LISTED = 6  # elements of an array that are written out in sentences
WIDEST = 11  # letters of a value in its box


@dataclass(frozen=True)
class Amount:
    """A value or gradient as it is shown: a short text, and the number behind it where it is a single one."""

    text: str
    number: float | None = None
    listed: str = ""  # the elements of a small array, for sentences

    @property
    def words(self):
        """The amount as it stands in a sentence."""
        return self.listed or self.text


@dataclass(frozen=True)
class Saved:
    """A tensor that a node keeps for backward: its bytes, and its version counter when it was kept and now.

    `memory` tells tensors of the same memory apart from others; `problem` is why it cannot be read any more.
    """

    name: str
    bytes: int = 0
    version: int = 0
    now: int = 0
    memory: tuple = ()
    problem: str = ""


@dataclass
class Node:
    """One value of a computation, or several folded into one.

    Args:
        op: how it was computed, as short as it is drawn; "" for what was given.
        parents: the numbers of its inputs, in order; a node used twice is there twice.
        value: its `Amount`, None when nothing keeps it.
        kind: "leaf", "op", "constant" (gets no gradient) or "fold".
        full: the operation's full name, where it has one.
        members: how many nodes it stands for.
    """

    op: str
    parents: tuple
    value: Amount | None
    kind: str = "op"
    name: str = ""
    full: str = ""
    saved: tuple = ()
    members: int = 1
    ref: str = ""  # what it is called in words: its name, or "#5"


@dataclass(frozen=True)
class Add:
    """One contribution to the gradient of `target`: what was there, what came, what is there now.

    `assigned`: the old gradient was not read, so it was replaced and not added to.
    """

    target: int
    amount: Amount
    becomes: Amount
    before: Amount | None = None
    assigned: bool = False


@dataclass(frozen=True)
class Step:
    """Backward through one node: the gradient that arrived at it, and what it added to its inputs."""

    source: int
    arrived: Amount | None
    adds: tuple


@dataclass(frozen=True)
class Stop:
    """Where and why backward ended early: a node's number or None, a sentence, and the error's own first line."""

    node: int | None
    words: str
    error: str = ""


@dataclass
class Graph:
    """Nodes in forward order (every parent before its child; the last is the result) and the steps of backward."""

    nodes: list
    steps: list
    seed: Amount
    maker: str  # "your own Value", "torch 2.13.0"
    stop: Stop | None = None
    grads: dict = field(default_factory=dict)  # number of a node -> the gradient it ends with
    keeps: bool = False  # whether saved tensors are part of the story
    held: tuple = ()  # leaves that hold a gradient of an earlier pass: "w.grad"
    folded: str = ""  # what was folded, as a sentence


def amount_of(value):
    """Return the `Amount` of a number, an array or anything else; None for None."""
    if value is None:
        return None
    shape = getattr(value, "shape", None)
    if shape is not None and tuple(shape) != ():
        return _of_array(value, tuple(shape))
    if hasattr(value, "item"):
        value = value.item()
    if not isinstance(value, bool | int | float):
        return Amount(value_label(value))
    return Amount(_number(value), value)


def _of_array(value, shape):
    size = prod(shape)
    if size == 1:
        return amount_of(value.reshape(()))
    text = clip_label(tuple_text(shape), WIDEST)
    if size > MOST_LISTED:
        return Amount(text)
    listed = _listed(value.tolist())
    return Amount(listed if len(listed) <= WIDEST else text, None, listed)


def _listed(values):
    if isinstance(values, list):
        return f"[{', '.join(map(_listed, values))}]"
    return _number(values)


def _number(value):
    """Return a number in at most 9 letters: four digits, or as many as there is room for beside the exponent."""
    if not isinstance(value, float):
        return value_label(value).replace("-", "−")
    texts = (f"{value:.{digits}g}" for digits in (4, 3, 2, 1))
    return next(text for text in texts if len(text) <= 9).replace("-", "−")


def children_of(nodes):
    """Return for each node the (number of the child, place among its inputs) of each of its uses."""
    uses = [[] for _ in nodes]
    for number, node in enumerate(nodes):
        for place, parent in enumerate(node.parents):
            uses[parent].append((number, place))
    return uses


def name_nodes(nodes):
    """Return the nodes with what each is called: its name, or its place in the order of computing."""
    return [replace(node, ref=node.name or f"#{number}") for number, node in enumerate(nodes, 1)]
