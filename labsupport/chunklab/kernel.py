"""What the kernel saw of one read, on Linux: read calls and bytes of a fresh process, with the library's own driver.

    kernel_count("days.h5", (0, ...), "temperature")

The process opens the array, reads nothing else, and takes the difference of `/proc/self/io` (`syscr`, `rchar`: calls
and bytes of every kind of read) around the selection, less what looking at `/proc/self/io` itself costs.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from labsupport.errors import LabError

__all__ = ["KernelCount", "available", "kernel_count"]

_IO = Path("/proc/self/io")


@dataclass(frozen=True)
class KernelCount:
    """`reads` calls and `bytes` that the kernel handed to the process for one selection."""

    reads: int
    bytes: int


def available():
    """Tell whether this system counts the reads of a process."""
    try:
        return "rchar" in _IO.read_text(encoding="ascii")
    except OSError:
        return False


def kernel_count(where, selection, name=None, *, cache_bytes=8 << 20):
    """Return the `KernelCount` of reading a selection of a local file or store.

    Raises:
        UsageError: a selection that cannot be written in brackets: a mask.
        LabError: this system does not count, or the read failed.
    """
    if not available():
        raise LabError("this system does not count the reads of a process", why="there is no /proc/self/io")
    from labsupport.chunklab.counting import selection_text
    from labsupport.chunklab.selecting import parse

    text = selection_text(selection, cut=False)
    parse(text)  # refuses a mask, which has no text
    ask = json.dumps([str(where), text, name, cache_bytes])
    ran = subprocess.run(
        [sys.executable, "-m", __name__, ask], capture_output=True, text=True, encoding="utf-8", check=False
    )
    if ran.returncode:
        lines = ran.stderr.strip().splitlines() or [f"exit code {ran.returncode}"]
        raise LabError("the read failed in a process of its own", why=lines[-1])
    return KernelCount(*json.loads(ran.stdout))


def _counters():
    """Return (calls, bytes) so far. Each look adds one call and its own bytes, which the caller takes off."""
    import os

    handle = os.open(_IO, os.O_RDONLY)
    try:
        text = os.read(handle, 4096).decode("ascii")
    finally:
        os.close(handle)
    values = dict(line.split(": ") for line in text.splitlines())
    return int(values["syscr"]), int(values["rchar"]), len(text)


def _main(ask):
    where, text, name, cache_bytes = json.loads(ask)
    from labsupport.chunklab.counting import fetch
    from labsupport.chunklab.selecting import parse

    selection = parse(text)
    array, close = _plainly(where, name, cache_bytes)
    assert array.shape is not None  # the header is read now, not with the selection
    calls, sizes, own = _counters()
    fetch(array, selection)
    after_calls, after_sizes, _ = _counters()
    print(json.dumps([after_calls - calls - 1, after_sizes - sizes - own]))
    close()


def _plainly(where, name, cache_bytes):
    """Open an array as anyone would, without a counter."""
    from labsupport.chunklab.sources import is_hdf5

    if is_hdf5(where):
        import h5py

        file = h5py.File(where, "r", rdcc_nbytes=cache_bytes)
        return file[name], file.close
    import zarr

    return zarr.open_array(where, path=name or "", mode="r"), lambda: None


if __name__ == "__main__":
    _main(sys.argv[1])
