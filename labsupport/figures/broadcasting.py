"""The broadcast aligner: two or three arrays, or shapes, lined up axis by axis."""

import numpy as np

from labsupport.errors import LabError
from labsupport.figures.broadcast_model import (
    CELLS,
    broadcast_code,
    broadcast_model,
    broadcast_reason,
    broadcast_words,
    result_of,
)
from labsupport.figures.broadcast_scene import broadcast_scene
from labsupport.figures.figure import Figure, telling_index, told, whole
from labsupport.figures.tensors import dtype_name, is_tensor, labels_of, numpy_of, result_of_tensors, with_memory
from labsupport.figures.words import repr_label, tuple_text, value_label

__all__ = ["BroadcastFigure", "draw"]

MOST_AXES = 6
MOST_SIZE = 1_000_000


@told('lab.show("broadcasting", x, y): two or three arrays, tensors, or shapes such as (3, 1); option: names')
def draw(*operands, names=None):
    """Return the broadcast aligner of two or three arrays, tensors or shapes.

    Args:
        operands: arrays (values, strides and itemsize are read from them) or shapes as tuples (float64 is assumed).
        names: what they are called; a, b, c when None.

    Raises:
        LabError: not two or three operands, more than 6 axes, or something that is neither array nor shape.
    """
    if not 2 <= len(operands) <= 3:
        raise LabError(f"got {len(operands)} operands", next_step="pass two or three arrays, or shapes such as (3, 1)")
    names = _names(names, len(operands))
    arrays = [_as_array(o) for o in operands]
    given = [_operand(o, array, name) for o, array, name in zip(operands, arrays, names)]
    source = {"operands": given, "result": _result(arrays, given), "real": all(a is not None for a in arrays)}
    state = {"shapes": [o["shape"] for o in given], "at": None, "code": False, "predict": False, "revealed": False,
             "asked": 0, "right": 0}  # fmt: skip
    return BroadcastFigure(source, state)


class BroadcastFigure(Figure):
    """A broadcast aligner. Its state: shapes (a list of sizes per operand), at (the selected index), code, predict."""

    kind = "broadcasting"

    def _checked(self, state):
        if not isinstance(state["shapes"], list | tuple):
            step = "pass a list with a shape for each operand"
            raise LabError(f"shapes must be a list, got {repr_label(state['shapes'], 40)}", next_step=step)
        shapes = [_shape(s) for s in state["shapes"]]
        if len(shapes) != len(self.source["operands"]):
            raise LabError(f"{len(shapes)} shapes for {len(self.source['operands'])} operands")
        model = broadcast_model(self.source, {**state, "shapes": shapes})
        at = None if state.get("at") is None else whole(state["at"], "at")
        fits = at is not None and model["result"] is not None and len(at) == model["ndim"]
        fits = fits and all(0 <= i < n for i, n in zip(at, model["result"]))
        return {**state, "shapes": shapes, "at": at if fits else telling_index(model["axes"])}

    def model(self):
        """Return the numbers behind the drawing; see `broadcast_model`."""
        return broadcast_model(self.source, self.state)

    def words(self):
        return broadcast_words(self.source, self.state, self.model())

    def scene(self, width=760):
        return broadcast_scene(self.source, self.state, self.model(), width)

    def code(self):
        """Return code that says the same."""
        return broadcast_code(self.source, self.state, self.model())

    def reason(self, answer):
        """Return what is wrong with `answer`, a shape or the word "error"; "" when it is right."""
        return broadcast_reason(self.source, self.model(), answer if isinstance(answer, str) else list(answer))


def _names(names, wanted):
    """Return what the operands are called."""
    if names is None:
        return list("abc")[:wanted]
    given = list(names) if isinstance(names, str | list | tuple) else []
    if len(given) < wanted or not all(isinstance(name, str) and name.isprintable() for name in given):
        step = f"pass {wanted} texts, such as names={tuple('xyz'[:wanted])}"
        raise LabError(f"names must be words, one for each operand, got {repr_label(names, 40)}", next_step=step)
    return given[:wanted]


def _as_array(operand):
    """Return an operand that has values, an array or a tensor, or None when it is a shape."""
    if isinstance(operand, np.ndarray):
        return operand
    return with_memory(operand) if is_tensor(operand) else None


def _shape(operand):
    try:
        shape = whole(operand, "shape")
    except LabError:
        raise LabError(
            f"{repr_label(operand, 40)} is neither an array nor a shape",
            next_step="pass an array, or a shape such as (3, 1)",
        ) from None
    if len(shape) > MOST_AXES or any(not 0 <= n <= MOST_SIZE for n in shape):
        raise LabError(
            f"shape {tuple_text(shape)} cannot be drawn", why=f"up to {MOST_AXES} axes, sizes from 0 to {MOST_SIZE:,}"
        )
    return shape


def _operand(operand, array, name):
    shape = _shape(operand if array is None else array.shape)
    if array is None:
        item, dtype, strides, labels = 8, "float64", None, []
    elif is_tensor(array):
        item, dtype = array.element_size(), dtype_name(array)
        strides = [step * item for step in array.stride()]
        labels = labels_of(array) if array.numel() <= CELLS else []
    else:
        item, dtype, strides = max(1, array.itemsize), str(array.dtype), list(array.strides)
        labels = [value_label(v) for v in array.flat] if array.size <= CELLS else []
    if strides is None:
        strides = [item * int(np.prod(shape[k + 1 :], dtype=object)) for k in range(len(shape))]
    return {"name": name, "shape": shape, "strides": strides, "itemsize": item, "dtype": dtype, "labels": labels}


def _result(arrays, given):
    """Return dtype, itemsize and, where it is small and works, the texts of the sum."""
    if any(a is None for a in arrays):
        return {"dtype": "float64", "itemsize": 8, "labels": []}
    shape, clashes = result_of([o["shape"] for o in given])
    small = not clashes and np.prod(shape, dtype=object) <= CELLS
    if all(is_tensor(array) for array in arrays):
        dtype, item, labels = result_of_tensors(arrays, with_labels=small)
    else:
        dtype, item, labels = _result_of_arrays(
            [numpy_of(array) if is_tensor(array) else array for array in arrays], with_labels=small
        )
    if dtype is None:  # nothing adds these: the shapes can still be looked at, with the widest of the items
        return {"dtype": "?", "itemsize": max(operand["itemsize"] for operand in given), "labels": []}
    return {"dtype": dtype, "itemsize": item, "labels": labels}


def _result_of_arrays(arrays, with_labels):
    """Return (dtype, itemsize, texts) of the sum; (None, 0, []) where there is no common dtype."""
    try:
        dtype = np.result_type(*arrays)
    except TypeError:
        return None, 0, []
    labels = []
    if with_labels:
        try:
            total = arrays[0]
            for other in arrays[1:]:
                total = np.add(total, other)
            dtype, labels = total.dtype, [value_label(v) for v in total.flat]
        except Exception:  # objects add as they like; the shapes can still be looked at
            pass
    return str(dtype), dtype.itemsize, labels
