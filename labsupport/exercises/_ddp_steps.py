"""Lesson 16: which backward passes are reduced. Accumulation, and the module inside.

The functions below are shown and run as text, on ranks, with the exercise's setup before them; nothing calls them here.
"""

import contextlib
from typing import TYPE_CHECKING

from labsupport.course import Case, Exercise, Limits, Misconception, Probe
from labsupport.exercises._ddp_training import SETUP

if TYPE_CHECKING:  # torch takes a second to load, and only the ranks need it
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as DDP

    def linear(weight): ...


__all__ = ["ACCUMULATE", "INNER_MODULE"]

_SETUP = "import contextlib\n" + SETUP
_DDP = "https://docs.pytorch.org/docs/2.13/generated/torch.nn.parallel.DistributedDataParallel.html, read 2026-11"


# -- accumulate


def accumulate(x, y, weight, lr):
    """Train with gradient accumulation, one all_reduce per step, and return the final weight, (features,).

    Args:
        x, y: this rank's samples, (steps, micro-batches, rows, features) and (steps, micro-batches, rows).
        weight: (features,), the same on every rank.
        lr: of plain SGD; a step follows the mean squared error over all its samples, of all ranks.
    """
    model = DDP(linear(weight))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    for xs, ys in zip(x, y):
        optimizer.zero_grad()
        for i in range(len(xs)):
            last = i == len(xs) - 1
            with contextlib.nullcontext() if last else model.no_sync():
                loss = (model(xs[i]) - ys[i]).square().mean() / len(xs)
                loss.backward()
        optimizer.step()
    return next(model.parameters()).detach()[0]


def _reduces_every_time(x, y, weight, lr):
    model = DDP(linear(weight))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    for xs, ys in zip(x, y):
        optimizer.zero_grad()
        for i in range(len(xs)):
            loss = (model(xs[i]) - ys[i]).square().mean() / len(xs)
            loss.backward()
        optimizer.step()
    return next(model.parameters()).detach()[0]


def _never_reduces(x, y, weight, lr):
    model = DDP(linear(weight))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    for xs, ys in zip(x, y):
        optimizer.zero_grad()
        with model.no_sync():
            for i in range(len(xs)):
                loss = (model(xs[i]) - ys[i]).square().mean() / len(xs)
                loss.backward()
        optimizer.step()
    return next(model.parameters()).detach()[0]


def _reduces_the_first(x, y, weight, lr):
    model = DDP(linear(weight))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    for xs, ys in zip(x, y):
        optimizer.zero_grad()
        for i in range(len(xs)):
            with contextlib.nullcontext() if i == 0 else model.no_sync():
                loss = (model(xs[i]) - ys[i]).square().mean() / len(xs)
                loss.backward()
        optimizer.step()
    return next(model.parameters()).detach()[0]


def _not_divided(x, y, weight, lr):
    model = DDP(linear(weight))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    for xs, ys in zip(x, y):
        optimizer.zero_grad()
        for i in range(len(xs)):
            last = i == len(xs) - 1
            with contextlib.nullcontext() if last else model.no_sync():
                loss = (model(xs[i]) - ys[i]).square().mean()
                loss.backward()
        optimizer.step()
    return next(model.parameters()).detach()[0]


def _a_step_per_micro_batch(x, y, weight, lr):
    model = DDP(linear(weight))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    for xs, ys in zip(x, y):
        for i in range(len(xs)):
            optimizer.zero_grad()
            loss = (model(xs[i]) - ys[i]).square().mean() / len(xs)
            loss.backward()
            optimizer.step()
    return next(model.parameters()).detach()[0]


def _only_the_last_counts(x, y, weight, lr):
    model = DDP(linear(weight))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    for xs, ys in zip(x, y):
        for i in range(len(xs)):
            last = i == len(xs) - 1
            optimizer.zero_grad()
            with contextlib.nullcontext() if last else model.no_sync():
                loss = (model(xs[i]) - ys[i]).square().mean() / len(xs)
                loss.backward()
        optimizer.step()
    return next(model.parameters()).detach()[0]


def _never_cleared(x, y, weight, lr):
    model = DDP(linear(weight))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    for xs, ys in zip(x, y):
        for i in range(len(xs)):
            last = i == len(xs) - 1
            with contextlib.nullcontext() if last else model.no_sync():
                loss = (model(xs[i]) - ys[i]).square().mean() / len(xs)
                loss.backward()
        optimizer.step()
    return next(model.parameters()).detach()[0]


def _accumulation_case(label, world, steps, micro):
    def make(rng):
        weight = rng.normal(size=2)
        parts = [(rng.normal(size=(steps, micro, 3, 2)), rng.normal(size=(steps, micro, 3))) for _ in range(world)]
        return ([(x, y, weight, 0.1) for x, y in parts],)

    return Case(label, make)


ACCUMULATE = Exercise(
    id="ddp/accumulate",
    kind="ranks",
    task="Train with gradient accumulation: the gradients of a step's micro-batches are added up on each rank, and "
    "reduced once per step, not once per micro-batch. Return the final weight, (features,), equal on all ranks. "
    "`linear(weight)` is given; the all_reduces are counted.",
    names=("accumulate",),
    setup=_SETUP,
    probe=Probe("ranks", {"max_collectives": {"all_reduce": 3}}),
    reference=accumulate,
    cases=(
        _accumulation_case("two ranks, three steps of four micro-batches", 2, 3, 4),
        _accumulation_case("three ranks, two steps of two micro-batches", 3, 2, 2),
    ),
    misconceptions=(
        Misconception(
            id="reduces-every-time",
            specimen=_reduces_every_time,
            says="The weights are right, at the price of one all_reduce per micro-batch. A `no_sync` around the "
            "backward alone changes nothing: whether a backward is reduced is settled in the forward.",
            next="Put the forward of all but the last micro-batch inside `no_sync`, and count again.",
        ),
        Misconception(
            id="never-reduces",
            specimen=_never_reduces,
            says="No micro-batch is reduced, nor the last one, so the ranks drift apart. Switching the reduction on "
            "between forward and backward is too late: the forward decides.",
            next="Leave the last micro-batch of each step, forward included, outside of `no_sync`.",
        ),
        Misconception(
            id="reduces-the-first",
            specimen=_reduces_the_first,
            says="You reduce the first micro-batch and keep the later ones local, so their gradients never reach the "
            "other ranks.",
            next="The backward that is reduced carries everything accumulated so far: which one should it be?",
        ),
        Misconception(
            id="not-divided",
            specimen=_not_divided,
            says="You add up the mean gradients of the micro-batches, so your step is as many times too long as there "
            "are micro-batches.",
            next="Divide so that the sum is the mean over the whole step.",
        ),
        Misconception(
            id="step-per-micro-batch",
            specimen=_a_step_per_micro_batch,
            says="Your optimizer moves after every micro-batch: that is training with smaller batches, not "
            "accumulation.",
            next="Step once the gradients of all micro-batches are together.",
        ),
        Misconception(
            id="never-cleared",
            specimen=_never_cleared,
            says="From the second step on your gradients contain those of the steps before: nothing clears them.",
            next="Clear the gradients once per step, before its first micro-batch.",
        ),
        Misconception(
            id="only-the-last-counts",
            specimen=_only_the_last_counts,
            says="Only the last micro-batch has a say in your step: the gradients of the others are cleared, or left "
            "out.",
            next="Clear them once per step, and let them add up in between.",
        ),
    ),
    hints=(
        "`with model.no_sync():` keeps gradients on their rank; they go on adding up in `.grad`. The first backward "
        "outside reduces what has gathered there.",
        "Whether a backward is reduced depends on where the *forward* before it ran.",
    ),
    core=True,
    level=3,
    minutes=8,
    points=2,
    limits=Limits(call_s=20.0),
    source=_DDP,
)


# -- inner-module


def gradient(x, y, weight):
    """Return (the gradient of the mean squared error over all ranks, (features,); this rank's loss as a float)."""
    model = DDP(linear(weight))
    loss = (model(x) - y).square().mean()
    loss.backward()
    return next(model.parameters()).grad[0], loss.item()


def _still_inside(x, y, weight):
    model = DDP(linear(weight))
    loss = (model.module(x) - y).square().mean()
    loss.backward()
    return next(model.module.parameters()).grad[0], loss.item()


def _summed_afterwards(x, y, weight):
    model = DDP(linear(weight))
    loss = (model.module(x) - y).square().mean()
    loss.backward()
    grad = next(model.module.parameters()).grad[0]
    dist.all_reduce(grad)
    return grad, loss.item()


def _loss_averaged_too(x, y, weight):
    model = DDP(linear(weight))
    loss = (model(x) - y).square().mean()
    loss.backward()
    shown = loss.detach()
    dist.all_reduce(shown)
    return next(model.parameters()).grad[0], shown.item() / dist.get_world_size()


def _loss_is_reduced(x, y, weight):
    model = DDP(linear(weight))
    loss = (model.module(x) - y).square().mean()
    dist.all_reduce(loss)
    (loss / dist.get_world_size()).backward()
    return next(model.module.parameters()).grad[0], loss.item()


def _even_case(label, world):
    def make(rng):
        weight = rng.normal(size=3)
        return ([(rng.normal(size=(4, 3)), rng.normal(size=4), weight) for _ in range(world)],)

    return Case(label, make)


INNER_MODULE = Exercise(
    id="ddp/inner-module",
    kind="debug",
    task="The gradients of the ranks should be averaged and are not. Mend it: return the gradient, (features,), of the "
    "mean squared error over the samples of all ranks, and, as before, the loss of this rank's own samples.",
    names=("gradient",),
    setup=SETUP,
    probe=Probe("ranks"),
    reference=gradient,
    cases=(_even_case("two ranks, four samples each", 2), _even_case("three ranks", 3)),
    misconceptions=(
        Misconception(
            id="still-inside",
            specimen=_still_inside,
            says="Each rank still has its own gradient: backward is reduced only if the wrapper's own forward came "
            "before it, and reduction was not switched off.",
            next="Call the wrapper itself, not the module inside.",
        ),
        Misconception(
            id="summed-afterwards",
            specimen=_summed_afterwards,
            says="You add up the ranks' gradients by hand: the sum is as many times too large as there are ranks.",
            next="Let the wrapper do it, or divide.",
        ),
        Misconception(
            id="loss-averaged",
            specimen=_loss_averaged_too,
            says="The gradient is right now, but the loss you return is averaged over the ranks; a rank's own was "
            "asked for.",
            next="Leave the loss alone: DDP averages gradients, never losses.",
        ),
        Misconception(
            id="loss-reduced",
            specimen=_loss_is_reduced,
            says="You reduce the loss. Its value travels, its gradient does not: backward on this rank still sees "
            "only this rank's samples.",
            next="It is gradients that must be averaged.",
        ),
    ),
    hints=(
        "`model` is the wrapper, `model.module` the layer inside. Which of the two can know that a forward took place?",
    ),
    core=False,
    level=2,
    minutes=4,
    limits=Limits(call_s=20.0),
    source=_DDP,
)
