"""Steps and measures that the browser tests of every figure share."""

import json
import os
import subprocess
import sys

import nbformat
from lab_page import PANEL


def write_notebook(path, cells):
    cells = [nbformat.v4.new_code_cell(source, id=f"c{k}") for k, source in enumerate(cells)]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), path)


def state(figure):
    return json.loads(figure.get_attribute("data-state"))


def said(figure):
    return figure.locator("[role=status]").text_content()


def axe(page):
    from axe_playwright_python.sync_playwright import Axe

    options = {"resultTypes": ["violations"]}
    found = Axe().run(page, context=".lab-figure", options=options).response["violations"]
    return [(rule["id"], [n["html"][:120] for n in rule["nodes"]]) for rule in found]


def wait_for_lost_widgets(lab, n):
    """Wait until Lab has given up on `n` widgets, so that its messages do not arrive during the next test."""
    lost = lab.page.locator(f"{PANEL} .jp-OutputArea-child").filter(has_text="Error displaying widget")
    lost.nth(n - 1).wait_for()


def executed_in(lab, name, cells):
    """Return the path of a notebook executed without a browser, with widget state stored, as nbclient does."""
    path = lab.server.work / name
    write_notebook(path, cells)
    env = os.environ | jupyter_folders(lab.server)
    command = [sys.executable, "-m", "jupyter", "nbconvert", "--to", "notebook", "--execute", "--inplace", str(path)]
    subprocess.run(command, env=env, check=True, capture_output=True, timeout=300)
    return path


def trusted_copy(lab, notebook):
    """Return the path of a copy of a notebook that the server trusts."""
    trusted = notebook.with_name(f"trusted-{notebook.name}")
    trusted.write_bytes(notebook.read_bytes())
    command = [sys.executable, "-m", "jupyter", "trust", str(trusted)]
    subprocess.run(command, env=os.environ | jupyter_folders(lab.server), check=True, capture_output=True, timeout=120)
    return trusted


def jupyter_folders(server):
    from labsupport.server import environment

    return environment(server.work)


# all ids inside figures, and the references that lead out of their own figure
IDS = """(panel) => {
  const ids = [...document.querySelectorAll(`${panel} .lab-figure [id]`)].map((e) => e.id);
  const elsewhere = [];
  for (const figure of document.querySelectorAll(`${panel} .lab-figure`)) {
    for (const name of ['for', 'aria-labelledby', 'aria-activedescendant']) {
      for (const e of [figure, ...figure.querySelectorAll(`[${name}]`)]) {
        for (const id of (e.getAttribute(name) || '').split(' ').filter(Boolean)) {
          if (!figure.contains(document.getElementById(id))) elsewhere.push([name, id]);
        }
      }
    }
  }
  return { ids, elsewhere };
}"""


NAME_OF_FOCUS = """() => {
  const e = document.activeElement;
  const by = (e.getAttribute('aria-labelledby') || '').split(' ').filter(Boolean);
  if (by.length) return by.map((id) => document.getElementById(id).textContent).join(' ');
  return e.labels?.[0]?.textContent || e.getAttribute('aria-label')?.split(',')[0] || e.textContent;
}"""


# contrast of every piece of text against what lies behind it: its cell's fill, or the nearest background
LEAST_CONTRAST = """(figure) => {
  const channels = (c) => c.match(/[\\d.]+/g).slice(0, 3).map(Number);
  const light = (c) => { const [r, g, b] = channels(c).map((v) => v / 255).map((v) => (
    v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = (e) => {
    for (let at = e; at; at = at.parentElement) {
      const rect = at.classList?.contains('cell') && at.querySelector('rect');
      if (rect) return getComputedStyle(rect).fill;
      const ground = getComputedStyle(at).backgroundColor;
      if (!/, 0\\)$|transparent/.test(ground)) return ground;
    }
    return 'rgb(255, 255, 255)';
  };
  let least = { ratio: 21 };
  for (const e of figure.querySelectorAll('text, p, span, label, button, input, pre, strong')) {
    if (!e.textContent.trim() && !e.value) continue;
    const own = getComputedStyle(e);
    const [ink, ground] = [e.tagName === 'text' ? own.fill : own.color, behind(e)];
    const [low, high] = [light(ink), light(ground)].sort((a, b) => a - b);
    const ratio = (high + 0.05) / (low + 0.05);
    if (ratio < least.ratio) least = { ratio, text: e.textContent, ink, ground };
  }
  return least;
}"""


FITS = "(figure) => Number(figure.querySelector('svg').getAttribute('width')) <= figure.clientWidth"
CLIPPED = """(figure) => {
  const frame = figure.getBoundingClientRect();
  const shown = (e) => e.getClientRects().length > 0;
  const clipped = [...figure.querySelectorAll('button, input, text, .cell rect, p, pre')].filter(shown).filter((e) => {
    const box = e.getBoundingClientRect();
    return box.left < frame.left + 8 || box.right > frame.right - 4 || box.bottom > frame.bottom - 4;
  }).map((e) => e.outerHTML.slice(0, 120));
  const scale = (svg) => svg.getBoundingClientRect().width / Number(svg.getAttribute('width'));
  const words = [...figure.querySelectorAll('text, p, span, label, button, input, pre')].filter(shown);
  const sizes = words.map((e) => parseFloat(getComputedStyle(e).fontSize) * scale(figure.querySelector('svg')));
  const targets = [...figure.querySelectorAll('button, input, [role=option] rect')].filter(shown).map((e) => (
    Math.min(e.getBoundingClientRect().width, e.getBoundingClientRect().height)));
  return { clipped, text: Math.min(...sizes), target: Math.round(Math.min(...targets)) };
}"""
