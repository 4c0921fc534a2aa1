"""Days out of a meteorological year: small items in memory, one by one or a batch at a time."""

import time

import numpy as np

__all__ = ["Hours", "RemoteHours"]


class Hours:
    """Item i is 24 hours from hour i on: (24, 8) float32, the columns of the data set "weather".

    Args:
        at_once: whether a whole batch is gathered by one indexing expression.

    Attributes:
        calls: how often this copy was asked, for an item or for a batch.
    """

    def __init__(self, at_once=False):
        from labsupport.datasets import load

        self.rows, self.calls = load("weather"), 0
        if at_once:
            self.__getitems__ = self._gather  # torch asks the object, not its class

    def __len__(self):
        return len(self.rows) - 23

    def __getitem__(self, index):
        self.calls += 1
        return self.rows[index : index + 24].copy()

    def _gather(self, indices):
        self.calls += 1
        return list(self.rows[np.asarray(indices)[:, np.newaxis] + np.arange(24)])  # (batch, hour, column)


class RemoteHours(Hours):
    """The same days on another machine: every call takes `trip_ms`, declared and slept."""

    def __init__(self, at_once=False, trip_ms=2.0):
        super().__init__(at_once)
        self.trip_ms = trip_ms

    def __getitem__(self, index):
        time.sleep(self.trip_ms / 1000)
        return super().__getitem__(index)

    def _gather(self, indices):
        time.sleep(self.trip_ms / 1000)
        return super()._gather(indices)
