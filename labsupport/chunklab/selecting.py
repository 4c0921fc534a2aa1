"""A selection in one normal form, for every way of writing one: ints, slices, lists, masks, an ellipsis.

Plain Python: a figure and a command must not load an array library to count.
"""

from itertools import compress
from operator import index as as_int

from labsupport.chunklab.plurals import plural
from labsupport.errors import UsageError

__all__ = ["Points", "checked_shape", "normal", "parse", "spelled_out"]


class Points(tuple):
    """Coordinates of single elements, one tuple of whole numbers each: what pointwise indexing and a mask select."""


def checked_shape(name, value, *, least=0, dims=None):
    """Return `value` as a tuple of whole numbers of at least `least`; one number stands for a 1-D shape.

    Raises:
        UsageError: it is no such thing, or has not `dims` numbers.
    """
    numbers = value if isinstance(value, (tuple, list)) or hasattr(value, "__len__") else (value,)
    try:
        numbers = tuple(as_int(number) for number in numbers)
    except TypeError:
        raise UsageError(f"{name} is {value!r}", why="whole numbers are needed, one for each axis") from None
    if any(number < least for number in numbers):
        raise UsageError(f"{name} is {numbers}", why=f"each number is at least {least}")
    if dims is not None and len(numbers) != dims:
        raise UsageError(f"{name} is {numbers}, of {_axes(len(numbers))}", why=f"the array has {_axes(dims)}")
    return numbers


def normal(shape, selection, indexing="outer"):
    """Return `selection` as one `range` or tuple of indices for each axis of `shape`, or as `Points`.

    An int becomes a range of one element. Indices are counted from 0, in the order written, repeats kept. A mask of
    the array's own shape gives `Points`, and so does `indexing="points"`, where lists are paired as coordinates.

    Raises:
        UsageError: out of range, too many axes, or of a kind that selects nothing (None, floats).
    """
    if indexing not in ("outer", "points"):
        raise UsageError(f"there is no indexing {indexing!r}", next_step="'outer' or 'points'")
    shape = checked_shape("shape", shape)
    if getattr(selection, "ndim", 0) > 1 or _nested(selection):
        return _masked(shape, selection)
    items = _one_for_each_axis(shape, selection if isinstance(selection, tuple) else (selection,))
    if indexing == "points":
        return _paired(shape, items)
    return tuple(_along(axis, length, item) for axis, (length, item) in enumerate(zip(shape, items)))


def spelled_out(shape, selection):
    """Return an equal selection with one entry for each axis and no ellipsis; a mask of several axes as it is."""
    if getattr(selection, "ndim", 0) > 1 or _nested(selection):
        return selection
    return _one_for_each_axis(tuple(shape), selection if isinstance(selection, tuple) else (selection,))


def _one_for_each_axis(shape, items):
    dots = [at for at, item in enumerate(items) if item is Ellipsis]
    if len(dots) > 1:
        raise UsageError("a selection has at most one ellipsis", why="the axes that two of them cover are not defined")
    if len(items) - len(dots) > len(shape):
        raise UsageError(f"{len(items) - len(dots)} indices for {_axes(len(shape))}")
    at = dots[0] if dots else len(items)
    missing = len(shape) - (len(items) - len(dots))
    return (*items[:at], *[slice(None)] * missing, *items[at + 1 :])


def _along(axis, length, item):
    if isinstance(item, slice):
        return _sliced(axis, length, item)
    if _is_list(item):
        return _listed(axis, length, item)
    return (lambda at: range(at, at + 1))(_within(axis, length, item))


def _sliced(axis, length, item):
    try:
        return range(*item.indices(length))
    except (TypeError, ValueError) as error:
        raise UsageError(f"axis {axis} cannot be sliced by {item}", why=str(error)) from None


def _listed(axis, length, item):
    values = list(item.tolist() if hasattr(item, "tolist") else item)
    if values and all(isinstance(value, bool) for value in values):
        if len(values) != length:
            given = plural(len(values), "value")
            raise UsageError(f"the mask of axis {axis} has {given}", why=f"the axis has {length}")
        return tuple(compress(range(length), values))
    return tuple(_within(axis, length, value) for value in values)


def _within(axis, length, value):
    if value is None or isinstance(value, bool):
        raise UsageError(f"axis {axis} cannot be indexed by {value!r}", why="chunked stores have no new axes")
    try:
        at = as_int(value)
    except TypeError:
        raise UsageError(
            f"axis {axis} cannot be indexed by {value!r}", why="an index is a whole number, a slice or a list"
        ) from None
    if not -length <= at < length:
        raise UsageError(f"index {at} is out of range", why=f"axis {axis} has {plural(length, 'element')}")
    return at % length


def _paired(shape, items):
    columns = [_along(axis, length, item) for axis, (length, item) in enumerate(zip(shape, items))]
    longest = max((len(column) for column in columns), default=1)
    if any(len(column) not in (1, longest) for column in columns):
        lengths = ", ".join(str(len(column)) for column in columns)
        raise UsageError(
            f"lists of {lengths} elements cannot be paired",
            why="pointwise indexing takes one coordinate of each axis per element",
            next_step="give lists of one length, or select by outer indexing",
        )
    return Points(zip(*(tuple(column) * (longest if len(column) == 1 else 1) for column in columns)))


def _masked(shape, mask):
    if not hasattr(mask, "nonzero"):
        import numpy as np

        mask = np.asarray(mask)
    if mask.dtype.kind != "b":
        raise UsageError(
            f"an index array of {_axes(mask.ndim)} is not supported", next_step="give one list of indices for each axis"
        )
    if tuple(mask.shape) != shape:
        raise UsageError(f"the mask has shape {tuple(mask.shape)}", why=f"the array has {shape}")
    return Points(zip(*(column.tolist() for column in mask.nonzero())))


def _nested(selection):
    return isinstance(selection, list) and bool(selection) and isinstance(selection[0], (list, tuple))


def _is_list(item):
    return isinstance(item, (list, tuple, range)) or getattr(item, "ndim", 0) == 1


def _axes(count):
    return f"{count} axis" if count == 1 else f"{count} axes"


def parse(text):
    """Return the selection that `text` writes as in Python's brackets: `0, :, 10:20:2`, `[1, 5], ...`.

    Raises:
        UsageError: it is something else than ints, slices, lists of ints and an ellipsis.
    """
    import ast

    try:
        tree = ast.parse(f"_[{text.strip() or '...'}]", mode="eval").body
        if not isinstance(tree, ast.Subscript):
            raise ValueError
        parts = tree.slice.elts if isinstance(tree.slice, ast.Tuple) else [tree.slice]
        return tuple(_part(part) for part in parts)
    except (SyntaxError, ValueError):
        raise UsageError(
            f"{text!r} is not a selection", next_step="write it as in brackets: '0, :, 10:20' or '[1, 5], ...'"
        ) from None


def _part(node):
    import ast

    if isinstance(node, ast.Slice):
        return slice(*(None if end is None else ast.literal_eval(end) for end in (node.lower, node.upper, node.step)))
    value = ast.literal_eval(node)
    if isinstance(value, (int, list)) or value is Ellipsis:
        return value
    raise ValueError
