"""Lesson 13: a chunk shape for the reads there will be."""

import itertools
import math

import numpy as np

from labsupport.course import Case, Exercise, Limits, Misconception, Probe

__all__ = ["CHOOSE_SHAPE"]


def chunk_shape(shape, itemsize, reads, most_chunks):
    """Return a chunk shape that keeps every read within its bytes and the array within `most_chunks`."""
    sides = [sorted({math.ceil(n / k) for k in range(1, n + 1)}) for n in shape]  # for k chunks along the axis
    for chunks in itertools.product(*sides):
        if math.prod(math.ceil(n / c) for n, c in zip(shape, chunks)) > most_chunks:
            continue
        for box, most_bytes in reads:
            # placed badly, a box starts in the last element of a chunk; no axis has more chunks than it has
            along = [min(math.ceil(n / c), (b + c - 2) // c + 1) for n, c, b in zip(shape, chunks, box)]
            if math.prod(along) * math.prod(chunks) * itemsize > most_bytes:
                break
        else:
            return chunks


def _chunk_like_the_read(shape, itemsize, reads, most_chunks):
    box, _ = reads[0]
    return tuple(box)


def _equal_sides(shape, itemsize, reads, most_chunks):
    side = max(shape)
    while math.prod(math.ceil(n / min(n, side // 2)) for n in shape) <= most_chunks:
        side //= 2
    return tuple(min(n, side) for n in shape)


def _one_chunk(shape, itemsize, reads, most_chunks):
    return tuple(shape)


def _smallest_chunks(shape, itemsize, reads, most_chunks):
    return tuple(1 for _ in shape)


def _starts_on_a_border(shape, itemsize, reads, most_chunks):
    sides = [[n] + [side for side in (64, 32, 16, 8, 4, 2, 1) if side < n] for n in shape]
    for chunks in itertools.product(*sides):
        if math.prod(math.ceil(n / c) for n, c in zip(shape, chunks)) > most_chunks:
            continue
        for box, most_bytes in reads:
            along = [math.ceil(b / c) for c, b in zip(chunks, box)]
            if math.prod(along) * math.prod(chunks) * itemsize > most_bytes:
                break
        else:
            return chunks


def _elements_for_bytes(shape, itemsize, reads, most_chunks):
    sides = [[n] + [side for side in (64, 32, 16, 8, 4, 2, 1) if side < n] for n in shape]
    for chunks in itertools.product(*sides):
        if math.prod(math.ceil(n / c) for n, c in zip(shape, chunks)) > most_chunks:
            continue
        for box, most_bytes in reads:
            along = [min(math.ceil(n / c), (b + c - 2) // c + 1) for n, c, b in zip(shape, chunks, box)]
            if math.prod(along) * math.prod(chunks) > most_bytes:
                break
        else:
            return chunks


def _first_read_only(shape, itemsize, reads, most_chunks):
    sides = [[side for side in (1, 2, 4, 8, 16, 32, 64) if side < n] + [n] for n in shape]
    for chunks in itertools.product(*sides):
        if math.prod(math.ceil(n / c) for n, c in zip(shape, chunks)) > most_chunks:
            continue
        box, most_bytes = reads[0]
        along = [min(math.ceil(n / c), (b + c - 2) // c + 1) for n, c, b in zip(shape, chunks, box)]
        if math.prod(along) * math.prod(chunks) * itemsize <= most_bytes:
            return chunks


def _cuts_the_last_chunk(shape, itemsize, reads, most_chunks):
    sides = [sorted({math.ceil(n / k) for k in range(1, n + 1)}) for n in shape]
    for chunks in itertools.product(*sides):
        if math.prod(math.ceil(n / c) for n, c in zip(shape, chunks)) > most_chunks:
            continue
        for box, most_bytes in reads:
            along = [min(n, ((b + c - 2) // c + 1) * c) for n, c, b in zip(shape, chunks, box)]
            if math.prod(along) * itemsize > most_bytes:
                break
        else:
            return chunks


def _stack(rng, dtype):
    return rng.integers(0, 200, size=(96, 64, 64)).astype(dtype)


CHOOSE_SHAPE = Exercise(
    id="chunks/choose-shape",
    kind="budget",
    task="Return a chunk shape for an array of `shape` and `itemsize` bytes per element. `reads` is a list of (box, "
    "most_bytes): a read of a box of that shape, wherever in the array it lies, may decode at most that many bytes. "
    "The array may have at most `most_chunks` chunks. Many shapes are right; in every case there is one.",
    names=("chunk_shape",),
    setup="import itertools\nimport math\n\nimport numpy as np",
    reference=chunk_shape,
    cases=(
        Case(
            "one image of 96, within 12,288 bytes",
            lambda rng: (_stack(rng, np.uint8), [((1, 64, 64), 12_288)], 48),
        ),
        Case(
            "one pixel through all 96 images, within 6,144 bytes",
            lambda rng: (_stack(rng, np.uint8), [((96, 1, 1), 6_144)], 64),
        ),
        Case(
            "a batch of 16 images that starts anywhere, within 98,304 bytes",
            lambda rng: (_stack(rng, np.uint8), [((16, 64, 64), 98_304)], 24),
        ),
        Case(
            "both an image and a pixel's series of 2-byte elements",
            lambda rng: (_stack(rng, np.int16), [((1, 64, 64), 150_000), ((96, 1, 1), 60_000)], 200),
        ),
        Case(
            "a region of 42 x 42 on a map of 4-byte elements, within 25,000 bytes",
            lambda rng: (rng.normal(size=(240, 400)).astype(np.float32), [((42, 42), 25_000)], 300),
        ),
        Case(
            "one image of 96, within its own 4,096 bytes",
            lambda rng: (_stack(rng, np.uint8), [((1, 64, 64), 4_096)], 300),
        ),
    ),
    probe=Probe("through", {"driver": "chunks:chosen_shape", "weigh": "chunks:weighed_shape"}),
    limits=Limits(call_s=20.0),  # whoever tries every shape there is may wait a while, and is right
    misconceptions=(
        Misconception(
            id="chunk-like-the-read",
            specimen=_chunk_like_the_read,
            says="A chunk of exactly what is read looks ideal, and decodes least when the read starts on its border. "
            "Here the chunks become too many, or a second read pays for it.",
            next="Grow the chunk along the axes that a read takes in full, as far as its bytes allow.",
        ),
        Misconception(
            id="equal-sides",
            specimen=_equal_sides,
            says="Chunks of equal sides treat all axes alike. The reads do not: one of them crosses a whole axis, "
            "and pays for the others' width in every chunk.",
            next="Long where a read is long, short where it is short.",
        ),
        Misconception(
            id="one-chunk",
            specimen=_one_chunk,
            says="One chunk for all is the fewest there can be, and every read, however small, decodes the array.",
            next="Start from the number of chunks allowed, and spend it.",
        ),
        Misconception(
            id="smallest-chunks",
            specimen=_smallest_chunks,
            says="Chunks of one element decode nothing in vain and come by the hundred thousand: each has an entry in "
            "an index, or a file of its own, and a fixed cost.",
            next="`most_chunks` bounds the product of `ceil(n / c)` over the axes.",
        ),
        Misconception(
            id="starts-on-a-border",
            specimen=_starts_on_a_border,
            says="You count `ceil(box / chunk)` chunks along an axis. A box that starts in a chunk's last element lies "
            "in one more.",
            next="Put the box where it costs most, and count there.",
        ),
        Misconception(
            id="elements-for-bytes",
            specimen=_elements_for_bytes,
            says="Your sum counts elements, the budget is in bytes: with wider elements every chunk weighs more.",
            next="Where does `itemsize` come in?",
        ),
        Misconception(
            id="cuts-the-last-chunk",
            specimen=_cuts_the_last_chunk,
            says="You count the last chunk of an axis only as far as the array goes. It is stored padded, and decoded "
            "at full size.",
            next="A read decodes whole chunks: how many there are, times the size of one.",
        ),
        Misconception(
            id="first-read-only",
            specimen=_first_read_only,
            says="The first read is within its budget, the second is not: the shape was made for one of them.",
            next="Test a candidate against all of `reads` before you take it.",
        ),
    ),
    hints=(
        "Try candidates: a few sides per axis, all combinations, the first that satisfies every read.",
        "Placed badly, b elements lie in `(b + c - 2) // c + 1` chunks of c, and never in more than the axis has.",
    ),
    core=True,
    level=3,
    minutes=12,
    source="https://zarr.readthedocs.io/en/stable/user-guide/performance/, chunk size and shape, read 2026-11",
)
