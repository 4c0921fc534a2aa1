"""Ranks in a cell beside torchrun on the same script: start, crash, memory, and what loading the extension costs.

Limits: 4 ranks warm at least 10 times as fast as torchrun, with all_reduce and with DDP; the prompt back 1 s after a
crash; less than 40 MB per rank that no other process shares; loading within 20 ms of the kernel's main thread.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from labsupport.torchrun import Request, helper, launch

ROUNDS, LOADS = 3, 5
FASTER, CRASH_S, PRIVATE_MB, LOAD_MS = 10, 1.0, 40, 20
REDUCE = """
import torch
import torch.distributed as dist
dist.init_process_group()
x = torch.tensor(float(dist.get_rank()))
dist.all_reduce(x)
print(x.item())
dist.destroy_process_group()
"""
# In a function: at module level, torchrun itself ends one such script in four by SIGABRT.
DDP = """
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
def main():
    model = DistributedDataParallel(torch.nn.Linear(64, 64))
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(20):
        optimizer.zero_grad()
        model(torch.randn(16, 64)).square().mean().backward()
        optimizer.step()
dist.init_process_group()
main()
dist.destroy_process_group()
"""
CRASH = """
import torch
import torch.distributed as dist
import time
dist.init_process_group()
dist.all_reduce(torch.ones(1))
if dist.get_rank() == 2:
    print(time.monotonic())
    raise ValueError("bad batch")
dist.all_reduce(torch.ones(1))
"""
LOAD = """
import time
wall, own = time.perf_counter(), time.thread_time()
get_ipython().run_line_magic("load_ext", "labsupport.torchrun")
print((time.perf_counter() - wall) * 1e3, (time.thread_time() - own) * 1e3)
"""


def warm_s(source):
    """Return (seconds from asking for a job to its record, the record)."""
    began = time.perf_counter()
    with launch(Request(source=source, flags=("--nproc", "4"))) as job:
        record = job.wait(every_s=0.005)
    assert record.code == 0, record
    return time.perf_counter() - began, record


def torchrun_s(source):
    """Return the seconds a fresh torchrun takes for the same script."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "train.py")
        script.write_text(source, encoding="utf-8")
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--log-dir", folder]
        command += ["--nproc-per-node", "4", str(script)]
        began = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        return time.perf_counter() - began


def crash_s():
    """Return the seconds from a rank's error to the record of the job."""
    with launch(Request(source=CRASH, flags=("--nproc", "4"))) as job:
        job.wait(every_s=0.005)
        ended = time.monotonic()
        return ended - float((job.folder / "attempt-0" / "rank-2" / "out").read_text(encoding="utf-8"))


def load_ms():
    """Return milliseconds that loading the extension takes in a real kernel: (wall, the main thread's own)."""
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel()
    try:
        printed = []
        client.execute_interactive(
            LOAD, output_hook=lambda message: printed.append(message["content"].get("text", "")), timeout=120
        )
        return tuple(float(text) for text in "".join(printed).split())
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def main():
    """Print what was measured; return 1 when a limit is not kept."""
    began = time.perf_counter()
    helper.warm()
    print(f"the helper, once per notebook and in the background: {time.perf_counter() - began:.1f} s")
    kept = []
    for name, source in (("all_reduce", REDUCE), ("20 steps of DDP", DDP)):
        # In turns: whatever else the machine does meanwhile falls on both.
        pairs = [(warm_s(source), torchrun_s(source)) for _ in range(ROUNDS)]
        ours = statistics.median(warm[0] for warm, _ in pairs)
        theirs = statistics.median(cold for _, cold in pairs)
        peak_mb = max(rank.peak_bytes for warm, _ in pairs for rank in warm[1].ranks) / 1e6
        print(f"{name}, 4 ranks: {ours:.2f} s warm, {theirs:.2f} s torchrun: {theirs / ours:.0f} times as fast")
        print(f"  memory that no other process shares, at most: {peak_mb:.0f} MB per rank")
        kept += [theirs / ours >= FASTER, peak_mb < PRIVATE_MB]
    crash = statistics.median(crash_s() for _ in range(ROUNDS))
    print(f"from a rank's error to the prompt: {crash:.2f} s")
    wall, own = (statistics.median(times) for times in zip(*(load_ms() for _ in range(LOADS))))
    print(f"loading the extension: {wall:.1f} ms, {own:.1f} ms of them the main thread's own")
    kept += [crash <= CRASH_S, own < LOAD_MS]
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
