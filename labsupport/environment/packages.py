"""Asking pip: what it would install, how much that is, and installing it."""

import concurrent.futures
import contextlib
import json
import os
import re
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from labsupport.environment import machine
from labsupport.environment.causes import NoPackage, explain
from labsupport.environment.watching import Asking, Watch, lines_of

__all__ = ["CPU_INDEX", "Package", "Pip", "Plan"]

CPU_INDEX = "https://download.pytorch.org/whl/cpu"
_CUDA = re.compile(r"^(nvidia-|cuda-|triton$)")
# Bytes on disk for one byte of wheel. 4.3: a complete environment on Linux x86-64 with the CPU build holds 1,325 MB
# made from 311 MB of wheels (2026-11). 2: a cautious estimate for CUDA's packages and torch built for them.
_UNPACKED = 4.3
_UNPACKED_CUDA = 2
_SIZE_TIMEOUT_S = 5


@dataclass(frozen=True)
class Package:
    """A package that pip would install: `wheel_bytes` is None when nobody told; a local one needs no download."""

    name: str
    wheel_bytes: int | None = None
    local: bool = False

    @property
    def is_cuda(self):
        """Is it one of NVIDIA's, or one that only a CUDA build of torch needs?"""
        return bool(_CUDA.match(self.name))


@dataclass(frozen=True)
class Plan:
    """What pip would install."""

    packages: tuple[Package, ...] = ()

    @property
    def brings_cuda(self):
        """Are NVIDIA's packages among them?"""
        return any(package.is_cuda for package in self.packages)

    @property
    def download_bytes(self):
        """Bytes to download, at most: what pip's cache already holds is not known beforehand."""
        return sum(package.wheel_bytes or 0 for package in self.packages if not package.local)

    @property
    def disk_bytes(self):
        """Bytes on disk once installed, estimated from the wheels."""
        libraries = [p for p in self.packages if p.is_cuda or (p.name == "torch" and self.brings_cuda)]
        small = sum(p.wheel_bytes or 0 for p in self.packages if p not in libraries)
        return int(small * _UNPACKED + sum(p.wheel_bytes or 0 for p in libraries) * _UNPACKED_CUDA)

    def has(self, name):
        """Is the package among them?"""
        return any(package.name == name for package in self.packages)

    def with_torch_from(self, other):
        """Return this plan with the other's build of torch and without what only a CUDA build needs."""
        kept = [package for package in self.packages if package.name != "torch" and not package.is_cuda]
        return Plan((*kept, *other.packages))

    def in_words(self):
        """Return for example `112 packages, at most 330 MB to download, about 1.2 GB on disk`."""
        count = len(self.packages)
        packages = f"{count} package{'s' * (count != 1)}"
        if sum(package.wheel_bytes is None for package in self.packages) > count // 4:
            return f"{packages} (their sizes could not be asked)"
        download = f"at most {machine.size(self.download_bytes)}" if self.download_bytes else "nothing"
        return f"{packages}, {download} to download, about {machine.size(self.disk_bytes)} on disk"


class Pip:
    """pip of one environment, with the course's constraints.

    Args:
        python: the environment's Python.
        root: the course's folder, holding constraints.txt.
        progress: where to show what happens.
    """

    def __init__(self, python, root, progress):
        self.python = Path(python)
        self.venv = self.python.parent.parent
        self.constraints = Path(root) / "constraints.txt"
        self.progress = progress
        self.tells_bytes = False

    def renew_itself(self):
        """Install the pip that constraints.txt names: an old one knows no machine-readable progress.

        An index without it is no reason to stop: the pip that came with Python works too, and shows less.
        """
        with contextlib.suppress(NoPackage):
            self._run(["install", "--upgrade", "pip"])
        self.tells_bytes = _numbers(self._run(["--version"])[0].split()[1]) >= (24, 1)

    def plan(self, project):
        """Return the Plan of installing `project` (a path with extras), without installing anything."""
        return self._plan(["--editable", project])

    def plan_cpu_torch(self):
        """Return the Plan of installing torch alone from PyTorch's own index of CPU builds."""
        return self._plan(_CPU_TORCH)

    def install(self, project, plan):
        """Install `project` as an editable package with everything it needs."""
        self._run(["install", "--editable", project], Watch(self.progress, plan, self._site_packages()))

    def install_cpu_torch(self, plan):
        """Install torch alone from PyTorch's own index of CPU builds; what it needs comes with the rest."""
        self._run(["install", *_CPU_TORCH], Watch(self.progress, plan, self._site_packages()))

    def _site_packages(self):
        return next(self.venv.glob("[Ll]ib/**/site-packages"), self.venv)

    def _plan(self, words):
        report = self.venv / "lab-plan.json"
        self._run(["install", *words, "--dry-run", "--report", str(report)], Asking(self.progress))
        entries = json.loads(report.read_text(encoding="utf-8"))["install"]
        report.unlink()
        return _measured([entry for entry in entries if "dir_info" not in entry["download_info"]])  # not the course

    def _run(self, words, watch=None):
        """Run pip and return its lines; raise the LabError that explains a failure."""
        # -I: neither PYTHONPATH nor packages of the user may take part in what is decided here.
        command = [str(self.python), "-I", "-u", "-m", "pip", *words]
        command += ["--constraint", str(self.constraints)] if words[0] == "install" else []
        command += ["--progress-bar", "raw"] if self.tells_bytes and isinstance(watch, Watch) else []
        env = os.environ | {"PIP_NO_INPUT": "1", "PIP_USER": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        lines = []
        with contextlib.closing(lines_of(command, env | {"PIP_NO_COLOR": "1"})) as output:
            for line in output:
                if line is not None and not line.startswith("Progress "):
                    lines.append(line)
                if watch:
                    watch.see(line)
        log = self.venv / "lab-pip.log"
        log.write_text("\n".join(lines), encoding="utf-8")
        if lines.pop() == "exit 0":
            return lines
        raise explain(lines, "pip could not install the course's packages", log)


_CPU_TORCH = ["torch", "--no-deps", "--index-url", CPU_INDEX]


def _measured(entries):
    """Return the Plan of pip's report entries, asking the servers for the sizes (headers only, side by side)."""
    urls = [entry["download_info"]["url"] for entry in entries]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        sizes = list(pool.map(_size_of, urls))
    names = [re.sub(r"[-_.]+", "-", entry["metadata"]["name"]).lower() for entry in entries]
    return Plan(tuple(Package(n, size, url.startswith("file:")) for n, size, url in zip(names, sizes, urls)))


def _size_of(url):
    """Return the bytes of a file, or None when nobody tells."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme == "file":
        with contextlib.suppress(OSError):
            return Path(urllib.request.url2pathname(parts.path)).stat().st_size
        return None
    try:
        request = urllib.request.Request(url.split("#")[0], method="HEAD")
        with urllib.request.urlopen(request, timeout=_SIZE_TIMEOUT_S) as answer:
            return int(answer.headers["Content-Length"])
    except (OSError, TypeError, ValueError):
        return None


def _numbers(version):
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])
