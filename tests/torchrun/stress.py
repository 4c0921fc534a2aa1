"""Many jobs in a row, outside the test run: `python -m tests.torchrun.stress --n 200 --mixed 100`.

First `--n` correct DDP cells at module level, every one of which must succeed; then `--mixed` jobs of all kinds:
correct, failing, killed, deadlocked and interrupted, restarted, on two nodes, with loader workers, with the helper
killed under them. Afterwards nothing may be left: no process, no listening port, no file.
"""

import argparse
import contextlib
import itertools
import os
import random
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from labsupport.torchrun import Request, helper, launch, tagging

HEAD = """
import os, signal, time
import torch
import torch.distributed as dist
dist.init_process_group()
rank = dist.get_rank()
print("port", os.environ["MASTER_PORT"])
"""
DDP = f"""{HEAD}
from torch.nn.parallel import DistributedDataParallel
model = DistributedDataParallel(torch.nn.Linear(8, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
for step in range(20):
    optimizer.zero_grad()
    model(torch.randn(16, 8)).square().mean().backward()
    optimizer.step()
"""
KINDS = {
    # name: (program, flags, expected: "ok", "failed" or "interrupt", more of the request)
    "reduce": (f"{HEAD}dist.all_reduce(torch.ones(4))", ("--nproc", "4"), "ok", {}),
    "ddp": (DDP, ("--nproc", "2"), "ok", {}),
    "raises": (f"{HEAD}assert rank != 1\ndist.barrier()", ("--nproc", "4"), "failed", {}),
    "killed": (f"{HEAD}rank or os.kill(os.getpid(), 9)\ndist.barrier()", ("--nproc", "3"), "failed", {}),
    "aborts": (f"{HEAD}rank or os.abort()\ndist.barrier()", ("--nproc", "2"), "failed", {}),
    "deadlock": (f"{HEAD}rank or time.sleep(1000)\ndist.barrier()", ("--nproc", "4"), "interrupt", {}),
    "stubborn": (
        f"{HEAD}signal.signal(signal.SIGTERM, signal.SIG_IGN)\nrank or os._exit(3)\ntime.sleep(1000)",
        ("--nproc", "2"),
        "failed",
        {},
    ),
    "loader": (
        f"{HEAD}from torch.utils.data import DataLoader\nit = iter(DataLoader(range(9), num_workers=2))\n"
        "next(it)\ndist.barrier()\ntime.sleep(1000)",
        ("--nproc", "2"),
        "interrupt",
        {},
    ),
    "restart": (DDP, ("--nproc", "2", "--max-restarts", "1"), "ok", {"kills": ("rank=1@step=5",)}),
    "nodes": (DDP, ("--nproc", "1", "--nnodes", "2"), "ok", {}),
    "helper": (f"{HEAD}dist.barrier()\ntime.sleep(1000)", ("--nproc", "2"), "helper", {}),
}


def one(kind):
    """Run one job of a kind; returns (whether it went as expected, the ports it used, seconds)."""
    program, flags, expected, more = KINDS[kind]
    began = time.monotonic()
    with launch(Request(source=program, flags=flags, **more)) as job:
        if expected in ("interrupt", "helper"):
            _until_all_said(job, int(flags[1]))
        if expected == "helper":
            os.kill(helper.warm().zygote.pid, signal.SIGKILL)
        record = job.interrupt() if expected == "interrupt" else job.wait()
        ports = set()
        for file in job.folder.rglob("out"):
            words = file.read_text(encoding="utf-8").split()
            ports |= {int(port) for word, port in itertools.pairwise(words) if word == "port"}
    took_s = time.monotonic() - began
    fits = {"ok": record.code == 0, "failed": record.code > 0 and not record.interrupted}
    return fits.get(expected, record.code != 0), ports, took_s


def _until_all_said(job, ranks):
    while sum("port" in file.read_text(encoding="utf-8") for file in job.folder.rglob("out")) < ranks:
        if job.poll().ended:
            return
        time.sleep(0.01)


def correct_cells(count, mode):
    """Run correct DDP cells; returns how many failed."""
    failed, times = 0, []
    for number in range(count):
        with launch(Request(source=DDP, flags=("--nproc", "4"), mode=mode)) as job:
            record = job.wait()
            bad = record.code != 0 or any(rank.code for rank in record.ranks)
            if bad:
                failed += 1
                print(f"cell {number}: {record.code}, {[rank.code for rank in record.ranks]}")
                for file in (*job.folder.rglob("err"), job.folder / "agent.log"):
                    print(file.read_text(encoding="utf-8"))
        times.append(record.wall_s)
    if times:
        print(
            f"{count} correct DDP cells on 4 ranks, {mode}: {failed} failed, median {sorted(times)[count // 2]:.2f} s"
        )
    return failed


def mixed(count, seed):
    """Run jobs of all kinds; returns how many did not end as expected, and the ports used."""
    draw, wrong, ports, seen = random.Random(seed), 0, set(), Counter()
    for _ in range(count):
        kind = draw.choice(list(KINDS))
        fits, used, took_s = one(kind)
        seen[kind] += 1
        ports |= used
        if not fits:
            wrong += 1
            print(f"{kind}: not as expected, after {took_s:.2f} s")
    print(
        f"{count} mixed jobs ({', '.join(f'{n} {kind}' for kind, n in sorted(seen.items()))}): {wrong} not as expected"
    )
    return wrong, ports


def left_over(tokens, ports, before):
    """Return what is left: processes, ports that answer, files."""
    found = [f"process {pid}" for token in tokens for pid in tagging.tagged(token)]
    for port in ports:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=0.2):
            found.append(f"port {port}")
    own = (f"labrun-{os.getpid()}-", "torchrun-kept-")
    new = set(Path(tempfile.gettempdir()).iterdir()) - before
    return found + [f"file {path}" for path in new if path.name.startswith(own)]


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=200, help="correct DDP cells")
    parser.add_argument("--mixed", type=int, default=100, help="jobs of all kinds")
    parser.add_argument("--cold", type=int, default=0, help="correct DDP cells by a fresh torchrun")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(words)
    before = set(Path(tempfile.gettempdir()).iterdir())
    tokens = set()
    new_token = helper.new_token
    helper.new_token = lambda: (token := new_token(), tokens.add(token))[0]
    failed = correct_cells(given.n, "warm") + correct_cells(given.cold, "cold")
    wrong, ports = mixed(given.mixed, given.seed)
    helper._at_exit()
    left = left_over(tokens, ports, before)
    print(f"left over: {', '.join(left) or 'nothing'} (looked for {len(tokens)} helpers and {len(ports)} ports)")
    return 1 if failed or wrong or left else 0


if __name__ == "__main__":
    raise SystemExit(main())
