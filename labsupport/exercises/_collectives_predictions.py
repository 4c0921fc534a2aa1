"""Lesson 15, predictions: what a collective returns, where its result lies, and in which order it adds."""

from labsupport.course import Exercise, Misconception, Probe
from labsupport.exercises._collectives_asking import instead, on_ranks, questions

__all__ = ["FLOAT_ORDER", "PREDICT_FIRST"]

_DOC = "https://docs.pytorch.org/docs/2.13/distributed.html, read 2026-11"
_FLOAT_DOC = "https://docs.pytorch.org/docs/2.13/notes/numerical_accuracy.html, read 2026-11"


# -- predict-first

_SUM, _RETURNED, _SENT, _REDUCED = (
    "dist.all_reduce(x); x.item() on rank 1",
    "y = dist.all_reduce(x); y",
    "dist.broadcast(x, src=0); x.item() on rank 1",
    "dist.reduce(x, dst=0); x.item() on rank 1",
)


def _after(question):
    import torch
    import torch.distributed as dist

    def work(rank, group):
        x = torch.tensor([1.0, 3.0][rank])
        if question in (_SUM, _RETURNED):
            y = dist.all_reduce(x, group=group)
        elif question == _SENT:
            y = dist.broadcast(x, group_src=0, group=group)
        else:
            y = dist.reduce(x, group_dst=0, group=group)
        return y if question == _RETURNED else x.item()

    return on_ranks(2, work)[1]


PREDICT_FIRST = Exercise(
    id="collectives/predict-first",
    kind="prediction",
    task="Two ranks: x is tensor(1.) on rank 0 and tensor(3.) on rank 1. Predict what four calls leave behind.",
    names=("after_all_reduce", "returned", "after_broadcast", "after_reduce"),
    setup="import torch\nimport torch.distributed as dist",
    reference=_after,
    cases=questions(_SUM, _RETURNED, _SENT, _REDUCED),
    probe=Probe("literal"),
    misconceptions=(
        Misconception(
            id="all-reduce-averages",
            specimen=instead(_after, {_SUM: 2.0}),
            says="You took the mean. Without an `op`, all_reduce adds; DDP divides gradients itself, and a metric of "
            "yours is divided by nobody.",
            next="What is 1 and 3 under ReduceOp.SUM?",
        ),
        Misconception(
            id="rank-1-is-left-out",
            specimen=instead(_after, {_SUM: 3.0}),
            says="You left rank 1 as it was. *All*-reduce puts the result on all ranks, into the tensor each of them "
            "passed in.",
            next="Compare all_reduce with reduce: which of them names a destination?",
        ),
        Misconception(
            id="result-is-returned",
            specimen=instead(_after, {_RETURNED: 4.0}),
            says="You expect the sum as a return value. The collective writes it into x and returns nothing, so "
            "`x = dist.all_reduce(x)` throws it away.",
            next="What does a Python function return that works in place?",
        ),
        Misconception(
            id="every-rank-keeps-its-own",
            specimen=instead(_after, {_SENT: 3.0}),
            says="You let rank 1 keep its value. Every rank passes a tensor to broadcast; on all ranks but the source "
            "it is overwritten.",
            next="Where else could rank 1 receive what rank 0 sends?",
        ),
        Misconception(
            id="reduce-reaches-everyone",
            specimen=instead(_after, {_REDUCED: 4.0}),
            says="You read the sum on rank 1, but only the destination gets it. Rank 1's tensor may hold anything "
            "afterwards: with two ranks gloo happens to leave it alone.",
            next="Which rank does `dst=0` name?",
        ),
    ),
    hints=(
        "Collectives work in place: each rank hands in a tensor, and the result lands in it.",
        "`all_reduce` adds unless told otherwise; `reduce` promises its result to one rank only.",
    ),
    core=True,
    level=1,
    minutes=4,
    source=_DOC,
)


# -- float-order

_IN_ORDER, _REORDERED, _ALL_RANKS, _ONE_VECTOR = (
    "(1e8 + 1) - 1e8 in float32",
    "(1e8 - 1e8) + 1 in float32",
    "four ranks, random float32: do all ranks get the same bits?",
    "four ranks hold 1e8, 1, -1e8, 1, each eight times: are the eight sums equal?",
)


def _adding(question):
    import torch
    import torch.distributed as dist

    big, one = torch.tensor(1e8, dtype=torch.float32), torch.tensor(1.0, dtype=torch.float32)
    if question == _IN_ORDER:
        return (big + one - big).item()
    if question == _REORDERED:
        return (big - big + one).item()

    def work(rank, group):
        x = torch.randn(1000, generator=torch.Generator().manual_seed(rank))
        if question == _ONE_VECTOR:
            x = torch.full((8,), [1e8, 1.0, -1e8, 1.0][rank])
        dist.all_reduce(x, group=group)
        return x.tolist()

    seen = on_ranks(4, work)
    return len(set(seen[0])) == 1 if question == _ONE_VECTOR else all(bits == seen[0] for bits in seen)


FLOAT_ORDER = Exercise(
    id="collectives/float-order",
    kind="prediction",
    task="Predict two float32 sums as numbers, and two claims about all_reduce as True or False.",
    names=("in_order", "reordered", "same_on_all_ranks", "same_in_one_vector"),
    setup="import torch\nimport torch.distributed as dist",
    reference=_adding,
    cases=questions(_IN_ORDER, _REORDERED, _ALL_RANKS, _ONE_VECTOR),
    probe=Probe("literal"),
    misconceptions=(
        Misconception(
            id="sums-are-exact",
            specimen=instead(_adding, {_IN_ORDER: 1.0}),
            says="You computed with real numbers. Near 1e8 neighbouring float32 values lie 8 apart, so adding 1 "
            "changes nothing.",
            next="Ask `torch.tensor(1e8) + 1 == 1e8`.",
        ),
        Misconception(
            id="order-does-not-matter",
            specimen=instead(_adding, {_REORDERED: 0.0}),
            says="You expect the loss of the first line here too. Now the large numbers cancel before the small one "
            "arrives, and it survives.",
            next="Evaluate the bracket first: what is left of it?",
        ),
        Misconception(
            id="ranks-drift-apart",
            specimen=instead(_adding, {_ALL_RANKS: False}),
            says="You expect every rank to add by itself, in its own order. Each piece is added up once, on one rank, "
            "and its result is copied to the others.",
            next="Who computes the sum of chunk 0 in a ring all-reduce, and how do the others get it?",
        ),
        Misconception(
            id="one-order-per-call",
            specimen=instead(_adding, {_ONE_VECTOR: True}),
            says="Equal numbers in, but not equal sums out: pieces of the vector start their way around the ranks at "
            "different ranks, so they are added in different orders.",
            next="Which rank's number comes first in chunk 0, and which in chunk 1?",
        ),
    ),
    hints=(
        "A float32 has 24 binary digits; 1e8 needs 27 of them to count in ones.",
        "In a ring, chunk k is added up along the ring from rank k on, then copied as it is.",
    ),
    core=False,
    level=3,
    minutes=5,
    source=_FLOAT_DOC,
)
