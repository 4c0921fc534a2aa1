"""Lesson 13: the drivers count what real stores count, and judge what a shape costs, not which shape it is."""

import io
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
import zarr

from labsupport import catalog
from labsupport.chunklab import CountingFile, CountingStore, touched
from labsupport.inputs import inputs_for
from labsupport.observing import verdict_on
from labsupport.probing import Subject
from labsupport.probing.drivers import Unusable, chunks

CHOOSE = catalog.find_exercise("chunks/choose-shape")
TOUCHED = catalog.find_exercise("chunks/touched")
READ_ROWS = catalog.find_exercise("chunks/cache")


def answering(**names):
    return SimpleNamespace(**names)


# -- touched


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("index", range(len(TOUCHED.cases)), ids=lambda i: f"case{i}")
def test_the_reference_names_the_chunks_that_a_store_hands_out(index, seed):
    shape, chunk, selection = inputs_for(TOUCHED, seed)[index]
    items = tuple(slice(*item) if isinstance(item, tuple) else item for item in selection)
    store = CountingStore(zarr.storage.MemoryStore())
    array = zarr.create_array(store, shape=shape, chunks=chunk, dtype="u1", fill_value=0)
    array[:] = 1
    store.reset()
    array[items]
    read = {request.key for request in store.requests}
    named = TOUCHED.reference(shape, chunk, items)
    assert read == {"c/" + "/".join(map(str, one)) for one in named}
    assert list(touched(shape, chunk, items).chunks) == named


@pytest.mark.parametrize("found", [[0, 1], 3, [(0,), (1,)], None, "ab"])
def test_what_is_no_list_of_chunk_numbers_gets_a_sentence(found):
    answer = answering(touched_chunks=lambda *inputs: found)
    with pytest.raises(Unusable) as caught:
        chunks.touched_chunks(answer, (4, 4), (2, 2), (0, (0, 2, None)))
    assert "2 numbers, one for each axis" in str(caught.value)


@pytest.mark.parametrize("form", [set, tuple, np.array], ids=["set", "tuple", "ndarray"])
def test_the_list_may_have_another_form_and_order(form):
    answer = answering(touched_chunks=lambda *inputs: form([(1, 0), (0, 0)]))
    (seen,) = chunks.touched_chunks(answer, (4, 4), (2, 2), ((None, None, None), 0)).values()
    assert seen == [(0, 0), (1, 0)]


def test_the_selection_is_told_as_it_would_be_written():
    answer = answering(touched_chunks=lambda shape, chunk, selection: [])
    selection = ((None, -1, None), 3, (1, 9, 2))
    (name,) = chunks.touched_chunks(answer, (9, 9, 9), (2, 2, 2), selection)
    assert name == "x[:-1, 3, 1:9:2] of shape (9, 9, 9) in chunks of (2, 2, 2)"


# -- choose-shape


def weighed(chunk_shape, *given):
    return chunks.weighed_shape(chunks.chosen_shape(answering(chunk_shape=chunk_shape), *given), *given)


def worst_bytes(shape, chunk, box, itemsize):
    """The most any placement of the box decodes: every placement is tried, axis by axis."""
    total = itemsize
    for n, c, b in zip(shape, chunk, box):
        total *= c * max(len({i // c for i in range(start, start + b)}) for start in range(n - b + 1))
    return total


@pytest.mark.parametrize("index", range(len(CHOOSE.cases)), ids=lambda i: f"case{i}")
def test_any_shape_within_the_budgets_is_right_and_any_other_is_not(index):
    data, reads, most_chunks = inputs_for(CHOOSE)[index]
    rng = np.random.default_rng(index)
    within = CHOOSE.reference(data.shape, data.itemsize, reads, most_chunks)
    wanted = weighed(CHOOSE.reference, data, reads, most_chunks)
    right = 0
    tried = [tuple(int(rng.integers(max(1, w // 2), min(n, 2 * w) + 1)) for n, w in zip(data.shape, within))]
    tried += [tuple(int(rng.integers(1, n + 1)) for n in data.shape) for _ in range(15)] + [within]
    for shape in tried:
        seen = weighed(lambda *given, s=shape: s, data, reads, most_chunks)
        count = int(np.prod([-(-n // c) for n, c in zip(data.shape, shape)]))
        fits = count <= most_chunks and all(
            worst_bytes(data.shape, shape, box, data.itemsize) <= most for box, most in reads
        )
        assert (seen.facts == wanted.facts) == fits, shape
        assert all(np.array_equal(seen.value[key], wanted.value[key]) for key in wanted.value)
        right += fits
    assert right


@pytest.mark.parametrize("shape", [(0, 4, 4), (97, 4, 4), (4, 4), 7, None, "abc", (1.5, None, 2)])
def test_what_is_no_chunk_shape_gets_a_sentence(shape):
    data, reads, most_chunks = inputs_for(CHOOSE)[0]
    with pytest.raises(Unusable) as caught:
        weighed(lambda *given: shape, data, reads, most_chunks)
    assert "chunk" in str(caught.value)
    with pytest.raises(Unusable):  # whoever hands a shape over may hand over anything
        chunks.weighed_shape(shape, data, reads, most_chunks)


# -- cache


def test_chunk_reads_are_counted_as_hdf5_makes_them():
    table, chunk, rows = inputs_for(READ_ROWS)[1]
    seen = chunks.read_rows(answering(read_rows=_rows(2**23)), table, chunk, rows)
    again = chunks.read_rows(answering(read_rows=_rows(0)), table, chunk, rows)
    assert (seen.notes["chunks read"], again.notes["chunks read"]) == (2, 2 * len(rows))
    assert seen.facts["how often a chunk was read"] == "once at most"
    assert again.facts["how often a chunk was read"] == "again and again"


def _rows(cache_bytes):
    def read_rows(file, rows):
        with h5py.File(file, "r", rdcc_nbytes=cache_bytes) as opened:
            readings = opened["readings"]
            return np.stack([readings[row] for row in rows])

    return read_rows


def test_a_file_that_the_answer_leaves_open_is_closed_and_no_other():
    held = io.BytesIO()
    with h5py.File(held, "w") as mine:
        mine["x"] = [1]
        left = []

        def leaves_open(file, rows):
            left.append(h5py.File(file, "r"))
            return left[0]["readings"][:1]

        table, chunk, rows = inputs_for(READ_ROWS)[4]
        chunks.read_rows(answering(read_rows=leaves_open), table, chunk, rows)
        assert not left[0]
        assert mine["x"][0] == 1


@pytest.mark.parametrize("mode", ["r", "r+", "a"])
def test_rows_may_be_read_from_a_file_opened_in_any_mode(mode):
    """HDF5 writes to a file that it closes; a file object that refuses ends the process later."""

    def read_rows(file, rows):
        with h5py.File(file, mode, rdcc_nbytes=2**23) as opened:
            readings = opened["readings"]
            return np.stack([readings[row] for row in rows])

    table, chunk, rows = inputs_for(READ_ROWS)[0]
    seen = chunks.read_rows(answering(read_rows=read_rows), table, chunk, rows)
    assert np.array_equal(seen.value, table[rows])
    assert seen.facts["how often a chunk was read"] == "once at most"


def test_an_error_from_inside_h5py_is_told_with_the_answers_line():
    def on_two_axes(stored, limit):
        stored[0, np.zeros((5, 6), bool)] = limit

    exercise = catalog.find_exercise("chunks/write-back")
    subject = Subject(exercise.names, {"cap_peaks": on_two_axes}, None, exercise.setup)
    verdict = verdict_on(exercise, subject)
    assert "Your line `stored[0, np.zeros((5, 6), bool)] = limit` raised TypeError" in verdict.why


def test_a_file_closed_by_the_answer_gets_a_sentence():
    answer = answering(cap_peaks=lambda stored, limit: stored.file.close())
    with pytest.raises(Unusable, match="closes the file"):
        chunks.write_back(answer, np.ones((2, 3, 4)), 0.5)


def test_the_cache_exercise_is_about_its_chunks_and_keeps_its_promises():
    """The task names the largest chunk and the most that a list needs."""
    for table, chunk, rows in inputs_for(READ_ROWS):
        assert chunk[0] * chunk[1] * table.itemsize <= 65_536
        assert touched(table.shape, chunk, (sorted(set(rows)),)).count <= 16


def test_one_file_object_can_be_opened_twice():
    """An answer may look at the chunks first, and open the file again with a cache that fits them."""
    made = io.BytesIO()
    with h5py.File(made, "w") as file:
        file["x"] = [1, 2]
    counted = CountingFile(made)
    for _ in range(2):
        with h5py.File(counted, "r") as file:
            assert file["x"][1] == 2
