"""HDF5 files that are damaged, locked, refused or misnamed: each is told in a sentence, with the next step."""

import subprocess
import sys
import tempfile
from pathlib import Path

import h5py
import pytest
import zarr
from broken import VALUES, patch_bytes, told, write_file, write_store

from labsupport.chunklab.opening import explained, open_array
from labsupport.errors import LabError, UsageError
from labsupport.places import ROOT


@pytest.fixture
def h5(tmp_path):
    return write_file(tmp_path / "days.h5")


@pytest.fixture
def store(tmp_path):
    return write_store(tmp_path / "days.zarr")


# -- sound ones


@pytest.mark.parametrize("name", [None, "a/x", "/a/x"])
def test_a_sound_hdf5_file_opens(h5, name):
    with open_array(h5, name) as array:
        assert (array[...] == VALUES).all()
        file = array.file
    assert not file  # closed


@pytest.mark.parametrize("name", [None, "x"])
def test_a_sound_store_opens(store, name):
    with open_array(str(store), name) as array:
        assert (array[...] == VALUES).all()
    with open_array(store / "x") as array:
        assert array.shape == (40, 40)


def test_errors_of_the_reader_stay_theirs(h5, store):
    for where in (h5, store):
        with pytest.raises(IndexError), open_array(where) as array:
            array[99]
        with pytest.raises(ZeroDivisionError), open_array(where) as array:
            print(1 / 0)
        with pytest.raises((ValueError, IndexError)) as caught, open_array(where) as array:
            array[::-1]
        assert not isinstance(caught.value, LabError)


# -- nothing there, or nothing of that name


def test_a_path_that_leads_nowhere(tmp_path, h5):
    error = told(tmp_path / "day.h5")
    assert "there is no file or folder" in error.what
    assert "'days.h5'" in error.next_step
    error = told(tmp_path / "sub" / "days.zarr")
    assert str(tmp_path) in error.why


@pytest.mark.parametrize(
    ("name", "what", "why", "step"),
    [
        ("a/y", "holds no array 'a/y'", None, "'a/x'"),
        ("a", "'a' in .* is a group", "only an array", "'x'"),
        ("soft", "holds no array 'soft'", "a link to '/nowhere'", "'a/x'"),
        ("far", "holds no array 'far'", "another file, 'other.h5'", "'a/x'"),
        ("a/x/y", "holds no array", None, "'a/x'"),
    ],
)
def test_names_that_are_no_array_in_hdf5(h5, name, what, why, step):
    with pytest.raises(UsageError, match=what) as caught, open_array(h5, name):
        pass
    assert step in caught.value.next_step
    assert why is None or why in caught.value.why


def test_names_that_are_no_array_in_zarr(store):
    assert "'x'" in told(store, "y").next_step
    assert "is a group, and empty" in told(store, "g").what
    assert "leave the name out" in told(store / "x", "deeper").next_step
    zarr.open_group(store, mode="a").create_array("z", shape=(3,), dtype="int32")
    assert "holds 2 arrays" in told(store).what
    assert "holds no array" in told(store / "g").what


def test_a_file_without_arrays(tmp_path):
    with h5py.File(tmp_path / "none.h5", "w"):
        pass
    assert "holds no array" in told(tmp_path / "none.h5").what
    assert "holds no array" in told(tmp_path / "none.h5", "x").what


# -- HDF5, damaged


def test_an_empty_file(tmp_path):
    (tmp_path / "zero.h5").write_bytes(b"")
    assert "0 bytes" in told(tmp_path / "zero.h5").what


def test_a_file_of_another_kind(tmp_path):
    (tmp_path / "text.h5").write_text("hour,degrees\n" * 100, encoding="utf-8")
    error = told(tmp_path / "text.h5")
    assert "no HDF5 file" in error.what
    assert "hour,degrees" in error.why


def test_a_file_cut_off_says_how_much_is_there(h5):
    whole = h5.stat().st_size
    h5.write_bytes(h5.read_bytes()[: whole // 2])
    error = told(h5)
    assert "ends too early" in error.what
    assert f"{whole // 2:,} of {whole:,} bytes" in error.why


@pytest.mark.parametrize("kept", [8, 9, 20, 60, 200])
def test_a_file_cut_off_near_its_beginning(h5, kept):
    h5.write_bytes(h5.read_bytes()[:kept])
    assert str(h5) in told(h5).what


def test_an_unknown_superblock(h5):
    patch_bytes(h5, 8, b"\x63")
    error = told(h5)
    assert "superblock of version 99" in error.what
    assert h5py.version.hdf5_version in error.why


def test_damaged_structures(h5):
    patch_bytes(h5, 100, bytes(range(200)))
    assert str(h5) in told(h5).what


def test_a_damaged_chunk_is_found_when_it_is_read(h5):
    with h5py.File(h5, "r") as file:
        info = file["a/x"].id.get_chunk_info_by_coord((10, 20))
    patch_bytes(h5, info.byte_offset + 5, b"\0" * 20)
    error = told(h5)
    assert "a chunk of 'a/x'" in error.what
    assert "[10:20, 20:30]" in error.why
    assert "1 of 16 chunks" in error.next_step
    with open_array(h5) as array:  # what is whole is read
        assert (array[:10] == VALUES[:10]).all()


def test_a_filter_that_is_not_installed(tmp_path):
    path = tmp_path / "filter.h5"
    with h5py.File(path, "w") as file:
        made = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        made.set_chunk((10,))
        made.set_filter(32026, h5py.h5z.FLAG_OPTIONAL, (0, 0, 0, 0))
        space = h5py.h5s.create_simple((10,))
        raw = h5py.h5d.create(file.id, b"x", h5py.h5t.NATIVE_INT32, space, dcpl=made)
        raw.write_direct_chunk((0,), b"blosc2 bytes", 0)
    error = told(path)
    assert "Blosc2" in error.why
    assert "hdf5plugin" in error.next_step


_WRITER = """
import sys, h5py
file = h5py.File(sys.argv[1], "w", libver="latest" if sys.argv[2] == "swmr" else None)
file.create_dataset("x", data=range(100_000), chunks=(1000,), maxshape=(None,))
if sys.argv[2] == "swmr":
    file.swmr_mode = True
if sys.argv[2] != "killed":
    file.flush()
print("ready", flush=True)
sys.stdin.read()
import os
os._exit(0)  # as if it were killed: nothing is closed
"""


def writer(path, how):
    """Return a process that holds `path` open for writing until its standard input ends; it closes nothing."""
    command = [sys.executable, "-c", _WRITER, str(path), how]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline().strip() == b"ready"
    return process


def end(process):
    process.stdin.close()
    assert process.wait(timeout=60) == 0
    process.stdout.close()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows refuses to open the file before HDF5 looks for its lock")
def test_a_file_that_a_writer_holds(tmp_path):
    process = writer(tmp_path / "held.h5", "flushed")
    try:
        error = told(tmp_path / "held.h5")
    finally:
        end(process)
    assert "locked by another program" in error.what
    assert "locking=False" in error.next_step
    with open_array(tmp_path / "held.h5") as array:  # it had flushed
        assert array[-1] == 99_999


@pytest.mark.parametrize(("how", "what"), [("killed", "damaged structures"), ("swmr", "marked as open for writing")])
def test_a_file_whose_writer_was_killed(tmp_path, how, what):
    end(writer(tmp_path / "left.h5", how))
    assert what in told(tmp_path / "left.h5").what


def test_a_file_cut_off_anywhere(h5):
    whole = h5.read_bytes()
    for kept in range(0, len(whole), len(whole) // 60):
        h5.write_bytes(whole[:kept])
        told(h5)


# -- rights


_READER = """
import os, sys
import h5py, zarr
from labsupport.chunklab import explaining, opening, sources, stores
from labsupport.errors import LabError
# What is imported late is imported before rights are dropped.
zarr.create_array(zarr.storage.MemoryStore(), shape=4, dtype='i4')[:]
if os.geteuid() == 0:  # nothing is refused to the superuser
    os.setegid(65534)
    os.seteuid(65534)
try:
    with opening.open_array(sys.argv[1], sys.argv[2] or None) as array:
        array[...]
except LabError as error:
    print(error)
"""


def as_somebody_else(where, name=""):
    """Return what is told to a reader who is not the superuser."""
    run = subprocess.run(
        [sys.executable, "-c", _READER, str(where), name], capture_output=True, text=True, encoding="utf-8", cwd=ROOT
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.fixture
def shared_folder():
    """A folder anybody may enter: pytest's own are closed to others."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no modes of files that refuse reading")
def test_a_reader_without_the_right_to_read(shared_folder):
    path = shared_folder / "days.h5"
    with h5py.File(path, "w") as file:
        file["x"] = VALUES
    path.chmod(0)
    assert "may not be read" in as_somebody_else(path)
    store = shared_folder / "days.zarr"
    zarr.open_group(store, mode="w").create_array("x", data=VALUES, chunks=(10, 10))
    assert as_somebody_else(store, "x") == ""
    (store / "x" / "c" / "1" / "2").chmod(0)
    assert "may not be read" in as_somebody_else(store, "x")
    (store / "zarr.json").chmod(0)
    assert "may not be read" in as_somebody_else(store, "x")
    store.chmod(0)
    assert "may not be read" in as_somebody_else(store, "x")


# -- far away


def test_what_is_not_there_behind_a_url():
    assert "no array or group at memory://nowhere" in told("memory://nowhere").what
    assert "memory://days.h5" in told("memory://days.h5").what


def test_an_array_behind_a_url():
    zarr.create_array("memory://opening/x.zarr", data=VALUES, chunks=(10, 10))
    with open_array("memory://opening/x.zarr") as array:
        assert (array[...] == VALUES).all()


def test_an_explanation_is_always_had(tmp_path):
    """Also of an error nobody thought of, about a path, a URL or a store."""
    (tmp_path / "x.h5").write_bytes(b"1")
    for where in (tmp_path, tmp_path / "x.h5", str(tmp_path / "y"), "s3://bucket/x", zarr.storage.MemoryStore()):
        error = explained(where, RuntimeError("the moon is full"))
        assert isinstance(error, LabError)
        assert error.what
    known = LabError("said already")
    assert explained(tmp_path, known) is known
