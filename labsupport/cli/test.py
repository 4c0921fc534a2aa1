"""lab test: the project's own tests, through pytest; --bench prints measured speeds instead."""

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from labsupport.errors import LabError
from labsupport.places import ROOT

__all__ = ["add_arguments", "again", "command", "run"]

_FAST = "not browser and not slow"
_MOST_CORES = 8  # a worker with torch and its children take about 2 GB
_MOST_AGAIN = 12  # more failures than these are not chance
_NEVER_AGAIN = "ForgedPass"  # what got through once got through


def add_arguments(parser):
    """Declare --fast, --bench and what is passed on to pytest."""
    parser.add_argument("--fast", action="store_true", help="leave out the browser, notebook runs and other slow tests")
    parser.add_argument("--bench", action="store_true", help="print the measured speeds instead of testing")
    parser.add_argument("pytest", nargs="*", metavar="-- ARGS", help="passed on to pytest, for example: -- -k journal")


def run(args):
    """Return pytest's exit code, or with --bench 1 when a benchmark failed."""
    with tempfile.TemporaryDirectory(prefix="lab-test-", ignore_cleanup_errors=True) as work:
        # Tests never touch the learner's workspace, nor a server's settings that happen to be set here.
        env = {name: value for name, value in os.environ.items() if not name.startswith("JUPYTER")} | {"LAB_WORK": work}
        return _bench(env) if args.bench else _test(args, env, Path(work, "first.xml"))


def command(args):
    """Return the pytest command line for these arguments."""
    from labsupport.environment.machine import cores

    words = [sys.executable, "-m", "pytest", "-q"]
    # Tests of one file share what they set up (a server, a browser), so a file stays together. Many wait for other
    # processes, so there is work for one worker more than cores. Files keep their order: the longest come first.
    if (count := cores()[0]) >= 2:
        words += ["-n", str(min(count, _MOST_CORES) + 1), "--dist", "loadfile", "--no-loadscope-reorder"]
    words += ["-m", _FAST] if args.fast else []
    return words + (args.pytest or ["tests"])


def again(report):
    """Return the names of the tests that a second run may decide; none if there are too many, or one says all.

    Many tests race with processes, browsers and ports of their own, beside tests that do the same. A few failures of
    thousands are therefore asked once more, one after the other with nothing beside them, and are named.

    Args:
        report: path of the first run's JUnit file.
    """
    try:
        cases = ElementTree.parse(report).iter("testcase")
    except (OSError, ElementTree.ParseError):
        return []
    failed = [case for case in cases if any(child.tag in ("failure", "error") for child in case)]
    told = [child.get("message", "") for case in failed for child in case]
    if len(failed) > _MOST_AGAIN or any(_NEVER_AGAIN in message for message in told):
        return []
    return sorted({f"{case.get('classname')}::{case.get('name')}" for case in failed})


def _test(args, env, report):
    words = command(args)
    if args.pytest or "-n" not in words:  # chosen tests, or one by one already
        return subprocess.run(words, cwd=ROOT, env=env).returncode
    code = subprocess.run([*words, f"--junitxml={report}"], cwd=ROOT, env=env).returncode
    if code != 1 or not (names := again(report)):
        return code
    print(f"\nonce more, one by one with nothing beside them, because they failed beside others ({len(names)}):")
    print("\n".join(f"  {name}" for name in names), flush=True)
    words += ["-n", "0", "--last-failed", "--last-failed-no-failures=none"]
    return subprocess.run(words, cwd=ROOT, env=env).returncode


def _bench(env):
    files = sorted((ROOT / "benchmarks").glob("*.py"))
    if not files:
        raise LabError(f"there is no benchmark in {ROOT / 'benchmarks'}")
    failed = 0
    for file in files:
        print(f"== {file.name}", flush=True)
        failed += subprocess.run([sys.executable, file], cwd=ROOT, env=env).returncode != 0
    return 1 if failed else 0
