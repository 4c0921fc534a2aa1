"""Lesson 13: functions that reckon with chunks, choose them, and read and write stored arrays.

Every array lives in memory, in an HDF5 file or a Zarr store made anew for each call; h5py and zarr are loaded then.
"""

import io

import numpy as np

from labsupport.chunklab.grid import grid_of, touched
from labsupport.probing.call import within
from labsupport.probing.drivers import Driven, Unusable

__all__ = ["chosen_shape", "read_rows", "touched_chunks", "weighed_shape", "write_back"]


# -- touched


def touched_chunks(answer, shape, chunks, selection):
    """Return the chunks an answer names for one selection, in order, under the selection as it would be written.

    Args:
        answer: has `touched_chunks(shape, chunks, selection)`.
        shape, chunks: tuples of elements.
        selection: one entry per axis, an int or (start, stop, step); the answer gets a slice for the latter.
    """
    items = tuple(slice(*item) if isinstance(item, tuple) else item for item in selection)
    found = answer.touched_chunks(shape, chunks, items)
    written = ", ".join(_written(item) for item in items)
    return {f"x[{written}] of shape {shape} in chunks of {chunks}": _as_indices(found, len(shape))}


def _written(item):
    if not isinstance(item, slice):
        return str(item)
    start, stop = ("" if end is None else str(end) for end in (item.start, item.stop))
    return f"{start}:{stop}" + (f":{item.step}" if item.step not in (None, 1) else "")


def _as_indices(found, axes):
    try:
        listed = [tuple(int(i) for i in chunk) for chunk in found]
    except (TypeError, ValueError):
        raise Unusable(f"A chunk is a tuple of {_axes(axes)}; it returns {_short(found)}.") from None
    if wrong := [chunk for chunk in listed if len(chunk) != axes]:
        raise Unusable(f"A chunk is a tuple of {_axes(axes)}; it returns {wrong[0]} as one.")
    return sorted(listed)


def _axes(count):
    return "one number" if count == 1 else f"{count} numbers, one for each axis"


def _short(value):
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:59] + "…"


# -- choose-shape


def chosen_shape(answer, data, reads, most_chunks):
    """Return the chunk shape that an answer's `chunk_shape(shape, itemsize, reads, most_chunks)` chooses.

    Args:
        data: the array to be stored.
        reads, most_chunks: as of `weighed_shape`.
    """
    return _checked_chunks(answer.chunk_shape(data.shape, data.itemsize, reads, most_chunks), data.shape)


def weighed_shape(chunks, data, reads, most_chunks):
    """Return what is read back through a chunk shape; facts: each read's bytes, and the chunks.

    Read back is the middle of the array, so that the value does not depend on the shape. The shape may come from a
    process that ran an answer, and the answer never runs beside this.

    Args:
        chunks: what `chosen_shape` returned there.
        data: the array to be stored.
        reads: (box, most_bytes) of each read; a box may lie anywhere, so it is read where it costs most.
        most_chunks: how many chunks the array may have.
    """
    shape = data.shape
    chunks = _checked_chunks(chunks, shape)
    count = int(np.prod(grid_of(shape, chunks)))
    facts = {"the number of chunks": within(count, most_chunks)}
    found, notes = {}, {"chunks": count}
    for box, most_bytes in reads:
        name = " x ".join(map(str, box))
        where = tuple(_costliest(n, c, b) for n, c, b in zip(shape, chunks, box))
        decoded = touched(shape, chunks, where, itemsize=data.itemsize).decoded_bytes
        facts[f"bytes decoded to read {name}"] = within(decoded, most_bytes)
        notes[f"bytes decoded to read {name}"] = decoded
        found[f"a read of {name}"] = tuple(slice((n - b) // 2, (n - b) // 2 + b) for n, b in zip(shape, box))
    return Driven(value=_read_back(data, chunks, count, found), facts=facts, notes=notes)


def _checked_chunks(chunks, shape):
    try:
        chosen = tuple(int(n) for n in chunks)
    except (TypeError, ValueError):
        raise Unusable(f"A chunk shape is a tuple of {_axes(len(shape))}; it returns {_short(chunks)}.") from None
    if len(chosen) != len(shape) or any(not 1 <= c <= n for c, n in zip(chosen, shape)):
        raise Unusable(f"It returns {chosen}; each side of a chunk is at least 1 and at most the array's, {shape}.")
    return chosen


def _costliest(length, chunk, box):
    """Return the slice of `box` elements on an axis that touches most chunks."""
    start = max(range(length - box + 1), key=lambda at: (at + box - 1) // chunk - at // chunk)
    return slice(start, start + box)


def _read_back(data, chunks, count, places):
    """Return the boxes as HDF5 gives them back; from the array itself where too many chunks would take too long."""
    import h5py

    if count > 5_000:
        return {name: data[where] for name, where in places.items()}
    with h5py.File("chosen.h5", "w", driver="core", backing_store=False) as file:
        stored = file.create_dataset("data", data=data, chunks=chunks)
        return {name: stored[where] for name, where in places.items()}


# -- write-back


def write_back(answer, images, limit):
    """Return what an HDF5 dataset and a Zarr array hold after an answer has worked on each.

    Args:
        answer: has `cap_peaks(stored, limit)`.
        images: (image, row, column), what both hold before.
        limit: a number of the same kind.
    """
    import h5py
    import zarr

    chunks = (min(4, len(images)), *images.shape[1:])
    with h5py.File("images.h5", "w", driver="core", backing_store=False) as file:
        file.create_dataset("images", data=images, chunks=chunks)
        answer.cap_peaks(file["images"], limit)
        if not file:
            raise Unusable("It closes the file, which belongs to whoever called it; what is assigned is written.")
        in_hdf5 = file["images"][:]
    store = zarr.storage.MemoryStore()
    zarr.create_array(store, data=images, chunks=chunks)
    answer.cap_peaks(zarr.open_array(store, mode="r+"), limit)
    return {"the HDF5 dataset": in_hdf5, "the Zarr array": zarr.open_array(store, mode="r")[:]}


# -- cache


def read_rows(answer, table, chunks, rows):
    """Return the rows an answer reads from a file that counts; facts: which chunks were read, and how often.

    Args:
        answer: has `read_rows(file, rows)`, which opens the file and reads its dataset "readings".
        table: (row, column), stored with gzip.
        chunks: shape of a chunk.
        rows: list of row numbers, in any order.
    """
    written = io.BytesIO()
    stored_at = _write_readings(written, table, chunks)
    file = _counting(written)
    open_before = _open_files()
    try:
        result = answer.read_rows(file, list(rows))
    finally:
        _close_others(open_before)
    seen = [at for at, size in file.log if stored_at.get(at) == size]
    often = max((seen.count(at) for at in set(seen)), default=0)
    facts = {
        "the number of different chunks read": len(set(seen)),
        "how often a chunk was read": "once at most" if often <= 1 else "again and again",
    }
    return Driven(value=result, facts=facts, notes={"bytes read from the file": file.bytes, "chunks read": len(seen)})


def _counting(file):
    """Return a counting file that may be written to as well: an answer may open it in any mode.

    HDF5 writes when such a file is closed. One that refuses leaves a file behind that ends the whole process later.
    """
    from labsupport.chunklab import CountingFile

    class Writable(CountingFile):
        def writable(self):
            return True

        def write(self, data):
            return file.write(data)

        def truncate(self, size=None):
            return file.truncate(size)

        def flush(self):
            pass

    return Writable(file)


def _write_readings(file, table, chunks):
    """Write the dataset and return {position in the file: bytes} of its chunks."""
    import h5py

    with h5py.File(file, "w") as made:
        readings = made.create_dataset("readings", data=table, chunks=chunks, compression="gzip", compression_opts=1)
        infos = [readings.id.get_chunk_info(i) for i in range(readings.id.get_num_chunks())]
        return {info.byte_offset: info.size for info in infos}


def _open_files():
    from h5py import h5f

    return {found.id for found in h5f.get_obj_ids(h5f.OBJ_ALL, h5f.OBJ_FILE)}


def _close_others(known):
    """Close the HDF5 files that an answer left open: one over a file object must not outlive the interpreter."""
    import h5py
    from h5py import h5f

    for found in h5f.get_obj_ids(h5f.OBJ_ALL, h5f.OBJ_FILE):
        if found.valid and found.id not in known:
            h5py.File(found).close()
