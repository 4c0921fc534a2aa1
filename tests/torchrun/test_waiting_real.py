"""Real ranks that are stuck for ever are found; slow right programs are never given up."""

import random
import time

import pytest
from rank_jobs import forker, needs_fork  # noqa: F401 - a fixture

from labsupport.ranks.waiting import Watch, first_difference, unnoticed


def _watched(job):
    """Return the first certain stall, as a watcher finds it."""
    watch = Watch()
    return job.until(lambda: (s := watch.look(job.standings())) and s.certain and s)


STUCK = {
    "one rank skips a call and ends": (
        "dist.barrier()\nif rank != 2:\n    dist.all_reduce(torch.ones(7))",
        "rank 2 has not called collective 2 (all_reduce [7]); ranks 0, 1 wait in it at line 3; rank 2 has ended",
    ),
    "different operations": (
        "dist.all_reduce(torch.ones(4)) if rank else dist.broadcast(torch.ones(4), 0)",
        "collective 1 has different operations: rank 0 called broadcast [4]; ranks 1, 2 called all_reduce [4]",
    ),
    "swapped order": (
        "calls = [lambda: dist.barrier(), lambda: dist.all_gather_object([None] * n, 1)]\n"
        "for call in calls if rank else calls[::-1]:\n    call()",
        "collective 1 has different operations: rank 0 called all_gather_object; ranks 1, 2 called barrier",
    ),
    "everybody sends": (
        "dist.send(torch.ones(2), (rank + 1) % n)",
        "ranks 0 to 1 to 2 to 0: all send and none receives: a send waits until its receiver is there "
        "(ranks 0, 1, 2 in send at line 1)",
    ),
    "everybody receives": (
        "dist.recv(torch.ones(2), (rank - 1) % n)",
        "all wait to receive and none has sent (ranks 0, 1, 2 in recv at line 1)",
    ),
    "a receive that is waited for": (
        "work = dist.irecv(torch.ones(2), (rank + 1) % n)\nwork.wait()",
        "all wait to receive and none has sent (ranks 0, 1, 2 in irecv at line 1)",
    ),
    "a tag": (
        "if rank == 0:\n    dist.send(torch.ones(2), 1, tag=1)\nif rank == 1:\n    dist.recv(torch.ones(2), 0, tag=2)",
        "rank 0 waits in send [2] to rank 1, tag 1 at line 2 for rank 1; "
        "rank 1 waits in recv [2] from rank 0, tag 2 at line 4 for rank 0",
    ),
    "barrier on one rank": (
        "if rank == 0:\n    dist.barrier()",
        "ranks 1, 2 have not called collective 1 (barrier); rank 0 waits in it at line 2; ranks 1, 2 have ended",
    ),
    "groups that cross": (
        "a, b = dist.new_group([0, 1]), dist.new_group([0, 1])\n"
        "if rank < 2:\n    for group in (a, b) if rank else (b, a):\n        dist.barrier(group)",
        "rank 0 waits in collective 1 (barrier) of the group of ranks 0, 1 at line 4 for rank 1",
    ),
    "uneven batches with DDP": (
        "model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))\n"
        "for step in range(3 if rank else 2):\n    model(torch.ones(2, 4)).sum().backward()",
        "rank 0 has not called",
    ),
}


# With DETAIL torch raises at once for what does not fit together, and DDP ends by SIGSEGV (torch 2.13).
NOT_IN_DETAIL = ("different operations", "swapped order", "uneven batches with DDP")


@needs_fork
@pytest.mark.parametrize(
    "name, debug", [(n, d) for n in STUCK for d in ("OFF", "DETAIL") if d == "OFF" or n not in NOT_IN_DETAIL]
)
def test_ranks_that_are_stuck_for_ever_are_found(forker, tmp_path, name, debug):  # noqa: F811
    source, sentence = STUCK[name]
    with forker.job(tmp_path, 3, source, debug=debug) as job:
        stall = _watched(job)
        assert sentence in stall.sentence, stall


SLOW = """
import random, time
moment = random.Random({seed} * 10 + rank)
group = dist.new_group([0, 1])
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 1))
for step in range(12):
    time.sleep(moment.random() * 0.15)
    which = (step * 7 + {seed}) % 8
    if which == 0:
        dist.all_reduce(torch.ones(3))
    elif which == 1:
        dist.broadcast(torch.ones(300_000), src=step % n)
    elif which == 2:
        work = dist.all_reduce(torch.ones(5), async_op=True)
        time.sleep(moment.random() * 0.1)
        work.wait()
    elif which == 3:
        right, left = (rank + 1) % n, (rank - 1) % n
        works = [dist.isend(torch.ones(4), right), dist.irecv(torch.ones(4), left)]
        time.sleep(moment.random() * 0.1)
        [work.wait() for work in works]
    elif which == 4 and rank < 2:
        dist.all_reduce(torch.ones(2), group=group)
    elif which == 5:
        model(torch.ones(1, 3)).sum().backward()
    elif which == 6:
        dist.all_gather_object([None] * n, "x" * 1000)
    elif which == 7:
        if rank == 0:
            dist.send(torch.ones(2), 2)
        if rank == 2:
            dist.recv(torch.ones(2))
if rank == 0:
    dist.send(torch.ones(1), 1, tag=9)
if rank == 1:
    time.sleep(0.3)
    dist.recv(torch.ones(1), 0, tag=9)
"""


@needs_fork
@pytest.mark.parametrize("seed", range(4))
def test_a_right_program_that_is_slow_is_never_given_up(forker, tmp_path, seed):  # noqa: F811
    watch, looks, pause = Watch(), 0, random.Random(seed)
    with forker.job(tmp_path, 3, SLOW.format(seed=seed)) as job:
        while True:
            standings = job.standings()
            stall = watch.look(standings)
            assert stall is None or not stall.certain, (stall, standings)
            looks += 1
            if all(standing.state != "running" for standing in standings.values()):
                break
            time.sleep(pause.random() * 0.02)
        assert not list(tmp_path.glob("failed-*")), job.said()
    assert looks > 10


@needs_fork
def test_a_rank_whose_other_thread_may_come_is_not_given_up(forker, tmp_path):  # noqa: F811
    source = """
    import threading, time
    def later():
        while not (folder / "go").exists():
            time.sleep(0.01)
        dist.send(torch.ones(1), 1 - rank, tag=5)
    threading.Thread(target=later).start()
    dist.recv(torch.ones(1), 1 - rank, tag=5)
    """
    with forker.job(tmp_path, 2, source) as job:
        job.until(lambda: all(s.calls and s.calls[-1].waiting for s in job.standings().values()))
        watch = Watch()
        for _ in range(5):
            assert not watch.look(job.standings()).certain
        (tmp_path / "go").touch()
        job.all_in("done")


@needs_fork
def test_a_program_written_for_a_short_limit_is_left_alone(forker, tmp_path):  # noqa: F811
    source = """
    from datetime import timedelta
    dist.barrier()
    if rank == 0:
        try:
            dist.monitored_barrier(timeout=timedelta(seconds=2))
        except RuntimeError as error:
            print(error)
    """
    with forker.job(tmp_path, 2, source) as job:
        watch = Watch()
        now = job.standings()
        while any(standing.state == "running" for standing in now.values()):
            stall = watch.look(now)
            assert stall is None or not stall.certain
            now = job.standings()
        assert "Rank 1 failed to pass monitoredBarrier" in (tmp_path / "out-0").read_text()


@needs_fork
def test_garbage_that_gloo_returns_without_a_word_is_seen(forker, tmp_path):  # noqa: F811
    source = "dist.all_reduce(torch.ones(4, dtype=torch.int32 if rank else torch.float32))"
    with forker.job(tmp_path, 2, source) as job:
        assert "different dtypes" in unnoticed(job.all_in("done")).sentence


@needs_fork
def test_a_crash_in_c_is_explained_by_what_both_called(forker, tmp_path):  # noqa: F811
    source = "dist.barrier()\ndist.all_reduce(torch.ones(1 if rank else 100_000))"
    with forker.job(tmp_path, 2, source) as job:
        job.until(lambda: -6 in job.codes())
        stall = first_difference(job.standings())
        assert stall.rows == (
            ("0", "all_reduce", "[100000]", "float32", f"line 2: `{source.splitlines()[1]}`"),
            ("1", "all_reduce", "[1]", "float32", f"line 2: `{source.splitlines()[1]}`"),
        )
