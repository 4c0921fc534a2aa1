"""Differences are found and told in a sentence about them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labsupport.comparing import compare
from labsupport.course import Observation, Raised
from labsupport.describing import describe, describe_prediction
from labsupport.probing.plain import plain


def say(got, expected, *, reveal=True):
    difference = compare(Observation(value=plain(got)), Observation(value=plain(expected)))
    return None if difference is None else describe(difference, reveal=reveal)


@pytest.mark.parametrize(
    ("got", "expected", "sentence"),
    [
        (np.zeros((3, 1)), np.zeros(3), "Shape (3, 1), expected (3,)."),
        (np.zeros(3), np.zeros(3, np.float32), "Dtype float64, expected float32."),
        (np.array([[1, 2], [5, 4]]), np.array([[1, 2], [7, 4]]),
         "First difference at [1, 0]: 5, expected 7 (1 of 4 elements differ, largest error 2)."),
        (None, np.zeros(3), "Returns None, expected ndarray: is a `return` missing?"),
        ([1, 2], (1, 2), "Returns list, expected tuple."),
        (True, 1, "Returns bool, expected int."),
        (np.float32(1), 1.0, "Returns float32, expected float."),
        ((1, 2), (1, 2, 3), "Length 2, expected 3."),
        ((1, (2, 5)), (1, (2, 3)), "Got 5 at [1][1], expected 3."),
        ({"a": 1}, {"b": 1}, "Keys: missing 'b'; not asked for 'a'."),
        ("view", "copy", "Got 'view', expected 'copy'."),
        (10**40, 3, f"Got {10**40}, expected 3."),
        (np.matrix([1.0]), np.array([1.0]), "Returns matrix, expected ndarray."),
        (np.array([1.0, np.nan]), np.array([1.0, 2.0]),
         "First difference at [1]: nan, expected 2 (1 of 2 elements differ)."),
    ],
)  # fmt: skip
def test_sentences(got, expected, sentence):
    assert say(got, expected) == sentence


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        (np.float64(2.5), 2.5),
        (2.5, np.float64(2.5)),
        (np.int32(7), 7),
        (np.bool_(True), True),
        (np.array([0.1 + 0.2]), np.array([0.3])),
        (np.array([np.nan, np.inf]), np.array([np.nan, np.inf])),
        (np.float32([0.1]) * 3, np.float32([0.3])),
        (np.array([1e-17, 1.0]), np.array([0.0, 1.0])),
        (np.zeros((0, 3)), np.zeros((0, 3))),
    ],
)
def test_what_counts_as_equal(got, expected):
    assert say(got, expected) is None


def test_small_values_are_not_lost_in_the_tolerance():
    assert say(np.array([1e-6, 2e-6]), np.array([1e-6, 3e-6])) is not None


def test_a_clean_check_never_tells_the_expected_value():
    sentence = say(np.array([1, 5]), np.array([1, 73]), reveal=False)
    assert "73" not in sentence
    assert "[1]" in sentence
    assert say(5, 73, reveal=False) == "Got 5."


def test_numbers_that_look_alike_are_told_apart():
    assert "1.0000001" in say(np.float64(1.0000001), np.float64(1.0))
    assert "0.1000000015, expected 0.1 " in say(np.array([0.1000000015, 1.0]), np.array([0.1, 1.0]))


@given(st.integers(-1000, 1000), st.integers(-1000, 1000))
def test_numbers_are_equal_exactly_when_they_are(a, b):
    assert (say(a, b) is None) == (a == b)


def seen(**facts):
    return Observation(value=1, facts=facts)


@pytest.mark.parametrize(
    ("fact", "got", "expected", "words"),
    [
        ("layout", "copy", "view", "a copy: writing to the input leaves the result unchanged"),
        ("layout", "view", "copy", "a view: writing to the input changes the result"),
        ("writeable", True, False, "should be read-only"),
        ("inputs changed", (1,), (), "changed its second input"),
        ("inputs changed", (), (0,), "should have been changed in place"),
        ("allocation", "over 1,000", "within 1,000", "over the memory budget (1,000 bytes"),
        ("steps", "over 200", "within 200", "a Python loop does the work: over 200 Python lines"),
        ("vocabulary", ("for",), (), "it uses `for`"),
        ("released", False, True, "stays alive as long as the result"),
        ("kept", "over 9", "within 9", "stays allocated (9 bytes)"),
    ],
)
def test_facts_have_sentences(fact, got, expected, words):
    difference = compare(seen(**{fact: got}), seen(**{fact: expected}))
    assert words in describe(difference, reveal=False)


def test_exceptions_are_compared_by_type():
    value_error, other = (Observation(raised=Raised(type=t, message="m")) for t in ("ValueError", "TypeError"))
    assert compare(value_error, value_error) is None
    assert describe(compare(other, value_error), reveal=False) == "Raises TypeError (m), expected ValueError."
    assert (
        describe(compare(Observation(value=(3,)), value_error), reveal=False)
        == "Returns (3,) where ValueError should be raised."
    )


@pytest.mark.parametrize(
    "got, expected, told",
    [
        ("typeerror", "error", "the word here is 'error'"),
        ("typeerror", 3, "the word here is 'error'"),
        ("typeerror", "indexerror", "not what happens"),
        ("error", 3, "not what happens"),
        ("1,000", 1000, "without quotes"),
        ("-1", -1, "without quotes"),
        (7, 8, "not what happens"),
    ],
)
def test_a_word_that_may_mean_what_is_right_is_not_called_wrong(got, expected, told):
    difference = compare(Observation(value=got), Observation(value=expected))
    said = describe_prediction(difference, reveal=False)
    assert told in said
    assert ("not what happens" in said) == (told == "not what happens")
