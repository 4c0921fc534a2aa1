"""A tree of plain parts becomes a value again: the reading half of `carrying`, which may be given hostile bytes."""

import collections
import dataclasses
import datetime
import itertools
import pathlib

__all__ = ["Lifting", "is_key", "wanted"]

_KEYS = ("tuple", "many", "frozenset", "text", "path", "datetime", "date", "time", "timedelta", "range", "dtype")


def is_key(tree):
    """Return whether a tree stands for something that hashes without running anybody's code."""
    if type(tree) is tuple and tree:
        if tree[0] in ("tuple", "frozenset"):
            return all(is_key(part) for part in tree[1:])
        return tree[0] in _KEYS and (tree[0] != "many" or tree[1:2] == (True,))
    return type(tree) in (type(None), bool, int, float, complex, str, bytes) or _is_numpy_scalar(tree)


def _is_numpy_scalar(tree):
    return type(tree).__module__ == "numpy" and hasattr(type(tree), "dtype") and type(tree).__name__ != "ndarray"


class Lifting:
    """One tree on its way back to a value."""

    def __init__(self, namespace):
        self.namespace, self.notes = namespace, []

    def lift(self, tree):
        kind = type(tree)
        if kind is list:
            return [self.lift(part) for part in tree]
        if kind is not tuple:
            if kind in (type(None), bool, int, float, complex, str, bytes) or kind.__module__ == "numpy":
                return tree
            raise ValueError(f"a {kind.__name__} that no value has")
        tag = tree[0] if tree and type(tree[0]) is str else ""
        if tag in _LIFT:
            return _LIFT[tag](self, *tree[1:])
        if tag in ("tensor", "sparse", "size", "dtype", "device"):
            from labsupport.torchrun import carrying_tensors

            return carrying_tensors.LIFT[tag](self, *tree[1:])
        if tag in ("moments", "figure"):
            from labsupport.torchrun import carrying_arrays, pictures

            return carrying_arrays.lift_moments(*tree[1:]) if tag == "moments" else pictures.Picture(*tree[1:])
        raise ValueError(f"an unknown kind of value, {tag[:40]!r}")

    def parts(self, trees):
        return [self.lift(tree) for tree in trees]

    def keys(self, trees):
        if not all(is_key(tree) for tree in trees):
            raise ValueError("a key that cannot be one")
        return self.parts(trees)

    def many(self, is_tuple, array, texts=None):
        import numpy as np

        wanted(is_tuple, bool)
        if type(array) is not np.ndarray or array.ndim != 1 or array.dtype.str not in ("<f8", "<i8", "|b1"):
            raise ValueError("a list of numbers that is none")
        items = array.tolist() if texts is None else _cut(wanted(texts, bytes), array.tolist())
        return tuple(items) if is_tuple else items

    def mapping(self, flat, kind=dict):
        if len(flat) % 2:
            raise ValueError("a key without a value")
        return kind(zip(self.keys(flat[::2]), self.parts(flat[1::2])))

    def counter(self, *flat):
        counter = collections.Counter()
        dict.update(counter, self.mapping(flat))  # its own update would add to what is there
        return counter

    def of_fields(self, tag, name, fields, *parts):
        """Return an instance of the reader's class of that name and those fields, made without calling any of its code.

        Without such a class: a dict, and a note that says so.
        """
        wanted(name, str)
        if type(fields) is not list or len(fields) != len(parts) or len(set(fields)) != len(fields):
            raise ValueError("fields that do not fit")
        values = dict(zip((wanted(field, str) for field in fields), self.parts(parts)))
        kind = self.namespace.get(name)
        if tag == "dataclass" and isinstance(kind, type) and _own_fields(kind) == fields:
            made = object.__new__(kind)
            for field, value in values.items():
                object.__setattr__(made, field, value)
            return made
        if tag == "named" and _is_named_tuple(kind, fields):
            return tuple.__new__(kind, values.values())
        self.notes.append(
            f"`{name}` arrives as a dict: there is no class `{name}` here with the fields {', '.join(fields)}."
        )
        return values


def wanted(value, kind):
    """Return `value` when it is exactly of type `kind`. Raises ValueError."""
    if type(value) is not kind:
        raise ValueError(f"a {type(value).__name__} where a {kind.__name__} belongs")
    return value


def _cut(raw, lengths):
    if not all(type(n) is int and n >= 0 for n in lengths) or sum(lengths) != len(raw):
        raise ValueError("texts whose lengths do not fit")
    ends = list(itertools.accumulate(lengths, initial=0))
    return [raw[start:end].decode("utf-8", "surrogatepass") for start, end in itertools.pairwise(ends)]


def _own_fields(kind):
    fields = vars(kind).get("__dataclass_fields__") or getattr(kind, "__dataclass_fields__", None)
    if type(fields) is not dict or not dataclasses.is_dataclass(kind):
        return None
    return [field.name for field in dataclasses.fields(kind)]


def _is_named_tuple(kind, fields):
    return isinstance(kind, type) and kind.__bases__ == (tuple,) and list(getattr(kind, "_fields", ())) == fields


def _iso(kind):
    return lambda _, text: kind.fromisoformat(wanted(text, str))


_LIFT = {
    "text": lambda s, raw: wanted(raw, bytes).decode("utf-8", "surrogatepass"),
    "bytearray": lambda s, raw: bytearray(wanted(raw, bytes)),
    "tuple": lambda s, *parts: tuple(s.parts(parts)),
    "many": Lifting.many,
    "set": lambda s, *parts: set(s.keys(parts)),
    "frozenset": lambda s, *parts: frozenset(s.keys(parts)),
    "deque": lambda s, most, *parts: collections.deque(s.parts(parts), most if most is None else wanted(most, int)),
    "dict": lambda s, *flat: s.mapping(flat),
    "ordered": lambda s, *flat: s.mapping(flat, collections.OrderedDict),
    "counter": Lifting.counter,
    "path": lambda s, text: pathlib.Path(wanted(text, str)),
    "datetime": _iso(datetime.datetime),
    "date": _iso(datetime.date),
    "time": _iso(datetime.time),
    "timedelta": lambda s, *parts: datetime.timedelta(*(wanted(part, int) for part in parts)),
    "range": lambda s, *parts: range(*(wanted(part, int) for part in parts)),
    "dataclass": lambda s, *rest: s.of_fields("dataclass", *rest),
    "named": lambda s, *rest: s.of_fields("named", *rest),
}
