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
        _put_tests_of_one_exercise_together(items)


def _put_tests_of_one_exercise_together(items):
    """Sort the author contract, which asks many things about the same observations, by exercise: few can be kept."""
    at = [k for k, item in enumerate(items) if item.path == HERE / "test_contract.py"]
    contract = [items[k] for k in at]
    order = {}
    for item in contract:
        order.setdefault(_exercise_of(item), len(order))
    contract.sort(key=lambda item: order[_exercise_of(item)])
    for k, item in zip(at, contract, strict=True):
        items[k] = item


def _exercise_of(item):
    exercise = getattr(item, "callspec", None) and item.callspec.params.get("exercise")
    return exercise.id if exercise else None
