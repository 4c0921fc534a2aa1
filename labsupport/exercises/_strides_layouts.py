"""Lesson 05, predictions about layout: strides, windows, bits."""

import numpy as np

from labsupport.course import Case, Drill, Exercise, Misconception, Probe
from labsupport.exercises._strides_asking import instead, questions

__all__ = ["PREDICT_WINDOW_BYTES", "PREDICT_STRIDES", "PREDICT_BITS"]

_STRIDES_DOC = "https://numpy.org/doc/stable/reference/generated/numpy.ndarray.strides.html, read 2026-11"
_WINDOWS_DOC = (
    "https://numpy.org/doc/stable/reference/generated/numpy.lib.stride_tricks.sliding_window_view.html, read 2026-11"
)


# -- predict-window-bytes

_WINDOW_QUESTIONS = ("w.shape", "w.strides", "bytes of samples copied to make w")


def _windows_are(question):
    x = np.arange(10.0)
    w = np.lib.stride_tricks.sliding_window_view(x, 3)
    if question == "w.shape":
        return w.shape
    return w.strides if question == "w.strides" else (0 if np.shares_memory(w, x) else w.nbytes)


_SHAPE, _STRIDES, _COPIED = _WINDOW_QUESTIONS

PREDICT_WINDOW_BYTES = Exercise(
    id="strides/predict-window-bytes",
    kind="prediction",
    task="Predict shape, strides and copied bytes of the windows of width 3 over ten float64 samples.",
    names=("windows_shape", "windows_strides", "copied_bytes"),
    setup="import numpy as np",
    reference=_windows_are,
    cases=questions(*_WINDOW_QUESTIONS),
    probe=Probe("literal"),
    misconceptions=(
        Misconception(
            id="a-window-per-sample",
            specimen=instead(_windows_are, {_SHAPE: (10, 3), _COPIED: 240}),
            says="You have a window starting at every sample. The one that starts at the ninth would need an eleventh.",
            next="At which sample does the last complete window of 3 start?",
        ),
        Misconception(
            id="drops-the-last-window",
            specimen=instead(_windows_are, {_SHAPE: (7, 3)}),
            says="10 - 3 windows leave one out: the starts 0 to 7 all have three samples ahead of them.",
            next="Count the starts, not the distance between the first and the last.",
        ),
        Misconception(
            id="tiles-the-signal",
            specimen=instead(_windows_are, {_SHAPE: (3, 3), _STRIDES: (24, 8)}),
            says="You laid the windows side by side, each starting where the last ended. Sliding windows overlap: the "
            "next one starts a single sample later.",
            next="How far, in bytes, is the start of window 1 from the start of window 0?",
        ),
        Misconception(
            id="counts-elements",
            specimen=instead(_windows_are, {_STRIDES: (1, 1)}),
            says="Both steps move by one sample, as you say; strides give that distance in bytes.",
            next="How many bytes has one float64?",
        ),
        Misconception(
            id="counts-every-sample",
            specimen=instead(_windows_are, {_COPIED: 192}),
            says="192 is `w.nbytes`: what the windows would fill if each sample were written once per window. "
            "That number comes from the shape alone.",
            next="With strides (8, 8), which bytes do window 0 and window 1 have in common?",
        ),
        Misconception(
            id="one-more-signal",
            specimen=instead(_windows_are, {_COPIED: 80}),
            says="80 bytes would be one more copy of the signal. The windows read the samples where they already lie.",
            next="What does a new array over old bytes have to store?",
        ),
    ),
    hints=(
        "Draw ten boxes and put a bracket around the first three, then slide it.",
        "A view is a shape, strides and a place to start. Which of these grow with the number of windows?",
    ),
    core=False,
    level=1,
    minutes=3,
    source=_WINDOWS_DOC,
)


# -- predict-strides

_VIEWS = {
    "a": lambda a: a,
    "a.T": lambda a: a.T,
    "a[:, 1]": lambda a: a[:, 1],
    "a[::-1, ::2]": lambda a: a[::-1, ::2],
    "a[1:, 1:]": lambda a: a[1:, 1:],
    "a[::2]": lambda a: a[::2],
    "a[::-1]": lambda a: a[::-1],
    "a[..., ::-1]": lambda a: a[..., ::-1],
    "a[..., ::3]": lambda a: a[..., ::3],
    "a.swapaxes(0, 1)": lambda a: a.swapaxes(0, 1),
    "a.T[::2]": lambda a: a.T[::2],
}


def _strides_after(shape, dtype, view):
    return _VIEWS[view](np.zeros(shape, dtype)).strides


def _strides_in_elements(shape, dtype, view):
    return tuple(step // np.dtype(dtype).itemsize for step in _strides_after(shape, dtype, view))


def _strides_unchanged(shape, dtype, view):
    right = _strides_after(shape, dtype, view)
    before = np.zeros(shape, dtype).strides
    return before if len(right) == len(before) else right


def _strides_of_a_fresh_array(shape, dtype, view):
    return np.zeros(_VIEWS[view](np.zeros(shape, dtype)).shape, dtype).strides


def _strides_without_sign(shape, dtype, view):
    return tuple(map(abs, _strides_after(shape, dtype, view)))


def _strides_as_if_float64(shape, dtype, view):
    return _strides_after(shape, np.float64, view)


def _strides_as_a_number(shape, dtype, view):
    right = _strides_after(shape, dtype, view)
    return right[0] if len(right) == 1 else right


def _draw_strides_question(rng):
    shape = tuple(int(n) for n in rng.integers(2, 7, size=int(rng.integers(2, 4))))
    dtype = ("int8", "int16", "float32", "float64", "complex128")[int(rng.integers(5))]
    view = list(_VIEWS)[int(rng.integers(len(_VIEWS)))]
    return shape, dtype, view


def _ask_strides(shape, dtype, view):
    return f"`a = np.zeros({shape}, np.{dtype})`. What is `{'a' if view == 'a' else f'({view})'}.strides`?"


PREDICT_STRIDES = Exercise(
    id="strides/predict-strides",
    kind="prediction",
    task="Predict the strides, in bytes, of an array and of four views and relatives of it.",
    names=("of_a", "of_transpose", "of_column", "of_backwards", "of_int16"),
    setup="import numpy as np",
    reference=_strides_after,
    cases=(
        Case("a, shape (3, 4), float64", lambda rng: ((3, 4), "float64", "a")),
        Case("a.T", lambda rng: ((3, 4), "float64", "a.T")),
        Case("a[:, 1]", lambda rng: ((3, 4), "float64", "a[:, 1]")),
        Case("a[::-1, ::2]", lambda rng: ((3, 4), "float64", "a[::-1, ::2]")),
        Case("the same shape in int16", lambda rng: ((3, 4), "int16", "a")),
    ),
    probe=Probe("literal"),
    misconceptions=(
        Misconception(
            id="counts-elements",
            specimen=_strides_in_elements,
            says="You counted elements. Strides are jumps in bytes, so that they work for any dtype.",
            next="How many bytes does one element of this array take?",
        ),
        Misconception(
            id="keeps-the-old-strides",
            specimen=_strides_unchanged,
            says="Those are the strides of `a` itself. The bytes stay where they are; the jumps between them do not.",
            next="Take one step along the view's first axis: how far apart are those two elements in `a`?",
        ),
        Misconception(
            id="lays-the-view-out-afresh",
            specimen=_strides_of_a_fresh_array,
            says="Those would be the strides of a new array of this shape. A view moves no data: it still walks over "
            "the bytes of `a`.",
            next="Find two neighbours of the view inside `a` and count the bytes between them.",
        ),
        Misconception(
            id="drops-the-sign",
            specimen=_strides_without_sign,
            says="The size of the jump is right, its direction is not: `::-1` walks towards lower addresses.",
            next="What number of bytes leads from the last row back to the one before it?",
        ),
        Misconception(
            id="a-number-for-one-axis",
            specimen=_strides_as_a_number,
            says="The number is right. Strides are a tuple with one entry per axis, also when there is only one axis.",
            next="A tuple of one number needs a comma: `(8,)`.",
        ),
        Misconception(
            id="assumes-eight-bytes",
            specimen=_strides_as_if_float64,
            says="You jumped as if every element had 8 bytes, as in float64. This dtype is narrower or wider.",
            next="Look at `np.dtype(...).itemsize` for the dtype in the question.",
        ),
    ),
    hints=(
        "Start with the last axis of a fresh array: its neighbours touch, so the jump is one itemsize.",
        "For a view, ask of each axis in turn: one step along it, how many bytes further in the memory of `a`?",
    ),
    core=True,
    level=1,
    minutes=4,
    source=_STRIDES_DOC,
    drill=Drill(_draw_strides_question, _ask_strides),
)


# -- predict-bits

_BITS = (
    'np.array([258], "<i4").view(np.uint8).tolist()',
    "np.zeros((3, 4)).view(np.float32).shape",
    "np.array([1.0]).view(np.int64)[0] == 1",
)


def _bits_are(question):
    if question == _BITS[0]:
        return np.array([258], "<i4").view(np.uint8).tolist()
    if question == _BITS[1]:
        return np.zeros((3, 4)).view(np.float32).shape
    return np.array([1.0]).view(np.int64)[0] == 1


PREDICT_BITS = Exercise(
    id="strides/predict-bits",
    kind="prediction",
    task="Predict what three views with another dtype show.",
    names=("bytes_of_258", "shape_as_float32", "one_is_one"),
    setup="import numpy as np",
    reference=_bits_are,
    cases=questions(*_BITS),
    probe=Probe("literal"),
    misconceptions=(
        Misconception(
            id="converts-the-value",
            specimen=instead(_bits_are, {_BITS[0]: [2]}),
            says="You converted the number, as `astype` does, and it wrapped around. `view` converts nothing: it cuts"
            " the same four bytes into four numbers.",
            next="How many uint8 fit into one int32, and what does each byte hold?",
        ),
        Misconception(
            id="biggest-byte-first",
            specimen=instead(_bits_are, {_BITS[0]: [0, 0, 1, 2]}),
            says='The four bytes are right, their order is not: "<" in the dtype means that the smallest byte comes '
            "first.",
            next="258 is 1 x 256 + 2. Which of the two is the small byte?",
        ),
        Misconception(
            id="view-keeps-the-shape",
            specimen=instead(_bits_are, {_BITS[1]: (3, 4)}),
            says="The bytes stay, and half-size elements means twice as many of them: 12 float32 would cover half the"
            " memory.",
            next="Which axis can double while the rows stay rows?",
        ),
        Misconception(
            id="first-axis-grows",
            specimen=instead(_bits_are, {_BITS[1]: (6, 4)}),
            says="Twice as many elements, yes, but each old element is split where it lies, between its neighbours in"
            " the row.",
            next="Along which axis do neighbours touch in memory?",
        ),
        Misconception(
            id="views-convert",
            specimen=instead(_bits_are, {_BITS[2]: True}),
            says="`astype` would give 1. `view` reads the bits of the float64 1.0, sign, exponent and fraction, as "
            "one integer, and that integer is not 1.",
            next="Run `hex(np.array([1.0]).view(np.int64)[0])` after your next try.",
        ),
    ),
    hints=(
        "`view(dtype)` changes how bytes are read, never the bytes. Count bytes before and after.",
        "258 in binary is 1 00000010: two of its four bytes are not zero.",
    ),
    core=False,
    level=3,
    minutes=4,
    source="https://numpy.org/doc/stable/reference/generated/numpy.ndarray.view.html, read 2026-11",
)
