"""Jobs of real ranks for tests, made by `forker.py`: where they stand, how they ended, and their end."""

import json
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from labsupport.places import ROOT
from labsupport.ranks import recorder
from labsupport.ranks.waiting import Standing

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="ranks are forked")
PATIENCE_S = 60.0  # the machine may be busy; nothing here takes that long by itself


class Forker:
    """The process that forks ranks; give it back with `close`."""

    def __init__(self):
        env = dict(os.environ) | {"TORCH_GLOO_LAZY_INIT": "1", "OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"}
        env["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [env.get("PYTHONPATH")])])
        env["GLOO_SOCKET_IFNAME"] = "lo0" if sys.platform == "darwin" else "lo"
        script = Path(__file__).with_name("forker.py")
        self._process = subprocess.Popen(
            [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, text=True
        )

    def ask(self, **question):
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def job(self, folder, ranks, source, **options):
        return RankJob(self, folder, ranks, textwrap.dedent(source).lstrip("\n"), options)

    def close(self):
        self._process.stdin.close()
        self._process.wait(PATIENCE_S)
        self._process.stdout.close()


class RankJob:
    """One job, used with `with`: its ranks have ended afterwards."""

    def __init__(self, forker, folder, ranks, source, options):
        self._forker, self.folder, self.ranks = forker, folder, ranks
        self.pids = forker.ask(folder=str(folder), ranks=ranks, source=source, **options)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._forker.ask(end=self.pids)

    def codes(self):
        return self._forker.ask(codes=self.pids)

    def state(self, rank, codes):
        for state in ("done", "failed"):
            if (self.folder / f"{state}-{rank}").exists():
                return state
        return "running" if codes[rank] is None else "gone"

    def standings(self, ask=recorder.ask):
        """Return {rank: Standing} as a watcher sees them."""
        codes = self.codes()
        return {
            rank: Standing(self.state(rank, codes), ask(self.folder / f"s{rank}") or ()) for rank in range(self.ranks)
        }

    def until(self, condition):
        """Return the first true value of a condition; fails when it never comes."""
        ends = time.monotonic() + PATIENCE_S
        while time.monotonic() < ends:
            if found := condition():
                return found
            time.sleep(0.02)
        raise AssertionError(f"it never came: {self.said()}")

    def all_in(self, *states):
        """Wait until every rank is in one of these states, and return the standings."""
        return self.until(lambda: (s := self.standings()) and all(x.state in states for x in s.values()) and s)

    def said(self):
        """Return what failed, and what was printed."""
        files = [*self.folder.glob("failed-*"), *self.folder.glob("err-*"), *self.folder.glob("out-*")]
        return {file.name: file.read_text(encoding="utf-8", errors="replace") for file in sorted(files)}


@pytest.fixture(scope="module")
def forker():
    made = Forker()
    yield made
    made.close()
