"""The stride explorer: what an array or a tensor reads, drawn from the object itself."""

from itertools import product

import numpy as np

from labsupport.errors import LabError
from labsupport.figures.figure import Figure, flag, telling_index, told, whole, whole_number
from labsupport.figures.stride_model import stride_code, stride_model, stride_reason, stride_words, trim
from labsupport.figures.stride_scene import stride_scene
from labsupport.figures.tensors import dtype_name, is_tensor, labels_of, with_memory
from labsupport.figures.words import repr_label, tuple_text, value_label

__all__ = ["StrideFigure", "draw"]

MOST_AXES = 6
MOST_SIZE = 1_000_000_000
_AROUND = 24  # values sent along on either side of what the view reads, so that it can be moved


@told('lab.show("strides", x): one NumPy array or torch tensor; options: shape, strides, offset, writeable, name')
def draw(array, *, shape=None, strides=None, offset=None, writeable=None, name="a"):
    """Return the stride explorer of `array`: its elements, its memory with byte addresses, and the walk between them.

    Args:
        array: a NumPy array of any layout, or a torch tensor; values, strides and offset are read from it.
        shape: sizes to look at its memory with instead, as for `as_strided`.
        strides: bytes per step along each axis, negative and 0 allowed; as many as sizes.
        offset: bytes from the start of the array's buffer to its first element.
        writeable: whether writing through the view is allowed; the array's own flag when None.
        name: what the array is called in the sentences and the code.

    Raises:
        LabError: not an array, more than 6 axes, or sizes and strides that do not fit together.
    """
    if not isinstance(name, str) or not name.isprintable():
        raise LabError(f"name must be a word, got {repr_label(name, 40)}", next_step='pass a text such as name="x"')
    source = _tensor_source(array) if is_tensor(array) else _array_source(array, name)
    own = source["own"]
    if len(own["shape"]) > MOST_AXES:
        raise LabError(
            f"the array has {len(own['shape'])} axes", why=f"up to {MOST_AXES} are drawn", next_step="pass a part: a[0]"
        )
    wanted = {
        "shape": own["shape"] if shape is None else whole(shape, "shape"),
        "strides": own["strides"] if strides is None else strides,
        "offset": own["offset"] if offset is None else offset,
    }
    if strides is None and shape is not None and len(wanted["shape"]) != len(own["strides"]):
        raise LabError("a new shape needs its strides", next_step="pass strides=, one number of bytes for each size")
    source |= {"name": name, "writeable": source["writeable"] if writeable is None else flag(writeable, "writeable")}
    untouched = shape is None and strides is None and offset is None
    state = {**wanted, "steps": [] if untouched else None, "at": None, "code": False, "predict": False,
             "revealed": False, "asked": 0, "right": 0}  # fmt: skip
    return StrideFigure(source, state)


class StrideFigure(Figure):
    """A stride explorer. Its state: shape, strides (bytes), offset (bytes), at (the selected index), code, predict."""

    kind = "strides"

    def _checked(self, state):
        shape, strides = whole(state["shape"], "shape"), whole(state["strides"], "strides")
        offset = whole_number(state["offset"], "offset")
        if len(shape) != len(strides):
            raise LabError(
                f"{len(shape)} sizes but {len(strides)} strides", next_step="give every axis one size and one stride"
            )
        if len(shape) > MOST_AXES or any(not 0 <= n <= MOST_SIZE for n in shape):
            raise LabError(f"shape {tuple_text(shape)} cannot be drawn", why=f"up to {MOST_AXES} axes, sizes from 0 up")
        at = state.get("at")
        at = None if at is None else whole(at, "at")
        steps = state["steps"]
        if steps is not None and not (isinstance(steps, list | tuple) and all(isinstance(s, str) for s in steps)):
            raise LabError(f"steps must be texts, got {repr_label(steps, 40)}", next_step='pass ["[::2]"], or None')
        state = {**state, "shape": shape, "strides": strides, "offset": offset, "at": at}
        model = stride_model(self.source, state)
        if at is None or len(at) != len(shape) or any(not 0 <= i < n for i, n in zip(at, model["drawn"])):
            # one that reads outside, else one that takes steps on every axis
            outside = next((c["index"] for c in model["cells"] if c["out"]), None)
            state["at"] = outside or telling_index(model["drawn"])
        return state

    def _after(self, state, changes):
        if {"shape", "strides", "offset"} & set(changes):
            state["steps"] = None  # no longer a chain of slices
            if len(whole(state["shape"], "shape")) != len(state.get("at") or []):
                state["at"] = None
        return state

    def model(self):
        """Return the numbers behind the drawing; see `stride_model`."""
        return stride_model(self.source, self.state)

    def words(self):
        return stride_words(self.source, self.state, self.model())

    def scene(self, width=760):
        return stride_scene(self.source, self.state, self.model(), width)

    def code(self):
        """Return code that makes the view shown."""
        return stride_code(self.source, self.state, self.model())

    def reason(self, index, answer):
        """Return what is wrong with `answer` as the address of `index`, or ""."""
        return stride_reason(self.source, self.model(), list(index), answer)


def _tensor_source(tensor):
    """Return the source of a torch tensor without importing torch. Strides become bytes."""
    tensor = with_memory(tensor)
    item, storage = tensor.element_size(), tensor.untyped_storage()
    own = {
        "shape": list(tensor.shape),
        "strides": [s * item for s in tensor.stride()],
        "offset": tensor.storage_offset() * item,
    }
    total = storage.nbytes() // item
    flat = tensor.as_strided((total,), (1,), 0)
    runs = _runs(_slots_near(own, item, 0, item, total), lambda ks: labels_of(flat, ks))
    return {"kind": "torch", "dtype": dtype_name(tensor), "itemsize": item, "pitch": item,
            "phase": 0, "size": storage.nbytes(), "runs": runs, "own": own, "writeable": True, "owner": ""}  # fmt: skip


class _Bytes:
    """Memory from `low` to `high`, offered to NumPy as read-only bytes; `owner` keeps it alive."""

    def __init__(self, owner, low, high):
        self.owner = owner
        self.__array_interface__ = {"data": (low, True), "shape": (high - low,), "typestr": "|u1", "version": 3}


def _array_source(array, name):
    if not isinstance(array, np.ndarray):
        raise LabError(
            f"the stride explorer draws arrays, not {type(array).__name__}",
            next_step="pass a NumPy array or a torch tensor",
        )
    owner, expression = _owner(array, name)
    low, high = np.lib.array_utils.byte_bounds(owner)
    high = low if owner.size == 0 else high
    item = max(1, array.itemsize)
    own = {
        "shape": list(array.shape),
        "strides": list(array.strides),
        "offset": array.__array_interface__["data"][0] - low if high > low else 0,
    }
    pitch = owner.itemsize if _steps_whole_records(array, owner) else item
    phase = own["offset"] % pitch
    total = max(0, (high - low - phase - item) // pitch + 1)
    slots = _slots_near(own, pitch, phase, item, total)
    runs = _runs(slots, _reader(array, owner, low, high, pitch, phase, total))
    return {"kind": "numpy", "dtype": str(array.dtype), "itemsize": item, "pitch": pitch, "phase": phase,
            "size": high - low, "runs": runs, "own": own, "writeable": bool(array.flags.writeable),
            "owner": expression}  # fmt: skip


def _owner(array, name):
    """Return the array whose memory `array` reads, and how to write it in code as a buffer."""
    owner, obj, expression, path = array, array, name, name
    while getattr(obj, "base", None) is not None:
        obj, expression = obj.base, expression + ".base"
        if isinstance(obj, np.ndarray):
            owner, path = obj, expression
    flags = owner.flags
    return owner, path if flags.c_contiguous else f"{path}.T" if flags.f_contiguous else f"{path}.ravel('K')"


def _steps_whole_records(array, owner):
    """Return whether the array picks one field out of records, so that its items lie a record apart."""
    wider = owner.itemsize > array.itemsize and owner.dtype.names is not None
    return wider and all(s % owner.itemsize == 0 for s in array.strides)


def _reader(array, owner, low, high, pitch, phase, total):
    """Return a function from slot numbers to texts."""
    if array.dtype.hasobject:  # bytes cannot be turned into objects: only the array's own elements are known
        start = array.__array_interface__["data"][0] - low
        known = {}
        for i in product(*map(range, trim(array.shape))):
            at = start + sum(k * s for k, s in zip(i, array.strides))
            known[(at - phase) // pitch] = repr_label(array[i])
        return lambda slots: [known.get(k, "·") for k in slots]
    if total == 0:
        return lambda slots: []
    memory = np.asarray(_Bytes(owner, low, high))
    items = np.ndarray((total,), array.dtype, buffer=memory, offset=phase, strides=(pitch,))
    return lambda slots: [value_label(items[k]) for k in slots]


def _slots_near(own, pitch, phase, item, total):
    """Return the slots whose values travel with the figure: all of a small buffer, else those around the view."""
    if total <= 400:
        return list(range(total))
    slots = set()
    for i in product(*map(range, trim(own["shape"]))):
        at = own["offset"] + sum(k * s for k, s in zip(i, own["strides"]))
        slots.add((at - phase) // pitch)
    low, high = min(slots, default=0), max(slots, default=0)
    slots.update(range(low - _AROUND, low + _AROUND), range(high - _AROUND, high + 4 * _AROUND))
    return sorted(k for k in slots if 0 <= k < total)


def _runs(slots, read):
    """Return values as runs of neighbours: [[first slot, [texts]], ...]."""
    runs = []
    for slot, words in zip(slots, read(slots)):
        if runs and runs[-1][0] + len(runs[-1][1]) == slot:
            runs[-1][1].append(words)
        else:
            runs.append([slot, [words]])
    return runs
