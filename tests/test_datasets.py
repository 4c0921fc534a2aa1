"""The data files are the ones the manifest describes, and a damaged one is named and left alone."""

import dataclasses
import gzip
import hashlib
import importlib.util
import re
import subprocess
import sys

import numpy as np
import pytest

from labsupport import datasets, places
from labsupport.errors import LabError

README = places.DATA / "README.md"
COLUMNS = ["name", "file", "bytes", "SHA-256", "array", "source", "licence", "made by"]


def manifest():
    """Return the rows of the table in data/README.md, each a dict by column."""
    lines = [line for line in README.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert rows[0] == COLUMNS
    return [dict(zip(COLUMNS, row, strict=True)) for row in rows[2:]]


ROWS = {row["name"]: row for row in manifest()}


def test_the_manifest_names_every_data_set_and_every_file_once():
    assert [row["name"] for row in manifest()] == [dataset.name for dataset in datasets.DATASETS]
    described = {".gitattributes", "README.md", *(row["file"] for row in manifest())}
    assert {path.name for path in places.DATA.iterdir() if path.is_file()} == described


@pytest.mark.parametrize("dataset", datasets.DATASETS, ids=lambda dataset: dataset.name)
def test_file_array_and_manifest_agree(dataset):
    row = ROWS[dataset.name]
    content = (places.DATA / row["file"]).read_bytes()
    assert (row["file"], row["SHA-256"]) == (dataset.file, dataset.sha256)
    assert (len(content), hashlib.sha256(content).hexdigest()) == (int(row["bytes"]), row["SHA-256"])
    array = datasets.load(dataset.name)
    assert f"{array.shape} {array.dtype}" == row["array"] == f"{dataset.shape} {dataset.dtype}"
    assert array.flags.owndata and array.flags.writeable and array.flags.c_contiguous


@pytest.mark.parametrize("row", manifest(), ids=lambda row: row["name"])
def test_the_manifest_gives_a_licence_a_version_a_script_and_a_limit(row):
    assert row["licence"]
    assert re.fullmatch(r"[a-z-]+ \d+\.\d+\.\d+", row["source"])
    assert (places.DATA / row["made by"]).is_file()
    sections = re.split(r"^## ", README.read_text(encoding="utf-8"), flags=re.MULTILINE)
    (section,) = [s for s in sections if row["name"] in s.splitlines()[0].split()]
    for heading in ("**Origin:**", "**Licence:**", "**Attribution", "cannot support:**"):
        assert heading in section


def test_the_payload_stays_small():
    assert sum(path.stat().st_size for path in places.DATA.rglob("*") if path.is_file()) < 6_000_000


def test_load_returns_a_fresh_array_each_time():
    first = datasets.load("digits")
    first[:] = 99
    assert datasets.load("digits").max() == 16


def test_altitude_is_metres_and_zero_means_no_data():
    import h5py

    metres = datasets.load("altitude")
    with h5py.File(datasets.locate("altitude"), "r") as stored:
        codes = stored["Altitude"][:]
    assert np.array_equal(metres == 0, codes == 255)
    land = codes != 255
    assert np.array_equal(metres[land], 28 * codes[land].astype(int) - 450)
    everest = metres[(90 - 28) * 12, (180 + 86) * 12 : (180 + 88) * 12]  # the parallel 28 N, 86 E to 88 E
    assert everest.max() > 6000


def test_digits_and_labels_belong_together():
    digits, labels = datasets.load("digits"), datasets.load("digit_labels")
    assert (digits.max(), labels.max(), len(digits)) == (16, 9, len(labels))
    centres = digits[:, 2:6, 3:5].mean(axis=(1, 2))
    assert centres[labels == 0].mean() < 5 < centres[labels == 1].mean()  # a zero is hollow, a one is not


def test_weather_is_a_year_of_hours_with_a_unit_per_column():
    weather = datasets.load("weather")
    lines = (places.DATA / "weather.csv").read_text(encoding="utf-8").splitlines()
    names = lines[0].split(",")[4:]
    assert len(names) == len(datasets.WEATHER) == weather.shape[1]
    for name, (column, unit) in zip(names, datasets.WEATHER.items(), strict=True):
        assert name.startswith(column.replace(" ", "_")), (name, column)
        assert name.removeprefix(column.replace(" ", "_") + "_")[0] == {"degrees Celsius": "c"}.get(
            unit, unit[0].lower()
        ), unit
    hours = [[int(part) for part in line.split(",")[:4]] for line in lines[1:]]
    assert [hour for _, _, _, hour in hours] == [*range(1, 25)] * 365
    assert sorted({month for _, month, _, _ in hours}) == [*range(1, 13)]
    air, dew_point, humidity = weather[:, 3], weather[:, 4], weather[:, 5]
    assert (dew_point <= air).all() and (air.min(), air.max()) == (np.float32(-16.7), np.float32(35.6))
    assert (humidity.min(), humidity.max()) == (11, 100)
    noon, midnight = weather[11::24, 0], weather[23::24, 0]
    assert noon.mean() > 300 and not midnight.any()


def test_the_weather_script_keeps_values_as_they_are_written_and_refuses_gaps(monkeypatch):
    monkeypatch.syspath_prepend(places.DATA / "make")
    spec = importlib.util.spec_from_file_location("make_weather", places.DATA / "make" / "weather.py")
    make_weather = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make_weather)
    wanted = list(make_weather.MEASUREMENTS)
    head = ["Date (MM/DD/YYYY)", "Time (HH:MM)", *reversed(wanted)]
    row = ["02/03/1996", "24:00", *(f"{n}.50" for n in reversed(range(8)))]
    text = "\n".join(["1,here", ",".join(head), ",".join(row)])
    assert make_weather.shortened(text).splitlines()[1] == "1996,2,3,24,0.50,1.50,2.50,3.50,4.50,5.50,6.50,7.50"
    with pytest.raises(SystemExit, match="02/03/1996 24:00"):
        make_weather.shortened(text.replace("3.50", "-9900"))


def test_crops_are_pieces_of_the_green_channel_in_a_fixed_order():
    stack = datasets.crops()
    green = datasets.load("retina")[:, :, 1]
    assert stack.shape == (1024, 128, 128) and stack.dtype == np.uint8 and stack.flags.c_contiguous
    side = (len(green) - 128) // 64 + 1
    assert np.array_equal(stack[side + 2], green[64:192, 128:256])
    turned = np.rot90(green)
    assert np.array_equal(stack[side * side], turned[:128, :128])
    assert np.array_equal(datasets.crops(5), stack[:5])
    assert len(datasets.crops(1764)) == 4 * side * side


def test_some_crops_are_blank_border():
    blank = ~datasets.crops().any(axis=(1, 2))
    assert 0 < blank.sum() < 30


@pytest.mark.parametrize(("count", "side"), [(0, 128), (1765, 128), (-1, 128), (1, 0), (1, 1412), (1, -5)])
def test_crops_that_do_not_exist_are_refused(count, side):
    with pytest.raises(LabError, match="were asked for"):
        datasets.crops(count, side)


def test_without_pvlib_the_turbidity_says_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for ask in (datasets.load, datasets.locate):
        with pytest.raises(LabError, match="needs the package pvlib") as caught:
            ask("turbidity")
        assert "pip install pvlib" in caught.value.next_step


@pytest.fixture
def pvlib(tmp_path, monkeypatch):
    """A package of that name with a small file in the right place; returns the file's path."""
    import h5py

    path = tmp_path / "pvlib" / "data" / datasets.TURBIDITY.file
    path.parent.mkdir(parents=True)
    (tmp_path / "pvlib" / "__init__.py").write_text("raise ImportError('never imported')", encoding="utf-8")
    with h5py.File(path, "w") as made:
        made["LinkeTurbidity"] = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    monkeypatch.syspath_prepend(tmp_path)
    return path


def test_turbidity_is_read_out_of_an_installed_pvlib(pvlib, monkeypatch):
    known = dataclasses.replace(datasets.TURBIDITY, sha256=hashlib.sha256(pvlib.read_bytes()).hexdigest())
    monkeypatch.setattr(datasets, "TURBIDITY", known)
    monkeypatch.setitem(datasets._BY_NAME, "turbidity", known)
    assert datasets.locate("turbidity") == pvlib
    assert datasets.load("turbidity")[1, 2, 3] == 23


def test_another_turbidity_file_is_named(pvlib):
    with pytest.raises(LabError, match=r"pvlib's LinkeTurbidities\.h5 is not the file") as caught:
        datasets.load("turbidity")
    assert "pvlib==0.16.1" in caught.value.next_step


@pytest.mark.parametrize(
    ("asked", "near"), [("altitud", "'altitude'"), ("Digits", "'digits'"), ("label", "digit_labels")]
)
def test_an_unknown_name_gets_the_nearest_ones(asked, near):
    with pytest.raises(LabError) as caught:
        datasets.load(asked)
    assert asked in caught.value.what
    assert near in caught.value.next_step


@pytest.mark.parametrize("asked", [None, 3, ["digits"], ("digits", 1)])
def test_a_name_that_is_no_text_is_an_unknown_name(asked):
    with pytest.raises(LabError, match="no data set is called"):
        datasets.load(asked)


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A data folder of our own, so that a file can be damaged."""
    for dataset in datasets.DATASETS:
        (tmp_path / dataset.file).write_bytes((places.DATA / dataset.file).read_bytes())
    monkeypatch.setattr(places, "DATA", tmp_path)
    return tmp_path


@pytest.mark.parametrize("dataset", datasets.DATASETS, ids=lambda dataset: dataset.name)
def test_a_damaged_file_is_named_and_left_as_it_is(dataset, elsewhere):
    path = elsewhere / dataset.file
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(LabError) as caught:
        datasets.load(dataset.name)
    assert f"data/{dataset.file}" in caught.value.what
    assert f"git checkout -- data/{dataset.file}" in caught.value.next_step
    assert path.read_bytes() == damaged


def test_a_missing_file_is_named(elsewhere):
    (elsewhere / "cell.png").unlink()
    with pytest.raises(LabError, match=r"data/cell\.png is missing"):
        datasets.load("cell")


def test_a_file_is_hashed_once_per_process(elsewhere, monkeypatch):
    calls = []
    original = hashlib.sha256
    monkeypatch.setattr(hashlib, "sha256", lambda content: calls.append(len(content)) or original(content))
    datasets.load("digits")
    datasets.load("digits")
    assert len(calls) == 1


def test_importing_the_module_loads_no_array_library():
    code = "import sys, labsupport.datasets; print({'numpy', 'h5py', 'PIL', 'torch'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=places.ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_the_digits_script_reads_rows_of_64_values_and_a_class(monkeypatch):
    monkeypatch.syspath_prepend(places.DATA / "make")
    spec = importlib.util.spec_from_file_location("make_digits", places.DATA / "make" / "digits.py")
    make_digits = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make_digits)
    table = ",".join(f"{value}.0" for value in [*range(64), 7])
    images, labels = make_digits.images_and_labels(gzip.compress(f"{table}\n{table}\n".encode()))
    assert images.shape == (2, 8, 8) and images[1, 7, 7] == 63 and labels.tolist() == [7, 7]
    assert make_digits.as_npy(datasets.load("digits")) == (places.DATA / "digits.npy").read_bytes()
