"""The browser's model and drawing equal Python's: same numbers, same words, same marks (no server is needed)."""

import base64
import json

import numpy as np
import pytest

from labsupport.figures import broadcasting, strides
from labsupport.figures.broadcast_model import broadcast_reason
from labsupport.figures.figure import script, style
from labsupport.figures.picture import cell_lines
from labsupport.figures.stride_model import stride_reason

CASES = 40
_LOAD = "async ([code]) => { window.pure = (await import('data:text/javascript;base64,' + code)).default.pure; }"
_MOUNT = """async ([code, css, source, state, width]) => {
  document.body.replaceChildren();
  document.body.style.cssText = `margin:0;width:${width + 2}px`;
  const sheet = document.createElement('style');
  sheet.textContent = css;
  const place = document.createElement('div');
  document.body.append(sheet, place);
  const data = { source, state, said: '' };
  const set = (key, value) => { data[key] = value; };
  const model = { get: (key) => data[key], set, save_changes() {}, on() {}, off() {} };
  (await import('data:text/javascript;base64,' + code)).default.render({ model, el: place });
}"""


def load(page, kind):
    page.evaluate(_LOAD, [base64.b64encode(script(kind).encode()).decode()])


def plain(value):
    return json.loads(json.dumps(value))


def stride_cases():
    rng = np.random.default_rng(5)
    base = np.arange(30.0) * 1.25
    for _ in range(CASES):
        ndim = int(rng.integers(0, 5))
        item = int(rng.choice([8, 8, 8, 4]))
        figure = strides.draw(
            base[3:],
            shape=rng.integers(0, 5, ndim).tolist() if rng.random() < 0.2 else rng.integers(1, 5, ndim).tolist(),
            strides=(rng.integers(-5, 6, ndim) * item).tolist(),
            offset=int(rng.integers(-2, 30)) * item,
            writeable=bool(rng.integers(2)),
        )
        at = [int(rng.integers(max(1, n))) for n in figure.state["shape"]]
        yield figure.set(at=at, predict=bool(rng.random() < 0.2), revealed=bool(rng.integers(2)))
    yield strides.draw(np.arange(10_000).reshape(100, 100)[::-1, 5:])
    yield strides.draw(np.arange(3_000_000)[::70_000])
    yield strides.draw(np.arange(24).reshape(2, 3, 4).T)
    yield strides.draw(np.zeros((5000, 5)))
    yield strides.draw(np.zeros((1201, 4000), np.int16)[745:741:-1, 3198:3208:2], name="heights")
    yield strides.draw(
        np.array(["東京東京東京", "🙂🙂🙂🙂", "é"]), name="a_name_that_is_longer_than_a_drawing_has_room_for"
    )
    yield strides.draw(np.arange(40, dtype=np.uint8).reshape(2, 20)).set(at=[1, 19])


def broadcast_cases():
    rng = np.random.default_rng(6)
    for _ in range(CASES):
        operands = []
        for _ in range(int(rng.integers(2, 4))):
            shape = tuple(int(n) for n in rng.choice([0, 1, 1, 2, 3, 3], int(rng.integers(0, 4))))
            operands.append(rng.integers(-9, 99, shape) if rng.random() < 0.6 else shape)
        figure = broadcasting.draw(*operands)
        axes = figure.model()["axes"]
        figure.set(at=[int(rng.integers(max(1, n or 1))) for n in axes], predict=bool(rng.random() < 0.2))
        yield figure.set(revealed=bool(rng.integers(2)))
    yield broadcasting.draw((1_000_000, 1, 128), (1_000_000, 128))
    yield broadcasting.draw((2, 1), (3,), names=("a_name_that_is_longer_than_a_drawing_has_room_for", "東京"))
    yield broadcasting.draw((8, 1, 6, 1), (7, 1, 5))
    yield broadcasting.draw(np.array(1.0), np.zeros((3, 20)))


@pytest.mark.parametrize("kind", ["strides", "broadcasting"])
def test_numbers_words_and_marks_are_the_same(blank, kind):
    load(blank, kind)
    cases = list(stride_cases() if kind == "strides" else broadcast_cases())
    stem = "stride" if kind == "strides" else "broadcast"
    got = blank.evaluate(
        f"""(cases) => JSON.stringify(cases.map(([source, state]) => {{
          const model = pure.{stem}Model(source, state);
          return {{ model, words: pure.{stem}Words(source, state, model), code: pure.{stem}Code(source, state, model),
            scenes: [360, 560, 760].map((width) => pure.{stem}Scene(source, state, model, width)) }};
        }}))""",
        [[f.source, f.state] for f in cases],
    )
    for figure, browser in zip(cases, json.loads(got), strict=True):
        assert browser["model"] == plain(figure.model()), figure.state
        assert browser["words"] == figure.words(), figure.state
        assert browser["code"] == figure.code(), figure.state
        for width, scene in zip((360, 560, 760), browser["scenes"], strict=True):
            assert scene == plain(figure.scene(width)), (figure.state, width)


def test_reasons_are_the_same(blank):
    load(blank, "strides")
    cases = [f for f in stride_cases() if f.model()["cells"]]
    asked = [[f.source, f.state, f.state["at"], list(range(-16, 240, 3))] for f in cases]
    got = blank.evaluate(
        """(cases) => cases.map(([source, state, index, answers]) => {
          const model = pure.strideModel(source, state);
          return answers.map((answer) => pure.strideReason(source, model, index, answer));
        })""",
        asked,
    )
    for figure, (_, _, index, answers), reasons in zip(cases, asked, got, strict=True):
        model = figure.model()
        assert reasons == [stride_reason(figure.source, model, index, a) for a in answers]
    load(blank, "broadcasting")
    cases = list(broadcast_cases())
    answers = ["error", [], [3], [1, 3], [3, 1], [3, 3], [2, 3], [0], [3, 2, 1], [3, 1, 3]]
    got = blank.evaluate(
        """([cases, answers]) => cases.map(([source, state]) => {
          const model = pure.broadcastModel(source, state);
          return answers.map((answer) => pure.broadcastReason(source, model, answer));
        })""",
        [[[f.source, f.state] for f in cases], answers],
    )
    for figure, reasons in zip(cases, got, strict=True):
        assert reasons == [broadcast_reason(figure.source, figure.model(), a) for a in answers]


def test_the_buttons_do_what_numpy_does(blank):
    load(blank, "strides")
    array = np.arange(60).reshape(3, 4, 5)[:, 1:, ::2]
    moves = ["transpose", "reverse", "halve"]
    rng = np.random.default_rng(7)
    for _ in range(20):
        figure, view, code = strides.draw(array), array, []
        state = figure.state
        for _ in range(3):
            name, axis = moves[rng.integers(3)], int(rng.integers(3))
            got = blank.evaluate("([name, state, axis]) => pure.MOVES[name](state, axis)", [name, state, axis])
            code.append(got.pop("step"))
            state |= got
            view = eval("v" + code[-1], {"v": view})
        assert state["shape"] == list(view.shape)
        assert [s for s, n in zip(state["strides"], view.shape) if n > 1] == [
            s for s, n in zip(view.strides, view.shape) if n > 1
        ]
        start = figure.state["offset"] - array.__array_interface__["data"][0]
        assert state["offset"] == start + view.__array_interface__["data"][0]


@pytest.mark.parametrize("make", ["c order", "windows", "outside", "three operands", "no fit"])
def test_elements_on_the_page_are_pythons_marks(blank, make):
    a = np.arange(12.0).reshape(3, 4)
    figure = {
        "c order": lambda: strides.draw(a).set(at=[1, 2]),
        "windows": lambda: strides.draw(np.arange(10.0), shape=(8, 3), strides=(8, 8)).set(at=[3, 2]),
        "outside": lambda: strides.draw(a, shape=(4, 4), strides=(32, 8)).set(at=[3, 1]),
        "three operands": lambda: broadcasting.draw((2, 1, 1), (3, 1), (4,)).set(at=[1, 2, 3]),
        "no fit": lambda: broadcasting.draw((4,), (4, 3)),
    }[make]()
    code = base64.b64encode(script(figure.kind).encode()).decode()
    blank.set_viewport_size({"width": 800, "height": 700})
    blank.evaluate(_MOUNT, [code, style(), figure.source, figure.state, 762])
    blank.wait_for_selector(".lab-figure[data-ready]")
    shown = blank.evaluate(
        """() => {
          const svg = document.querySelector('svg.drawing');
          const [at, all] = [svg.getBoundingClientRect(), (within, what) => [...within.querySelectorAll(what)]];
          const inside = (b) => [b.x - at.x, b.y - at.y, b.width, b.height];
          const box = (e) => inside(e.getBoundingClientRect());
          const words = (within) => all(within, 'text').map((t) => t.textContent);
          return {
            width: Number(svg.getAttribute('width')), texts: words(svg),
            cells: Object.fromEntries(all(svg, '.cell').map((c) => (
              [c.dataset.name, { box: box(c.querySelector('rect')), lines: words(c) }]))),
            paths: all(svg, 'path').map((p) => p.getAttribute('d')),
          };
        }"""
    )
    scene = figure.scene(shown["width"])
    cells = {m["name"]: m for m in scene["marks"] if m["kind"] == "cell"}
    assert set(shown["cells"]) == set(cells)
    for name, mark in cells.items():
        assert shown["cells"][name]["lines"] == [words for _, _, words in cell_lines(mark) if words]
        expected = [mark["x"] + 0.5, mark["y"] + 0.5, mark["w"], mark["h"]]
        assert np.allclose(shown["cells"][name]["box"], expected, atol=0.5), name
    words = [m["text"] for m in scene["marks"] if m["kind"] == "text"]
    words += [line for m in cells.values() for _, _, line in cell_lines(m) if line]
    assert sorted(shown["texts"]) == sorted(words)
    assert sorted(shown["paths"]) == sorted(m["d"] for m in scene["marks"] if m["kind"] == "path")
