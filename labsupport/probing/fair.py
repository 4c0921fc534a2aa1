"""Time that counts: what has passed, less the time in which whoever is timed was ready to go on and had no processor.

A limit of seconds guards against answers that never end. On a machine that does much else an answer may wait for a
processor longer than it runs, and that is not its fault; Linux tells for how long. Elsewhere all time counts.
"""

import os
import sys
import time

from labsupport.errors import LabError

__all__ = ["MOST_PATIENCE", "Clock", "TooBusy", "own_delay", "thread_delay", "thread_used", "whole_delay"]

MOST_PATIENCE = 6  # times the seconds of a limit, on a machine that does much else
_LINUX = sys.platform == "linux"
_open, _read, _close, _list, _now = os.open, os.read, os.close, os.listdir, time.monotonic  # an answer may replace them


class TooBusy(LabError):
    """What was asked for was not done in time, and that says nothing about it: the machine had no time for it."""

    def __init__(self, seconds):
        self.seconds = seconds
        super().__init__(
            f"the machine was too busy: within {seconds:.0f} s it gave this check too little of a processor to tell",
            next_step="End what else takes processor time, then run this check again; the answer may well be right.",
        )


class Clock:
    """Counts from when it is made.

    Args:
        delays: `delays()` returns per process that is timed the seconds it has waited for a processor so far.
        now: `now()` returns seconds.
        used: `used()` returns per process the seconds of a processor it has had. One that had as many as a limit is
            over it, however long it waited.
    """

    def __init__(self, delays, now=_now, used=tuple):
        self._delays, self._now, self._used = delays, now, used
        self._used_before = list(used())
        self._began = self._last = now()
        self._before, self._starved_s = list(delays()), 0.0

    def elapsed_s(self):
        """Return the seconds that have passed."""
        return self._now() - self._began

    def starved_s(self):
        """Return the seconds in which whoever waited most had no processor.

        Between two looks it is the longest of the waits that counts, so look now and then: those who work in turns
        wait in turns, while those who work side by side wait side by side.
        """
        now, delays = self._now(), list(self._delays())
        waited = max((after - before for after, before in zip(delays, self._before, strict=True)), default=0.0)
        self._starved_s += min(max(0.0, waited), now - self._last)
        self._last, self._before = now, delays
        return self._starved_s

    def fair_s(self):
        """Return the seconds that have passed less those without a processor."""
        starved = self.starved_s()
        return self._last - self._began - starved

    def is_over(self, seconds):
        """Return whether so much time has passed that counts; looks no closer before so much has passed at all."""
        return self.elapsed_s() >= seconds and (self.fair_s() >= seconds or self.used_s() >= seconds)

    def used_s(self):
        """Return the seconds of a processor that whoever had most has had."""
        pairs = zip(self._used(), self._used_before, strict=True)
        return max((now - before for now, before in pairs), default=0.0)

    def gives_up(self, seconds):
        """Return whether it has gone on for too long although the time that counts is not over."""
        return self.elapsed_s() > MOST_PATIENCE * seconds

    def granted_s(self, seconds):
        """Return by how much a deadline is put off that lies so many seconds after the beginning, up to a bound."""
        return min(self.starved_s(), (MOST_PATIENCE - 1) * seconds)


def own_delay():
    """Return [seconds this process's main thread has waited for a processor so far]."""
    return [thread_delay("self")]


def thread_delay(pid):
    """Return for how many seconds a process's main thread was ready and had no processor; 0.0 where nobody tells."""
    return _told(f"/proc/{pid}/schedstat", _WAITED)


def thread_used(pid):
    """Return for how many seconds a process's main thread has had a processor; 0.0 where nobody tells."""
    return _told(f"/proc/{pid}/schedstat", _USED)


def whole_delay(pid):
    """Return the same of all its threads together, those that have ended left out."""
    if not _LINUX:
        return 0.0
    try:
        threads = _list(f"/proc/{pid}/task")
    except OSError:
        return 0.0
    return sum(_told(f"/proc/{pid}/task/{thread}/schedstat", _WAITED) for thread in threads)


_USED, _WAITED = 0, 1  # the fields of that file, in nanoseconds


def _told(path, field):
    if not _LINUX:
        return 0.0
    try:
        file = _open(path, os.O_RDONLY)
    except OSError:
        return 0.0
    try:
        return int(_read(file, 100).split()[field]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0
    finally:
        _close(file)
