"""Open one array of a user's own file or store, through the counters.

A source is HDF5 (a local file, or a URL that fsspec can seek in) or Zarr (a folder, a ZIP file, a URL, or a zarr
`Store`). What cannot be opened is told as a `LabError`.
"""

from dataclasses import dataclass, field
from pathlib import Path

from labsupport.chunklab.explaining import explained
from labsupport.errors import LabError, UsageError

__all__ = ["CACHE_BYTES", "CACHE_SLOTS", "Source", "is_hdf5", "names_in", "open_source", "open_tree", "zarr_store"]

# Said out loud instead of left to the library: HDF5 2.0 keeps 8 MiB of chunks by default, earlier versions 1 MiB.
CACHE_BYTES, CACHE_SLOTS = 8 << 20, 8191
_SIGNATURE = b"\x89HDF\r\n\x1a\n"


@dataclass
class Source:
    """An open array with its counter; use it with `with`.

    `array` is an `h5py.Dataset` or a `zarr.Array`, `counter` the `CountingFile` or `CountingStore` below it, `name`
    the array's path inside ("" for an array at the root of a Zarr store), `where` what was opened, as text.
    """

    kind: str  # "HDF5" or "Zarr"
    where: str
    name: str
    array: object
    counter: object
    cache_bytes: int | None = None  # of the HDF5 chunk cache; None for Zarr, which has none
    closers: list = field(default_factory=list, repr=False)

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        self.close()

    def close(self):
        """Close the array, then its file: in that order, or HDF5 may read from a closed file."""
        self.array = None
        while self.closers:
            self.closers.pop()()


def open_source(where, name=None, *, cache_bytes=CACHE_BYTES, options=None):
    """Return the `Source` of an array, read-only.

    Args:
        where: a path, a URL, or an open zarr `Store`.
        name: the array's path inside; None where there is only one.
        cache_bytes: of HDF5's chunk cache, for this array; 0 switches it off.
        options: of the file system behind a URL, as fsspec names them.

    Raises:
        UsageError: no such array, or several and no name.
        LabError: what is there cannot be opened.
    """
    asked = None if name is None else name.strip("/")
    found = open_tree(where, cache_bytes=cache_bytes, options=options)
    try:
        if asked is None or not _is_array(found, asked):
            asked = _only_name(found, name)
            if found.kind == "HDF5":  # listing has read where the chunks of every array lie: begin without that
                found.close()
                found = open_tree(where, cache_bytes=cache_bytes, options=options)
        found.name = asked
        found.array = found.array[asked] if asked else found.array
    except BaseException:
        found.close()
        raise
    return found


def open_tree(where, *, cache_bytes=CACHE_BYTES, options=None):
    """Return a `Source` whose `array` is the root: an `h5py.File`, a `zarr.Group` or a `zarr.Array`.

    Raises:
        LabError: what is there cannot be opened.
    """
    try:
        if is_hdf5(where, options):
            return _open_hdf5(where, cache_bytes, options)
        return _open_zarr(where, options)
    except LabError:
        raise
    except Exception as error:  # h5py, zarr, fsspec and the drivers below it have no common kind of error
        raise explained(where, error) from error


def _open_zarr(where, options):
    import zarr

    from labsupport.chunklab.stores import CountingStore

    counter = CountingStore(zarr_store(where, options=options))
    return Source("Zarr", str(where), "", zarr.open(counter, mode="r"), counter, closers=[counter.close])


def _open_hdf5(where, cache_bytes, options):
    import h5py

    from labsupport.chunklab.files import CountingFile

    closers = []
    try:
        under = where
        if _is_url(where):
            import fsspec

            # No read-ahead: what is counted is then what is fetched.
            under = fsspec.open(where, "rb", **{"cache_type": "none", **(options or {})}).open()
            closers.append(under.close)
        counter = CountingFile(under)
        closers.append(counter.close)
        file = h5py.File(counter, "r", rdcc_nbytes=cache_bytes, rdcc_nslots=CACHE_SLOTS, rdcc_w0=0.75)
        closers.append(file.close)
    except BaseException:
        while closers:
            closers.pop()()
        raise
    return Source("HDF5", str(where), "/", file, counter, cache_bytes, closers)


def zarr_store(where, *, mode="r", options=None):
    """Return the zarr `Store` for a path, a `.zip` file, a URL or a store. Raises FileNotFoundError for a lost path."""
    import zarr
    from zarr.abc.store import Store

    if isinstance(where, Store):
        return where
    if _is_url(where):
        options = dict(options or {})
        if mode == "w" and str(where).startswith("file://"):
            options.setdefault("auto_mkdir", True)  # the others have no folders
        return zarr.storage.FsspecStore.from_url(str(where), storage_options=options, read_only=mode == "r")
    path = Path(where)
    if mode == "r" and not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    if path.suffix == ".zip":
        return zarr.storage.ZipStore(path, mode=mode)
    return zarr.storage.LocalStore(path, read_only=mode == "r")


def is_hdf5(where, options=None):
    """Tell whether `where` is an HDF5 file, by its first bytes where it is there, else by its name."""
    if not isinstance(where, (str, Path)):
        return False
    named = str(where).split("?")[0].lower().endswith((".h5", ".hdf5", ".hdf", ".he5", ".nc", ".h5py"))
    if _is_url(where) or not Path(where).is_file():
        return named
    with Path(where).open("rb") as file:
        return named or file.read(len(_SIGNATURE)) == _SIGNATURE


def names_in(found):
    """Return the paths of all arrays below an open root, sorted; "" for a Zarr store that is one array itself."""
    names = []
    if found.kind == "HDF5":
        import h5py

        found.array.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
    else:
        import zarr

        if isinstance(found.array, zarr.Array):
            return [""]
        names = [name for name, item in found.array.members(max_depth=None) if isinstance(item, zarr.Array)]
    return sorted(names)


def _is_array(found, name):
    if name == "":
        return found.kind == "Zarr" and hasattr(found.array, "chunks")
    try:
        return hasattr(found.array[name], "chunks")
    except (KeyError, TypeError, IndexError, ValueError):  # no such item; or the root is an array and has no items
        return False


def _only_name(found, name):
    names = names_in(found)
    if name is None and len(names) == 1:
        return names[0]
    few = ", ".join(repr(each) for each in names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    if not names:
        raise UsageError(f"{found.where} holds no array")
    if name is None:
        raise UsageError(f"{found.where} holds {len(names)} arrays", next_step=f"name one of {few}")
    raise UsageError(f"{found.where} holds no array {name!r}", next_step=f"name one of {few}")


def _is_url(where):
    return isinstance(where, str) and ("://" in where or "::" in where)
