"""Find what keeps a dataset from being sent to a worker, before a worker is started: which part, and the change."""

import io
import pickle
import sys
from dataclasses import dataclass

from labsupport.errors import LabError

__all__ = ["Look", "look", "main_is_importable"]


@dataclass(frozen=True)
class Look:
    """The size of the pickle that each worker receives, in bytes or None; and what is wrong with it, or None."""

    size: int | None
    problem: LabError | None = None


class _Counting(io.RawIOBase):
    """Takes bytes and keeps only their number."""

    size = 0

    def writable(self):
        return True

    def write(self, data):
        self.size += len(data)
        return len(data)


class _Watching(pickle.Pickler):
    """A pickler that remembers which classes and functions of `__main__` it met."""

    def __init__(self, file):
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self.of_main = []

    def reducer_override(self, thing):
        found = thing if isinstance(thing, type) or hasattr(thing, "__qualname__") else type(thing)
        if getattr(found, "__module__", None) == "__main__" and found.__qualname__ not in self.of_main:
            self.of_main.append(found.__qualname__)
        return NotImplemented


def look(dataset, options):
    """Return a `Look` at what spawn and forkserver send to every worker: dataset, collate_fn, worker_init_fn."""
    parts = {"the dataset": dataset}
    parts |= {name: options[name] for name in ("collate_fn", "worker_init_fn") if options.get(name) is not None}
    size = 0
    for name, part in parts.items():
        counting = _Counting()
        pickler = _Watching(counting)
        try:
            pickler.dump(part)
        except Exception as error:  # whatever a __reduce__ raises
            return Look(None, _culprit(name, part, error))
        size += counting.size
        if pickler.of_main and not main_is_importable():
            return Look(size, _in_main(name, pickler.of_main))
    return Look(size)


def main_is_importable():
    """Return whether a new process can import `__main__` again: a script yes, a notebook or a prompt no."""
    main = sys.modules.get("__main__")
    return getattr(main, "__spec__", None) is not None or bool(getattr(main, "__file__", None))


def _in_main(name, names):
    return LabError(
        f"{name} needs {names[0]}, which was defined in this notebook or prompt",
        why="a worker that is spawned imports what it needs, and cannot import a cell",
        next_step=f"move {names[0]} into a file beside the notebook, as data.py, and import it from there",
    )


def _culprit(name, part, error):
    where, cause = _deepest(part, error)
    thing = f"{name}{where}" if where else name
    what = f"{thing} does not pickle ({type(cause[0]).__name__})" if cause else f"{thing} does not pickle"
    if cause and getattr(cause[0], "__name__", "") == "<lambda>":
        what, step = f"{thing} is a lambda, which does not pickle", "name it: def f(x): ... at the top of a module"
    elif cause and callable(cause[0]) and "<locals>" in getattr(cause[0], "__qualname__", ""):
        step = f"move {cause[0].__name__} to the top of a module: a function inside a function has no name to import"
    else:
        step = "open it inside the worker, at the first __getitem__, instead of keeping it open in __init__"
    message = " ".join(str(error).split())[:200]
    return LabError(what, why=f"spawn and forkserver send it to every worker as a pickle: {message}", next_step=step)


def _deepest(part, error, where="", depth=0):
    """Return (path as ".transform", [the smallest part that does not pickle])."""
    if depth < 4:
        for name, value in _inside(part):
            try:
                _Watching(_Counting()).dump(value)
            except Exception as inner:
                return _deepest(value, inner, where + name, depth + 1)
    return where, [part]


def _inside(part):
    if isinstance(part, dict):
        return [(f"[{key!r}]", value) for key, value in part.items()]
    if isinstance(part, (list, tuple)):
        return [(f"[{at}]", value) for at, value in enumerate(part)]
    return [(f".{name}", value) for name, value in getattr(part, "__dict__", {}).items()] if not callable(part) else []
