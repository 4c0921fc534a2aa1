"""The chunk map in a real JupyterLab: keys, drag, fields, prediction, history; words, themes, widths, lost kernels."""

import json
from pathlib import Path

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
from labsupport.figures import chunks
volume = np.arange(64 * 100 * 120, dtype="int16").reshape(64, 100, 120)
"""
CELLS = [
    SETUP,
    "plane = chunks.draw(((1000, 1000), 'float32', (100, 100)), select=np.s_[95:105, 95:105], name='d')\nplane",
    "cube = chunks.draw(volume, chunks=(16, 40, 50), other={'chunks': (1, 20, 30), 'shards': (32, 40, 60)},\n"
    "                   select=np.s_[7, 20:70, :], reads=[np.s_[7], np.s_[8]], name='cube').set(table=True)\ncube",
    "chunks.draw(((2160, 4320), 'int16', (1, 1)), other='contiguous')",
    "chunks.draw(((1024,), 'u1', (32,)), select=np.s_[16:48])",
]
N_FIGURES = 4
CONTROLS = (
    "axis 0 start, axis 0 stop, axis 0 step, Sweep along axis 0, axis 1 start, axis 1 stop, axis 1 step, "
    "Sweep along axis 1, A layout, A chunk 0, A chunk 1, Read, Chunk cache, rdcc_nbytes, rdcc_nslots, "
    "Compare, Predict, Table, Code, Reset, Selection [95:105"
)


@pytest.fixture(scope="module")
def figures(lab):
    """The notebook of this file, run; a locator of its figures."""
    write_notebook(lab.server.work / "chunks.ipynb", CELLS)
    lab.open("chunks.ipynb")
    lab.run_all()
    show_all(lab)
    return lab.figures()


def show_all(lab):
    """Scroll to each figure: Lab lays out what is near the window, and a figure draws once it has a width."""
    for k in (*range(N_FIGURES), 0):
        lab.page.evaluate("(k) => window.jupyterapp.shell.currentWidget.content.scrollToItem(k + 1)", k)
        lab.page.wait_for_selector(f"{PANEL} .jp-Cell:nth-child({k + 2}) .lab-figure[data-ready]")
    lab.page.wait_for_function(f"() => document.querySelectorAll('{FIGURE}').length === {N_FIGURES}")


def reset(figure):
    figure.get_by_role("button", name="Reset", exact=True).click()
    figure.page.wait_for_function("(f) => !JSON.parse(f.dataset.state).predict", arg=figure.element_handle())
    return figure


@pytest.fixture
def plane(figures):
    """A chunk map of two axes, as it was first shown."""
    return reset(figures.nth(0))


@pytest.fixture
def cube(figures):
    """A chunk map of three axes and two layouts, as it was first shown."""
    return reset(figures.nth(1))


def in_python(lab, name, k):
    """Return the state of a figure as the kernel has it, once what the browser sent has arrived."""
    lab.page.wait_for_function(
        """async ([name, selector, n]) => {
          const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
          const code = `__import__('base64').b64encode(__import__('json').dumps(`
            + `[${name}.state, ${name}.widget().said]).encode()).decode()`;
          const reply = await kernel.requestExecute({ code: '', silent: true, user_expressions: { it: code } }).done;
          const words = reply.content.user_expressions.it.data['text/plain'];
          const figure = document.querySelectorAll(selector)[n];
          const [held, said] = JSON.parse(atob(words.slice(1, -1)));
          const shown = JSON.parse(figure.dataset.state);
          return Object.keys(shown).every((key) => JSON.stringify(shown[key]) === JSON.stringify(held[key]))
            && said === figure.querySelector('[role=status]').textContent;
        }""",
        arg=[name, FIGURE, k],
    )
    return json.loads(eval(lab.ask(f"__import__('json').dumps({name}.state)")))


def paths(figure, role):
    return figure.locator(f"svg.drawing .path-{role}").first.get_attribute("d")


def test_every_figure_appears_and_hides_its_picture(figures, lab):
    for k in range(N_FIGURES):
        assert figures.nth(k).locator("svg.drawing path").count() > 3
    stills = lab.page.locator(f"{PANEL} img[data-figure]")
    assert stills.count() == N_FIGURES
    assert not any(stills.nth(k).is_visible() for k in range(N_FIGURES))
    assert "A touches 4 of 100 chunks and decodes 160,000 bytes: 400" in said(figures.nth(0))
    assert figures.nth(1).locator("image").count() == 2
    assert figures.nth(2).locator("svg.drawing *").count() < 200


def test_keys_move_resize_and_read_the_selection(plane, lab):
    plane.get_by_role("application").focus()
    for key in ("ArrowRight", "ArrowDown", "Shift+ArrowRight", "Shift+ArrowUp", "ArrowLeft"):
        lab.page.keyboard.press(key)
    now = state(plane)
    assert (now["start"], now["stop"]) == ([110, 95], [111, 120])
    lab.page.keyboard.press("End")
    assert state(plane)["stop"][1] == 1000
    lab.page.keyboard.press("Home")
    assert state(plane)["start"][1] == 0
    assert said(plane).startswith(
        "d[110, 0:25] wants 100 bytes. A touches 1 of 100 chunks and decodes 40,000 bytes: 400"
    )
    lab.page.keyboard.press("Enter")
    lab.page.keyboard.press("Enter")
    assert (
        "2 reads so far, A: 1 hit, 1 chunk decoded, 0 evicted, 40,000 bytes." in plane.locator(".summary").inner_text()
    )
    assert in_python(lab, "plane", 0)["history"] == [[[110, 111, 1], [0, 25, 1]]] * 2
    assert "Selection [110, 0:25]: arrow keys move it" in plane.get_by_role("application").get_attribute("aria-label")


def test_page_keys_move_through_the_axis_that_is_not_drawn(cube, lab):
    cube.get_by_role("application").focus()
    pictures = cube.locator("image").first.get_attribute("href")
    for _ in range(30):
        lab.page.keyboard.press("PageDown")
    assert state(cube)["start"] == [37, 20, 0]
    assert cube.locator("image").first.get_attribute("href") != pictures
    lab.page.keyboard.press("PageUp")
    assert in_python(lab, "cube", 1)["stop"] == [37, 70, 120]


def drag(page, figure, start, end, area=0):
    """Drag from one part of a map (as shares of its width and height) to another."""
    place = figure.locator(".view .area").nth(area)
    place.scroll_into_view_if_needed()
    box = place.bounding_box()
    at = [(box["x"] + box["width"] * x, box["y"] + box["height"] * y) for x, y in (start, end)]
    page.mouse.move(*at[0])
    page.mouse.down()
    page.mouse.move(*at[1], steps=6)
    page.mouse.up()


def test_dragging_moves_resizes_and_brings_the_selection(plane, cube, lab):
    drag(lab.page, plane, (0.1, 0.1), (0.505, 0.305))
    now = state(plane)
    assert all(abs(a - b) <= 4 for a, b in zip(now["start"], (300, 500)))
    assert [b - a for a, b in zip(now["start"], now["stop"])] == [10, 10]
    plane.get_by_role("spinbutton", name="axis 0 stop").fill("500")
    plane.get_by_role("spinbutton", name="axis 1 stop").fill("700")
    drag(lab.page, plane, (0.7, 0.5), (0.905, 0.805))
    assert all(abs(a - b) <= 6 for a, b in zip(state(plane)["stop"], (806, 906)))
    drag(lab.page, plane, (0.2, 0.2), (0.2, 0.2))  # a press elsewhere brings it there
    now = state(plane)
    assert all(abs((a + b) / 2 - 200) <= 60 or a == 0 for a, b in zip(now["start"], now["stop"]))
    assert in_python(lab, "plane", 0)["start"] == now["start"]
    drag(lab.page, cube, (0.1, 0.5), (0.75, 0.5), area=1)  # the strip of axis 0
    assert abs(state(cube)["start"][0] - 48) <= 2


def test_fields_choose_selection_layouts_shards_and_cache(cube, lab):
    def fill(name, value):
        cube.get_by_role("spinbutton", name=name, exact=True).fill(str(value))

    fill("axis 0 start", 20)
    assert (state(cube)["start"][0], state(cube)["stop"][0]) == (20, 21)
    fill("axis 2 step", 60)
    fill("A chunk 0", 8)
    fill("B per shard 1", 5)
    cube.get_by_role("combobox", name="A layout").select_option("zarr")
    shown = in_python(lab, "cube", 1)
    assert shown["layouts"][0] == {"format": "zarr", "chunks": [8, 40, 50], "per": [1, 1, 1]}
    assert shown["layouts"][1]["per"] == [32, 5, 2]
    cache = cube.get_by_role("button", name="Chunk cache")
    assert not cache.is_visible()  # zarr keeps no chunks
    assert lab.ask("cube.words()['walk'] == cube.widget().said") == "True"
    assert "B is Zarr, sharded, chunks (1, 20, 30) in shards (32, 100, 60)" in cube.locator(".summary").inner_text()
    cube.get_by_role("combobox", name="A layout").select_option("contiguous")
    assert not cube.get_by_role("spinbutton", name="A chunk 0", exact=True).is_visible()
    assert "A reads these bytes alone, in 100 pieces" in said(cube)
    assert not cache.is_visible()
    cube.get_by_role("combobox", name="A layout").select_option("raw")
    assert cache.is_visible() and cube.get_by_role("spinbutton", name="rdcc_nbytes").is_visible()
    cube.get_by_role("combobox", name="drawn").select_option("0,2")
    assert state(cube)["plane"] == [0, 2]
    assert "axis 0 ↓, axis 2 →" in cube.locator("svg.drawing").text_content()
    cube.get_by_role("button", name="Compare", exact=True).click()
    assert not cube.get_by_role("combobox", name="B layout").is_visible()


def test_sweeps_cache_and_history(plane, lab):
    plane.get_by_role("spinbutton", name="axis 0 stop").fill("96")
    plane.get_by_role("spinbutton", name="axis 1 start").fill("0")
    plane.get_by_role("spinbutton", name="axis 1 stop").fill("1000")
    plane.get_by_role("button", name="Sweep along axis 0").click()
    words = plane.locator(".summary")
    assert "64 reads so far, A: 620 hits, 20 chunks decoded, 0 evicted, 800,000 bytes." in words.inner_text()
    plane.get_by_role("spinbutton", name="rdcc_nbytes").fill("200000")
    assert "0 hits, 640 chunks decoded" in words.inner_text()
    plane.get_by_role("button", name="Chunk cache").click()
    assert "The chunk cache is off (rdcc_nbytes=0). 64 reads so far, A: 0 hits, 640 chunks" in words.inner_text()
    plane.get_by_role("button", name="Table").click()
    rows = plane.locator(".numbers tr")
    assert rows.count() == 10 + 64
    assert rows.nth(10).inner_text().split("\t") == ["read 1: [95, :]", "0 hits, 10 misses, 0 evicted, 400,000 bytes"]
    assert lab.ask("plane.words()['summary']").count("64 reads so far") == 1
    plane.get_by_role("button", name="Clear reads").click()
    assert in_python(lab, "plane", 0)["history"] == []


def test_python_sets_what_the_browser_shows(plane, lab):
    lab.ask("plane.select(np.s_[0:200, 5]).set(table=True) and None")
    lab.page.wait_for_function("(f) => JSON.parse(f.dataset.state).stop[0] === 200", arg=plane.element_handle())
    assert plane.get_by_role("spinbutton", name="axis 0 stop").input_value() == "200"
    table = [row.split("\t") for row in plane.locator(".numbers tr").all_inner_texts()]
    assert table == json.loads(eval(lab.ask("__import__('json').dumps(plane.table())")))


def test_predicting_the_chunks(plane, lab):
    plane.get_by_role("button", name="Predict").click()
    question = state(plane)
    right = int(lab.ask("plane.model()['layouts'][0]['count']"))
    assert plane.locator("svg.drawing .path-chunk").count() == 0
    assert "decodes" not in plane.inner_text()
    answer = plane.get_by_role("spinbutton", name="Chunks that A touches")
    elements = int(lab.ask("plane.model()['wanted']"))
    for given, reason in ((elements, "That counts elements"), (right, "Right: 0 of 1 at the first try. d[")):
        answer.fill(str(given))
        lab.page.keyboard.press("Enter")
        assert reason in said(plane)
    assert plane.locator("svg.drawing .path-chunk").count() == 1
    answer.fill("")
    plane.get_by_role("button", name="Check").click()
    assert "Type how many chunks, a whole number" in said(plane)
    plane.get_by_role("button", name="Next").click()
    assert state(plane)["start"] != question["start"]
    answer.fill(lab.ask("plane.model()['layouts'][0]['count']") if in_python(lab, "plane", 0) else "")
    plane.get_by_role("button", name="Check").click()
    assert said(plane).startswith("Right: 1 of 2")
    assert in_python(lab, "plane", 0)["right"] == 1


@pytest.mark.parametrize("wrong", ["2.5", "", "0"])
def test_a_field_says_what_it_takes(plane, lab, wrong):
    words = said(plane)
    field = plane.get_by_role("spinbutton", name="A chunk 0")
    field.fill(wrong)
    assert said(plane) == "The chunk 0 of A takes a whole number from 1 to 1,000. The drawing stays at 100."
    assert field.get_attribute("aria-invalid") == "true"
    assert in_python(lab, "plane", 0)["layouts"][0]["chunks"] == [100, 100]
    field.fill("100")
    assert said(plane) == words


def test_code_is_what_python_says(cube, lab):
    cube.get_by_role("button", name="Code", exact=True).click()
    in_python(lab, "cube", 1)
    assert cube.locator(".code").text_content() == eval(lab.ask("cube.code()"))


def test_every_id_is_given_once_and_buttons_have_names_of_their_own(figures, lab):
    seen = lab.page.evaluate(IDS, PANEL)
    assert len(seen["ids"]) == len(set(seen["ids"]))
    assert seen["elsewhere"] == []
    for k in range(N_FIGURES):
        names = figures.nth(k).locator(".nudge").evaluate_all("(all) => all.map((b) => b.getAttribute('aria-label'))")
        assert len(names) == len(set(names))


def test_keys_typed_in_a_figure_never_reach_the_notebook(plane, cube, lab):
    before = [(c["type"], c["source"]) for c in lab.cells()]
    for figure in (plane, cube):
        figure.get_by_role("button", name="Predict").click()
        places = figure.locator(
            "button:not([tabindex='-1']):not([disabled]):visible, input:visible, select:visible, [role=application]"
        )
        for k in range(places.count()):
            places.nth(k).focus()
            for key in "ddxmab":
                lab.page.keyboard.press(key)
    assert [(c["type"], c["source"]) for c in lab.cells()] == before


def test_tab_visits_each_control_once_in_reading_order_and_leaves(plane, lab):
    plane.get_by_role("spinbutton").first.focus()
    visited = []
    for _ in range(40):
        if not plane.evaluate("(f) => f.contains(document.activeElement)"):
            break
        visited.append(plane.evaluate(NAME_OF_FOCUS))
        lab.page.keyboard.press("Tab")
    assert ", ".join(visited) == CONTROLS


def test_the_focus_ring_lies_round_the_map(plane, lab):
    plane.get_by_role("application").focus()
    lab.page.keyboard.press("ArrowDown")
    ring = plane.evaluate(
        """(f) => { const own = getComputedStyle(f.querySelector('.ring'));
        const box = (e) => e.getBoundingClientRect();
        const [ring, area] = [box(f.querySelector('.ring')), box(f.querySelector('.area'))];
        return { width: own.strokeWidth, stroke: own.stroke, round: ring.left < area.left && ring.right > area.right
          && ring.top < area.top && ring.bottom > area.bottom }; }"""
    )
    assert ring["width"] == "3px"
    assert ring["stroke"] not in ("none", "")
    assert ring["round"]


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_themes_contrast_and_axe(figures, lab, theme):
    lab.theme(theme)
    reset(figures.nth(0)).get_by_role("button", name="Predict").click()
    for k in range(N_FIGURES):
        low = lab.page.evaluate(LEAST_CONTRAST, figures.nth(k).element_handle())
        assert low["ratio"] >= 4.5, low
    assert axe(lab.page) == []
    edges = reset(figures.nth(1)).evaluate(
        """(f) => Object.fromEntries(['chunk', 'chosen', 'waste', 'grid', 'beyond', 'shard'].map((role) => (
          [role, getComputedStyle(f.querySelector(`.path-${role}`)).stroke])))"""
    )
    assert len(set(edges.values())) >= 5


def test_forced_colours_stay_readable(figures, lab):
    lab.page.emulate_media(forced_colors="active")
    for k in range(N_FIGURES):
        low = lab.page.evaluate(LEAST_CONTRAST, figures.nth(k).element_handle())
        assert low["ratio"] >= 4.5, low
    pressed = "(f) => getComputedStyle(f.querySelector('[aria-pressed=true]')).forcedColorAdjust"
    assert figures.nth(1).evaluate(pressed) == "none"  # else a box in the ground's colour hides the words
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


def test_callbacks_run_in_the_main_thread(plane, lab):
    lab.ask("globals().update(threads=[])")
    write = "lambda change: threads.append(threading.current_thread() is threading.main_thread())"
    lab.ask(f"globals().update(note={write}) or plane.widget().observe(note, 'state')")
    plane.get_by_role("button", name="Read", exact=True).click()
    in_python(lab, "plane", 0)
    assert lab.ask("threads and all(threads)") == "True"
    lab.ask("plane.widget().unobserve(note, 'state')")


def test_two_hundred_moves_cost_the_kernel_little(plane, lab):
    rss = "__import__('psutil').Process().memory_info().rss"
    before = int(lab.ask(rss))
    plane.evaluate(
        """async (f) => { for (let k = 0; k < 200; k++) {
          const keys = ['ArrowRight', 'ArrowDown', 'ArrowLeft', 'ArrowUp'];
          const press = new KeyboardEvent('keydown', { key: keys[k % 4], bubbles: true, cancelable: true });
          f.querySelector('[role=application]').dispatchEvent(press);
          await new Promise((done) => requestAnimationFrame(done)); } }"""
    )
    assert in_python(lab, "plane", 0)["start"] == [95, 95]
    assert int(lab.ask(rss)) - before < 20_000_000


def test_a_reloaded_page_shows_the_same_values(figures, lab):
    plane = reset(figures.nth(0))
    plane.get_by_role("button", name="Read", exact=True).click()
    plane.get_by_role("spinbutton", name="A chunk 1").fill("30")
    expected = in_python(lab, "plane", 0)
    lab.save()
    lab.reload()
    lab.page.wait_for_selector(FIGURE)
    assert state(lab.figures().nth(0)) == expected
    assert not lab.page.locator(f"{PANEL} img[data-figure]").first.is_visible()


def test_a_new_kernel_leaves_the_picture(figures, lab):
    lab.errors.expected.append("widget model not found")  # the old kernel's widgets are gone, and Lab says so
    lab.save()
    lab.open("chunks.ipynb")
    lab.page.wait_for_function(
        "(stills) => [...document.querySelectorAll(stills)].filter((i) => i.naturalWidth > 0).length === 4",
        arg=f"{PANEL} img[data-figure]",
    )
    wait_for_lost_widgets(lab, N_FIGURES)
    still = lab.page.locator(f"{PANEL} img[data-figure]").first
    assert still.is_visible()
    assert "d[95:105, 95:105] wants 400 bytes" in still.get_attribute("alt")
    lab.errors.expected.clear()


@pytest.fixture(scope="module")
def executed(lab):
    """A notebook executed without a browser, with widget state stored, as nbclient does by default."""
    return executed_in(lab, "executed-chunks.ipynb", CELLS[:3])


def test_an_untrusted_notebook_shows_the_picture(executed, lab):
    lab.errors.expected.append("widget model not found")
    lab.open("executed-chunks.ipynb")
    still = lab.page.locator(f"{PANEL} img.lab-figure-still, {PANEL} .jp-OutputArea img").first
    still.wait_for()
    assert still.is_visible()
    assert still.evaluate("(i) => i.naturalWidth") > 0
    assert "A touches 4 of 100 chunks" in still.get_attribute("alt")
    assert lab.page.locator(f"{PANEL} .jp-OutputArea svg text").count() == 0
    lab.errors.expected.clear()


def test_a_trusted_notebook_with_state_works_without_running(executed, lab):
    lab.open(trusted_copy(lab, executed).name)
    lab.page.wait_for_selector(FIGURE)
    figure = lab.figures().first
    figure.get_by_role("application").focus()
    lab.page.keyboard.press("ArrowRight")
    assert said(figure).startswith("d[95:105, 110:120] wants 400 bytes. A touches 2 of 100 chunks")


def test_an_offline_page_shows_every_picture(executed, lab, chromium):
    import nbformat
    from nbconvert import HTMLExporter

    notebook = nbformat.read(executed, as_version=4)
    notebook.metadata.pop("widgets", None)  # as committed: no stored state
    page_file = Path(executed).with_suffix(".html")
    page_file.write_text(HTMLExporter(template_name="basic").from_notebook_node(notebook)[0], encoding="utf-8")
    context = chromium.new_context(offline=True)
    page = context.new_page()
    page.goto(page_file.as_uri())
    pictures = page.locator("img[data-figure]")
    assert pictures.count() == 2
    assert all(pictures.nth(k).evaluate("(i) => i.naturalWidth") > 0 for k in range(2))
    context.close()


def test_ten_figures_scroll_and_stay_light(lab):
    cell = "chunks.draw(volume, chunks=(16, 40, 50), other='sharded')"
    write_notebook(lab.server.work / "ten.ipynb", [SETUP, *[cell] * 10])
    lab.open("ten.ipynb")
    client = lab.page.context.new_cdp_session(lab.page)
    client.send("Performance.enable")

    def heap_mb():
        client.send("HeapProfiler.collectGarbage")
        metrics = client.send("Performance.getMetrics")["metrics"]
        return next(m["value"] for m in metrics if m["name"] == "JSHeapUsedSize") / 1e6

    before = heap_mb()
    lab.run_all()
    for k in (9, 0, 5):
        lab.page.evaluate("(k) => window.jupyterapp.shell.currentWidget.content.scrollToItem(k + 1)", k)
        figure = lab.page.locator(f"{PANEL} .jp-Cell").nth(k + 1).locator(".lab-figure[data-ready]")
        figure.wait_for()
        assert figure.locator(".path-chosen").count() >= 4
    assert heap_mb() - before < 25
    assert max(len(json.dumps(cell["outputs"])) for cell in lab.cells()) <= 60_000
