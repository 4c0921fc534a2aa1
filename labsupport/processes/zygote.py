"""A server that has libraries loaded and forks a process for each request: 10 to 20 ms instead of seconds.

    with Zygote(preload=("numpy",)) as zygote:
        handle = zygote.spawn("package.module:function", fds=[3], options={"rank": 0})
        ending = handle.wait(10)

The zygote is started by exec with an environment of its own and knows nothing of the process that started it.
"""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass

from labsupport.errors import LabError
from labsupport.processes import messages

__all__ = ["QUIET_LIBRARIES", "ChildHandle", "Ending", "Zygote", "ZygoteError"]

# One thread per library: a zygote must have one when it forks, results must not depend on their number, and many
# children share few cores. Two malloc arenas: each reserves 64 MB of address space, which a limit would count.
QUIET_LIBRARIES = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "2",
}
_ENV = {"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "0", "PYTHONUTF8": "1", "MPLBACKEND": "agg"}
_START = """
import json, sys
given = json.loads(sys.argv[1])
sys.path[:] = [*given["path"], *sys.path]
from labsupport.processes.serving import serve
serve(given["control"], given["options"])
"""
_STARTS_WITHIN_S = 60  # a guard against hanging: torch on a cold disk takes a while


class ZygoteError(LabError):
    """The zygote did not start, refused a request or is gone."""

    def __init__(self, what, *, why=None, next_step=None, errno=None):
        super().__init__(what, why=why, next_step=next_step)
        self.errno = errno


@dataclass(frozen=True)
class Ending:
    """How a process ended: exit code (minus the signal's number when a signal ended it), CPU seconds, peak bytes."""

    code: int
    cpu_s: float
    peak_bytes: int


class Zygote:
    """Starts when entered (`with`) or by `start()`; closing ends every process it forked.

    Args:
        preload: names of modules to import, or "module:function" to call after importing.
        path: folders put before the standard library's on `sys.path`; the first must hold `labsupport`.
        python: the interpreter; this one when None.
        env: more environment variables; nothing is inherited.
        command_prefix: words put before the interpreter, such as those of `bwrap`.
        namespaces: "root" or "user": who has the right to make namespaces for children; None: nobody.
        scratch: a folder that it removes at its end, also when this process was killed.
    """

    def __init__(self, preload=(), *, path=(), python=None, env=None, command_prefix=(), namespaces=None, scratch=None):
        options = {"preload": list(preload), "namespaces": namespaces, "scratch": scratch and str(scratch)}
        self._given = {"path": [str(p) for p in path], "options": options}
        self._python, self._prefix = str(python or sys.executable), [str(word) for word in command_prefix]
        self._env = _ENV | QUIET_LIBRARIES | (env or {})
        self._lock = threading.Lock()
        self._process = self._control = self._log = None
        self.ready = {}

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.close()

    def start(self):
        """Start the server, wait until it has preloaded everything, and return it."""
        here, there = socket.socketpair()
        self._log = tempfile.TemporaryFile()  # lives as long as the process that writes to it
        with there:
            command = [*self._prefix, self._python, "-s", "-S", "-P", "-B", "-c", _START]
            command.append(json.dumps(self._given | {"control": there.fileno()}))
            self._process = subprocess.Popen(
                command,
                pass_fds=[there.fileno()],
                env=self._env,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._log,
                start_new_session=True,  # Ctrl-C in a terminal is the judge's to handle
            )
        self._control = here
        here.settimeout(_STARTS_WITHIN_S)
        try:
            message, _ = messages.receive(here)
        except (EOFError, TimeoutError) as error:
            why = self._said() or str(error)
            self.close()
            raise ZygoteError("the process that prepares others did not start", why=why) from None
        if "error" in message:
            self.close()
            raise ZygoteError("the process that prepares others did not start", why=message["error"])
        self.ready = message["ready"]
        return self

    def spawn(self, target, *, fds=(), options=None, pid_namespace=False):
        """Fork a process that runs `function(*fds, **options)` and return its handle.

        Args:
            target: "module:function", preloaded or importable there; a small int it returns is the exit code.
            fds: descriptors it gets; this process keeps its own.
            options: keyword arguments, as JSON data.
            pid_namespace: make it the first process of a pid namespace of its own.

        Raises:
            ZygoteError: the fork or the namespace was refused (`errno`), or the zygote is gone.
        """
        request = {"target": target, "options": options or {}, "pid_namespace": pid_namespace}
        here, there = socket.socketpair()
        with there, self._lock:
            if self._control is None:
                here.close()
                raise ZygoteError("this zygote is closed")
            try:
                messages.send(self._control, request, [there.fileno(), *fds])
                reply, pidfds = messages.receive(self._control)
            except (EOFError, OSError) as error:
                here.close()
                raise ZygoteError("the process that prepares others is gone", why=self._said() or str(error)) from None
        if "error" in reply:
            here.close()
            raise ZygoteError("a process could not be made", why=reply["error"], errno=reply["errno"])
        return ChildHandle(reply["pid"], pidfds[0] if pidfds else None, here)

    def _said(self):
        """Return the last lines it wrote to its standard error."""
        self._log.seek(0)
        return self._log.read().decode("utf-8", "replace").strip()[-2000:]

    @property
    def pid(self):
        return self._process.pid

    def alive(self):
        """Return whether it can still be asked for processes."""
        return self._control is not None and self._process.poll() is None

    def wait(self, timeout_s):
        """Return whether its process has ended, after waiting for that a while."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)
        return self._process.poll() is not None

    def close(self):
        """End the server and everything it started."""
        with self._lock:
            control, self._control = self._control, None
        if control is not None:
            control.close()
        if self._process is not None:
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._log is not None:
            self._log.close()


class ChildHandle:
    """A forked process. Closing the handle ends the process; so does the end of this process.

    `pid` is the number the zygote knows it by; `pidfd` (Linux) refers to exactly this process. `lost`: the zygote ended
    before it could tell how this process did.
    """

    def __init__(self, pid, pidfd, life):
        self.pid, self.pidfd, self._life = pid, pidfd, life
        self.ending, self.lost = None, False

    def wait(self, timeout_s=None):
        """Return its `Ending`, or None when it has not ended in time."""
        if self.ending is None and self._life is not None:
            ready, *_ = select.select([self._life], [], [], timeout_s)
            if ready:
                try:
                    report, _ = messages.receive(self._life)
                    self.ending = Ending(**report)
                except (EOFError, OSError):  # the zygote went first, and took it along
                    self.lost = True
                    self.ending = Ending(code=-signal.SIGKILL, cpu_s=0.0, peak_bytes=0)
        return self.ending

    def kill(self):
        """End it at once; its descendants follow."""
        with contextlib.suppress(ProcessLookupError):
            if self.pidfd is not None:
                signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
            elif self.ending is None:
                os.kill(self.pid, signal.SIGKILL)

    def close(self, patience_s=5.0):
        """End it if need be, wait until it is gone, and return its `Ending` (None when it would not go)."""
        ends = time.monotonic() + patience_s
        if self.ending is None and self._life is not None:
            self.kill()
            self.wait(max(0.0, ends - time.monotonic()))
        if self._life is not None:
            self._life.close()
            self._life = None
        if self.pidfd is not None:
            os.close(self.pidfd)
            self.pidfd = None
        return self.ending
