"""A value becomes a tree of plain parts, or is refused by name: the writing half of `carrying`."""

import collections
import dataclasses
import datetime
import sys

from labsupport.errors import LabError
from labsupport.torchrun.lifting import is_key
from labsupport.torchrun.refusing import refused

__all__ = ["MAX_DEPTH", "Lowering"]

MAX_DEPTH = 50  # of the tree; the codec stops at 60
MAX_PARTS = 100_000  # as many as the codec takes; a long list of numbers or texts counts as one
_AT_ONCE = 16  # from this length on, a list of numbers crosses as one array
_LONG_TEXT = 1 << 16  # longer text crosses as bytes: the codec bounds text more tightly
_PURE_PATHS = ("PosixPath", "WindowsPath", "PurePosixPath", "PureWindowsPath")


class Lowering:
    """One value on its way to a tree. `notes` collects what the reader should know of it."""

    def __init__(self, gathered, kinds):
        self.kinds = kinds
        self.gathered, self.notes, self.parts = gathered, [], 0

    def lower(self, value, where, depth):
        """Return the tree of `value`, which lies at `where` ("losses[3]"). Raises LabError where it does not cross."""
        kind = type(value)
        self.parts += 1
        if self.parts > MAX_PARTS:
            raise LabError(
                f"`{where.split('[')[0]}` has more than {MAX_PARTS:,} parts",
                why="it refers to itself, or is many small objects",
                next_step="return an array, a tensor, or one list of numbers for each column",
            )
        if depth > MAX_DEPTH:
            raise LabError(
                f"`{where[:60]}…` holds more than {MAX_DEPTH} levels",
                why="it contains itself, or is nested very deeply",
                next_step="return the part you need",
            )
        if kind in _LOWER:
            return _LOWER[kind](self, value, where, depth)
        if kind.__module__ in ("pathlib", "pathlib._local") and kind.__name__ in _PURE_PATHS:
            return ("path", str(value))
        if "numpy" in sys.modules and isinstance(value, (sys.modules["numpy"].ndarray, sys.modules["numpy"].generic)):
            from labsupport.torchrun import carrying_arrays

            return carrying_arrays.lower_array(value, where)
        if "torch" in sys.modules:
            from labsupport.torchrun import carrying_tensors

            if (tree := carrying_tensors.lower(self, value, where)) is not None:
                return tree
        if "matplotlib.figure" in sys.modules and isinstance(value, sys.modules["matplotlib.figure"].FigureBase):
            from labsupport.torchrun.pictures import png_of

            return ("figure", png_of(value))
        return self._of_fields(value, where, depth)

    def _of_fields(self, value, where, depth):
        """Return a dataclass's or a named tuple's tree."""
        kind = type(value)
        if dataclasses.is_dataclass(kind):
            names = [field.name for field in dataclasses.fields(kind)]
            tag = "dataclass"
        elif kind.__bases__ == (tuple,) and all(type(n) is str for n in getattr(kind, "_fields", (0,))):
            names, tag = list(kind._fields), "named"
        else:
            raise refused(value, where)
        self.kinds.add(kind)
        missing = [name for name in names if not hasattr(value, name)]
        if missing:
            raise LabError(f"`{where}` has no value for its field {missing[0]!r}", next_step="set it before returning")
        parts = [self.lower(getattr(value, name), f"{where}.{name}", depth + 1) for name in names]
        return (tag, kind.__name__, list(names), *parts)

    def same(self, value, where, depth):
        return value

    def int(self, value, where, depth):
        from labsupport.grading import codec

        if value.bit_length() // 8 + 1 > codec.MAX_INT_BYTES:
            raise LabError(
                f"`{where}` is a whole number of {value.bit_length():,} bits",
                why="longer numbers than Python prints do not cross",
                next_step=f"return hex({where})",
            )
        return value

    def text(self, value, where, depth):
        if len(value) > _LONG_TEXT or not value.isascii():
            return ("text", value.encode("utf-8", "surrogatepass"))
        return value

    def raw(self, value, where, depth):
        return value if type(value) is bytes else ("bytearray", bytes(value))

    def items(self, value, where, depth):
        packed = _as_one_array(value)
        if packed is not None:
            return ("many", type(value) is tuple, *packed)
        parts = [self.lower(item, f"{where}[{k}]", depth + 1) for k, item in enumerate(value)]
        return parts if type(value) is list else ("tuple", *parts)

    def members(self, value, where, depth):
        return (type(value).__name__, *(self._key(item, f"a member of {where}", depth + 1) for item in value))

    def queue(self, value, where, depth):
        parts = [self.lower(item, f"{where}[{k}]", depth + 1) for k, item in enumerate(value)]
        return ("deque", value.maxlen, *parts)

    def mapping(self, value, where, depth):
        kind = type(value)
        if kind is collections.defaultdict:
            self.notes.append(f"`{where}` is a defaultdict on the rank and arrives as a dict.")
        flat = []
        for key, item in value.items():
            flat.append(self._key(key, f"a key of {where}", depth + 1))
            flat.append(self.lower(item, f"{where}[{_short(key)}]", depth + 1))
        return ({collections.OrderedDict: "ordered", collections.Counter: "counter"}.get(kind, "dict"), *flat)

    def _key(self, key, where, depth):
        try:
            tree = self.lower(key, where, depth)
        except LabError:
            tree = []  # what does not cross at all is no key either
        if not is_key(tree):
            raise LabError(
                f"{where} is a {type(key).__name__}",
                why="keys and members may be numbers, text, bytes, dates, paths and tuples of these",
                next_step="use its name or number as the key",
            )
        return tree

    def path(self, value, where, depth):
        return ("path", str(value))

    def moment(self, value, where, depth):
        zone = getattr(value, "tzinfo", None)
        if zone is not None and type(zone) is not datetime.timezone:
            if value.utcoffset() is None:
                raise LabError(f"`{where}` has a time zone that needs a date", next_step="return a datetime")
            self.notes.append(f"`{where}` arrives with its offset to UTC, not with the name of its time zone.")
        return (type(value).__name__, value.isoformat())

    def duration(self, value, where, depth):
        return ("timedelta", value.days, value.seconds, value.microseconds)

    def span(self, value, where, depth):
        return ("range", *(self.int(n, where, depth) for n in (value.start, value.stop, value.step)))


_LOWER = {
    **dict.fromkeys((type(None), bool, float, complex), Lowering.same),
    int: Lowering.int,
    str: Lowering.text,
    **dict.fromkeys((bytes, bytearray), Lowering.raw),
    **dict.fromkeys((list, tuple), Lowering.items),
    **dict.fromkeys((set, frozenset), Lowering.members),
    collections.deque: Lowering.queue,
    **dict.fromkeys((dict, collections.OrderedDict, collections.Counter, collections.defaultdict), Lowering.mapping),
    **dict.fromkeys((datetime.datetime, datetime.date, datetime.time), Lowering.moment),
    datetime.timedelta: Lowering.duration,
    range: Lowering.span,
}


def _as_one_array(values):
    """Return a long list of floats, ints, bools or texts as arrays, or None: a million losses are one block."""
    if len(values) < _AT_ONCE:
        return None
    kinds = set(map(type, values))
    if len(kinds) != 1 or (kind := kinds.pop()) not in (float, int, bool, str):
        return None
    if kind is int and not all(-(2**63) <= n < 2**63 for n in values):
        return None
    import numpy as np

    if kind is str:
        raw = [text.encode("utf-8", "surrogatepass") for text in values]
        return np.array([len(part) for part in raw], np.int64), b"".join(raw)
    return (np.array(values, {float: np.float64, int: np.int64, bool: np.bool_}[kind]),)


def _short(key):
    text = repr(key) if type(key) in (str, int, float, bool) else type(key).__name__
    return text if len(text) <= 40 else f"{text[:39]}…"
