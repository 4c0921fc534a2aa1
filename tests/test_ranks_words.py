"""Facts, values and hangs of ranks in words, and what counts as the same behaviour. No ranks run here."""

import numpy as np
import pytest

from labsupport.comparing import compare
from labsupport.course import Observation
from labsupport.describing import describe
from labsupport.judging import alike


def test_hangs_of_another_kind_are_another_behaviour():
    one, same, other = (
        Observation(over="stuck: " + text, facts={"stuck": kind})
        for text, kind in (("a", "both send: send"), ("b", "both send: send"), ("c", "ended early: barrier"))
    )
    assert alike(one, same) and not alike(one, other)


@pytest.mark.parametrize(
    ("fact", "got", "expected", "words"),
    [
        ("inputs changed", ((), (0,)), ((), ()), "On rank 1: Right values, but your code changed its first input"),
        (
            "collectives",
            ((("all_reduce", 4),),),
            ((("all_reduce", 1),),),
            "rank 0 called `all_reduce` 4 times, expected 1",
        ),
        ("collectives", ((("gather", 1),),), ((("all_reduce", 1),),), "rank 0 called `all_reduce` never, expected 1"),
        ("calls", "over 1 all_reduce", "within the budget", "more calls than the budget allows: over 1 all_reduce on"),
        ("sent", "over on every rank: 4,096", "within the budget", "a rank sends more than the budget of 4,096 bytes"),
        ("files", {"m": (0, 1)}, {"m": (0,)}, "`m` was written by ranks 0 and 1, expected rank 0"),
        ("files", {}, {"m": (0,)}, "the file `m` was not written"),
        ("files", {"m": (0,), "tmp": (1,)}, {"m": (0,)}, "a file `tmp` is left that nobody asked for"),
        ("killed", False, True, "never came to that batch"),
    ],
)
def test_facts_in_words(fact, got, expected, words):
    seen, right = (Observation(value={"rank 0": 1}, facts={fact: value}) for value in (got, expected))
    assert words in describe(compare(seen, right), reveal=False)


def test_values_in_words():
    def said(got, expected):
        seen, right = (Observation(value={"rank 0": np.zeros(2), "rank 1": value}) for value in (got, expected))
        return describe(compare(seen, right), reveal=True)

    assert said(np.zeros(2), np.zeros(3)) == "Shape (2,) on rank 1, expected (3,)."
    assert said(np.zeros(2, "f4"), np.zeros(2)) == "Dtype float32 on rank 1, expected float64."
    assert said({"a": 1}, {"b": 1}) == "Keys on rank 1: missing 'b'; not asked for 'a'."
    assert said(2.0, np.zeros(2)) == "Returns float on rank 1, expected a tensor."
