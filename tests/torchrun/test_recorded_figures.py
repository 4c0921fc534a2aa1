"""What a real job leaves in its record is drawn: every call of every rank, in rows, with who came last."""

import json
import sys

import pytest

from labsupport.figures import collective

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="ranks are forked")

SOURCE = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
x = torch.arange(4.0) + rank
dist.all_reduce(x)
dist.send(x, 1) if rank == 0 else dist.recv(x, 0)
pair = dist.new_group([0, 1])
dist.broadcast(x, 0, group=pair)
dist.barrier()
dist.destroy_process_group()
"""


def test_the_record_of_a_job_is_drawn():
    from labsupport.torchrun import Request, launch

    with launch(Request(source=SOURCE, flags=("--nproc-per-node", "2"))) as job:
        record = job.wait()
    assert record.code == 0
    figure = collective.draw(record)
    titles = [frame["title"] for frame in figure.film["frames"]]
    assert titles[1] == "all_reduce 1" and titles[-1] == "end: nobody waits"
    assert titles[2] == "rank 0 send → 1, rank 1 recv ← 0"
    assert titles[3] == "broadcast 1" and titles[4].startswith("barrier ")
    assert figure.film["frames"][1]["code"] == "dist.all_reduce(x)  # line 6"
    assert "recorded on Linux" in figure.alt and "8 calls of 2 ranks in 4 rows. Nobody waits at the end." in figure.alt
    json.dumps(figure.film)
