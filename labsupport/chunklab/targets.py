"""Where a rechunked array is written: never visible before it is whole.

On a disk the target is written under another name beside its place and renamed at the end. In a store that cannot
rename (a URL, a store object), chunks are written first and metadata last: until then it is not an array to any reader.
"""

import os
import platform
import shutil
from contextlib import contextmanager, suppress
from pathlib import Path

from labsupport.errors import UsageError

__all__ = ["target_hdf5", "target_zarr"]

_OLD = ".old"  # ends the name of a folder that is being replaced


@contextmanager
def target_hdf5(path, overwrite=False):
    """Give a new `h5py.File` that appears as `path` when the block ends without an error."""
    import h5py

    with _beside(Path(path), overwrite) as partial:
        # No chunk cache: slabs are whole chunks, and what is kept would not count as memory used.
        with _closed(h5py.File(partial, "w", rdcc_nbytes=0)) as file:
            yield file
        _to_disk(partial)


@contextmanager
def _closed(file):
    """Close an HDF5 file; one that cannot be finished, for the disk is full, is an `OSError`, which h5py makes no such.

    After another error the file is given up, and that error is what is told.
    """
    try:
        yield file
    except BaseException:
        with suppress(RuntimeError, OSError):
            file.close()
        raise
    try:
        file.close()
    except RuntimeError as error:
        raise OSError(str(error)) from error


@contextmanager
def target_zarr(where, overwrite=False, options=None):
    """Give a writable zarr `Store` whose content appears at `where` when the block ends without an error."""
    from labsupport.chunklab.sources import zarr_store

    if not isinstance(where, (str, Path)) or "://" in str(where) or "::" in str(where):
        from labsupport.chunklab.metadata_last import MetadataLast

        store = MetadataLast(zarr_store(where, mode="w", options=options))
        _begin(store, where, overwrite)
        yield store
        store.publish()
        return
    with _beside(Path(where), overwrite) as partial:
        store = zarr_store(partial, mode="w")
        try:
            yield store
        except BaseException:
            _let_zarr_finish()
            raise
        finally:
            store.close()


def _let_zarr_finish():
    """Wait for what zarr still writes after an error or an interrupt: it goes on with the other chunks by itself.

    Otherwise it would fill a folder that is being removed, and complain when the program ends.
    """
    import asyncio

    from zarr.core.sync import sync

    async def others():
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True)

    sync(others())


@contextmanager
def _beside(path, overwrite):
    """Give the path of a partial file or folder; renamed to `path` at the end, removed after an error."""
    if path.exists() and not overwrite:
        raise UsageError(f"{path} is there already", next_step="choose another name, or say overwrite")
    path.parent.mkdir(parents=True, exist_ok=True)
    _clear_leftovers(path)
    partial = path.with_name(f".{path.stem}.{_here()}-{os.getpid()}.partial{path.suffix}")
    try:
        yield partial
        if path.exists() and not overwrite:
            raise UsageError(f"{path} has come into being meanwhile", next_step="look at it, then choose another name")
        _put(partial, path)
    finally:
        _remove(partial)


def _put(partial, path):
    if not path.exists():
        partial.rename(path)
        return
    if path.is_file() and partial.is_file():
        partial.replace(path)
        return
    old = partial.with_name(f"{partial.name}{_OLD}")  # a folder cannot be replaced in one step
    path.rename(old)
    partial.rename(path)
    _remove(old)


def _here():
    return "".join(letter for letter in platform.node() if letter.isalnum()) or "host"


def _clear_leftovers(path):
    """Remove what killed runs of this machine left beside `path`; a run that still lives keeps its own.

    One that died while it replaced a folder has moved the old one aside: that is put back, unless the new one is there.
    """
    import psutil

    start = f".{path.stem}.{_here()}-"
    for left in sorted(path.parent.glob(f"{start}*.partial{path.suffix}*"), reverse=True):  # the old one first
        number = left.name.removeprefix(start).split(".")[0]
        if not number.isdigit() or psutil.pid_exists(int(number)):
            continue
        if left.name.endswith(_OLD) and not path.exists():
            left.rename(path)
            raise UsageError(
                f"{path} is there again",
                why="a run was killed while it replaced it; the copy from before has been put back",
                next_step="begin again",
            )
        _remove(left)


def _remove(path):
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _to_disk(path):
    handle = os.open(path, os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _begin(store, where, overwrite):
    from zarr.core.sync import sync

    if not sync(store.is_empty("")):
        if not overwrite:
            raise UsageError(
                f"{where} is not empty",
                why="there is a store already, or chunks that a run left that did not end",
                next_step="choose another place, or say overwrite: it is then emptied first",
            )
        sync(store.clear())
