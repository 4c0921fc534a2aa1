"""What inspectors say of HDF5 files and Zarr stores, right, wrong and damaged ones."""

import json
import pickle
from pathlib import Path

import h5py
import numcodecs.pickles
import numpy as np
import pytest
import zarr

from labsupport.probing.driven import Unusable
from labsupport.probing.inspectors import chunks as inspect

HOURS = np.arange(144, dtype="float32").reshape(24, 6)


def write_temperature(folder, values=HOURS, units="degC", **options):
    with h5py.File(folder / "log.h5", "a") as file:
        made = file.create_dataset(
            "temperature", data=values, **{"maxshape": (None, 6), "chunks": (1024, 6), "compression": "gzip"} | options
        )
        if units is not None:
            made.attrs["units"] = units


# -- describe_log


def test_a_log_is_described(tmp_path):
    write_temperature(tmp_path)
    seen = inspect.describe_log(tmp_path, None, HOURS, "degC")
    assert seen.value["names in the file"] == "temperature"
    assert seen.value["units of temperature"] == "degC"
    assert (seen.value["values of temperature"] == HOURS).all()
    assert seen.facts == {
        "room for more hours": "no limit",
        "compression": "lossless",
        "bytes in a chunk": "10,240 to 1,048,576",
        "old chunks that moved": 0,
    }


def test_a_slip_in_the_shape_does_not_fill_the_memory_of_whoever_looks(tmp_path):
    write_temperature(tmp_path)
    with h5py.File(tmp_path / "log.h5", "a") as file:
        file["temperature"].resize(10**9, axis=0)
    with pytest.raises(Unusable, match=r"shape \(1000000000, 6\), 24,000,000,000 bytes"):
        inspect.describe_log(tmp_path, None, HOURS, "degC")
    zarr.create_array(tmp_path / "packed.zarr", shape=(10**5, 10**5), chunks=(100, 100), dtype="f4")
    with pytest.raises(Unusable, match="far more than was asked for"):
        inspect.describe_packed(tmp_path, HOURS, (100, 100), 1000)


def test_a_codec_that_runs_what_it_decodes_is_not_known(tmp_path, monkeypatch):
    import pickle

    import numcodecs
    from numcodecs.registry import codec_registry

    monkeypatch.setitem(codec_registry, "pickle", numcodecs.Pickle)
    monkeypatch.setattr("numcodecs.pickles.ALLOW_UNSAFE_PICKLE_DECODE", True, raising=False)
    (tmp_path / "copy.zarr").mkdir()
    head = {"zarr_format": 2, "shape": [1], "chunks": [1], "dtype": "|O", "compressor": None, "fill_value": ""}
    filters = [{"id": "vlen-utf8"}, {"id": "pickle"}]
    (tmp_path / "copy.zarr/.zarray").write_text(json.dumps(head | {"order": "C", "filters": filters}), encoding="utf-8")
    (tmp_path / "copy.zarr/0").write_bytes(pickle.dumps("x"))
    with pytest.raises(Unusable, match="pickle"):
        inspect.describe_copy(tmp_path, HOURS, None, {}, (2, 2))


def test_chunks_far_too_large_to_decode_are_left_alone(tmp_path):
    zarr.create_array(tmp_path / "copy.zarr", shape=(4, 4), chunks=(10**5, 10**5), dtype="f4")
    with pytest.raises(Unusable, match="chunks of 40,000,000,000 bytes"):
        inspect.describe_copy(tmp_path, HOURS, None, {}, (2, 2))


@pytest.mark.parametrize("odd", [3.0, h5py.Empty("f4")], ids=["one number", "nothing"])
def test_a_dataset_without_axes_is_told(tmp_path, odd):
    with h5py.File(tmp_path / "log.h5", "w") as file:
        file["temperature"] = odd
    with pytest.raises(Unusable, match="no rows"):
        inspect.describe_log(tmp_path, None, HOURS, "degC")


def test_a_folder_is_no_log(tmp_path):
    (tmp_path / "log.h5").mkdir()
    with pytest.raises(Unusable, match="is a folder"):
        inspect.describe_log(tmp_path, None, HOURS, "degC")


def test_names_beside_it_in_any_encoding_are_told(tmp_path):
    write_temperature(tmp_path)
    with h5py.File(tmp_path / "log.h5", "a") as file:
        file[b"\xff"] = 1
    assert "xff" in inspect.describe_log(tmp_path, None, HOURS, "degC").value["names in the file"]


@pytest.mark.parametrize("units", ["degC", b"degC", np.bytes_("degC"), np.array(["degC"], dtype="S4")], ids=repr)
def test_units_are_text_however_they_were_written(tmp_path, units):
    write_temperature(tmp_path, units=units)
    assert inspect.describe_log(tmp_path, None, HOURS, "degC").value["units of temperature"] == "degC"


@pytest.mark.parametrize(
    ("options", "fact", "told"),
    [
        ({"maxshape": None}, "room for more hours", "24 in all"),
        ({"maxshape": (2000, 6)}, "room for more hours", "2,000 in all"),
        ({"compression": None}, "compression", "none"),
        ({"compression": None, "shuffle": True, "fletcher32": True}, "compression", "none"),
        ({"compression": "lzf"}, "compression", "lossless"),
        ({"scaleoffset": 2}, "compression", "scaleoffset, which loses digits"),
        ({"chunks": (24, 6)}, "bytes in a chunk", "576"),
        ({"chunks": (426, 6)}, "bytes in a chunk", "10,224"),
        ({"chunks": (427, 6)}, "bytes in a chunk", "10,240 to 1,048,576"),
        ({"chunks": (43_690, 6)}, "bytes in a chunk", "10,240 to 1,048,576"),
        ({"chunks": (43_691, 6)}, "bytes in a chunk", "more than 1,048,576"),
        ({"chunks": None, "maxshape": None, "compression": None}, "bytes in a chunk", "no chunks"),
    ],
    ids=str,
)
def test_layouts_are_facts(tmp_path, options, fact, told):
    if options.get("maxshape", "") is None and options.get("chunks", "") is not None:
        options = {"chunks": (24, 6)} | options
    write_temperature(tmp_path, **options)
    assert inspect.describe_log(tmp_path, None, HOURS, "degC").facts[fact] == told


def before(rows=3000):
    rng = np.random.default_rng(1)
    return {
        "rows": rng.normal(size=(rows, 6)).astype("float32"),
        "humidity": rng.integers(0, 100, 200).astype("uint8"),
    }


def test_a_given_log_that_is_as_it_was_needs_no_copy(tmp_path):
    """Files nobody changed are not carried over to where one looks."""
    seen = inspect.describe_log(tmp_path, before(), HOURS[:0], "degC")
    assert len(seen.value["values of temperature"]) == 3000
    assert seen.value["attributes that were there"] == {"station": "north slope", "height": "2 m"}
    assert seen.facts["old chunks that moved"] == 0


def test_old_chunks_stay_when_rows_are_appended_and_move_when_all_is_written_anew(tmp_path):
    inspect.write_log(tmp_path, before(), HOURS, "degC")
    with h5py.File(tmp_path / "log.h5", "a") as file:
        file["temperature"].resize(3024, axis=0)
        file["temperature"][3000:] = HOURS
    assert inspect.describe_log(tmp_path, before(), HOURS, "degC").facts["old chunks that moved"] == 0
    with h5py.File(tmp_path / "log.h5", "a") as file:
        values = file["temperature"][:]
        file.move("temperature", "old")
        file.create_dataset("temperature", data=values, chunks=(1024, 6), maxshape=(None, 6), compression="gzip")
        del file["old"]
    assert inspect.describe_log(tmp_path, before(), HOURS, "degC").facts["old chunks that moved"] == 2


def test_what_stood_beside_the_log_is_looked_at(tmp_path):
    inspect.write_log(tmp_path, before(), HOURS, "degC")
    with h5py.File(tmp_path / "log.h5", "a") as file:
        file["humidity"][3] += 1
        del file.attrs["station"]
    seen = inspect.describe_log(tmp_path, before(), HOURS, "degC").value
    assert seen["attributes that were there"]["station"] == "(no such attribute)"
    assert (seen["values of humidity"] != before()["humidity"]).sum() == 1


def damaged(path, how):
    write_temperature(path.parent)
    raw = path.read_bytes()
    path.write_bytes({"empty": b"", "half": raw[: len(raw) // 2], "text": b"temperature,units\n" * 200}[how])


@pytest.mark.parametrize(
    ("how", "told"), [("empty", "ends too early"), ("half", "ends too early"), ("text", "is not an HDF5 file")]
)
def test_what_is_no_log_is_told_as_a_sentence(tmp_path, how, told):
    damaged(tmp_path / "log.h5", how)
    with pytest.raises(Unusable, match=told):
        inspect.describe_log(tmp_path, None, HOURS, "degC")


def test_a_log_without_the_dataset_names_what_is_there(tmp_path):
    with pytest.raises(Unusable, match=r"was not written$"):
        inspect.describe_log(tmp_path, None, HOURS, "degC")
    np.save(tmp_path / "log.h5", HOURS)
    with pytest.raises(Unusable, match=r"was not written; beside it lies `log\.h5\.npy`"):
        inspect.describe_log(tmp_path, None, HOURS, "degC")
    with h5py.File(tmp_path / "log.h5", "w") as file:
        file["temprature"] = HOURS
    with pytest.raises(Unusable, match=r"no dataset `temperature`; it holds `temprature`"):
        inspect.describe_log(tmp_path, None, HOURS, "degC")


def test_a_group_is_no_dataset(tmp_path):
    with h5py.File(tmp_path / "log.h5", "w") as file:
        file.create_group("temperature")
    with pytest.raises(Unusable, match="holds a group `temperature`"):
        inspect.describe_log(tmp_path, None, HOURS, "degC")


# -- describe_volume

VOLUME = np.random.default_rng(2).integers(0, 256, (40, 16, 16), dtype="uint8")


def write_volume(folder, shards, chunks=(1, 16, 16)):
    array = zarr.create_array(folder / "volume.zarr", shape=VOLUME.shape, dtype="uint8", chunks=chunks, shards=shards)
    array[...] = VOLUME
    return array


@pytest.mark.parametrize("shards", [None, (4, 16, 16), (40, 16, 16)], ids=str)
def test_files_and_bytes_of_a_volume_are_counted(tmp_path, shards):
    write_volume(tmp_path, shards)
    seen = inspect.describe_volume(tmp_path, VOLUME, (1, 16, 16), 11)
    files = {None: 41, (4, 16, 16): 11, (40, 16, 16): 2}[shards]
    assert seen.notes["files in the store"] == files
    assert seen.facts["files in the store"] == ("within 11" if files <= 11 else "over 11")
    inner = {None: 0, (4, 16, 16): 4, (40, 16, 16): 40}[shards]  # chunks in a shard: 16 bytes of index each, and 4
    index = 16 * inner + 4 if inner else 0
    least = (256 + index) / 256
    assert least <= seen.notes["bytes read per byte wanted"] <= least + 0.1  # a codec adds a header to noise


def test_what_is_no_store_is_told_as_a_sentence(tmp_path):
    path = tmp_path / "volume.zarr"
    for make, told in (
        (lambda: None, "was not written"),
        (lambda: path.write_bytes(b"zarr"), "single file"),
        (lambda: (path.unlink(), path.mkdir()), "no `zarr.json`"),
        (lambda: (path / "zarr.json").write_text("{", encoding="utf-8"), "cannot be opened"),
        (lambda: zarr.open_group(path, mode="w").create_array("image", shape=(2,), dtype="i4"), "holds `image`"),
    ):
        make()
        with pytest.raises(Unusable, match=told):
            inspect.describe_volume(tmp_path, VOLUME, (1, 16, 16), 11)


def test_a_volume_of_another_shape_has_no_reads_to_count(tmp_path):
    zarr.create_array(tmp_path / "volume.zarr", data=VOLUME[:3], chunks=(1, 16, 16))
    seen = inspect.describe_volume(tmp_path, VOLUME, (1, 16, 16), 11)
    assert "bytes read per byte wanted" not in seen.facts
    assert seen.value["values stored"].shape == (3, 16, 16)


# -- describe_packed


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_stored_bytes_are_those_of_all_files(tmp_path, zarr_format):
    values = np.repeat(np.arange(64), 64)
    zarr.create_array(tmp_path / "packed.zarr", data=values, chunks=(2048,), zarr_format=zarr_format)
    files = [path.stat().st_size for path in Path(tmp_path / "packed.zarr").rglob("*") if path.is_file()]
    seen = inspect.describe_packed(tmp_path, values, (2048,), sum(files))
    assert seen.notes["bytes stored"] == sum(files)
    assert seen.facts == {"bytes stored": f"within {sum(files):,}", "a codec that saves nothing": "none"}
    tight = inspect.describe_packed(tmp_path, values, (2048,), sum(files) - 1)
    assert tight.facts["bytes stored"].startswith("over ")


def test_a_codec_that_saves_nothing_is_named_and_none_is_not(tmp_path):
    noise = np.random.default_rng(3).integers(0, 256, 8192, dtype="uint8")
    for compressors, told in (("auto", "there is one"), (None, "none")):
        zarr.create_array(tmp_path / "packed.zarr", data=noise, chunks=(4096,), compressors=compressors, overwrite=True)
        facts = inspect.describe_packed(tmp_path, noise, (4096,), 20_000).facts
        assert facts["a codec that saves nothing"] == told


# -- describe_copy


def copy(folder, values, **options):
    made = {"chunks": (5, 5), "fill_value": -1.0} | options
    array = zarr.create_array(folder / "copy.zarr", shape=values.shape, dtype=values.dtype, **made)
    array[...] = values
    return inspect.describe_copy(folder, FIELD, {"chunks": [2, 9], "fill": -1.0}, {"units": "m"}, (5, 5))


FIELD = np.random.default_rng(4).normal(size=(9, 9)).astype("float32")


def test_a_copy_is_compared_bit_by_bit(tmp_path):
    values = FIELD.copy()
    assert copy(tmp_path, values).facts == {"elements whose bits differ": 0, "fill value": "-1.0"}
    values[2, 3] = np.nextafter(values[2, 3], 9, dtype="float32")
    assert copy(tmp_path, values, overwrite=True).facts["elements whose bits differ"] == 1
    assert copy(tmp_path, values.astype("float64"), overwrite=True).facts["elements whose bits differ"] == "all"


def test_minus_zero_is_not_zero_and_nan_is_itself():
    zeros = np.zeros(4, dtype="float32")
    assert inspect._bits_differ(zeros, -zeros) == 4
    assert inspect._bits_differ(zeros + np.nan, zeros + np.nan) == 0


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_the_order_of_bytes_in_the_store_does_not_count(tmp_path, zarr_format):
    values = FIELD.astype(">f4")
    zarr.create_array(tmp_path / "copy.zarr", data=values, chunks=(5, 5), zarr_format=zarr_format, fill_value=-1.0)
    seen = inspect.describe_copy(tmp_path, values, {"chunks": [2, 9], "fill": -1.0}, {}, (5, 5))
    assert seen.facts["elements whose bits differ"] == 0
    assert seen.value["values stored"].dtype == np.dtype("float32")


def test_attributes_come_back_as_json_knows_them(tmp_path):
    seen = copy(tmp_path, FIELD, attributes={"units": "m", "scale": 0.5, "range": [0, 1]})
    assert seen.value["attributes of the array"] == {"units": "m", "scale": 0.5, "range": [0, 1]}
    assert seen.value["the source file"] == "as it was"


def test_a_source_that_was_written_to_is_noticed(tmp_path):
    path, name, chunks = inspect.write_source(
        tmp_path, FIELD, {"chunks": [2, 9], "fill": -1.0}, {"units": "m", "scale": np.float32(0.5)}, (5, 5)
    )
    with h5py.File(path, "r") as file:
        assert file[name].chunks == (2, 9)
        assert file[name].fillvalue == -1.0
        assert dict(file[name].attrs) == {"units": "m", "scale": np.float32(0.5)}
    assert chunks == (5, 5)
    assert copy(tmp_path, FIELD).value["the source file"] == "changed"  # it would not be here otherwise


# -- stores that lie or hurt


def test_files_of_the_same_name_count_each(tmp_path):
    values = np.arange(64, dtype="int64")
    array = zarr.create_array(tmp_path / "packed.zarr", shape=(64,), chunks=(32,), dtype="int64", compressors=None)
    array[:] = values
    stored = sum(path.stat().st_size for path in (tmp_path / "packed.zarr").rglob("*") if path.is_file())
    for folder in ("a", "zz"):
        (tmp_path / "packed.zarr" / folder).mkdir()
        for name in ("0", "1", "zarr.json"):
            (tmp_path / "packed.zarr" / folder / name).write_bytes(b"")
    assert inspect.describe_packed(tmp_path, values, (32,), 100).notes["bytes stored"] == stored


def test_no_store_has_anything_unpickled(tmp_path, monkeypatch):
    ran = tmp_path / "ran"

    class Runs:
        def __reduce__(self):
            return Path.touch, (ran,)

    monkeypatch.setattr(numcodecs.pickles, "ALLOW_UNSAFE_PICKLE_DECODE", True, raising=False)
    path = tmp_path / "packed.zarr"
    path.mkdir()
    said = {"zarr_format": 2, "shape": [3], "chunks": [3], "dtype": "|O", "fill_value": "", "order": "C"}
    said |= {"compressor": None, "filters": [{"id": "vlen-utf8"}, {"id": "pickle"}]}
    (path / ".zarray").write_text(json.dumps(said), encoding="utf-8")
    (path / "0").write_bytes(pickle.dumps(Runs()))
    with pytest.raises(Unusable, match="pickle"):
        inspect.describe_packed(tmp_path, np.zeros(3), (3,), 100)
    assert not ran.exists()
