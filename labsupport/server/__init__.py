"""The JupyterLab of the course: own settings, own folders, this Python as the only kernel, and a clean end.

Settings that the browser needs are in `config/labconfig`; everything else is set here. What JupyterLab writes (theme,
open tabs, trust) goes to `.lab/jupyter` in the workspace, so neither the user's own Jupyter nor the course sees the
other's. With LAB_EXPOSE_APP=1 the browser tests get the application object, and no autosave.
"""

import contextlib
import os
import signal
import sys
import webbrowser
from pathlib import Path

from labsupport.errors import LabError
from labsupport.places import ROOT, command

__all__ = ["arguments", "environment", "open_page", "serve"]

_HERE = Path(__file__).resolve().parent
_RETRIES = 100  # ports tried after the wanted one
_TEXT_BROWSERS = ("elinks", "links", "lynx", "w3m", "www-browser")  # they would take over this terminal


def environment(workspace, expose=False):
    """Return the variables that give JupyterLab the course's folders and settings.

    Args:
        workspace: the learner's folder.
        expose: True adds the settings of the browser tests.
    """
    own = Path(workspace) / ".lab" / "jupyter"
    config = [str(_HERE / "config")]
    if expose:
        config.insert(0, str(_HERE / "config_for_tests"))
    return {
        "JUPYTER_CONFIG_PATH": os.pathsep.join(config),
        "JUPYTER_CONFIG_DIR": str(own / "config"),
        "JUPYTER_DATA_DIR": str(own / "data"),
        "JUPYTER_RUNTIME_DIR": str(own / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(own / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(own / "layouts"),
        # The notebooks' kernels inherit these, so that a check finds the same workspace.
        "LAB_WORK": str(workspace),
    }


def arguments(workspace, page, port, expose=False):
    """Return the settings of the server as its command line.

    Args:
        workspace: the learner's folder, the root of what the browser sees.
        page: file in it to open, as a path relative to it.
        port: first port to try.
        expose: True lets the browser tests reach the application object.
    """
    settings = {
        "ServerApp.root_dir": str(workspace),
        "ServerApp.ip": "127.0.0.1",
        "ServerApp.port": port,
        "ServerApp.port_retries": _RETRIES,
        "ServerApp.open_browser": False,  # opened by `serve`, once the server answers
        "ServerApp.allow_root": True,  # in a container there is often nobody else; the address is this machine's only
        "ServerApp.answer_yes": True,  # Ctrl-C means stop, without a second question
        "Application.log_level": "ERROR",
        "LabApp.default_url": f"/lab/tree/{Path(page).as_posix()}",
        "LabApp.expose_app_in_browser": expose,
        # Nothing is fetched: no news, no version check, no list of extensions.
        "LabApp.check_for_updates_class": "jupyterlab.handlers.announcements.NeverCheckForUpdate",
        "LabApp.extension_manager": "readonly",
        # One kernel, this Python: the packages that the lessons need are here and nowhere else.
        "MappingKernelManager.default_kernel_name": "python3",
        "KernelSpecManager.allowed_kernelspecs": "python3",
        "MappingKernelManager.kernel_manager_class": "labsupport.server.kernels.KernelManager",
    }
    return [f"--{name}={value}" for name, value in settings.items()]


def serve(workspace, page, *, port, open_browser, announce):
    """Run JupyterLab until Ctrl-C or a termination signal, then end its kernels and return.

    Args:
        workspace: the learner's folder.
        page: file in it to open, as a path relative to it.
        port: first port to try; a busy one is skipped.
        open_browser: True opens the page in the default browser.
        announce: called with (url with token, port) once the server answers.

    Raises:
        LabError: JupyterLab is not installed, or no port is free.
    """
    expose = os.environ.get("LAB_EXPOSE_APP") == "1"
    os.environ.pop("JUPYTER_PATH", None)  # a kernel of the same name found there would win
    os.environ.update(environment(workspace, expose))
    from labsupport.server.running import sweep

    sweep(workspace)
    app = _initialized(arguments(workspace, page, port, expose))
    os.chdir(ROOT)  # where JupyterLab's terminals open, so that the commands of the lessons work in them as written

    async def ready():
        url = await _answering_url(app)
        announce(url, app.port)
        if open_browser:
            open_page(url)

    app.io_loop.add_callback(ready)
    # Without a terminal to ask in, Jupyter leaves Ctrl-C to Python, and kernels and files stay; SIGHUP: it was closed.
    for name in ("SIGINT", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), app._signal_stop)
    app.start()


def _initialized(argv):
    try:
        from jupyterlab.labapp import LabApp
    except ImportError as error:
        raise LabError(
            f"JupyterLab cannot be started with {sys.executable}",
            why=str(error),
            next_step=f"delete the folder .venv and run {command()} start: it is made again",
        ) from error

    try:
        app = LabApp.initialize_server(argv=argv)
    except SystemExit as stop:  # JupyterLab has written its reason to the terminal
        raise LabError(
            "JupyterLab did not start", next_step=f"{command()} start --port 9000 tries other ports"
        ) from stop
    app.log.addFilter(_is_news)
    return app


def _is_news(record):
    """JupyterLab logs a wanted end and the address as critical; `lab start` says both itself."""
    text = record.getMessage().lstrip()
    return not text.startswith(("received signal", "Shutting down", "To access the server"))


async def _answering_url(app):
    """Return the address of the start page with its token, once the server has answered a request."""
    import asyncio

    from tornado.httpclient import AsyncHTTPClient, HTTPError

    token = app.identity_provider.token
    client = AsyncHTTPClient(force_instance=True)
    status = f"http://127.0.0.1:{app.port}{app.base_url}api/status"
    while True:
        with contextlib.suppress(OSError, HTTPError):
            await client.fetch(status, headers={"Authorization": f"token {token}"}, request_timeout=10)
            break
        await asyncio.sleep(0.05)
    client.close()
    return f"http://127.0.0.1:{app.port}{app.default_url}" + (f"?token={token}" if token else "")


def open_page(url):
    """Open the address in a browser and return the thread that does it, or None.

    On a machine without a browser the printed address has to do.
    """
    import threading

    with contextlib.suppress(webbrowser.Error):
        browser = webbrowser.get()
        if Path(getattr(browser, "name", "")).name not in _TEXT_BROWSERS:
            opening = threading.Thread(target=browser.open, args=(url,), daemon=True)
            opening.start()
            return opening
    return None
