"""Right answers to lesson 12 that are written differently from the course's own."""

import numpy as np

# -- step-time


def step_by_lanes(load_ms, compute_ms, workers, receive_ms):
    if not workers:
        return load_ms + compute_ms
    arrives_every = load_ms / workers
    takes = compute_ms + receive_ms
    return arrives_every if arrives_every > takes else takes


def step_by_playing(load_ms, compute_ms, workers, receive_ms):
    """Follow the clock batch by batch until it has settled."""
    if workers == 0:
        return compute_ms + load_ms
    done, now, ends, received = [], 0.0, [], []
    for k in range(400 * workers):
        asked = received[k - 2 * workers] if k >= 2 * workers else 0.0
        done.append(max(asked, done[k - workers] if k >= workers else 0.0) + load_ms)
        received.append(max(now, done[k]) + receive_ms)
        now = received[k] + compute_ms
        ends.append(now)
    return (ends[-1] - ends[200 * workers - 1]) / (200 * workers)


# -- bytes-in-flight


def flight_by_one_batch(shape, dtype, workers, prefetch_factor, batches):
    one = np.empty(shape, dtype)
    ahead = workers * (prefetch_factor or 2)
    return one.nbytes * min(ahead, batches)


def flight_by_loop(shape, dtype, workers, prefetch_factor, batches):
    size = np.dtype(dtype).itemsize
    for n in shape:
        size *= n
    asked = 0
    for _ in range(2 if prefetch_factor is None else prefetch_factor):
        for _ in range(workers):
            if asked < batches:
                asked += 1
    return asked * size


# -- batched-fetch


class RowsByDictionary:
    def __init__(self, table):
        self.table = table

    def __len__(self):
        return self.table.shape[0]

    def __getitem__(self, index):
        (row,) = self.__getitems__([index])
        return row

    def __getitems__(self, indices):
        wanted = sorted(set(indices))
        row_of = dict(zip(wanted, self.table.read(wanted)))
        return [row_of[i].copy() for i in indices]


class RowsBySearch:
    def __init__(self, table):
        self.table, self.count = table, table.shape[0]

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return self.table.read(np.array([index]))[0]

    def __getitems__(self, indices):
        wanted = np.unique(indices)
        return list(self.table.read(wanted)[np.searchsorted(wanted, indices)])


# -- thin-wire


class WireInPlace:
    def __init__(self, mean, std):
        self.mean, self.std = mean, std

    def pack(self, photos):
        return [photo.tobytes() for photo in photos], photos[0].shape

    def unpack(self, packed):
        pixels, shape = packed
        batch = np.frombuffer(b"".join(pixels), np.uint8).reshape(-1, *shape).astype(np.float32)
        batch /= 255
        batch -= self.mean
        batch /= self.std
        return np.ascontiguousarray(np.moveaxis(batch, -1, 1))


class WireByTable:
    """A byte has 256 values: normalise those, then look up."""

    def __init__(self, mean, std):
        values = np.arange(256, dtype=np.float32)[:, None] / 255  # (value, 1)
        self.table = ((values - mean) / std).T  # (channel, value)

    def pack(self, photos):
        return np.stack([photo.transpose(2, 0, 1) for photo in photos])

    def unpack(self, packed):
        return np.stack([self.table[c][packed[:, c]] for c in range(packed.shape[1])], axis=1)


WIRE_OF_TENSORS = """
import torch


class Wire:
    def __init__(self, mean, std):
        self.mean, self.std = torch.as_tensor(mean)[:, None, None], torch.as_tensor(std)[:, None, None]

    def pack(self, photos):
        return torch.stack([torch.from_numpy(photo) for photo in photos])

    def unpack(self, packed):
        return packed.permute(0, 3, 1, 2).float().div(255).sub(self.mean).div(self.std)
"""


# -- spawn-ready


class ReadingsByReduce:
    def __init__(self, file, factor):
        self.file, self.factor, self.handle = file, factor, None

    def __len__(self):
        return self.file.rows

    def __getitem__(self, index):
        self.handle = self.handle or self.file.open()
        return self.handle.read(index) * self.factor

    def __reduce__(self):
        return type(self), (self.file, self.factor)


READINGS_WITH_PARTIAL = """
import functools
import operator


class Readings:
    def __init__(self, file, factor):
        self.file = file
        self.scale = functools.partial(operator.mul, factor)

    @functools.cached_property
    def handle(self):
        return self.file.open()

    def __len__(self):
        return self.file.rows

    def __getitem__(self, index):
        return self.scale(self.handle.read(index))

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if name != "handle"}
"""

READINGS_WITH_FUNCTION = """
def scaled(row, factor):
    return row * factor


class Readings:
    def __init__(self, file, factor):
        self.file, self.factor, self.scale, self.handle = file, factor, scaled, None

    def __len__(self):
        return self.file.rows

    def __getitem__(self, index):
        if self.handle is None:
            self.handle = self.file.open()
        return self.scale(self.handle.read(index), self.factor)

    def __getstate__(self):
        state = dict(self.__dict__)
        state["handle"] = None
        return state
"""

READINGS_BY_PROCESS = """
import os


class Readings:
    def __init__(self, file, factor):
        self.file, self.factor, self.handles = file, factor, {}

    def __len__(self):
        return self.file.rows

    def __getitem__(self, index):
        if os.getpid() not in self.handles:
            self.handles[os.getpid()] = self.file.open()
        return self.handles[os.getpid()].read(index) * self.factor

    def __getstate__(self):
        return self.__dict__ | {"handles": {}}
"""


class ReadingsByAPart:
    """What must not cross lies in a part that knows how to cross."""

    class Late:
        def __init__(self, file):
            self.file, self.handle = file, None

        def read(self, index):
            self.handle = self.handle or self.file.open()
            return self.handle.read(index)

        def __reduce__(self):
            return type(self), (self.file,)

    def __init__(self, file, factor):
        self.late, self.rows, self.factor = self.Late(file), file.rows, factor

    def __len__(self):
        return self.rows

    def __getitem__(self, index):
        return self.late.read(index) * self.factor


# -- stale-epoch


class EpochInOneNumber:
    def __init__(self, rows, seed):
        self.rows, self.seed, self.epoch = rows, seed, 0

    def requests(self):
        start = self.epoch * len(self.rows)
        yield from range(start, start + len(self.rows))

    def __getitem__(self, request):
        epoch, index = divmod(request, len(self.rows))
        return self.rows[index] + np.random.default_rng([self.seed, epoch, index]).normal()


class SeedsFromMain:
    """Main sends the seed sequence's entropy with each index."""

    def __init__(self, rows, seed):
        self.rows, self.seed, self.epoch = rows, seed, 0

    def requests(self):
        for index in range(len(self.rows)):
            yield {"index": index, "seed": [self.seed, self.epoch, index]}

    def __getitem__(self, request):
        noise = np.random.Generator(np.random.PCG64(request["seed"])).normal()
        return self.rows[request["index"]] + noise


SHARED_NUMBER = """
import multiprocessing


class Jittered:
    def __init__(self, rows, seed):
        self.rows, self.seed, self.shared = rows, seed, multiprocessing.Value("q", 0)

    @property
    def epoch(self):
        return self.shared.value

    @epoch.setter
    def epoch(self, epoch):
        self.shared.value = epoch

    def requests(self):
        return range(len(self.rows))

    def __getitem__(self, index):
        return self.rows[index] + np.random.default_rng([self.seed, self.epoch, index]).normal()
"""


# -- copy-on-write


class NamesInByteArrays:
    def __init__(self, names):
        import array

        self.ends, self.text = array.array("q", [0]), bytearray()
        for name in names:
            self.text += name.encode("utf-8")
            self.ends.append(len(self.text))

    def __len__(self):
        return len(self.ends) - 1

    def __getitem__(self, index):
        return bytes(self.text[self.ends[index] : self.ends[index + 1]]).decode("utf-8")


class NamesInNumPy:
    def __init__(self, names):
        encoded = [np.frombuffer(name.encode(), np.uint8) for name in names]
        self.starts = np.cumsum([0] + [len(one) for one in encoded[:-1]])
        self.lengths = np.array([len(one) for one in encoded], np.int32)
        self.text = np.concatenate(encoded)

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, index):
        start = self.starts[index]
        return self.text[start : start + self.lengths[index]].tobytes().decode()


class NamesInStringDType:
    """NumPy's own texts of any length: a heap of its own, no object for each."""

    def __init__(self, names):
        self.names = np.array(names, dtype=np.dtypes.StringDType())

    def __len__(self):
        return len(self.names)

    def __getitem__(self, index):
        return str(self.names[index])


# -- tune


def tune_from_the_top(bench, batch_bytes, memory_bytes, most_workers):
    def deepest(workers):
        fitting = [p for p in (8, 4, 2, 1) if workers * p * batch_bytes <= memory_bytes]
        return fitting[0] if fitting else None

    candidates = [w for w in range(most_workers, 0, -1) if deepest(w)]
    took = {w: bench(w, deepest(w)) for w in candidates}
    took[0] = bench(0, None)
    limit = min(took.values()) * 1.05
    workers = min(w for w, ms in took.items() if ms <= limit)
    prefetch = deepest(workers) if workers else None
    while prefetch and prefetch > 1 and bench(workers, prefetch // 2) <= limit:
        prefetch //= 2
    return workers, prefetch


def tune_with_memory_of_runs(bench, batch_bytes, memory_bytes, most_workers):
    seen = {}

    def ms(workers, prefetch):
        if (workers, prefetch) not in seen:
            seen[workers, prefetch] = bench(workers, prefetch)
        return seen[workers, prefetch]

    settings = [(0, None)]
    for workers in range(1, most_workers + 1):
        settings += [(workers, p) for p in (1, 2, 4, 8) if workers * p * batch_bytes <= memory_bytes]
    deepest = {workers: prefetch for workers, prefetch in settings}
    best = min(ms(*pair) for pair in deepest.items())
    for workers, prefetch in settings:
        if ms(workers, deepest[workers]) <= 1.05 * best and ms(workers, prefetch) <= 1.05 * best:
            return workers, prefetch


ANSWERS = {
    "loading/step-time": [step_by_lanes, step_by_playing],
    "loading/bytes-in-flight": [flight_by_one_batch, flight_by_loop],
    "loading/batched-fetch": [RowsByDictionary, RowsBySearch],
    "loading/thin-wire": [WireInPlace, WireByTable, WIRE_OF_TENSORS],
    "loading/spawn-ready": [
        ReadingsByReduce,
        READINGS_WITH_PARTIAL,
        READINGS_WITH_FUNCTION,
        READINGS_BY_PROCESS,
        ReadingsByAPart,
    ],
    "loading/stale-epoch": [EpochInOneNumber, SeedsFromMain, SHARED_NUMBER],
    "loading/copy-on-write": [NamesInByteArrays, NamesInNumPy, NamesInStringDType],
    "loading/tune": [tune_from_the_top, tune_with_memory_of_runs],
}

# (exercise id, the change): why an answer with it is still right
EQUIVALENT_MUTANTS = {
    ("loading/stale-epoch", "Constant: 0"): "main sets the epoch before each pass",
    ("loading/tune", "Compare: took[w] <= enough"): "no setting takes 1.05 times the best to the last bit",
    ("loading/tune", "Compare: bench(workers, prefetch) <= enough"): "as above",
}
