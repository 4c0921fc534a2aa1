"""Right answers to the exercises of lesson 13 that write files, written differently from the course's own."""

import itertools
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import h5py
    import numpy as np
    import zarr
    from zarr.codecs import BloscCodec, GzipCodec, ZstdCodec


# -- append-hdf5


def append_with_require(path, values, units):
    """`require_dataset` cannot make room, so the shape is looked at; chunks of whole kibirows, LZF, bytes for units."""
    stations = values.shape[1]
    rows = 2 ** math.ceil(math.log2(12_000 / (4 * stations)))
    file = h5py.File(path, "r+" if path.exists() else "x")
    try:
        log = file.get("temperature")
        if log is None:
            log = file.create_dataset(
                "temperature", data=values, maxshape=(None, None), chunks=(rows, stations), compression="lzf"
            )
            log.attrs["units"] = np.bytes_(units)
        elif len(values):
            log.resize((log.shape[0] + values.shape[0], stations))
            log[-values.shape[0] :, :] = values
    finally:
        file.close()


def append_a_row_at_a_time(path, values, units):
    with h5py.File(path, "a", libver="latest") as file:
        if "temperature" not in file.keys():
            made = file.create_dataset(
                "/temperature", shape=(0, values.shape[1]), dtype="<f4", maxshape=(None, values.shape[1]),
                chunks=(500, values.shape[1]) if values.shape[1] < 100 else (20, values.shape[1]),
                compression="gzip", compression_opts=9, shuffle=True, fletcher32=True,
            )  # fmt: skip
            made.attrs.create("units", units)
        for row in values:
            file["temperature"].resize(file["temperature"].shape[0] + 1, axis=0)
            file["temperature"][file["temperature"].shape[0] - 1] = row


def append_with_the_low_level(path, values, units):
    with h5py.File(str(path), "a") as file:
        if "temperature" not in file:
            made = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            made.set_chunk((3000 if values.shape[1] < 10 else 16, values.shape[1]))
            made.set_deflate(4)
            space = h5py.h5s.create_simple(values.shape, (h5py.h5s.UNLIMITED, values.shape[1]))
            log = h5py.Dataset(h5py.h5d.create(file.id, b"temperature", h5py.h5t.IEEE_F32LE, space, dcpl=made))
            log[...] = values
            log.attrs["units"] = units
            return
        log = file["temperature"]
        first = log.shape[0]
        log.resize((first + values.shape[0], *log.shape[1:]))
        log.write_direct(values, dest_sel=np.s_[first : first + values.shape[0]]) if len(values) else None


# -- zarr-sharded


def store_with_an_even_split(path, volume, read, most_files):
    """All ways to split the axes, the one with most files that is still allowed."""
    grid = [math.ceil(n / side) for n, side in zip(volume.shape, read)]
    splits = itertools.product(*(range(1, count + 1) for count in grid))

    def files(split):
        return math.prod(math.ceil(count / math.ceil(count / parts)) for count, parts in zip(grid, split))

    best = max((split for split in splits if math.prod(split) < most_files), key=files)
    shards = tuple(side * math.ceil(count / parts) for side, count, parts in zip(read, grid, best))
    zarr.create_array(path, data=volume, chunks=read, shards=shards, compressors=None)


def store_with_a_group_and_blocks(path, volume, read, most_files):
    counts = [-(-n // side) for n, side in zip(volume.shape, read)]
    factors = [1] * len(counts)
    while math.prod(-(-count // factor) for count, factor in zip(counts, factors)) > most_files - 1:
        widest = max(range(len(counts)), key=lambda axis: -(-counts[axis] // factors[axis]))
        factors[widest] += 1
    shards = tuple(factor * side for factor, side in zip(factors, read))
    array = zarr.create(
        store=zarr.storage.LocalStore(path), shape=volume.shape, dtype="u1", chunks=shards, zarr_format=3,
        codecs=[zarr.codecs.ShardingCodec(chunk_shape=read)], fill_value=0,
    )  # fmt: skip
    for corner in itertools.product(*(range(0, n, side) for n, side in zip(volume.shape, shards))):
        block = tuple(slice(first, first + side) for first, side in zip(corner, shards))
        array[block] = volume[block]


# -- choose-codec


def store_by_a_sample(path, values, chunks, most_bytes):
    """One chunk encoded in memory in each way; the smallest wins if it saves enough."""
    sample = values[: chunks[0]]
    candidates = [
        GzipCodec(level=6),
        ZstdCodec(level=9),
        *(BloscCodec(cname="zstd", clevel=7, shuffle=shuffle) for shuffle in ("noshuffle", "shuffle", "bitshuffle")),
    ]

    def size(codec):
        trial = zarr.create_array(
            zarr.storage.MemoryStore(), shape=sample.shape, dtype=sample.dtype, chunks=chunks, compressors=codec
        )
        trial[:] = sample
        return trial.nbytes_stored()

    best = min(candidates, key=size)
    codec = best if size(best) < 0.95 * sample.nbytes else None
    zarr.create_array(path, data=values, chunks=chunks, compressors=codec)


def store_by_what_repeats(path, values, chunks, most_bytes):
    """Rules instead of trials: bytes as they are, few values unshuffled, all other numbers by bits."""
    if values.itemsize == 1:
        codec = None
    elif len(np.unique(values)) < 0.02 * len(values) and values.dtype != np.int16:
        codec = BloscCodec(cname="zstd", clevel=9, shuffle="noshuffle")
    else:
        codec = BloscCodec(cname="zstd", clevel=9, shuffle="bitshuffle")
    array = zarr.create_array(path, shape=values.shape, dtype=values.dtype, chunks=chunks, compressors=codec)
    array[:] = values


def store_in_format_2(path, values, chunks, most_bytes):
    """The older format on disk is a Zarr array as well."""
    from numcodecs import Blosc, Zstd

    ways = [None, Zstd(9), Blosc("zstd", 5, Blosc.SHUFFLE), Blosc("zstd", 5, Blosc.BITSHUFFLE)]
    for compressor in ways:
        array = zarr.create_array(
            path, shape=values.shape, dtype=values.dtype, chunks=chunks, compressors=compressor, zarr_format=2,
            overwrite=True,
        )  # fmt: skip
        array[:] = values
        if array.nbytes_stored() < most_bytes - 100:
            break


# -- convert


def convert_by_bands(path, source, name, chunks):
    """Bands of whole chunk rows where they fit, columns of them where they do not."""
    with h5py.File(source) as file:
        field = file[name]
        array = zarr.open_array(
            path, mode="w", shape=field.shape, dtype=field.dtype, chunks=chunks, fill_value=field.fillvalue[()]
        )
        for key in field.attrs:
            value = field.attrs[key]
            array.attrs[key] = value if isinstance(value, str) else np.asarray(value).tolist()
        for column in range(-(-field.shape[1] // chunks[1])):
            across = slice(column * chunks[1], (column + 1) * chunks[1])
            for row in range(-(-field.shape[0] // chunks[0])):
                down = slice(row * chunks[0], (row + 1) * chunks[0])
                array[down, across] = field[down, across]


def convert_into_one_buffer(path, source, name, chunks):
    with h5py.File(source, "r") as file:
        field = file[name]
        meant = {}
        for key, value in field.attrs.items():
            if isinstance(value, np.ndarray):
                value = [item.item() for item in value]
            elif isinstance(value, np.generic):
                value = value.item()
            meant[key] = value
        array = zarr.create_array(
            str(path), shape=field.shape, dtype=field.dtype, chunks=chunks, fill_value=field.fillvalue.item(),
            compressors=None,
        )  # fmt: skip
        array.update_attributes(meant)
        for index in np.ndindex(*array.cdata_shape):
            block = tuple(slice(i * side, min((i + 1) * side, n)) for i, side, n in zip(index, chunks, field.shape))
            buffer = np.empty([part.stop - part.start for part in block], field.dtype)
            field.read_direct(buffer, block)
            array[block] = buffer


ANSWERS = {
    "chunks/append-hdf5": [append_with_require, append_a_row_at_a_time, append_with_the_low_level],
    "chunks/zarr-sharded": [store_with_an_even_split, store_with_a_group_and_blocks],
    "chunks/choose-codec": [store_by_a_sample, store_by_what_repeats, store_in_format_2],
    "chunks/convert": [convert_by_bands, convert_into_one_buffer],
}

EQUIVALENT_MUTANTS = {
    ("chunks/append-hdf5", "Constant: 65536"): "a chunk of about 64 KiB: one byte more asks for the same rows",
    ("chunks/append-hdf5", "Constant: 1"): "the bytes of two rows instead of one: chunks half as large are fine, too",
    ("chunks/append-hdf5", "Constant: 4"): "the bytes of a value one off: chunks of a fifth less are fine, too",
    ("chunks/append-hdf5", "BinOp: 4 * values.shape[1]"): "other chunks, still within the bounds",
    ("chunks/zarr-sharded", "Constant: 2"): "shards that grow threefold meet both budgets as well",
    ("chunks/choose-codec", "Compare: array.nbytes_stored() <= most_bytes"): "no store is of exactly that many bytes",
}
