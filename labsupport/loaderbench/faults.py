"""What goes wrong with a user's own parts, in words: what happened, why, and the change that mends it."""

import re
import signal
from dataclasses import dataclass

from labsupport.errors import LabError, UsageError
from labsupport.loaderbench.settings import start_method

__all__ = ["Circumstances", "DatasetFailed", "StepFailed", "check_dataset", "check_workers", "told"]


class DatasetFailed(Exception):
    """The dataset or the collate function raised; holds the `Failure` that travelled."""

    def __init__(self, failure, worker):
        super().__init__(failure.message)
        self.failure, self.worker = failure, worker


class StepFailed(Exception):
    """The step "raised" or "hung" on a batch."""

    def __init__(self, how, batch):
        super().__init__(how)
        self.how, self.batch = how, batch


def check_dataset(dataset):
    """Refuse what cannot be a dataset, or has no items.

    Raises:
        LabError: it has neither `__getitem__` and `__len__` nor `__iter__`, or its length is 0.
    """
    from torch.utils.data import IterableDataset

    if isinstance(dataset, IterableDataset):
        return
    kind = type(dataset).__name__
    if isinstance(dataset, type):
        raise UsageError(
            f"{dataset.__name__} is a class, not a dataset", next_step=f"make one: {dataset.__name__}(...)"
        )
    if not hasattr(dataset, "__getitem__"):
        fix = "derive it from torch.utils.data.IterableDataset" if hasattr(dataset, "__iter__") else _PARTS
        raise UsageError(f"{kind} is not a dataset: it has no __getitem__", next_step=fix)
    try:
        length = len(dataset)
    except TypeError:
        raise UsageError(f"{kind} has __getitem__ but no length", next_step=_PARTS) from None
    if length == 0:
        raise LabError(
            f"{kind} has no items: its len() is 0",
            why="a loader over it gives no batch, so there is nothing to measure",
            next_step="look at the path or the filter that the dataset was made with",
        )


_PARTS = "give it __len__ and __getitem__, or derive it from IterableDataset"


def check_workers(dataset, options):
    """Refuse, before a process starts, what a notebook's cell defined and a spawned worker would have to import.

    Raises:
        LabError: the dataset or a function of the loader is one of these.
    """
    from labsupport.loaderbench import pickling

    if options.get("num_workers", 0) and start_method(options) != "fork" and not pickling.main_is_importable():
        if (problem := pickling.look(dataset, options).problem) is not None:
            raise problem


@dataclass(frozen=True)
class Circumstances:
    """What a run was asked for, and the exit codes of those of its workers that ended."""

    dataset: object
    options: dict
    deadline_s: float | None
    exits: list

    @property
    def workers(self):
        """Return the number of workers asked for."""
        return self.options.get("num_workers", 0)

    @property
    def method(self):
        """Return the start method of the workers, or None without workers."""
        return start_method(self.options) if self.workers else None


def told(error, around):
    """Return a LabError for an exception of a run, or the exception itself where it is not about the loader."""
    from labsupport.loaderbench.guarding import Overdue

    if isinstance(error, DatasetFailed):
        if any(words in error.failure.message for words in _NO_ROOM) and around.workers:
            return _shared_memory(around.workers)  # default_collate makes its batch in shared memory
        return _dataset_failed(error, around.dataset)
    if isinstance(error, StepFailed):
        return _step_failed(error, around.deadline_s)
    if isinstance(error, Overdue):
        return _hung(around, error)
    if isinstance(error, LabError) or not isinstance(error, Exception):
        return error
    return _of_the_loader(error, str(error), around) or error


def _of_the_loader(error, text, around):
    """Return a LabError for what torch or multiprocessing raised, or None."""
    if "timed out after" in text:
        return _hung(around)
    if any(words in text for words in _NO_ROOM):
        return _shared_memory(around.workers)
    if (
        "finished its bootstrapping phase" in text
    ):  # multiprocessing's own words, in the worker that started it all again
        return LabError(
            "a worker ran this program from its beginning, and would have started workers of its own",
            why="spawn and forkserver import the program's file again in every worker",
            next_step='put what the program does under `if __name__ == "__main__":`',
        )
    if (caught := re.search(r"Caught (\w+) in DataLoader worker process (\d+)", text)) is not None:
        last = text.strip().splitlines()[-1].strip()
        return LabError(f"worker {caught[2]} raised {caught[1]} before its first item", why=last, next_step=_INIT)
    if around.workers and around.method != "fork" and _about_pickling(error):
        return _does_not_pickle(error, around)
    if (ended := [code for code in around.exits if code != 0]) or "exited unexpectedly" in text:
        return _ended(ended, around)
    if isinstance(error, (BrokenPipeError, EOFError)):
        return _left(around)
    if isinstance(error, (ValueError, TypeError)) and (_from_the_loader(error) or "DataLoader.__init__" in text):
        return UsageError(
            "the loader does not take these options",
            why=_first_line(text),
            next_step="help(torch.utils.data.DataLoader) lists them",
        )
    return None


_NO_ROOM = ("unable to allocate shared memory", "No space left on device", "insufficient shared memory", "Errno 28")
_INIT = "look at worker_init_fn and at the dataset's __setstate__: they run first in every worker"


def _dataset_failed(error, dataset):
    failure, kind = error.failure, type(dataset).__name__
    by = "the main process" if error.worker is None else f"worker {error.worker}"
    at = f" ({failure.where})" if failure.where else ""
    raised = f"{failure.kind}: {failure.message}" if failure.message else failure.kind
    if failure.part == "collate":
        return _collate_failed(failure, at, raised)
    which = "a whole batch" if failure.index is None else f"item {failure.index}"
    if isinstance(dataset, _streams()):
        step = f"iterate over the dataset by hand as far as item {failure.index}"
    elif failure.kind == "IndexError":
        step = f"compare len() with what __getitem__ can give: item {failure.index} is within len()"
    elif failure.index is None:
        step = "call dataset.__getitems__([0, 1]) by hand, or record with batched=False"
    else:
        step = f"call dataset[{failure.index!r}] by hand; it fails the same way without a loader"
    return LabError(f"{kind} raised for {which} in {by}{at}", why=raised, next_step=step)


def _streams():
    from torch.utils.data import IterableDataset

    return IterableDataset


def _collate_failed(failure, at, raised):
    if len(failure.shapes) > 1:
        return LabError(
            f"the items of one batch do not fit together: {'; '.join(failure.shapes)}",
            why=raised,
            next_step=_EMPTY if "NoneType" in failure.shapes else _PAD,
        )
    return LabError(
        f"collate raised on a batch{at}" + (f" of items {failure.shapes[0]}" if failure.shapes else ""),
        why=raised,
        next_step="return tensors, arrays, numbers, text, lists or dicts from __getitem__, or give a collate_fn",
    )


_PAD = "pad or crop them to one shape in __getitem__, or give a collate_fn that pads"
_EMPTY = "__getitem__ returned None for some items: have it return a sample, or give a collate_fn that leaves None out"


def _step_failed(error, deadline_s):
    if error.how == "hung":
        return LabError(
            f"the step on batch {error.batch} was not back after {deadline_s:g} s",
            next_step="run the step once on one batch by hand, or allow more with deadline_s",
        )
    cause = error.__cause__
    return LabError(
        f"the step raised {type(cause).__name__} on batch {error.batch}",
        why=_first_line(str(cause)),
        next_step="step is called with one collated batch: run it once on next(iter(DataLoader(...)))",
    )


def _hung(around, error=None):
    from labsupport.loaderbench.wrapping import interrupted

    workers, kind = around.workers, type(around.dataset).__name__
    where = f"{workers} workers" if workers > 1 else "1 worker" if workers else "the main process"
    index, line = interrupted(error) if error is not None else (None, "")
    item = 0 if index is None else index
    at = "" if index is None else f", which was at item {index}" + (f" ({line})" if line else "")
    return LabError(
        f"no batch of {kind} came within {around.deadline_s:g} s from {where}{at}",
        why="an item waits for something that does not come (a lock taken before the fork, a download, a queue), or "
        "is slower than that",
        next_step=f"time dataset[{item!r}] by hand; allow more with deadline_s"
        + (", or open locks and handles inside the worker" if workers else ""),
    )


def _ended(codes, around):
    """Return the error for workers that ended by themselves; `codes` are their exit codes, negative for a signal."""
    kind = type(around.dataset).__name__
    killed = next((-code for code in codes if code < 0), None)
    if killed is None:
        return _left(around, codes[0] if codes else None)
    if killed == getattr(signal, "SIGBUS", None):
        return _shared_memory(around.workers)
    if killed == getattr(signal, "SIGKILL", None):
        return LabError(
            f"a worker of {kind} was killed while it loaded",
            why="that is what Linux does to a process when memory runs out: every worker holds its own copy of what "
            "it touches",
            next_step="use fewer workers or a smaller prefetch_factor; hold many small objects as a few arrays",
        )
    return LabError(
        f"a worker of {kind} died: {_name_of(killed)}",
        why="compiled code that the dataset calls has crashed there; a handle opened before a fork does that, too",
        next_step="load with num_workers=0 under `python -X faulthandler`, and open files inside the worker",
    )


def _name_of(number):
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _shared_memory(workers):
    from labsupport.loaderbench.memory import shared_free_bytes

    free = shared_free_bytes()
    have = "" if free is None else f"; {free / 1e6:,.0f} MB of /dev/shm are free now"
    return LabError(
        "there is no room in shared memory (/dev/shm) for the batches of the workers" + have,
        why=f"{workers} workers keep prefetch_factor batches each there; a container often has 64 MB",
        next_step="start the container with --shm-size=8g or --ipc=host, or lower prefetch_factor or batch_size",
    )


def _left(around, code=None):
    from labsupport.loaderbench.pickling import look

    if around.method != "fork" and (problem := look(around.dataset, around.options).problem) is not None:
        return problem
    with_code = "" if code is None else f", with exit code {code}"
    what = f"a worker of {type(around.dataset).__name__} left before it gave its batch{with_code}"
    if around.method == "fork" or code not in (None, 1):
        why = "it ended itself (os._exit, or a library that does)"
        return LabError(what, why=why, next_step="load with num_workers=0 to see it happen in the open")
    return LabError(
        what,
        why="it could not import or unpickle what it was sent; what it printed stands above",
        next_step='put the program\'s own work under `if __name__ == "__main__":`; then try num_workers=0',
    )


def _about_pickling(error):
    import pickle

    text = str(error).lower()
    return isinstance(error, pickle.PicklingError) or any(
        word in text for word in ("pickle", "serializ", "can't get local object", "through inheritance")
    )


def _does_not_pickle(error, around):
    from labsupport.loaderbench.pickling import look

    return look(around.dataset, around.options).problem or LabError(
        f"{type(around.dataset).__name__} does not pickle, and {around.method} sends it to every worker as a pickle",
        why=_first_line(str(error)),
        next_step="open handles inside the worker, not in __init__; name functions instead of lambdas",
    )


def _from_the_loader(error):
    traceback = error.__traceback__
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback.tb_frame.f_globals.get("__name__", "").startswith("torch.utils.data.")


def _first_line(text):
    return (text.strip().splitlines() or [""])[0].strip()[:300]
