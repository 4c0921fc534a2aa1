"""Asking pip: what it would install, how much that is, and installing it with progress and clear errors."""

import concurrent.futures
import contextlib
import json
import os
import queue
import re
import subprocess
import threading
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from labsupport.environment import machine
from labsupport.errors import LabError

__all__ = ["CPU_INDEX", "Pip", "Plan", "explain", "no_room"]

CPU_INDEX = "https://download.pytorch.org/whl/cpu"
_CUDA = re.compile(r"^(nvidia-|cuda-|triton$)")
# Bytes on disk for one byte of wheel. 4.3: a complete environment on Linux x86-64 with the CPU build holds 1,325 MB
# made from 311 MB of wheels (2026-11). 2: a cautious estimate for CUDA's packages, shared libraries for the most part.
_UNPACKED = 4.3
_UNPACKED_CUDA = 2
_SIZE_TIMEOUT_S = 5


@dataclass(frozen=True)
class Plan:
    """What pip would install: names, bytes to download and bytes on disk; `unknown` files told no size."""

    names: tuple[str, ...] = ()
    download_bytes: int = 0
    disk_bytes: int = 0
    unknown: int = 0

    @property
    def count(self):
        """How many packages."""
        return len(self.names)

    @property
    def brings_cuda(self):
        """Are NVIDIA's packages among them?"""
        return any(_CUDA.match(name) for name in self.names)

    def has(self, name):
        """Is the package among them?"""
        return name in self.names

    def in_words(self):
        """Return for example `112 packages, at most 330 MB to download, about 1.2 GB on disk`."""
        packages = f"{self.count} package{'s' * (self.count != 1)}"
        if self.unknown > self.count // 4:
            return f"{packages} (their sizes could not be asked)"
        download = machine.size(self.download_bytes) if self.download_bytes else "nothing"
        return f"{packages}, at most {download} to download, about {machine.size(self.disk_bytes)} on disk"


class Pip:
    """pip of one environment, with the course's constraints.

    Args:
        python: the environment's Python.
        root: the course's folder, holding constraints.txt.
        progress: where to show what happens.
    """

    def __init__(self, python, root, progress):
        self.python = Path(python)
        self.constraints = Path(root) / "constraints.txt"
        self.progress = progress

    def renew_itself(self):
        """Install the pip that constraints.txt names: an old one knows no machine-readable progress."""
        self._run(["install", "--upgrade", "pip"])

    def plan(self, project, index=None):
        """Return the Plan of installing `project` (a path with extras), without installing anything."""
        report = self.python.parent.parent / "lab-plan.json"
        self._run([*self._install(project, index), "--dry-run", "--report", str(report)])
        entries = json.loads(report.read_text(encoding="utf-8"))["install"]
        report.unlink()
        files = [entry for entry in entries if "dir_info" not in entry["download_info"]]  # leaves out the course itself
        return _measured(files)

    def install(self, project, index=None, plan=None):
        """Install `project` as an editable package with everything it needs."""
        self._run(self._install(project, index), watch=_Watch(self.progress, plan or Plan(), self._packages()))

    def _packages(self):
        return next(self.python.parent.parent.glob("[Ll]ib/**/site-packages"), self.python.parent)

    def _install(self, project, index):
        return ["install", "--editable", project] + (["--extra-index-url", index] if index else [])

    def _run(self, words, watch=None):
        """Run pip and return its lines; raise the LabError that explains a failure."""
        # -I: neither PYTHONPATH nor packages of the user may take part in what is decided here.
        command = [str(self.python), "-I", "-u", "-m", "pip", *words, "--constraint", str(self.constraints)]
        command += ["--progress-bar", "raw"] if watch else []
        env = os.environ | {"PIP_NO_INPUT": "1", "PIP_USER": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        env |= {"PYTHONIOENCODING": "utf-8", "PIP_NO_COLOR": "1"}
        log = self.python.parent.parent / "lab-pip.log"
        lines = []
        for line in _lines_of(command, env):
            if line is not None and not line.startswith("Progress "):
                lines.append(line)
            if watch:
                watch.see(line)
        log.write_text("\n".join(lines), encoding="utf-8")
        if lines and lines.pop() == "exit 0":
            return lines
        raise explain(lines, "pip could not install the course's packages", log)


def _lines_of(command, env):
    """Yield the lines a program prints, None whenever half a second passed without one, and last `exit CODE`."""
    process = subprocess.Popen(
        command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, encoding="utf-8", errors="replace",
    )  # fmt: skip
    lines = queue.SimpleQueue()
    end = object()

    def read():
        for line in process.stdout:
            lines.put(line.rstrip())
        lines.put(end)

    threading.Thread(target=read, daemon=True).start()
    try:
        while True:
            try:
                line = lines.get(timeout=0.5)
            except queue.Empty:
                line = None
            if line is end:
                break
            yield line
        yield f"exit {process.wait()}"
    finally:  # Ctrl-C, or an error while showing progress: pip must not go on alone
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class _Watch:
    """Turns pip's lines into one line of progress: bytes while downloading, packages while unpacking."""

    def __init__(self, progress, plan, site_packages):
        self.progress = progress
        self.plan = plan
        self.site_packages = site_packages
        self.name = ""
        self.done_bytes = 0
        self.file_bytes = 0
        self.unpacking = False

    def see(self, line):
        """Take one line of pip's output, or None for half a second of silence."""
        if line is None:
            self._unpacked()
        elif line.startswith("Progress "):
            now, _, total = line.split()[1:4]
            self.file_bytes = int(now)
            if now == total:
                self.done_bytes, self.file_bytes = self.done_bytes + int(now), 0
            self._downloaded()
        elif match := re.match(r"\s*(?:Downloading|Using cached) (\S+?)(?:\.metadata)? ", line):
            self.name = match[1].rsplit("/", 1)[-1].split("-")[0]
            self._downloaded()
        elif line.startswith("Installing collected packages"):
            self.unpacking = True
            self._unpacked()

    def _downloaded(self):
        done, total = self.done_bytes + self.file_bytes, self.plan.download_bytes
        of = f" of at most {machine.size(total)}" if total else ""
        self.progress.update(f"  downloading: {machine.size(done)}{of} ({self.name})", stage="  downloading")

    def _unpacked(self):
        if self.unpacking and self.plan.count:
            there = sum(1 for _ in self.site_packages.glob("*.dist-info"))
            now = min(there, self.plan.count)
            self.progress.update(f"  unpacking: {now} of {self.plan.count} packages", stage="  unpacking")


def _measured(entries):
    """Return the Plan of pip's report entries, asking the servers for the sizes (headers only, side by side)."""
    names = tuple(re.sub(r"[-_.]+", "-", entry["metadata"]["name"]).lower() for entry in entries)
    urls = [entry["download_info"]["url"] for entry in entries]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        sizes = list(pool.map(_size_of, urls))
    local = sum(size or 0 for size, url in zip(sizes, urls) if url.startswith("file:"))
    known = sum(size or 0 for size in sizes)
    return Plan(
        names=names,
        download_bytes=known - local,
        disk_bytes=int(sum((size or 0) * ratio for size, ratio in zip(sizes, map(_ratio, names)))),
        unknown=sizes.count(None),
    )


def _ratio(name):
    return _UNPACKED_CUDA if _CUDA.match(name) else _UNPACKED


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


_NETWORK = re.compile(
    r"NewConnectionError|ConnectTimeout|ReadTimeout|Max retries exceeded|Name or service not known|getaddrinfo failed"
    r"|Temporary failure in name resolution|Network is unreachable|Connection refused|Connection reset|No route to host"
    r"|Failed to establish a new connection|nodename nor servname|ConnectionError|Remote end closed|IncompleteRead",
)
_CERTIFICATE = re.compile(r"CERTIFICATE_VERIFY_FAILED|SSLError|SSLCertVerificationError")
_PROXY = re.compile(r"ProxyError|Tunnel connection failed|407 Proxy")
_DISK = re.compile(r"No space left on device|Errno 28\b|not enough space on the disk|WinError 112|Disk quota exceeded")
_IN_USE = re.compile(r"WinError (?:5|32)\b|being used by another process")
_NO_VERSION = re.compile(
    r"No matching distribution found for (\S+)|Could not find a version that satisfies .*?(\S+==\S+)"
)


def explain(lines, what, log):
    """Return the LabError for a failed run of pip (or of venv), from what it printed.

    Args:
        lines: what the program printed, in order.
        what: what was being done, for causes that are not known.
        log: the file that keeps everything it printed, or None.
    """
    text = "\n".join(lines)
    again = "then repeat the command: it goes on with what is already downloaded"
    if _DISK.search(text):
        return no_room(log)
    if _PROXY.search(text):
        why = "the proxy named in this machine's settings refuses or needs a password"
        return LabError("the package index cannot be reached", why=why, next_step=f"check HTTPS_PROXY, {again}")
    if _CERTIFICATE.search(text):
        why = "its certificate is not trusted here, as happens behind a company's network filter"
        step = "set PIP_CERT to your company's certificate file, then repeat the command"
        return LabError("the package index cannot be trusted", why=why, next_step=step)
    if _NETWORK.search(text):
        why = "there is no connection, or it was lost on the way"
        return LabError("the package index cannot be reached", why=why, next_step=f"check the network, {again}")
    if _IN_USE.search(text):
        why = "a program still uses the environment in .venv"
        return LabError("packages cannot be replaced", why=why, next_step=f"end JupyterLab and its kernels, {again}")
    if match := _NO_VERSION.search(text):
        why = "the index that pip is set to use has no such package for this Python and system"
        step = "./lab doctor shows what this machine lacks; pip config list shows the index"
        return LabError(f"there is no package {match[1] or match[2]} to install", why=why, next_step=step)
    said = [line for line in lines if line.lower().startswith("error")] or [line for line in lines if line.strip()]
    where = f"read {log}, {again}" if log else "repeat the command"
    return LabError(what, why=" / ".join(said[-2:])[:300] or "it said nothing", next_step=where)


def no_room(path):
    """Return the LabError for a full disk."""
    free = machine.size(machine.free_bytes(path or Path.cwd()))
    return LabError(
        "the disk is full",
        why=f"{free} are free where the environment is made (or in the folder for temporary files)",
        next_step="free some space, then repeat the command: it goes on with what is already downloaded",
    )
