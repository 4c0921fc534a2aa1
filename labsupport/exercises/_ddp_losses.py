"""Lesson 16: what DDP averages, and the loss that makes it a mean over samples.

The functions below are shown and run as text, on ranks, with the exercise's setup before them; nothing calls them here.
"""

from typing import TYPE_CHECKING

import numpy as np

from labsupport.course import Case, Drill, Exercise, Limits, Misconception, Probe
from labsupport.exercises._ddp_training import SETUP

if TYPE_CHECKING:  # torch takes a second to load, and only the ranks need it
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as DDP

    def linear(weight): ...


__all__ = ["PREDICT_GRADIENT", "WEIGHTED_LOSS"]

_DDP = "https://docs.pytorch.org/docs/2.13/generated/torch.nn.parallel.DistributedDataParallel.html, read 2026-11"


# -- predict-gradient


def gradient_under_ddp(parts, reduction):
    """Return d loss / d w of predictions w * x under DDP: each rank's gradient, averaged over ranks."""
    grads = [sum(part) / (len(part) if reduction == "mean" else 1) for part in parts]
    return sum(grads) / len(grads)


def _over_all_samples(parts, reduction):
    everything = [x for part in parts for x in part]
    return sum(everything) / (len(everything) if reduction == "mean" else 1)


def _added_up(parts, reduction):
    return sum(sum(part) / (len(part) if reduction == "mean" else 1) for part in parts)


def _own_of_rank_0(parts, reduction):
    return sum(parts[0]) / (len(parts[0]) if reduction == "mean" else 1)


def _gradient_case(label, reduction):
    return Case(label, lambda rng: (((1, 1), (3, 3, 3, 4)), reduction))


def _drill_inputs(rng):
    sizes = (int(rng.integers(1, 3)), int(rng.integers(3, 5)))
    parts = tuple(tuple(int(x) for x in rng.integers(1, 7, size)) for size in sizes)
    return parts, str(rng.choice(["mean", "sum"]))


def _ask_gradient(parts, reduction):
    return (
        f"A model with one weight, `prediction = w * x`; the loss is the {reduction} of the predictions. Rank 0 holds "
        f"x = {list(parts[0])}, rank 1 holds x = {list(parts[1])}. Which gradient of w do both ranks hold after "
        "backward under DDP?"
    )


PREDICT_GRADIENT = Exercise(
    id="ddp/predict-gradient",
    kind="prediction",
    task="A model with one weight, `prediction = w * x`. Rank 0 holds x = 1, 1, rank 1 holds x = 3, 3, 3, 4. Say which "
    "gradient both ranks hold after backward under DDP, for the mean of the predictions as loss and for their sum.",
    names=("gradient_of_mean", "gradient_of_sum"),
    probe=Probe("literal"),
    reference=gradient_under_ddp,
    cases=(_gradient_case("the loss is a mean", "mean"), _gradient_case("the loss is a sum", "sum")),
    misconceptions=(
        Misconception(
            id="added-up",
            specimen=_added_up,
            says="You add the ranks' gradients, or treat all samples as one sum. DDP adds them and then divides by the "
            "number of ranks, whatever the loss is.",
            next="Work out one gradient per rank, then their mean.",
        ),
        Misconception(
            id="over-all-samples",
            specimen=_over_all_samples,
            says="You treat the samples of both ranks as one batch. DDP does not know how many samples a rank had: "
            "it averages what each rank's own loss gives.",
            next="Work out one gradient per rank, then their mean.",
        ),
        Misconception(
            id="own-of-rank-0",
            specimen=_own_of_rank_0,
            says="That is rank 0's own gradient. Construction sends parameters from rank 0; backward mixes the "
            "gradients of all ranks.",
            next="Both ranks' gradients enter.",
        ),
    ),
    hints=("A rank's loss is taken over that rank's samples alone. DDP returns the mean over *ranks*.",),
    core=True,
    level=2,
    minutes=3,
    drill=Drill(_drill_inputs, _ask_gradient),
    source=_DDP,
)


# -- weighted-loss


def mean_gradient(x, y, weight):
    """Return the gradient, (features,), of the mean squared error over the samples of all ranks together.

    Args:
        x, y: this rank's samples, (rows, features) and (rows,); ranks have different numbers of rows, maybe none.
        weight: (features,), the same on every rank.
    """
    model = DDP(linear(weight))
    count = torch.tensor(len(x))
    dist.all_reduce(count)
    loss = (model(x) - y).square().sum() * dist.get_world_size() / count
    loss.backward()
    return next(model.parameters()).grad[0]


def _mean_of_means(x, y, weight):
    model = DDP(linear(weight))
    (model(x) - y).square().mean().backward()
    return next(model.parameters()).grad[0]


def _plain_sum(x, y, weight):
    model = DDP(linear(weight))
    (model(x) - y).square().sum().backward()
    return next(model.parameters()).grad[0]


def _sum_over_count(x, y, weight):
    model = DDP(linear(weight))
    count = torch.tensor(len(x))
    dist.all_reduce(count)
    ((model(x) - y).square().sum() / count).backward()
    return next(model.parameters()).grad[0]


def _sum_times_ranks(x, y, weight):
    model = DDP(linear(weight))
    ((model(x) - y).square().sum() * dist.get_world_size()).backward()
    return next(model.parameters()).grad[0]


def _means_times_ranks(x, y, weight):
    model = DDP(linear(weight))
    ((model(x) - y).square().mean() * dist.get_world_size()).backward()
    return next(model.parameters()).grad[0]


def _empty_means_nothing(x, y, weight):
    model = DDP(linear(weight))
    share = torch.tensor(len(x) / max(len(x), 1))
    dist.all_reduce(share)
    loss = (model(x) - y).square().sum() / max(len(x), 1) * dist.get_world_size() / share
    loss.backward()
    return next(model.parameters()).grad[0]


def _counts_case(label, counts, features):
    def make(rng):
        # In float32, whose tolerance leaves room for every order of adding up; all terms positive, so nothing cancels.
        def positive(*shape):
            return rng.uniform(0.5, 1.5, shape).astype(np.float32)

        weight = positive(features)
        return ([(positive(rows, features), -positive(rows), weight) for rows in counts],)

    return Case(label, make)


WEIGHTED_LOSS = Exercise(
    id="ddp/weighted-loss",
    kind="ranks",
    task="The ranks hold different numbers of samples, one may hold none. Return the gradient, (features,), of the "
    "mean squared error over all samples of all ranks, the same on every rank. `linear(weight)` is given.",
    names=("mean_gradient",),
    setup=SETUP,
    probe=Probe("ranks"),
    reference=mean_gradient,
    cases=(
        _counts_case("one sample and three", (1, 3), 2),
        _counts_case("three ranks, one without samples", (2, 0, 5), 2),
    ),
    misconceptions=(
        Misconception(
            id="mean-of-means",
            specimen=_mean_of_means,
            says="You let DDP average the means of the ranks: a lone sample then weighs like a rank full of them.",
            next="Start from each rank's sum, and ask how many samples there are in all.",
        ),
        Misconception(
            id="plain-sum",
            specimen=_plain_sum,
            says="You backpropagate each rank's sum, and DDP averages over ranks: the result is the sum over all "
            "samples, divided by the number of ranks, not of samples.",
            next="Scale the sum so that DDP's division by the ranks becomes one by the samples.",
        ),
        Misconception(
            id="forgets-the-ranks",
            specimen=_sum_over_count,
            says="You divide by the number of all samples, which is right, and forget that DDP divides by the number "
            "of ranks as well.",
            next="Undo DDP's division.",
        ),
        Misconception(
            id="only-undoes-the-ranks",
            specimen=_sum_times_ranks,
            says="You undo DDP's division by the ranks and are left with the sum over all samples; a mean divides "
            "by how many they are.",
            next="No rank knows that number alone: have the ranks add up their counts.",
        ),
        Misconception(
            id="adds-the-means",
            specimen=_means_times_ranks,
            says="You add up the means of the ranks: neither the mean over samples nor that over ranks.",
            next="A mean over all samples is a sum over all of them, divided by their number.",
        ),
        Misconception(
            id="full-ranks-count-alike",
            specimen=_empty_means_nothing,
            says="You leave out ranks without samples but let all others weigh the same, whether they hold one "
            "sample or many.",
            next="Weigh by samples: divide each rank's sum by the number of samples of all ranks.",
        ),
    ),
    hints=(
        "DDP returns the mean over ranks of what each rank's loss gives. Write down that mean for losses c times the "
        "rank's sum, and solve for c.",
        "A rank can count its own samples; `all_reduce` adds the counts.",
    ),
    core=True,
    level=3,
    minutes=8,
    points=2,
    limits=Limits(call_s=20.0),
    source=_DDP,
)
