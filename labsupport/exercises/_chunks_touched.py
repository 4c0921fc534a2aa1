"""Lesson 13: which chunks a read touches. Predicted from the counts of a real store, then computed."""

import functools
import itertools

import numpy as np

from labsupport.course import Case, Drill, Exercise, Misconception, Probe

__all__ = ["PREDICT_READS", "TOUCHED"]

_CHUNKS_DOC = "https://docs.h5py.org/en/stable/high/dataset.html#chunked-storage, read 2026-11"


# -- predict-reads


def _write(shape, chunks, itemsize):
    """Return a Zarr array full of ones, in memory, and the store below it that counts."""
    import zarr

    from labsupport.chunklab import CountingStore

    store = CountingStore(zarr.storage.MemoryStore())
    array = zarr.create_array(store, shape=shape, chunks=chunks, dtype=f"u{itemsize}", compressors=None)
    array[:] = 1
    store.reset()
    return array, store


@functools.lru_cache(maxsize=256)  # of the same questions on every check; writing a thousand chunks takes a moment
def _counted(shape, chunks, itemsize, code, what):
    """Return how many chunks, or bytes of chunks, a store hands out while `code` is read from it."""
    array, store = _write(shape, chunks, itemsize)
    eval(code, {"x": array})
    return store.counts["get_chunk_n" if what == "chunks" else "get_chunk_bytes"]


def _only_what_is_wanted(shape, chunks, itemsize, code, what):
    wanted = eval(code, {"x": np.empty(shape, f"u{itemsize}")})
    return 1 if what == "chunks" else wanted.nbytes


def _aligned(shape, chunks, itemsize, code, what):
    """The result's extent over the chunk's, rounded up: right where the selection starts on a chunk's edge."""
    taken = np.empty(shape, "u1")[tuple(_kept(item) for item in _items(code, len(shape)))]
    count = int(np.prod([-(-n // c) for n, c in zip(taken.shape, chunks)]))
    return count if what == "chunks" else count * int(np.prod(chunks)) * itemsize


def _items(code, axes):
    items = eval(code.replace("x[", "np.index_exp[", 1), {"np": np})
    return (*items, *[slice(None)] * (axes - len(items)))


def _kept(item):
    return item if isinstance(item, slice) else slice(item, item + 1 or None)


def _all_of_it(shape, chunks, itemsize, code, what):
    count = int(np.prod([-(-n // c) for n, c in zip(shape, chunks)]))
    return count if what == "chunks" else count * int(np.prod(chunks)) * itemsize


def _cut_at_the_edge(shape, chunks, itemsize, code, what):
    if code == "x[:]":
        return int(np.prod(shape)) * itemsize
    return _counted(shape, chunks, itemsize, code, what)


def _draw_read(rng):
    shape = tuple(int(n) for n in rng.integers(20, 60, size=2))
    chunks = tuple(int(n) for n in rng.integers(4, 15, size=2))
    low = [int(rng.integers(0, n - 8)) for n in shape]
    high = [at + int(rng.integers(1, 8)) for at in low]
    codes = (
        f"x[{low[0]}]",
        f"x[:, {low[1]}]",
        f"x[{low[0]}:{high[0]}, {low[1]}:{high[1]}]",
        f"x[{low[0]}:{high[0]}]",
    )
    return shape, chunks, 2, codes[int(rng.integers(len(codes)))], ("chunks", "bytes")[int(rng.integers(2))]


def _ask_read(shape, chunks, itemsize, code, what):
    asked = "How many chunks are read" if what == "chunks" else "How many bytes come out of the decoder"
    return f"`x` has shape {shape}, chunks of {chunks} and {itemsize} bytes per element. {asked} for `{code}`?"


def _case(label, *question):
    return Case(label, lambda rng: question)


_ROW = _case("x[7] of (1000, 1000), chunks of (1000, 1)", (1000, 1000), (1000, 1), 4, "x[7]", "chunks")
_BYTES = _case("x[7] of (1000, 1000), chunks of (100, 100), in bytes", (1000, 1000), (100, 100), 4, "x[7]", "bytes")
_WINDOW = _case("x[95:105, 95:105], chunks of (100, 100)", (1000, 1000), (100, 100), 4, "x[95:105, 95:105]", "chunks")
_EDGE = _case("x[:] of (10,), chunks of (4,), in bytes", (10,), (4,), 4, "x[:]", "bytes")

PREDICT_READS = Exercise(
    id="chunks/predict-reads",
    kind="prediction",
    task="Predict what a store hands out for four reads of 4-byte elements that are stored uncompressed.",
    names=("row_of_tall_chunks", "row_bytes_of_square_chunks", "window_across_a_corner", "bytes_of_ten_in_fours"),
    reference=_counted,
    cases=(_ROW, _BYTES, _WINDOW, _EDGE),
    probe=Probe("literal"),
    misconceptions=(
        Misconception(
            id="cuts-the-last-chunk",
            specimen=_cut_at_the_edge,
            says="40 bytes are the ten elements. The last chunk holds two of them and is stored at full size all the "
            "same, padded.",
            next="How many chunks of four does it take to hold ten elements? Each is stored whole.",
        ),
        Misconception(
            id="forgets-where-it-starts",
            specimen=_aligned,
            says="You divided the size of the selection by the size of a chunk. That is right only when it starts on "
            "a chunk's border.",
            next="In which chunk does the selection start, and in which does it end? Divide both ends.",
        ),
        Misconception(
            id="reads-only-what-is-wanted",
            specimen=_only_what_is_wanted,
            says="That is what you want, not what is read. A chunk comes out of the file and its decoder as a whole.",
            next="Draw the chunk borders and shade every chunk your selection lies in.",
        ),
        Misconception(
            id="reads-everything",
            specimen=_all_of_it,
            says="That would be the whole array. Chunks that the selection does not lie in stay where they are.",
            next="Which rows and columns of chunks does the selection cross?",
        ),
        Misconception(
            id="counts-elements",
            specimen=lambda *question: (
                _counted(*question) // question[2] if question[-1] == "bytes" else _counted(*question)
            ),
            says="You counted elements, and bytes were asked for.",
            next="Multiply by the bytes of one element, once.",
        ),
    ),
    hints=(
        "A chunk is read as a whole. So the question is only how many chunks the selection lies in.",
        "Per axis: the first element's chunk is `start // chunk`, the last one's `(stop - 1) // chunk`.",
    ),
    core=True,
    level=1,
    minutes=4,
    source=_CHUNKS_DOC,
    drill=Drill(_draw_read, _ask_read),
)


# -- touched


def touched_chunks(shape, chunks, selection):
    """Return the chunks that hold the selection, as tuples of chunk numbers, each once."""
    along = []
    for length, chunk, item in zip(shape, chunks, selection):
        if isinstance(item, slice):
            wanted = range(length)[item]  # a range understands every slice: negative, open, stepped, empty
        else:
            wanted = [range(length)[item]]
        along.append(sorted({index // chunk for index in wanted}))
    return list(itertools.product(*along))


def _divides_the_extent(shape, chunks, selection):
    along = []
    for length, chunk, item in zip(shape, chunks, selection):
        wanted = range(length)[item] if isinstance(item, slice) else [range(length)[item]]
        first = wanted[0] // chunk if wanted else 0
        along.append(range(first, first + -(-len(wanted) // chunk)))
    return list(itertools.product(*along))


def _includes_the_stop(shape, chunks, selection):
    along = []
    for length, chunk, item in zip(shape, chunks, selection):
        if isinstance(item, slice):
            start, stop, step = item.indices(length)
            wanted = range(start, stop + 1, step)
        else:
            wanted = [range(length)[item]]
        along.append(sorted({index // chunk for index in wanted}))
    return list(itertools.product(*along))


def _every_chunk_between(shape, chunks, selection):
    along = []
    for length, chunk, item in zip(shape, chunks, selection):
        start, stop, _ = (item if isinstance(item, slice) else slice(item, item + 1 or None)).indices(length)
        along.append(range(start // chunk, (stop - 1) // chunk + 1) if stop > start else [])
    return list(itertools.product(*along))


def _once_per_element(shape, chunks, selection):
    along = []
    for length, chunk, item in zip(shape, chunks, selection):
        wanted = range(length)[item] if isinstance(item, slice) else [range(length)[item]]
        along.append([index // chunk for index in wanted])
    return list(itertools.product(*along))


def _negative_as_it_stands(shape, chunks, selection):
    along = []
    for length, chunk, item in zip(shape, chunks, selection):
        if isinstance(item, slice):
            start = 0 if item.start is None else item.start
            stop = length if item.stop is None else min(item.stop, length)
            wanted = range(start, stop, item.step or 1)
        else:
            wanted = [item]
        along.append(sorted({index // chunk for index in wanted}))
    return list(itertools.product(*along))


def _whole_chunks_only(shape, chunks, selection):
    along = []
    for length, chunk, item in zip(shape, chunks, selection):
        wanted = range(length)[item] if isinstance(item, slice) else [range(length)[item]]
        full = max(1, length // chunk)  # the rest of the axis has no chunk of its own
        along.append(sorted({min(index // chunk, full - 1) for index in wanted}))
    return list(itertools.product(*along))


def _chunks_of_the_ends(shape, chunks, selection):
    along = []
    for length, chunk, item in zip(shape, chunks, selection):
        wanted = range(length)[item] if isinstance(item, slice) else [range(length)[item]]
        along.append(sorted({index // chunk for index in (*wanted[:1], *wanted[-1:])}))
    return list(itertools.product(*along))


def _a_chunk_for_nothing(shape, chunks, selection):
    along = []
    for length, chunk, item in zip(shape, chunks, selection):
        if isinstance(item, slice):
            start, stop, step = item.indices(length)
            wanted = range(start, stop, step) or [min(start, length - 1)]
        else:
            wanted = [range(length)[item]]
        along.append(sorted({index // chunk for index in wanted}))
    return list(itertools.product(*along))


def _one_axis_at_a_time(shape, chunks, selection):
    along = []
    for length, chunk, item in zip(shape, chunks, selection):
        wanted = range(length)[item] if isinstance(item, slice) else [range(length)[item]]
        along.append(sorted({index // chunk for index in wanted}))
    return list(zip(*along))


def _two_axes(rng, first, second):
    """Return inputs whose chunk borders move with the seed; `first` and `second` make an entry from (length, chunk)."""
    chunks = (int(rng.integers(4, 9)), int(rng.integers(3, 8)))
    shape = (chunks[0] * int(rng.integers(4, 7)) + 2, chunks[1] * int(rng.integers(4, 7)) + 1)
    return shape, chunks, (first(shape[0], chunks[0]), second(shape[1], chunks[1]))


TOUCHED = Exercise(
    id="chunks/touched",
    kind="function",
    task="Return the chunks that a read must fetch, each once: a list of tuples of chunk numbers, one number per axis, "
    "counted from 0, in any order. `selection` has one entry per axis: an int, or a slice with a step of at least 1. "
    "Negative numbers count from the back and slices may reach past the array, as in NumPy.",
    names=("touched_chunks",),
    setup="import itertools\n\nimport numpy as np",
    reference=touched_chunks,
    cases=(
        Case(
            "a row and a range that start on a border",
            lambda rng: _two_axes(rng, lambda n, c: 2 * c, lambda n, c: (c, 3 * c, None)),
        ),
        Case(
            "a window no wider than a chunk, across a border",
            lambda rng: _two_axes(rng, lambda n, c: (2 * c - 1, 2 * c + 1, 1), lambda n, c: (c - 1, 2 * c - 2, 1)),
        ),
        Case(
            "the whole array, whose last chunks are partial",
            lambda rng: _two_axes(rng, lambda n, c: (None, None, None), lambda n, c: (None, None, None)),
        ),
        Case(
            "counted from the back",
            lambda rng: _two_axes(rng, lambda n, c: -1, lambda n, c: (-c - 3, -1, None)),
        ),
        Case(
            "steps longer than a chunk",
            lambda rng: _two_axes(rng, lambda n, c: (1, None, 2 * c + 1), lambda n, c: (None, None, c + 1)),
        ),
        Case(
            "a slice that reaches past the end",
            lambda rng: _two_axes(rng, lambda n, c: (n - 1, n + 5, None), lambda n, c: 0),
        ),
        Case(
            "nothing selected along one axis",
            lambda rng: _two_axes(rng, lambda n, c: (c, c, None), lambda n, c: (None, None, None)),
        ),
        Case(
            "three axes: one pixel of every second image",
            lambda rng: (
                (21, 13, int(rng.integers(9, 14))),
                (int(rng.integers(2, 5)), 5, 4),
                ((None, None, 2), 6, int(rng.integers(-9, 9))),
            ),
        ),
    ),
    probe=Probe("through", {"driver": "chunks:touched_chunks"}),
    misconceptions=(
        Misconception(
            id="divides-the-extent",
            specimen=_divides_the_extent,
            says="You divide how much is wanted by the size of a chunk. Ten elements fit in one chunk of ten and can "
            "still lie in two.",
            next="Where does the selection start inside its first chunk? Divide the first and the last index, not the"
            " length.",
        ),
        Misconception(
            id="includes-the-stop",
            specimen=_includes_the_stop,
            says="Your last chunk is the one that holds `stop`. A slice ends before it, so where `stop` is a border "
            "you read a chunk for nothing.",
            next="What is the last index that is really wanted?",
        ),
        Misconception(
            id="every-chunk-between",
            specimen=_every_chunk_between,
            says="You take every chunk from the first to the last. A step longer than a chunk jumps over some of them.",
            next="Which indices does the slice name? Only their chunks are read.",
        ),
        Misconception(
            id="once-per-element",
            specimen=_once_per_element,
            says="You name a chunk once for each element in it. It is read once, however many of its elements are "
            "wanted.",
            next="Make a set of the chunk numbers of each axis before you combine the axes.",
        ),
        Misconception(
            id="negative-as-it-stands",
            specimen=_negative_as_it_stands,
            says="Negative numbers count from the back; divided as they stand they name chunks that do not exist.",
            next="`slice.indices(length)` and `range(length)[item]` turn them into what they mean.",
        ),
        Misconception(
            id="whole-chunks-only",
            specimen=_whole_chunks_only,
            says="You round the number of chunks down. The elements after the last full chunk have a chunk of their "
            "own, stored at full size.",
            next="Drop the rounding: the chunk of an index is `index // chunk`, at the end of the axis too.",
        ),
        Misconception(
            id="chunks-of-the-ends",
            specimen=_chunks_of_the_ends,
            says="You name the chunks of the first and the last element and leave out those in between.",
            next="What about an element in the middle of a long slice?",
        ),
        Misconception(
            id="a-chunk-for-nothing",
            specimen=_a_chunk_for_nothing,
            says="An empty slice selects nothing, so nothing is read, whatever the other axes say.",
            next="How many chunks hold no element at all of what is wanted?",
        ),
        Misconception(
            id="pairs-the-axes",
            specimen=_one_axis_at_a_time,
            says="You pair the first chunk of one axis with the first of the other, as points. A box of chunks is "
            "every combination.",
            next="Two rows of chunks and three columns of chunks: how many chunks?",
        ),
    ),
    hints=(
        "Do one axis at a time: a sorted set of chunk numbers. Then combine the axes.",
        "`range(length)[item]` gives the indices a slice means, also when it is negative, stepped or empty.",
        "`itertools.product` makes every combination of one number per axis.",
    ),
    core=True,
    level=2,
    minutes=10,
    source=_CHUNKS_DOC,
)
