"""Lesson 12: a state that does not reach the workers."""

import numpy as np

from labsupport.course import Case, Exercise, Misconception, Probe

__all__ = ["STALE_EPOCH"]

_PERSISTENT = "https://docs.pytorch.org/docs/2.13/data.html#torch.utils.data.DataLoader, read 2026-11"


class Jittered:
    """Rows with noise that is new in every epoch and the same in every run."""

    def __init__(self, rows, seed):
        self.rows, self.seed, self.epoch = rows, seed, 0

    def requests(self):
        # Workers hold an old copy of self; what is asked for reaches them every time.
        return [(self.epoch, index) for index in range(len(self.rows))]

    def __getitem__(self, request):
        epoch, index = request
        rng = np.random.default_rng([self.seed, epoch, index])
        return self.rows[index] + rng.normal()


class _EpochStaysBehind:
    def __init__(self, rows, seed):
        self.rows, self.seed, self.epoch = rows, seed, 0

    def requests(self):
        return range(len(self.rows))

    def __getitem__(self, index):
        rng = np.random.default_rng([self.seed, self.epoch, index])
        return self.rows[index] + rng.normal()


class _CountsItsPasses:
    def __init__(self, rows, seed):
        self.rows, self.seed, self.epoch, self.given = rows, seed, 0, 0

    def requests(self):
        return range(len(self.rows))

    def __getitem__(self, index):
        epoch = self.given // len(self.rows)
        self.given += 1
        rng = np.random.default_rng([self.seed, epoch, index])
        return self.rows[index] + rng.normal()


class _CountsInMain:
    def __init__(self, rows, seed):
        self.rows, self.seed, self.epoch, self.passes = rows, seed, 0, -1

    def requests(self):
        self.passes += 1
        return [(self.passes, index) for index in range(len(self.rows))]

    def __getitem__(self, request):
        epoch, index = request
        rng = np.random.default_rng([self.seed, epoch, index])
        return self.rows[index] + rng.normal()


class _AsksOnceAndForAll:
    def __init__(self, rows, seed):
        self.rows, self.seed, self.epoch = rows, seed, 0
        self.asked = [(self.epoch, index) for index in range(len(rows))]

    def requests(self):
        return self.asked

    def __getitem__(self, request):
        epoch, index = request
        rng = np.random.default_rng([self.seed, epoch, index])
        return self.rows[index] + rng.normal()


class _AddsTheSeeds:
    def __init__(self, rows, seed):
        self.rows, self.seed, self.epoch = rows, seed, 0

    def requests(self):
        return [(self.epoch, index) for index in range(len(self.rows))]

    def __getitem__(self, request):
        epoch, index = request
        rng = np.random.default_rng(self.seed + epoch + index)
        return self.rows[index] + rng.normal()


class _OneNoisePerEpoch:
    def __init__(self, rows, seed):
        self.rows, self.seed, self.epoch = rows, seed, 0

    def requests(self):
        return [(self.epoch, index) for index in range(len(self.rows))]

    def __getitem__(self, request):
        epoch, index = request
        rng = np.random.default_rng([self.seed, epoch])
        return self.rows[index] + rng.normal()


class _OneGeneratorForAll:
    def __init__(self, rows, seed):
        self.rows, self.rng = rows, np.random.default_rng(seed)

    def requests(self):
        return range(len(self.rows))

    def __getitem__(self, index):
        return self.rows[index] + self.rng.normal()


class _EpochInTheIndex:
    def __init__(self, rows, seed):
        self.rows, self.seed, self.epoch = rows, seed, 0

    def requests(self):
        return [self.epoch * len(self.rows) + index for index in range(len(self.rows))]

    def __getitem__(self, request):
        rng = np.random.default_rng([self.seed, self.epoch, request])
        return self.rows[request % len(self.rows)] + rng.normal()


class _NoNoiseAtAll:
    def __init__(self, rows, seed):
        self.rows, self.seed, self.epoch = rows, seed, 0

    def requests(self):
        return [(self.epoch, index) for index in range(len(self.rows))]

    def __getitem__(self, request):
        epoch, index = request
        return self.rows[index]


def _epochs_case(label, epochs, workers, samples=7):
    def make(rng):
        return rng.uniform(10, 20, samples), int(rng.integers(1, 1_000)), epochs, workers

    return Case(label, make)


STALE_EPOCH = Exercise(
    id="loading/stale-epoch",
    kind="debug",
    task="Mend the dataset so that sample i of epoch e has the noise of `np.random.default_rng([seed, e, i])` although "
    "the workers keep the copy they were given before the first epoch. Main sets `dataset.epoch`; `requests()` is what "
    "the loader's sampler yields; each request reaches `__getitem__` in a worker.",
    names=("Jittered",),
    setup="import numpy as np",
    reference=Jittered,
    cases=(
        _epochs_case("two epochs, two workers", [0, 1], 2),
        _epochs_case("three epochs, three workers", [0, 1, 2], 3),
        _epochs_case("resumed at epoch 5", [5, 6], 2),
        _epochs_case("epoch 1 run again", [1, 2, 1], 2, samples=5),
        _epochs_case("1,100 samples", [1], 2, samples=1_100),
    ),
    probe=Probe("through", {"driver": "loading:persistent_epochs"}),
    misconceptions=(
        Misconception(
            id="epoch-stays-behind",
            specimen=_EpochStaysBehind,
            says="`dataset.epoch = e` changes the dataset in main. The workers hold copies from before the first epoch "
            "and never hear of it: every epoch repeats the noise of the first.",
            next="Globals and class attributes are copies as well. What travels to a worker for every sample is its "
            "request.",
        ),
        Misconception(
            id="counts-its-passes",
            specimen=_CountsItsPasses,
            says="A worker counts only what it gave itself, and w workers share an epoch: its count is w times too "
            "small, and a resumed run starts at 0.",
            next="Who does know the epoch for certain, and what does it send to the worker?",
        ),
        Misconception(
            id="counts-in-main",
            specimen=_CountsInMain,
            says="What you count are passes, and not epochs: a run that is resumed at epoch 5 counts from 0, and an "
            "epoch that is repeated is counted on.",
            next="Main sets `dataset.epoch` before each pass.",
        ),
        Misconception(
            id="asks-once-and-for-all",
            specimen=_AsksOnceAndForAll,
            says="Your requests are made once, in `__init__`, while the epoch is still 0: they say 0 for ever.",
            next="Make them anew in `requests`, which main calls before each pass.",
        ),
        Misconception(
            id="adds-the-seeds",
            specimen=_AddsTheSeeds,
            says="The epoch arrives. But seed + epoch + index gives sample 1 of epoch 0 the noise of sample 0 of "
            "epoch 1: sums collide.",
            next="`default_rng` takes a list of numbers and keeps them apart.",
        ),
        Misconception(
            id="one-noise-per-epoch",
            specimen=_OneNoisePerEpoch,
            says="The epoch arrives, but all samples of an epoch get one and the same noise.",
            next="What distinguishes two samples of an epoch?",
        ),
        Misconception(
            id="one-generator-for-all",
            specimen=_OneGeneratorForAll,
            says="Every worker starts with a copy of the same generator, so workers draw the same noise, and which "
            "sample gets which depends on how many workers there are.",
            next="Make the generator where the noise is drawn, from numbers that name the sample.",
        ),
        Misconception(
            id="unpacks-half",
            specimen=_EpochInTheIndex,
            says="Your request carries the epoch, but the generator is still made from the copy's own epoch and from a "
            "number that is no index.",
            next="Take both epoch and index out of the request before you use them.",
        ),
        Misconception(
            id="no-noise",
            specimen=_NoNoiseAtAll,
            says="The noise is gone: rows come back as they are stored.",
            next="Each sample is its row plus one normal number.",
        ),
    ),
    hints=(
        "What reaches a persistent worker anew for every sample? Only what the sampler yields.",
        "Let `requests` yield pairs (epoch, index), and let `__getitem__` take them apart.",
    ),
    core=True,
    level=3,
    minutes=9,
    source=_PERSISTENT,
)
