"""`lab chunklab` and `python -m labsupport.chunklab`: what they print, and how they refuse."""

import subprocess
import sys

import h5py
import numpy as np
import pytest
import zarr

from labsupport.chunklab import count, inspect, parse
from labsupport.chunklab.__main__ import main as as_module
from labsupport.chunklab.words import number, plural, size
from labsupport.cli import main
from labsupport.errors import UsageError

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = np.arange(10_000, dtype="int32").reshape(100, 100)
    with h5py.File("a.h5", "w") as file:
        file.create_dataset("x", data=data, chunks=(10, 10))
        file["g/y"] = np.arange(90)
        file.create_dataset("g/part", (40, 40), "f4", chunks=(10, 10))[0, 0] = 1
        file.create_dataset("huge", (4096, 4096), "f8", chunks=(2048, 2048), compression="gzip")
    group = zarr.create_group("b.zarr")
    group.create_array("x", shape=(100, 100), chunks=(10, 10), shards=(50, 50), dtype="int32")[:] = data
    zarr.consolidate_metadata("b.zarr")
    return tmp_path


def test_inspect(files, capsys):
    assert main(["chunklab", "inspect", "a.h5"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("a.h5: HDF5\n")
    assert "contiguous" in out
    assert "g/part: 15 of 16 chunks were never written" in out
    assert "huge: one chunk is larger than HDF5's chunk cache of 8 MiB" in out
    assert main(["chunklab", "inspect", "b.zarr", "x"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("b.zarr: Zarr v3, consolidated metadata\n")
    assert "(50, 50)" in out
    assert main(["chunklab", "inspect", "b.zarr", "z"]) == 2
    assert "holds no array 'z'" in capsys.readouterr().err


def test_an_inspection_counts_what_is_stored(files):
    found = {each.name: each for each in inspect("a.h5").arrays}
    assert (found["x"].objects, found["x"].bytes, found["x"].ratio) == (100, 40_000, 1)
    assert (found["g/part"].objects, found["g/part"].possible) == (1, 16)
    assert found["huge"].bytes == 0
    store = inspect("b.zarr").arrays[0]
    assert (store.objects, store.possible) == (4, 4)
    assert store.bytes == sum(
        path.stat().st_size for path in (files / "b.zarr" / "x" / "c").rglob("*") if path.is_file()
    )
    assert "4" in inspect("b.zarr")._repr_html_()


def test_count(files, capsys):
    assert main(["chunklab", "count", "a.h5", "3, 10:30", "--name", "x"]) == 0
    out = capsys.readouterr().out
    assert "predicted: 2 of 100 chunks, 800 bytes decoded: 10.0 bytes for each byte wanted" in out
    assert "counted:   2 chunks read in 2 requests, 800 bytes stored" in out
    assert main(["chunklab", "count", "b.zarr", "[1, 70], [2, 80]", "--points"]) == 0
    assert "2 of 100 chunks" in capsys.readouterr().out


def test_the_kernel_is_asked(files, capsys):
    from labsupport.chunklab.kernel import available

    code = main(["chunklab", "count", "a.h5", ":, 3", "--name", "x", "--kernel", "--cache", "1MiB"])
    if not available():
        assert code == 1
        assert "does not count the reads" in capsys.readouterr().err
        return
    out = capsys.readouterr().out
    assert code == 0
    found = count("a.h5", parse(":, 3"), "x")
    assert f"kernel:    {found.driver_reads:,} reads, {found.driver_bytes:,} bytes" in out


def test_rechunk_and_advise(files, capsys):
    assert main(["chunklab", "rechunk", "a.h5", "c.zarr", "--name", "x", "--chunks", "20,100", "--memory", "2MB"]) == 0
    assert "is copied to c.zarr" in capsys.readouterr().out
    assert zarr.open_array("c.zarr").chunks == (20, 100)
    assert main(["chunklab", "rechunk", "a.h5", "d.zarr", "--chunks", "x=5,5", "--shards", "x=10,10"]) == 0
    assert zarr.open_group("d.zarr")["x"].shards == (10, 10)
    capsys.readouterr()
    assert main(["chunklab", "advise", "c.zarr", "--pattern", "row=1,:", "--pattern", "column=:,1@2"]) == 0
    out = capsys.readouterr().out
    assert "(as it is now)" in out
    assert "yes" in out
    assert main(["chunklab", "advise", "--shape", "64,64", "--dtype", "int16", "--pattern", "row=1,:"]) == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["count", "a.h5", "0"], "holds 4 arrays"),
        (["count", "a.h5", "0", "--name", "z"], "holds no array 'z'"),
        (["count", "a.h5", "1:x", "--name", "x"], "is not a selection"),
        (["count", "a.h5", "200", "--name", "x"], "out of range"),
        (["count", "a.h5", "0", "--name", "x", "--cache", "much"], "not a number of bytes"),
        (["rechunk", "a.h5", "b.zarr"], "is there already"),
        (["rechunk", "a.h5", "e.zarr", "--chunks", "5,x"], "whole numbers with commas"),
        (["rechunk", "a.h5", "e.zarr", "--chunks", "5,5", "--chunks", "x=5,5"], "with and without an array's name"),
        (["advise", "--pattern", "row=1,:"], "nothing says the shape"),
        (["advise", "a.h5", "--name", "x", "--shape", "3,3", "--pattern", "row=1,:"], "a file and --shape"),
        (["advise", "--shape", "3,3"], "there are no access patterns"),
        ([], "TASK"),
    ],
)
def test_wrong_use_is_told_in_words_and_ends_with_2(files, capsys, arguments, says):
    assert main(["chunklab", *arguments]) == 2
    err = capsys.readouterr().err
    assert says in err
    assert "Traceback" not in err


def test_what_cannot_be_opened_is_told_in_words(files, capsys):
    (files / "bad.h5").write_text("not HDF5", encoding="utf-8")
    for where in ("nothing.h5", "nothing.zarr", "bad.h5"):
        assert main(["chunklab", "inspect", where]) == 1
        err = capsys.readouterr().err
        assert where in err
        assert "Traceback" not in err


def test_as_a_module(files, capsys):
    assert as_module(["count", "a.h5", "0", "--name", "x"]) == 0
    assert "10 of 100 chunks" in capsys.readouterr().out
    assert as_module(["count", "a.h5", "0"]) == 2
    ran = subprocess.run([sys.executable, "-m", "labsupport.chunklab", "--help"], capture_output=True, check=True)
    assert b"rechunk" in ran.stdout


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 bytes"), (1, "1 byte"), (9_999, "9,999 bytes"), (10_000, "10.0 kB"), (999_400, "999 kB"),
     (999_600, "1.00 MB"), (1_234_567, "1.23 MB"), (5 * 10**12, "5.00 TB")],
)  # fmt: skip
def test_sizes_in_words(count, text):
    assert size(count) == text


def test_numbers_in_words():
    assert [number(value) for value in (1, 9.999, 12.34, 99.96, 1234.5)] == ["1.00", "10.0", "12.3", "100", "1,234"]
    assert plural(1, "index", "indexes") == "1 index"
    assert plural(2000, "index", "indexes") == "2,000 indexes"


def test_bytes_as_people_write_them():
    from labsupport.cli.chunklab import _bytes

    assert [_bytes(text) for text in ("5", "64MB", "64MiB", "1.5 kB", "2_000")] == [5, 64_000_000, 64 << 20, 1500, 2000]
    for text in ("", "MB", "5 parsecs"):
        with pytest.raises(UsageError):
            _bytes(text)
