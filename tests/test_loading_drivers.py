"""What drives the answers of lesson 12: tables that count, workers that are copies, objects that are reached."""

import pickle
from types import SimpleNamespace

import numpy as np
import pytest

from labsupport.answering import load
from labsupport.course import Answer
from labsupport.probing.drivers import loading as drivers
from labsupport.probing.drivers.loading_reach import reachable
from labsupport.probing.drivers.loading_workers import Worker, crossing_problem, send

ROWS = np.arange(12.0).reshape(6, 2)


def answer(source, name):
    return SimpleNamespace(**{name: load(Answer(source, (name,)))[name]})


# -- workers


EPOCHS = """
import numpy as np

EPOCH = {"now": 0}


class Jittered:
    shared = 0

    def __init__(self, rows, seed):
        self.rows, self.seed = rows, seed

    @property
    def epoch(self):
        return WHERE

    @epoch.setter
    def epoch(self, epoch):
        global COUNT
        EPOCH["now"] = Jittered.shared = COUNT = epoch

    def requests(self):
        return range(len(self.rows))

    def __getitem__(self, index):
        return self.rows[index] + WHERE
"""


@pytest.mark.parametrize("where", ['EPOCH["now"]', "Jittered.shared", "self.shared", "globals().get('COUNT', 0)"])
def test_neither_class_attributes_nor_globals_reach_a_worker(where):
    source = EPOCHS.replace("WHERE", where)
    if "COUNT" in where:
        source = source.replace(where, "COUNT").replace("EPOCH = {", "COUNT = 0\nEPOCH = {", 1)
    given = drivers.persistent_epochs(answer(source, "Jittered"), np.zeros(4), 1, [3, 4], 2)
    assert given["run 0, epoch 3"] == [3.0] * 4  # copied when the workers were made
    assert given["run 1, epoch 4"] == [3.0] * 4


SHARED = """
import multiprocessing


class Jittered:
    def __init__(self, rows, seed):
        self.rows, self.told = rows, MAKE

    @property
    def epoch(self):
        return self.told.value

    @epoch.setter
    def epoch(self, epoch):
        self.told.value = epoch

    def requests(self):
        return range(len(self.rows))

    def __getitem__(self, index):
        return self.rows[index] + self.told.value
"""


@pytest.mark.parametrize("make", ["multiprocessing.Value('q', 0)", "multiprocessing.sharedctypes.RawValue('q', 0)"])
def test_shared_memory_does_reach_a_worker(make):
    source = "import multiprocessing.sharedctypes\n" + SHARED.replace("MAKE", make)
    given = drivers.persistent_epochs(answer(source, "Jittered"), np.zeros(4), 1, [3, 4], 2)
    assert given["run 1, epoch 4"] == [4.0] * 4


def test_a_shared_tensor_reaches_a_worker_and_another_does_not():
    import torch

    shared, other = torch.zeros(1).share_memory_(), torch.zeros(1)
    arrived = send([shared, other])
    shared += 1
    other += 1
    assert [tensor.item() for tensor in arrived] == [1, 0]


def test_main_keeps_its_own_state_while_workers_run():
    source = EPOCHS.replace("WHERE", "self.shared")
    kind = answer(source, "Jittered").Jittered
    dataset = kind(np.zeros(2), 1)
    worker = Worker(dataset)
    dataset.epoch = 7
    assert worker.fetch([0, 1]) == [0.0, 0.0]
    assert kind.shared == 7


def test_a_worker_keeps_what_it_counts():
    source = """
class Jittered:
    def __init__(self):
        self.given = 0

    def __getitem__(self, index):
        self.given += 1
        return self.given
"""
    dataset = answer(source, "Jittered").Jittered()
    worker = Worker(dataset)
    assert worker.fetch([0, 0]) == [1, 2] and worker.fetch([0]) == [3]
    assert dataset.given == 0


def test_requests_and_datasets_cross_by_value():
    kept = {"list": [1, 2]}
    assert send(kept) == kept and send(kept) is not kept


def test_names_of_an_answer_cross_and_lambdas_do_not():
    names = load(Answer("def scale(x):\n    return 2 * x\n\n\nclass A:\n    f = staticmethod(scale)\n", ("A",)))
    assert send(names["scale"]) is names["scale"]
    assert isinstance(send(names["A"]()), names["A"])
    for stuck in (lambda x: x, _made_inside()):
        with pytest.raises((pickle.PicklingError, AttributeError)) as raised:
            send(stuck)
        assert crossing_problem(raised.value).startswith("stopped by a ")


def _made_inside():
    def inside(x):
        return x

    return inside


def test_the_reasons_why_something_does_not_cross_are_told_apart():
    crossing = drivers.Crossing()
    handle = drivers.OpenOnce(ROWS, crossing).open()
    with pytest.raises(TypeError) as raised:
        send([handle])
    assert crossing_problem(raised.value) == "stopped by an open file"
    assert crossing.opens == {"main": 1}
    assert crossing_problem(TypeError("cannot pickle 'generator' object")).startswith("stopped by TypeError")


def test_files_cross_by_name_and_are_forgotten_afterwards():
    with drivers.Crossing() as crossing:
        file = drivers.OpenOnce(ROWS, crossing)
        assert send(file) is file
        names = list(crossing._mine)
        assert names
    assert not any(name in drivers.Crossing._files for name in names)


ONE_HANDLE = """
HANDLE = None


class Readings:
    handle = None

    def __init__(self, file, factor):
        self.file, self.factor = file, factor

    def __len__(self):
        return self.file.rows

    def __getitem__(self, index):
        WHERE
        return handle.read(index) * self.factor
"""

IN_THE_CLASS = "Readings.handle = handle = Readings.handle or self.file.open()"
IN_A_GLOBAL = "global HANDLE; HANDLE = handle = HANDLE or self.file.open()"


@pytest.mark.parametrize("where", [IN_THE_CLASS, IN_A_GLOBAL])
def test_each_process_has_its_own_classes_and_globals_and_a_case_leaves_none(where):
    one = answer(ONE_HANDLE.replace("WHERE", where), "Readings")
    for rows in (ROWS, ROWS + 1):
        seen = drivers.spawned_reads(one, rows, 2.0, True, 2)
        assert set(seen.facts.values()) <= {"within 0", "within 1"}
        read = [row.tolist() for row in seen.value["what was read"].values()]
        assert read == (2 * rows).tolist() and seen.value["item 0 in main"][0].tolist() == (2 * rows[0]).tolist()
    seen = drivers.spawned_reads(one, ROWS, 2.0, True, 1, beside=True)
    assert seen.value["item 0 in main"][0].tolist() == (2 * ROWS[-1]).tolist()  # from the other file


def test_a_worker_that_opens_nothing_is_told_from_one_that_opens_once():
    source = """
class Readings:
    def __init__(self, file, factor):
        with file.open() as handle:
            self.rows = [handle.read(i) * factor for i in range(file.rows)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]
"""
    seen = drivers.spawned_reads(answer(source, "Readings"), ROWS, 2.0, True, 1)
    assert seen.facts["files opened by one worker"] == "none"


def test_a_closed_file_is_not_read():
    handle = drivers.OpenOnce(ROWS, drivers.Crossing()).open()
    handle.close()
    with pytest.raises(ValueError, match="closed"):
        handle.read(0)


# -- samples and batches


def test_a_tensor_is_as_good_as_an_array():
    import torch

    one = torch.arange(3.0)
    assert drivers._as_array(one).tolist() == [0, 1, 2]
    assert drivers._as_array(one.bfloat16()).dtype is torch.bfloat16  # NumPy has none: told as it is
    assert drivers._as_array("text") == "text"


def test_texts_that_are_kept_once_read_count():
    source = """
class Names:
    def __init__(self, names):
        self.names, self.known = "".join(names), {}

    def __len__(self):
        return len(self.names)

    def __getitem__(self, index):
        return self.known.setdefault(index, self.names[index] * 2)
"""
    names = [chr(65 + i % 26) for i in range(300)]
    seen = drivers.names_in_workers(answer(source, "Names"), names, [0, 299])
    assert seen.facts["Python objects a worker touches"] == "over 60"


# -- tables


def test_a_table_counts_calls_and_rows_and_refuses_what_h5py_refuses():
    table = drivers.CountingTable(ROWS)
    assert table.read([1, 4]).tolist() == ROWS[[1, 4]].tolist()
    assert table.read([]).shape == (0, 2)
    assert (table.calls, table.rows_read) == (2, 2)
    for wrong, error in (
        ([4, 1], TypeError),
        ([1, 1], TypeError),
        (3, TypeError),
        ([0.5], TypeError),
        ([6], IndexError),
    ):
        with pytest.raises(error):
            table.read(wrong)
    assert table.calls == 2


# -- reachable


@pytest.mark.parametrize(
    ("value", "objects", "words"),
    [
        (np.arange(1000), 1, ""),
        ([str(i) for i in range(500)], 501, "str in a list"),
        (tuple(float(i) for i in range(500)), 501, "float in a tuple"),
        (np.array([str(i) for i in range(500)], dtype=object), 501, "str in an array"),
        (np.array(["a", "bb"] * 500, dtype=np.dtypes.StringDType()), 1, ""),
        (np.arange(1000)[::2], 2, "ndarray in an array"),
        (["same"] * 500, 2, "str in a list"),
    ],
)
def test_objects_are_counted_once_and_named(value, objects, words):
    assert reachable(value)[::2] == (objects, words)


def test_code_and_classes_are_not_the_datasets_own():
    class Holder:
        def __init__(self):
            self.function, self.kind, self.none = len, Holder, None

    assert reachable(Holder())[0] <= 5


# -- the simulated device


def test_a_bench_says_what_torch_says():
    machine = {"load_ms": 80.0, "slow_ms": 0.0, "compute_ms": 20.0, "receive_ms": 0.0, "channels": 0}
    bench = drivers.Bench(machine, 8)
    assert [bench(w, 2 if w else None) for w in (0, 1, 2, 4, 8)] == [100, 80, 40, 20, 20]
    assert bench.runs == 5
    for wrong in ((0, 2), (-1, 2), (1.5, 2), (1, 3), (1, 0), (9, 1)):
        with pytest.raises(ValueError):
            bench(*wrong)
    assert bench.runs == 5


@pytest.mark.parametrize("given", ["None", "4", "(1, 2, 3)", "'ab c'"])
def test_what_is_no_pair_of_settings_is_told_as_such(given):
    machine = {"load_ms": 80.0, "slow_ms": 0.0, "compute_ms": 20.0, "receive_ms": 0.0, "channels": 0}
    source = f"def tune(bench, batch_bytes, memory_bytes, most_workers):\n    return {given}\n"
    with pytest.raises(drivers.Unusable, match="pair"):
        drivers.tuned(answer(source, "tune"), machine, 1, 10, 4)


# -- what stands elsewhere is no way round


def test_photos_that_stay_in_a_class_do_not_reach_main():
    source = (
        "import numpy as np\nclass Wire:\n    kept = []\n"
        "    def __init__(self, mean, std): pass\n"
        "    def pack(self, photos): Wire.kept[:] = photos\n"
        "    def unpack(self, packed): return len(Wire.kept)"
    )
    photos = [np.zeros((2, 2, 3), np.uint8)] * 3
    assert drivers.thin_wire(answer(source, "Wire"), photos, np.zeros(3), np.ones(3)).value == 0


def test_rows_that_are_not_read_are_told():
    source = (
        "class Rows:\n    def __init__(self, table): self.rows = table._rows\n"
        "    def __len__(self): return len(self.rows)\n"
        "    def __getitem__(self, i): return self.rows[i]\n"
        "    def __getitems__(self, which): return self.rows[which]"
    )
    seen = drivers.batched_fetch(answer(source, "Rows"), ROWS, [[0, 1], [5]], [3, -1])
    assert seen.facts["rows it gives without reading them"] == "over 0"


KEPT = {
    "in a global": ("kept = {}\n", "", "kept[0] = names", "kept[0][i]"),
    "in a class attribute": ("", "kept = {}", "Names.kept[0] = names", "Names.kept[0][i]"),
    "in a default": ("", "", "self.__getitem__.__func__.__defaults__[0][0] = names", "own[0][i]"),
    "in a helper's closure": (
        "def make():\n    kept = {}\n    def use(names=None):\n        kept.update({0: names} if names else {})\n"
        "        return kept[0]\n    return use\nuse = make()\n",
        "",
        "use(names)",
        "use()[i]",
    ),
}


@pytest.mark.parametrize("place", KEPT)
def test_texts_outside_the_dataset_are_counted(place):
    before, attribute, keeps, gives = KEPT[place]
    source = (
        f"{before}class Names:\n    {attribute or 'pass'}\n"
        f"    def __init__(self, names):\n        self.n = len(names)\n        {keeps}\n"
        "    def __len__(self): return self.n\n"
        f"    def __getitem__(self, i, own={{}}): return {gives}"
    )
    names = [f"name number {i}" for i in range(300)]
    seen = drivers.names_in_workers(answer(source, "Names"), names, [0, 299])
    assert seen.facts["Python objects a worker touches"] == "over 60"
