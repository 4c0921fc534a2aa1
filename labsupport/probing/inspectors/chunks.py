"""What lies in an HDF5 file or a Zarr store that an answer wrote, and the files answers are given to work on.

Bytes are counted where a store hands them over; nothing is timed. zarr and h5py are loaded when first needed.
"""

import math
import tempfile
from pathlib import Path

import numpy as np

from labsupport.probing.driven import Driven, Unusable

__all__ = ["describe_copy", "describe_log", "describe_packed", "describe_volume", "write_log", "write_source"]

SMALLEST, LARGEST = 10 * 1024, 1024 * 1024  # bytes of a chunk, the range h5py's documentation recommends
_CHUNK_ROWS = 1024  # of the log an answer is given
_MOST_NAMES = 8  # told in a sentence
_SAVES = 0.95  # a codec whose chunks stay larger than this share of the raw bytes saves nothing
_MOST_RATIO = 1.5  # bytes read per byte wanted, for the worst block
_MOST_READ, _MOST_DECODED = 1 << 26, 1 << 29  # bytes: of an array, and of one of its chunks
_LOSSY = {5: "nbit", 6: "scaleoffset"}  # HDF5's own filters by number; all others keep every bit
_NO_COMPRESSION = {2, 3}  # shuffle moves bytes, fletcher32 adds a checksum


# -- a log in HDF5 that grows


def write_log(folder, before, values, units):
    """Write the log an answer is given, if the case has one; return (values, units).

    Args:
        folder: where `log.h5` goes.
        before: None, or {"rows": (hours, stations) float32 or None, "humidity": (hours,) uint8}.
        values: (hours, stations) float32, what is to be appended.
        units: of the values.
    """
    if before is not None:
        _write_log(folder / "log.h5", before, units)
    return values, units


def _write_log(path, before, units):
    import h5py

    with h5py.File(path, "w") as file:
        file.attrs["station"] = "north slope"
        file["humidity"] = before["humidity"]
        file["humidity"].attrs["units"] = "%"
        if (rows := before["rows"]) is not None:
            made = file.create_dataset(
                "temperature", data=rows, maxshape=(None, rows.shape[1]), chunks=(_CHUNK_ROWS, rows.shape[1]),
                compression="gzip", shuffle=True,
            )  # fmt: skip
            made.attrs["units"] = units
            made.attrs["height"] = "2 m"


def describe_log(folder, before, values, units):
    """Return what `log.h5` holds: values and what stood there as the value, room, filters and chunks as facts."""
    path = folder / "log.h5"
    if before is not None and not path.exists():  # a given file that is as it was is not carried over
        _write_log(path, before, units)
    with _hdf5(path) as file:
        names = sorted(_names(file))
        if "temperature" not in names:
            raise Unusable(f"has no dataset `temperature`; it holds {_listed(names)}")
        dataset = file["temperature"]
        _dataset_with_axes(dataset, "temperature")
        seen = {
            "names in the file": ", ".join(names),
            "values of temperature": _all_of(dataset, "temperature"),
            "units of temperature": _units(file, dataset),
            "attributes that were there": _kept(file, before),
            "values of humidity": _all_of(file["humidity"], "humidity") if "humidity" in names else None,
        }
        facts = {
            "room for more hours": _room(dataset),
            "compression": _compression(dataset),
            "bytes in a chunk": _chunk_bytes(dataset),
            "old chunks that moved": _moved(folder, dataset, before, units),
        }
        return Driven(value=seen, facts=facts, notes={"bytes stored": dataset.id.get_storage_size()})


def _hdf5(path):
    import h5py

    if not path.exists():
        raise _not_written(path)
    if path.is_dir():
        raise Unusable("is a folder; an HDF5 file was asked for")
    try:
        return h5py.File(path, "r")
    except OSError as error:
        said = str(error)
        if "truncated" in said or path.stat().st_size == 0:
            raise Unusable("ends too early: it was not closed, or not flushed, after the last write") from error
        if "signature not found" in said:
            raise Unusable("is not an HDF5 file") from error
        raise Unusable(f"is damaged, or was left open and not flushed ({said})") from error


def _not_written(path):
    beside = sorted(found.name for found in path.parent.iterdir())
    return Unusable(f"was not written; beside it lies {_listed(beside)}" if beside else "was not written")


def _names(file):
    names = []
    file.visit(names.append)
    return [name if isinstance(name, str) else name.decode("utf-8", "backslashreplace") for name in names]


def _dataset_with_axes(found, name):
    """Raise `Unusable` unless something in a file is a dataset that has rows."""
    if not hasattr(found, "shape"):
        raise Unusable(f"holds a group `{name}` where a dataset should be")
    if not found.shape:
        raise Unusable(f"holds a dataset `{name}` without axes: it has no rows")


def _all_of(found, name):
    """Return every value of a dataset or an array, unless a slip in its shape or its chunks made it too much."""
    if not hasattr(found, "shape"):
        raise Unusable(f"holds a group `{name}` where a dataset should be")
    size = math.prod(found.shape or ()) * found.dtype.itemsize
    if size > _MOST_READ:
        raise Unusable(f"holds {name} of shape {tuple(found.shape)}, {size:,} bytes: far more than was asked for")
    decoded = math.prod(getattr(found, "shards", None) or found.chunks or ()) * found.dtype.itemsize
    if decoded > _MOST_DECODED:
        raise Unusable(f"has chunks of {decoded:,} bytes, and to read one value is to decode all of a chunk")
    return found[...]


def _kept(file, before):
    """Return the attributes the file came with, as they are now; what an answer adds is its own affair."""
    if before is None:
        return {}
    kept = {"station": _text(file.attrs.get("station"))}
    if before["rows"] is not None:
        kept["height"] = _text(file["temperature"].attrs.get("height"))
    return kept


def _text(value):
    """Return an attribute's value as text: however it was written, as str, bytes or an array of one."""
    if value is None:
        return "(no such attribute)"
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.reshape(-1)[0]
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value) if isinstance(value, str) else _plain(value)


def _units(file, dataset):
    """Return the dataset's units; where it has none, whether they stand at the file."""
    if "units" not in dataset.attrs and "units" in file.attrs:
        return "(only an attribute of the file)"
    return _text(dataset.attrs.get("units"))


def _room(dataset):
    return "no limit" if dataset.maxshape[0] is None else f"{dataset.maxshape[0]:,} in all"


def _compression(dataset):
    filters = dataset.id.get_create_plist()
    numbers = [filters.get_filter(i)[0] for i in range(filters.get_nfilters())]
    if lossy := [_LOSSY[number] for number in numbers if number in _LOSSY and dataset.dtype.kind == "f"]:
        return f"{lossy[0]}, which loses digits"
    return "lossless" if set(numbers) - _NO_COMPRESSION else "none"


def _chunk_bytes(dataset):
    """Return the size of a chunk as a fact: the range it lies in, or the number when it is too small."""
    if dataset.chunks is None:
        return "no chunks"
    size = math.prod(dataset.chunks) * dataset.dtype.itemsize
    if size > LARGEST:
        return f"more than {LARGEST:,}"
    return f"{SMALLEST:,} to {LARGEST:,}" if size >= SMALLEST else f"{size:,}"


def _moved(folder, dataset, before, units):
    """Return how many chunks that were full before no longer lie where they lay in the file."""
    import h5py

    if before is None or before["rows"] is None:
        return 0
    full = len(before["rows"]) // _CHUNK_ROWS
    with tempfile.TemporaryDirectory(prefix="as-it-was-", dir=folder) as own:
        path = Path(own) / "log.h5"
        _write_log(path, before, units)
        with h5py.File(path, "r") as file:
            old = _places(file["temperature"], full)
    return len(old - _places(dataset, full))


def _places(dataset, full):
    """Return {(first row, byte offset in the file)} of the first `full` chunks."""
    if dataset.chunks is None:
        return set()
    stored = (dataset.id.get_chunk_info(i) for i in range(dataset.id.get_num_chunks()))
    return {(one.chunk_offset[0], one.byte_offset) for one in stored if one.chunk_offset[0] < full * _CHUNK_ROWS}


# -- stores in Zarr


def describe_volume(folder, volume, read, most_files):
    """Return what `volume.zarr` holds; facts: its files, and the bytes read per byte wanted for blocks of `read`.

    Args:
        folder: where the store lies.
        volume: what should be in it.
        read: shape of the blocks that will be read, in elements.
        most_files: how many files the store may have, metadata included.
    """
    array = _zarr_array(folder / "volume.zarr")
    files = len(_files(folder / "volume.zarr"))
    seen = {"zarr format": array.metadata.zarr_format, "values stored": np.asarray(_all_of(array, "an array"))}
    facts, notes = {"files in the store": _within(files, most_files)}, {"files in the store": files}
    if array.shape == volume.shape:
        ratio = max(_bytes_per_byte(folder / "volume.zarr", block) for block in _blocks(volume.shape, read))
        facts["bytes read per byte wanted"] = _within(ratio, _MOST_RATIO)
        if ratio > _MOST_RATIO:
            larger = any(c > r for c, r in zip(array.chunks, read, strict=True))
            facts["chunks"] = "larger than a block" if larger else "no larger than a block"
        notes["bytes read per byte wanted"] = round(ratio, 2)
    return Driven(value=seen, facts=facts, notes=notes)


def _blocks(shape, read):
    """Return the first, a middle and the last whole block of shape `read`, as tuples of slices."""
    whole = [n // r for n, r in zip(shape, read, strict=True)]
    places = {tuple(pick(n) for n in whole) for pick in (lambda n: 0, lambda n: n // 2, lambda n: n - 1)}
    return [tuple(slice(i * r, (i + 1) * r) for i, r in zip(place, read, strict=True)) for place in sorted(places)]


def _bytes_per_byte(path, block):
    """Return the bytes of chunks a store hands over for one read, per byte that was asked for."""
    import zarr
    from zarr.storage import LocalStore

    from labsupport.chunklab import CountingStore

    store = CountingStore(LocalStore(path, read_only=True))
    array = zarr.open_array(store, mode="r")
    store.reset()
    wanted = np.asarray(array[block]).nbytes
    return store.counts["get_chunk_bytes"] / wanted


def describe_packed(folder, values, chunks, most_bytes):
    """Return what `packed.zarr` holds; facts: its bytes against `most_bytes`, and whether its codec saves anything.

    Args:
        folder: where the store lies.
        values: what should be in it.
        chunks: shape of the chunks asked for.
        most_bytes: of all files of the store together.
    """
    array = _zarr_array(folder / "packed.zarr")
    stored = sum(path.stat().st_size for path in _files(folder / "packed.zarr"))
    metadata = folder / "packed.zarr" / "zarr.json"
    in_chunks = stored - (metadata.stat().st_size if metadata.is_file() else 0)
    seen = {"shape of the chunks": list(array.chunks), "values stored": np.asarray(_all_of(array, "an array"))}
    in_vain = bool(array.compressors) and in_chunks > _SAVES * values.nbytes
    facts = {
        "bytes stored": _within(stored, most_bytes),
        "a codec that saves nothing": "there is one" if in_vain else "none",
    }
    return Driven(value=seen, facts=facts, notes={"bytes stored": stored, "raw bytes": values.nbytes})


def _within(count, most):
    return f"within {most:,}" if count <= most else f"over {most:,}"


def _files(path):
    return [found for found in Path(path).rglob("*") if found.is_file()]


def _zarr_array(path):
    import zarr
    from numcodecs.registry import codec_registry

    codec_registry.pop("pickle", None)  # a store may name it; older releases of numcodecs run what it decodes then
    if not path.exists():
        raise _not_written(path)
    if path.is_file():
        raise Unusable("is a single file; a Zarr store here is a folder")
    try:
        node = zarr.open(path, mode="r")
    except FileNotFoundError as error:
        raise Unusable("is not a Zarr store: no `zarr.json` lies in it") from error
    except Exception as error:
        raise Unusable(f"cannot be opened: {type(error).__name__}: {error}") from error
    if not isinstance(node, zarr.Array):
        inside = _listed(sorted(found.name for found in path.iterdir() if found.is_dir()))
        raise Unusable(f"is a group and no array; it holds {inside}")
    return node


def _listed(names):
    shown = ", ".join(f"`{name}`" for name in names[:_MOST_NAMES]) or "nothing"
    return shown if len(names) <= _MOST_NAMES else f"{shown} and {len(names) - _MOST_NAMES:,} more"


# -- from HDF5 to Zarr


def write_source(folder, values, layout, attributes, chunks):
    """Write `source.h5` with the dataset `field`; return (path of the file, "field", chunks).

    Args:
        folder: where it goes.
        values: the array.
        layout: {"chunks": of the source, "fill": its fill value}.
        attributes: {name: text, NumPy scalar or array}.
        chunks: of the store that is asked for.
    """
    import h5py

    path = folder / "source.h5"
    with h5py.File(path, "w") as file:
        file.attrs["title"] = "not an attribute of the field"
        made = file.create_dataset(
            "field", data=values, chunks=tuple(layout["chunks"]), compression="lzf", fillvalue=layout["fill"]
        )
        made.attrs.update(attributes)
    return path, "field", tuple(chunks)


def describe_copy(folder, values, layout, attributes, chunks):
    """Return what `copy.zarr` holds; facts: elements whose bits differ from the source's, and its fill value."""
    array = _zarr_array(folder / "copy.zarr")
    got, values = (_native(np.asarray(one)) for one in (_all_of(array, "an array"), values))
    seen = {
        "shape of the chunks": list(array.chunks),
        "data type": array.dtype.name,
        "values stored": got,
        "attributes of the array": {name: _plain(value) for name, value in sorted(array.attrs.asdict().items())},
        "the source file": "changed"
        if (folder / "source.h5").exists()
        else "as it was",  # only what changed is carried over
    }
    facts = {"elements whose bits differ": _bits_differ(got, values), "fill value": str(array.fill_value)}
    return Driven(value=seen, facts=facts, notes={"files": len(_files(folder / "copy.zarr"))})


def _native(values):
    """Return the values in the byte order of this machine: how a store orders bytes is its own affair."""
    if values.dtype.kind not in "biufcmM":  # texts and records have no order of their own
        return values
    return values.astype(values.dtype.newbyteorder("="), copy=False)


def _bits_differ(got, wanted):
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return "all"
    bits = [np.ascontiguousarray(one).view(f"u{one.dtype.itemsize}") for one in (got, wanted)]
    return int(np.count_nonzero(bits[0] != bits[1]))


def _plain(value):
    return value.tolist() if isinstance(value, (np.generic, np.ndarray)) else value
