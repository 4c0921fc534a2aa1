"""Which chunks a selection touches, against NumPy: mark the elements, look which chunks hold a mark."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shapes import arrays, block

from labsupport.chunklab import parse, touched
from labsupport.chunklab.grid import grid_of
from labsupport.chunklab.selecting import normal
from labsupport.errors import UsageError

QUICK = settings(max_examples=150, deadline=None)


def chunks_with_a_mark(marks, chunks):
    """Return {grid index: marks in it} the slow way."""
    found = {}
    for at in np.ndindex(*grid_of(marks.shape, chunks)):
        inside = marks[tuple(slice(i * c, (i + 1) * c) for i, c in zip(at, chunks))]
        if inside.any():
            found[at] = int(inside.sum())
    return found


def outer(shape, selection):
    """Return the element counts of an outer selection: lists pair with nothing."""
    marks = np.zeros(shape, int)
    np.add.at(marks, np.ix_(*(list(along) for along in normal(shape, selection))), 1)
    return marks


@QUICK
@given(data=st.data())
def test_touched_is_what_marking_elements_finds(data):
    shape, chunks, shards = data.draw(arrays(sharded=data.draw(st.booleans())))
    selection = data.draw(block(shape, steps=(1, 2, 5, -1, -3), lists=2))
    seen = touched(shape, chunks, selection, itemsize=4, shards=shards)
    marks = outer(shape, selection)
    found = chunks_with_a_mark(marks, chunks)
    assert list(seen.indices()) == list(seen.chunks) == list(found)
    assert seen.count == len(found)
    assert seen.wanted == marks.sum()
    assert {at: seen.wanted_in(at) for at in seen.indices()} == found
    assert seen.decoded_bytes == len(found) * int(np.prod(chunks)) * 4
    if shards is not None:
        per = tuple(s // c for s, c in zip(shards, chunks))
        groups = [tuple(i // p for i, p in zip(at, per)) for at in found]
        assert seen.in_shards == {group: groups.count(group) for group in sorted(set(groups))}
        assert seen.files == len(set(groups))
        assert seen.index_reads == sum(groups.count(g) != seen.chunks_per_shard for g in set(groups))


@QUICK
@given(data=st.data())
def test_a_basic_selection_selects_what_numpy_selects(data):
    shape, chunks, _ = data.draw(arrays())
    selection = data.draw(block(shape, steps=(1, 2, 5, -1, -3), lists=0))
    array = np.arange(np.prod(shape)).reshape(shape)
    result = array[selection]
    marks = np.isin(array, result)
    seen = touched(shape, chunks, selection)
    assert seen.wanted == np.size(result)
    assert dict.fromkeys(seen.indices()) == dict.fromkeys(chunks_with_a_mark(marks, chunks))


@QUICK
@given(data=st.data())
def test_points_and_masks(data):
    shape, chunks, shards = data.draw(arrays(sharded=data.draw(st.booleans())))
    count = data.draw(st.integers(1, 6))
    lists = tuple(data.draw(st.lists(st.integers(-n, n - 1), min_size=count, max_size=count)) for n in shape)
    marks = np.zeros(shape, int)
    np.add.at(marks, tuple(map(np.array, lists)), 1)
    seen = touched(shape, chunks, lists, indexing="points", shards=shards)
    assert seen.wanted == count
    assert {at: seen.wanted_in(at) for at in seen.indices()} == chunks_with_a_mark(marks, chunks)
    mask = marks > 0
    by_mask = touched(shape, chunks, mask, shards=shards)
    assert by_mask.chunks == seen.chunks
    assert by_mask.wanted == mask.sum()
    assert sum(by_mask.in_shards.values()) == by_mask.count


def test_numbers_that_are_known():
    assert touched((1000, 1000), (1000, 1), 3, itemsize=4).decoded_bytes == 4_000_000
    assert touched((1000, 1000), (100, 100), 3, itemsize=4).decoded_bytes == 400_000
    assert touched((1000, 1000), (100, 100), np.s_[95:105, 95:105]).count == 4
    assert touched((10,), (4,), ...).decoded_bytes == 12  # the last chunk is stored in full
    assert touched((), (), ()).count == 1
    assert touched((5,), (2,), slice(4, 1)).count == 0
    assert touched((5,), (2,), slice(4, 1)).amplification == 0
    assert touched((10**9, 10**9), (1, 1), ...).count == 10**18  # counted, not listed


def test_a_touched_is_told_in_one_line():
    seen = touched((10, 10), (3, 3), np.s_[::2, 0], itemsize=8, shards=(6, 6))
    assert repr(seen) == "<3 of 16 chunks in 2 shards: 216 bytes decoded for 40 wanted>"


@pytest.mark.parametrize(
    ("selection", "says"),
    [
        ((1, 2, 3), "3 indices for 2 axes"),
        (9, "index 9 is out of range"),
        (-6, "index -6 is out of range"),
        (None, "cannot be indexed by None"),
        (1.5, "cannot be indexed by 1.5"),
        (True, "cannot be indexed by True"),
        ((..., ...), "at most one ellipsis"),
        (slice(0, 4, 0), "cannot be sliced"),
        ([True, False], "the mask of axis 0 has 2 values"),
        (np.ones((2, 2), bool), "the mask has shape"),
        (np.ones((2, 2), int), "an index array of 2 axes"),
    ],
)
def test_what_selects_nothing_is_refused_in_words(selection, says):
    with pytest.raises(UsageError, match=says):
        touched((5, 5), (2, 2), selection)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"chunks": (2,)}, "of 1 axis"),
        ({"chunks": (0, 2)}, "at least 1"),
        ({"chunks": (2.5, 2)}, "whole numbers"),
        ({"shards": (3, 2)}, "do not hold chunks"),
        ({"indexing": "inner"}, "no indexing"),
        ({"indexing": "points", "selection": ([0, 1], [0, 1, 2])}, "cannot be paired"),
    ],
)
def test_shapes_that_do_not_fit_are_refused_in_words(more, says):
    settings_ = {"shape": (5, 5), "chunks": (2, 2), "selection": 0} | more
    with pytest.raises(UsageError, match=says):
        touched(**settings_)


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("3", (3,)),
        ("-1, :", (-1, slice(None))),
        ("..., 2:9:3", (..., slice(2, 9, 3))),
        ("[1, -5], ::2", ([1, -5], slice(None, None, 2))),
        ("", (...,)),
        ("()", ()),
    ],
)
def test_a_selection_as_text(text, means):
    assert parse(text) == means


@pytest.mark.parametrize("text", ["a", "1:b", "__import__('os')", "1)", "1]+[2", "{}", "'a'"])
def test_other_text_is_no_selection(text):
    with pytest.raises(UsageError, match="is not a selection"):
        parse(text)


def test_arithmetic_loads_no_library():
    code = "import sys; from labsupport.chunklab import touched; touched((4,), (2,), 1)"
    check = "; print({'numpy', 'zarr', 'h5py'} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code + check], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "set()"
