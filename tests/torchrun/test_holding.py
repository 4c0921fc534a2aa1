"""`%%ranks`: what is kept between cells, what ends a group and how that is told, and that nothing is left."""

import contextlib
import os
import signal
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from labsupport.errors import LabError, UsageError
from labsupport.torchrun import holding, ranks_magic, values
from labsupport.torchrun.held_rank import counts_of
from labsupport.torchrun.holding import Group, out_of_step

torch = pytest.importorskip("torch")
INIT = "import os, time, torch, torch.distributed as dist\ndist.init_process_group()\nrank = dist.get_rank()\n"
PATIENCE_S = 60.0  # the machine may be busy; nothing here takes that long by itself


def is_there(pid):
    """Whether a process exists and is no zombie."""
    with contextlib.suppress(OSError):
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return text.rpartition(")")[2].split()[0] != "Z"
    return False


def gone(pids):
    ends = time.monotonic() + PATIENCE_S
    while any(map(is_there, pids)) and time.monotonic() < ends:
        time.sleep(0.01)
    return not any(map(is_there, pids))


def printed(cell, name="out"):
    return [(rank.folder / name).read_text(encoding="utf-8") for rank in cell.poll().ranks]


def notes(cell):
    return " ".join(event["text"] for event in cell.poll().events if event["event"] == "note")


def ran(group, source, **options):
    cell = group.run(source, **options)
    cell.wait()
    return cell


needs_fork = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="ranks are forked on Linux only")


@pytest.fixture
def group():
    group = Group(("--nproc-per-node", "2"))
    yield group
    pids = [rank.pid for rank in group.job.poll().ranks]
    group.end()
    assert not group.folder.exists() and gone(pids)


# -- what is kept -------------------------------------------------------------------------------------------------


@needs_fork
def test_names_processes_and_the_group_live_from_cell_to_cell(group):
    first = ran(group, INIT + "x = torch.ones(3) * (rank + 1)\nprint(os.getpid())")
    second = ran(group, "dist.all_reduce(x)\nprint(os.getpid())")
    third = ran(group, "x + rank")
    assert [cell.poll().code for cell in (first, second, third)] == [0, 0, 0]
    assert printed(first) == printed(second) and printed(first)[0] != printed(first)[1]
    assert printed(third) == ["tensor([3., 3., 3.])\n", "tensor([4., 4., 4.])\n"]  # the last line's value is shown
    record = second.wait()
    assert [rank.collectives for rank in record.ranks] == [{"all_reduce": 1}] * 2
    assert "2 ranks is alive" in group.status() and "3 cells" in group.status()


@needs_fork
def test_a_last_line_is_shown_as_in_a_notebook(group):
    assert printed(ran(group, "None")) == ["", ""]
    assert printed(ran(group, "7;")) == ["", ""]
    assert printed(ran(group, "a = 1\na + 1  # shown")) == ["2\n", "2\n"]
    assert printed(ran(group, "# nothing")) == ["", ""]


@needs_fork
def test_values_go_in_and_come_out_cell_by_cell(group):
    from labsupport.torchrun import pushing

    ran(group, INIT + "w = torch.ones(2) * rank", pushed=pushing.pack_names(("n",), {"n": 5}))
    cell = ran(group, "total = w.sum().item() + n", returns=("total@all", "w"))
    returned = values.collect(values.parse_returns(("total@all", "w")), cell.poll().ranks[0].folder.parent, world=2)
    assert returned.values["total"] == [5.0, 7.0] and returned.values["w"].tolist() == [0.0, 0.0]


@needs_fork
def test_a_function_of_an_earlier_cell_fails_with_its_own_lines(group):
    ran(group, "def f():\n    return 1 / 0  # in the first cell")
    cell = ran(group, "y = 2\nf()")
    assert cell.poll().code == 1
    told = printed(cell, "err")[0]
    assert 'File "cell.py", line 2' in told and 'File "cell-0.py", line 2' in told
    assert "1 / 0  # in the first cell" in told and "held_rank" not in told


@needs_fork
def test_a_cell_can_be_traced(group):
    from labsupport.torchrun import tracing

    ran(group, INIT)
    cell = ran(group, "x = torch.ones(1000)\ndist.all_reduce(x)", trace=True)
    timeline = tracing.read(cell.poll().ranks[0].folder.parent)
    assert [name for name, _, _ in timeline.ranks[1].communicating] == ["all_reduce"]
    assert printed(ran(group, "x.sum().item()")) == ["2000.0\n", "2000.0\n"]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["spawned", "cold"])
def test_ranks_that_were_not_forked_stay_as_well(mode):
    group = Group(("--nproc-per-node", "2"), mode=mode)
    try:
        ran(group, INIT + "x = torch.ones(1)")
        assert printed(ran(group, "dist.all_reduce(x)\nx")) == ["tensor([2.])\n"] * 2
        assert ran(group, "1 / 0").poll().code == 1 and group.is_alive()
        ran(group, "if rank == 1:\n    dist.all_reduce(x)")
        assert not group.is_alive() and "rank 0 has not called" in group.fate
        pids = [rank.pid for rank in group.job.poll().ranks]
    finally:
        group.end()
    assert gone(pids)


# -- what a group survives ----------------------------------------------------------------------------------------


@needs_fork
def test_an_exception_after_which_all_are_in_step_ends_nothing(group):
    ran(group, INIT + "x = torch.ones(1)")
    one = ran(group, "dist.all_reduce(x)\nif rank == 1:\n    raise ValueError('bad batch')")
    assert one.poll().code == 1 and [rank.state for rank in one.poll().ranks] == ["done", "failed"]
    assert "The group lives on" in notes(one) and group.is_alive()
    assert "ValueError: bad batch" in printed(one, "err")[1] and printed(one, "err")[0] == ""
    both = ran(group, "undefined_name")
    assert both.poll().code == 1 and group.is_alive()
    assert printed(ran(group, "dist.all_reduce(x)\nx")) == ["tensor([4.])\n"] * 2
    left = ran(group, "raise SystemExit(3)")
    assert left.poll().code == 3 and group.is_alive()


@needs_fork
def test_an_interrupt_of_python_code_leaves_the_group_alive(group):
    ran(group, INIT + "x = torch.ones(1)")
    cell = group.run("print('here', flush=True)\ntime.sleep(600)")
    wait_for(lambda: printed_now(cell) == ["here\n"] * 2)
    began = time.monotonic()
    record = cell.interrupt()
    assert time.monotonic() - began < PATIENCE_S and record.interrupted
    assert [rank.state for rank in cell.poll().ranks] == ["failed", "failed"] and group.is_alive()
    assert all("time.sleep(600)" in text for text in printed(cell, "err"))
    assert printed(ran(group, "dist.all_reduce(x)\nx")) == ["tensor([2.])\n"] * 2


def printed_now(cell):
    with contextlib.suppress(OSError):
        return [(rank.folder / "out").read_text(encoding="utf-8") for rank in cell.poll().ranks]
    return []


def wait_for(condition):
    ends = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.01)


# -- what ends a group --------------------------------------------------------------------------------------------


@needs_fork
@pytest.mark.parametrize("how", ["raise ValueError('bad')", "pass"])
def test_ranks_that_wait_for_one_that_has_finished_are_found_and_the_group_ended(group, how):
    ran(group, INIT + "x = torch.ones(1)")
    cell = ran(group, f"if rank == 1:\n    {how}\nelse:\n    dist.all_reduce(x)")
    last = cell.poll()
    assert last.ended and last.code == 1 and last.ranks[0].code == -signal.SIGKILL
    assert cell.stall.culprits == (1,) and "rank 1 has not called" in notes(cell)
    assert "the next cell starts a new one" in notes(cell)
    assert not group.is_alive() and gone([rank.pid for rank in last.ranks])
    with pytest.raises(LabError, match="this group of ranks has ended"):
        group.run("1")


@needs_fork
def test_ranks_that_are_out_of_step_are_not_used_again(group):
    ran(group, INIT + "x = torch.ones(1)")
    cell = ran(group, "if rank == 0:\n    work = dist.all_reduce(x, async_op=True)")
    assert cell.poll().code == 0 and not group.is_alive()
    assert "out of step: in this cell rank 0 called 1 collective and rank 1 only 0" in notes(cell)


@needs_fork
def test_a_deadlock_is_interrupted_and_everything_is_gone(group):
    ran(group, INIT + "x = torch.ones(1)")
    cell = group.run("print('here', flush=True)\ndist.all_reduce(x) if rank else time.sleep(600)")
    wait_for(lambda: printed_now(cell) == ["here\n"] * 2)
    cell.interrupt()
    assert not group.is_alive() and "could not stop singly" in notes(cell)
    assert gone([rank.pid for rank in cell.poll().ranks])


@needs_fork
def test_a_rank_that_dies_in_a_cell_or_between_cells_is_named(group):
    ran(group, INIT)
    pids = [rank.pid for rank in group.job.poll().ranks]
    os.kill(pids[1], signal.SIGKILL)
    wait_for(lambda: not group.is_alive())
    assert group.fate == "rank 1 was killed by SIGKILL" and gone(pids)


@needs_fork
def test_a_rank_that_kills_itself_in_a_cell_is_named(group):
    cell = ran(group, "import os, time\nif os.environ['RANK'] == '0':\n    os.kill(os.getpid(), 9)\ntime.sleep(600)")
    assert cell.poll().code and cell.poll().ranks[0].code == -signal.SIGKILL
    assert "rank 0 was killed by SIGKILL" in notes(cell)


@needs_fork
def test_a_rank_that_leaves_with_code_0_ends_the_group(group):
    cell = ran(group, "import os, time\nif os.environ['RANK'] == '1':\n    os._exit(0)\ntime.sleep(600)")
    now = cell.poll()
    assert now.code == 1 and now.ranks[1].state == "failed" and now.ranks[1].code == 0
    assert "rank 1 left it by itself, with exit code 0" in notes(cell)
    assert gone([rank.pid for rank in now.ranks])


@needs_fork
def test_a_cell_after_all_ranks_have_left_is_a_failure(group):
    cell = ran(group, "import os\nos._exit(0)")
    assert cell.poll().code == 1 and not group.is_alive()


@needs_fork
def test_a_cell_that_runs_is_not_given_another(group):
    cell = group.run("import time\ntime.sleep(600)")
    with pytest.raises(LabError, match="still runs"):
        group.run("1")
    cell.interrupt()


@needs_fork
def test_an_interrupt_of_the_waiting_kernel_is_raised_again(group):
    ran(group, INIT)
    cell = group.run("print('here', flush=True)\ntime.sleep(600)")
    timer = threading.Timer(0, lambda: (wait_for(lambda: printed_now(cell)), signal.raise_signal(signal.SIGINT)))
    with pytest.raises(KeyboardInterrupt):
        timer.start()
        cell.wait()
    timer.join()
    assert cell.poll().ended


# -- who is in step -----------------------------------------------------------------------------------------------


def call(**known):
    usual = {"group": "0", "pair": False, "setup": False, "raised": False, "way": "", "peer": None}
    return SimpleNamespace(**(usual | known))


def test_calls_are_counted_by_group_and_by_pair():
    send = call(pair=True, way="dst", peer=1)
    receive = call(pair=True, way="src", peer=0)
    assert counts_of([call(), call(), call(group="1"), call(setup=True), call(raised=True)], 0) == {
        "group: 0": 2,
        "group: 1": 1,
    }
    assert counts_of([send], 0) == counts_of([receive], 1) == {"pair: 0 from 0 to 1": 1}


def test_only_members_of_a_group_must_have_called_in_it():
    mine = {"group: 1": (0, 2)}
    assert out_of_step({0: ({"group: 1": 3}, mine), 1: ({}, {}), 2: ({"group: 1": 3}, mine)}, 3) == ""
    told = out_of_step({0: ({"group: 1": 3}, mine), 1: ({}, {}), 2: ({"group: 1": 2}, mine)}, 3)
    assert "rank 0 called 3 collectives and rank 2 only 2" in told
    assert "rank 0 called 1 collective and rank 1 only 0" in out_of_step({0: ({"group: 0": 1}, {}), 1: ({}, {})}, 2)


def test_a_message_that_nobody_took_is_out_of_step():
    sent = {"pair: 0 from 0 to 1": 2}
    assert out_of_step({0: (sent, {}), 1: (sent, {})}, 2) == ""
    assert "rank 0 sent 2 times to rank 1, which took 0" in out_of_step({0: (sent, {}), 1: ({}, {})}, 2)
    anyone = {"pair: 0 from None to 1": 1}
    assert out_of_step({0: ({"pair: 0 from 0 to 1": 1}, {}), 1: (anyone, {})}, 2) == ""


# -- the magic ----------------------------------------------------------------------------------------------------


@pytest.fixture
def no_group(monkeypatch):
    monkeypatch.setattr(ranks_magic, "_group", None)
    monkeypatch.setattr(ranks_magic, "_last", None)


@pytest.mark.parametrize(
    "line, told",
    [
        ("", "no group of ranks is alive"),
        ("--nproc 2 --cold", "cannot take this flag"),
        ("--nproc 2 --kill rank=1", "cannot take this flag"),
        ("--nproc 2 --max-restarts 1", "cannot restart"),
        ("--nproc two words", "is not a flag"),
    ],
)
def test_what_the_line_cannot_say(no_group, line, told):
    with pytest.raises(UsageError, match=told):
        ranks_magic.ranks(line, "1\n", SimpleNamespace(user_ns={}))


def test_without_a_group_status_and_end_say_so(no_group, capsys):
    ranks_magic.ranks("--status", None, None)
    ranks_magic.ranks("--end", "", None)
    said = capsys.readouterr().out
    assert "%%ranks --nproc 4 starts one" in said and "No group of ranks is alive." in said
    with pytest.raises(UsageError, match="there is none"):
        ranks_magic.ranks("--nproc 2", None, None)


def test_flags_of_another_group_are_refused(no_group, monkeypatch):
    monkeypatch.setattr(ranks_magic, "_group", SimpleNamespace(is_alive=lambda: True))
    from labsupport.torchrun.options import parse

    monkeypatch.setattr(ranks_magic, "_last", parse("--nproc 2"))
    ranks_magic._check_options(parse("--nproc 2"))
    ranks_magic._check_options(parse("--return x"))
    for line in ("--nproc 4", "--env A=1", "--timeout 5"):
        with pytest.raises(UsageError, match="group"):
            ranks_magic._check_options(parse(line))


@pytest.fixture(scope="module")
def kernel():
    from test_magic import Kernel

    kernel = Kernel()
    kernel.run("%load_ext labsupport.torchrun")
    yield kernel
    kernel.close()


@needs_fork
def test_in_a_notebook(kernel):
    first = kernel.run("%%ranks --nproc 2\n" + INIT + "x = torch.ones(2) * rank\nprint('hello', rank)")
    assert not first.errors and "hello 0" in first.shown[-1][1] and "hello 1" in first.shown[-1][1]
    kernel.run("K = 3\ndef scaled(t):\n    return t * K")
    second = kernel.run("%%ranks --push scaled,K --return y@all\ndist.all_reduce(x)\ny = scaled(x).tolist()")
    assert not second.errors, second.errors
    assert kernel.run("print(y)").printed == "[[3.0, 3.0], [3.0, 3.0]]\n"
    failed = kernel.run("%%ranks\nif rank == 1:\n    raise ValueError('bad batch')\ndist.all_reduce(x)")
    assert failed.errors[0][0] == "RanksFailed"
    last = failed.shown[-1][1]
    assert "bad batch" in last and "The group of ranks has ended" in last and "the next cell starts a new one" in last
    after = kernel.run("%%ranks\nimport os\nprint(sorted(n for n in globals() if n == 'x'), os.environ['WORLD_SIZE'])")
    assert (
        not after.errors and "[] 2" in after.shown[-1][1] and "A new group of ranks was started" in after.shown[-1][1]
    )
    assert "2 ranks is alive" in kernel.run("%ranks --status").printed
    ended = kernel.run("%%ranks --end")
    assert not ended.errors and "The group of 2 ranks has ended." in ended.printed


@needs_fork
def test_a_killed_kernel_leaves_no_rank():
    from test_magic import Kernel

    kernel = Kernel()
    try:
        kernel.run("%load_ext labsupport.torchrun")
        kernel.run("%%ranks --nproc 2\n" + INIT)
        known = "from labsupport.torchrun import ranks_magic as m; print([r.pid for r in m._group.job.poll().ranks])"
        pids = [int(word.strip("[], ")) for word in kernel.run(known).printed.split()]
        assert len(pids) == 2 and all(map(is_there, pids))
    finally:
        kernel.close()  # by SIGKILL
    assert gone(pids)


def test_the_words_of_a_death():
    def died(*codes):
        events = [{"event": "rank ended", "rank": rank, "code": code, "asked": asked, "t": rank}
                  for rank, (code, asked) in enumerate(codes)]  # fmt: skip
        return holding._death(SimpleNamespace(events=events))

    assert died((-15, True), (-9, False)) == "rank 1 was killed by SIGKILL"
    assert died((7, False), (-15, True)) == "rank 0 ended with exit code 7"
    assert died() == "its ranks have ended"
