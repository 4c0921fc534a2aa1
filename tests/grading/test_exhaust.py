"""What an answer can use up: memory, disk, threads and time end at their limits, for it alone."""

import os
import time
from pathlib import Path

import pytest
from caged import call, load, needs_linux, own_files, run

from labsupport.grading.allowance import Allowance, limit_behind
from labsupport.grading.errors import OverLimit

pytestmark = needs_linux

KB, MB = 1 << 10, 1 << 20


ALLOCATES = {
    "numpy": "return np.ones(size // 8).sum()",
    "bytearray": "return len(bytearray(size))",
    "list of bytes": "return len([bytes(1 << 20) for _ in range(size >> 20)])",
    "mmap": "import mmap\n    m = mmap.mmap(-1, size)\n    return [m.write(bytes(1 << 20)) for _ in range(size >> 20)]",
    "threads": "import threading\n    held = []\n    t = threading.Thread(target=lambda: held.append(bytes(size)))\n"
    "    t.start(); t.join()\n    return len(held[0])",
}


@pytest.mark.parametrize("how", ALLOCATES)
def test_memory_is_limited(runner, how):
    limited(runner, how)


@pytest.mark.parametrize("how", ALLOCATES)
def test_memory_is_limited_without_a_group(ungrouped, how):
    limited(ungrouped, how)


def limited(runner, how):
    limits = Allowance(memory_bytes=300 * MB)
    for size in (400 * MB, 100_000 * MB):
        got = run(runner, f"def f(size):\n    {ALLOCATES[how]}\n", size, limits=limits)
        in_thread = how == "threads" and got["type"] == "IndexError"  # the error stays in its thread
        assert in_thread or limit_behind(got["type"], got["message"]) == "memory", got
    assert run(runner, "def f(size):\n    return len(bytearray(size))\n", 200 * MB, limits=limits) == 200 * MB


MEMFD = """
import os
def f(size):
    written = 0
    while written < size:
        fd = os.memfd_create("x")
        for _ in range(50):
            written += os.write(fd, bytes(1 << 20))
    return written
"""


def test_memory_files_count_in_a_group(caged):
    if not caged.counts_together:
        pytest.skip("no control groups for this user here")
    limits = Allowance(memory_bytes=200 * MB)
    with caged.child(limits) as child:
        load(child, MEMFD)
        assert call(child, 100 * MB)["value"] == 100 * MB
        with pytest.raises(OverLimit) as over:
            call(child, 6000 * MB)
    assert (over.value.which, over.value.limit) == ("memory", 200 * MB)
    assert child.usage["peak_bytes"] <= (200 + 64) * MB


def test_without_a_group_there_are_no_memory_files(ungrouped):
    assert run(ungrouped, MEMFD, 100 * MB)["type"] == "PermissionError"


def test_the_work_folder_is_limited(runner):
    source = """
import os
def f(files, each):
    for n in range(files):
        with open(f"file{n}", "wb") as file:
            for _ in range(each >> 20):
                file.write(bytes(1 << 20))
    return [name for name in sorted(os.listdir(".")) if name != "file1"]
"""
    assert own_files(run(runner, source, 2, 20 * MB)) == ["file0"]
    got = run(runner, source, 1, 100 * MB)
    assert got["message"] in ("[Errno 27] File too large", "[Errno 28] No space left on device")
    with runner.child() as child:
        load(child, source + "def g():\n    f(20, 10 << 20)\n    import time\n    time.sleep(30)\n")
        if runner.report.tier == "B":  # looked at, not refused
            with pytest.raises(OverLimit) as over:
                call(child, name="g")
            assert over.value.which == "disk"
        else:
            assert "No space left" in call(child, name="g")["raised"]["message"]


def test_shared_memory_folders_are_small(caged):
    source = """
def f():
    with open("/dev/shm/x", "wb") as file:
        for _ in range(40):
            file.write(bytes(1 << 20))
"""
    assert "No space left" in run(caged, source)["message"]


def test_work_folders_are_empty_and_removed(runner, tmp_path):
    source = "import os\ndef f():\n    open('mine', 'w').close()\n    return os.getcwd(), os.listdir('.')\n"
    first, second = (run(runner, source) for _ in range(2))
    assert own_files(first[1]) == own_files(second[1]) == ["mine"]
    if runner.report.tier == "B":
        assert not Path(first[0]).exists()


def test_threads_are_limited(runner):
    source = """
import threading, time
def f():
    started = 0
    try:
        for _ in range(100_000):
            threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
            started += 1
    except RuntimeError:
        return started
"""
    with runner.child() as child:
        load(child, source)
        try:
            assert call(child)["value"] < 200
        except OverLimit as over:
            assert over.which == "processes"


def test_the_nanny_looks_at_what_nobody_limits(tmp_path):
    from labsupport.grading.nanny import _Looks

    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "file").write_bytes(bytes(100 * KB))

    def over(**watch):
        return _Looks(os.getpid(), {"watch": watch, "work": str(tmp_path)}).over()

    assert over(memory_bytes=10**12, processes=10**6, work_bytes=10**9) is None
    assert over(memory_bytes=-1) == "memory"
    assert over(processes=-1) == "processes"
    assert over(work_bytes=50 * KB) == "disk"
    assert _Looks(os.getpid(), {"watch": {}, "work": tmp_path}).every_s is None


def test_time_stands_still_for_nobody(caged):
    """A child that stops itself is ended from outside like one that loops."""
    with caged.child() as child:
        load(child, "import os, signal\ndef f():\n    os.kill(os.getpid(), signal.SIGSTOP)\n")
        started = time.monotonic()
        with pytest.raises(OverLimit) as over:
            call(child, call_s=0.5)
    assert (over.value.which, over.value.limit) == ("time", 0.5)
    assert time.monotonic() - started < 10
