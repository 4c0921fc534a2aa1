"""The engine under `%%torchrun` in a real kernel: what a user gets into, from the first cell to a dead kernel."""

import os
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest
from engine import WITHIN_S, needs_fork, of_token, own_environment, until

pytestmark = needs_fork

HEAD = """import os, time
import torch
import torch.distributed as dist
dist.init_process_group()
rank = dist.get_rank()
"""
DDP = """%%torchrun --nproc 4
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group()
model = DistributedDataParallel(torch.nn.Linear(8, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(20):
    optimizer.zero_grad()
    model(torch.randn(16, 8)).square().mean().backward()
    optimizer.step()
print("trained")
"""


class Kernel:
    """A real kernel; `run` returns its last display's text, its errors and what it printed."""

    def __init__(self, folder):
        from jupyter_client.manager import start_new_kernel

        self.manager, self.client = start_new_kernel(cwd=str(folder), env=own_environment())

    def run(self, code):
        shown, errors, printed = [], [], []

        def take(message):
            content, kind = message["content"], message["msg_type"]
            if kind in ("display_data", "update_display_data"):
                shown.append(content["data"].get("text/plain", ""))
            elif kind == "error":
                errors.append((content["ename"], content["evalue"]))
            elif kind == "stream":
                printed.append(content["text"])

        began = time.monotonic()
        self.client.execute_interactive(code, output_hook=take, timeout=2 * WITHIN_S)
        last = shown[-1] if shown else ""
        return SimpleNamespace(
            text=last, all=shown, errors=errors, printed="".join(printed), s=time.monotonic() - began
        )

    def value(self, expression):
        return self.run(f"print({expression})").printed.strip()

    def token(self):
        return self.value("__import__('labsupport.torchrun.helper').torchrun.helper.warm().token")

    def close(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("notebook")


@pytest.fixture(scope="module")
def kernel(folder):
    kernel = Kernel(folder)
    kernel.run("%load_ext labsupport.torchrun")
    yield kernel
    token = kernel.token()
    kernel.close()
    until(lambda: not of_token(token), "the end of everything after a normal shutdown")


@pytest.fixture
def another(folder):
    made = Kernel(folder)
    yield made
    made.close()


def test_the_first_cell_may_come_right_after_loading(another):
    another.run("%load_ext labsupport.torchrun")
    ran = another.run(f"%%torchrun --nproc 2\n{HEAD}x = torch.ones(1)\ndist.all_reduce(x)\nprint(x.item())")
    assert ran.errors == []
    assert "ranks 0, 1: 2.0" in ran.text
    assert any("helper is starting" in text for text in ran.all)


def test_ten_times_four_ranks_print_the_same(kernel):
    program = f"%%torchrun --nproc 4\n{HEAD}x = torch.tensor(float(rank))\ndist.all_reduce(x)\nprint(x.item(), rank)"
    for _ in range(10):
        ran = kernel.run(program)
        assert ran.errors == []
        assert ran.text.splitlines()[1:5] == [f"rank {rank}: 6.0 {rank}" for rank in range(4)]


def test_correct_ddp_cells_succeed(kernel):
    for _ in range(20):
        ran = kernel.run(DDP)
        assert ran.errors == [], ran.text
        assert "ranks 0-3: trained" in ran.text


def test_who_raised_is_named_and_one_error_is_raised(kernel):
    ran = kernel.run(
        f"%%torchrun --nproc 4\n{HEAD}for step in range(9):\n    if rank == 2 and step == 3:\n"
        "        raise ValueError('bad batch')\n    dist.all_reduce(torch.ones(1))"
    )
    ((name, value),) = ran.errors
    assert name == "RanksFailed"
    assert "rank 2" in value and "bad batch" in value and "line 9" in value


def test_a_killed_rank_is_told_as_killed(kernel):
    ran = kernel.run(
        f"%%torchrun --nproc 4\n{HEAD}if rank == 1:\n    os.kill(os.getpid(), 9)\ndist.all_reduce(torch.ones(1))"
    )
    ((_, value),) = ran.errors
    assert "rank 1" in value and "SIGKILL" in value


def test_an_interrupt_leaves_nothing_and_a_kernel_as_before(kernel, tmp_path):
    token = kernel.token()

    def interrupt():
        until(lambda: len(list(tmp_path.iterdir())) == 4, "the start of the ranks")
        time.sleep(1.0)  # rank 0 goes on into its barrier
        kernel.manager.interrupt_kernel()

    threading.Thread(target=interrupt).start()
    here = f"open(f'{tmp_path}/{{rank}}', 'w').close()"
    ran = kernel.run(f"%%torchrun --nproc 4\n{HEAD}{here}\nif rank:\n    time.sleep(1000)\ndist.barrier()")
    assert [name for name, _ in ran.errors] == ["Interrupted"]
    assert "waited in barrier" in ran.text and "ranks 1-3  were at line 9" in ran.text
    assert len(of_token(token)) == 1  # the helper
    threading.Timer(0.5, kernel.manager.interrupt_kernel).start()
    assert kernel.run("time = __import__('time')\ntime.sleep(60)").errors[0][0] == "KeyboardInterrupt"
    assert kernel.value("1 + 1") == "2"
    assert kernel.run(DDP).errors == []


def test_the_interrupt_handler_of_the_kernel_is_its_own(kernel):
    before = kernel.value("__import__('signal').getsignal(__import__('signal').SIGTERM)")
    kernel.run(DDP)
    assert kernel.value("__import__('signal').getsignal(__import__('signal').SIGTERM)") == before


TRAIN = f"""{HEAD}
from torch.nn.parallel import DistributedDataParallel
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(4, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
begin = 0
if os.path.exists(FILE):
    last = torch.load(FILE)
    model.load_state_dict(last["model"])
    optimizer.load_state_dict(last["optimizer"])
    begin = last["step"]
print("from", begin, "on", dist.get_world_size())
for step in range(begin, 20):
    generator = torch.Generator().manual_seed(100 * step + rank)
    optimizer.zero_grad()
    model(torch.randn(8, 4, generator=generator)).square().mean().backward()
    optimizer.step()
    if (step + 1) % 5 == 0:
        if rank == 0:
            state = {{"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step + 1}}
            torch.save(state, FILE)
        dist.barrier()
weight = [w for p in model.module.parameters() for w in p.flatten().tolist()]
"""


def test_a_restart_resumes_and_ends_with_the_same_weights(kernel):
    ran = kernel.run(f"%%torchrun --nproc 4 --return weight\nFILE = 'a.pt'\n{TRAIN}")
    assert ran.errors == [], ran.text
    kernel.run("undisturbed = weight")
    flags = "--nproc 4 --max-restarts 1 --kill rank=2@step=12 --return weight"
    ran = kernel.run(f"%%torchrun {flags}\nFILE = 'b.pt'\n{TRAIN}")
    assert ran.errors == [], ran.text
    assert "1 restart" in ran.text and "from 10 on 4" in ran.text
    # To rounding: for a step after a restart DDP's buckets stand in their first order, and ranks are added in another.
    assert float(kernel.value("max(abs(a - b) for a, b in zip(weight, undisturbed, strict=True))")) < 1e-5
    assert kernel.value("max(map(abs, weight)) > 1e-2") == "True"


def test_two_nodes_and_the_loss_of_one(kernel):
    ran = kernel.run(f"%%torchrun --nnodes 2 --nproc 2\nFILE = 'c.pt'\n{TRAIN}print('node', os.environ['GROUP_RANK'])")
    assert ran.errors == [], ran.text
    assert "4 ranks on 2 nodes" in ran.text and "node 1" in ran.text
    flags = "--nnodes 1:2 --nproc 2 --kill node=1@step=12"
    ran = kernel.run(f"%%torchrun {flags}\nFILE = 'd.pt'\n{TRAIN}")
    assert ran.errors == [], ran.text
    assert "from 10 on 2" in ran.text


SHARDED = f"""{HEAD}
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard

def made():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 24), torch.nn.Linear(24, 4))
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    return model, torch.optim.AdamW(model.parameters(), lr=0.1)

def stepped(model, optimizer):
    optimizer.zero_grad()
    model(torch.ones(4, 8)).square().mean().backward()
    optimizer.step()

model, optimizer = made()
"""


def test_sharded_checkpoints_move_between_numbers_of_ranks(kernel):
    save = """
stepped(model, optimizer)
weights, moments = get_state_dict(model, optimizer)
dcp.save({"model": weights, "optimizer": moments}, checkpoint_id="sharded")
total = sum(p.full_tensor().double().sum().item() for p in model.parameters())
stepped(model, optimizer)
after = sum(p.full_tensor().double().sum().item() for p in model.parameters())
"""
    load = """
stepped(model, optimizer)
weights, moments = get_state_dict(model, optimizer)
state = {"model": weights, "optimizer": moments}
dcp.load(state, checkpoint_id="sharded")
set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
total = sum(p.full_tensor().double().sum().item() for p in model.parameters())
stepped(model, optimizer)
after = sum(p.full_tensor().double().sum().item() for p in model.parameters())
"""
    found = []
    for ranks, part in ((4, save), (2, load), (3, load)):
        ran = kernel.run(f"%%torchrun --nproc {ranks} --return total,after\n{SHARDED}{part}")
        assert ran.errors == [], ran.text
        found.append((kernel.value("total"), kernel.value("after")))
    assert found[0][0] == found[1][0] == found[2][0]
    assert abs(float(found[0][1]) - float(found[1][1])) < 1e-9


def test_when_the_kernel_is_killed_nothing_is_left_and_nobody_else_is_touched(another, tmp_path):
    script = tmp_path / "worker.py"
    script.write_text("import time\ntime.sleep(1000)\n", encoding="utf-8")
    bystander = subprocess.Popen([sys.executable, str(script)])
    try:
        another.run("%load_ext labsupport.torchrun")
        token = another.token()
        marks = tmp_path / "marks"
        marks.mkdir()
        another.client.execute(
            f"%%torchrun --nproc 2\n{HEAD}from torch.utils.data import DataLoader\n"
            f"loader = iter(DataLoader(range(100), num_workers=2))\nnext(loader)\n"
            f"open(f'{marks}/{{rank}}', 'w').close()\ntime.sleep(1000)"
        )
        until(lambda: len(list(marks.iterdir())) == 2, "the start of the loaders")
        assert len(of_token(token)) == 1 + 2 + 2 * 3  # helper; agent and what forks for it; ranks and their workers
        os.kill(another.manager.provisioner.pid, 9)
        until(lambda: not of_token(token), "the end of all processes")
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_restarted_kernel_starts_anew(another):
    another.run("%load_ext labsupport.torchrun")
    token = another.token()
    another.manager.restart_kernel(now=True)
    another.client.wait_for_ready(timeout=WITHIN_S)
    until(lambda: not of_token(token), "the end of the old helper")
    another.run("%load_ext labsupport.torchrun")
    assert another.run(DDP).errors == []
