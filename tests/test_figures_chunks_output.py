"""What a chunk map puts into a notebook: a small, described picture; words for whatever cannot be drawn."""

import base64
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from chunkmaps import STACK, chunk_cases

import labsupport.figures
from labsupport.errors import LabError
from labsupport.figures import chunks
from labsupport.figures.figure import script, style
from labsupport.live import lesson

CASES = list(chunk_cases(12))
NUMBERS = range(len(CASES))
SVG = "{http://www.w3.org/2000/svg}"
BOX = re.compile(r"M(-?\d+) (-?\d+)(?:h(-?\d+))?(?:v(-?\d+))?")


@pytest.mark.parametrize("k", NUMBERS)
def test_the_picture_is_well_formed_opaque_small_and_described(k):
    figure = CASES[k]
    html = figure.html()
    svg = ElementTree.fromstring(base64.b64decode(html.partition("base64,")[2].partition('"')[0]))
    assert svg[0].get("fill") == "#ffffff"
    assert svg.get("width") == "760"
    words = " ".join("".join(t.itertext()) for t in svg.iter(f"{SVG}text"))
    assert figure.words()["walk"] in words
    assert figure.words()["summary"] in words
    assert len(html) <= 60_000
    assert len(json.dumps(figure.source)) <= 40_000
    assert len(figure.scene()["marks"]) <= 2_000


@pytest.mark.parametrize("width", [300, 480, 760, 958])
@pytest.mark.parametrize("k", NUMBERS)
def test_nothing_is_drawn_outside_and_boxes_are_few(k, width):
    scene = CASES[k].scene(width)
    boxes = 0
    for mark in scene["marks"]:
        if mark["kind"] == "text":
            assert 0 <= mark["x"] <= width
            assert 0 <= mark["y"] <= scene["height"]
        elif mark["kind"] == "path":
            found = BOX.findall(mark["d"])
            boxes += len(found) * (mark["role"] == "chunk")
            for x, y, right, down in found:
                assert 0 <= int(x) and int(x) + int(right or 0) <= width, mark["role"]
                assert 0 <= int(y) and int(y) + int(down or 0) <= scene["height"], mark["role"]
    assert boxes <= 2_400  # 1,000 in each of two maps, and their strips


def test_the_alt_text_holds_the_numbers():
    alt = chunks.draw(
        STACK, other={"chunks": (1, 32, 32), "shards": (256, 128, 128)}, select=np.s_[7], name="crops"
    ).alt
    for words in (
        "(1024, 128, 128)", "uint8", "crops[7, :, :] wants 16,384 bytes", "A touches 1 of 32 chunks", "524,288 bytes",
        "32.0\u00a0×", "B touches 16 of 16,384 chunks", "an index of 65,540 bytes", "17 requests",
        "rdcc_nbytes=1048576",
    ):  # fmt: skip
        assert words in alt, words


def test_more_chunks_than_can_be_drawn_are_folded_and_say_so():
    scene = chunks.draw(((2160, 4320), "int16", (1, 1))).scene()
    notes = [mark["text"] for mark in scene["marks"] if mark["kind"] == "text"]
    assert any(
        re.fullmatch(r"Each box stands for \d+ × \d+ chunks\. What is touched is drawn to scale\.", note)
        for note in notes
    )
    notes = [
        mark["text"] for mark in chunks.draw(((5000, 30, 40), "u1", (1, 30, 40))).scene()["marks"] if "text" in mark
    ]
    assert any(
        re.fullmatch(r"Each box of a strip stands for \d+ chunks\. What is touched is drawn to scale\.", note)
        for note in notes
    )


def test_the_volume_lies_under_the_chunks_where_that_is_cheap():
    volume = np.arange(24 * 30 * 40, dtype="int16").reshape(24, 30, 40)
    figure = chunks.draw(volume, chunks=(1, 10, 10))
    planes = [(tuple(image["plane"]), image["at"]) for image in figure.source["images"]]
    assert planes == [((r, c), at) for (r, c), n in (((1, 2), 24), ((0, 2), 30), ((0, 1), 40)) for at in _spread(n)]
    at = [mark for mark in figure.select(np.s_[20]).scene()["marks"] if mark["kind"] == "image"]
    assert at[0]["href"] == figure.source["images"][3]["href"]
    assert chunks.draw(volume, image=False).source["images"] == []
    assert chunks.draw(STACK).source["images"] == []
    assert chunks.draw(((24, 30, 40), "f4", (2, 30, 40)), image=volume).source["images"] == figure.source["images"]
    assert chunks.draw(np.array([["a", "b"]] * 4)).source["images"] == []
    assert chunks.draw(np.full((3, 4), np.nan)).source["images"] == []


def _spread(n):
    return [(2 * k + 1) * n // 8 for k in range(4)]


class Costly:
    """A dataset whose chunks are so large that a picture of it is not worth reading."""

    shape, dtype, chunks, shards = (400, 400, 400), np.dtype("u1"), (400, 400, 400), None

    def __getitem__(self, key):
        raise AssertionError("read")


def test_a_costly_picture_is_not_read():
    pytest.importorskip("h5py")
    big = np.broadcast_to(np.uint8(3), (20_000, 20_000))
    assert chunks.draw(big).source["images"] == []
    source = {"shape": [400] * 3, "itemsize": 1, "stored": None}
    layout = {"format": "hdf5", "chunks": [400] * 3, "per": [1] * 3}
    assert len(chunks._images(np.zeros((400, 400, 400), "u1"), source, layout)) == 12
    with pytest.raises(AssertionError, match="read"):
        chunks._images(Costly(), source, layout)
    assert chunks._images(Costly(), source | {"itemsize": 2}, layout) == []


WRONG = {
    "no array": lambda: chunks.draw(object()),
    "a number": lambda: chunks.draw(5),
    "no axes": lambda: chunks.draw(np.array(1.0)),
    "six axes": lambda: chunks.draw(np.zeros((1,) * 6)),
    "no elements": lambda: chunks.draw(np.zeros((0, 3))),
    "too much": lambda: chunks.draw(((10**9, 10**9), "u1")),
    "chunks of 0": lambda: chunks.draw(np.zeros((4, 4)), chunks=(0, 2)),
    "chunks of one axis": lambda: chunks.draw(np.zeros((4, 4)), chunks=(2,)),
    "chunks that are no numbers": lambda: chunks.draw(np.zeros((4, 4)), chunks="ab"),
    "shards between chunks": lambda: chunks.draw(np.zeros((4, 4)), chunks=(2, 2), shards=(3, 4)),
    "an unknown format": lambda: chunks.draw(np.zeros((4, 4)), format="netcdf"),
    "an unknown other": lambda: chunks.draw(np.zeros((4, 4)), other=object()),
    "an unknown dtype": lambda: chunks.draw(((4, 4), "float31")),
    "outside": lambda: chunks.draw(np.zeros((4, 4)), select=np.s_[5]),
    "nothing": lambda: chunks.draw(np.zeros((4, 4)), select=np.s_[3:3]),
    "a list": lambda: chunks.draw(np.zeros((4, 4)), select=np.s_[[0, 2]]),
    "too many axes": lambda: chunks.draw(np.zeros((4, 4)), select=np.s_[0, 0, 0]),
    "a plane of one axis": lambda: chunks.draw(np.zeros((4, 4, 4)), plane=(1,)),
    "a plane that is not there": lambda: chunks.draw(np.zeros((4, 4, 4)), plane=(1, 3)),
    "a name that is a number": lambda: chunks.draw(np.zeros((4, 4)), name=4),
    "an unknown option": lambda: chunks.draw(np.zeros((4, 4)), colour=3),
    "no file": lambda: chunks.draw("nowhere.h5"),
    "no slots": lambda: chunks.draw(np.zeros((4, 4)), cache_slots=-1),
    "an image of another shape": lambda: chunks.draw(((4, 4), "u1"), image=np.zeros((3, 3))),
    "too many reads": lambda: chunks.draw(np.zeros((4, 4)), reads=[np.s_[0]] * 201),
    "a read outside": lambda: chunks.draw(np.zeros((4, 4)), reads=[np.s_[9]]),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_use_is_told_in_words(name):
    with pytest.raises(LabError) as raised:
        WRONG[name]()
    assert "Error" not in raised.value.what


@pytest.mark.parametrize("changes", [
    {"layouts": []}, {"layouts": [{"format": "x"}] * 2}, {"start": [4]}, {"start": [2], "stop": [1]}, {"by": [0]},
    {"cache": 1}, {"cache_bytes": 0}, {"cache_slots": 2.5}, {"history": [[[0, 1]]]}, {"plane": [2]}, {"nothing": 1},
    {"history": 5}, {"compare": None},
], ids=str)  # fmt: skip
def test_what_cannot_be_set_is_told_in_words(changes):
    figure = chunks.draw(((10,), "u1", (3,)))
    before = figure.state
    with pytest.raises(LabError):
        figure.set(**changes)
    assert figure.state == before


def test_a_file_that_is_no_hdf5_and_one_that_is_closed_again(tmp_path):
    (tmp_path / "x.h5").write_bytes(b"not one")
    with pytest.raises(LabError, match="not an HDF5 file"):
        chunks.draw(tmp_path / "x.h5")
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "y.h5", "w") as file:
        file["x"] = np.ones((3, 4))
    chunks.draw(tmp_path / "y.h5")
    with h5py.File(tmp_path / "y.h5", "a"):  # nobody holds it any more
        pass
    (tmp_path / "empty").mkdir()
    with pytest.raises(LabError):
        chunks.draw(tmp_path / "empty")


def test_a_tensor_is_drawn_too():
    torch = pytest.importorskip("torch")
    figure = chunks.draw(torch.arange(120.0).reshape(10, 12), chunks=(4, 5))
    assert (figure.source["dtype"], figure.source["itemsize"]) == ("float32", 4)
    assert figure.source["images"]


def test_lab_show_finds_it():
    assert "Chunk map. Shape (1024, 128, 128)" in lesson("strides").show("chunks", STACK).alt


def test_nothing_comes_from_the_network_and_the_browsers_share_is_bounded():
    code = script("chunks") + style("chunks")
    assert set(re.findall(r"https?://[^\s\"'`)]+", code)) <= {"http://www.w3.org/2000/svg"}
    assert not re.search(r"^\s*import |\bimport\(|fetch\(|XMLHttpRequest", script("chunks"), re.M)
    assert len(code) <= 60_000  # it also plays HDF5's cache


def test_names_are_escaped():
    figure = chunks.draw(np.zeros((3, 4)), name='<b>"&')
    ElementTree.fromstring(figure.svg())
    assert "&lt;b&gt;" in figure.html()


def test_no_module_of_the_map_loads_an_array_library_to_be_imported():
    folder = Path(labsupport.figures.__file__).parent
    for file in folder.glob("chunk*.py"):
        assert not re.search(r"^(import|from) (numpy|h5py|zarr|torch)", file.read_text(encoding="utf-8"), re.M), file


def painted(figure):
    """Return {role: [(width, height) of each box]} of the first map."""
    marks = [mark for mark in figure.scene()["marks"] if mark["kind"] == "path"]
    box = re.compile(r"M\d+ \d+h(\d+)v(\d+)")
    found = {}
    for mark in marks:  # the map comes first, the strips and the bars after it
        found.setdefault(mark["role"], [(int(w), int(h)) for w, h in box.findall(mark["d"])])
    return found


def test_in_folded_boxes_what_is_touched_is_drawn_to_scale():
    column = chunks.draw(((1000, 1000), "f4", (1, 1)), select=np.s_[:, 500])
    assert painted(column)["chunk"] == painted(column)["chosen"] == [(2, 340)]  # one column of 1,000, not a box of 32
    block = chunks.draw(((1000, 1000), "f4", (2, 2)), select=np.s_[101:300, 101:300])
    assert painted(block)["chunk"] == [(138, 68)]  # elements 100 to 299 of 1,000, in 688 by 340 pixels
    apart = painted(chunks.draw(((1000, 1000), "f4", (1, 1)), select=np.s_[500, 100:900:400]))
    assert apart["chunk"] == [(2, 2)] * 2
    notes = [m["text"] for m in chunks.draw(((10_000,), "f4", (1,)), select=np.s_[::7]).scene()["marks"] if "text" in m]
    assert "Steps too fine to draw are drawn as one." in " ".join(notes)


def test_a_folded_box_is_a_shard_where_there_is_one():
    notes = [
        mark["text"]
        for mark in chunks.draw(((1000, 1000), "f4", (1, 1)), shards=(100, 100)).scene()["marks"]
        if "text" in mark
    ]
    assert "Each box stands for 100 × 100 chunks. What is touched is drawn to scale." in notes


def test_a_long_size_of_rows_stands_where_there_is_room():
    texts = [m for m in chunks.draw(((10**9, 40), "u1", (1000, 40))).scene(300)["marks"] if m["kind"] == "text"]
    assert "axis 0 ↓ 1,000,000,000, axis 1 →" in [m["text"] for m in texts]
