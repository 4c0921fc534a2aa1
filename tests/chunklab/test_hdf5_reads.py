"""HDF5: arithmetic, the counting file, HDF5's own account of its chunks, and what the kernel saw."""

import gc
import pickle
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shapes import arrays, block, reads

from labsupport.chunklab import ChunkCache, CountingFile, count, count_loop, kernel_count, open_source, parse, touched
from labsupport.chunklab.kernel import available
from labsupport.chunklab.sieve import runs, sieved
from labsupport.errors import LabError, UsageError

QUICK = settings(max_examples=40, deadline=None)
on_linux = pytest.mark.skipif(not available(), reason="this system does not count the reads of a process")


@pytest.fixture(scope="module")
def place():
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def written(path, shape, chunks, compression="gzip"):
    """Write `x` in chunks and `y` in one piece, of the same values; return the path."""
    data = np.arange(np.prod(shape), dtype="int32").reshape(shape)
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=data, chunks=chunks, compression=compression)
        file.create_dataset("y", data=data)
    return path


@QUICK
@given(case=reads(lists=1), compression=st.sampled_from(["gzip", "lzf", None]))
def test_chunks_are_those_hdf5_tells_of(place, case, compression):
    shape, chunks, _, selection = case
    path = written(place / "a.h5", shape, chunks, compression)
    seen = touched(shape, chunks, selection, itemsize=4)
    with open_source(path, "x") as source:
        found = count(source, selection)
        infos = [source.array.id.get_chunk_info(at) for at in range(source.array.id.get_num_chunks())]
    sizes = {tuple(o // c for o, c in zip(info.chunk_offset, chunks)): info.size for info in infos}
    assert found.decoded == found.reads == seen.count
    assert found.bytes == sum(sizes[at] for at in seen.indices())
    assert found.missing == 0
    assert found.as_predicted
    assert found.decoded_bytes == seen.decoded_bytes
    with open_source(path, "y") as source:
        found = count(source, selection)
        assert (found.decoded, found.missing) == (0, 0)
        pieces = list(runs(shape, selection, 4))
        assert (found.reads, found.bytes) == (len(pieces), sum(size for _, size in pieces))


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_runs_are_hdf5s_also_where_rows_meet(place, data):
    shape, _, _ = data.draw(arrays(longest=4))  # small, so that the end of one row and the start of the next are wanted
    path = written(place / "t.h5", shape, shape)
    selection = data.draw(block(shape, steps=(1, 2, 3)))
    with CountingFile(path) as counter, h5py.File(counter, "r") as file:
        y = file["y"]
        start = y.id.get_offset()
        counter.reset()
        y[selection]
        assert [(at - start, size) for at, size in counter.log] == list(runs(shape, selection, 4))
        mask = np.isin(np.arange(np.prod(shape)), data.draw(st.lists(st.integers(0, 63)))).reshape(shape)
        if len(shape) > 1 and mask.any():
            counter.reset()
            y[mask]
            assert [(at - start, size) for at, size in counter.log] == list(runs(shape, mask, 4))


@QUICK
@given(data=st.data())
def test_the_cache_is_hdf5s_chunk_for_chunk(place, data):
    shape, chunks, _ = data.draw(arrays())
    size = int(np.prod(chunks)) * 4
    options = {
        "nbytes": data.draw(st.sampled_from([0, size - 1, size, 2 * size, 3 * size + 1, 7 * size, 1 << 20])),
        "nslots": data.draw(st.sampled_from([1, 3, 7, 521])),
        "w0": data.draw(st.sampled_from([0.0, 0.5, 0.75, 1.0])),
    }
    path = written(place / "b.h5", shape, chunks)
    cache = ChunkCache(shape, chunks, itemsize=4, **options)
    with CountingFile(path) as counter, h5py.File(counter, "r", **{f"rdcc_{k}": v for k, v in options.items()}) as file:
        x = file["x"]
        infos = [x.id.get_chunk_info(at) for at in range(x.id.get_num_chunks())]
        chunk_at = {i.byte_offset: tuple(o // c for o, c in zip(i.chunk_offset, chunks)) for i in infos}
        for _ in range(data.draw(st.integers(2, 10))):
            selection = data.draw(block(shape))
            counter.reset()
            x[selection]
            read = [chunk_at[at] for at, _ in counter.log if at in chunk_at]
            expected = cache.read(selection)
            assert list(expected.missed) == read
            assert expected.hits + expected.misses == touched(shape, chunks, selection).count
            if options["w0"] < 1:  # at 1 HDF5 itself goes beyond its bytes, and so does the model
                assert len(cache.kept) * size <= options["nbytes"]


def test_a_cache_that_prefers_what_was_read_completely_outgrows_its_bytes(place):
    """With `rdcc_w0=1` HDF5 2.0 looks for chunks that were read to their end, finds none, and keeps one more."""
    path = written(place / "w.h5", (8,), (2,))
    cache = ChunkCache((8,), (2,), itemsize=4, nbytes=8, w0=1.0)
    with CountingFile(path) as counter, h5py.File(counter, "r", rdcc_nbytes=8, rdcc_w0=1.0) as file:
        x = file["x"]
        x[0], x[2]
        counter.reset()
        assert (x[0], x[2]) == (0, 2)
        assert counter.reads == 0
    cache.read(0), cache.read(2)
    assert cache.read(0).misses == cache.read(2).misses == 0
    assert len(cache.kept) == 2


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_a_loop_of_reads_takes_what_the_model_says(place, data):
    shape, chunks, _ = data.draw(arrays())
    size = int(np.prod(chunks)) * 4
    with h5py.File(place / "loop.h5", "w") as file:
        packed = data.draw(st.sampled_from(["gzip", None]))
        x = file.create_dataset("x", shape, "i4", chunks=chunks, compression=packed)
        for at in data.draw(st.lists(st.sampled_from(list(np.ndindex(*shape))), max_size=6)):
            x[at] = 1  # the other chunks are never written
    selections = data.draw(st.lists(block(shape), min_size=1, max_size=8))
    nbytes = data.draw(st.sampled_from([0, size, 3 * size, 1 << 20]))
    for keep in (True, False):
        found = count_loop(place / "loop.h5", selections, "x", keep=keep, cache_bytes=nbytes)
        assert found.as_predicted
        assert found.loops == len(selections)
        assert found.hits >= 0
        if not keep or nbytes < size:
            assert found.hits == 0


def test_a_loop_is_told(place):
    path = written(place / "loops.h5", (100, 400), (100, 100))
    kept, lost = count_loop(path, range(100), "x"), count_loop(path, range(100), "x", keep=False)
    assert (kept.decoded, kept.hits, lost.decoded, lost.hits) == (4, 396, 400, 0)
    assert "4 chunks decoded" in str(kept)
    assert "a new handle for each read" in lost._repr_html_()
    with pytest.raises(UsageError, match="has no chunks"):
        count_loop(path, range(3), "y")
    with pytest.raises(UsageError, match="nothing to read"):
        count_loop(path, [], "x")


def test_the_cache_dies_with_the_handle(place):
    path = written(place / "c.h5", (40, 40), (10, 10))
    with open_source(path, "x") as source:
        file, counter = source.array.file, source.counter
        kept, first = file["x"], ChunkCache((40, 40), (10, 10), itemsize=4)
        counter.reset()
        for row in range(10):
            kept[row]
        again = sum(first.read(row).misses for row in range(10))
        assert sum(1 for _, size in counter.log if size < 600) == again == 4
        counter.reset()
        source.array = kept = None
        for row in range(10):
            file["x"][row]  # a new handle each time
            gc.collect()
        assert sum(1 for at, size in counter.log if size < 600) == 40


def test_a_row_loop_against_the_cache_that_is_too_small(place):
    path = written(place / "d.h5", (100, 4000), (100, 1000))
    for nbytes, reads_ in ((0, 400), (399_999, 400), (400_000 * 3, 400), (400_000 * 4, 4), (8 << 20, 4)):
        cache = ChunkCache((100, 4000), (100, 1000), itemsize=4, nbytes=nbytes)
        assert sum(cache.read(row).misses for row in range(100)) == reads_
        with open_source(path, "x", cache_bytes=nbytes) as source:
            source.array[0, 0]
        with CountingFile(path) as counter, h5py.File(counter, "r", rdcc_nbytes=nbytes) as file:
            x = file["x"]
            places = {x.id.get_chunk_info(at).byte_offset for at in range(4)}
            counter.reset()
            for row in range(100):
                x[row]
            assert sum(at in places for at, _ in counter.log) == reads_


def test_chunks_never_written(place):
    with h5py.File(place / "e.h5", "w") as file:
        file.create_dataset("x", (30, 30), "f4", chunks=(10, 10), compression="gzip")[12, 12] = 1
    found = count(place / "e.h5", ...)
    assert (found.decoded, found.missing, found.reads) == (1, 8, 1)
    assert "8 chunks never written" in str(found)


def test_data_that_are_not_read_from_this_file(place):
    with h5py.File(place / "odd.h5", "w") as file:
        file.create_dataset("never", (10, 10), "f4")
        options = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        options.set_layout(h5py.h5d.COMPACT)
        space = h5py.h5s.create_simple((4,))
        h5py.h5d.create(file.id, b"compact", h5py.h5t.NATIVE_INT32, space, dcpl=options)
        file.create_dataset("outside", (4,), "i4", external=[(str(place / "raw.bin"), 0, h5py.h5f.UNLIMITED)])
        layout = h5py.VirtualLayout((4,), "i4")
        layout[:] = h5py.VirtualSource(file["compact"])
        file.create_virtual_dataset("virtual", layout)
    never, compact = count(place / "odd.h5", ..., "never"), count(place / "odd.h5", 2, "compact")
    assert never.reads == never.bytes == compact.reads == 0
    assert "were never written" in str(never)
    assert "lie in the header" in str(compact)
    for name in ("outside", "virtual"):
        with pytest.raises(UsageError, match="lie in other files"):
            count(place / "odd.h5", 1, name)


def test_both_numbers_of_a_contiguous_dataset_are_told(place):
    data = np.arange(1_000_000, dtype="int32").reshape(1000, 1000)
    with h5py.File(place / "f.h5", "w") as file:
        file["y"] = data
    row, column = count(place / "f.h5", 3), count(place / "f.h5", (slice(None), 3))
    assert (row.reads, row.bytes, row.driver_reads, row.driver_bytes) == (1, 4000, 1, 65536)
    assert (column.reads, column.bytes, column.driver_reads) == (1000, 4000, 59)
    assert "by HDF5's default driver" in str(column)
    assert sieved([(0, 10), (5, 5), (100, 10)], 105, sieve_bytes=64) == (2, 69)


@on_linux
@pytest.mark.parametrize("text", [":, 3", "100:900:7, 20:60", "5:9, [1, 500, 999]"])
def test_the_kernel_saw_the_same(place, text):
    data = np.arange(1_000_000, dtype="int32").reshape(1000, 1000)
    path = place / "g.h5"
    if not path.exists():
        with h5py.File(path, "w") as file:
            file.create_dataset("chunked", data=data, chunks=(100, 90), compression="gzip")
            file["plain"] = data
    for name in ("chunked", "plain"):
        found = count(path, parse(text), name)
        seen = kernel_count(path, parse(text), name)
        assert (seen.reads, seen.bytes) == (found.driver_reads, found.driver_bytes), name


@on_linux
def test_what_the_kernel_cannot_be_asked(place):
    path = written(place / "r.h5", (20, 20), (5, 5))
    rows = list(range(0, 20, 2))  # more than a report shows
    assert kernel_count(path, (rows,), "x").reads == count(path, (rows,), "x").driver_reads
    with pytest.raises(UsageError, match="is not a selection"):
        kernel_count(path, np.ones((20, 20), bool), "x")
    with pytest.raises(LabError, match="in a process of its own"):
        kernel_count(path, 3, "z")


def test_counts_repeated_under_load_are_the_same(place):
    path = written(place / "s.h5", (60, 60), (7, 7))
    stop = threading.Event()

    def busy():
        while not stop.is_set():
            sum(range(2000))

    threads = [threading.Thread(target=busy) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        chunked = {str(count(path, (slice(3, 50, 2), 8), "x")) for _ in range(5)}
        plain = {str(count(path, (slice(3, 50, 2), 8), "y")) for _ in range(5)}
        loops = {str(count_loop(path, range(20), "x", cache_bytes=2000)) for _ in range(5)}
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert len(chunked) == len(plain) == len(loops) == 1


@on_linux
def test_the_kernel_saw_every_whole_chunk_of_a_zarr_store(place):
    import zarr

    path = place / "h.zarr"
    array = zarr.create_array(path, shape=(100, 100), chunks=(10, 30), dtype="int32")
    array[:] = np.arange(10_000).reshape(100, 100)
    found, seen = count(path, (slice(5, 25), 7)), kernel_count(path, (slice(5, 25), 7))
    assert seen.bytes == found.bytes
    assert seen.reads == 2 * found.reads  # Python asks each file once more, to learn that it has ended


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_strace_saw_the_same(place):
    path = written(place / "i.h5", (200, 200), (50, 20))
    found = count(path, 3, "x")
    code = (
        f"import h5py, os; f = h5py.File({str(path)!r}); x = f['x']; x.shape\n"
        "os.write(2, b'BEGIN'); x[3]; os.write(2, b'ENDED')"
    )
    log = place / "trace"
    command = ["strace", "-o", str(log), "-e", "trace=pread64,write", sys.executable, "-c", code]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        pytest.skip(f"strace may not trace here: {ran.stderr.strip()[-200:]}")
    between = log.read_text(encoding="utf-8").split("BEGIN")[1].split("ENDED")[0]
    sizes = [int(line.rpartition("= ")[2]) for line in between.splitlines() if line.startswith("pread64")]
    assert (len(sizes), sum(sizes)) == (found.driver_reads, found.driver_bytes)


def test_a_large_unfiltered_chunk_is_not_read_whole(place):
    """Larger than the cache and not filtered: HDF5 takes the wanted bytes out of the chunk; with a filter it cannot."""
    path = written(place / "j.h5", (40, 100), (40, 50), compression=None)
    found = count(path, 3, "x", cache_bytes=0)
    assert (found.decoded, found.reads, found.bytes, found.decoded_bytes) == (2, 2, 400, 400)
    kept = count(path, 3, "x")
    assert (kept.reads, kept.bytes) == (2, 16_000)
    packed = written(place / "k.h5", (40, 100), (40, 50))
    assert count(packed, 3, "x", cache_bytes=0).decoded_bytes == 16_000


def test_over_fsspec_the_same(place):
    path = written(place / "l.h5", (40, 40), (10, 10))
    here, there = count(path, 3, "x"), count(path.as_uri(), 3, "x")
    assert (here.reads, here.bytes, here.index_bytes) == (there.reads, there.bytes, there.index_bytes)


def test_names_and_what_cannot_be_opened(place):
    path = written(place / "m.h5", (4,), (2,))
    with pytest.raises(UsageError, match="holds 2 arrays"):
        open_source(path)
    with pytest.raises(UsageError, match="holds no array 'z'"):
        open_source(path, "z")
    for nothing in ("nothing.h5", "nothing.zarr"):
        with pytest.raises(LabError, match=nothing):
            open_source(place / nothing)
    (place / "text.h5").write_text("hello", encoding="utf-8")
    with pytest.raises(LabError, match=r"text\.h5"):
        open_source(place / "text.h5")
    h5py.File(place / "empty.h5", "w").close()
    with pytest.raises(UsageError, match="holds no array"):
        open_source(place / "empty.h5")


def test_a_selection_h5py_cannot_read_is_told(place):
    path = written(place / "n.h5", (8, 8), (2, 2))
    with pytest.raises(UsageError, match=r"h5py cannot read \[\[3, 1\]\]"):
        count(path, ([3, 1],), "x")
    with pytest.raises(UsageError, match="no pointwise indexing"):
        count(path, ([3], [1]), "x", indexing="points")


def test_a_damaged_chunk_is_told(place):
    path = written(place / "q.h5", (20, 20), (10, 10))
    with h5py.File(path) as file:
        info = file["x"].id.get_chunk_info(1)
    raw = bytearray(path.read_bytes())
    raw[info.byte_offset : info.byte_offset + info.size] = bytes(info.size)
    path.write_bytes(raw)
    with pytest.raises(LabError, match="a chunk of 'x'") as caught:
        count(path, 3, "x")
    assert "[0:10, 10:20]" in caught.value.why
    assert count(path, 15, "x").decoded == 2  # the others are read


def test_a_counting_file_closes_what_it_opened_and_nothing_else(place):
    path = written(place / "o.h5", (4,), (2,))
    with path.open("rb") as own:
        with CountingFile(own) as counter:
            assert counter.read(8) == b"\x89HDF\r\n\x1a\n"
            assert (counter.reads, counter.bytes, counter.log) == (1, 8, ((0, 8),))
            counter.reset()
            assert counter.reads == 0
        assert not own.closed
    counter = CountingFile(path)
    counter.close()
    assert counter._file.closed
    with pytest.raises(TypeError, match="cannot be sent"):
        pickle.dumps(CountingFile(path))


def test_a_source_closes_the_file_before_its_counter(place):
    path = written(place / "p.h5", (4,), (2,))
    source = open_source(path, "x")
    file, counter = source.array.file, source.counter
    source.close()
    assert not file
    assert counter.closed
    source.close()  # once more does nothing
