"""The probe of rank exercises: what answers do on real ranks, however they end, and that nothing of it stays."""

import signal
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest
from rank_course import MEAN, SETUP, exercise_of, per_rank, whole

from labsupport.answering import source_of
from labsupport.comparing import compare
from labsupport.course import Case, Outcome
from labsupport.describing import describe
from labsupport.observing import observe_subject, verdict_on
from labsupport.probing import Subject, ranks_live

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere ranks are programs and take long to start")


def subject(answer, name="f"):
    return Subject((name,), {}, source_of(answer, name), SETUP)


def observed(body, *, cases=None, call_s=5.0, world=2, args=None, **options):
    """Return the observation of `def f(x)` with this body on the first case."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    args = args or (lambda rng: (rng.random(3),))
    exercise = exercise_of("", cases=cases or (Case("one", per_rank(world, args)),), call_s=call_s, **options)
    return observe_subject(exercise, Subject(("f",), {}, f"def f(x):\n{lines}", SETUP))[0]


def verdict(answer, exercise=MEAN):
    return verdict_on(exercise, subject(answer, exercise.names[0]))


# -- values -----------------------------------------------------------------------------------------------------------


def test_a_right_answer_passes_and_gets_its_arguments_as_tensors_of_the_same_layout():
    assert verdict(MEAN.reference).outcome is Outcome.PASSED
    seen = observed("return [type(x).__name__, str(x.dtype), x.stride(), x.is_contiguous()]", args=_column)
    assert seen.value["rank 1"] == ["Tensor", "torch.float32", (3,), False]


def _column(rng):
    return (rng.random((4, 3)).astype("f4")[:, 1],)


def test_results_become_plain_data():
    body = (
        "import collections\n"
        "state = collections.OrderedDict(w=torch.nn.Parameter(torch.ones(2)))\n"
        "return {'state': state, 'n': 3, 'b': torch.ones(1, dtype=torch.bfloat16), 'shape': x.shape, 'own': object()}"
    )
    value = observed(body).value["rank 0"]
    assert value["state"]["w"].tolist() == [1.0, 1.0] and value["n"] == 3 and value["shape"] == (3,)
    assert value["b"]["bfloat16"].tolist() == [1.0] and value["own"].type_name == "object"


def test_each_case_has_a_group_a_folder_and_random_numbers_of_its_own():
    body = (
        "import pathlib, random\n"
        "found = [p.name for p in pathlib.Path().iterdir()]\n"
        "dist.barrier()\n"
        "pathlib.Path(f'mine-{dist.get_rank()}').touch()\n"
        "dist.destroy_process_group()\n"
        "return found, random.random(), float(torch.rand(1)), __name__"
    )
    cases = tuple(Case(str(i), per_rank(2, lambda rng: (rng.random(2),))) for i in range(2))
    exercise = exercise_of("", cases=cases, seed=7)
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    first, second = observe_subject(exercise, Subject(("f",), {}, f"def f(x):\n{lines}", SETUP))
    assert first.value == second.value  # the same seed, an empty folder, a group although the answer left the last one
    assert first.value["rank 0"][0] == [] and first.value["rank 0"][3] == "answer"
    assert first.value["rank 0"][1:3] != first.value["rank 1"][1:3]


def test_a_difference_names_the_rank():
    said = verdict("def shared_mean(x):\n    return x if dist.get_rank() else (x + 1) * 0")
    assert said.outcome is Outcome.WRONG and said.why.startswith("First difference on rank 0 at [0]: 0, expected ")
    nothing = verdict("def shared_mean(x):\n    pass")
    assert nothing.why == "Returns None on rank 0, expected a tensor: is a `return` missing?"


# -- ends and exceptions ----------------------------------------------------------------------------------------------


def test_the_rank_at_fault_is_told_and_not_those_that_waited_for_it():
    said = verdict(
        "def shared_mean(x):\n    if dist.get_rank() == 1:\n        raise ValueError('bad batch')\n    dist.barrier()\n"
    )
    assert said.outcome is Outcome.CRASHED
    assert said.why == "On rank 1 your line `raise ValueError('bad batch')` raised ValueError: bad batch"


def test_what_all_ranks_raise_is_told_once():
    seen = observed("raise KeyError('weight')")
    assert seen.raised.type == "KeyError" and seen.raised.message == "every rank: 'weight'"
    assert seen.raised.is_a("LookupError")


@pytest.mark.parametrize(
    ("body", "type_name", "message"),
    [
        ("import sys\nsys.exit(3)", "SystemExit", "rank 1: 3"),
        ("import os\nos._exit(7)", "ProcessEnded", "rank 1: exit code 7"),
        ("import os\nos.kill(os.getpid(), 9)", "ProcessEnded", "rank 1: signal SIGKILL"),
        ("import ctypes\nctypes.string_at(0)", "ProcessEnded", "rank 1: signal SIGSEGV"),
        ("import os, time\nos.closerange(3, 200)\ntime.sleep(9)", "ProcessEnded", "rank 1: "),
        ("raise KeyboardInterrupt", "KeyboardInterrupt", "rank 1: "),
    ],
)
def test_however_a_rank_ends_it_is_a_sentence(body, type_name, message):
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    seen = observed(f"if dist.get_rank() == 1:\n{lines}\ndist.barrier()")
    assert seen.raised is not None, seen
    assert seen.raised.type == type_name and seen.raised.message.startswith(message)


def test_the_end_of_a_process_in_the_words_of_a_verdict():
    said = verdict("def shared_mean(x):\n    import os\n    os._exit(dist.get_rank() + 4)")
    assert said.why == "The process of rank 0 ended: exit code 4."


def test_what_is_printed_is_kept_in_part_and_floods_nothing():
    body = "import os\nfor _ in range(300):\n    print('x' * 1000)\n    os.write(1, b'y' * 10000)\nreturn 1"
    assert observed(body).notes["printed"] == "x" * 200


def test_an_answer_writes_in_its_folder_only(tmp_path):
    seen = observed(f"open({str(tmp_path / 'out')!r}, 'w')")
    assert seen.raised.type == "PermissionError" and "its working folder only" in seen.raised.message
    assert not list(tmp_path.iterdir())
    assert observed("import tempfile\ntempfile.TemporaryFile().write(b'x')\nreturn 1").value == {
        "rank 0": 1,
        "rank 1": 1,
    }


def test_the_group_is_there_already():
    source = f"{SETUP}\ndist.init_process_group()\n\ndef f(x):\n    return 1\n"
    seen = observe_subject(exercise_of(""), Subject(("f",), {}, source, SETUP))[0]
    assert seen.raised.message.startswith("every rank: the ranks of a check are in a process group already; keep")
    assert seen.raised.line == "dist.init_process_group()"


def test_only_what_defines_the_answer_has_to_run():
    late = Subject(("f",), {}, "def f(x):\n    return 1\n\nassert dist.get_world_size() == 1", SETUP)
    assert observe_subject(exercise_of(""), late)[0].value == {"rank 0": 1, "rank 1": 1}
    missing = observe_subject(exercise_of(""), Subject(("f",), {}, "def g(x):\n    return 1", SETUP))[0]
    assert missing.raised.type == "NotImplementedError" and "`f` is not defined" in missing.raised.message
    broken = observe_subject(exercise_of(""), Subject(("f",), {}, "def f(x:\n", SETUP))[0]
    assert broken.raised.type == "SyntaxError"


# -- hangs ------------------------------------------------------------------------------------------------------------

HANGS = {
    "ended early: all_reduce": "if dist.get_rank() == 0:\n    dist.all_reduce(x)",
    "both send: send": "dist.send(x, 1 - dist.get_rank())\ndist.recv(x, 1 - dist.get_rank())",
    "both receive: recv": "dist.recv(x, 1 - dist.get_rank())\ndist.send(x, 1 - dist.get_rank())",
    "ended early: barrier": "if dist.get_rank():\n    dist.barrier()",
}


@pytest.mark.parametrize("kind", HANGS)
def test_a_hang_is_found_by_certainty_and_told(kind):
    seen = observed(HANGS[kind], call_s=60.0)  # nobody waits for that
    assert seen.facts == {"stuck": kind} and seen.over.startswith("stuck: rank")


def test_who_waits_for_whom_is_said():
    seen = observed(HANGS["ended early: all_reduce"], call_s=60.0)
    assert seen.over == (
        "stuck: rank 1 has not called collective 1 (all_reduce [3]); rank 0 waits in it at line 3; rank 1 has returned"
    )


def test_what_may_still_go_on_has_the_time_of_a_call():
    body = "import time\nif dist.get_rank():\n    time.sleep(60)\ndist.barrier()"
    seen = observed(body, call_s=2.0)
    assert seen.over.startswith("stuck: rank 1 has not called collective 1 (barrier)")
    busy = observed("while True:\n    pass", call_s=1.0)
    assert busy.over == "still running after 1 s"
    late = observed("import time\ntime.sleep(0.8 * dist.get_rank())\ndist.barrier()\nreturn 1")
    assert late.value == {"rank 0": 1, "rank 1": 1}


def test_each_hanging_mistake_gets_its_own_message():
    for misconception in MEAN.misconceptions:
        said = verdict(misconception.specimen)
        assert said.misconception == misconception.id, said
    assert verdict(MEAN.misconceptions[1].specimen).outcome is Outcome.OVER_LIMIT


# -- options ----------------------------------------------------------------------------------------------------------


def test_collectives_are_counted_those_of_ddp_too():
    body = (
        "model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 1, dtype=torch.float64))\n"
        "for _ in range(2):\n    model(x).sum().backward()\nreturn 1"
    )
    seen = observed(body, collectives=("all_reduce",), max_collectives={"all_reduce": 1}, max_sent=10)
    assert seen.facts["collectives"] == ((("all_reduce", 2),),) * 2
    assert seen.facts["calls"] == "over 1 all_reduce" and seen.notes["all_reduce calls"] == 2
    assert seen.facts["sent"] == "over on every rank: 10" and seen.notes["sent_bytes"] > 10


def test_bytes_of_sends_are_exact():
    body = "if dist.get_rank() == 0:\n    dist.send(x, 1)\nelse:\n    dist.recv(x, 0)\nreturn x"
    seen = observed(body, max_sent=[24, 0])
    assert seen.facts["sent"] == "within the budget" and seen.notes["sent_bytes"] == 24
    assert seen.facts["inputs changed"] == ((), (0,))
    assert "inputs changed" not in observed(body, free_inputs=True).facts


def test_files_are_told_with_their_writers_however_they_came_there():
    body = (
        "import os\n"
        "torch.save({'w': x}, f'part-{dist.get_rank()}.pt')\n"
        "if dist.get_rank() == 0:\n"
        "    with open('new', 'w') as file:\n        file.write('1')\n"
        "    os.makedirs('deep')\n    os.replace('new', 'deep/log.txt')\n"
        "return None"
    )
    seen = observed(body, files=True, read_back=["part-1.pt", "none.pt", "deep/log.txt"])
    assert seen.facts["files"] == {"deep/log.txt": (0,), "part-0.pt": (0,), "part-1.pt": (1,)}
    assert seen.value["file part-1.pt"]["w"].shape == (3,)
    assert seen.value["file none.pt"] == "was not written"
    assert seen.value["file deep/log.txt"].startswith("cannot be read (")


def test_a_file_that_several_ranks_wrote_is_not_read():
    seen = observed("torch.save(x, 'model.pt')", files=True, read_back=["model.pt"])
    assert seen.value["file model.pt"] == "written by ranks 0 and 1"
    right = observed("if dist.get_rank() == 0:\n    torch.save(x, 'model.pt')", files=True, read_back=["model.pt"])
    assert describe(compare(seen, right), reveal=False) == "The file `model.pt` written by ranks 0 and 1."


COUNTS = """\
import os
start = torch.load("at.pt") if os.path.exists("at.pt") else 0
seen = []
for i in range(start, len(x)):
    batch = x[i]
    dist.all_reduce(torch.ones(1))
    if dist.get_rank() == 0:
        torch.save(i + 1, "at.pt")
    seen.append(batch)
    dist.barrier()
return start, seen, os.environ["TORCHELASTIC_RESTART_COUNT"]"""


def test_a_killed_rank_is_started_again_with_all_others():
    def batches(rng):
        return (list(range(6)),)

    seen = observed(COUNTS, args=batches, kill={"rank": 1, "item": 4, "batches": 0}, max_restarts=1)
    assert seen.value == {f"rank {r}": (4, [4, 5], "1") for r in range(2)} and seen.facts["killed"] is True
    gone = observed(COUNTS, args=batches, kill={"rank": 1, "item": 4})
    assert gone.raised.message == "rank 1: signal SIGKILL"
    never = observed("return len(x)", args=batches, kill={"rank": 1, "item": 4}, max_restarts=1)
    assert never.facts["killed"] is False


def test_three_and_four_ranks():
    for world in (3, 4):
        assert whole(observed("dist.all_reduce(x)\nreturn x.numel()", world=world).value) == {
            f"rank {r}": 3 for r in range(world)
        }


# -- what is left -----------------------------------------------------------------------------------------------------


def left_over():
    """Return the processes below the helper's that are not its host, and the folders of cases."""
    from labsupport.torchrun import helper

    host = ranks_live.host()
    below = psutil.Process(helper.warm().zygote.pid).children(recursive=True)
    folder = host._scratch.folder
    return [p for p in below if p.pid != host._handle.pid], [p.name for p in folder.iterdir() if p.name != "lock"]


def test_nothing_is_left_of_an_answer_that_starts_processes():
    body = (
        "import os, subprocess, time\n"
        "for _ in range(2):\n    subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        "if os.fork() == 0:\n    os.setsid()\n    time.sleep(600)\n"
        "return 1"
    )
    ranks_live.close()
    assert observed(body).value == {"rank 0": 1, "rank 1": 1}
    assert left_over()[0]  # the ranks wait a moment for another case
    ends = time.monotonic() + 30
    while left_over() != ([], []) and time.monotonic() < ends:
        time.sleep(0.05)
    assert left_over() == ([], [])


def test_the_next_answer_ends_what_the_last_one_left():
    ranks_live.close()
    observed("import subprocess\nsubprocess.Popen(['sleep', '600'], start_new_session=True)")
    observed("if dist.get_rank():\n    dist.barrier()")  # this one hangs, so its ranks end, too
    assert left_over() == ([], [])


def test_after_a_hang_and_after_an_interrupt_the_next_answer_is_as_always():
    assert observed(HANGS["both send: send"]).over
    assert observed("return 1").value == {"rank 0": 1, "rank 1": 1}

    def ring(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    folder = ranks_live.host()._scratch.folder
    started = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            observed("import time\ntime.sleep(30)", call_s=60.0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert time.monotonic() - started < 20 and not folder.exists()
    assert observed("return 1").value == {"rank 0": 1, "rank 1": 1}


def test_a_folder_of_a_process_that_was_killed_is_removed_by_the_next():
    from labsupport.processes.scratch import Scratch

    left = Path(tempfile.mkdtemp(prefix="lab-scratch-test-"))
    (left / "lock").touch()
    mine = Scratch("lab-scratch-test-")
    other = Scratch("lab-scratch-test-")
    assert not left.exists() and mine.folder.exists()
    mine.close()
    other.close()
    assert not mine.folder.exists() and not other.folder.exists()


@pytest.mark.slow
def test_ranks_that_are_programs_say_the_same(monkeypatch):
    """The way of macOS and Windows, where nothing with torch loaded may be forked."""
    from labsupport.torchrun import helper

    forked = [observed(body) for body in ("return x * 2", "raise ValueError('no')")]
    ranks_live.close()
    monkeypatch.setattr(helper, "forks", lambda: False)
    try:
        assert isinstance(ranks_live.host(), ranks_live.HostHere)
        again = [observed(body) for body in ("return x * 2", "raise ValueError('no')")]
        pids = [p.pid for crew in ranks_live.host()._host._crews.values() for p in crew._processes]
        assert [compare(*pair) for pair in zip(forked, again, strict=True)] == [None, None]
        assert again[1].raised == forked[1].raised
        stuck = observed(HANGS["ended early: all_reduce"], call_s=60.0)
        assert stuck.facts["stuck"] == "ended early: all_reduce"
    finally:
        ranks_live.close()
    assert not any(psutil.pid_exists(pid) for pid in pids)
