"""How jobs end: errors, signals, exits of all kinds, restarts, nodes, kills on purpose."""

import ast
import time

import pytest
from engine import WITHIN_S, children_of_helper, needs_fork, run, said, start

from labsupport.torchrun import helper, killing

pytestmark = needs_fork

TRAIN = """
import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group()
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(4, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
begin = 0
if os.path.exists("last.pt"):
    last = torch.load("last.pt")
    model.load_state_dict(last["model"])
    optimizer.load_state_dict(last["optimizer"])
    begin = last["step"]
print("begins at", begin, "of", dist.get_world_size())
for step in range(begin, 20):
    generator = torch.Generator().manual_seed(100 * step + dist.get_rank())
    loss = model(torch.randn(8, 4, generator=generator)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if (step + 1) % 5 == 0:
        if dist.get_rank() == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step + 1}
            torch.save(state, "new.pt")
            os.replace("new.pt", "last.pt")
        dist.barrier()
print("weights", [w for p in model.module.parameters() for w in p.flatten().tolist()])
"""


def weights_of(told):
    """Return the weights that TRAIN printed last."""
    return ast.literal_eval(told.splitlines()[-1].removeprefix("weights "))


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    helper.warm(WITHIN_S)


def test_an_exception_is_told_by_the_cells_lines_and_the_others_are_ended():
    outcome = run(
        """
        import torch
        import torch.distributed as dist
        def check(step):
            if dist.get_rank() == 2 and step == 3:
                raise ValueError("bad batch")
        dist.init_process_group()
        for step in range(100):
            check(step)
            dist.all_reduce(torch.ones(3))
        """,
        "--nproc", "4",
    )  # fmt: skip
    import json

    assert outcome.code == 1
    error = json.loads(outcome.files["attempt-0/rank-2/error.json"])
    assert (error["type"], error["message"], error["lineno"]) == ("ValueError", "bad batch", 5)
    assert error["line"] == 'raise ValueError("bad batch")'
    assert error["bases"] == ["Exception", "BaseException"]
    assert error["traceback"].count('File "cell.py"') == 2
    assert "labsupport" not in error["full"]
    assert outcome.err(2) == error["full"]
    ended = [event for event in outcome.events if event["event"] == "rank ended"]
    # Others fail too, of the lost connection, and some of them before the agent looks again.
    assert 2 in [event["rank"] for event in ended if not event["asked"]]
    assert outcome.record.ranks[2].code == 1


@pytest.mark.parametrize(
    ("last_line", "code"),
    [
        ("os._exit(7)", 7),
        ("sys.exit(3)", 3),
        ("sys.exit('no more data')", 1),
        ("os.kill(os.getpid(), 9)", 137),
        ("os.kill(os.getpid(), 11)", 139),
        ("os.abort()", 134),
        ("1 / 0", 1),
        ("def broken(:", 1),
        ("raise KeyboardInterrupt", 130),
    ],
)
def test_an_end_has_its_code(last_line, code):
    outcome = run(f"import os, sys\n{last_line}", "--nproc", "1")
    assert outcome.code == code
    (rank,) = outcome.record.ranks if outcome.record.ranks else (None,)
    assert rank.state == "failed"
    if "no more data" in last_line:
        assert outcome.err() == "no more data\n"
    if "broken" in last_line:
        assert '"lineno": 2' in outcome.files["attempt-0/rank-0/error.json"]


@pytest.mark.parametrize("last_line", ["os._exit(0)", "sys.exit()", "sys.exit(0)", "quit()", "pass"])
def test_an_end_without_a_code_is_a_success_also_of_one_rank_alone(last_line):
    outcome = run(f"import os, sys\nif os.environ['RANK'] == '0':\n    {last_line}\nprint('on')", "--nproc", "2")
    assert outcome.code == 0
    assert outcome.out(1) == "on\n"


def test_a_crash_in_c_leaves_the_cells_line():
    outcome = run("import os\nprint('before')\nos.abort()\n", "--nproc", "1")
    assert 'File "cell.py", line 3' in outcome.files["attempt-0/rank-0/stack.txt"]


def test_ranks_that_ignore_signals_do_not_hold_up_the_end():
    began = time.monotonic()
    outcome = run(
        """
        import os, signal, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if os.environ["RANK"] == "1":
            time.sleep(0.2)
            raise RuntimeError("over")
        time.sleep(1000)
        """
    )
    assert outcome.code == 1
    assert outcome.record.ranks[0].code == -9
    assert time.monotonic() - began < 20  # torch's own patience is 30 s


def test_a_script_that_does_not_destroy_its_group_or_ends_early_is_no_trouble():
    source = """
    import torch
    import torch.distributed as dist
    dist.init_process_group()
    group = dist.new_group([0])
    work = dist.all_reduce(torch.ones(1), async_op=True)
    if dist.get_rank() == 0:
        dist.destroy_process_group()
    """
    for _ in range(5):
        assert run(source).code == 0


def test_restarts_resume_and_end_with_the_weights_of_an_undisturbed_run(tmp_path, monkeypatch):
    undisturbed = run(TRAIN, "--nproc", "4")
    (tmp_path / "again").mkdir()
    monkeypatch.chdir(tmp_path / "again")
    disturbed = run(TRAIN, "--nproc", "4", "--max-restarts", "1", kills=("rank=2@step=12",))
    assert (undisturbed.code, disturbed.code) == (0, 0)
    assert disturbed.record.restarts == 1
    assert disturbed.out(3, attempt=0) == "begins at 0 of 4\n"
    assert disturbed.out(3, attempt=1).splitlines()[0] == "begins at 10 of 4"
    # In the first step after a restart DDP's buckets stand in their first order, and ranks are added in another.
    assert weights_of(disturbed.out(0, attempt=1)) == pytest.approx(weights_of(undisturbed.out(0)), abs=1e-5)
    killed = [rank for rank in disturbed.record.ranks if (rank.rank, rank.attempt) == (2, 0)]
    assert killed[0].code == -9
    assert killed[0].collectives  # from what it wrote down while it lived
    assert [e["what"] for e in disturbed.events if e["event"] == "kill"] == ["rank=2@step=12"]


def test_restarts_are_counted_and_come_to_an_end():
    outcome = run("raise RuntimeError('always')", "--nproc", "2", "--max-restarts", "2")
    assert outcome.code == 1
    assert outcome.record.restarts == 2
    assert sorted({rank.attempt for rank in outcome.record.ranks}) == [0, 1, 2]


def test_what_ranks_started_is_gone_before_they_start_again():
    source = """
    import os, subprocess, sys, time
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"], start_new_session=True)
        open("child", "w").write(str(child.pid))
        os._exit(1)
    pid = open("child").read()
    print("alive" if os.path.exists(f"/proc/{pid}") else "gone")
    """
    assert run(source, "--nproc", "1", "--max-restarts", "1").out(attempt=1) == "gone\n"


def test_two_nodes_have_ranks_0_to_3_and_compute_the_same(tmp_path, monkeypatch):
    one = run(TRAIN, "--nproc", "4")
    (tmp_path / "again").mkdir()
    monkeypatch.chdir(tmp_path / "again")
    two = run(TRAIN, "--nproc", "2", "--nnodes", "2")
    assert two.code == 0
    assert [(rank.rank, rank.node) for rank in two.record.ranks] == [(0, 0), (1, 0), (2, 1), (3, 1)]
    assert two.out() == one.out()


@pytest.mark.parametrize("node", [0, 1])
def test_a_lost_node_is_survived(node):
    outcome = run(TRAIN, "--nproc", "2", "--nnodes", "1:2", kills=(f"node={node}@step=12",))
    assert outcome.code == 0, outcome.events
    assert outcome.record.restarts == 1
    assert outcome.out(attempt=1).splitlines()[0] == "begins at 10 of 2"
    kill, again = (next(e["t"] for e in outcome.events if e["event"] == word) for word in ("kill", "restart"))
    assert again - kill < 30  # about 2.5 s where nothing else runs; torch's own settings take over 20
    assert any("--max-restarts 1" in e.get("text", "") for e in outcome.events)


def test_a_node_that_all_need_ends_the_job_when_it_is_lost():
    outcome = run(TRAIN, "--nproc", "1", "--nnodes", "2", "--max-restarts", "3", kills=("node=1@step=3",))
    assert outcome.code != 0
    assert children_of_helper() == []


def test_a_kill_after_seconds_needs_no_optimizer():
    outcome = run("import time\ntime.sleep(1000)", "--nproc", "2", kills=("rank=1@seconds=0.2",))
    assert outcome.record.ranks[1].code == -9
    assert outcome.code == 137


def test_kills_are_read_and_what_did_not_happen_is_told():
    assert str(killing.parse("rank=2@step=12")) == "rank=2@step=12"
    assert str(killing.parse("node=1")) == "node=1@step=10"
    assert killing.parse("rank=0@seconds=1.5").at == 1.5
    for wrong in ("rank", "rank=2@12", "gpu=1", "rank=1@step=0", "rank=1@step=1.5", "node=-1"):
        with pytest.raises(killing.UsageError):
            killing.parse(wrong)
    events = [{"event": "kill", "what": "rank=2@step=12"}]
    assert killing.missed(("rank=2@step=12",), events) == []
    assert "node=1@step=10 did not happen" in killing.missed(("rank=2@step=12", "node=1"), events)[0]


def test_closing_a_running_job_leaves_nothing():
    with start("import time\nprint('here')\ntime.sleep(1000)", "--nproc", "2", "--nnodes", "2") as job:
        said(job, "here", 4)
    assert children_of_helper() == []
    assert job.record.interrupted
