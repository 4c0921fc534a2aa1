"""One cause, one screen: on made-up ends of ranks, on torch's own texts, and on real jobs."""

import json
import re
import time
from dataclasses import asdict
from types import SimpleNamespace

import pytest
from rank_jobs import needs_fork

from labsupport.ranks.recorder import Call
from labsupport.torchrun import hints
from labsupport.torchrun.diagnosis import HEIGHT, WIDTH, diagnose, unnoticed

CELL = "import torch\nx = load()\ndist.all_reduce(x)\nloss.backward()\n"
GONE = (
    "[/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:24. "
    "This is typically caused by a remote worker crashing."
)
LATE = (
    "[/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 5000ms for recv"
)


class Jobs:
    """A job folder made by hand."""

    def __init__(self, folder):
        self.folder, self.ranks, self.events, self.earlier = folder, [], [], []
        (folder / "cell.py").write_text(CELL, encoding="utf-8")

    def snapshot(self):
        return SimpleNamespace(ranks=self.ranks, earlier=self.earlier, events=self.events)

    def another(self):
        (self.folder / "another").mkdir()
        return Jobs(self.folder / "another")

    def rank(self, code=0, error=None, *, calls=(), said="", stack="", asked=False, attempt=0, latest=True):
        into = self.ranks if latest else self.earlier
        number = sum(rank.attempt == attempt for rank in into)
        folder = self.folder / f"attempt-{attempt}" / f"rank-{number}"
        folder.mkdir(parents=True)
        (folder / "err").write_text(said, encoding="utf-8")
        (folder / "stack.txt").write_text(stack, encoding="utf-8")
        (folder / "calls.json").write_text(json.dumps([asdict(call) for call in calls]), encoding="utf-8")
        if error:
            (folder / "error.json").write_text(json.dumps(error), encoding="utf-8")
        state = "done" if code == 0 else "failed"
        into.append(SimpleNamespace(rank=number, code=code, state=state, attempt=attempt, folder=folder))
        self.events.append({"event": "rank ended", "rank": number, "attempt": attempt, "code": code, "asked": asked})
        return self

    def report(self):
        found = diagnose(self.folder, self.snapshot())
        if found is not None:
            lines = found.text().splitlines()
            assert len(lines) <= HEIGHT and max(map(len, lines)) <= WIDTH, found.text()
            assert "\n" not in found.headline
        return found


def raised(kind, message, lineno=3, traceback="", full=""):
    line = CELL.splitlines()[lineno - 1] if lineno else ""
    return {
        "type": kind, "message": message, "bases": ["Exception"], "lineno": lineno, "line": line,
        "traceback": traceback, "full": full,
    }  # fmt: skip


def call(number, op="all_reduce", shape=(7,), **more):
    return Call(number=number, at=number, op=op, shapes=(shape,), dtypes=("float32",), lineno=3, **more)


@pytest.fixture
def jobs(tmp_path):
    return Jobs(tmp_path)


# -- which cause --------------------------------------------------------------------------------------------------


def test_a_job_that_went_well_has_no_report(jobs):
    assert jobs.rank().rank().report() is None


def test_an_exception_comes_before_those_who_lost_the_connection(jobs):
    jobs.rank(1, raised("RuntimeError", GONE)).rank(1, raised("ValueError", "bad batch", 2))
    report = jobs.rank(-15, asked=True).report()
    assert report.headline == "rank 1: ValueError: bad batch (line 2)"
    assert report.where == "line 2: x = load()"
    assert report.consequences == ("rank 0 lost the connection (line 3)", "rank 2 ended with the job")
    assert (report.kind, report.ranks) == ("exception", (1,))


def test_a_signal_comes_before_an_exception(jobs):
    report = jobs.rank(1, raised("RuntimeError", GONE)).rank(-9, calls=[call(1)]).report()
    assert report.headline == "rank 1 was killed by SIGKILL (often out of memory)"
    assert report.cause == "its last call was all_reduce (line 3)"
    assert "memory" in report.hint


def test_a_kill_that_was_asked_for_gets_no_advice(jobs):
    jobs.events.append({"event": "kill", "what": "rank=1@step=2", "rank": 1, "node": 0})
    report = jobs.rank(-15, asked=True).rank(-9).report()
    assert report.hint == "" and report.headline == "rank 1 was killed by --kill at step 2"


def test_a_kill_is_told_also_when_another_rank_was_ended_by_force(jobs):
    jobs.events.append({"event": "kill", "what": "rank=1@seconds=1.5", "rank": 1, "node": 0})
    assert jobs.rank(-9).rank(-9).report().headline == "rank 1 was killed by --kill after 1.5 s"


def test_every_rank_raised_the_same(jobs):
    jobs.rank(1, raised("KeyError", "'rank 0'")).rank(1, raised("KeyError", "'rank 1'"))
    assert jobs.report().headline == "every rank: KeyError: 'rank 0' (line 3)"


def test_an_error_made_from_a_lost_connection_is_a_consequence(jobs):
    wrapped = raised("MyError", "training failed", full=f"RuntimeError: {GONE}\n\nDuring handling ... MyError")
    report = jobs.rank(1, wrapped).rank(1, raised("ValueError", "bad batch", 2)).report()
    assert report.headline.startswith("rank 1: ValueError")


def test_a_rank_that_ended_early_is_the_cause_not_the_one_that_heard_of_it(jobs):
    waiting = [call(1), call(2, raised=True)]
    report = jobs.rank(1, raised("RuntimeError", GONE), calls=waiting).rank(0, calls=[call(1)]).report()
    assert report.headline == (
        "rank 1 has not called collective 2 (all_reduce [7]); rank 0 waits in it at line 3; rank 1 has ended"
    )
    assert report.ranks == (1,) and "lesson 15 (collectives)" in report.lesson


def test_a_rank_that_stood_still_is_named_though_torchrun_blames_another(jobs):
    waiting = [call(1), call(2, raised=True)]
    stack = 'Thread 0x1:\n  File "x.py", line 9 in f\nCurrent thread 0x2:\n  File "cell.py", line 2 in <module>\n'
    jobs.rank(1, raised("RuntimeError", LATE), calls=waiting).rank(-15, calls=[call(1)], stack=stack, asked=True)
    assert "rank 1 is at line 2: `x = load()`" in jobs.report().headline


def test_uneven_batches(jobs):
    reducer = call(2, raised=False, origin="torch", asynchronous=True)
    jobs.rank(1, raised("RuntimeError", GONE, 4), calls=[call(1), reducer]).rank(0, calls=[call(1)])
    report = jobs.report()
    assert "called by torch" in report.headline and "Join" in report.hint and "(ddp)" in report.lesson


def test_a_size_that_gloo_cannot_take_becomes_a_table(jobs):
    said = "what(): [enforce fail] op.preamble.length <= op.nbytes. 8 vs 4. ... collective mismatch in your code?"
    jobs.rank(1, raised("RuntimeError", GONE), calls=[call(1, shape=(2,), raised=True)])
    report = jobs.rank(-6, calls=[call(1, shape=(1,), done=False, waiting=True)], said=said).report()
    assert report.kind == "mismatch" and report.consequences == ()
    assert [line.split() for line in report.table.splitlines()] == [
        ["rank", "call", "shape", "dtype", "line"],
        ["0", "all_reduce", "[2]", "float32", "line", "3"],
        ["1", "all_reduce", "[1]", "float32", "line", "3"],
    ]


DETAIL = (
    "Detected mismatch between collectives on ranks. Rank 0 is running collective: CollectiveFingerPrint("
    "SequenceNumber=0, OpType=BROADCAST, TensorShape=[4], TensorDtypes=Float, TensorDeviceTypes=TensorOptions(dtype="
    "float (default))), but Rank 1 is running collective: CollectiveFingerPrint(SequenceNumber=0, OpType=ALLREDUCE, "
    "TensorShape=[5], TensorDtypes=Float, TensorDeviceTypes=TensorOptions(dtype=float (default)))."
)


def test_torchs_message_on_a_mismatch_becomes_a_table(jobs):
    report = jobs.rank(1, raised("RuntimeError", DETAIL, 3)).rank(1, raised("RuntimeError", DETAIL, 2)).report()
    assert (
        report.headline
        == "ranks called different collectives: rank 0 called broadcast [4]; rank 1 called allreduce [5]"
    )
    assert report.table.splitlines()[1].split() == ["0", "broadcast", "[4]", "float", "line", "3"]
    calls = [call(1, "broadcast", (4,), raised=True)], [call(1, shape=(5,), raised=True)]
    other = jobs.another()
    for own in calls:
        other.rank(1, raised("RuntimeError", DETAIL), calls=own)
    assert other.report().headline.startswith("collective 1 has different operations")


def test_an_abort_at_the_very_end(jobs):
    report = jobs.rank(0).rank(-6, said="terminate called without an active exception\n").report()
    assert report.headline == "rank 1 ended by SIGABRT when everything was done" and "destroy" in report.hint


def test_a_crash_has_its_line(jobs):
    stack = 'Fatal Python error: Segmentation fault\n\nCurrent thread 0x1:\n  File "cell.py", line 2 in <module>\n'
    report = jobs.rank(1, raised("RuntimeError", GONE)).rank(-11, stack=stack).report()
    assert report.headline == "rank 1 crashed in compiled code (SIGSEGV) at line 2"
    assert report.where == "line 2: x = load()"
    ddp = stack.replace("Current", 'File "d.py", line 1 in _ddp_init_helper\nCurrent').replace(
        'File "cell.py"', 'File "distributed.py", line 1473 in _ddp_init_helper\n  File "cell.py"'
    )
    other = jobs.another()
    assert "INFO" in other.rank(-11, stack=ddp).report().hint


def test_an_exit_code_and_the_last_words(jobs):
    report = jobs.rank(1, raised("RuntimeError", GONE)).rank(7, said="no data here\n").report()
    assert (report.headline, report.cause) == ("rank 1 ended with exit code 7", "no data here")
    assert "sys.exit" in report.hint


def test_only_lost_connections_and_nothing_known(jobs):
    report = jobs.rank(1, raised("RuntimeError", LATE)).report()
    assert report.kind == "timeout" and report.headline.startswith("rank 0: RuntimeError: ")


def test_earlier_attempts_are_told(jobs):
    jobs.rank(0, latest=False).rank(-9, latest=False)
    report = jobs.rank(1, raised("ValueError", "bad batch", 2), attempt=1).report()
    assert report.consequences[-1].startswith("attempt 0 had ended before: rank 1 was killed by SIGKILL")


def test_a_result_that_is_worthless_is_told_though_the_job_went_well(jobs):
    jobs.rank(calls=[call(1, how="SUM")]).rank(calls=[call(1, how="MAX")])
    report = unnoticed(jobs.folder, jobs.snapshot())
    assert "different reductions" in report.headline and "all_reduce MAX" in report.table
    other = jobs.another().rank(calls=[call(1)]).rank(calls=[call(1)])
    assert unnoticed(other.folder, other.snapshot()) is None


# -- one screen ---------------------------------------------------------------------------------------------------


def test_a_report_fits_one_screen_whatever_was_said(jobs):
    traceback = "Traceback:\n" + '  File "cell.py", line 3, in f\n    dist.all_reduce(x)\n' * 40
    message = "word " * 3000 + "\n" + "y" * 5000
    for _ in range(30):
        jobs.rank(1, raised("ValueError" + "r" * 50, message, 3, traceback))
    report = jobs.rank(1, raised("RuntimeError", GONE)).report()
    assert "dist.all_reduce(x)" in report.text() and report.text() == str(report)


def test_of_a_message_of_megabytes_little_is_looked_at(jobs):
    from labsupport.torchrun import causes
    from labsupport.torchrun import raised as told

    error = raised("ValueError", "A" * 3_000_000)
    report = jobs.rank(1, error, said="B" * 3_000_000 + "\nlast\n").report()
    assert report.headline.startswith("rank 0: ValueError: AAA") and len(report.text()) < 3000
    (end,) = causes.ends_of(jobs.ranks)
    assert len(end.error["message"]) < told.LONGEST + 100 and len(end.said) == causes._TAIL
    assert "2,980,000 characters left out" in end.error["message"]


def test_of_a_long_message_that_is_explained_the_names_remain(jobs):
    message = (
        "Expected to have finished reduction in the prior iteration before starting a new one. This error indicates "
        "that your module has parameters that were not used in producing loss. You can enable detection."
        "\nParameter indices which did not receive grad for rank 0: "
        "2 3\n In addition, you can set the environment variable TORCH_DISTRIBUTED_DEBUG to print out which parameters "
        "did not receive gradient on this rank"
    )
    report = jobs.rank(1, raised("RuntimeError", message, 4)).report()
    assert report.headline.endswith("before starting a new one. (line 4)")
    assert report.cause == "Parameter indices which did not receive grad for rank 0: 2 3"


def test_html_says_the_same_and_escapes(jobs):
    jobs.rank(1, raised("ValueError", "<script>alert(1)</script> & `module.weight`"))
    page = jobs.report().html()
    assert "<script>" not in page and "&lt;script&gt;" in page
    words = re.sub(r"<[^>]+>", " ", page)
    for word in ("ValueError", "line 3", "dist.all_reduce(x)", "module.weight"):
        assert word in words


def test_the_way_there_is_shown_when_it_has_steps(jobs):
    traceback = (
        "Traceback (most recent call last):\n"
        '  File "cell.py", line 4, in <module>\n    step(3)\n  File "cell.py", line 2, in step\n    x = load()\n'
        "ValueError: bad batch\n"
    )
    where = jobs.rank(1, raised("ValueError", "bad batch", 2, traceback)).report().where
    assert where.splitlines()[1:3] == ["  step(3)", 'File "cell.py", line 2, in step']


# -- torch's texts ------------------------------------------------------------------------------------------------

# What torch 2.13 says (read off its CPU wheel, or from its sources where a GPU or another system is needed).
TEXTS = [
    ("ValueError: trying to initialize the default process group twice!", "once", "collectives"),
    ("ValueError: Default process group has not been initialized, please make sure to call init_process_group.",
     "init_process_group", "collectives"),
    ("ValueError: Error initializing torch.distributed using env:// rendezvous: environment variable RANK expected, "
     "but not set", "%%torchrun", "collectives"),
    ("DistNetworkError: The server socket has failed to listen on any local network address. port: 32849, useIpv6: "
     "false, code: -98, name: EADDRINUSE, message: address already in use", "free", "ddp"),
    ("RuntimeError: [enforce fail at device.cc:84] ifa != nullptr. Unable to find address for: nosuch0",
     "GLOO_SOCKET_IFNAME", "ddp"),
    ("DistNetworkError: The client socket has timed out after 1000ms while trying to connect to (host, 1234).",
     "every rank", "ddp"),
    ("DistStoreError: Timed out after 2 seconds waiting for clients. 1/2 clients joined.", "every rank", "ddp"),
    ("DistStoreError: use_libuv was requested but PyTorch was built without libuv support", "USE_LIBUV", "ddp"),
    ("RuntimeError: Distributed package doesn't have NCCL built in", "gloo", "collectives"),
    ("RuntimeError: Duplicate GPU detected : rank 0 and rank 1 both on CUDA device", "LOCAL_RANK", "ddp"),
    ("torch.AcceleratorError: CUDA error: invalid device ordinal", "LOCAL_RANK", "ddp"),
    ("OutOfMemoryError: CUDA out of memory. Tried to allocate", "LOCAL_RANK", "ddp"),
    ("RuntimeError: Cannot re-initialize CUDA in forked subprocess.", "--cold", "ddp"),
    ("AssertionError: Torch not compiled with CUDA enabled", "no GPU", "tensors"),
    ("ValueError: DistributedDataParallel device_ids and output_device arguments only work with single-device",
     "device_ids", "ddp"),
    ("RuntimeError: Invalid scalar type", "int16", "collectives"),
    ("RuntimeError: Cannot use ReduceOp.PREMUL_SUM with Gloo", "PREMUL_SUM", "collectives"),
    ("ValueError: SyncBatchNorm layers only work with GPU modules", "GroupNorm", "ddp"),
    ("RuntimeError: No device associated with the default pg, not safe to split any process groups", "new_group",
     "collectives"),
    ("TypeError: BF16 all reduce communication hook required CUDA 11+ and NCCL 2.10+ or XPU and XCCL", "fp16", "ddp"),
    ("RuntimeError: cpu backend doesn't support events.", "autocast", "ddp"),
    ("RuntimeError: Cannot access accelerator device when none is available.", "offload", "sharding"),
    ("RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one.",
     "find_unused_parameters", "ddp"),
    ("RuntimeError: Expected to mark a variable ready only once.", "static_graph", "ddp"),
    ("RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation",
     "broadcast_buffers", "ddp"),
    ("KeyError: 'bucket'", "`bucket`", "ddp"),
    ("RuntimeError: DDP communication hook's callback must return a torch.futures.Future object, but got int",
     "get_future", "ddp"),
    ("RuntimeError: DistributedDataParallel is not needed when a module doesn't have any parameter that requires a "
     "gradient.", "trained", "ddp"),
    ("RuntimeError: DDP expects same model across all ranks, but Rank 0 has 4 params, while rank 1 has inconsistent 2 "
     "params.", "same model", "ddp"),
    ("RuntimeError: Rank 0 exhausted all inputs.", "Join", "ddp"),
    ("AttributeError: 'DistributedDataParallel' object has no attribute 'in_features'", "ddp.module", "ddp"),
    ('RuntimeError: Error(s) in loading state_dict for Linear:\n\tUnexpected key(s) in state_dict: "module.weight".',
     "prefix", "ddp"),
    ("CheckpointException: Missing key in checkpoint state_dict: model.nope.weight.", "names", "checkpoints"),
    ("RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory", "one rank",
     "checkpoints"),
    ("FileExistsError: [Errno 17] File exists: 'out'", "exist_ok", "checkpoints"),
    ("_pickle.UnpicklingError: Weights only load failed.", "plain Python", "checkpoints"),
    ("AttributeError: Can't pickle local object 'f.<locals>.<lambda>'", "plain data", "collectives"),
    ("AttributeError: Can't get attribute 'Net' on <module '__main__'>", "top of the cell", "collectives"),
    ("ValueError: Invalid destination rank: destination rank should not be the same as the rank of the current "
     "process.", "itself", "collectives"),
    ("RuntimeError: ProcessGroupGloo::broadcast: invalid root rank: 7", "world_size", "collectives"),
    ("ValueError: Global rank 1 is not part of group <torch.distributed.ProcessGroup>", "group", "collectives"),
    ("RuntimeError: Mesh should not be bigger than default world size 2, but found 3 ranks!", "--nproc", "sharding"),
    ("RuntimeError: ProcessGroupGloo::allgather: invalid output tensor list at index 0 (expected length 2, got 1)",
     "get_world_size", "collectives"),
    ("NotImplementedError: ", "not written yet", ""),
]  # fmt: skip


@pytest.mark.parametrize("text, word, slug", TEXTS, ids=[text[:50] for text, *_ in TEXTS])
def test_what_torch_says_has_its_hint(text, word, slug):
    hint = hints.for_text(text)
    assert word in hint.advice and hint.slug == slug


def test_hints_are_short_and_their_lessons_exist():
    every = [hint for _, hint in hints._COMPILED] + list(hints._BY_KIND.values())
    for hint in every:
        assert 4 <= len(hint.advice.split()) <= 40, hint.advice
        assert not hint.slug or hints.lesson_in_words(hint.slug)
    assert hints.lesson_in_words("ddp") == "lesson 16 (ddp): data parallel with torchrun cells"
    assert hints.for_text("ZeroDivisionError: division by zero", "x = 1 / 0") is None


# -- real jobs ----------------------------------------------------------------------------------------------------

START = 'import torch, os\nimport torch.distributed as dist\ndist.init_process_group("gloo")\nrank = dist.get_rank()\n'
REAL = {
    "an exception": (
        "if rank == 2:\n    raise ValueError('bad batch')\ndist.barrier()",
        "rank 2: ValueError: bad batch (line 6)",
    ),
    "killed": (
        "dist.barrier()\nif rank == 1:\n    os.kill(os.getpid(), 9)\ndist.barrier()",
        "rank 1 was killed by SIGKILL (often out of memory)",
    ),
    "another size": (
        "dist.all_reduce(torch.ones(1 if rank == 2 else 100_000))",
        "collective 1 has different shapes: ranks 0, 1 called all_reduce [100000]; rank 2 called all_reduce [1]",
    ),
    "uneven batches": (
        "model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))\n"
        "for step in range(3 if rank else 2):\n    model(torch.ones(2, 4)).sum().backward()",
        "rank 0 has not called collective",
    ),
    "an exit code": ("if rank == 1:\n    os._exit(7)\ndist.barrier()", "rank 1 ended with exit code 7"),
    "a crash": (
        "import ctypes\nif rank == 1:\n    ctypes.string_at(0)\ndist.barrier()",
        "rank 1 crashed in compiled code (SIGSEGV) at line 7",
    ),
    "not initialised": (
        "dist.destroy_process_group()\ndist.barrier()",
        "every rank: ValueError: Default process group",
    ),
}


@needs_fork
@pytest.mark.parametrize("name", REAL)
def test_a_real_job_is_explained(name):
    from labsupport.torchrun import Request, launch

    source, headline = REAL[name]
    with launch(Request(source=START + source + "\n", flags=("--nproc-per-node", "3"))) as job:
        ends = time.monotonic() + 120
        while not job.poll().ended and time.monotonic() < ends:
            time.sleep(0.02)
        report = diagnose(job.folder, job.poll())
        assert report is not None, job.poll()
        assert report.headline.startswith(headline), report.text()
        assert len(report.text().splitlines()) <= HEIGHT
