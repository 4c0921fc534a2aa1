"""What drives the answers of lesson 12: stores that count, workers that are copies, a loader on a clock of its own.

No driver starts a process: what a worker sees of a dataset is what crosses to it by pickle, so that is what is driven.
"""

import contextlib
import pickle
import sys
import tracemalloc

import numpy as np

from labsupport.loading.clock import steady_ms
from labsupport.probing.call import within
from labsupport.probing.driven import Driven, Unusable
from labsupport.probing.drivers.loading_reach import beside, reachable
from labsupport.probing.drivers.loading_workers import Apart, Crossing, Worker, crossing_problem

__all__ = ["batched_fetch", "names_in_workers", "persistent_epochs", "spawned_reads", "thin_wire", "tuned"]


def _as_array(value):
    """Return the array a tensor of torch holds: either is a sample, or a batch, to a loader. Others come back as is."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return value
    try:
        return value.detach().numpy()
    except (TypeError, RuntimeError):  # NumPy has no such dtype, or the memory is not main's
        return value


# -- batched-fetch


class CountingTable:
    """A table that is read in calls, as a store on another machine would be, and counts them.

    Attributes:
        shape: (rows, columns).
    """

    def __init__(self, rows):
        self._rows = rows
        self.shape = rows.shape
        self.calls = self.rows_read = 0

    def read(self, indices):
        """Return the rows at `indices` as an array (len(indices), columns); one call, whatever their number.

        Raises:
            TypeError: the indices do not increase (as h5py says for such lists).
            IndexError: one is not in the table.
        """
        wanted = np.asarray(indices)
        if wanted.ndim != 1 or (wanted.size and wanted.dtype.kind not in "iu"):
            raise TypeError("read() takes a list of row numbers")
        wanted = wanted.astype(np.int64)
        if (np.diff(wanted) <= 0).any():
            raise TypeError("Indexing elements must be in increasing order")
        if wanted.size and not 0 <= wanted[0] <= wanted[-1] < len(self._rows):
            raise IndexError(f"row {wanted[-1]} of {len(self._rows)}")
        self.calls += 1
        self.rows_read += len(wanted)
        return self._rows[wanted]


def batched_fetch(answer, rows, batches, singles):
    """Drive a dataset as a DataLoader does and count how its table is read.

    Args:
        rows: the table, (rows, columns).
        batches: lists of indices, one per batch.
        singles: indices that are asked for one by one.
    """
    table = CountingTable(rows)
    dataset = answer.Rows(table)
    length, made = len(dataset), table.rows_read
    given = {f"sample {i}": _as_array(dataset[i]) for i in singles}
    before = table.calls, table.rows_read
    for number, indices in enumerate(batches):
        fetch = getattr(dataset, "__getitems__", None)  # as torch asks: all of a batch at once, if it can be had
        samples = fetch(list(indices)) if fetch else [dataset[i] for i in indices]
        one_each = isinstance(samples, (list, tuple))
        given[f"batch {number}"] = [_as_array(sample) for sample in samples] if one_each else samples
    calls, read = table.calls - before[0], table.rows_read - before[1]
    wanted = sum(map(len, batches))
    different = {int(i) % len(rows) for i in (*singles, *(i for indices in batches for i in indices))}
    return Driven(
        value={"its length": length, **given},
        facts={"the way a batch is fetched": "at once" if fetch else "sample by sample",
               "rows read when the dataset is made": within(made, 0),
               "calls to read() for all batches": within(calls, len(batches)),
               "rows read for all batches": within(read, wanted),
               "rows it gives without reading them": within(max(0, len(different) - table.rows_read), 0)},
        notes={**({"rows read when the dataset is made": made} if made else {}),
               "calls to read()": calls, "rows read": read},
    )  # fmt: skip


# -- stale-epoch


def persistent_epochs(answer, rows, seed, epochs, workers):
    """Drive a dataset through epochs with workers that are made once, before the first; batches of two.

    Args:
        rows: (samples,) float64.
        seed: for the dataset.
        epochs: the numbers of the epochs, in the order in which they are run.
        workers: how many copies share the batches.
    """
    dataset = answer.Jittered(rows, seed)
    crew, given = [], {}
    for turn, epoch in enumerate(epochs):
        dataset.epoch = epoch
        asked = list(dataset.requests())
        if not crew:
            crew = [Worker(dataset) for _ in range(workers)]
        samples = []
        for number, start in enumerate(range(0, len(asked), 2)):
            samples += crew[number % workers].fetch(asked[start : start + 2])
        given[f"run {turn}, epoch {epoch}"] = samples
    return given


# -- spawn-ready


class OpenOnce:
    """A file by its name. It crosses to a worker as its name; what `open` returns does not cross at all.

    Attributes:
        rows: how many there are, known without opening it.
    """

    def __init__(self, rows, crossing):
        self._rows, self._crossing, self.rows = rows, crossing, len(rows)

    def open(self):
        """Return a handle with `read(i)`; the process that called it is noted."""
        self._crossing.opened()
        return Handle(self._rows)

    def __reduce__(self):
        return _file_named, (self._crossing.name_of(self),)


def _file_named(name):
    return Crossing.found(name)


class Handle:
    """An open file: `read(i)` returns row i, (columns,) float64."""

    def __init__(self, rows):
        self._rows = rows

    def read(self, index):
        if self._rows is None:
            raise ValueError("read of a closed file")
        return self._rows[index].copy()

    def close(self):
        self._rows = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __reduce_ex__(self, protocol):
        raise TypeError("open files cannot be pickled")


def spawned_reads(answer, rows, factor, used_before, workers, beside=False):
    """Send a dataset to workers by pickle and read from all of them and from the original, in turns.

    Args:
        rows: the file's contents, (rows, columns) float64.
        factor: what the dataset multiplies by.
        used_before: whether the main process reads an item before the workers are made.
        workers: how many copies there are.
        beside: whether main has read from a dataset over another file before.
    """
    apart = Apart(answer.Readings, kinds=(Handle,))
    with contextlib.ExitStack() as stack:
        crossing, other = (stack.enter_context(Crossing()) for _ in range(2))
        stack.enter_context(apart.inside("main"))
        if beside:
            answer.Readings(OpenOnce(rows[::-1], other), factor)[0]
        dataset = answer.Readings(OpenOnce(rows, crossing), factor)
        in_main = [dataset[0]] if used_before else []
        try:
            copies = [_arrived(dataset, crossing, apart, n) for n in range(workers)]
        except Exception as error:
            given = {"its length": len(dataset), "crossing to a worker": crossing_problem(error)}
            return {**given, "what was read": {}, "item 0 in main": in_main}
        items = {}
        for i in range(len(rows)):
            with crossing.inside(f"worker {i % workers}"), apart.inside(f"worker {i % workers}"):
                items[f"item {i} in worker {i % workers}"] = copies[i % workers][i]
        in_main += [dataset[0]] if used_before else []
        return Driven(
            value={
                "its length": len(dataset),
                "crossing to a worker": "pickled",
                "what was read": items,
                "item 0 in main": in_main,
            },
            **_opened(crossing.opens, workers, int(used_before)),
        )


def _arrived(dataset, crossing, apart, n):
    with apart.inside(f"worker {n}"):
        return crossing.send(dataset)


def _opened(opens, workers, in_main):
    most = max(opens.get(f"worker {n}", 0) for n in range(workers))
    facts = {
        "files opened while the dataset arrives": within(opens.get(Crossing.ARRIVING, 0), 0),
        "files opened by one worker": within(most, 1) if most else "none",
        "files opened by main": within(opens.get("main", 0), in_main),
    }
    return {
        "facts": facts,
        "notes": {"files opened by main": opens.get("main", 0), "files opened by one worker": most},
    }


# -- copy-on-write

_MOST_OBJECTS = 60
_MOST_ONE_ITEM = 20_000


def names_in_workers(answer, names, indices):
    """Build a dataset of names, read some, and count the Python objects whose reference counts a worker writes to.

    Args:
        names: a list of texts.
        indices: which are read, in this order.
    """
    dataset = answer.Names(list(names))
    first = len(names) // 2
    dataset[first]  # the first call may fill a cache of its own
    allocated = _allocated_by(lambda: dataset[first])
    given = {"its length": len(dataset), **{f"text {i}": dataset[i] for i in indices}}
    for i in range(0, len(names), max(1, len(names) // 200)):
        dataset[i]  # what it keeps of the texts it was asked for counts, too
    objects, held, crowd = reachable(dataset, beside(type(dataset)))
    text = sum(len(name.encode()) for name in names)
    most_held = text + 18 * len(names) + 4_000  # two 8-byte numbers beside each text, and a little to spare
    return Driven(
        value=given,
        facts={"Python objects a worker touches": within(objects, _MOST_OBJECTS),
               "what most of them are": crowd if objects > _MOST_OBJECTS else "few",
               "bytes of the dataset": within(held, most_held),
               "bytes allocated for one name": within(allocated, _MOST_ONE_ITEM)},
        notes={"Python objects a worker touches": objects, "bytes of the dataset": held},
    )  # fmt: skip


def _allocated_by(action):
    tracing = tracemalloc.is_tracing()
    if not tracing:
        tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        action()
        return max(0, tracemalloc.get_traced_memory()[1] - before)
    finally:
        if not tracing:
            tracemalloc.stop()


# -- thin-wire


def thin_wire(answer, photos, mean, std):
    """Pack a batch where a worker would, send it, unpack it where the main process would, and weigh it on the way.

    Args:
        photos: a list of (rows, columns, 3) uint8.
        mean, std: (3,) float32, of brightness from 0 to 1.
    """
    apart = Apart(answer.Wire, kinds=(np.ndarray,))
    with apart.inside("worker"):
        sent = pickle.dumps(answer.Wire(mean, std).pack(list(photos)), protocol=5)
    with apart.inside("main"):
        batch = _as_array(answer.Wire(mean, std).unpack(pickle.loads(sent)))
    pixels = sum(photo.size for photo in photos)
    return Driven(
        value=batch,
        facts={"bytes sent from worker to main": within(len(sent), pixels + 2_000)},
        notes={"bytes sent from worker to main": len(sent)},
    )


# -- tune


class Bench:
    """A training loop on a simulated device: called with settings, it returns milliseconds per step.

    Attributes:
        runs: how often it was called.
    """

    def __init__(self, machine, most_workers):
        self._machine, self._most_workers = machine, most_workers
        self.runs = 0

    def __call__(self, workers, prefetch_factor=None):
        """Return the milliseconds per step, once it runs steadily.

        Raises:
            ValueError: what torch says to such settings, or they are not among those that the task allows.
        """
        if workers < 0 or workers != int(workers):
            raise ValueError("num_workers option should be a non-negative integer")
        if workers > self._most_workers:
            raise ValueError(f"{workers} workers are more than most_workers, {self._most_workers}")
        if workers == 0 and prefetch_factor is not None:
            raise ValueError("prefetch_factor option could only be specified in multiprocessing.")
        if prefetch_factor is not None and prefetch_factor not in (1, 2, 4, 8):
            raise ValueError(f"prefetch_factor {prefetch_factor} is not allowed here: 1, 2, 4 or 8")
        self.runs += 1
        usual, slow, compute, receive, channels = (
            self._machine[key] for key in ("load_ms", "slow_ms", "compute_ms", "receive_ms", "channels")
        )
        load = (lambda batch: slow if batch % 8 == 7 else usual) if slow else usual
        return steady_ms(load, compute, int(workers), int(prefetch_factor or 2), receive, channels or None)


def tuned(answer, machine, batch_bytes, memory_bytes, most_workers):
    """Have an answer choose settings with a counted number of benchmark runs.

    Args:
        machine: load_ms, slow_ms (every eighth batch; 0 for none), compute_ms, receive_ms, channels (0 for no limit).
        batch_bytes, memory_bytes, most_workers: what the answer is told.
    """
    bench = Bench(machine, most_workers)
    chosen = answer.tune(bench, batch_bytes, memory_bytes, most_workers)
    if not isinstance(chosen, (tuple, list)) or len(chosen) != 2:
        raise Unusable("it is not a pair (workers, prefetch_factor)")
    workers, prefetch = chosen
    runs = bench.runs
    return Driven(
        value={"number of workers": workers, "prefetch factor": prefetch},
        facts={"runs of the benchmark": within(runs, most_workers + 8)},
        notes={"runs of the benchmark": runs},
    )
