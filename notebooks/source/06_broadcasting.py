# %% [markdown]
# # Stretch shapes, not memory
# Combine arrays of different shape without copying one of them, and notice when NumPy combines more than you meant.
#
# **55 minutes (core), any laptop.** What is marked (more) adds about 35 minutes. You will be able to
# predict the shape of any combination, keep an axis where a formula needs it, and bound the memory of "every pair"
# before you run it.
# You need: strides, [lesson 05](05_strides.ipynb). Not here: fancy indexing and einsum (lesson 07).

# %%
import numpy as np

from labsupport import lesson

lab = lesson("broadcasting")
photo = lab.data("china").astype(np.float64)  # (row, column, colour), brightness 0 to 255
digits = lab.data("digits").reshape(-1, 64).astype(np.float64)  # (image, pixel), ink 0 to 16
labels = lab.data("digit_labels").astype(np.float64)  # (image,), the digit written

# %% [markdown]
# ## Part 1. The rule
# ### The obvious way
# Networks like their input centred: subtract from every pixel the mean of its colour. That is three numbers against a
# whole photograph. The shapes differ, so the obvious way repeats the three numbers until they agree.

# %%
mean = photo.mean(axis=(0, 1))  # (colour,)
with lab.peak_memory() as tiled:
    centred = photo - np.tile(mean, (*photo.shape[:2], 1))  # a second table, (row, column, colour)
with lab.peak_memory() as stretched:
    centred = photo - mean
tiled, stretched, tiled.bytes / stretched.bytes

# %% [markdown]
# Same numbers, half the memory: the second line never made a table of means, it only behaved as if there were one.
# This is *broadcasting*.
#
# ### Predict: a grid of one number (more)
# Here is such a table by itself: `grid = np.broadcast_to(np.full((), 1.5), (1000, 1000))`, one float64 in a million
# places. How many bytes does `grid.nbytes` report, in how many bytes of memory do its elements lie, and what are its
# strides?

# %%
# exercise: broadcasting/predict-virtual-bytes
reported_bytes = ...  # a number
stored_bytes = ...  # a number
grid_strides = ...  # a tuple

# %%
lab.check("predict-virtual-bytes")

# %% [markdown]
# ### The idea
# Write the shapes under each other, flush right, and decide each axis alone:
#
# ```
# photo    427  640    3      equal sizes stay
# mean                 3      a missing size counts as 1
# result   427  640    3      a 1 stretches; anything else is an error
# ```
#
# A stretched axis gets stride 0: a step along it goes nowhere, so nothing is copied. The figure draws it grey and
# dashed. Change a size and see what the result becomes, and what breaks it.

# %%
lab.show("broadcasting", photo, mean, names=("photo", "mean"))

# %% [markdown]
# ### Predict the shape (core)
# Four sums of zeros. Write the shape of each result as a tuple, or `"error"` where NumPy refuses.
#
# The last of the three cells is a drill: it asks about fresh shapes as often as you run it with an answer in place of
# `...`.

# %%
# exercise: broadcasting/predict-result-shape
vector_and_column = ...  # (3,) + (3, 1)
vector_and_rows = ...  # (4,) + (4, 3)
three_axes_and_two = ...  # (2, 1, 4) + (3, 1)
column_and_row = ...  # (5, 1) + (1, 4)

# %%
lab.check("predict-result-shape")

# %%
lab.drill("predict-result-shape", ...)

# %% [markdown]
# ### Your turn: `result_shape` (core)
# You know a rule when you can program it.
#
# - **in**: any number of shapes, each a tuple of whole numbers
# - **out**: the shape they broadcast to, a tuple; no shapes at all give `()`
# - **raises** `ValueError` where they do not fit
# - **not allowed**: NumPy's own `broadcast` functions


# %%
# exercise: broadcasting/result-shape
def result_shape(*shapes):
    """Return the shape that `shapes` broadcast to; raise ValueError when they do not."""
    raise NotImplementedError


# %%
lab.check("result-shape")

# %% [markdown]
# ### Every pair, on request (more)
# An axis of size 1 is a request: combine me with everything. `a[:, np.newaxis]` inserts one, and copies nothing.
#
# With `a = np.arange(3)`, write the values of two products as (nested) lists.

# %%
# exercise: broadcasting/predict-outer
times_transpose = ...  # a * a.T
times_column = ...  # a * a[:, np.newaxis]

# %%
lab.check("predict-outer")

# %% [markdown]
# *A good place to rest: that was the whole rule. The next part is about how it bites.*
#
# ## Part 2. The axis that vanished
# A microscope picture of a cell, on a background that is banded: its rows differ in brightness. Subtracting from each
# row its own mean takes the bands away. Here is a square piece of it.

# %%
cell = lab.data("cell")[:512, :512].astype(np.float64)  # (row, column), brightness 0 to 255
flat = cell - cell.mean(axis=1)
print(f"largest mean left in a row: {abs(flat.mean(axis=1)).max():.1f} levels; wanted: 0")

# %% [markdown]
# No error, and a row that is off by 25 levels. The mean over axis 1 *removed* axis 1: what is left has shape (512,),
# and from the right it meets the columns. On the whole picture, 660 rows by 550 columns, the same line raises an
# error. Square data hide it.
#
# Two ways out: put the axis back with `np.newaxis`, or never let it go. Reductions take `keepdims=True`, which leaves
# it in place with size 1.
#
# ### Your turn: `center_rows` (core)
# - **in**: `x`, (rows, columns), whole numbers or floats
# - **out**: a new array, (rows, columns): each row minus its own mean
# - **done when** square and other tables agree, float32 stays float32, and `x` is as it was


# %%
# exercise: broadcasting/center-rows
def center_rows(x):
    """Return `x` with the mean of each row subtracted from that row."""
    raise NotImplementedError


# %%
lab.check("center-rows")

# %% [markdown]
# ### Your turn: `standardize` (more)
# Statistics over axis 0 need no such care: shape (features,) meets the last axis by itself. The digits have another
# trap. Three of their pixels are never inked (`data/README.md`), so their deviation is 0.
#
# - **in**: `x`, (samples, features), whole numbers or floats; it stays as it is
# - **out**: each feature with mean 0 and deviation 1 over these samples
# - **done when** a feature that never changes comes out as 0, one that is always 0.1 too, and no other feature is
#   touched by that


# %%
# exercise: broadcasting/standardize
def standardize(x):
    """Return `x` with every feature (column) scaled to mean 0 and standard deviation 1."""
    raise NotImplementedError


# %%
lab.check("standardize")

# %% [markdown]
# ### The bug that trains
# Now the worst of them. A linear model learns to name the digit in an image, by gradient descent on the mean squared
# error.

# %%
x = np.hstack([digits[:400] / 16, np.ones((400, 1))])  # (image, pixel and a constant)


def train(targets):  # prints the loss on the way, returns the predictions, (image, 1)
    weights = np.random.default_rng(0).normal(0, 0.5, (65, 1))
    for step in range(301):
        difference = x @ weights - targets
        gradient = 2 * x.T @ difference.mean(axis=1, keepdims=True) / len(x)  # of the loss printed below
        weights -= 0.03 * gradient
        if step % 100 == 0:
            print(f"step {step:3}   loss {(difference**2).mean():5.2f}")
    return x @ weights


predictions = train(labels[:400])

# %%
# No error, no warning, and a loss that falls and flattens out: the curve one shows in a meeting.
# Now ask the model: how far do its answers spread, and how far do the labels?
print(f"spread of the predictions {predictions.std():.2f}, of the labels {labels[:400].std():.2f}")
print("predictions - labels has shape", (predictions - labels[:400]).shape)

# %% [markdown]
# It gives nearly the same answer to every image. Predictions (400, 1) minus labels (400,) is a square table: every
# prediction against every label. The best reply to all labels at once is their mean, and descent found it.
#
# ### Mend: `mean_squared_error` (core)
# With the function below, perfect predictions of 1, 2, 3 score 4/3 instead of 0.
#
# - **in**: `predictions` and `targets`, floats, each (n,) or (n, 1); both stay as they are
# - **out**: the mean of the n squared differences, a float
# - **raises** `ValueError` where the numbers of samples differ, also for 1 against n
# - **done when** a thousand samples stay within 200,000 bytes


# %%
# exercise: broadcasting/silent-mse
def mean_squared_error(predictions, targets):
    """Return the mean squared difference between matching predictions and targets."""
    return float(np.mean((predictions - targets) ** 2))


# %%
lab.check("silent-mse")

# %%
predictions = train(labels[:400, np.newaxis])  # the same loop, the same start; the labels as a column
print(f"spread of the predictions {predictions.std():.2f}")

# %% [markdown]
# *A good place to rest. The same loop, one axis more: the loss goes lower, and the answers spread out. Next: when the
# table of all pairs is wanted.*
#
# ## Part 3. Every pair, within a budget
# Which digits look alike? For the distances between all images, let one set stand as rows and one as columns; the
# pixels are the third axis, and are summed away.

# %%
few = digits[:200]
with lab.peak_memory() as used:
    distances = np.sqrt(((few[:, np.newaxis] - few) ** 2).sum(axis=-1))  # (200, 200, 64), then (200, 200)
print(f"{used.bytes:,} bytes at the peak for a result of {distances.nbytes:,}")
print(f"{10_000**2 * 128 * 8 / 1e9:.0f} GB for the differences between 10,000 vectors of 128 float64")

# %% [markdown]
# The result is small. The axis that is summed away is what costs: it is stored for every pair first, and for ten
# thousand vectors that makes 102 GB. Multiplied out, |a - b|² = |a|² + |b|² - 2 a·b needs no such axis. Its parts
# have shapes (m, 1), (n,) and (m, n).
#
# ### Your turn: `pairwise_distance` (core)
# - **in**: `a`, (m, features), and `b`, (n, features), float64; m may be 0, and both stay as they are
# - **out**: the Euclidean distance from every row of `a` to every row of `b`, (m, n)
# - **done when** 220 against 40 points with 32 features take at most 1,000,000 bytes and 200 executed Python lines,
#   and nearly equal points give no NaN


# %%
# exercise: broadcasting/pairwise-distance
def pairwise_distance(a, b):
    """Return the distances between the rows of `a`, (m, features), and of `b`, (n, features), as (m, n)."""
    raise NotImplementedError


# %%
lab.check("pairwise-distance")

# %% [markdown]
# ### Mend: `apply_each` (core)
# Every sensor has its own calibration matrix and gives one reading. `@` multiplies the last two axes and broadcasts
# all others. For five sensors with three inputs the code below stops with an error. For three sensors it returns
# something, and nobody notices.
#
# - **in**: `matrices`, (k, rows, columns), and `vectors`, (k, columns), floats
# - **out**: matrix i times vector i, for all i, (k, rows)
# - **done when** no k is special: neither k = columns, nor 1, nor 0


# %%
# exercise: broadcasting/batched-matvec
def apply_each(matrices, vectors):
    """Return matrices[i] @ vectors[i] for every i, as (k, rows)."""
    return matrices @ vectors


# %%
lab.check("batched-matvec")

# %% [markdown]
# *The core ends here; a good place to rest, or to stop. What follows is practice on tables and pictures.*
#
# ## Part 4. Tables and pictures (more)
# ### Mend: `keep_features`
# Masks do not broadcast. `x[mask]` means the first axis, whatever the mask was made for: with as many samples as
# features it picks samples, silently.
#
# - **in**: `x`, (samples, features), and `keep`, (features,), True or False
# - **out**: the features to keep, (samples, kept): two axes, the same rows, the same dtype


# %%
# exercise: broadcasting/keep-features
def keep_features(x, keep):
    """Return the columns of `x` for which `keep` is True."""
    return x[keep]


# %%
lab.check("keep-features")

# %% [markdown]
# ### Your turn: `one_hot`
# A comparison broadcasts like a sum.
#
# - **in**: `labels`, (n,), whole numbers from 0 to `n_classes` - 1
# - **out**: (n, n_classes), float32: 1 where the column is the row's label, else 0
# - **done when** no loop runs over the labels (at most 30 executed Python lines for 100 of them), and no labels give
#   (0, n_classes)


# %%
# exercise: broadcasting/one-hot
def one_hot(labels, n_classes):
    """Return one row per label, with a 1 in the label's column."""
    raise NotImplementedError


# %%
lab.check("one-hot")

# %% [markdown]
# ### Predict: joined shapes, chosen dtypes
# `a` and `b` are both `np.zeros((3, 4))`: write three shapes. Then write three dtypes by name, such as `"uint8"`, and
# two values as a list.

# %%
# exercise: broadcasting/join-axes
concatenated = ...  # np.concatenate([a, b]).shape
stacked = ...  # np.stack([a, b]).shape
stacked_last = ...  # np.stack([a, b], axis=-1).shape
filled_dtype = ...  # np.full(3, 7).dtype.name
joined_dtype = ...  # np.concatenate([np.ones(3, np.float32), np.arange(3)]).dtype.name
scaled_dtype = ...  # (np.ones(3, np.float32) * np.sqrt(2)).dtype.name
two_pixels = ...  # np.array([250, 10], dtype=np.uint8) + 10

# %%
lab.check("join-axes")

# %% [markdown]
# ### Your turn: `normalize_images`
# Some libraries keep the colours last (NHWC), others right after the batch (NCHW). One function serves both, if its
# statistics keep their axes.
#
# - **in**: `images`, four axes, uint8; `channel_axis`, 1 or 3 or -1; no channel is constant
# - **out**: the same shape, float32: each channel with mean 0 and deviation 1, over all pictures and pixels
# - **done when** both layouts give the same numbers, and nothing wraps around


# %%
# exercise: broadcasting/image-normalize
def normalize_images(images, channel_axis):
    """Return `images` as float32, every channel scaled to mean 0 and standard deviation 1."""
    raise NotImplementedError


# %%
lab.check("image-normalize")

# %% [markdown]
# ### Predict: the edges of the rule
# Write the shape of `v` and of `table` after `+=`, and of two sums, or `"error"`. Empty arrays are not exotic: a filter
# that keeps nothing makes one, and its mean is NaN, not an error.

# %%
# exercise: broadcasting/predict-edges
vector_plus_equals = ...  # v = np.zeros(3); v += np.ones((2, 3))
table_plus_equals = ...  # table = np.zeros((2, 3)); table += np.ones(3)
empty_plus_one = ...  # np.zeros(0) + np.zeros(1)
empty_plus_three = ...  # np.zeros(0) + np.zeros(3)

# %%
lab.check("predict-edges")

# %% [markdown]
# ## Bring your own
# Put two arrays of yours in place of these, or only their shapes, before your next expensive line.

# %%
mine, other = np.arange(3).reshape(3, 1), np.arange(4)  # or shapes: (64, 1, 128), (32, 128)
lab.show("broadcasting", mine, other)

# %% [markdown]
# ## Close
# You can now say what shape comes out before you run a line, and what it will cost.
#
# NumPy's own rule checker sits in the iterator that its operators walk with. In `npyiter_fill_axisdata`, an axis that
# has to stretch gets one line: `strides[iop] = 0`. `np.broadcast_to` builds such an iterator and hands you the view
# it would walk.
#
# PyTorch keeps the same rule and distrusts it for losses: `mse_loss` warns when sizes differ, and
# `binary_cross_entropy` raises. NumPy does neither, so production code checks shapes where arrays enter.
# scikit-learn's `euclidean_distances` multiplies out as you did, sets negative values to zero, works through float32
# data in float64 blocks, and writes zeros on the diagonal of a set against itself. Its documentation names the price:
# cancellation.
#
# Sources (read 2026-11): `numpy/_core/src/multiarray/nditer_constr.c` for the strides; [NumPy,
# Broadcasting](https://numpy.org/doc/stable/user/basics.broadcasting.html) for the rule;
# [pytorch#18349](https://github.com/pytorch/pytorch/pull/18349), for how the warning came about; PyTorch 2.13.0,
# `torch/nn/functional.py`, for what it says today; scikit-learn, `sklearn/metrics/pairwise.py`, for distances. The
# pictures: `data/README.md`.
#
# Next: lesson 07, indexing, einsum and compiled loops (planned), or back to the [overview](home.ipynb).
