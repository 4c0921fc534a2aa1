"""Lesson 06, predictions: the code in the question is the code that runs."""

import numpy as np

from labsupport.course import Case, Exercise, Misconception, Probe

RULES = "https://numpy.org/doc/stable/user/basics.broadcasting.html (read 2026-11)"


# -- predictions -----------------------------------------------------------------------------------------------


def outcome_of(code):
    """Return what the last line of `code` evaluates to, or "error" where NumPy raises ValueError."""
    *before, last = code.splitlines()
    namespace = {"np": np}
    try:
        exec("\n".join(before), namespace)
        return eval(last, namespace)
    except ValueError:
        return "error"


def asks(label, code):
    """Return the case of one predicted value."""
    return Case(label, lambda rng: (code,))


def believes(wrong):
    """Return a specimen from {code: believed value}; the other questions are answered as NumPy does."""
    return lambda code: wrong[code] if code in wrong else outcome_of(code)


# -- predict-virtual-bytes -------------------------------------------------------------------------------------

GRID = "grid = np.broadcast_to(np.full((), 1.5), (1000, 1000))\n"
REPORTED = GRID + "grid.nbytes"
STORED = GRID + "low, high = np.lib.array_utils.byte_bounds(grid)\nhigh - low"
STEPS = GRID + "grid.strides"

PREDICT_VIRTUAL_BYTES = Exercise(
    id="broadcasting/predict-virtual-bytes",
    kind="prediction",
    task="Predict what a broadcast grid reports, what it stores, and how it steps through memory.",
    names=("reported_bytes", "stored_bytes", "grid_strides"),
    probe=Probe("literal"),
    reference=outcome_of,
    cases=(
        asks("what nbytes says about the grid", REPORTED),
        asks("bytes of memory the grid really reads", STORED),
        asks("strides of the grid", STEPS),
    ),
    misconceptions=(
        Misconception(
            id="stored-in-full",
            specimen=believes({STORED: 8_000_000}),
            says="You counted a million numbers in memory. The grid only repeats one of them.",
            next="Ask how many different addresses its elements have.",
        ),
        Misconception(
            id="nbytes-is-storage",
            specimen=believes({REPORTED: 8}),
            says="You expected nbytes to report real storage. It never looks: it multiplies the number of "
            "elements by the itemsize.",
            next="Multiply the shape out.",
        ),
        Misconception(
            id="strides-of-a-full-grid",
            specimen=believes({STEPS: (8000, 8)}),
            says="You gave the strides of a grid that stores a million numbers. Here the next element is "
            "the same number again.",
            next="How many bytes must one step move to read the same address?",
        ),
    ),
    hints=(
        "One of the three answers is a plain multiplication. The other two follow from one fact: "
        "every element is the same eight bytes.",
    ),
    core=False,
    level=1,
    minutes=2,
    source="https://numpy.org/doc/stable/reference/generated/numpy.broadcast_to.html (read 2026-11)",
)


# -- predict-outer ---------------------------------------------------------------------------------------------

TIMES_T = "a = np.arange(3)\n(a * a.T).tolist()"
TIMES_COLUMN = "a = np.arange(3)\n(a * a[:, np.newaxis]).tolist()"

PREDICT_OUTER = Exercise(
    id="broadcasting/predict-outer",
    kind="prediction",
    task="Predict two products of a = np.arange(3): with its transpose, and with itself as a column.",
    names=("times_transpose", "times_column"),
    probe=Probe("literal"),
    reference=outcome_of,
    cases=(asks("a * a.T", TIMES_T), asks("a * a[:, np.newaxis]", TIMES_COLUMN)),
    misconceptions=(
        Misconception(
            id="transpose-makes-a-column",
            specimen=believes({TIMES_T: ((0, 0, 0), (0, 1, 2), (0, 2, 4))}),
            says="You expected a.T to stand the vector up. Transposing reverses the order of the axes, and "
            "one axis reversed is itself.",
            next="Compare a.shape with a.T.shape.",
        ),
        Misconception(
            id="sums-the-products",
            specimen=believes({TIMES_T: 5, TIMES_COLUMN: 5}),
            says="You added the products up, as a dot product does. The operator * multiplies element by "
            "element and adds nothing.",
            next="Decide the result's shape first, then fill it in.",
        ),
        Misconception(
            id="new-axis-changes-nothing",
            specimen=believes({TIMES_COLUMN: (0, 1, 4)}),
            says="You multiplied position by position. The new axis makes shape (3, 1), so every element "
            "meets every other.",
            next="Align (3,) and (3, 1) from the right before you multiply.",
        ),
    ),
    hints=("Write the shapes of both factors first. Only one of the two products has factors of different shape.",),
    core=False,
    level=1,
    minutes=2,
    source="https://numpy.org/doc/stable/reference/generated/numpy.ndarray.T.html (read 2026-11)",
)


# -- join-axes -------------------------------------------------------------------------------------------------

PAIR = "a = np.zeros((3, 4))\nb = np.zeros((3, 4))\n"
CONCATENATED = PAIR + "np.concatenate([a, b]).shape"
STACKED = PAIR + "np.stack([a, b]).shape"
STACKED_LAST = PAIR + "np.stack([a, b], axis=-1).shape"
FILLED = "np.full(3, 7).dtype.name"
JOINED = "np.concatenate([np.ones(3, np.float32), np.arange(3)]).dtype.name"
SCALED = "(np.ones(3, np.float32) * np.sqrt(2)).dtype.name"
WRAPPED = "(np.array([250, 10], dtype=np.uint8) + 10).tolist()"

JOIN_AXES = Exercise(
    id="broadcasting/join-axes",
    kind="prediction",
    task="Predict the shapes of joined arrays, the dtypes NumPy chooses, and what a byte does at its end.",
    names=("concatenated", "stacked", "stacked_last", "filled_dtype", "joined_dtype", "scaled_dtype", "two_pixels"),
    probe=Probe("literal"),
    reference=outcome_of,
    cases=(
        asks("np.concatenate([a, b]).shape", CONCATENATED),
        asks("np.stack([a, b]).shape", STACKED),
        asks("np.stack([a, b], axis=-1).shape", STACKED_LAST),
        asks(FILLED, FILLED),
        asks(JOINED, JOINED),
        asks(SCALED, SCALED),
        asks("np.array([250, 10], dtype=np.uint8) + 10", WRAPPED),
    ),
    misconceptions=(
        Misconception(
            id="concatenate-adds-an-axis",
            specimen=believes({CONCATENATED: (2, 3, 4)}),
            says="You gave the result a new axis. concatenate makes an existing axis longer; the number of axes stays.",
            next="The new-axis function is the other one.",
        ),
        Misconception(
            id="concatenate-joins-columns",
            specimen=believes({CONCATENATED: (3, 8)}),
            says="You put the tables side by side. Without an axis, concatenate works along the first one.",
            next="Which axis is number 0?",
        ),
        Misconception(
            id="stack-makes-longer",
            specimen=believes({STACKED: (6, 4)}),
            says="You made the first axis longer, which is what concatenate does. stack puts the arrays "
            "along an axis of their own.",
            next="Two arrays: how long is the new axis, and where does it stand?",
        ),
        Misconception(
            id="last-axis-makes-longer",
            specimen=believes({STACKED_LAST: (3, 8)}),
            says="You made the last axis longer. With axis=-1 the new axis itself comes last.",
            next="Count the axes: stack always returns one more than it was given.",
        ),
        Misconception(
            id="full-is-float",
            specimen=believes({FILLED: "float64"}),
            says="np.zeros and np.ones default to float64, but np.full takes the dtype from the value you fill with.",
            next="What is the dtype of np.array(7)?",
        ),
        Misconception(
            id="float32-absorbs-integers",
            specimen=believes({JOINED: "float32"}),
            says="int64 does not fit into float32: beyond 16,777,216 whole numbers would be lost, so NumPy "
            "widens the result.",
            next="Ask for the smallest float that holds both.",
        ),
        Misconception(
            id="scalars-never-widen",
            specimen=believes({SCALED: "float32"}),
            says="np.sqrt(2) is a NumPy float64, and since NumPy 2 its dtype counts. Only Python's own numbers adapt.",
            next="Compare with 2**0.5, and with np.float32(2) under the root.",
        ),
        Misconception(
            id="bytes-grow",
            specimen=believes({WRAPPED: (260, 20)}),
            says="You let 250 + 10 become 260. A Python number adapts to the array: the result is uint8, up to 255.",
            next="What follows 255 when only eight bits are kept?",
        ),
        Misconception(
            id="bytes-saturate",
            specimen=believes({WRAPPED: (255, 20)}),
            says="You let the sum stop at 255, as some image libraries do. NumPy keeps the lowest eight bits instead.",
            next="Take the sum modulo 256.",
        ),
    ),
    hints=(
        "Shapes: does the function make an axis longer, or does it add one? For two arrays a new axis has length 2.",
        'Dtypes: the default of np.zeros is not the default of np.full. Write the name as text, such as "uint8".',
    ),
    core=False,
    level=2,
    minutes=4,
    source="https://numpy.org/doc/stable/reference/generated/numpy.stack.html (read 2026-11)",
)


# -- predict-edges ---------------------------------------------------------------------------------------------

GROWS = "v = np.zeros(3)\nv += np.ones((2, 3))\nv.shape"
FITS = "table = np.zeros((2, 3))\ntable += np.ones(3)\ntable.shape"
EMPTY_ONE = "(np.zeros(0) + np.zeros(1)).shape"
EMPTY_THREE = "(np.zeros(0) + np.zeros(3)).shape"


PREDICT_EDGES = Exercise(
    id="broadcasting/predict-edges",
    kind="prediction",
    task="Predict two in-place additions and two sums with an empty array.",
    names=("vector_plus_equals", "table_plus_equals", "empty_plus_one", "empty_plus_three"),
    probe=Probe("literal"),
    reference=outcome_of,
    cases=(
        asks("v = np.zeros(3); v += np.ones((2, 3))", GROWS),
        asks("table = np.zeros((2, 3)); table += np.ones(3)", FITS),
        asks(EMPTY_ONE, EMPTY_ONE),
        asks(EMPTY_THREE, EMPTY_THREE),
    ),
    misconceptions=(
        Misconception(
            id="outputs-grow",
            specimen=believes({GROWS: (2, 3)}),
            says="You let `v` grow to the broadcast shape. `+=` writes into memory that exists, and three "
            "places cannot take six numbers.",
            next="What would v = v + np.ones((2, 3)) do instead?",
        ),
        Misconception(
            id="output-keeps-its-shape",
            specimen=believes({GROWS: (3,)}),
            says="You expected `v` to keep three numbers, as if only a part were added. NumPy refuses "
            "rather than choose which.",
            next="Compare the broadcast shape with the shape of the output.",
        ),
        Misconception(
            id="in-place-never-broadcasts",
            specimen=believes({FITS: "error"}),
            says="You ruled out broadcasting for `+=`. The right side may stretch; only the output may not.",
            next="Which of the two shapes has to stretch here?",
        ),
        Misconception(
            id="empty-stretches-to-one",
            specimen=believes({EMPTY_ONE: (1,)}),
            says="You took the larger size. A 1 stretches to match the other size, and the other size is 0.",
            next="Apply the rule as written: which of the sizes is the 1?",
        ),
        Misconception(
            id="empty-always-wins",
            specimen=believes({EMPTY_THREE: (0,)}),
            says="You let the empty array win against three elements. Zero is an ordinary size, and only a "
            "1 stretches.",
            next="Are 0 and 3 equal, or is one of them 1?",
        ),
    ),
    hints=(
        "Each question is the same rule: equal, or one of them 1. "
        "For `+=` the left side must not be the one that stretches.",
    ),
    core=False,
    level=2,
    minutes=3,
    source=RULES,
)
