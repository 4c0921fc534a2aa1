"""Hosts for processes that must not fork themselves: a kernel has threads, so its helper with torch loaded forks one.

Where nothing with torch loaded may be forked (macOS, Windows) the ranks are programs that this process starts; they
stay, so that only the first check waits for torch.
"""

import atexit
import contextlib
import os
import socket
import threading

from labsupport.grading.wire import MAX_QUESTION, Channel
from labsupport.probing.ranks_host import Host
from labsupport.processes.scratch import Scratch

__all__ = ["HostAway", "HostHere", "close", "host"]

_PREFIX = "lab-ranks-"
_lock = threading.Lock()
_hosts = {}  # process id -> its host: what a fork inherits is another process's


def host():
    """Return this process's host, made when it is first needed."""
    from labsupport.torchrun import helper

    with _lock:
        held = _hosts.get(os.getpid())
        if held is None:
            _hosts.clear()
            held = _hosts[os.getpid()] = HostAway() if helper.forks() else HostHere()
        return held


def close():
    """End this process's host and its ranks; the next check makes another."""
    with _lock:
        held = _hosts.pop(os.getpid(), None)
    if held is not None:
        held.close()


atexit.register(close)


class HostAway:
    """A `ranks_host.Host` in a process forked by the kernel's helper; made anew after it was interrupted or died."""

    def __init__(self):
        self._lock = threading.Lock()
        self._handle = self._channel = self._scratch = None

    def observe(self, question, seconds):
        """Return what `Host.observe` returns.

        Raises:
            TimeoutError, Closed, WireError: the host did not answer within `seconds`, or is gone.
            LabError: the helper did not start.
        """
        with self._lock:
            try:
                if self._channel is None:
                    self._start()
                return self._channel.ask(question, seconds, max_bytes=MAX_QUESTION)
            except BaseException:  # an interrupt included: the ranks must not run on
                self._end()
                raise

    def _start(self):
        from labsupport.torchrun import helper

        self._scratch = Scratch(_PREFIX)
        zygote = helper.warm().zygote
        here, there = socket.socketpair()
        with there:
            options = {"folder": str(self._scratch.folder)}
            self._handle = zygote.spawn("labsupport.probing.ranks_host:serve", fds=[there.fileno()], options=options)
        self._channel = Channel(here, asks=True)

    def _end(self):
        if self._channel is not None:
            self._channel.close()
        if self._handle is not None:
            with contextlib.suppress(OSError):
                self._handle.close()  # ends it at once; its ranks follow
        if self._scratch is not None:
            self._scratch.close()
        self._handle = self._channel = self._scratch = None

    def close(self):
        """End the host and its ranks, and remove what they wrote."""
        with self._lock:
            self._end()


class HostHere:
    """A `ranks_host.Host` of this process whose ranks are programs."""

    def __init__(self):
        self._lock = threading.Lock()
        self._scratch = Scratch(_PREFIX)
        self._host = Host(self._scratch.folder, forks=False)

    def observe(self, question, seconds):
        """Return what `Host.observe` returns."""
        with self._lock:
            try:
                return self._host.observe(question)
            except BaseException:
                self._host.close()
                raise

    def close(self):
        """End the ranks and remove what they wrote."""
        with self._lock:
            self._host.close()
            self._scratch.close()
