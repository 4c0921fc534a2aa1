"""What a figure puts into a notebook: a picture first, then the live figure; small, escaped, from nowhere else."""

import base64
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient

import labsupport.figures
from labsupport.figures import broadcasting, strides
from labsupport.figures.figure import script, style

FOLDER = Path(labsupport.figures.__file__).parent
FIGURES = {
    "c order": lambda: strides.draw(np.arange(12.0).reshape(3, 4)),
    "two hundred": lambda: strides.draw(np.arange(200.0).reshape(10, 20) * 1000),
    "trimmed": lambda: strides.draw(np.arange(10_000.0).reshape(100, 100)),
    "far apart": lambda: strides.draw(np.arange(2_000_000)[::10_000]),
    "four axes": lambda: strides.draw(np.arange(192).reshape(2, 4, 4, 6)),
    "no element": lambda: strides.draw(np.zeros((0, 3))),
    "one number": lambda: strides.draw(np.array(3.5)),
    "pair": lambda: broadcasting.draw(np.arange(3.0)[:, None], np.arange(4.0)),
    "three": lambda: broadcasting.draw((2, 1, 1), (5, 1), (20,)),
    "no fit": lambda: broadcasting.draw((4,), (4, 3)),
    "large": lambda: broadcasting.draw((1000, 1, 128), (1000, 128)),
    "scalars": lambda: broadcasting.draw((), ()),
}


class Image(HTMLParser):
    """The attributes of the one image in a piece of HTML."""

    def __init__(self, html):
        super().__init__()
        self.found = []
        self.feed(html)
        (self.attributes,) = self.found

    def handle_starttag(self, tag, attrs):
        if tag == "img":
            self.found.append(dict(attrs))


def picture_of(figure):
    image = Image(figure.html()).attributes
    data = image["src"].removeprefix("data:image/svg+xml;base64,")
    return ElementTree.fromstring(base64.b64decode(data)), image


@pytest.mark.parametrize("name", FIGURES)
def test_the_picture_is_well_formed_opaque_small_and_described(name):
    figure = FIGURES[name]()
    svg, image = picture_of(figure)
    assert svg[0].get("fill") == "#ffffff"
    assert svg[0].get("width") == svg.get("width") == "760"
    assert image["alt"] == figure.alt
    assert len(image["alt"]) > 60
    assert len(figure.html()) <= 60_000
    assert len(figure.scene()["marks"]) <= 2_000
    words = " ".join("".join(t.itertext()) for t in svg.iter("{http://www.w3.org/2000/svg}text"))
    for sentence in (figure.words()["walk"], figure.words()["summary"]):  # wrapped, but complete
        assert sentence in words


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("width", [300, 480, 760, 958])
def test_nothing_is_drawn_outside_of_the_picture(name, width):
    scene = FIGURES[name]().scene(width)
    for mark in scene["marks"]:
        if mark["kind"] == "cell":
            assert 0 <= mark["x"]
            assert mark["x"] + mark["w"] <= width, mark
            assert 0 <= mark["y"]
            assert mark["y"] + mark["h"] <= scene["height"]
        elif mark["kind"] == "text":
            assert 0 <= mark["x"] <= width
            assert 0 <= mark["y"] <= scene["height"]


@pytest.mark.parametrize("name", FIGURES)
def test_no_two_boxes_overlap(name):
    boxes = [m for m in FIGURES[name]().scene(480)["marks"] if m["kind"] == "cell"]
    taken = set()
    for m in boxes:
        inner = (m["x"] + m["w"] // 2, m["y"] + m["h"] // 2)
        assert inner not in taken
        taken.add(inner)
        assert sum(b["x"] < inner[0] < b["x"] + b["w"] and b["y"] < inner[1] < b["y"] + b["h"] for b in boxes) == 1


def test_the_alt_text_holds_the_numbers():
    alt = strides.draw(np.arange(12.0).reshape(3, 4)[::-1]).alt
    for words in ("(3, 4)", "(−32, 8) bytes", "offset 64", "float64", "96 of the buffer's 96 bytes", "address 48"):
        assert words in alt
    alt = broadcasting.draw(np.arange(3.0)[:, None], np.arange(4.0)).alt
    for words in ("(3, 1)", "(4,)", "(3, 4)", "hold 56 bytes", "stand for 192 bytes", "96 bytes"):
        assert words in alt


def test_names_and_values_are_escaped():
    nasty = np.array(["<b>", '"&', "<i>x"])
    figure = strides.draw(nasty, name="<script>")
    svg, image = picture_of(figure)  # parsing is the test: nothing of it became markup
    assert "<script>" in image["alt"]
    assert {t.tag.partition("}")[2] for t in svg.iter()} == {"svg", "rect", "path", "g", "text"}


def test_two_outputs_picture_first(monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda data, *rest, **options: shown.append(data))
    figure = strides.draw(np.arange(6.0))
    figure._ipython_display_()
    assert list(shown[0]) == ["text/html", "text/plain"]
    assert shown[0]["text/plain"] == figure.alt
    assert "application/vnd.jupyter.widget-view+json" in shown[1]
    assert figure.widget() is figure.widget()


def test_an_executed_cell_holds_two_outputs_and_no_empty_one(tmp_path):
    cell = nbformat.v4.new_code_cell("from labsupport.figures import broadcasting\nbroadcasting.draw((3, 1), (4,))")
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    notebook = nbformat.v4.new_notebook(cells=[cell], metadata=kernel)
    run_here = {"metadata": {"path": str(FOLDER.parents[1])}}
    NotebookClient(notebook, timeout=120, kernel_name="python3", resources=run_here).execute()
    outputs = [output for output in notebook.cells[0].outputs if output.output_type != "stream"]
    assert [sorted(output.data) for output in outputs] == [
        ["text/html", "text/plain"], ["application/vnd.jupyter.widget-view+json", "text/plain"],
    ]  # fmt: skip


def test_without_anywidget_the_picture_is_still_shown(monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda data, *rest, **options: shown.append(data))
    figure = strides.draw(np.arange(6.0))
    monkeypatch.setattr(figure, "widget", _no_anywidget)
    figure._ipython_display_()
    assert len(shown) == 1


def _no_anywidget():
    raise ImportError("no module named anywidget")


@pytest.mark.parametrize("kind", ["strides", "broadcasting", "player"])
def test_nothing_comes_from_the_network(kind):
    addresses = re.findall(r"https?://[^\s\"'`)]+", script(kind) + style(kind))
    assert set(addresses) <= {"http://www.w3.org/2000/svg"}
    assert not re.search(r"^\s*import |\bimport\(|fetch\(|XMLHttpRequest", script(kind), re.M)


def test_no_figure_uses_pyplot():
    for file in FOLDER.rglob("*.py"):
        assert "pyplot" not in file.read_text(encoding="utf-8"), file


def test_the_browsers_share_of_a_figure_is_small():
    """Widget state as stored by nbclient holds script and style once more."""
    for kind in ("strides", "broadcasting", "player"):
        assert len(script(kind)) + len(style(kind)) <= 50_000


def test_a_script_holds_what_it_uses_of_the_shared_part_and_no_more():
    shared = (FOLDER / "assets" / "common.js").read_text(encoding="utf-8")
    names = set(re.findall(r"^(?:const|function) (\w+)", shared, re.M))
    assert all(line[:1] in " })]" or re.match(r"const |function |//|$", line) for line in shared.splitlines())
    for kind in ("strides", "broadcasting", "player", "chunks"):
        code, own = script(kind), (FOLDER / "assets" / f"{kind}.js").read_text(encoding="utf-8")
        here = set(re.findall(r"^(?:const|function) (\w+)", code, re.M)) & names
        assert {name for name in names if re.search(rf"(?<![.\w]){name}\(", own)} <= here
        assert ("stepper" in here) == (kind != "player") and ("walkKey" in here) == (
            kind in ("strides", "broadcasting")
        )
        assert all(len(re.findall(rf"\b{name}\b", code)) > 1 for name in here), kind
