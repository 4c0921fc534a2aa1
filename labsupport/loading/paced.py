"""Items with a declared pace, for looking at a loader alone."""

import functools
import time

__all__ = ["Paced", "Tiny", "busy_step"]


class Paced:
    """`count` numbers, each of which takes `item_ms` to come, as from a disk or a network: slept, not computed.

    Args:
        count: how many.
        item_ms: what each takes.
        slow_ms: what an item takes whose number divides by `every`; 0 for no slow items.
        every: how rare the slow ones are.
        at_once: whether a whole batch can be had for the time of one item.
    """

    def __init__(self, count, item_ms, slow_ms=0.0, every=8, at_once=False):
        self.count, self.item_ms, self.slow_ms, self.every = count, item_ms, slow_ms, every
        if at_once:
            self.__getitems__ = self._all  # torch asks the object, not its class

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        slow = self.slow_ms and index % self.every == 0
        time.sleep((self.slow_ms if slow else self.item_ms) / 1000)
        return index

    def _all(self, indices):
        time.sleep(self.item_ms / 1000)
        return list(indices)


class Tiny:
    """`count` numbers that are in memory already: nothing to load, all that is left is the loader."""

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return index


def busy_step(ms):
    """Return a step for a loop that stands for an accelerator at work: it takes `ms` and no processor."""
    return functools.partial(_step, ms / 1000)


def _step(seconds, batch):
    time.sleep(seconds)
