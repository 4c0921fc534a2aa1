"""A DataLoader played by its rules on a clock of its own: nothing waits, nothing is measured, every run is the same.

The rules are those of `torch.utils.data.DataLoader` (2.13): worker j of w fetches batches j, j + w, ...; `w * prefetch`
batches are asked for before the first one is handed out, one more for each that is received; batches are handed
out in order. `tests/test_loading_clock.py` compares the order of events with the real one.
"""

import math
from dataclasses import dataclass, field

__all__ = ["Played", "play", "steady_ms"]


@dataclass(frozen=True)
class Played:
    """What happened, in milliseconds on the clock.

    Args:
        events: (lane, kind, start_ms, end_ms, batch); lane is "main" or "worker 0", ...; kind is "fetch" (in a worker,
            or in main where there are none), "wait", "receive" or "compute" (in main).
        received_ms: when main had each batch in hand.
        ended_ms: when each step was over.
    """

    events: tuple = ()
    received_ms: tuple = ()
    ended_ms: tuple = ()
    waited_ms: float = field(default=0.0)


def play(loads_ms, compute_ms, workers, prefetch=2, receive_ms=0.0, channels=None):
    """Return the `Played` run of one epoch.

    Args:
        loads_ms: what fetching and collating each batch takes, one number per batch.
        compute_ms: what a step takes once its batch is in hand.
        workers: `num_workers`; with 0 the main process fetches, and nothing overlaps.
        prefetch: `prefetch_factor`, batches asked for ahead per worker.
        receive_ms: what main spends to take a batch from a worker (read, unpack); nothing without workers.
        channels: how many batches the device serves at a time, in their order; None for as many as ask.
    """
    if not workers:
        return _alone(loads_ms, compute_ms)
    now, waited, events = 0.0, 0.0, []
    fetched, received, ended = [], [], []
    free = [0.0] * (channels or 0)  # when each channel of the device is free again
    ahead = workers * prefetch
    for batch, load in enumerate(loads_ms):
        asked = 0.0 if batch < ahead else received[batch - ahead]
        start = max(asked, fetched[batch - workers] if batch >= workers else 0.0)
        if free:
            channel = min(range(len(free)), key=free.__getitem__)
            start = max(start, free[channel])
            free[channel] = start + load
        fetched.append(start + load)
        events.append((f"worker {batch % workers}", "fetch", start, start + load, batch))
        here = max(now, fetched[batch])
        waited += here - now
        events.append(("main", "wait", now, here, batch))
        received.append(here + receive_ms)
        events.append(("main", "receive", here, received[batch], batch))
        now = received[batch] + compute_ms
        events.append(("main", "compute", received[batch], now, batch))
        ended.append(now)
    return Played(tuple(e for e in events if e[3] > e[2]), tuple(received), tuple(ended), waited)


def _alone(loads_ms, compute_ms):
    now, events, received, ended = 0.0, [], [], []
    for batch, load in enumerate(loads_ms):
        received.append(now + load)
        ended.append(received[-1] + compute_ms)
        events += [("main", "fetch", now, received[-1], batch), ("main", "compute", received[-1], ended[-1], batch)]
        now = ended[-1]
    return Played(tuple(events), tuple(received), tuple(ended), float(sum(loads_ms)))


def steady_ms(load_ms, compute_ms, workers, prefetch=2, receive_ms=0.0, channels=None):
    """Return the milliseconds per step once the queue has settled.

    Args:
        load_ms: what one batch takes, or a function of the batch's number with a period that divides 8.
        compute_ms, workers, prefetch, receive_ms, channels: as for `play`.
    """
    load = load_ms if callable(load_ms) else lambda batch: load_ms
    period = math.lcm(8, max(1, workers))
    settling = -(-4 * max(1, workers) * prefetch // period) * period
    batches = settling + 4 * period
    run = play([load(batch) for batch in range(batches)], compute_ms, workers, prefetch, receive_ms, channels)
    return (run.ended_ms[-1] - run.ended_ms[settling - 1]) / (batches - settling)
