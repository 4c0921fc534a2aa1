"""A real JupyterLab, started as a learner starts it, and the system's Chromium driven by Playwright.

Server and browser belong to one test file: Playwright keeps an event loop running, and tests of other files in the same
process may want their own.
"""

import os
import shutil
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import pytest
from lab_page import ARGUMENTS, Errors, LabPage

HERE = Path(__file__).parent
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
START_S = 180  # a hang guard, not a measure


def find_chromium():
    """Return the path of a Chromium, or None."""
    named = os.environ.get("LAB_CHROMIUM")
    return named or next((found for found in map(shutil.which, NAMES) if found), None)


def pytest_collection_modifyitems(items):
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="module")
def chromium():
    """A running browser. Skips where there is none, and fails instead when CI is set."""
    path = find_chromium()
    if path is None:
        reason = "needs Chromium: install it, or name it in LAB_CHROMIUM"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def blank(chromium):
    """An empty page outside JupyterLab; the test fails on any error in it and on any request."""
    context = chromium.new_context()
    page = context.new_page()
    errors = Errors(page)
    page.set_content("<!doctype html><html lang='en'><title>figure</title><body></body></html>")
    yield page
    context.close()
    assert errors.seen == []


class Server:
    """`lab start --no-browser` in a workspace of its own."""

    def __init__(self, folder):
        self.work = folder / "work"
        self.env = {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "LAB_"))}
        self.env |= {"LAB_WORK": str(self.work), "LAB_EXPOSE_APP": "1", "PYTHONUNBUFFERED": "1"}
        self._log = (folder / "server.log").open("w", encoding="utf-8")
        command = [sys.executable, "-m", "labsupport", "start", "--no-browser", "--port", "0"]
        self.process = subprocess.Popen(
            command, env=self.env, stdout=subprocess.PIPE, stderr=self._log, text=True, encoding="utf-8"
        )
        guard = threading.Timer(START_S, self.process.kill)
        guard.start()
        self.url = next((line.strip() for line in self.process.stdout if line.strip().startswith("http")), None)
        guard.cancel()
        if self.url is None:
            self.stop()
            raise AssertionError((folder / "server.log").read_text(encoding="utf-8"))
        self.base, _, query = self.url.partition("/lab/")
        self.token = query.partition("token=")[2]

    def request(self, method, path):
        """Ask the server's REST interface and return the body."""
        headers = {"Authorization": f"token {self.token}"}
        with urllib.request.urlopen(urllib.request.Request(self.base + path, method=method, headers=headers)) as got:
            return got.read()

    def end_kernels(self):
        """End every session, so that the next page starts a fresh kernel."""
        import json

        for session in json.loads(self.request("GET", "/api/sessions")):
            self.request("DELETE", f"/api/sessions/{session['id']}")

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._log.close()


@pytest.fixture(scope="module")
def server(chromium, tmp_path_factory):
    """A running course; asked for after the browser, so that nothing starts where there is none."""
    server = Server(tmp_path_factory.mktemp("lab"))
    yield server
    server.stop()


@pytest.fixture(scope="module")
def lab(chromium, server):
    """A JupyterLab page; ask it to open notebooks. Fails on page errors and on requests that leave this machine."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    page = LabPage(context.new_page(), server)
    yield page
    context.close()


@pytest.fixture(autouse=True)
def _no_page_errors(request):
    """Fail the test during which a page broke or asked for something outside this machine."""
    page = request.getfixturevalue("lab") if "lab" in request.fixturenames else None
    if page:
        page.errors.seen.clear()
    yield
    if page:
        assert page.errors.seen == []
