"""Steps in a JupyterLab page that wait for what they need: the application object, not the look of the page."""

import json
from urllib.parse import urlsplit

ARGUMENTS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
GUARD_MS = 120_000  # a hang guard, not a measure
_AGAIN = 12  # times within that guard
_AT_START = """(f) => { const s = JSON.parse(f.dataset.state);
  return !s.step && !s.predict && !s.code && !s.table && !s.asked; }"""
PANEL = ".jp-NotebookPanel:not(.lm-mod-hidden)"
FIGURE = f"{PANEL} .lab-figure[data-ready]"

_READY = """async () => {
  const panel = window.jupyterapp.shell.currentWidget;
  await panel.context.ready;
  await panel.sessionContext.ready;
  await panel.sessionContext.session.kernel.info;
}"""
_HAS_PANEL = """() => {
  const panel = window.jupyterapp?.shell?.currentWidget;
  return Boolean(panel?.sessionContext?.session?.kernel && panel.context?.isReady);
}"""
_IDLE = """() => {
  const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session?.kernel;
  return kernel?.status === 'idle' && kernel?.connectionStatus === 'connected';
}"""
_CELLS = """() => window.jupyterapp.shell.currentWidget.content.widgets.map((cell) => ({
  type: cell.model.type, source: cell.model.sharedModel.source, count: cell.model.executionCount ?? null,
  outputs: cell.model.outputs ? cell.model.outputs.toJSON() : [],
}))"""
_ASK = """async (code) => {
  const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
  const future = kernel.requestExecute({ code: '', silent: true, user_expressions: { it: code } });
  const reply = await future.done;
  const it = reply.content.user_expressions.it;
  return it.status === 'ok' ? it.data['text/plain'] : `${it.ename}: ${it.evalue}`;
}"""


def is_loopback(url):
    """Return whether a request stays on this machine."""
    parts = urlsplit(url)
    return parts.scheme in ("data", "blob", "about", "file") or parts.hostname in ("127.0.0.1", "localhost", "::1")


class Errors:
    """What went wrong in a page: exceptions, console errors, requests to elsewhere. `expected`: known ones."""

    def __init__(self, page):
        self.seen, self.expected = [], []
        page.on("pageerror", lambda error: self._add(f"page error: {error}"))
        page.on("console", lambda message: message.type == "error" and self._add(f"console: {message.text}"))
        page.on("request", lambda request: is_loopback(request.url) or self._add(f"request: {request.url}"))

    def _add(self, words):
        if not any(part in words for part in self.expected):
            self.seen.append(words)


class LabPage:
    """One JupyterLab page. `page` is Playwright's."""

    def __init__(self, page, server):
        self.page, self.server = page, server
        self.errors = Errors(page)
        page.set_default_timeout(GUARD_MS)

    def open(self, name, fresh_kernel=True):
        """Open a notebook of the workspace, alone, and wait for its kernel."""
        self.page.goto("about:blank")  # a page whose kernel is taken away complains
        if fresh_kernel:
            self.server.end_kernels()
        self.page.goto(f"{self.server.base}/lab/tree/{name}?token={self.server.token}&reset")
        self._wait_until_ready()

    def reload(self):
        """Load the page again; the kernel lives on."""
        self.page.reload()
        self._wait_until_ready()

    def _wait_until_ready(self):
        self.page.wait_for_selector("#jupyterlab-splash", state="detached")
        self.page.wait_for_selector(f"{PANEL} .jp-Cell")
        self.page.wait_for_function(_HAS_PANEL)
        self.page.evaluate(_READY)
        self.page.wait_for_function(_IDLE)

    def run_all(self, guard_ms=GUARD_MS):
        """Run every cell and wait until the kernel has finished the last one."""
        self.command("notebook:run-all-cells", guard_ms)
        self.page.wait_for_function(_IDLE)

    def command(self, name, guard_ms=GUARD_MS, **arguments):
        """Run one of Lab's commands; a command that hangs fails."""
        words = f"""(args) => Promise.race([
            window.jupyterapp.commands.execute({json.dumps(name)}, args).then(() => true),
            new Promise((_, no) => setTimeout(() => no(new Error('{name} did not end')), {guard_ms}))])"""
        return self.page.evaluate(words, arguments)

    def cells(self):
        """Return the notebook's cells: type, source, count, outputs."""
        return self.page.evaluate(_CELLS)

    def ask(self, expression):
        """Return the repr of a Python expression, evaluated in the kernel without running a cell."""
        return self.page.evaluate(_ASK, expression)

    def save(self):
        self.command("docmanager:save")

    def theme(self, name):
        """Switch Lab to its "light" or "dark" theme and wait for the figures to follow."""
        self.command("apputils:change-theme", theme=f"JupyterLab {name.title()}")
        self.page.wait_for_function(
            "(theme) => [...document.querySelectorAll('.lab-figure')].every((f) => f.dataset.theme === theme)", arg=name
        )

    def at_start(self, name, figure):
        """Put a player, `name` in the kernel, back to its first step with nothing pressed, and return its figure.

        What an earlier test pressed may reach the kernel only after this asked for the first step, and then holds: so
        it asks until the figure is there.
        """
        from playwright.sync_api import TimeoutError as TooLate

        for _ in range(_AGAIN):
            self.ask(f"{name}.set(step=0, predict=False, code=False, table=False, seen=0, asked=0, right=0) and None")
            try:
                self.page.wait_for_function(_AT_START, arg=figure.element_handle(), timeout=GUARD_MS / _AGAIN)
                return figure
            except TooLate:
                continue
        raise AssertionError(f"{name} did not come back to its first step: {figure.get_attribute('data-state')}")

    def figures(self):
        """Return a locator of every figure that has drawn, in the notebook shown."""
        return self.page.locator(FIGURE)
