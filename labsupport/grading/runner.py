"""The judge's side of running answers: which tier the machine allows, and children that answer questions.

    with Runner() as runner:
        with runner.child() as child:
            child.ask({"op": "load", "setup": "", "helpers": [], "source": text, "names": ["f"]})

Nothing is sent to a child that did not say ok for every layer its tier needs.
"""

import contextlib
import os
import sys
import tempfile
import time

from labsupport.errors import LabError
from labsupport.grading import cage, plans, selftest
from labsupport.grading.allowance import Allowance
from labsupport.grading.cage import TierReport
from labsupport.grading.errors import CannotRunHere, Died, GradingImpossible, OverLimit
from labsupport.grading.runtime import Runtime
from labsupport.grading.trees import CagedTree, OpenTree, Refused
from labsupport.grading.wire import Channel, Closed, TooLarge, WireError
from labsupport.processes.groups import Group, GroupsUnavailable
from labsupport.processes.zygote import Zygote, ZygoteError

__all__ = ["CannotRunHere", "Child", "Died", "GradingImpossible", "OverLimit", "Runner", "probe_tier"]

_LINUX = sys.platform == "linux"
_GRACE_S = 0.5  # for the child to say by itself that time is over, and for the wire
_HELLO_WITHIN_S = 30
_PRELOAD = (
    "numpy", "numpy.lib.stride_tricks", "labsupport.grading.nanny", "labsupport.grading.mounts",
    "labsupport.grading.landlock", "labsupport.probing.call", "labsupport.probing.drive", "labsupport.probing.literal",
)  # fmt: skip


def probe_tier():
    """Return the `TierReport` of this machine, found by building a cage and trying to get out of it."""
    with Runner(feedback=True) as runner:
        return runner.report


class Runner:
    """Starts when entered; owns the process that forks children, and ends everything when left.

    Args:
        tier: "A", "B" or "C" to insist on one; None for the best there is.
        allow_fenced: tier B may grade.
        feedback: any tier will do, because nothing is graded.
        preload: modules loaded before children are forked, beside NumPy.
        without: layers left out on purpose, to see that a runner refuses then.
        groups: use control groups where the system has them.

    Raises:
        GradingImpossible: the tier asked for (or any that may grade) cannot be had here.
    """

    def __init__(self, tier=None, allow_fenced=False, *, feedback=False, preload=(), without=(), groups=True):
        self._tier, self._allow_fenced, self._feedback = tier, allow_fenced or tier == "B", feedback or tier == "C"
        self._preload, self._without, self._groups = tuple(preload), tuple(without), groups and _LINUX
        self._runtime = self._zygote = self._right = None
        self._change_user = False
        self.report = None

    def __enter__(self):
        self._runtime = Runtime()
        try:
            self._settle()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """End every child and what forked them."""
        if self._zygote is not None:
            self._zygote.close()
            self._zygote = None
        if self._runtime is not None:
            self._runtime.close()
            self._runtime = None

    @property
    def counts_together(self):
        """Whether a control group counts what a child's processes use together."""
        return self.report is not None and self.report.notes.get("memory group") == "ok"

    def child(self, limits=None):
        """Return a `Child` that is ready for questions.

        Args:
            limits: an `Allowance`; the defaults when None.

        Raises:
            CannotRunHere: processes, programs or a loopback are asked for and this tier cannot hold them.
            GradingImpossible: a layer did not say ok this time.
        """
        limits = limits or Allowance()
        if limits.needs_cage and self.report.tier != "A":
            raise CannotRunHere("this exercise starts processes of its own", why=f"that needs tier A; here: {self.report}")
        if limits.fork and not self.counts_together:
            why = f"memory of several processes together cannot be limited here: {self.report.notes['memory group']}"
            raise CannotRunHere("this exercise starts processes of its own", why=why)
        if self.report.tier == "C":
            return Child(OpenTree(plans.opened(self._runtime, limits)), limits, "C")
        return self._caged(limits, self.report.tier)

    def _caged(self, limits, tier):
        group = Group(limits.memory_bytes + _SLACK_BYTES, limits.processes + 1) if self.counts_together else None
        counted = group is not None and (tier == "A" or group.counts_processes)
        work = None if tier == "A" else tempfile.mkdtemp(prefix="lab-work-")
        how = {"tier": tier, "right": self._right, "work": work, "change_user": self._change_user}
        plan = plans.caged(self._runtime, limits, counted=counted, without=self._without, **how)
        try:
            return Child(CagedTree(self._zygote, plan, group, work), limits, tier)
        except Refused as error:
            raise GradingImpossible("no cage could be built", why=error.what, report=self.report) from None

    # -- finding the tier -----------------------------------------------------------------------------------------

    def _settle(self):
        reasons = []
        for tier, right in self._candidates():
            try:
                self.report = self._try(tier, right, tuple(reasons))
                break
            except (GradingImpossible, ZygoteError, OSError) as error:
                reasons.append(f"{_named(tier, right)}: {_short(error)}")
                self._forget()
        else:
            self._refuse_or_open(tuple(reasons))
        if self.report.tier == "B" and not (self._allow_fenced or self._feedback):
            step = "Give the flag that allows a fence, or let this user make namespaces."
            raise GradingImpossible(f"no cage here, only a fence: {self.report}", next_step=step, report=self.report)

    def _candidates(self):
        """Return [(tier, who has the right to make namespaces)], the strongest first."""
        if not _LINUX or self._tier == "C":
            return []
        rights = ["root", "user"] if os.geteuid() == 0 else ["user"]
        found = [("A", right) for right in rights] if self._tier in (None, "A") else []
        return found + ([("B", None)] if self._tier in (None, "B") else [])

    def _try(self, tier, right, reasons):
        """Return the report of a tier that holds; anything that does not is raised."""
        self._right = right
        self._change_user = right == "root" or (os.geteuid() == 0 and not right and plans.readable_by_others(self._runtime))
        preload = (*_PRELOAD, *self._preload)
        self._zygote = Zygote(preload, path=self._runtime.path, python=self._runtime.python, namespaces=right).start()
        if right and self._zygote.ready["namespaces"]:
            raise GradingImpossible(self._zygote.ready["namespaces"])
        self.report = TierReport(tier, notes={"memory group": self._try_group()})
        with self._caged(Allowance(), tier) as child:
            readable = [*self._runtime.readable, *self._runtime.programs]
            found = selftest.reachable(child, readable, set(child.environment), tier == "A")
            if found:
                raise GradingImpossible(f"the self-test reached {', '.join(found[:5])}")
            notes = {**self.report.notes, "namespaces by": right or "nobody", "own user": self._change_user}
            return TierReport(tier, child.layers, reasons, notes)

    def _try_group(self):
        """Return "ok" when a process over the limit of a control group is ended, else why not."""
        if not self._groups:
            return "not used"
        try:
            group = Group(32 << 20)
        except (GroupsUnavailable, OSError) as error:
            return str(error.why if isinstance(error, LabError) and error.why else error)
        doors = group.doors()
        try:
            handle = self._zygote.spawn("labsupport.processes.groups:trial", fds=doors)
            handle.close() if handle.wait(10) is None else handle.close()
            return "ok" if group.killed() else "a process over the limit was not ended"
        finally:
            for door in doors:
                os.close(door)
            group.close()

    def _forget(self):
        self.report = None
        if self._zygote is not None:
            self._zygote.close()
            self._zygote = None

    def _refuse_or_open(self, reasons):
        if not _LINUX:
            reasons = ("cages need Linux",)
        if self._feedback and self._tier in (None, "C"):
            self.report = TierReport("C", reasons=reasons, notes={"memory group": "not used"})
            return
        wanted = f"tier {self._tier}" if self._tier else "a cage"
        report = TierReport("C", reasons=reasons)
        raise GradingImpossible(f"{wanted} cannot be had here", why="; ".join(reasons), report=report)


_SLACK_BYTES = 64 << 20  # of a control group over the address space: page tables, pages copied from the zygote


def _named(tier, right):
    return f"tier {tier} with namespaces by {right}" if right else f"tier {tier}"


def _short(error):
    text = str(error.what if isinstance(error, LabError) else error)
    why = getattr(error, "why", None)
    return f"{text} ({why})" if why else text


class Child:
    """A process that answers questions about one submission. Close it (or use `with`): its whole tree ends.

    Attributes:
        layers: {layer: "ok"} as the child told before any question.
        environment: the names of its environment variables.
        ready_s: seconds from asking for it to its hello.
        usage: once it is closed, a dict: wall_s, cpu_s (threads and processes that ended included), peak_bytes.
    """

    def __init__(self, tree, limits, tier):
        self.limits, self._tree, self.usage = limits, tree, None
        self._channel = Channel(tree.sock, asks=True)
        self._ends = time.monotonic() + limits.submission_s
        try:
            hello = self._channel.recv(_HELLO_WITHIN_S)
        except (TimeoutError, Closed, WireError) as error:
            ended, _ = tree.end()
            raise GradingImpossible("a child did not say hello", why=f"{error}; {_how(ended.code)}") from None
        self.layers, self.environment = hello["layers"], hello["environment"]
        self.ready_s = time.monotonic() - tree.started
        if lacking := cage.missing(tier, self.layers):
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
        if self.usage is not None:
            raise Died("it was ended before")
        own = deadline_s if deadline_s is not None else self._usual_s(question)
        left = self._ends - time.monotonic()
        try:
            reply = self._channel.ask(question, max(0.0, min(own, left)), max_bytes=self.limits.answer_bytes, fds=fds)
        except TimeoutError:
            self.close()
            raise OverLimit("time", self.limits.submission_s if left < own else own - self._grace(deadline_s)) from None
        except Closed:
            raise self._reason() from None
        except TooLarge:
            self.close()
            raise OverLimit("answer", self.limits.answer_bytes) from None
        except WireError:
            self.close()
            raise
        if isinstance(reply, dict) and "too_large" in reply:
            raise OverLimit("answer", self.limits.answer_bytes)
        if not isinstance(reply, dict):
            self.close()
            raise WireError("a reply that is no dict")
        return reply

    def _usual_s(self, question):
        """Return the seconds a question gets: cells may bring several pieces, a call may be repeated to count something."""
        if question["op"] == "load":
            return question.get("cell_s", self.limits.cell_s) + _GRACE_S
        return question.get("limits", {}).get("call_s", self.limits.call_s) + _GRACE_S

    def _grace(self, deadline_s):
        return 0 if deadline_s is not None else _GRACE_S

    def _reason(self):
        """End what is left and return the exception that says why the child is gone."""
        ended = self._tree.wait() or self._tree.wait(0)
        self.close()
        final = self.ended or ended
        code = ended.code if ended else None
        if final and final.over:
            return OverLimit(final.over, self._limit_of(final.over))
        if code == -_SIGNALS["SIGXCPU"] or (code == -_SIGNALS["SIGKILL"] and self.usage["cpu_s"] >= self.limits.cpu_s):
            return OverLimit("cpu", self.limits.cpu_s)
        if code == -_SIGNALS["SIGXFSZ"]:
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

    ended = None


def _signal_numbers():
    import signal

    return {name: int(getattr(signal, name, 0)) for name in ("SIGXCPU", "SIGXFSZ", "SIGKILL")}


_SIGNALS = _signal_numbers()


def _how(code):
    if code is None:
        return "ended"
    if code < 0:
        import signal

        with contextlib.suppress(ValueError):
            return f"signal {signal.Signals(-code).name}"
        return f"signal {-code}"
    return f"exit code {code}"
