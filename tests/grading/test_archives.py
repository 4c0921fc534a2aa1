"""Archives are somebody else's bytes: nothing escapes, bursts or is written, and what is left out is said."""

import gzip
import io
import json
import os
import struct
import sys
import tarfile
import tracemalloc
import unicodedata
import zipfile
import zlib

import pytest
from accidents import shipped, solved

from labsupport.grading import archives
from labsupport.grading.archives import members_of
from labsupport.grading.intake import find_submissions
from labsupport.grading.notebooks import MAX_BYTES, Unreadable

NAME = "00_start_here.ipynb"
TEXT = json.dumps(solved("start_here")).encode()
STUBS = json.dumps(shipped("start_here")).encode()


def make_zip(path, files, **options):
    with zipfile.ZipFile(path, "w", options.pop("compression", zipfile.ZIP_DEFLATED)) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def make_tar(path, files, links=(), mode=None):
    """Write a tar; `links` are (name, type of member, where it leads)."""
    with tarfile.open(path, mode or ("w" if path.suffix == ".tar" else "w:gz")) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        for name, kind, target in links:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, target
            archive.addfile(info)
    return path


MAKERS = {"a.zip": make_zip, "a.tar": make_tar, "a.tar.gz": make_tar, "a.tgz": make_tar}


@pytest.fixture(params=MAKERS)
def make(request, tmp_path):
    """Return a function {name: bytes} -> path of an archive, for every kind that is read."""
    return lambda files, **options: MAKERS[request.param](tmp_path / request.param, files, **options)


def read(path):
    return {member.name: member.data or member.problem for member in members_of(path)}


# -- what is read -------------------------------------------------------------------------------------------------


def test_notebooks_are_read_in_any_folder_and_nothing_else(make):
    path = make(
        {NAME: b"1", "a/b/c/x.ipynb": b"2", "a/X.IPYNB": b"3", "readme.md": b"4", "a/data.npy": b"5", "./y.ipynb": b"6"}
    )
    assert read(path) == {NAME: b"1", "a/b/c/x.ipynb": b"2", "a/X.IPYNB": b"3", "y.ipynb": b"6"}


def test_what_systems_and_editors_leave_is_passed_over(make):
    folders = ("__MACOSX", "a/.ipynb_checkpoints", ".git", "work/.lab/backups", "site-packages/x", "node_modules")
    assert read(make({f"{folder}/{NAME}": b"1" for folder in folders} | {"a/._x.ipynb": b"2"})) == {}


@pytest.mark.parametrize(
    "name", ["../x.ipynb", "a/../../x.ipynb", "/etc/x.ipynb", "C:\\x.ipynb", "c:x.ipynb", "..\\x.ipynb"]
)
def test_names_that_lead_out_are_not_read_and_said(make, name):
    found = read(make({name: b"evil", "a/good.ipynb": b"good"}))
    assert found.pop("a/good.ipynb") == b"good"
    assert list(found.values()) == ["its name leads out of the archive"]


def test_an_archive_inside_an_archive_is_not_opened_and_said(make, tmp_path):
    inner = make_zip(tmp_path / "inner.zip", {NAME: TEXT}).read_bytes()
    found = read(make({"b.zip": inner, "c.tar.gz": b"x", "d.7z": b"x", "e/f.ipynb.gz": b"x"}))
    assert set(found) == {"b.zip", "c.tar.gz", "d.7z", "e/f.ipynb.gz"}
    assert set(found.values()) == {"it is an archive inside an archive, which is not opened"}


def test_thousands_of_members_are_read(make):
    found = read(make({f"learner-{n}/{NAME}": b"x" for n in range(3000)}))
    assert len(found) == 3000


def test_too_many_members_are_refused(make, monkeypatch):
    monkeypatch.setattr(archives, "MAX_MEMBERS", 50)
    with pytest.raises(Unreadable, match="more than 50 files"):
        read(make({f"{n}.txt": b"" for n in range(51)}))


def test_a_member_over_the_cap_is_not_read(make):
    path = make({"big/a.ipynb": bytes(MAX_BYTES + 1), "b.ipynb": b"{}"})
    assert read(path) == {"big/a.ipynb": "it is larger than the 20 MB a notebook may have", "b.ipynb": b"{}"}
    (found,) = find_submissions([make({f"learner-a/{NAME}": bytes(MAX_BYTES + 1)})])
    assert "larger than the 20 MB" in found.unreadable


# -- bombs --------------------------------------------------------------------------------------------------------


def held_by(work):
    """Return (the exception that came, most bytes held meanwhile)."""
    tracemalloc.start()
    try:
        work()
        return None, tracemalloc.get_traced_memory()[1]
    except Unreadable as error:
        return error, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def zeros(size):
    """Return `size` zero bytes as deflate data, made piece by piece."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return b"".join(packer.compress(bytes(1 << 20)) for _ in range(size >> 20)) + packer.flush()


def zip_of(packed, size, name=NAME):
    """Return a zip with one member that says it has `size` bytes, whatever it holds."""
    local = (
        struct.pack("<4s5H3L2H", b"PK\3\4", 20, 0, 8, 0, 0, 0, len(packed), size, len(name), 0) + name.encode() + packed
    )
    entry = struct.pack("<4s6H3L5H2L", b"PK\1\2", 20, 20, 0, 8, 0, 0, 0, len(packed), size, len(name), 0, 0, 0, 0, 0, 0)
    entry += name.encode()
    return local + entry + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, len(entry), len(local), 0)


@pytest.mark.parametrize("size", [300 << 20, 20 << 20, 1000])
def test_a_zip_bomb_is_refused_whatever_it_says_about_its_size(tmp_path, size):
    path, packed = tmp_path / "a.zip", zeros(300 << 20)
    path.write_bytes(zip_of(packed, size))
    assert len(packed) < 400_000
    found = []
    error, held = held_by(lambda: found.append(read(path)))
    said = "it is larger than the 20 MB a notebook may have" if size == 300 << 20 else "it is damaged"
    assert (error, found) == (None, [{NAME: said}])
    assert held < 60_000_000


def test_a_bad_member_does_not_cost_its_neighbours(tmp_path):
    path = make_zip(tmp_path / "class.zip", {f"a/{NAME}": TEXT, f"b/{NAME}": bytes(17 << 20), f"c/{NAME}": TEXT})
    found = {s.learner: s for s in find_submissions([path])}
    assert "far more than it holds" in found["b"].unreadable
    assert [found[learner].answered for learner in "ac"] == [3, 3]


def test_a_bomb_that_is_no_notebook_is_never_unpacked(tmp_path):
    path = tmp_path / "a.zip"
    path.write_bytes(zip_of(zeros(300 << 20), 300 << 20, "data.bin"))
    error, held = held_by(lambda: read(path))
    assert (error, held < 2_000_000) == (None, True)


def test_a_tar_bomb_is_refused(tmp_path):
    path = tmp_path / "a.tar.gz"
    head = tarfile.TarInfo("data.bin")
    head.size = 4 << 30
    with gzip.GzipFile(path, "wb", 9) as file:
        file.write(head.tobuf())
        for _ in range(200):
            file.write(bytes(1 << 20))
    error, held = held_by(lambda: read(path))
    assert "far more than" in error.what
    assert held < 10_000_000


def test_many_members_that_burst_together_are_refused(make, monkeypatch):
    monkeypatch.setattr(archives, "MAX_TOTAL", 5_000_000)
    path = make({f"{n}/{NAME}": os.urandom(1_000_000) for n in range(6)})
    with pytest.raises(Unreadable, match="unpacks to"):
        read(path)


def test_an_index_of_millions_is_not_read_at_once(tmp_path):
    path = tmp_path / "a.zip"
    index = b"PK\1\2" + bytes(archives._AT_ONCE)
    path.write_bytes(index + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 65535, 65535, len(index), 0, 0))
    error, held = held_by(lambda: read(path))
    assert "index is too large" in error.what
    assert held < 1_000_000


def test_a_tar_record_without_end_is_not_read(tmp_path):
    path = tmp_path / "a.tar"
    head = tarfile.TarInfo("x")
    head.type, head.size = tarfile.XHDTYPE, 1 << 30
    path.write_bytes(head.tobuf(tarfile.USTAR_FORMAT) + bytes(1 << 20))
    error, held = held_by(lambda: read(path))
    assert "record of the archive is too large" in error.what
    assert held < 1_000_000


# -- what is no plain file ----------------------------------------------------------------------------------------

NO_FILES = [
    ("link.ipynb", tarfile.SYMTYPE, "/etc/passwd"),
    ("hard.ipynb", tarfile.LNKTYPE, "good.ipynb"),
    ("out.ipynb", tarfile.LNKTYPE, "../../secret.ipynb"),
    ("null.ipynb", tarfile.CHRTYPE, ""),
    ("disk.ipynb", tarfile.BLKTYPE, ""),
    ("pipe.ipynb", tarfile.FIFOTYPE, ""),
]


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz"])
def test_links_and_devices_in_a_tar_are_passed_over_and_said(tmp_path, name):
    found = read(make_tar(tmp_path / name, {"good.ipynb": b"good"}, NO_FILES))
    assert found.pop("good.ipynb") == b"good"
    assert found == {name: "it is a link or a device, not a file" for name, _, _ in NO_FILES}


def test_a_link_to_a_folder_leads_nowhere(tmp_path):
    links = [("learner-a", tarfile.SYMTYPE, "/etc")]
    found = read(make_tar(tmp_path / "a.tar", {}, links))
    assert found == {}
    with tarfile.open(tmp_path / "a.tar", "a") as archive:
        info = tarfile.TarInfo("learner-a/x.ipynb")
        info.size = 1
        archive.addfile(info, io.BytesIO(b"x"))
    assert read(tmp_path / "a.tar") == {"learner-a/x.ipynb": b"x"}


def test_links_in_a_zip_are_passed_over_and_said(tmp_path):
    info = zipfile.ZipInfo("link.ipynb")
    info.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(info, "/etc/passwd")
    assert read(tmp_path / "a.zip") == {"link.ipynb": "it is a link or a device, not a file"}


def test_a_sparse_tar_member_is_not_read(tmp_path):
    path = tmp_path / "a.tar"
    head = bytearray(tarfile.TarInfo(NAME).tobuf(tarfile.GNU_FORMAT))
    head[156:157] = tarfile.GNUTYPE_SPARSE
    head[386:482] = bytes(96)
    head[482:483] = b"\0"
    head[483:495] = b"77777777777\0"  # eight gigabytes of holes
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    path.write_bytes(bytes(head) + bytes(1024))
    assert read(path) == {NAME: "it is a link or a device, not a file"}


def test_an_encrypted_member_is_said(tmp_path):
    data = bytearray(zip_of(zlib.compress(b"x")[2:-4], 1))
    data[6] |= 1
    data[data.index(b"PK\1\2") + 8] |= 1
    (tmp_path / "a.zip").write_bytes(data)
    assert read(tmp_path / "a.zip") == {NAME: "it is encrypted"}


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compressions_are_said(tmp_path, compression):
    path = make_zip(tmp_path / "a.zip", {NAME: b"x"}, compression=compression)
    assert read(path) == {NAME: "it is compressed in a way that is not read here"}


# -- damaged archives ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"", b"PK", b"PK\5\6" + bytes(18), b"\x1f\x8b", b"\x1f\x8b" + bytes(50), b"x" * 3000])
@pytest.mark.parametrize("name", MAKERS)
def test_what_is_no_archive_says_so(tmp_path, name, data):
    path = tmp_path / name
    path.write_bytes(data)
    try:
        assert read(path) == {}
    except Unreadable as error:
        assert "damaged" in error.what
    (found,) = find_submissions([path])
    assert (found.learner, bool(found.unreadable), bool(found.repair)) == ("a", True, True)


@pytest.mark.parametrize("name", MAKERS)
def test_every_cut_and_every_flipped_byte_is_survived(tmp_path, name):
    whole = MAKERS[name](tmp_path / name, {"a/x.ipynb": os.urandom(600), "b/y.ipynb": b"y" * 900}).read_bytes()
    path = tmp_path / ("cut" + name)
    step = max(1, len(whole) // 150)
    changed = [whole[:at] for at in range(0, len(whole), step)]
    changed += [whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :] for at in range(0, len(whole), step)]
    for data in changed:
        path.write_bytes(data)
        try:
            read(path)
        except Unreadable:
            continue


@pytest.mark.parametrize("name", ["a.7z", "a.rar", "a.tar.bz2", "a.tar.xz", "a.gz"])
def test_other_kinds_say_how_to_pack_again(tmp_path, name):
    (tmp_path / name).write_bytes(b"x")
    (found,) = find_submissions([tmp_path])
    assert (found.learner, found.unreadable) == ("a", "It is an archive of a kind that is not opened here.")
    assert ".zip" in found.repair


# -- whose is what ------------------------------------------------------------------------------------------------


def learners(path):
    return [(s.learner, s.lesson, s.answered) for s in find_submissions([path])]


def test_an_archive_of_one_learner_belongs_to_its_name(make):
    for files in (
        {NAME: TEXT},
        {f"work/{NAME}": TEXT},
        {f"lab-main/work/{NAME}": TEXT, f"lab-main/notebooks/{NAME}": STUBS},
    ):
        assert learners(make(files)) == [("a", "start_here", 3)]


def test_an_archive_of_a_class_belongs_to_its_folders(make):
    path = make(
        {f"class/learner-b/work/{NAME}": TEXT, f"class/learner-c/{NAME}": STUBS, f"class/learner-d/{NAME}": TEXT}
    )
    assert learners(path) == [
        ("learner-b", "start_here", 3),
        ("learner-c", "start_here", 0),
        ("learner-d", "start_here", 3),
    ]


@pytest.mark.parametrize("folder", ["", "groupA"])
def test_an_archive_that_was_handed_in_belongs_to_one_learner(tmp_path, folder):
    (tmp_path / folder).mkdir(exist_ok=True)
    files = {f"zoe/{NAME}": TEXT, f"yan/{NAME}": STUBS, f"ann/{NAME}": STUBS}
    make_zip(tmp_path / folder / "mallory.zip", files)
    (tmp_path / "zoe").mkdir()
    (tmp_path / "zoe" / NAME).write_bytes(STUBS)
    assert learners(tmp_path) == [(folder or "mallory", "start_here", 3), ("zoe", "start_here", 0)]


def test_two_archives_of_one_name_in_two_folders_are_two_learners(tmp_path):
    for folder, text in (("groupA", TEXT), ("groupB", STUBS)):
        (tmp_path / folder).mkdir()
        make_zip(tmp_path / folder / "hw.zip", {NAME: text})
    assert learners(tmp_path) == [("groupA", "start_here", 3), ("groupB", "start_here", 0)]


def test_one_archive_that_was_handed_in_holds_fifty_notebooks(tmp_path):
    make_zip(tmp_path / "f.zip", {f"ghost{n}/{NAME}": STUBS for n in range(60)})
    (found,) = find_submissions([tmp_path])
    assert found.learner == "f"
    assert "In f.zip: only the first 50 notebooks were read" in found.notes


def test_an_archive_of_a_folder_of_files_named_after_learners(tmp_path):
    path = make_zip(tmp_path / "class.zip", {"class/ann.ipynb": TEXT, "class/bob.ipynb": STUBS})
    assert learners(path) == [("ann", "start_here", 3), ("bob", "start_here", 0)]


def test_archives_in_a_folder_are_opened(tmp_path):
    (tmp_path / "learner-e").mkdir()
    make_zip(tmp_path / "learner-a.zip", {NAME: TEXT})
    make_tar(tmp_path / "learner-b.tar.gz", {NAME: TEXT})
    make_zip(tmp_path / "learner-e" / "work.zip", {NAME: TEXT})
    assert [s.learner for s in find_submissions([tmp_path])] == ["learner-a", "learner-b", "learner-e"]


def test_what_was_not_read_is_told_beside_what_was(make):
    (found,) = find_submissions([make({NAME: TEXT, "../x.ipynb": b"", "more.zip": b""})])
    assert found.answered == 3
    assert [note.split(": ", 1)[1] for note in found.notes] == [
        "`../x.ipynb`: its name leads out of the archive",
        "`more.zip`: it is an archive inside an archive, which is not opened",
    ]


def test_thousands_of_bad_names_are_told_in_a_few_words(make):
    (found,) = find_submissions([make({NAME: TEXT} | {f"../{n}.ipynb": b"" for n in range(3000)})])
    assert len(found.notes) == 6
    assert found.notes[-1].endswith("2,995 more like this.")


def test_an_archive_that_ends_early_keeps_what_was_read(tmp_path):
    path = make_tar(tmp_path / "learner-a.tar", {NAME: TEXT, "b.ipynb": bytes(100_000)})
    path.write_bytes(path.read_bytes()[: len(TEXT) + 5000])
    (found,) = find_submissions([path])
    assert (found.learner, found.answered) == ("learner-a", 3)
    assert "damaged" in found.notes[-1]


def test_a_class_that_could_be_read_in_part_says_that_somebody_may_be_missing(tmp_path):
    path = make_tar(tmp_path / "class.tar", {f"a/{NAME}": TEXT, f"b/{NAME}": TEXT, "c/b.ipynb": bytes(100_000)})
    path.write_bytes(path.read_bytes()[: 2 * len(TEXT) + 8000])
    found = find_submissions([path])
    assert [(s.learner, bool(s.unreadable)) for s in found] == [("a", False), ("b", False), ("class", True)]


def test_an_empty_archive_is_a_submission_that_says_so(make):
    (found,) = find_submissions([make({"readme.md": b""})])
    assert (found.learner, found.unreadable) == ("a", "The archive holds no notebook.")


def test_two_copies_in_one_archive_are_one_submission(make):
    (found,) = find_submissions(
        [make({NAME: STUBS, "00_start_here (1).ipynb": TEXT, "copy/00_start_here.ipynb": STUBS})]
    )
    assert (found.answered, found.path.name) == (3, "00_start_here (1).ipynb")
    assert found.notes[0].startswith("3 notebooks of this lesson:")


def test_names_beyond_ascii_are_read_with_and_without_the_flag(tmp_path):
    names = [f"{unicodedata.normalize('NFD', 'Zoë')}/{NAME}", f"大山/{NAME}"]
    path = make_zip(tmp_path / "class.zip", dict.fromkeys(names, TEXT))
    wanted = [unicodedata.normalize("NFC", "Zoë"), "大山"]
    assert [s.learner for s in find_submissions([path])] == wanted
    data = bytearray(path.read_bytes())  # macOS packs UTF-8 and does not say so
    for mark, at in ((b"PK\3\4", 7), (b"PK\1\2", 9)):
        place = -1
        while (place := data.find(mark, place + 1)) >= 0:
            data[place + at] &= ~0x08
    path.write_bytes(data)
    assert [s.learner for s in find_submissions([path])] == wanted


# -- nothing is written -------------------------------------------------------------------------------------------


def test_nothing_is_written_anywhere(make, tmp_path, monkeypatch):
    path = make({NAME: TEXT, "../x.ipynb": b"evil", "/tmp/x.ipynb": b"evil", "a/y.ipynb": b"{}"})
    opened = []

    def watch(event, args):
        if event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            opened.append(args[0])

    sys.addaudithook(lambda *event: watch(*event) if watching else None)
    watching = True
    before = sorted(tmp_path.rglob("*"))
    find_submissions([path])
    watching = False
    assert opened == []
    assert sorted(tmp_path.rglob("*")) == before
