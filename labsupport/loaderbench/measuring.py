"""From a recorded run to the numbers that settings are compared by; and the numbers of several runs together."""

import statistics
from dataclasses import dataclass

__all__ = ["Sample", "Spread", "measure", "spread_of"]


@dataclass(frozen=True)
class Sample:
    """One run of one setting. All times in seconds; those "per batch" are means once the queue has settled.

    Attributes:
        stage, repetition: which runs were made beside each other.
        epoch_s: one whole pass as it would take: the start of a later epoch, then every batch; `idle_s` of these
            the main process spends inside `next()` or waiting for workers to start.
        step_s: per batch, from one batch in hand to the next.
        wait_s: per batch, inside `next()`.
        load_s, collate_s, transfer_s, compute_s: per batch, wherever it happens; `cpu_s` is the processor time of load
            and collate.
        start_s: until the first batch of the first epoch; `later_start_s` of the last epoch.
        item_s: `epoch_s` per item.
        private_bytes: the most that a worker holds for itself, or None.
        flight_bytes: what the batches of a full queue hold.
    """

    stage: str
    repetition: int
    epoch_s: float
    idle_s: float
    step_s: float
    wait_s: float
    load_s: float
    collate_s: float
    cpu_s: float
    transfer_s: float
    compute_s: float
    start_s: float
    later_start_s: float
    item_s: float
    batches: int
    items: int
    calls: int
    batch_bytes: int
    processes: int
    private_bytes: int | None
    flight_bytes: int


@dataclass(frozen=True)
class Spread:
    """The median of some numbers, the least, the most, and how many there were."""

    median: float
    least: float
    most: float
    count: int


def spread_of(numbers):
    """Return the `Spread` of one or more numbers."""
    numbers = list(numbers)
    return Spread(statistics.median(numbers), min(numbers), max(numbers), len(numbers))


def measure(run, stage="", repetition=0, epoch_batches=None):
    """Return the `Sample` of a run.

    Args:
        run: a `Run`.
        stage, repetition: kept with the sample.
        epoch_batches: batches of a whole pass; None takes those of the run itself.
    """
    workers, counts = run.settings["num_workers"], run.counts
    batches, first, last = max(1, counts["batches"]), run.epochs[0], run.epochs[-1]
    step_s, wait_s = _steady(run, workers)
    later_start = last.first_batch_s - last.start_s
    whole = epoch_batches or last.batches
    epoch_s = later_start + step_s * max(0, whole - 1) + _after_first(run)
    items_per_batch = max(1, counts["items"]) / batches
    private = [worker.private_dirty_bytes for worker in run.workers if worker.private_dirty_bytes is not None]
    batch_bytes = counts["bytes"] // batches
    return Sample(
        stage=stage,
        repetition=repetition,
        epoch_s=epoch_s,
        idle_s=later_start + wait_s * max(0, whole - 1),
        step_s=step_s,
        wait_s=wait_s,
        load_s=run.totals["fetch"] / batches,
        collate_s=run.totals["collate"] / batches,
        cpu_s=run.totals.get("cpu", 0.0) / batches,
        transfer_s=run.totals["transfer"] / batches,
        compute_s=run.totals["compute"] / batches,
        start_s=first.first_batch_s - first.start_s,
        later_start_s=later_start,
        item_s=epoch_s / (whole * items_per_batch),
        batches=counts["batches"],
        items=counts["items"],
        calls=counts["calls"],
        batch_bytes=batch_bytes,
        processes=counts["processes"],
        private_bytes=max(private, default=None),
        flight_bytes=workers * (run.settings["prefetch_factor"] or 0) * batch_bytes,
    )


def _steady(run, workers):
    """Return (seconds from batch to batch, seconds of these inside `next()`), without the first ones of each epoch.

    The first batch of every worker comes at the same moment, so as many are left out as there are workers.
    """
    steps, waits = [], []
    first = 0
    for epoch in run.epochs:
        rows = _arrivals(run, first, first + epoch.batches)
        first += epoch.batches
        skip = min(max(1, workers), max(1, len(rows) - 1))
        steps += [later[0] - sooner[0] for sooner, later in zip(rows[skip - 1 :], rows[skip:])]
        waits += [wait for _, wait in rows[skip:]]
    if not steps:  # an epoch of one batch
        return run.epochs[-1].end_s - run.epochs[-1].start_s, run.totals["next"]
    return statistics.fmean(steps), statistics.fmean(waits)


def _arrivals(run, first, last):
    """Return [(when the main process had the batch, seconds inside `next()` for it)] for batches first to last - 1."""
    had, waited = {}, {}
    for event in run.events:
        if event.batch is None or not first <= event.batch < last:
            continue
        if event.kind == "wait":
            had[event.batch], waited[event.batch] = event.end_s, event.end_s - event.start_s
        elif event.lane == "main" and event.kind in ("fetch", "collate"):
            had[event.batch] = max(had.get(event.batch, 0.0), event.end_s)
            waited[event.batch] = waited.get(event.batch, 0.0) + event.end_s - event.start_s
    return [(had[batch], waited[batch]) for batch in sorted(had)]


def _after_first(run):
    """Return the seconds of transfer and step that follow the last batch: one of each, on average."""
    batches = max(1, run.counts["batches"])
    return (run.totals["transfer"] + run.totals["compute"]) / batches
