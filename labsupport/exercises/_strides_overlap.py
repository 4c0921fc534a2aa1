"""Lesson 05: input and output that overlap."""

import numpy as np

from labsupport.course import Case, Exercise, Misconception, Probe

__all__ = ["IN_PLACE_SAFE"]

_OVERLAP_DOC = "https://numpy.org/doc/stable/release/1.13.0-notes.html, on overlapping inputs, read 2026-11"


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


def _copies_then_averages(x, out):
    out[:] = x
    out[1:-1] = (x[:-2] + x[1:-1] + x[2:]) / 3
    return out


def _returns_its_own_memory(x, out):
    result = x.copy()
    result[1:-1] = (x[:-2] + x[1:-1] + x[2:]) / 3
    out[:] = result
    return result


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
            id="copies-then-averages",
            specimen=_copies_then_averages,
            says="Your long line is safe by itself: it reads everything before it writes. But `out` is filled first, "
            "and where it is a shifted view of the same buffer, that moves samples your long line still has to read.",
            next="Compute the means before anything is written, and remember that the ends are read too.",
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
            id="returns-its-own-memory",
            specimen=_returns_its_own_memory,
            says="`out` is filled as asked, but what you return is other memory with the same values; a later write to "
            "your result would not reach `out`.",
            next="Return `out` itself.",
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
        "One statement reads everything before it writes anything; two statements do not. And the ends have to be read "
        "as well, before the middle is written.",
    ),
    core=False,
    level=3,
    minutes=8,
    source=_OVERLAP_DOC,
)
