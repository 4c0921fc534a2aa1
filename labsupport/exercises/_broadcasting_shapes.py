"""Lesson 06, the rule: what shape comes out."""

import numpy as np

from labsupport.course import Case, Drill, Exercise, Misconception, Probe

RULES = "https://numpy.org/doc/stable/user/basics.broadcasting.html (read 2026-11)"
SETUP = "import numpy as np"


# -- predict-result-shape --------------------------------------------------------------------------------------


def shape_of_sum(a, b):
    """Return the shape of zeros(a) + zeros(b), or "error"."""
    try:
        return (np.zeros(a) + np.zeros(b)).shape
    except ValueError:
        return "error"


def aligned_from_the_left(a, b):
    n_axes = max(len(a), len(b))
    return shape_of_sum(a + (1,) * (n_axes - len(a)), b + (1,) * (n_axes - len(b)))


def maximum_of_each_axis(a, b):
    n_axes = max(len(a), len(b))
    padded = [(1,) * (n_axes - len(shape)) + shape for shape in (a, b)]
    return tuple(max(sizes) for sizes in zip(*padded, strict=True))


def the_shape_with_more_axes(a, b):
    return "error" if shape_of_sum(a, b) == "error" else max(a, b, key=len)


def ones_on_one_side_only(a, b):
    result = shape_of_sum(a, b)
    return result if result in (a, b) else "error"


def pairs_equal_counts(a, b):
    return min(a, b, key=len) if np.prod(a) == np.prod(b) else shape_of_sum(a, b)


def two_shapes(rng):
    """Return two shapes of 1 to 3 axes, compatible about two times in three."""
    result = rng.integers(2, 7, size=rng.integers(2, 4))
    first, second = result.copy(), result.copy()
    first[rng.random(result.size) < 0.4] = 1
    second[(first > 1) & (rng.random(result.size) < 0.4)] = 1
    if rng.random() < 0.35:
        second[-1 if rng.random() < 0.5 else 0] += 1
    second = second[rng.integers(0, 2) :]
    return tuple(map(int, first)), tuple(map(int, second))


def shapes(label, *given):
    """Return a case whose inputs are exactly these shapes."""
    return Case(label, lambda rng: given)


PREDICT_RESULT_SHAPE = Exercise(
    id="broadcasting/predict-result-shape",
    kind="prediction",
    task='Predict the shape of np.zeros(a) + np.zeros(b), or write "error".',
    names=("vector_and_column", "vector_and_rows", "three_axes_and_two", "column_and_row"),
    probe=Probe("literal"),
    reference=shape_of_sum,
    cases=(
        shapes("(3,) + (3, 1)", (3,), (3, 1)),
        shapes("(4,) + (4, 3)", (4,), (4, 3)),
        shapes("(2, 1, 4) + (3, 1)", (2, 1, 4), (3, 1)),
        shapes("(5, 1) + (1, 4)", (5, 1), (1, 4)),
    ),
    misconceptions=(
        Misconception(
            id="aligns-from-the-left",
            specimen=aligned_from_the_left,
            says="You lined the shapes up at their first axes and filled up with ones on the right.",
            next="Write them flush right, like numbers to be added, and compare column by column.",
        ),
        Misconception(
            id="takes-the-maximum",
            specimen=maximum_of_each_axis,
            says="You took the larger size of every axis. An axis stretches only from 1; 3 against 4 cannot "
            "be stretched.",
            next="Check each pair of sizes: equal, or one of them 1?",
        ),
        Misconception(
            id="keeps-the-longer-shape",
            specimen=the_shape_with_more_axes,
            says="You kept one of the two shapes as it is. Both operands may stretch in the same addition, "
            "each along its own axes.",
            next="Apply the rule to every axis, also where the longer shape has the 1.",
        ),
        Misconception(
            id="pairs-equal-counts",
            specimen=pairs_equal_counts,
            says="You paired the elements up because both sides have equally many. Counts play no part; "
            "only sizes axis by axis do.",
            next="Align the two shapes: what stands over the 3 of the column, and what over its 1?",
        ),
        Misconception(
            id="only-one-side-stretches",
            specimen=ones_on_one_side_only,
            says='You wrote "error" where both operands must stretch. That is allowed: each axis is decided alone.',
            next="Go through the axes one at a time, from the right.",
        ),
    ),
    hints=(
        "Write the two shapes under each other, flush right. A missing size on the left counts as 1.",
        "Per column: equal sizes stay, a 1 takes the other size, anything else is an error.",
    ),
    core=True,
    level=1,
    minutes=4,
    source=RULES,
    drill=Drill(
        make=two_shapes,
        ask=lambda a, b: f'`np.zeros({a}) + np.zeros({b})`: which shape? Write a tuple, or `"error"`.',
    ),
)


# -- result-shape ----------------------------------------------------------------------------------------------


def drawn(label, build, raises=None, **ranges):
    """Return a case of the shapes that `build` makes of sizes drawn anew for every seed, so that no table passes.

    Args:
        ranges: (least, most) of each size, by name. Sizes that must not be equal have ranges that do not overlap.
    """

    def make(rng):
        return build(**{name: int(rng.integers(least, most + 1)) for name, (least, most) in ranges.items()})

    return Case(label, make, raises=raises)


def result_shape(*shapes):
    n_axes = max((len(shape) for shape in shapes), default=0)
    result = []
    for axis in range(-n_axes, 0):
        sizes = {shape[axis] for shape in shapes if len(shape) >= -axis} - {1}
        if len(sizes) > 1:
            raise ValueError(f"axis {axis} has sizes {sorted(sizes)}")
        result.append(sizes.pop() if sizes else 1)
    return tuple(result)


def pads_on_the_right(*shapes):
    n_axes = max((len(shape) for shape in shapes), default=0)
    result = []
    for axis in range(n_axes):
        sizes = {shape[axis] for shape in shapes if len(shape) > axis} - {1}
        if len(sizes) > 1:
            raise ValueError(f"axis {axis} has sizes {sorted(sizes)}")
        result.append(sizes.pop() if sizes else 1)
    return tuple(result)


def never_refuses(*shapes):
    n_axes = max((len(shape) for shape in shapes), default=0)
    padded = [(1,) * (n_axes - len(shape)) + tuple(shape) for shape in shapes]
    return tuple(max(sizes) for sizes in zip(*padded, strict=True))


def one_beats_zero(*shapes):
    n_axes = max((len(shape) for shape in shapes), default=0)
    padded = [(1,) * (n_axes - len(shape)) + tuple(shape) for shape in shapes]
    result = []
    for sizes in zip(*padded, strict=True):
        largest = max(sizes)
        if any(size not in (1, largest) for size in sizes):
            raise ValueError(f"sizes {sizes}")
        result.append(largest)
    return tuple(result)


def zero_beats_everything(*shapes):
    n_axes = max((len(shape) for shape in shapes), default=0)
    padded = [(1,) * (n_axes - len(shape)) + tuple(shape) for shape in shapes]
    result = []
    for sizes in zip(*padded, strict=True):
        if 0 in sizes:
            result.append(0)
            continue
        if any(size not in (1, max(sizes)) for size in sizes):
            raise ValueError(f"sizes {sizes}")
        result.append(max(sizes))
    return tuple(result)


def against_the_first_only(*shapes):
    first, result = shapes[0] if shapes else (), []
    n_axes = max((len(shape) for shape in shapes), default=0)
    first = (1,) * (n_axes - len(first)) + tuple(first)
    for axis in range(-n_axes, 0):
        size = first[axis]
        for shape in shapes[1:]:
            other = shape[axis] if len(shape) >= -axis else 1
            if 1 not in (first[axis], other) and first[axis] != other:
                raise ValueError(f"axis {axis}: {first[axis]} and {other}")
            size = other if size == 1 else size
        result.append(size)
    return tuple(result)


def against_the_next_only(*shapes):
    n_axes = max((len(shape) for shape in shapes), default=0)
    padded = [(1,) * (n_axes - len(shape)) + tuple(shape) for shape in shapes]
    for shape, following in zip(padded, padded[1:]):
        if any(a != b and 1 not in (a, b) for a, b in zip(shape, following)):
            raise ValueError(f"{shape} and {following}")
    return tuple(0 if 0 in sizes else max(sizes) for sizes in zip(*padded))


def against_the_first_as_it_was(*shapes):
    n_axes = max((len(shape) for shape in shapes), default=0)
    padded = [(1,) * (n_axes - len(shape)) + tuple(shape) for shape in shapes]
    result = list(padded[0]) if padded else []
    for shape in padded[1:]:
        for axis, size in enumerate(shape):
            if result[axis] == 1:
                result[axis] = size
            elif size not in (1, padded[0][axis]):
                raise ValueError(f"axis {axis}: {padded[0][axis]} and {size}")
    return tuple(result)


def leaves_zeros_out(*shapes):
    n_axes = max((len(shape) for shape in shapes), default=0)
    padded = [(1,) * (n_axes - len(shape)) + tuple(shape) for shape in shapes]
    for sizes in zip(*padded):
        if len({size for size in sizes if size > 1}) > 1:
            raise ValueError(f"sizes {sizes}")
    return tuple(max(sizes) for sizes in zip(*padded))


def stops_at_the_shortest(*shapes):
    result = []
    for sizes in zip(*(shape[::-1] for shape in shapes)):
        stretched = set(sizes) - {1}
        if len(stretched) > 1:
            raise ValueError(f"sizes {sizes}")
        result.append(stretched.pop() if stretched else 1)
    return tuple(result[::-1])


def leaves_the_result_reversed(*shapes):
    n_axes = max((len(shape) for shape in shapes), default=0)
    result = []
    for axis in range(1, n_axes + 1):
        sizes = {shape[-axis] for shape in shapes if len(shape) >= axis} - {1}
        if len(sizes) > 1:
            raise ValueError(f"axis {-axis} has sizes {sorted(sizes)}")
        result.append(sizes.pop() if sizes else 1)
    return tuple(result)


def asks_numpy(*shapes):
    return np.broadcast_shapes(*shapes)


def returns_none(*shapes):
    n_axes = max((len(shape) for shape in shapes), default=0)
    result = []
    for axis in range(-n_axes, 0):
        sizes = {shape[axis] for shape in shapes if len(shape) >= -axis} - {1}
        if len(sizes) > 1:
            return None
        result.append(sizes.pop() if sizes else 1)
    return tuple(result)


RESULT_SHAPE = Exercise(
    id="broadcasting/result-shape",
    kind="function",
    task="Return the shape any number of shapes broadcast to; raise ValueError when they do not.",
    names=("result_shape",),
    setup=SETUP,
    reference=result_shape,
    cases=(
        drawn("a vector against rows of its length", lambda m, n: ((n,), (m, n)), m=(2, 3), n=(4, 9)),
        drawn("a column against a vector of its length", lambda n: ((n, 1), (n,)), n=(3, 9)),
        drawn("last sizes that differ", lambda m, n: ((n,), (n, m)), m=(2, 3), n=(4, 9), raises="ValueError"),
        drawn(
            "three shapes, each with one size that is not 1",
            lambda a, b, c: ((a, 1), (1, b), (c, 1, 1)),
            a=(6, 9),
            b=(4, 5),
            c=(2, 3),
        ),
        drawn(
            "the second and third disagree", lambda m, n: ((1,), (m,), (n,)), m=(2, 4), n=(5, 9), raises="ValueError"
        ),
        drawn("the first and third disagree", lambda m, n: ((m,), (1,), (n,)), m=(2, 4), n=(5, 9), raises="ValueError"),
        drawn("a 1, then the same size twice", lambda n: ((1,), (n,), (n,)), n=(2, 9)),
        drawn("an empty axis against 1", lambda n: ((0, n), (1, n)), n=(2, 9)),
        drawn("an empty axis against a size that is not 1", lambda n: ((0,), (n,)), n=(2, 9), raises="ValueError"),
        shapes("a number and ones: () and (1, 1)", (), (1, 1)),
        shapes("no shapes at all"),
    ),
    probe=Probe("call", {"forbid": ("broadcast", "broadcast_arrays", "broadcast_shapes", "broadcast_to")}),
    misconceptions=(
        Misconception(
            id="pads-on-the-right",
            specimen=pads_on_the_right,
            says="You compare first axes with first axes, so a shorter shape is filled up on its right.",
            next="Let the last axes meet: index the shapes with -1, -2 and so on.",
        ),
        Misconception(
            id="never-refuses",
            specimen=never_refuses,
            says="You take the larger size of every axis and never refuse. 4 against 3, say, has no answer: "
            "only a 1 stretches.",
            next="Raise ValueError when two sizes differ and neither is 1.",
        ),
        Misconception(
            id="one-beats-zero",
            specimen=one_beats_zero,
            says="You refuse an empty axis against a 1, since 0 is neither 1 nor the larger size. But a 1 stretches "
            "to any size, to zero as well.",
            next="Leave the ones out before you compare; do not look for the largest size.",
        ),
        Misconception(
            id="zero-beats-everything",
            specimen=zero_beats_everything,
            says="You let an empty axis win against any size. Zero is an ordinary size: it matches 0, and 1 stretches "
            "to it.",
            next="Remove the special case for 0 and compare it like any other size.",
        ),
        Misconception(
            id="checks-the-first-only",
            specimen=against_the_first_only,
            says="You compare every shape with the first one. Where the first has a 1, the others never "
            "meet each other.",
            next="Compare with the result built so far, or collect all sizes of an axis before judging.",
        ),
        Misconception(
            id="checks-neighbours-only",
            specimen=against_the_next_only,
            says="You compare each shape with the next one. A shape of ones between two others hides that those two "
            "disagree.",
            next="Compare with the result built so far, or collect all sizes of an axis before judging.",
        ),
        Misconception(
            id="compares-with-the-old-size",
            specimen=against_the_first_as_it_was,
            says="You compare a later shape with a 1 that has been stretched already: (1,) and (2,) make (2,), and "
            "another (2,) fits that.",
            next="Compare with the result as it is now, not with the shape it began from.",
        ),
        Misconception(
            id="leaves-zeros-out",
            specimen=leaves_zeros_out,
            says="You treat 0 as if it were no size at all: sizes other than 0 decide, and the larger one wins. Zero "
            "is an ordinary size, and only a 1 stretches.",
            next="Only ones may be left out of the comparison.",
        ),
        Misconception(
            id="stops-at-the-shortest",
            specimen=stops_at_the_shortest,
            says="Your result is as short as the shortest shape: zip stops there, and the remaining axes on the "
            "left are lost.",
            next="Go on as long as any shape has an axis left; a missing size counts as 1.",
        ),
        Misconception(
            id="leaves-the-result-reversed",
            specimen=leaves_the_result_reversed,
            says="The sizes are right, but in reverse: you collected them from the right and returned them in "
            "that order.",
            next="Turn the list around before you return it.",
        ),
        Misconception(
            id="asks-numpy",
            specimen=asks_numpy,
            says="You let np.broadcast_shapes decide. At work that is the right call; here the rule behind it is "
            "the task.",
            next="Compare the sizes yourself, axis by axis from the right.",
        ),
        Misconception(
            id="returns-instead-of-raising",
            specimen=returns_none,
            says="You return None for shapes that do not fit. The caller would carry None along and fail "
            "somewhere else.",
            next="Raise ValueError, and name the axis and the sizes in its message.",
        ),
    ),
    hints=(
        "Solve one axis first: given the sizes (5, 1, 5), what is the result, and when is there none?",
        "Loop over axis = -1, -2, ... and skip a shape that has no such axis; shape[axis] does the aligning for you.",
    ),
    core=True,
    level=3,
    minutes=10,
    source=RULES,
)
