"""Lesson 12: a dataset that does not reach the workers."""

from labsupport.course import Case, Exercise, Misconception, Probe

__all__ = ["SPAWN_READY"]

_SPAWN = "https://docs.python.org/3/library/multiprocessing.html#the-spawn-and-forkserver-start-methods, read 2026-11"


class Readings:
    """The rows of a file, multiplied by a factor; it can be sent to a worker at any time."""

    def __init__(self, file, factor):
        self.file, self.factor = file, factor
        self.handle = None  # each process opens its own, when it first reads

    def __len__(self):
        return self.file.rows

    def __getitem__(self, index):
        if self.handle is None:
            self.handle = self.file.open()
        return self.handle.read(index) * self.factor

    def __getstate__(self):
        return {**self.__dict__, "handle": None}  # a copy of the dict: main's own handle stays


class _LambdaStays:
    def __init__(self, file, factor):
        self.file, self.handle = file, None
        self.scale = lambda row: row * factor

    def __len__(self):
        return self.file.rows

    def __getitem__(self, index):
        if self.handle is None:
            self.handle = self.file.open()
        return self.scale(self.handle.read(index))

    def __getstate__(self):
        return {**self.__dict__, "handle": None}


class _DefInside:
    def __init__(self, file, factor):
        def scale(row):
            return row * factor

        self.file, self.handle, self.scale = file, None, scale

    def __len__(self):
        return self.file.rows

    def __getitem__(self, index):
        if self.handle is None:
            self.handle = self.file.open()
        return self.scale(self.handle.read(index))

    def __getstate__(self):
        return {**self.__dict__, "handle": None}


class _HandleStays:
    def __init__(self, file, factor):
        self.file, self.factor = file, factor
        self.handle = file.open()

    def __len__(self):
        return self.file.rows

    def __getitem__(self, index):
        return self.handle.read(index) * self.factor


class _LazyOnly:
    def __init__(self, file, factor):
        self.file, self.factor, self.handle = file, factor, None

    def __len__(self):
        return self.file.rows

    def __getitem__(self, index):
        if self.handle is None:
            self.handle = self.file.open()
        return self.handle.read(index) * self.factor


class _OpensEachTime:
    def __init__(self, file, factor):
        self.file, self.factor = file, factor

    def __len__(self):
        return self.file.rows

    def __getitem__(self, index):
        return self.file.open().read(index) * self.factor


class _TakesItFromMain:
    def __init__(self, file, factor):
        self.file, self.factor, self.handle = file, factor, file.open()

    def __len__(self):
        return self.file.rows

    def __getitem__(self, index):
        return self.handle.read(index) * self.factor

    def __getstate__(self):
        state = self.__dict__
        state["handle"] = None
        return state


class _MainsHandleGoes:
    def __init__(self, file, factor):
        self.file, self.factor, self.handle = file, factor, None

    def __len__(self):
        return self.file.rows

    def __getitem__(self, index):
        if self.handle is None:
            self.handle = self.file.open()
        return self.handle.read(index) * self.factor

    def __getstate__(self):
        self.handle = None
        return self.__dict__


class _OpensOnArrival:
    def __init__(self, file, factor):
        self.file, self.factor, self.handle = file, factor, file.open()

    def __len__(self):
        return self.file.rows

    def __getitem__(self, index):
        return self.handle.read(index) * self.factor

    def __getstate__(self):
        return {"file": self.file, "factor": self.factor}

    def __setstate__(self, state):
        self.__init__(**state)


class _OpensInMain:
    def __init__(self, file, factor):
        self.file, self.factor, self.handle = file, factor, file.open()

    def __len__(self):
        return self.file.rows

    def __getitem__(self, index):
        if self.handle is None:
            self.handle = self.file.open()
        return self.handle.read(index) * self.factor

    def __getstate__(self):
        return {**self.__dict__, "handle": None}


class _OneHandleForAll:
    handle = None

    def __init__(self, file, factor):
        self.file, self.factor = file, factor

    def __len__(self):
        return self.file.rows

    def __getitem__(self, index):
        if type(self).handle is None:
            type(self).handle = self.file.open()
        return self.handle.read(index) * self.factor


class _ReadsItAll:
    def __init__(self, file, factor):
        handle = file.open()
        self.rows = [handle.read(i) * factor for i in range(file.rows)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


def _readings_case(label, used_before, workers, rows, beside=False):
    def make(rng):
        return rng.normal(size=(rows, 3)), round(float(rng.uniform(2, 9)), 3), used_before, workers, beside

    return Case(label, make)


SPAWN_READY = Exercise(
    id="loading/spawn-ready",
    kind="debug",
    task="Mend the dataset so that it can be sent to workers that are spawned, also after main has read from it. Each "
    "process opens the file once, when it first reads; making or sending a dataset opens nothing, and main goes on "
    "with the handle it has. A second dataset reads its own file.",
    names=("Readings",),
    reference=Readings,
    cases=(
        _readings_case("sent before anything is read, one worker", False, 1, rows=3),
        _readings_case("sent before anything is read, two workers", False, 2, rows=6),
        _readings_case("main reads an item first", True, 2, rows=5),
        _readings_case("main has read from a dataset over another file", True, 1, rows=4, beside=True),
    ),
    probe=Probe("through", {"driver": "loading:spawned_reads"}),
    misconceptions=(
        Misconception(
            id="lambda-stays",
            specimen=_LambdaStays,
            says="pickle stores a function by its name in a module, and a lambda has none.",
            next="What does the lambda need to know? Keep that, and do the work in a method.",
        ),
        Misconception(
            id="def-inside",
            specimen=_DefInside,
            says="A function defined inside another has a name, but none that a worker could import: pickle stops at "
            "it as it stops at a lambda.",
            next="Keep the factor on the object; a number crosses easily.",
        ),
        Misconception(
            id="handle-stays",
            specimen=_HandleStays,
            says="An open file belongs to the process that opened it and does not pickle.",
            next="Remember the file, and open it when it is first read.",
        ),
        Misconception(
            id="lazy-and-no-more",
            specimen=_LazyOnly,
            says="Opening late works until somebody looks at `dataset[0]` in main: then the handle is there, and it is "
            "sent along.",
            next="`__getstate__` says what is sent.",
        ),
        Misconception(
            id="opens-for-every-item",
            specimen=_OpensEachTime,
            says="It arrives, but the file is opened for every single item.",
            next="Keep the handle, and leave it out of what is sent.",
        ),
        Misconception(
            id="nobody-opens-again",
            specimen=_TakesItFromMain,
            says="The dataset arrives without a handle, and nothing opens one there: reading meets `None`, or no such "
            "attribute.",
            next="Open where it is read, if there is no handle; and see that `__getstate__` returns all the rest, in a "
            "dict of its own.",
        ),
        Misconception(
            id="mains-handle-goes",
            specimen=_MainsHandleGoes,
            says="`__getstate__` changes the dataset in main: each time it is sent, main loses its open file and opens "
            "another one.",
            next="Change a copy of `self.__dict__`.",
        ),
        Misconception(
            id="opens-on-arrival",
            specimen=_OpensOnArrival,
            says="It works, and every dataset opens the file as soon as it exists, also in main, which may never read.",
            next="Open in `__getitem__`, where it is needed.",
        ),
        Misconception(
            id="opens-in-main",
            specimen=_OpensInMain,
            says="It arrives, and workers open the file when they read. But `__init__` opens it too, in main, which "
            "may never read.",
            next="Begin without a handle: `__getitem__` opens it in every process, main included.",
        ),
        Misconception(
            id="one-handle-for-all",
            specimen=_OneHandleForAll,
            says="The handle lies in the class or in a global, so all datasets of a process share it: a second dataset "
            "reads from the first one's file.",
            next="Keep the handle on `self`, and leave it out of what is sent.",
        ),
        Misconception(
            id="reads-all-of-it",
            specimen=_ReadsItAll,
            says="You read the whole file in main and send the numbers: easy to pickle, and as large as the file for "
            "every worker.",
            next="Send what is needed to open the file.",
        ),
    ),
    hints=(
        "Two things do not cross: a function without an importable name, and an open file.",
        "Keep the factor, open in `__getitem__` when there is no handle, and let `__getstate__` return a copy of the "
        "dict without it.",
    ),
    core=True,
    level=3,
    minutes=9,
    source=_SPAWN,
)
