"""Beside the kernel: torch's elastic agent, kept warm, and spare interpreters that become the ranks of a job."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path

from labsupport.torchrun import hosting

__all__ = ["main"]


def main():
    """Load torch, then run one job after the other, as the kernel asks for them."""
    hosting.adopt()
    pool = _Pool()
    line = hosting.Line(on_word=pool.hear)
    from labsupport.torchrun import preloading

    path = os.environ.get(preloading.PATH_VARIABLE)
    preloading.everything()
    os.environ[preloading.PATH_VARIABLE] = path or "[]"  # for the spares
    line.tell(ready=True)
    pool.environ = {name: value for name, value in os.environ.items() if name != hosting.SCRATCH}
    while True:
        code = _run(line.messages.get(), pool)
        line.tell(ended=code)
        pool.refill()


def _run(order, pool):
    from labsupport.torchrun import agent

    try:
        return agent.lead(**order, starter=pool)
    except BaseException:
        traceback.print_exc()
        return 70
    finally:
        pool.end()


class _Pool:
    """The spares, and the ranks of the job that runs. Takes the place of forking for `node.Node`."""

    def __init__(self):
        self.environ = None
        self._spares, self._ranks, self._wanted = [], [], 0
        self._lock = threading.Lock()

    def hear(self, message):
        """Act at once on what concerns a running job; returns whether that was all."""
        if message.get("interrupt"):
            self.end()
            return True
        if message.get("stack"):
            for rank in self._ranks:
                rank.say(stack=True)
            return True
        return False

    # -- for the agent ----------------------------------------------------------------------------------------

    def before_attempt(self, count):
        """Have as many interpreters loading as ranks will be needed."""
        self._wanted = count
        self.refill()

    def rank(self, place, events, grace_s):
        """Return what torch expects of a started rank: `proc` is like a `Popen`."""
        spare = self._spares.pop(0) if self._spares else _Spare(self.environ)
        self._ranks.append(spare)
        spare.become(place, events, grace_s)
        return _Handler(spare)

    # -- for the host -----------------------------------------------------------------------------------------

    def refill(self):
        """Take back those that have done their work and wait, and start as many as are missing."""
        with self._lock:
            waiting = [one for one in (*self._spares, *self._ranks) if one.waits()]
            self._ranks = [one for one in self._ranks if not one.waits() and one.is_alive()]
            missing = self._wanted - len(waiting)
            self._spares = waiting + [_Spare(self.environ) for _ in range(missing)]

    def end(self):
        """End the ranks of the job, with what they started; those that wait again are no ranks any more."""
        for rank in list(self._ranks):
            rank.end()


class _Handler:
    def __init__(self, spare):
        self.proc, self.local_rank_id = spare, spare.local_rank

    def close(self, death_sig=None):
        self.proc.send_signal(death_sig or signal.SIGTERM)


class _Spare:
    """An interpreter that loads torch and waits to be told which rank it is; has what the agent uses of a `Popen`."""

    def __init__(self, environ):
        session = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP} if os.name == "nt" else {}
        self._process = subprocess.Popen(
            hosting.interpreter("spawned_rank"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environ,
            start_new_session=True,
            **session,
        )
        self.pid, self.local_rank, self.returncode = self._process.pid, None, None
        self._place = self._events = self._asked = None
        self._grace_s, self._again = 0.5, True
        self._news = threading.Condition()
        threading.Thread(target=self._listen, name="rank", daemon=True).start()

    def _listen(self):
        for line in self._process.stdout:
            told = json.loads(line)
            self._has_ended(told["done"], told["again"])
        self._has_ended(self._process.wait(), again=False)

    def _has_ended(self, code, again):
        with self._news:
            self._again = again
            if self._place is not None:
                place, self._place, asked = self._place, None, self._asked is not None
                self._events.write("rank ended", rank=place.rank, attempt=place.attempt, code=code, asked=asked)
                self.returncode = code
            self._news.notify_all()

    def waits(self):
        """Return whether it can become a rank."""
        return self._place is None and self._again and self.is_alive()

    def is_alive(self):
        return self._process.poll() is None

    def say(self, **data):
        with contextlib.suppress(OSError, ValueError):  # it has ended, and that will be seen
            self._process.stdin.write(json.dumps(data).encode() + b"\n")
            self._process.stdin.flush()

    def become(self, place, events, grace_s):
        self.local_rank = int(place.environ["LOCAL_RANK"])
        self.returncode = self._asked = None
        self._place, self._events, self._grace_s = place, events, grace_s
        self.say(
            job=str(place.job),
            folder=str(place.folder),
            rank_environ=dict(place.environ),
            environ=dict(os.environ),
            path=list(sys.path),
            cwd=str(Path.cwd()),
            node=place.node,
            attempt=place.attempt,
            begun=place.begun,
            arguments=list(place.arguments),
            timeout_s=place.timeout_s,
            options=place.options,
        )
        if not self.is_alive():
            self._has_ended(self._process.wait(), again=False)

    def poll(self):
        return self.returncode

    def wait(self, timeout=None):
        """Wait as `Popen.wait` does, but once it was asked to end not longer than the grace it has."""
        if self._asked is not None:
            left = max(self._asked + self._grace_s - time.monotonic(), 0.01)
            timeout = left if timeout is None else min(timeout, left)
        with self._news:
            if not self._news.wait_for(lambda: self.returncode is not None, timeout):
                raise subprocess.TimeoutExpired("rank", timeout)
        return self.returncode

    def send_signal(self, number):
        if self.returncode is None:
            self._asked = self._asked or time.monotonic()
            if os.name == "nt":
                self._process.kill()
            else:
                self._process.send_signal(number)

    def end(self):
        if self.returncode is None and self._place is not None:
            self._asked = self._asked or time.monotonic()
            self._process.kill()
