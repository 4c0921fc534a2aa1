"""Open one array to read, and say in a sentence why that, or a read, is not possible.

    with open_array("days.h5", "temperature") as array:
        array[0]

The libraries' own errors name internals ("object header version", "GroupNotFoundError"); `explained` looks at what
lies there and says what it is, why it cannot be read, and what to do. What reads without an error and is wrong all the
same (an array that consolidated metadata still lists, chunks that were never written) is said as well.
"""

import contextlib
import difflib
import itertools
import math
import re
import traceback
import warnings

from labsupport.chunklab.explaining import explained, first_line, folder_of, is_url, listed
from labsupport.chunklab.plurals import plural
from labsupport.errors import LabError, UsageError

__all__ = ["damage_of", "explained", "open_array", "unwritten"]

_MOST_CHUNKS = 5_000  # looked at one by one to find the damaged one


@contextlib.contextmanager
def open_array(where, name=None, *, zarr_format=None, options=None):
    """Yield an `h5py.Dataset` or a `zarr.Array`, read-only; it is closed behind the `with`.

    Args:
        where: path of an HDF5 file, a Zarr folder or ZIP file, a URL, or an open zarr `Store`.
        name: the array's path inside; None where there is only one.
        zarr_format: 2 or 3, when a store of the other format is not wanted; None takes either.
        options: of the file system behind a URL, as fsspec names them.

    Raises:
        UsageError: there is no such array, or several and no name.
        LabError: it cannot be opened; or, inside the `with`, a chunk that was read is damaged.
    """
    from labsupport.chunklab.sources import is_hdf5

    try:
        found = is_hdf5(where, options)
    except OSError as error:
        raise explained(where, error, name) from error
    with contextlib.ExitStack() as closing:
        try:
            opened = _open_hdf5 if found else _open_zarr
            array = opened(where, name, zarr_format, options, closing)
        except LabError:
            raise
        except Exception as error:  # h5py, zarr, fsspec and the drivers below have no common kind of error
            raise explained(where, error, name) from error
        try:
            yield array
        except Exception as error:
            if (told := damage_of(where, array, error)) is None:
                raise
            raise told from error


def _open_hdf5(where, name, zarr_format, options, closing):
    import h5py

    under = where
    if is_url(where):
        import fsspec

        under = closing.enter_context(fsspec.open(where, "rb", **(options or {})))
    file = closing.enter_context(h5py.File(under, "r"))
    names = []
    file.visititems(lambda path, item: names.append(path) if isinstance(item, h5py.Dataset) else None)
    path = _one_name(where, name, names) if name is None else name.strip("/")
    try:
        item = file[path or "/"]
    except KeyError as error:
        raise _no_item(where, path, names, _dangling(file, path)) from error
    if isinstance(item, h5py.Group):
        raise _is_a_group(where, path, sorted(item))
    _filters_are_here(where, item)
    return item


def _open_zarr(where, name, zarr_format, options, closing):
    """Open the array by its own metadata: what its group, or consolidated metadata, say of it may be lost or old."""
    import zarr

    from labsupport.chunklab.sources import zarr_store

    store, path = zarr_store(where, options=options), (name or "").strip("/")
    try:
        item = zarr.open(store, path=path, mode="r", zarr_format=zarr_format)
    except Exception as error:
        lost = path and isinstance(error, (FileNotFoundError, KeyError))
        raise (_absent(where, store, path) if lost else None) or explained(where, error, path) from error
    if store is not where:  # one that was handed in is closed by whoever opened it
        closing.callback(store.close)
    if isinstance(item, zarr.Array):
        return item
    if path:
        raise _is_a_group(where, path, sorted(item.keys()))
    return _open_zarr(where, _one_name(where, None, _arrays_in(item)), zarr_format, options, closing)


def _arrays_in(group):
    import zarr

    with warnings.catch_warnings():  # about each thing in the folder that is no node
        warnings.simplefilter("ignore")
        return sorted(path for path, item in group.members(max_depth=None) if isinstance(item, zarr.Array))


def _absent(where, store, path):
    """Return why no node is at `path`, or None when something lies there that is worth a look."""
    import zarr

    folder = folder_of(where)
    if folder and (folder / path).is_dir():
        return None
    try:
        root = zarr.open(store, mode="r")
        names = [] if isinstance(root, zarr.Array) else _arrays_in(root)
    except Exception:  # the root is damaged as well, which says nothing about this name
        return None
    if isinstance(root, zarr.Array):
        return UsageError(f"{where} is one array, with nothing inside", next_step="leave the name out")
    if path in names:
        return LabError(
            f"'{path}' in {where} is gone, though the consolidated metadata still list it",
            why="read through them, it would be nothing but fill values",
            next_step="consolidate the metadata again, or open with use_consolidated=False",
        )
    return _no_item(where, path, names)


# -- names


def _one_name(where, name, names):
    if len(names) == 1:
        return names[0]
    if not names:
        raise UsageError(f"{where} holds no array")
    raise UsageError(f"{where} holds {len(names)} arrays", next_step=f"name one of {listed(names)}")


def _no_item(where, path, names, why=None):
    near = difflib.get_close_matches(path, names, n=3, cutoff=0.4) or names
    step = f"name one of {listed(near)}" if names else None
    return UsageError(f"{where} holds no array '{path}'", why=why or (None if names else "it is empty"), next_step=step)


def _is_a_group(where, path, inside):
    what = f"'{path}' in {where}" if path else str(where)
    if not inside:
        return UsageError(f"{what} is a group, and empty")
    return UsageError(f"{what} is a group", why="only an array can be read", next_step=f"it holds {listed(inside)}")


def _dangling(file, path):
    """Return where a link that leads nowhere leads, or None."""
    import h5py

    link = file.get(path, getlink=True) if path in file or _has_link(file, path) else None
    if isinstance(link, h5py.SoftLink):
        return f"it is a link to '{link.path}', where nothing is"
    if isinstance(link, h5py.ExternalLink):
        return f"it is a link into another file, '{link.filename}', which is not there"
    return None


def _has_link(file, path):
    with contextlib.suppress(KeyError, ValueError, RuntimeError):
        return file.id.links.exists(path.encode())
    return False


# -- what reads without an error


_FILTERS = {
    32000: "LZF", 32001: "Blosc", 32004: "LZ4", 32008: "bitshuffle", 32013: "ZFP", 32015: "Zstandard", 32026: "Blosc2",
}  # fmt: skip


def _filters_are_here(where, dataset):
    """Raise for a dataset whose chunks need a filter this HDF5 has not: opening works, and the first read does not."""
    import h5py

    chain = dataset.id.get_create_plist()
    for number in (chain.get_filter(i)[0] for i in range(chain.get_nfilters())):
        if not h5py.h5z.filter_avail(number):
            raise LabError(
                f"'{dataset.name.strip('/')}' in {where} is encoded with a filter that is not installed",
                why=f"filter {number}, {_FILTERS.get(number, 'not one of the usual')}, is no part of HDF5",
                next_step="install the package hdf5plugin and import it before opening the file",
            )


# -- while reading


def damage_of(where, array, error):
    """Return the `LabError` about the chunk a read failed at, or None when the failure is not a chunk's."""
    if isinstance(error, (LabError, IndexError, KeyError, TypeError)) or not _from_a_library(error):
        return None
    if isinstance(error, PermissionError):
        return explained(where, error)
    bad, looked_at = [], 0
    for block in itertools.islice(_blocks(array), _MOST_CHUNKS):
        looked_at += 1
        try:
            array[block]
        except Exception as again:
            bad.append((block, again))
    if not bad:
        return None
    block, again = bad[0]
    region = ", ".join(f"{part.start}:{part.stop}" for part in block)
    return LabError(
        f"a chunk of '{array.name.strip('/')}' in {where} is damaged" if array.name.strip("/") else
        f"a chunk of {where} is damaged",
        why=f"[{region}] cannot be decoded: {first_line(again)}",
        next_step=f"restore it from a copy; {_unread(len(bad), looked_at)}",
    )  # fmt: skip


def _unread(bad, looked_at):
    words = f"{bad:,} of {plural(looked_at, 'chunk')} {'does' if bad == 1 else 'do'} not read"
    return words if bad == looked_at else f"{words}, the other{'s do' if looked_at - bad > 1 else ' does'}"


def _from_a_library(error):
    files = (frame.filename.replace("\\", "/") for frame in traceback.extract_tb(error.__traceback__))
    return any(re.search(r"(^|/)(h5py|zarr|numcodecs)/", file) for file in files)


def _blocks(array):
    sides = array.chunks or array.shape
    starts = itertools.product(*(range(0, n, side) for n, side in zip(array.shape, sides, strict=True)))
    for corner in starts:
        yield tuple(slice(a, min(a + s, n)) for a, s, n in zip(corner, sides, array.shape, strict=True))


def unwritten(array):
    """Return a sentence about chunks that are not stored, "" when all are: they read as the fill value, without error.

    Args:
        array: an `h5py.Dataset` or a `zarr.Array`; of a sharded one whole shards are counted.
    """
    if array.chunks is None:
        return ""
    in_hdf5, shards = hasattr(array, "id"), getattr(array, "shards", None)
    total = math.prod(-(-n // side) for n, side in zip(array.shape, shards or array.chunks, strict=True))
    if in_hdf5:
        stored = array.id.get_num_chunks()
    else:
        stored = array.nchunks_initialized
        stored //= math.prod(a // b for a, b in zip(shards, array.chunks, strict=True)) if shards else 1
    noun = "shard" if shards else "chunk"
    fill = f"the fill value {array.fillvalue if in_hdf5 else array.fill_value}"
    said = []
    if stored < total:
        said.append(
            f"{total - stored:,} of {total:,} {noun}s not stored: they read as {fill}, and were never written, "
            "held nothing else, or are lost"
        )
    if empty := 0 if in_hdf5 else _empty_files(array):
        said.append(f"{empty:,} of {total:,} {noun}s stored with 0 bytes: lost, and a shard is then read as {fill}")
    return ". ".join(said)


def _empty_files(array):
    """Return how many files of an array in a local folder have 0 bytes: no codec writes such."""
    root = getattr(array.store_path.store, "root", None)
    if root is None:
        return 0
    return sum(path.is_file() and path.stat().st_size == 0 for path in (root / array.store_path.path).rglob("*"))
