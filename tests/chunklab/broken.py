"""A sound file, a sound store, and what is told of them once they are damaged."""

import h5py
import numpy as np
import pytest
import zarr

from labsupport.chunklab.opening import open_array
from labsupport.errors import LabError

__all__ = ["VALUES", "patch_bytes", "told", "write_file", "write_store"]

VALUES = np.random.default_rng(5).integers(1, 9, (40, 40)).astype("int32")


def write_file(path):
    """Write an HDF5 file with one chunked array, `a/x`, beside links that lead nowhere."""
    with h5py.File(path, "w") as file:
        file.create_dataset("a/x", data=VALUES, chunks=(10, 10), compression="gzip", fletcher32=True)
        file["soft"] = h5py.SoftLink("/nowhere")
        file["far"] = h5py.ExternalLink("other.h5", "/x")
    return path


def write_store(path):
    """Write a Zarr group with one chunked array, `x`, and a group `g`."""
    group = zarr.open_group(path, mode="w")
    group.create_array("x", data=VALUES, chunks=(10, 10))
    group.create_group("g")
    return path


def told(where, name=None, **options):
    """Return the error that opening and reading all of an array raises; a traceback of a library fails the test."""
    with pytest.raises(LabError) as caught, open_array(where, name, **options) as array:
        array[...]
    error = caught.value
    assert "Traceback" not in str(error)
    assert len(str(error).splitlines()) <= 3
    return error


def patch_bytes(path, at, new):
    raw = bytearray(path.read_bytes())
    raw[at : at + len(new)] = new
    path.write_bytes(raw)
