"""A bound on the processor time that looking into one file may take."""

import contextlib
import signal
import threading

__all__ = ["TooSlow", "time_budget"]


class TooSlow(BaseException):
    """The time is used up. No `except Exception` on the way takes it for something else."""


@contextlib.contextmanager
def time_budget(seconds):
    """While the block runs, raise `TooSlow` in it once this process has computed for so many seconds.

    A busy machine does not shorten the time. Where there is no such timer (Windows, other threads) nothing is bounded.
    """
    usable = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    if not usable:
        yield
        return

    def stop(number, frame):
        raise TooSlow

    before = signal.signal(signal.SIGVTALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    finally:
        signal.signal(signal.SIGVTALRM, before)
