"""Runs small jobs of real ranks for tests: one process with torch loaded that forks them. Started as a script.

Reads one JSON object per line: {"folder", "ranks", "source", "debug", "limit_s", "serve"} starts a job and answers with
its pids; {"codes": [pids]} answers with exit codes, null while running; {"end": [pids]} ends them. A rank runs the
source with `rank`, `n`, `dist`, `torch` and `folder` defined, writes `done-R` or `failed-R`, and stays until it is
ended, as the ranks of an exercise do; with "leaves" it goes.
"""

import datetime
import json
import linecache
import os
import signal
import sys
import time
from pathlib import Path


def rank_of(job, rank):
    """Be one rank; never returns."""
    import torch
    import torch.distributed as dist

    folder, code = Path(job["folder"]), 0
    try:
        if sys.platform == "linux":
            from labsupport.processes import kernel

            kernel.parent_death_signal(signal.SIGKILL)
        for fd, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(folder / f"{name}-{rank}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), fd)
        os.environ["TORCH_DISTRIBUTED_DEBUG"] = job.get("debug") or "OFF"
        dist.set_debug_level_from_env()
        torch.set_num_threads(1)
        from labsupport.ranks import recorder

        if job.get("serve", True):
            recorder.serve(folder / f"s{rank}")
        linecache.cache["cell.py"] = (1, None, job["source"].splitlines(keepends=True), "cell.py")
        limit = datetime.timedelta(seconds=job.get("limit_s") or 60)
        dist.init_process_group(
            "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=job["ranks"], timeout=limit
        )
        names = {"rank": rank, "n": job["ranks"], "dist": dist, "torch": torch, "folder": folder, "recorder": recorder}
        exec(compile(job["source"], "cell.py", "exec"), names | {"__name__": "__main__"})
        (folder / f"done-{rank}").touch()
    except BaseException as error:
        code = 1
        (folder / f"failed-{rank}").write_text(f"{type(error).__name__}: {error}", encoding="utf-8")
    while not job.get("leaves"):
        time.sleep(60)
    os._exit(code)


def main():
    import importlib

    for name in ("torch.nn.parallel", "torch._dynamo"):  # what DDP imports when first used, once for all jobs
        importlib.import_module(name)
    for line in sys.stdin:
        asked = json.loads(line)
        if "source" in asked:
            pids = []
            for rank in range(asked["ranks"]):
                pid = os.fork()
                if pid == 0:
                    rank_of(asked, rank)
                pids.append(pid)
            answer = pids
        else:
            if "end" in asked:
                for pid in asked["end"]:
                    if pid > 1 and codes.setdefault(pid, None) is None:
                        os.kill(pid, signal.SIGKILL)
            answer = [code_of(pid, "end" in asked) for pid in asked.get("end", asked.get("codes"))]
        print(json.dumps(answer), flush=True)


codes = {}


def code_of(pid, wait):
    if codes.get(pid) is None:
        found, status = os.waitpid(pid, 0 if wait else os.WNOHANG)
        codes[pid] = os.waitstatus_to_exitcode(status) if found else None
    return codes[pid]


if __name__ == "__main__":
    main()
