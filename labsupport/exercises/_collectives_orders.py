"""Lesson 15, mending: collectives that meet in the wrong order."""

from typing import TYPE_CHECKING

import numpy as np

from labsupport.course import Case, Exercise, Misconception, Probe

if TYPE_CHECKING:  # an answer imports them itself; reading the course's exercises must not cost a second
    import torch.distributed as dist

__all__ = ["ORDER"]

_ORDER_ISSUE = "https://github.com/Lightning-AI/pytorch-lightning/issues/20946, read 2026-11"
_SETUP = "import torch\nimport torch.distributed as dist"


def total_metrics(metrics):
    """Return {name: sum over all ranks} of a dict that has the same names on every rank."""
    totals = {}
    for name in sorted(metrics):  # an order that every rank arrives at by itself
        total = metrics[name].clone()
        dist.all_reduce(total)
        totals[name] = total
    return totals


def _own_order(metrics):
    totals = {name: value.clone() for name, value in metrics.items()}
    for total in totals.values():
        dist.all_reduce(total)
    return totals


def _by_size_of_the_value(metrics):
    totals = {}
    for name in sorted(metrics, key=lambda name: metrics[name].item()):
        totals[name] = metrics[name].clone()
        dist.all_reduce(totals[name])
    return totals


def _sorted_on_rank_0(metrics):
    names = sorted(metrics) if dist.get_rank() == 0 else list(metrics)
    totals = {}
    for name in names:
        totals[name] = metrics[name].clone()
        dist.all_reduce(totals[name])
    return totals


def _sorted_by_length(metrics):
    totals = {}
    for name in sorted(metrics, key=len):
        totals[name] = metrics[name].clone()
        dist.all_reduce(totals[name])
    return totals


def _through_a_set(metrics):
    totals = {}
    for name in set(metrics):
        totals[name] = metrics[name].clone()
        dist.all_reduce(totals[name])
    return totals


def _in_the_callers_tensors(metrics):
    for name in sorted(metrics):
        dist.all_reduce(metrics[name])
    return metrics


def _only_rank_0_has_totals(metrics):
    totals = {}
    for name in sorted(metrics):
        totals[name] = metrics[name].clone()
        dist.reduce(totals[name], dst=0)
    return totals


def _averages(metrics):
    totals = {}
    for name in sorted(metrics):
        totals[name] = metrics[name].clone()
        dist.all_reduce(totals[name])
        totals[name] /= dist.get_world_size()
    return totals


def _dicts(*orders):
    """Return a maker: one dict per rank, with its names in the given order.

    Values grow with the names' place in a fixed order that differs from rank to rank, so that sorting by value,
    by name, by length and not at all pair up different numbers whatever the seed.

    Names that are layers counted from the end make hashes visible, whatever Python's hash seed is: -1 and -2 have the
    same hash, so which of them comes first in a set, or in an order by hash, is up to who was filled in first.
    """

    def one(rng, rank, names):
        low = {"loss": 10, "hits": 30, "seen": 20, "skipped": 40}
        low = low if names[0] in low else {-1: 10, -2: 30, -3: 20, -4: 40}
        shift = {name: 100 * ((place + rank) % len(low)) for place, name in enumerate(low)}
        return ({name: np.array(low[name] + shift[name] + rng.uniform(0, 5)) for name in names},)

    return lambda rng: ([one(rng, rank, names) for rank, names in enumerate(orders)],)


ORDER = Exercise(
    id="collectives/order",
    kind="debug",
    task="Repair total_metrics: each rank has a dict with the same names (all strings, or all whole numbers), filled "
    "in its own order. Return {name: sum over all ranks} on every rank; `metrics` stays as it is. It runs, and adds up "
    "what does not belong together.",
    names=("total_metrics",),
    setup=_SETUP,
    reference=total_metrics,
    cases=(
        Case(
            "2 ranks, the second filled backwards",
            _dicts(("loss", "hits", "seen", "skipped"), ("skipped", "seen", "hits", "loss")),
        ),
        Case(
            "3 ranks, three orders",
            _dicts(
                ("seen", "skipped", "loss", "hits"),
                ("skipped", "loss", "hits", "seen"),
                ("hits", "seen", "skipped", "loss"),
            ),
        ),
        Case(
            "2 ranks, the same order", _dicts(("seen", "loss", "skipped", "hits"), ("seen", "loss", "skipped", "hits"))
        ),
        Case("2 ranks, the last four layers as names: -1 to -4", _dicts((-1, -2, -3, -4), (-3, -2, -4, -1))),
    ),
    probe=Probe("ranks", {}),
    misconceptions=(
        Misconception(
            id="walks-in-its-own-order",
            specimen=_own_order,
            says="The first all_reduce of one rank meets the first of the other, whatever they are about: collectives "
            "pair up by order, and a dict keeps the order in which it was filled.",
            next="Walk through the names in an order that is the same on every rank.",
        ),
        Misconception(
            id="sorts-by-value",
            specimen=_by_size_of_the_value,
            says="You sort by the values, but those differ from rank to rank, and so does your order.",
            next="What do all ranks have in common: the values or the names?",
        ),
        Misconception(
            id="sorts-on-one-rank",
            specimen=_sorted_on_rank_0,
            says="Only some ranks sort; the others still walk in their own order, and the pairs are wrong again.",
            next="The same lines must decide the order on every rank, or one rank must send its order to the others.",
        ),
        Misconception(
            id="leaves-ties-open",
            specimen=_sorted_by_length,
            says="Names of equal length are not ordered by their length: those keep the order each rank filled "
            "them in. Whole numbers have no length at all.",
            next="Sort by something that is different for any two names.",
        ),
        Misconception(
            id="walks-through-a-set",
            specimen=_through_a_set,
            says="Your order comes from hashes, as a set's does. Names may share a hash (-1 and -2 do) and then go by "
            "who came first; hashes of strings differ from process to process.",
            next="Which order of the names depends on the names alone?",
        ),
        Misconception(
            id="overwrites-the-metrics",
            specimen=_in_the_callers_tensors,
            says="The totals are right, but they are written into the caller's own tensors: a second call would count "
            "everything again.",
            next="Reduce a clone of each value.",
        ),
        Misconception(
            id="only-rank-0-has-totals",
            specimen=_only_rank_0_has_totals,
            says="The order is right now, but `reduce` gives the totals to rank 0 only; what the others return is "
            "left over from the way there.",
            next="All ranks were promised the totals.",
        ),
        Misconception(
            id="averages",
            specimen=_averages,
            says="The pairs are right now, but these are means over the ranks. Asked for are totals.",
            next="all_reduce adds unless told otherwise, and nothing needs to be divided.",
        ),
    ),
    hints=(
        "Print the name before each call, on both ranks, and read the lines side by side.",
        "`sorted(metrics)` gives the same order wherever the names are the same.",
    ),
    core=True,
    level=2,
    minutes=6,
    source=_ORDER_ISSUE,
)
