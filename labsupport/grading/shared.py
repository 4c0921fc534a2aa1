"""Inputs in shared memory: the judge owns the bytes, the child maps them, both see each change.

The file has no name and cannot be resized (sealed), so that a child cannot end the judge by shrinking it under its map.
"""

import mmap
import os

import numpy as np

from labsupport.probing.plain import fresh

__all__ = ["AVAILABLE", "Memory", "open_inputs"]

AVAILABLE = hasattr(os, "memfd_create")  # on Linux

_ALIGN = 64
# linux/fcntl.h; Python names them from 3.12 on
_ADD_SEALS = 1033
_SEAL, _SHRINK, _GROW = 0x1, 0x2, 0x4


class Memory:
    """A case's inputs with every array at the top level moved into one sealed memory file.

    `described` is what the child needs: the inputs, each such array replaced by a dict with the key `"shared"`.
    Arrays that share memory with each other still do, and one that is handed in twice stays one object.

    Args:
        inputs: tuple of plain data.
        copied: how they are copied first; an input that is not would be what the memory is read from.
    """

    def __init__(self, inputs, copied=fresh):
        self.inputs = copied(inputs)
        self.indices = tuple(
            i for i, v in enumerate(self.inputs) if type(v) is np.ndarray and v.size and v.dtype.kind in "biufcSUV"
        )
        owners = {id(o): o for o in (_owner(self.inputs[i]) for i in self.indices)}
        places, size = {}, 0
        for key, owner in owners.items():
            places[key], size = size, size + -(-owner.nbytes // _ALIGN) * _ALIGN
        self.size = max(size, _ALIGN)
        self.fd = os.memfd_create("inputs", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, self.size)
        import fcntl  # not on Windows

        fcntl.fcntl(self.fd, _ADD_SEALS, _SEAL | _SHRINK | _GROW)
        self._map = mmap.mmap(self.fd, self.size)
        self._bytes = np.frombuffer(self._map, np.uint8)
        for key, owner in owners.items():
            raw = owner.reshape(-1, order="A").view(np.uint8)
            self._bytes[places[key] : places[key] + raw.size] = raw
        self._before = self._bytes.copy()
        self._spans = {i: places[id(_owner(self.inputs[i]))] for i in self.indices}
        self.described = tuple(self._describe(i, v) for i, v in enumerate(self.inputs))

    def _describe(self, index, value):
        if index not in self.indices:
            return value
        offset = self._spans[index] + _address(value) - _address(_owner(value))
        return {
            "shared": offset,
            "shape": tuple(value.shape),
            "strides": tuple(value.strides),
            "dtype": value.dtype.str,
            "writeable": bool(value.flags.writeable),
            "same": next(i for i, other in enumerate(self.inputs) if other is value),
        }

    def changed_inputs(self):
        """Return the indices of the arrays that hold other values than they did, as a tuple."""
        now, before = self._bytes, self._before
        return tuple(
            i for i in self.indices if _elements(now, self.described[i]) != _elements(before, self.described[i])
        )

    def rewrite(self, mask):
        """Change every byte of the memory: flip the bits that are set in `mask`, 1 to 255."""
        np.bitwise_xor(self._bytes, np.uint8(mask), out=self._bytes)

    def close(self):
        self._bytes = None
        self._map.close()
        os.close(self.fd)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _owner(array):
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _address(array):
    return array.__array_interface__["data"][0]


def _elements(raw, described):
    return _array(raw, described).tobytes()


def _array(raw, d):
    return np.ndarray(d["shape"], np.dtype(d["dtype"]), buffer=raw, offset=d["shared"], strides=d["strides"])


def open_inputs(described, fd):
    """Return the inputs as the child sees them: arrays over the judge's memory, in the layout described."""
    size = os.fstat(fd).st_size
    raw = np.frombuffer(mmap.mmap(fd, size), np.uint8)
    opened = []
    for value in described:
        opened.append(_opened(raw, value, opened))
    return tuple(opened)


def _opened(raw, value, before):
    if not (isinstance(value, dict) and "shared" in value):
        return value
    if value["same"] < len(before):
        return before[value["same"]]
    array = _array(raw, value)
    array.flags.writeable = value["writeable"]
    return array
