"""Zarr: what arithmetic says, what the counting store saw and what the codec decoded are one number."""

import threading
import warnings

import fsspec
import numpy as np
import pytest
import zarr
from decoders import DECODED, V2, V3
from hypothesis import given, settings
from hypothesis import strategies as st
from shapes import reads

from labsupport.chunklab import CountingStore, Source, count, counting, layout_of, open_source, touched
from labsupport.chunklab.stores import Request, is_metadata
from labsupport.errors import UsageError

pytestmark = pytest.mark.filterwarnings("ignore")
QUICK = settings(max_examples=60, deadline=None)


def made(shape, chunks, shards=None, zarr_format=3, store=None, fill=1, **more):
    """Return a `Source` over a new array, every element other than the fill value."""
    store = CountingStore(zarr.storage.MemoryStore() if store is None else store)
    codec = V2() if zarr_format == 2 else V3()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        array = zarr.create_array(
            store, shape=shape, chunks=chunks, shards=shards, dtype="int32", compressors=[codec],
            zarr_format=zarr_format, **more,
        )  # fmt: skip
        array[...] = np.arange(np.prod(shape)).reshape(shape) + fill
        return Source("Zarr", "made", "", zarr.open_array(store, mode="r"), store)


@QUICK
@given(case=reads(lists=1), zarr_format=st.sampled_from([2, 3]))
def test_chunks_of_v2_and_v3(case, zarr_format):
    shape, chunks, _, selection = case
    source = made(shape, chunks, zarr_format=zarr_format)
    DECODED.taken()
    found = count(source, selection)
    seen = touched(shape, chunks, selection, itemsize=4)
    assert DECODED.taken() == found.decoded == found.reads == found.files == seen.count
    assert found.bytes == found.decoded_bytes == seen.decoded_bytes  # stored plainly: as many bytes as decoded
    assert found.missing == found.index_reads == 0
    assert found.as_predicted


@QUICK
@given(case=reads(sharded=True, lists=1), where=st.sampled_from(["start", "end"]))
def test_chunks_in_shards(case, where):
    shape, chunks, shards, selection = case
    store = CountingStore(zarr.storage.MemoryStore())
    codec = zarr.codecs.ShardingCodec(chunk_shape=chunks, codecs=[zarr.codecs.BytesCodec(), V3()], index_location=where)
    array = zarr.create_array(store, shape=shape, chunks=shards, dtype="int32", serializer=codec, compressors=None)
    array[...] = np.arange(np.prod(shape)).reshape(shape) + 1
    source = Source("Zarr", "made", "", zarr.open_array(store, mode="r"), store)
    assert layout_of(source.array).shards == shards
    DECODED.taken()
    found = count(source, selection)
    seen = touched(shape, chunks, selection, itemsize=4, shards=shards)
    assert DECODED.taken() == found.decoded == seen.count
    assert found.files == seen.files
    assert found.index_reads == seen.index_reads
    assert found.index_bytes == seen.index_reads * (16 * seen.chunks_per_shard + 4)
    assert found.missing == 0
    if not hasattr(store, "get_ranges"):  # newer zarr merges the requests for one shard
        whole = seen.whole_shards * seen.chunks_per_shard
        assert found.reads == seen.whole_shards + seen.count - whole
        in_whole = seen.whole_shards * (seen.chunks_per_shard * (seen.chunk_bytes + 16) + 4)
        assert found.bytes == in_whole + (seen.count - whole) * seen.chunk_bytes


@QUICK
@given(data=st.data())
def test_points(data):
    shape, chunks, shards, _ = data.draw(reads(sharded=data.draw(st.booleans())))
    n = data.draw(st.integers(1, 5))
    lists = tuple(data.draw(st.lists(st.integers(0, k - 1), min_size=n, max_size=n)) for k in shape)
    source = made(shape, chunks, shards)
    DECODED.taken()
    found = count(source, lists, indexing="points")
    assert DECODED.taken() == found.decoded == found.touched.count
    assert found.files == found.touched.files


@QUICK
@given(case=reads(lists=1), sharded=st.booleans(), data=st.data())
def test_chunks_never_written_are_told_apart(case, sharded, data):
    shape, chunks, _, selection = case
    shards = tuple(2 * c for c in chunks) if sharded else None
    store = CountingStore(zarr.storage.MemoryStore())
    array = zarr.create_array(store, shape=shape, chunks=chunks, shards=shards, dtype="int32")
    seen = touched(shape, chunks, selection)
    every = list(np.ndindex(*seen.grid))
    written = set(data.draw(st.lists(st.sampled_from(every), max_size=5)))
    for at in written:
        array[tuple(slice(i * c, (i + 1) * c) for i, c in zip(at, chunks))] = 1
    found = count(Source("Zarr", "made", "", zarr.open_array(store, mode="r"), store), selection)
    assert found.decoded == len(written & set(seen.indices()))
    assert found.decoded + found.missing == seen.count


def test_a_count_repeated_under_load_is_the_same():
    source = made((60, 60), (7, 7), (21, 21))
    stop = threading.Event()

    def busy():
        while not stop.is_set():
            sum(range(2000))

    threads = [threading.Thread(target=busy) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        found = {str(count(source, (slice(3, 50, 2), [1, 8, 59]))) for _ in range(5)}
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert len(found) == 1


def test_counts_by_kind_and_what_was_asked():
    store = CountingStore(zarr.storage.MemoryStore())
    array = zarr.create_array(store, shape=(8,), chunks=(2,), dtype="uint8", compressors=None)
    array[:4] = 7
    assert store.counts["set_chunk_n"] == 2
    assert store.counts["set_chunk_bytes"] == 4
    store.reset()
    assert zarr.open_array(store, mode="r")[:].tolist() == [7, 7, 7, 7, 0, 0, 0, 0]
    assert store.counts["get_meta_n"] == 1
    assert (store.counts["get_chunk_n"], store.counts["get_chunk_bytes"], store.counts["keys"]) == (2, 4, 2)
    assert store.counts["miss_chunk"] == 2
    assert Request("get", "c/0", None, None, 2) in store.requests
    store.reset()
    assert not store.requests
    assert not store.counts
    assert store.peek("c/0") == b"\x07\x07"
    assert store.peek("c/9") is None
    assert not store.requests  # looking is not counted


def test_views_count_into_the_same_numbers():
    store = CountingStore(zarr.storage.MemoryStore())
    zarr.create_array(store, shape=(4,), chunks=(2,), dtype="uint8")[:] = 1
    view = store.with_read_only(True)
    assert view.read_only
    assert view == store.with_read_only(True)
    store.reset()
    zarr.open_array(view, mode="r")[:2]
    assert store.counts["get_chunk_n"] == 1
    with pytest.raises(ValueError, match="read-only"):
        zarr.open_array(view, mode="r+")


def test_every_way_zarr_reads_is_counted():
    from zarr.abc.store import RangeByteRequest, SuffixByteRequest
    from zarr.core.buffer import default_buffer_prototype
    from zarr.core.sync import sync

    store = CountingStore(zarr.storage.MemoryStore())
    sync(store.set("c/0", default_buffer_prototype().buffer.from_bytes(bytes(range(100)))))
    store.reset()
    prototype = default_buffer_prototype()
    parts = [("c/0", RangeByteRequest(0, 10)), ("c/0", SuffixByteRequest(5)), ("c/1", None)]
    assert [p and len(p) for p in sync(store.get_partial_values(prototype, parts))] == [10, 5, None]
    assert (store.counts["get_chunk_n"], store.counts["get_chunk_bytes"]) == (2, 15)
    assert store.counts["get_chunk_ranged"] == 2
    assert store.counts["miss_chunk"] == 1
    assert {(r.start, r.stop) for r in store.requests} == {(0, 10), (-5, None), (None, None)}
    if hasattr(store, "get_sync"):
        store.reset()
        assert len(store.get_sync("c/0", byte_range=RangeByteRequest(3, 9))) == 6
        assert store.counts["get_chunk_bytes"] == 6
    sync(store.set_if_not_exists("c/0", default_buffer_prototype().buffer.from_bytes(b"x")))
    sync(store.set_if_not_exists("c/2", default_buffer_prototype().buffer.from_bytes(b"x")))
    assert store.counts["set_chunk_n"] == 1


def test_merged_ranges_are_the_chunks_they_were_asked_for():
    """Newer zarr fetches neighbours in a shard by one request: the call is played here, so that any zarr tests it."""
    source = made((16,), (2,), shards=(16,))
    source.counter.reset()
    tally = source.counter._tally
    tally.asked.append(("c/0", ((0, 8), (8, 16), (32, 40))))
    tally.requests += [Request("get", "c/0", -132, None, 132), Request("get", "c/0", 0, 40, 40)]
    seen = touched((16,), (2,), [0, 2, 8], shards=(16,))
    found = counting._in_zarr(source, layout_of(source.array), seen, [0, 2, 8], "outer")
    assert found == {
        "decoded": 3, "missing": 0, "files": 1, "reads": 1, "bytes": 40, "index_reads": 1, "index_bytes": 132,
    }  # fmt: skip


@pytest.mark.parametrize("consolidated", [False, True])
def test_metadata_are_counted_apart(consolidated):
    store = CountingStore(zarr.storage.MemoryStore())
    group = zarr.create_group(store)
    for at in range(5):
        group.create_array(f"a{at}", shape=(4,), chunks=(2,), dtype="uint8")
    if consolidated:
        zarr.consolidate_metadata(store)
    store.reset()
    members = zarr.open_group(store, mode="r").members()
    assert len(members) == 5
    assert store.counts["get_meta_n"] == (1 if consolidated else 6)
    assert "get_chunk_n" not in store.counts
    assert all(is_metadata(request.key) for request in store.requests)


@pytest.mark.parametrize("kind", ["folder", "zip", "url", "memory url"])
def test_any_store_is_counted_alike(kind, tmp_path):
    places = {
        "folder": str(tmp_path / "a.zarr"),
        "zip": str(tmp_path / "a.zip"),
        "url": (tmp_path / "b.zarr").as_uri(),
        "memory url": f"memory://{tmp_path.name}.zarr",
    }
    where = places[kind]
    if kind == "zip":
        with zarr.storage.ZipStore(where, mode="w") as store:
            zarr.create_array(store, shape=(8, 8), chunks=(4, 4), dtype="uint8", compressors=None)[:] = 1
    else:
        place = tmp_path / "b.zarr" if kind == "url" else where
        zarr.create_array(place, shape=(8, 8), chunks=(4, 4), dtype="uint8", compressors=None)[:] = 1
    with open_source(where) as source:
        found = count(source, (slice(2, 6), 0))
        assert (found.decoded, found.reads, found.bytes, found.files) == (2, 2, 32, 2)
        assert "chunks (4, 4)" in str(found)
    if kind == "memory url":
        fsspec.filesystem("memory").rm(f"/{tmp_path.name}.zarr", recursive=True)


def test_a_selection_zarr_cannot_read_is_told():
    source = made((8,), (2,))
    with pytest.raises(UsageError, match=r"zarr cannot read \[::-1\]"):
        count(source, slice(None, None, -1))
    with pytest.raises(UsageError, match="out of range"):
        count(source, 8)


def test_the_report_says_the_same_as_text_and_as_html():
    found = count(made((20, 20), (5, 5), (10, 10)), (3,))
    assert "4 of 16 chunks" in str(found)
    assert "2 reads, 136 bytes: shard indexes" in str(found)
    for phrase in ("4 of 16 chunks", "2 reads, 136 bytes: shard indexes", "4 chunks read in"):
        assert phrase in found._repr_html_()
