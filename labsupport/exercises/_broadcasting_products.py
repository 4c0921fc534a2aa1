"""Lesson 06, every pair without every byte: distances and batched products."""

import numpy as np

from labsupport.course import Case, Exercise, Limits, Misconception, Probe

SETUP = "import numpy as np"


# -- pairwise-distance -----------------------------------------------------------------------------------------


def pairwise_distance(a, b):
    squares = (a * a).sum(axis=1)[:, np.newaxis] + (b * b).sum(axis=1)
    return np.sqrt(np.maximum(squares - 2 * (a @ b.T), 0))


def builds_every_difference(a, b):
    return np.sqrt(((a[:, np.newaxis, :] - b) ** 2).sum(axis=2))


def root_of_a_negative(a, b):
    squares = (a * a).sum(axis=1)[:, np.newaxis] + (b * b).sum(axis=1)
    return np.sqrt(squares - 2 * (a @ b.T))


def forgets_the_root(a, b):
    squares = (a * a).sum(axis=1)[:, np.newaxis] + (b * b).sum(axis=1)
    return np.maximum(squares - 2 * (a @ b.T), 0)


def loops_over_points(a, b):
    result = np.zeros((len(a), len(b)))
    for i in range(len(a)):
        result[i] = np.sqrt(((a[i] - b) ** 2).sum(axis=1))
    return result


def collects_lists(a, b):
    return np.array([[np.sqrt(((p - q) ** 2).sum()) for q in b] for p in a])


def forgets_the_two(a, b):
    squares = (a * a).sum(axis=1)[:, np.newaxis] + (b * b).sum(axis=1)
    return np.sqrt(np.maximum(squares - a @ b.T, 0))


def rows_and_columns_swapped(a, b):
    squares = (b * b).sum(axis=1)[:, np.newaxis] + (a * a).sum(axis=1)
    return np.sqrt(np.maximum(squares - 2 * (b @ a.T), 0))


def both_sums_in_a_row(a, b):
    squares = (a * a).sum(axis=1) + (b * b).sum(axis=1)
    return np.sqrt(np.maximum(squares - 2 * (a @ b.T), 0))


def points(rng, rows, cols):
    """Return points with small whole coordinates: every way of adding them up is exact."""
    return rng.permutation(rows * cols).reshape(rows, cols).astype(np.float64)


def nearly_equal_points(rng):
    # Three points, each a few steps of rounding from its partner: |a|^2 + |b|^2 - 2ab comes out below zero in every
    # order of adding. Two points far away on either side set the scale of the table: whatever a sound method leaves
    # of those three distances, 0 or the root of a rounding error, is well within the tolerance.
    near, far = np.array([[6.8], [54.82], [98.1]]), np.array([[-1e5], [1e5]])
    close_by = near + 3 * np.spacing(near) * np.array([[1], [1], [2 / 3]])
    return np.vstack([near, far]), np.vstack([close_by, far])


PAIRWISE_DISTANCE = Exercise(
    id="broadcasting/pairwise-distance",
    kind="budget",
    task="Return all Euclidean distances between two sets of points, inputs unchanged, within 1,000,000 bytes and 200 "
    "Python lines executed.",
    names=("pairwise_distance",),
    setup=SETUP,
    reference=pairwise_distance,
    cases=(
        Case("3 points against 4, two features", lambda rng: (points(rng, 3, 2), points(rng, 4, 2))),
        Case("three pairs of points a rounding error apart", nearly_equal_points),
        Case("3 points against 3, five features", lambda rng: (points(rng, 3, 5), points(rng, 3, 5))),
        Case("no points against 2", lambda rng: (np.zeros((0, 3)), points(rng, 2, 3))),
        Case("220 points against 40, 32 features", lambda rng: (points(rng, 220, 32) % 97, points(rng, 40, 32) % 89)),
    ),
    probe=Probe("call", {"max_allocated": 1_000_000, "max_steps": 200}),
    limits=Limits(call_s=10),
    misconceptions=(
        Misconception(
            id="builds-every-difference",
            specimen=builds_every_difference,
            says="A table of all differences with one more axis, (220, 40, 32), is built first: 32 times the "
            "size of the result.",
            next="Multiply |a - b|² out; a matrix product then does the third axis without storing it.",
        ),
        Misconception(
            id="root-of-a-negative",
            specimen=root_of_a_negative,
            says="Two nearly equal points give NaN: |a|² + |b|² - 2ab cancels to a rounding error, and here "
            "that error is below zero.",
            next="Raise negative values to zero before taking the root.",
        ),
        Misconception(
            id="forgets-the-root",
            specimen=forgets_the_root,
            says="You return squared distances. They sort the same way, but 3 and 4 no longer make 5.",
            next="Take the square root last.",
        ),
        Misconception(
            id="loops-over-points",
            specimen=loops_over_points,
            says="Memory stays small, but Python runs once for every point: 220 points, 220 turns.",
            next="Work on whole arrays, or on blocks of points large enough that few turns remain.",
        ),
        Misconception(
            id="collects-lists",
            specimen=collects_lists,
            says="Without points in `a` your result is (0,): it has no columns, as an array made from a list that "
            "collected nothing.",
            next="Let whole arrays meet instead of pairs; zero points then give (0, n) by themselves.",
        ),
        Misconception(
            id="forgets-the-two",
            specimen=forgets_the_two,
            says="You subtract the products once. In |a - b|² they appear twice, once as a·b and once as b·a.",
            next="Multiply (a - b)² out on paper, for one number each.",
        ),
        Misconception(
            id="rows-and-columns-swapped",
            specimen=rows_and_columns_swapped,
            says="Your table has one row per point of b. The contract says one row per point of a.",
            next="Decide which set stands as a column: it gives the rows.",
        ),
        Misconception(
            id="both-sums-in-a-row",
            specimen=both_sums_in_a_row,
            says="Both squared lengths lie along the columns. With equally many points that adds up without "
            "an error, and wrongly.",
            next="Give the sums of a an axis of size 1 at the end.",
        ),
    ),
    hints=(
        "Multiply out: |a - b|² = |a|² + |b|² - 2 a·b. Which NumPy operation gives a·b for all pairs?",
        "The three parts have shapes (m, 1), (n,) and (m, n). They broadcast to the result, and to nothing larger.",
        "Rounding can push a square that should be 0 a little below it. What does the root say then?",
    ),
    core=True,
    level=3,
    minutes=12,
    source="https://scikit-learn.org/stable/modules/generated/sklearn.metrics.pairwise.euclidean_distances.html "
    "(read 2026-11)",
)


# -- batched-matvec --------------------------------------------------------------------------------------------


def apply_each(matrices, vectors):
    return (matrices @ vectors[:, :, np.newaxis])[:, :, 0]


def still_one_matrix(matrices, vectors):
    return np.matmul(matrices, vectors)


def leaves_the_last_axis(matrices, vectors):
    return matrices @ vectors[:, :, np.newaxis]


def squeezes_everything(matrices, vectors):
    return (matrices @ vectors[:, :, np.newaxis]).squeeze()


def every_matrix_every_vector(matrices, vectors):
    return matrices @ vectors.T


def multiplies_unaligned(matrices, vectors):
    return (matrices * vectors).sum(axis=-1)


def stacks_a_list(matrices, vectors):
    return np.stack([matrix @ vector for matrix, vector in zip(matrices, vectors, strict=True)])


def collects_a_list(matrices, vectors):
    return np.array([matrix @ vector for matrix, vector in zip(matrices, vectors)])


def matrices_and_vectors(k, rows, cols):
    """Return a case's `make`: k matrices (rows, cols) and k vectors (cols,)."""
    return lambda rng: (rng.integers(-9, 10, (k, rows, cols)) + 0.5, rng.integers(1, 10, (k, cols)) + 0.25)


BATCHED_MATVEC = Exercise(
    id="broadcasting/batched-matvec",
    kind="debug",
    task="Repair a batched matrix-vector product that is silently wrong when the batch is as long as the vectors.",
    names=("apply_each",),
    setup=SETUP,
    reference=apply_each,
    cases=(
        Case("3 matrices (2, 3), 3 vectors of 3: the trap", matrices_and_vectors(3, 2, 3)),
        Case("5 matrices (2, 3), 5 vectors of 3", matrices_and_vectors(5, 2, 3)),
        Case("a batch of one", matrices_and_vectors(1, 2, 3)),
        Case("matrices with one row", matrices_and_vectors(4, 1, 3)),
        Case("everything square: 3 matrices (3, 3)", matrices_and_vectors(3, 3, 3)),
        Case("an empty batch", matrices_and_vectors(0, 2, 3)),
    ),
    misconceptions=(
        Misconception(
            id="stacks-a-list",
            specimen=stacks_a_list,
            says="An empty batch raises an error: without a first product there is nothing to stack, and nothing to "
            "take a shape from.",
            next="Let matmul run over the batch axis; it knows what to do with zero.",
        ),
        Misconception(
            id="collects-a-list",
            specimen=collects_a_list,
            says="For an empty batch your result is (0,): it has lost the axis of the rows. An array made from an "
            "empty list cannot know how many there would be.",
            next="Let matmul run over the batch axis; it keeps the rows even when the batch is empty.",
        ),
        Misconception(
            id="still-one-matrix",
            specimen=still_one_matrix,
            says="The vectors are still read as one matrix, shared by the whole batch. When the sizes agree "
            "nobody complains.",
            next="A vector per matrix must look like a matrix per matrix: one column wide.",
        ),
        Misconception(
            id="leaves-the-last-axis",
            specimen=leaves_the_last_axis,
            says="Right numbers, but one axis too many: the column you added for the product is still "
            "there, (k, rows, 1).",
            next="Take that axis off again, by its position.",
        ),
        Misconception(
            id="squeezes-everything",
            specimen=squeezes_everything,
            says="Your result has lost an axis of size 1. It must be (k, rows) whatever k and rows are, 1 included.",
            next="Remove only the axis you added, by its position; squeeze() without one removes every axis of size 1.",
        ),
        Misconception(
            id="every-matrix-every-vector",
            specimen=every_matrix_every_vector,
            says="You multiply each matrix with all vectors and get (k, rows, k). Only matrix i and vector "
            "i belong together.",
            next="Keep the batch axis first in both operands, so that it is matched and not multiplied.",
        ),
        Misconception(
            id="multiplies-unaligned",
            specimen=multiplies_unaligned,
            says="In matrices * vectors the batch axis of the vectors meets the rows of the matrices, not the batch.",
            next="Line (k, rows, cols) and (k, cols) up from the right, and see what is missing in the middle.",
        ),
    ),
    hints=(
        "matmul multiplies the last two axes and broadcasts all others. Which axes of `vectors` are its last two?",
        "Make the vectors (k, cols, 1): k matrices with a single column.",
    ),
    core=True,
    level=2,
    minutes=6,
    source="https://numpy.org/doc/stable/reference/generated/numpy.matmul.html (read 2026-11)",
)
