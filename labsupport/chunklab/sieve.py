"""Reads of a contiguous HDF5 dataset: what HDF5 asks for, and what its own file driver reads.

A contiguous dataset has no chunks. A selection is a list of runs of neighbouring bytes, and over a file object each run
is one read. The default driver reads through a buffer instead, the "sieve" (64 KiB unless set otherwise): a short run
that is not in the buffer fetches a whole buffer that begins there (HDF5 reference manual, H5Pset_sieve_buf_size).
"""

from itertools import pairwise, product
from math import prod

from labsupport.chunklab.selecting import Points, normal

__all__ = ["SIEVE_BYTES", "runs", "sieved"]

SIEVE_BYTES = 64 << 10


def runs(shape, selection, itemsize, indexing="outer"):
    """Yield (offset, bytes) of the neighbouring bytes a selection consists of, in the file's order.

    As HDF5 does: neighbours in different rows are joined where whole rows are wanted, and wherever an axis is wanted
    at irregular places; of regular selections with gaps each row is read by itself.
    """
    wanted, steps = normal(shape, selection, indexing), _steps(tuple(shape))
    if isinstance(wanted, Points):
        flat = sorted({sum(i * step for i, step in zip(point, steps)) for point in wanted})
        yield from ((first * itemsize, count * itemsize) for first, count in _joined((at, 1) for at in flat))
        return
    axes = [sorted(set(along)) if not isinstance(along, range) or along.step < 0 else along for along in wanted]
    pieces = _pieces(shape, axes, steps)
    regular = all(len(along) < 3 or len({b - a for a, b in pairwise(along)}) == 1 for along in map(_few, axes))
    for first, count in pieces if regular else _joined(pieces):
        yield first * itemsize, count * itemsize


def _few(along):
    return along if not isinstance(along, range) else along[:2]  # a range is regular


def _pieces(shape, axes, steps):
    """Yield (first element, elements) in ascending order, each within one row, or whole rows together."""
    if any(not len(along) for along in axes):
        return
    full = len(shape)
    while full and len(axes[full - 1]) == shape[full - 1]:
        full -= 1
    inner = prod(shape[full:])
    if not full:
        yield 0, inner
        return
    last = _joined((at, 1) for at in axes[full - 1])
    last = [(first * inner, count * inner) for first, count in last]
    for outer in product(*axes[: full - 1]):
        base = sum(i * step for i, step in zip(outer, steps))
        yield from ((base + first, count) for first, count in last)


def _joined(pieces):
    """Yield ascending (first, count) with neighbours made one."""
    start = stop = None
    for first, count in pieces:
        if first == stop:
            stop += count
            continue
        if stop is not None:
            yield start, stop - start
        start, stop = first, first + count
    if stop is not None:
        yield start, stop - start


def _steps(shape):
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def sieved(pieces, dataset_bytes, *, room=None, sieve_bytes=SIEVE_BYTES):
    """Return (reads, bytes) of the default driver for runs as from `runs`, beginning with an empty buffer.

    Args:
        pieces: (offset, bytes) from the dataset's first byte.
        dataset_bytes: length of the dataset.
        room: bytes from the dataset's first byte to the file's end; None where they are not fewer.
        sieve_bytes: of the buffer.
    """
    low = high = reads = total = 0
    end = dataset_bytes if room is None else min(dataset_bytes, room)
    size = min(sieve_bytes, dataset_bytes)  # HDF5 makes no buffer larger than the dataset
    for at, length in pieces:
        if low <= at and at + length <= high:
            continue
        fetched = length
        if length <= size:
            fetched = min(end - at, size)
            low, high = at, at + fetched
        reads, total = reads + 1, total + fetched
    return reads, total
