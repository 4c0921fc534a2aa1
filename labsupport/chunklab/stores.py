"""A Zarr store that counts what is asked of it, around any other store.

    store = CountingStore(zarr.storage.LocalStore("images.zarr"))
    images = zarr.open_array(store, mode="r")
    store.reset()
    images[7]
    store.counts

Counted is what the wrapped store hands over, by key and byte range: what an object store would bill. Every way zarr
has of reading comes through here, that of 3.1 (`get`) and those of 3.4 (`get_sync`, `get_ranges`, which merges the
ranges of one shard into fewer requests). Not counted: what a file system reads ahead below the store.
"""

from collections import Counter
from dataclasses import dataclass
from threading import Lock

from zarr.abc.store import Store
from zarr.storage import WrapperStore

__all__ = ["CountingStore", "Request", "is_metadata"]

_METADATA = frozenset({"zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"})


def is_metadata(key):
    """Tell whether a key names metadata (`zarr.json`, `.zarray`, ...) rather than a chunk or shard."""
    return key.rsplit("/", 1)[-1] in _METADATA


@dataclass(frozen=True)
class Request:
    """One call to the store: `op` is get or set; `start` and `stop` are bytes of the value, None where it is whole.

    A suffix of n bytes has `start` -n and `stop` None. `bytes` is what was handed over, None where the key is absent.
    """

    op: str
    key: str
    start: int | None
    stop: int | None
    bytes: int | None

    @property
    def ranged(self):
        """Whether a part of the value was asked for."""
        return self.start is not None


class _Tally:
    """Requests seen by one counting store and by every read-only or re-opened view of it."""

    def __init__(self):
        self.requests = []
        self.asked = []  # (key, ranges) of every call to get_ranges, before merging
        self.lock = Lock()  # zarr's loop has a thread of its own, and get_sync runs in the caller's


class CountingStore(WrapperStore):
    """A store that counts requests and bytes of the store it wraps; it reads and writes like that one.

    Views that zarr makes of it (`with_read_only`) count into the same numbers.
    """

    def __init__(self, store, *, tally=None):
        super().__init__(store)
        self._tally = _Tally() if tally is None else tally

    def _with_store(self, store):
        return type(self)(store, tally=self._tally)

    def with_read_only(self, read_only=False):
        """Return a view that counts into the same numbers, also of a store that has no such view itself."""
        try:
            return super().with_read_only(read_only)
        except NotImplementedError:
            if not read_only:
                raise
            return _ReadOnly(self._store, tally=self._tally)

    def __eq__(self, other):
        return isinstance(other, CountingStore) and self._store == other._store

    __hash__ = None

    def __repr__(self):
        return f"CountingStore({self._store!r})"

    # what was counted

    @property
    def requests(self):
        """Every `Request` since the last reset, in order of completion. Concurrent ones complete in any order."""
        with self._tally.lock:
            return tuple(self._tally.requests)

    @property
    def asked(self):
        """(key, byte ranges) of each call to `get_ranges` before zarr merged them; empty before zarr 3.2."""
        with self._tally.lock:
            return tuple(self._tally.asked)

    @property
    def counts(self):
        """A Counter of totals, each a whole number that does not depend on the order of requests.

        For kind in chunk, meta: `get_KIND_n`, `get_KIND_bytes`, `get_KIND_ranged`, `set_KIND_n`, `set_KIND_bytes`,
        `miss_KIND` (gets of absent keys); and `keys`, the different chunk keys that were read.
        """
        counts, keys = Counter(), set()
        for request in self.requests:
            kind = "meta" if is_metadata(request.key) else "chunk"
            if request.bytes is None:
                counts[f"miss_{kind}"] += 1
                continue
            counts[f"{request.op}_{kind}_n"] += 1
            counts[f"{request.op}_{kind}_bytes"] += request.bytes
            counts[f"{request.op}_{kind}_ranged"] += request.ranged
            if request.op == "get" and kind == "chunk":
                keys.add(request.key)
        counts["keys"] = len(keys)
        return +counts

    def peek(self, key):
        """Return the whole value of a key as bytes, or None, without counting: for looking at a store afterwards."""
        from zarr.core.buffer import default_buffer_prototype
        from zarr.core.sync import sync

        buffer = sync(self._store.get(key, default_buffer_prototype()))
        return None if buffer is None else buffer.to_bytes()

    def reset(self):
        """Begin again from zero."""
        with self._tally.lock:
            self._tally.requests.clear()
            self._tally.asked.clear()

    def _note(self, op, key, buffer, byte_range=None):
        request = Request(op, key, *_ends(byte_range), None if buffer is None else len(buffer))
        with self._tally.lock:
            self._tally.requests.append(request)
        return buffer

    # every way in and out

    async def get(self, key, prototype, byte_range=None):
        """Read and count; see `zarr.abc.store.Store.get`."""
        return self._note("get", key, await self._store.get(key, prototype, byte_range), byte_range)

    async def get_partial_values(self, prototype, key_ranges):
        """Read and count each part."""
        return [await self.get(key, prototype, byte_range) for key, byte_range in key_ranges]

    async def _get_many(self, requests):
        async for found in Store._get_many(self, requests):  # which calls `get`; the wrapped store's own would not
            yield found

    async def set(self, key, value):
        """Write and count."""
        await self._store.set(key, value)
        self._note("set", key, value)

    async def set_if_not_exists(self, key, value):
        """Write and count, where the key is not there yet."""
        if not await self._store.exists(key):
            await self.set(key, value)

    async def _set_many(self, values):
        await Store._set_many(self, values)

    if hasattr(Store, "get_ranges"):  # newer zarr reads the parts of a shard this way

        async def get_ranges(self, key, byte_ranges, *, prototype, **options):
            """Read through zarr's own merging, so that each merged request is counted once."""
            with self._tally.lock:
                self._tally.asked.append((key, tuple(_ends(byte_range) for byte_range in byte_ranges)))
            options = {name: value for name, value in options.items() if value is not None}
            async for part in Store.get_ranges(self, key, byte_ranges, prototype=prototype, **options):
                yield part

    if hasattr(Store, "get_ranges_sync"):

        def get_ranges_sync(self, key, byte_ranges, **options):
            """Read through zarr's own merging, so that each merged request is counted once."""
            with self._tally.lock:
                self._tally.asked.append((key, tuple(_ends(byte_range) for byte_range in byte_ranges)))
            return super().get_ranges_sync(key, byte_ranges, **options)

    if hasattr(WrapperStore, "get_sync"):  # zarr 3.4 asks a store whether these can run; 3.1's protocol looks for them

        def get_sync(self, key, *, prototype=None, byte_range=None):
            """Read and count, without the event loop."""
            return self._note("get", key, super().get_sync(key, prototype=prototype, byte_range=byte_range), byte_range)

        def set_sync(self, key, value):
            """Write and count, without the event loop."""
            super().set_sync(key, value)
            self._note("set", key, value)


class _ReadOnly(CountingStore):
    """A view of a store that can only be opened in one mode, such as a ZIP file."""

    @property
    def read_only(self):
        """True: zarr writes nothing here."""
        return True

    def _check_writable(self):
        raise ValueError("store was opened in read-only mode and does not support writing")

    async def set(self, key, value):
        """Refused."""
        self._check_writable()

    async def delete(self, key):
        """Refused."""
        self._check_writable()


def _ends(byte_range):
    if byte_range is None:
        return None, None
    if hasattr(byte_range, "suffix"):
        return -byte_range.suffix, None
    if hasattr(byte_range, "offset"):
        return byte_range.offset, None
    return byte_range.start, byte_range.end
