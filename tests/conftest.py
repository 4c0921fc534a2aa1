"""Every test has a workspace that is nobody's, however pytest is started: a learner's `work/` is never written to."""

import os
import signal
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
_WORK = tempfile.TemporaryDirectory(prefix="lab-test-", ignore_cleanup_errors=True)
os.environ["LAB_WORK"] = _WORK.name  # also for the processes that tests start

# Files that take long, as beginnings of their paths below `tests`: begun first, so that no worker is left with one.
_LONG = ("browser/", "torchrun/", "test_contract.py", "grading/", "test_lessons.py", "loaderbench/", "chunklab/")


def pytest_configure():
    """A shell in the background has the interrupt ignored in all it starts, and some tests send one."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items):
    def place(item):
        path = item.path.relative_to(HERE).as_posix()
        return next((k for k, beginning in enumerate(_LONG) if path.startswith(beginning)), len(_LONG))

    if all(HERE in item.path.parents for item in items):
        items.sort(key=place)
