"""Right answers to lesson 13 that are written differently from the course's own."""

import importlib.util
import itertools
import math
import sys
from pathlib import Path

import h5py
import numpy as np

# -- touched


def touched_by_masks(shape, chunks, selection):
    """Mark the selected elements, and look at which chunks hold a mark."""
    marked = np.zeros(shape, bool)
    marked[selection] = True
    return [tuple(chunk) for chunk in np.unique(np.argwhere(marked) // chunks, axis=0)]


def touched_by_ends(shape, chunks, selection):
    result = [()]
    for length, chunk, item in zip(shape, chunks, selection):
        if not isinstance(item, slice):
            numbers = [item % length // chunk]
        else:
            start, stop, step = item.indices(length)
            if step <= chunk and start < stop:
                last = start + (stop - 1 - start) // step * step
                numbers = range(start // chunk, last // chunk + 1)
            else:
                numbers = [at // chunk for at in range(start, stop, step)]
        result = [(*head, number) for head in result for number in numbers]
    return result


def touched_as_a_set(shape, chunks, selection):
    taken = [range(n)[s] if isinstance(s, slice) else (range(n)[s],) for n, s in zip(shape, selection)]
    return {tuple(i // c for i, c in zip(point, chunks)) for point in itertools.product(*taken)}


# -- choose-shape


def shape_by_growing(shape, itemsize, reads, most_chunks):
    """Start from single elements and double the axis that makes the reads least expensive, until there are few."""

    def overdraft(chunks):
        worst = 0
        for box, most in reads:
            along = [
                max((s + b - 1) // c - s // c + 1 for s in range(n - b + 1)) for n, c, b in zip(shape, chunks, box)
            ]
            worst = max(worst, math.prod(along) * math.prod(chunks) * itemsize / most)
        return worst

    chunks = [1] * len(shape)
    while math.prod(-(-n // c) for n, c in zip(shape, chunks)) > most_chunks:
        options = []
        for axis, n in enumerate(shape):
            if chunks[axis] < n:
                grown = [*chunks[:axis], min(2 * chunks[axis], n), *chunks[axis + 1 :]]
                options.append((overdraft(grown), grown))
        chunks = min(options)[1]
    return chunks


def shape_by_any_side(shape, itemsize, reads, most_chunks):
    """All sides that divide an axis into a whole number of chunks, largest chunks first."""
    sides = [sorted({-(-n // k) for k in range(1, min(n, 40) + 1)} | {1}, reverse=True) for n in shape]
    for chunks in itertools.product(*sides):
        if np.prod([-(-n // c) for n, c in zip(shape, chunks)]) > most_chunks:
            continue
        cost = [
            np.prod([min(-(-n // c), (b - 2 + c) // c + 1) * c for n, c, b in zip(shape, chunks, box)]) * itemsize
            for box, _ in reads
        ]
        if all(paid <= most for paid, (_, most) in zip(cost, reads)):
            return np.array(chunks)


# -- write-back


def capped_in_one_expression(stored, limit):
    stored[...] = np.minimum(stored[...], limit)


def capped_chunk_by_chunk(stored, limit):
    step = stored.chunks[0]
    for start in range(0, stored.shape[0], step):
        block = np.clip(stored[start : start + step], None, limit)
        stored[start : start + step] = block


def capped_by_mask(stored, limit):
    stored[stored[:] > limit] = limit


# -- cache


def rows_read_in_order(file, rows):
    with h5py.File(file, "r") as opened:
        wanted, back = np.unique(rows, return_inverse=True)
        return opened["readings"][wanted][back]


def rows_by_bands(file, rows):
    """One read for each row of chunks."""
    found = {}
    with h5py.File(file, "r", rdcc_nbytes=0) as opened:
        readings = opened["readings"]
        high = readings.chunks[0]
        for band in {row // high for row in rows}:
            block = readings[band * high : (band + 1) * high]
            found.update({row: block[row % high] for row in rows if row // high == band})
    return np.array([found[row] for row in rows])


def rows_with_a_cache_that_was_computed(file, rows):
    opened = h5py.File(file, "r", rdcc_nbytes=16 * 65_536)
    d = opened["readings"]
    out = np.empty((len(rows), d.shape[1]), d.dtype)
    for i, row in enumerate(rows):
        d.read_direct(out, np.s_[row], np.s_[i])
    return out


def _answers_of_files():
    """Return what `_chunks_files.py` beside this file holds: the exercises that write files."""
    path = Path(__file__).with_name("_chunks_files.py")
    spec = importlib.util.spec_from_file_location("answers_chunks_files", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


_FILES = _answers_of_files()

ANSWERS = {
    "chunks/touched": [touched_by_masks, touched_by_ends, touched_as_a_set],
    "chunks/choose-shape": [shape_by_growing, shape_by_any_side],
    "chunks/write-back": [capped_in_one_expression, capped_chunk_by_chunk, capped_by_mask],
    "chunks/cache": [rows_read_in_order, rows_by_bands, rows_with_a_cache_that_was_computed],
    **_FILES.ANSWERS,
}

EQUIVALENT_MUTANTS = {
    ("chunks/choose-shape", "Constant: 1"): "asking for one chunk more than there are elements gives no new side",
    ("chunks/choose-shape", "BinOp: n + 1"): "only the sides of one element are missing; other right shapes are found",
    ("chunks/write-back", "Compare: image > limit"): "the limit is written over the limit",
    ("chunks/cache", "Constant: 2"): "a cache of 94 GB is large enough, too, and takes what it needs",
    ("chunks/cache", "Constant: 23"): "a cache of 16 MiB is large enough, too",
    **getattr(_FILES, "EQUIVALENT_MUTANTS", {}),
}
