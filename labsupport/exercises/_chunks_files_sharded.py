"""Lesson 13: few files and small reads at once.

The functions below are run as text, with zarr imported before them; nothing calls them here.
"""

import math
from typing import TYPE_CHECKING

from labsupport.course import Case, Exercise, Misconception, Probe

if TYPE_CHECKING:  # zarr is loaded where the answer runs
    import zarr

__all__ = ["ZARR_SHARDED"]


def store_sharded(path, volume, read, most_files):
    """Store `volume` as a Zarr array of at most `most_files` files, metadata included; blocks of shape `read` are read.

    A block lies in one chunk; shards double along the axis with most of them until few enough are left.
    """
    shards = list(read)
    counts = [-(-n // side) for n, side in zip(volume.shape, shards)]  # shards along each axis
    while math.prod(counts) + 1 > most_files:
        axis = counts.index(max(counts))
        shards[axis] *= 2
        counts[axis] = -(-volume.shape[axis] // shards[axis])
    array = zarr.create_array(path, shape=volume.shape, dtype=volume.dtype, chunks=read, shards=tuple(shards))
    array[...] = volume


def _a_file_per_chunk(path, volume, read, most_files):
    array = zarr.create_array(path, shape=volume.shape, dtype=volume.dtype, chunks=read)
    array[...] = volume


def _large_chunks(path, volume, read, most_files):
    chunks = list(read)
    counts = [-(-n // side) for n, side in zip(volume.shape, chunks)]
    while math.prod(counts) + 1 > most_files:
        axis = counts.index(max(counts))
        chunks[axis] *= 2
        counts[axis] = -(-volume.shape[axis] // chunks[axis])
    array = zarr.create_array(path, shape=volume.shape, dtype=volume.dtype, chunks=tuple(chunks))
    array[...] = volume


def _one_shard(path, volume, read, most_files):
    shards = tuple(-(-n // side) * side for n, side in zip(volume.shape, read))
    array = zarr.create_array(path, shape=volume.shape, dtype=volume.dtype, chunks=read, shards=shards)
    array[...] = volume


def _forgets_the_metadata(path, volume, read, most_files):
    shards = list(read)
    counts = [-(-n // side) for n, side in zip(volume.shape, shards)]
    while math.prod(counts) > most_files:
        axis = counts.index(max(counts))
        shards[axis] *= 2
        counts[axis] = -(-volume.shape[axis] // shards[axis])
    array = zarr.create_array(path, shape=volume.shape, dtype=volume.dtype, chunks=read, shards=tuple(shards))
    array[...] = volume


def _rounds_down(path, volume, read, most_files):
    shards = list(read)
    counts = [n // side for n, side in zip(volume.shape, shards)]
    while math.prod(counts) + 1 > most_files:
        axis = counts.index(max(counts))
        shards[axis] *= 2
        counts[axis] = volume.shape[axis] // shards[axis]
    array = zarr.create_array(path, shape=volume.shape, dtype=volume.dtype, chunks=read, shards=tuple(shards))
    array[...] = volume


def _sides_swapped(path, volume, read, most_files):
    shards = list(read)
    counts = [-(-n // side) for n, side in zip(volume.shape, shards)]
    while math.prod(counts) + 1 > most_files:
        axis = counts.index(max(counts))
        shards[axis] *= 2
        counts[axis] = -(-volume.shape[axis] // shards[axis])
    array = zarr.create_array(path, shape=volume.shape, dtype=volume.dtype, chunks=tuple(shards), shards=read)
    array[...] = volume


def _along_the_first_axis(path, volume, read, most_files):
    shards = list(read)
    others = math.prod(-(-n // side) for n, side in zip(volume.shape[1:], read[1:]))
    while shards[0] < volume.shape[0] and -(-volume.shape[0] // shards[0]) * others + 1 > most_files:
        shards[0] += read[0]
    array = zarr.create_array(path, shape=volume.shape, dtype=volume.dtype, chunks=read, shards=tuple(shards))
    array[...] = volume


def _only_whole_blocks(path, volume, read, most_files):
    shards = list(read)
    counts = [-(-n // side) for n, side in zip(volume.shape, shards)]
    while math.prod(counts) + 1 > most_files:
        axis = counts.index(max(counts))
        shards[axis] *= 2
        counts[axis] = -(-volume.shape[axis] // shards[axis])
    array = zarr.create_array(path, shape=volume.shape, dtype=volume.dtype, chunks=read, shards=tuple(shards))
    whole = tuple(slice(n // side * side) for n, side in zip(volume.shape, shards))
    array[whole] = volume[whole]


def _volume(label, shape, read, most_files):
    """A case: noise, which no codec shrinks, so that bytes read are bytes of chunks and of the shards' indexes."""
    return Case(label, lambda rng: (rng.integers(0, 256, shape, dtype="uint8"), read, most_files))


ZARR_SHARDED = Exercise(
    id="chunks/zarr-sharded",
    kind="artifact",
    task="Store `volume` as a Zarr array at `path`. It is read in blocks of shape `read`, at multiples of `read`: such "
    "a read may fetch at most 1.5 bytes per byte of the block, and the store may have at most `most_files` files, "
    "`zarr.json` included.",
    names=("store_sharded",),
    setup="import itertools\nimport math\n\nimport numpy as np\nimport zarr",
    probe=Probe("artifact", {"file": "volume.zarr", "inspect": "chunks:describe_volume"}),
    reference=store_sharded,
    cases=(
        _volume("64 images of 20 x 20, one at a time, 9 files", (64, 20, 20), (1, 20, 20), 9),
        _volume("62 images of 24 x 24, one at a time, 8 files", (62, 24, 24), (1, 24, 24), 8),
        _volume("120 days of 40 x 40 pixels, read in columns of 5 x 5, 16 files", (120, 40, 40), (120, 5, 5), 16),
        _volume("90 x 130 in tiles of 32 x 32, 7 files", (90, 130), (32, 32), 7),
    ),
    misconceptions=(
        Misconception(
            id="a-file-per-chunk",
            specimen=_a_file_per_chunk,
            says="Reads are as small as they can be, but every chunk is a file: a real volume would have millions.",
            next="A shard is one file that holds many chunks, each of which can still be read alone.",
        ),
        Misconception(
            id="large-chunks",
            specimen=_large_chunks,
            says="You bought few files with large chunks: whoever wants one block now fetches and decodes the whole "
            "chunk around it.",
            next="Keep the chunks as small as the reads, and put many of them in one file.",
        ),
        Misconception(
            id="one-shard",
            specimen=_one_shard,
            says="Few files, but every read of a shard first fetches its index, 16 bytes for each chunk it has room "
            "for. Your shards are so large that chunk and index together are over the budget.",
            next="Use as many shards as the files allow, none larger than it has to be.",
        ),
        Misconception(
            id="forgets-the-metadata",
            specimen=_forgets_the_metadata,
            says="You filled the budget with shards; `zarr.json` is a file of the store, too.",
            next="One file less for the shards.",
        ),
        Misconception(
            id="rounds-down",
            specimen=_rounds_down,
            says="You counted whole shards only. Where the shape is no multiple of the shard, the rest lies in one "
            "more, and that is a file like the others.",
            next="Round the number of shards along each axis up.",
        ),
        Misconception(
            id="shards-inside-chunks",
            specimen=_sides_swapped,
            says="Zarr refuses these settings. A shard holds whole chunks, so its sides are multiples of theirs, and "
            "format 2 has no shards at all.",
            next="`chunks` is what is read and decoded at once, `shards` what is written as one file.",
        ),
        Misconception(
            id="along-the-first-axis",
            specimen=_along_the_first_axis,
            says="Your shards grow along the first axis only. Where a block already fills that axis, nothing is "
            "gained, and every column stays a file of its own.",
            next="Count the chunks along each axis: where are the most?",
        ),
        Misconception(
            id="leaves-the-edge-out",
            specimen=_only_whole_blocks,
            says="What lies behind the last whole shard was never written, and reads as zeros without a word.",
            next="A shard may reach over the edge of the array: write all of it, Zarr cuts off the rest.",
        ),
    ),
    hints=(
        "Start with `chunks=read`, and shards as large as one chunk. How many files is that?",
        "Double the shard along the axis where there are most of them, until shards and `zarr.json` fit.",
        "An index has 16 bytes per chunk of the shard and 4 more. Compare that with the bytes of one block.",
    ),
    core=True,
    level=3,
    minutes=15,
    points=2,
    source="https://zarr-specs.readthedocs.io/en/latest/v3/codecs/sharding-indexed/index.html, read 2026-11",
)
