"""The logs shown in lesson 16 are what torchrun prints for such jobs."""

import subprocess
import sys

import pytest

from labsupport.exercises._ddp_diagnosing import LOGS, SIGNS, fault

_TOP = """
import os, signal, time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
dist.init_process_group("gloo")
rank = dist.get_rank()
"""
_JOBS = {
    "log_a": """
model = DDP(torch.nn.Linear(8, 1))
for batch in torch.ones(3 - rank, 4, 8):
    model(batch).mean().backward()
print(f"rank {rank}: epoch done", flush=True)
""",
    "log_b": """
model = DDP(torch.nn.Linear(8, 1))
for step in range(4):
    if step == 2 and rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    model(torch.ones(4, 8)).mean().backward()
""",
    "log_c": """
if rank == 1:
    torch.load("model.pt")
dist.barrier()
""",
    "log_d": """
model = DDP(torch.nn.Linear(8, 1))
torch.nn.Linear(8, 1).load_state_dict(model.state_dict())
""",
    "log_e": """
net = torch.nn.ModuleDict({"a": torch.nn.Linear(8, 1), "b": torch.nn.Linear(8, 1)})
net.forward = lambda x: net["a"](x)
model = DDP(net)
for step in range(3):
    model(torch.ones(4, 8)).mean().backward()
""",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LOGS)
def test_torchrun_prints_what_the_lesson_shows(name, tmp_path):
    (tmp_path / "job.py").write_text(_TOP + _JOBS[name], encoding="utf-8")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "job.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, encoding="utf-8", timeout=300)
    printed = done.stdout + done.stderr
    assert done.returncode != 0
    assert fault(printed) == fault(LOGS[name])
    assert _telling(LOGS[name]) in printed
    if name == "log_a":  # elsewhere a rank that is ended first has no time to complain
        assert "Connection closed by peer" in printed


def _telling(log):
    """Return the part of a log that gives the fault away, as it stands there."""
    return next(sign for sign, _ in SIGNS if sign in log)
