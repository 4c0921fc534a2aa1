"""What the chunk map knows of an array, a dataset or a file: shape, dtype, its own layout and cache, stored sizes."""

import sys
from math import prod
from pathlib import Path

from labsupport.errors import LabError
from labsupport.figures.chunk_model import counts_of
from labsupport.figures.figure import whole
from labsupport.figures.words import join_words, repr_label

__all__ = ["describe", "opened"]

MOST_STORED = 2_000  # chunks up to which the size of each in the file travels with the figure
_LOCAL_DRIVERS = ("sec2", "stdio", "core", "windows")
_LOCAL_STORES = ("LocalStore", "MemoryStore", "ZipStore")
NBYTES, SLOTS = 1_048_576, 521  # HDF5's cache before 2.0; the lesson's reads are told apart by it


def opened(data, dataset):
    """Return (array-like, close): the dataset named, when a file, a group, a folder or a Zarr store was given."""
    close = None
    if isinstance(data, (str, Path)):
        data, close = _opened_path(Path(data))
    elif _is(data, "zarr.abc.store", "Store"):
        data = sys.modules["zarr"].open(data, mode="r")
    if not _is_group(data):
        return data, close
    found = _arrays_in(data)
    if dataset is not None and dataset in found:
        return found[dataset], close
    if dataset is None and len(found) == 1:
        return next(iter(found.values())), close
    what = "holds no array" if not found else f"holds {join_words(sorted(found)[:8])}"
    wrong = f"{what}, no {dataset!r}" if dataset is not None and found else what
    if close:
        close()
    raise LabError(f"this file {wrong}", next_step=f"name one: dataset={sorted(found)[0]!r}" if found else "")


def _opened_path(path):
    if not path.exists():
        raise LabError(f"there is no {path}", next_step="pass the path of an HDF5 file or of a Zarr folder")
    if path.is_dir():
        import zarr

        return zarr.open(path, mode="r"), None
    import h5py

    if not h5py.is_hdf5(path):
        raise LabError(f"{path.name} is not an HDF5 file", next_step="pass an HDF5 file or a Zarr folder")
    file = h5py.File(path, "r")
    return file, file.close


def _is(value, module, name):
    """Return whether `value` is of a class of a module that may not have been imported."""
    known = getattr(sys.modules.get(module), name, None)
    return known is not None and isinstance(value, known)


def _is_group(data):
    return _is(data, "h5py", "Group") or _is(data, "zarr", "Group")


def _arrays_in(group):
    """Return {path: array} of every array in a group."""
    if _is(group, "zarr", "Group"):
        return {name: member for name, member in group.members(max_depth=None) if hasattr(member, "chunks")}
    found = {}
    group.visititems(lambda name, member: found.update({name: member}) if hasattr(member, "chunks") else None)
    return found


def describe(data):
    """Return {"shape", "dtype", "itemsize", "layout", "cache", "stored", "near"} of what is to be drawn.

    `layout` is None for what has none of its own; `near` says whether values may be read for a picture without being
    asked for: not those behind a file object or a wrapped store, which may count reads, or be far away.
    Raises LabError for anything that is no array.
    """
    if isinstance(data, (tuple, list)) and len(data) in (2, 3):
        return _described(data[0], data[1], data[2] if len(data) == 3 else None)
    if _is(data, "h5py", "Dataset"):
        return _dataset(data)
    if _is(data, "zarr", "Array"):
        return _zarr(data)
    if not (hasattr(data, "shape") and hasattr(data, "dtype")):
        raise LabError(f"the chunk map draws arrays, not {type(data).__name__}", next_step=ACCEPTS)
    return _described(data.shape, data.dtype, None)


ACCEPTS = (
    'lab.show("chunks", x): an array, an h5py.Dataset, a zarr.Array, a file, or (shape, dtype, chunks); options: '
    "chunks, shards, format, other, select, plane, reads, cache_bytes, cache_slots, dataset, image, name"
)


def _described(shape, dtype, chunks):
    import numpy as np

    text = str(dtype).removeprefix("torch.")
    try:
        kind = np.dtype(text if text != str(dtype) else dtype)
    except TypeError:
        step = 'pass ((1024, 128, 128), "uint8", (32, 128, 128))'
        raise LabError(f"{repr_label(dtype, 40)} is no dtype", next_step=step) from None
    return _as_source(shape, kind, chunks and {"format": "hdf5", "chunks": whole(chunks, "chunks")})


def _as_source(shape, dtype, layout, stored=None, cache=(NBYTES, SLOTS), near=True):
    return {"shape": whole(shape, "shape"), "dtype": str(dtype), "itemsize": max(1, dtype.itemsize), "layout": layout,
            "cache": list(cache), "stored": stored, "near": near}  # fmt: skip


def _dataset(data):
    if data.shape is None:
        raise LabError(f"{data.name} is an empty dataset: it has no shape")
    slots, nbytes, _ = data.id.get_access_plist().get_chunk_cache()
    near = data.file.driver in _LOCAL_DRIVERS
    if data.chunks is None:
        return _as_source(data.shape, data.dtype, {"format": "contiguous", "chunks": list(data.shape)}, near=near)
    filtered = data.id.get_create_plist().get_nfilters() > 0
    layout = {"format": "hdf5" if filtered else "raw", "chunks": list(data.chunks)}
    stored = _stored(data.shape, layout, lambda grid: _dataset_sizes(data, grid))
    return _as_source(data.shape, data.dtype, layout, stored, (nbytes, slots), near)


def _stored(shape, layout, sizes):
    grid = counts_of(shape, layout["chunks"])
    return {**layout, "sizes": sizes(grid)} if prod(grid) <= MOST_STORED else None


def _dataset_sizes(data, grid):
    """Return the bytes of each chunk in the file, row-major; 0 for one never written."""
    sizes = [0] * prod(grid)

    def add(chunk):
        at = 0
        for offset, c, n in zip(chunk.chunk_offset, data.chunks, grid):
            at = at * n + offset // c
        sizes[at] = chunk.size

    data.id.chunk_iter(add)
    return sizes


def _zarr(data):
    shards = getattr(data, "shards", None)
    layout = {"format": "sharded" if shards else "zarr", "chunks": list(data.chunks)}
    near = type(data.store).__name__ in _LOCAL_STORES
    if shards:
        layout["per"] = [s // c for s, c in zip(shards, data.chunks)]
        return _as_source(data.shape, data.dtype, layout, near=near)
    local = type(_innermost(data.store)).__name__ in _LOCAL_STORES  # elsewhere, asking for each size takes its time
    stored = _stored(data.shape, layout, lambda grid: _zarr_sizes(data, grid)) if local else None
    return _as_source(data.shape, data.dtype, layout, stored, near=near)


def _innermost(store):
    """Return the store within wrapped ones."""
    while getattr(store, "_store", None) is not None:
        store = store._store
    return store


def _zarr_sizes(data, grid):
    """Return the bytes of each chunk's object, row-major; 0 for one that is not stored."""
    from itertools import product

    from zarr.core.sync import sync

    store = _innermost(data.store)  # a wrapper that counts would read the value to tell its size

    async def size(index):
        key = f"{data.path}/{data.metadata.encode_chunk_key(index)}".lstrip("/")
        try:
            return await store.getsize(key)
        except FileNotFoundError:
            return 0

    async def all_of_them():
        return [await size(index) for index in product(*map(range, grid))]

    return sync(all_of_them())
