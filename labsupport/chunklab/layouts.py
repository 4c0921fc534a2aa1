"""How an array is laid out, in the same words for HDF5 and Zarr."""

from dataclasses import dataclass
from math import prod

from labsupport.chunklab.grid import grid_of, touched

__all__ = ["Layout", "layout_of"]


@dataclass(frozen=True)
class Layout:
    """The layout of one array.

    `chunks` is None where the data lie in one piece (HDF5 "contiguous" and "compact"). Sizes are in bytes.
    """

    format: str  # "HDF5", "Zarr v2", "Zarr v3"
    shape: tuple
    dtype: str
    itemsize: int
    chunks: tuple | None
    shards: tuple | None = None
    codecs: tuple = ()
    fill_value: object = None
    index_bytes: int = 0  # of the index of one shard
    index_first: bool = False  # the index lies at the shard's start rather than its end
    place: str = "chunked"  # or "contiguous", "compact"; "external", "virtual": the data lie in other files

    @property
    def bytes(self):
        """Decoded bytes of the whole array."""
        return prod(self.shape) * self.itemsize

    @property
    def chunk_bytes(self):
        """Decoded bytes of one chunk; of the whole array where it is not chunked."""
        return self.bytes if self.chunks is None else prod(self.chunks) * self.itemsize

    @property
    def grid(self):
        """Chunks along each axis."""
        return () if self.chunks is None else grid_of(self.shape, self.chunks)

    @property
    def chunks_per_shard(self):
        """Inner chunks in one shard; 1 without shards."""
        return prod(grid_of(self.shards, self.chunks)) if self.shards else 1

    def touched(self, selection, indexing="outer"):
        """Return what a selection touches; an array that is not chunked counts as a single chunk."""
        chunks = self.chunks or tuple(max(1, length) for length in self.shape)
        return touched(self.shape, chunks, selection, itemsize=self.itemsize, shards=self.shards, indexing=indexing)


def layout_of(array):
    """Return the `Layout` of an `h5py.Dataset` or a `zarr.Array`."""
    return _of_zarr(array) if hasattr(array, "store_path") else _of_hdf5(array)


def _of_hdf5(dataset):
    import h5py

    places = {h5py.h5d.CONTIGUOUS: "contiguous", h5py.h5d.COMPACT: "compact", h5py.h5d.CHUNKED: "chunked"}
    plist = dataset.id.get_create_plist()
    filters = tuple(_filter(*plist.get_filter(at)) for at in range(plist.get_nfilters()))
    return Layout(
        "HDF5",
        tuple(dataset.shape or ()),
        str(dataset.dtype),
        dataset.id.get_type().get_size(),  # of what lies in the file: NumPy's object is a pointer of this process
        dataset.chunks,
        codecs=filters,
        fill_value=dataset.fillvalue,
        place="external" if plist.get_external_count() else places.get(plist.get_layout(), "virtual"),
    )


def _filter(code, flags, values, name):
    known = {1: "gzip", 2: "shuffle", 3: "fletcher32", 4: "szip", 5: "nbit", 6: "scaleoffset", 32000: "lzf"}
    label = known.get(code) or name.decode("utf-8", "replace").split(";")[0] or f"filter {code}"
    return f"{label}-{values[0]}" if code == 1 and values else label


def _of_zarr(array):
    document = array.metadata.to_dict()
    sharding = _sharding(document.get("codecs", ()))
    per_shard = prod(grid_of(array.shards, array.chunks)) if array.shards else 0
    return Layout(
        f"Zarr v{array.metadata.zarr_format}",
        tuple(array.shape),
        str(array.dtype),
        array.dtype.itemsize,
        tuple(array.chunks),
        shards=tuple(array.shards) if array.shards else None,
        codecs=_codecs(array),
        fill_value=array.fill_value,
        index_bytes=_index_bytes(sharding, per_shard),
        index_first=str(sharding.get("index_location", "end")) == "start",
    )


def _sharding(codecs):
    for codec in codecs:
        if isinstance(codec, dict) and codec.get("name") == "sharding_indexed":
            return codec["configuration"]
    return {}


def _index_bytes(sharding, per_shard):
    """Return the bytes of a shard's index: 16 for each inner chunk, and 4 for a checksum; 0 where it is compressed."""
    names = [codec["name"] for codec in sharding.get("index_codecs", ())]
    if not sharding or set(names) - {"bytes", "crc32c"}:
        return 0
    return 16 * per_shard + 4 * names.count("crc32c")


def _codecs(array):
    found = [*array.filters, *array.compressors]
    return tuple(_codec_name(codec) for codec in found)


def _codec_name(codec):
    if hasattr(codec, "to_dict"):
        document = codec.to_dict()
        name, settings = document["name"], document.get("configuration", {})
    else:
        document = codec.get_config()
        name, settings = document["id"], document
    level = settings.get("level", settings.get("clevel"))
    inner = settings.get("cname")
    label = f"{name}-{getattr(inner, 'value', inner)}" if inner else name
    return label if level is None else f"{label} level {level}"
