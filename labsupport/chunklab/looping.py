"""Many reads one after the other: what HDF5's chunk cache saves, when it is large enough and its handle is kept.

    print(count_loop("days.h5", range(100), "temperature", cache_bytes=1 << 20))

A Zarr array has no chunk cache: every read decodes what it touches.
"""

from dataclasses import dataclass

from labsupport.chunklab.cache import ChunkCache
from labsupport.chunklab.counting import count
from labsupport.chunklab.layouts import Layout, layout_of
from labsupport.chunklab.sources import CACHE_BYTES, open_source
from labsupport.errors import UsageError

__all__ = ["LoopCount", "count_loop"]


@dataclass(frozen=True)
class LoopCount:
    """What a loop of reads took: chunks in all reads together, each counted as often as it was touched or decoded."""

    where: str
    name: str
    layout: Layout
    cache_bytes: int | None  # None for Zarr
    kept: bool  # one handle for all reads
    loops: int
    touched: int
    predicted: int  # chunks from the file, by the model of the cache
    decoded: int  # chunks from the file, counted
    missing: int  # touches of chunks that were never written
    bytes: int  # of the chunks' data, as stored

    @property
    def hits(self):
        """Touched chunks that were in the cache."""
        return self.touched - self.decoded - self.missing

    @property
    def as_predicted(self):
        """Whether the model and the count agree."""
        return self.predicted == self.decoded

    def _message(self):
        from labsupport.chunklab import words

        return words.of_loop(self)

    def __str__(self):
        return str(self._message())

    __repr__ = __str__

    def _repr_html_(self):
        return self._message()._repr_html_()


def count_loop(where, selections, name=None, *, keep=True, cache_bytes=CACHE_BYTES, options=None):
    """Return the `LoopCount` of reading the selections in order.

    Args:
        where, name, options: as for `open_source`.
        selections: any iterable of selections, each as in brackets.
        keep: hold one dataset handle for all reads; False opens the dataset anew for each, as `file[name][i]` does.
        cache_bytes: of HDF5's chunk cache.

    Raises:
        UsageError: nothing to read, a selection outside the array, or an array that has no chunks.
    """
    found = []
    with open_source(where, name, cache_bytes=cache_bytes, options=options) as source:
        layout, cache = layout_of(source.array), None
        if layout.chunks is None:
            raise UsageError(f"{source.name} has no chunks", why=f"it is {layout.place}")
        if source.kind == "HDF5":
            cache = ChunkCache(layout.shape, layout.chunks, itemsize=layout.itemsize, nbytes=cache_bytes)
        predicted = 0
        for selection in selections:
            if not keep and cache is not None:
                _open_anew(source, cache)
            one = count(source, selection)
            predicted += _from_file(source, layout, cache, one, selection)
            found.append(one)
        label = source.name
    if not found:
        raise UsageError("there is nothing to read", why="no selection was given")
    return _summed(str(where), label, layout, None if cache is None else cache_bytes, keep, found, predicted)


def _open_anew(source, cache):
    file = source.array.file
    source.array = None  # the old handle must go before the new one comes, or both share its cache
    source.array = file[source.name]
    cache.clear()


def _summed(where, name, layout, cache_bytes, keep, found, predicted):
    return LoopCount(
        where,
        name,
        layout,
        cache_bytes,
        keep,
        len(found),
        sum(one.touched.count for one in found),
        predicted,
        sum(one.decoded for one in found),
        sum(one.missing for one in found),
        sum(one.bytes for one in found),
    )


def _from_file(source, layout, cache, one, selection):
    """Return the chunks of one read that the model expects from the file: missed ones that were ever written."""
    if cache is None:
        return one.touched.count - one.missing
    return sum(_is_stored(source.array, layout, chunk) for chunk in cache.read(selection).missed)


def _is_stored(dataset, layout, chunk):
    info = dataset.id.get_chunk_info_by_coord(tuple(at * size for at, size in zip(chunk, layout.chunks)))
    return info.byte_offset is not None
