"""Four recorded runs to read: `trace("a")` to `trace("d")`.

`python -m labsupport.loading.tracing` records them anew.
"""

import dataclasses
import functools
import itertools
from pathlib import Path

__all__ = ["TRACES", "cause", "trace"]

TRACES = ("a", "b", "c", "d")
_FOLDER = Path(__file__).parent / "traces"


@functools.cache
def trace(name):
    """Return the recorded `Run` of this name.

    Raises:
        LabError: there is none, or its file is damaged.
    """
    from labsupport.loaderbench import Run

    return Run.load(_FOLDER / f"{name}.json")


def cause(run):
    """Return what a run lost its time to: "model", "start", "order" or "loading".

    "model": main hardly waited. "start": most of the time passed before the first batch of an epoch. "order": while
    main waited, later batches lay finished most of the time. "loading": else.
    """
    if run.wait_share < 0.1:
        return "model"
    if sum(epoch.first_batch_s - epoch.start_s for epoch in run.epochs) > 0.5 * run.seconds:
        return "start"
    waits = [(e.start_s, e.end_s) for e in run.events if e.kind == "wait"]
    finished = sum(_ready_s(run.queue, *wait) for wait in waits)
    return "order" if finished > 0.5 * sum(end - start for start, end in waits) else "loading"


def _ready_s(queue, start, end):
    """Return for how long between `start` and `end` a batch lay finished."""
    total, moments = 0.0, [*queue, (float("inf"), 0)]
    for (at, ready), (after, _) in itertools.pairwise(moments):
        total += max(0.0, min(after, end) - max(at, start)) if ready else 0.0
    return total


def _record(name):
    """Return (the cause a run is made for, the run). Forked workers start within milliseconds: one axis fits all."""
    from labsupport.loaderbench import record
    from labsupport.loading.paced import Paced, busy_step

    wanted, dataset, step_ms, epochs = {
        "a": ("loading", Paced(96, 12.0), 8.0, 1),
        "b": ("model", Paced(112, 1.0), 40.0, 1),
        "c": ("start", Paced(16, 2.0), 6.0, 6),
        "d": ("order", Paced(96, 2.0, slow_ms=150.0, every=16), 6.0, 1),
    }[name]
    options = {"num_workers": 2, "batch_size": 4, "multiprocessing_context": "fork", "epochs": epochs}
    return wanted, record(dataset, step=busy_step(step_ms), **options)


if __name__ == "__main__":
    _FOLDER.mkdir(exist_ok=True)
    for name in TRACES:
        for _ in range(10):  # a run that other programs disturbed is made again
            wanted, run = _record(name)
            if cause(run) == wanted:
                named = dataclasses.replace(run, settings={"trace": name, **run.settings})  # told in the picture
                named.save(_FOLDER / f"{name}.json")
                break
        print(name, wanted, cause(run), f"{run.seconds:.2f} s, waiting {run.wait_share:.0%}")
