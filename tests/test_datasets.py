"""The data files are the ones the manifest describes, and a damaged one is named and left alone."""

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
