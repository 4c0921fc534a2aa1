# %% [markdown]
# # Keep the device fed
# Find out who waits for whom in a training loop, and choose loader settings by evidence instead of by rumour.
#
# **60 minutes (core), any laptop, no GPU.** What is marked (more) adds about 30 minutes. You will be able to predict a
# step's time, read a recorded run, fetch a batch in one call, and write datasets that survive the way to a worker.
# You need: Dataset and DataLoader, classes. Not here: samplers and splits (lesson 11), file formats (lesson 13).

# %%
import numpy as np
from torch.utils.data import DataLoader

from labsupport import lesson, loading
from labsupport.loaderbench import record

lab = lesson("loading")
start = loading.start_method()  # said out loud, so that no system chooses for us

# %% [markdown]
# ## Part 1. Who waits
# ### The obvious way
# 512 overlapping crops of one photograph (good for throughput, no independent samples), stored as PNG on a disk that
# answers after 2 ms: that latency is declared and slept, the decoding is real. A step of 20 ms stands for an
# accelerator at work. `record` runs an ordinary DataLoader and notes what each process did when.

# %%
photos = loading.Photos(count=512, side=128, read_ms=2)
step = loading.busy_step(20)  # milliseconds
alone = record(photos, step=step, batch_size=32, steps=12, num_workers=0)
print(f"{alone.wait_share:.0%} of {alone.seconds:.1f} s went by inside next(loader), while the accelerator had no work")

# %% [markdown]
# More than half of the time an expensive device waits for a cheap one. The usual advice is "more workers". How many,
# and what does each buy?
#
# ### Predict: step time (core)
# Loading a batch takes 80 ms, computing on it 20 ms. How many milliseconds pass from one step to the next, once it runs
# steadily, with `num_workers` 0, 1, 2, 4 and 8? There are cores enough. The cell after the check is a drill.

# %%
# exercise: loading/predict-step-time
with_0 = ...
with_1 = ...
with_2 = ...
with_4 = ...
with_8 = ...

# %%
lab.check("predict-step-time")

# %%
lab.drill("predict-step-time", ...)

# %%
# The same numbers on this machine: 32 items of 2.5 ms are 80 ms, the step takes 20.
from itertools import pairwise

paced = loading.Paced(32 * 14, item_ms=2.5)
seen = {}
for workers in (0, 1, 2):
    context = start if workers else None
    seen[workers] = record(paced, step=step, batch_size=32, num_workers=workers, multiprocessing_context=context)
    starts = [event.start_s for event in seen[workers].events if event.kind == "compute"]
    gaps = [1000 * (b - a) for a, b in pairwise(starts[4:])]  # the first few fill the queue
    print(f"{workers} workers: {sum(gaps) / len(gaps):4.0f} ms per step, waiting {seen[workers].wait_share:.0%}")

# %% [markdown]
# Sleeping takes a little longer than asked for, and other programs get in between; the order of things is plain.
#
# ### See
# One row per process, time to the right: above without workers, below with two. Look at main's row first. Where it
# waits, follow a vertical line down to the workers.

# %%
lab.show("timeline", seen[0], seen[2])

# %% [markdown]
# ### The idea
# A loader is a pipeline. Each of w workers loads a whole batch by itself, so one batch arrives every load / w
# milliseconds. Main takes it and computes, one batch after the other. The slower of the two sets the pace; only
# without workers do the times add up.
#
# Taking a batch is not free either: main reads it from a pipe and unpacks it. Call that *receiving*.
#
# ### Your turn: `step_ms` (core)
# - **in**: `load_ms`, one batch in one process; `compute_ms`; `workers`; `receive_ms`, what main spends to take a batch
#   from a worker
# - **out**: milliseconds from one step to the next, once it runs steadily
# - **done when** it is right for 0 workers, for slow loading, for a slow model, and for tiny batches


# %%
# exercise: loading/step-time
def step_ms(load_ms, compute_ms, workers, receive_ms):
    """Return the milliseconds from one step to the next, once it runs steadily."""
    raise NotImplementedError


# %%
lab.check("step-time")


# %%
# Three numbers tell who waits, on any machine: loading alone, the step alone, both.
def per_step(run):
    return 1000 * run.seconds / run.counts["batches"]


loads = per_step(record(paced, batch_size=32, num_workers=0))
together = per_step(seen[0]), per_step(seen[2])
print(f"loading alone {loads:.0f} ms, the step alone 20 ms")
print(f"both: {together[0]:.0f} ms without workers, {together[1]:.0f} ms with two, their start included")

# %% [markdown]
# ### Find the bottleneck (core)
# Four runs, recorded with two workers. Each lost its time to something else: `"loading"`, when the workers are busy all
# the time and still too slow; the `"model"`; the `"start"` of workers; the `"order"`, when one slow batch holds up
# finished ones behind it, since batches are handed out in order; `"transfer"` to the device. Trace a stands above b,
# and c above d.

# %%
lab.show("timeline", loading.trace("a"), loading.trace("b"))

# %%
lab.show("timeline", loading.trace("c"), loading.trace("d"))

# %%
# exercise: loading/find-bottleneck
trace_a = ...
trace_b = ...
trace_c = ...
trace_d = ...

# %%
lab.check("find-bottleneck")

# %%
# A source like that of trace d, loaded in three ways.
late = loading.Paced(120, item_ms=2, slow_ms=120, every=16)
for change in ({}, {"prefetch_factor": 8}, {"in_order": False}):
    how = {"num_workers": 2, "batch_size": 4, "multiprocessing_context": start}
    run = record(late, step=loading.busy_step(6), **how, **change)
    print(f"{change!s:24} {run.seconds:.2f} s, waiting {run.wait_share:.0%}")

# %% [markdown]
# Four causes, four cures. Slow loading: more workers, or cheaper items. Slow model: leave the loader alone. Starts:
# workers that persist. Order: `in_order=False` hands out what is finished, so batches come in another order each time;
# more prefetch bridges slow moments that are rarer. The device is idle in three of the four, so how busy it is would
# not have told you which.
#
# *A good place to rest. When you come back, run the setup cell.*
#
# ## Part 2. What a worker costs
# ### Nothing to load
# 20,000 numbers in memory, batches of 100. Will two workers help?

# %%
tiny = loading.Tiny(20_000)
took = {}
for n in (0, 2):
    took[n] = record(tiny, batch_size=100, num_workers=n, multiprocessing_context=start if n else None)
    print(f"{n} workers: {took[n].seconds:.2f} s for {took[n].counts['batches']} batches")
print(f"with workers it takes {took[2].seconds / took[0].seconds:.0f} times as long")

# %% [markdown]
# Receiving is all that is left, and it costs more than loading. In your formula: `receive_ms` is larger than `load_ms`.
#
# ### Starting
# A worker is a process. *fork* copies main as it is, within milliseconds, and is not safe once main has threads.
# *spawn* starts a new Python, which imports everything again. *forkserver* forks from a helper that was started early.
# Python's default: spawn on macOS and Windows, on Linux fork until 3.13 and forkserver from 3.14. This lesson's cells
# fork on Linux, to save your time, and spawn elsewhere.

# %%
import multiprocessing

for method in multiprocessing.get_all_start_methods():
    run = record(loading.Tiny(8), batch_size=8, num_workers=1, multiprocessing_context=method)
    print(f"{method:10} first batch after {run.epochs[0].first_batch_s:.2f} s")

# %%
for persistent in (False, True):
    how = {"num_workers": 2, "persistent_workers": persistent, "multiprocessing_context": start}
    run = record(loading.Tiny(640), epochs=3, batch_size=64, **how)
    waits = ", ".join(f"{1000 * (e.first_batch_s - e.start_s):.0f}" for e in run.epochs)
    pids = len({pid for epoch in run.epochs for pid in epoch.pids})
    print(f"persistent_workers={persistent}: {pids} processes; ms to the first batch of each epoch: {waits}")

# %% [markdown]
# Without `persistent_workers` every epoch begins with new processes. What persists saves starts, imports and files that
# were opened; the dataset's `__init__` runs once in any case, in main.
#
# ### Who loads what
# Each item below says which process made it. Guess before you run it: does a batch come from one worker or from
# several, and how many threads may torch use there?

# %%
for batch in DataLoader(loading.Who(16), batch_size=4, num_workers=2, multiprocessing_context=start):
    print("workers", batch["worker"].tolist(), "threads", batch["threads"].tolist())

# %% [markdown]
# A whole batch comes from one worker, and the workers take turns. torch allows itself one thread in each, so that
# workers do not fight for cores. A worker that calls a library with threads of its own is not stopped from it.
#
# ### In flight
# A loader asks ahead. A sampler in main can count how far.

# %%
sampler = loading.CountingSampler(100)
options = {"num_workers": 2, "prefetch_factor": 4, "multiprocessing_context": start}
batches = iter(DataLoader(loading.Tiny(100), sampler=sampler, **options))
print(sampler.asked, "batches asked for before the first is handed out")
next(batches), next(batches), next(batches)
print(sampler.asked, "after three were taken")
del batches  # ends its workers

# %% [markdown]
# `num_workers` times `prefetch_factor` at first, then one more for each that is taken. All of them may lie in shared
# memory at the same time, and a container often has 64 MB of that (`docker run --help` on `--shm-size`,
# https://docs.docker.com/reference/cli/docker/container/run/, read 2026-11).
#
# ### Your turn: `bytes_in_flight` (more)
# - **in**: `shape` and `dtype` of one batch; `workers`; `prefetch_factor`, None for torch's default; `batches` in an
#   epoch
# - **out**: bytes of the batches that are asked for before the first is handed out
# - **done when** no workers give 0, None counts as 2, and an epoch is never asked for more than it has


# %%
# exercise: loading/bytes-in-flight
def bytes_in_flight(shape, dtype, workers, prefetch_factor, batches):
    """Return the bytes of the batches that are asked for before the first one is handed out."""
    raise NotImplementedError


# %%
lab.check("bytes-in-flight")

# %% [markdown]
# ## Part 3. Less work, fewer calls, fewer bytes
# ### One call for a batch
# Before you add workers, look at the work. Days out of a meteorological year, in memory and on another machine, where
# every call takes a trip of two milliseconds: first fetched one by one, then a batch at a time.

# %%
for kind in (loading.Hours, loading.RemoteHours):
    for at_once in (False, True):
        run = record(kind(at_once), batch_size=64, steps=8)
        spent = 1000 * run.totals["fetch"] / run.counts["batches"]
        print(f"{kind.__name__:11} at once {at_once!s:5}  {run.counts['calls']:3} calls, {spent:6.1f} ms per batch")

# %% [markdown]
# If a dataset has `__getitems__`, torch passes it all indices of a batch and expects a list of samples. In memory there
# is nothing to gain. Where each call is a trip to another machine, or opens a compressed chunk, it decides everything.
#
# ### Your turn: `Rows` (core)
# A table on another machine: `table.shape` is (rows, columns), `table.read(numbers)` returns those rows in one round
# trip. It wants increasing numbers without repeats; samplers shuffle, and some draw with repeats.
#
# - `Rows(table)` reads nothing yet; `len` and `rows[i]`, (columns,), as usual
# - `rows.__getitems__(indices)`: a list; sample k belongs to `indices[k]`
# - **done when** a batch takes one call and no row is read that is not in it


# %%
# exercise: loading/batched-fetch
class Rows:
    """The rows of a table as samples; a whole batch takes one call to the table."""

    def __init__(self, table):
        raise NotImplementedError

    def __len__(self):
        raise NotImplementedError

    def __getitem__(self, index):
        raise NotImplementedError


# %%
lab.check("batched-fetch")

# %% [markdown]
# ### Decode once, send bytes
# Our photographs are decoded in every epoch and sent as float32. Three ways, an epoch each: PNG to floats; PNG to
# bytes, which the device can turn into floats; decoded beforehand.

# %%
ways = {"PNG, float32": loading.Photos(256), "PNG, uint8": loading.Photos(256, floats=False)}
ways["decoded, uint8"] = loading.DecodedPhotos(256)
for name, dataset in ways.items():
    run = record(dataset, batch_size=32, num_workers=0)
    sent = run.counts["bytes"] / run.counts["batches"]
    print(f"{name:14}  {sent:9,.0f} bytes a batch, {1000 * run.totals['fetch']:6.1f} ms of fetching")
png, decoded = len(ways["PNG, uint8"].files), ways["decoded, uint8"].photos.nbytes
print(f"kept in memory: {png:,} bytes as PNG, {decoded:,} decoded")

# %% [markdown]
# A float made in the worker has four bytes for every byte that was decoded, and all of them travel: to main, then to
# the device. What the device can do (scale, normalise, flip, crop) need not be done before.
#
# ### Your turn: `Wire` (more)
# - `Wire(mean, std)`, (3,) float32, of brightness from 0 to 1
# - `pack(photos)`, in a worker: what is sent for a list of (rows, columns, 3) uint8
# - `unpack(packed)`, in main: (photo, channel, row, column) float32, normalised: brightness from 0 to 1, minus mean, by
#   std, per channel
# - **done when** one byte is sent per number


# %%
# exercise: loading/thin-wire
class Wire:
    """What a worker sends and what main makes of it: bytes on the way, normalised floats at the end."""

    def __init__(self, mean, std):
        raise NotImplementedError

    def pack(self, photos):
        raise NotImplementedError

    def unpack(self, packed):
        raise NotImplementedError


# %%
lab.check("thin-wire")

# %% [markdown]
# The last leg is main to device. `pin_memory=True` copies batches to memory that cannot be paged out, from where the
# device fetches them by itself; only then can `non_blocking=True` overlap the copy with computing.

# %%
import warnings

with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    (batch,) = DataLoader(loading.Tiny(8), batch_size=8, pin_memory=True)
print("pinned:", batch.is_pinned(), *[warning.message for warning in said])

# %% [markdown]
# *A good place to rest. When you come back, run the setup cell.*
#
# ## Part 4. What a worker knows
# ### It must get there
# With spawn and forkserver, the dataset is pickled, sent, and unpickled by a process that has never seen this notebook.
# pickle stores classes and functions by name: the worker has to find them in a module. Watch it fail on purpose.

# %%
from labsupport.errors import LabError


class Mine(list):
    """A dataset that is defined in a notebook cell."""


try:
    record(Mine(range(8)), num_workers=1, multiprocessing_context="spawn")
except LabError as error:
    print(error)

# %% [markdown]
# That is why this lesson's datasets live in `labsupport.loading`: put yours into a file beside the notebook and import
# it. Do not set fork to make the error go away; it returns on another system, and with it the trouble with threads.
#
# ### Mend: `Readings` (core)
# It works with fork and fails with spawn. `file.open()` returns a handle, `handle.read(i)` a row; `file` itself
# crosses, as a path would, and knows its number of `rows`.
#
# - **done when** it can be sent before and after main has read from it, each process opens the file once, when it first
#   reads, main keeps the handle it has, and a second dataset reads its own file


# %%
# exercise: loading/spawn-ready
class Readings:
    """The rows of a file, multiplied by a factor."""

    def __init__(self, file, factor):
        self.file = file
        self.handle = file.open()
        self.scale = lambda row: row * factor

    def __len__(self):
        return self.file.rows

    def __getitem__(self, index):
        return self.scale(self.handle.read(index))


# %%
lab.check("spawn-ready")

# %% [markdown]
# ### It must hear of news
# Noise that is new in every epoch, drawn from [seed, epoch, index]. Main sets the epoch before each pass. Compare what
# arrives, with workers that are started anew and with workers that persist.

# %%
import torch

for persistent in (False, True):
    noisy = loading.Jitter(4, seed=1)
    how = {"num_workers": 2, "persistent_workers": persistent, "multiprocessing_context": start}
    loader = DataLoader(noisy, batch_size=2, **how)
    for epoch in range(2):
        noisy.epoch = epoch  # main's copy
        print(f"persistent {persistent!s:5} epoch {epoch}", [f"{x:.2f}" for x in torch.cat(list(loader)).tolist()])
    del loader  # ends its workers

# %% [markdown]
# Persistent workers go on with the copy they were given. Nothing warns you: the model sees one epoch's augmentation for
# ever.
#
# ### Mend: `Jittered` (core)
# The same mistake. `requests()` is what the loader's sampler yields: it runs in main, and each request reaches
# `__getitem__` in a worker.
#
# - **in**: `rows`, one float per sample; `seed`; main sets `dataset.epoch = e` before each pass
# - **out**: `__getitem__(request)`: the row plus `default_rng([seed, e, i]).normal()` for sample i of epoch e
# - **done when** persistent workers draw what the epoch asks for, also after a resume and when an epoch is repeated


# %%
# exercise: loading/stale-epoch
class Jittered:
    """Rows with noise that is new in every epoch and the same in every run."""

    def __init__(self, rows, seed):
        self.rows, self.seed, self.epoch = rows, seed, 0

    def requests(self):
        return range(len(self.rows))

    def __getitem__(self, request):
        rng = np.random.default_rng([self.seed, self.epoch, request])
        return self.rows[request] + rng.normal()


# %%
lab.check("stale-epoch")

# %%
# A generator kept on the dataset, one per worker, and one per sample: six samples, 0 and 2 workers.
for name, how, init in (
    ("kept", "kept", None),
    ("worker_init_fn", "kept", loading.NoisyInit()),
    ("per sample", "epoch", None),
):
    for workers in (0, 2):
        torch.manual_seed(0)  # the workers' seeds follow from it
        given = {"num_workers": workers, "multiprocessing_context": start if workers else None}
        loader = DataLoader(loading.Jitter(6, how=how), worker_init_fn=init, **given)
        print(f"{name:14} {workers} workers", " ".join(f"{x.item():5.2f}" for x in loader))

# %% [markdown]
# A kept generator is copied: both workers draw the same numbers. `worker_init_fn` mends that, but what a sample gets
# still depends on how many workers there are. A generator made from the sample's own numbers depends on nothing else.
#
# ### It writes when it reads (more)
# After a fork, main and workers share memory pages until one of them writes. Every look at a Python object writes:
# its reference count changes. 600,000 names in a list, and the same names in two buffers:

# %%
for kind in (loading.NameList, loading.NameBuffer):
    megabytes, how = loading.worker_megabytes(kind(600_000))
    print(f"{kind.__name__:10} {megabytes:5.1f} MB of its own in each worker ({how})")

# %% [markdown]
# Each worker looked at half of the names and copied nearly all pages on which they lie; some ten megabytes it needs in
# any case. This is the "memory leak" of a loader whose memory grows through the first epoch.
#
# ### Your turn: `Names` (more)
# - `Names(names)`, a list of texts, of any length and in any script; `len` and `names[i]`, a `str`
# - **done when** the dataset consists of at most 60 Python objects, and keeps no more than 16 bytes beside each text


# %%
# exercise: loading/copy-on-write
class Names:
    """Texts by number, kept so that workers which read them share their memory."""

    def __init__(self, names):
        raise NotImplementedError

    def __len__(self):
        raise NotImplementedError

    def __getitem__(self, index):
        raise NotImplementedError


# %%
lab.check("copy-on-write")

# %% [markdown]
# ## Part 5. Choose
# ### Sweep
# `bench` tries settings by turns, with repetitions, and says what it recommends and why, or that the loader is not the
# bottleneck. Guess how many workers our photographs deserve on this machine.

# %%
from labsupport.loaderbench import bench

photos = loading.Photos(count=512, side=128, read_ms=2)
options = {"workers": (0, 1, 2), "persistent": True, "start": start, "batch_size": 32}
report = bench(photos, step=loading.busy_step(20), **options, repeat=3, batches=6)
report

# %%
lab.show("timeline", report.baseline_run, report.recommended_run)

# %% [markdown]
# ### Your turn: `tune` (more)
# Your own sweep, on a simulated device: delays are counted, not slept, so the verdict does not depend on this machine.
#
# - **in**: `bench(workers, prefetch_factor)`, milliseconds per step; `batch_bytes`; `memory_bytes`; `most_workers`
# - **out**: `(workers, prefetch_factor)`. Allowed are (0, None), and prefetch 1, 2, 4 or 8 with workers * prefetch *
#   batch_bytes within memory_bytes. Of those within 5 % of the best: the fewest workers, then the least prefetch
# - **done when** it takes at most most_workers + 8 runs; deeper prefetch is never slower


# %%
# exercise: loading/tune
def tune(bench, batch_bytes, memory_bytes, most_workers):
    """Return (workers, prefetch_factor): the fewest workers, then the least prefetch, within 5 % of the best."""
    raise NotImplementedError


# %%
lab.check("tune")

# %% [markdown]
# ## Bring your own
# Put your Dataset in the first line, and a step that takes one of your batches. With more than 0 workers, import it
# from a module. The course's example has nothing to load. In a terminal, `./lab loaderbench --help` tells how to do the
# same; `docs/loaderbench.md` says what is measured and how.

# %%
mine, my_step = loading.Tiny(4_096), None
bench(mine, step=my_step, workers=(0, 2), persistent=True, start=start, batch_size=64, repeat=3, batches=16)

# %% [markdown]
# ## Close
# You can say who waits and why, predict what workers buy, fetch and send less, and write datasets that spawned and
# persistent workers understand.
#
# What production code does differently:
#
# - It shuffles shards, not items: sequential reads of large files, mixed in memory.
# - Images are resized and decoded once, ahead of time, or decoded on the accelerator.
# - Where there is an accelerator it pins memory, and copies the next batch while the device computes on this one.
# - Seeds and epochs travel with the request; lists of file names live in arrays or in a database file.
# - A resumed job skips to where it was, which needs a loader that can say where it is (lesson 11).
#
# Sources, read 2026-11: torch's pages on [data loading](https://docs.pytorch.org/docs/2.13/data.html); its
# [fetcher](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/utils/data/_utils/fetch.py), which asks for
# `__getitems__`; [issue 13246](https://github.com/pytorch/pytorch/issues/13246) on memory and reference counts;
# Python's page on [start methods](https://docs.python.org/3/library/multiprocessing.html#contexts-and-start-methods).
# Photographs and weather: `data/README.md`.
#
# Next: [chunks](13_chunks.ipynb), where the shape of a chunk decides what a batch costs.
