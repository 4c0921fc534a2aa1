"""The settings of a loader that are swept: each value, in words, as options of DataLoader, and what it costs."""

import dataclasses
import multiprocessing
import os
from dataclasses import dataclass

from labsupport.errors import UsageError

__all__ = ["AXES", "Axes", "Setting", "checked", "cores", "start_method", "usual_start", "usual_workers"]

# name of the axis -> field of Setting, in the order in which they are swept
AXES = {
    "workers": "workers",
    "batched": "batched",
    "start": "start",
    "persistent": "persistent",
    "prefetch": "prefetch",
    "pin": "pin",
    "batch": "batch_size",
}


@dataclass(frozen=True)
class Setting:
    """One way to load. What only workers have is None or False with `workers=0`, so that equal loaders are equal."""

    workers: int = 0
    batch_size: int | None = 32
    prefetch: int | None = None
    persistent: bool = False
    pin: bool = False
    start: str | None = None
    batched: bool = False

    def with_(self, **changes):
        """Return this setting with changes, made equal to what DataLoader would do with it."""
        new = dataclasses.replace(self, **changes)
        if new.workers == 0:
            return dataclasses.replace(new, prefetch=None, persistent=False, start=None)
        return dataclasses.replace(new, prefetch=new.prefetch or 2, start=new.start or usual_start())

    def options(self):
        """Return the options of `record`, without those that are the default."""
        options = {"num_workers": self.workers, "batch_size": self.batch_size, "batched": self.batched}
        if self.workers:
            options |= {"prefetch_factor": self.prefetch, "persistent_workers": self.persistent}
            options["multiprocessing_context"] = self.start
        if self.pin:
            options["pin_memory"] = True
        return options

    def call(self):
        """Return the DataLoader call as a line of Python."""
        shown = {"batch_size": self.batch_size, "num_workers": self.workers}
        if self.workers:
            shown |= {"prefetch_factor": self.prefetch} if self.prefetch != 2 else {}
            shown |= {"persistent_workers": True} if self.persistent else {}
            shown["multiprocessing_context"] = self.start
        if self.pin:
            shown["pin_memory"] = True
        return f"DataLoader(dataset, {', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    def words(self):
        """Return the setting in words; what is as DataLoader has it by default is not said, the start method is."""
        many = "no workers" if self.workers == 0 else f"{self.workers} worker" + "s" * (self.workers > 1)
        parts = [many + (f" ({self.start})" if self.start else "")]
        if self.batch_size is not None:
            parts.append(f"batch {self.batch_size}")
        if self.prefetch not in (None, 2):
            parts.append(f"prefetch {self.prefetch}")
        parts += [word for word, said in self._said().items() if said]
        return ", ".join(parts)

    def _said(self):
        return {"persistent": self.persistent, "pinned": self.pin, "batched fetch": self.batched}

    def cost(self):
        """Return what orders settings by what they ask of a machine and of a reader: the least first."""
        return (self.workers, self.pin, self.prefetch or 0, self.persistent, self.batched, self.start or "")


@dataclass(frozen=True)
class Axes:
    """The values to sweep, one tuple per axis; the first of each is where the sweep begins."""

    workers: tuple = ()
    batch: tuple = (32,)
    prefetch: tuple = (2,)
    persistent: tuple = (False,)
    pin: tuple = (False,)
    start: tuple = ()
    batched: tuple = (False,)

    def base(self):
        """Return the setting that the sweep begins with."""
        return Setting().with_(**{field: getattr(self, axis)[0] for axis, field in AXES.items() if getattr(self, axis)})

    def around(self, setting):
        """Return {axis: settings that differ from `setting` in this axis only}, for the axes with several values."""
        found = {}
        for axis, field in AXES.items():
            if axis in ("workers", "batch"):
                continue
            others = {setting.with_(**{field: value}) for value in getattr(self, axis)} - {setting}
            if others:
                found[axis] = sorted(others, key=Setting.cost)
        return found

    def runs_at_most(self):
        """Return the number of settings that a sweep runs at most, repetitions not counted."""
        others = sum(len(getattr(self, axis)) - 1 for axis in ("prefetch", "persistent", "pin", "batched"))
        others += max(0, len(self.start) - 1)
        return len(self.workers) + (others + 1 if others else 0) + (len(self.batch) > 1) * len(self.batch) + 2


def cores():
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def usual_workers():
    """Return the numbers of workers worth trying here: up to twice the cores, because waiting needs no core."""
    return tuple(count for count in (0, 1, 2, 4, 8, 16, 32) if count <= max(4, 2 * cores()))


def start_method(options):
    """Return the name of the start method that the options ask for: the interpreter's own unless they say."""
    context = options.get("multiprocessing_context")
    if context is None:
        # Asking without `allow_none` would settle the method for the whole program, against a later set_start_method.
        return multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]
    return context if isinstance(context, str) else context.get_start_method()


def usual_start():
    """Return the interpreter's own start method."""
    return start_method({})


def checked(axes):
    """Return the axes with values that a loader takes.

    Raises:
        UsageError: a value is of the wrong kind or not available here.
    """
    known = multiprocessing.get_all_start_methods()
    tests = {
        "workers": (lambda v: _whole(v, 0), "a whole number from 0"),
        "batch": (lambda v: v is None or _whole(v, 1), "a whole number from 1, or None"),
        "prefetch": (lambda v: _whole(v, 1), "a whole number from 1"),
        "persistent": (lambda v: isinstance(v, bool), "True or False"),
        "pin": (lambda v: isinstance(v, bool), "True or False"),
        "batched": (lambda v: isinstance(v, bool), "True or False"),
        "start": (known.__contains__, f"one of {', '.join(known)} on this system"),
    }
    for axis, (fits, words) in tests.items():
        values = getattr(axes, axis)
        for value in values:
            if not fits(value):
                raise UsageError(f"{axis} cannot be {value!r}", next_step=f"give {words}")
        if len(set(values)) < len(values):
            raise UsageError(f"{axis} names a value twice: {values}", next_step="name each value once")
    return axes


def _whole(value, least):
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
