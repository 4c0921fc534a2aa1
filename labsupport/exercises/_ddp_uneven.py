"""Lesson 16: ranks that run out of batches, and a rate that grows with the ranks.

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


__all__ = ["SCALE_RATE", "UNEVEN"]

_SETUP = "import contextlib\n" + SETUP
_JOIN = "https://docs.pytorch.org/docs/2.13/distributed.algorithms.join.html, read 2026-11"


# -- uneven


def train_uneven(batches, weight, lr):
    """Train until every rank has used its batches and return the final weight, (features,).

    Args:
        batches: this rank's list of (x, y), (rows, features) and (rows,); the lists differ in length, none is empty.
        weight: (features,), the same on every rank.
        lr: of plain SGD. A step follows the mean gradient of the ranks that still have a batch.
    """
    model = DDP(linear(weight))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    with model.join(divide_by_initial_world_size=False):
        for x, y in batches:
            optimizer.zero_grad()
            (model(x) - y).square().mean().backward()
            optimizer.step()
    return next(model.parameters()).detach()[0]


def _just_loops(batches, weight, lr):
    model = DDP(linear(weight))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    for x, y in batches:
        optimizer.zero_grad()
        (model(x) - y).square().mean().backward()
        optimizer.step()
    return next(model.parameters()).detach()[0]


def _joins_by_default(batches, weight, lr):
    model = DDP(linear(weight))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    with model.join():
        for x, y in batches:
            optimizer.zero_grad()
            (model(x) - y).square().mean().backward()
            optimizer.step()
    return next(model.parameters()).detach()[0]


def _stops_with_the_shortest(batches, weight, lr):
    model = DDP(linear(weight))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    steps = torch.tensor(len(batches))
    dist.all_reduce(steps, op=dist.ReduceOp.MIN)
    for x, y in batches[: int(steps)]:
        optimizer.zero_grad()
        (model(x) - y).square().mean().backward()
        optimizer.step()
    return next(model.parameters()).detach()[0]


def _repeats_its_last(batches, weight, lr):
    model = DDP(linear(weight))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    steps = torch.tensor(len(batches))
    dist.all_reduce(steps, op=dist.ReduceOp.MAX)
    for step in range(int(steps)):
        x, y = batches[min(step, len(batches) - 1)]
        optimizer.zero_grad()
        (model(x) - y).square().mean().backward()
        optimizer.step()
    return next(model.parameters()).detach()[0]


def _goes_on_alone(batches, weight, lr):
    model = DDP(linear(weight))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    common = torch.tensor(len(batches))
    dist.all_reduce(common, op=dist.ReduceOp.MIN)
    for step, (x, y) in enumerate(batches):
        optimizer.zero_grad()
        with contextlib.nullcontext() if step < common else model.no_sync():
            (model(x) - y).square().mean().backward()
        optimizer.step()
    return next(model.parameters()).detach()[0]


def _uneven_case(label, lengths):
    def make(rng):
        weight = rng.normal(size=2)
        # Rows differ from rank to rank: the mean is one over ranks, whatever they hold.
        rows = range(1, 1 + len(lengths))
        lists = [[(rng.normal(size=(m, 2)), rng.normal(size=m)) for _ in range(n)] for n, m in zip(lengths, rows)]
        return ([(batches, weight, 0.1) for batches in lists],)

    return Case(label, make)


UNEVEN = Exercise(
    id="ddp/uneven",
    kind="ranks",
    task="The ranks have different numbers of batches. Train until all are used, without a hang, by plain SGD on the "
    "mean squared error: each step follows the mean of the gradients of the ranks that still have a batch, every rank "
    "weighing the same. Return the final weight, (features,), equal on all ranks. `linear(weight)` is given.",
    names=("train_uneven",),
    setup=_SETUP,
    probe=Probe("ranks"),
    reference=train_uneven,
    cases=(
        _uneven_case("three batches and two", (3, 2)),
        _uneven_case("three, two and five batches", (3, 2, 5)),
    ),
    misconceptions=(
        Misconception(
            id="just-loops",
            specimen=_just_loops,
            says="A rank that has used its batches stops calling, and the others wait in their next all_reduce for "
            "good.",
            next="Ranks without batches must still take part, or the others must know; see `model.join`.",
        ),
        Misconception(
            id="joins-by-default",
            specimen=_joins_by_default,
            says="Your late steps are too short: the sum of gradients is still divided by the number of ranks at the "
            "start, as the join context does unless it is told otherwise.",
            next="Read what `join` offers for dividing by the ranks that still take part.",
        ),
        Misconception(
            id="stops-with-the-shortest",
            specimen=_stops_with_the_shortest,
            says="All ranks stop with the shortest list, so the batches beyond it are never used.",
            next="Ranks that have run out must let the others go on.",
        ),
        Misconception(
            id="repeats-its-last",
            specimen=_repeats_its_last,
            says="Ranks that have run out repeat their last batch, which then counts several times.",
            next="A rank without a batch should add nothing, and not be counted in the mean.",
        ),
        Misconception(
            id="goes-on-alone",
            specimen=_goes_on_alone,
            says="Past the shortest list each rank trains on its own, so the ranks end with different weights.",
            next="Those that still have batches must reduce together, and the others must follow.",
        ),
    ),
    hints=(
        "`model.join()` lets ranks that are done answer the others' all_reduces with zeros.",
        "Zeros divided by all ranks make the mean too small; `join` takes an argument that says what to divide by.",
    ),
    core=False,
    level=4,
    minutes=8,
    points=2,
    limits=Limits(call_s=20.0),
    source=_JOIN,
)
# -- scale-rate


def rate(step, base, world, warmup):
    """Return the learning rate of a step, counted from 0.

    Args:
        step, warmup: number of this step, and how many steps the warm-up takes.
        base: the rate that is right for one rank.
        world: ranks; the batch is that many times larger, and so is the rate after the warm-up.
    """
    grown = min(1.0, step / warmup) if warmup else 1.0
    return base * (1 + (world - 1) * grown)


def _at_once(step, base, world, warmup):
    return base * world


def _from_nothing(step, base, world, warmup):
    return base * world * (min(1.0, step / warmup) if warmup else 1.0)


def _never_scaled(step, base, world, warmup):
    return base


def _by_the_root(step, base, world, warmup):
    grown = min(1.0, step / warmup) if warmup else 1.0
    return base * (1 + (world**0.5 - 1) * grown)


def _keeps_growing(step, base, world, warmup):
    return base * (1 + (world - 1) * (step / warmup if warmup else 1.0))


def _a_step_early(step, base, world, warmup):
    return base * (1 + (world - 1) * min(1.0, (step + 1) / (warmup or 1)))


def _rate_case(label, step, world, warmup):
    return Case(label, lambda rng: (step, round(float(rng.uniform(0.01, 0.2)), 4), world, warmup))


SCALE_RATE = Exercise(
    id="ddp/scale-rate",
    kind="function",
    task="With w ranks the batch is w times larger, and the rate is scaled up likewise, but not at once: it grows "
    "linearly from `base` at step 0 to `base * world` at step `warmup`, and stays there. Without warm-up it is scaled "
    "from the start.",
    names=("rate",),
    reference=rate,
    cases=(
        _rate_case("the first step", 0, 8, 10),
        _rate_case("half of the warm-up", 5, 8, 10),
        _rate_case("the last step of the warm-up", 9, 4, 10),
        _rate_case("the warm-up is over", 10, 4, 10),
        _rate_case("long after", 500, 4, 10),
        _rate_case("one rank", 3, 1, 10),
        _rate_case("no warm-up", 0, 4, 0),
    ),
    misconceptions=(
        Misconception(
            id="at-once",
            specimen=_at_once,
            says="You scale from the first step. Early gradients are large and point in changing directions; that is "
            "what the warm-up is for.",
            next="Let the rate grow from `base`.",
        ),
        Misconception(
            id="from-nothing",
            specimen=_from_nothing,
            says="Your rate starts at zero, so the first step changes nothing; here it starts at what is right for "
            "one rank.",
            next="At step 0 the rate is `base`.",
        ),
        Misconception(
            id="never-scaled",
            specimen=_never_scaled,
            says="Your rate ignores the ranks: with a batch that is w times larger an epoch has w times fewer steps, "
            "each as short as before.",
            next="After the warm-up the rate is `base * world`.",
        ),
        Misconception(
            id="by-the-root",
            specimen=_by_the_root,
            says="You scale by the square root of the ranks. That is another rule, argued for adaptive optimizers; "
            "the linear one was asked for.",
            next="After the warm-up the rate is `base * world`.",
        ),
        Misconception(
            id="keeps-growing",
            specimen=_keeps_growing,
            says="Your rate goes on growing after the warm-up.",
            next="It stays at `base * world` once the warm-up is over.",
        ),
        Misconception(
            id="a-step-early",
            specimen=_a_step_early,
            says="Your warm-up is a step early: step 0 is already scaled up a little.",
            next="At step 0 the rate is `base`, at step `warmup` it is `base * world`.",
        ),
    ),
    hints=("Write the factor as 1 + (world - 1) times the part of the warm-up that is over, at most 1.",),
    core=False,
    level=2,
    minutes=4,
    source="Goyal et al., Accurate, Large Minibatch SGD, 2017, sections 2.1 and 2.2, https://arxiv.org/abs/1706.02677",
)
