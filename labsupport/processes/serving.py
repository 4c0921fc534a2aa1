"""The zygote's side: started by `zygote.Zygote`, preloads modules, then forks a process for each request.

It has one thread and runs nobody's code but ours. It ends when the other end of its socket is closed or its parent
has died, and takes every descendant with it.
"""

import contextlib
import errno
import gc
import importlib
import os
import select
import signal
import socket
import struct
import sys
import traceback
from pathlib import Path

from labsupport.processes import kernel, messages, reaping, removing

__all__ = ["serve"]

_LINUX = sys.platform == "linux"


def serve(control_fd, options):
    """Preload, say ready, and answer requests until the other side is gone.

    Args:
        control_fd: this side's descriptor of a stream socketpair.
        options: "preload" (module names, or "module:function" to call), "namespaces" ("root", "user" or None:
            who has the right to make namespaces here), "scratch" (a folder to remove at the end, or None).
    """
    with socket.socket(fileno=control_fd) as control:
        try:
            server = _Server(control, options)
        except BaseException as error:
            return messages.send(control, {"error": f"{type(error).__name__}: {error}"})
        messages.send(control, {"ready": server.ready})
        server.run()


def preload(names):
    """Import modules by name and call functions named "module:function", which pull in what loads late."""
    for name in names:
        module, _, function = name.partition(":")
        loaded = importlib.import_module(module)
        if function:
            getattr(loaded, function)()


class _Server:
    def __init__(self, control, options):
        self.control = control
        self.parent = os.getppid()
        self._parent_ended = _pidfd(self.parent)
        self.lives = {}  # pid -> socket that tells of its end, and whose closing ends it
        self.scratch = options.get("scratch")
        self._own_pids, self.right = None, options.get("namespaces")
        self.ready = {"namespaces": self._prepare_namespaces()}
        preload(options.get("preload", ()))
        self.ready |= {"pid": os.getpid(), "threads": _threads(), "modules": len(sys.modules)}
        if self.ready["threads"] > 1:
            raise RuntimeError(f"{self.ready['threads']} threads after preloading: a fork would copy only one of them")
        self._listen_for_deaths()
        gc.collect()
        gc.freeze()  # what exists now is never looked at again, so the pages it lies on stay shared

    def _prepare_namespaces(self):
        """Return None, or why namespaces cannot be made."""
        if self.right is None or not _LINUX:
            return "not asked for"
        try:
            if self.right == "user":
                _become_root_of_a_user_namespace()
            self._own_pids = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            return error.strerror
        return None

    def _listen_for_deaths(self):
        self.woken, wakes = os.pipe()
        os.set_blocking(wakes, False)
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        if _LINUX:
            kernel.subreaper()
            # Sent when the *thread* that started us ends: the parent itself may well live on, so it is only a hint.
            kernel.parent_death_signal(signal.SIGTERM)

    def run(self):
        # A process that our parent forked holds the other end of the socket too, so its closing is not all we watch.
        watched = [fd for fd in (self.control, self.woken, self._parent_ended) if fd is not None]
        while os.getppid() == self.parent:
            ready, *_ = select.select([*watched, *self.lives.values()], [], [], 5.0)
            if self.woken in ready:
                os.read(self.woken, 4096)
            if self.control in ready and not self._answer():
                break
            for pid in [pid for pid, life in self.lives.items() if life in ready]:
                self._end(pid)
            self._reap()
        for pid in self.lives:
            self._end(pid)
        reaping.end_others()
        if self.scratch:
            removing.remove_tree(self.scratch)

    def _answer(self):
        """Read one request; returns False when the other side is gone."""
        try:
            request, fds = messages.receive(self.control)
        except (EOFError, OSError):
            return False
        pidfds = []
        try:
            pid = self._fork(request, fds)
            pidfds = [os.pidfd_open(pid)] if hasattr(os, "pidfd_open") else []
            reply = {"pid": pid}
        except OSError as error:
            reply = {"error": error.strerror, "errno": error.errno}
        with contextlib.suppress(OSError):
            messages.send(self.control, reply, pidfds)
        for fd in [*fds, *pidfds]:
            os.close(fd)
        return True

    def _fork(self, request, fds):
        life = socket.socket(fileno=os.dup(fds[0]))
        fork = os.fork
        if request.get("pid_namespace"):
            fork = _fork_through_another if self.right == "user" else self._fork_into_namespace
        try:
            pid = fork()
        except OSError:
            life.close()
            raise
        if pid == 0:
            self._be_child(request, fds[1:])
        self.lives[pid] = life
        return pid

    def _fork_into_namespace(self):
        """Fork a child that is the first process of a new pid namespace; this process stays in its own."""
        kernel.unshare(kernel.CLONE_NEWPID)
        try:
            pid = os.fork()
        except OSError:
            pid = -1
        if pid:
            kernel.setns(self._own_pids, kernel.CLONE_NEWPID)
        if pid < 0:
            raise OSError(errno.EAGAIN, "fork refused")
        return pid

    def _be_child(self, request, fds):
        """In the new process: become what was asked for. Never returns."""
        code = 70
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            if _LINUX:
                kernel.parent_death_signal(signal.SIGKILL)
            _keep_only(fds)
            module, function = request["target"].split(":")
            returned = getattr(importlib.import_module(module), function)(*fds, **request["options"])
            code = returned if isinstance(returned, int) and 0 <= returned < 256 else 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)  # no cleaning up that belongs to the zygote

    def _end(self, pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def _reap(self):
        """Reap what has ended, end what it left behind, and only then tell: who is told knows that all is gone."""
        ended = []
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            ended.append((self.lives.pop(pid, None), status, used))
        if ended:
            reaping.end_others(keep=self.lives)
        for life, status, used in ended:
            if life is not None:
                self._tell(life, status, used)

    def _tell(self, life, status, used):
        code = os.waitstatus_to_exitcode(status)
        unit = 1024 if _LINUX else 1
        report = {"code": code, "cpu_s": used.ru_utime + used.ru_stime, "peak_bytes": used.ru_maxrss * unit}
        with contextlib.suppress(OSError):
            messages.send(life, report)
        life.close()


def _fork_through_another():
    """Do the same where this process may not return to its own namespace: a short-lived process in between forks.

    The child becomes ours when the one in between has ended (we are a subreaper). Only then may it go on: the death
    of its parent is what will end it.
    """
    told, tells = os.pipe()
    waits, goes = os.pipe()
    between = os.fork()
    if between == 0:
        try:
            kernel.unshare(kernel.CLONE_NEWPID)
            pid = os.fork()
        except OSError as error:
            pid = -error.errno
        if pid:
            os.write(tells, struct.pack("i", pid))
            os._exit(0)
        os.close(goes)
        if os.read(waits, 1) != b"g":
            os._exit(0)
        return 0
    os.waitpid(between, 0)
    (pid,) = struct.unpack("i", os.read(told, 4))
    os.write(goes, b"g")
    for fd in (told, tells, waits, goes):
        os.close(fd)
    if pid < 0:
        raise OSError(-pid, f"unshare: {os.strerror(-pid)} ({errno.errorcode[-pid]})")
    return pid


def _pidfd(pid):
    """Return a descriptor that becomes readable when a process ends, or None where there is no such thing."""
    with contextlib.suppress(AttributeError, OSError):
        return os.pidfd_open(pid)
    return None


def _threads():
    if not _LINUX:
        import threading

        return threading.active_count()
    return len(list(Path("/proc/self/task").iterdir()))


def _keep_only(fds):
    """Close every descriptor but the standard ones and those given."""
    low = 3
    for fd in sorted(fds):
        os.closerange(low, fd)
        low = fd + 1
    os.closerange(low, os.sysconf("SC_OPEN_MAX"))


def _become_root_of_a_user_namespace():
    """Enter a user namespace in which this user is root: there it may make the other kinds."""
    uid, gid = os.getuid(), os.getgid()
    kernel.unshare(kernel.CLONE_NEWUSER)
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
        try:
            Path(f"/proc/self/{name}").write_text(text, encoding="ascii")
        except OSError as error:
            raise OSError(error.errno, f"{name}: {error.strerror} ({errno.errorcode[error.errno]})") from None
