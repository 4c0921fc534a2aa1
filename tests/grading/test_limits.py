"""Limits of processes and groups: each binds when tried, and says so where it does not."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from caged import needs_linux

pytestmark = needs_linux

MB = 1 << 20


def python(code, **options):
    """Return the JSON that a Python process prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, **options)
    return json.loads(done.stdout)


def test_limits_bind_and_are_told():
    before, told, bound, refused = python("""
import json
from labsupport.processes.limits import Rlimits, apply, bind
limits = Rlimits(memory_bytes=100 << 20, cpu_s=5, file_bytes=1 << 20, files=64)
before, told = bind(limits), apply(limits)
try:
    bytearray(200 << 20)
    refused = False
except MemoryError:
    refused = True
print(json.dumps([before, told, bind(limits), refused]))
""")
    assert (before, bound) == (False, True)
    assert set(told.values()) == {"ok"}
    assert {"address space", "cpu", "file size", "open files", "core"} <= set(told)
    assert refused


def test_memory_is_counted_beyond_what_is_loaded_already():
    base, limit = python("""
import json, resource
import numpy
from labsupport.processes.limits import Rlimits, address_space_bytes, apply
base = address_space_bytes()
apply(Rlimits(memory_bytes=100 << 20))
print(json.dumps([base, resource.getrlimit(resource.RLIMIT_AS)[0]]))
""")
    assert base + 99 * MB < limit < base + 120 * MB


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="about root; others are limited")
def test_a_limit_of_processes_that_does_not_bind_root_is_told():
    told, binds, without = python("""
import json
from labsupport.processes.limits import Rlimits, apply, bind
print(json.dumps([apply(Rlimits(processes=8)), bind(Rlimits(processes=8)), bind(Rlimits())]))
""")
    assert (told["processes"], binds, without) == ("ok", False, True)


def test_stacks_and_arenas_of_threads_count_so_there_are_two_arenas():
    from labsupport.processes.zygote import QUIET_LIBRARIES

    assert QUIET_LIBRARIES["MALLOC_ARENA_MAX"] == "2"
    code = """
import json, threading
from labsupport.processes.limits import address_space_bytes
before = address_space_bytes()
barrier = threading.Barrier(9)
def work():
    held = [bytes(200) for _ in range(100)]
    barrier.wait(); barrier.wait()
for _ in range(8):
    threading.Thread(target=work, daemon=True).start()
barrier.wait()
print(json.dumps(address_space_bytes() - before))
barrier.wait()
"""
    few = python(code, env={**os.environ, **QUIET_LIBRARIES})
    many = python(code, env={**os.environ, "MALLOC_ARENA_MAX": "64"})
    assert few < many  # each arena reserves 64 MB of address space
    assert few < 9 * 8 * MB + 200 * MB


def test_the_cpu_of_threads_that_have_ended_is_counted():
    spun, whole = python("""
import json, os, threading, time
from labsupport.processes.kernel import process_cpu_s
spent = []
def spin():
    while time.thread_time() < 0.1:
        pass
    spent.append(time.thread_time())
for _ in range(3):
    thread = threading.Thread(target=spin)
    thread.start()
    thread.join()
print(json.dumps([sum(spent), process_cpu_s(os.getpid())]))
""")
    assert spun >= 0.3
    assert whole >= spun


def a_group(**options):
    from labsupport.processes.groups import Group, GroupsUnavailable

    try:
        return Group(64 * MB, **options)
    except GroupsUnavailable as error:
        pytest.skip(f"no control groups for this user here: {error.why}")


def test_a_group_counts_all_its_processes_and_ends_what_is_over():
    group = a_group(processes=16)
    doors = group.doors()
    try:
        code = f"""
import os
from labsupport.processes.groups import join
join({doors})
for _ in range(4):
    if os.fork() == 0:
        held = bytearray({30 * MB})
        os.pause() if hasattr(os, "pause") else __import__("signal").pause()
for _ in range(4):
    os.wait()
"""
        process = subprocess.Popen([sys.executable, "-c", code], pass_fds=doors)
        while not group.killed() and process.poll() is None:
            pass
        assert group.killed() >= 1
        assert 60 * MB < group.peak_bytes() <= 64 * MB
    finally:
        for door in doors:
            os.close(door)
        assert group.close()
        process.wait()
    assert not group.folder.exists()


def test_what_a_killed_run_left_behind_is_removed(monkeypatch):
    from labsupport.processes import groups

    group = a_group()
    ended = subprocess.Popen(["true"])
    ended.wait()
    stale = group.folder.with_name(f"lab-{ended.pid}-0")
    stale.mkdir()
    monkeypatch.setattr(groups, "_SWEPT", set())
    a_group().close()
    assert not stale.exists()
    assert group.folder.exists()
    group.close()


def test_a_group_of_a_grader_that_is_not_seen_from_here_is_left_alone(monkeypatch):
    """One in a container has process numbers of its own: its number is nobody's here, or somebody else's."""
    from labsupport.processes import groups

    ended = subprocess.Popen(["true"])
    ended.wait()
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(groups.os, "getpid", lambda: ended.pid)
        theirs = a_group()
    monkeypatch.setattr(groups, "_SWEPT", set())
    try:
        a_group().close()
        assert theirs.folder.exists()
    finally:
        theirs.close()
    assert not theirs.folder.exists()


def test_a_name_that_is_taken_costs_nobody_a_group(monkeypatch):
    from labsupport.processes import groups

    names = iter(["taken", "taken", "free", "free again", "also free"])
    monkeypatch.setattr(groups.secrets, "token_hex", lambda size: next(names))
    first, second = a_group(), a_group()
    assert first.folder != second.folder
    assert first.close() and second.close()


def test_a_process_that_cannot_be_seen_is_not_taken_for_this_one(tmp_path, monkeypatch):
    from labsupport.processes import groups

    ended = []
    monkeypatch.setattr(groups.os, "kill", lambda pid, number: ended.append(pid))
    (tmp_path / "cgroup.procs").write_text("0\n0\n", encoding="ascii")
    groups._end_all(tmp_path)
    assert ended == []


V2 = "29 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = "36 25 0:32 / /cg/memory rw - cgroup cgroup rw,memory\n37 25 0:33 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
INSIDE = "29 23 0:26 /docker/abc /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"


@pytest.mark.parametrize(
    ("mounts", "own", "expected"),
    [
        (V2, "0::/user.slice/session\n", [(2, "/sys/fs/cgroup", "/user.slice/session")]),
        (V1, "9:name=systemd:/\n4:memory:/jobs/1\n2:cpu,cpuacct:/x\n", [(1, "/cg/memory", "/jobs/1")]),
        (V1 + V2, "4:memory:/a\n0::/b\n", [(1, "/cg/memory", "/a"), (2, "/sys/fs/cgroup", "/b")]),
        (INSIDE, "0::/docker/abc/inner\n", [(2, "/sys/fs/cgroup", "/inner")]),
        ("", "0::/\n", []),
    ],
)
def test_both_versions_of_control_groups_are_found(monkeypatch, tmp_path, mounts, own, expected):
    from labsupport.processes import groups

    for name, text in (("_MOUNTS", mounts), ("_OWN", own)):
        (tmp_path / name).write_text(text, encoding="utf-8")
        monkeypatch.setattr(groups, name, tmp_path / name)
    assert list(groups._hierarchies("memory")) == [(v, Path(root), path) for v, root, path in expected]


def test_in_the_second_version_a_place_above_is_tried_too(monkeypatch, tmp_path):
    from labsupport.processes import groups

    (tmp_path / "slice" / "own").mkdir(parents=True)
    monkeypatch.setattr(groups, "_hierarchies", lambda controller: [(2, tmp_path, "/slice/own")])
    assert [home for _, home in groups._homes("memory")] == [
        tmp_path / "slice" / "own",
        tmp_path / "slice",
        tmp_path,
    ]


@pytest.mark.parametrize(
    ("type_name", "message", "which"),
    [
        ("MemoryError", "", "memory"),
        ("_ArrayMemoryError", "Unable to allocate 6.00 GiB", "memory"),
        ("RuntimeError", "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried", "memory"),
        ("OSError", "[Errno 28] No space left on device", "disk"),
        ("OSError", "[Errno 27] File too large", "disk"),
        ("RuntimeError", "can't start new thread", "processes"),
        ("PermissionError", "[Errno 1] answers run without other processes", "processes"),
        ("OSError", "[Errno 24] Too many open files", "open files"),
        ("ValueError", "operands could not be broadcast", None),
    ],
)
def test_the_limit_behind_an_exception_is_named(type_name, message, which):
    from labsupport.grading.allowance import limit_behind

    assert limit_behind(type_name, message) == which
