"""Lesson 16: training on several ranks that equals training on one.

The functions below are shown and run as text, on ranks, with the exercise's setup before them; nothing calls them here.
"""

from typing import TYPE_CHECKING

import numpy as np

from labsupport.course import Case, Exercise, Limits, Misconception, Probe

if TYPE_CHECKING:  # torch takes a second to load, and only the ranks need it
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as DDP

    def linear(weight): ...


__all__ = ["SETUP", "TRAIN_EQUALS_SINGLE"]

SETUP = '''import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def linear(weight):
    """Return a model without bias that starts from `weight`, (features,); it maps (rows, features) to (rows,)."""
    layer = torch.nn.Linear(len(weight), 1, bias=False, dtype=weight.dtype)
    with torch.no_grad():
        layer.weight.copy_(weight)
    return torch.nn.Sequential(layer, torch.nn.Flatten(0))'''

_DDP = "https://docs.pytorch.org/docs/2.13/generated/torch.nn.parallel.DistributedDataParallel.html, read 2026-11"


# -- train-equals-single


def train(x, y, weight, lr, steps, batch):
    """Train on all ranks together and return (final weight, rows this rank computed on).

    Args:
        x, y: all samples, (n, features) and (n,), the same on every rank.
        weight: (features,), different on every rank; rank 0's is the start.
        lr, steps: of plain SGD on the mean squared error.
        batch: rows of one step, over all ranks together: step k takes rows k * batch to (k + 1) * batch - 1.
    """
    model = DDP(linear(weight))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    rows = 0
    for step in range(steps):
        mine = slice(step * batch + dist.get_rank(), (step + 1) * batch, dist.get_world_size())
        loss = (model(x[mine]) - y[mine]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rows += len(x[mine])
    return next(model.parameters()).detach()[0], rows


def _never_wrapped(x, y, weight, lr, steps, batch):
    model = linear(weight)
    dist.broadcast(next(model.parameters()).data, 0)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    rows = 0
    for step in range(steps):
        mine = slice(step * batch + dist.get_rank(), (step + 1) * batch, dist.get_world_size())
        loss = (model(x[mine]) - y[mine]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rows += len(x[mine])
    return next(model.parameters()).detach()[0], rows


def _each_alone(x, y, weight, lr, steps, batch):
    model = linear(weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    rows = 0
    for step in range(steps):
        mine = slice(step * batch + dist.get_rank(), (step + 1) * batch, dist.get_world_size())
        loss = (model(x[mine]) - y[mine]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rows += len(x[mine])
    return next(model.parameters()).detach()[0], rows


def _everyone_takes_everything(x, y, weight, lr, steps, batch):
    model = DDP(linear(weight))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    rows = 0
    for step in range(steps):
        mine = slice(step * batch, (step + 1) * batch)
        loss = (model(x[mine]) - y[mine]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rows += len(x[mine])
    return next(model.parameters()).detach()[0], rows


def _everyone_takes_the_first_share(x, y, weight, lr, steps, batch):
    model = DDP(linear(weight))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    rows = 0
    for step in range(steps):
        mine = slice(step * batch, step * batch + batch // dist.get_world_size())
        loss = (model(x[mine]) - y[mine]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rows += len(x[mine])
    return next(model.parameters()).detach()[0], rows


def _a_batch_for_each_rank(x, y, weight, lr, steps, batch):
    model = DDP(linear(weight))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    rows = 0
    for step in range(steps):
        start = (step * dist.get_world_size() + dist.get_rank()) * batch % len(x)
        mine = slice(start, start + batch)
        loss = (model(x[mine]) - y[mine]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rows += len(x[mine])
    return next(model.parameters()).detach()[0], rows


def _rate_times_ranks(x, y, weight, lr, steps, batch):
    model = DDP(linear(weight))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr * dist.get_world_size())
    rows = 0
    for step in range(steps):
        mine = slice(step * batch + dist.get_rank(), (step + 1) * batch, dist.get_world_size())
        loss = (model(x[mine]) - y[mine]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rows += len(x[mine])
    return next(model.parameters()).detach()[0], rows


def _sum_of_losses(x, y, weight, lr, steps, batch):
    model = DDP(linear(weight))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    rows = 0
    for step in range(steps):
        mine = slice(step * batch + dist.get_rank(), (step + 1) * batch, dist.get_world_size())
        loss = (model(x[mine]) - y[mine]).square().sum() / batch
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rows += len(x[mine])
    return next(model.parameters()).detach()[0], rows


def _gradients_kept(x, y, weight, lr, steps, batch):
    model = DDP(linear(weight))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    rows = 0
    for step in range(steps):
        mine = slice(step * batch + dist.get_rank(), (step + 1) * batch, dist.get_world_size())
        loss = (model(x[mine]) - y[mine]).square().mean()
        loss.backward()
        optimizer.step()
        rows += len(x[mine])
    return next(model.parameters()).detach()[0], rows


def _sums_of_a_share(x, y, weight, lr, steps, batch):
    model = DDP(linear(weight))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    rows = 0
    for step in range(steps):
        mine = slice(step * batch + dist.get_rank(), (step + 1) * batch, dist.get_world_size())
        loss = (model(x[mine]) - y[mine]).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rows += len(x[mine])
    return next(model.parameters()).detach()[0], rows


def _own_start(x, y, weight, lr, steps, batch):
    model = linear(weight)
    (parameter,) = model.parameters()
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    rows = 0
    for step in range(steps):
        mine = slice(step * batch + dist.get_rank(), (step + 1) * batch, dist.get_world_size())
        loss = (model(x[mine]) - y[mine]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()
        optimizer.step()
        rows += len(x[mine])
    return parameter.detach()[0], rows


def _weights_averaged_at_the_end(x, y, weight, lr, steps, batch):
    model = linear(weight)
    (parameter,) = model.parameters()
    dist.broadcast(parameter.data, 0)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    rows = 0
    for step in range(steps):
        mine = slice(step * batch + dist.get_rank(), (step + 1) * batch, dist.get_world_size())
        loss = (model(x[mine]) - y[mine]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rows += len(x[mine])
    dist.all_reduce(parameter.data)
    return parameter.detach()[0] / dist.get_world_size(), rows


def _noisy_rule(rng, rows, features):
    """Return samples of a noisy linear rule: x (rows, features), y (rows,), float64."""
    x = rng.normal(size=(rows, features))
    return x, x @ np.arange(1.0, features + 1) + rng.normal(size=rows)


def _training_case(label, world, features, steps, batch):
    def make(rng):
        x, y = _noisy_rule(rng, batch * steps, features)
        starts = rng.normal(size=(world, features))
        return ([(x, y, start, 0.05, steps, batch) for start in starts],)

    return Case(label, make)


TRAIN_EQUALS_SINGLE = Exercise(
    id="ddp/train-equals-single",
    kind="ranks",
    task="Train a linear model on all ranks together, by plain SGD on the mean squared error, so that the final weight "
    "is the one a single process would reach with the whole batch. Return the weight, (features,), and how many rows "
    "this rank computed on. Each step's rows are shared out evenly; every rank starts from rank 0's weight. "
    "`linear(weight)` is given.",
    names=("train",),
    setup=SETUP,
    probe=Probe("ranks"),
    reference=train,
    cases=(
        _training_case("two ranks, three steps of 8 rows", 2, 3, 3, 8),
        _training_case("four ranks, four steps of 8 rows", 4, 2, 4, 8),
    ),
    misconceptions=(
        Misconception(
            id="never-wrapped",
            specimen=_never_wrapped,
            says="Your ranks start alike and then drift apart: each follows the gradient of its own rows, and nothing "
            "carries gradients from rank to rank.",
            next="Wrap the model once, before the loop, in what averages gradients during backward.",
        ),
        Misconception(
            id="each-alone",
            specimen=_each_alone,
            says="Nothing is exchanged: each rank starts from its own weight and follows the gradient of its own rows.",
            next="Wrap the model once, before the loop: that sends rank 0's weight around and averages gradients.",
        ),
        Misconception(
            id="everyone-takes-everything",
            specimen=_everyone_takes_everything,
            says="The weight is right, but each rank reports all rows of the batch: either no work was shared out, and "
            "equal gradients were averaged, or you count rows of other ranks.",
            next="Give each rank its own part of the rows of a step, and count those.",
        ),
        Misconception(
            id="same-share",
            specimen=_everyone_takes_the_first_share,
            says="All your ranks take the same part of each batch, so the rest of its rows is never trained on.",
            next="Let the part depend on the rank.",
        ),
        Misconception(
            id="batch-per-rank",
            specimen=_a_batch_for_each_rank,
            says="Each of your ranks takes a whole batch, so a step sees world times as many rows as the single "
            "process it must equal.",
            next="`batch` counts the rows of all ranks together; divide them among the ranks.",
        ),
        Misconception(
            id="steps-too-long",
            specimen=_rate_times_ranks,
            says="Your steps are as many times too long as there are ranks: the learning rate is multiplied by them, "
            "or gradients are added up where they should be averaged.",
            next="Ask what one process with this batch would do; a larger rate belongs to a larger batch.",
        ),
        Misconception(
            id="divided-twice",
            specimen=_sum_of_losses,
            says="You divide a rank's sum by the rows of the whole batch, and DDP then averages over ranks: the "
            "gradient is divided by the number of ranks twice.",
            next="Work out what the mean of the ranks' gradients should be, and give each rank that loss.",
        ),
        Misconception(
            id="sum-of-a-share",
            specimen=_sums_of_a_share,
            says="Your loss is the sum over a rank's rows, where a mean was asked for: the steps are as many times "
            "too long as a rank has rows.",
            next="Take the mean over the rank's rows; DDP then takes the mean over ranks.",
        ),
        Misconception(
            id="gradients-kept",
            specimen=_gradients_kept,
            says="From the second step on your gradients contain those of the steps before: nothing clears them.",
            next="Clear the gradients once per step, before the backward pass.",
        ),
        Misconception(
            id="own-start",
            specimen=_own_start,
            says="You average the gradients by hand, but each rank starts from its own weight, so equal updates keep "
            "them different for good.",
            next="DDP sends rank 0's parameters to everyone when it is constructed; do the same.",
        ),
        Misconception(
            id="averaged-at-the-end",
            specimen=_weights_averaged_at_the_end,
            says="Your ranks train alone and average their weights once, at the end. After the first step each one "
            "takes its gradient at a different place.",
            next="Average the gradients in every step, before the optimizer moves.",
        ),
    ),
    hints=(
        "DDP does two things: it sends rank 0's parameters to every rank when it is constructed, and averages the "
        "gradients of all ranks during backward.",
        "The mean over a batch is the mean of the ranks' means when every rank has equally many rows: each rank "
        "takes batch // world of them, a different part each.",
    ),
    core=True,
    level=3,
    minutes=10,
    points=3,
    limits=Limits(call_s=20.0),
    source=_DDP,
)
