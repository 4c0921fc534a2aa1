"""Lesson 13: which codec fits which data.

The functions below are run as text, with zarr and its codecs imported before them; nothing calls them here.
"""

from typing import TYPE_CHECKING

import numpy as np

from labsupport.course import Case, Exercise, Misconception, Probe

if TYPE_CHECKING:  # zarr is loaded where the answer runs
    import zarr
    from zarr.codecs import BloscCodec, GzipCodec

__all__ = ["CHOOSE_CODEC"]


def store_packed(path, values, chunks, most_bytes):
    """Store `values` without loss as a Zarr array of at most `most_bytes`, trying the cheapest codec first."""
    for shuffle in (None, "noshuffle", "shuffle", "bitshuffle"):
        codec = BloscCodec(cname="zstd", shuffle=shuffle) if shuffle else None
        array = zarr.create_array(
            path, shape=values.shape, dtype=values.dtype, chunks=chunks, compressors=codec, overwrite=True
        )
        array[...] = values
        if array.nbytes_stored() <= most_bytes:
            return


def _the_default(path, values, chunks, most_bytes):
    array = zarr.create_array(path, shape=values.shape, dtype=values.dtype, chunks=chunks)
    array[...] = values


def _the_hardest(path, values, chunks, most_bytes):
    codec = GzipCodec(level=9)
    array = zarr.create_array(path, shape=values.shape, dtype=values.dtype, chunks=chunks, compressors=codec)
    array[...] = values


def _always_shuffled(path, values, chunks, most_bytes):
    codec = BloscCodec(cname="zstd", shuffle="shuffle")
    array = zarr.create_array(path, shape=values.shape, dtype=values.dtype, chunks=chunks, compressors=codec)
    array[...] = values


def _always_bitshuffled(path, values, chunks, most_bytes):
    codec = BloscCodec(cname="zstd", shuffle="bitshuffle")
    array = zarr.create_array(path, shape=values.shape, dtype=values.dtype, chunks=chunks, compressors=codec)
    array[...] = values


def _by_the_dtype(path, values, chunks, most_bytes):
    shuffle = "bitshuffle" if values.dtype.kind == "f" else "noshuffle"
    codec = BloscCodec(cname="zstd", shuffle=shuffle)
    array = zarr.create_array(path, shape=values.shape, dtype=values.dtype, chunks=chunks, compressors=codec)
    array[...] = values


def _always_something(path, values, chunks, most_bytes):
    for shuffle in ("noshuffle", "shuffle", "bitshuffle"):
        codec = BloscCodec(cname="zstd", shuffle=shuffle)
        array = zarr.create_array(
            path, shape=values.shape, dtype=values.dtype, chunks=chunks, compressors=codec, overwrite=True
        )
        array[...] = values
        if array.nbytes_stored() <= most_bytes:
            return


def _half_precision(path, values, chunks, most_bytes):
    kept = values.astype("float16").astype(values.dtype) if values.dtype.kind == "f" else values
    for shuffle in (None, "noshuffle", "shuffle", "bitshuffle"):
        codec = BloscCodec(cname="zstd", shuffle=shuffle) if shuffle else None
        array = zarr.create_array(
            path, shape=values.shape, dtype=values.dtype, chunks=chunks, compressors=codec, overwrite=True
        )
        array[...] = kept
        if array.nbytes_stored() <= most_bytes:
            return


def _one_large_chunk(path, values, chunks, most_bytes):
    for shuffle in (None, "noshuffle", "shuffle", "bitshuffle"):
        codec = BloscCodec(cname="zstd", shuffle=shuffle) if shuffle else None
        array = zarr.create_array(
            path, shape=values.shape, dtype=values.dtype, chunks=values.shape, compressors=codec, overwrite=True
        )
        array[...] = values
        if array.nbytes_stored() <= most_bytes:
            return


def _differences(path, values, chunks, most_bytes):
    stored = np.diff(values, prepend=0).astype(values.dtype) if values.dtype.kind == "i" else values
    for shuffle in (None, "noshuffle", "shuffle", "bitshuffle"):
        codec = BloscCodec(cname="zstd", shuffle=shuffle) if shuffle else None
        array = zarr.create_array(
            path, shape=values.shape, dtype=values.dtype, chunks=chunks, compressors=codec, overwrite=True
        )
        array[...] = stored
        if array.nbytes_stored() <= most_bytes:
            return


_N = 16_384


def _kind(label, make, share):
    """A case: `make(rng)` gives the values, which must fit in `share` of their bytes; metadata has 1 kB of its own."""

    def inputs(rng):
        values = make(rng)
        return values, (_N // 2,), int(share * values.nbytes) + 1_000

    return Case(label, inputs)


def _station_ids(rng):
    ids = rng.integers(2**61, 2**62, 40)
    return ids[rng.integers(0, len(ids), _N)]


def _time_stamps(rng):
    return 1_700_000_000_000_000 + np.cumsum(1_000_000 + rng.integers(-20, 20, _N))


def _sensor_counts(rng):
    return np.rint(2048 + 60 * rng.normal(size=_N)).astype(np.int16)


def _measured(rng):
    return (20 + 10 * np.sin(np.arange(_N) / 300) + rng.normal(size=_N)).astype(np.float32)


def _tenths(rng):
    return np.round(20 + 10 * np.sin(np.arange(_N) / 3000) + 0.2 * rng.normal(size=_N), 1).astype(np.float32)


def _packed_already(rng):
    return rng.integers(0, 225, 4 * _N, dtype=np.uint8)  # 7.8 bits in a byte: 2 % could be saved


CHOOSE_CODEC = Exercise(
    id="chunks/choose-codec",
    kind="artifact",
    task="Store `values` at `path` as a Zarr array with the chunks given, in at most `most_bytes` of files, so that "
    "every bit comes back. No codec wins everywhere: let the data decide. Where a codec saves less than 5 %, use "
    "none: a memory-mapped `.npy` is as small then, and needs no decoding.",
    names=("store_packed",),
    setup="import numpy as np\nimport zarr\nfrom zarr.codecs import BloscCodec, GzipCodec, ZstdCodec",
    probe=Probe("artifact", {"file": "packed.zarr", "inspect": "chunks:describe_packed"}),
    reference=store_packed,
    cases=(
        _kind("tenths of a degree, float32", _tenths, 0.2244),
        _kind("40 station numbers in any order, int64", _station_ids, 0.2),
        _kind("time stamps in microseconds, int64", _time_stamps, 0.235),
        _kind("counts of a 12-bit sensor, int16", _sensor_counts, 0.63),
        _kind("a signal with noise, float32", _measured, 0.735),
        _kind("bytes of pictures compressed already", _packed_already, 1.0),
    ),
    misconceptions=(
        Misconception(
            id="takes-the-default",
            specimen=_the_default,
            says="Zarr's default, Zstandard at level 0, looks at bytes in the order they lie in. Numbers that change "
            "slowly hide their regularity from it.",
            next="What do bytes 0, 1, 2 of neighbouring numbers have in common? A shuffle puts them side by side.",
        ),
        Misconception(
            id="gzip-9-everywhere",
            specimen=_the_hardest,
            says="This codec gets the bytes in the order they lie in, whatever its level. For time stamps and sensor "
            "counts that is the wrong order: a higher level is only slower.",
            next="Change the order of the bytes before you raise the level.",
        ),
        Misconception(
            id="shuffles-everything",
            specimen=_always_shuffled,
            says="Shuffling hurts here: values that repeat as a whole are torn into bytes that no longer repeat "
            "together.",
            next="Few different values, in any order: which codec finds a repeated number as it stands?",
        ),
        Misconception(
            id="bitshuffles-everything",
            specimen=_always_bitshuffled,
            says="Sorting by bits is right where neighbours differ in few bits. Values that repeat as a whole lose "
            "their repetition that way.",
            next="Try the data as they are, by bytes and by bits, and compare what is stored.",
        ),
        Misconception(
            id="goes-by-the-data-type",
            specimen=_by_the_dtype,
            says="The data type does not tell how values repeat: integers may be counters, noise or names, floats may "
            "be smooth or of few different values, and each wants another order of bytes.",
            next="Encode the data, or a sample of them, in each way and count the bytes.",
        ),
        Misconception(
            id="compresses-in-vain",
            specimen=_always_something,
            says="Hardly any regularity is left in these bytes. Your codec saves less than 5 %, and each read pays "
            "for decoding a whole chunk.",
            next="`compressors=None` is a choice, too.",
        ),
        Misconception(
            id="halves-the-precision",
            specimen=_half_precision,
            says="You rounded the values to make them smaller. That can be a good decision, made with whoever "
            "measured them, but it is no compression: the bits do not come back.",
            next="Keep the values as they are, and change how they are encoded.",
        ),
        Misconception(
            id="one-large-chunk",
            specimen=_one_large_chunk,
            says="One large chunk gives a codec more to work with, and every reader the whole array to decode.",
            next="Use the chunks given; the budget was made for them.",
        ),
        Misconception(
            id="stores-differences",
            specimen=_differences,
            says="You stored the differences of neighbours. They compress well, but whoever opens the array reads "
            "differences and takes them for the values.",
            next="A codec may do such things inside, since it also undoes them; the array holds the values.",
        ),
    ),
    hints=(
        "`BloscCodec(cname='zstd', shuffle=...)` takes 'noshuffle', 'shuffle' or 'bitshuffle': the order in which "
        "Zstandard gets the bytes.",
        "Write it one way, ask `array.nbytes_stored()`, and try the next with `overwrite=True`.",
        "Begin with no codec: what meets the budget without one should stay without one.",
    ),
    core=False,
    level=3,
    minutes=12,
    points=2,
    source="https://zarr.readthedocs.io/en/stable/user-guide/arrays/, section on compressors; "
    "https://www.blosc.org/posts/new-bitshuffle-filter/, read 2026-11",
)
