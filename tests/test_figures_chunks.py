"""The chunk map's numbers are those that instrumented stores count; its model, words and sources."""

import numpy as np
import pytest
from chunkmaps import STACK, random_map

from labsupport.chunklab.grid import touched
from labsupport.errors import LabError
from labsupport.figures import chunks
from labsupport.figures.chunk_model import chunk_model, hits, touched_in
from labsupport.figures.chunk_words import times

h5py = pytest.importorskip("h5py")
zarr = pytest.importorskip("zarr")

from labsupport.chunklab import CountingFile, CountingStore  # noqa: E402

SEEDS = range(6)
CACHE = {"rdcc_w0": 0.75}


def slices(box):
    return tuple(slice(*axis) for axis in box)


def values_of(figure):
    """Return an array without zeros: a chunk of fill values is not stored."""
    return np.random.default_rng(1).integers(1, 100, figure.source["shape"]).astype(figure.source["dtype"])


def random_maps(seed, formats, count=12):
    """Return maps of two layouts whose first is of one of `formats`, everything shown."""
    rng = np.random.default_rng(seed)
    figures = []
    for k in range(count):
        figure = random_map(rng, most=16)
        layouts = [{**figure.state["layouts"][0], "format": formats[k % len(formats)]}, figure.state["layouts"][1]]
        figures.append(figure.set(layouts=layouts, compare=False, predict=False))
    return figures


@pytest.mark.parametrize("seed", SEEDS)
def test_counts_are_those_of_the_grid(seed):
    for figure in random_maps(seed, ["hdf5", "zarr", "sharded"], 40):
        layout, model = figure.state["layouts"][0], figure.model()
        cost, item = model["layouts"][0], figure.source["itemsize"]
        shards = [c * p for c, p in zip(layout["chunks"], layout["per"])] if layout["format"] == "sharded" else None
        seen = touched(figure.source["shape"], layout["chunks"], slices(model["box"]), itemsize=item, shards=shards)
        assert (cost["count"], cost["decoded"], cost["total"]) == (seen.count, seen.decoded_bytes, seen.total)
        assert model["wanted_bytes"] == seen.wanted_bytes
        assert tuple(cost["grid"]) == seen.grid
        if shards:
            assert (cost["shards"], cost["whole"]) == (seen.files, seen.whole_shards)
        inside = sum(
            np.prod([min(c, n - i * c) for i, c, n in zip(at, layout["chunks"], figure.source["shape"])]) * item
            for at in seen.chunks
        )
        assert cost["padding"] == seen.decoded_bytes - inside


@pytest.mark.parametrize("seed", SEEDS)
def test_zarr_hands_over_what_the_map_says(seed):
    merged = hasattr(zarr.abc.store.Store, "get_ranges")  # newer zarr joins ranges: fewer requests, bytes in between
    for figure in random_maps(seed, ["zarr", "sharded"]):
        layout, data = figure.state["layouts"][0], values_of(figure)
        store = CountingStore(zarr.storage.MemoryStore())
        shards = (
            tuple(c * p for c, p in zip(layout["chunks"], layout["per"])) if layout["format"] == "sharded" else None
        )
        array = zarr.create_array(store, data=data, chunks=tuple(layout["chunks"]), shards=shards, compressors=None)
        model = figure.model()
        cost = model["layouts"][0]
        store.reset()
        assert (array[slices(model["box"])] == data[slices(model["box"])]).all()
        counts = store.counts
        assert counts["keys"] == (cost["shards"] if shards else cost["count"])
        if not (shards and merged):
            assert counts["get_chunk_n"] == cost["requests"], figure.state
            assert counts["get_chunk_bytes"] == cost["read"]
        assert sum(1 for key in store._store._store_dict if not key.endswith("zarr.json")) + 1 == cost["objects"]
        own = chunks.draw(array, select=slices(model["box"]), image=False)
        assert own.state["layouts"][0] == {**layout, "per": layout["per"] if shards else [1] * len(layout["chunks"])}
        if not shards:
            assert own.model()["layouts"][0]["stored"] == [cost["read"], 0]


def written(path, layout, data):
    """Write `data` in an HDF5 layout; a filter that keeps the size would do, gzip is the one that is always there."""
    more = {"contiguous": {}, "raw": {"chunks": tuple(layout["chunks"])}}
    with h5py.File(path, "w") as file:
        gzip = {"chunks": tuple(layout["chunks"]), "compression": "gzip"}
        file.create_dataset("x", data=data, **more.get(layout["format"], gzip))


def counted_reads(path, figure):
    """Return (reads, bytes, as stored) of each read of the history through one open dataset, metadata read before."""
    state, found = figure.state, []
    kept = {"rdcc_nbytes": state["cache_bytes"] if state["cache"] else 0, "rdcc_nslots": state["cache_slots"], **CACHE}
    with CountingFile(path) as counted, h5py.File(counted, "r", **kept) as file:
        dataset = file["x"]
        # so that the tree of chunk addresses is read, and stays
        dataset.id.get_num_chunks() if dataset.chunks else dataset.shape
        for box in state["history"]:
            counted.reset()
            dataset[slices(box)]
            found.append((counted.reads, counted.bytes))
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_hdf5_reads_what_the_replay_says(seed, tmp_path):
    for k, figure in enumerate(random_maps(seed, ["hdf5", "raw"])):
        layout, data = figure.state["layouts"][0], values_of(figure)
        boxes = [box for _ in range(2) for box in figure.state["history"]]
        figure.set(history=boxes)
        written(tmp_path / f"{k}.h5", layout, data)
        rows = figure.model()["replay"][0]
        direct = figure.model()["layouts"][0]["direct"]
        for (reads, read), (_, missed, _, decoded), box in zip(
            counted_reads(tmp_path / f"{k}.h5", figure), rows, boxes
        ):
            if not direct:
                assert reads == missed, (figure.state, box)
            if layout["format"] == "raw":
                assert read == decoded, (figure.state, box)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_contiguous_dataset_is_read_in_pieces(seed, tmp_path):
    for k, figure in enumerate(random_maps(seed, ["contiguous"], 6)):
        written(tmp_path / f"{k}.h5", figure.state["layouts"][0], values_of(figure))
        model = figure.set(history=[figure.model()["box"]]).model()
        cost = model["layouts"][0]
        assert counted_reads(tmp_path / f"{k}.h5", figure) == [(cost["requests"], cost["read"])]
        assert cost["read"] == model["wanted_bytes"]


def test_the_chunks_of_a_file_are_known_in_their_stored_size(tmp_path):
    data = np.random.default_rng(3).integers(0, 9, (100, 90)).astype("i4")
    with h5py.File(tmp_path / "days.h5", "w") as file:
        part = file.create_dataset("x", (130, 90), "i4", chunks=(40, 40), compression="gzip")
        part[:100] = data
        file.create_dataset("other", data=data)
    select = np.s_[10:90, 30:50]
    figure = chunks.draw(tmp_path / "days.h5", dataset="x", select=select, cache_bytes=0)
    with CountingFile(tmp_path / "days.h5") as counted, h5py.File(counted, "r", rdcc_nbytes=0) as file:
        file["x"][0, 0]
        counted.reset()
        file["x"][select]
        assert figure.model()["layouts"][0]["stored"] == [counted.bytes, 0]
    assert f"In the file these chunks take {counted.bytes:,}" in figure.alt
    figure.select(np.s_[100:130, :])
    assert figure.model()["layouts"][0]["stored"][1] == 3
    assert "3 of them were never written" in figure.alt
    figure.set(layouts=[{"format": "hdf5", "chunks": (40, 41)}, figure.state["layouts"][1]])
    assert figure.model()["layouts"][0]["stored"] is None


def test_a_dataset_brings_its_layout_and_its_cache(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w", rdcc_nbytes=12_345, rdcc_nslots=7) as file:
        some = file.create_dataset("some", (100, 50, 20), "f4", chunks=(10, 50, 3))
        state = chunks.draw(some, other=(1, 50, 20)).state
        assert [layout["format"] for layout in state["layouts"]] == ["raw", "raw"]
        assert state["layouts"][0]["chunks"] == [10, 50, 3]
        assert (state["cache_bytes"], state["cache_slots"], state["compare"]) == (12_345, 7, True)
        flat = file.create_dataset("flat", data=np.zeros((30, 40), "f4"))
        assert chunks.draw(flat).state["layouts"][0]["format"] == "contiguous"
        with pytest.raises(LabError, match="of another shape"):
            chunks.draw(flat, other=some)
        with pytest.raises(LabError, match="holds flat and some"):
            chunks.draw(file)
        named = chunks.draw(file, dataset="flat")
        assert (named.source["shape"], named.source["name"]) == ([30, 40], "flat")


def test_what_counts_reads_is_not_read_for_a_picture(tmp_path):
    data = np.arange(1, 601, dtype="i2").reshape(20, 30)
    written(tmp_path / "x.h5", {"format": "raw", "chunks": [8, 16]}, data)
    with CountingFile(tmp_path / "x.h5") as counted, h5py.File(counted, "r") as file:
        assert chunks.draw(file["x"]).source["images"] == []
        assert len(chunks.draw(file["x"], image=True).source["images"]) == 1
    with h5py.File(tmp_path / "x.h5", "r") as file:
        assert len(chunks.draw(file["x"]).source["images"]) == 1
    store = CountingStore(zarr.storage.MemoryStore())
    array = zarr.create_array(store, data=data, chunks=(8, 16), compressors=None)
    store.reset()
    figure = chunks.draw(array, select=np.s_[0:9])
    assert figure.source["images"] == []
    assert "get_chunk_n" not in store.counts
    assert figure.model()["layouts"][0]["stored"] == [4 * 8 * 16 * 2, 0]  # sizes are asked for, values are not


def test_zarr_of_both_versions_sharded_and_grouped(tmp_path):
    data = np.arange(1, 601, dtype="i2").reshape(20, 30)
    for version in (2, 3):
        array = zarr.create_array(
            tmp_path / f"v{version}", data=data, chunks=(8, 16), zarr_format=version, compressors=None
        )
        figure = chunks.draw(tmp_path / f"v{version}", select=np.s_[:9])
        assert figure.model()["layouts"][0]["stored"] == [4 * 8 * 16 * 2, 0]
        assert figure.source["images"]
        assert chunks.draw(array.store, select=np.s_[:9]).alt == figure.alt
    group = zarr.open_group(tmp_path / "group", mode="w")
    group.create_array("deep/images", data=data, chunks=(2, 3), shards=(10, 15))
    figure = chunks.draw(group)
    assert figure.state["layouts"][0] == {"format": "sharded", "chunks": [2, 3], "per": [5, 5]}
    assert figure.set(compare=True).state["layouts"][1] == {"format": "hdf5", "chunks": [2, 3], "per": [5, 5]}


def test_whole_shards_are_asked_for_in_one_piece():
    figure = chunks.draw(STACK, chunks=(1, 128, 128), shards=(64, 128, 128), select=np.s_[32:256])
    cost = figure.model()["layouts"][0]
    assert (cost["count"], cost["shards"], cost["whole"], cost["requests"]) == (224, 4, 3, 3 + 1 + 32)
    assert "3 wanted whole" in figure.alt


# what the course says of it


@pytest.mark.parametrize("shape, cut, select, count, ratio", [
    ((1000, 1000), (1000, 1), np.s_[5], 1000, "1,000 ×"), ((1000, 1000), (100, 100), np.s_[5], 10, "100 ×"),
    ((1000, 1000), (100, 100), np.s_[95:105, 95:105], 4, "400 ×"), ((4000, 4000), (400, 400), np.s_[:, 7], 10, "400 ×"),
    ((1024,), (32,), np.s_[16:48], 2, "2.0 ×"), ((1024,), (32,), np.s_[32:64], 1, "1.0 ×"),
    ((100,), (10,), np.s_[::-1], 10, "1.0 ×"), ((100,), (10,), np.s_[::-30], 4, "10.0 ×"),
])  # fmt: skip
def test_known_amplifications(shape, cut, select, count, ratio):
    figure = chunks.draw((shape, "float32", cut), select=select)
    assert figure.model()["layouts"][0]["count"] == count
    assert f": {ratio}.".replace(" ×", "\u00a0×") in figure.words()["walk"]


def test_the_cache_that_is_too_small_decodes_every_row_again():
    reads = [np.s_[k] for k in range(100)]
    figure = chunks.draw(((1000, 1000), "float32", (500, 250)), reads=reads, cache_bytes=2**20)
    assert [sum(row[k] for row in figure.model()["replay"][0]) for k in range(3)] == [0, 400, 398]
    rows = figure.set(cache=False).model()["replay"][0]
    assert sum(row[1] for row in rows) == 400
    rows = figure.set(cache=True, cache_bytes=2**23).model()["replay"][0]
    assert sum(row[1] for row in rows) == 4
    assert "396 hits, 4 chunks decoded, 0 evicted" in figure.alt


def test_reading_from_python_adds_to_the_history():
    figure = chunks.draw(STACK, select=np.s_[7]).read().read(np.s_[8])
    assert figure.state["history"] == [[[7, 8, 1], [0, 128, 1], [0, 128, 1]], [[8, 9, 1], [0, 128, 1], [0, 128, 1]]]
    assert figure.model()["replay"][0] == [[0, 1, 0, 524_288], [1, 0, 0, 0]]
    assert figure.table()[-1] == ["read 2: [8, :, :]", "1 hit, 0 misses, 0 evicted, 0 bytes"]


def test_a_history_too_long_to_play_says_so():
    figure = chunks.draw(((4000, 4000), "u1", (4, 4)), reads=[np.s_[:]])
    assert figure.model()["replay"] is None
    assert "too many chunks to be played" in figure.alt


def test_numbers_are_hidden_until_predicted():
    figure = chunks.draw(STACK, select=np.s_[30:40, 5], reads=[np.s_[3]]).set(predict=True)
    cost = figure.model()["layouts"][0]
    words = figure.words()
    assert "How many chunks does A touch?" in words["walk"]
    assert figure.table() == []
    assert not any(mark.get("role") == "chunk" for mark in figure.scene()["marks"])
    assert f"{cost['decoded']:,}" not in figure.alt
    assert "hit" not in words["summary"]
    assert "touches 2 of 32 chunks" in figure.set(revealed=True).alt


@pytest.mark.parametrize("answer, reason", [
    (4, ""), (1, "size divided by the chunk"), (100, "That counts elements"), (101, "has only 100 chunks"),
    (2, "Axis 0 counts too"), (3, "Too few"), (7, "Too many"), (9, "One too many"), (400, "That counts bytes wanted"),
    (160_000, "That counts bytes decoded"),
])  # fmt: skip
def test_a_wrong_count_gets_its_reason(answer, reason):
    figure = chunks.draw(((1000, 1000), "float32", (100, 100)), select=np.s_[95:105, 95:105])
    assert reason in figure.reason(answer)
    assert bool(figure.reason(answer)) == bool(reason)


def test_the_helpers_at_their_edges():
    assert [hits([3, 10, 3], low, low + 2) for low in range(0, 12, 2)] == [0, 1, 0, 1, 1, 0]
    assert list(touched_in([3, 10, 3], 2)) == [1, 3, 4]
    assert list(touched_in([3, 10, 1], 4)) == [0, 1, 2]
    assert [times(a, b).replace("\u00a0", " ") for a, b in ((1, 3), (999, 10), (1000, 10), (437_400, 12), (5, 0))] == [
        "0.3 ×", "99.9 ×", "100 ×", "36,450 ×", "0 ×",
    ]  # fmt: skip


def test_an_array_of_any_size_is_counted_at_once():
    figure = chunks.draw(((10**9,), "u1", (1,)), select=np.s_[:])
    assert figure.model()["layouts"][0]["count"] == 10**9
    assert chunk_model(figure.source, figure.state)["wanted"] == 10**9
    assert len(figure.scene()["marks"]) < 40
