"""Lesson 13: what a stored array is not. Changes to a slice are lost, and a cache dies with its handle."""

from typing import TYPE_CHECKING

import numpy as np

from labsupport.course import Case, Exercise, Misconception, Probe

if TYPE_CHECKING:  # the setup's name; references and specimens run as text
    import h5py

__all__ = ["CACHE", "WRITE_BACK"]


# -- write-back


def cap_peaks(stored, limit):
    """Lower every value of the stored array above `limit` to `limit`, image by image."""
    for i in range(stored.shape[0]):
        image = stored[i]  # read from the file: an array of its own, not a view
        image[image > limit] = limit
        stored[i] = image  # one indexing expression on the stored array: written


def _changes_a_copy(stored, limit):
    stored[:][stored[:] > limit] = limit


def _writes_the_last_image(stored, limit):
    for i in range(stored.shape[0]):
        image = stored[i]
        image[image > limit] = limit
    stored[i] = image


def _writes_the_limit_everywhere(stored, limit):
    for i in range(stored.shape[0]):
        image = stored[i]
        if (image > limit).any():
            stored[i] = limit


def _sets_peaks_to_zero(stored, limit):
    for i in range(stored.shape[0]):
        image = stored[i]
        stored[i] = image * (image <= limit)


def _full_chunks_only(stored, limit):
    step = stored.chunks[0]
    for start in range(0, stored.shape[0] - step + 1, step):
        block = stored[start : start + step]
        block[block > limit] = limit
        stored[start : start + step] = block


def _raises_what_is_below(stored, limit):
    for i in range(stored.shape[0]):
        image = stored[i]
        image[image < limit] = limit
        stored[i] = image


def _images(rng, count, dtype=np.int16):
    return rng.integers(0, 100, size=(count, 5, 6)).astype(dtype)


def _one_with_a_gap(rng):
    image = rng.normal(size=(1, 4, 3))
    image[0, 1, 2] = np.nan  # not above any limit
    return image


WRITE_BACK = Exercise(
    id="chunks/write-back",
    kind="debug",
    task="Repair cap_peaks: it is to lower every value above `limit` to `limit` in the stored array it is given, an "
    "HDF5 dataset or a Zarr array of shape (image, row, column). It runs, and the file stays as it was.",
    names=("cap_peaks",),
    setup="import numpy as np",
    reference=cap_peaks,
    cases=(
        Case("8 images in chunks of 4", lambda rng: (_images(rng, 8), 60)),
        Case("10 images: the last chunk is partial", lambda rng: (_images(rng, 10), 40)),
        Case("one image of floats, one of them NaN", lambda rng: (_one_with_a_gap(rng), 0.25)),
        Case("nothing lies above the limit", lambda rng: (_images(rng, 5), 100)),
    ),
    probe=Probe("through", {"driver": "chunks:write_back"}),
    misconceptions=(
        Misconception(
            id="changes-a-copy",
            specimen=_changes_a_copy,
            says="Nothing was written. Indexing a stored array reads into a new array; what you change is that one, "
            "and it is thrown away.",
            next="Assign through one pair of brackets that stands right behind the stored array.",
        ),
        Misconception(
            id="writes-the-last-image",
            specimen=_writes_the_last_image,
            says="Only the last image was written back: the assignment stands after the loop.",
            next="Each image that was read and changed has to be assigned before the next one is read.",
        ),
        Misconception(
            id="writes-the-limit-everywhere",
            specimen=_writes_the_limit_everywhere,
            says="It is written, and all of each such image is the limit now: a number assigned to a selection fills "
            "it.",
            next="Assign the image you changed, not the limit.",
        ),
        Misconception(
            id="sets-peaks-to-zero",
            specimen=_sets_peaks_to_zero,
            says="It is written, but the peaks became 0 instead of the limit.",
            next="`np.minimum` of an image and a number keeps the smaller of the two, element by element.",
        ),
        Misconception(
            id="full-chunks-only",
            specimen=_full_chunks_only,
            says="Your loop ends before the last chunk, which is only partly filled here.",
            next="Let the start run up to the end of the axis: a slice that reaches past it is cut off.",
        ),
        Misconception(
            id="raises-what-is-below",
            specimen=_raises_what_is_below,
            says="It is written, but the comparison is turned round: values below the limit were raised to it.",
            next="Which values are to change, those above or those below?",
        ),
    ),
    hints=(
        "`stored[i]` calls a method that reads. `stored[i] = ...` calls another one, and that one writes.",
        "Read an image, change it in memory, and assign it to where it came from.",
    ),
    core=True,
    level=2,
    minutes=6,
    source="https://docs.h5py.org/en/stable/high/dataset.html#reading-writing-data, read 2026-11",
)


# -- cache


def read_rows(file, rows):
    """Return the rows of the dataset "readings" in the order asked for, reading no chunk twice."""
    with h5py.File(file, "r", rdcc_nbytes=2**23) as opened:  # 8 MiB for each dataset that is open
        readings = opened["readings"]  # the handle, and with it the cache, lives through the loop
        return np.stack([readings[row] for row in rows])


def _a_handle_for_each_row(file, rows):
    with h5py.File(file, "r", rdcc_nbytes=2**23) as opened:
        return np.stack([opened["readings"][row] for row in rows])


def _room_for_one_chunk(file, rows):
    with h5py.File(file, "r") as opened:
        chunk_bytes = int(np.prod(opened["readings"].chunks)) * opened["readings"].dtype.itemsize
    with h5py.File(file, "r", rdcc_nbytes=chunk_bytes) as opened:
        readings = opened["readings"]
        return np.stack([readings[row] for row in rows])


def _room_for_one_row_of_chunks(file, rows):
    with h5py.File(file, "r") as opened:
        d = opened["readings"]
        row_bytes = -(-d.shape[1] // d.chunks[1]) * d.chunks[1] * d.chunks[0] * d.dtype.itemsize
    with h5py.File(file, "r", rdcc_nbytes=row_bytes) as opened:
        readings = opened["readings"]
        return np.stack([readings[row] for row in rows])


def _reads_everything(file, rows):
    with h5py.File(file, "r", rdcc_nbytes=2**23) as opened:
        return opened["readings"][:][rows]


def _reads_the_span(file, rows):
    with h5py.File(file, "r") as opened:
        first = min(rows)
        block = opened["readings"][first : max(rows) + 1]
        return block[[row - first for row in rows]]


def _list_as_it_is(file, rows):
    with h5py.File(file, "r", rdcc_nbytes=2**23) as opened:
        return opened["readings"][list(rows)]


def _sorted_without_repeats(file, rows):
    with h5py.File(file, "r", rdcc_nbytes=2**23) as opened:
        return opened["readings"][sorted(set(rows))]


def _table(rng, rows, columns):
    return rng.integers(0, 50, size=(rows, columns)).astype(np.int16)


CACHE = Exercise(
    id="chunks/cache",
    kind="debug",
    task="Repair read_rows: its rows are right, but it reads chunks again and again. Return the rows of the dataset "
    '"readings" that `rows` names, in that order, as one array, and have every chunk that holds any of them read from '
    "`file` once and no other chunk at all. No chunk is larger than 65,536 bytes, decoded, and no list needs more "
    "than 16 chunks.",
    names=("read_rows",),
    setup="import h5py\nimport numpy as np",
    reference=read_rows,
    cases=(
        Case(  # a chunk fits in the cache as shipped: what fails here is the handle
            "12 neighbouring rows of one chunk", lambda rng: (_table(rng, 64, 1024), (16, 1024), [*range(18, 30)])
        ),
        Case("12 neighbouring rows, two chunks wide", lambda rng: (_table(rng, 96, 1800), (32, 1024), [*range(3, 15)])),
        Case(
            "rows of two far places, in turns",
            lambda rng: (_table(rng, 160, 1800), (32, 1024), [4, 130, 5, 131, 6, 132, 7, 133]),
        ),
        Case(
            "three rows, backwards and one of them twice",
            lambda rng: (_table(rng, 160, 500), (32, 500), [150, 2, 2, 1]),
        ),
        Case("one row", lambda rng: (_table(rng, 64, 1500), (32, 1024), [63])),
        Case(
            "rows of eight places in turns, 16 chunks in all",
            lambda rng: (_table(rng, 256, 1800), (32, 1024), [*range(5, 256, 32), *range(9, 256, 32)]),
        ),
    ),
    probe=Probe("through", {"driver": "chunks:read_rows"}),
    misconceptions=(
        Misconception(
            id="room-for-one-chunk",
            specimen=_room_for_one_chunk,
            says="The handle is kept, but a row lies in two chunks and the cache has no room for both: what is decoded "
            "for one row is gone before the next row wants it.",
            next="How many bytes, decoded, do all chunks of one row take together? `rdcc_nbytes` is in bytes.",
        ),
        Misconception(
            id="room-for-one-row-of-chunks",
            specimen=_room_for_one_row_of_chunks,
            says="The cache holds the chunks of one row or of a few. Rows of places far apart, in turns, push each "
            "other out of it.",
            next="Count the chunks that are wanted again later, or read in another order than you return.",
        ),
        Misconception(
            id="a-handle-for-each-row",
            specimen=_a_handle_for_each_row,
            says='Every row decodes its chunk anew. `opened["readings"]` inside the loop makes a new handle each time; '
            "the cache belongs to the handle and dies with it, however large it is.",
            next="Look the dataset up once, and keep it while you read.",
        ),
        Misconception(
            id="reads-everything",
            specimen=_reads_everything,
            says="`[:]` reads and decodes the whole dataset; the rows are picked from the array in memory afterwards. "
            "Each chunk is read once, and most of them hold none of your rows.",
            next="Ask the dataset for the rows, not the array it gave you.",
        ),
        Misconception(
            id="reads-the-span",
            specimen=_reads_the_span,
            says="One slice from the first row to the last reads each chunk once, but also all chunks in between that "
            "hold no row you were asked for.",
            next="Which chunks hold the rows of the list, and which only lie between them?",
        ),
        Misconception(
            id="list-as-it-is",
            specimen=_list_as_it_is,
            says="h5py takes a list of indices only in increasing order and without repeats; Zarr would have taken it.",
            next="Read one by one from a cache that is large enough, or read a sorted list and put it in order after.",
        ),
        Misconception(
            id="sorted-without-repeats",
            specimen=_sorted_without_repeats,
            says="These are the rows, sorted and each once. The list asked for them in another order, or one twice.",
            next="`np.unique(rows, return_inverse=True)` remembers where each one belongs.",
        ),
    ),
    hints=(
        "Two things are wrong: how long the handle lives, and how many bytes its cache has.",
        "The default is 1 MiB before HDF5 2.0 and 8 MiB from then on. Say what you need: `rdcc_nbytes=...`.",
    ),
    core=True,
    level=3,
    minutes=8,
    source="https://docs.h5py.org/en/stable/high/file.html#chunk-cache, read 2026-11",
)
