"""What a forked worker has to itself after it read a dataset: measured on Linux, a recorded table elsewhere."""

import sys

__all__ = ["RECORDED", "worker_megabytes"]

# {class: megabytes}, of 600,000 names, two workers, Python 3.11, torch 2.13, Linux: what `worker_megabytes` gave.
RECORDED = {"NameList": 45.4, "NameBuffer": 13.8}


def worker_megabytes(dataset):
    """Return (megabytes of memory that a forked worker wrote to or made while it read all items, how this is known).

    The pages are counted by Linux (`Private_Dirty` in /proc/PID/smaps_rollup); two workers share the items, and the
    larger number counts. What every worker needs for itself, some ten megabytes, is included.

    Args:
        dataset: one of `NameList` and `NameBuffer`, whose numbers are recorded; on Linux any.
    """
    from labsupport.loaderbench import record

    if sys.platform == "linux":
        run = record(dataset, num_workers=2, batch_size=10_000, multiprocessing_context="fork")
        seen = [worker.private_dirty_bytes for worker in run.workers]
        if all(seen):
            return max(seen) / 1e6, "counted now"
    return RECORDED[type(dataset).__name__], "recorded on Linux"
