"""The graph player and the loader's timeline in a real JupyterLab: operated, asked, narrowed, reloaded, kernel gone.

What every player must do (playing, the shield, the ends of the slider) is proved in test_player_in_lab.py and
test_same_film.py; here it is looked at for these two figures, whose drawings are the largest.
"""

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

from labsupport.figures.palette import PALETTE, contrast

SETUP = """\
import json
import threading
import torch
from labsupport import lesson
from labsupport.loaderbench.runs import Run
lab = lesson("strides")
alone, two = map(Run.from_data, json.loads({data!r}))
{engine}"""
CELLS = [
    'own = lab.show("graph", root, names={"a": a, "b": b, "product": product})\nown',
    "w = torch.tensor([1.0, -2.0, 0.5], requires_grad=True)\nx = torch.tensor([0.3, 0.2, 0.9])\n"
    'lab.show("graph", (w * x).sum().sigmoid() * w.sum(), names={"w": w, "x": x})',
    "v = torch.tensor(2.0, requires_grad=True)\ny = v.exp()\nz = y * 3\ny.add_(1)\n"
    'lab.show("graph", z + y, names={"v": v})',
    'line = lab.show("timeline", two)\nline',
    'lab.show("timeline", alone, two)',
]
N_FIGURES = 5
# bars and lines, which the contrast of texts says nothing about
STROKES = """(figure) => [...figure.querySelectorAll('svg path')].map((p) => {
  const own = getComputedStyle(p);
  return [p.getAttribute('class'), own.stroke, parseFloat(own.strokeWidth)];
})"""
CONTROLS = "First, Back, Play, Next, Last, Predict, Code, Table, Step"


def cells():
    from films import ENGINE, RUNS

    return [SETUP.format(data=json.dumps(RUNS), engine=ENGINE), *CELLS]


@pytest.fixture(scope="module")
def figures(lab):
    """The notebook of this file, run; a locator of its figures."""
    write_notebook(lab.server.work / "graph.ipynb", cells())
    lab.open("graph.ipynb")
    lab.run_all()
    for k in range(N_FIGURES):  # what is far off the screen is drawn when one comes near
        lab.page.locator(f"{PANEL} .lab-figure").nth(k).scroll_into_view_if_needed()
    lab.page.wait_for_function(f"() => document.querySelectorAll('{FIGURE}').length === {N_FIGURES}")
    return lab.figures()


@pytest.fixture(params=["own", "line"])
def each(request, figures, lab):
    """One figure of each kind, at its first step, with nothing pressed."""
    return at_start(request.param, figures, lab)


@pytest.fixture
def own(figures, lab):
    return at_start("own", figures, lab)


def at_start(name, figures, lab):
    return lab.at_start(name, figures.nth({"own": 0, "line": 3}[name]))


def press(figure, name):
    figure.get_by_role("button", name=name, exact=True).click()


def in_python(lab, name, step):
    """Wait until the kernel has this step."""
    lab.page.wait_for_function(
        """async ([name, step]) => {
          const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
          const it = { code: '', silent: true, user_expressions: { it: `${name}.state['step']` } };
          const reply = await kernel.requestExecute(it).done;
          return reply.content.user_expressions.it.data['text/plain'] === String(step);
        }""",
        arg=[name, step],
    )


def test_every_figure_appears_and_hides_its_picture(figures, lab):
    for k in range(N_FIGURES):
        figure = figures.nth(k)
        assert figure.locator("svg.drawing path").count() > 3
        assert figure.locator(".title span").text_content().startswith("recorded")
        assert figure.locator("svg.drawing").get_attribute("role") == "img"
    stills = lab.page.locator(f"{PANEL} img[data-figure]")
    assert stills.count() == N_FIGURES
    assert not any(stills.nth(k).is_visible() for k in range(N_FIGURES))
    assert "backward stops at #2 exp" in stills.nth(2).get_attribute("alt")
    assert lab.ask("(a.grad, type(a) is Value, w.grad, v.grad)") == "(0.0, True, None, None)"


def test_a_node_that_is_used_twice_adds_up_on_screen(own, lab):
    for _ in range(4):
        press(own, "Next")
    assert said(own).startswith("Step 4: backward begins.")
    press(own, "Next")
    assert "product.grad += 8 (1 × local derivative 8), not complete yet." in said(own)
    cell = "[data-name='c2']"
    assert own.locator(f"{cell} text").all_text_contents() == ["6", "grad 8"]
    assert "dashed" in own.locator(cell).get_attribute("class")
    press(own, "Next")
    assert "product.grad += 6: 8 becomes 14." in said(own)
    assert own.locator(f"{cell} text").all_text_contents() == ["6", "grad 14"]
    assert own.locator("[data-name='t2'] text").all_text_contents() == ["+= 6"]
    press(own, "Last")
    assert "a 48 and b 28" in said(own)
    in_python(lab, "own", 8)
    lab.ask("own.set(step=6) and None")
    lab.page.wait_for_function("(f) => JSON.parse(f.dataset.state).step === 6", arg=own.element_handle())
    press(own, "Code")
    assert own.locator(".code").inner_text() == "product.grad += 6  # from n4\na.grad += 6  # from n4"
    press(own, "Last")
    assert own.locator(".code").inner_text() == "# this step has no code of its own"


def test_the_next_gradient_is_asked_for(own, lab):
    lab.ask("own.set(step=5) and None")
    lab.page.wait_for_function("(f) => JSON.parse(f.dataset.state).step === 5", arg=own.element_handle())
    press(own, "Predict")
    assert said(own).endswith("Name one gradient that changes in the next step, and what it is afterwards.")
    node, amount = (own.get_by_role("combobox", name=name) for name in ("gradient of", "is then"))
    node.select_option(label="product")
    amount.select_option(label="6")
    press(own, "Check")
    assert "contributions add up" in said(own) and state(own)["step"] == 5
    amount.select_option(label="14")
    press(own, "Check")
    assert said(own).startswith("Right: 0 of 1 at the first try. Step 6: backward #4 +.")
    node.select_option(label="b")
    amount.select_option(label="28")
    press(own, "Check")
    assert said(own).startswith("Right: 1 of 2 at the first try. Step 7: backward product *.")
    press(own, "Table")
    shown = own.locator("tbody tr:visible")
    assert shown.count() == 5


def test_saved_tensors_and_an_error_at_its_node(figures):
    torch_graph, broken = figures.nth(1), figures.nth(2)
    press(torch_graph, "Table")
    words = torch_graph.locator("table").inner_text()
    assert "MulBackward0" in words and "12 bytes, v0" in words
    press(torch_graph, "Table")
    press(broken, "Last")
    assert "at version 0 for backward, and an in-place change has made that version 1" in said(broken)
    assert broken.locator("[data-name='c1']").get_attribute("class") == "cell role-trouble thick"
    press(broken, "First")


def test_parts_of_a_run_are_enlarged(figures, lab):
    line = at_start("line", figures, lab)
    assert said(line).startswith("The whole run. 30 batches in")
    slider = line.get_by_role("slider", name="Part")
    slider.press("ArrowRight")
    assert slider.get_attribute("aria-valuetext").startswith("part 1: 0 s to ")
    assert "the main process waited" in said(line)
    press(line, "Predict")
    line.get_by_role("combobox", name="waits").select_option(label="80 to 100 %")
    press(line, "Check")
    assert said(line).startswith("It is less than 80 to 100 %: compare the bars of “main waits”")
    press(line, "Show")
    in_python(lab, "line", 2)
    press(line, "Table")
    assert "30 batches and 240 items" in line.locator("table").inner_text()


def test_keys_typed_in_a_figure_never_reach_the_notebook(each, lab):
    before = [(c["type"], c["source"]) for c in lab.cells()]
    press(each, "Table")
    places = each.locator("button:visible, input:visible, select:visible, [tabindex='0']:visible")
    assert places.count() >= 10
    for k in range(places.count()):
        places.nth(k).focus()
        for key in "ddxmab":
            lab.page.keyboard.press(key)
    assert [(c["type"], c["source"]) for c in lab.cells()] == before


def test_tab_visits_each_control_once_in_reading_order(each, lab):
    each.get_by_role("button", name="First").focus()
    visited = []
    for _ in range(40):
        if not each.evaluate("(f) => f.contains(document.activeElement)"):
            break
        visited.append(each.evaluate(NAME_OF_FOCUS))
        lab.page.keyboard.press("Tab")
    assert ", ".join(visited) in (CONTROLS, CONTROLS.replace("Step", "Part"))


def test_every_id_is_given_once_and_labels_reach_their_own_figure(figures, lab):
    seen = lab.page.evaluate(IDS, PANEL)
    assert len(seen["ids"]) == len(set(seen["ids"])) > 10
    assert seen["elsewhere"] == []


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_themes_contrast_and_axe(figures, own, lab, theme):
    lab.theme(theme)
    for name in ("Predict", "Code", "Table"):
        press(own, name)
    for k in range(N_FIGURES):
        figure = figures.nth(k)
        low = lab.page.evaluate(LEAST_CONTRAST, figure.element_handle())
        assert low["ratio"] >= 4.5, low
        for role, stroke, width in lab.page.evaluate(STROKES, figure.element_handle()):
            red, green, blue = (int(part) for part in stroke.removeprefix("rgb(").removesuffix(")").split(","))
            assert contrast(f"#{red:02x}{green:02x}{blue:02x}", PALETTE[theme]["ground"]) >= 3, role
            assert width >= 1
    assert axe(lab.page) == []


def test_forced_colours_stay_readable(figures, lab):
    lab.page.emulate_media(forced_colors="active")
    for k in range(N_FIGURES):
        low = lab.page.evaluate(LEAST_CONTRAST, figures.nth(k).element_handle())
        assert low["ratio"] >= 4.5, low
    lab.page.emulate_media(forced_colors="none")


def test_narrow_and_enlarged_pages_keep_text_and_controls(figures, own, lab):
    press(own, "Predict")
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


def test_callbacks_run_in_the_main_thread(own, lab):
    lab.ask("globals().update(threads=[])")
    write = "lambda change: threads.append(threading.current_thread() is threading.main_thread())"
    lab.ask(f"globals().update(note={write}) or own.widget().observe(note, 'state')")
    press(own, "Next")
    in_python(lab, "own", 1)
    assert lab.ask("threads and all(threads)") == "True"
    lab.ask("own.widget().unobserve(note, 'state')")


def test_two_hundred_updates_cost_the_kernel_little(own, lab):
    rss = "__import__('psutil').Process().memory_info().rss"
    before = int(lab.ask(rss))
    own.evaluate(
        """async (f) => { const way = (name) => [...f.querySelectorAll('button')].find((b) => b.textContent === name);
          for (let k = 0; k < 200; k++) { way(k % 10 < 5 ? 'Next' : 'Back').click();
          await new Promise((done) => requestAnimationFrame(done)); } }"""
    )
    in_python(lab, "own", 0)
    assert int(lab.ask(rss)) - before < 20_000_000


def test_a_reloaded_page_shows_the_same_step(figures, own, lab):
    own.get_by_role("slider").press("End")
    in_python(lab, "own", 8)
    lab.save()
    lab.reload()
    lab.page.wait_for_selector(FIGURE)
    assert state(lab.figures().nth(0))["step"] == 8
    assert not lab.page.locator(f"{PANEL} img[data-figure]").first.is_visible()


def test_a_new_kernel_leaves_picture_and_table(figures, lab):
    lab.errors.expected.append("widget model not found")
    lab.save()
    lab.open("graph.ipynb")
    stills = lab.page.locator(f"{PANEL} img[data-figure]")
    lab.page.wait_for_function(
        "([stills, n]) => [...document.querySelectorAll(stills)].filter((i) => i.naturalWidth > 0).length === n",
        arg=[f"{PANEL} img[data-figure]", N_FIGURES],
    )
    wait_for_lost_widgets(lab, N_FIGURES)
    assert stills.first.is_visible() and stills.nth(3).is_visible()
    assert "a 48 and b 28" in stills.first.get_attribute("alt")
    table = lab.page.locator(f"{PANEL} details").first
    table.locator("summary").click()
    assert table.locator("tbody tr").count() == 5
    lab.errors.expected.clear()


@pytest.fixture(scope="module")
def executed(lab):
    chosen = cells()
    return executed_in(lab, "graph-executed.ipynb", [*chosen[:2], chosen[4]])


def test_an_untrusted_notebook_shows_the_pictures(executed, lab):
    lab.errors.expected.append("widget model not found")
    lab.open(executed.name)
    stills = lab.page.locator(f"{PANEL} .jp-OutputArea img")
    stills.nth(1).wait_for()
    for k, words in enumerate(("a 48 and b 28", "the main process waited")):
        assert stills.nth(k).evaluate("(i) => i.naturalWidth") > 0
        assert words in stills.nth(k).get_attribute("alt")
    assert lab.page.locator(f"{PANEL} .jp-OutputArea svg text").count() == 0
    lab.errors.expected.clear()


def test_a_trusted_notebook_with_state_plays_without_a_kernel(executed, lab):
    lab.open(trusted_copy(lab, executed).name)
    lab.page.wait_for_selector(FIGURE)
    figure = lab.figures().first
    press(figure, "Next")
    assert said(figure).startswith("Step 1: forward product *. product = a × b = 2 × 3 = 6.")
