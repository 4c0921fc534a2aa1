"""The broadcast aligner: two or three arrays, or shapes, lined up axis by axis."""

from operator import index as as_int

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
from labsupport.figures.figure import Figure, telling_index
from labsupport.figures.words import clip_label, tuple_text, value_label

__all__ = ["BroadcastFigure", "draw"]

MOST_AXES = 6
MOST_SIZE = 1_000_000


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
    names = list(names or "abc")[: len(operands)]
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
        shapes = [_shape(s) for s in state["shapes"]]
        if len(shapes) != len(self.source["operands"]):
            raise LabError(f"{len(shapes)} shapes for {len(self.source['operands'])} operands")
        model = broadcast_model(self.source, {**state, "shapes": shapes})
        at = state.get("at")
        fits = at is not None and model["result"] is not None and len(at) == model["ndim"]
        fits = fits and all(0 <= i < n for i, n in zip(at, model["result"]))
        return {**state, "shapes": shapes, "at": [as_int(i) for i in at] if fits else telling_index(model["axes"])}

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


def _as_array(operand):
    """Return an operand as an array, or None when it is a shape."""
    if isinstance(operand, np.ndarray):
        return operand
    if hasattr(operand, "detach"):  # a torch tensor, without importing torch
        return operand.detach().cpu().numpy()
    return None


def _shape(operand):
    try:
        shape = [as_int(n) for n in operand]
    except TypeError:
        raise LabError(
            f"{clip_label(repr(operand), 40)} is neither an array nor a shape",
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
    try:
        dtype = np.result_type(*arrays)
    except TypeError:  # no common type: the shapes can still be looked at
        return {"dtype": "?", "itemsize": 8, "labels": []}
    labels, (shape, clashes) = [], result_of([o["shape"] for o in given])
    if not clashes and np.prod(shape, dtype=object) <= CELLS:
        try:
            total = arrays[0]
            for other in arrays[1:]:
                total = np.add(total, other)
            dtype, labels = total.dtype, [value_label(v) for v in total.flat]
        except TypeError:
            pass
    return {"dtype": str(dtype), "itemsize": dtype.itemsize, "labels": labels}
