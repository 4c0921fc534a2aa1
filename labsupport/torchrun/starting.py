"""What starts a job, for `job.Job`: forked from the warm helper here; `spawned` and `cold` have the other two ways.

A starter has `mode`, `parses` (whether it says at once that flags do not fit), `start(order)`, which returns a handle
with `wait(timeout_s)`, `close()` and `ending.code`, `ask_for_stack(pid)`, and `clean()`, called when a job has ended.
"""

import contextlib
import os
import signal

__all__ = ["Warm", "ask_by_signal"]


class Warm:
    """Jobs forked from the helper."""

    mode, parses = "warm", True

    def __init__(self, helper):
        self._helper, self._handle = helper, None

    def start(self, order):
        self._handle = self._helper.zygote.spawn("labsupport.torchrun.agent:lead", options=order)
        return self._handle

    def ask_for_stack(self, pid):
        ask_by_signal(pid)

    def clean(self):
        if self._handle.lost:
            self._helper.clean()


def ask_by_signal(pid):
    """Let a rank of ours write its stack."""
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGUSR1)
