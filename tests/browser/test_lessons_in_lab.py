"""Every lesson that ships, cold, in a real JupyterLab: it runs, its figures appear, its page is complete offline."""

import os
import re
import subprocess
import sys

import nbformat
import pytest
from lab_page import PANEL, Errors

from labsupport.catalog import lessons
from labsupport.places import NOTEBOOKS
from labsupport.server import environment

BUILT = sorted(path.name for path in NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))
LESSON_MS = 120_000  # a hang guard; a lesson is meant to take a minute at most


def test_every_ready_lesson_is_built():
    assert [known.notebook for known in lessons() if known.ready] == BUILT


@pytest.fixture(scope="module")
def done():
    """The names of the lessons that have run, in the order of the tests."""
    return []


@pytest.mark.parametrize("name", BUILT)
def test_cold_start_and_run_all(lab, done, name):
    lab.open(name)
    lab.run_all(LESSON_MS)
    cells = [cell for cell in lab.cells() if cell["type"] == "code"]
    assert all(cell["count"] for cell in cells if cell["source"].strip())
    broken = [out for cell in cells for out in cell["outputs"] if out["output_type"] == "error"]
    assert broken == []
    shown = [k for k, cell in enumerate(lab.cells()) if "lab.show(" in cell["source"] and cell["type"] == "code"]
    for k in shown:  # cells far from the window are drawn when they come near
        lab.page.evaluate("(k) => window.jupyterapp.shell.currentWidget.content.scrollToItem(k)", k)
        cell = lab.page.locator(f"{PANEL} .jp-Cell").nth(k)
        cell.locator(".lab-figure[data-ready] svg:has(:is(.cell, rect, path))").first.wait_for()
        assert not cell.locator("img[data-figure]").is_visible()
    lab.save()
    done.append(name)


def test_saved_lessons_hold_no_widget_state_and_small_figures(lab, done):
    if not done:
        pytest.skip("no lesson has run in this selection of tests")
    for name in done:
        saved = nbformat.read(lab.server.work / name, 4)
        assert "widgets" not in saved.metadata
        for cell in saved.cells:
            if "lab.show(" in cell.source and cell.cell_type == "code":
                assert len(nbformat.writes(nbformat.v4.new_notebook(cells=[cell]))) <= 60_000


def test_pages_made_of_lessons_are_complete_offline(lab, chromium, done):
    if not done:
        pytest.skip("no lesson has run in this selection of tests")
    work = lab.server.work
    command = [sys.executable, "-m", "jupyter", "nbconvert", "--to", "html", "--HTMLExporter.require_js_url="]
    command += ["--HTMLExporter.mathjax_url=", *(str(work / name) for name in done)]
    subprocess.run(command, env=os.environ | environment(work), check=True, capture_output=True, timeout=300)
    context = chromium.new_context(offline=True)
    page = context.new_page()
    errors = Errors(page)
    for name in done:
        page.goto((work / name).with_suffix(".html").as_uri())
        cells = [cell for cell in nbformat.read(work / name, 4).cells if cell.cell_type == "code"]
        figures = sum("lab.show(" in cell.source for cell in cells)
        sizes = page.evaluate("() => [...document.querySelectorAll('img[data-figure]')].map((i) => i.naturalWidth)")
        assert len(sizes) == figures
        assert all(sizes)
        empty = page.evaluate(
            "() => [...document.querySelectorAll('.jp-OutputArea-output')].filter((o) => ("
            "!o.textContent.trim() && !o.querySelector('img, svg'))).length"
        )
        assert empty == 0
    context.close()
    assert errors.seen == []


@pytest.fixture(scope="module")
def expecting_lost_widgets(lab):
    """The lessons saved above are opened with a fresh kernel: Lab says that their live figures are gone."""
    lab.errors.expected.append("widget model not found")


@pytest.mark.parametrize("sidebar", [True, False], ids=["with the sidebar", "without it"])
def test_home_opens_each_lesson(lab, expecting_lost_widgets, sidebar):
    lab.open("home.ipynb", fresh_kernel=False)
    shown = lab.page.locator("#jp-left-stack").is_visible()
    if shown != sidebar:
        lab.command("application:toggle-left-area")
    links = lab.page.locator(f"{PANEL} .jp-RenderedMarkdown td a")
    links.nth(len(BUILT) - 1).wait_for()
    words = lab.page.locator(PANEL).inner_text()
    for k, name in enumerate(BUILT):
        title = re.sub(r"^\d\d_|\.ipynb$", "", name)
        assert title in words
        links.nth(k).click()
        lab.page.wait_for_function(
            "(name) => window.jupyterapp.shell.currentWidget.context.path.endsWith(name)", arg=name
        )
        lab.command("docmanager:open", path="home.ipynb")
        lab.page.wait_for_function("() => window.jupyterapp.shell.currentWidget.context.path === 'home.ipynb'")


def test_home_says_the_progress_in_words(lab, expecting_lost_widgets):
    lab.open("home.ipynb")
    lab.run_all()
    words = lab.page.locator(f"{PANEL} .jp-OutputArea-output").first.inner_text()
    assert "core exercises" in words
