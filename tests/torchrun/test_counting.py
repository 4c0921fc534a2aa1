"""Collectives counted, and bytes sent: the formulas of gloo's algorithms against what TCP counts on real ranks."""

import json
import sys

import pytest
from rank_jobs import forker, needs_fork  # noqa: F401 - a fixture

from labsupport.ranks import recorder
from labsupport.ranks.counting import counted, sent_bytes
from labsupport.ranks.recorder import Call


def _call(op, shape=(6,), **more):
    return Call(number=1, op=op, shapes=(shape,), dtypes=("float32",), members=(0, 1, 2), **more)


def test_calls_are_counted_by_name():
    calls = [_call("all_reduce"), _call("all_reduce"), _call("send", way="dst", peer=1), _call("new_group", group="")]
    assert counted(calls) == {"all_reduce": 2, "send": 1}
    assert counted(calls, pairs=False) == {"all_reduce": 2}


@pytest.mark.parametrize(
    "call, expected",
    [
        (_call("all_reduce"), [32, 32, 32]),  # 24 bytes, two passes of two thirds
        (_call("reduce_scatter_tensor"), [32, 32, 32]),  # gloo reduces all and keeps a part
        (_call("all_gather"), [48, 48, 48]),
        (_call("broadcast", root=1), [0, 48, 0]),
        (_call("scatter", root=2), [0, 0, 48]),
        (_call("gather", root=2), [24, 24, 0]),
        (_call("reduce", root=0), [16, 24, 24]),
        (_call("all_to_all_single"), [16, 16, 16]),
        (_call("barrier", shape=()), [0, 0, 0]),
        (_call("recv", way="src", peer=0), [0, 0, 0]),
        (_call("isend", way="dst", peer=0), [24, 24, 24]),
    ],
)
def test_bytes_by_the_algorithm(call, expected):
    assert [sent_bytes([call], rank, 3) for rank in range(3)] == expected


def test_a_rank_outside_of_a_group_sends_nothing():
    assert sent_bytes([_call("all_reduce")], 3, 4) == 0


MEASURED = """
import json, time
from labsupport.ranks import counting
x = torch.ones(12_000)
def parts():
    return [torch.ones(12_000) for _ in range(n)]
calls = {
    "all_reduce": lambda: dist.all_reduce(x),
    "broadcast": lambda: dist.broadcast(x, 1),
    "reduce": lambda: dist.reduce(x, 1),
    "all_gather": lambda: dist.all_gather(parts(), x),
    "all_gather_into_tensor": lambda: dist.all_gather_into_tensor(torch.ones(12_000 * n), x),
    "reduce_scatter_tensor": lambda: dist.reduce_scatter_tensor(torch.ones(12_000 // n), x),
    "gather": lambda: dist.gather(x, parts() if rank == 1 else None, 1),
    "scatter": lambda: dist.scatter(x, parts() if rank == 1 else None, 1),
    "all_to_all_single": lambda: dist.all_to_all_single(torch.ones(12_000), x),
    "send": lambda: dist.send(x, 1) if rank == 0 else dist.recv(x, 0) if rank == 1 else None,
}
dist.barrier()
def settled():
    # What a call handed over may leave a moment later.
    before, now = None, counting.sent_now()
    while now != before:
        time.sleep(0.05)
        before, now = now, counting.sent_now()
    return now
told = {}
for name, call in calls.items():
    since, before = time.time_ns(), settled()
    call()
    told[name] = (settled() - before, counting.sent_bytes(recorder.here(since)))
    dist.barrier()
(folder / f"told-{rank}").write_text(json.dumps(told))
dist.barrier()
"""


@needs_fork
@pytest.mark.skipif(sys.platform != "linux", reason="Linux counts the bytes of a connection")
@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_tcp_counts_the_same(forker, tmp_path, ranks):  # noqa: F811
    with forker.job(tmp_path, ranks, MEASURED) as job:
        job.all_in("done", "failed")
        assert not list(tmp_path.glob("failed-*")), job.said()
        for rank in range(ranks):
            for name, (measured, expected) in json.loads((tmp_path / f"told-{rank}").read_text()).items():
                assert expected <= measured <= expected + 3000, (name, rank, measured, expected)
        assert counted(recorder.ask(tmp_path / "s0"))["all_reduce"] == 1
