"""Read a selection of a real array and count what that took, beside what arithmetic says.

with open_source("days.h5", "temperature") as source:
    print(count(source, (0, ...)))
"""

from dataclasses import dataclass
from struct import unpack

from labsupport.chunklab.grid import Touched
from labsupport.chunklab.layouts import Layout, layout_of
from labsupport.chunklab.selecting import spelled_out
from labsupport.chunklab.sieve import runs, sieved
from labsupport.chunklab.sources import Source, open_source
from labsupport.chunklab.stores import is_metadata
from labsupport.errors import UsageError

__all__ = ["Count", "count", "fetch"]

_ABSENT = (1 << 64) - 1  # in a shard's index: this chunk was never written


@dataclass(frozen=True)
class Count:
    """What one read took. `touched` was predicted, everything else was counted; sizes are bytes in the store.

    `decoded` chunks came from the store; `missing` ones were never written and are filled in. For HDF5, `driver_reads`
    and `driver_bytes` are those of its own file driver: the same on chunked data, sieved on contiguous data.
    """

    where: str
    selection: str
    layout: Layout
    touched: Touched
    decoded: int  # chunks
    missing: int  # chunks
    files: int  # keys of a Zarr store; 1 for an HDF5 file
    reads: int  # requests for chunk data
    bytes: int
    index_reads: int  # shard indexes, or HDF5's own structures that say where chunks lie
    index_bytes: int
    driver_reads: int | None = None
    driver_bytes: int | None = None
    runs: tuple | None = None  # predicted (reads, bytes) of contiguous data

    @property
    def decoded_bytes(self):
        """Bytes that came out of the decoder; the bytes read where HDF5 has nothing to decode."""
        plain = self.layout.format == "HDF5" and not self.layout.codecs
        return self.bytes if plain else self.decoded * self.layout.chunk_bytes

    @property
    def as_predicted(self):
        """Whether the chunks that were read or filled in, or the runs of contiguous data, are what arithmetic said."""
        if self.layout.chunks is None:
            return self.runs is None or self.runs == (self.reads, self.bytes)
        return self.decoded + self.missing == self.touched.count

    def _message(self):
        from labsupport.chunklab import words

        return words.of_count(self)

    def __str__(self):
        return str(self._message())

    __repr__ = __str__

    def _repr_html_(self):
        return self._message()._repr_html_()


def count(source, selection, name=None, *, indexing="outer", cache_bytes=None, options=None):
    """Return the `Count` of reading a selection once, with nothing of it in HDF5's chunk cache.

    Args:
        source: an open `Source`, or what `open_source` takes.
        selection: as in brackets.
        name: the array's path inside, where `source` is not open yet.
        indexing: "outer" or "points", as in `touched`.
        cache_bytes: of HDF5's chunk cache; None for 8 MiB.
        options: of the file system behind a URL.

    Raises:
        UsageError: a selection outside the array, or one that the library refuses.
    """
    if not isinstance(source, Source):
        more = {} if cache_bytes is None else {"cache_bytes": cache_bytes}
        with open_source(source, name, options=options, **more) as opened:
            return count(opened, selection, indexing=indexing)
    layout = layout_of(source.array)
    if layout.place in ("external", "virtual"):
        raise UsageError(f"the data of {source.name} lie in other files", why="only this file is counted")
    seen = layout.touched(selection, indexing)  # first: it refuses with a sentence what the library would not
    source.counter.reset()
    fetch(source.array, selection, indexing, source.where)
    shown = f"{source.name or 'array'}[{selection_text(selection)}]"
    found = (_in_zarr if source.kind == "Zarr" else _in_hdf5)(source, layout, seen, selection, indexing)
    return Count(source.where, shown, layout, seen, **found)


def fetch(array, selection, indexing="outer", where="the store"):
    """Return the values of a selection by h5py or zarr.

    Raises:
        UsageError: the library cannot read such a selection.
        LabError: a chunk is damaged.
    """
    way = array
    # zarr 3.1 stumbles over an ellipsis that stands for no axis.
    plain = spelled_out(array.shape, selection)
    if hasattr(array, "store_path"):
        way = array.vindex if indexing == "points" else array.oindex if _has_list(selection) else array
    elif indexing == "points":
        raise UsageError("h5py has no pointwise indexing", next_step="give a mask of the array's shape")
    try:
        return way[plain]
    except Exception as error:  # a codec raises what it likes
        from labsupport.chunklab.opening import damage_of

        damage = damage_of(where, array, error)
        if damage is not None:
            raise damage from error
        library = "zarr" if hasattr(array, "store_path") else "h5py"
        why = str(error) or type(error).__name__
        raise UsageError(f"{library} cannot read [{selection_text(selection)}]", why=why) from error


def selection_text(selection, cut=True):
    """Return a selection as it is written in brackets; long lists are cut unless told not to."""
    items = selection if isinstance(selection, tuple) else (selection,)
    return ", ".join(_item_text(item, cut) for item in items) or "()"


def _item_text(item, cut):
    if item is Ellipsis:
        return "..."
    if isinstance(item, slice):
        start, stop = ("" if end is None else str(end) for end in (item.start, item.stop))
        return f"{start}:{stop}" + (f":{item.step}" if item.step is not None else "")
    if getattr(item, "ndim", 0) > 1:
        return f"<array of shape {tuple(item.shape)}>"
    if hasattr(item, "__len__"):
        few = ", ".join(str(value) for value in (list(item)[:6] if cut else item))
        return f"[{few}, and {len(item) - 6} more]" if cut and len(item) > 6 else f"[{few}]"
    return str(item)


def _has_list(selection):
    items = selection if isinstance(selection, tuple) else (selection,)
    return any(hasattr(item, "__len__") and getattr(item, "ndim", 1) == 1 for item in items)


# Zarr: by key and range


def _in_zarr(source, layout, seen, selection, indexing):
    requests = [request for request in source.counter.requests if not is_metadata(request.key)]
    found = [request for request in requests if request.bytes is not None]
    index = [request for request in found if layout.shards and _is_index(request, layout)]
    data = [request for request in found if request not in index]
    decoded = len(data) if layout.shards is None else _inner_chunks(source, layout, data)
    return {
        "decoded": decoded,
        "missing": seen.count - decoded if layout.shards else len(requests) - len(found),
        "files": len({request.key for request in found}),
        "reads": len(data),
        "bytes": sum(request.bytes for request in data),
        "index_reads": len(index),
        "index_bytes": sum(request.bytes for request in index),
    }


def _is_index(request, layout):
    if layout.index_first:
        return request.start == 0 and request.stop == layout.index_bytes
    return request.start is not None and request.start < 0


def _inner_chunks(source, layout, data):
    """Return the inner chunks decoded: those asked for one by one, and those of shards that were read whole."""
    asked = sum(len(ranges) for _, ranges in source.counter.asked)
    if not asked:
        asked = sum(request.ranged for request in data)
    return asked + sum(_stored_in(source.counter.peek(request.key), layout) for request in data if not request.ranged)


def _stored_in(shard, layout):
    entries = layout.chunks_per_shard
    start = 0 if layout.index_first else len(shard) - layout.index_bytes
    index = unpack(f"<{2 * entries}Q", shard[start : start + 16 * entries])
    return sum(offset != _ABSENT for offset in index[::2])


# HDF5: by position in the file


def _in_hdf5(source, layout, seen, selection, indexing):
    log = source.counter.log
    dataset = source.array
    extents = _extents(dataset, layout, seen)
    read, data, other = set(), [], []
    for at, size in log:
        chunk = _holds(extents, at, size)
        (other if chunk is None else data).append(size)
        if chunk is not None:
            read.add(chunk)
    driver, pieces = (len(log), sum(size for _, size in log)), None
    if layout.place == "contiguous" and extents:
        pieces = list(runs(layout.shape, selection, layout.itemsize, indexing))
        reads, total = sieved(pieces, layout.bytes)
        driver = (reads + len(other), total + sum(other))
    chunked = layout.chunks is not None
    return {
        "decoded": len(read) if chunked else 0,
        "missing": seen.count - len(extents) if chunked else 0,
        "files": 1,
        "reads": len(data),
        "bytes": sum(data),
        "index_reads": len(other),
        "index_bytes": sum(other),
        "driver_reads": driver[0],
        "driver_bytes": driver[1],
        "runs": None if pieces is None else (len(pieces), sum(size for _, size in pieces)),
    }


def _extents(dataset, layout, seen):
    """Return the (start, stop, chunk) in the file of the touched chunks, or of the data where they are contiguous."""
    if layout.chunks is None:
        start = dataset.id.get_offset()
        return [] if start is None else [(start, start + layout.bytes, ())]
    extents = []
    for chunk in seen.indices():
        info = dataset.id.get_chunk_info_by_coord(tuple(at * size for at, size in zip(chunk, layout.chunks)))
        if info.byte_offset is not None:
            extents.append((info.byte_offset, info.byte_offset + info.size, chunk))
    return sorted(extents)


def _holds(extents, at, size):
    from bisect import bisect_right

    place = bisect_right(extents, at, key=lambda extent: extent[0]) - 1
    if place >= 0 and size and at + size <= extents[place][1]:
        return extents[place][2]
    return None
