"""Zarr stores that are damaged, newer, incomplete or out of step with their metadata: each is told in a sentence."""

import json
import shutil
import warnings

import h5py
import numpy as np
import pytest
import zarr
from broken import VALUES, told, write_store

from labsupport.chunklab.opening import explained, open_array, unwritten
from labsupport.errors import LabError


@pytest.fixture
def store(tmp_path):
    return write_store(tmp_path / "days.zarr")


# -- Zarr, damaged


def test_what_is_no_store(tmp_path, store):
    (tmp_path / "empty").mkdir()
    assert "it is empty" in told(tmp_path / "empty").why
    (tmp_path / "empty" / "notes.txt").write_text("x", encoding="utf-8")
    assert "'notes.txt'" in told(tmp_path / "empty").why
    assert "'days.zarr'" in told(tmp_path).next_step  # a folder that holds the store
    (tmp_path / "file.zarr").write_text("x", encoding="utf-8")
    assert "a Zarr store is a folder" in told(tmp_path / "file.zarr").why
    (tmp_path / "days.zip").write_bytes(b"PK\x03\x04 no more")
    assert "no ZIP file" in told(tmp_path / "days.zip").what


@pytest.mark.parametrize(("zarr_format", "document"), [(3, "zarr.json"), (2, ".zarray")])
def test_chunks_without_metadata_and_metadata_without_chunks(tmp_path, zarr_format, document):
    path = tmp_path / "x.zarr"
    zarr.create_array(path, data=VALUES, chunks=(10, 10), zarr_format=zarr_format)
    hidden = (path / document).rename(tmp_path / "hidden")
    error = told(path)
    assert "chunks and no metadata" in error.what
    hidden.rename(path / document)
    for chunk in [p for p in path.rglob("*") if p.is_file() and not p.name.startswith((".z", "zarr"))]:
        chunk.unlink()
    with open_array(path) as array:  # no error: that is what the format says
        assert (array[...] == 0).all()
        assert "16 of 16 chunks not stored" in unwritten(array)


def test_metadata_of_an_array_inside_are_lost(store):
    (store / "x" / "zarr.json").unlink()
    assert "chunks and no metadata" in told(store, "x").what


def with_metadata(store, **changes):
    document = store / "x" / "zarr.json"
    meta = json.loads(document.read_text(encoding="utf-8")) | changes
    document.write_text(json.dumps({k: v for k, v in meta.items() if v is not None}), encoding="utf-8")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"zarr_format": 4}, "of Zarr format 4"),
        ({"zarr_format": None}, "does not say its format"),
        ({"node_type": "table"}, "of node type 'table'"),
        ({"codecs": [{"name": "pcodec9", "configuration": {}}]}, "pcodec9"),
        ({"data_type": "posit32"}, "posit32"),
        ({"chunk_grid": {"name": "hexagonal", "configuration": {}}}, "hexagonal"),
        ({"storage_transformers": [{"name": "mirror"}]}, "mirror"),
        ({"compass": {"must_understand": True}}, "compass"),
        ({"shape": None}, "shape"),
        ({"fill_value": "abc"}, "abc"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
@pytest.mark.parametrize("direct", [True, False])
def test_metadata_from_the_future_or_from_nowhere(store, changes, words, direct):
    with_metadata(store, **changes)
    error = told(store / "x") if direct else told(store, "x")
    assert words in str(error)
    assert "x" in error.what


@pytest.mark.parametrize(
    ("text", "words"), [("", "0 bytes"), ('{"zarr_format": 3, "sha', "cut off"), ("[1, 2]", "no Zarr metadata")]
)
@pytest.mark.parametrize("direct", [True, False])
def test_metadata_cut_off(store, text, words, direct):
    (store / "x" / "zarr.json").write_text(text, encoding="utf-8")
    error = told(store / "x") if direct else told(store, "x")
    assert words in error.what
    (store / "zarr.json").write_text(text, encoding="utf-8")
    assert words in told(store).what


@pytest.mark.parametrize(("made", "asked"), [(2, 3), (3, 2)])
def test_one_format_asked_for_as_the_other(tmp_path, made, asked):
    zarr.create_array(tmp_path / "x.zarr", data=VALUES, chunks=(10, 10), zarr_format=made)
    error = told(tmp_path / "x.zarr", zarr_format=asked)
    assert f"of Zarr format {made}" in error.what
    assert "leave `zarr_format` out" in error.next_step
    with open_array(tmp_path / "x.zarr", zarr_format=made) as array:
        assert array.metadata.zarr_format == made


@pytest.mark.parametrize("content", [b"", b"\x28\xb5\x2f\xfd", bytes(range(256))], ids=["empty", "cut", "noise"])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_damaged_chunk_of_a_store(tmp_path, content, zarr_format):
    path = tmp_path / "x.zarr"
    zarr.create_array(path, data=VALUES, chunks=(10, 10), zarr_format=zarr_format)
    (path / {2: "1.2", 3: "c/1/2"}[zarr_format]).write_bytes(content)
    error = told(path)
    assert "a chunk of" in error.what
    assert "[10:20, 20:30]" in error.why
    assert "1 of 16 chunks" in error.next_step


@pytest.mark.parametrize("kept", [10, -30])
def test_a_shard_cut_off(tmp_path, kept):
    path = tmp_path / "x.zarr"
    zarr.create_array(path, data=VALUES, chunks=(10, 10), shards=(20, 20))
    shard = path / "c" / "0" / "1"
    shard.write_bytes(shard.read_bytes()[:kept])
    error = told(path)
    assert "[0:10, 20:30]" in error.why
    assert "4 of 16 chunks" in error.next_step


# -- what reads without an error


def consolidate(store):
    with warnings.catch_warnings():  # that other implementations may not know them
        warnings.simplefilter("ignore")
        zarr.consolidate_metadata(store)


def test_an_array_that_consolidated_metadata_still_list(store):
    consolidate(store)
    shutil.rmtree(store / "x")
    assert (zarr.open(store, mode="r")["x"][...] == 0).all()  # zarr itself reads zeros
    assert "is gone" in told(store, "x").what
    assert "is gone" in told(store).what


def test_an_array_that_consolidated_metadata_do_not_know(store):
    consolidate(store)
    zarr.open_group(store, mode="a", use_consolidated=False).create_array("late", shape=(3,), dtype="int32")
    with open_array(store, "late") as array:  # opened by its own metadata
        assert array.shape == (3,)
    with pytest.raises(KeyError) as caught:
        zarr.open(store, mode="r")["late"]
    error = explained(store, caught.value, "late")
    assert "not in the consolidated metadata" in error.what
    assert "use_consolidated=False" in error.next_step


def test_an_array_outlives_the_metadata_of_its_group(store):
    (store / "zarr.json").write_text("", encoding="utf-8")
    with open_array(store, "x") as array:
        assert (array[...] == VALUES).all()
    assert "0 bytes" in told(store).what


def test_an_empty_shard_reads_as_fill_values_and_is_noticed(tmp_path):
    array = zarr.create_array(tmp_path / "x.zarr", data=VALUES, chunks=(10, 10), shards=(20, 20))
    assert unwritten(array) == ""
    (tmp_path / "x.zarr" / "c" / "1" / "0").write_bytes(b"")
    assert (array[20:, :20] == 0).all()  # zarr itself reads zeros
    assert unwritten(array).startswith("1 of 4 shards stored with 0 bytes")


@pytest.mark.parametrize("shards", [None, (20, 20)], ids=str)
def test_chunks_that_are_not_stored_are_counted(tmp_path, shards):
    array = zarr.create_array(
        tmp_path / "x.zarr", shape=(40, 35), chunks=(10, 10), shards=shards, dtype="float32", fill_value=-1
    )
    noun, total = ("shards", 4) if shards else ("chunks", 16)
    assert unwritten(array).startswith(f"{total} of {total} {noun} not stored: they read as the fill value -1")
    array[:10, :10] = 5
    assert unwritten(array).startswith(f"{total - 1} of {total} {noun}")
    array[...] = 5
    assert unwritten(array) == ""


def test_chunks_that_are_not_stored_in_hdf5(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        array = file.create_dataset("x", shape=(40, 35), chunks=(10, 10), dtype="float32", fillvalue=-1)
        assert unwritten(array).startswith("16 of 16 chunks not stored")
        array[:10, :10] = 5
        assert unwritten(array).startswith("15 of 16 chunks")
        array[...] = 5
        assert unwritten(array) == ""
        assert unwritten(file.create_dataset("plain", data=VALUES)) == ""


# -- damage at random


def told_or_read(where, name=None):
    """Open and read; whatever a library raises must have become a sentence."""
    try:
        with open_array(where, name) as array:
            array[...]
            unwritten(array)
    except LabError as error:
        assert error.what


@pytest.mark.parametrize("seed", range(3))
def test_a_store_damaged_anywhere(store, seed):
    rng = np.random.default_rng(seed)
    zarr.open_group(store, mode="a").create_array("y", data=VALUES, chunks=(10, 10), shards=(20, 20))
    files = sorted(path for path in store.rglob("*") if path.is_file())
    for round_ in range(12):
        path = files[rng.integers(len(files))]
        whole = path.read_bytes()
        damaged = bytearray(whole)
        for at in rng.integers(0, len(whole), 2):
            damaged[at] = rng.integers(256)
        path.write_bytes(damaged if round_ % 2 else whole[: rng.integers(len(whole))])
        for name in ("x", "y"):
            told_or_read(store, name)
        path.write_bytes(whole)
