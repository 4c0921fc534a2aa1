"""Running jobs in tests, and knowing what is left of them."""

import contextlib
import os
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from labsupport.torchrun import Request, helper, launch, tagging
from labsupport.torchrun.nouns import Record

needs_fork = pytest.mark.skipif(not helper.forks(), reason="ranks are forked on Linux only")
WITHIN_S = 120.0  # a guard against hanging: the machine may be busy, and nothing here takes that long by itself


@dataclass(frozen=True)
class Outcome:
    """A job that has ended, and what its folder held."""

    record: Record
    events: tuple
    files: dict  # relative path -> text

    def out(self, rank=0, attempt=0):
        return self.files[f"attempt-{attempt}/rank-{rank}/out"]

    def err(self, rank=0, attempt=0):
        return self.files[f"attempt-{attempt}/rank-{rank}/err"]

    @property
    def code(self):
        return self.record.code


def run(source, *flags, **more):
    """Run a job to its end and return its `Outcome`."""
    request = Request(source=textwrap.dedent(source).lstrip("\n"), flags=flags or ("--nproc", "2"), **more)
    with launch(request) as job:
        record = job.wait()
        return Outcome(record, job.events(), texts_in(job.folder))


def start(source, *flags, **more):
    return launch(Request(source=textwrap.dedent(source).lstrip("\n"), flags=flags or ("--nproc", "2"), **more))


def texts_in(folder):
    found = {}
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            found[str(file.relative_to(folder))] = file.read_text(encoding="utf-8", errors="replace")
    return found


def until(condition, what="it"):
    """Return the first true value of a condition."""
    ends = time.monotonic() + WITHIN_S
    while not (found := condition()):
        assert time.monotonic() < ends, f"{what} did not happen"
        time.sleep(0.01)
    return found


def said(job, word, ranks):
    """Wait until so many ranks of a job have printed a word, and return their pids in order."""

    def all_said():
        files = list(job.folder.glob("attempt-*/rank-*/out"))
        ended = job.poll().ended
        if sum(word in file.read_text(encoding="utf-8") for file in files) >= ranks:
            return True
        assert not ended, texts_in(job.folder)
        return False

    until(all_said, f"{word} of {ranks} ranks")
    return [rank.pid for rank in job.poll().ranks]


def is_gone(pid):
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z"
    return True


def children_of_helper():
    """Return the pids of everything below this process's helper that a job can have left."""
    from labsupport.probing import ranks_live
    from labsupport.processes import reaping

    ranks_live.close()  # checks of rank exercises keep a process there, and an earlier test may have run some
    return reaping.descendants_of(helper.warm().zygote.pid)


def of_token(token):
    """Return the pids that carry a token, without zombies."""
    return [pid for pid in tagging.tagged(token) if not is_gone(pid)]


def own_environment():
    """Return the environment for a kernel or a script of a test."""
    return dict(os.environ) | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}
