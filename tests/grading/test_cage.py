"""The layers of a cage: each holds when tried, a missing or lying one is noticed, the report names the tier."""

import os
import subprocess
import sys
from dataclasses import replace

import pytest
from caged import call, load, needs_linux, opened

from labsupport import places
from labsupport.grading.allowance import JOB
from labsupport.grading.errors import CannotRunHere, GradingImpossible
from labsupport.grading.tiers import LAYERS, TierReport, missing

pytestmark = needs_linux


def test_every_layer_says_ok_and_is_part_of_the_report(runner):
    assert missing(runner.report.tier, runner.report.layers) == {}
    with runner.child() as child:
        assert set(LAYERS[runner.report.tier]) <= set(child.layers)


def test_a_layer_left_out_is_missed_and_nothing_is_sent(runner, monkeypatch):
    from labsupport.grading.wire import Channel

    sent = []
    monkeypatch.setattr(Channel, "send", lambda self, *args, **options: sent.append(args))
    for layer in LAYERS[runner.report.tier]:
        monkeypatch.setattr(runner, "_without", (layer,))
        with pytest.raises(GradingImpossible) as refusal:
            runner.child()
        assert refusal.value.exit_code not in (0, 1, 2), layer
    assert not sent


LIES = {
    "kernel": {
        "seccomp": ("def load_filter(program):", "    return"),
        "landlock": ("def landlock_restrict(attributes, rules):", "    return"),
        "no new privileges": ("def no_new_privileges():", "    return"),
        "capabilities": ("def drop_capabilities():", "    return"),
        "files": ("def pivot_root(new_root):", "    return"),
    },
    "limits": {"limits": ("def _set(which, value):", '    return "ok"')},
}


@pytest.mark.parametrize("module, layer", [(module, layer) for module in LIES for layer in LIES[module]])
def test_a_layer_that_fails_silently_is_tried_and_noticed(runner, monkeypatch, module, layer):
    """A copy of our code in which one layer does nothing and says it did."""
    from labsupport.grading import runner as running
    from labsupport.grading.runtime import Runtime

    head, body = LIES[module][layer]

    class Lying(Runtime):
        def __init__(self):
            super().__init__()
            file = self.code / "labsupport" / "processes" / f"{module}.py"
            text = file.read_text(encoding="utf-8")
            assert head in text
            file.write_text(text.replace(head, f"{head}\n{body}\n"), encoding="utf-8")

    if layer in ("files", "capabilities") and runner.report.tier == "B":
        pytest.skip("without namespaces there is nothing to pivot; who is no root has no capabilities")
    monkeypatch.setattr(running, "Runtime", Lying)
    with pytest.raises(GradingImpossible) as refusal, running.Runner(runner.report.tier):
        pass
    assert layer in refusal.value.why or "self-test" in refusal.value.why or "seccomp" in refusal.value.why


def test_what_each_tier_cannot_do_without():
    told = dict.fromkeys(LAYERS["A"], "ok")
    assert missing("A", told) == {}
    assert missing("A", {**told, "landlock": "absent from this kernel"}) == {}
    assert missing("A", {**told, "landlock": "landlock_add_rule: Invalid argument (EINVAL)"})
    assert missing("A", {**told, "memory group": "[Errno 19] No such device"})
    assert missing("B", {**dict.fromkeys(LAYERS["B"], "ok"), "landlock": "absent from this kernel"})
    assert missing("B", {}).keys() == set(LAYERS["B"])


def test_an_old_landlock_is_no_fence(monkeypatch):
    from labsupport.grading import cage, landlock

    monkeypatch.setattr(landlock, "version", lambda: 4)
    assert "needs 6" in cage._landlock({"tier": "B"})


def test_files_get_only_the_rights_that_fit_files():
    """A folder's rights on a file are refused as a whole (EINVAL): such a layer would fail and say nothing."""
    from labsupport.grading import landlock

    known = landlock._known(7)
    ((fd, access),) = landlock._rule(__file__, known, known)
    os.close(fd)
    assert access & landlock._READ_FILE
    assert not access & (landlock._READ_DIR | landlock._MAKING | landlock._REFER)


def test_a_job_needs_a_cage_and_a_group_that_counts_its_memory(runner, monkeypatch):
    if runner.report.tier == "A":
        notes = {**runner.report.notes, "memory group": "/sys/fs/cgroup: Permission denied"}
        monkeypatch.setattr(runner, "report", replace(runner.report, notes=notes))
    with pytest.raises(CannotRunHere, match="processes") as refusal:
        runner.child(JOB)
    assert "tier A" in refusal.value.why or "Permission denied" in refusal.value.why


FORBIDDING = """
import errno, sys
import pyseccomp
from labsupport.processes import kernel
kernel.no_new_privileges()
refusal = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
for name in sys.argv[1:]:
    refusal.add_rule(pyseccomp.ERRNO(errno.EPERM), name)
refusal.load()
from labsupport.grading.runner import GradingImpossible, Runner
try:
    Runner().__enter__()
except GradingImpossible as error:
    print(error.report)
    print(error.exit_code, error.report.tier)
with Runner(allow_fenced=True) as runner, runner.child() as child:
    print(runner.report.tier, child.layers["seccomp"])
"""


@pytest.mark.parametrize("call_name", ["unshare", "mount", "pivot_root"])
def test_where_namespaces_are_refused_the_report_names_tier_b_and_the_errno(call_name):
    done = subprocess.run(
        [sys.executable, "-c", FORBIDDING, call_name], capture_output=True, text=True, check=True, cwd=places.ROOT
    )
    first, refusal, fenced = done.stdout.splitlines()
    assert first.startswith("tier B (fenced) because ")
    assert f"{call_name}: Operation not permitted" in first
    assert "(EPERM)" in first
    assert refusal == "3 B"
    assert fenced == "B ok"


def test_a_tier_in_one_line():
    assert str(TierReport("A", reasons=("x",))) == "tier A (caged)"
    assert str(TierReport("B", reasons=("x: y (EPERM)", "z"))) == "tier B (fenced) because x: y (EPERM); z"
    assert str(TierReport("C", reasons=("cages need Linux",))) == "tier C (open) because cages need Linux"


def test_in_the_open_nothing_is_graded():
    from labsupport.grading.runner import Runner

    with Runner("C") as runner, runner.child() as child:
        assert runner.report.tier == "C"
        load(child, "import os\ndef f(pid):\n    os.kill(pid, 0)\n")
        assert "signals" in call(child, os.getpid())["raised"]["message"]  # no accident reaches other processes


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="as root only; others get this anyway")
def test_who_is_not_root_makes_a_user_namespace_first(monkeypatch):
    """The same cage when the right to make namespaces comes from a user namespace, as for everybody who is not root."""
    from labsupport.grading import runner as running

    monkeypatch.setattr(running.Runner, "_candidates", lambda self: [("A", "user")])
    with opened("A") as runner:
        assert runner.report.notes["namespaces by"] == "user"
        with runner.child() as child:
            load(
                child,
                "import os\ndef f():\n    row = open('/proc/self/uid_map').read().split()\n"
                "    return os.getuid(), os.listdir('/tmp'), row\n",
            )
            uid, files, row = call(child)["value"]
        assert (uid, files, row[2]) == (1000, [], "1")
