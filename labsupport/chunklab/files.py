"""A file for h5py that counts what HDF5 reads from it.

    with CountingFile("days.h5") as counted, h5py.File(counted, "r") as file:
        days = file["days"]
        counted.reset()
        days[0]
        counted.reads, counted.bytes

On chunked data the numbers are those of HDF5's own file driver, to the byte. On contiguous data they are what HDF5
asks for; its own driver reads through a buffer of 64 KiB ("sieve") instead: see `labsupport.chunklab.sieve`.

Close the `h5py.File` before the `CountingFile`, by `with` as above: HDF5 that still reads from a file object while the
interpreter ends can crash it. Not for forked workers: they would share one position in the file.
"""

import io
import threading

__all__ = ["CountingFile"]


class CountingFile(io.RawIOBase):
    """A read-only binary file that notes the position and size of every read.

    Args:
        source: a path, or a readable, seekable binary file object (what `fsspec.open` gives).
    """

    def __init__(self, source):
        super().__init__()
        self._own = not hasattr(source, "read")
        self._file = io.FileIO(source, "rb") if self._own else source
        self._lock = threading.Lock()
        self._reads = []

    @property
    def log(self):
        """(offset, bytes) of every read since the last reset, in order."""
        with self._lock:
            return tuple(self._reads)

    @property
    def reads(self):
        """Reads since the last reset."""
        return len(self._reads)

    @property
    def bytes(self):
        """Bytes read since the last reset."""
        return sum(size for _, size in self.log)

    def reset(self):
        """Begin again from zero."""
        with self._lock:
            self._reads.clear()

    def readinto(self, buffer):
        """Read into `buffer`, count, and return the bytes read."""
        at = self._file.tell()
        if hasattr(self._file, "readinto"):
            size = self._file.readinto(buffer)
        else:
            data = self._file.read(len(buffer))
            size = len(data)
            memoryview(buffer).cast("B")[:size] = data
        with self._lock:
            self._reads.append((at, size))
        return size

    def seek(self, offset, whence=io.SEEK_SET):
        """Move and return the new position."""
        return self._file.seek(offset, whence)

    def tell(self):
        """Return the position in bytes."""
        return self._file.tell()

    def readable(self):
        """True."""
        return True

    def seekable(self):
        """True."""
        return True

    def close(self):
        """Close the file if it was opened here by its path; one that was handed over stays open."""
        if not self.closed and self._own:
            self._file.close()
        super().close()

    def __reduce__(self):
        raise TypeError("a CountingFile cannot be sent to another process: its counts would stay there")
