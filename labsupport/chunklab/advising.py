"""Which chunk shape suits a set of access patterns, what it will cost, and what it costs when it is really read.

    advise((1024, 128, 128), "uint8", {"one image": (1, ":", ":"), "pixel series": (":", 1, 1)})

No layout is best for reads that go different ways. The advice weighs, for each candidate, how much worse every pattern
fares than in the layout made for it alone, and shows those layouts beside it.
"""

from dataclasses import dataclass
from itertools import product
from math import prod

from labsupport.chunklab.patterns import Pattern, checked_patterns, chunks_along, cost_of, objects_of
from labsupport.chunklab.plurals import plural
from labsupport.chunklab.selecting import checked_shape
from labsupport.errors import LabError, UsageError

__all__ = ["Advice", "Choice", "advise"]

CHUNK_BYTES = (16 << 10, 16 << 20)  # of one chunk, decoded: smaller ones cost more to find than to read
CHUNK_COST_BYTES = 64 << 10  # what finding, requesting and starting to decode a chunk is worth
MOST_OBJECTS = 10_000
_SHARD_BYTES = 1 << 30
_CANDIDATES = 50_000


@dataclass(frozen=True)
class Choice:
    """One layout and what each pattern costs in it, in the order of the patterns."""

    chunks: tuple
    shards: tuple | None
    objects: int  # of the whole array
    costs: tuple


@dataclass(frozen=True)
class Advice:
    """The layout advised, the one made for each pattern alone, and the reads that were counted to prove the numbers."""

    shape: tuple
    dtype: str
    itemsize: int
    format: str
    patterns: tuple[Pattern, ...]
    best: Choice
    alone: tuple[Choice, ...]
    trials: tuple = ()
    current: Choice | None = None

    @property
    def as_predicted(self):
        """Whether every counted read took what arithmetic said."""
        return all(trial.as_predicted for trial in self.trials)

    def _message(self):
        from labsupport.chunklab import words

        return words.of_advice(self)

    def __str__(self):
        return str(self._message())

    __repr__ = __str__

    def _repr_html_(self):
        return self._message()._repr_html_()


def advise(
    shape, dtype, patterns, *, weights=None, format="zarr", chunk_bytes=CHUNK_BYTES, most_objects=MOST_OBJECTS,
    chunk_cost_bytes=CHUNK_COST_BYTES, sample_bytes=32 << 20, current=None,
):  # fmt: skip
    """Return the `Advice` for an array.

    Args:
        shape: of the array, in elements.
        dtype: anything NumPy takes for a type of fixed size.
        patterns: {name: elements along each axis of one read}; ":" or None for a whole axis.
        weights: {name: how often}, relative; 1 where it is not said.
        format: "zarr" or "hdf5". Only Zarr has shards, and only there does the number of objects matter.
        chunk_bytes: (least, most) decoded bytes of a chunk.
        most_objects: beyond this many chunks, Zarr chunks are put together in shards.
        chunk_cost_bytes: fixed cost of a chunk, in bytes decoded.
        sample_bytes: decoded bytes to really write and read; 0 counts nothing.
        current: (chunks, shards or None) that the array has now, to be shown beside the advice.

    Raises:
        UsageError: a shape, type, pattern or bound that makes no sense.
    """
    shape = checked_shape("shape", shape, least=1)
    dtype = _checked_type(dtype)
    patterns = checked_patterns(shape, patterns, weights)
    low, high = _checked_bounds(shape, dtype.itemsize, chunk_bytes, most_objects, chunk_cost_bytes, sample_bytes)
    if format not in ("zarr", "hdf5"):
        raise UsageError(f"there is no format {format!r}", next_step="'zarr' or 'hdf5'")
    most = most_objects if format == "zarr" else None
    best, alone = _choose(shape, dtype.itemsize, patterns, low, high, chunk_cost_bytes)
    choices = [_choice(shape, dtype.itemsize, patterns, chunks, most) for chunks in (best, *alone)]
    trials = _trials(shape, dtype, patterns, choices[0], format, sample_bytes)
    now = None if current is None else _choice_of(shape, dtype.itemsize, patterns, *current)
    return Advice(shape, str(dtype), dtype.itemsize, format, patterns, choices[0], tuple(choices[1:]), trials, now)


def _trials(shape, dtype, patterns, choice, format, sample_bytes):
    if not sample_bytes:
        return ()
    from labsupport.chunklab.trying import trials_of

    return trials_of(shape, dtype, patterns, choice, format, sample_bytes)


def _checked_type(dtype):
    import numpy as np

    try:
        found = np.dtype(dtype)
    except TypeError:
        raise UsageError(f"{dtype!r} is not a type of array elements", next_step="say float32, uint8, ...") from None
    if found.hasobject or not found.itemsize:
        raise UsageError(f"elements of type {found} have no fixed size", why="bytes cannot be predicted")
    return found


def _checked_bounds(shape, itemsize, chunk_bytes, most_objects, chunk_cost, sample_bytes):
    try:
        low, high = chunk_bytes
    except (TypeError, ValueError):
        raise UsageError(f"chunk_bytes is {chunk_bytes!r}", why="it is (least, most)") from None
    if not 0 < low <= high:
        raise UsageError(f"chunk_bytes is {chunk_bytes!r}", why="least is above 0 and not above most")
    if high < itemsize:
        raise UsageError(f"a chunk of at most {plural(high, 'byte')}", why=f"one element has {itemsize}")
    if most_objects < 1 or chunk_cost < 0 or sample_bytes < 0:
        raise UsageError("most_objects is at least 1, chunk_cost_bytes and sample_bytes at least 0")
    return min(low, prod(shape) * itemsize), high  # a small array may be one chunk


def _choose(shape, itemsize, patterns, low, high, chunk_cost):
    """Return (the chunk shape that is least bad for all, [the best for each pattern])."""
    axes = [_lengths(length, {p.extents[axis] for p in patterns}) for axis, length in enumerate(shape)]
    while prod(map(len, axes)) > _CANDIDATES:
        longest = max(range(len(axes)), key=lambda axis: len(axes[axis]))
        axes[longest] = axes[longest][::2]
    means = [
        [{c: chunks_along(length, c, p.extents[axis])[0] for c in axes[axis]} for axis, length in enumerate(shape)]
        for p in patterns
    ]
    found = []
    for chunks in product(*axes):
        size = prod(chunks) * itemsize
        if low <= size <= high:
            found.append((chunks, [prod(m[c] for m, c in zip(mean, chunks)) * (size + chunk_cost) for mean in means]))
    if not found:
        raise LabError(
            f"no chunk shape has between {low:,} and {high:,} bytes", next_step="allow a wider range by chunk_bytes"
        )
    least = [min(costs[i] for _, costs in found) for i in range(len(patterns))]
    alone = [min(found, key=lambda each: (each[1][i], each[0]))[0] for i in range(len(patterns))]

    def regret(each):
        total = sum(p.weight * cost / low for p, cost, low in zip(patterns, each[1], least))
        return (round(total, 9), prod(each[0]), each[0])

    return min(found, key=regret)[0], alone


def _lengths(length, extents):
    """Return chunk lengths to try on an axis: powers of two, the windows that are read, the whole axis, its parts."""
    tried = {1, length} | extents
    tried |= {1 << power for power in range(length.bit_length()) if 1 << power <= length}
    tried |= {-(-length // parts) for parts in range(2, 9)}
    return sorted(tried)


def _choice(shape, itemsize, patterns, chunks, most_objects):
    shards = None if most_objects is None else _shards(shape, chunks, itemsize, most_objects)
    return _choice_of(shape, itemsize, patterns, chunks, shards)


def _choice_of(shape, itemsize, patterns, chunks, shards):
    costs = tuple(cost_of(p, shape, chunks, itemsize, shards) for p in patterns)
    return Choice(chunks, shards, objects_of(shape, chunks, shards), costs)


def _shards(shape, chunks, itemsize, most_objects):
    """Return the smallest shard, in doublings of the axis with most objects, that keeps to `most_objects`; or None."""
    shards = list(chunks)
    while objects_of(shape, chunks, shards) > most_objects and 2 * prod(shards) * itemsize <= _SHARD_BYTES:
        axis = max(range(len(shape)), key=lambda axis: -(-shape[axis] // shards[axis]))
        shards[axis] *= 2
    return None if tuple(shards) == chunks else tuple(shards)
