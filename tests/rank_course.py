"""A rank exercise and a lesson that holds its cell, for tests of what runs answers on several ranks."""

import numpy as np

from labsupport.course import Case, Exercise, Limits, Misconception, Probe

__all__ = ["LESSON", "MEAN", "SETUP", "exercise_of", "per_rank"]

SETUP = "import torch\nimport torch.distributed as dist"

LESSON = '''\
# %% [markdown]
# # Share the mean
# One promise.
#
# **20 minutes (core), any laptop.** You will be able to share a mean.

# %%
from labsupport import lesson

lab = lesson("demo")

# %% [markdown]
# ## Your turn: `shared_mean`

# %%
# %%torchrun --nproc 2
# exercise: demo/shared-mean
import torch
import torch.distributed as dist


def shared_mean(x):
    """Return the mean of all ranks' x, on every rank; x stays as it is."""
    raise NotImplementedError


if __name__ == "__main__":
    dist.init_process_group()
    print(shared_mean(torch.arange(4.0) + dist.get_rank()))

# %%
lab.check("shared-mean")

# %% [markdown]
# ## Close
# That was it.
'''


def per_rank(world, make):
    """Return `Case.make` for `world` ranks: `make(rng)` gives the arguments of one."""
    return lambda rng: ([make(rng) for _ in range(world)],)


def _column(rng):
    return (rng.random((4, 3)).astype("f4")[:, 1],)


def shared_mean(x):
    total = x.clone()
    dist.all_reduce(total)  # noqa: F821 - the setup of the exercise imports it
    return total / dist.get_world_size()  # noqa: F821


def _keeps_the_sum(x):
    total = x.clone()
    dist.all_reduce(total)  # noqa: F821
    return total


def _only_rank_0_asks(x):
    total = x.clone()
    if dist.get_rank() == 0:  # noqa: F821
        dist.all_reduce(total)  # noqa: F821
    return total / dist.get_world_size()  # noqa: F821


def _sends_first(x):
    other = torch.empty_like(x)  # noqa: F821
    peer = 1 - dist.get_rank()  # noqa: F821
    dist.send(x.contiguous(), peer)  # noqa: F821
    dist.recv(other, peer)  # noqa: F821
    return (x + other) / 2


def exercise_of(reference, *, name="f", cases=None, misconceptions=(), call_s=5.0, kind="ranks", **options):
    """Return a rank exercise around a function or a program's text."""
    return Exercise(
        id=f"demo/{name.replace('_', '-')}",
        kind=kind,
        task="Do it.",
        names=(name,),
        reference=reference,
        cases=cases or (Case("two ranks", per_rank(2, _column)),),
        misconceptions=misconceptions,
        hints=("Which call adds up the numbers of all ranks?",),
        core=True,
        level=1,
        minutes=5,
        source="arithmetic, read 2026-11",
        setup=SETUP,
        probe=Probe("ranks", options),
        limits=Limits(call_s=call_s),
    )


MEAN = exercise_of(
    shared_mean,
    name="shared_mean",
    cases=(Case("a column of a matrix, two ranks", per_rank(2, _column)), Case("the same again", per_rank(2, _column))),
    misconceptions=(
        Misconception(
            "keeps-the-sum", _keeps_the_sum, "You return the sum, not the mean.", "How many ranks are there?"
        ),
        Misconception("one-rank-asks", _only_rank_0_asks, "Only one rank calls.", "Who else must call it?"),
        Misconception("sends-first", _sends_first, "Both ranks send first.", "Who receives while both send?"),
    ),
)


def whole(value):
    """Return what ranks returned as plain lists, to compare it in one line."""
    return {key: np.asarray(item).tolist() for key, item in value.items()}
