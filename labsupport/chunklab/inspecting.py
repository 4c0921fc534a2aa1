"""What lies in a user's own file or store: every array, its layout, what is stored of it, and what to look at twice."""

from dataclasses import dataclass
from math import prod

from labsupport.chunklab.layouts import Layout, layout_of
from labsupport.chunklab.plurals import plural
from labsupport.chunklab.sources import CACHE_BYTES, names_in, open_tree
from labsupport.chunklab.stores import is_metadata
from labsupport.errors import UsageError

__all__ = ["Inspection", "Stored", "inspect"]

_SMALL_CHUNK, _MANY_OBJECTS = 16 << 10, 10_000


@dataclass(frozen=True)
class Stored:
    """One array: its layout, and what of it lies in the file: chunks (shards where there are any) and bytes."""

    name: str
    layout: Layout
    objects: int
    bytes: int

    @property
    def possible(self):
        """Objects there would be if every chunk had been written."""
        layout = self.layout
        return prod(layout.grid) if layout.shards is None else _grid_count(layout.shape, layout.shards)

    @property
    def ratio(self):
        """Decoded bytes for each stored byte; 0.0 where nothing is stored. Chunks never written count as decoded."""
        return self.layout.bytes / self.bytes if self.bytes else 0.0

    def remarks(self):
        """Return sentences about what makes reading costly."""
        layout, found = self.layout, []
        if layout.format == "HDF5" and layout.codecs and layout.chunk_bytes > CACHE_BYTES:
            found.append("one chunk is larger than HDF5's chunk cache of 8 MiB: each read decodes it again")
        if layout.chunks and layout.chunk_bytes < _SMALL_CHUNK and prod(layout.grid) > 1000:
            each = plural(layout.chunk_bytes, "byte")
            found.append(f"{prod(layout.grid):,} chunks of {each}: finding them costs most")
        if layout.format.startswith("Zarr") and self.objects > _MANY_OBJECTS:
            found.append(f"{self.objects:,} objects: shards would hold many chunks in one")
        if layout.chunks and self.objects < self.possible:
            never = self.possible - self.objects
            of = plural(self.possible, "shard" if layout.shards else "chunk")
            found.append(f"{never:,} of {of} {'was' if never == 1 else 'were'} never written")
        return found


@dataclass(frozen=True)
class Inspection:
    """A file or store: its arrays, and for Zarr whether metadata are consolidated."""

    where: str
    arrays: tuple
    consolidated: bool
    metadata_reads: int  # requests, or reads of the file, that opening it took
    metadata_bytes: int

    def _message(self):
        from labsupport.chunklab import words

        return words.of_inspection(self)

    def __str__(self):
        return str(self._message())

    __repr__ = __str__

    def _repr_html_(self):
        return self._message()._repr_html_()


def inspect(where, name=None, *, options=None):
    """Return the `Inspection` of a file, store or URL; of one array where `name` is given.

    Nothing is decoded. For a Zarr store its keys are listed, which on a remote store takes requests of its own.

    Raises:
        UsageError: no array of that name.
    """
    with open_tree(where, options=options) as found:
        reads, size = _opening_cost(found)
        metadata = getattr(found.array, "metadata", None)
        names = names_in(found)
        if name is not None:
            if name.strip("/") not in names:
                few = ", ".join(repr(each) for each in names[:8])
                raise UsageError(f"{found.where} holds no array {name!r}", next_step=f"name one of {few}")
            names = [name.strip("/")]
        arrays = tuple(_stored(found, each) for each in names)
        return Inspection(
            found.where, arrays, getattr(metadata, "consolidated_metadata", None) is not None, reads, size
        )


def _opening_cost(found):
    if found.kind == "HDF5":
        return found.counter.reads, found.counter.bytes
    counts = found.counter.counts
    return counts["get_meta_n"] + counts["miss_meta"], counts["get_meta_bytes"]


def _stored(found, name):
    array = found.array[name] if name else found.array
    layout = layout_of(array)
    if found.kind == "HDF5":
        chunks = array.id.get_num_chunks() if layout.chunks else int(array.id.get_storage_size() > 0)
        return Stored(name, layout, chunks, array.id.get_storage_size())
    sizes = _sizes(found.counter, array.path)
    return Stored(name, layout, len(sizes), sum(sizes))


def _sizes(store, path):
    """Return the bytes of every chunk or shard stored below an array's path."""
    from zarr.core.sync import sync

    async def sized():
        prefix = f"{path}/" if path else ""
        keys = [key async for key in store.list_prefix(prefix) if not is_metadata(key)]
        return [await store.getsize(key) for key in sorted(keys)]

    return sync(sized())


def _grid_count(shape, pieces):
    return prod(-(-length // piece) for length, piece in zip(shape, pieces))
