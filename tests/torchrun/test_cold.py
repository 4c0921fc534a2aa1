"""The two ways without a fork, forced: a real torchrun, and interpreters spawned once that stay warm."""

import json
import os
import time

import pytest
from engine import run, said, start

from labsupport.errors import UsageError
from labsupport.torchrun import cold, helper, hosting, spawned

pytestmark = pytest.mark.slow

REDUCE = """
import os
import torch
import torch.distributed as dist

dist.init_process_group()
x = torch.tensor(float(dist.get_rank()))
dist.all_reduce(x)
print(x.item(), os.getpid())
"""


@pytest.fixture(scope="module", autouse=True)
def _end():
    yield
    spawned.stop()


@pytest.mark.parametrize("mode", ["cold", "spawned"])
def test_what_is_found_afterwards_is_what_a_warm_job_leaves(mode, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "beside.py").write_text("value = 17\n", encoding="utf-8")
    source = f"import sys\nsys.path.insert(0, '')\nimport beside\n{REDUCE}print(sys.argv[1:], os.environ['GIVEN'])"
    outcome = run(source, "--nproc", "2", mode=mode, arguments=("--lr", "1"), env={"GIVEN": "x"})
    assert outcome.code == 0, outcome.files
    assert outcome.record.mode == mode
    for rank in (0, 1):
        assert outcome.out(rank).startswith("1.0 ")
        assert outcome.out(rank).splitlines()[1] == "['--lr', '1'] x"
        assert outcome.err(rank) == ""
        assert outcome.record.ranks[rank].collectives == {"all_reduce": 1}
        assert outcome.record.ranks[rank].cpu_s > 0


@pytest.mark.parametrize("mode", ["cold", "spawned"])
def test_a_failure_has_its_error_and_its_codes(mode):
    source = """
    import os, time
    import torch
    import torch.distributed as dist
    dist.init_process_group()
    if dist.get_rank() == 1:
        raise ValueError("bad batch")
    dist.all_reduce(torch.ones(1))
    """
    outcome = run(source, "--nproc", "2", mode=mode)
    assert outcome.code == 1
    error = json.loads(outcome.files["attempt-0/rank-1/error.json"])
    assert (error["type"], error["lineno"]) == ("ValueError", 6)
    assert outcome.record.ranks[1].code == 1
    killed = run("import os\nos.kill(os.getpid(), 9)", "--nproc", "1", mode=mode)
    assert killed.record.ranks[0].code == -9


@pytest.mark.parametrize("mode", ["cold", "spawned"])
def test_what_torchrun_refuses_is_refused(mode):
    with pytest.raises(UsageError) as refused:
        run("pass", "--nproc", "2", "--max-restarts", "x", mode=mode)
    assert "invalid int value: 'x'" in str(refused.value)


@pytest.mark.parametrize("mode", ["cold", "spawned"])
def test_a_restart_works(mode, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = """
    import os
    import torch
    import torch.distributed as dist
    dist.init_process_group()
    dist.all_reduce(torch.ones(1))
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and dist.get_rank() == 1:
        os._exit(3)
    dist.barrier()
    print("attempt", os.environ["TORCHELASTIC_RESTART_COUNT"])
    """
    outcome = run(source, "--nproc", "2", "--max-restarts", "1", mode=mode)
    assert outcome.code == 0, outcome.files
    assert outcome.record.restarts == 1
    assert outcome.out(0, attempt=1) == "attempt 1\n"


@pytest.mark.parametrize("mode", ["cold", "spawned"])
def test_an_interrupt_is_soon_over(mode):
    source = (
        f"{REDUCE}print('here', flush=True)\nif dist.get_rank():\n    dist.barrier()\nimport time\ntime.sleep(1000)"
    )
    with start(source, "--nproc", "2", mode=mode) as job:
        pids = said(job, "here", 2)
        began = time.monotonic()
        record = job.interrupt()
        assert time.monotonic() - began < 10  # about 0.3 s; the machine may be busy
        assert record.interrupted
        stacks = [file.read_text(encoding="utf-8") for file in job.folder.rglob("stack.txt")]
        assert all('File "cell.py"' in text for text in stacks)
        assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)  # noqa: PTH110


def test_two_nodes_are_two_agents_of_torchrun():
    outcome = run(f"{REDUCE}print(os.environ['GROUP_RANK'])", "--nproc", "1", "--nnodes", "2", mode="cold")
    assert outcome.code == 0, outcome.files
    assert [(rank.rank, rank.node) for rank in outcome.record.ranks] == [(0, 0), (1, 1)]


def test_spawned_ranks_stay_warm_and_forget_what_they_did(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = tmp_path / "edited.py"
    module.write_text("value = 1\n", encoding="utf-8")
    source = f"{REDUCE}import sys\nsys.path.insert(0, '{tmp_path}')\nimport edited\nprint(edited.value)\n"
    first = run(source + "left = 1\ntorch.set_default_dtype(torch.float64)", "--nproc", "2", mode="spawned")
    module.write_text("value = 2  # edited\n", encoding="utf-8")
    asks = "print('left' in globals(), torch.get_default_dtype(), dist.get_world_size())"
    second = run(source + asks, "--nproc", "2", mode="spawned")
    assert (first.code, second.code) == (0, 0)
    pids = [{outcome.out(rank).split()[1] for rank in (0, 1)} for outcome in (first, second)]
    assert pids[0] == pids[1]
    assert second.out().splitlines()[1:] == ["2", "False torch.float32 2"]
    assert second.record.ranks[0].collectives == {"all_reduce": 1}
    third = run("raise ValueError", "--nproc", "2", mode="spawned")
    fourth = run(REDUCE, "--nproc", "2", mode="spawned")
    assert (third.code, fourth.code) == (1, 0)
    assert not pids[0] & {fourth.out(rank).split()[1] for rank in (0, 1)}


def test_where_nothing_is_forked_the_extension_starts_the_host_and_auto_uses_it(monkeypatch):
    monkeypatch.setattr(helper, "forks", lambda: False)
    helper.start()
    assert run(REDUCE, "--nproc", "2").record.mode == "spawned"


def test_nodes_are_counted_from_the_flags():
    assert cold.node_counts(["--nproc", "2"]) == [1, 1]
    assert cold.node_counts(["--nnodes", "2"]) == [2, 2]
    assert cold.node_counts(["--nnodes=1:3"]) == [1, 3]


def test_flags_that_name_other_machines_are_refused():
    with pytest.raises(UsageError):
        run("pass", "--rdzv-endpoint", "10.0.0.1:29500", mode="cold")


def test_a_folder_is_removed_although_somebody_still_writes_to_it(tmp_path, monkeypatch):
    folder, left = tmp_path / "kernel", ["one more", "another"]
    folder.mkdir()
    real = hosting.removing.remove_tree

    def removed_and_written_to(where):
        real(where)
        if left:
            folder.mkdir(exist_ok=True)
            (folder / left.pop()).touch()

    monkeypatch.setattr(hosting.removing, "remove_tree", removed_and_written_to)
    hosting._remove_while_written_to(str(folder))
    assert not folder.exists() and not left
