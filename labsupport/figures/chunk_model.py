"""What a box of elements costs in a chunked array: chunks touched, bytes decoded, requests; `assets/chunks.js` alike.

A box is one (start, stop, step) for each axis, so everything is a product over the axes, and an array of any size is
counted without listing its chunks. The rules are those of `labsupport.chunklab.grid`; tests hold both, and the stores
themselves, against each other.
"""

from itertools import product
from math import prod

from labsupport.chunklab.cache import ChunkCache
from labsupport.chunklab.sieve import runs, sieved

__all__ = ["FORMATS", "VISITS", "chunk_model", "counts_of", "hits", "replay", "selection_of", "touched_in"]

FORMATS = {
    "hdf5": "HDF5, compressed",
    "raw": "HDF5, no filter",
    "contiguous": "HDF5, contiguous",
    "zarr": "Zarr",
    "sharded": "Zarr, sharded",
}
MOST_RUNS = 20_000  # above this many pieces the reads through that buffer are not played
VISITS = 100_000  # chunks visited in all up to which a history is played


def selection_of(state):
    """Return the box as [start, stop, step] for each axis."""
    return [list(axis) for axis in zip(state["start"], state["stop"], state["by"])]


def hits(box, low, high):
    """Return how many of the indices start, start + step, … lie in low ≤ i < high."""
    start, stop, step = box
    wanted = -(-(stop - start) // step)
    first, end = (min(wanted, max(0, -(-(edge - start) // step))) for edge in (low, high))
    return max(0, end - first)


def touched_in(box, chunk):
    """Return the chunks of one axis that hold wanted indices, ascending."""
    start, stop, step = box
    last = start + (-(-(stop - start) // step) - 1) * step
    if step <= chunk:
        return range(start // chunk, last // chunk + 1)
    return [i // chunk for i in range(start, last + 1, step)]


def counts_of(shape, chunks):
    """Return how many chunks each axis has, the last one perhaps partial."""
    return [-(-n // c) for n, c in zip(shape, chunks)]


def chunk_model(source, state):
    """Return the numbers of the picture: elements and bytes wanted, the cost in each layout shown, the history."""
    box = selection_of(state)
    wanted = prod(-(-(stop - start) // step) for start, stop, step in box)
    shown = state["layouts"][: 2 if state["compare"] else 1]
    return {
        "box": box, "wanted": wanted, "wanted_bytes": wanted * source["itemsize"],
        "layouts": [_cost(source, state, layout, box) for layout in shown],
        "replay": replay(source, state, shown),
    }  # fmt: skip


def _cost(source, state, layout, box):
    """Return what reading `box` once, from an empty cache, costs in one layout."""
    shape, item = source["shape"], source["itemsize"]
    wanted = prod(-(-(stop - start) // step) for start, stop, step in box)
    if layout["format"] == "contiguous":
        pieces = _runs(shape, box)
        sieve = _sieve(shape, box, item) if pieces <= MOST_RUNS else None
        return {"grid": [1] * len(shape), "total": 0, "chunk_bytes": prod(shape) * item, "touched": [1] * len(shape),
                "count": 0, "decoded": wanted * item, "read": wanted * item, "requests": pieces, "padding": 0,
                "direct": False, "sieve": sieve, "stored": None, "objects": 1}  # fmt: skip
    chunks = layout["chunks"]
    touched = [_touched_count(b, c) for b, c in zip(box, chunks)]
    count, chunk_bytes = prod(touched), prod(chunks) * item
    direct = layout["format"] == "raw" and chunk_bytes > _kept(state)
    decoded = wanted * item if direct else count * chunk_bytes
    inside = prod(_inside(n, c, b, t) for n, c, b, t in zip(shape, chunks, box, touched)) * item
    grid = counts_of(shape, chunks)
    cost = {"grid": grid, "total": prod(grid), "chunk_bytes": chunk_bytes, "touched": touched, "count": count,
            "decoded": decoded, "read": decoded, "requests": None if direct else count,
            "padding": 0 if direct else decoded - inside, "direct": direct, "sieve": None,
            "stored": _stored(source, layout, box), "objects": 1}  # fmt: skip
    if layout["format"] == "zarr":
        cost["objects"] = 1 + prod(grid)
    if layout["format"] == "sharded":
        cost |= _shards(shape, layout, box, cost)
    return cost


def _kept(state):
    return state["cache_bytes"] if state["cache"] else 0


def _touched_count(box, chunk):
    start, stop, step = box
    wanted = -(-(stop - start) // step)
    return (start + (wanted - 1) * step) // chunk - start // chunk + 1 if step <= chunk else wanted


def _inside(n, chunk, box, touched):
    """Return the elements of the touched chunks of one axis that lie inside the array."""
    start, stop, step = box
    last = (start + (-(-(stop - start) // step) - 1) * step) // chunk
    return touched * chunk - max(0, (last + 1) * chunk - n)


def _shards(shape, layout, box, cost):
    """Return what sharding changes: each shard's index is read first, unless the whole shard is wanted."""
    per = layout["per"]
    sizes = [c * p for c, p in zip(layout["chunks"], per)]
    shards = prod(_touched_count(b, s) for b, s in zip(box, sizes))
    whole = prod(_whole(b, c, p) for b, c, p in zip(box, layout["chunks"], per))
    index = 16 * prod(per) + 4  # offset and length of each inner chunk, and a checksum
    inner_whole = whole * prod(per)
    return {"shards": shards, "whole": whole, "index_bytes": index, "read": cost["decoded"] + shards * index,
            "requests": whole + (shards - whole) + cost["count"] - inner_whole,
            "objects": 1 + prod(counts_of(shape, sizes))}  # fmt: skip


def _whole(box, chunk, per):
    """Return in how many shards of one axis every inner chunk is touched."""
    touched = touched_in(box, chunk)
    if isinstance(touched, range):
        return max(0, touched.stop // per - -(-touched.start // per))
    counts = {}
    for at in touched:
        counts[at // per] = counts.get(at // per, 0) + 1
    return sum(n == per for n in counts.values())


def _pieces(shape, box):
    """Return, from the last axis on, whether the axis lies within a piece of memory that the box reads in one go."""
    inside, within = [], True
    for n, (start, stop, step) in zip(reversed(shape), reversed(box)):
        wanted = -(-(stop - start) // step)
        within = within and (step == 1 or wanted == 1)
        inside.append(within)
        within = within and wanted == n
    return inside


def _runs(shape, box):
    """Return in how many pieces the box lies in memory, row-major."""
    sizes = (-(-(stop - start) // step) for start, stop, step in reversed(box))
    return prod(1 if inside else n for inside, n in zip(_pieces(shape, box), sizes))


def _sieve(shape, box, item):
    """Return [reads, bytes] of HDF5's default driver, which reads ahead into a buffer, empty at first."""
    return list(sieved(runs(shape, tuple(slice(*axis) for axis in box), item), prod(shape) * item))


def _stored(source, layout, box):
    """Return [bytes as stored, chunks not stored] of the touched chunks; None where the file's own are not known."""
    known = source["stored"]
    if known is None or layout["format"] != known["format"] or layout["chunks"] != known["chunks"]:
        return None
    grid = counts_of(source["shape"], known["chunks"])
    total = missing = 0
    for index in product(*(touched_in(b, c) for b, c in zip(box, known["chunks"]))):
        at = 0
        for i, n in zip(index, grid):
            at = at * n + i
        total += known["sizes"][at]
        missing += known["sizes"][at] == 0
    return [total, missing]


def replay(source, state, layouts):
    """Return the history read by read in each layout: [hits, misses, evicted, bytes]; None when it is too long.

    A miss is a chunk that was read and decoded. Zarr keeps no chunks, a contiguous dataset has none.
    """
    visits = sum(
        prod(_touched_count(b, c) for b, c in zip(box, layout["chunks"]))
        for layout in layouts if layout["format"] in ("hdf5", "raw") for box in state["history"]
    )  # fmt: skip
    if visits > VISITS:
        return None
    return [_played(source, state, layout) for layout in layouts]


def _played(source, state, layout):
    rows, item = [], source["itemsize"]
    if layout["format"] not in ("hdf5", "raw"):
        for box in state["history"]:
            cost = _cost(source, state, layout, box)
            rows.append([0, cost["count"], 0, cost["read"]])
        return rows
    chunks = layout["chunks"]
    cache = ChunkCache(source["shape"], chunks, itemsize=item, nbytes=_kept(state), nslots=state["cache_slots"])
    direct = layout["format"] == "raw" and not cache.keeps
    for box in state["history"]:
        before = len(cache.kept)
        seen = cache.read(tuple(slice(*axis) for axis in box))
        evicted = before + seen.misses - len(cache.kept) if cache.keeps else 0
        wanted = item * prod(-(-(stop - start) // step) for start, stop, step in box)
        rows.append([seen.hits, seen.misses, evicted, wanted if direct else seen.misses * cache.chunk_bytes])
    return rows
