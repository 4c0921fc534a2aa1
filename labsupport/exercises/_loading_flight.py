"""Lesson 12: the bytes of the batches that workers were asked for in advance."""

import numpy as np

from labsupport.course import Case, Exercise, Misconception

__all__ = ["BYTES_IN_FLIGHT"]

_OPTIONS = "https://docs.pytorch.org/docs/2.13/data.html#torch.utils.data.DataLoader, read 2026-11"


def bytes_in_flight(shape, dtype, workers, prefetch_factor, batches):
    """Return the bytes of the batches that are asked for and not yet handed out, before the first is handed out."""
    if workers == 0:
        return 0  # a batch is made when it is asked for, and handed out at once
    asked_for = min(workers * (2 if prefetch_factor is None else prefetch_factor), batches)
    return asked_for * int(np.prod(shape)) * np.dtype(dtype).itemsize


def _one_per_worker(shape, dtype, workers, prefetch_factor, batches):
    return min(workers, batches) * int(np.prod(shape)) * np.dtype(dtype).itemsize


def _factor_for_all(shape, dtype, workers, prefetch_factor, batches):
    if workers == 0:
        return 0
    asked_for = min(2 if prefetch_factor is None else prefetch_factor, batches)
    return asked_for * int(np.prod(shape)) * np.dtype(dtype).itemsize


def _samples_not_batches(shape, dtype, workers, prefetch_factor, batches):
    if workers == 0:
        return 0
    asked_for = min(workers * (2 if prefetch_factor is None else prefetch_factor), batches)
    return asked_for * int(np.prod(shape[1:])) * np.dtype(dtype).itemsize


def _always_four_bytes(shape, dtype, workers, prefetch_factor, batches):
    if workers == 0:
        return 0
    asked_for = min(workers * (2 if prefetch_factor is None else prefetch_factor), batches)
    return asked_for * int(np.prod(shape)) * 4


def _beyond_the_epoch(shape, dtype, workers, prefetch_factor, batches):
    if workers == 0:
        return 0
    asked_for = workers * (2 if prefetch_factor is None else prefetch_factor)
    return asked_for * int(np.prod(shape)) * np.dtype(dtype).itemsize


def _default_is_one(shape, dtype, workers, prefetch_factor, batches):
    if workers == 0:
        return 0
    asked_for = min(workers * (1 if prefetch_factor is None else prefetch_factor), batches)
    return asked_for * int(np.prod(shape)) * np.dtype(dtype).itemsize


def _prefetches_alone(shape, dtype, workers, prefetch_factor, batches):
    asked_for = min(max(1, workers) * (2 if prefetch_factor is None else prefetch_factor), batches)
    return asked_for * int(np.prod(shape)) * np.dtype(dtype).itemsize


def _one_more_for_main(shape, dtype, workers, prefetch_factor, batches):
    if workers == 0:
        return 0
    asked_for = min(workers * (2 if prefetch_factor is None else prefetch_factor) + 1, batches)
    return asked_for * int(np.prod(shape)) * np.dtype(dtype).itemsize


def _flight_case(label, dtype, workers, prefetch_factor, batches, most=(16, 32, 64, 256)):
    def make(rng):
        rows, side = int(rng.choice(most)), int(rng.choice((64, 96, 128, 224)))
        return (rows, 3, side, side), dtype, workers, prefetch_factor, batches

    return Case(label, make)


BYTES_IN_FLIGHT = Exercise(
    id="loading/bytes-in-flight",
    kind="function",
    task="Return the bytes of the batches that a DataLoader has asked its workers for, before it hands out the first: "
    "`prefetch_factor` batches per worker, 2 where it is None, but no more than the epoch has. 0 workers: 0.",
    names=("bytes_in_flight",),
    setup="import numpy as np",
    reference=bytes_in_flight,
    cases=(
        _flight_case("8 workers, prefetch_factor as it comes, float32", "float32", 8, None, 1_000),
        _flight_case("4 workers, prefetch_factor 4, uint8", "uint8", 4, 4, 1_000),
        _flight_case("2 workers, prefetch_factor 1, float64", "float64", 2, 1, 1_000),
        _flight_case("no workers", "float32", 0, None, 1_000),
        _flight_case("8 workers, an epoch of 10 batches", "float32", 8, 3, 10),
        _flight_case("1 worker, an epoch of 1 batch", "float16", 1, None, 1),
        _flight_case("more than 2 GB in flight", "float32", 32, 8, 1_000, most=(256,)),
    ),
    misconceptions=(
        Misconception(
            id="one-per-worker",
            specimen=_one_per_worker,
            says="You count one batch per worker. Each worker is asked for `prefetch_factor` batches in advance.",
            next="How many are asked for when `prefetch_factor` is left as it comes?",
        ),
        Misconception(
            id="one-factor-for-all",
            specimen=_factor_for_all,
            says="You take `prefetch_factor` for the whole loader. It is a number per worker.",
            next="Two factors, and one of them is the number of workers.",
        ),
        Misconception(
            id="samples-for-batches",
            specimen=_samples_not_batches,
            says="You count samples. What waits in the queue are finished batches: the worker has stacked them "
            "already.",
            next="`shape` is that of a batch; which of its axes did you leave out?",
        ),
        Misconception(
            id="four-bytes-each",
            specimen=_always_four_bytes,
            says="You give every number 4 bytes. uint8 has 1, float64 has 8.",
            next="`np.dtype(dtype)` knows how many bytes an item has.",
        ),
        Misconception(
            id="asks-beyond-the-end",
            specimen=_beyond_the_epoch,
            says="You count batches that the epoch does not have: a loader asks for no more than there are.",
            next="Which of the arguments did you not use?",
        ),
        Misconception(
            id="default-is-one",
            specimen=_default_is_one,
            says="You take a prefetch_factor that is left out for 1. With workers it is 2.",
            next="Look at `DataLoader(..., num_workers=1).prefetch_factor`.",
        ),
        Misconception(
            id="prefetches-without-workers",
            specimen=_prefetches_alone,
            says="Nobody loads ahead where there are no workers: the batch is made when it is asked for.",
            next="What should 0 workers give?",
        ),
        Misconception(
            id="counts-one-in-hand",
            specimen=_one_more_for_main,
            says="You count one batch more. There is one more while main holds a batch, but the question is about "
            "the moment before the first is handed out.",
            next="How many have been asked for when none has been handed out?",
        ),
    ),
    hints=(
        "Batches first: workers times prefetch_factor, at most `batches`. Then bytes of one batch.",
        "`np.prod(shape)` numbers per batch, `np.dtype(dtype).itemsize` bytes for each of them.",
    ),
    core=False,
    level=2,
    minutes=5,
    source=_OPTIONS,
)
