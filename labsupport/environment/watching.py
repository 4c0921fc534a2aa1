"""Running a program and turning what it prints into progress."""

import queue
import re
import subprocess
import threading

from labsupport.environment.machine import size

__all__ = ["Asking", "Watch", "lines_of"]


def lines_of(command, env):
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
    finally:  # Ctrl-C, or an error while showing progress: the program must not go on alone
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class Asking:
    """Counts the packages that pip has looked at while it decides what is needed."""

    def __init__(self, progress):
        self.progress = progress
        self.seen = 0
        self.see("")

    def see(self, line):
        """Take one line of pip's output, or None for half a second of silence."""
        self.seen += bool(line and line.startswith(("Collecting ", "Processing ")))
        count = f": {self.seen} package{'s' * (self.seen > 1)} so far" if self.seen else ""
        self.progress.update(f"  asking pip what is needed{count}", stage="  asking pip what is needed")


class Watch:
    """Turns pip's lines into one line of progress: bytes while downloading, packages while unpacking.

    Args:
        progress: where to show it.
        plan: what pip is going to install.
        site_packages: the folder it installs into, looked at because pip is silent while it unpacks.
    """

    def __init__(self, progress, plan, site_packages):
        self.progress = progress
        self.total_bytes = plan.download_bytes
        self.site_packages = site_packages
        self.before = self._there()
        self.count = len(plan.packages)
        self.name = ""
        self.done_bytes = 0
        self.unpacking = False

    def see(self, line):
        """Take one line of pip's output, or None for half a second of silence."""
        if line is None:
            self._unpacked()
        elif line.startswith("Progress "):  # "Progress 1024 of 4096", for the file being downloaded
            now, _, total = line.split()[1:4]
            self._downloaded(int(now))
            self.done_bytes += int(now) if now == total else 0
        elif match := re.match(r"\s*(?:Downloading|Using cached) (\S+\.(?:whl|tar\.gz)) ", line):
            self.name = match[1].rsplit("/", 1)[-1].split("-")[0]
            self._downloaded(0)
        elif line.startswith("Installing collected packages"):
            self.unpacking = True
            self._unpacked()

    def _downloaded(self, file_bytes):
        of = f" of at most {size(self.total_bytes)}" if self.total_bytes else ""
        text = f"  downloading: {size(self.done_bytes + file_bytes)}{of} ({self.name})"
        self.progress.update(text, stage="  downloading")

    def _unpacked(self):
        if self.unpacking and self.count:
            now = min(max(self._there() - self.before, 0), self.count)
            self.progress.update(f"  unpacking: {now} of {self.count} packages", stage="  unpacking")

    def _there(self):
        return sum(1 for _ in self.site_packages.glob("*.dist-info"))
