"""HDF5's chunk cache, as arithmetic: which chunks of a sequence of reads come from the file again.

    cache = ChunkCache((1000, 1000), (100, 100), itemsize=4, nbytes=400_000)
    cache.read((0, ...)), cache.read((1, ...))

The cache belongs to one open dataset: `file["x"]` opens it anew each time, with an empty cache that dies with the
handle. It keeps decoded chunks within `nbytes`; a chunk that is larger than that is never kept. Its rules are not
quite "least recently used": a chunk has one slot it may lie in, given by its place in the grid; a hit moves it one
place away from the exit, not to the far end; and chunks that have been read completely leave first (HDF5 reference
manual, H5Pset_chunk_cache, and H5Dchunk.c of HDF5 2.0, read 2026-11). The tests compare every number with h5py.
"""

from dataclasses import dataclass
from math import prod

from labsupport.chunklab.grid import grid_of, touched

__all__ = ["ChunkCache", "CacheRead"]


@dataclass(frozen=True)
class CacheRead:
    """What one read found: `hits` chunks in the cache, `missed` the grid indices of those read from the file."""

    hits: int
    missed: tuple

    @property
    def misses(self):
        """Chunks read from the file and decoded."""
        return len(self.missed)


class _Entry:
    """A chunk in the cache. `unread` is HDF5's count of bytes not yet accessed."""

    __slots__ = ("after", "before", "chunk", "slot", "unread")

    def __init__(self, chunk, slot, unread):
        self.chunk, self.slot, self.unread = chunk, slot, unread
        self.before = self.after = None


class ChunkCache:
    """The cache of one open dataset, read-only.

    Args:
        shape, chunks: of the dataset, in elements.
        itemsize: bytes of one element.
        nbytes: what h5py calls `rdcc_nbytes`; 0 keeps nothing.
        nslots: `rdcc_nslots`, in chunks.
        w0: `rdcc_w0`, the share of the cache in which completely read chunks are looked for first. At 1.0 HDF5 takes
            nothing else, and keeps more than `nbytes` when there is no such chunk.
    """

    def __init__(self, shape, chunks, *, itemsize=1, nbytes=8 << 20, nslots=8191, w0=0.75):
        self.shape, self.chunks, self.itemsize = tuple(shape), tuple(chunks), itemsize
        self.nbytes, self.nslots, self.w0 = nbytes, nslots, w0
        self._bits = [(grid - 1).bit_length() if grid else 0 for grid in grid_of(self.shape, self.chunks)]
        self.clear()

    @property
    def chunk_bytes(self):
        """Decoded bytes of one chunk."""
        return prod(self.chunks) * self.itemsize

    @property
    def keeps(self):
        """Whether one chunk fits at all."""
        return self.nslots > 0 and self.chunk_bytes <= self.nbytes

    @property
    def kept(self):
        """Grid indices of the chunks in the cache, first to leave first."""
        entry, chunks = self._head, []
        while entry is not None:
            chunks.append(entry.chunk)
            entry = entry.after
        return tuple(chunks)

    def clear(self):
        """Forget everything, as closing the dataset does."""
        self._slots, self._head, self._tail, self._used = {}, None, None, 0

    def read(self, selection, indexing="outer"):
        """Return the `CacheRead` of one read; what it leaves in the cache counts for the next."""
        seen = touched(self.shape, self.chunks, selection, itemsize=self.itemsize, indexing=indexing)
        hits, missed = 0, []
        for chunk in seen.indices():
            entry = self._slots.get(self._slot(chunk))
            if entry is not None and entry.chunk == chunk:
                hits += 1
                self._one_back(entry)
            else:
                missed.append(chunk)
                entry = self._keep(chunk) if self.keeps else None
            if entry is not None:
                entry.unread -= min(entry.unread, seen.wanted_in(chunk) * self.itemsize)
        return CacheRead(hits, tuple(missed))

    def _slot(self, chunk):
        """Return the one slot a chunk may lie in: its grid index, folded to a number as HDF5 does."""
        value = chunk[0] if chunk else 0
        for at, bits in zip(chunk[1:], self._bits[1:]):
            value = (value << bits) ^ at
        return (value & 0xFFFFFFFFFFFFFFFF) % self.nslots if self.nslots else 0

    def _keep(self, chunk):
        slot = self._slot(chunk)
        if slot in self._slots:
            self._evict(self._slots[slot])
        self._make_room()
        entry = _Entry(chunk, slot, self.chunk_bytes)
        entry.before = self._tail
        if self._tail is None:
            self._head = entry
        else:
            self._tail.after = entry
        self._tail = entry
        self._slots[slot] = entry
        self._used += self.chunk_bytes
        return entry

    def _one_back(self, entry):
        """A hit: change places with the next in the queue."""
        following = entry.after
        if following is None:
            return
        before, after = entry.before, following.after
        following.before, following.after = before, entry
        entry.before, entry.after = following, after
        self._join(before, following)
        self._join(entry, after)

    def _evict(self, entry):
        self._join(entry.before, entry.after)
        del self._slots[entry.slot]
        self._used -= self.chunk_bytes

    def _join(self, before, after):
        if before is None:
            self._head = after
        else:
            before.after = after
        if after is None:
            self._tail = before
        else:
            after.before = before

    def _make_room(self):
        """Two walks from the exit: the first takes only what was read completely, the second, later, anything."""
        lead = int(len(self._slots) * self.w0)
        done, anything = self._head, None
        while (done is not None or anything is not None) and self._full():
            if lead == 0:
                anything = self._head
            next_done = done.after if done is not None else None
            next_any = anything.after if anything is not None else None
            for leaving in (done if done is not None and self._complete(done) else None, anything):
                if leaving is None or not self._full() or self._slots.get(leaving.slot) is not leaving:
                    continue
                next_done = leaving.after if next_done is leaving else next_done
                next_any = leaving.after if next_any is leaving else next_any
                self._evict(leaving)
            done, anything, lead = next_done, next_any, lead - 1

    def _full(self):
        return self._used + self.chunk_bytes > self.nbytes

    def _complete(self, entry):
        return entry.unread == 0
