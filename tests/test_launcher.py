"""The launcher `lab`: the real script with the real venv and the real pip, on an index of tiny packages on disk."""

import ast
import contextlib
import importlib.machinery
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from labsupport.environment import UNFINISHED
from labsupport.places import ROOT

GUARD_S = 180  # a hang guard: the slowest call here takes a few seconds
posix = pytest.mark.skipif(os.name == "nt", reason="named pipes and POSIX signals")

PROJECT = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "tiny-course"
version = "1.0"
"""

BACKEND = '''\
"""Builds the editable wheel of the temporary course; waits at the door while the test holds it."""
import os, pathlib, zipfile

def build_editable(directory, config_settings=None, metadata_directory=None):
    if os.path.exists("door"):
        pathlib.Path("door").open("w").close()  # returns when the test opens the pipe for reading
        pathlib.Path("door2").open().read()     # and this one when the test lets go
    name = "tiny_course-1.0-py3-none-any.whl"
    info = "tiny_course-1.0.dist-info"
    needs = pathlib.Path("needs.txt").read_text().split()
    with zipfile.ZipFile(pathlib.Path(directory, name), "w") as wheel:
        wheel.writestr("tiny_course.pth", os.getcwd() + "\\n")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\\nName: tiny-course\\nVersion: 1.0\\n"
            "Provides-Extra: test\\n" + "".join(f"Requires-Dist: {need}\\n" for need in needs)
            + "Requires-Dist: tinytool; extra == 'test'\\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{info}/RECORD", "")
    return name

build_wheel = build_editable
'''


def wheel(folder, name, version="1.0", files=None, needs=()):
    """Write a wheel that installs one module (or `files`) and needs nothing."""
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in (files or {f"{name}.py": f"VERSION = {version!r}\n"}).items():
            archive.writestr(path, data)
        if not any(path.endswith("/METADATA") for path in files or ()):
            archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
            archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            archive.writestr(f"{info}/RECORD", "")


def wheel_of_pip(folder):
    """Write this environment's own pip as a wheel, so that the launcher can renew pip from the index on disk."""
    dist = metadata.distribution("pip")
    kept = [f for f in dist.files if ".." not in f.parts and f.suffix != ".pyc"]
    wheel(folder, "pip", dist.version, {f.as_posix(): f.read_binary() for f in kept if f.locate().is_file()})
    return dist.version


class Course:
    """A temporary course with the real launcher and a command `lessons` that prints who runs it."""

    def __init__(self, root):
        self.root = root
        self.index = root.parent / "index"  # pip reads a list of folders here, separated by spaces
        self.index.mkdir(parents=True)
        root.mkdir()
        shutil.copy(ROOT / "lab", root / "lab")
        for name in ("__init__.py", "__main__.py", "errors.py", "places.py", "environment", "cli/__init__.py"):
            source, target = ROOT / "labsupport" / name, root / "labsupport" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            (shutil.copytree if source.is_dir() else shutil.copy)(source, target)
        command = (
            "import sys, tinypackage\n\ndef add_arguments(parser):\n    parser.add_argument('words', nargs='*')\n\n"
        )
        command += "def run(args):\n    print('ran', sys.prefix, tinypackage.VERSION, *args.words)\n    return 7\n"
        for name in ("lessons", "test"):
            (root / f"labsupport/cli/{name}.py").write_text(command, encoding="utf-8")
        (root / "pyproject.toml").write_text(PROJECT, encoding="utf-8")
        (root / "backend.py").write_text(BACKEND, encoding="utf-8")
        (root / "needs.txt").write_text("tinypackage", encoding="utf-8")
        for name, version in (("tinypackage", "1.0"), ("tinypackage", "2.0"), ("tinytool", "1.0")):
            wheel(self.index, name, version)
        self.pip = wheel_of_pip(self.index)
        self.constrain("tinypackage==1.0")
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "PYTHON", "LAB_", "VIRTUAL"))}
        self.env |= {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.index)}
        self.env |= {"PIP_CACHE_DIR": str(root / "cache")}

    def constrain(self, *lines):
        (self.root / "constraints.txt").write_text("\n".join([*lines, f"pip=={self.pip}"]), encoding="utf-8")

    def start(self, *words, **env):
        # Not the environment that runs the tests, but the Python it was made from: it has nothing of the course.
        command = [getattr(sys, "_base_executable", sys.executable), str(self.root / "lab"), *words]
        # A test run in the background of a shell inherits that Ctrl-C is ignored; a person's terminal does not.
        heard = (lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)) if os.name == "posix" else None
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(command, env=self.env | env, cwd=self.root.parent, preexec_fn=heard, **pipes)

    def lab(self, *words, **env):
        """Run the launcher and return (exit code, standard output, standard error)."""
        process = self.start(*words, **env)
        out, err = process.communicate(timeout=GUARD_S)
        return process.returncode, out, err

    @property
    def stamp(self):
        path = self.root / ".venv" / "lab-stamp.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


@pytest.fixture
def course(tmp_path):
    return Course(tmp_path / "a course")  # the space in the name is part of the test


@pytest.fixture(scope="module")
def launcher():
    """Return the launcher as a module."""
    loader = importlib.machinery.SourceFileLoader("lab_launcher", str(ROOT / "lab"))
    spec = importlib.util.spec_from_loader("lab_launcher", loader)
    module = importlib.util.module_from_spec(spec)
    write, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = write
    return module


def test_first_call_sets_up_and_later_calls_hand_over(course):
    code, out, err = course.lab("lessons", "a b", "--torch", "auto")
    assert (code, out.split()[0], out.split()[-3:]) == (7, "ran", ["1.0", "a", "b"])
    assert str(course.root / ".venv") in out
    assert "Setting up the course" in err
    assert "1 package, nothing to download" in err
    assert "ready after" in err
    assert course.stamp["extras"] == []
    assert not (course.root / ".venv" / UNFINISHED).exists()

    log = course.root / ".venv" / "lab-pip.log"
    log.unlink()
    code, out, err = course.lab("lessons")
    assert (code, err) == (7, "")
    assert not log.exists(), "a current environment needs no pip"

    # A command for authors needs the test tools too: they are added once, and stay.
    code, _, err = course.lab("test")
    assert code == 7
    assert "bringing .venv up to date" in err
    assert course.stamp["extras"] == ["test"]
    assert course.lab("lessons")[2] == ""

    # A new version in the constraints is installed, once.
    course.constrain("tinypackage==2.0")
    code, out, err = course.lab("lessons")
    assert (code, out.split()[-1]) == (7, "2.0")
    assert "bringing .venv up to date" in err
    assert course.lab("lessons")[2] == ""

    # A moved course is not trusted: its scripts name the old place.
    moved = course.root.parent / "moved"
    course.root.rename(moved)
    course.root = moved
    code, out, err = course.lab("lessons")
    assert (code, str(moved) in out) == (7, True)


@posix
@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_set_up_is_never_used_and_is_made_again(course, how):
    door, door2 = course.root / "door", course.root / "door2"
    os.mkfifo(door)
    os.mkfifo(door2)
    process = course.start("lessons")
    door.open().read()  # returns once pip is at work inside the new environment
    (course.root / "door").unlink()
    process.send_signal(how)
    if how is signal.SIGKILL:
        door2.open("w").close()
    out, err = process.communicate(timeout=GUARD_S)
    with contextlib.suppress(OSError):  # pip's own child waits there, and nobody else would let it go
        os.close(os.open(door2, os.O_WRONLY | os.O_NONBLOCK))
    if how is not signal.SIGKILL:
        assert process.returncode == 130
        assert "Stopped before the course was set up" in err
        assert "Traceback" not in err
    assert course.stamp is None
    assert (course.root / ".venv" / UNFINISHED).exists()

    if how is not signal.SIGTERM:  # what is left behind is the same as after Ctrl-C
        code, out, err = course.lab("lessons")
        assert (code, out.split()[-1]) == (7, "1.0")
        assert "did not finish" in err


@pytest.mark.slow
def test_two_first_calls_at_once_set_up_once(course):
    both = [course.start("lessons"), course.start("lessons")]
    results = [process.communicate(timeout=GUARD_S) for process in both]
    assert [process.returncode for process in both] == [7, 7]
    assert sum("ready after" in err for _, err in results) == 1


@pytest.mark.slow
def test_no_network_is_one_message_and_the_next_call_goes_on(course):
    # A port of this machine where nobody listens stands for a network that is away.
    offline = {
        "PIP_NO_INDEX": "",
        "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
        "PIP_RETRIES": "0",
        "PIP_FIND_LINKS": "",
    }
    code, out, err = course.lab("lessons", **offline)
    assert (code, out) == (1, "")
    assert "the package index cannot be reached" in err
    assert "next: check the network" in err
    assert "Traceback" not in err
    assert course.lab("lessons")[0] == 7


@pytest.mark.slow
def test_a_package_the_index_lacks_is_named(course):
    course.constrain("tinypackage==3.0")
    code, _, err = course.lab("lessons")
    assert code == 1
    assert "tinypackage" in err
    assert "./lab doctor" in err
    assert course.stamp is None


@pytest.mark.slow
def test_a_broken_folder_of_somebody_else_is_kept(course):
    (course.root / ".venv").mkdir()
    (course.root / ".venv" / "notes.txt").write_text("mine", encoding="utf-8")
    code, _, err = course.lab("lessons")
    assert code == 7
    assert "moved aside" in err
    kept = list(course.root.glob(".venv-kept-*/notes.txt"))
    assert [path.read_text(encoding="utf-8") for path in kept] == ["mine"]


def test_help_and_doctor_need_no_environment(course):
    shutil.copy(ROOT / "labsupport/cli/doctor.py", course.root / "labsupport/cli/doctor.py")
    assert course.lab("--help")[:2][0] == 0
    code, out, _ = course.lab("doctor")
    assert code in (0, 1)
    assert "not set up yet" in out
    assert course.lab("lessons", "--torch", "rocm")[0] == 2
    assert not (course.root / ".venv").exists()


def test_an_unknown_command_stops_before_anything_is_installed(course):
    code, out, err = course.lab("strat")
    assert (code, out) == (2, "")
    assert "the nearest is start" in err
    assert not (course.root / ".venv").exists()


@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may write anywhere")
@posix
def test_a_course_in_a_folder_that_is_read_only(course):
    course.root.chmod(0o555)
    code, _, err = course.lab("lessons")
    course.root.chmod(0o755)
    assert code == 1
    assert "cannot be written" in err


def test_launcher_is_read_by_old_pythons():
    tree = ast.parse((ROOT / "lab").read_text(encoding="utf-8"), feature_version=(3, 7))
    modern = [node for node in ast.walk(tree) if isinstance(node, (ast.JoinedStr, ast.NamedExpr, ast.AnnAssign))]
    assert not modern, f"line {modern[0].lineno} would be a syntax error before the message about the version"
    imported = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    assert imported <= set(sys.stdlib_module_names)


@pytest.mark.parametrize("version", [(3, 8, 10), (3, 15, 0)])
def test_a_python_that_does_not_fit_is_told_or_replaced(launcher, monkeypatch, capsys, version):
    monkeypatch.setattr(launcher.sys, "version_info", version)
    monkeypatch.setattr(launcher, "is_current", lambda *_: False)
    monkeypatch.setattr(launcher, "answers", lambda command: "")
    assert launcher.main(["lessons"]) == 1
    said = capsys.readouterr().err
    assert f"Python {version[0]}.{version[1]}.{version[2]} cannot run the course" in said
    assert "3.11 to 3.14" in said

    handed = []
    monkeypatch.setattr(launcher, "answers", lambda command: "/somewhere/python" if "3.12" in command[0] else "")
    monkeypatch.setattr(launcher, "hand_over", handed.extend)
    monkeypatch.setattr(launcher, "WINDOWS", False)
    monkeypatch.setattr(launcher.sys, "argv", ["lab", "lessons", "--all"])
    launcher.main(["lessons", "--all"])
    assert handed == ["/somewhere/python", str(ROOT / "lab"), "lessons", "--all"]


def test_windows_waits_for_the_child_through_ctrl_c(launcher, monkeypatch):
    class Child:
        waits = 0

        def wait(self):
            self.waits += 1
            if self.waits == 1:
                raise KeyboardInterrupt  # the console sends Ctrl-C to both
            return 5

    monkeypatch.setattr(launcher, "WINDOWS", True)
    monkeypatch.setattr(launcher.subprocess, "Popen", lambda command: Child())
    assert launcher.hand_over(["python", "-m", "labsupport"]) == 5


def test_versions_in_the_launcher_are_those_of_the_project(launcher):
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    oldest, newest = launcher.OLDEST, launcher.NEWEST
    assert f'requires-python = ">={oldest[0]}.{oldest[1]},<{newest[0]}.{newest[1] + 1}"' in text


@pytest.mark.skipif(os.name == "nt", reason="Windows keeps no executable bit")
def test_launcher_is_executable_and_keeps_its_first_line():
    assert os.access(ROOT / "lab", os.X_OK)
    assert Path(ROOT / "lab").read_text(encoding="utf-8").startswith("#!/usr/bin/env python3\n")
