"""Plain data: what crosses from an answer to the judge, copied so that nothing is shared."""

import sys

import numpy as np

from labsupport.probing.bounds import unreadable

__all__ = ["Opaque", "as_written", "fresh", "identical", "plain", "plain_literal"]

_SCALARS = (bool, int, float, complex, str, bytes)
_NUMPY_SCALARS = frozenset(np.sctypeDict.values())  # and no class that only says it is one of them
_MAX_DEPTH = 40
_MOST_PARTS = 200_000
_MOST_BYTES = 256_000_000


class Opaque:
    """A value that is not plain data. It equals nothing, itself included."""

    def __init__(self, type_name):
        self.type_name = type_name

    def __eq__(self, other):
        return False

    __hash__ = None

    def __repr__(self):
        return f"<{self.type_name}>"


def plain(value):
    """Return a deep copy of `value` as plain data.

    None, bool, int, float, complex, str, bytes, list, tuple, dict, ndarray and NumPy scalars of exactly
    these types are copied; everything else, subclasses and views that must not be read included, becomes an `Opaque`.
    So does what is nested too deeply, has too many parts, or fills too many bytes to be copied for every case.
    """
    return _Copying().copy(value, 0)


class _Copying:
    """One copy being made: how many parts and bytes it may still have."""

    def __init__(self):
        self.parts, self.bytes = _MOST_PARTS, _MOST_BYTES

    def copy(self, value, depth):
        kind = type(value)
        self.parts -= 1
        if self.parts < 0:
            return Opaque(f"structure of more than {_MOST_PARTS:,} parts")
        if value is None or kind in _SCALARS:
            return value
        if kind is np.ndarray:
            return self._array(value)
        if kind in _NUMPY_SCALARS:
            return value.copy()
        if depth > _MAX_DEPTH:
            return Opaque("structure nested too deeply")
        if kind in (list, tuple) or _is_shape(kind):
            copies = (self.copy(item, depth + 1) for item in value)
            return list(copies) if kind is list else tuple(copies)
        if kind is dict:
            return {_key(key): self.copy(item, depth + 1) for key, item in value.items()}
        return Opaque(_name_of(kind))

    def _array(self, value):
        if value.dtype == object:
            return Opaque("ndarray of objects")
        if problem := unreadable(value):
            return Opaque(problem)
        self.bytes -= value.nbytes
        if self.bytes < 0:
            return Opaque(f"arrays of more than {_MOST_BYTES:,} bytes together")
        return value.copy()


def _name_of(kind):
    """Return a type's name; one that borrows the name of a type that is plain data is told with its module."""
    borrowed = kind.__name__ in {"None", "list", "tuple", "dict", "ndarray", *(plain.__name__ for plain in _SCALARS)}
    return f"{kind.__module__}.{kind.__name__}" if borrowed else kind.__name__


def _is_shape(kind):
    """A `torch.Size` is what torch calls a shape: a tuple in all but name."""
    return kind.__name__ == "Size" and kind.__module__ == "torch" and issubclass(kind, tuple)


def _key(key):
    return key if type(key) in (str, int) else f"<{type(key).__name__} as a key>"


def plain_literal(value, depth=0):
    """Return a predicted or computed value in the form predictions are compared in.

    What was predicted counts, not how it was written: lists, arrays and tensors count as tuples, NumPy scalars as the
    number they hold, a float without a fraction as that whole number, and the case of a word does not matter.
    """
    if isinstance(value, (np.generic, np.ndarray)) or _is_tensor(value):
        value = as_written(value)
    if isinstance(value, (list, tuple)):
        if depth > _MAX_DEPTH:
            return Opaque("structure nested too deeply")
        return tuple(plain_literal(item, depth + 1) for item in value)
    if type(value) is float and value.is_integer():
        return int(value)
    return value.strip().casefold() if type(value) is str else plain(value)


def _is_tensor(value):
    torch = sys.modules.get("torch")  # whoever holds a tensor has loaded it
    return torch is not None and type(value) is getattr(torch, "Tensor", None)


def as_written(value):
    """Return what an array or tensor holds, in lists; a float32 as one would write it, 1.6 and not 1.60000002."""
    short = str(value.dtype).removeprefix("torch.") == "float32"
    return _shortened(value.tolist()) if short else value.tolist()


def _shortened(parts):
    return [_shortened(part) for part in parts] if isinstance(parts, list) else float(str(np.float32(parts)))


def fresh(inputs):
    """Return a deep copy of a tuple of inputs that keeps each array's layout and what shares memory with what.

    A transposed, sliced or reversed array arrives with the same strides over a new buffer, and two
    inputs that were views of one array are views of one new array.
    """
    return _fresh(inputs, {})


def _fresh(value, buffers):
    kind = type(value)
    if kind is np.ndarray:
        owner = _owner(value)
        if id(owner) not in buffers:
            buffers[id(owner)] = owner.copy(order="K")
        copy = buffers[id(owner)]
        if value is owner or owner.dtype == object:
            return copy if value is owner else value.copy()
        offset = _address(value) - _address(owner)
        raw = np.ndarray(copy.nbytes, np.uint8, buffer=_flat_bytes(copy))
        result = np.ndarray(value.shape, value.dtype, buffer=raw, offset=offset, strides=value.strides)
        result.flags.writeable = value.flags.writeable
        return result
    if kind in (list, tuple):
        return kind(_fresh(item, buffers) for item in value)
    if kind is dict:
        return {key: _fresh(item, buffers) for key, item in value.items()}
    return value


def _owner(array):
    """Return the array that owns the memory: the end of the chain of bases, when its bytes lie in one block."""
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    in_one_block = type(owner) is np.ndarray and (owner.flags.c_contiguous or owner.flags.f_contiguous)
    return owner if in_one_block else array


def _address(array):
    return array.__array_interface__["data"][0]


def _flat_bytes(array):
    return array.reshape(-1, order="A").view(np.uint8) if array.size else array.reshape(-1)


def identical(a, b):
    """Return whether two plain values are the same to the bit, types and NaN included."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, np.generic):
        return a.tobytes() == b.tobytes()
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(identical, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(identical(a[k], b[k]) for k in a)
    return a == b or (a != a and b != b)
