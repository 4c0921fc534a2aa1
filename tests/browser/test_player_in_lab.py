"""The player in a real JupyterLab: it appears, is operated by mouse and keys, asks, and leaves its picture behind."""

import json

import pytest
from figure_page import (
    CLIPPED,
    FITS,
    IDS,
    LEAST_CONTRAST,
    NAME_OF_FOCUS,
    axe,
    executed_in,
    said,
    state,
    trusted_copy,
    wait_for_lost_widgets,
    write_notebook,
)
from lab_page import FIGURE, PANEL

SETUP = """\
import json
import threading
import numpy as np
from labsupport import lesson
lab = lesson("strides")
calls, seen = json.loads({data!r})
"""
CELLS = [
    'ring = lab.show("collective", "ring_all_reduce", [np.arange(4.0) * 10**r for r in range(4)])\nring',
    'lab.show("collective", "all_to_all", ranks=4).set(step=1)',
    'lab.show("collective", calls)',
    'bars = lab.show("buckets", seen)\nbars',
    'lab.show("buckets", [seen, {**seen, "rank": 1, "began": 5.002}])',
]
N_FIGURES = 5
CONTROLS = "First, Back, Play, Next, Last, Predict, Code, Table, Step"


def cells():
    from films import CALLS, SEEN

    return [SETUP.format(data=json.dumps([CALLS, SEEN])), *CELLS]


@pytest.fixture(scope="module")
def figures(lab):
    """The notebook of this file, run; a locator of its figures."""
    write_notebook(lab.server.work / "player.ipynb", cells())
    lab.open("player.ipynb")
    lab.run_all()
    lab.page.wait_for_function(f"() => document.querySelectorAll('{FIGURE}').length === {N_FIGURES}")
    return lab.figures()


@pytest.fixture
def ring(figures, lab):
    """The ring all-reduce, at its first step, with nothing pressed."""
    return lab.at_start("ring", figures.nth(0))


def press(figure, name):
    figure.get_by_role("button", name=name, exact=True).click()


def in_python(lab, step):
    """Wait until the kernel has this step, and return what it has."""
    lab.page.wait_for_function(
        """async (step) => {
          const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
          const it = { code: '', silent: true, user_expressions: { it: 'ring.state["step"]' } };
          const reply = await kernel.requestExecute(it).done;
          return reply.content.user_expressions.it.data['text/plain'] === String(step);
        }""",
        arg=step,
    )
    return json.loads(eval(lab.ask("json.dumps(ring.state)")))


def test_every_figure_appears_and_hides_its_picture(figures, lab):
    for k in range(N_FIGURES):
        figure = figures.nth(k)
        assert figure.locator("svg.drawing .cell").count() > 3
        note = figure.locator(".title span").text_content()
        assert ("simulated" in note) != ("recorded" in note)
        assert figure.locator("svg.drawing").get_attribute("role") == "img"
    stills = lab.page.locator(f"{PANEL} img[data-figure]")
    assert stills.count() == N_FIGURES
    assert not any(stills.nth(k).is_visible() for k in range(N_FIGURES))
    assert lab.page.locator(f"{PANEL} details").first.is_hidden()
    assert "exchange 1 of 3" in said(figures.nth(1))


def test_buttons_slider_and_python_show_the_same_step(ring, lab):
    press(ring, "Next")
    press(ring, "Next")
    assert state(ring)["step"] == 2
    assert said(ring).startswith("Step 2: reduce-scatter 2 of 3. Chunk 3 goes from rank 0 to 1,")
    slider = ring.get_by_role("slider", name="Step")
    assert slider.get_attribute("aria-valuetext") == "step 2: reduce-scatter 2 of 3"
    slider.press("ArrowRight")
    assert slider.get_attribute("aria-valuetext") == "step 3: reduce-scatter 3 of 3"
    assert in_python(lab, 3)["step"] == 3
    slider.press("End")
    assert said(ring).startswith("Result: after the call. Every rank holds the sum")
    for rank in range(4):
        for chunk in range(4):
            lines = ring.locator(f"[data-name='c{rank}.{chunk}'] text").all_text_contents()
            assert lines == [str(chunk * 1111), "✓ all"]
    slider.press("Home")
    press(ring, "Last")
    press(ring, "Back")
    assert in_python(lab, 6)["step"] == 6
    lab.ask("ring.set(step=4) and None")
    lab.page.wait_for_function("(f) => JSON.parse(f.dataset.state).step === 4", arg=ring.element_handle())
    assert said(ring).startswith("Step 4: all-gather 1 of 3.") and slider.input_value() == "4"


def test_a_button_at_the_end_keeps_the_focus(ring, lab):
    button = ring.get_by_role("button", name="Next", exact=True)
    button.focus()
    for _ in range(12):
        lab.page.keyboard.press("Enter")
    assert state(ring)["step"] == 7 and button.get_attribute("aria-disabled") == "true"
    assert button.evaluate("(b) => document.activeElement === b")
    lab.page.keyboard.press("d")
    assert len(lab.cells()) == N_FIGURES + 1


def test_code_and_table_stand_beside_the_picture(ring):
    press(ring, "Next")
    press(ring, "Code")
    assert "sending = dist.isend(chunk[0], dst=1)" in ring.locator(".code").inner_text()
    press(ring, "Table")
    sheet = ring.get_by_role("group", name="All steps as a table")
    assert sheet.locator("tbody tr").count() == 6
    assert "chunk 0: 0 → 1" in sheet.locator("tr.now").inner_text().replace("\xa0", " ")
    assert sheet.locator("tbody tr:last-child td").nth(4).inner_text() == "48 bytes"  # 2 · 3/4 · 32 bytes


def test_predicting_transfers(ring, lab):
    press(ring, "Predict")
    assert said(ring).endswith("What moves in the next step? Name one transfer.")
    for name in ("Next", "Last"):
        assert ring.get_by_role("button", name=name, exact=True).get_attribute("aria-disabled") == "true"
    ring.get_by_role("slider").press("End")
    assert state(ring)["step"] == 0 and said(ring).startswith("The next step is not shown yet")
    fields = [ring.get_by_role("combobox", name=name) for name in ("from rank", "to rank", "chunk")]
    for answer, why in (((1, 1, 0), "does not send to itself"), ((0, 2, 0), "only to the next one"),
                        ((0, 1, 3), "the ring begins otherwise")):  # fmt: skip
        for field, option in zip(fields, answer):
            field.select_option(str(option))
        press(ring, "Check")
        assert why in said(ring) and state(ring)["step"] == 0
    fields[2].select_option("0")
    press(ring, "Check")
    assert said(ring).startswith("Right: 0 of 1 at the first try. Step 1: reduce-scatter 1 of 3.")
    for field, option in zip(fields, (1, 2, 0)):
        field.select_option(str(option))
    press(ring, "Check")
    assert said(ring).startswith("Right: 1 of 2 at the first try. Step 2")
    press(ring, "Table")
    assert ring.locator("tbody tr:visible").count() == 2  # the others are still to be predicted
    press(ring, "Show")
    assert in_python(lab, 3) | {"asked": 2, "right": 1, "seen": 3} == in_python(lab, 3)
    press(ring, "Back")  # what was seen is not asked again
    press(ring, "Check")
    assert state(ring)["asked"] == 2
    press(ring, "Predict")
    assert ring.locator("tbody tr:visible").count() == 6
    assert not ring.get_by_role("combobox").first.is_visible()


def test_the_late_gradient_is_asked_for(figures, lab):
    bars = figures.nth(3)
    press(bars, "Predict")
    gradient = bars.get_by_role("combobox", name="gradient")
    gradient.select_option(label="layers.5.weight")
    press(bars, "Check")
    assert said(bars).startswith("layers.5.weight is in bucket 0, but another")
    gradient.select_option(label="layers.4.weight")
    press(bars, "Check")
    assert "Step 1: bucket 0 is full." in said(bars)
    press(bars, "Predict")
    press(bars, "Last")
    assert bars.locator("[data-name='x0.2'] text").all_text_contents() == ["8.99 ms"]


def test_keys_typed_in_a_figure_never_reach_the_notebook(ring, lab):
    before = [(c["type"], c["source"]) for c in lab.cells()]
    press(ring, "Predict")
    press(ring, "Table")
    places = ring.locator("button:visible, input:visible, select:visible, [tabindex='0']:visible")
    assert places.count() == 8 + 1 + 3 + 2 + 1
    for k in range(places.count()):
        places.nth(k).focus()
        for key in "ddxmab":
            lab.page.keyboard.press(key)
    assert [(c["type"], c["source"]) for c in lab.cells()] == before


def test_tab_visits_each_control_once_in_reading_order(ring, lab):
    ring.get_by_role("button", name="First").focus()
    visited = []
    for _ in range(40):
        if not ring.evaluate("(f) => f.contains(document.activeElement)"):
            break
        visited.append(ring.evaluate(NAME_OF_FOCUS))
        lab.page.keyboard.press("Tab")
    assert ", ".join(visited) == CONTROLS


def test_every_id_is_given_once_and_labels_reach_their_own_figure(figures, lab):
    seen = lab.page.evaluate(IDS, PANEL)
    assert len(seen["ids"]) == len(set(seen["ids"])) > 10
    assert seen["elsewhere"] == []


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_themes_contrast_and_axe(figures, ring, lab, theme):
    lab.theme(theme)
    for name in ("Predict", "Code", "Table"):
        press(ring, name)
    for k in range(N_FIGURES):
        figure = figures.nth(k)
        lab.page.wait_for_timeout(0)
        low = lab.page.evaluate(LEAST_CONTRAST, figure.element_handle())
        assert low["ratio"] >= 4.5, low
    assert axe(lab.page) == []


def test_forced_colours_stay_readable(figures, lab):
    lab.page.emulate_media(forced_colors="active")
    for k in range(N_FIGURES):
        low = lab.page.evaluate(LEAST_CONTRAST, figures.nth(k).element_handle())
        assert low["ratio"] >= 4.5, low
    lab.page.emulate_media(forced_colors="none")


def test_narrow_and_enlarged_pages_keep_text_and_controls(figures, ring, lab):
    press(ring, "Predict")
    size = lab.page.viewport_size
    for width, zoom in ((640, 1), (1280, 2)):  # zooming a page by 2 halves its width in CSS pixels
        lab.page.set_viewport_size({"width": width // zoom, "height": size["height"]})
        for k in range(N_FIGURES):
            figure = figures.nth(k)
            figure.scroll_into_view_if_needed()
            scrolls = figure.locator(".stage[tabindex='0']").count() == 1
            if not scrolls:
                lab.page.wait_for_function(FITS, arg=figure.element_handle())
            seen = lab.page.evaluate(CLIPPED, figure.element_handle())
            outside = [e for e in seen["clipped"] if not (scrolls and e.startswith(("<rect", "<text")))]
            assert outside == []
            assert seen["text"] >= 11
            assert seen["target"] >= 32
    lab.page.set_viewport_size(size)


def test_reduced_motion_stops_transitions_and_play_still_steps(ring, lab):
    lab.page.emulate_media(reduced_motion="reduce")
    duration = "(f) => getComputedStyle(f.querySelector('.cell rect')).transitionDuration"
    assert lab.page.evaluate(duration, ring.element_handle()) == "0s"
    press(ring, "Play")
    lab.page.wait_for_function("(f) => JSON.parse(f.dataset.state).step === 2", arg=ring.element_handle())
    press(ring, "Pause")
    lab.page.emulate_media(reduced_motion="no-preference")


def test_callbacks_run_in_the_main_thread(ring, lab):
    lab.ask("globals().update(threads=[])")
    write = "lambda change: threads.append(threading.current_thread() is threading.main_thread())"
    lab.ask(f"globals().update(note={write}) or ring.widget().observe(note, 'state')")
    press(ring, "Next")
    in_python(lab, 1)
    assert lab.ask("threads and all(threads)") == "True"
    lab.ask("ring.widget().unobserve(note, 'state')")


def test_two_hundred_updates_cost_the_kernel_little(ring, lab):
    rss = "__import__('psutil').Process().memory_info().rss"
    before = int(lab.ask(rss))
    ring.evaluate(
        """async (f) => { const way = (name) => [...f.querySelectorAll('button')].find((b) => b.textContent === name);
          for (let k = 0; k < 200; k++) { way(k % 10 < 5 ? 'Next' : 'Back').click();
          await new Promise((done) => requestAnimationFrame(done)); } }"""
    )
    in_python(lab, 0)
    assert int(lab.ask(rss)) - before < 20_000_000


def test_a_reloaded_page_shows_the_same_step(figures, ring, lab):
    ring.get_by_role("slider").press("End")
    in_python(lab, 7)
    lab.save()
    lab.reload()
    lab.page.wait_for_selector(FIGURE)
    assert state(lab.figures().nth(0))["step"] == 7
    assert not lab.page.locator(f"{PANEL} img[data-figure]").first.is_visible()


def test_a_new_kernel_leaves_picture_and_table(figures, lab):
    lab.errors.expected.append("widget model not found")
    lab.save()
    lab.open("player.ipynb")
    stills = lab.page.locator(f"{PANEL} img[data-figure]")
    lab.page.wait_for_function(
        "([stills, n]) => [...document.querySelectorAll(stills)].filter((i) => i.naturalWidth > 0).length === n",
        arg=[f"{PANEL} img[data-figure]", N_FIGURES],
    )
    wait_for_lost_widgets(lab, N_FIGURES)
    assert stills.first.is_visible()
    assert "Ring all-reduce, simulated" in stills.first.get_attribute("alt")
    table = lab.page.locator(f"{PANEL} details").first
    table.locator("summary").click()
    assert table.locator("tbody tr").count() == 6
    lab.errors.expected.clear()


@pytest.fixture(scope="module")
def executed(lab):
    return executed_in(lab, "player-executed.ipynb", cells()[:2])


def test_an_untrusted_notebook_shows_the_picture(executed, lab):
    lab.errors.expected.append("widget model not found")
    lab.open(executed.name)
    still = lab.page.locator(f"{PANEL} .jp-OutputArea img").first
    still.wait_for()
    assert still.evaluate("(i) => i.naturalWidth") > 0
    assert "Every rank sends 48 bytes" in still.get_attribute("alt")
    assert lab.page.locator(f"{PANEL} .jp-OutputArea svg text").count() == 0
    lab.errors.expected.clear()


def test_a_trusted_notebook_with_state_plays_without_a_kernel(executed, lab):
    lab.open(trusted_copy(lab, executed).name)
    lab.page.wait_for_selector(FIGURE)
    figure = lab.figures().first
    press(figure, "Next")
    assert said(figure).startswith("Step 1: reduce-scatter 1 of 3.")
