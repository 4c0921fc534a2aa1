"""The decoder against values and frames nobody thought of; a longer run is `python -m tests.grading.fuzz_wire`."""

import fuzz_wire
import hypothesis.extra.numpy as arrays
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from labsupport.grading.codec import DTYPES, PREFIX
from labsupport.grading.wire import decode, encode

KEYS = st.text(max_size=5) | st.integers(-(2**62), 2**62)
DTYPE = st.sampled_from([*DTYPES.values(), np.dtype("<U3"), np.dtype("S2")])
TEXT = st.characters(exclude_categories=["Cs"])
CHARACTERS = {np.dtype("<U3"): st.text(TEXT, max_size=3)}
ARRAYS = DTYPE.flatmap(
    lambda dtype: arrays.arrays(
        dtype, arrays.array_shapes(min_dims=0, min_side=0, max_side=4), elements=CHARACTERS.get(dtype)
    )
)
NUMBERS = st.none() | st.booleans() | st.integers() | st.floats() | st.complex_numbers()
SCALARS = ARRAYS.filter(lambda array: array.size).map(lambda array: array.reshape(-1)[0])
LEAVES = NUMBERS | st.text(TEXT) | st.binary() | ARRAYS | SCALARS
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4) | st.lists(inner, max_size=4).map(tuple) | st.dictionaries(KEYS, inner, max_size=4)
    ),
    max_leaves=12,
)
GUARD = settings(deadline=None, max_examples=150)


@GUARD
@given(VALUES)
def test_every_plain_value_arrives_as_it_was(value):
    assert fuzz_wire.same(decode(encode(value)), value)


@GUARD
@given(st.lists(ARRAYS, max_size=3), st.data())
def test_layouts_arrive_as_they_were(roots, data):
    views = []
    for root in roots:
        order = data.draw(st.permutations(range(root.ndim)))
        steps = tuple(slice(None, None, data.draw(st.sampled_from((1, -1, 2)))) for _ in order)
        views += [root, root.transpose(order), root[steps]]
    sent, got = views, decode(encode(views, keep_layout=True), layouts_allowed=True)
    for mine, theirs in zip(sent, got, strict=True):
        assert fuzz_wire.same(mine, theirs)
        assert mine.strides == theirs.strides or not mine.size
    for i, mine in enumerate(sent):
        assert [np.shares_memory(mine, other) for other in sent] == [np.shares_memory(got[i], other) for other in got]


@GUARD
@given(st.binary(max_size=80))
def test_noise_is_refused(raw):
    assert not fuzz_wire.survives(raw)


@GUARD
@given(VALUES, st.data())
def test_a_changed_frame_is_refused_or_says_something_plain(value, data):
    raw = bytearray(encode(value))
    at = data.draw(st.integers(PREFIX.size, len(raw) - 1))
    raw[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    fuzz_wire.survives(bytes(raw))
    fuzz_wire.survives(fuzz_wire.relabelled(None, bytes(raw)))


@settings(deadline=None, max_examples=600)
@given(st.randoms(use_true_random=False))
def test_headers_with_a_slip_are_refused_or_say_something_plain(rng):
    fuzz_wire.one(rng)
