"""Workers without processes.

What a worker holds is a pickled copy of the dataset, made when it starts, and module globals and class attributes of
its own. All that can be made in one process.
"""

import contextlib
import copy
import io
import itertools
import pickle
import sys
import types

__all__ = ["Apart", "Crossing", "Worker", "crossing_problem", "send"]


class _Pickler(pickle.Pickler):
    """Pickles as `pickle` does on the way to a worker.

    What stands at the top level of the answer's file counts as importable, and shared memory stays one memory.
    """

    def persistent_id(self, obj):
        if (isinstance(obj, (type, types.FunctionType)) and _is_answers(obj)) or _is_shared(obj):
            self.by_name[id(obj)] = obj
            return id(obj)
        return None


def _is_answers(obj):
    """Return whether a function or class stands at the top level of a notebook or of an answer that was executed."""
    if "<" in obj.__qualname__ or obj.__module__ not in ("__main__", "__answer__"):
        return False
    if isinstance(obj, types.FunctionType):
        top = obj.__globals__.get(obj.__qualname__.partition(".")[0])
        return top is obj or isinstance(top, type)
    return True


def _is_shared(obj):
    """Return whether an object is memory that processes share: of `multiprocessing`, or a shared tensor of torch."""
    kind = type(obj)
    if kind.__module__.startswith("multiprocessing.") and not kind.__module__.endswith("shared_memory"):
        return True
    if hasattr(obj, "_wrapper") and kind.__module__ in ("ctypes", "multiprocessing.sharedctypes"):  # a RawValue
        return True
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(obj, torch.Tensor) and obj.is_shared()


def send(obj):
    """Return the copy of an object that arrives in another process. Raises what pickling or unpickling raises."""
    stream, by_name = io.BytesIO(), {}
    pickler = _Pickler(stream)
    pickler.by_name = by_name
    pickler.dump(obj)
    unpickler = pickle.Unpickler(io.BytesIO(stream.getvalue()))
    unpickler.persistent_load = by_name.__getitem__
    return unpickler.load()


def crossing_problem(error):
    """Return in a few words why a dataset did not cross, from what pickle said."""
    text = str(error)
    if "<lambda>" in text:
        return "stopped by a lambda"
    if "<locals>" in text or "local object" in text:
        return "stopped by a function or class that is defined inside another"
    if "open files" in text or "BufferedReader" in text or "TextIOWrapper" in text:
        return "stopped by an open file"
    return f"stopped by {type(error).__name__}: {text[:80]}"


# -- a worker that stays


_PLAIN = (type(None), bool, int, float, complex, str, bytes, list, tuple, dict, set)


class Worker:
    """A persistent worker: a copy of the dataset, and class attributes and globals as they were when it was made."""

    def __init__(self, dataset):
        self.dataset = send(dataset)
        self._places = _places_of(type(dataset))
        self._own = [_snapshot(place) for place in self._places]

    def fetch(self, requests):
        """Return `[dataset[request] ...]` of this worker's copy; requests cross by pickle too."""
        requests = send(list(requests))
        with self._inside():
            return [self.dataset[request] for request in requests]

    @contextlib.contextmanager
    def _inside(self):
        mains = [_take(place) for place in self._places]
        _put_all(self._places, self._own)
        try:
            yield
        finally:
            self._own = [_take(place) for place in self._places]
            _put_all(self._places, mains)


class _Place:
    """Where state can hide outside an object: a class's attributes, or the globals its methods name."""

    def __init__(self, owner, names, kinds=()):
        self.owner, self.names, self.kinds = owner, names, (*_PLAIN, *kinds)

    def read(self):
        space = vars(self.owner) if isinstance(self.owner, type) else self.owner
        names = space if self.names is None else self.names
        found = {n: space[n] for n in names if n in space and type(space[n]) in self.kinds}
        return {n: value for n, value in found.items() if not n.startswith("__")}

    def write(self, name, value):
        if isinstance(self.owner, type):
            setattr(self.owner, name, value)
        else:
            self.owner[name] = value

    def delete(self, name):
        if isinstance(self.owner, type):
            delattr(self.owner, name)
        else:
            del self.owner[name]


def _places_of(kind, kinds=()):
    places = []
    for one in kind.__mro__:
        if one.__module__ in ("__main__", "__answer__"):
            places.append(_Place(one, None, kinds))
            methods = [m for m in vars(one).values() if isinstance(m, types.FunctionType)]
            for method in methods:
                places.append(_Place(method.__globals__, tuple(method.__code__.co_names), kinds))
    return places


def _snapshot(place):
    return copy.deepcopy(place.read())


def _take(place):
    return place.read()


def _put_all(places, values):
    for place, wanted in zip(places, values):
        for name in place.read().keys() - wanted.keys():
            place.delete(name)
        for name, value in wanted.items():
            place.write(name, value)


# -- workers that are spawned


class Apart:
    """Class attributes and globals, one set for each process; all begin with what is there when this is made.

    Args:
        kind: the class of an answer; what is no class keeps nothing apart.
        kinds: types of values that may lie there, beside plain data.
    """

    def __init__(self, kind, kinds=()):
        self._places = _places_of(kind, kinds) if isinstance(kind, type) else []
        self._first = [_snapshot(place) for place in self._places]
        self._of = {}

    @contextlib.contextmanager
    def inside(self, where):
        """Have the process `where` find its own in the `with` block, and put back what was there before."""
        before = [_take(place) for place in self._places]
        _put_all(self._places, self._of.get(where) or copy.deepcopy(self._first))
        try:
            yield
        finally:
            self._of[where] = [_take(place) for place in self._places]
            _put_all(self._places, before)


class Crossing:
    """One dataset on its way to workers: knows its files by name, and which process opened how many.

    Attributes:
        opens: {"main" or "worker 0", ...: number of files opened}.
    """

    ARRIVING = "a worker, while it starts"
    _files = {}  # noqa: RUF012  (files by name, of the runs that are under way)
    _names = itertools.count()

    def __init__(self):
        self.opens, self._where, self._mine = {}, "main", []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for name in self._mine:
            del self._files[name]

    @classmethod
    def found(cls, name):
        """Return the file of this name."""
        return cls._files[name]

    def name_of(self, file):
        """Return a name under which `found` finds the file, as long as this crossing lasts."""
        name = next(self._names)
        self._files[name] = file
        self._mine.append(name)
        return name

    def opened(self):
        """Note that the process that runs at the moment opened a file."""
        self.opens[self._where] = self.opens.get(self._where, 0) + 1

    @contextlib.contextmanager
    def inside(self, where):
        """Count what is opened in the `with` block as opened by `where`."""
        self._where, before = where, self._where
        try:
            yield
        finally:
            self._where = before

    def send(self, dataset):
        """Return a copy as it arrives in a worker."""
        with self.inside(self.ARRIVING):
            return send(dataset)
