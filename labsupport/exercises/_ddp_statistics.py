"""Lesson 16: running statistics, which nobody averages.

The functions below are shown and run as text, on ranks, with the exercise's setup before them; nothing calls them here.
"""

from typing import TYPE_CHECKING

from labsupport.course import Case, Exercise, Limits, Misconception, Probe

if TYPE_CHECKING:  # torch takes a second to load, and only the ranks need it
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as DDP


__all__ = ["BATCH_STATISTICS"]

_SETUP = "import torch\nimport torch.distributed as dist\nfrom torch.nn.parallel import DistributedDataParallel as DDP"
_DDP = "https://docs.pytorch.org/docs/2.13/generated/torch.nn.parallel.DistributedDataParallel.html, read 2026-11"


# -- batch-statistics


def running_mean(x):
    """Return the mean over ranks of the running means, (features,), that each rank gathers from its own batches.

    Args:
        x: this rank's batches, (steps, rows, features).
    """
    model = DDP(torch.nn.BatchNorm1d(x.shape[2], dtype=x.dtype), forward_sync_buffers=False)
    for batch in x:
        model(batch)
    mean = model.module.running_mean.clone()
    dist.all_reduce(mean)
    return mean / dist.get_world_size()


def _as_it_comes(x):
    model = DDP(torch.nn.BatchNorm1d(x.shape[2], dtype=x.dtype))
    for batch in x:
        model(batch)
    return model.module.running_mean


def _averaged_once(x):
    model = DDP(torch.nn.BatchNorm1d(x.shape[2], dtype=x.dtype))
    for batch in x:
        model(batch)
    mean = model.module.running_mean.clone()
    dist.all_reduce(mean)
    return mean / dist.get_world_size()


def _kept_apart(x):
    model = DDP(torch.nn.BatchNorm1d(x.shape[2], dtype=x.dtype), forward_sync_buffers=False)
    for batch in x:
        model(batch)
    return model.module.running_mean


def _broadcast_from_rank_0(x):
    model = DDP(torch.nn.BatchNorm1d(x.shape[2], dtype=x.dtype), forward_sync_buffers=False)
    for batch in x:
        model(batch)
    mean = model.module.running_mean.clone()
    dist.broadcast(mean, 0)
    return mean


def _summed(x):
    model = DDP(torch.nn.BatchNorm1d(x.shape[2], dtype=x.dtype), forward_sync_buffers=False)
    for batch in x:
        model(batch)
    mean = model.module.running_mean.clone()
    dist.all_reduce(mean)
    return mean


def _batches_case(label, world, steps):
    def make(rng):
        return ([(rng.normal(loc=rank + 1.0, size=(steps, 4, 2)),) for rank in range(world)],)

    return Case(label, make)


BATCH_STATISTICS = Exercise(
    id="ddp/batch-statistics",
    kind="debug",
    task="After training, every rank should hold the mean over ranks of the running means that ranks gathered, each "
    "from its own batches. They hold something else. Mend it; return the mean, (features,).",
    names=("running_mean",),
    setup=_SETUP,
    probe=Probe("ranks"),
    reference=running_mean,
    cases=(_batches_case("two ranks, three batches", 2, 3), _batches_case("three ranks, two batches", 3, 2)),
    misconceptions=(
        Misconception(
            id="as-it-comes",
            specimen=_as_it_comes,
            says="Running statistics are not averaged: before each forward rank 0's replace everybody's, so what "
            "another rank gathered is gone but for its last batch.",
            next="Two things are needed: stop that replacing, and average at the end.",
        ),
        Misconception(
            id="averaged-once",
            specimen=_averaged_once,
            says="You average at the end, but during training rank 0's statistics went on replacing the others' "
            "before each forward.",
            next="DDP has an argument that says whether buffers are sent around before each forward.",
        ),
        Misconception(
            id="kept-apart",
            specimen=_kept_apart,
            says="Now each rank keeps what it gathered, and the ranks disagree: DDP averages gradients, never buffers.",
            next="Bring them together at the end.",
        ),
        Misconception(
            id="rank-0-for-all",
            specimen=_broadcast_from_rank_0,
            says="All ranks agree now, on what rank 0 saw; the batches of the others left no trace.",
            next="Average instead of sending one rank's.",
        ),
        Misconception(
            id="summed",
            specimen=_summed,
            says="You add the means of the ranks; a mean of means divides by the number of ranks.",
            next="Divide what `all_reduce` leaves in the tensor.",
        ),
    ),
    hints=(
        "Running mean and variance are buffers, not parameters: no gradient, so no averaging.",
        "`forward_sync_buffers=False` leaves each rank its own; one `all_reduce` at the end makes them one.",
    ),
    core=False,
    level=3,
    minutes=6,
    limits=Limits(call_s=20.0),
    source=_DDP,
)
