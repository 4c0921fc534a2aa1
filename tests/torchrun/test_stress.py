"""A small part of `stress`: jobs of all kinds in a row leave no process, no port and no file."""

import subprocess
import sys

import pytest
from engine import needs_fork, own_environment

from labsupport.places import ROOT

pytestmark = [needs_fork, pytest.mark.slow]


def test_jobs_of_all_kinds_leave_nothing():
    command = [sys.executable, "-m", "tests.torchrun.stress", "--n", "0", "--mixed", "20", "--seed", "7"]
    ran = subprocess.run(command, cwd=ROOT, env=own_environment(), capture_output=True, text=True, timeout=900)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "left over: nothing" in ran.stdout
