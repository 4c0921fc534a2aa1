"""Lesson 16: evaluating on several ranks, each sample once, and on one rank alone.

The functions below are shown and run as text, on ranks, with the exercise's setup before them; nothing calls them here.
"""

from typing import TYPE_CHECKING

import numpy as np

from labsupport.course import Case, Exercise, Limits, Misconception, Probe

if TYPE_CHECKING:  # torch takes a second to load, and only the ranks need it
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as DDP
    from torch.utils.data import DistributedSampler

    def small_net(): ...


__all__ = ["EXACT_EVAL", "VALIDATE_ONCE"]

_SAMPLING = "import torch\nimport torch.distributed as dist\nfrom torch.utils.data import DistributedSampler"
_DDP_SETUP = (
    "import torch\nimport torch.distributed as dist\nfrom torch.nn.parallel import DistributedDataParallel as DDP"
)
_DDP = "https://docs.pytorch.org/docs/2.13/generated/torch.nn.parallel.DistributedDataParallel.html, read 2026-11"
_SAMPLER = "https://docs.pytorch.org/docs/2.13/data.html#torch.utils.data.distributed.DistributedSampler, read 2026-11"


# -- exact-eval


def evaluate(right):
    """Return (accuracy over all samples, indices of the samples this rank looked at).

    Args:
        right: (n,) bool, whether the model is right on each sample. Rank r of w looks at samples r, r + w, r + 2w, ...
    """
    mine = list(range(dist.get_rank(), len(right), dist.get_world_size()))
    totals = torch.tensor([int(right[mine].sum()), len(mine)])
    dist.all_reduce(totals)
    return totals[0].item() / totals[1].item(), mine


def _by_sampler(right):
    mine = list(DistributedSampler(right, shuffle=False))
    totals = torch.tensor([int(right[mine].sum()), len(mine)])
    dist.all_reduce(totals)
    return totals[0].item() / totals[1].item(), mine


def _by_sampler_dropping(right):
    mine = list(DistributedSampler(right, shuffle=False, drop_last=True))
    totals = torch.tensor([int(right[mine].sum()), len(mine)])
    dist.all_reduce(totals)
    return totals[0].item() / totals[1].item(), mine


def _mean_of_accuracies(right):
    mine = list(range(dist.get_rank(), len(right), dist.get_world_size()))
    share = right[mine].double().mean()
    dist.all_reduce(share)
    return share.item() / dist.get_world_size(), mine


def _own_accuracy(right):
    mine = list(range(dist.get_rank(), len(right), dist.get_world_size()))
    return right[mine].double().mean().item(), mine


def _everyone_looks_at_all(right):
    mine = list(range(len(right)))
    return right.double().mean().item(), mine


def _reduced_to_rank_0(right):
    mine = list(range(dist.get_rank(), len(right), dist.get_world_size()))
    totals = torch.tensor([int(right[mine].sum()), len(mine)])
    dist.reduce(totals, 0)
    if dist.get_rank() != 0:
        return None, mine
    return totals[0].item() / totals[1].item(), mine


def _padded_sum_over_all(right):
    mine = list(DistributedSampler(right, shuffle=False))
    hits = torch.tensor(int(right[mine].sum()))
    dist.all_reduce(hits)
    return hits.item() / len(right), mine


def _rightness_case(label, world, samples):
    """Return a case in which only ranks with a sample more are ever right: then no wrong average is right by luck.

    A power of two of samples: the accuracy is exact in any precision.
    """
    more = samples % world

    def make(rng):
        right = (rng.random(samples) < 0.5) & (np.arange(samples) % world < more)
        right[: -samples % world] = True  # the sampler repeats these
        right[samples - more :] = False  # and drops these
        return ([(right,)] * world,)

    return Case(label, make)


EXACT_EVAL = Exercise(
    id="ddp/exact-eval",
    kind="ranks",
    task="Evaluate on all ranks so that each sample counts exactly once: rank r of w looks at samples r, r + w, "
    "r + 2w, ... Return the accuracy over all samples, equal on every rank, and the list of indices this rank looked "
    "at.",
    names=("evaluate",),
    setup=_SAMPLING,
    probe=Probe("ranks"),
    reference=evaluate,
    cases=(
        _rightness_case("32 samples on three ranks", 3, 32),
        Case("two samples on three ranks", lambda rng: ([(np.array([True, False]),)] * 3,)),
    ),
    misconceptions=(
        Misconception(
            id="sampler-pads",
            specimen=_by_sampler,
            says="The sampler gives every rank equally many samples by repeating the first ones, which are "
            "then counted twice.",
            next="Take the indices r, r + w, ... yourself; evaluation needs no equal shares.",
        ),
        Misconception(
            id="sampler-drops",
            specimen=_by_sampler_dropping,
            says="With `drop_last` the sampler leaves out the samples that do not fill a round, so they are never "
            "evaluated.",
            next="Take the indices r, r + w, ... yourself; evaluation needs no equal shares.",
        ),
        Misconception(
            id="mean-of-accuracies",
            specimen=_mean_of_accuracies,
            says="You average the ranks' accuracies: a rank with fewer samples counts as much as one with more.",
            next="Add up the hits and the samples of all ranks, and divide once.",
        ),
        Misconception(
            id="own-accuracy",
            specimen=_own_accuracy,
            says="Each rank returns the accuracy on its own samples; nothing is brought together.",
            next="Which collective gives every rank the sum over ranks?",
        ),
        Misconception(
            id="looks-at-all",
            specimen=_everyone_looks_at_all,
            says="The accuracy is right, but every rank looked at all samples: as slow as one process.",
            next="Look at this rank's share and let the ranks add up their counts.",
        ),
        Misconception(
            id="only-rank-0-knows",
            specimen=_reduced_to_rank_0,
            says="Only rank 0 gets the sums: the others return nothing, and code that goes on from the accuracy "
            "would do different things on different ranks.",
            next="Use the collective that leaves the sum on every rank.",
        ),
        Misconception(
            id="repeats-in-the-hits",
            specimen=_padded_sum_over_all,
            says="You divide by the true number of samples, but the hits contain those of the samples the sampler "
            "repeated.",
            next="Do not let any sample be looked at twice.",
        ),
    ),
    hints=(
        "`range(rank, n, world)` shares out any number of samples, each exactly once.",
        "Two numbers must cross: how many are right, and how many there are. One `all_reduce` can carry both.",
    ),
    core=False,
    level=2,
    minutes=6,
    points=2,
    limits=Limits(call_s=20.0),
    source=_SAMPLER,
)


# -- validate-once

_NET = (
    _DDP_SETUP
    + '''


def small_net():
    """Return a model with batch normalisation; it maps (rows, 2) to (rows,), float64, the same on every rank."""
    torch.manual_seed(0)
    layers = torch.nn.BatchNorm1d(2), torch.nn.Linear(2, 1), torch.nn.Flatten(0)
    return torch.nn.Sequential(*layers).double()'''
)


def validate(x, y, seen_x, seen_y):
    """Train a step, validate on rank 0, train a step more; return (validation loss, loss of the second step).

    Args:
        x, y: this rank's batches, (2, rows, 2) and (2, rows).
        seen_x, seen_y: what to validate on, (rows, 2) and (rows,), the same on every rank.

    Returns:
        The validation loss, a float, on rank 0 and None elsewhere; this rank's own loss of the second step, a float.
    """
    model = DDP(small_net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses, seen = [], None
    for step in range(2):
        loss = (model(x[step]) - y[step]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step == 0 and dist.get_rank() == 0:
            model.eval()
            with torch.no_grad():
                seen = (model.module(seen_x) - seen_y).square().mean().item()
            model.train()
    return seen, losses[-1]


def _through_the_wrapper(x, y, seen_x, seen_y):
    model = DDP(small_net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses, seen = [], None
    for step in range(2):
        loss = (model(x[step]) - y[step]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step == 0 and dist.get_rank() == 0:
            model.eval()
            with torch.no_grad():
                seen = (model(seen_x) - seen_y).square().mean().item()
            model.train()
    return seen, losses[-1]


def _still_in_training_mode(x, y, seen_x, seen_y):
    model = DDP(small_net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses, seen = [], None
    for step in range(2):
        loss = (model(x[step]) - y[step]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step == 0 and dist.get_rank() == 0:
            with torch.no_grad():
                seen = (model.module(seen_x) - seen_y).square().mean().item()
    return seen, losses[-1]


def _never_back_to_training(x, y, seen_x, seen_y):
    model = DDP(small_net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses, seen = [], None
    for step in range(2):
        loss = (model(x[step]) - y[step]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step == 0 and dist.get_rank() == 0:
            model.eval()
            with torch.no_grad():
                seen = (model.module(seen_x) - seen_y).square().mean().item()
    return seen, losses[-1]


def _everyone_validates(x, y, seen_x, seen_y):
    model = DDP(small_net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses, seen = [], None
    for step in range(2):
        loss = (model(x[step]) - y[step]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step == 0:
            model.eval()
            with torch.no_grad():
                seen = (model(seen_x) - seen_y).square().mean().item()
            model.train()
    return seen, losses[-1]


def _validation_case(label, world):
    def make(rng):
        seen = rng.normal(loc=0.5, size=(5, 2)), rng.normal(size=5)
        return ([(rng.normal(loc=2.0, size=(2, 4, 2)), rng.normal(size=(2, 4)), *seen) for _ in range(world)],)

    return Case(label, make)


VALIDATE_ONCE = Exercise(
    id="ddp/validate-once",
    kind="debug",
    task="Rank 0 validates between two training steps, and the job hangs or breaks. Mend it so that only rank 0 "
    "validates and training goes on as if nothing had happened. `small_net()` is given.",
    names=("validate",),
    setup=_NET,
    probe=Probe("ranks"),
    reference=validate,
    cases=(_validation_case("two ranks", 2), _validation_case("three ranks", 3)),
    misconceptions=(
        Misconception(
            id="through-the-wrapper",
            specimen=_through_the_wrapper,
            says="Rank 0 validates through the wrapper, whose forward broadcasts the buffers: a collective the other "
            "ranks do not call at that point.",
            next="Validate with the module inside.",
        ),
        Misconception(
            id="still-in-training-mode",
            specimen=_still_in_training_mode,
            says="It runs now, in training mode: the validation batch is normalised by itself and its statistics "
            "enter the model.",
            next="Switch to evaluation mode before, and back after.",
        ),
        Misconception(
            id="never-back",
            specimen=_never_back_to_training,
            says="After validating, rank 0 stays in evaluation mode, so its next training step differs from the other "
            "ranks'.",
            next="Switch back to training mode.",
        ),
        Misconception(
            id="everyone-validates",
            specimen=_everyone_validates,
            says="With all ranks validating, the hang is gone and the work is done once per rank; only rank 0 was to "
            "do it.",
            next="Keep the branch, and avoid the wrapper inside it.",
        ),
    ),
    hints=(
        "The wrapper's forward may communicate, even without gradients: batch normalisation has buffers, which it "
        "sends from rank 0.",
        "`model.module` is the plain model; calling it involves no other rank.",
    ),
    core=False,
    level=3,
    minutes=6,
    limits=Limits(call_s=20.0),
    source=_DDP + "; pytorch/pytorch issue 54059",
)
