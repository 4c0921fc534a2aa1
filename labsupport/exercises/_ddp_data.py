"""Lesson 16: which samples a rank draws. Padding, and a new order for each epoch.

The functions below are shown and run as text, on ranks, with the exercise's setup before them; nothing calls them here.
"""

from typing import TYPE_CHECKING

from labsupport.course import Case, Drill, Exercise, Limits, Misconception, Probe

if TYPE_CHECKING:  # torch takes a second to load, and only the ranks need it
    import torch
    import torch.distributed as dist
    from torch.utils.data import DataLoader, DistributedSampler


__all__ = ["PREDICT_PADDING", "SET_EPOCH"]

_SETUP = "import torch\nimport torch.distributed as dist\nfrom torch.utils.data import DataLoader, DistributedSampler"
_SAMPLER = "https://docs.pytorch.org/docs/2.13/data.html#torch.utils.data.distributed.DistributedSampler, read 2026-11"


# -- predict-padding


def padding(samples, ranks):
    """Ask torch's own sampler: what all ranks draw together, how many twice, and what `drop_last` leaves."""
    from torch.utils.data import DistributedSampler

    def drawn(drop_last):
        dataset = range(samples)
        parts = [
            DistributedSampler(dataset, num_replicas=ranks, rank=rank, shuffle=False, drop_last=drop_last)
            for rank in range(ranks)
        ]
        return [index for part in parts for index in part]

    everything = drawn(False)
    return len(everything), len(everything) - len(set(everything)), len(drawn(True))


def _no_padding(samples, ranks):
    return samples, 0, samples


def _drops_by_default(samples, ranks):
    return samples // ranks * ranks, 0, samples // ranks * ranks


def _one_rank_has_fewer(samples, ranks):
    return samples, 0, samples // ranks * ranks


def _counts_a_rank(samples, ranks):
    return -(-samples // ranks), 0, samples // ranks


def _padding_inputs(rng):
    return 10, 4


def _drill_inputs(rng):
    ranks = int(rng.integers(2, 9))
    return int(ranks * rng.integers(2, 12) + rng.integers(1, ranks)), ranks


def _ask_padding(samples, ranks):
    return (
        f"{samples} samples, {ranks} ranks, `DistributedSampler(dataset)` as it comes. As a tuple: how many samples do "
        "all ranks draw together in an epoch, how many of those are drawn a second time, and how many are drawn with "
        "`drop_last=True`?"
    )


PREDICT_PADDING = Exercise(
    id="ddp/predict-padding",
    kind="prediction",
    task="Ten samples, four ranks, `DistributedSampler(dataset)` as it comes: how many samples all ranks draw together "
    "in an epoch, how many of those are repeats, and how many are drawn with `drop_last=True`.",
    names=("padding_drawn",),
    probe=Probe("literal"),
    reference=padding,
    cases=(Case("drawn, drawn twice, drawn with drop_last", _padding_inputs),),
    misconceptions=(
        Misconception(
            id="no-padding",
            specimen=_no_padding,
            says="You expect each sample once. Every rank must draw equally many, or their all_reduces would not "
            "pair up, and here the samples cannot be shared out evenly.",
            next="Which multiples of the number of ranks lie just below and just above the samples?",
        ),
        Misconception(
            id="drops-by-default",
            specimen=_drops_by_default,
            says="You expect the surplus to be dropped. That is what `drop_last=True` asks for; as it comes, the "
            "sampler fills up instead.",
            next="Round up for the default, down for `drop_last`.",
        ),
        Misconception(
            id="one-rank-has-fewer",
            specimen=_one_rank_has_fewer,
            says="You expect some ranks to draw fewer. They all draw the same number, so that they make the same "
            "number of steps.",
            next="Round up to a multiple of the ranks; where do the missing samples come from?",
        ),
        Misconception(
            id="counts-a-rank",
            specimen=_counts_a_rank,
            says="You give what one rank draws; all ranks together were asked for.",
            next="Multiply by the ranks and compare with the number of samples.",
        ),
    ),
    hints=("Every rank draws the same number of samples. Ten is no multiple of four: the sampler repeats or drops.",),
    core=False,
    level=2,
    minutes=3,
    drill=Drill(_drill_inputs, _ask_padding),
    source=_SAMPLER,
)


# -- set-epoch


def orders(samples, epochs, seed):
    """Return, per epoch, the list of indices this rank draws from `range(samples)`, shuffled anew each epoch."""
    sampler = DistributedSampler(range(samples), shuffle=True, seed=seed)
    loader = DataLoader(range(samples), batch_size=2, sampler=sampler)
    drawn = []
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        drawn.append([index for batch in loader for index in batch.tolist()])
    return drawn


def _same_every_epoch(samples, epochs, seed):
    sampler = DistributedSampler(range(samples), shuffle=True, seed=seed)
    loader = DataLoader(range(samples), batch_size=2, sampler=sampler)
    drawn = []
    for _ in range(epochs):
        drawn.append([index for batch in loader for index in batch.tolist()])
    return drawn


def _set_too_late(samples, epochs, seed):
    sampler = DistributedSampler(range(samples), shuffle=True, seed=seed)
    loader = DataLoader(range(samples), batch_size=2, sampler=sampler)
    drawn = []
    for epoch in range(epochs):
        drawn.append([index for batch in loader for index in batch.tolist()])
        sampler.set_epoch(epoch)
    return drawn


def _loader_shuffles(samples, epochs, seed):
    torch.manual_seed(seed)
    loader = DataLoader(range(samples), batch_size=2, shuffle=True)
    drawn = []
    for _ in range(epochs):
        drawn.append([index for batch in loader for index in batch.tolist()])
    return drawn


def _seed_per_rank(samples, epochs, seed):
    sampler = DistributedSampler(range(samples), shuffle=True, seed=seed + dist.get_rank())
    loader = DataLoader(range(samples), batch_size=2, sampler=sampler)
    drawn = []
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        drawn.append([index for batch in loader for index in batch.tolist()])
    return drawn


def _counts_from_one(samples, epochs, seed):
    sampler = DistributedSampler(range(samples), shuffle=True, seed=seed)
    loader = DataLoader(range(samples), batch_size=2, sampler=sampler)
    drawn = []
    for epoch in range(1, epochs + 1):
        sampler.set_epoch(epoch)
        drawn.append([index for batch in loader for index in batch.tolist()])
    return drawn


def _not_shuffled(samples, epochs, seed):
    sampler = DistributedSampler(range(samples), shuffle=False)
    loader = DataLoader(range(samples), batch_size=2, sampler=sampler)
    return [[index for batch in loader for index in batch.tolist()] for _ in range(epochs)]


def _orders_case(label, world, samples, epochs):
    def make(rng):
        return ([(samples, epochs, int(rng.integers(1, 1000)))] * world,)

    return Case(label, make)


SET_EPOCH = Exercise(
    id="ddp/set-epoch",
    kind="debug",
    task="The order is shuffled, and the same in every epoch. Mend it: epoch e, counted from 0, draws what the sampler "
    "gives for epoch e. Return this rank's indices, one list per epoch.",
    names=("orders",),
    setup=_SETUP,
    probe=Probe("ranks"),
    reference=orders,
    cases=(
        _orders_case("12 samples on two ranks", 2, 12, 3),
        _orders_case("13 samples on three ranks, five each", 3, 13, 2),
    ),
    misconceptions=(
        Misconception(
            id="same-every-epoch",
            specimen=_same_every_epoch,
            says="Every epoch still has the order of the first: the sampler computes it from the seed and an epoch "
            "number that stays the same.",
            next="Tell the sampler which epoch begins.",
        ),
        Misconception(
            id="set-too-late",
            specimen=_set_too_late,
            says="You set the epoch after its samples were drawn, so the first order comes twice and each later one "
            "an epoch too late.",
            next="Set it before the loader is iterated.",
        ),
        Misconception(
            id="loader-shuffles",
            specimen=_loader_shuffles,
            says="Now the loader shuffles and the sampler is gone: every rank draws all samples.",
            next="Keep the sampler, which shares the samples out, and let it do the shuffling.",
        ),
        Misconception(
            id="seed-per-rank",
            specimen=_seed_per_rank,
            says="With a seed of its own each rank shuffles differently before taking its share, so some samples are "
            "drawn by two ranks and others by none.",
            next="All ranks need the same seed; their shares differ anyway.",
        ),
        Misconception(
            id="counts-from-one",
            specimen=_counts_from_one,
            says="Your epochs differ, but are numbered from 1: a run that resumes by the usual numbering would see "
            "other samples.",
            next="The first epoch is epoch 0.",
        ),
        Misconception(
            id="not-shuffled",
            specimen=_not_shuffled,
            says="Without shuffling every epoch has the order of the dataset: the fault is hidden, not mended.",
            next="Keep `shuffle=True`; tell the sampler which epoch begins.",
        ),
    ),
    hints=("The sampler shuffles with the sum of its seed and its `epoch`. Who changes `epoch`?",),
    core=True,
    level=2,
    minutes=4,
    limits=Limits(call_s=20.0),
    source=_SAMPLER,
)
