"""Sweep the settings of a loader over a user's own dataset and step: `bench(dataset, step=...)` returns a `Report`."""

import contextlib
import itertools
import math
import statistics
import warnings
from time import monotonic

from labsupport.errors import LabError, UsageError
from labsupport.loaderbench import deciding, settings
from labsupport.loaderbench.measuring import measure
from labsupport.loaderbench.memory import shared_free_bytes
from labsupport.loaderbench.recording import DEADLINE_S, record
from labsupport.loaderbench.wording import size

__all__ = ["bench"]

_FEWEST, _MOST = 8, 500  # batches of one run


def bench(
    dataset,
    *,
    step=None,
    workers=None,
    batch_size=32,
    prefetch=2,
    persistent=None,
    pin=None,
    start=None,
    batched=None,
    baseline=None,
    repeat=5,
    seconds=60.0,
    batches=None,
    device=None,
    deadline_s=DEADLINE_S,
    progress="auto",
    **loader_options,
):
    """Return a `Report`: what each setting costs, which one is recommended, and the evidence.

    One axis after the other is swept, each around the best so far; the settings of one axis run by turns, so that a
    busy moment of the machine meets all of them. At the end the best and the baseline run beside each other.

    Args:
        dataset: a map-style or an iterable dataset.
        step: called with every batch, on `device` if one is given; without it only loading is measured, and whether
            the loader is the bottleneck of a training cannot be told.
        workers, batch_size, prefetch, persistent, pin, start, batched: a value, or several to sweep. None sweeps what
            makes sense here: workers up to twice the cores, persistence, pinning where there is an accelerator,
            batched fetch where the dataset has `__getitems__`; the start method stays the interpreter's own.
        baseline: what you use now, as a dict of the names above; None is the first value of each (no workers).
        repeat: repetitions of every setting.
        seconds: roughly how long the whole may take; it chooses the batches of one run.
        batches: batches of one run, instead of `seconds`.
        device: where batches go before the step: "cuda", "auto", a `Device`; None moves nothing.
        deadline_s: seconds after which one batch, or one step, counts as hung.
        progress: "auto" (a line in a terminal or a notebook), None, or an object with `close()` and
            `show(done, total, words, left_s)`.
        loader_options: everything else of DataLoader: collate_fn, shuffle, sampler, worker_init_fn, generator, ...

    Raises:
        UsageError: an argument that does not fit.
        LabError: as `record`; a setting other than the baseline that fails is left out and told in the report.
    """
    from labsupport.loaderbench.devices import device_of
    from labsupport.loaderbench.progress import progress_of

    _refuse(loader_options)
    device = device_of(device)
    swept = {"workers": workers, "batch": batch_size, "prefetch": prefetch, "persistent": persistent, "pin": pin}
    axes = _axes(dataset, device, swept | {"start": start, "batched": batched})
    if not isinstance(repeat, int) or repeat < 1:
        raise UsageError(f"repeat cannot be {repeat!r}", next_step="give a whole number from 1; 5 shows the spread")
    sweep = _Sweep(dataset, step, device, deadline_s, loader_options, axes, repeat)
    sweep.progress = progress_of(progress)
    try:
        return sweep.report(_baseline(axes, baseline), seconds, batches)
    finally:
        sweep.progress.close()


def _refuse(options):
    for name, argument in (
        ("num_workers", "workers"),
        ("prefetch_factor", "prefetch"),
        ("persistent_workers", "persistent"),
        ("pin_memory", "pin"),
        ("multiprocessing_context", "start"),
    ):
        if name in options:
            raise UsageError(f"{name} is swept here", next_step=f"give it as {argument}=VALUE, or several values")
    if "batch_sampler" in options:
        raise UsageError(
            "batch_sampler fixes the batches, which are swept here",
            next_step="give sampler and batch_size, or use record(dataset, batch_sampler=...)",
        )


def _axes(dataset, device, given):
    """Return the checked `Axes`: what was given, and for what was not, what makes sense on this machine."""
    own = bool(getattr(dataset, "__getitems__", None))
    pins = device is not None and getattr(device, "pins", False)
    usual = {
        "workers": settings.usual_workers(),
        "persistent": (False, True),
        "pin": (False, True) if pins else (False,),
        "start": (settings.usual_start(),),
        "batched": (True, False) if own else (False,),
    }
    values = {axis: usual[axis] if value is None and axis in usual else _tuple(value) for axis, value in given.items()}
    if True in values["pin"] and not pins:
        raise UsageError(
            "pin needs a device: pinned memory is for copies to an accelerator",
            next_step="give device='cuda', or leave pin out; without an accelerator torch pins nothing",
        )
    if True in values["batched"] and not own:
        raise UsageError(
            f"batched needs a dataset with __getitems__, and {type(dataset).__name__} has none",
            next_step="add def __getitems__(self, indices), which returns a list of items",
        )
    return settings.checked(settings.Axes(**values))


def _tuple(value):
    return tuple(value) if isinstance(value, (list, tuple, range)) else (value,)


def _baseline(axes, given):
    base = axes.base()
    if given is None:
        return base
    if unknown := set(given) - set(settings.AXES) - {"batch_size"}:
        known = ", ".join(settings.AXES)
        raise UsageError(f"baseline has no {sorted(unknown)[0]!r}", next_step=f"its names are {known}")
    changes = {settings.AXES.get(name, name): value for name, value in given.items()}
    wanted = base.with_(**changes)
    settings.checked(settings.Axes(workers=(wanted.workers,), batch=(wanted.batch_size,)))
    return wanted


class _Sweep:
    """One sweep while it runs."""

    def __init__(self, dataset, step, device, deadline_s, options, axes, repeat):
        self.dataset, self.step, self.device, self.deadline_s = dataset, step, device, deadline_s
        self.options, self.axes, self.repeat = options, axes, repeat
        self.samples, self.refused, self.runs = {}, {}, {}
        self.epochs = 1
        self.done, self.took, self.total, self.progress = 0, [], 0, None
        self.steps, self.batch_bytes, self.pilot, self.base = None, 0, None, None

    def report(self, baseline, seconds, batches):
        """Run everything and return the `Report`."""
        from labsupport.loaderbench.reports import Report, surroundings

        self.total = self.axes.runs_at_most() * self.repeat
        self._try_out(baseline, seconds, batches)
        best = self._swept(baseline)
        decision = deciding.decide(self.samples, baseline, best, has_step=self.step is not None, cores=settings.cores())
        kept = {setting: self.runs[setting] for setting in (baseline, decision.setting, best)}
        return Report(
            dataset=type(self.dataset).__name__,
            length=_length(self.dataset),
            surroundings=surroundings(self.device),
            decision=decision,
            samples={setting: tuple(rows) for setting, rows in self.samples.items()},
            refused=tuple(self.refused.items()),
            runs=kept,
            notes=tuple(self._notes()),
        )

    def _notes(self):
        if self.step is None:
            yield "no step was given: only loading was measured, not whether a training waits for it"
        if _length(self.dataset) is None:
            yield "the dataset has no length: a pass is taken to be as long as the batches that were measured"
        yield from dict.fromkeys(note for run in self.runs.values() for note in run.notes)

    def _try_out(self, baseline, seconds, batches):
        """Load a few batches without workers, to learn what one costs; what is wrong with the dataset shows here."""
        self.progress.show(0, self.total, "first batches, without workers", None)
        alone = baseline.with_(workers=0, pin=False)
        self.pilot = record(self.dataset, steps=4, **self._arguments(alone))
        if self.pilot.counts["batches"] == 0:
            raise LabError(
                f"{type(self.dataset).__name__} gave no batch",
                why="it is an empty stream, or has fewer items than one batch and drop_last is set",
                next_step="look at what it reads, or choose a smaller batch_size",
            )
        sample = measure(self.pilot)
        self.batch_bytes = sample.batch_bytes / max(1, alone.batch_size or 1)
        if batches is not None:
            self.steps = max(1, int(batches))
        else:
            share = seconds / max(1, self.total)
            self.steps = min(_MOST, max(_FEWEST, int(share / max(sample.step_s, 1e-6))))

    def _swept(self, baseline):
        """Run stage after stage and return the best setting found."""
        base = self.base = baseline.with_()
        by_workers = [base] + [base.with_(**self._first(count)) for count in self.axes.workers]
        best = self._stage("workers", dict.fromkeys(by_workers))
        if self.step is not None and deciding.waits(self.samples, base) <= deciding.NOT_THE_BOTTLENECK:
            self.total = self.done
            return best
        if around := self.axes.around(best):
            best = self._around(best, around)
        if len(self.axes.batch) > 1:
            self._stage("batch size", dict.fromkeys(best.with_(batch_size=value) for value in self.axes.batch))
        if best != base:
            self._stage(deciding.AT_THE_END, [base, best])
        return base if best in self.refused else best

    def _first(self, workers):
        """Return the changes that make a setting with `workers`: the first value of every axis that workers have."""
        axes = self.axes
        first = {"prefetch": axes.prefetch[0], "persistent": axes.persistent[0], "start": axes.start[0]}
        return {"workers": workers} | first

    def _around(self, best, around):
        """Vary one axis at a time around `best`; return `best` with every change that is really faster."""
        self._stage("around", [best, *itertools.chain(*around.values())])
        if best in self.refused:  # it ran before and does not now: what holds beside it is not known
            return self.base
        changes = {}
        for axis, others in around.items():
            winner = deciding.best_of(self.samples, [best, *others], "around")
            if deciding.really_faster(self.samples, winner, best):
                changes[settings.AXES[axis]] = getattr(winner, settings.AXES[axis])
        return best.with_(**changes)

    def _stage(self, stage, wanted):
        """Run settings by turns, each repetition beginning with another one; return the best of them, or the base."""
        wanted = list(wanted)
        # What persistent workers change is the start of the second epoch; where none stay, one epoch tells as much.
        self.epochs = 2 if any(setting.persistent for setting in wanted) else 1
        for repetition in range(self.repeat):
            turn = repetition % len(wanted)
            for setting in wanted[turn:] + wanted[:turn]:
                if setting not in self.refused:
                    self._run(setting, stage, repetition)
        alive = [setting for setting in wanted if setting not in self.refused]
        return deciding.best_of(self.samples, alive, stage) if alive else self.base

    def _run(self, setting, stage, repetition):
        if (problem := self._no_room(setting)) is None:
            began = monotonic()
            self.progress.show(self.done, self.total, f"{stage}: {setting.words()}", self._left_s())
            try:
                with _more_than_cores():
                    run = record(self.dataset, steps=self._steps_of(setting), **self._arguments(setting))
            except LabError as error:
                problem = error
        if problem is not None:
            if setting == self.base:
                raise problem
            self.refused[setting] = problem
            self.samples.pop(setting, None)
            return
        self.done += 1
        self.took.append(monotonic() - began)
        self.runs.setdefault(setting, run)
        sample = measure(run, stage, repetition, self._epoch_batches(setting))
        self.samples.setdefault(setting, []).append(sample)

    def _left_s(self):
        return statistics.fmean(self.took) * max(0, self.total - self.done) if self.took else None

    def _arguments(self, setting):
        shared = {"step": self.step, "device": self.device, "deadline_s": self.deadline_s, "epochs": self.epochs}
        return shared | setting.options() | self.options

    def _steps_of(self, setting):
        """Return the batches of one run: at least three for every worker, a whole number of rounds."""
        rounds = max(3, math.ceil(self.steps / max(1, setting.workers)))
        return rounds * setting.workers if setting.workers else self.steps

    def _epoch_batches(self, setting):
        length = _length(self.dataset)
        if length is None or "sampler" in self.options:
            return None
        exact = length / (setting.batch_size or 1)
        return max(1, math.floor(exact) if self.options.get("drop_last") else math.ceil(exact))

    def _no_room(self, setting):
        """Return the error for a setting whose batches would fill the shared memory, before it does."""
        free = shared_free_bytes() if setting.workers else None
        needs = setting.workers * (setting.prefetch or 0) * self.batch_bytes * (setting.batch_size or 1)
        if free is None or needs <= free:
            return None
        return LabError(
            f"its batches in flight need {size(needs)} of /dev/shm, where {size(free)} are free",
            next_step="start the container with --shm-size=8g or --ipc=host",
        )


@contextlib.contextmanager
def _more_than_cores():
    """Leave out torch's warning about more workers than cores: a sweep tries them on purpose and tells the result."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="This DataLoader will create")
        yield


def _length(dataset):
    try:
        return len(dataset)
    except (TypeError, NotImplementedError):
        return None
