"""What a rank's calls look like from inside and outside: measured on real ranks of gloo."""

import json

import pytest
from rank_jobs import forker, needs_fork  # noqa: F401 - a fixture

from labsupport.ranks import ledger, recorder
from labsupport.ranks.joining import calls_of

pytestmark = needs_fork

EVERYTHING = """
x = torch.ones(4)
dist.all_reduce(x)                                                         # 2
dist.broadcast(torch.ones(3), src=1)
dist.reduce(x, 0, op=dist.ReduceOp.MAX)
dist.all_gather([torch.ones(4) for _ in range(n)], x)
dist.all_gather_into_tensor(torch.ones(8), x)
dist.reduce_scatter_tensor(torch.ones(2), x)
dist.reduce_scatter(x, [torch.ones(4), torch.ones(4)])                     # 8: two collectives on the wire
dist.gather(x, [torch.ones(4), torch.ones(4)] if rank == 0 else None, 0)
dist.scatter(x, [torch.ones(4), torch.ones(4)] if rank == 0 else None, 0)
dist.all_to_all_single(torch.ones(4), x)
dist.all_to_all([x, x], [x, x])
dist.barrier()
dist.monitored_barrier()                                                   # 14: not in the recorder, takes two numbers
dist.all_gather_object([None] * n, {"rank": rank})
dist.broadcast_object_list([rank], src=0)
dist.send(x, 1, tag=7) if rank == 0 else dist.recv(x, 0, tag=7)            # 17
ops = [dist.P2POp(dist.isend, torch.ones(5), 1 - rank), dist.P2POp(dist.irecv, torch.ones(5), 1 - rank)]
[work.wait() for work in dist.batch_isend_irecv(ops)]                      # 19
dist.send_object_list([1], 1) if rank == 0 else dist.recv_object_list([1], 0)
dist.all_reduce(torch.ones(6, dtype=torch.int64), async_op=True).wait()    # 21
"""
NAMES = [
    "all_reduce", "broadcast", "reduce", "all_gather", "all_gather_into_tensor", "reduce_scatter_tensor",
    "reduce_scatter", "gather", "scatter", "all_to_all_single", "all_to_all", "barrier", "monitored_barrier",
    "all_gather_object", "broadcast_object_list", "all_reduce",
]  # fmt: skip


def _program(calls):
    return [call for call in calls if not call.setup and not call.pair]


@pytest.mark.parametrize("debug", ["OFF", "INFO", "DETAIL"])
def test_every_call_is_there_once_under_its_own_name_and_line(forker, tmp_path, debug):  # noqa: F811
    with forker.job(tmp_path, 2, EVERYTHING, debug=debug) as job:
        standings = job.all_in("done", "failed")
        assert not list(tmp_path.glob("failed-*")), job.said()
        for rank in (0, 1):
            calls = standings[rank].calls
            collectives = _program(calls)
            assert [call.op for call in collectives] == NAMES
            assert [call.number for call in collectives] == list(range(1, 17))
            assert all(call.done and not call.waiting for call in calls)
            assert all(call.origin == "program" and call.members == (0, 1) for call in collectives)
            assert [call.lineno for call in collectives] == [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 21]
            assert collectives[1].root == 1 and collectives[2].how == "MAX" and collectives[-1].dtypes == ("int64",)
            # The places are those of the wire: two for the list and for each object collective.
            assert [c.at for c in collectives] == [1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 16, 18, 20]
        sends = [call for call in standings[0].calls if call.way == "dst"]
        assert [(c.op, c.peer, c.nth, c.tag, c.lineno) for c in sends] == [
            ("send", 1, 1, 7, 17), ("isend", 1, 1, 0, 19), ("send_object_list", 1, 2, 0, 20),
            ("send_object_list", 1, 3, 0, 20),
        ]  # fmt: skip


def test_what_torch_calls_by_itself_is_there_without_a_line(forker, tmp_path):  # noqa: F811
    source = """
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
    model(torch.ones(2, 4)).sum().backward()
    group = dist.new_group([0, 1])
    dist.all_reduce(torch.ones(1), group=group)
    import torch.distributed._functional_collectives as functional
    functional.all_reduce(torch.ones(3), "sum", group).sum()
    """
    with forker.job(tmp_path, 2, source) as job:
        standings = job.all_in("done", "failed")
        assert not list(tmp_path.glob("failed-*")), job.said()
        calls = standings[0].calls
        reducer = [call for call in calls if call.origin == "torch" and call.group == "0"]
        assert reducer[-1].op == "all_reduce" and reducer[-1].shapes == ((10,),) and reducer[-1].done
        own, functional = [call for call in calls if call.group not in ("", "0")]
        assert (own.origin, own.number, own.members) == ("program", 1, (0, 1))
        assert (functional.origin, functional.op, functional.number) == ("torch", "all_reduce", 2)


def test_fsdp_calls_are_there(forker, tmp_path):  # noqa: F811
    source = """
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.device_mesh import init_device_mesh
    model = torch.nn.Linear(4, 4)
    fully_shard(model, mesh=init_device_mesh("cpu", (n,)))
    model(torch.ones(2, 4)).sum().backward()
    """
    with forker.job(tmp_path, 2, source) as job:
        calls = job.all_in("done", "failed")[0].calls
        assert not list(tmp_path.glob("failed-*")), job.said()
        gathers = [call for call in calls if call.op.startswith("all_gather")]
        scatters = [call for call in calls if call.op.startswith("reduce_scatter")]
        assert gathers and scatters and all(call.done for call in calls)
        assert all(call.line for call in calls if call.origin == "program" and call.file == "cell.py")


BLOCKED = """
dist.all_reduce(torch.ones(3))
(folder / f"here-{rank}").touch()
if rank == 1:
    import time
    time.sleep(600)
dist.all_reduce(torch.ones(7))
"""


@pytest.mark.parametrize("debug", ["OFF", "DETAIL"])
def test_a_blocked_rank_answers(forker, tmp_path, debug):  # noqa: F811
    with forker.job(tmp_path, 2, BLOCKED, debug=debug) as job:
        call = job.until(lambda: (c := job.standings()[0].calls) and c[-1].lineno == 6 and c[-1])
        assert (call.op, call.number, call.shapes, call.lineno) == ("all_reduce", 2, ((7,),), 6)
        assert not call.done
        other = job.standings()[1].calls[-1]
        assert (other.number, other.done) == (1, True)


def test_a_rank_that_holds_the_interpreter_answers(forker, tmp_path):  # noqa: F811
    source = """
    import ctypes
    dist.all_reduce(torch.ones(3))
    (folder / f"here-{rank}").touch()
    ctypes.PyDLL(None).sleep(600)
    """
    with forker.job(tmp_path, 2, source) as job:
        job.until(lambda: len(list(tmp_path.glob("here-*"))) == 2)
        for rank in (0, 1):
            assert recorder._entries(tmp_path / f"s{rank}", 30.0)[-1]["profiling_name"] == "gloo:all_reduce"
            assert recorder.ask(tmp_path / f"s{rank}")[-1].op == "all_reduce"


def test_a_killed_rank_leaves_its_account(forker, tmp_path):  # noqa: F811
    with forker.job(tmp_path, 2, BLOCKED) as job:
        job.until(lambda: (c := job.standings()[0].calls) and c[-1].lineno == 6)
        forker.ask(end=job.pids)
        call = recorder.ask(tmp_path / "s0")[-1]
        assert (call.op, call.waiting, call.lineno) == ("all_reduce", True, 6)
        assert recorder.read(tmp_path / "s0")[-1] == call


def test_waiting_for_work_is_told_from_having_started_it(forker, tmp_path):  # noqa: F811
    source = """
    work = dist.irecv(torch.ones(1), 1 - rank)
    (folder / f"here-{rank}").touch()
    while not (folder / "go").exists():
        pass
    work.wait()
    """
    with forker.job(tmp_path, 2, source) as job:
        job.until(lambda: len(list(tmp_path.glob("here-*"))) == 2)
        call = job.standings()[0].calls[-1]
        assert (call.waiting, call.done, call.asynchronous) == (False, False, True)
        (tmp_path / "go").touch()
        job.until(lambda: all(s.calls[-1].waiting for s in job.standings().values()))


def test_a_group_made_again_is_another_group(forker, tmp_path):  # noqa: F811
    source = """
    dist.all_reduce(torch.ones(1))
    dist.destroy_process_group()
    dist.init_process_group("gloo", init_method=f"file://{folder}/again", rank=rank, world_size=n)
    import time
    since = time.time_ns()
    dist.barrier()
    dist.all_reduce(torch.ones(2))
    (folder / f"since-{rank}").write_text(str(since))
    """
    with forker.job(tmp_path, 2, source) as job:
        calls = _program(job.all_in("done", "failed")[0].calls)
        assert not list(tmp_path.glob("failed-*")), job.said()
        assert [(c.group, c.number, c.op) for c in calls] == [
            ("0", 1, "all_reduce"), ("0#2", 1, "barrier"), ("0#2", 2, "all_reduce"),
        ]  # fmt: skip
        since = int((tmp_path / "since-0").read_text())
        assert [call.op for call in recorder.ask(tmp_path / "s0", since_ns=since)] == ["barrier", "all_reduce"]


def test_the_socket_says_nothing_on_the_error_output(forker, tmp_path):  # noqa: F811
    with forker.job(tmp_path, 1, "recorder.close()", leaves=True) as job:
        job.until(lambda: job.codes() == [0])
        assert (tmp_path / "err-0").read_text() == ""


def test_a_compiled_program_compiles_as_ever(forker, tmp_path):  # noqa: F811
    source = """
    @torch.compile(backend="eager", fullgraph=True)
    def total(x):
        dist.all_reduce(x)
        return x * 2
    assert total(torch.ones(2)).tolist() == [4.0, 4.0]
    """
    with forker.job(tmp_path, 2, source) as job:
        job.all_in("done", "failed")
        assert not list(tmp_path.glob("failed-*")), job.said()


def test_a_wrong_call_raises_its_own_error(forker, tmp_path):  # noqa: F811
    source = """
    try:
        dist.all_reduce("text")
    except TypeError as error:
        print(type(error).__name__, str(error)[:30])
    """
    with forker.job(tmp_path, 1, source) as job:
        job.all_in("done", "failed")
        assert (tmp_path / "out-0").read_text().startswith("TypeError Invalid function argument")


# -- without ranks ------------------------------------------------------------------------------------------------


def test_the_ring_keeps_the_latest_and_numbers_go_on(tmp_path):
    book = ledger.Ledger(tmp_path / "calls", slots=4)
    for number in range(1, 11):
        said = {"op": "barrier", "group": "0", "at": number, "epoch": 1}
        book.end(book.begin(said, number, 1), ledger.RETURNED, number)
    calls = calls_of((), ledger.read(tmp_path / "calls"))
    assert [call.number for call in calls] == [7, 8, 9, 10]
    assert [note.index for note in book.notes()] == [6, 7, 8, 9]


def test_a_note_that_is_too_long_loses_its_shapes_not_itself(tmp_path):
    book = ledger.Ledger(tmp_path / "calls", slots=4)
    shapes = [[123456, 123456]] * 16
    book.begin({"op": "all_to_all", "group": "0", "at": 1, "epoch": 1, "line": "x" * 99, "shapes": shapes}, 1, 1)
    book.begin({"op": "y" * 600, "group": "0"}, 1, 1)
    kept = ledger.read(tmp_path / "calls")
    assert kept[0].said["op"] == "all_to_all" and len(kept[0].said["line"]) <= 99
    assert len(kept) == 2


def test_nothing_there_is_none(tmp_path):
    assert recorder.ask(tmp_path / "s0") is None
    (tmp_path / "s0.calls").write_bytes(b"not a ledger" * 20)
    assert recorder.ask(tmp_path / "s0") is None


def test_calls_survive_json():
    calls = (recorder.Call(number=1, op="all_reduce", shapes=((2, 3),), dtypes=("float32",), members=(0, 1)),)
    assert recorder.from_dicts(json.loads(json.dumps(recorder.to_dicts(calls)))) == calls


def test_a_forked_child_does_not_write_into_its_parents_account(forker, tmp_path):  # noqa: F811
    source = """
    dist.barrier()
    import os
    pid = os.fork()
    if pid == 0:
        dist.get_rank()
        from labsupport.ranks import noting
        os._exit(0 if noting.current() is None else 1)
    assert os.waitpid(pid, 0)[1] == 0
    """
    with forker.job(tmp_path, 1, source) as job:
        job.all_in("done", "failed")
        assert not list(tmp_path.glob("failed-*")), job.said()
