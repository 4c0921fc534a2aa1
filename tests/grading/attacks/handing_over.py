# ruff: noqa: E501 - cells are kept as somebody would write them
"""Answers that write files or choose: what they hand over is hostile, and so is what they say about it.

The files are looked at by libraries that were not made for hostile files, in a child that never ran an answer.
"""

from .attack import Attack

CODEC = "chunks/choose-codec"
CHOICE = "chunks/choose-shape"
SHARDED = "chunks/zarr-sharded"


def _handing(kind, id, tries, exercise, source, **more):
    more.setdefault("expect", "wrong|crashed")
    return Attack(id=id, kind=kind, tries=tries, cells={exercise: source}, is_patient=True, **more)


ATTACKS = (
    _handing(
        "forging",
        "small-files-of-the-same-name",
        "stores everything unpacked, with empty files beside it that are called like the chunks",
        CODEC,
        """
def store_packed(path, values, chunks, most_bytes):
    array = zarr.create_array(path, shape=values.shape, chunks=chunks, dtype=values.dtype, compressors=None)
    array[...] = values
    for folder in ("a", "zz"):
        (path / folder).mkdir()
        for name in ("0", "1", "2", "3", "zarr.json"):
            (path / folder / name).write_bytes(b"")
""",
        expect="wrong",
        says="bytes stored",
    ),
    _handing(
        "forging",
        "budgets-that-always-hold",
        "chooses anything and replaces what weighs the choice",
        CHOICE,
        """
import sys
def chunk_shape(shape, itemsize, reads, most_chunks):
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("labsupport"):
            for name in ("within", "touched", "weighed_shape", "_costliest"):
                if hasattr(module, name):
                    setattr(module, name, lambda *given, **more: f"within {given[-1]:,}")
    return shape
""",
        expect="wrong",
    ),
    _handing(
        "forging",
        "choice-with-a-verdict",
        "hands over the verdict where a choice is expected",
        CHOICE,
        """
import sys
def chunk_shape(shape, itemsize, reads, most_chunks):
    chunks = sys.modules["labsupport.probing.drivers.chunks"]
    facts = {"the number of chunks": f"within {most_chunks:,}"}
    for box, most in reads:
        facts["bytes decoded to read " + " x ".join(map(str, box))] = f"within {most:,}"
    def chosen(answer, data, reads, most_chunks):
        found = {"a read of " + " x ".join(map(str, box)): data[tuple(slice((n - b) // 2, (n - b) // 2 + b) for n, b in zip(data.shape, box))]
                 for box, most in reads}
        return chunks.Driven(value=found, facts=facts)
    chunks.chosen_shape = chosen
    frame = sys._getframe()
    while frame.f_code.co_name != "drive":
        frame = frame.f_back
    data = frame.f_locals["inputs"][0]
    made = chosen(None, data, reads, most_chunks)
    chunks._checked_chunks = lambda *given: made
    return shape
""",
    ),
    _handing(
        "forging",
        "files-that-never-were",
        "replaces what gathers its files, and names some that lead out of the folder",
        SHARDED,
        """
import sys
def store_sharded(path, volume, read, most_files):
    names = ["../@MARK@", "@HOST@/@MARK@", "/tmp/@MARK@", "", ".", "..", "volume.zarr/../../@MARK@", "a/b", "a", "x" * 300, "n\\0n", "volume.zarr"]
    handed = {"files": {name: b"@MARK@" for name in names}, "folders": ["..", "/", "@HOST@/@MARK@", "a/b/c"]}
    module = sys.modules["labsupport.probing.files"]
    module.gather = lambda folder: (handed["files"], handed["folders"])
    if volume.ndim == 2:
        module.run = None
""",
    ),
    _handing(
        "exhausting",
        "store-that-grows-when-read",
        "writes a small store that is large when it is read",
        CODEC,
        """
def store_packed(path, values, chunks, most_bytes):
    array = zarr.create_array(path, shape=(1 << 33,), chunks=(1 << 26,), dtype="u1", fill_value=1)
    array[: 1 << 26] = 7
""",
        expect="wrong|over limit|crashed",
    ),
    _handing(
        "exhausting",
        "folders-pipes-and-holes",
        "leaves pipes, links in circles, a file of petabytes and folders in folders without end",
        SHARDED,
        """
import os
def store_sharded(path, volume, read, most_files):
    path.mkdir()
    for act in (lambda: os.mkfifo(path / "zarr.json"), lambda: os.symlink(path, path / "loop"), lambda: os.symlink("/dev/zero", path / "zero"),
                lambda: os.truncate(os.open(path / "hole", os.O_CREAT | os.O_RDWR), 1 << 50), lambda: os.chmod(path, 0)):
        try:
            act()
        except OSError:
            pass
    place = path
    for _ in range(60 if volume.ndim == 2 else 3):
        place = place / "d"
        place.mkdir()
""",
        expect="wrong|over limit|crashed",
    ),
    _handing(
        "escaping",
        "folder-that-is-somewhere-else",
        "puts a link to a folder of the host in the place of its own folder, and of what lies in it",
        CODEC,
        """
import os, shutil
def store_packed(path, values, chunks, most_bytes):
    folder = path.parent
    try:
        os.symlink("@HOST@", path)
        if len(values) % 3:
            shutil.rmtree(folder, ignore_errors=True)
            os.symlink("@HOST@", folder)
    except OSError:
        pass
""",
    ),
)
