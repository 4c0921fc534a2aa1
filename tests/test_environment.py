"""What the environment is made from (the lists agree), and what the launcher says about machines and failures."""

import http.server
import io
import re
import threading
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from labsupport import environment
from labsupport.environment import causes, machine, packages
from labsupport.environment.packages import Package, Plan
from labsupport.environment.progress import Progress
from labsupport.environment.watching import Watch
from labsupport.errors import LabError
from labsupport.places import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


# The lists: pyproject.toml, constraints.txt, environment.yml


def pins():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    requirements = [Requirement(line) for line in lines if line and not line.startswith("#")]
    assert len({canonicalize_name(r.name) for r in requirements}) == len(requirements), "a package is pinned twice"
    return {canonicalize_name(r.name): r for r in requirements}


def systems():
    """Yield the marker values of every system and Python the course supports."""
    kinds = (
        ("Linux", "linux", "posix", "x86_64"),
        ("Linux", "linux", "posix", "aarch64"),
        ("Darwin", "darwin", "posix", "arm64"),
        ("Windows", "win32", "nt", "AMD64"),
    )
    for system, platform, os_name, cpu in kinds:
        for minor in range(11, 15):
            yield {
                "platform_system": system, "sys_platform": platform, "os_name": os_name, "platform_machine": cpu,
                "python_version": f"3.{minor}", "python_full_version": f"3.{minor}.9",
                "implementation_name": "cpython", "platform_python_implementation": "CPython",
                "platform_release": "", "platform_version": "", "implementation_version": f"3.{minor}.9",
            }  # fmt: skip


def needed(markers):
    """Return the canonical names of everything the project needs, its extras included, on one system."""
    todo = [Requirement(text) for text in [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["test"]]]
    seen = set()
    while todo:
        requirement = todo.pop()
        key = (canonicalize_name(requirement.name), frozenset(requirement.extras))
        if key in seen:
            continue
        seen.add(key)
        try:
            further = metadata.requires(requirement.name) or []
        except metadata.PackageNotFoundError:
            continue  # belongs to another system; its own needs are not known here
        for child in map(Requirement, further):
            extras = requirement.extras or {""}
            if child.marker is None or any(child.marker.evaluate(markers | {"extra": extra}) for extra in extras):
                todo.append(child)
    return {name for name, _ in seen}


# CUDA's packages are pinned by torch itself, each to one version.
PINNED_BY_TORCH = re.compile(r"^(nvidia-|cuda-|triton$)")


def test_constraints_name_every_package_and_no_other():
    everywhere = set().union(*map(needed, systems()))
    assert {name for name in everywhere if not PINNED_BY_TORCH.match(name)} | {"pip"} == set(pins())


def test_constraints_are_exact_neutral_and_installed_here():
    for name, pin in pins().items():
        spec = str(pin.specifier)
        assert re.fullmatch(r"==[0-9][0-9a-z.]*", spec), f"{name}{spec}: one version, and none of one system's builds"
        assert pin.url is None
        try:
            installed = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
        if name != "pip":
            assert pin.specifier.contains(installed.split("+")[0]), (
                f"{name}: {installed} is installed, {spec} is pinned"
            )
    assert str(pins()["torch"].specifier) == "==2.13.0"


def test_constraints_satisfy_the_project():
    for text in [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["test"]]:
        requirement = Requirement(text)
        version = str(pins()[canonicalize_name(requirement.name)].specifier).removeprefix("==")
        assert requirement.specifier.contains(version), f"{text} excludes the pinned {version}"


def test_conda_environment_is_the_projects():
    conda = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    assert conda["name"] == PROJECT["name"]
    *from_conda, from_pip = conda["dependencies"]
    # conda brings Python within the project's bounds and pip, and nothing whose version could differ from the pinned.
    python, *others = from_conda
    assert python.removeprefix("python") == PROJECT["requires-python"]
    assert others == ["pip"]
    # pip brings the project itself with every group there is, under the same constraints.
    words = [line.split() for line in from_pip["pip"]]
    assert ["--constraint", "constraints.txt"] in words
    assert ["--editable", f".[{','.join(sorted(PROJECT['optional-dependencies']))}]"] in words
    assert len(words) == 2


def test_version_is_said_once():
    import labsupport

    assert labsupport.__version__ == PROJECT["version"]


# The machine

LINUX = {"system": "Linux", "machine": "x86_64", "libc": ("glibc", "2.36"), "bits": 64}
MAC = {"system": "Darwin", "machine": "arm64", "mac": "15.1", "bits": 64}
WINDOWS = {"system": "Windows", "machine": "AMD64", "bits": 64}


@pytest.mark.parametrize("python", [(3, 11), (3, 12), (3, 13), (3, 14)])
@pytest.mark.parametrize("facts", [LINUX, LINUX | {"machine": "aarch64"}, MAC, WINDOWS])
def test_machines_with_a_wheel_of_torch(facts, python):
    assert machine.wheel_problem(python=python, **facts) is None


@pytest.mark.parametrize(
    "facts, why",
    [
        (LINUX | {"python": (3, 10)}, "3.11 to 3.14"),
        (LINUX | {"python": (3, 15)}, "3.11 to 3.14"),
        (LINUX | {"libc": ("", "")}, "musl"),
        (LINUX | {"libc": ("glibc", "2.27")}, "2.28"),
        (LINUX | {"machine": "riscv64"}, "x86_64 and aarch64"),
        (MAC | {"machine": "x86_64"}, "Apple silicon"),
        (MAC | {"mac": "13.6.1"}, "macOS 14"),
        (WINDOWS | {"machine": "ARM64"}, "x86-64"),
        (WINDOWS | {"bits": 32}, "64-bit"),
        ({"system": "FreeBSD", "machine": "amd64", "bits": 64}, "Linux, macOS and Windows"),
    ],
)
def test_machines_without_a_wheel_are_told_why_and_where_to_go(facts, why):
    problem = machine.wheel_problem(**({"python": (3, 12)} | facts))
    assert why in str(problem)
    assert problem.next_step


def test_a_machine_without_a_wheel_stops_before_anything_is_made(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "wheel_problem", lambda: LabError("no package", why="because", next_step="elsewhere"))
    with pytest.raises(LabError, match="no package"):
        environment.prepare(tmp_path, stamp={}, extras=[], torch=None, progress=Progress(io.StringIO()))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("quota, expected", [("max 100000", None), ("150000 100000", 1.5)])
def test_cores_of_a_container(tmp_path, quota, expected):
    (tmp_path / "cpu.max").write_text(quota + "\n", encoding="ascii")
    assert machine._cgroup_cores(tmp_path) == expected


def test_memory_of_a_container(tmp_path):
    everything = machine.memory_bytes(tmp_path)
    assert everything[0] == everything[1]
    (tmp_path / "memory.max").write_text("max\n", encoding="ascii")
    assert machine.memory_bytes(tmp_path) == everything
    (tmp_path / "memory.max").write_text("1000000\n", encoding="ascii")
    assert machine.memory_bytes(tmp_path)[0] == 1_000_000


@pytest.mark.parametrize(
    "count, words", [(0, "0 bytes"), (999, "999 bytes"), (87_400_000, "87 MB"), (3_140_000_000, "3.1 GB")]
)
def test_sizes_in_words(count, words):
    assert machine.size(count) == words


# Which build of torch

USUAL = Plan((Package("numpy", 20), Package("torch", 900), Package("nvidia-cublas", 600), Package("triton", 200)))
SMALL = Plan((Package("torch", 190),))


class FakePip:
    """Stands for pip where a network would be needed: remembers what was asked."""

    def __init__(self, cpu=SMALL):
        self.cpu = cpu
        self.asked = False

    def plan_cpu_torch(self):
        self.asked = True
        if self.cpu is None:
            raise causes.NoPackage("there is no package torch to install")
        return self.cpu


@pytest.mark.parametrize(
    "torch, gpus, plan, answers, takes_cpu, says",
    [
        ("auto", [], USUAL, True, True, "CPU build (no NVIDIA GPU found"),
        ("auto", ["NVIDIA L4"], USUAL, True, False, "CUDA build (NVIDIA L4)"),
        ("auto", [], USUAL, False, False, "cannot be reached"),
        ("cpu", ["NVIDIA L4"], USUAL, True, True, "CPU build (as asked)"),
        ("cuda", [], USUAL, True, False, "CUDA build (as asked)"),
        ("auto", [], SMALL, True, False, ""),
        ("cpu", [], SMALL, True, False, ""),
        ("cuda", [], SMALL, True, False, "only a build without CUDA"),
    ],
)
def test_which_build_of_torch_is_taken(monkeypatch, torch, gpus, plan, answers, takes_cpu, says):
    monkeypatch.setattr(machine, "nvidia_gpus", lambda: gpus)
    monkeypatch.setattr(causes, "answers", lambda address: answers)
    pip, stream = FakePip(), io.StringIO()
    assert environment._cpu_torch(pip, plan, torch, Progress(stream)) == (SMALL if takes_cpu else None)
    assert pip.asked == takes_cpu
    assert says in stream.getvalue()
    assert bool(says) == bool(stream.getvalue())


def test_the_cpu_build_as_asked_but_away_is_an_error(monkeypatch):
    monkeypatch.setattr(causes, "answers", lambda address: True)
    with pytest.raises(LabError, match="--torch cuda"):
        environment._cpu_torch(FakePip(cpu=None), USUAL, "cpu", Progress(io.StringIO()))


def test_a_plan_with_the_cpu_build_has_nothing_of_nvidia():
    plan = USUAL.with_torch_from(SMALL)
    assert [p.name for p in plan.packages] == ["numpy", "torch"]
    assert plan.download_bytes == 210


def test_torch_is_taken_from_its_own_index_alone_and_first(tmp_path, monkeypatch):
    pip = packages.Pip(tmp_path / "bin" / "python", tmp_path, Progress(io.StringIO()))
    commands = []
    monkeypatch.setattr(packages, "lines_of", lambda command, env: commands.append(command) or iter_of("exit 0"))
    pip.install_cpu_torch(SMALL)
    words = commands[0]
    assert words[words.index("--index-url") + 1] == "https://download.pytorch.org/whl/cpu"
    assert "--no-deps" in words
    assert "torch" in words
    assert words[words.index("--constraint") + 1].endswith("constraints.txt")


def iter_of(*lines):
    yield from lines


# What pip would install, and how it is shown


def test_sizes_are_asked_from_the_server_and_the_disk(tmp_path):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self):
            self.send_response(200 if "here" in self.path else 404)
            self.send_header("Content-Length", "2000000")
            self.end_headers()

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_port}"
    local = tmp_path / "a wheel.whl"
    local.write_bytes(b"x" * 1000)
    urls = {"A_b": f"{base}/here.whl#sha256=0", "gone": f"{base}/gone.whl", "disk": local.as_uri()}
    entries = [{"metadata": {"name": name}, "download_info": {"url": url}} for name, url in urls.items()]
    try:
        plan = packages._measured(entries)
    finally:
        server.shutdown()
        server.server_close()
    assert plan.packages == (Package("a-b", 2_000_000), Package("gone"), Package("disk", 1000, True))
    assert plan.download_bytes == 2_000_000
    assert plan.in_words() == "3 packages (their sizes could not be asked)"


def test_plan_in_words():
    assert Plan((Package("a", 10_000_000),)).in_words() == "1 package, at most 10 MB to download, about 43 MB on disk"
    assert (
        Plan((Package("nvidia-x", 10**9, True),)).in_words() == "1 package, nothing to download, about 2.0 GB on disk"
    )


def test_too_small_a_disk_stops_before_the_download(monkeypatch, tmp_path):
    monkeypatch.setattr(machine, "free_bytes", lambda path: 2 * 10**9)
    with pytest.raises(LabError, match=r"2\.0 GB free, about 5\.8 GB needed"):
        environment._check_disk(tmp_path / ".venv", Plan((Package("big", 10**9),)))
    environment._check_disk(tmp_path / ".venv", Plan((Package("small", 10**7),)))


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_renews_its_line_on_a_terminal_and_says_each_stage_once_elsewhere():
    for stream, expected in ((io.StringIO(), "down\nready\n"), (Terminal(), "10 %\r    \r20 %\r    \rready\n")):
        progress = Progress(stream)
        progress.update("10 %", stage="down")
        progress.update("20 %", stage="down")
        progress.line("ready")
        assert stream.getvalue() == expected


def test_watch_counts_bytes_and_packages(tmp_path):
    seen = []

    class Remember:
        def update(self, text, stage):
            seen.append(text.strip())

    (tmp_path / "old.dist-info").mkdir()
    watch = Watch(Remember(), Plan((Package("torch", 3_000_000), Package("numpy", 1_000_000))), tmp_path)
    lines = ["Collecting torch", "  Downloading torch-2.13.0-cp311.whl (3 MB)", "Progress 0 of 3000000"]
    lines += ["Progress 3000000 of 3000000", "  Downloading numpy-2.4.6.whl (1 MB)", "Progress 400000 of 1000000"]
    for line in lines:
        watch.see(line)
    assert seen[-1] == "downloading: 3 MB of at most 4 MB (numpy)"
    assert "(torch)" in seen[0]
    watch.see("Installing collected packages: numpy, torch")
    (tmp_path / "numpy.dist-info").mkdir()
    watch.see(None)
    assert seen[-1] == "unpacking: 1 of 2 packages"


# Failures of pip, as pip words them


@pytest.mark.parametrize(
    "said, happened, next_step",
    [
        (
            "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
            "disk is full",
            "free",
        ),
        ("OSError: [WinError 112] There is not enough space on the disk", "disk is full", "free"),
        (
            "WARNING: Retrying (Retry(total=4, connect=None, read=None, redirect=None, status=None)) after connection "
            "broken by 'NewConnectionError(... [Errno -3] Temporary failure in name resolution')': /simple/pip/\n"
            "ERROR: No matching distribution found for pip==26.3",
            "cannot be reached",
            "check the network",
        ),
        (
            "'ProxyError('Cannot connect to proxy.', OSError('Tunnel connection failed: 407'))'",
            "cannot be reached",
            "PROXY",
        ),
        ("SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] ...", "cannot be trusted", "PIP_CERT"),
        (
            "ERROR: [WinError 5] Access is denied: 'C:\\\\lab\\\\.venv\\\\zmq.pyd'",
            "cannot be replaced",
            "end JupyterLab",
        ),
        ("ERROR: No matching distribution found for torch==2.13.0", "no package torch==2.13.0", "lab doctor"),
        (
            "ERROR: Cannot install a because these package versions have conflicting dependencies.\n\nAdditionally, "
            "some in these conflicts have no matching distributions available for your environment:\n    zarr\n",
            "no package zarr",
            "lab doctor",
        ),
        (
            "ERROR: Cannot install a and b==2 because these package versions have conflicting dependencies.\n",
            "no version fits of a and b==2",
            "pip config list",
        ),
        ("Collecting a\nERROR: something new", "while testing", "lab-pip.log"),
    ],
)
def test_failures_are_explained(monkeypatch, said, happened, next_step):
    monkeypatch.setattr(causes, "answers", lambda address: True)
    error = causes.explain(said.splitlines(), "pip stopped while testing", Path("lab-pip.log"))
    assert happened in error.what
    assert next_step in error.next_step
    assert len(str(error).split()) <= 60


def test_an_index_that_is_silent_is_told_from_one_that_lacks_a_package(monkeypatch):
    asked = []
    monkeypatch.setattr(causes, "answers", lambda address: asked.append(address))
    said = [
        "Looking in indexes: https://example.org/simple, file:///x",
        "ERROR: No matching distribution found for torch",
    ]
    assert "cannot be reached" in causes.explain(said, "pip", None).what
    assert asked == ["https://example.org/simple"]


def test_answers_tells_a_closed_port_from_a_refusal():
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self):
            self.send_error(403)

        def log_message(self, *args):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/"
    assert causes.answers(address)
    server.shutdown()
    server.server_close()
    assert not causes.answers(address)


@pytest.mark.parametrize("family, way", [("debian", "apt install python3."), ("", "python.org")])
def test_a_missing_venv_module_names_the_package(monkeypatch, tmp_path, family, way):
    monkeypatch.setattr(environment.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(environment, "_linux_family", lambda: family)
    with pytest.raises(LabError, match="cannot make environments") as caught:
        environment._create(tmp_path / ".venv", Progress(io.StringIO()))
    assert way in caught.value.next_step
    assert not (tmp_path / ".venv").exists()


def test_a_full_disk_while_making_the_environment(monkeypatch, tmp_path):
    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(environment, "_create", full)
    with pytest.raises(LabError, match="the disk is full"):
        environment.prepare(tmp_path, stamp={}, extras=[], torch=None, progress=Progress(io.StringIO()))


def test_what_was_interrupted_is_told_apart(tmp_path):
    venv = tmp_path / ".venv"
    assert environment._state(venv, {}, None) == "new"
    venv.mkdir()
    assert environment._state(venv, {}, None) == "new"
    (venv / "bin").mkdir()
    assert environment._state(venv, {}, None) == "foreign"
    assert environment._state(venv, {"fingerprint": "x"}, None) == "broken"
    (venv / environment.UNFINISHED).touch()
    assert environment._state(venv, {}, None) == "unfinished"


def test_another_build_of_torch_means_a_new_environment(tmp_path, monkeypatch):
    monkeypatch.setattr(environment, "_runs", lambda venv: True)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    state = [environment._state(tmp_path / ".venv", {"torch": "auto"}, torch) for torch in (None, "auto", "cpu")]
    assert state == ["update", "update", "rebuild"]
