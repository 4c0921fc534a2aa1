"""Lesson 12: fewer calls to the store."""

import numpy as np

from labsupport.course import Case, Exercise, Misconception, Probe

__all__ = ["BATCHED_FETCH"]

_FETCH = "https://github.com/pytorch/pytorch/blob/v2.13.0/torch/utils/data/_utils/fetch.py, read 2026-11"


class Rows:
    """The rows of a table as samples; a whole batch takes one call to the table."""

    def __init__(self, table):
        self.table = table

    def __len__(self):
        return self.table.shape[0]

    def __getitem__(self, index):
        return self.table.read([index])[0]

    def __getitems__(self, indices):
        # The table wants increasing numbers, each once; `place` says where each index was put.
        wanted, place = np.unique(indices, return_inverse=True)
        rows = self.table.read(wanted)  # (different rows, columns)
        return [rows[p] for p in place]


class _OneByOne:
    def __init__(self, table):
        self.table = table

    def __len__(self):
        return self.table.shape[0]

    def __getitem__(self, index):
        return self.table.read([index])[0]


class _OneByOneInside:
    def __init__(self, table):
        self.table = table

    def __len__(self):
        return self.table.shape[0]

    def __getitem__(self, index):
        return self.table.read([index])[0]

    def __getitems__(self, indices):
        return [self[index] for index in indices]


class _AsTheyCome:
    def __init__(self, table):
        self.table = table

    def __len__(self):
        return self.table.shape[0]

    def __getitem__(self, index):
        return self.table.read([index])[0]

    def __getitems__(self, indices):
        return list(self.table.read(indices))


class _SortedForGood:
    def __init__(self, table):
        self.table = table

    def __len__(self):
        return self.table.shape[0]

    def __getitem__(self, index):
        return self.table.read([index])[0]

    def __getitems__(self, indices):
        return list(self.table.read(sorted(set(indices))))


class _SortsAndStops:
    def __init__(self, table):
        self.table = table

    def __len__(self):
        return self.table.shape[0]

    def __getitem__(self, index):
        return self.table.read([index])[0]

    def __getitems__(self, indices):
        return list(self.table.read(sorted(indices)))


class _SortedOrderTaken:
    def __init__(self, table):
        self.table = table

    def __len__(self):
        return self.table.shape[0]

    def __getitem__(self, index):
        return self.table.read([index])[0]

    def __getitems__(self, indices):
        order = np.argsort(indices)
        rows = self.table.read(np.asarray(indices)[order])
        return [rows[p] for p in order]


class _NoRepeats:
    def __init__(self, table):
        self.table = table

    def __len__(self):
        return self.table.shape[0]

    def __getitem__(self, index):
        return self.table.read([index])[0]

    def __getitems__(self, indices):
        rows = self.table.read(np.sort(indices))
        return [rows[p] for p in np.argsort(np.argsort(indices))]


class _FromFirstToLast:
    def __init__(self, table):
        self.table = table

    def __len__(self):
        return self.table.shape[0]

    def __getitem__(self, index):
        return self.table.read([index])[0]

    def __getitems__(self, indices):
        first = min(indices)
        rows = self.table.read(np.arange(first, max(indices) + 1))
        return [rows[index - first] for index in indices]


class _AllAtOnce:
    def __init__(self, table):
        self.table = table
        self.rows = table.read(np.arange(table.shape[0]))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


class _EveryBatchAll:
    def __init__(self, table):
        self.table = table

    def __len__(self):
        return self.table.shape[0]

    def __getitem__(self, index):
        return self.table.read([index])[0]

    def __getitems__(self, indices):
        rows = self.table.read(np.arange(len(self)))
        return [rows[index] for index in indices]


class _StackedAlready:
    def __init__(self, table):
        self.table = table

    def __len__(self):
        return self.table.shape[0]

    def __getitem__(self, index):
        return self.table.read([index])[0]

    def __getitems__(self, indices):
        wanted, place = np.unique(indices, return_inverse=True)
        return self.table.read(wanted)[place]


class _KeepsTheAxis:
    def __init__(self, table):
        self.table = table

    def __len__(self):
        return self.table.shape[0]

    def __getitem__(self, index):
        return self.table.read([index])

    def __getitems__(self, indices):
        wanted, place = np.unique(indices, return_inverse=True)
        rows = self.table.read(wanted)
        return [rows[p] for p in place]


def _table_case(label, rows, batches):
    """Return a case on a table of `rows` rows; `batches(rng)` draws lists of indices."""

    def make(rng):
        table = rng.normal(size=(rows, 3))
        singles = [int(i) for i in rng.integers(0, rows, 2)]
        return table, [[int(i) for i in batch] for batch in batches(rng)], singles

    return Case(label, make)


def _moved(rng, rows, size):
    """Draw `size` different numbers below `rows` whose order differs from its own inverse, the last one smallest."""
    drawn = np.sort(rng.choice(rows, size, replace=False))
    return np.roll(drawn, -1)


BATCHED_FETCH = Exercise(
    id="loading/batched-fetch",
    kind="budget",
    task="Write a dataset over a table whose `read(numbers)` costs a round trip however many rows it returns, and "
    "wants increasing numbers without repeats. `__getitem__` gives one row; a batch must take one call and read no row "
    "it does not need.",
    names=("Rows",),
    setup="import numpy as np",
    reference=Rows,
    cases=(
        _table_case("in order", 20, lambda rng: [range(4), range(4, 8)]),
        _table_case("shuffled", 40, lambda rng: [_moved(rng, 40, 8), _moved(rng, 40, 8)]),
        _table_case("drawn with repeats", 12, lambda rng: [[7, 2, 7, 9, 2], [int(rng.integers(12))] * 3]),
        _table_case("a last batch of one", 9, lambda rng: [_moved(rng, 9, 8), [int(rng.integers(9))]]),
    ),
    probe=Probe("through", {"driver": "loading:batched_fetch"}),
    misconceptions=(
        Misconception(
            id="one-by-one",
            specimen=_OneByOne,
            says="Right rows, one call for each. The loader asks for a whole batch at once if the dataset lets it: by "
            "a method beside `__getitem__`.",
            next="torch looks for `__getitems__(self, indices)`, which returns a list of samples.",
        ),
        Misconception(
            id="loops-inside",
            specimen=_OneByOneInside,
            says="The loader asks once, but your `__getitems__` asks the table once per row: the calls are still as "
            "many as the samples.",
            next="`read` takes a list.",
        ),
        Misconception(
            id="passes-them-through",
            specimen=_AsTheyCome,
            says="A shuffled batch does not increase, and the table refuses it, as h5py would.",
            next="Sort for the table, then bring the rows back into the order asked for.",
        ),
        Misconception(
            id="stays-sorted",
            specimen=_SortedForGood,
            says="You return the rows in the table's order, each once. Whoever shuffled wanted another order, and a "
            "sampler may draw a row twice.",
            next="Sample k of the result belongs to `indices[k]`.",
        ),
        Misconception(
            id="sorts-and-stops",
            specimen=_SortsAndStops,
            says="You sort for the table and hand the rows out as the table gave them. Whoever shuffled wanted another "
            "order; and sorting leaves repeats in, which the table refuses.",
            next="Sample k of the result belongs to `indices[k]`.",
        ),
        Misconception(
            id="sorts-the-wrong-way-back",
            specimen=_SortedOrderTaken,
            says="`argsort` says where each sorted row comes from; to bring rows back you need where each has gone, "
            "its inverse.",
            next="Try three indices by hand: [5, 9, 2].",
        ),
        Misconception(
            id="nothing-comes-twice",
            specimen=_NoRepeats,
            says="Order is right; but a sampler that draws with replacement asks for a row twice in one batch, and the "
            "table refuses repeats.",
            next="`np.unique` can tell where each index went.",
        ),
        Misconception(
            id="first-to-last",
            specimen=_FromFirstToLast,
            says="One call, but it reads everything between the smallest and the largest number: in a shuffled batch "
            "nearly the whole table.",
            next="Name the rows you need, not a range that holds them.",
        ),
        Misconception(
            id="whole-table-first",
            specimen=_AllAtOnce,
            says="You read the whole table when the dataset is made. It fits here; the point of such a table is that "
            "it does not.",
            next="Read what a batch needs when it is asked for.",
        ),
        Misconception(
            id="whole-table-each-time",
            specimen=_EveryBatchAll,
            says="You read the whole table to fetch one batch of it.",
            next="Give `read` the batch's numbers.",
        ),
        Misconception(
            id="stacks-already",
            specimen=_StackedAlready,
            says="You return one array. Collating is still to come: the loader wants a list with one sample per index.",
            next="Same rows, as a list.",
        ),
        Misconception(
            id="one-row-keeps-its-axis",
            specimen=_KeepsTheAxis,
            says="`read` returns rows, (rows, columns), also for one number: your single sample has an axis too many.",
            next="Compare the shape of `dataset[3]` with that of a row.",
        ),
    ),
    hints=(
        "`__getitems__(self, indices)` returns a list: sample k belongs to `indices[k]`.",
        "`np.unique(indices, return_inverse=True)` gives increasing numbers, and for each index where it went.",
    ),
    core=True,
    level=3,
    minutes=10,
    source=_FETCH,
)
