"""Ranks where nothing is forked (macOS, Windows): interpreters that have loaded torch and wait, spawned ahead.

The kernel keeps one process with torch's elastic agent, and that keeps as many spare interpreters as the last job had
ranks. A job takes them; each serves once, so that no cell sees what an earlier one did, and others load for the next
job while its result is read. So the first cell waits for torch, the later ones do not.
"""

import json
import os
import threading

from labsupport.torchrun import hosting
from labsupport.torchrun.preloading import PATH_VARIABLE, search_path
from labsupport.torchrun.starting import ask_by_signal
from labsupport.torchrun.tagging import new_token

__all__ = ["Spawned", "start", "stop"]

_lock = threading.Lock()
_hosts = []  # those that may take another job


def start():
    """Begin to start a host, in the background; returns at once."""
    with _lock:
        if not any(host.usable() for host in _hosts):
            _hosts.append(_SpawnedHost())


def stop():
    """End all hosts and what they started."""
    with _lock:
        hosts, _hosts[:] = list(_hosts), []
    for host in hosts:
        host.close()


class Spawned:
    """Starts jobs on spare interpreters."""

    mode, parses = "spawned", True

    def __init__(self):
        self._handle = None

    def start(self, order):
        from labsupport.torchrun import cold

        if cold.node_counts(order["flags"])[1] > 1:  # an agent for each: that is what the fresh torchrun does
            self.mode, self.parses = "cold", False
            return cold.Cold().start(order)
        with _lock:
            _hosts[:] = [host for host in _hosts if host.usable()]
            idle = [host for host in _hosts if host.handle is None]
            host = idle[0] if idle else _SpawnedHost()
            if not idle:
                _hosts.append(host)
            self._handle = host.handle = _Handle(host)
        host.say(**order)
        return self._handle

    def ask_for_stack(self, pid):
        if os.name != "nt":
            ask_by_signal(pid)
        elif self._handle is not None:
            self._handle.host.say(stack=True)

    def clean(self):
        pass


class _SpawnedHost(hosting.Host):
    """One process with an agent and its spares; `handle`: the job it runs, or None."""

    def __init__(self):
        token = new_token()
        self.handle = None
        env = hosting.environment(token) | {
            PATH_VARIABLE: json.dumps(search_path()),
            "TORCH_CPP_LOG_LEVEL": "ERROR",
            "OMP_NUM_THREADS": "1",
        }
        super().__init__(hosting.interpreter("spawned_host"), env, token, self._heard)

    def _heard(self, message):
        if "ended" in message and self.handle is not None:
            handle, self.handle = self.handle, None
            handle.set(message["ended"])

    def usable(self):
        return not self.ended.is_set()


class _Handle:
    def __init__(self, host):
        self.host, self.ending = host, None
        self._code, self._told = -9, threading.Event()

    def set(self, code):
        self._code = code
        self._told.set()

    def wait(self, timeout_s=None):
        """Return how it ended, or None when it has not in time. The end of the host is the end of its job."""
        step = 0.5
        while self.ending is None:
            left = step if timeout_s is None else min(step, timeout_s)
            if self._told.wait(left) or self.host.ended.is_set():
                self.ending = hosting.Ended(self._code)
            elif timeout_s is not None:
                timeout_s -= left
                if timeout_s <= 0:
                    break
        return self.ending

    def close(self):
        """End the job if need be: its ranks first, and the host with them when that does not help."""
        if self.ending is None:
            self.host.say(interrupt=True)
            if self.wait(0.4) is None:
                self.host.close()
                self.wait(1)
        return self.ending
