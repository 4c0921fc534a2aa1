"""The player's drawing equals Python's, frame for frame and mark for mark, both ways (no server is needed)."""

import base64
import json

import numpy as np
import pytest
from films import films

from labsupport.figures.figure import script, style
from labsupport.figures.film import reason_for
from labsupport.figures.picture import cell_lines

FILMS = films()
_CODE = base64.b64encode(script("player").encode()).decode()
_LOAD = "async (code) => { window.pure = (await import('data:text/javascript;base64,' + code)).default.pure; }"
_MOUNT = """async ([code, css, source, state, width]) => {
  document.body.replaceChildren();
  document.body.style.cssText = `margin:0;width:${width + 2}px`;
  const [sheet, place, listeners] = [document.createElement('style'), document.createElement('div'), []];
  sheet.textContent = css;
  document.body.append(sheet, place);
  const data = { source, state, said: '' };
  const set = (key, value) => { data[key] = value; if (key === 'state') listeners.forEach((act) => act()); };
  window.model = { get: (key) => data[key], set, save_changes() {}, on: (_, act) => listeners.push(act), off() {} };
  (await import('data:text/javascript;base64,' + code)).default.render({ model: window.model, el: place });
}"""


def mount(page, figure, width=762):
    page.set_viewport_size({"width": width + 40, "height": 800})
    page.evaluate(_MOUNT, [_CODE, style("player"), figure.source, figure.state, width])
    page.wait_for_selector(".lab-figure[data-ready]")
    return page.locator(".lab-figure")


def plain(value):
    return json.loads(json.dumps(value))


@pytest.mark.parametrize("name", FILMS)
def test_every_frame_of_every_layout_is_pythons(blank, name):
    figure = FILMS[name]
    blank.evaluate(_LOAD, _CODE)
    rooms = [100, *figure.film["widths"], 1000]
    got = blank.evaluate(
        """([film, rooms, state]) => film.frames.map((_, step) => ({
          scenes: rooms.map((room) => pure.sceneAt(film, step, room)),
          walk: [false, true].map((predict) => pure.walkOf(film, { ...state, step, predict })) }))""",
        [figure.film, rooms, figure.state],
    )
    asks = [False, True] if figure.film["ask"] else [False]
    for step, browser in enumerate(got):
        figure.set(step=step, predict=False)
        assert browser["scenes"] == plain([figure.scene(room) for room in rooms]), step
        for predict in asks:
            assert browser["walk"][predict] == figure.set(predict=predict).words()["walk"]
    figure.set(step=0, predict=False)


@pytest.mark.parametrize("name", [name for name in FILMS if FILMS[name].film["ask"]])
def test_every_prediction_is_judged_the_same(blank, name):
    film = FILMS[name].film
    answers = [list(answer) for answer in np.ndindex(*(len(f["options"]) for f in film["ask"]["fields"]))]
    blank.evaluate(_LOAD, _CODE)
    got = blank.evaluate(
        "([film, answers]) => film.frames.map((_, step) => answers.map((a) => pure.reasonFor(film, step, a)))",
        [film, answers],
    )
    for step, reasons in enumerate(got):
        assert reasons == [reason_for(film, step, a) for a in answers]


_SHOWN = """() => {
  const svg = document.querySelector('svg.drawing');
  const [at, all] = [svg.getBoundingClientRect(), (within, what) => [...within.querySelectorAll(what)]];
  const box = (e) => { const b = e.getBoundingClientRect(); return [b.x - at.x, b.y - at.y, b.width, b.height]; };
  const words = (within) => all(within, 'text').map((t) => t.textContent);
  return { html: svg.innerHTML, width: Number(svg.getAttribute('width')), texts: words(svg),
    cells: Object.fromEntries(all(svg, '.cell').map((c) => (
      [c.dataset.name, { box: box(c.querySelector('rect')), lines: words(c) }]))),
    paths: all(svg, 'path').map((p) => p.getAttribute('d')),
    said: document.querySelector('[role=status]').textContent };
}"""


@pytest.mark.parametrize("name", ["ring all_reduce 4", "pairwise all_to_all 4", "tree reduce 4", "calls", "two ranks",
                                  "sizes", "moves", "graph", "torch graph", "in place", "deep graph", "timeline",
                                  "two timelines"])  # fmt: skip
def test_frames_look_the_same_forwards_and_backwards_and_as_python_draws_them(blank, name):
    figure = FILMS[name].set(step=0)
    shown = mount(blank, figure)
    there = []
    for step in range(figure.steps + 1):
        there.append(seen := blank.evaluate(_SHOWN))
        scene = figure.set(step=step).scene(762)
        assert seen["width"] == scene["width"]
        cells = {m["name"]: m for m in scene["marks"] if m["kind"] == "cell"}
        assert set(seen["cells"]) == set(cells)
        for cell, mark in cells.items():
            assert seen["cells"][cell]["lines"] == [words for _, _, words in cell_lines(mark) if words]
            expected = [mark["x"] + 0.5, mark["y"] + 0.5, mark["w"], mark["h"]]
            assert np.allclose(seen["cells"][cell]["box"], expected, atol=0.5), cell
        words = [m["text"] for m in scene["marks"] if m["kind"] == "text"]
        words += [line for m in cells.values() for _, _, line in cell_lines(m) if line]
        assert sorted(seen["texts"]) == sorted(words)
        assert sorted(seen["paths"]) == sorted(m["d"] for m in scene["marks"] if m["kind"] == "path")
        assert seen["said"] == figure.words()["walk"]
        if step < figure.steps:
            shown.get_by_role("button", name="Next").click()
    for step in reversed(range(figure.steps)):
        shown.get_by_role("button", name="Back").click()
        assert blank.evaluate(_SHOWN) == there[step], step
    shown.get_by_role("button", name="Last").click()
    assert blank.evaluate(_SHOWN) == there[-1]
    shown.get_by_role("button", name="First").click()
    assert blank.evaluate(_SHOWN) == there[0]
    figure.set(step=0)


def test_text_on_the_page_fits_its_cell(blank):
    for name in ("ring of eight", "own values", "calls", "pairwise all_to_all 4", "two ranks", "graph", "torch graph",
                 "in place", "deep graph"):  # fmt: skip
        figure = FILMS[name]
        for width in figure.film["widths"]:
            figure.set(step=figure.steps // 2)
            mount(blank, figure, width + 2)
            wide = blank.evaluate(
                """() => [...document.querySelectorAll('.cell')].flatMap((c) => {
                  const room = c.querySelector('rect').getBoundingClientRect();
                  return [...c.querySelectorAll('text')].map((t) => [t.textContent, t.getBoundingClientRect()])
                    .filter(([, b]) => b.left < room.left - 1 || b.right > room.right + 1).map(([words]) => words);
                })"""
            )
            assert wide == [], (name, width)
        figure.set(step=0)


def test_playing_goes_by_itself_stops_at_the_end_and_on_request(blank):
    blank.clock.install()
    shown = mount(blank, FILMS["flat reduce 4"])
    play = shown.get_by_role("button", name="Play", exact=True)
    step = lambda: blank.evaluate("() => model.get('state').step")  # noqa: E731
    blank.clock.run_for(5000)
    assert step() == 0  # nothing plays unasked
    play.click()
    blank.clock.run_for(1500)
    assert step() == 1 and shown.get_by_role("button", name="Pause").count() == 1
    shown.get_by_role("button", name="Pause").click()
    blank.clock.run_for(5000)
    assert step() == 1
    play.click()
    blank.clock.run_for(60_000)
    assert step() == 4 and play.count() == 1
    play.click()  # from the end it begins anew
    assert step() == 0
    blank.clock.run_for(1500)
    shown.get_by_role("slider").press("End")
    blank.clock.run_for(5000)
    assert step() == 4 and play.count() == 1  # moving by hand ends it


def test_a_film_of_one_frame_has_no_button_that_does_nothing(blank):
    shown = mount(blank, FILMS["short timeline"])
    names = shown.get_by_role("button").all_text_contents()
    assert names == ["Code", "Table"] and shown.get_by_role("slider").count() == 0
    shown.get_by_role("button", name="Table").click()
    assert shown.get_by_role("table").is_visible()
    assert "6 batches" in blank.evaluate(_SHOWN)["said"]
