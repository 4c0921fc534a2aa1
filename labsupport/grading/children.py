"""A child as the judge sees it: a question in, a reply out, and an exception that says why there is none."""

import contextlib
import signal
import time

from labsupport.grading.errors import Died, GradingImpossible, OverLimit
from labsupport.grading.tiers import missing
from labsupport.grading.wire import Channel, Closed, TooLarge, WireError
from labsupport.probing import fair

__all__ = ["Child"]

_GRACE_S = 0.5  # for the child to say by itself that time is over, and for the wire
_HELLO_WITHIN_S = 60


class Child:
    """A process that answers questions about one submission. Close it (or use `with`): its whole tree ends.

    Attributes:
        layers: {layer: "ok"} as the child told before any question.
        environment: the names of its environment variables.
        ready_s: seconds from asking for it to its hello.
        usage: once it is closed, a dict: wall_s, cpu_s (threads and processes that ended included), peak_bytes.
    """

    def __init__(self, tree, limits, tier):
        self.limits, self._tree = limits, tree
        self.ended = self.usage = None
        self._channel = Channel(tree.sock, asks=True)
        self.spent_s = 0.0  # while it was asked something, in time that counts
        try:
            hello = self._channel.recv(_HELLO_WITHIN_S)
        except (TimeoutError, Closed, WireError) as error:
            ended, _ = tree.end()
            raise GradingImpossible("a child did not say hello", why=f"{error}; {_how(ended.code)}") from None
        self.layers, self.environment = hello["layers"], hello["environment"]
        self.ready_s = time.monotonic() - tree.started
        if lacking := missing(tier, self.layers):
            self.close()
            said = "; ".join(f"{name}: {what}" for name, what in lacking.items())
            raise GradingImpossible("a layer of the cage does not hold", why=said)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def ask(self, question, deadline_s=None, fds=()):
        """Return the reply to a question (see `child`), a dict of plain data that must be checked before it is used.

        Args:
            deadline_s: wall seconds for the whole of it; by default what the limits give a call or a cell. Never
                more than what is left of the submission's time.
            fds: descriptors the child gets beside it.

        Raises:
            OverLimit: the tree was ended because a limit was passed.
            Died: the child ended.
            WireError: it sent what may not be sent; the tree was ended.
        """
        own = deadline_s if deadline_s is not None else self._usual_s(question) + _GRACE_S
        told = deadline_s if deadline_s is not None else self._usual_s(question)
        return self._within(own, told, lambda seconds: self._exchange(question, seconds, fds))

    def begin(self, question, deadline_s, fds=()):
        """Send a question that has more than one reply; see `more`. Raises what `ask` does."""
        self._within(deadline_s, deadline_s, lambda seconds: self._send(question, seconds, fds))

    def more(self, deadline_s):
        """Return the next reply to what was asked last. Raises what `ask` does."""
        return self._within(deadline_s, deadline_s, self._reply)

    def _within(self, own_s, told_s, action):
        """Return what `action(seconds)` does; a failure of it ends the tree and says why."""
        if self.usage is not None:
            raise Died("it was ended before")
        left = self.limits.submission_s - self.spent_s
        seconds = max(0.0, min(own_s, left))
        clock = fair.Clock(lambda: [*self._tree.delays(), fair.thread_delay("thread-self")])
        self._channel.granted_s = lambda: clock.granted_s(seconds)
        try:
            return action(seconds)
        except TimeoutError:
            starved, elapsed_s = clock.fair_s() < 0.99 * seconds, clock.elapsed_s()
            self.close()
            if starved:
                raise fair.TooBusy(elapsed_s) from None
            raise OverLimit("time", self.limits.submission_s if left < own_s else told_s) from None
        except Closed:
            raise self._reason() from None
        except WireError:
            self.close()
            raise
        finally:
            self.spent_s += max(0.0, clock.fair_s())
            self._channel.granted_s = None  # which refers to this child: one that nobody holds is to end at once

    def _exchange(self, question, seconds, fds):
        ends = time.monotonic() + seconds
        self._send(question, seconds, fds)
        return self._reply(ends - time.monotonic())

    def _send(self, question, seconds, fds):
        self._channel.send(question, seconds, fds=fds, keep_layout=True)

    def _reply(self, seconds):
        try:
            reply = self._channel.recv(seconds, self.limits.answer_bytes)
        except TooLarge:
            self.close()
            reply = {"too_large": True}
        if not isinstance(reply, dict):
            raise WireError("a reply that is no dict")
        if "too_large" in reply:
            raise OverLimit("answer", self.limits.answer_bytes)
        return reply

    def _usual_s(self, question):
        """Return the seconds a question gets: what the limits give a cell or a call."""
        if question["op"] == "load":
            return question.get("cell_s", self.limits.cell_s)
        return question.get("limits", {}).get("call_s", self.limits.call_s)

    def _reason(self):
        """End what is left and return the exception that says why the child is gone."""
        self._tree.wait()
        self.close()
        code, over = self.ended.code, self.ended.over
        if over:
            return OverLimit(over, self._limit_of(over))
        if code == -_number("SIGXCPU") or (code == -_number("SIGKILL") and self.usage["cpu_s"] >= self.limits.cpu_s):
            return OverLimit("cpu", self.limits.cpu_s)
        if code == -_number("SIGXFSZ"):
            return OverLimit("disk", self.limits.work_bytes)
        return Died(_how(code), code)

    def _limit_of(self, which):
        return {
            "memory": self.limits.memory_bytes,
            "disk": self.limits.work_bytes,
            "processes": self.limits.processes,
        }[which]

    def cpu_s(self):
        """Return the CPU seconds of the child's process so far, or None once it is gone."""
        return None if self.usage else self._tree.cpu_s()

    def memory_killed(self):
        """Return how many of its processes were ended for memory so far (where a control group counts)."""
        return self._tree.group.killed() if self._tree.group and not self.usage else 0

    def close(self):
        """End the whole tree and return its usage."""
        if self.usage is None:
            self.ended, self.usage = self._tree.end()
        return self.usage


def _number(name):
    return int(getattr(signal, name, 0))  # Windows does not have them all


def _how(code):
    if code is None:
        return "ended"
    if code >= 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return f"signal {signal.Signals(-code).name}"
    return f"signal {-code}"
