"""Which chunks a selection touches, and what reading them costs: arithmetic, nothing is opened.

    touched((1024, 128, 128), (32, 128, 128), np.s_[7], itemsize=1)

A chunk is the unit that is read and decoded as a whole, in HDF5 as in Zarr, whatever part of it is wanted. The last
chunk of an axis is stored in full even where it reaches past the array's end (HDF5 File Format Specification 4.0,
layout message; Zarr v3 specification, regular grids), so it costs as much as the others.
"""

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod

from labsupport.chunklab.plurals import plural
from labsupport.chunklab.selecting import Points, checked_shape, normal
from labsupport.errors import UsageError

__all__ = ["Touched", "grid_of", "touched"]


def touched(shape, chunks, selection, *, itemsize=1, shards=None, indexing="outer"):
    """Return what reading `selection` touches.

    Args:
        shape: of the array, in elements.
        chunks: shape of a chunk, in elements: the inner chunk where there are shards.
        selection: as in brackets: an int, a slice of any step, a list, a mask, an ellipsis, or a tuple of these.
        itemsize: bytes of one element.
        shards: shape of a shard in elements, a multiple of `chunks`; None where each chunk is an object of its own.
        indexing: "outer" where several lists select a block (h5py's rule for one list, Zarr's `oindex`), "points"
            where they are paired (NumPy, Zarr's `vindex`).

    Raises:
        UsageError: a selection outside the array, or shapes that do not fit each other.
    """
    shape = checked_shape("shape", shape)
    chunks = checked_shape("chunks", chunks, least=1, dims=len(shape))
    if shards is not None:
        shards = checked_shape("shards", shards, least=1, dims=len(shape))
        if any(shard % chunk for shard, chunk in zip(shards, chunks)):
            raise UsageError(f"shards of {shards} do not hold chunks of {chunks}", why="each must be a whole multiple")
    wanted = normal(shape, selection, indexing)
    kind = _TouchedPoints if isinstance(wanted, Points) else _TouchedBlock
    return kind(shape, chunks, shards, itemsize, wanted)


def grid_of(shape, chunks):
    """Return how many chunks each axis has: `ceil(length / chunk)`, so that a partial last chunk counts."""
    return tuple(-(-length // chunk) for length, chunk in zip(shape, chunks))


@dataclass(frozen=True)
class Touched:
    """What a selection touches. Counts are exact whole numbers; nothing is listed until it is asked for."""

    shape: tuple
    chunk_shape: tuple
    shard_shape: tuple | None
    itemsize: int  # bytes
    selected: tuple  # the selection in normal form: one range or tuple for each axis, or Points

    @property
    def grid(self):
        """Chunks along each axis of the array."""
        return grid_of(self.shape, self.chunk_shape)

    @property
    def total(self):
        """Chunks of the whole array."""
        return prod(self.grid)

    @property
    def chunk_bytes(self):
        """Bytes of one decoded chunk."""
        return prod(self.chunk_shape) * self.itemsize

    @property
    def wanted_bytes(self):
        """Bytes of the result."""
        return self.wanted * self.itemsize

    @property
    def decoded_bytes(self):
        """Bytes that come out of the decoder: every touched chunk in full."""
        return self.count * self.chunk_bytes

    @property
    def amplification(self):
        """Bytes decoded for each byte wanted; 0.0 where nothing is wanted."""
        return self.decoded_bytes / self.wanted_bytes if self.wanted_bytes else 0.0

    @cached_property
    def chunks(self):
        """The touched chunks as a tuple of grid indices, in C order. Can be long: `count` is cheap."""
        return tuple(self.indices())

    @property
    def chunks_per_shard(self):
        """Inner chunks in one shard; 1 without shards."""
        if self.shard_shape is None:
            return 1
        return prod(grid_of(self.shard_shape, self.chunk_shape))

    def shard_of(self, chunk):
        """Return the grid index of the shard that holds the chunk: of the chunk itself without shards."""
        if self.shard_shape is None:
            return tuple(chunk)
        return tuple(at * size // shard for at, size, shard in zip(chunk, self.chunk_shape, self.shard_shape))

    @cached_property
    def in_shards(self):
        """{grid index of a shard: inner chunks touched in it}, in C order; without shards each chunk counts as one."""
        return dict(Counter(self.shard_of(chunk) for chunk in self.indices()))

    @property
    def files(self):
        """Objects of the store that hold the touched chunks: chunks, or shards where there are any."""
        return self.count if self.shard_shape is None else len(self.in_shards)

    @property
    def whole_shards(self):
        """Shards of which every inner chunk is touched: zarr reads these in one piece, without the index first."""
        if self.shard_shape is None:
            return 0
        return sum(count == self.chunks_per_shard for count in self.in_shards.values())

    @property
    def index_reads(self):
        """Shard indexes that must be read before their chunks can be found."""
        return 0 if self.shard_shape is None else len(self.in_shards) - self.whole_shards

    def __repr__(self):
        shards = "" if self.shard_shape is None else f" in {plural(self.files, 'shard')}"
        return (
            f"<{self.count:,} of {plural(self.total, 'chunk')}{shards}: {plural(self.decoded_bytes, 'byte')} decoded"
            f" for {self.wanted_bytes:,} wanted>"
        )


class _TouchedBlock(Touched):
    """One set of indices for each axis: the chunks are the product of the chunks of each axis."""

    @cached_property
    def _along(self):
        return tuple(_chunks_of(wanted, chunk) for wanted, chunk in zip(self.selected, self.chunk_shape))

    @property
    def wanted(self):
        """Elements of the result."""
        return prod(len(wanted) for wanted in self.selected)

    @property
    def count(self):
        """Chunks touched."""
        return prod(len(chunks) for chunks in self._along)

    def indices(self):
        """Yield the grid indices of the touched chunks in C order."""
        return product(*self._along)

    def wanted_in(self, chunk):
        """Return how many elements of the result lie in a chunk."""
        return prod(_inside(w, at * c, (at + 1) * c) for w, at, c in zip(self.selected, chunk, self.chunk_shape))

    @cached_property
    def in_shards(self):
        """{grid index of a shard: inner chunks touched in it}, in C order."""
        if self.shard_shape is None:
            return dict.fromkeys(self.indices(), 1)
        per_axis = [s // c for s, c in zip(self.shard_shape, self.chunk_shape)]
        counts = [Counter(at // per for at in chunks) for chunks, per in zip(self._along, per_axis)]
        return {at: prod(count[i] for count, i in zip(counts, at)) for at in product(*counts)}


class _TouchedPoints(Touched):
    """Single elements, each in a chunk of its own or not."""

    @cached_property
    def _counts(self):
        found = Counter(tuple(i // c for i, c in zip(point, self.chunk_shape)) for point in self.selected)
        return dict(sorted(found.items()))

    @property
    def wanted(self):
        """Elements of the result."""
        return len(self.selected)

    @property
    def count(self):
        """Chunks touched."""
        return len(self._counts)

    def indices(self):
        """Yield the grid indices of the touched chunks in C order."""
        return iter(self._counts)

    def wanted_in(self, chunk):
        """Return how many elements of the result lie in a chunk."""
        return self._counts.get(tuple(chunk), 0)


def _chunks_of(wanted, chunk):
    """Return the chunks of one axis that hold the wanted indices, ascending: a range where there are no gaps."""
    if not len(wanted):
        return ()
    if isinstance(wanted, range):
        low, high = sorted((wanted[0], wanted[-1]))
        if abs(wanted.step) <= chunk:
            return range(low // chunk, high // chunk + 1)
        wanted = range(low, high + 1, abs(wanted.step))
        return tuple(at // chunk for at in wanted)  # one element in each: no chunk twice
    return tuple(sorted({at // chunk for at in wanted}))


def _inside(wanted, start, stop):
    if not isinstance(wanted, range):
        return sum(start <= at < stop for at in wanted)
    if wanted.step < 0:
        wanted = wanted[::-1]
    return bisect_left(wanted, stop) - bisect_left(wanted, start)
