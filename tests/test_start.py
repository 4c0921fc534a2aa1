"""lab start: a real JupyterLab with the course's settings, and nothing left of it afterwards."""

import contextlib
import json
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import types
import urllib.error
import urllib.request

import psutil
import pytest
from jupyter_client import BlockingKernelClient

from labsupport import cli, server
from labsupport.cli import start
from labsupport.errors import LabError
from labsupport.places import NOTEBOOKS, ROOT, command
from labsupport.server import running

GUARD_S = 120  # a hang guard: a start takes about two seconds
posix = pytest.mark.skipif(os.name == "nt", reason="POSIX signals")


class Server:
    """`lab start --no-browser` as a process; `url` is the address it prints."""

    def __init__(self, work, *words, **env):
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("JUPYTER", "LAB_", "SSH_"))}
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "labsupport", "start", "--no-browser", *words],
            env=inherited | {"LAB_WORK": str(work)} | env, cwd=work.parent,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8",
        )  # fmt: skip
        self.said = ""
        self._lines = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()
        while "Ctrl-C here ends" not in self.said:
            self.said += self._lines.get(timeout=GUARD_S)
            if self.said.endswith("\0"):
                raise AssertionError(f"the server ended: {self.said}")
        self.url = re.search(r"http://\S+", self.said)[0]
        self.base, self.token = re.fullmatch(r"(http://127\.0\.0\.1:\d+)/lab/tree/\S+\?token=(\w+)", self.url).groups()

    def _read(self):
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put("\0")

    def ask(self, address, method="GET", **body):
        request = urllib.request.Request(
            self.base + address,
            method=method,
            headers={"Authorization": f"token {self.token}", "Content-Type": "application/json"},
            data=json.dumps(body).encode() if body else None,
        )
        with urllib.request.urlopen(request, timeout=GUARD_S) as answer:
            return answer.read().decode("utf-8")

    def end(self, how=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(how)
        self.process.wait(timeout=GUARD_S)
        while not self.said.endswith("\0"):
            self.said += self._lines.get(timeout=GUARD_S)
        return self.process.returncode


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """Return a running server, and look at its end too."""
    folder = tmp_path_factory.mktemp("start")
    # What a learner may have: an own kernel called python3, and own settings of Jupyter.
    spec = folder / "own" / "kernels" / "python3"
    spec.mkdir(parents=True)
    (spec / "kernel.json").write_text(json.dumps({"argv": ["false"], "display_name": "wrong"}), encoding="utf-8")
    (folder / "jupyter_server_config.json").write_text('{"ServerApp": {"base_url": "/elsewhere/"}}', encoding="utf-8")
    own = {"JUPYTER_PATH": str(folder / "own"), "JUPYTER_DATA_DIR": str(folder / "own")}
    started = Server(folder / "work", "--port", "0", JUPYTER_CONFIG_DIR=str(folder), **own)
    started.work = folder / "work"
    yield started
    started.end()


def test_the_printed_address_answers_and_is_the_home_notebook(lab):
    with urllib.request.urlopen(lab.url, timeout=GUARD_S) as answer:
        assert answer.status == 200
        page = answer.read().decode("utf-8")
    assert "/lab/tree/home.ipynb" in lab.url
    config = json.loads(re.search(r'id="jupyter-config-data"[^>]*>(.*?)</script>', page, re.DOTALL)[1])
    assert config["exposeAppInBrowser"] is False
    assert json.loads(lab.ask("/api/contents/home.ipynb?content=0"))["type"] == "notebook"


def test_without_the_token_nothing_is_told(lab):
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(lab.base + "/api/contents", timeout=GUARD_S)
    assert refused.value.code == 403


def test_the_lessons_were_copied(lab):
    names = {entry["name"] for entry in json.loads(lab.ask("/api/contents"))["content"]}
    assert {path.name for path in NOTEBOOKS.glob("*.ipynb")} <= names
    assert str(lab.work) in lab.said


@pytest.mark.parametrize(
    "plugin, setting, value",
    [
        ("apputils-extension:notification", "fetchNews", "false"),
        ("apputils-extension:notification", "checkForUpdates", False),
        ("apputils-extension:notification", "doNotDisturbMode", True),
        ("apputils-extension:kernels-settings", "commsOverSubshells", "disabled"),
        ("docmanager-extension:plugin", "autosave", True),
    ],
)
def test_settings_the_browser_gets(lab, plugin, setting, value):
    schema = json.loads(lab.ask(f"/lab/api/settings/@jupyterlab/{plugin}"))["schema"]
    assert schema["properties"][setting]["default"] == value


def test_the_only_kernel_is_this_python(lab):
    specs = json.loads(lab.ask("/api/kernelspecs"))
    assert (specs["default"], list(specs["kernelspecs"])) == ("python3", ["python3"])
    assert specs["kernelspecs"]["python3"]["spec"]["display_name"] != "wrong"


def test_what_jupyter_writes_is_out_of_the_learners_sight(lab):
    assert {path.name for path in lab.work.iterdir() if path.suffix != ".ipynb"} == {".lab"}
    assert list((lab.work / ".lab" / "jupyter" / "runtime").glob("jpserver-*.json"))
    assert all(not entry["name"].startswith(".") for entry in json.loads(lab.ask("/api/contents"))["content"])


@posix
@pytest.mark.parametrize("asked", [{}, {"cwd": ""}], ids=["from the menu", "from the launcher"])
def test_a_terminal_opens_in_the_courses_folder(lab, asked):
    before = set(psutil.Process(lab.process.pid).children())
    request = urllib.request.Request(
        lab.base + "/api/terminals", method="POST", data=json.dumps(asked).encode(),
        headers={"Authorization": f"token {lab.token}"},
    )  # fmt: skip
    with urllib.request.urlopen(request, timeout=GUARD_S) as answer:
        name = json.load(answer)["name"]
    (shell,) = set(psutil.Process(lab.process.pid).children()) - before
    assert shell.cwd() == str(ROOT), "./lab is there"
    lab.ask(f"/api/terminals/{name}", "DELETE")


def called(work, *words):
    """Return what a second `lab start` says, once it has ended."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("JUPYTER", "LAB_", "SSH_"))}
    return subprocess.run(
        [sys.executable, "-P", "-m", "labsupport", "start", "--no-browser", *words],
        env=inherited | {"LAB_WORK": str(work)}, cwd=work.parent, timeout=GUARD_S, check=True,
        capture_output=True, text=True, encoding="utf-8",
    ).stdout  # fmt: skip


def test_a_second_start_tells_the_address_of_the_first(lab):
    said = called(lab.work, "strides")
    assert "open already" in said
    assert f"{lab.base}/lab/tree/05_strides.ipynb?token={lab.token}" in said


def test_the_server_of_another_workspace_or_of_nobody_is_not_taken(lab, tmp_path):
    assert running.find(lab.work).token == lab.token
    theirs = next((lab.work / ".lab/jupyter/runtime").glob("jpserver-*.json"))
    info = json.loads(theirs.read_text(encoding="utf-8"))
    copy = tmp_path / ".lab" / "jupyter" / "runtime" / theirs.name
    copy.parent.mkdir(parents=True)
    for change in ({}, {"root_dir": str(tmp_path), "token": "another"}, {"root_dir": str(tmp_path), "pid": 2**30}):
        copy.write_text(json.dumps(info | change), encoding="utf-8")
        assert running.find(tmp_path) is None
    copy.write_text(json.dumps(info | {"root_dir": str(tmp_path)}), encoding="utf-8")
    assert running.find(tmp_path).port == info["port"]
    copy.write_text("{torn", encoding="utf-8")
    assert running.find(tmp_path) is None


@pytest.mark.parametrize(
    "words, takes", [([], "found"), (["--port", "9123"], "found"), (["--port", "9124"], "started")]
)
def test_only_another_port_starts_another_server(tmp_path, monkeypatch, capsys, words, takes):
    monkeypatch.setenv("LAB_WORK", str(tmp_path / "work"))
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    there = running.Running(9123, "http://127.0.0.1:9123/", "secret")
    done = []
    monkeypatch.setattr(running, "find", lambda work: there)
    monkeypatch.setattr(server, "serve", lambda *args, port, **kwargs: done.append(port))
    monkeypatch.setattr(server, "open_page", done.append)
    assert cli.main(["start", "5", *words]) == 0
    address = "http://127.0.0.1:9123/lab/tree/05_strides.ipynb?token=secret"
    assert done == ([address] if takes == "found" else [9124])
    assert (address in capsys.readouterr().out) == (takes == "found")


def test_what_a_killed_server_left_is_swept(tmp_path):
    runtime = tmp_path / ".lab" / "jupyter" / "runtime"
    runtime.mkdir(parents=True)
    dead, alive = "jpserver-1073741824.json", f"jpserver-{os.getpid()}.json"
    names = [dead, "jpserver-1073741824-open.html", alive, "kernel-1.json", "jupyter_cookie_secret"]
    for name in names:
        (runtime / name).write_text("{}", encoding="utf-8")

    def left():
        return {path.name for path in runtime.iterdir()} & set(names)

    (runtime / "machine").write_text("another computer", encoding="utf-8")
    running.sweep(tmp_path)
    assert left() == set(names), "process numbers of another computer say nothing here"
    (runtime / "machine").unlink()
    running.sweep(tmp_path)
    assert left() == {alive, "kernel-1.json", "jupyter_cookie_secret"}, "a living server needs its kernels' files"
    (runtime / alive).unlink()
    running.sweep(tmp_path)
    assert left() == {"jupyter_cookie_secret"}


def test_newer_text_is_told_in_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("LAB_WORK", str(tmp_path / "work"))
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "secret")  # no server is started there
    assert cli.main(["start"]) == 0
    assert "newer text" not in capsys.readouterr().out
    for name in ("home", "05_strides"):
        base = tmp_path / "work" / ".lab" / "base" / f"{name}.ipynb"
        notebook = json.loads(base.read_text(encoding="utf-8"))
        notebook["cells"][0]["source"] = ["# An earlier title"]
        base.write_text(json.dumps(notebook), encoding="utf-8")
        assert cli.main(["start"]) == 0
    said = capsys.readouterr().out
    assert f"1 notebook has newer text: {command()} update" in said
    assert f"2 notebooks have newer text: {command()} update" in said


@contextlib.contextmanager
def client_of(connection):
    """Return a client of a kernel that answers it; one that is still starting looks dead to it, and is asked again."""
    client = BlockingKernelClient(connection_file=str(connection))
    client.load_connection_file()
    client.start_channels()
    try:
        until = time.monotonic() + GUARD_S
        while True:
            try:
                client.wait_for_ready(timeout=GUARD_S)
                break
            except RuntimeError:
                assert time.monotonic() < until, "the kernel never answered"
        yield client
    finally:
        client.stop_channels()


def said_by_kernel(connection, code):
    """Return what a running kernel prints for `code`."""
    printed = []
    with client_of(connection) as client:
        client.execute_interactive(
            code, timeout=GUARD_S, output_hook=lambda m: printed.append(m["content"].get("text", ""))
        )
    return "".join(printed)


def leave_running(connection, code):
    """Start `code` in a kernel and return once it has printed something."""
    with client_of(connection) as client:
        client.execute(code)
        while client.get_iopub_msg(timeout=GUARD_S)["msg_type"] != "stream":
            pass


@posix
@pytest.mark.parametrize("how", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_the_end_leaves_no_process(tmp_path, how):
    started = Server(tmp_path / "work", "0", "--port", "0", LAB_EXPOSE_APP="1")
    try:
        assert "/lab/tree/00_start_here.ipynb" in started.url, "a lesson that is asked for is the page that opens"
        assert '"exposeAppInBrowser": true' in started.ask("/lab")
        autosave = json.loads(started.ask("/lab/api/settings/@jupyterlab/docmanager-extension:plugin"))
        assert autosave["schema"]["properties"]["autosave"]["default"] is False
        body = {"name": "", "type": "notebook", "path": "home.ipynb", "kernel": {"name": "python3"}}
        kernel = json.loads(started.ask("/api/sessions", "POST", **body))["kernel"]["id"]
        runtime = tmp_path / "work" / ".lab" / "jupyter" / "runtime"
        said = said_by_kernel(
            runtime / f"kernel-{kernel}.json",
            "import os, sys; print(sys.executable, os.getcwd(), os.environ['LAB_WORK'])",
        )
        assert said.split() == [sys.executable, str(tmp_path / "work"), str(tmp_path / "work")]
        loud = "import os, time; os.write(2, b'LOUD'); print('now', flush=True)\nwhile True: time.sleep(0.01)"
        started.ask(f"/api/kernels/{kernel}/restart", "POST")
        leave_running(runtime / f"kernel-{kernel}.json", loud)
        processes = psutil.Process(started.process.pid).children(recursive=True)
        assert any("ipykernel_launcher" in process.cmdline() for process in processes)
    finally:
        code = started.end(how)
    assert code == 0
    _, alive = psutil.wait_procs(processes, timeout=GUARD_S)
    assert not alive
    assert "Stopped. Your work is in" in started.said
    after = started.said.split("Ctrl-C here ends the course.")[1].rstrip("\0")
    assert after.split("\n") == ["", "", f"Stopped. Your work is in {tmp_path / 'work'}.", ""], (
        "nothing of the kernel's"
    )
    assert "LOUD" in (runtime / "kernels.log").read_text(encoding="utf-8")
    assert not [*runtime.glob("kernel-*.json"), *runtime.glob("jpserver-*")]


@pytest.mark.slow
def test_a_busy_port_picks_the_next(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        started = Server(tmp_path / "work", "--port", str(port))
        try:
            assert f"Port {port} is in use, so the course takes" in started.said
            assert started.base != f"http://127.0.0.1:{port}"
            assert json.loads(started.ask("/api/status"))["kernels"] == 0
        finally:
            started.end()


def test_in_a_hub_only_the_workspace_is_prepared(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("LAB_WORK", str(tmp_path / "work"))
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "secret")
    monkeypatch.setattr(server, "serve", lambda *args, **kwargs: pytest.fail("a second server in a hub"))
    assert cli.main(["start"]) == 0
    assert (tmp_path / "work" / "home.ipynb").is_file()
    out = capsys.readouterr().out
    assert str(tmp_path / "work") in out
    assert "home.ipynb" in out


def test_starting_again_keeps_the_learners_copies(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_WORK", str(tmp_path / "work"))
    start._prepare(None)
    (tmp_path / "work" / "home.ipynb").write_text("mine", encoding="utf-8")
    assert start._prepare(None).read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("port", ["-1", "70000"])
def test_a_port_that_cannot_be(port, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("LAB_WORK", str(tmp_path / "work"))
    assert cli.main(["start", f"--port={port}"]) == 2
    assert f"there is no port {port}" in capsys.readouterr().err


@pytest.mark.parametrize("editor, says", [("", "ssh -N -L 8890:127.0.0.1:8890"), ("/usr/bin/open-at-home", "")])
def test_a_remote_machine_is_told_about_the_tunnel(monkeypatch, capsys, editor, says):
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.1 2 10.0.0.3 22")
    monkeypatch.setenv("BROWSER", editor)
    start._announce("http://127.0.0.1:8890/lab", 8890, 8890)
    out = capsys.readouterr().out
    assert says in out
    assert bool(says) == ("ssh" in out)


@pytest.mark.parametrize("name, opens", [("w3m", False), ("/usr/bin/lynx", False), ("xdg-open", True)])
def test_a_browser_in_the_terminal_is_not_opened(monkeypatch, name, opens):
    opened = queue.SimpleQueue()
    browser = types.SimpleNamespace(name=name, open=opened.put)
    monkeypatch.setattr(server.webbrowser, "get", lambda: browser)
    server.open_page("http://127.0.0.1/")
    if opens:
        assert opened.get(timeout=GUARD_S) == "http://127.0.0.1/"
    else:
        assert opened.empty()


def test_a_missing_jupyterlab_is_one_message(monkeypatch):
    monkeypatch.setitem(sys.modules, "jupyterlab.labapp", None)
    with pytest.raises(LabError, match=r"run \S*lab start"):
        server._initialized([])


def test_nothing_is_fetched_and_no_setting_names_another_machine():
    words = server.arguments(ROOT / "work", "home.ipynb", 8888)
    assert "--LabApp.extension_manager=readonly" in words
    assert any("NeverCheckForUpdate" in word for word in words)
    for path in (ROOT / "labsupport" / "server").rglob("*.json"):
        assert "http" not in path.read_text(encoding="utf-8")
