"""The browser's chunk map equals Python's: same numbers, words, table, code and marks (no server is needed)."""

import base64
import json
import sys
from pathlib import Path

import pytest
from test_same_drawing import _LOAD, _MOUNT, plain

from labsupport.figures import chunks
from labsupport.figures.figure import script, style

sys.path.insert(0, str(Path(__file__).parents[1]))
from chunkmaps import STACK, chunk_cases

WIDTHS = (300, 560, 760)


@pytest.fixture
def page(blank):
    blank.evaluate(_LOAD, [base64.b64encode(script("chunks").encode()).decode()])
    return blank


def test_numbers_words_and_marks_are_the_same(page):
    cases = list(chunk_cases())
    got = page.evaluate(
        """([cases, widths]) => JSON.stringify(cases.map(([source, state]) => {
          const model = pure.chunkModel(source, state);
          return { model, words: pure.chunkWords(source, state, model), code: pure.chunkCode(source, state, model),
            table: pure.chunkTable(source, state, model),
            scenes: widths.map((width) => pure.chunkScene(source, state, model, width)) };
        }))""",
        [[[f.source, f.state] for f in cases], WIDTHS],
    )
    for figure, browser in zip(cases, json.loads(got), strict=True):
        assert browser["model"] == plain(figure.model()), figure.state
        assert browser["words"] == figure.words(), figure.state
        assert browser["code"] == figure.code()
        assert browser["table"] == figure.table()
        for width, scene in zip(WIDTHS, browser["scenes"], strict=True):
            assert scene == plain(figure.scene(width)), (figure.state, width)


def test_reasons_are_the_same(page):
    cases = list(chunk_cases(20))
    asked = [[f.source, f.state, sorted(_answers(f.model()))] for f in cases]
    got = page.evaluate(
        """(cases) => cases.map(([source, state, answers]) => {
          const model = pure.chunkModel(source, state);
          return answers.map((answer) => pure.chunkReason(source, state, model, answer));
        })""",
        asked,
    )
    for figure, (_, _, answers), reasons in zip(cases, asked, got, strict=True):
        assert reasons == [figure.reason(answer) for answer in answers]
        assert reasons.count("") == 1


def _answers(model):
    cost = model["layouts"][0]
    return {0, 1, 2, 3, cost["count"], cost["count"] + 1, cost["total"], cost["total"] + 1, cost["decoded"],
            model["wanted"], model["wanted_bytes"], sum(cost["touched"])}  # fmt: skip


def test_moves_stay_inside_the_array_and_sweeps_cover_it(page):
    state = chunks.draw(STACK, select=(slice(30, 62), 5, slice(100, 120))).state
    got = page.evaluate(
        """([state, shape]) => ({
          right: pure.MOVES.move(state, shape, 2, 40), left: pure.MOVES.move(state, shape, 0, -1000),
          less: pure.MOVES.resize(state, shape, 2, -100), more: pure.MOVES.resize(state, shape, 1, 1000),
          sweep: pure.sweepOf(state, shape, 0), questions: [0, 1, 2].map((k) => pure.questionOf(shape, k)) })""",
        [state, STACK[0]],
    )
    assert got["right"] == {"start": [30, 5, 108], "stop": [62, 6, 128]}
    assert got["left"] == {"start": [0, 5, 100], "stop": [32, 6, 120]}
    assert (got["less"], got["more"]) == ({"stop": [62, 6, 101]}, {"stop": [62, 128, 120]})
    assert [read[0] for read in got["sweep"]] == [[at, min(at + 32, 1024), 1] for at in range(30, 1024, 32)]
    figure = chunks.draw(STACK)
    assert len({figure.set(**question).model()["layouts"][0]["count"] for question in got["questions"]}) >= 1


@pytest.mark.parametrize("case", [-1, -2, -3, -8, -11])
def test_elements_on_the_page_are_pythons_marks(blank, case):
    figure = list(chunk_cases(0))[case]
    code = base64.b64encode(script("chunks").encode()).decode()
    blank.set_viewport_size({"width": 800, "height": 900})
    blank.evaluate(_MOUNT, [code, style("chunks"), figure.source, figure.state, 762])
    blank.wait_for_selector(".lab-figure[data-ready]")
    shown = blank.evaluate(
        """() => {
          const svg = document.querySelector('svg.drawing');
          const all = (what) => [...svg.querySelectorAll(what)];
          const box = (e) => ['x', 'y', 'width', 'height'].map((name) => Number(e.getAttribute(name)));
          const seen = (e) => getComputedStyle(e);
          return {
            width: Number(svg.getAttribute('width')), texts: all('text').map((t) => t.textContent),
            paths: all('path').map((p) => p.getAttribute('d')), images: all('image').map(box),
            fills: Object.fromEntries(all('path').map((p) => [p.getAttribute('class'), seen(p).fill !== 'none'])),
          };
        }"""
    )
    marks = figure.scene(shown["width"])["marks"]
    assert shown["texts"] == [m["text"] for m in marks if m["kind"] == "text"]
    assert shown["paths"] == [m["d"] for m in marks if m["kind"] == "path"]
    assert shown["images"] == [[m[key] for key in "xywh"] for m in marks if m["kind"] == "image"]
    assert shown["fills"]["path-chosen"] and shown["fills"].get("path-chunk", True)
