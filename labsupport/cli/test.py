"""lab test: the project's own tests, through pytest; --bench prints measured speeds instead."""

import os
import subprocess
import sys
import tempfile

from labsupport.errors import LabError
from labsupport.places import ROOT

__all__ = ["add_arguments", "command", "run"]

_FAST = "not browser and not slow"
_MOST_CORES = 8  # a worker with torch and its children take about 2 GB


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
        return _bench(env) if args.bench else subprocess.run(command(args), cwd=ROOT, env=env).returncode


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


def _bench(env):
    files = sorted((ROOT / "benchmarks").glob("*.py"))
    if not files:
        raise LabError(f"there is no benchmark in {ROOT / 'benchmarks'}")
    failed = 0
    for file in files:
        print(f"== {file.name}", flush=True)
        failed += subprocess.run([sys.executable, file], cwd=ROOT, env=env).returncode != 0
    return 1 if failed else 0
