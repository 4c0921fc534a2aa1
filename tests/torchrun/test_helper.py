"""The helper: started beside the kernel, told apart from other kernels', gone with its own."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from engine import WITHIN_S, needs_fork, of_token, own_environment, run, until

from labsupport.errors import LabError
from labsupport.torchrun import helper, hosting, preloading, scratch, tagging

pytestmark = needs_fork


@pytest.fixture
def no_helper():
    helper.stop()
    yield
    helper.stop()


def test_it_starts_in_the_background_and_is_one(no_helper):
    assert helper.state() == "off"
    helper.start()
    assert helper.state() in ("starting", "ready")
    helper.start()
    first = helper.warm(WITHIN_S)
    assert helper.state() == "ready"
    assert helper.warm() is first
    helper.stop()
    assert helper.state() == "off"
    until(lambda: not of_token(first.token), "its end")


def test_a_helper_that_cannot_start_is_told_and_the_job_runs_cold(no_helper, monkeypatch):
    monkeypatch.setattr(helper, "ROOT", Path(tempfile.gettempdir()))  # where there is no labsupport
    with pytest.raises(LabError) as told:
        helper.warm(WITHIN_S)
    assert "labsupport" in told.value.why
    assert helper.state() == "failed"
    outcome = run("print('here')", "--nproc", "1")
    assert outcome.record.mode == "cold"
    assert outcome.out() == "here\n"
    assert any("the helper did not start" in e.get("text", "") for e in outcome.events)


def test_a_process_forked_from_the_kernel_leaves_the_helper_alone():
    first = helper.warm(WITHIN_S)
    folder = scratch.root()
    pid = os.fork()
    if pid == 0:
        ok = helper.state() == "off"
        helper._at_exit()
        os._exit(0 if ok else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert first.alive()
    assert folder.is_dir()


def test_it_looks_for_packages_where_the_kernel_does(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "path", ["", *sys.path, tmp_path])
    monkeypatch.chdir(tmp_path)
    known = preloading.search_path()
    assert known[0] == str(tmp_path)
    assert known[-1] == str(tmp_path)
    assert all(type(entry) is str for entry in known)
    assert preloading.PATH_VARIABLE


ZYGOTE = """
import os, sys, time
from labsupport.processes.zygote import Zygote
zygote = Zygote((), path=[sys.argv[1]], scratch=sys.argv[2]).start()
child = os.fork() if sys.argv[3] == "fork" else None
if child == 0:
    time.sleep(1000)
print(zygote.pid, child or 0, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("how", ["alone", "fork"])
def test_it_goes_at_once_with_its_parent_and_removes_the_folder(tmp_path, how):
    folder = tmp_path / "scratch"
    (folder / "1").mkdir(parents=True)
    parent = subprocess.Popen(
        [sys.executable, "-c", ZYGOTE, str(hosting.ROOT), str(folder), how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=own_environment(),
    )
    _, child = (int(text) for text in parent.stdout.readline().split())
    parent.kill()
    parent.wait()
    try:
        until(lambda: not folder.exists(), "the end of the folder")
    finally:
        if child:  # it holds the other end of the helper's socket
            os.kill(child, 9)
        parent.stdin.close()
        parent.stdout.close()


def test_a_name_in_the_users_folder_takes_no_place_of_ours(tmp_path, monkeypatch):
    (tmp_path / "json.py").write_text("raise RuntimeError('mine')\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    told = []
    host = hosting.Host(
        [*hosting.interpreter("spawned_rank")], hosting.environment("none"), tagging.new_token(), told.append
    )
    host.say(close=True)
    host.close(30)
    assert host.process.returncode == 0
