# %% [markdown]
# # Read one memory in many ways
# Take windows, tiles and diagonals out of real data without copying a byte, and know when NumPy copies for you.
#
# **55 minutes (core), any laptop.** What is marked (more) adds about 41 minutes. You will be able to
# compute where an element lies, build views that copy nothing, and tell a view from a copy before it costs you.
# You need: slicing with two axes. Not here: shapes that stretch (lesson 06), tensors (lesson 08).

# %%
import numpy as np

from labsupport import lesson

lab = lesson("strides")
heights = lab.data("altitude")  # (latitude, longitude), metres; 0 means no data, mostly sea
track = heights[600:840].ravel()  # 240 rows one after another, from 40 to 20 degrees north
track.shape, track.dtype, f"{track.nbytes:,} bytes"

# %% [markdown]
# ## Part 1. The recipe
# ### The obvious way
# Where on this track does the land change most within 64 neighbouring samples? The obvious way cuts out every stretch
# of 64 with a table of indices. To be careful, we do it for a tenth of the track.

# %%
tenth = track[:100_000]
starts = np.arange(len(tenth) - 63)[:, np.newaxis]  # (window, 1)
with lab.peak_memory() as used:
    stretches = tenth[starts + np.arange(64)]  # (window, sample)
used, f"{used.bytes / tenth.nbytes:.0f} times the samples themselves"

# %% [markdown]
# Each sample was written up to 64 times, and the table of indices needed even more: 8 bytes per entry, where a sample
# has 2. Yet every stretch already lies in memory, ready to be read.
#
# ### Predict: windows (more)
# NumPy can give all windows at once. Over ten float64 numbers, three wide:
#
# ```python
# w = np.lib.stride_tricks.sliding_window_view(np.arange(10.0), 3)
# ```
#
# Write down what you expect. A wrong guess costs nothing.

# %%
# exercise: strides/predict-window-bytes
windows_shape = ...  # w.shape
windows_strides = ...  # w.strides: bytes from one window to the next, from one sample to the next
copied_bytes = ...  # bytes of samples that were copied to make w

# %%
lab.check("predict-window-bytes")

# %%
# The same function on the whole track, ten times as long as before.
with lab.peak_memory() as used:
    windows = np.lib.stride_tricks.sliding_window_view(track, 64)  # (window, sample)
change = np.ptp(windows, axis=1)  # largest minus smallest, per window
row, column = divmod(int(change.argmax()), heights.shape[1])
print(f"{used}; nbytes says {windows.nbytes:,}")
print(f"{change.max()} m, from {90 - (600 + row) / 12:.1f} N, {column / 12 - 180:.1f} E eastwards")

# %% [markdown]
# The stretch begins in the lowlands of Nepal and ends near Everest. A million windows took a few kilobytes in all:
# `nbytes` multiplies shape by itemsize and does not ask whether anything is stored.
#
# ### See
# Ten samples from there. Each row of the grid is a window; select an element and see which bytes it reads. Then change
# the first stride from 2 to 4, and to 0.

# %%
ten = track[620_950:620_960].copy()  # a copy, so that its addresses start at 0
lab.show("strides", ten, shape=(8, 3), strides=(2, 2), name="ten")

# %% [markdown]
# ### The idea
# An array is some memory and a recipe for reading it. The *dtype* says how many bytes make an element, the *offset*
# where the first one starts, the *shape* how many steps each axis has, the *strides* how many bytes one step jumps.
#
# Nothing in the recipe says that jumps go forward, that neighbours touch, or that two elements use different bytes. A
# new recipe over old memory is called a *view*.
#
# ### Predict: strides (core)
# `a = np.zeros((3, 4))` holds 12 float64, row after row. Write each answer in bytes, as a tuple, even for one axis:
# `(5,)`.
#
# The cell after the check is a drill: it asks fresh questions for as long as you answer, and counts none of them.

# %%
# exercise: strides/predict-strides
of_a = ...  # a.strides
of_transpose = ...  # a.T.strides
of_column = ...  # a[:, 1].strides
of_backwards = ...  # a[::-1, ::2].strides
of_int16 = ...  # np.zeros((3, 4), np.int16).strides

# %%
lab.check("predict-strides")

# %%
lab.drill("predict-strides", ...)

# %%
# Two orders, and one element read from the raw bytes without NumPy's help.
a = np.arange(12, dtype="<i2").reshape(3, 4)  # (row, column), 2 bytes each
memory = a.tobytes()  # all 24 bytes, row after row
print("C order", a.strides, "Fortran order", np.asfortranarray(a).strides)
print(memory[12:14], "is", int.from_bytes(memory[12:14], "little"), "and a[1, 2] is", a[1, 2])

# %% [markdown]
# In *C order*, NumPy's habit, neighbours along the last axis touch; in *Fortran order* those along the first. The last
# line follows the recipe by hand: element `[1, 2]` starts one row and two columns in, at byte 8 + 2 + 2 = 12.
#
# ### Your turn: `address_of` (core)
# - **in**: `index`, one number per axis, inside the array; `shape`; `strides`, `itemsize`, `offset` in bytes.
#   Strides may be negative or 0; `offset` is where element (0, ..., 0) starts
# - **out**: the byte at which the element starts, counted from the start of the memory
# - **done when** it is right for C order, transposes, slices, reversed axes and repeated rows
#
# Whether you need all five arguments is part of the question.


# %%
# exercise: strides/address-of
def address_of(index, shape, strides, itemsize, offset):
    """Return the byte at which element `index` starts."""
    raise NotImplementedError


# %%
lab.check("address-of")

# %% [markdown]
# ## Part 2. Recipes of your own
# `as_strided` makes a view from any shape and strides. Below, a signal stands above itself, shifted by one sample: one
# row down and one column to the right both mean 8 bytes further. The figure asks for one column too many.

# %%
from numpy.lib.stride_tricks import as_strided

x = np.arange(5.0)  # (sample,), strides (8,)
lagged = as_strided(x, shape=(2, 4), strides=(8, 8), writeable=False)  # (lag, sample)
print(lagged, "shares memory with x:", np.shares_memory(lagged, x))
lab.show("strides", x, shape=(2, 5), strides=(8, 8), name="x")

# %% [markdown]
# That view would read past the end of `x`, and `as_strided` would not say a word: the figure marks what NumPy does
# not check. Counting is up to you.
#
# ### Your turn: `sliding_windows` (core)
# - **in**: `x`, one axis of length n, any dtype, any stride; `width`, from 1 to n
# - **out**: all windows in order, shape (n - width + 1, width), read-only
# - **done when** no sample is copied, for `x[::2]` and `x[::-1]` as well
# - **not allowed**: `sliding_window_view`


# %%
# exercise: strides/sliding-windows
def sliding_windows(x, width):
    """Return every window of `width` samples of `x` as a read-only view."""
    raise NotImplementedError


# %%
lab.check("sliding-windows")

# %% [markdown]
# ### Your turn: `block_view` (more)
# A climate model wants the map in tiles of 10 by 10 degrees. Two axes become four, and not a byte moves.
#
# - **in**: `m`, a matrix, any strides; `rows` and `cols`, which divide its sides
# - **out**: shape (R, C, rows, cols); `[i, j]` is the tile in tile row i, tile column j
# - **done when** it is a view, for slices and transposes too


# %%
# exercise: strides/block-view
def block_view(m, rows, cols):
    """Return the non-overlapping tiles of `m` as a view."""
    raise NotImplementedError


# %%
lab.check("block-view")

# %% [markdown]
# ### Your turn: `diagonal_view` (more)
# Ridge regression adds a constant to the diagonal of a matrix. That calls for a view one can write through, and
# `np.diagonal`, so far, gives a read-only one.
#
# - **in**: `m`, a matrix, any shape, any strides; `k`, 0 for the main diagonal, positive above it, negative below
# - **out**: the k-th diagonal, a writable view; where it misses the matrix, however far, empty with the dtype of `m`


# %%
# exercise: strides/diagonal-view
def diagonal_view(m, k=0):
    """Return the k-th diagonal of `m` as a writable view; k > 0 lies above the main one."""
    raise NotImplementedError


# %%
lab.check("diagonal-view")

# %% [markdown]
# *A good place to rest. When you come back, run the setup cell at the top; nothing else is needed.*
#
# ## Part 3. Whose bytes are these?
# ### Predict: view or copy (core)
# A view costs next to nothing, and writing to it changes its owner. A copy costs memory, and writing to it changes
# nothing else. With `a = np.arange(12.0).reshape(3, 4)`, write `"view"` or `"copy"`.

# %%
# exercise: strides/view-or-copy
by_slice = ...  # a[1:3]
by_list = ...  # a[[1, 2]]
by_mask = ...  # a[a > 2]
by_transpose = ...  # a.T
by_reshape = ...  # a.T.reshape(-1)
by_ravel = ...  # a.T.ravel(order="K")

# %%
lab.check("view-or-copy")

# %%
# Five more, answered by NumPy. `left` has shape (3, 2) and the strides of `a`, (32, 8).
a = np.arange(12.0).reshape(3, 4)
left = a[:, :2]
results = {"a.reshape(2, 6)": a.reshape(2, 6), "left.reshape(3, 2, 1)": left.reshape(3, 2, 1)}
results |= {"left.reshape(-1)": left.reshape(-1), "np.asarray(a)": np.asarray(a), "np.array(a)": np.array(a)}
for code, r in results.items():
    print(f"{code:22} strides {r.strides!s:10} {'view' if np.shares_memory(r, a) else 'copy'}")

# %% [markdown]
# A view is possible when one start and one jump per axis find the elements in order. So `reshape` may split any axis,
# but merges two only if a full pass along the inner one (in `left`: 2 x 8 bytes) equals one step of the outer (32).
#
# `reshape` and `ravel` copy only when they must, `flatten` always. `reshape(..., copy=False)` raises an error instead.
#
# ### Predict: five writes (more)
# Each line starts from `a = np.arange(6)`. What is `a[1]` afterwards?

# %%
# exercise: strides/predict-fancy-write
after_slice = ...  # b = a[1:4]; b[0] = 99
after_list = ...  # b = a[[1, 2, 3]]; b[0] = 99
after_assignment = ...  # a[[1, 2, 3]] = 99
after_rebinding = ...  # b = a[1:4]; b = b * 0
after_in_place = ...  # b = a[1:4]; b *= 0

# %%
lab.check("predict-fancy-write")

# %% [markdown]
# ### Mend: `clip_peaks` (core)
# A sensor reports impossible heights. The function below should cap them in the array it is given. It runs without
# complaint and changes nothing.
#
# - **in**: `heights`, one axis or more, any strides; `limit`, a number that its dtype can hold
# - **out**: `heights` itself (a view of all of it will do), every value above `limit` lowered to `limit`
# - **done when** the caller's array has changed, a transposed one too, and lower values are as they were


# %%
# exercise: strides/write-through
def clip_peaks(heights, limit):
    """Lower every value of `heights` above `limit` to `limit`, in place; return `heights`."""
    peaks = heights[heights > limit]
    peaks[:] = limit
    return heights


# %%
lab.check("write-through")

# %% [markdown]
# ### What a view keeps alive
# A view needs its owner's memory. The next cell keeps ten samples of a million and deletes the rest. How many bytes
# stay? Decide, then run it.

# %%
block = np.zeros(1_000_000)
tail = block[-10:]
del block  # the name goes; the memory stays with tail.base
f"{tail.nbytes:,} bytes wanted, {tail.base.nbytes:,} bytes kept alive"

# %% [markdown]
# ### Your turn: `Tails` (core)
# That is why this class is worth writing.
#
# - `Tails(n)`, n at least 1
# - `push(block)`: remember the last n samples (rows, if it has several axes); all of them if the block is shorter
# - `tails()`: a list with one array per block, oldest first; asking changes nothing
# - **done when** a block's memory is free as soon as the caller lets go of it


# %%
# exercise: strides/keep-alive
class Tails:
    """The last `n` samples of every block pushed, without the blocks."""

    def __init__(self, n):
        raise NotImplementedError

    def push(self, block):
        raise NotImplementedError

    def tails(self):
        raise NotImplementedError


# %%
lab.check("keep-alive")

# %% [markdown]
# *That was the core. Rest here; what follows is worth a second sitting.*
#
# ## Part 4. Reading and writing the same bytes (more)
# ### Predict: overlap
# Each line starts from `a = np.arange(5)`. Write what `a.tolist()` gives afterwards.

# %%
# exercise: strides/predict-overlap
shifted = ...  # a[1:] += a[:-1]
looped = ...  # for i in range(1, 5): a[i] += a[i - 1]
mirrored = ...  # a[:] = a[::-1]

# %%
lab.check("predict-overlap")

# %% [markdown]
# ### Mend: `smooth`
# NumPy protects one statement. This function has four, and is right only while `x` and `out` are strangers.
#
# - **in**: `x`, one axis, floats, two samples or more; `out`, as long as `x`
# - **out**: `out` itself: the mean of each sample and its two neighbours, the two ends as in `x`
# - **done when** `out` may be `x`, or overlap it in any way, and a separate `x` stays as it was


# %%
# exercise: strides/in-place-safe
def smooth(x, out):
    """Write the mean of each sample and its two neighbours into `out`, the ends as they are; return `out`."""
    out[:] = x
    out[1:-1] += x[:-2]
    out[1:-1] += x[2:]
    out[1:-1] /= 3
    return out


# %%
lab.check("in-place-safe")

# %% [markdown]
# ## Part 5. What a jump costs (more)
# A view is free to make, not free to read. Memory reaches the processor in *cache lines*, often 64 bytes. We count
# the lines that n values touch when they lie 64 bytes apart and when they lie side by side, and time both. The second
# cell counts what plain Python would keep.

# %%
from timeit import timeit

wide = np.ones(16_000_000, np.float32)  # 64 MB
for n in (1_000, 1_000_000):
    far = wide[: 16 * n : 16]  # n values, strides (64,)
    near = far.copy()  # the same values, strides (4,)
    lines = [np.unique(np.arange(n) * v.strides[0] // 64).size for v in (far, near)]
    sums = 3_000_000 // n  # in one timing: few enough to wait for, many enough to last milliseconds
    ratios = [timeit(far.sum, number=sums) / timeit(near.sum, number=sums) for _ in range(25)]  # in turns
    low, middle, high = np.percentile(ratios, (25, 50, 75))
    print(f"{n:,} values: {lines[0]:,} lines against {lines[1]:,}, {lines[0] / lines[1]:.0f} times as many;")
    print(f"  the sum takes {middle:.1f} times as long (the middle half of 25 timings: {low:.1f} to {high:.1f})")

# %%
import sys

n = 1_000_000
ways = {"list of n numbers": lambda: list(range(n)), "list of n times one number": lambda: [7] * n}
ways |= {f"{dtype} array": lambda dtype=dtype: np.arange(n, dtype=dtype) for dtype in ("int64", "int32")}
for name, make in ways.items():
    with lab.peak_memory() as used:
        kept = make()
    print(f"{name:27} {used.bytes / n:4.1f} bytes per number")
print(sys.getsizeof(1000), "bytes in one integer object")

# %% [markdown]
# A thousand values are the control: they stay in a cache, so jumping costs little. For the million, the count is exact
# and the time is not: it depends on which of the two arrays fits in a cache, and a busy machine spoils it. If the range
# is wide, other programs were running: trust the counts, or run it again.
#
# A list holds pointers, 8 bytes each, to integer objects. If all point to one object, only the pointers count; the
# difference to the first line is what an object takes once its 28 bytes are rounded up by the allocator.
#
# ### Predict: the same bits
# `view` can change the dtype of the recipe too. `"<i4"` is a 4-byte integer, smallest byte first.

# %%
# exercise: strides/predict-bits
bytes_of_258 = ...  # np.array([258], "<i4").view(np.uint8).tolist()
shape_as_float32 = ...  # np.zeros((3, 4)).view(np.float32).shape
one_is_one = ...  # np.array([1.0]).view(np.int64)[0] == 1

# %%
lab.check("predict-bits")

# %%
# Optional: records. A structured dtype packs named fields into one element, and each field is a strided view.
# Packed tightly, a float64 may start at an odd byte; align=True pads the record so that it does not.
for align in (False, True):
    record = np.dtype([("station", np.int8), ("height", np.float64)], align=align)
    h = np.zeros(3, record)["height"]  # (row,)
    print(f"align={align}: {record.itemsize} bytes a record, strides {h.strides}, aligned {h.flags.aligned}")

# %% [markdown]
# ## Bring your own
# Put any array or tensor of yours in the first line. Can you predict its strides before you look? The course's example
# is a piece of the map around its highest cell, upside down, every second column.

# %%
mine = heights[742:746, 3198:3208].copy()[::-1, ::2]
lab.show("strides", mine, name="mine")

# %% [markdown]
# ## Close
# You can compute addresses from a recipe, build views that copy nothing, and say who owns the bytes.
#
# What production code does differently:
#
# - `sliding_window_view` takes each jump from `x.strides`, as you did, for any number of axes; its page warns that
#   work still grows with the width, and names filters that avoid it.
# - `as_strided` can check its bounds: `check_bounds=True`, from NumPy 2.5 on.
# - `reshape` first tries to merge axes by the rule of part 3 (`_attempt_nocopy_reshape`), and copies only if it fails.
# - Whether two views share a byte is an equation in whole numbers, hard in general. `np.shares_memory` solves it;
#   before a ufunc runs, NumPy spends one step on it and copies when undecided.
# - scikit-image's `view_as_blocks` multiplies `arr_in.strides` by the block shape and appends `arr_in.strides`.
#
# Sources, read 2026-11: NumPy's pages on
# [sliding_window_view](https://numpy.org/doc/stable/reference/generated/numpy.lib.stride_tricks.sliding_window_view.html),
# [as_strided in 2.5](https://numpy.org/doc/2.5/reference/generated/numpy.lib.stride_tricks.as_strided.html) and
# [copies and views](https://numpy.org/doc/stable/user/basics.copies.html); in its source
# [shape.c](https://github.com/numpy/numpy/blob/main/numpy/_core/src/multiarray/shape.c) for reshape,
# [mem_overlap.c](https://github.com/numpy/numpy/blob/main/numpy/_core/src/common/mem_overlap.c) and `nditer_constr.c`
# for overlap; scikit-image's
# [shape.py](https://github.com/scikit-image/scikit-image/blob/main/src/_skimage2/util/shape.py). The heights:
# `data/README.md`.
#
# Next: [broadcasting](06_broadcasting.ipynb), where a stride of 0 makes one row look like a thousand.
