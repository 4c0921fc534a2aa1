"""A Zarr store that keeps metadata to itself until everything else is written."""

from zarr.core.sync import sync
from zarr.storage import WrapperStore

from labsupport.chunklab.stores import is_metadata

__all__ = ["MetadataLast"]


class MetadataLast(WrapperStore):
    """Chunks go to the wrapped store at once, metadata with `publish`: a run that dies leaves no array behind."""

    def __init__(self, store, held=None):
        super().__init__(store)
        self._held = {} if held is None else held

    def _with_store(self, store):
        return type(self)(store, self._held)

    def publish(self):
        """Write the metadata: inner arrays and groups first, the root last."""
        for key in sorted(self._held, key=lambda key: (-key.count("/"), key)):
            sync(self._store.set(key, self._held[key]))
        self._held.clear()

    async def get(self, key, prototype, byte_range=None):
        """Return metadata from here, everything else from the wrapped store."""
        if key in self._held and byte_range is None:
            return self._held[key]
        return await self._store.get(key, prototype, byte_range)

    async def exists(self, key):
        """Tell whether a key is here or there."""
        return key in self._held or await self._store.exists(key)

    async def set(self, key, value):
        """Keep metadata, write everything else."""
        if is_metadata(key):
            self._held[key] = value
        else:
            await self._store.set(key, value)

    async def set_if_not_exists(self, key, value):
        """Keep or write what is not there yet."""
        if not await self.exists(key):
            await self.set(key, value)

    async def _set_many(self, values):
        for key, value in values:
            await self.set(key, value)

    async def delete(self, key):
        """Delete here or there."""
        if self._held.pop(key, None) is None:
            await self._store.delete(key)

    if hasattr(WrapperStore, "get_sync"):  # zarr 3.4

        def get_sync(self, key, *, prototype=None, byte_range=None):
            """Return metadata from here, everything else from the wrapped store."""
            if key in self._held and byte_range is None:
                return self._held[key]
            return super().get_sync(key, prototype=prototype, byte_range=byte_range)

        def set_sync(self, key, value):
            """Keep metadata, write everything else."""
            if is_metadata(key):
                self._held[key] = value
            else:
                super().set_sync(key, value)
