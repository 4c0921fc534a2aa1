"""Collectives as steps of messages, carried out on the learner's own values: the numbers behind the player.

A buffer is cut into chunks. A piece is what a rank holds of one chunk: the values, and the set of ranks whose
contribution is in them. Within a step all messages leave at once, with the values from before the step.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

__all__ = ["OPS", "PLANS", "REDUCING", "Message", "Piece", "Plan", "Step", "apply", "message_bytes", "plan_of"]

REDUCING = frozenset({"all_reduce", "reduce", "reduce_scatter"})
# what combines two contributions
OPS = {"sum": np.add, "product": np.multiply, "max": np.maximum, "min": np.minimum}


@dataclass(frozen=True, kw_only=True)
class Message:
    """Chunks that go from one rank to another: `slots` there, `into` here; `adds` combines them with what is there."""

    src: int
    dst: int
    slots: tuple
    into: tuple
    adds: bool


@dataclass(frozen=True, kw_only=True)
class Step:
    """Messages under way at the same time; `phase` and its place in it are for people."""

    phase: str
    messages: tuple


@dataclass(frozen=True, kw_only=True)
class Piece:
    """What a rank holds in a slot: values, and the ranks that have contributed."""

    values: object
    parts: frozenset


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A collective: who starts with what, the steps, and who ends with what.

    Attributes:
        held: pieces by rank and slot, or None where a rank holds nothing; the state before the first step.
        wanted: (rank, slot) pairs that hold the result after the last step.
        chunk_bytes: the size of each slot.
    """

    name: str  # "all_reduce"
    algorithm: str  # "ring"
    ranks: int
    root: int
    op: str
    chunks: int  # slots in one row of a lane
    chunk_bytes: tuple
    held: tuple
    steps: tuple
    wanted: frozenset = field(default=frozenset())

    @cached_property
    def states(self):
        """Return what every rank holds before the first step and after each one."""
        states = [self.held]
        for step in self.steps:
            states.append(apply(states[-1], step.messages, OPS[self.op]))
        return states

    @cached_property
    def sent(self):
        """Return the bytes each rank has sent, before the first step and after each one."""
        totals = [[0] * self.ranks]
        for step in self.steps:
            now = list(totals[-1])
            for message in step.messages:
                now[message.src] += message_bytes(self, message)
            totals.append(now)
        return totals

    def finished(self, slot, piece):
        """Return whether a piece is what the result needs in this slot: all contributions, or the right one."""
        if piece is None:
            return False
        if self.name in REDUCING:
            return len(piece.parts) == self.ranks
        if self.name in ("broadcast", "scatter"):
            return piece.parts == {self.root}
        return piece.parts == {slot % self.ranks} and (self.name != "all_to_all" or slot >= self.ranks)

    @property
    def waits_for(self):
        """Return the bytes that pass one after another: the largest message of every step, added up."""
        return sum(max(message_bytes(self, m) for m in step.messages) for step in self.steps)


def message_bytes(plan, message):
    """Return the size of a message in bytes."""
    return sum(plan.chunk_bytes[slot] for slot in message.slots)


def apply(held, messages, combine):
    """Return what every rank holds after the messages have arrived; `held` is left alone."""
    after = [list(lane) for lane in held]
    for message in messages:
        for slot, into in zip(message.slots, message.into):
            piece = held[message.src][slot]
            there = held[message.dst][into]
            if message.adds and there is not None:
                piece = Piece(values=combine(there.values, piece.values), parts=there.parts | piece.parts)
            after[message.dst][into] = piece
    return tuple(map(tuple, after))


def plan_of(name, algorithm, parts, *, root, op, chunk_bytes):
    """Return the plan of a collective.

    Args:
        name: "all_reduce", "broadcast", ...; see `PLANS`.
        algorithm: one of those the collective has.
        parts: for every rank the values of its chunks, each a 1-D array, or None where a rank starts with nothing.
        root: the rank that gives or receives, where there is one.
        op: a key of OPS.
        chunk_bytes: the size of each chunk.
    """
    ranks, chunks = len(parts), len(parts[0])
    held = tuple(
        tuple(None if values is None else Piece(values=values, parts=frozenset({rank})) for values in lane)
        for rank, lane in enumerate(parts)
    )
    steps, wanted = PLANS[name, algorithm](ranks, chunks, root)
    return Plan(
        name=name, algorithm=algorithm, ranks=ranks, root=root, op=op, steps=tuple(steps), wanted=frozenset(wanted),
        chunks=chunks // 2 if name == "all_to_all" else chunks, chunk_bytes=tuple(chunk_bytes), held=held,
    )  # fmt: skip


def _message(src, dst, slots, into=None, adds=False):
    return Message(src=src, dst=dst, slots=tuple(slots), into=tuple(slots if into is None else into), adds=adds)


def _everywhere(ranks, chunks):
    return {(r, c) for r in range(ranks) for c in range(chunks)}


def _tree_levels(ranks):
    """Return the distances of a binomial tree, from the leaves to the root: 1, 2, 4..."""
    distance, levels = 1, []
    while distance < ranks:
        levels.append(distance)
        distance *= 2
    return levels


def _up(distance, ranks, root):
    """Return who sends to whom at one level of the tree, as (child, parent)."""
    pairs = ((v, v - distance) for v in range(distance, ranks, 2 * distance))
    return [((child + root) % ranks, (parent + root) % ranks) for child, parent in pairs]


def _reduce_flat(ranks, chunks, root):
    whole = range(chunks)
    others = [(root + k) % ranks for k in range(1, ranks)]
    steps = [Step(phase="reduce", messages=(_message(r, root, whole, adds=True),)) for r in others]
    return steps, {(root, c) for c in whole}


def _reduce_tree(ranks, chunks, root):
    whole = range(chunks)
    steps = [
        Step(phase="reduce", messages=tuple(_message(a, b, whole, adds=True) for a, b in _up(d, ranks, root)))
        for d in _tree_levels(ranks)
    ]
    return steps, {(root, c) for c in whole}


def _broadcast_flat(ranks, chunks, root):
    others = [(root + k) % ranks for k in range(1, ranks)]
    steps = [Step(phase="broadcast", messages=(_message(root, r, range(chunks)),)) for r in others]
    return steps, _everywhere(ranks, chunks)


def _broadcast_tree(ranks, chunks, root):
    steps = [
        Step(phase="broadcast", messages=tuple(_message(b, a, range(chunks)) for a, b in _up(d, ranks, root)))
        for d in reversed(_tree_levels(ranks))
    ]
    return steps, _everywhere(ranks, chunks)


def _all_reduce_naive(ranks, chunks, root):
    return _reduce_flat(ranks, chunks, root)[0] + _broadcast_flat(ranks, chunks, root)[0], _everywhere(ranks, chunks)


def _all_reduce_tree(ranks, chunks, root):
    return _reduce_tree(ranks, chunks, root)[0] + _broadcast_tree(ranks, chunks, root)[0], _everywhere(ranks, chunks)


def _ring_steps(phase, ranks, first, adds):
    """Return N − 1 steps in which rank r sends one chunk to the next: chunk r + `first`, then one less each step."""
    return [
        Step(phase=phase, messages=tuple(
            _message(r, (r + 1) % ranks, [(r + first - s) % ranks], adds=adds) for r in range(ranks)))
        for s in range(ranks - 1)
    ]  # fmt: skip


def _all_reduce_ring(ranks, chunks, root):
    scatter = _ring_steps("reduce-scatter", ranks, 0, adds=True)
    return scatter + _ring_steps("all-gather", ranks, 1, adds=False), _everywhere(ranks, chunks)


def _reduce_scatter_ring(ranks, chunks, root):
    # one chunk earlier than inside the all-reduce, so that rank r ends with chunk r
    return _ring_steps("reduce-scatter", ranks, -1, adds=True), {(r, r) for r in range(ranks)}


def _all_gather_ring(ranks, chunks, root):
    return _ring_steps("all-gather", ranks, 0, adds=False), _everywhere(ranks, chunks)


def _gather_flat(ranks, chunks, root):
    others = [(root + k) % ranks for k in range(1, ranks)]
    steps = [Step(phase="gather", messages=(_message(r, root, [r]),)) for r in others]
    return steps, {(root, c) for c in range(chunks)}


def _scatter_flat(ranks, chunks, root):
    others = [(root + k) % ranks for k in range(1, ranks)]
    steps = [Step(phase="scatter", messages=(_message(root, r, [r]),)) for r in others]
    return steps, {(r, r) for r in range(ranks)}


def _all_to_all_pairwise(ranks, chunks, root):
    """Return the steps for lanes of 2N slots: the first N go out, one for each rank, the others come in."""
    steps = [
        Step(phase="exchange", messages=tuple(
            _message(r, (r + s) % ranks, [(r + s) % ranks], [ranks + r]) for r in range(ranks)))
        for s in range(1, ranks)
    ]  # fmt: skip
    return steps, {(r, ranks + c) for r in range(ranks) for c in range(ranks)}


PLANS = {
    ("broadcast", "tree"): _broadcast_tree,
    ("broadcast", "flat"): _broadcast_flat,
    ("reduce", "tree"): _reduce_tree,
    ("reduce", "flat"): _reduce_flat,
    ("all_reduce", "ring"): _all_reduce_ring,
    ("all_reduce", "tree"): _all_reduce_tree,
    ("all_reduce", "naive"): _all_reduce_naive,
    ("gather", "flat"): _gather_flat,
    ("scatter", "flat"): _scatter_flat,
    ("all_gather", "ring"): _all_gather_ring,
    ("reduce_scatter", "ring"): _reduce_scatter_ring,
    ("all_to_all", "pairwise"): _all_to_all_pairwise,
}
