# %% [markdown]
# # Add up one number with many processes
# Let processes that share nothing but messages compute together, and find out why one of them stands still.
#
# **60 minutes (core), two cores, no GPU.** What is marked (more) adds about 45 minutes. You will be able to
# choose the collective for a question, build an all-reduce from messages, and read a hang.
# You need: tensors; strides, [lesson 05](05_strides.ipynb). Not here: training on several ranks,
# [lesson 16](16_ddp.ipynb).

# %%
# %load_ext labsupport.torchrun
from labsupport import lesson
from labsupport.torchrun import records  # what is kept of every %%torchrun cell: times, calls, bytes

lab = lesson("collectives")

# %% [markdown]
# ## Part 1. Ranks
# ### One program, four times
# A cell that begins with `%%torchrun` is a program of its own. torchrun starts it in four processes at once.

# %%
# %%torchrun --nproc 4
import os

import torch.distributed as dist

dist.init_process_group()  # each process waits here until all four are there
print(f"rank {dist.get_rank()} of {dist.get_world_size()}, process {os.getpid()}, {dist.get_backend_config()}")

# %% [markdown]
# Each process is a *rank*, all together are the *world*. They meet at an address that torchrun hands out, the
# *rendezvous*. Each process also has a *local rank*, counted from 0 on its own machine: it picks the GPU. A *backend*
# moves the bytes: gloo between CPUs, NCCL between GPUs, from the same code.
#
# Nothing else is shared: not this notebook's names, not a global variable. What a rank knows of another has arrived as
# a message.
#
# ### The obvious way
# Each of four ranks has a gradient of a million float32, 4 MB, and all want the sum. The obvious way sends everything
# to rank 0, which adds it up and sends the sum back. The second cell lets the library do it. Before you run them: how
# many MB does rank 0 send in each, and how many rank 3?

# %%
# %%torchrun --nproc 4
import torch
import torch.distributed as dist

dist.init_process_group()
rank, n_ranks = dist.get_rank(), dist.get_world_size()
gradient = torch.full((1_000_000,), float(rank))  # 4 MB
if rank == 0:
    for other in range(1, n_ranks):
        incoming = torch.empty_like(gradient)
        dist.recv(incoming, other)
        gradient += incoming
    for other in range(1, n_ranks):
        dist.send(gradient, other)
else:
    dist.send(gradient, 0)
    dist.recv(gradient, 0)
print(gradient[:3])

# %%
# %%torchrun --nproc 4
import torch
import torch.distributed as dist

dist.init_process_group()
gradient = torch.full((1_000_000,), float(dist.get_rank()))  # the same, in one call
dist.all_reduce(gradient)
print(gradient[:3])

# %%
# What the two runs sent, from the record of each.
for record in records()[-2:]:
    print("   ".join(f"rank {seen.rank}: {seen.sent_bytes / 1e6:4.1f} MB" for seen in record.ranks))

# %%
lab.show("collective", records()[-2])  # the first of them, call by call

# %% [markdown]
# In the first run rank 0 sends 12 MB, and receives as much, while the others wait for their turn. With every rank that
# joins it has 4 MB more to send. In the second, all send the same, at the same time, and it is 6 MB. How that can be
# is part 3.
#
# ### The idea
# A *collective* is a call that every rank of a group makes, with a tensor of the same shape and dtype. Each one says
# who gives what, and who has what afterwards:
#
# | collective | a rank gives | afterwards |
# | --- | --- | --- |
# | broadcast | source: its x | all: x of the source |
# | reduce | its x | one rank: the sum |
# | all_reduce | its x | all: the sum |
# | gather, all_gather | its x | one rank, or all: every x, kept apart |
# | scatter | source: one part for each | its part |
# | reduce_scatter | one part for each | the sum of the parts meant for it |
# | all_to_all | one part for each | the parts meant for it |
#
# The figure plays them. Write another name from the first column into the cell, for example `"reduce_scatter"`.

# %%
lab.show("collective", "all_gather", ranks=3)

# %% [markdown]
# ### Predict: four calls (core)
# Two ranks. On rank 0, `x = torch.tensor(1.)`; on rank 1, `x = torch.tensor(3.)`. Each line starts from there, and
# both ranks run it. A wrong guess costs nothing.

# %%
# exercise: collectives/predict-first
after_all_reduce = ...  # dist.all_reduce(x); x.item() on rank 1
returned = ...  # y = dist.all_reduce(x); y
after_broadcast = ...  # dist.broadcast(x, src=0); x.item() on rank 1
after_reduce = ...  # dist.reduce(x, dst=0); x.item() on rank 1

# %%
lab.check("predict-first")

# %%
# %%torchrun --nproc 4
import torch
import torch.distributed as dist

dist.init_process_group()
x = torch.tensor(10 ** dist.get_rank())  # 1, 10, 100, 1000: a sum shows who is in it
handle = dist.reduce(x, dst=0, async_op=True)  # returns at once
handle.wait()  # until this returns, x is nobody's to touch
print(x)

# %% [markdown]
# Collectives write into the tensors you pass and return nothing, or a handle with `async_op=True`, for whoever has
# something better to do than wait. After `reduce` only the destination may be read: what the others hold is left over
# from the way there. With two ranks it looked innocent.
#
# ### Your turn: `mean_over_ranks` (core)
# The loss you log is one rank's. For the mean over all samples the ranks have to talk.
#
# - **in**: `losses`, (n,) float64; n differs from rank to rank, and may be 0 on some
# - **out**: the mean over the losses of all ranks, a Python float, on every rank; `losses` stays as it is
#
# The lines under `if __name__` run when the cell runs, for you to look. The check calls your function with data of its
# own.

# %%
# %%torchrun --nproc 3
# exercise: collectives/mean-metric
import torch
import torch.distributed as dist


def mean_over_ranks(losses):
    """Return the mean of all ranks' losses, the same float on every rank."""
    raise NotImplementedError


if __name__ == "__main__":
    dist.init_process_group()
    losses = torch.arange(2.0 + dist.get_rank(), dtype=torch.float64)  # 2, 3 and 4 losses: 10 / 9 is right
    print(mean_over_ranks(losses))

# %%
lab.check("mean-metric")

# %% [markdown]
# ### Mend: `gather_scores` (more)
# all_gather writes into a list of tensors that you bring. The list below is too good to be true.
#
# - **in**: `score`, (classes,), the same length on every rank
# - **out**: the scores of all ranks, (ranks, classes), on every rank; `score` stays as it is

# %%
# %%torchrun --nproc 3
# exercise: collectives/one-buffer
import torch
import torch.distributed as dist


def gather_scores(score):
    """Return the scores of all ranks, (rank, class), on every rank."""
    gathered = [torch.empty_like(score)] * dist.get_world_size()
    dist.all_gather(gathered, score)
    return torch.stack(gathered)


if __name__ == "__main__":
    dist.init_process_group()
    print(gather_scores(torch.tensor([0.0, 0.5]) + dist.get_rank()))

# %%
lab.check("one-buffer")

# %% [markdown]
# ### Your turn: `gather_rows` (more)
# Validation data rarely divide evenly: every rank has another number of predictions, and all_gather wants one shape.
#
# - **in**: `x`, (rows, columns); rows differ from rank to rank and may be 0; columns and dtype agree
# - **out**: the rows of all ranks, rank 0's first, on every rank; a row of zeros is a row like any other
# - **done when** dtypes survive, and `x` is as it was

# %%
# %%torchrun --nproc 3
# exercise: collectives/gather-uneven
import torch
import torch.distributed as dist


def gather_rows(x):
    """Return the rows of all ranks, (rows of rank 0 + rows of rank 1 + ..., columns), on every rank."""
    raise NotImplementedError


if __name__ == "__main__":
    dist.init_process_group()
    rank = dist.get_rank()
    print(gather_rows(torch.full((2 - rank, 2), rank)))  # 2, 1 and no rows

# %%
lab.check("gather-uneven")

# %% [markdown]
# *A good place to rest. When you come back, run the setup cell at the top; nothing else is needed.*
#
# ## Part 2. What goes wrong, silently and loudly
# ### Mend: `share_column` (core)
# Gloo gets the address of a tensor's first element, and a number of elements. Run the cell: rank 0 has ones, rank 1
# has twos, and column 0 alone was to become 3.
#
# - **in**: `m`, a matrix, any strides, not the same on every rank; `column`
# - **out**: `m` itself, with that column replaced by its sum over all ranks, everything else as it was

# %%
# %%torchrun --nproc 2
# exercise: collectives/column-view
import torch
import torch.distributed as dist


def share_column(m, column):
    """Add up column `column` of `m` over all ranks, in place; return `m`."""
    dist.all_reduce(m[:, column])
    return m


if __name__ == "__main__":
    dist.init_process_group()
    print(share_column(torch.full((4, 4), 1.0 + dist.get_rank()), 0))

# %%
lab.check("column-view")

# %% [markdown]
# With gloo in PyTorch 2.13, broadcast, reduce and scatter have the same gap; `send`, `recv` and `all_to_all_single`
# refuse such a view, and all_gather copies it for you. Nobody remembers that list: hand over contiguous tensors.
#
# ### Mend: `total_metrics` (core)
# Collectives have no names. The first all_reduce of one rank meets the first of the others, the second meets the
# second. Run the cell: with 1 and 10 for hits, 2 and 20 for seen, the totals should be 11 and 22.
#
# - **in**: `metrics`, a dict of tensors; the same names on every rank, filled in any order. The names are all strings,
#   or all whole numbers (layers counted from the end: -1, -2, ...)
# - **out**: {name: sum over all ranks}, on every rank; `metrics` stays as it is

# %%
# %%torchrun --nproc 2
# exercise: collectives/order
import torch
import torch.distributed as dist


def total_metrics(metrics):
    """Return {name: sum over all ranks} of a dict that has the same names on every rank."""
    totals = {}
    for name, value in metrics.items():
        totals[name] = value.clone()
        dist.all_reduce(totals[name])
    return totals


if __name__ == "__main__":
    dist.init_process_group()
    first = {"hits": torch.tensor(1.0), "seen": torch.tensor(2.0)}
    second = {"seen": torch.tensor(20.0), "hits": torch.tensor(10.0)}
    print(total_metrics([first, second][dist.get_rank()]))

# %%
lab.check("order")

# %% [markdown]
# Both bugs were silent: same call, same shape, same dtype, so nothing could object. The next two are louder. In the
# first, the calls that meet do not fit each other. In the second, rank 1 never calls. For each, decide before you run
# it who waits, and in which line.
#
# `--may-fail` lets the notebook go on after a failure; `--stop-when-stuck` ends a job once it is certain that nobody
# can go on; `--timeout 5` lets a collective wait for 5 s.

# %%
# %%torchrun --nproc 2 --may-fail --stop-when-stuck
import torch
import torch.distributed as dist

dist.init_process_group()
loss, weights = torch.ones(1), torch.ones(3)
if dist.get_rank() == 0:
    dist.all_reduce(loss)
    dist.broadcast(weights, src=0)
else:
    dist.broadcast(weights, src=0)  # the other way round
    dist.all_reduce(loss)

# %%
# %%torchrun --nproc 3 --may-fail --timeout 5
import time

import torch
import torch.distributed as dist

dist.init_process_group()
dist.all_reduce(torch.ones(1))
if dist.get_rank() != 1:
    dist.all_reduce(torch.ones(7))  # "only the ranks that have something to say"
else:
    time.sleep(8)  # busy with something else; in its log all is well

# %%
lab.show("collective", records()[-1])

# %% [markdown]
# Rank 1 is the cause, yet the errors are those of ranks 0 and 2, and the log of rank 1 says nothing at all. To read a
# hang, lay the calls of all ranks side by side and look for the one that is missing. That is what the report did, from
# outside, while they waited: every rank keeps its last calls in a *flight recorder*.
#
# Left to itself, gloo waits 30 minutes before it complains. Where nobody watches, give
# `init_process_group(timeout=...)` what your slowest step needs, and put `dist.monitored_barrier()` at suspicious
# places: it names the ranks that did not come.
#
# ### Predict: who hangs (core)
# Below, `send 1` sends to rank 1 and returns once rank 1 receives; `recv 1` returns once rank 1 sends; `isend 1`
# returns at once. `->` stands for "then". Which ranks never come to the end of their line? Write a tuple of ranks
# in increasing order: `(0,)` for rank 0 alone, `()` for none. A rank at its end stays alive.

# %%
# exercise: collectives/who-hangs
both_send = ...  # rank 0: send 1 -> recv 1     rank 1: send 0 -> recv 0
in_turn = ...  # rank 0: send 1 -> recv 1     rank 1: recv 0 -> send 0
one_reduces = ...  # rank 0: all_reduce -> sleep     rank 1: sleep
chain = ...  # rank 0: send 1 -> recv 2     rank 1: send 2 -> recv 0     rank 2: recv 1 -> send 0
started_first = ...  # each of 3 ranks: isend to the right -> recv from the left
skipped = ...  # rank 0: all_reduce -> send 1     rank 1: all_reduce -> recv 0     rank 2: sleep

# %%
lab.check("who-hangs")

# %%
# %%torchrun --nproc 2 --may-fail --stop-when-stuck
import torch
import torch.distributed as dist

dist.init_process_group()
other = 1 - dist.get_rank()
mine, theirs = torch.ones(2), torch.empty(2)
dist.send(mine, other)  # both_send, for real; now start it with isend, and wait for the handle below
dist.recv(theirs, other)
print(theirs)

# %%
lab.drill("who-hangs", ...)

# %% [markdown]
# ### Mend: `steps_taken` (more)
# Early stopping, the usual way: a rank that is good enough leaves the loop.
#
# - **in**: `losses`, (steps,), this rank's own loss at every step; every rank has as many; `target`, a float
# - **out**: the number of steps taken, an int, the same on every rank: all stop before the first step at which *any*
#   rank's loss is below `target`

# %%
# %%torchrun --nproc 2 --may-fail --stop-when-stuck
# exercise: collectives/stop-together
import torch
import torch.distributed as dist


def steps_taken(losses, target):
    """Return after how many steps all ranks stop: as soon as any rank's loss is below `target`."""
    steps = 0
    for loss in losses:
        if loss < target:
            break
        dist.all_reduce(torch.ones(3))  # stands for the gradients of this step
        steps += 1
    return steps


if __name__ == "__main__":
    dist.init_process_group()
    print(steps_taken(torch.tensor([[9.0, 7.0, 5.0], [9.0, 0.5, 0.4]][dist.get_rank()]), 1.0))

# %%
lab.check("stop-together")

# %% [markdown]
# *A good place to rest.*
#
# ## Part 3. A ring
# How can four ranks add 4 MB with 6 MB sent by each, and no busy middle? Cut the vector into four chunks, and let each
# rank become responsible for one. In the player, predict the next transfer before you step.

# %%
lab.show("collective", "ring_all_reduce", ranks=4)

# %% [markdown]
# With N ranks: in the first N - 1 steps, *reduce-scatter*, a rank passes on what it has just added to; then each chunk
# is complete on one rank. In N - 1 more, *all-gather*, complete chunks go round once and replace what is there.
#
# ### Your turn: `ring_all_reduce` (core)
# - **in**: `x`, (n,) float64, any n, also below the number of ranks
# - **out**: the sum over all ranks, (n,), on every rank; `x` stays as it is
# - **done when** with 4 ranks and 1,000 numbers no rank sends more than 12,000 bytes
# - **not allowed**: collectives; you have `send`, `recv`, `isend`, `irecv`, and `tensor_split` for the chunks
#
# Keep every handle and wait for it: a message whose handle is dropped may never arrive. Once the cell runs through,
# `lab.show("collective", records()[-1])` in a cell below draws your own run.

# %%
# %%torchrun --nproc 4 --may-fail --stop-when-stuck
# exercise: collectives/ring-all-reduce
import torch
import torch.distributed as dist


def ring_all_reduce(x):
    """Return the sum of all ranks' `x`, having sent 2 (N - 1) chunks of about n / N numbers to the right."""
    raise NotImplementedError


if __name__ == "__main__":
    dist.init_process_group()
    print(ring_all_reduce(torch.arange(8.0, dtype=torch.float64) + 10 * dist.get_rank()))  # 60, 64, ..., 88

# %%
lab.check("ring-all-reduce")

# %% [markdown]
# *That was the core. Rest here; what follows is worth a second sitting.*
#
# ## Part 4. The price (more)
# ### Predict, then compute: the cost of a ring
# A ring all-reduce of 1 GB. *Bus bandwidth* is what one rank sends per second: the number to hold against what a link
# of your machine can carry.
#
# Then write `ring_cost(n_ranks, size_bytes, seconds)`: a tuple of steps (int), bytes sent by each rank and bus
# bandwidth in bytes per second (floats, as `size_bytes` is).

# %%
# exercise: collectives/predict-cost
steps_of_4 = ...  # 4 ranks: how many steps
sent_gb_of_4 = ...  # 4 ranks: GB sent by each rank
sent_gb_of_8 = ...  # 8 ranks: GB sent by each rank
bus_gb_s_of_8 = ...  # 8 ranks, done in 10 ms: bus bandwidth in GB/s

# %%
lab.check("predict-cost")

# %%
lab.drill("predict-cost", ...)


# %%
# exercise: collectives/ring-cost
def ring_cost(n_ranks, size_bytes, seconds):
    """Return (steps, bytes sent by each rank, bus bandwidth in bytes/s) of a ring all-reduce."""
    raise NotImplementedError


# %%
lab.check("ring-cost")

# %% [markdown]
# Bytes stay below twice the size however many ranks join: that is why people say it scales. Steps do not stay: they
# grow with N, and each takes at least one trip between neighbours. Small tensors on many ranks want a tree.
#
# ## Part 5. Numbers (more)
# ### Predict: the order of adding
# Write two float32 sums as numbers, and two claims about all_reduce as `True` or `False`.

# %%
# exercise: collectives/float-order
in_order = ...  # (1e8 + 1) - 1e8
reordered = ...  # (1e8 - 1e8) + 1
same_on_all_ranks = ...  # four ranks, random float32: do all ranks get the same bits?
same_in_one_vector = ...  # four ranks hold 1e8, 1, -1e8, 1, each eight times: are the eight sums equal?

# %%
lab.check("float-order")

# %%
# %%torchrun --nproc 4
import torch
import torch.distributed as dist

dist.init_process_group()
x = torch.full((8,), [1e8, 1.0, -1e8, 1.0][dist.get_rank()])
dist.all_reduce(x)
full = torch.full((1,), 100, dtype=torch.uint8)
dist.all_reduce(full)  # 4 times 100, in 8 bits
print(x.tolist(), full.item())
for dtype in (torch.int16, torch.float8_e4m3fn):
    try:
        dist.all_reduce(torch.zeros(1).to(dtype))
    except RuntimeError as error:
        print(dtype, "not with gloo:", error)

# %% [markdown]
# One vector, one call, and two results: each chunk starts its way round the ring at another rank. The ranks agree to
# the last bit, because a chunk is added up once and then copied; runs with another number of ranks do not. Compare
# those with a tolerance, never with `==`.
#
# Whole numbers wrap around on the way, and half precision overflows: widen first, reduce, then divide.
#
# ### Transfer: `rows_to_columns` (more)
# A matrix cut into rows becomes one cut into columns. Models that split long sequences over ranks do this before
# attention, and back after it.
#
# - **in**: `x`, (rows, columns), this rank's rows of the whole matrix; every rank has as many, and N, the number of
#   ranks, divides the columns
# - **out**: this rank's columns of the whole matrix, (N * rows, columns / N); `x` stays as it is
# - **done when** with 3 ranks and 20 x 60 float64 each, no rank sends more than 6,400 bytes

# %%
# %%torchrun --nproc 3
# exercise: collectives/rows-to-columns
import torch
import torch.distributed as dist


def rows_to_columns(x):
    """Return this rank's block of columns of the whole matrix, given its block of rows."""
    raise NotImplementedError


if __name__ == "__main__":
    dist.init_process_group()
    print(rows_to_columns(torch.arange(3.0).reshape(1, 3) + 10 * dist.get_rank()))

# %%
lab.check("rows-to-columns")

# %% [markdown]
# ## Bring your own
# Values of yours, one array per rank, in any collective of the table. Or put `"tree_all_reduce"` beside the ring, and
# compare steps and bytes.

# %%
lab.show("collective", "all_to_all", [[0, 1, 2], [10, 11, 12], [20, 21, 22]])

# %% [markdown]
# ## Close
# You can pick a collective, say what each rank sends, and find the rank that never called.
#
# What production code does differently:
#
# - Nobody writes the ring. For every call NCCL picks an algorithm, ring or tree among others, by size, number of ranks
#   and links; one can force it with `NCCL_ALGO`.
# - nccl-tests reports bus bandwidth with your factor, 2 (N - 1) / N: 1 GB in 10 ms on 8 ranks is 100 GB/s by size, and
#   175 GB/s on the bus.
# - NCCL refuses a strided view where gloo reads past it. Megatron-LM called `.contiguous()`, reduced the copy, and
#   returned the original: your `share_column` without its last step.
# - Lightning pairs metrics by the order of the log calls. Other orders give wrong numbers, other names a deadlock.
# - Early stopping, skipped batches and logs "only on rank 0" are decided by all ranks, or by none.
# - Programs end with `dist.destroy_process_group()`; here the end of the cell does it.
#
# Sources, read 2026-11: PyTorch 2.13,
# [torch.distributed](https://docs.pytorch.org/docs/2.13/distributed.html), for collectives, timeouts and
# monitored_barrier; strided views:
# [pytorch#192920](https://github.com/pytorch/pytorch/issues/192920) and
# [Megatron-LM#5337](https://github.com/NVIDIA/Megatron-LM/issues/5337); order and names:
# [Lightning#20946](https://github.com/Lightning-AI/pytorch-lightning/issues/20946) and
# [#19106](https://github.com/Lightning-AI/pytorch-lightning/issues/19106); bus bandwidth: nccl-tests,
# [PERFORMANCE.md](https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md); the choice of algorithms:
# [nccl#754](https://github.com/NVIDIA/nccl/issues/754); the ring, and that no all-reduce sends less: Patarasuk and
# Yuan, [Bandwidth optimal all-reduce algorithms](https://www.cs.fsu.edu/~xyuan/paper/09jpdc.pdf), 2009.
#
# Next: [data parallel training](16_ddp.ipynb), one all_reduce per bucket of gradients.
