"""What stands between a DataLoader and a user's parts: it notes when each part begins and ends, where it runs.

Notes travel back with their batch, so that nothing is shared between processes and every start method works: all
classes here are importable, and a wrapper pickles exactly when what it wraps does. An exception of the user's code
travels as a `Failure`, with the item and the line it came from, instead of a traceback made of text.

`time.perf_counter` is documented as system-wide: what one process notes can be compared with what another does.
"""

import os
import sysconfig
import threading
import traceback
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time

from torch.utils.data import Dataset, IterableDataset, default_collate, default_convert, get_worker_info

__all__ = ["Carried", "Failure", "Note", "TimedCollate", "TimedInit", "TimedItems", "TimedStream", "interrupted"]

_ready_s = None  # when this process was ready to load: its own `TimedInit` has returned


@dataclass(frozen=True)
class Failure:
    """An exception of the user's code: which `part` raised ("item", "collate"), at which index, and where."""

    part: str
    kind: str
    message: str
    where: str = ""
    index: object = None
    shapes: tuple = ()


@dataclass(frozen=True)
class Note:
    """How one batch was made: by which worker (None: the main process), when, on the system-wide clock in seconds.

    `cpu_s` is the processor time that fetching and collating took; the rest of their time went by waiting.
    """

    worker: int | None
    pid: int
    ready_s: float | None
    began_s: float
    fetched_s: float
    collated_s: float
    cpu_s: float
    items: int
    calls: int
    failure: Failure | None = None


class Carried:
    """A batch with its note. `pin_memory` pins the batch, as the loader's own thread would."""

    __slots__ = ("batch", "note")

    def __init__(self, batch, note):
        self.batch, self.note = batch, note

    def __reduce__(self):
        return Carried, (self.batch, self.note)

    def pin_memory(self):
        """Return the same with pinned tensors."""
        from torch.utils.data._utils.pin_memory import pin_memory

        return Carried(pin_memory(self.batch), self.note)


class _Fetched:
    """What one fetch gave: an item or a list of them, when, from how many calls; or how it failed."""

    __slots__ = ("began", "calls", "ended", "failure", "items")

    def __init__(self, began, items, calls, failure=None):
        self.began, self.ended = began, _now()
        self.items, self.calls, self.failure = items, calls, failure


class TimedItems(Dataset):
    """A map-style dataset whose fetches are timed; `batched` uses the dataset's own `__getitems__`."""

    def __init__(self, dataset, batched):
        self.dataset, self.batched = dataset, batched

    def __len__(self):
        return len(self.dataset)

    def __getitem__(self, index):
        began = _now()
        try:
            return _Fetched(began, self.dataset[index], 1)
        except (Exception, SystemExit) as error:
            return _Fetched(began, None, 1, _failure("item", error, index))

    def __getitems__(self, indices):
        began, items, at = _now(), [], None
        try:
            if self.batched:
                return _Fetched(began, self.dataset.__getitems__(indices), 1)
            for at in indices:
                items.append(self.dataset[at])
            return _Fetched(began, items, len(items))
        except (Exception, SystemExit) as error:
            return _Fetched(began, None, len(items) + 1, _failure("item", error, at))


class TimedStream(IterableDataset):
    """An iterable dataset whose items are timed one by one."""

    def __init__(self, dataset):
        self.dataset = dataset

    def __iter__(self):
        at = 0
        began = _now()
        try:
            for item in self.dataset:
                yield _Fetched(began, item, 1)
                at += 1
                began = _now()
        except (Exception, SystemExit) as error:
            yield _Fetched(began, None, 1, _failure("item", error, at))


class TimedCollate:
    """A collate function that is timed, and that turns what was fetched into a `Carried` batch."""

    def __init__(self, collate, batched):
        self.collate = collate or (default_collate if batched else default_convert)

    def __call__(self, fetched):
        parts = fetched if isinstance(fetched, list) else [fetched]
        began, ended = parts[0].began, parts[-1].ended
        calls = sum(part.calls for part in parts)
        items = [part.items for part in parts] if isinstance(fetched, list) else fetched.items
        failure = next((part.failure for part in parts if part.failure), None)
        batch = None
        if failure is None:
            try:
                batch = self.collate(items)
            except (Exception, SystemExit) as error:
                failure = _failure("collate", error, shapes=_shapes(items))
        info = get_worker_info()
        done = _now()
        note = Note(
            worker=None if info is None else info.id,
            pid=os.getpid(),
            ready_s=_ready_s,
            began_s=began[0],
            fetched_s=ended[0],
            collated_s=done[0],
            cpu_s=done[1] - began[1],
            items=len(items) if isinstance(items, (list, tuple)) else 1,
            calls=calls,
            failure=failure,
        )
        return Carried(batch, note)


class TimedInit:
    """A `worker_init_fn` that notes when the worker is ready, and ends the worker when its parent is gone."""

    def __init__(self, init=None):
        self.init = init

    def __call__(self, worker):
        global _ready_s
        info = get_worker_info()
        if info is not None:  # a user's `get_worker_info().dataset` is the user's, as without this harness
            object.__setattr__(info, "dataset", info.dataset.dataset)
        threading.Thread(target=_leave_with_parent, daemon=True).start()
        if self.init is not None:
            self.init(worker)
        _ready_s = perf_counter()


def _now():
    """Return (seconds on the system-wide clock, processor seconds of this process)."""
    return perf_counter(), process_time()


def _leave_with_parent():
    """A worker that hangs in an item never looks whether its parent is alive: this thread does."""
    from multiprocessing import connection, parent_process

    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _failure(part, error, index=None, shapes=()):
    """Return a `Failure`."""
    where = _own_line(error.__traceback__)
    message = " ".join(str(error).split())[:300]
    return Failure(part, type(error).__name__, message, where, index if index is None else _plain(index), shapes)


# Python's library, what is built into it, and the code that measures: none of it is the user's.
_OTHERS = (sysconfig.get_path("stdlib"), "<frozen", str(Path(__file__).parent))


def _own_line(trace):
    """Return the last line of a traceback that is the user's own, outside Python's library and packages, or ""."""
    frames = traceback.extract_tb(trace)
    own = [f for f in frames if "site-packages" not in f.filename and not f.filename.startswith(_OTHERS)]
    return f"{Path(own[-1].filename).name}:{own[-1].lineno}, in {own[-1].name}" if own else ""


def interrupted(error):
    """Return (index of the item that was being fetched here, the user's line) of an exception, or (None, "")."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != __file__:
        trace = trace.tb_next
    if trace is None:
        return None, ""
    there = trace.tb_frame.f_locals
    index = there.get("at", there.get("index"))
    return index if index is None else _plain(index), _own_line(trace)


def _plain(index):
    return index if isinstance(index, (int, str)) else repr(index)[:60]


def _shapes(items):
    """Return the distinct shapes of a batch's items as text, first met first, at most four."""
    if not isinstance(items, (list, tuple)):
        return ()
    found = []
    for item in items:
        if (text := _shape(item)) not in found:
            found.append(text)
    return tuple(found[:4])


def _shape(item, depth=0):
    if hasattr(item, "shape"):
        return f"{tuple(item.shape)} {str(getattr(item, 'dtype', '')).removeprefix('torch.')}".strip()
    if isinstance(item, dict) and depth < 2:
        return "{" + ", ".join(f"{key}: {_shape(value, depth + 1)}" for key, value in list(item.items())[:6]) + "}"
    if isinstance(item, (list, tuple)) and depth < 2 and len(item) <= 6:
        return "(" + ", ".join(_shape(value, depth + 1) for value in item) + ")"
    if isinstance(item, (list, tuple, str, bytes)):
        return f"{type(item).__name__} of {len(item)}"
    return type(item).__name__
