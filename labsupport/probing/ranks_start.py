"""Making rank processes: by `fork` where torch is loaded and one thread runs, else as programs of their own."""

import contextlib
import functools
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

__all__ = ["Forked", "NotMade", "fork", "spawn"]

_STARTS_WITHIN_S = 120.0  # a program that imports torch, several at once, on a cold disk
_PROGRAM = """
import json, socket, sys
given = json.loads(sys.argv[1])
sys.path[:0] = given["path"]
def connect(which):
    sock = socket.create_connection(("127.0.0.1", given["port"]))
    sock.sendall(bytes.fromhex(given["token"]) + bytes([given["rank"], which]))
    return sock
sock, watch = connect(0), connect(1)
from labsupport.probing import ranks_rank
ranks_rank.become(given["rank"], given["world"], sock, watch)
"""


class NotMade(RuntimeError):
    """There are no ranks to run an answer: the system refused a process, a file or a connection. Nothing of it ran."""


class Forked:
    """A child of this process, with the part of `subprocess.Popen` that is needed."""

    def __init__(self, pid):
        self.pid, self.returncode = pid, None

    def poll(self):
        """Return its exit code, minus the number of the signal that ended it, or None while it lives."""
        if self.returncode is None:
            with contextlib.suppress(ChildProcessError):
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                if pid:
                    self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def kill(self):
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, 9)

    def wait(self):
        if self.returncode is None:
            with contextlib.suppress(ChildProcessError):
                self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode


def fork(rank, world):
    """Return (process, socket for questions, socket to ask where it stands) of a new rank."""
    _load_once()
    from labsupport.probing import ranks_rank

    here, there = socket.socketpair()
    watch, watched = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        _keep_only(there.fileno(), watched.fileno())
        ranks_rank.become(rank, world, there, watched)
    there.close()
    watched.close()
    return Forked(pid), here, watch


@functools.cache
def _load_once():
    """Do before the first fork what each rank would do after it."""
    from labsupport.probing import ranks_rank, ranks_values  # noqa: F401
    from labsupport.ranks import noting

    with tempfile.TemporaryDirectory() as folder:
        noting.install(Path(folder, "calls"))  # its wrappers come along; each rank opens an account of its own


def _keep_only(*fds):
    low = 3
    for fd in sorted(fds):
        os.closerange(low, fd)
        low = fd + 1
    os.closerange(low, os.sysconf("SC_OPEN_MAX"))


def spawn(world):
    """Return [(process, socket, socket)] of new ranks that were started as programs, all at once."""
    from labsupport.places import ROOT

    token = secrets.token_bytes(16)
    with socket.create_server(("127.0.0.1", 0)) as server:
        given = {"path": [str(ROOT)], "port": server.getsockname()[1], "token": token.hex(), "world": world}
        processes = [_program(given | {"rank": rank}) for rank in range(world)]
        try:
            links = _accepted(server, token, processes)
            return [(process, links[rank, 0], links[rank, 1]) for rank, process in enumerate(processes)]
        except BaseException:
            for process in processes:
                process.kill()
                process.wait()
            raise


def _program(given):
    options = {"start_new_session": True} if sys.platform != "win32" else {}
    return subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, json.dumps(given)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=Path(sys.executable).anchor or "/",
        **options,
    )


def _accepted(server, token, processes):
    """Return {(rank, which of its two): connection} of those that show the token: any process can connect."""
    server.settimeout(1.0)
    links, ends = {}, time.monotonic() + _STARTS_WITHIN_S
    while len(links) < 2 * len(processes):
        if time.monotonic() > ends or any(process.poll() is not None for process in processes):
            raise RuntimeError("a rank's process did not start")
        with contextlib.suppress(OSError):
            sock, _ = server.accept()
            sock.settimeout(1.0)
            shown = sock.recv(len(token) + 2, socket.MSG_WAITALL)
            if secrets.compare_digest(shown[: len(token)], token):
                sock.settimeout(None)
                links[tuple(shown[len(token) :])] = sock
            else:
                sock.close()
    return links
