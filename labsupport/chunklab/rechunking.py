"""Copy arrays into another layout, in either direction between HDF5 and Zarr, under a memory budget.

    rechunk("days.h5", "days.zarr", {"temperature": (1, 64, 64)}, memory_bytes=100_000_000)

Values come out equal to the bit, attributes and groups are kept, and a run that is killed leaves nothing at the target
that looks whole.
"""

import contextlib
import os
import warnings
from dataclasses import dataclass
from pathlib import Path

from labsupport.chunklab import attributes
from labsupport.chunklab.counting import fetch
from labsupport.chunklab.layouts import layout_of
from labsupport.chunklab.planning import plan_rechunk
from labsupport.chunklab.selecting import checked_shape
from labsupport.chunklab.sources import is_hdf5, names_in, open_tree
from labsupport.chunklab.targets import target_hdf5, target_zarr
from labsupport.errors import LabError, UsageError

__all__ = ["MEMORY_BYTES", "Rechunked", "rechunk"]

MEMORY_BYTES = 256 << 20


@dataclass(frozen=True)
class Rechunked:
    """What was done: `plans` and `notes` by array; a note says what of it the target's format could not keep."""

    source: str
    target: str
    plans: dict
    notes: dict

    def _message(self):
        from labsupport.chunklab import words

        return words.of_rechunked(self)

    def __str__(self):
        return str(self._message())

    __repr__ = __str__

    def _repr_html_(self):
        return self._message()._repr_html_()


def rechunk(
    source, target, chunks=None, memory_bytes=MEMORY_BYTES, *, name=None, shards=None, compress=True, zarr_format=3,
    overwrite=False, options=None, progress=None,
):  # fmt: skip
    """Copy the arrays of `source` to `target` with other chunks; return a `Rechunked`.

    Args:
        source: an HDF5 file, a Zarr store, or a URL of either.
        target: a path ending in .h5 or .hdf5 for HDF5; any other path, a .zip, a URL or a zarr `Store` for Zarr.
        chunks: chunk shape in elements; or {array: shape}; None keeps each array's own (one piece becomes rows).
        memory_bytes: for the data held at one time.
        name: copy this array alone; to the root of a Zarr store, to the same name in HDF5.
        shards: shard shape for Zarr v3, like `chunks`.
        compress: Zarr's default codec (Zstandard), or gzip 4 with shuffle in HDF5; False stores plainly.
        zarr_format: 2 or 3, of a Zarr target.
        overwrite: replace what is at the target.
        options: of the file systems behind URLs.
        progress: called after each slab with (array, slabs done, slabs in all).

    Raises:
        UsageError: unknown arrays, shapes that do not fit, a target that is there already.
        LabError: too little memory for one chunk (says how much is needed), or values of a type that cannot cross.
    """
    _apart(source, target)
    with open_tree(source, cache_bytes=0, options=options) as found, _one_at_a_time():
        to_hdf5 = _is_hdf5_target(target, shards)
        jobs = _jobs(found, name, chunks, shards)
        plans = {job.name: job.plan(memory_bytes, to_hdf5) for job in jobs}
        with _writer(target, to_hdf5, compress, zarr_format, overwrite, options) as writer:
            notes = writer.copy(found, jobs, plans, name is not None, progress)
    return Rechunked(str(source), str(target), plans, notes)


def _is_hdf5_target(target, shards):
    to_hdf5 = is_hdf5(target)
    if to_hdf5 and shards:
        raise UsageError("HDF5 has no shards", next_step="leave out shards, or choose a Zarr target")
    return to_hdf5


def _jobs(found, name, chunks, shards):
    arrays = _selected(found, name)
    return [
        _Job(each, array, _shape_for(chunks, each, arrays, "chunks"), _shape_for(shards, each, arrays, "shards"))
        for each, array in arrays.items()
    ]


@contextlib.contextmanager
def _writer(target, to_hdf5, compress, zarr_format, overwrite, options):
    with _writing(target):
        if to_hdf5:
            with target_hdf5(target, overwrite) as root:
                yield _Hdf5Writer(root, compress)
        else:
            with target_zarr(target, overwrite, options) as store:
                yield _ZarrWriter(store, compress, zarr_format)


def _apart(source, target):
    paths = [
        Path(each).resolve() for each in (source, target) if isinstance(each, (str, Path)) and "://" not in str(each)
    ]
    if len(paths) == 2 and (paths[0] == paths[1] or paths[0] in paths[1].parents or paths[1] in paths[0].parents):
        raise UsageError("source and target lie in each other", next_step="write to another place, then rename")


@contextlib.contextmanager
def _writing(target):
    """Tell what the system, HDF5 or a remote store says of writing; reading has its own words by then."""
    try:
        yield
    except OSError as error:
        # The system's own words where there are some: HDF5 puts times, addresses and sizes around them.
        said = os.strerror(error.errno) if error.errno else str(error)
        why = f"{type(error).__name__}: {said}".splitlines()[0]
        raise LabError(f"{target} cannot be written", why=why) from error


@contextlib.contextmanager
def _one_at_a_time():
    """Let zarr work on one chunk at a time: what it holds is then what the plan says."""
    import zarr

    with zarr.config.set({"async.concurrency": 1}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning, module="zarr")
        yield


def _selected(found, name):
    names = names_in(found)
    if name is not None:
        asked = name.strip("/")
        if asked not in names:
            few = ", ".join(repr(each) for each in names[:8])
            raise UsageError(f"{found.where} holds no array {name!r}", next_step=f"name one of {few}")
        names = [asked]
    if not names:
        raise UsageError(f"{found.where} holds no array")
    return {each: found.array[each] if each else found.array for each in names}


def _shape_for(given, name, arrays, what):
    if isinstance(given, dict):
        unknown = sorted(set(given) - set(arrays))
        if unknown:
            raise UsageError(
                f"there is no array {unknown[0]!r} to give {what} to", next_step=f"one of {', '.join(arrays)}"
            )
        given = given.get(name)
    elif given is not None and len(arrays) > 1:
        raise UsageError(
            f"one shape of {what} for {len(arrays)} arrays", next_step=f"give {what} by array, or name one array"
        )
    if given is None:
        return None
    given = checked_shape(what, given, least=1, dims=len(arrays[name].shape))
    return given


class _Job:
    """One array on its way."""

    def __init__(self, name, array, chunks, shards):
        self.name, self.array = name, array
        self.layout = layout_of(array)
        self._refuse()
        shape = self.layout.shape
        chunks = chunks or self.layout.chunks or (*([1] * (len(shape) - 1)), *shape[-1:])
        self.chunks = tuple(max(1, chunk) for chunk in chunks)
        self.shards = shards
        if shards and any(shard % chunk for shard, chunk in zip(shards, self.chunks)):
            raise UsageError(
                f"shards of {shards} do not hold chunks of {self.chunks}", why="each must be a whole multiple"
            )

    def _refuse(self):
        shape, dtype = self.array.shape, self.array.dtype
        label = self.name or "the array"
        if shape is None or self.layout.place == "virtual":
            raise LabError(f"{label} holds no data of its own", why="it is empty by type, or a view of other files")
        if dtype.hasobject or dtype.kind == "T":
            raise LabError(
                f"{label} has elements of variable length ({dtype})",
                why="they have no size that a memory budget could be kept by",
                next_step="name another array",
            )

    def plan(self, memory_bytes, to_hdf5):
        if to_hdf5 and self.array.dtype.kind in "UMm":
            raise LabError(f"{self.name or 'the array'} is of {self.array.dtype}", why="HDF5 has no such type")
        layout = self.layout
        unit = self.shards or self.chunks
        return plan_rechunk(layout.shape, layout.itemsize, layout.chunks, unit, memory_bytes, source_unit=layout.shards)

    def growth(self):
        """Return HDF5's `maxshape` for this array: every axis of a Zarr array can grow."""
        return getattr(self.array, "maxshape", (None,) * len(self.layout.shape))

    def labels(self):
        """Return the names of the axes, or None."""
        if hasattr(self.array, "store_path"):
            return getattr(self.array.metadata, "dimension_names", None)
        labels = tuple(dimension.label or None for dimension in self.array.dims)
        return labels if any(labels) else None


class _Writer:
    """What writing HDF5 and writing Zarr have in common."""

    def copy(self, found, jobs, plans, alone, progress):
        notes = {}
        if not alone:
            self.groups(found, notes)
            _tell_links(found, notes)
        for job in jobs:
            array, kept = self.create(job, alone)
            if kept:
                notes[job.name] = kept
            plan = plans[job.name]
            for done, region in enumerate(plan.regions(), 1):
                self.write(array, region, fetch(job.array, region, where=found.where))
                if progress is not None:
                    progress(job.name, done, plan.slabs)
        self.finish(found)
        return notes

    def finish(self, found):
        """Do what is left once all data are written."""


class _ZarrWriter(_Writer):
    def __init__(self, store, compress, zarr_format):
        self.store, self.compress, self.format = store, compress, zarr_format

    def groups(self, found, notes):
        import zarr

        for name, group in _groups(found):
            kept, lost = attributes.of_hdf5(group) if found.kind == "HDF5" else attributes.of_zarr(group)
            zarr.create_group(self.store, path=name, zarr_format=self.format, attributes=kept)
            if lost:
                notes[name or "/"] = lost

    def create(self, job, alone):
        import zarr

        kept, notes = (attributes.of_zarr if hasattr(job.array, "store_path") else attributes.of_hdf5)(job.array)
        if self.format == 3 and job.array.dtype.str.startswith(">"):
            notes["byte order"] = "is no part of a Zarr v3 type: the same values are stored in little-endian order"
        labels = job.labels()
        if self.format == 2 and labels:
            kept.setdefault("_ARRAY_DIMENSIONS", [label or "" for label in labels])  # where xarray looks in Zarr v2
        array = zarr.create_array(
            self.store,
            name=None if alone or not job.name else job.name,
            shape=job.layout.shape,
            dtype=job.array.dtype,
            chunks=job.chunks,
            shards=job.shards,
            compressors="auto" if self.compress else None,
            filters=None,
            fill_value=job.layout.fill_value,
            attributes=kept,
            zarr_format=self.format,
            dimension_names=labels if self.format == 3 else None,
        )
        return (array, array.with_config({"write_empty_chunks": True})), notes

    def write(self, array, region, data):
        sparse, dense = array
        (dense if _hides_bits(data, sparse.fill_value) else sparse)[region] = data

    def finish(self, found):
        import zarr

        consolidated = getattr(getattr(found.array, "metadata", None), "consolidated_metadata", None)
        if consolidated is not None:
            zarr.consolidate_metadata(self.store)


class _Hdf5Writer(_Writer):
    def __init__(self, root, compress):
        self.root, self.compress = root, compress

    def groups(self, found, notes):
        for name, group in _groups(found):
            made = self.root.require_group(name) if name else self.root
            lost = self._attributes(group, made)
            if lost:
                notes[name or "/"] = lost

    def create(self, job, alone):
        options = {"compression": "gzip", "compression_opts": 4, "shuffle": True} if self.compress else {}
        shape, growth = job.layout.shape, job.growth()
        chunked = shape != () and not (0 in shape and None not in growth)
        # HDF5 refuses a chunk that is longer than an axis that cannot grow.
        chunks = tuple(c if most is None else max(1, min(c, n)) for c, n, most in zip(job.chunks, shape, growth))
        dataset = self.root.create_dataset(
            job.name or "data",
            shape=shape,
            maxshape=growth if chunked else None,
            dtype=job.array.dtype,
            chunks=chunks if chunked else None,
            fillvalue=job.layout.fill_value,
            **(options if chunked else {}),
        )
        for dimension, label in zip(dataset.dims, job.labels() or ()):
            dimension.label = label or ""
        return dataset, self._attributes(job.array, dataset)

    def write(self, array, region, data):
        array[region] = data

    def _attributes(self, source, made):
        if hasattr(source, "store_path"):
            kept, notes = attributes.to_hdf5(dict(source.attrs))
            made.attrs.update(kept)
            return notes
        for name in source.attrs:  # HDF5 to HDF5: types are kept as they are
            if name not in attributes.SCALE_NAMES:
                made.attrs.create(name, source.attrs[name], dtype=source.attrs.get_id(name).dtype)
        return {}


def _tell_links(found, notes):
    """Note the links of an HDF5 file: they are not followed, so that nothing is copied twice or from elsewhere."""
    if found.kind != "HDF5":
        return
    import h5py

    def look(name, link):
        if not isinstance(link, h5py.HardLink):
            notes.setdefault("/", {})[name] = "is a link and was left out"

    found.array.visititems_links(look)


def _groups(found):
    """Yield (path, group) of the root and every group below."""
    if found.kind == "HDF5":
        import h5py

        groups = []
        found.array.visititems(lambda name, item: groups.append((name, item)) if isinstance(item, h5py.Group) else None)
        yield "", found.array
        yield from sorted(groups, key=lambda pair: pair[0])
        return
    import zarr

    if isinstance(found.array, zarr.Group):
        yield "", found.array
        yield from sorted((n, g) for n, g in found.array.members(max_depth=None) if isinstance(g, zarr.Group))


def _hides_bits(data, fill):
    """Tell whether an element equals the fill value with other bits: zarr would take its chunk for an empty one.

    It happens to -0.0, and to one NaN among the many that there are.
    """
    import numpy as np

    if data.dtype.kind not in "fc" or fill is None:
        return False
    same = np.isnan(data) if np.isnan(fill) else data == fill
    if not same.any():
        return False
    bits = np.ascontiguousarray(data[same]).view(np.uint8).reshape(-1, data.dtype.itemsize)
    return bool((bits != np.frombuffer(np.array(fill, data.dtype).tobytes(), np.uint8)).any())
