"""How a rechunking goes through an array: in slabs that fit the memory and meet as few source chunks twice as they can.

A slab is made of whole chunks (or shards) of the target, so that none is written twice. A source chunk that two slabs
share is decoded twice: the plan says how often, before anything is read.
"""

from dataclasses import dataclass
from itertools import product
from math import lcm, prod

from labsupport.chunklab.grid import grid_of
from labsupport.chunklab.selecting import checked_shape
from labsupport.chunklab.words import plural
from labsupport.errors import LabError

__all__ = ["Plan", "plan_rechunk"]

_READING = 3  # source units held while one is read: its stored bytes, decoded bytes, and one copy
_WRITING = 3  # target units held while one is written: a contiguous copy, encoded parts, the joined shard
_FLOOR = 512 << 10  # bytes of small things: indexes, keys, attributes


@dataclass(frozen=True)
class Plan:
    """A rechunking, decided. Shapes are in elements."""

    shape: tuple
    itemsize: int
    source_chunks: tuple
    unit: tuple  # what is written at once: a chunk or a shard of the target
    slab: tuple
    memory_bytes: int
    overhead_bytes: int  # held beside the slab

    @property
    def slabs(self):
        """Number of slabs."""
        return prod(grid_of(self.shape, self.slab))

    @property
    def source_total(self):
        """Chunks of the source."""
        return prod(grid_of(self.shape, self.source_chunks))

    @property
    def source_decodes(self):
        """Source chunks decoded in all: `source_total` where none is met twice."""
        return _decodes(self.shape, self.source_chunks, self.slab)

    @property
    def peak_bytes(self):
        """Bytes held at most: the slab and what reading or writing holds beside it."""
        return _bytes(self.slab, self.shape, self.itemsize) + self.overhead_bytes

    def regions(self):
        """Yield the slabs as tuples of slices, in C order."""
        for at in product(*(range(count) for count in grid_of(self.shape, self.slab))):
            yield tuple(
                slice(i * size, min((i + 1) * size, length)) for i, size, length in zip(at, self.slab, self.shape)
            )


def plan_rechunk(shape, itemsize, source_chunks, unit, memory_bytes, *, source_unit=None):
    """Return the `Plan` for an array.

    Args:
        shape: of the array.
        itemsize: bytes of one element.
        source_chunks: shape of what the source decodes as a whole; None for a source that lies in one piece.
        unit: shape of what the target writes as a whole: its shard, or its chunk.
        memory_bytes: for the array's data: slab, chunks in decoding and encoding.
        source_unit: shape of the source's shards, where it has any.

    Raises:
        LabError: not even one unit of the target fits; says what would.
    """
    shape = checked_shape("shape", shape)
    unit = checked_shape("chunks", unit, least=1, dims=len(shape))
    plain = source_chunks is None  # rows are the natural pieces of an array in one piece
    source = (*([1] * (len(shape) - 1)), max(1, shape[-1])) if plain and shape else tuple(source_chunks or ())
    reading = 0 if plain else _READING * prod(source) * itemsize
    if source_unit:
        reading = max(reading, 2 * prod(source_unit) * itemsize + _READING * prod(source) * itemsize)
    overhead = max(reading, _WRITING * prod(unit) * itemsize) + _FLOOR
    room = memory_bytes - overhead
    slab = tuple(min(u, max(1, length)) if length < u else u for u, length in zip(unit, shape))
    if _bytes(slab, shape, itemsize) > room:
        raise _too_little(memory_bytes, _bytes(slab, shape, itemsize) + overhead, unit, source)
    return Plan(
        shape, itemsize, source, unit, _grown(shape, itemsize, source, unit, slab, room), memory_bytes, overhead
    )


def _grown(shape, itemsize, source, unit, slab, room):
    """Return the largest useful slab: at each step the axis that saves most decoding for each byte it costs."""
    while True:
        now, held = _decodes(shape, source, slab), _bytes(slab, shape, itemsize)
        best = None
        for axis, length in enumerate(shape):
            for longer in _longer(slab[axis], unit[axis], source[axis], length):
                tried = (*slab[:axis], longer, *slab[axis + 1 :])
                more = _bytes(tried, shape, itemsize)
                saved = now - _decodes(shape, source, tried)
                if more <= room and saved > 0 and (best is None or saved / max(1, more - held) > best[0]):
                    best = (saved / max(1, more - held), tried)
        if best is None:
            return slab
        slab = best[1]


def _longer(now, unit, source, length):
    """Return lengths to try along one axis: multiples of the unit, up to the array's end."""
    whole = -(-length // unit) * unit
    step = lcm(unit, source)
    tried = {now + unit, 2 * now, -(-(now + 1) // step) * step, whole}
    return sorted(longer for longer in tried if now < longer <= whole)


def _decodes(shape, source, slab):
    """Return source chunks met, once for each slab: those of the array, and one more at each cut through one."""
    total = 1
    for length, chunk, long in zip(shape, source, slab):
        cuts = -(-length // long) - 1
        clean = cuts // (lcm(long, chunk) // long) if cuts > 0 else 0
        total *= -(-length // chunk) + max(0, cuts) - clean
    return total


def _bytes(slab, shape, itemsize):
    return prod(min(long, length) for long, length in zip(slab, shape)) * itemsize


def _too_little(memory_bytes, needed, unit, source):
    return LabError(
        f"{plural(memory_bytes, 'byte')} of memory are too little for these chunks",
        why=f"writing {unit} from chunks of {source} holds {plural(needed, 'byte')}",
        next_step=f"allow {plural(needed, 'byte')}, or ask for smaller chunks or shards",
    )
