"""A child's process tree as the judge holds it: started, listened to, ended. Caged or fenced by a nanny, or open."""

import base64
import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from labsupport.errors import LabError
from labsupport.probing import fair
from labsupport.processes import messages
from labsupport.processes.removing import remove_tree
from labsupport.processes.zygote import QUIET_LIBRARIES, ZygoteError

__all__ = ["CagedTree", "Ended", "OpenTree", "Refused"]

_PATIENCE_S = 30.0  # for a nanny, which takes no time on a quiet machine


class Refused(LabError):
    """The kernel refused a layer, so no child was started."""


@dataclass(frozen=True)
class Ended:
    """How a tree ended: exit code (minus a signal's number), None when the judge ended it; the limit passed, if any."""

    code: int | None
    over: str | None = None


class CagedTree:
    """A nanny and the child it keeps, forked by a zygote: tiers A and B.

    Args:
        zygote: a started `Zygote` with `labsupport.grading.nanny` preloaded.
        plan: see `plans.caged`.
        group: a control group, or None; the tree's to close.
        work: a folder of the host to remove afterwards, or None.
    """

    def __init__(self, zygote, plan, group=None, work=None):
        self.group, self._work, self._account, self.pidfd = group, work, None, None
        self.started = time.monotonic()
        self.sock, question = socket.socketpair()
        self._report, report = socket.socketpair()
        doors = group.doors() if group else []
        try:
            fds = [question.fileno(), report.fileno(), *doors]
            options, inside = {"plan": plan}, plan["tier"] == "A" and "process namespace" not in plan["without"]
            self._nanny = zygote.spawn("labsupport.grading.nanny:run", fds=fds, options=options, pid_namespace=inside)
        except ZygoteError as error:
            self._nanny = None
            self._clean()
            raise Refused(error.why or error.what) from None
        finally:
            question.close()
            report.close()
            for door in doors:
                os.close(door)
        self._wait_for_start()

    def _wait_for_start(self):
        message, fds = self._listen(_PATIENCE_S)
        if message is None or "refused" in message:
            self.end()
            raise Refused(message["refused"] if message else "the process that keeps an answer ended at once")
        (self.pidfd,) = fds

    def _listen(self, patience_s):
        self._report.settimeout(max(0.001, patience_s))
        try:
            return messages.receive(self._report)
        except (EOFError, OSError):
            return None, []

    def cpu_s(self):
        """Return the CPU seconds of the child's process so far, ended threads included; None once it is gone."""
        from labsupport.processes.kernel import process_cpu_s

        with contextlib.suppress(OSError, ValueError):
            pid = self._pid()
            return process_cpu_s(pid) if pid > 0 else None
        return None

    def _pid(self):
        info = Path(f"/proc/self/fdinfo/{self.pidfd}").read_text(encoding="ascii")
        return int(info.partition("Pid:")[2].split()[0])

    def delays(self):
        """Return [seconds for which the child's main thread has waited for a processor so far]; [0.0]: nobody tells."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            return [fair.thread_delay(self._pid())]
        return [0.0]

    def wait(self, patience_s=_PATIENCE_S):
        """Return how the tree ended by itself, or None when it has not ended in time."""
        if self._account is None:
            self._account, _ = self._listen(patience_s)
        return self._ended() if self._account else None

    def end(self):
        """End the whole tree and return (Ended, usage); nothing of it is left afterwards."""
        wall_s = time.monotonic() - self.started
        if self._account is None:
            with contextlib.suppress(OSError):
                self._report.shutdown(socket.SHUT_WR)  # the nanny takes this as the word to end everything
            self.wait()
        last = self._nanny.close() if self._account is None else self._nanny.wait(_PATIENCE_S)
        peak, cpu = 0, 0.0
        if self._account:
            peak, cpu = self._account["peak_bytes"], self._account["cpu_s"]
        elif last:
            peak, cpu = last.peak_bytes, last.cpu_s
        if self.group:
            peak = self.group.peak_bytes() or peak
        ended = self._ended()
        self._clean()
        return ended, {"wall_s": wall_s, "cpu_s": cpu, "peak_bytes": peak}

    def _ended(self):
        account = self._account or {"code": None, "over": None}
        over = "memory" if self.group and self.group.killed() else account["over"]
        return Ended(code=account["code"], over=over)

    def _clean(self):
        self.sock.close()
        self._report.close()
        if self._nanny is not None:
            self._nanny.close()
        if self.pidfd is not None:
            os.close(self.pidfd)
            self.pidfd = None
        if self.group:
            self.group.close()
        if self._work:
            remove_tree(self._work)


_OPEN = """
import json, socket, sys
given = json.loads(sys.stdin.readline())
sys.path[:] = [*given["plan"]["path"], *sys.path]
if "fd" in given:
    sock = socket.socket(fileno=given["fd"])
else:
    sock = socket.create_connection(("127.0.0.1", given["port"]))
    sock.sendall(bytes.fromhex(given["token"]))
from labsupport.grading.child import serve
try:
    from labsupport.processes import limits
except ImportError:  # Windows has no such limits
    pass
else:
    limits.apply(limits.Rlimits(**given["plan"]["limits"]))
serve(sock, {}, given["plan"])
"""
_KEPT = ("PATH", "SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "TEMP", "TMP", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
_OPEN_STARTS_WITHIN_S = 60


class OpenTree:
    """A plain child process with nothing around it but time limits: tier C, on every system. For feedback only.

    Args:
        plan: see `plans.opened`.
        work: a folder it starts in, the tree's to remove.
    """

    group = pidfd = None

    def __init__(self, plan, work):
        self.started, self._work = time.monotonic(), work
        self.sock = self._start_with_pair(plan) if sys.platform != "win32" else self._start_with_port(plan)

    def _start(self, given, **options):
        env = {name: os.environ[name] for name in _KEPT if name in os.environ}
        self._process = subprocess.Popen(
            [sys.executable, "-s", "-S", "-P", "-B", "-c", _OPEN],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=env | {"PYTHONHASHSEED": "0", "MPLBACKEND": "agg", **QUIET_LIBRARIES},
            cwd=self._work,
            **options,
        )
        with contextlib.suppress(OSError):  # it ended at once: the connection will say so
            self._process.stdin.write(json.dumps(given).encode() + b"\n")
            self._process.stdin.close()

    def _start_with_pair(self, plan):
        here, there = socket.socketpair()
        with there:
            fd = there.fileno()
            self._start({"plan": plan, "fd": fd}, pass_fds=[fd], start_new_session=True)
        return here

    def _start_with_port(self, plan):
        """Connect by TCP, because nothing else can be handed over on Windows."""
        token = secrets.token_bytes(16)
        with socket.create_server(("127.0.0.1", 0)) as server:
            self._start({"plan": plan, "port": server.getsockname()[1], "token": token.hex()})
            return self._accept(server, token)

    def _accept(self, server, token):
        """Return the connection that shows the token: any process of this machine can connect."""
        server.settimeout(1.0)
        while time.monotonic() - self.started < _OPEN_STARTS_WITHIN_S and self._process.poll() is None:
            with contextlib.suppress(OSError):
                sock, _ = server.accept()
                sock.settimeout(1.0)
                if secrets.compare_digest(sock.recv(len(token), socket.MSG_WAITALL), token):
                    return sock
                sock.close()
        self._process.kill()
        raise Refused("the process for an answer did not start")

    def delays(self):
        return [fair.thread_delay(self._process.pid)]

    def cpu_s(self):
        import psutil

        with contextlib.suppress(psutil.Error):
            times = psutil.Process(self._process.pid).cpu_times()
            return times.user + times.system
        return None

    def wait(self, patience_s=_PATIENCE_S):
        try:
            return Ended(code=self._process.wait(patience_s))
        except subprocess.TimeoutExpired:
            return None

    def end(self):
        import psutil

        wall_s, cpu_s, by_itself = time.monotonic() - self.started, self.cpu_s() or 0.0, self._process.poll()
        tree = []
        with contextlib.suppress(psutil.Error):
            tree = psutil.Process(self._process.pid).children(recursive=True)
        for process in [*tree, self._process]:
            with contextlib.suppress(psutil.Error, OSError):
                process.kill()
        if sys.platform != "win32":
            with contextlib.suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)  # its session, orphans included
        self._process.wait()
        self.sock.close()
        remove_tree(self._work)
        return Ended(code=by_itself), {"wall_s": wall_s, "cpu_s": cpu_s, "peak_bytes": 0}


def encoded(program):
    """Return bytes as text for a plan."""
    return base64.b64encode(program).decode("ascii")
