"""Record a DataLoader at work: `record(dataset, step=..., num_workers=2, ...)` returns a `Run`."""

import itertools
import platform
import sys
import warnings
from numbers import Integral
from time import perf_counter

from labsupport.errors import UsageError
from labsupport.loaderbench.runs import KINDS, Epoch, Event, Run, Worker
from labsupport.loaderbench.settings import start_method

__all__ = ["DEADLINE_S", "Run", "record"]

DEADLINE_S = 60.0  # for one batch: ten times the start of a spawned worker that imports torch on a busy machine


def record(
    dataset,
    *,
    steps=None,
    step=None,
    epochs=1,
    batched=True,
    device=None,
    deadline_s=DEADLINE_S,
    progress=None,
    **loader_options,
):
    """Return the `Run` of a DataLoader over `dataset`: what every process did when, and what was counted.

    The run happens in this process, with worker processes of the loader's own; none of them is left at any way out.

    Args:
        dataset: a map-style or an iterable dataset.
        steps: batches per epoch; None takes all of them.
        step: called with every batch (on `device`, if one is given); None only loads.
        epochs: passes over the same loader; more than one shows what persistent workers change.
        batched: whether the dataset's `__getitems__`, if it has one, fetches a whole batch at once.
        device: where each batch goes before the step: a name as "cuda", or a `labsupport.loaderbench.devices.Device`.
        deadline_s: seconds after which one batch, or one step, counts as hung; None waits for ever.
        progress: called with (batches done, batches in all or None) after every batch.
        loader_options: of `torch.utils.data.DataLoader`; `multiprocessing_context` defaults to the interpreter's own
            start method and is always in `Run.settings`.

    Raises:
        UsageError: an option that the loader does not take, or that does not go with the others.
        LabError: the dataset is empty, raises, hangs, does not fit the start method, or gives what cannot be
            collated; a worker was killed. The text says which, and what to do.
    """
    from labsupport.loaderbench import faults, guarding
    from labsupport.loaderbench.devices import device_of

    _check(steps, epochs, step)
    faults.check_dataset(dataset)
    faults.check_workers(dataset, loader_options)
    tape = _Tape(step, device_of(device), deadline_s, progress)
    with guarding.no_process_left():
        try:
            loader, planned = _loader(dataset, steps, batched, loader_options, deadline_s)
            tape.settings = _settings(loader, dataset, batched, steps, loader_options)
            tape.play(loader, planned, steps, epochs)
        except BaseException as error:
            circumstances = faults.Circumstances(dataset, loader_options, deadline_s, guarding.exits(tape.iterator))
            tape.drop(at_once=True)
            if (told := faults.told(error, circumstances)) is error:
                raise
            raise told from error
        tape.drop()
    return tape.run()


def _check(steps, epochs, step):
    for name, value in (("steps", 1 if steps is None else steps), ("epochs", epochs)):
        if not isinstance(value, Integral) or value < 1:
            raise UsageError(f"{name} cannot be {value!r}", next_step="give a whole number from 1")
    if step is not None and not callable(step):
        raise UsageError(f"step is a {type(step).__name__}", next_step="pass a function that takes one batch")


def _loader(dataset, steps, batched, options, deadline_s):
    """Return (a DataLoader with everything timed, its batches per epoch or None)."""
    from torch.utils.data import DataLoader, IterableDataset

    from labsupport.loaderbench import wrapping
    from labsupport.loaderbench.guarding import rings

    options = dict(options)
    workers = options.get("num_workers", 0)
    plain = DataLoader(dataset, **options)  # torch's own checks, on the options as given
    collate = wrapping.TimedCollate(options.pop("collate_fn", None), plain.batch_sampler is not None)
    if workers:
        options["multiprocessing_context"] = options.get("multiprocessing_context") or start_method(options)
        options["worker_init_fn"] = wrapping.TimedInit(options.pop("worker_init_fn", None))
        # Without a timeout of its own the loader looks every 5 s whether its workers live, with one only at its end.
        options["timeout"] = 0 if rings() else deadline_s or 0
    if isinstance(dataset, IterableDataset):
        return _quietly(wrapping.TimedStream(dataset), collate_fn=collate, **options), None
    items = wrapping.TimedItems(dataset, batched and bool(getattr(dataset, "__getitems__", None)))
    if plain.batch_sampler is None:
        return _quietly(items, collate_fn=collate, **options), _least(steps, len(plain))
    for name in ("batch_size", "shuffle", "sampler", "drop_last", "batch_sampler"):
        options.pop(name, None)
    bounded = _Bounded(plain.batch_sampler, steps)
    return _quietly(items, batch_sampler=bounded, collate_fn=collate, **options), _least(steps, bounded.total())


def _quietly(*args, **options):
    """Return a DataLoader without the warnings that the same options have raised already."""
    from torch.utils.data import DataLoader

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return DataLoader(*args, **options)


def _least(steps, length):
    return length if steps is None else steps if length is None else min(steps, length)


class _Bounded:
    """The first `steps` batches of a batch sampler: workers then fetch no batch that nobody takes."""

    def __init__(self, sampler, steps):
        self.sampler, self.steps = sampler, steps

    def __iter__(self):
        return itertools.islice(iter(self.sampler), self.steps)

    def __len__(self):
        return _least(self.steps, len(self.sampler))

    def total(self):
        """Return the number of batches, or None for a sampler that does not know."""
        try:
            return len(self)
        except (TypeError, NotImplementedError):
            return None


def _settings(loader, dataset, batched, steps, options):
    """Return what the run was made with, under the names that DataLoader has for them, start method included."""
    workers = loader.num_workers
    return {
        "dataset": type(dataset).__name__,
        "num_workers": workers,
        "batch_size": options.get("batch_size", 1 if "batch_sampler" not in options else None),
        "prefetch_factor": loader.prefetch_factor if workers else None,
        "persistent_workers": bool(loader.persistent_workers) if workers else None,
        "pin_memory": bool(loader.pin_memory),
        "multiprocessing_context": start_method(options) if workers else None,
        "batched_fetch": bool(batched and getattr(dataset, "__getitems__", None)),
        "steps": steps,
    }


class _Tape:
    """One run while it is made."""

    def __init__(self, step, device, deadline_s, progress):
        self.step, self.device, self.deadline_s, self.progress = step, device, deadline_s, progress
        self.settings, self.events, self.epochs, self.notes = {}, [], [], []
        self.received = []  # (epoch, note, bytes, taken_s) of every batch
        self.private, self.next_s, self.iterator, self.loader = {}, 0.0, None, None
        self.began = perf_counter()

    def play(self, loader, planned, steps, epochs):
        """Run the epochs; `planned` is the number of batches of one, None where only the end tells."""
        self.loader = loader
        most = planned if planned is not None else steps
        whole = None if most is None else most * epochs
        for number in range(epochs):
            self._epoch(loader, number, most, whole, known=planned is not None)

    def _epoch(self, loader, number, most, whole, known):
        from labsupport.loaderbench.guarding import deadline, held_back

        begin = perf_counter()
        with deadline(self._patience(loader)), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Got pickle error")  # it is told in our own words
            with held_back():
                self.iterator = iter(loader)
        self._event("main", "start", begin, perf_counter())
        first, count, ended = None, 0, False
        while most is None or count < most:
            begin_next = perf_counter()
            try:
                with deadline(self._patience(loader)):
                    carried = next(self.iterator)
            except StopIteration:
                ended = True
                break
            taken = perf_counter()
            self._received(number, carried, begin_next, taken)
            first = first or taken
            count += 1
            if self.progress is not None:
                self.progress(len(self.received), whole)
        if loader.num_workers and not (ended and not known):
            self._weigh(number)
        pids = sorted({note.pid for at, note, *_ in self.received if at == number}) if loader.num_workers else ()
        end = perf_counter()
        self.epochs.append(Epoch(*map(self._at, (begin, first or end, end)), count, tuple(pids)))
        if not loader.persistent_workers:
            self.iterator = None

    def _patience(self, loader):
        """Return the seconds for one batch; a little more than the loader's own timeout where it has one."""
        return None if self.deadline_s is None else self.deadline_s + (5 if loader.timeout else 0)

    def _received(self, epoch, carried, began, taken):
        from labsupport.loaderbench.devices import bytes_of
        from labsupport.loaderbench.faults import DatasetFailed, StepFailed
        from labsupport.loaderbench.guarding import Overdue, deadline

        batch, note, k = carried.batch, carried.note, len(self.received)
        if note.failure is not None:
            raise DatasetFailed(note.failure, note.worker)
        self.next_s += taken - began
        self.received.append((epoch, note, bytes_of(batch), taken))
        lane = "main" if note.worker is None else f"worker {note.worker}"
        self._event(lane, "fetch", note.began_s, note.fetched_s, k)
        self._event(lane, "collate", note.fetched_s, note.collated_s, k)
        if note.worker is not None:
            self._event("main", "wait", began, taken, k)
        try:
            with deadline(self.deadline_s):
                if self.device is not None:
                    begin = perf_counter()
                    batch = self.device.move(batch, self.settings["pin_memory"])
                    self.device.synchronize()
                    self._event("main", "transfer", begin, perf_counter(), k)
                if self.step is not None:
                    self._compute(batch, k)
        except Overdue:
            raise StepFailed("hung", k) from None

    def _compute(self, batch, k):
        from labsupport.loaderbench.faults import StepFailed
        from labsupport.loaderbench.guarding import Overdue

        begin = perf_counter()
        try:
            self.step(batch)
        except Overdue:
            raise
        except Exception as error:
            raise StepFailed("raised", k) from error
        if self.device is not None:
            self.device.synchronize()
        self._event("main", "compute", begin, perf_counter(), k)

    def _weigh(self, epoch):
        """Read the private memory of the workers while they live."""
        from labsupport.loaderbench.memory import private_dirty_bytes

        for pid in {note.pid for at, note, *_ in self.received if at == epoch}:
            self.private[pid] = private_dirty_bytes(pid)

    def drop(self, at_once=False):
        """Let go of the loader and its workers; `at_once` after an error or an interrupt."""
        from labsupport.loaderbench.guarding import end_loader

        iterator, self.iterator, self.loader = self.iterator, None, None
        if iterator is not None:
            end_loader(iterator, at_once)

    def _at(self, moment):
        return round(moment - self.began, 7)

    def _event(self, lane, kind, start, end, batch=None):
        self.events.append(Event(lane, kind, self._at(start), self._at(end), batch))

    def run(self):
        """Return the finished `Run`."""
        from labsupport.loaderbench.memory import why_not

        self._starts()
        workers = self._workers()
        if workers and any(one.private_dirty_bytes is None for one in workers):
            self.notes.append(why_not())
        totals = {kind: sum(e.end_s - e.start_s for e in self.events if e.kind == kind) for kind in KINDS}
        counts = {
            "batches": len(self.received),
            "items": sum(note.items for _, note, *_ in self.received),
            "calls": sum(note.calls for _, note, *_ in self.received),
            "bytes": sum(size for _, _, size, _ in self.received),
            "processes": 1 + len({note.pid for _, note, *_ in self.received if note.worker is not None}),
        }
        totals["cpu"] = sum(note.cpu_s for _, note, *_ in self.received)
        return Run(
            settings=self.settings,
            events=tuple(sorted(self.events, key=lambda event: event.start_s)),
            queue=self._queue(),
            totals=totals | {"next": self.next_s},
            counts=counts,
            epochs=tuple(self.epochs),
            workers=workers,
            notes=tuple(self.notes),
            versions=_versions(),
        )

    def _starts(self):
        """Add one "start" per worker process: from the epoch's beginning until it was ready to load."""
        seen = set()
        for epoch, note, *_ in self.received:
            if note.worker is not None and note.pid not in seen and note.ready_s is not None:
                seen.add(note.pid)
                begin = self.epochs[epoch].start_s + self.began
                self._event(f"worker {note.worker}", "start", begin, note.ready_s)

    def _queue(self):
        """Count the batches that were made and not yet taken, at every change; none without workers."""
        changes = [(note.collated_s, 1) for _, note, *_ in self.received if note.worker is not None]
        changes += [(taken, -1) for _, note, _, taken in self.received if note.worker is not None]
        ready, rows = 0, []
        most = self.settings["num_workers"] * (self.settings["prefetch_factor"] or 0)
        for moment, change in sorted(changes, key=lambda change: (change[0], -change[1])):
            ready += change
            # One more than fits is the one that `next()` is about to hand over: its place is free already.
            rows.append((self._at(moment), min(ready, most)))
        return tuple(rows)

    def _workers(self):
        made = {}
        for _, note, *_ in self.received:
            if note.worker is not None:
                made.setdefault((note.worker, note.pid), []).append(note)
        return tuple(
            Worker(number, pid, len(notes), sum(note.calls for note in notes), self.private.get(pid))
            for (number, pid), notes in sorted(made.items())
        )


def _versions():
    import torch

    return {"python": platform.python_version(), "torch": torch.__version__, "system": sys.platform}
