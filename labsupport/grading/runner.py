"""The judge's side of running answers: which tier the machine allows, and children that answer questions.

    with Runner() as runner:
        with runner.child() as child:
            child.ask({"op": "load", "setup": "", "helpers": [], "source": text, "names": ["f"]})

Nothing is sent to a child that did not say ok for every layer its tier needs.
"""

import os
import sys

from labsupport.errors import LabError
from labsupport.grading import plans, selftest
from labsupport.grading.allowance import Allowance
from labsupport.grading.children import Child
from labsupport.grading.errors import CannotRunHere, Died, GradingImpossible, OverLimit
from labsupport.grading.runtime import Runtime
from labsupport.grading.tiers import TierReport
from labsupport.grading.trees import CagedTree, OpenTree, Refused
from labsupport.processes.groups import Group, GroupsUnavailable
from labsupport.processes.zygote import Zygote, ZygoteError

__all__ = ["CannotRunHere", "Child", "Died", "GradingImpossible", "OverLimit", "Runner", "probe_tier"]

_LINUX = sys.platform == "linux"
_OWN_PROCESSES = "this exercise starts processes or opens connections"
_SLACK_BYTES = 64 << 20  # of a control group over the address space: page tables, pages copied from the zygote
_PRELOAD = (
    "labsupport.grading.nanny", "labsupport.grading.mounts", "labsupport.grading.landlock", "labsupport.grading.shared",
    "labsupport.probing.call", "labsupport.probing.drive", "labsupport.probing.literal",
    "numpy", "numpy.lib.stride_tricks", "numpy.random", "numpy.linalg", "numpy.fft", "numpy.polynomial",
    "collections", "dataclasses", "fractions", "statistics", "tracemalloc", "typing",
)  # fmt: skip
PRELOADS = {  # what some answers need and takes seconds to load: each has a zygote of its own, started when needed
    "libraries": ("labsupport.probing.libraries:warm",),
    "ranks": ("labsupport.probing.ranks_host", "labsupport.probing.ranks_preload:warm"),
}


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
        self._loaded = {}  # a key of PRELOADS -> its zygote
        self._change_user = False
        self.report = None
        self.course = {}  # name -> (the child that runs the course's own programs, how many it has run)

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
        for child, _ in self.course.values():
            child.close()
        for zygote in filter(None, (*self._loaded.values(), self._zygote)):
            zygote.close()
        self.course, self._loaded, self._zygote = {}, {}, None
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
            raise CannotRunHere(_OWN_PROCESSES, why=f"that needs tier A; here: {self.report}")
        if limits.fork and not self.counts_together:
            why = f"memory of several processes together cannot be limited: {self.report.notes['memory group']}"
            raise CannotRunHere(_OWN_PROCESSES, why=why)
        if self.report.tier == "C":
            return Child(OpenTree(plans.opened(self._runtime, limits), self._runtime.new_folder()), limits, "C")
        return self._caged(limits, self.report.tier)

    def _caged(self, limits, tier):
        group = Group(limits.memory_bytes + _SLACK_BYTES, limits.processes + 1) if self.counts_together else None
        counted = group is not None and (tier == "A" or group.counts_processes)
        work = None if tier == "A" else self._runtime.new_folder()
        how = {"tier": tier, "right": self._right, "work": work, "change_user": self._change_user}
        plan = plans.caged(self._runtime, limits, counted=counted, without=self._without, **how)
        try:
            zygote = self._zygote_with(limits.loaded) if limits.loaded else self._zygote
            return Child(CagedTree(zygote, plan, group, work), limits, tier)
        except Refused as error:
            raise GradingImpossible("no cage could be built", why=error.what, report=self.report) from None

    def _zygote_with(self, loaded):
        """Return the zygote that has these libraries loaded, started when they are first asked for."""
        if loaded not in self._loaded:
            folders = {"path": self._runtime.path, "python": self._runtime.python, "namespaces": self._right}
            self._loaded[loaded] = Zygote((*_PRELOAD, *PRELOADS[loaded]), **folders).start()
        return self._loaded[loaded]

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
            step = "Let this user make namespaces, or accept the fence with `--allow-fenced`."
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
        as_root = os.geteuid() == 0 and right != "user"
        self._change_user = as_root and (right == "root" or plans.readable_by_others(self._runtime))
        preload = (*_PRELOAD, *self._preload)
        self._zygote = Zygote(preload, path=self._runtime.path, python=self._runtime.python, namespaces=right).start()
        if right and self._zygote.ready["namespaces"]:
            raise GradingImpossible("no namespaces", why=self._zygote.ready["namespaces"])
        self.report = TierReport(tier, notes={"memory group": self._try_group()})
        with self._caged(Allowance(), tier) as child:
            readable = [*self._runtime.readable, *self._runtime.programs]
            found = selftest.reachable(child, readable, set(child.environment), tier == "A")
            if found:
                raise GradingImpossible("the self-test failed", why=f"it reached {', '.join(found[:5])}")
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
            handle.wait(10)
            handle.close()
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


def _named(tier, right):
    return f"tier {tier} with namespaces by {right}" if right else f"tier {tier}"


def _short(error):
    """Return the innermost reason an error gives."""
    return str((error.why or error.what) if isinstance(error, LabError) else error)
