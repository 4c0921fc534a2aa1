"""What an answer reaches from its cage: not the references, not the host, no network, no other process."""

import os
import socket
import sys
from pathlib import Path

import pytest
from caged import call, load, needs_linux, own_files, run

from labsupport import places
from labsupport.grading.errors import GradingImpossible

pytestmark = needs_linux


def refused(value):
    return isinstance(value, dict) and value["type"] in ("PermissionError", "FileNotFoundError", "OSError")


def test_the_references_cannot_be_imported(runner):
    for module in ("exercises", "exercises.strides", "catalog", "answering", "observing", "live", "judging"):
        got = run(runner, f"import importlib\ndef f():\n    importlib.import_module('labsupport.{module}')\n")
        assert got["type"] == "ModuleNotFoundError", module
    got = run(runner, "import sys\ndef f():\n    return sorted(m for m in sys.modules if m.startswith('labsupport'))\n")
    assert not [name for name in got if "exercise" in name or "catalog" in name or "answering" in name]


def test_references_installed_beside_other_packages_are_covered(tmp_path, monkeypatch):
    """Not a checkout but an installed course: `labsupport` lies in the folder that a child gets its NumPy from."""
    from labsupport.grading import runtime

    packages = tmp_path / "site-packages"
    for name in ("labsupport/exercises/strides.py", "numpy/__init__.py", "other.py"):
        (packages / name).parent.mkdir(parents=True, exist_ok=True)
        (packages / name).write_text("", encoding="utf-8")
    monkeypatch.setattr(places, "ROOT", packages)
    hidden = runtime._hidden([packages], [packages])
    assert hidden == [packages / "labsupport"]
    left = runtime._without(packages, hidden)
    assert sorted(path.name for path in left) == ["numpy", "other.py"]


def test_the_self_test_finds_what_is_reachable(caged, tmp_path):
    """In a cage that shows the whole checkout by mistake, the runner does not start."""
    from labsupport.grading import runner as running
    from labsupport.grading.runtime import Runtime

    class Careless(Runtime):
        def __init__(self):
            super().__init__()
            self.readable, self.hidden = [*self.readable, places.ROOT / "labsupport"], []

    original = running.Runtime
    running.Runtime = Careless
    try:
        with pytest.raises(GradingImpossible) as refusal, running.Runner("A"):
            pass
    finally:
        running.Runtime = original
    assert "exercises" in refusal.value.why


READS = """
def f(path):
    with open(path, "rb") as file:
        return file.read(10)
"""


def test_files_of_the_host_cannot_be_read(runner, tmp_path):
    canary = tmp_path / "canary"
    canary.write_text("canary", encoding="utf-8")
    for folder in [tmp_path, *tmp_path.parents][:3]:
        folder.chmod(0o755)  # by its modes it could
    notebook = next(places.NOTEBOOKS.glob("*.ipynb"))
    for path in (canary, Path(__file__), notebook, places.ROOT / "labsupport" / "catalog.py", Path("/etc/shadow")):
        assert refused(run(runner, READS, str(path))), path
    for way in ("/proc/self/root", "/proc/self/cwd", "/proc/1/root", f"/proc/{os.getpid()}/root", "/dev/fd/../root"):
        assert refused(run(runner, READS, way + str(canary))), way


def test_links_lead_nowhere(runner, tmp_path):
    canary = tmp_path / "canary"
    canary.write_text("canary", encoding="utf-8")
    source = "import os\ndef f(path):\n    os.symlink(path, 'link')\n    return open('link').read()\n"
    assert refused(run(runner, source, str(canary)))
    assert refused(run(runner, source.replace("symlink", "link"), str(canary)))


def test_the_environment_holds_nothing_of_the_hosts(runner, planted):
    source = """
import os
def f():
    started = open("/proc/self/environ").read() if os.access("/proc/self/environ", os.R_OK) else ""
    return {**os.environ}, started
"""
    environ, started = run(runner, source)
    assert planted not in str(environ) + started
    assert not set(environ) & {"LAB_PLANTED", "SSH_AUTH_SOCK", "VIRTUAL_ENV", "PYTEST_CURRENT_TEST"}
    assert environ["OMP_NUM_THREADS"] == "1"
    assert environ["MALLOC_ARENA_MAX"] == "2"


def test_the_planted_is_not_in_its_memory(runner, planted):
    source = """
def f(head, between, tail):
    wanted, hits = (head + tail).encode(), 0
    for line in open("/proc/self/maps"):
        span, modes = line.split()[:2]
        begin, end = (int(part, 16) for part in span.split("-"))
        if modes.startswith("rw") and end - begin < 200 << 20:
            import ctypes
            hits += ctypes.string_at(begin, end - begin).count(wanted)
    return hits
"""
    hits = run(runner, source, planted[:10], "not side by side", planted[10:])
    assert isinstance(hits, dict) or hits <= 1  # its own copy, joined just now


def test_processes_of_the_host_are_neither_seen_nor_reached(runner):
    source = """
import os
def f(judge):
    try:
        seen = [name for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        seen = []
    for pid in (judge, os.getppid()):
        read, move = (lambda: open(f"/proc/{pid}/environ").read()), (lambda: os.sched_setaffinity(pid, {0}))
        for action in (lambda: os.kill(pid, 0), read, move):
            try:
                action()
                return "reached", pid
            except OSError:
                pass
    return len(seen)
"""
    seen = run(runner, source, os.getpid())
    assert seen in (0, 1, 2)


def test_it_can_only_write_in_its_work_folder(runner):
    source = """
import os
def f(paths):
    done = []
    for path in paths:
        try:
            with open(path + "/new", "w") as file:
                file.write("x")
            done.append(path)
        except OSError:
            pass
    return done
"""
    import numpy

    places_tried = ["/", "/lab", "/usr/lib", "/tmp/..", "/etc", "/proc/self", str(places.ROOT)]
    places_tried += [str(Path(numpy.__file__).parent), str(Path(sys.base_prefix) / "lib"), "."]
    assert run(runner, source, places_tried) == ["."]


def test_modes_owners_and_times_of_the_hosts_files_stay(runner):
    import numpy

    file = Path(numpy.__file__)
    before = file.stat()
    source = """
import os
def f(path):
    done = []
    fd = os.open(path, os.O_RDONLY)
    for name, action in {
        "chmod": lambda: os.chmod(path, 0o777), "fchmod": lambda: os.chmod(fd, 0o777),
        "utime": lambda: os.utime(path, (1, 1)),
        "chown": lambda: os.chown(path, 1, 1), "setxattr": lambda: os.setxattr(path, "user.x", b"1"),
        "unlink": lambda: os.unlink(path), "truncate": lambda: os.truncate(path, 0),
    }.items():
        try:
            action()
            done.append(name)
        except OSError:
            pass
    return done
"""
    assert run(runner, source, str(file)) == []
    after = file.stat()
    assert (before.st_mode, before.st_uid, before.st_mtime, before.st_size) == (
        after.st_mode,
        after.st_uid,
        after.st_mtime,
        after.st_size,
    )


def test_it_is_nobody_and_can_become_nobody_else(runner):
    source = """
import ctypes, os
def f():
    libc = ctypes.CDLL(None, use_errno=True)
    became = [name for name, action in {
        "setuid": lambda: os.setuid(0), "setgid": lambda: os.setgid(0), "setgroups": lambda: os.setgroups([0]),
        "chroot": lambda: os.chroot("/"), "nice": lambda: os.nice(-5),
    }.items() if not fails(action)]
    calls = {"unshare": (0x10000000,), "mount": (b"x", b"/tmp", b"tmpfs", 0, None), "ptrace": (16, 1, 0, 0)}
    for name, args in calls.items():
        if getattr(libc, name)(*args) != -1:
            became.append(name)
    status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
    return became, status["CapEff"].strip(), status["NoNewPrivs"].strip(), status["Seccomp"].strip()

def fails(action):
    try:
        action()
    except OSError:
        return True
"""
    assert run(runner, source) == ([], "0" * 16, "1", "2")


def test_two_children_do_not_see_each_other(runner):
    source = "import os\ndef f(pid):\n    open('mine', 'w').close()\n    return os.getpid(), os.getcwd(), os.getuid()\n"
    with runner.child() as one, runner.child() as two:
        load(one, source)
        pid, folder, uid = call(one, 0)["value"]
        load(
            two,
            "import os\ndef f(pid, where):\n    return os.path.exists(where + '/mine'), os.listdir('.'), os.getuid()\n",
        )
        exists, files, other_uid = call(two, pid, folder)["value"]
        assert own_files(files) == []
        if runner.report.tier == "A":
            assert not exists
        else:
            load(two, READS)
            assert refused(call(two, folder + "/mine")["raised"])
        if runner.report.notes["own user"]:
            assert uid != other_uid


@pytest.mark.parametrize("family", ["AF_INET", "AF_INET6", "AF_UNIX", "AF_NETLINK", "AF_PACKET", "AF_VSOCK", "AF_ALG"])
def test_sockets_of_every_family_are_refused(runner, family):
    for kind in ("SOCK_STREAM", "SOCK_DGRAM", "SOCK_RAW"):
        got = run(runner, f"import socket\ndef f():\n    socket.socket(socket.{family}, socket.{kind})\n")
        assert got["type"] == "PermissionError", kind


def test_a_listener_of_the_host_is_not_reached(runner):
    with socket.create_server(("127.0.0.1", 0)) as server:
        source = "import socket\ndef f(port):\n    socket.create_connection(('127.0.0.1', port), 1)\n"
        got = run(runner, source, server.getsockname()[1])
        assert got["message"].endswith("answers run without a network")


def test_a_datagram_pair_cannot_be_turned_to_the_host(runner, tmp_path):
    source = "import socket\ndef f():\n    socket.socketpair(type=socket.SOCK_DGRAM)\n"
    assert run(runner, source)["type"] == "PermissionError"
    assert (
        run(runner, "import socket\ndef f():\n    a, b = socket.socketpair()\n    a.send(b'x')\n    return b.recv(1)\n")
        == b"x"
    )


@pytest.mark.parametrize(
    "body",
    [
        "os.fork()",
        "os.execv('/bin/true', ['true'])",
        "os.system('true')",
        "subprocess.run(['/bin/true'])",
        "os.posix_spawn('/bin/true', ['true'], {})",
        "multiprocessing.get_context('fork').Process(target=print).start()",
    ],
)
def test_other_processes_are_refused_in_words(runner, body):
    got = run(runner, f"import multiprocessing, os, subprocess\ndef f():\n    {body}\n")
    assert got["type"] == "PermissionError"
    assert got["message"] == "[Errno 1] answers run without other processes"
    assert got["line"] == body


def test_the_kernel_refuses_them_too(runner):
    source = """
import ctypes, errno
def f():
    libc = ctypes.CDLL(None, use_errno=True)
    told = []
    for action in (libc.fork, libc.vfork, lambda: libc.execv(b"/bin/true", None), lambda: libc.socket(2, 1, 0)):
        told.append(errno.errorcode[ctypes.get_errno()] if action() == -1 else "done")
    return told
"""
    assert run(runner, source) == ["EPERM"] * 4


def test_shared_memory_of_the_system_and_rings_are_refused(runner):
    source = """
import ctypes, errno
def f():
    libc = ctypes.CDLL(None, use_errno=True)
    told = []
    segment, queue, ring = (lambda: libc.shmget(0, 1 << 20, 0o1600)), (lambda: libc.msgget(0, 0o1600)), 425
    for action in (segment, queue, lambda: libc.syscall(ring, 1, None)):
        told.append(errno.errorcode[ctypes.get_errno()] if action() == -1 else "done")
    return told
"""
    assert run(runner, source) == ["EPERM"] * 3
