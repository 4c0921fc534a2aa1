# ruff: noqa: E501 - cells are kept as somebody would write them
"""Answers that try to leave their cage: sockets, programs, other processes and their limits."""

from .attack import SHAPE, SYSCALLS, Attack, escapes


def _escaping(id, tries, body, expect="wrong|crashed", **more):
    return Attack(id=id, kind="escaping", tries=tries, cells={SHAPE: escapes(body)}, expect=expect, **more)


# Ending everything is tried only where ending one process, the judge, was refused: otherwise that is proof enough.
_CAREFUL = """
import os, signal
def reaches_the_judge():
    try:
        os.kill(@JUDGE@, 0)
    except OSError:
        return False
    return True
"""

ATTACKS = (
    # -- network
    _escaping(
        "sockets-of-every-family",
        "makes a socket of each family and type",
        """
import socket
def breaks_out():
    made = []
    for family in range(1, 46):
        for kind in (1, 2, 3, 5):
            try:
                made.append(socket.socket(family, kind))
            except OSError:
                pass
    return made
""",
    ),
    _escaping(
        "connects-to-the-host",
        "connects to a port of the host's loopback",
        """
import socket
def breaks_out():
    for address in ("127.0.0.1", "::1", "0.0.0.0", "localhost"):
        try:
            return socket.create_connection((address, @PORT@), timeout=1)
        except OSError:
            pass
""",
    ),
    _escaping(
        "raw-socket-calls",
        "makes sockets by system calls of its own, around Python's",
        SYSCALLS
        + """
def breaks_out():
    found = [call(41, 198, family, kind, 0) for family in (1, 2, 10, 16, 17, 38, 40) for kind in (1, 2, 3)]
    return [fd for fd in found if fd >= 0]
""",
    ),
    _escaping(
        "sends-to-a-service",
        "makes a pair of datagram sockets and sends from it to a socket of the host",
        """
import glob, socket
def breaks_out():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    for path in [b"\\0" + b"@MARK@", *glob.glob("/run/**/*", recursive=True), "/run/systemd/journal/socket", "/dev/log"]:
        try:
            ours.sendto(b"hello", path)
            return path
        except OSError:
            pass
""",
    ),
    _escaping(
        "abstract-socket",
        "connects to an abstract socket of the host",
        """
import socket
def breaks_out():
    one = socket.socket(socket.AF_UNIX)
    one.connect("\\0@MARK@")
    return one
""",
    ),
    _escaping(
        "ring-of-calls",
        "asks the kernel for a queue that carries calls around filters",
        SYSCALLS
        + """
def breaks_out():
    return call(425, 425, 8, (ctypes.c_ubyte * 120)()) >= 0
""",
    ),
    # -- programs
    _escaping(
        "starts-programs",
        "starts a shell in every way Python knows",
        """
import os, subprocess
def breaks_out():
    ways = (
        lambda: subprocess.run(["/bin/sh", "-c", "echo out"], capture_output=True, check=True).stdout,
        lambda: os.popen("echo out").read(),
        lambda: os.posix_spawn("/bin/sh", ["sh", "-c", "exit 0"], {}),
        lambda: os.system("exit 3") == 3 << 8,
        lambda: os.forkpty(),
        lambda: __import__("multiprocessing").get_context("spawn").Process(target=print).start(),
    )
    for way in ways:
        try:
            if way():
                return True
        except BaseException:
            pass
""",
    ),
    _escaping(
        "becomes-a-program",
        "replaces itself by another program",
        """
import os, sys
def breaks_out():
    for path in ("/bin/sh", "/usr/bin/env", "/usr/bin/python3", sys.executable):
        try:
            os.execve(path, ["@MARK@", "-c", "import time; time.sleep(60)"], {})
        except OSError:
            pass
""",
    ),
    _escaping(
        "program-from-memory",
        "starts a program that lies in memory only",
        SYSCALLS
        + """
def breaks_out():
    fd = os.memfd_create("program")
    os.write(fd, b"#!/bin/sh\\nexit 0\\n")
    os.chmod(fd, 0o755)
    arguments = (ctypes.c_char_p * 2)(b"@MARK@", None)
    return call(322, 281, fd, b"", arguments, (ctypes.c_char_p * 1)(None), 0x1000) != -1
""",
    ),
    _escaping(
        "program-of-its-own",
        "writes a program into its folder and starts it, by the loader too",
        SYSCALLS
        + """
def breaks_out():
    with open("program", "w") as file:
        file.write("#!/bin/sh\\nexit 0\\n")
    os.chmod("program", 0o755)
    for path in (b"./program", b"/lib64/ld-linux-x86-64.so.2", b"/lib/ld-linux-aarch64.so.1"):
        arguments = (ctypes.c_char_p * 3)(path, b"/bin/true", None)
        call(59, 221, path, arguments, (ctypes.c_char_p * 1)(None))
""",
    ),
    _escaping(
        "loader-variables",
        "looks for LD_PRELOAD and similar leftovers, and sets them",
        """
import os
left = [name for name in os.environ if name.startswith(("LD_", "LAB_", "BASH_ENV", "PYTHONPATH", "PYTHONSTARTUP"))]
os.environ["LD_PRELOAD"] = "/tmp/@MARK@.so"
def breaks_out():
    return left
""",
    ),
    _escaping(
        "daemon",
        "forks twice, starts a session of its own and stays",
        """
import os, time
def breaks_out():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            with open("/proc/self/comm", "w") as file:
                file.write("@MARK@")
            while True:
                time.sleep(1)
        os._exit(0)
    return True
""",
    ),
    _escaping(
        "daemon-by-raw-calls",
        "the same by system calls, around Python and its audit hooks",
        SYSCALLS
        + """
import time
def breaks_out():
    pid = call(57, -1) if platform.machine() == "x86_64" else call(-1, 220, 17, 0, 0, 0, 0)
    if pid == 0:
        call(112, 157)
        libc.prctl(15, b"@MARK@", 0, 0, 0)
        while True:
            time.sleep(1)
    return pid > 0
""",
    ),
    _escaping(
        "raw-clone",
        "clones itself with and without shared memory, into new namespaces too",
        SYSCALLS
        + """
def breaks_out():
    for flags in (17, 0x4000 | 0x100 | 17, 0x10000000 | 17, 0x20000000 | 17, 0x10000 | 0x800 | 0x100 | 0x10000000):
        pid = call(56, 220, flags, 0, 0, 0, 0)
        if pid == 0:
            libc._exit(0)
        if pid > 0:
            return True
""",
    ),
    # -- other processes
    _escaping(
        "kills-everybody",
        "sends every kind of ending signal to every process it may reach",
        _CAREFUL
        + """
def breaks_out():
    if reaches_the_judge():
        return True
    for pid in (1, os.getppid(), -1):
        for number in (signal.SIGTERM, signal.SIGSTOP, signal.SIGSEGV, signal.SIGKILL):
            try:
                os.kill(pid, number)
            except OSError:
                pass
""",
        expect="wrong|crashed|over limit",
    ),
    _escaping(
        "kills-its-group",
        "ends the process groups and sessions it was started in",
        _CAREFUL
        + """
def breaks_out():
    if reaches_the_judge():
        return True
    for act in (lambda: os.killpg(os.getpgid(os.getppid()), signal.SIGKILL), lambda: os.killpg(0, signal.SIGKILL)):
        try:
            act()
        except OSError:
            pass
""",
        expect="wrong|crashed",
    ),
    _escaping(
        "signals-by-other-calls",
        "sends signals by the calls that are not kill",
        SYSCALLS
        + """
def breaks_out():
    reached = []
    for pid in (@JUDGE@, os.getppid()):
        if pid <= 1:
            continue
        fd = call(434, 434, pid, 0)
        reached += [call(234, 131, pid, pid, 9), call(129, 138, pid, 9, (ctypes.c_ubyte * 128)())]
        reached += [call(424, 424, fd, 9, None, 0)] if fd >= 0 else []
    return [result for result in reached if result == 0]
""",
    ),
    _escaping(
        "traces-others",
        "attaches to other processes as a debugger",
        SYSCALLS
        + """
def breaks_out():
    libc.ptrace.restype = ctypes.c_long
    for pid in (os.getppid(), @JUDGE@, 1):
        for request in (16, 0x4206):
            if libc.ptrace(request, pid, None, None) == 0:
                return True
    return libc.ptrace(0, 0, None, None) == 0
""",
    ),
    _escaping(
        "takes-descriptors-of-others",
        "copies open descriptors out of other processes",
        SYSCALLS
        + """
def breaks_out():
    for pid in (@JUDGE@, os.getppid(), 1, os.getpid()):
        handle = call(434, 434, pid, 0)
        taken = [call(438, 438, handle, fd, 0) for fd in range(10)] if handle >= 0 else []
        if any(fd >= 0 for fd in taken):
            return True
""",
    ),
    _escaping(
        "limits-of-others",
        "changes limits, priorities and processors of other processes",
        SYSCALLS
        + """
import resource
def breaks_out():
    done = []
    for pid in (@JUDGE@, os.getppid()):
        if pid <= 1:
            continue
        for act in (lambda: resource.prlimit(pid, resource.RLIMIT_CPU, (1, 1)), lambda: os.sched_setaffinity(pid, {0}),
                    lambda: os.setpriority(os.PRIO_PROCESS, pid, 19)):
            try:
                act()
                done.append(pid)
            except OSError:
                pass
    return done
""",
    ),
    _escaping(
        "lifts-its-limits",
        "raises the limits it was given",
        """
import resource
def breaks_out():
    lifted = []
    for name in ("RLIMIT_AS", "RLIMIT_DATA", "RLIMIT_CPU", "RLIMIT_NOFILE", "RLIMIT_FSIZE", "RLIMIT_NPROC"):
        which = getattr(resource, name)
        soft, hard = resource.getrlimit(which)
        if hard == resource.RLIM_INFINITY:
            continue
        try:
            resource.setrlimit(which, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            lifted.append(name)
        except (OSError, ValueError):
            pass
    return lifted
""",
    ),
)
