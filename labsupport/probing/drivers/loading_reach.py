"""Counting what a forked worker writes to when it only reads: the reference counts of the objects it touches."""

import gc
import sys
import types
from collections import Counter

import numpy as np

__all__ = ["beside", "reachable"]

# What is not the dataset's: code, classes, modules, and the few values every program shares.
_NOT_DATA = (
    type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.CodeType,
    type(None), type(...), bool, np.dtype, property,
)  # fmt: skip


def reachable(obj, others=()):
    """Return (number of Python objects that `obj` and others consist of, their bytes, what most of them are, in words).

    Each is counted once. An array of numbers is one object, whatever its length; an array or list of objects counts
    every one of them.
    """
    seen, waiting, size, crowd = {}, [obj, *others], 0, (0, "")
    while waiting:
        one = waiting.pop()
        if isinstance(one, _NOT_DATA) or id(one) in seen:
            continue
        seen[id(one)] = one  # kept, so that its id stays its own
        size += sys.getsizeof(one)
        parts = _parts(one)
        crowd = max(crowd, _crowd(one, parts), key=lambda found: found[0])
        waiting.extend(parts)
    return len(seen), size, crowd[1]


def _parts(one):
    if isinstance(one, np.ndarray):
        # Kind T: texts in a heap of NumPy's own, without an object for each.
        inside = list(one.ravel()) if one.dtype.hasobject and one.dtype.kind != "T" else []
        return [*inside, *([] if one.base is None else [one.base])]
    if isinstance(one, memoryview):
        return [one.obj]
    return gc.get_referents(one)


_OF_EVERY_CLASS = ("__module__", "__qualname__", "__doc__", "__dict__", "__weakref__", "__annotations__")
_ANSWERS = ("__main__", "__answer__")  # modules


def beside(kind):
    """Return what an answer's class keeps outside its objects: attributes of its own, and what its functions name,
    close over or take when nothing else is given.
    """
    found, seen, waiting = [], set(), list(kind.__mro__)
    while waiting:
        one = waiting.pop()
        if isinstance(one, property):
            waiting += filter(None, (one.fget, one.fset))
        elif isinstance(one, (staticmethod, classmethod)):
            waiting.append(one.__func__)
        elif not isinstance(one, (type, types.FunctionType)):
            found.append(one)
        elif id(one) not in seen and one.__module__ in _ANSWERS:
            seen.add(id(one))
            waiting += _kept_by(one)
    return found


def _kept_by(one):
    if isinstance(one, type):
        return [value for name, value in vars(one).items() if name not in _OF_EVERY_CLASS]
    named = [one.__globals__[name] for name in one.__code__.co_names if name in one.__globals__]
    cells = [cell.cell_contents for cell in one.__closure__ or () if cell != types.CellType()]
    return [*named, *cells, *(one.__defaults__ or ()), *(one.__kwdefaults__ or {}).values()]


def _crowd(one, parts):
    if not parts:
        return 0, ""
    kind, count = Counter(type(part).__name__ for part in parts).most_common(1)[0]
    return count, f"{kind} in {'an array' if isinstance(one, np.ndarray) else f'a {type(one).__name__}'}"
