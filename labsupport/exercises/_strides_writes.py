"""Lesson 05: writing through views, and input and output that overlap."""

import numpy as np

from labsupport.course import Case, Exercise, Misconception, Probe

__all__ = ["IN_PLACE_SAFE", "WRITE_THROUGH"]

_INDEXING_DOC = "https://numpy.org/doc/stable/user/basics.indexing.html, read 2026-11"
_OVERLAP_DOC = "https://numpy.org/doc/stable/release/1.13.0-notes.html, on overlapping inputs, read 2026-11"


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
    flat = heights.reshape(-1)
    flat[flat > limit] = limit
    return heights


def _returns_nothing(heights, limit):
    heights[heights > limit] = limit


def _returns_the_peaks(heights, limit):
    above = heights > limit
    heights[above] = limit
    return heights[above]


def _caps_everything(heights, limit):
    heights[:] = limit
    return heights


WRITE_THROUGH = Exercise(
    id="strides/write-through",
    kind="debug",
    task="Repair clip_peaks: it is to lower every value above `limit` to `limit` in the array it is given, whatever "
    "its shape and strides, and to return that same array. It runs, and changes nothing.",
    names=("clip_peaks",),
    setup="import numpy as np",
    reference=clip_peaks,
    cases=(
        Case("8 samples, some above", lambda rng: (rng.permutation(8) * 100.0, 350)),
        Case("a matrix of int16", lambda rng: (rng.permutation(20).reshape(4, 5).astype(np.int16), 12)),
        Case("a transposed matrix", lambda rng: (rng.permutation(12).reshape(3, 4).T * 10, 55)),
        Case("every second sample of a longer signal", lambda rng: (rng.permutation(20)[::2] + 0.5, 4)),
        Case("a value equal to the limit", lambda rng: (rng.permutation(7) * 1.0, 3)),
    ),
    probe=Probe("call", {"view_of": 0}),
    misconceptions=(
        Misconception(
            id="flattens-first",
            specimen=_flattens_first,
            says="Flattening gives a view of a fresh matrix, but a copy of a transposed one: there your write never "
            "arrives.",
            next="A mask may have the shape of the matrix; no flattening is needed.",
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


# -- in-place-safe


def smooth(x, out):
    """Write the mean of each sample and its two neighbours into `out`, the ends as they are; return `out`."""
    result = x.copy()  # everything is read before anything is written, whatever out and x have in common
    result[1:-1] = (x[:-2] + x[1:-1] + x[2:]) / 3
    out[:] = result
    return out


def _adds_up_in_out(x, out):
    out[:] = x
    out[1:-1] = out[1:-1] + x[:-2]
    out[1:-1] = out[1:-1] + x[2:]
    out[1:-1] = out[1:-1] / 3
    return out


def _adds_neighbours_in_out(x, out):
    out[:] = x
    out[1:-1] += x[:-2] + x[2:]
    out[1:-1] /= 3
    return out


def _reads_the_ends_last(x, out):
    out[1:-1] = (x[:-2] + x[1:-1] + x[2:]) / 3
    out[0] = x[0]
    out[-1] = x[-1]
    return out


def _loops_over_itself(x, out):
    for i in range(1, len(x) - 1):
        out[i] = (x[i - 1] + x[i] + x[i + 1]) / 3
    out[0] = x[0]
    out[-1] = x[-1]
    return out


def _changes_the_input(x, out):
    x[1:-1] = (x[:-2] + x[1:-1] + x[2:]) / 3
    out[:] = x
    return out


def _returns_a_new_array(x, out):
    out = x.copy()
    out[1:-1] = (x[:-2] + x[1:-1] + x[2:]) / 3
    return out


def _asks_whether_same_object(x, out):
    if out is x:
        x = x.copy()
    out[:] = x
    out[1:-1] += x[:-2]
    out[1:-1] += x[2:]
    out[1:-1] /= 3
    return out


def _forgets_the_ends(x, out):
    out[1:-1] = (x[:-2] + x[1:-1] + x[2:]) / 3
    return out


def _signal_and_room(label, n, cut_x, cut_out, dtype=np.float64):
    """Return a case in which x and out are two cuts of one buffer of n samples."""

    def make(rng):
        buffer = (rng.permutation(n) * 3.7).astype(dtype)
        return buffer[cut_x], buffer[cut_out]

    return Case(label, make)


def _one_array_twice(rng):
    x = rng.permutation(9) * 3.7
    return x, x


IN_PLACE_SAFE = Exercise(
    id="strides/in-place-safe",
    kind="debug",
    task="Repair smooth(x, out): out gets the mean of each sample and its two neighbours, the two ends as they are. "
    "x and out may be the same array or overlap in any way; where they do not, x stays untouched. Return out.",
    names=("smooth",),
    setup="import numpy as np",
    reference=smooth,
    cases=(
        _signal_and_room("x and out apart", 20, slice(0, 8), slice(10, 18)),
        Case("out is x", _one_array_twice),
        _signal_and_room("out starts one sample after x", 12, slice(0, 10), slice(1, 11)),
        _signal_and_room("out starts one sample before x", 12, slice(1, 11), slice(0, 10), np.float32),
        _signal_and_room("out is x backwards", 9, slice(None), slice(None, None, -1)),
        _signal_and_room("two samples: only ends", 8, slice(0, 2), slice(4, 6)),
    ),
    probe=Probe("call", {"view_of": 1}),
    misconceptions=(
        Misconception(
            id="asks-only-for-identity",
            specimen=_asks_whether_same_object,
            says="`out is x` finds the same object, but two views can share bytes without being one object: here they"
            " are shifted slices of one buffer.",
            next="Do what is safe in every case, or ask `np.shares_memory`.",
        ),
        Misconception(
            id="adds-up-in-out",
            specimen=_adds_up_in_out,
            says="You build the sum up in `out`, statement by statement. Where `out` shares bytes with `x`, the later"
            " statements read samples that are already sums.",
            next="NumPy protects one statement, not a sequence: read everything you need before the first write.",
        ),
        Misconception(
            id="copies-then-reads",
            specimen=_adds_neighbours_in_out,
            says="`out[:] = x` comes first, and where `out` is a shifted view of the same buffer it moves the samples"
            " that your next line still wants to read.",
            next="Which of your lines reads `x` last? Nothing may be written before it.",
        ),
        Misconception(
            id="reads-the-ends-last",
            specimen=_reads_the_ends_last,
            says="The middle is right. When you fetch `x[0]` and `x[-1]`, it has been written already, and where "
            "`out` and `x` overlap one of the ends is gone.",
            next="Take what you need from `x` before the first write.",
        ),
        Misconception(
            id="loops-over-its-own-output",
            specimen=_loops_over_itself,
            says="Your loop writes `out[i]` and reads `x[i - 1]` in the next round. Where they are the same byte, it "
            "averages averages.",
            next="Compute all means first; then write.",
        ),
        Misconception(
            id="changes-the-input",
            specimen=_changes_the_input,
            says="The values are right, but `x` was overwritten on the way, and the caller still needs it.",
            next="Work on memory of your own, then write into `out` once.",
        ),
        Misconception(
            id="returns-a-new-array",
            specimen=_returns_a_new_array,
            says="You return the right values in a new array; `out`, which the caller handed in, stays as it was.",
            next="`out = ...` moves the name. `out[...] = ...` fills the array.",
        ),
        Misconception(
            id="forgets-the-ends",
            specimen=_forgets_the_ends,
            says="You never write the first and the last sample, so `out` keeps whatever was there.",
            next="Both ends of `x` go to `out` unchanged.",
        ),
    ),
    hints=(
        "Follow `smooth(x, x)` for three samples: what is in `x[2:]` when the third line reads it?",
        "One expression on the right, one assignment on the left: everything is read before anything is written.",
    ),
    core=False,
    level=3,
    minutes=8,
    source=_OVERLAP_DOC,
)
