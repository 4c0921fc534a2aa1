"""NumPy arrays and scalars on their way between kernel and ranks: fixed dtypes only, never an array of objects."""

import numpy as np

from labsupport.errors import LabError
from labsupport.grading import codec

__all__ = ["lift_moments", "lower_array"]

_UNITS = ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as", "generic")


def lower_array(value, where):
    """Return the tree of an array or NumPy scalar. Raises LabError for subclasses and dtypes that do not cross."""
    is_scalar = isinstance(value, np.generic)
    if not is_scalar and type(value) is not np.ndarray:
        raise _no(value, where, f"`{where}` is a {type(value).__name__}", f"np.asarray({where})")
    if value.dtype.kind in "mM":
        return _lower_moments(value, is_scalar)
    if value.dtype.kind == "O":
        raise _no(value, where, f"`{where}` is an array of Python objects", f"{where}.tolist()")
    if value.dtype.names:
        raise _no(value, where, f"`{where}` is an array of records", f'{where}["{value.dtype.names[0]}"]')
    if not _crosses(np.asarray(value)):
        raise _no(value, where, f"`{where}` is an array of {value.dtype}", f"{where}.astype(np.float64)")
    return value


def _no(value, where, what, way_out):
    return LabError(what, why="such arrays do not cross", next_step=f"return {way_out}")


def _crosses(array):
    if not codec.is_shape(array.shape):
        return False
    if array.dtype.kind in "SU":
        return bool(array.dtype.itemsize) and (array.dtype.kind == "S" or codec.is_text(array))
    return codec.DTYPES.get(array.dtype.str) == array.dtype


def _lower_moments(value, is_scalar):
    unit, count = np.datetime_data(value.dtype)
    counts = np.asarray(value).astype(value.dtype.newbyteorder("="), order="C").reshape(-1).view(np.int64)
    return ("moments", value.dtype.kind, unit, count, is_scalar, list(np.shape(value)), counts)


def lift_moments(kind, unit, count, is_scalar, shape, counts):
    """Return an array (or scalar) of dates or durations. Raises ValueError when the parts do not fit."""
    fits = kind in ("m", "M") and unit in _UNITS and type(count) is int and 0 < count < 2**31 and type(shape) is list
    if not fits or type(counts) is not np.ndarray or counts.dtype != np.int64 or counts.ndim != 1:
        raise ValueError("dates that are none")
    if not all(type(side) is int and side >= 0 for side in shape) or not codec.is_shape(tuple(shape)):
        raise ValueError("a shape that is none")
    name = f"{kind}8" if unit == "generic" else f"{kind}8[{count}{unit}]"
    array = counts.view(np.dtype(name)).reshape(shape)
    return array[()] if is_scalar is True and not shape else array
