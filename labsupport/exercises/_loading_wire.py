"""Lesson 12: fewer bytes from the worker."""

import numpy as np

from labsupport.course import Case, Exercise, Misconception, Probe

__all__ = ["THIN_WIRE"]

_DATA = "https://docs.pytorch.org/docs/2.13/data.html, read 2026-11"


class Wire:
    """What a worker sends and what main makes of it: bytes on the way, normalised floats at the end."""

    def __init__(self, mean, std):
        self.mean, self.std = mean, std  # (3,), of brightness from 0 to 1

    def pack(self, photos):
        """In a worker: return what is sent for a list of (rows, columns, 3) uint8."""
        return np.stack(photos)  # (photo, row, column, channel), uint8: a byte a number

    def unpack(self, packed):
        """In main: return the batch, (photo, channel, row, column) float32, normalised per channel."""
        batch = packed.transpose(0, 3, 1, 2).astype(np.float32) / 255
        return (batch - self.mean[:, None, None]) / self.std[:, None, None]


class _NormalisesFirst:
    def __init__(self, mean, std):
        self.mean, self.std = mean, std

    def pack(self, photos):
        batch = np.stack(photos).transpose(0, 3, 1, 2).astype(np.float32) / 255
        return (batch - self.mean[:, None, None]) / self.std[:, None, None]

    def unpack(self, packed):
        return packed


class _ForgetsTheScale:
    def __init__(self, mean, std):
        self.mean, self.std = mean, std

    def pack(self, photos):
        return np.stack(photos)

    def unpack(self, packed):
        batch = packed.transpose(0, 3, 1, 2).astype(np.float32)
        return (batch - self.mean[:, None, None]) / self.std[:, None, None]


class _DividesBytes:
    def __init__(self, mean, std):
        self.mean, self.std = mean, std

    def pack(self, photos):
        return np.stack(photos)

    def unpack(self, packed):
        batch = packed.transpose(0, 3, 1, 2) / 255
        return (batch - self.mean[:, None, None]) / self.std[:, None, None]


class _ChannelsLast:
    def __init__(self, mean, std):
        self.mean, self.std = mean, std

    def pack(self, photos):
        return np.stack(photos)

    def unpack(self, packed):
        batch = packed.astype(np.float32) / 255
        return (batch - self.mean) / self.std


class _ReshapesTheAxes:
    def __init__(self, mean, std):
        self.mean, self.std = mean, std

    def pack(self, photos):
        return np.stack(photos)

    def unpack(self, packed):
        n, rows, columns, channels = packed.shape
        batch = packed.reshape(n, channels, rows, columns).astype(np.float32) / 255
        return (batch - self.mean[:, None, None]) / self.std[:, None, None]


class _MeanOnTheWay:
    def __init__(self, mean, std):
        self.mean, self.std = mean, std

    def pack(self, photos):
        centred = np.stack(photos) / np.float32(255) - self.mean
        return (centred * 255).astype(np.uint8)

    def unpack(self, packed):
        batch = packed.transpose(0, 3, 1, 2).astype(np.float32) / 255
        return batch / self.std[:, None, None]


def _photos_case(label, count, rows, columns):
    def make(rng):
        photos = [rng.integers(0, 256, (rows, columns, 3), dtype=np.uint8) for _ in range(count)]
        mean, std = rng.uniform(0.3, 0.6, 3), rng.uniform(0.2, 0.3, 3)
        return photos, mean.astype(np.float32), std.astype(np.float32)

    return Case(label, make)


THIN_WIRE = Exercise(
    id="loading/thin-wire",
    kind="budget",
    task="`pack(photos)` runs in a worker on a list of (rows, columns, 3) uint8, `unpack(packed)` in main and returns "
    "(photo, channel, row, column) float32: brightness from 0 to 1, minus the mean, divided by the standard deviation, "
    "per channel. Send one byte per number.",
    names=("Wire",),
    setup="import numpy as np",
    reference=Wire,
    cases=(
        _photos_case("8 photos of 24 by 32", 8, 24, 32),
        _photos_case("one photo", 1, 40, 30),
        _photos_case("3 columns, as many as channels", 6, 30, 3),
    ),
    probe=Probe("through", {"driver": "loading:thin_wire"}),
    misconceptions=(
        Misconception(
            id="normalises-in-the-worker",
            specimen=_NormalisesFirst,
            says="The numbers are right, and each takes more than one byte on its way: floats made in the worker have "
            "four, half floats and short integers two.",
            next="Which of your lines can wait until the batch has arrived?",
        ),
        Misconception(
            id="forgets-255",
            specimen=_ForgetsTheScale,
            says="Mean and standard deviation are those of brightness from 0 to 1; the bytes go from 0 to 255.",
            next="Divide before you subtract.",
        ),
        Misconception(
            id="divides-bytes",
            specimen=_DividesBytes,
            says="uint8 divided by 255 is float64 in NumPy: right values in twice the memory asked for.",
            next="Choose float32 before the division.",
        ),
        Misconception(
            id="channels-stay-last",
            specimen=_ChannelsLast,
            says="Your channels are still the last axis. Asked for is (photo, channel, row, column).",
            next="Move the axis first; then mean and std need two axes behind them.",
        ),
        Misconception(
            id="reshapes-for-transpose",
            specimen=_ReshapesTheAxes,
            says="`reshape` gives the shape and mixes the pixels: it re-reads the same bytes in order. Axes are moved "
            "by `transpose`.",
            next="Look at one pixel's three numbers before and after.",
        ),
        Misconception(
            id="subtracts-in-bytes",
            specimen=_MeanOnTheWay,
            says="A byte holds no negative numbers and no fractions: what you subtract before packing wraps or is cut "
            "off.",
            next="Send what was decoded, as it is.",
        ),
    ),
    hints=(
        "The worker stacks; everything that makes bytes into floats happens in `unpack`.",
        "`mean[:, None, None]` has shape (3, 1, 1) and meets (photo, 3, row, column) on the right axis.",
    ),
    core=False,
    level=2,
    minutes=6,
    source=_DATA,
)
