"""Jobs of real ranks, forked: what they see, what they say, what is kept of them."""

import json
import os
import sys
import threading
import time

import pytest
from engine import WITHIN_S, children_of_helper, needs_fork, run, said, start, until

from labsupport.errors import LabError, UsageError
from labsupport.torchrun import Request, helper, launch, records

pytestmark = needs_fork

REDUCE = """
import torch
import torch.distributed as dist

dist.init_process_group()
x = torch.tensor(float(dist.get_rank()))
dist.all_reduce(x)
print(x.item())
"""
DDP = """
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group()
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(8, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
for step in range(20):
    loss = model(torch.randn(16, 8)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("trained")
"""


@pytest.fixture(scope="module", autouse=True)
def _helper():
    helper.warm(WITHIN_S)


def test_four_ranks_reduce_and_each_has_its_own_output():
    outcome = run(REDUCE, "--nproc", "4")
    assert outcome.code == 0
    assert [outcome.out(rank) for rank in range(4)] == ["6.0\n"] * 4
    assert [outcome.err(rank) for rank in range(4)] == [""] * 4
    assert outcome.files["agent.log"] == ""
    assert [event["event"] for event in outcome.events] == [
        "parsed", "started", "rank ended", "rank ended", "rank ended", "rank ended", "ended",
    ]  # fmt: skip


def test_a_record_tells_what_a_job_took():
    record = run(REDUCE, "--nproc", "2").record
    assert record is records()[-1]
    assert record.command == "torchrun --nproc 2 cell.py"
    assert (record.mode, record.code, record.restarts, record.interrupted) == ("warm", 0, 0, False)
    assert [rank.rank for rank in record.ranks] == [0, 1]
    for rank in record.ranks:
        assert (rank.state, rank.code, rank.collectives) == ("done", 0, {"all_reduce": 1})
        assert rank.cpu_s > 0
        assert rank.sent_bytes > 0
    json.dumps(record.as_json())


def test_a_rank_after_ddp_has_less_than_40_mb_of_its_own():
    record = run(DDP, "--nproc", "2").record
    assert record.code == 0
    assert all(1_000_000 < rank.peak_bytes < 40_000_000 for rank in record.ranks)


def test_the_helper_has_one_thread_and_everything_a_ddp_cell_imports():
    assert helper.warm().zygote.ready["threads"] == 1
    outcome = run("import sys\nbefore = set(sys.modules)\n" + DDP + "print(sorted(set(sys.modules) - before))\n")
    imported = outcome.out().splitlines()[-1]
    assert imported.count("'torch") < 5, imported


def test_correct_ddp_cells_at_module_level_succeed():
    outcomes = [run(DDP, "--nproc", "4") for _ in range(20)]
    assert [outcome.code for outcome in outcomes] == [0] * 20
    assert {rank.code for outcome in outcomes for rank in outcome.record.ranks} == {0}


def test_ranks_see_the_kernel_as_it_is_now(tmp_path, monkeypatch):
    (tmp_path / "beside.py").write_text("value = 17\n", encoding="utf-8")
    other = tmp_path / "other"
    other.mkdir()
    (other / "there.py").write_text("value = 4\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path, str(other)])
    monkeypatch.setenv("LAB_TEST_SEEN", "yes")
    source = """
    import json, os, sys
    import beside, there
    print(json.dumps([os.getcwd(), os.environ["LAB_TEST_SEEN"], os.environ["GIVEN"], beside.value, there.value,
                      sys.argv[1:], __name__, os.path.basename(__file__), os.environ["OMP_NUM_THREADS"]]))
    """
    outcome = run(source, "--nproc", "1", env={"GIVEN": "too"}, arguments=("--lr", "0.1"))
    assert json.loads(outcome.out()) == [
        str(tmp_path), "yes", "too", 17, 4, ["--lr", "0.1"], "__main__", "cell.py", "1"
    ]  # fmt: skip


def test_what_fork_would_copy_is_repaired():
    source = """
    import json, random, signal, sys
    import numpy, torch
    import torch.distributed as dist
    print(json.dumps([random.random(), float(numpy.random.random()), torch.rand(1).item()]))
    print(dist.get_debug_level().name, torch.get_num_threads())
    print(signal.getsignal(signal.SIGTERM) == signal.SIG_DFL, signal.getsignal(signal.SIGINT).__name__)
    """
    outcome = run(source, "--nproc", "2", env={"TORCH_DISTRIBUTED_DEBUG": "DETAIL", "OMP_NUM_THREADS": "2"})
    first, second = (json.loads(outcome.out(rank).splitlines()[0]) for rank in (0, 1))
    assert all(a != b for a, b in zip(first, second))
    assert outcome.out().splitlines()[1:] == ["DETAIL 2", "True default_int_handler"]


def test_what_c_writes_and_what_is_not_a_line_is_in_the_files_at_once():
    source = """
    import ctypes, os, time
    libc = ctypes.CDLL(None)
    print("no newline", end="")
    libc.write(1, b"|from C", 7)
    os.write(2, b"to fd 2")
    time.sleep(100)
    """
    with start(source, "--nproc", "1") as job:
        out, err = (job.folder / "attempt-0" / "rank-0" / name for name in ("out", "err"))
        until(lambda: err.exists() and err.read_text(encoding="utf-8") == "to fd 2")
        assert out.read_text(encoding="utf-8") == "no newline|from C"


def test_flags_are_refused_in_torchruns_words():
    for flags, word in (
        (("--nproc", "many"), "Unsupported nproc_per_node value: many"),
        (("--nnodes", "2:1"), "--nnodes 2:1"),
        (("--no-such-flag",), "unrecognized arguments: --no-such-flag"),
        (("--max-restarts", "x"), "invalid int value: 'x'"),
        (("--nproc", "1000"), "the limit is"),
        (("--nproc", "0"), "--nproc-per-node 0"),
        (("--master-addr", "10.0.0.1"), "loopback"),
        (("--rdzv-conf", "nonsense"), "nonsense"),
        (("--rdzv-backend", "etcd"), "a server of its own"),
        (("--node-rank", "1"), "--nnodes starts all nodes"),
    ):
        with pytest.raises(UsageError) as refused:
            start("pass", *flags)
        assert word in str(refused.value)
    assert children_of_helper() == []


def test_flags_without_a_meaning_here_are_told(tmp_path):
    outcome = run("print(1)", "--nproc", "1", "--log-dir", str(tmp_path / "logs"), "--tee", "3")
    assert outcome.out() == "1\n"
    assert any("do nothing here" in event.get("text", "") for event in outcome.events)
    assert not (tmp_path / "logs").exists()


@pytest.mark.parametrize("mode", ["warm", pytest.param("cold", marks=pytest.mark.slow)])
def test_nothing_is_left_in_the_folder_for_temporary_files(tmp_path, mode):
    outcome = run(REDUCE, "--nproc", "2", env={"TMPDIR": str(tmp_path)}, mode=mode)
    assert outcome.code == 0
    assert list(tmp_path.iterdir()) == []


def test_a_port_may_be_chosen_and_one_that_is_in_use_is_told():
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with pytest.raises(UsageError) as refused:
            start("pass", "--master-port", port)
    assert f"port {port} is in use" in str(refused.value)
    outcome = run("import os\nprint(os.environ['MASTER_PORT'])", "--nproc", "1", "--master-port", port)
    assert outcome.out() == f"{port}\n"


def test_a_kill_that_makes_no_sense_is_refused_before_anything_starts():
    with pytest.raises(UsageError) as refused:
        start("pass", kills=("rank=two",))
    assert "rank=2@step=12" in str(refused.value)


def test_an_unknown_mode_is_refused():
    with pytest.raises(UsageError):
        launch(Request(source="", mode="fast"))


def test_threads_and_functions_registered_for_the_end_run_as_in_a_program():
    source = """
    import atexit, threading, time
    kept = "still here"
    atexit.register(lambda: print("at exit", kept))
    threading.Thread(target=lambda: (time.sleep(0.1), print("thread"))).start()
    print("script")
    """
    assert run(source, "--nproc", "1").out() == "script\nthread\nat exit still here\n"


def test_tracebacks_and_sources_are_those_of_the_cell():
    source = """
    import inspect
    def double(x):
        return 2 * x
    print(inspect.getsource(double))
    import warnings
    warnings.warn("look here")
    """
    outcome = run(source, "--nproc", "1")
    assert "return 2 * x" in outcome.out()
    assert "cell.py:6: UserWarning: look here" in outcome.err()


def test_loader_workers_of_any_kind_work():
    source = """
    import torch
    from torch.utils.data import DataLoader
    class Squares(torch.utils.data.Dataset):
        def __len__(self):
            return 8
        def __getitem__(self, i):
            return i * i
    if __name__ == "__main__":
        for how in ("fork", "spawn"):
            loader = DataLoader(Squares(), num_workers=1, multiprocessing_context=how)
            print(how, sum(int(x) for x in loader))
    """
    outcome = run(source, "--nproc", "1")
    assert outcome.out() == "fork 140\nspawn 140\n", outcome.err()


def test_two_jobs_at_once_do_not_meet():
    outcomes = {}

    def one(name):
        outcomes[name] = run(REDUCE, "--nproc", "2")

    threads = [threading.Thread(target=one, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WITHIN_S)
    assert [outcomes[name].out() for name in "ab"] == ["1.0\n"] * 2


def test_two_helpers_at_once_do_not_meet():
    other = helper._Helper()
    try:
        assert other.done.wait(WITHIN_S)
        assert other.zygote.pid != helper.warm().zygote.pid
        assert run(REDUCE).code == 0
    finally:
        other.close()
    assert helper.warm().alive()


def test_a_helper_that_was_killed_is_replaced():
    first = helper.warm().zygote
    os.kill(first.pid, 9)
    until(lambda: not first.alive())
    assert run(REDUCE).code == 0
    assert helper.warm().zygote.pid != first.pid


def test_how_long_a_collective_may_take_can_be_said():
    source = """
    import time, torch
    import torch.distributed as dist
    dist.init_process_group()
    group = dist.new_group([0, 1])
    if dist.get_rank() == 0:
        began = time.monotonic()
        try:
            dist.all_reduce(torch.ones(1), group=group)
        except RuntimeError as error:
            print("gave up", time.monotonic() - began < 30)
    else:
        time.sleep(2.5)
    """
    outcome = run(source, "--nproc", "2", timeout_s=1.0)
    assert outcome.out() == "gave up True\n", outcome.err()


def test_a_job_can_be_looked_at_while_it_runs():
    source = """
    import time
    print("here")
    time.sleep(100)
    """
    with start(source, "--nproc", "2") as job:
        pids = said(job, "here", 2)
        now = job.poll()
        assert [rank.state for rank in now.ranks] == ["running"] * 2
        assert [(rank.rank, rank.local_rank, rank.node, rank.attempt, rank.world) for rank in now.ranks] == [
            (0, 0, 0, 0, 2), (1, 1, 0, 0, 2),
        ]  # fmt: skip
        assert (now.ended, now.code) == (False, None)
        stacks = job.stacks()
        assert set(stacks) == {0, 1}
        assert all('File "cell.py", line 3' in text for text in stacks.values())
        began = time.monotonic()
        record = job.interrupt()
        took_s = time.monotonic() - began
    assert all(record.ranks[i].code == -9 for i in (0, 1))
    assert record.interrupted
    assert took_s < 5  # about 0.2 s; the machine may be busy
    assert not [pid for pid in pids if os.path.exists(f"/proc/{pid}")]  # noqa: PTH110
    assert not job.folder.exists()


def test_a_folder_may_be_kept(tmp_path, monkeypatch):
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with launch(Request(source="print(1)", flags=("--nproc", "1"), keep=True)) as job:
        job.wait()
    assert (job.folder / "attempt-0" / "rank-0" / "out").read_text(encoding="utf-8") == "1\n"
    assert job.folder.parent == tmp_path
    assert job.folder.stat().st_mode & 0o777 == 0o700


def test_a_kernel_in_a_folder_that_is_gone_is_told(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(LabError) as told:
        start("pass")
    assert "folder is gone" in told.value.what
