"""The figures in a real JupyterLab: they appear, they can be operated, and their picture is there when they cannot."""

import base64
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
import threading
import numpy as np
from labsupport.figures import broadcasting, strides
"""
CELLS = [
    SETUP,
    "walk = strides.draw(np.arange(12.0).reshape(3, 4))\nwalk",
    "align = broadcasting.draw(np.arange(3.0)[:, None], np.arange(4.0))\nalign",
    "strides.draw(np.arange(12.0).reshape(3, 4), shape=(4, 4), strides=(32, 8)).set(at=[3, 1])",
    "broadcasting.draw((4,), (4, 3))",
]
N_FIGURES = 4
CONTROLS = {
    "strides": (
        "axis 0 size, axis 0 stride, bytes, Reverse axis 0, Every 2nd along axis 0, "
        "axis 1 size, axis 1 stride, bytes, Reverse axis 1, Every 2nd along axis 1, "
        "offset, bytes, Transpose, Add axis, Drop last axis, Reset, Predict, Code, Elements of the view"
    ),
    "broadcasting": (
        "a size 0, a size 1, + first axis for a, + last axis for a, − first axis of a, "
        "b size 0, + first axis for b, + last axis for b, − first axis of b, "
        "Reset, Predict, Code, Elements of the result"
    ),
}


@pytest.fixture(scope="module")
def figures(lab):
    """The notebook of this file, run; a locator of its figures."""
    write_notebook(lab.server.work / "figures.ipynb", CELLS)
    lab.open("figures.ipynb")
    lab.run_all()
    lab.page.wait_for_function(f"() => document.querySelectorAll('{FIGURE}').length === {N_FIGURES}")
    return lab.figures()


@pytest.fixture
def walk(figures, lab):
    """The stride explorer, as it was first shown."""
    yield reset(figures.nth(0))


@pytest.fixture
def align(figures):
    """The broadcast aligner, as it was first shown."""
    yield reset(figures.nth(1))


def reset(figure):
    figure.get_by_role("button", name="Reset", exact=True).click()
    figure.page.wait_for_function("(f) => !JSON.parse(f.dataset.state).predict", arg=figure.element_handle())
    return figure


def in_python(lab, name):
    """Return the state of a figure as the kernel has it, once what the browser sent has arrived."""
    lab.page.wait_for_function(
        """async ([name, selector, n]) => {
          const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
          const code = `__import__('json').dumps([${name}.state, ${name}.widget().said])`;
          const reply = await kernel.requestExecute({ code: '', silent: true, user_expressions: { it: code } }).done;
          const words = reply.content.user_expressions.it.data['text/plain'];
          const figure = document.querySelectorAll(selector)[n];
          const [held, said] = JSON.parse(words.slice(1, -1).replace(/\\\\'/g, "'").replace(/\\\\\\\\/g, '\\\\'));
          const shown = JSON.parse(figure.dataset.state);
          return Object.keys(shown).every((key) => JSON.stringify(shown[key]) === JSON.stringify(held[key]))
            && said === figure.querySelector('[role=status]').textContent;
        }""",
        arg=[name, FIGURE, 0 if name == "walk" else 1],
    )
    return json.loads(eval(lab.ask(f"__import__('json').dumps({name}.state)")))


def test_the_focus_ring_shows_and_follows(walk, lab):
    walk.get_by_role("listbox").focus()
    lab.page.keyboard.press("ArrowDown")
    ring = walk.evaluate(
        """(f) => { const own = getComputedStyle(f.querySelector('.ring'));
        const box = (e) => e.getBoundingClientRect();
        const [ring, cell] = [box(f.querySelector('.ring')), box(f.querySelector('[aria-selected=true] rect'))];
        return { width: own.strokeWidth, stroke: own.stroke, round: ring.left < cell.left && ring.right > cell.right
          && ring.top < cell.top && ring.bottom > cell.bottom }; }"""
    )
    assert ring["width"] == "3px"
    assert ring["stroke"] not in ("none", "")
    assert ring["round"]


def test_two_hundred_updates_cost_the_kernel_little(walk, lab):
    rss = "__import__('psutil').Process().memory_info().rss"
    before = int(lab.ask(rss))
    walk.evaluate(
        """async (f) => { for (let k = 0; k < 200; k++) {
          const keys = ['ArrowRight', 'ArrowDown', 'ArrowLeft', 'ArrowUp'];
          const press = new KeyboardEvent('keydown', { key: keys[k % 4], bubbles: true, cancelable: true });
          f.querySelector('[role=listbox]').dispatchEvent(press);
          await new Promise((done) => requestAnimationFrame(done)); } }"""
    )
    in_python(lab, "walk")
    assert int(lab.ask(rss)) - before < 20_000_000


def test_every_figure_appears_and_hides_its_picture(figures, lab):
    for k in range(N_FIGURES):
        assert figures.nth(k).locator("svg.drawing .cell").count() > 3
    stills = lab.page.locator(f"{PANEL} img[data-figure]")
    assert stills.count() == N_FIGURES
    assert not any(stills.nth(k).is_visible() for k in range(N_FIGURES))
    assert "16 bytes" in said(figures.nth(2))
    assert "Axis 1 does not fit" in said(figures.nth(3))


def test_fields_buttons_and_keys_change_value_drawing_words_and_python(walk, lab):
    field = walk.get_by_role("spinbutton", name="axis 0 stride, bytes")
    field.focus()
    lab.page.keyboard.press("ArrowDown")
    assert field.input_value() == "24"
    assert state(walk)["strides"] == [24, 8]
    assert "strides (24, 8) bytes" in walk.locator(".summary").inner_text()
    walk.get_by_role("button", name="Reset").click()
    walk.get_by_role("spinbutton", name="offset, bytes").fill("8")
    walk.get_by_role("spinbutton", name="axis 0 size").fill("2")
    walk.get_by_role("button", name="decrease offset").click()
    assert (state(walk)["offset"], state(walk)["shape"]) == (0, [2, 4])
    for name in ("Transpose", "Reverse axis 0", "Every 2nd along axis 0"):
        walk.get_by_role("button", name=name).click()
    walk.get_by_role("listbox").focus()
    for key in ("End", "ArrowDown", "ArrowLeft", "ArrowRight"):
        lab.page.keyboard.press(key)
    assert state(walk)["at"] == [1, 1]
    assert walk.locator("[aria-selected=true]").get_attribute("aria-label") == "view[1, 1], address 40, value 5"
    assert said(walk) == "view[1, 1] reads 8 bytes at address 40 = 24 + 1 × (−16) + 1 × 32. They hold 5."
    assert in_python(lab, "walk")["strides"] == [-16, 32]
    walk.locator("[data-name='v0,0']").click()
    walk.locator("[data-name='m8']").click()
    assert state(walk)["at"] == [1, 0]
    walk.get_by_role("button", name="Code", exact=True).click()
    walk.get_by_role("button", name="Add axis").click()
    assert "np.ndarray((2, 2, 1), a.dtype, buffer=a" in walk.locator(".code").inner_text()
    walk.get_by_role("button", name="Drop last axis").click()
    assert state(walk)["shape"] == [2, 2]


def test_python_sets_what_the_browser_shows(walk, lab):
    lab.ask("walk.set(shape=(10, 3), strides=(8, 8), at=(9, 2)) and None")
    lab.page.wait_for_function("(f) => JSON.parse(f.dataset.state).shape[0] === 10", arg=walk.element_handle())
    assert walk.get_by_role("spinbutton", name="axis 0 size").input_value() == "10"
    assert walk.locator("[data-name='m88'] text").all_text_contents() == ["11"]
    assert walk.locator("[data-name='m80'] text").all_text_contents() == ["10", "×2"]


def test_predicting_an_address(walk, lab):
    walk.get_by_role("button", name="Predict").click()
    asked = state(walk)["at"]
    label = f"Address of a[{asked[0]}, {asked[1]}]"
    answer = walk.get_by_role("spinbutton", name=label)
    right = asked[0] * 32 + asked[1] * 8
    hidden = walk.locator("svg.drawing").inner_html()
    assert f"@{right}" not in hidden
    assert "wanted" not in walk.locator(f"[data-name='m{right}']").get_attribute("class")
    answer.fill(str(right // 8))
    walk.get_by_role("button", name="Check").click()
    assert "That counts elements" in said(walk)
    answer.fill(str(right))
    lab.page.keyboard.press("Enter")
    assert said(walk).startswith("Right: 0 of 1 at the first try. a[")
    assert f"@{right}" in walk.locator("svg.drawing").inner_html()
    for given, reason in ((right + 8, "is not it"), ("", "a whole number of bytes"), (right, "Right: 0 of 1")):
        answer.fill(str(given))  # told after the right answer as well, and not counted
        walk.get_by_role("button", name="Check").click()
        assert reason in said(walk)
        assert f"a[{asked[0]}, {asked[1]}] reads" in said(walk)
    walk.get_by_role("button", name="Next").click()
    assert state(walk)["at"] != asked
    walk.get_by_role("button", name="Show").click()
    assert state(walk)["revealed"]
    assert in_python(lab, "walk")["asked"] == 1


def test_the_aligner_by_keys_fields_and_prediction(align, lab):
    align.get_by_role("listbox").focus()
    for key in ("ArrowDown", "End"):
        lab.page.keyboard.press(key)
    assert said(align) == "result[2, 3] = a[2, 0] + b[3] = 2 + 3 = 5."
    field = align.get_by_role("spinbutton", name="b size 0")
    field.focus()
    lab.page.keyboard.press("ArrowUp")
    assert state(align)["shapes"] == [[3, 1], [5]]
    field.fill("4")
    align.get_by_role("button", name="− first axis of a").click()
    align.get_by_role("spinbutton", name="a size 0").fill("3")
    assert "Axis 0 does not fit: a has 3 and b has 4" in said(align)
    assert align.get_by_role("listbox").count() == 0
    align.get_by_role("button", name="+ last axis for a").click()
    assert in_python(lab, "align")["shapes"] == [[3, 1], [4]]
    align.get_by_role("button", name="Code").click()
    assert "np.broadcast_shapes((3, 1), (4,))  # (3, 4)" in align.locator(".code").inner_text()
    align.get_by_role("button", name="Predict").click()
    assert "(3, 4)" not in align.inner_text()
    answer = align.get_by_role("textbox", name="Shape of the result")
    for given, reason in (("four", "Type sizes"), ("4", "2 axes"), ("error", "It works"), ("(3, 4)", "Right: 0 of 1")):
        answer.fill(given)
        lab.page.keyboard.press("Enter")
        assert reason in said(align)
    answer.fill("4, 3")
    align.get_by_role("button", name="Check").click()
    assert said(align).startswith("(4, 3) is not it.")
    assert (state(align)["asked"], state(align)["right"]) == (1, 0)


def test_every_id_is_given_once_and_labels_reach_their_own_figure(figures, lab):
    lab.page.wait_for_function(f"() => document.querySelectorAll('{FIGURE}').length === {N_FIGURES}")
    seen = lab.page.evaluate(IDS, PANEL)
    assert len(seen["ids"]) > 40
    assert len(seen["ids"]) == len(set(seen["ids"]))
    assert seen["elsewhere"] == []
    for k in range(N_FIGURES):
        label = figures.nth(k).locator("label:visible").last
        label.click()
        own = "(l) => document.activeElement.id === l.htmlFor && l.closest('.lab-figure').matches(':focus-within')"
        assert label.evaluate(own), k


def test_buttons_of_fields_have_names_of_their_own(walk, align):
    for figure, some in ((walk, "decrease axis 1 stride"), (align, "increase size of a, axis 1")):
        names = figure.locator(".nudge").evaluate_all("(all) => all.map((b) => b.getAttribute('aria-label'))")
        assert some in names
        assert len(names) == len(set(names))


@pytest.mark.parametrize("wrong", ["2.5", "", "-1"])
def test_a_field_says_what_it_takes(walk, align, lab, wrong):
    allowed = "The axis 0 size takes a whole number from 0 to 1,000,000,000. The drawing stays at 3."
    field, words = walk.get_by_role("spinbutton", name="axis 0 size"), said(walk)
    field.fill(wrong)
    assert said(walk) == allowed
    assert field.get_attribute("aria-invalid") == "true"
    assert field.input_value() == wrong
    assert in_python(lab, "walk")["shape"] == [3, 4]
    field.fill("3")
    assert said(walk) == words
    assert field.get_attribute("aria-invalid") is None
    field.fill(wrong)
    reset(walk)
    assert (said(walk), field.input_value()) == (words, "3")
    align.get_by_role("spinbutton", name="b size 0").fill(wrong)
    assert said(align).startswith("The size of b, axis 0 takes a whole number from 0 to 1,000,000.")


def test_a_pressed_button_keeps_its_name(walk):
    for name in ("Predict", "Code"):
        walk.get_by_role("button", name=name, exact=True).click()
        pressed = walk.get_by_role("button", name=name, exact=True, pressed=True)
        assert "✓" in pressed.evaluate("(b) => getComputedStyle(b, '::before').content")


def test_keys_typed_in_a_figure_never_reach_the_notebook(walk, align, lab):
    before = [(c["type"], c["source"]) for c in lab.cells()]
    for figure in (walk, align):
        figure.get_by_role("button", name="Predict").click()
        places = figure.locator("button:not([tabindex='-1']):not([disabled]):visible, input:visible, [role=listbox]")
        for k in range(places.count()):
            places.nth(k).focus()
            for key in "ddxmab":
                lab.page.keyboard.press(key)
    assert [(c["type"], c["source"]) for c in lab.cells()] == before


def test_tab_visits_each_control_once_in_reading_order(walk, align, lab):
    for figure, kind in ((walk, "strides"), (align, "broadcasting")):
        figure.get_by_role("spinbutton").first.focus()
        visited = []
        for _ in range(40):
            inside = figure.evaluate("(f) => f.contains(document.activeElement)")
            if not inside:
                break
            visited.append(figure.evaluate(NAME_OF_FOCUS))
            lab.page.keyboard.press("Tab")
        assert ", ".join(visited) == CONTROLS[kind]


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_themes_contrast_and_axe(figures, lab, theme):
    lab.theme(theme)
    walk = figures.nth(0)
    walk.get_by_role("button", name="Predict").click()
    for figure in (walk, figures.nth(2), figures.nth(1)):
        low = lab.page.evaluate(LEAST_CONTRAST, figure.element_handle())
        assert low["ratio"] >= 4.5, low
    assert axe(lab.page) == []


def test_forced_colours_stay_readable(figures, lab):
    lab.page.emulate_media(forced_colors="active")
    for k in range(N_FIGURES):
        low = lab.page.evaluate(LEAST_CONTRAST, figures.nth(k).element_handle())
        assert low["ratio"] >= 4.5, low
    lab.page.emulate_media(forced_colors="none")


def test_narrow_and_enlarged_pages_keep_text_and_controls(figures, lab):
    size = lab.page.viewport_size
    for width, zoom in ((640, 1), (1280, 2)):  # zooming a page by 2 halves its width in CSS pixels
        lab.page.set_viewport_size({"width": width // zoom, "height": size["height"]})
        for k in range(N_FIGURES):
            figures.nth(k).scroll_into_view_if_needed()  # Lab lays out what is near the window
            lab.page.wait_for_function(FITS, arg=figures.nth(k).element_handle())
            seen = lab.page.evaluate(CLIPPED, figures.nth(k).element_handle())
            assert seen["clipped"] == []
            assert seen["text"] >= 11
            assert seen["target"] >= 32
    lab.page.set_viewport_size(size)


def test_reduced_motion_stops_transitions(walk, lab):
    duration = "(f) => getComputedStyle(f.querySelector('.cell rect')).transitionDuration"
    lab.page.emulate_media(reduced_motion="reduce")
    assert lab.page.evaluate(duration, walk.element_handle()) == "0s"
    lab.page.emulate_media(reduced_motion="no-preference")


def test_callbacks_run_in_the_main_thread(walk, lab):
    lab.ask("globals().update(threads=[]) or walk.widget().observe(note, 'state')")
    write = "lambda change: threads.append(threading.current_thread() is threading.main_thread())"
    lab.ask(f"globals().update(note={write}) or walk.widget().observe(note, 'state')")
    walk.get_by_role("button", name="Transpose").click()
    in_python(lab, "walk")
    assert lab.ask("threads and all(threads)") == "True"
    lab.ask("walk.widget().unobserve(note, 'state')")


def test_a_reloaded_page_shows_the_same_values(figures, lab):
    walk = reset(figures.nth(0))
    walk.get_by_role("button", name="Transpose").click()
    expected = in_python(lab, "walk")
    lab.save()
    lab.reload()
    lab.page.wait_for_selector(FIGURE)
    shown = lab.figures().nth(0)
    assert {key: state(shown)[key] for key in ("shape", "strides", "offset")} == {
        key: expected[key] for key in ("shape", "strides", "offset")
    }
    assert not lab.page.locator(f"{PANEL} img[data-figure]").first.is_visible()


def test_a_new_kernel_leaves_the_picture(figures, lab):
    lab.errors.expected.append("widget model not found")  # the old kernel's widgets are gone, and Lab says so
    lab.save()
    lab.open("figures.ipynb")
    stills = lab.page.locator(f"{PANEL} img[data-figure]")
    lab.page.wait_for_function(
        "(stills) => [...document.querySelectorAll(stills)].filter((i) => i.naturalWidth > 0).length === 4",
        arg=f"{PANEL} img[data-figure]",
    )
    wait_for_lost_widgets(lab, N_FIGURES)
    assert stills.first.is_visible()
    assert "Stride explorer. Shape (3, 4)" in stills.first.get_attribute("alt")
    lost = lab.page.locator(f"{PANEL} .jupyter-widgets").filter(has_text="Error displaying widget").first
    look = "(w) => [getComputedStyle(w).visibility, getComputedStyle(w, '::after').content]"
    assert lost.evaluate(look) == ["hidden", '"Run this cell in JupyterLab to operate the figure."']
    lab.errors.expected.clear()


@pytest.fixture(scope="module")
def executed(lab):
    """A notebook executed without a browser, with widget state stored, as nbclient does by default."""
    return executed_in(lab, "executed.ipynb", CELLS[:3])


def test_an_untrusted_notebook_shows_the_picture(executed, lab):
    lab.errors.expected.append("widget model not found")
    lab.open("executed.ipynb")
    still = lab.page.locator(f"{PANEL} img.lab-figure-still, {PANEL} .jp-OutputArea img").first
    still.wait_for()
    assert still.is_visible()
    assert still.evaluate("(i) => i.naturalWidth") > 0
    assert "12 elements read 12 addresses" in still.get_attribute("alt")
    assert lab.page.locator(f"{PANEL} .jp-OutputArea svg text").count() == 0
    lab.errors.expected.clear()


def test_a_trusted_notebook_with_state_works_without_running(executed, lab):
    lab.open(trusted_copy(lab, executed).name)
    lab.page.wait_for_selector(FIGURE)
    figure = lab.figures().first
    figure.get_by_role("listbox").focus()
    lab.page.keyboard.press("ArrowRight")
    assert said(figure) == "a[1, 3] reads 8 bytes at address 56 = 0 + 1 × 32 + 3 × 8. They hold 7."
    assert all(cell["count"] for cell in lab.cells())  # the counts of the stored run; nothing was run here


def test_twenty_figures_scroll_and_stay_light(lab):
    cell = "strides.draw(np.arange(24.0).reshape(4, 6)[:, ::-1])"
    write_notebook(lab.server.work / "twenty.ipynb", [SETUP, *[cell] * 20])
    lab.open("twenty.ipynb")
    client = lab.page.context.new_cdp_session(lab.page)
    client.send("Performance.enable")

    def heap_mb():
        client.send("HeapProfiler.collectGarbage")
        metrics = client.send("Performance.getMetrics")["metrics"]
        return next(m["value"] for m in metrics if m["name"] == "JSHeapUsedSize") / 1e6

    before = heap_mb()
    lab.run_all()
    count = "() => document.querySelectorAll('.lab-figure[data-ready]').length"
    for where in ("last", "first"):
        for k in range(20) if where == "last" else range(19, -1, -1):
            lab.page.evaluate("(k) => window.jupyterapp.shell.currentWidget.content.scrollToItem(k + 1)", k)
        lab.page.wait_for_function(count + " > 0")
    for k in (0, 10, 19):
        lab.page.evaluate("(k) => window.jupyterapp.shell.currentWidget.content.scrollToItem(k + 1)", k)
        figure = lab.page.locator(f"{PANEL} .jp-Cell").nth(k + 1).locator(".lab-figure[data-ready]")
        figure.wait_for()
        assert figure.locator(".cell").count() == 48
    assert heap_mb() - before < 50
    sizes = [len(json.dumps(cell["outputs"])) for cell in lab.cells()]
    assert max(sizes) <= 60_000


def test_the_picture_of_a_full_figure_is_small(lab):
    """The largest drawing there is, 200 elements, as text in a notebook."""
    import numpy as np

    from labsupport.figures import strides

    html = strides.draw(np.arange(200.0).reshape(10, 20) * 1000).html()
    assert len(html) <= 60_000
    assert base64.b64decode(html.partition("base64,")[2].partition('"')[0]).startswith(b"<svg")
