"""Lesson 05: addresses from a layout, and windows without a copy."""

import numpy as np
from numpy.lib.stride_tricks import as_strided

from labsupport.course import Case, Exercise, Misconception, Probe

__all__ = ["ADDRESS_OF", "SLIDING_WINDOWS"]

_STRIDES_DOC = "https://numpy.org/doc/stable/reference/generated/numpy.ndarray.strides.html, read 2026-11"
_WINDOWS_DOC = (
    "https://numpy.org/doc/stable/reference/generated/numpy.lib.stride_tricks.sliding_window_view.html, read 2026-11"
)

_SETUP = "import numpy as np\nfrom numpy.lib.stride_tricks import as_strided"


# -- address-of


def address_of(index, shape, strides, itemsize, offset):
    """Return the byte at which element `index` starts."""
    # Strides already say everything about dtype and order: shape and itemsize are not needed.
    return offset + sum(i * step for i, step in zip(index, strides))


def _c_order_only(index, shape, strides, itemsize, offset):
    byte, step = offset, itemsize
    for i, n in zip(reversed(index), reversed(shape)):
        byte += i * step
        step *= n
    return byte


def _flat_number(index, shape, strides, itemsize, offset):
    flat = 0
    for i, n in zip(index, shape):
        flat = flat * n + i
    return offset + flat


def _times_itemsize(index, shape, strides, itemsize, offset):
    return offset + itemsize * sum(i * step for i, step in zip(index, strides))


def _sign_dropped(index, shape, strides, itemsize, offset):
    return offset + sum(i * abs(step) for i, step in zip(index, strides))


def _starts_at_the_lowest(index, shape, strides, itemsize, offset):
    byte = offset
    for i, n, step in zip(index, shape, strides):
        byte += i * step if step >= 0 else (n - 1 - i) * -step
    return byte


def _offset_ignored(index, shape, strides, itemsize, offset):
    return sum(i * step for i, step in zip(index, strides))


def _offset_in_elements(index, shape, strides, itemsize, offset):
    return offset * itemsize + sum(i * step for i, step in zip(index, strides))


def _all_times_itemsize(index, shape, strides, itemsize, offset):
    return (offset + sum(i * step for i, step in zip(index, strides))) * itemsize


def _element_number(index, shape, strides, itemsize, offset):
    return (offset + sum(i * step for i, step in zip(index, strides))) // itemsize


def _zero_means_itemsize(index, shape, strides, itemsize, offset):
    return offset + sum(i * (step or itemsize) for i, step in zip(index, strides))


def _strides_reversed(index, shape, strides, itemsize, offset):
    return offset + sum(i * step for i, step in zip(index, reversed(strides)))


def _layout_case(label, shape, strides, itemsize, offset):
    """Return a case on one layout; the index is drawn so that no axis is at 0 or in the middle of a reversed axis."""

    def make(rng):
        index = tuple(int(rng.integers(1, n)) for n in shape)
        reversed_middle = [s < 0 and 2 * i == n - 1 for i, n, s in zip(index, shape, strides)]
        index = tuple(n - 1 if middle else i for i, n, middle in zip(index, shape, reversed_middle))
        return index, shape, strides, itemsize, offset

    return Case(label, make)


ADDRESS_OF = Exercise(
    id="strides/address-of",
    kind="function",
    task="Return the byte, counted from the start of the memory, at which the element `index` starts. "
    "`offset` is the byte of element (0, ..., 0); strides are in bytes and may be negative or 0.",
    names=("address_of",),
    setup="import numpy as np",
    reference=address_of,
    cases=(
        _layout_case("3 x 4 float64, C order", (3, 4), (32, 8), 8, 0),
        _layout_case("its transpose", (4, 3), (8, 32), 8, 0),
        _layout_case("a slice: starts at byte 40", (2, 3), (32, 8), 8, 40),
        _layout_case("reversed: the offset is the last element", (6,), (-4,), 4, 20),
        _layout_case("rows backwards, every second column, int16", (4, 3), (-12, 4), 2, 36),
        _layout_case("stride 0: one row repeated", (5, 3), (0, 8), 8, 16),
        _layout_case("three axes, rearranged", (4, 2, 3), (4, 48, 16), 4, 8),
    ),
    misconceptions=(
        Misconception(
            id="c-order-only",
            specimen=_c_order_only,
            says="You compute the jumps from shape and itemsize: right for a fresh C-order array, wrong for its "
            "transpose, whose bytes lie elsewhere.",
            next="The layout brings its own jumps: use `strides`.",
        ),
        Misconception(
            id="forgets-itemsize",
            specimen=_flat_number,
            says="You add the element's running number, in elements, to an offset in bytes.",
            next="How many bytes does one step along each axis take? The layout tells you.",
        ),
        Misconception(
            id="multiplies-by-itemsize",
            specimen=_times_itemsize,
            says="You multiply by itemsize, but NumPy's strides are bytes already, so the itemsize is counted twice.",
            next="Try index (0, 1) of a float64 array by hand: which byte?",
        ),
        Misconception(
            id="drops-the-sign",
            specimen=_sign_dropped,
            says="A negative stride leads to lower addresses; your answer goes up instead and leaves the memory.",
            next="Let the sign of the stride do its work.",
        ),
        Misconception(
            id="starts-at-the-lowest-address",
            specimen=_starts_at_the_lowest,
            says="You count a reversed axis from its lowest address. `offset` is where element (0, ..., 0) lies, "
            "and on a reversed axis that is the highest.",
            next="For index 0 the answer must be `offset`, whatever the sign.",
        ),
        Misconception(
            id="ignores-the-offset",
            specimen=_offset_ignored,
            says="You start at byte 0, but this view begins further into the memory.",
            next="Where does element (0, ..., 0) lie?",
        ),
        Misconception(
            id="offset-in-elements",
            specimen=_offset_in_elements,
            says="You multiply the offset by itemsize, as if it counted elements. It is given in bytes, like the "
            "strides.",
            next="Index (0, 0) of the slice must come out at byte 40.",
        ),
        Misconception(
            id="takes-all-for-elements",
            specimen=_all_times_itemsize,
            says="You multiply the whole sum by itemsize. Strides and offset are bytes already, so every byte is "
            "counted itemsize times.",
            next="Try index (0, 0) of a float64 slice that starts at byte 40.",
        ),
        Misconception(
            id="answers-in-elements",
            specimen=_element_number,
            says="You divide by itemsize, which gives a number of elements. Asked for is a byte.",
            next="The sum was right before you divided it.",
        ),
        Misconception(
            id="takes-zero-for-missing",
            specimen=_zero_means_itemsize,
            says="You replace a stride of 0 by the itemsize. Nothing is missing there: a step along that axis goes "
            "nowhere, so one row is read again and again.",
            next="What is 0 times any index?",
        ),
        Misconception(
            id="strides-from-the-right",
            specimen=_strides_reversed,
            says="You pair the first index with the last stride. Strides stand in the order of the axes: strides[0] "
            "is the jump along axis 0.",
            next="Walk through index and strides in the same direction.",
        ),
    ),
    hints=(
        "Moving one step along axis k adds strides[k] bytes. How many steps does `index` take along each axis?",
        "Of the five arguments you need three: the other two describe how a fresh array would be laid out.",
    ),
    core=True,
    level=2,
    minutes=8,
    source=_STRIDES_DOC,
)


# -- sliding-windows


def sliding_windows(x, width):
    """Return every length-`width` window of `x` as a read-only view."""
    (step,) = x.strides  # one sample further, in bytes: whatever x itself jumps
    count = len(x) - width + 1
    # (window, sample): both axes move by one sample, so element [i, j] is sample i + j
    return as_strided(x, (count, width), (step, step), writeable=False)


def _a_window_per_sample(x, width):
    step = x.strides[0]
    return as_strided(x, (len(x), width), (step, step), writeable=False)


def _a_writeable_window_per_sample(x, width):
    step = x.strides[0]
    return as_strided(x, (len(x), width), (step, step))


def _last_window_dropped(x, width):
    step = x.strides[0]
    return as_strided(x, (len(x) - width, width), (step, step), writeable=False)


def _stacked_slices(x, width):
    return np.stack([x[i : i + width] for i in range(len(x) - width + 1)])


def _list_of_slices(x, width):
    return [x[i : i + width] for i in range(len(x) - width + 1)]


def _stride_is_itemsize(x, width):
    step = x.itemsize
    return as_strided(x, (len(x) - width + 1, width), (step, step), writeable=False)


def _stride_is_eight(x, width):
    return as_strided(x, (len(x) - width + 1, width), (8, 8), writeable=False)


def _jump_without_sign(x, width):
    step = abs(x.strides[0])
    return as_strided(x, (len(x) - width + 1, width), (step, step), writeable=False)


def _writeable_windows(x, width):
    step = x.strides[0]
    return as_strided(x, (len(x) - width + 1, width), (step, step))


def _windows_in_columns(x, width):
    step = x.strides[0]
    return as_strided(x, (width, len(x) - width + 1), (step, step), writeable=False)


# Every x is a slice of something longer on both sides: an answer that reads too far reads defined bytes.
SLIDING_WINDOWS = Exercise(
    id="strides/sliding-windows",
    kind="function",
    task="Return every window of `width` samples of `x` (one axis, any dtype, any stride) in order, as a read-only "
    "view of shape (n - width + 1, width). Not allowed: sliding_window_view.",
    names=("sliding_windows",),
    setup=_SETUP,
    reference=sliding_windows,
    cases=(
        Case("10 float64 samples, width 3", lambda rng: (rng.normal(size=40)[15:25], 3)),
        Case("9 int16 samples, width 4", lambda rng: (rng.permutation(160).astype(np.int16)[60:69], 4)),
        Case("every second sample, x[::2]", lambda rng: (rng.normal(size=60)[20:36:2], 3)),
        Case("a reversed signal, x[::-1]", lambda rng: (rng.normal(size=60)[34:24:-1], 3)),
        Case("one column of a matrix", lambda rng: (rng.normal(size=(30, 5)).astype(np.float32)[10:19, 2], 2)),
        Case("width 1", lambda rng: (rng.normal(size=30)[10:15], 1)),
        Case("one window, as wide as the signal", lambda rng: (rng.normal(size=30)[10:16], 6)),
        Case("1,000 samples, width 32", lambda rng: (rng.normal(size=1200)[100:1100], 32)),
    ),
    probe=Probe(
        "call",
        {"view_of": 0, "writeable": True, "max_allocated": 10_000, "forbid": ("sliding_window_view",)},
    ),
    misconceptions=(
        Misconception(
            id="a-window-per-sample",
            specimen=_a_window_per_sample,
            says="You return one window per sample; the last ones read memory behind the signal. `as_strided` does not "
            "stop you.",
            next="The last window starts at sample n - width. How many starts is that?",
        ),
        Misconception(
            id="a-writeable-window-per-sample",
            specimen=_a_writeable_window_per_sample,
            says="Two things: the last windows read memory behind the signal, because there is one window per sample;"
            " and all of them can be written to.",
            next="Count the windows first: at which sample does the last complete one start?",
        ),
        Misconception(
            id="drops-the-last-window",
            specimen=_last_window_dropped,
            says="Your last window is missing: n - width is where it starts, and starts are counted from 0.",
            next="With n = 10 and width = 10 there is one window. What does your count say?",
        ),
        Misconception(
            id="copies-the-samples",
            specimen=_stacked_slices,
            says="The values are right, but every sample was written `width` times into new memory; later changes of "
            "`x` do not reach your windows.",
            next="Describe the windows to NumPy by shape and strides instead of collecting them.",
        ),
        Misconception(
            id="lists-the-slices",
            specimen=_list_of_slices,
            says="Each slice is a view, well seen; but a list of them is a Python object per window, and nothing can "
            "be computed along its second axis.",
            next="Ask for all windows as one array with two axes and two strides.",
        ),
        Misconception(
            id="jumps-one-itemsize",
            specimen=_stride_is_itemsize,
            says="You jump one itemsize per sample. The samples of `x[::2]` lie two itemsizes apart, so half of what "
            "you read is not in `x`.",
            next="This `x` knows how far apart its samples are: ask it.",
        ),
        Misconception(
            id="jumps-eight-bytes",
            specimen=_stride_is_eight,
            says="You jump 8 bytes, which fits float64 only. An int16 sample has 2.",
            next="Which attribute of `x` holds its own jump, whatever the dtype?",
        ),
        Misconception(
            id="drops-the-sign",
            specimen=_jump_without_sign,
            says="The size of your jump is right, its sign is gone: the samples of `x[::-1]` lie at lower and lower "
            "addresses, and you read upwards, out of `x`.",
            next="Use the jump of `x` as it stands, minus sign included.",
        ),
        Misconception(
            id="writeable-alias",
            specimen=_writeable_windows,
            says="Your windows can be written to, and one write would change up to `width` windows at once.",
            next="`as_strided` has an argument for this.",
        ),
        Misconception(
            id="windows-in-columns",
            specimen=_windows_in_columns,
            says="Your windows run down the columns. Asked for: one window per row, shape (n - width + 1, width).",
            next="Which of the two lengths belongs first?",
        ),
    ),
    hints=(
        "Element [i, j] of the result is sample i + j. What does one step along each of the two axes do to i + j?",
        "`as_strided(x, shape, strides, writeable=...)`; take the jump from `x.strides`.",
    ),
    core=True,
    level=3,
    minutes=9,
    source=_WINDOWS_DOC,
)
