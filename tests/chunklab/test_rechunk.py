"""Rechunking: equal to the bit in every direction, within its memory, and never half there."""

import os
import re
import subprocess
import sys
import tracemalloc

import h5py
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from shapes import arrays

from labsupport.chunklab import CountingStore, layout_of, open_source, rechunk
from labsupport.chunklab.grid import grid_of
from labsupport.chunklab.planning import plan_rechunk
from labsupport.chunklab.targets import _here
from labsupport.errors import LabError, UsageError
from labsupport.places import ROOT

pytestmark = pytest.mark.filterwarnings("ignore")
ENOUGH = 4 << 20


def same_bits(one, other):
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


def days(path, compression="gzip"):
    """Write an HDF5 file with groups, attributes, labels, and floats that are easily lost."""
    rng = np.random.default_rng(5)
    values = rng.normal(size=(30, 40, 6)).astype("float32")
    values[:8, :8] = -0.0  # equal to the fill value, with other bits
    values[9, 9] = np.nan
    with h5py.File(path, "w") as file:
        file.attrs["title"] = "a month"
        group = file.create_group("weather")
        group.attrs["station"] = 7
        x = group.create_dataset("temperature", data=values, chunks=(7, 9, 6), compression=compression)
        x.attrs["units"] = "K"
        x.attrs["scale"] = np.float32(0.5)
        x.attrs["range"] = np.array([1.5, 2.5])
        x.attrs["names"] = np.array(["a", "b"], dtype=h5py.string_dtype())
        x.dims[0].label, x.dims[1].label = "day", "place"
        file.create_dataset("flags", data=rng.integers(0, 2, (50,)).astype(bool))
        file.create_dataset("codes", data=np.array([b"ab", b"c"], dtype="S3"))
        file.create_dataset("big_endian", data=np.arange(10, dtype=">i8"), chunks=(3,))
        file["scalar"] = 2.5
    return values


def read(where, name):
    with open_source(where, name) as source:
        return np.asarray(source.array[...])


NAMES = ("weather/temperature", "flags", "codes", "big_endian", "scalar")


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("compress", [True, False])
def test_there_and_back_is_equal_to_the_bit(tmp_path, zarr_format, compress):
    days(tmp_path / "a.h5")
    chunks = {"weather/temperature": (5, 40, 2), "flags": 7}
    there = rechunk(tmp_path / "a.h5", tmp_path / "b.zarr", chunks, ENOUGH, compress=compress, zarr_format=zarr_format)
    back = rechunk(tmp_path / "b.zarr", tmp_path / "c.h5", {"weather/temperature": (30, 1, 6)}, ENOUGH)
    for name in NAMES:
        first = read(tmp_path / "a.h5", name)
        if zarr_format == 3 and name == "big_endian":
            assert "byte order is no part" in str(there)
            first = first.astype("<i8")
        assert same_bits(read(tmp_path / "b.zarr", name), first), name
        assert same_bits(read(tmp_path / "c.h5", name), first), name
    with open_source(tmp_path / "b.zarr", "weather/temperature") as source:
        assert source.array.chunks == (5, 40, 2)
        assert source.array.metadata.zarr_format == zarr_format
        kept = dict(source.array.attrs)
        labels = kept.pop("_ARRAY_DIMENSIONS", None)
        assert kept == {"units": "K", "scale": 0.5, "range": [1.5, 2.5], "names": ["a", "b"]}
        assert (labels == ["day", "place", ""]) == (zarr_format == 2)
    with h5py.File(tmp_path / "c.h5") as file:
        x = file["weather/temperature"]
        assert x.chunks == (30, 1, 6)
        assert x.attrs["units"] == "K"
        assert x.attrs["range"].tolist() == [1.5, 2.5]
        assert list(x.attrs["names"]) == ["a", "b"]
        assert file.attrs["title"] == "a month"
        assert file["weather"].attrs["station"] == 7
        if zarr_format == 3:
            assert [dimension.label for dimension in x.dims] == ["day", "place", ""]
    assert set(there.plans) == set(back.plans) == set(NAMES)
    assert "is copied to" in str(there)


@settings(max_examples=40, deadline=None)
@given(source=arrays(sharded=True), data=st.data())
def test_zarr_to_zarr_for_any_shapes(source, data):
    shape, chunks, shards = source
    old = zarr.storage.MemoryStore()
    values = np.random.default_rng(1).integers(0, 3, shape).astype("float32") * -0.0 + 1
    values.flat[:: data.draw(st.integers(1, 5))] = data.draw(st.sampled_from([0.0, -0.0, np.nan]))
    zarr.create_array(old, shape=shape, chunks=chunks, shards=shards, dtype="float32", fill_value=0.0)[...] = values
    unit = tuple(data.draw(st.integers(1, length)) for length in shape)
    outer = tuple(size * data.draw(st.integers(1, 2)) for size in unit) if data.draw(st.booleans()) else None
    new = CountingStore(zarr.storage.MemoryStore())
    done = rechunk(old, new, unit, ENOUGH, shards=outer)
    array = zarr.open_array(new, mode="r")
    written = np.asarray(array[...])
    # The source may have dropped a chunk of -0.0 itself when it was written: what it returns is what counts.
    assert same_bits(written, np.asarray(zarr.open_array(old, mode="r")[...]))
    assert array.shards == outer
    plan = done.plans[""]
    sets = [r for r in new.requests if r.op == "set" and not r.key.endswith("zarr.json")]
    assert len(sets) == len({r.key for r in sets})  # no chunk or shard is written twice
    assert plan.slabs <= len(list(np.ndindex(*grid_of(shape, outer or unit))))


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_plan_counts_its_own_decodes(data):
    shape, chunks, _ = data.draw(arrays(longest=40))
    unit = tuple(data.draw(st.integers(1, length)) for length in shape)
    plan = plan_rechunk(shape, 4, chunks, unit, data.draw(st.sampled_from([2 << 20, 1_700_000])))
    regions = list(plan.regions())
    marks = np.zeros(shape, int)
    decoded = 0
    for region in regions:
        marks[region] += 1
        decoded += np.prod([-(-s.stop // c) - s.start // c for s, c in zip(region, chunks)])
    assert (marks == 1).all()
    assert decoded == plan.source_decodes >= plan.source_total
    assert len(regions) == plan.slabs
    assert all(slab % size == 0 or slab >= length for slab, size, length in zip(plan.slab, unit, shape))
    assert plan.peak_bytes <= plan.memory_bytes


def test_the_plan_is_what_the_source_sees(tmp_path):
    days(tmp_path / "a.h5")
    rechunk(tmp_path / "a.h5", tmp_path / "b.zarr", (7, 9, 6), ENOUGH, name="weather/temperature")
    store = CountingStore(zarr.storage.LocalStore(tmp_path / "b.zarr"))
    done = rechunk(store, tmp_path / "c.zarr", (30, 2, 6), 540_000)
    plan = done.plans[""]
    assert plan.source_decodes > plan.source_total  # too little memory to meet every chunk once
    assert store.counts["get_chunk_n"] + store.counts["miss_chunk"] == plan.source_decodes


@pytest.mark.parametrize("kind", ["h5 to zarr", "h5 to shards", "zarr to h5", "shards to zarr"])
def test_memory_stays_within_the_budget(tmp_path, kind):
    data = np.random.default_rng(0).integers(0, 255, (128, 128, 256), dtype="uint8")
    shards = (64, 128, 64)
    if kind.startswith("h5"):
        source = tmp_path / "a.h5"
        with h5py.File(source, "w") as file:
            file.create_dataset("x", data=data, chunks=(8, 128, 64), compression="lzf")
    else:
        source = tmp_path / "a.zarr"
        more = shards if kind.startswith("shards") else None
        zarr.create_array(source, shape=data.shape, chunks=(8, 64, 64), shards=more, dtype="uint8")[:] = data
    target = tmp_path / ("b.h5" if kind == "zarr to h5" else "b.zarr")
    more = {"shards": shards} if kind == "h5 to shards" else {}
    budget = 3_000_000  # of 4,194,304 bytes of data
    rechunk(source, tmp_path / f"warm{target.suffix}", (64, 64, 16), 16 << 20)  # loads what is loaded once
    tracemalloc.start()
    try:
        rechunk(source, target, (32, 128, 32), budget, **more)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= budget
    name = "x" if kind.startswith("h5") or target.suffix == ".h5" else None
    assert same_bits(read(target, name if target.suffix == ".zarr" and kind.startswith("h5") else None), data)


def test_too_little_memory_says_how_much(tmp_path):
    days(tmp_path / "a.h5")
    with pytest.raises(LabError, match="are too little for these chunks") as caught:
        rechunk(tmp_path / "a.h5", tmp_path / "b.zarr", (30, 40, 6), 100_000, name="weather/temperature")
    needed = int(caught.value.next_step.split("allow ")[1].split(" byte")[0].replace(",", ""))
    assert not (tmp_path / "b.zarr").exists()
    with pytest.raises(LabError):
        rechunk(tmp_path / "a.h5", tmp_path / "b.zarr", (30, 40, 6), needed - 1, name="weather/temperature")
    rechunk(tmp_path / "a.h5", tmp_path / "b.zarr", (30, 40, 6), needed, name="weather/temperature")


KILLED = """
import os, sys, warnings
warnings.simplefilter("ignore")
import zarr
from labsupport.chunklab import rechunk

source, target, way = sys.argv[1:]
if way == "store":
    target = zarr.storage.LocalStore(target)

def die(name, done, total):
    if done == 2:
        os._exit(9)

rechunk(source, target, (5, 8, 6), 530_000, name="weather/temperature", progress=die)
"""


@pytest.mark.parametrize(("target", "way"), [("b.zarr", "path"), ("b.h5", "path"), ("b.zip", "path"), ("b", "store")])
def test_a_killed_run_leaves_nothing_that_looks_whole(tmp_path, target, way):
    days(tmp_path / "a.h5")
    source, target = tmp_path / "a.h5", tmp_path / target
    ran = subprocess.run([sys.executable, "-c", KILLED, source, target, way], capture_output=True, check=False)
    assert ran.returncode == 9, ran.stderr.decode()
    if way == "path":
        assert not target.exists()
        assert len(list(tmp_path.glob(".b.*partial*"))) == 1
        rechunk(source, target, (5, 8, 6), ENOUGH, name="weather/temperature")
        assert not list(tmp_path.glob(".b.*partial*"))  # what the dead run left is gone
    else:
        assert list(target.rglob("*"))  # chunks are there, and no metadata: no reader takes them for an array
        with pytest.raises(FileNotFoundError):
            zarr.open(target, mode="r")
        with pytest.raises(UsageError, match="is not empty"):
            rechunk(source, zarr.storage.LocalStore(target), (5, 8, 6), ENOUGH, name="weather/temperature")
        store = zarr.storage.LocalStore(target)
        rechunk(source, store, (5, 8, 6), ENOUGH, name="weather/temperature", overwrite=True)
    assert same_bits(read(target, None), read(source, "weather/temperature"))


def test_a_run_killed_while_it_replaced_a_folder(tmp_path):
    days(tmp_path / "a.h5")
    target = tmp_path / "b.zarr"
    rechunk(tmp_path / "a.h5", target, None, ENOUGH, name="flags")
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    aside = tmp_path / f".b.{_here()}-{int(dead.stdout)}.partial.zarr.old"
    target.rename(aside)
    with pytest.raises(UsageError, match="is there again"):
        rechunk(tmp_path / "a.h5", target, None, ENOUGH, name="codes")
    assert same_bits(read(target, None), read(tmp_path / "a.h5", "flags"))
    (tmp_path / aside.name).mkdir()  # the other half of such a run: the new one is in place
    rechunk(tmp_path / "a.h5", target, None, ENOUGH, name="codes", overwrite=True)
    assert {path.name for path in tmp_path.iterdir()} == {"a.h5", "b.zarr"}


def test_a_target_that_appears_meanwhile_is_left_alone(tmp_path):
    days(tmp_path / "a.h5")
    target = tmp_path / "b.zarr"

    def someone_else(name, done, total):
        target.mkdir(exist_ok=True)

    with pytest.raises(UsageError, match="has come into being meanwhile"):
        rechunk(tmp_path / "a.h5", target, None, ENOUGH, progress=someone_else)
    assert list(target.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit on the size of a file")
@pytest.mark.parametrize("most", [3_000, 30_000])
@pytest.mark.parametrize("target", ["out.h5", "out.zarr", "out.zip"])
def test_a_full_disk_is_told_and_nothing_is_left(tmp_path, target, most):
    values = np.random.default_rng(0).integers(0, 2**31, (100, 400), dtype="i4")
    with h5py.File(tmp_path / "source.h5", "w") as file:
        file.create_dataset("x", data=values, chunks=(10, 400))
    limited = (
        f"import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, ({most}, resource.RLIM_INFINITY))\n"
        "from labsupport.chunklab.__main__ import main\nsys.exit(main(sys.argv[1:]))"
    )
    chunks = ["--chunks", "100,20" if most < 8_000 else "100,100"]
    done = subprocess.run(
        [sys.executable, "-c", limited, "rechunk", "source.h5", target, *chunks],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, encoding="utf-8",
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == f"{target} cannot be written"
    assert not re.search("Traceback|Task was destroyed|never retrieved", done.stderr), done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["source.h5"]


def test_an_error_leaves_nothing(tmp_path):
    days(tmp_path / "a.h5")

    def fails(name, done, total):
        raise RuntimeError("stop")

    for target in ("b.zarr", "b.h5", "b.zip"):
        with pytest.raises(RuntimeError, match="stop"):
            rechunk(tmp_path / "a.h5", tmp_path / target, None, ENOUGH, progress=fails)
    assert [path.name for path in tmp_path.iterdir()] == ["a.h5"]


def test_a_target_that_is_there_is_left_alone_unless_told(tmp_path):
    days(tmp_path / "a.h5")
    for target in (tmp_path / "b.zarr", tmp_path / "b.h5"):
        rechunk(tmp_path / "a.h5", target, None, ENOUGH, name="flags")
        with pytest.raises(UsageError, match="is there already"):
            rechunk(tmp_path / "a.h5", target, None, ENOUGH)
        rechunk(tmp_path / "a.h5", target, None, ENOUGH, overwrite=True)
        assert read(target, "big_endian").tolist() == list(range(10))
    assert {path.name for path in tmp_path.iterdir()} == {"a.h5", "b.zarr", "b.h5"}


def test_what_a_format_cannot_keep_is_told(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        x = file.create_dataset("x", data=np.arange(6.0), chunks=(2,))
        x.attrs["reference"] = x.ref
        x.attrs["missing"] = h5py.Empty("f4")
        file.create_dataset("axis", data=np.arange(6.0)).make_scale("t")
        x.dims[0].attach_scale(file["axis"])
    done = rechunk(tmp_path / "a.h5", tmp_path / "b.zarr", None, ENOUGH)
    assert set(done.notes["x"]) == {"reference", "DIMENSION_LIST"}
    assert "x: reference has no JSON form" in str(done)
    group = zarr.open_group(tmp_path / "b.zarr")
    assert dict(group["x"].attrs) == {"missing": None}
    group["x"].attrs["nested"] = {"a": [1]}
    group["x"].attrs["mixed"] = [1, 2.5]
    done = rechunk(tmp_path / "b.zarr", tmp_path / "c.h5", None, ENOUGH)
    assert set(done.notes["x"]) == {"nested", "mixed"}
    with h5py.File(tmp_path / "c.h5") as file:
        assert file["x"].attrs["nested"] == '{"a": [1]}'
        assert file["x"].attrs["mixed"] == "[1, 2.5]"


def test_hdf5_to_hdf5_keeps_the_types_of_attributes(tmp_path):
    days(tmp_path / "a.h5")
    rechunk(tmp_path / "a.h5", tmp_path / "b.h5", {"weather/temperature": (30, 40, 1)}, ENOUGH)
    with h5py.File(tmp_path / "b.h5") as file:
        assert file["weather/temperature"].attrs["scale"].dtype == "float32"


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"chunks": (2, 2)}, "one shape of chunks for 5 arrays"),
        ({"chunks": {"nothing": (2,)}}, "no array 'nothing'"),
        ({"name": "nothing"}, "holds no array 'nothing'"),
        ({"name": "flags", "chunks": (2, 2)}, "of 2 axes"),
        ({"name": "flags", "chunks": (0,)}, "at least 1"),
        ({"name": "flags", "chunks": (4,), "shards": (6,)}, "do not hold chunks"),
        ({"target": "b.h5", "name": "flags", "shards": (6,)}, "HDF5 has no shards"),
        ({"target": "a.h5"}, "lie in each other"),
    ],
)
def test_nonsense_is_refused_in_words(tmp_path, more, says):
    days(tmp_path / "a.h5")
    target = tmp_path / more.pop("target", "b.zarr")
    with pytest.raises(UsageError, match=says):
        rechunk(tmp_path / "a.h5", target, more.pop("chunks", None), ENOUGH, **more)
    assert [path.name for path in tmp_path.iterdir()] == ["a.h5"]


def test_values_without_a_size_are_refused_in_words(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("text", data=["a", "bc"], dtype=h5py.string_dtype())
        file["nothing"] = h5py.Empty("f4")
    with pytest.raises(LabError, match="variable length"):
        rechunk(tmp_path / "a.h5", tmp_path / "b.zarr", None, ENOUGH, name="text")
    with pytest.raises(LabError, match="no data of its own"):
        rechunk(tmp_path / "a.h5", tmp_path / "b.zarr", None, ENOUGH, name="nothing")
    zarr.create_array(tmp_path / "c.zarr", shape=(3,), chunks=(2,), dtype="datetime64[s]")
    with pytest.raises(LabError, match="HDF5 has no such type"):
        rechunk(tmp_path / "c.zarr", tmp_path / "c.h5", None, ENOUGH)


def test_arrays_that_grow_still_grow(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("empty", (0, 5), "f4", maxshape=(None, 5), chunks=(4, 5))
        file.create_dataset("log", data=np.arange(3), maxshape=(None,), chunks=(8,))
        file.create_dataset("fixed", data=np.arange(3), chunks=(2,))
        file["link"] = h5py.SoftLink("/log")
    there = rechunk(tmp_path / "a.h5", tmp_path / "b.zarr", None, ENOUGH)
    assert there.notes == {"/": {"link": "is a link and was left out"}}
    rechunk(tmp_path / "b.zarr", tmp_path / "c.h5", None, ENOUGH)
    rechunk(tmp_path / "a.h5", tmp_path / "d.h5", {"fixed": (9,)}, ENOUGH)
    with h5py.File(tmp_path / "c.h5") as file:
        assert {name: item.maxshape for name, item in file.items()} == {
            "empty": (None, None), "log": (None,), "fixed": (None,)
        }  # fmt: skip
    with h5py.File(tmp_path / "d.h5") as file:
        assert (file["empty"].maxshape, file["empty"].chunks) == ((None, 5), (4, 5))
        assert (file["fixed"].maxshape, file["fixed"].chunks) == ((3,), (3,))
        assert (file["log"].chunks, file["log"][:].tolist()) == ((8,), [0, 1, 2])


def test_a_target_that_cannot_be_written_is_told(tmp_path):
    days(tmp_path / "a.h5")
    (tmp_path / "file").write_text("x", encoding="utf-8")
    for name in ("b.zarr", "b.h5"):
        with pytest.raises(LabError, match="cannot be written"):
            rechunk(tmp_path / "a.h5", tmp_path / "file" / name, None, ENOUGH)
    where = (tmp_path / "u" / "b.zarr").as_uri()
    rechunk(tmp_path / "a.h5", where, None, ENOUGH, name="flags")
    assert same_bits(read(where, None), read(tmp_path / "a.h5", "flags"))


def test_a_damaged_source_is_told(tmp_path):
    days(tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5") as file:
        info = file["weather/temperature"].id.get_chunk_info(3)
    raw = bytearray((tmp_path / "a.h5").read_bytes())
    raw[info.byte_offset : info.byte_offset + info.size] = bytes(info.size)
    (tmp_path / "a.h5").write_bytes(raw)
    with pytest.raises(LabError, match="a chunk of 'weather/temperature'"):
        rechunk(tmp_path / "a.h5", tmp_path / "b.zarr", None, ENOUGH)
    assert [path.name for path in tmp_path.iterdir()] == ["a.h5"]


def test_a_consolidated_store_stays_consolidated(tmp_path):
    group = zarr.create_group(tmp_path / "a.zarr", attributes={"a": 1})
    group.create_array("x", shape=(6,), chunks=(2,), dtype="uint8")[:] = 3
    zarr.consolidate_metadata(tmp_path / "a.zarr")
    for target in (tmp_path / "b.zarr", f"memory://{tmp_path.name}.zarr"):
        rechunk(tmp_path / "a.zarr", target, None, ENOUGH)
        made = zarr.open_group(target, mode="r")
        assert made.metadata.consolidated_metadata is not None
        assert dict(made.attrs) == {"a": 1}
        assert layout_of(made["x"]).chunks == (2,)
        assert made["x"][:].tolist() == [3] * 6
