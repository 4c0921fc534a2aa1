"""Lesson 05: tiles and diagonals without a copy."""

import numpy as np
from numpy.lib.stride_tricks import as_strided

from labsupport.course import Case, Exercise, Misconception, Probe

__all__ = ["BLOCK_VIEW", "DIAGONAL_VIEW"]

_SETUP = "import numpy as np\nfrom numpy.lib.stride_tricks import as_strided"


# -- block-view


def block_view(m, rows, cols):
    """Return the non-overlapping tiles of `m`, shape (R, C, rows, cols), as a view."""
    tile_rows, tile_cols = m.shape[0] // rows, m.shape[1] // cols
    split = m.reshape(tile_rows, rows, tile_cols, cols)  # splitting an axis never needs a copy
    return split.swapaxes(1, 2)  # (tile row, tile column, row, column)


def _reshaped_straight(m, rows, cols):
    return m.reshape(m.shape[0] // rows, m.shape[1] // cols, rows, cols)


def _axes_not_moved(m, rows, cols):
    return m.reshape(m.shape[0] // rows, rows, m.shape[1] // cols, cols)


def _tiles_copied(m, rows, cols):
    tiles = m.reshape(m.shape[0] // rows, rows, m.shape[1] // cols, cols).swapaxes(1, 2)
    return np.ascontiguousarray(tiles).copy()


def _tiles_transposed(m, rows, cols):
    return m.reshape(m.shape[0] // rows, rows, m.shape[1] // cols, cols).transpose(0, 2, 3, 1)


def _inner_jumps_swapped(m, rows, cols):
    down, across = m.strides
    shape = (m.shape[0] // rows, m.shape[1] // cols, rows, cols)
    return as_strided(m, shape, (rows * down, cols * across, across, down))


def _grid_transposed(m, rows, cols):
    return m.reshape(m.shape[0] // rows, rows, m.shape[1] // cols, cols).transpose(2, 0, 1, 3)


def _tiles_that_slide(m, rows, cols):
    down, across = m.strides
    shape = (m.shape[0] // rows, m.shape[1] // cols, rows, cols)
    return as_strided(m, shape, (down, across, down, across))


def _tiles_of_a_fresh_matrix(m, rows, cols):
    down, across = m.shape[1] * m.itemsize, m.itemsize
    shape = (m.shape[0] // rows, m.shape[1] // cols, rows, cols)
    return as_strided(m, shape, (rows * down, cols * across, down, across))


BLOCK_VIEW = Exercise(
    id="strides/block-view",
    kind="function",
    task="Return the tiles of `rows` x `cols` that pave the matrix `m`, as a view of shape (R, C, rows, cols): tile "
    "[i, j] is the one in tile row i, tile column j. The tiles fill `m` exactly; `m` may have any strides.",
    names=("block_view",),
    setup=_SETUP,
    reference=block_view,
    cases=(
        Case("6 x 8 into tiles of 2 x 4", lambda rng: (rng.normal(size=(12, 8))[3:9], 2, 4)),
        Case("a part of a wider matrix", lambda rng: (rng.normal(size=(12, 20))[2:8, 3:15], 3, 4)),
        Case("a transposed matrix", lambda rng: (rng.normal(size=(12, 6)).T, 2, 3)),
        Case(
            "rows backwards, int16",
            lambda rng: (rng.permutation(400).reshape(20, 20).astype(np.int16)[12:4:-1, 4:10], 4, 2),
        ),
        Case("one tile", lambda rng: (rng.normal(size=(9, 4))[3:6], 3, 4)),
        Case("100 x 120 into tiles of 10 x 8", lambda rng: (rng.normal(size=(100, 120)), 10, 8)),
    ),
    probe=Probe("call", {"view_of": 0, "max_allocated": 10_000}),
    misconceptions=(
        Misconception(
            id="reshapes-straight",
            specimen=_reshaped_straight,
            says="The shape is right, the contents are not: reshape fills each tile with consecutive elements, so a "
            "tile holds parts of a single row.",
            next="Where, inside `m`, does the second row of the first tile begin?",
        ),
        Misconception(
            id="leaves-the-axes-in-place",
            specimen=_axes_not_moved,
            says="Splitting both axes is half the way; your axes are (tile row, row, tile column, column).",
            next="Bring the two tile axes to the front. That moves no data either.",
        ),
        Misconception(
            id="copies-the-tiles",
            specimen=_tiles_copied,
            says="Right tiles, but in new memory: writing into a tile leaves `m` as it was.",
            next="Which of your steps had to move elements? Splitting an axis and swapping axes never do.",
        ),
        Misconception(
            id="transposes-each-tile",
            specimen=_tiles_transposed,
            says="Each tile comes out transposed: its rows are your last axis.",
            next="The last axis must step along the columns of `m`, the one before it along the rows.",
        ),
        Misconception(
            id="swaps-the-inner-jumps",
            specimen=_inner_jumps_swapped,
            says="Inside a tile your two jumps are exchanged: a step along its rows moves one column further, and the"
            " other way round.",
            next="Axis 2 of the result goes down the rows of `m`. Which stride is that?",
        ),
        Misconception(
            id="transposes-the-grid",
            specimen=_grid_transposed,
            says="The tiles are right, their grid is transposed: your tile [0, 1] is the one below the first instead "
            "of the one to its right.",
            next="Tile row first, then tile column.",
        ),
        Misconception(
            id="slides-instead-of-tiling",
            specimen=_tiles_that_slide,
            says="Your tiles overlap: the next one starts a single row or column further, as sliding windows do.",
            next="From one tile to the next you pass a whole tile. How many bytes is that?",
        ),
        Misconception(
            id="assumes-c-order",
            specimen=_tiles_of_a_fresh_matrix,
            says="You computed the jumps from shape and itemsize, which is right only for a fresh matrix. This one is"
            " a slice or a transpose.",
            next="`m.strides` knows its two jumps; build all four from them.",
        ),
    ),
    hints=(
        "Four axes, four jumps: two of them are `m.strides` as they stand, the other two are multiples of them.",
        "Without as_strided: split each axis in two by reshape, then move the axes. Splitting never needs a copy.",
    ),
    core=False,
    level=3,
    minutes=10,
    source="https://scikit-image.org/docs/stable/api/skimage.util.html#skimage.util.view_as_blocks, read 2026-11",
)


# -- diagonal-view


def diagonal_view(m, k=0):
    """Return the k-th diagonal of `m` as a writable view; k > 0 lies above the main diagonal."""
    corner = m[max(-k, 0) :, max(k, 0) :]  # the diagonal starts at its first element
    # one step along the diagonal is one row down and one column to the right
    return as_strided(corner, (min(corner.shape),), (sum(m.strides),))


def _diagonal_copied(m, k=0):
    rows, cols = m.shape
    return np.array([m[i, i + k] for i in range(rows) if 0 <= i + k < cols], dtype=m.dtype)


def _diagonal_read_only(m, k=0):
    return np.diagonal(m, k)


def _diagonal_below(m, k=0):
    corner = m[max(k, 0) :, max(-k, 0) :]
    return as_strided(corner, (min(corner.shape),), (sum(m.strides),))


def _diagonal_of_a_fresh_matrix(m, k=0):
    corner = m[max(-k, 0) :, max(k, 0) :]
    return as_strided(corner, (min(corner.shape),), ((m.shape[1] + 1) * m.itemsize,))


def _diagonal_too_short(m, k=0):
    corner = m[max(-k, 0) :, max(k, 0) :]
    length = max(min(m.shape) - abs(k), 0)
    return as_strided(corner, (length,), (sum(m.strides),))


def _diagonal_flattened(m, k=0):
    return m.reshape(-1)[k :: m.shape[1] + 1]


DIAGONAL_VIEW = Exercise(
    id="strides/diagonal-view",
    kind="function",
    task="Return the k-th diagonal of the matrix `m` as a view that can be written to: k = 0 is the main diagonal, "
    "k > 0 lies above it (to the right), k < 0 below. Any shape, any strides; empty, with the dtype of `m`, when it "
    "misses the matrix.",
    names=("diagonal_view",),
    setup=_SETUP,
    reference=diagonal_view,
    cases=(
        Case("5 x 5, k = 0", lambda rng: (rng.normal(size=(15, 5))[5:10], 0)),
        Case("5 x 5, k = 2", lambda rng: (rng.normal(size=(15, 5))[5:10], 2)),
        Case("5 x 5, k = -1", lambda rng: (rng.normal(size=(15, 5))[5:10], -1)),
        Case("3 x 7, k = 3", lambda rng: (rng.normal(size=(9, 7))[3:6], 3)),
        Case("7 x 3, k = -2", lambda rng: (rng.normal(size=(21, 3)).astype(np.float32)[7:14], -2)),
        Case("a transposed matrix, k = 1", lambda rng: (rng.normal(size=(12, 12))[3:7, 3:9].T, 1)),
        Case("columns backwards: the other diagonal", lambda rng: (rng.normal(size=(16, 6))[6:10, ::-1], 0)),
        Case("k left out", lambda rng: (rng.normal(size=(4, 6)),)),
        Case("k one past the last column", lambda rng: (rng.normal(size=(6, 4)), 4)),
        Case("k far past the last column, int16", lambda rng: (rng.permutation(24).reshape(6, 4).astype(np.int16), 7)),
        Case("k far below the last row, float32", lambda rng: (rng.normal(size=(3, 5)).astype(np.float32), -5)),
    ),
    probe=Probe("call", {"view_of": 0, "writeable": True}),
    misconceptions=(
        Misconception(
            id="copies-the-diagonal",
            specimen=_diagonal_copied,
            says="The elements are right, but copied: adding to your result leaves the matrix unchanged.",
            next="The elements lie at equal distances in memory. How many bytes apart?",
        ),
        Misconception(
            id="read-only-diagonal",
            specimen=_diagonal_read_only,
            says="Your view is read-only, as the result of `np.diagonal` is: nobody can add to the diagonal through "
            "it.",
            next="A view you build yourself, from a start, a length and one stride, can be written to.",
        ),
        Misconception(
            id="wrong-side",
            specimen=_diagonal_below,
            says="Your k counts downwards: k = 2 gave the diagonal below the main one.",
            next="k > 0 starts in row 0, column k.",
        ),
        Misconception(
            id="assumes-c-order",
            specimen=_diagonal_of_a_fresh_matrix,
            says="You jump (columns + 1) elements, which is right for a fresh matrix only. In a transpose or slice "
            "the next diagonal element lies elsewhere.",
            next="One step is one row down and one column right: `m` knows both distances.",
        ),
        Misconception(
            id="shortens-by-k",
            specimen=_diagonal_too_short,
            says="Every step of k shortens the diagonal of a square; in a long matrix it may first move along the "
            "longer side and lose nothing.",
            next="Cut off the rows or columns before the start. Which side of the rest is shorter?",
        ),
        Misconception(
            id="steps-through-the-flat-matrix",
            specimen=_diagonal_flattened,
            says="Every (columns + 1)-th element of the flat matrix runs on after the diagonal has left at the side.",
            next="A diagonal ends at the first edge it meets: give the view its length.",
        ),
    ),
    hints=(
        "Slice `m` so that the diagonal starts in the corner [0, 0]. Then only length and stride are missing.",
        "The stride is the sum of two numbers you already have.",
    ),
    core=False,
    level=3,
    minutes=9,
    source="https://numpy.org/doc/stable/reference/generated/numpy.diagonal.html, read 2026-11",
)
