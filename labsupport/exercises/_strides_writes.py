"""Lesson 05: writing through views."""

import numpy as np

from labsupport.course import Case, Exercise, Misconception, Probe

__all__ = ["WRITE_THROUGH"]

_INDEXING_DOC = "https://numpy.org/doc/stable/user/basics.indexing.html, read 2026-11"


# -- write-through


def clip_peaks(heights, limit):
    """Lower every value of `heights` above `limit` to `limit`, in place; return `heights`."""
    heights[heights > limit] = limit  # one __setitem__ on heights itself: into the caller's bytes
    return heights


def _writes_into_a_temporary(heights, limit):
    heights[heights > limit][:] = limit
    return heights


def _rebinds_the_name(heights, limit):
    heights = np.minimum(heights, limit).astype(heights.dtype)
    return heights


def _loops_over_rows(heights, limit):
    for i in range(len(heights)):
        if heights[i] > limit:
            heights[i] = limit
    return heights


def _loop_variable(heights, limit):
    for height in heights:
        if height > limit:
            height = limit
    return heights


def _flattens_first(heights, limit):
    flat = heights.ravel()
    flat[flat > limit] = limit
    return heights


def _returns_nothing(heights, limit):
    heights[heights > limit] = limit


def _returns_the_peaks(heights, limit):
    above = heights > limit
    heights[above] = limit
    return heights[above]


def _returns_a_copy(heights, limit):
    heights[heights > limit] = limit
    return heights.copy()


def _caps_everything(heights, limit):
    heights[:] = limit
    return heights


WRITE_THROUGH = Exercise(
    id="strides/write-through",
    kind="debug",
    task="Repair clip_peaks: it is to lower every value above `limit` to `limit` in the array it is given, whatever "
    "its axes and strides, and to return that same array. It runs, and changes nothing.",
    names=("clip_peaks",),
    setup="import numpy as np",
    reference=clip_peaks,
    cases=(
        Case("8 samples, some above, some far below 0", lambda rng: (rng.permutation(8) * 100.0 - 300, 150)),
        Case("a matrix of int16", lambda rng: ((rng.permutation(20) - 12).reshape(4, 5).astype(np.int16), 3)),
        Case("a transposed matrix", lambda rng: ((rng.permutation(12) * 10 - 50).reshape(3, 4).T, 15)),
        Case("every second sample, a limit of 4.25", lambda rng: ((rng.permutation(20) + 0.5)[::2], 4.25)),
        Case("a value equal to the limit", lambda rng: (rng.permutation(7) * 1.0, 3)),
    ),
    probe=Probe("call", {"view_of": 0}),
    misconceptions=(
        Misconception(
            id="flattens-first",
            specimen=_flattens_first,
            says="Flattening gives a view where the elements lie one after another, else a copy. Of a transposed "
            "matrix it is a copy: there your write never arrives.",
            next="A mask may have the shape of the array; no flattening is needed.",
        ),
        Misconception(
            id="writes-into-a-temporary",
            specimen=_writes_into_a_temporary,
            says="You write into a copy that is then thrown away: reading with a mask, as in `heights[mask]`, makes "
            "one, and so does `flatten()`.",
            next="Put the mask directly on the left of `=`, with nothing behind it.",
        ),
        Misconception(
            id="rebinds-the-name",
            specimen=_rebinds_the_name,
            says="You return the right values in a new array; the caller's array still has its peaks. Giving the new "
            "array the old name changes nothing for the caller.",
            next="Store into the existing bytes: by index assignment or an `out=` argument.",
        ),
        Misconception(
            id="loops-over-one-axis",
            specimen=_loops_over_rows,
            says="Your loop is right for one axis. Of a matrix, `heights[i]` is a whole row, and a row is not simply "
            "greater than a number.",
            next="A mask has the shape of the array, however many axes that is.",
        ),
        Misconception(
            id="assigns-to-the-loop-variable",
            specimen=_loop_variable,
            says="Inside your loop, `... = limit` gives the loop's name a new meaning; the element it was taken from "
            "stays as it is. And the elements of a matrix are rows.",
            next="Assign to `heights[...]`, and let one mask do the work of the loop.",
        ),
        Misconception(
            id="returns-nothing",
            specimen=_returns_nothing,
            says="The array is changed as asked, but your function ends without returning it.",
            next="End with `return heights`.",
        ),
        Misconception(
            id="returns-the-peaks",
            specimen=_returns_the_peaks,
            says="The array is changed as asked, but you return only the clipped values, in a copy.",
            next="Return the whole array you were given.",
        ),
        Misconception(
            id="returns-a-copy",
            specimen=_returns_a_copy,
            says="The array is changed as asked, but you return a copy of it: whoever goes on with your result no "
            "longer works on the caller's array.",
            next="Return `heights` itself.",
        ),
        Misconception(
            id="caps-everything",
            specimen=_caps_everything,
            says="You set every value to the limit, those below it too.",
            next="Only where `heights > limit` is true.",
        ),
    ),
    hints=(
        "Split the broken line in two: which array does `peaks` own, and who else can see it?",
        "`a[mask]` on the right of `=` copies; `a[mask] = ...` writes into `a`.",
    ),
    core=True,
    level=2,
    minutes=6,
    source=_INDEXING_DOC,
)
