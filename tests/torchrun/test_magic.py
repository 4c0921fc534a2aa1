"""`%%torchrun` from the line to the last picture: with a job that is played here, and in a real kernel."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from labsupport.errors import LabError, UsageError
from labsupport.places import ROOT
from labsupport.torchrun import Request, cells, magic, running
from labsupport.torchrun.running import Interrupted, RanksFailed
from labsupport.torchrun.view import as_text


class Played:
    """A job that goes through given moments, one for each poll; a moment is a function that may raise."""

    def __init__(self, folder, moments, code=0):
        self.folder, self._moments, self._code = folder, list(moments), code
        self.request, self.record, self.calls = None, SimpleNamespace(report=None), []
        self.began = time.monotonic()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.calls.append("close")

    def rank(self, rank, out="", state="running", code=None, error=None):
        folder = self.folder / "attempt-0" / f"rank-{rank}"
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "out").open("a", encoding="utf-8") as file:
            file.write(out)
        (folder / "err").touch()
        if error:
            (folder / "error.json").write_text(json.dumps(error), encoding="utf-8")
        return SimpleNamespace(
            rank=rank, local_rank=rank, node=0, attempt=0, world=2, state=state, pid=1, socket=None, folder=folder,
            code=code,
        )  # fmt: skip

    def poll(self):
        moment = self._moments.pop(0)
        ranks = moment(self)
        ended = not self._moments
        return SimpleNamespace(
            ranks=tuple(ranks), earlier=(), events=(), ended=ended, code=self._code if ended else None
        )

    def stacks(self):
        return {}

    def wait(self):
        self.calls.append("wait")
        return self.record

    def interrupt(self):
        self.calls.append("interrupt")
        return self.record


class Screen:
    """Keeps what was shown."""

    def __init__(self):
        self.pictures, self.added = [], []

    def show(self, picture, final=False):
        self.pictures.append((final, as_text(picture)))

    def add(self, thing, name=""):
        self.added.append((name, thing))

    @property
    def last(self):
        return self.pictures[-1][1]


@pytest.fixture
def stage(monkeypatch, tmp_path):
    """Run a line and a cell against a played job: stage.run(line, cell)."""
    from labsupport.torchrun import helper, job

    here = SimpleNamespace(screen=Screen(), job=None, requests=[], shell=SimpleNamespace(user_ns={}), folder=tmp_path)

    def launch(request):
        here.requests.append(request)
        here.job.request = request
        return here.job

    monkeypatch.setattr(job, "launch", launch)
    monkeypatch.setattr(helper, "state", lambda: "ready")
    monkeypatch.setattr(running, "screen_of", lambda shell: here.screen)
    monkeypatch.setattr(running, "SHOW_S", 0.0)
    here.play = lambda *moments, code=0: setattr(here, "job", Played(tmp_path, moments, code))
    here.run = lambda line, cell="pass\n": magic.torchrun(line, cell, here.shell)
    cells.forget()
    return here


def both(**given):
    return lambda job: [job.rank(rank, **given) for rank in (0, 1)]


# -- what is asked for ---------------------------------------------------------------------------------------------


def test_the_line_becomes_a_request(stage):
    stage.play(both(state="done", code=0))
    stage.run("--nproc 2 --cold --env A=b --timeout 9 --keep --kill rank=1@step=3 -- --lr 1", "x = 1\n")
    (request,) = stage.requests
    assert request == Request(
        source="# %%torchrun --nproc 2 --cold --env A=b --timeout 9 --keep --kill rank=1@step=3 -- --lr 1\nx = 1\n",
        flags=("--nproc-per-node", "2"),
        arguments=("--lr", "1"),
        mode="cold",
        env={"A": "b"},
        kills=("rank=1@step=3",),
        timeout_s=9.0,
        keep=True,
    )


def test_a_name_of_the_notebook_is_pushed(stage):
    stage.shell.user_ns["rate"] = 0.5
    stage.play(both(state="done", code=0))
    stage.run("--push rate", "print(rate)\n")
    assert stage.requests[0].pushed
    with pytest.raises(LabError, match="rat"):
        stage.run("--push rat", "print(rat)\n")


@pytest.mark.parametrize(
    "cell, said",
    [("x = = 1\n", "line 2 is not Python"), ("y = 1\n%time f()\n", "the notebook's"), ("def f(:\n", "line 2")],
)
def test_a_cell_that_is_no_python_starts_nothing(stage, cell, said):
    with pytest.raises(UsageError) as caught:
        stage.run("--nproc 2", cell)
    assert said in str(caught.value)
    assert stage.requests == []


def test_show_runs_nothing_and_tells_the_command(stage, capsys):
    stage.run("--nproc 2 --show --return x")
    said = capsys.readouterr().out
    assert "torchrun --standalone --nproc-per-node 2 train.py" in said
    assert "nothing was run" in said and "--return" in said
    assert stage.requests == []


def test_save_writes_the_cell_and_runs_it(stage, tmp_path):
    stage.play(both(state="done", code=0))
    stage.run(f"--nproc 2 --save {tmp_path / 'train.py'}", "x = 1\n")
    assert "\nx = 1\n" in (tmp_path / "train.py").read_text(encoding="utf-8")
    assert len(stage.requests) == 1
    assert "saved as" in stage.screen.last


def test_help_runs_nothing(stage, capsys):
    stage.run("--help", "")
    assert "--stop-when-stuck" in capsys.readouterr().out
    with pytest.raises(UsageError, match="the cell is empty"):
        stage.run("--nproc 2", "\n")
    assert stage.requests == []


# -- what is shown -------------------------------------------------------------------------------------------------


def test_output_is_shown_while_the_job_runs_and_once_more_at_its_end(stage):
    stage.play(both(out="a\n"), lambda job: [job.rank(0, out="b\n"), job.rank(1)], both(out="", state="done", code=0))
    stage.run("--nproc 2")
    finals = [text for final, text in stage.screen.pictures if final]
    lives = [text for final, text in stage.screen.pictures if not final]
    assert "ranks 0, 1: a" in lives[0]
    assert len(finals) == 1
    assert finals[0].splitlines()[1:] == ["rank 0:", "    a", "    b", "rank 1: a"]
    assert stage.job.calls == ["wait", "close"]


def test_the_helper_that_starts_is_told_of(stage, monkeypatch):
    from labsupport.torchrun import helper

    monkeypatch.setattr(helper, "state", lambda: "starting")
    stage.play(both(state="done", code=0))
    stage.run("--nproc 2")
    assert "once per notebook" in stage.screen.pictures[0][1]
    assert "helper" not in stage.screen.last


def test_a_failure_is_shown_once_and_raises_one_line(stage):
    error = {
        "type": "ValueError",
        "message": "bad batch",
        "lineno": 7,
        "line": "f()",
        "full": "",
        "traceback": "",
        "bases": [],
    }
    stage.play(both(), lambda job: [job.rank(0, state="failed", code=1, error=error), job.rank(1)], code=1)
    with pytest.raises(RanksFailed) as caught:
        stage.run("--nproc 2")
    assert "rank 0" in str(caught.value) and "ValueError" in str(caught.value)
    assert len(caught.value._render_traceback_()) == 1
    assert "bad batch" in stage.screen.last
    assert stage.job.record.report is not None


def test_may_fail_shows_the_failure_and_raises_nothing(stage):
    stage.play(both(state="failed", code=7), code=7)
    stage.run("--nproc 2 --may-fail")
    assert "failed after" in stage.screen.last


def test_a_diagnosis_that_breaks_is_replaced_by_a_short_one(stage, monkeypatch):
    diagnosis = pytest.importorskip("labsupport.torchrun.diagnosis")
    monkeypatch.setattr(diagnosis, "diagnose", lambda *_, **__: 1 / 0)
    stage.play(both(state="failed", code=7), code=7)
    with pytest.raises(RanksFailed, match="exit code 7"):
        stage.run("--nproc 2")


def test_an_interrupt_ends_the_job_and_leaves_no_traceback(stage):
    def interrupted(job):
        if not job.calls:
            job.calls.append("signal")
            job._moments.insert(0, both())
            raise KeyboardInterrupt
        return []

    stage.play(both(out="a\n"), interrupted, both())
    with pytest.raises(KeyboardInterrupt) as caught:
        stage.run("--nproc 2")
    assert isinstance(caught.value, Interrupted)
    assert len(caught.value._render_traceback_()) == 1
    assert stage.job.calls == ["signal", "interrupt", "close"]
    assert "interrupted after" in stage.screen.last and "ranks 0, 1: a" in stage.screen.last


def test_an_interrupt_while_the_helper_starts_is_tidy(stage, monkeypatch):
    from labsupport.torchrun import job

    def launch(request):
        raise KeyboardInterrupt

    monkeypatch.setattr(job, "launch", launch)
    with pytest.raises(Interrupted):
        stage.run("--nproc 2")
    assert stage.screen.last == "interrupted before any rank ran"


def test_an_interrupt_between_two_steps_of_ours_is_tidy():
    with pytest.raises(Interrupted), magic._tidy():
        raise KeyboardInterrupt


def test_what_was_waited_for_is_told_in_the_past():
    from labsupport.torchrun.telling import _past

    said = "rank 1 has not called collective 2 (all_reduce [7]); rank 0 waits in it at line 8; rank 1 is at line 9"
    told = "rank 1 had not called collective 2 (all_reduce [7]); rank 0 waited in it at line 8; rank 1 was at line 9"
    assert _past(said) == told
    assert _past("ranks 0, 1 wait in it; rank 2 has ended") == "ranks 0, 1 waited in it; rank 2 had ended"


def test_leaving_a_job_is_not_interrupted():
    left = []

    class Job:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            signal.raise_signal(signal.SIGINT)
            left.append("whole")

    before = signal.getsignal(signal.SIGINT)
    with running.left_whole(Job()):
        pass
    assert left == ["whole"] and signal.getsignal(signal.SIGINT) == before


def test_values_that_do_not_come_back_are_told(stage):
    stage.play(both(state="failed", code=7), code=7)
    stage.shell.user_ns["x"] = 1
    stage.run("--nproc 2 --return x,y@all --may-fail")
    assert "`x`, `y` did not come back" in stage.screen.last and "keeps the value it had" in stage.screen.last


def ended_by(code, *events, log="", folder=None):
    from labsupport.torchrun.agents import agent_report

    if folder is not None:
        (folder / "agent.log").write_text(log, encoding="utf-8")
    report = agent_report(SimpleNamespace(folder=folder), SimpleNamespace(code=code, events=events))
    return report and report.text()


def test_an_agent_that_is_gone_or_gave_up_is_told(tmp_path):
    assert "torchrun's agent was killed by SIGKILL" in ended_by(-9)
    assert ended_by(-9, {"event": "rank ended", "rank": 0, "code": -9, "attempt": 0}) is None
    assert "agent of node 1 was killed" in ended_by(137, {"event": "node ended", "node": 1, "code": -9})
    asked = {"event": "kill", "what": "node=1@step=1", "rank": 2, "node": 1}
    assert ended_by(137, asked, {"event": "node ended", "node": 1, "code": -9}) is None
    log = "Traceback (most recent call last):\n  File x\nOverflowError: port must be 0-65535.\n"
    assert "exit code 70: OverflowError: port" in ended_by(70, log=log, folder=tmp_path)
    note = {"event": "note", "text": "the agent of node 0 failed: ValueError: 0"}
    assert "node 0 failed: ValueError: 0" in ended_by(70, note)


def test_a_screen_that_breaks_does_not_leave_a_job_behind(stage):
    stage.screen.show = lambda *_, **__: 1 / 0
    stage.play(both(out="a\n"), both(), both(state="done", code=0))
    with pytest.raises(ZeroDivisionError):
        stage.run("--nproc 2")
    assert stage.job.calls[-1] == "close"


# -- exercises -----------------------------------------------------------------------------------------------------

CELL = "# exercise: collectives/ring-all-reduce\ndef ring(x):\n    raise NotImplementedError\nring(1)\n"
UNWRITTEN = {"type": "NotImplementedError", "message": "", "lineno": 4, "line": "", "full": "", "bases": []}


def test_an_exercise_not_written_yet_is_calm_and_its_text_is_kept(stage):
    stage.play(both(state="failed", code=1, error=UNWRITTEN), code=1)
    stage.run("--nproc 2", CELL)
    assert stage.screen.last.startswith("not yet   collectives/ring-all-reduce")
    assert "line 4" in stage.screen.last
    assert cells.recall("collectives/ring-all-reduce") == CELL


def test_a_rank_that_lost_its_peer_meanwhile_does_not_make_it_a_failure(stage):
    lost = UNWRITTEN | {"type": "RuntimeError", "message": "[gloo/transport/tcp/pair.cc:553] Connection closed by peer"}
    errors = (UNWRITTEN, lost)
    stage.play(lambda job: [job.rank(i, state="failed", code=1, error=errors[i]) for i in (0, 1)], code=1)
    stage.run("--nproc 2", CELL)
    assert stage.screen.last.startswith("not yet")


def test_another_error_beside_it_is_a_failure(stage):
    mine = UNWRITTEN | {"type": "TypeError", "message": "no"}
    errors = (UNWRITTEN, mine)
    stage.play(lambda job: [job.rank(i, state="failed", code=1, error=errors[i]) for i in (0, 1)], code=1)
    with pytest.raises(RanksFailed):
        stage.run("--nproc 2", CELL)


def test_without_a_marker_not_implemented_is_a_failure(stage):
    stage.play(both(state="failed", code=1, error=UNWRITTEN), code=1)
    with pytest.raises(RanksFailed):
        stage.run("--nproc 2", "raise NotImplementedError\n")


def test_an_exercise_is_kept_even_when_the_cell_cannot_be_read(stage):
    with pytest.raises(UsageError):
        stage.run("--nproc 2", "# exercise: collectives/ring-all-reduce\nx = = 1\n")
    assert "x = = 1" in cells.recall("collectives/ring-all-reduce")


# -- in a real kernel ----------------------------------------------------------------------------------------------

HEAD = "import os, sys, time, torch, torch.distributed as dist\ndist.init_process_group()\nrank = dist.get_rank()\n"


class Kernel:
    """A real kernel with the extension loaded."""

    def __init__(self):
        from jupyter_client.manager import start_new_kernel

        self.manager, self.client = start_new_kernel()

    def run(self, code, guard_s=180):
        """Run a cell; returns (displays as [(seconds, text, HTML)], errors as [(name, value, traceback)], printed)."""
        began, shown, errors, printed = time.monotonic(), [], [], []

        def take(message):
            content, kind = message["content"], message["msg_type"]
            if kind in ("display_data", "update_display_data"):
                data = content["data"]
                shown.append((time.monotonic() - began, data.get("text/plain", ""), data.get("text/html", "")))
            elif kind == "error":
                errors.append((content["ename"], content["evalue"], content["traceback"]))
            elif kind == "stream":
                printed.append(content["text"])

        self.client.execute_interactive(code, output_hook=take, timeout=guard_s)
        return SimpleNamespace(shown=shown, errors=errors, printed="".join(printed), s=time.monotonic() - began)

    def close(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


@pytest.fixture(scope="module")
def kernel():
    kernel = Kernel()
    kernel.run("%load_ext labsupport.torchrun")
    kernel.run("%%torchrun\npass")  # the helper has started
    yield kernel
    kernel.close()


def test_loading_the_extension_imports_no_torch_into_the_kernel(kernel):
    assert kernel.run("import sys; print('torch' in sys.modules)").printed.strip() == "False"


def test_help_can_stand_alone_in_a_cell(kernel):
    assert "--stop-when-stuck" in kernel.run("%%torchrun --help").printed


def test_one_output_is_updated_until_it_holds_the_end(kernel):
    ran = kernel.run(f"%%torchrun --nproc 2\n{HEAD}x = torch.ones(1) * rank\ndist.all_reduce(x)\nprint(x.item())")
    assert ran.errors == []
    assert ran.shown[-1][1].splitlines()[1:] == ["ranks 0, 1: 1.0"]
    assert "1.0" in ran.shown[-1][2]


def test_what_is_printed_is_there_before_the_job_has_ended(kernel):
    ran = kernel.run("%%torchrun --nproc 2\nimport time\nprint('early')\ntime.sleep(1.5)\nprint('late')")
    first = next(text for _, text, _ in ran.shown if "early" in text)
    assert "late" not in first and "running" in first


def test_output_from_below_python_is_shown_too(kernel):
    ran = kernel.run("%%torchrun --nproc 2\nimport os\nos.write(1, b'from C\\n')\nos.system('echo from a shell')")
    assert "from C" in ran.shown[-1][1] and "from a shell" in ran.shown[-1][1]


def test_lines_are_those_of_the_cell(kernel):
    ran = kernel.run(f"%%torchrun --nproc 2\n{HEAD}\nif rank == 1:\n    raise ValueError('bad batch')\ndist.barrier()")
    ((name, _, traceback),) = ran.errors
    assert name == "RanksFailed" and len(traceback) == 1
    assert "rank 1" in ran.shown[-1][1] and "line 7" in ran.shown[-1][1] and "bad batch" in ran.shown[-1][1]


def test_an_interrupt_in_a_deadlock_leaves_a_normal_kernel(kernel):
    threading.Timer(2.0, kernel.manager.interrupt_kernel).start()
    ran = kernel.run(f"%%torchrun --nproc 2\n{HEAD}\nif rank:\n    time.sleep(1000)\ndist.barrier()")
    ((name, _, traceback),) = ran.errors
    assert name == "Interrupted" and len(traceback) == 1
    assert "rank 0  waited in barrier" in ran.shown[-1][1] and "rank 1  was at line 7" in ran.shown[-1][1]
    threading.Timer(0.5, kernel.manager.interrupt_kernel).start()
    assert kernel.run("import time; time.sleep(60)").errors[0][0] == "KeyboardInterrupt"
    assert kernel.run("print(1 + 1)").printed == "2\n"


def test_who_waits_for_whom_is_told_while_the_job_runs(kernel):
    program = f"%%torchrun --nproc 2\n{HEAD}\nif rank:\n    time.sleep(6)\ndist.barrier()\nprint('all here')"
    ran = kernel.run(program)
    assert any("rank 1 has not called" in text and "may still go on" in text for _, text, _ in ran.shown)
    assert "ranks 0, 1: all here" in ran.shown[-1][1] and "not called" not in ran.shown[-1][1]


def test_a_job_that_is_stuck_for_ever_can_be_ended_by_itself(kernel):
    program = f"{HEAD}\nx = torch.ones(1)\nif rank:\n    dist.recv(x, src=0)\nelse:\n    dist.barrier()"
    ran = kernel.run(f"%%torchrun --nproc 2 --stop-when-stuck --may-fail\n{program}")
    assert ran.errors == []
    assert "nobody could go on" in ran.shown[-1][1] and "recv" in ran.shown[-1][1]


def test_calls_that_do_not_fit_end_the_job_by_themselves(kernel):
    program = f"{HEAD}\nx = torch.ones(7)\nif rank:\n    dist.broadcast(x, src=0)\nelse:\n    dist.all_reduce(x)"
    ran = kernel.run(f"%%torchrun --nproc 2\n{program}")
    assert ran.errors[0][0] == "RanksFailed"
    assert "different operations" in ran.shown[-1][1]
    assert "lesson 15" in ran.shown[-1][1]
    assert "line 8" in ran.shown[-1][1] and "line 10" in ran.shown[-1][1]


def test_what_torchrun_refuses_is_told_in_its_words(kernel):
    ran = kernel.run("%%torchrun --nproc four\npass")
    assert "nproc_per_node value: four" in "".join(ran.errors[0][2])
    assert "Traceback" not in "".join(ran.errors[0][2])


def test_values_come_back_and_refusals_name_them(kernel):
    ran = kernel.run("%%torchrun --nproc 2 --return a,b\na = [1.5, 2]\nb = object()")
    assert "b" in "".join(ran.errors[0][2])
    assert kernel.run("print(a)").printed == "[1.5, 2]\n"


def test_in_a_terminal_everything_is_lines(tmp_path):
    program = (
        "get_ipython().run_line_magic('load_ext', 'labsupport.torchrun')\n"
        "get_ipython().run_cell_magic('torchrun', '--nproc 2', 'import os\\nprint(6 * 7)\\nraise SystemExit(3)')"
    )
    done = subprocess.run(
        [sys.executable, "-m", "IPython", "--simple-prompt", "--no-confirm-exit", "--colors=NoColor", "-c", program],
        capture_output=True, text=True, timeout=180, env=os.environ | {"IPYTHONDIR": str(tmp_path)},
    )  # fmt: skip
    assert "ranks 0, 1: 42" in done.stdout, done.stderr
    assert "exit code 3" in done.stdout
    assert "<div" not in done.stdout and "Traceback (most recent call last)" not in done.stdout


# -- the page about it ---------------------------------------------------------------------------------------------

PAGE = (ROOT / "docs" / "torchrun.md").read_text(encoding="utf-8")


def test_the_page_lists_every_flag():
    from labsupport.torchrun.options import OWN

    listed = [row.split("`")[1].split(" ")[0] for row in PAGE.splitlines() if row.startswith("| `--")]
    assert listed == list(OWN)


def test_every_cell_of_the_page_does_what_it_says(kernel):
    blocks = re.findall(r"```python( raises)?\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) >= 9
    for raises, source in blocks:
        ran = kernel.run(source)
        assert [name for name, _, _ in ran.errors] == (["RanksFailed"] if raises else []), source
