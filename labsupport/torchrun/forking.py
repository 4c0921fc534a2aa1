"""Ranks by fork where torchrun would start a program, and the promise that nothing outlives whoever is above."""

import contextlib
import gc
import os
import select
import signal
import subprocess
import threading
import time

from labsupport.torchrun.forker import Forker

__all__ = ["Forked", "Forks", "end_with_parent"]


class Forks:
    """Makes ranks by fork; the process that makes one ends everything below with itself."""

    def __init__(self):
        from labsupport.ranks import bootstrap

        gc.freeze()  # what exists now is never looked at again, so ranks go on sharing its pages
        self._forker = Forker(bootstrap.become)  # first: from here on there are threads
        end_with_parent()

    def before_attempt(self, count):
        """End what the ranks of an earlier attempt have left."""
        from labsupport.processes import reaping

        reaping.end_others(keep=[self._forker.pid])

    def rank(self, place, events, grace_s):
        """Return what torch expects of a started rank."""
        return _Handler(self._forker, place, events, grace_s)


class _Handler:
    """`proc` is like a `Popen`, and `close` ends it."""

    def __init__(self, forker, place, events, grace_s):
        self.local_rank_id = int(place.environ["LOCAL_RANK"])
        self.proc = Forked(forker, place, events, grace_s)

    def close(self, death_sig=None):
        self.proc.send_signal(death_sig or signal.SIGTERM)


class Forked:
    """A forked process with those methods of `subprocess.Popen` that the agent calls.

    Args:
        forker: the `Forker` that makes it.
        place: the `bootstrap.Place` it becomes.
        events: gets "rank ended" when it has ended.
        grace_s: what it may take to end after it was asked to.
    """

    def __init__(self, forker, place, events, grace_s):
        self._forker, self._place, self._events, self._grace_s = forker, place, events, grace_s
        self.returncode = None
        self._asked = None
        self.pid = forker.fork(place)
        self._ended = os.pidfd_open(self.pid) if hasattr(os, "pidfd_open") else None

    def poll(self):
        if self.returncode is None and (self._ended is None or select.select([self._ended], [], [], 0)[0]):
            ending = self._forker.ending(self.pid)
            if ending is not None:
                self._close(*ending)
        return self.returncode

    def _close(self, status, cpu_s):
        self.returncode = os.waitstatus_to_exitcode(status)
        if self._ended is not None:
            os.close(self._ended)
        self._events.write(
            "rank ended",
            rank=self._place.rank,
            attempt=self._place.attempt,
            code=self.returncode,
            asked=self._asked is not None,  # the agent asked it to: it is not the one that failed
            cpu_s=round(cpu_s, 4),
        )

    def wait(self, timeout=None):
        """Wait as `Popen.wait` does, but once it was asked to end not longer than the grace it has.

        torch gives ranks that outlive a failed one 30 seconds, and has no setting for that.
        """
        ends = None if timeout is None else time.monotonic() + timeout
        if self._asked is not None:
            grace_ends = max(self._asked + self._grace_s, time.monotonic() + 0.01)
            ends = grace_ends if ends is None else min(ends, grace_ends)
        while self.poll() is None:
            left = None if ends is None else ends - time.monotonic()
            if left is not None and left <= 0:
                raise subprocess.TimeoutExpired("rank", timeout)
            if self._ended is None:
                time.sleep(0.002)
            else:
                select.select([self._ended], [], [], left)
        return self.returncode

    def send_signal(self, number):
        if self.poll() is None:
            self._asked = self._asked or time.monotonic()
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


def end_with_parent():
    """Become the one that ends everything below, and do so as soon as the parent is gone.

    The death signal alone would end this process before it could end what its ranks have started.
    """
    from labsupport.processes import kernel

    kernel.subreaper()
    parent = os.getppid()
    try:
        ended = os.pidfd_open(parent)
    except (AttributeError, OSError):
        return  # the death signal stays: ranks end with us, what they started is left to others
    if os.getppid() != parent:
        os._exit(1)
    threading.Thread(target=_follow, args=(ended,), name="follow the parent", daemon=True).start()
    kernel.parent_death_signal(0)


def _follow(ended):
    from labsupport.processes import reaping

    select.select([ended], [], [])
    reaping.end_others()
    os._exit(1)
