# %% [markdown]
# # Train one model on several processes
# Get from four processes the model that one would have trained, know which of your numbers are averaged and which are
# not, and lose nothing when a process dies.
#
# **60 minutes (core), any laptop, no GPU.** What is marked (more) adds about 50 minutes. You will be able to train with
# DDP so that the result equals one process, count what it sends, and resume after a crash.
# You need: collectives (lesson 15), a training loop. Not here: models that do not fit one process (lesson 17).

# %%
# %load_ext labsupport.torchrun
import torch

from labsupport import lesson
from labsupport.torchrun import records  # what is kept of every %%torchrun cell: times, calls, bytes

lab = lesson("ddp")

# %% [markdown]
# ## Part 1. One gradient from many
# ### The obvious way
# From eight neighbouring heights predict the ninth, with a linear model. Two processes, half of the data each: twice as
# fast, one would think. Two functions are all this lesson needs; `--push` hands them to every rank.


# %%
track = torch.from_numpy(lab.data("altitude")[600:840].astype("float64")).ravel() / 1000  # (sample,), kilometres
windows = track.unfold(0, 9, 9)[:4096]  # (row, 9)
x, y = windows[:, :8].contiguous(), windows[:, 8].contiguous()  # (row, 8), (row,)


def linear(weight):
    """Return a model without bias that starts from `weight`, (features,); it maps (rows, features) to (rows,)."""
    layer = torch.nn.Linear(len(weight), 1, bias=False, dtype=weight.dtype)
    with torch.no_grad():
        layer.weight.copy_(weight)
    return torch.nn.Sequential(layer, torch.nn.Flatten(0))


# %%
def fit(model, x, y, steps=20, batch=64, lr=0.02):
    """Train `model` by plain SGD on the mean squared error, `batch` rows a step, and return the last loss."""
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    for step in range(steps):
        rows = slice(step * batch, (step + 1) * batch)
        loss = (model(x[rows]).flatten() - y[rows]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


# %%
# %%torchrun --nproc 2 --push x,y,fit
import torch
import torch.distributed as dist

dist.init_process_group()
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)  # as different as two processes are
model = torch.nn.Linear(8, 1, dtype=torch.float64)
fit(model, x[rank::world], y[rank::world], batch=32)
print(f"bias {model.bias.item():.6f}")

# %% [markdown]
# Two models, each trained on half of the data, and neither is the one you wanted. *Distributed data parallel* (DDP)
# adds two things: when a model is wrapped, rank 0's parameters go to everyone; during each backward, the gradients of
# all ranks are averaged.

# %%
# %%torchrun --nproc 2 --push x,y,fit --return weight,bias
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group()
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)
model = DDP(torch.nn.Linear(8, 1, dtype=torch.float64))  # from here on every rank holds rank 0's parameters
fit(model, x[rank::world], y[rank::world], batch=32)
weight, bias = model.module.weight.detach(), model.module.bias.detach()
print(f"bias {bias.item():.6f}")

# %% [markdown]
# The ranks agree. Do they agree with one process that takes all 64 rows of each step? `--return` brought rank 0's
# parameters back into this notebook, so we can ask.

# %%
torch.manual_seed(0)  # rank 0's seed
single = torch.nn.Linear(8, 1, dtype=torch.float64)
fit(single, x, y, batch=64)
f"largest difference: {(single.weight - weight).abs().max():.1e}, {(single.bias - bias).abs().max():.1e}"

# %% [markdown]
# Equal, but for the order in which numbers were added. That holds under a condition, and most of this lesson is about
# the ways to break it.
#
# ### Predict: two gradients (core)
# A model with one weight, `prediction = w * x`. Rank 0 holds x = 1, 1 and rank 1 holds x = 3, 3, 3, 4. After backward
# both ranks hold the same gradient of w. Which one, if the loss is the mean of a rank's predictions? And if it is
# their sum?

# %%
# exercise: ddp/predict-gradient
gradient_of_mean = ...
gradient_of_sum = ...

# %%
lab.check("predict-gradient")

# %%
lab.drill("predict-gradient", ...)

# %% [markdown]
# ### Your turn: `train` (core)
# - **in**: `x`, (n, features), and `y`, (n,), all samples, the same on every rank; `weight`, (features,), different on
#   every rank; `lr` and `steps`, of plain SGD on the mean squared error; `batch`, a multiple of the ranks, rows of one
#   step over all ranks together: step k takes rows k * batch to (k + 1) * batch - 1
# - **out**: the final weight, (features,), and how many rows this rank computed on
# - **done when** the weight is the one of a single process that starts from rank 0's `weight`, and each rank did its
#   share of the work
#
# The next cell is a program of its own. Running it starts two ranks; what stands below the last `if` lets you look at
# your function at work and is left out when it is checked. `linear(weight)` is the function from above.

# %%
# %%torchrun --nproc 2 --push linear
# exercise: ddp/train-equals-single
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def train(x, y, weight, lr, steps, batch):
    """Train on all ranks together and return (final weight, rows this rank computed on)."""
    raise NotImplementedError


if __name__ == "__main__":
    dist.init_process_group()
    x = torch.arange(32.0).reshape(16, 2) / 32
    print(train(x, x.sum(1), torch.ones(2) * dist.get_rank(), lr=0.1, steps=2, batch=8))

# %%
lab.check("train-equals-single")

# %% [markdown]
# ### See: gradients leave in buckets
# DDP does not wait for the end of backward. It fills *buckets* in the order in which gradients become ready, the last
# layer's first, and reduces each bucket as soon as it is full, while backward goes on.

# %%
# %%torchrun --nproc 2 --return seen
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

from labsupport.ranks.buckets import record_buckets

dist.init_process_group()
torch.manual_seed(0)
layers = [torch.nn.Linear(512, 512) for _ in range(6)]  # about 1 MB of gradients each
model = DDP(torch.nn.Sequential(*layers), bucket_cap_mb=1)
for step in range(3):  # DDP arranges its buckets anew after the first backward
    loss = model(torch.randn(1024, 512)).square().mean()
    with record_buckets(model) as seen:
        loss.backward()

# %%
lab.show("buckets", seen)

# %% [markdown]
# A bucket that travels while backward goes on costs little extra time; travel that is left when backward has ended is
# *exposed*. Small buckets leave early and cost a call each; one large bucket leaves when everything is over.
#
# ### Your turn: `mean_gradient` (core)
# The condition was that every rank had equally many rows. Texts differ in length and the last batch is short, so it
# breaks daily.
#
# - **in**: `x`, (rows, features), and `y`, (rows,), this rank's samples; ranks have different numbers of rows, maybe
#   none; `weight`, (features,), the same on all
# - **out**: the gradient, (features,), of the mean squared error over all samples of all ranks, on every rank
# - **done when** a lone sample weighs as much as any other, wherever it lies

# %%
# %%torchrun --nproc 2 --push linear
# exercise: ddp/weighted-loss
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def mean_gradient(x, y, weight):
    """Return the gradient, (features,), of the mean squared error over the samples of all ranks together."""
    raise NotImplementedError


if __name__ == "__main__":
    dist.init_process_group()
    rows = 1 + 2 * dist.get_rank()
    print(mean_gradient(torch.ones(rows, 2) * rows, torch.zeros(rows), torch.ones(2)))

# %%
lab.check("weighted-loss")

# %% [markdown]
# ### Mend: `gradient` (more)
# The ranks below should hold one gradient and hold two. One word is to blame.

# %%
# %%torchrun --nproc 2 --push linear
# exercise: ddp/inner-module
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def gradient(x, y, weight):
    """Return (the gradient of the mean squared error over all ranks, (features,); this rank's loss as a float)."""
    model = DDP(linear(weight))
    loss = (model.module(x) - y).square().mean()
    loss.backward()
    return next(model.parameters()).grad[0], loss.item()


if __name__ == "__main__":
    dist.init_process_group()
    print(gradient(torch.ones(2, 2) * (1 + dist.get_rank()), torch.zeros(2), torch.ones(2)))

# %%
lab.check("inner-module")

# %% [markdown]
# *A good place to rest. When you come back, run the first three code cells: set-up, data, `fit`.*
#
# ## Part 2. Who sees which sample
# `DistributedSampler` gives each rank its share of a dataset, shuffled if asked. Run the cell below and compare the two
# epochs.
#
# ### Mend: `orders` (core)
# Well-known training code was released with this mistake
# ([transformers#4398](https://github.com/huggingface/transformers/issues/4398)).
#
# - **in**: `samples`, `epochs`, `seed`
# - **out**: per epoch, the list of indices this rank draws
# - **done when** epoch e, counted from 0, draws what the sampler gives for epoch e

# %%
# %%torchrun --nproc 2
# exercise: ddp/set-epoch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler


def orders(samples, epochs, seed):
    """Return, per epoch, the list of indices this rank draws from `range(samples)`, shuffled anew each epoch."""
    sampler = DistributedSampler(range(samples), shuffle=True, seed=seed)
    loader = DataLoader(range(samples), batch_size=2, sampler=sampler)
    drawn = []
    for _ in range(epochs):
        drawn.append([index for batch in loader for index in batch.tolist()])
    return drawn


if __name__ == "__main__":
    dist.init_process_group()
    print(orders(8, 2, seed=1))

# %%
lab.check("set-epoch")

# %% [markdown]
# ### Predict: ten samples on four ranks (more)
# `DistributedSampler(dataset)` as it comes. Write a tuple of three numbers: how many samples all ranks draw together
# in an epoch, how many of those are drawn a second time, and how many are drawn with `drop_last=True`.

# %%
# exercise: ddp/predict-padding
padding_drawn = ...

# %%
lab.check("predict-padding")

# %%
lab.drill("predict-padding", ...)

# %% [markdown]
# ### Your turn: `evaluate` (more)
# A few samples more or less do not hurt training. A reported accuracy is wrong by them.
#
# - **in**: `right`, (n,) bool, the same on every rank: whether the model is right on each sample
# - **out**: the accuracy over all samples, on every rank, and the list of indices this rank looked at
# - **done when** rank r of w looks at samples r, r + w, r + 2w, ..., and each sample counts once

# %%
# %%torchrun --nproc 4
# exercise: ddp/exact-eval
import torch
import torch.distributed as dist
from torch.utils.data import DistributedSampler


def evaluate(right):
    """Return (accuracy over all samples, indices of the samples this rank looked at)."""
    raise NotImplementedError


if __name__ == "__main__":
    dist.init_process_group()
    print(evaluate(torch.arange(10) < 5))

# %%
lab.check("exact-eval")

# %% [markdown]
# ## Part 3. When to reduce
# A batch that does not fit is cut into micro-batches whose gradients are added up before the optimizer steps. Every
# job keeps a record, the collectives of each rank included. Here is the obvious loop, two steps of four micro-batches:

# %%
# %%torchrun --nproc 2 --push x,y
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group()
model = DDP(torch.nn.Linear(8, 1, dtype=torch.float64))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
for step in range(2):
    for part in range(4):
        rows = slice(32 * part + dist.get_rank(), 32 * (part + 1), dist.get_world_size())
        ((model(x[rows]).flatten() - y[rows]).square().mean() / 4).backward()
    optimizer.step()
    optimizer.zero_grad()

# %%
records()[-1].ranks[0].collectives

# %% [markdown]
# One all_reduce per micro-batch, of gradients that are about to be added up anyway. (The other calls are DDP's, when it
# starts.) `model.no_sync()` is a context in which gradients stay on their rank.
#
# ### Your turn: `accumulate` (core)
# - **in**: `x`, `y`, this rank's samples, (steps, micro-batches, rows, features) and (steps, micro-batches, rows);
#   `weight`, the same on every rank; `lr` of plain SGD
# - **out**: the final weight, (features,), equal on all ranks; a step follows the mean squared error over all its
#   samples
# - **done when** there is one all_reduce per step: they are counted

# %%
# %%torchrun --nproc 2 --push linear
# exercise: ddp/accumulate
import contextlib

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def accumulate(x, y, weight, lr):
    """Train with gradient accumulation, one all_reduce per step, and return the final weight, (features,)."""
    raise NotImplementedError


if __name__ == "__main__":
    dist.init_process_group()
    x = torch.ones(2, 4, 3, 2) * (1 + dist.get_rank())
    print(accumulate(x, x.sum(-1), torch.zeros(2), lr=0.01))

# %%
lab.check("accumulate")

# %% [markdown]
# ### What if a rank runs out of batches?
# Three batches on rank 0, two on rank 1. Decide which rank will complain, then run it; `--may-fail` lets the notebook
# go on.

# %%
# %%torchrun --nproc 2 --may-fail
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group()
model = DDP(torch.nn.Linear(8, 1))
for batch in torch.ones(3 - dist.get_rank(), 4, 8):
    model(batch).mean().backward()
print("done")

# %% [markdown]
# Rank 1 has ended and is content; rank 0 waited for it in an all_reduce, and complains. Had rank 1 lived on, in a long
# validation say, rank 0 would have waited in silence, by gloo's default for half an hour.
#
# ### Your turn: `train_uneven` (more)
# - **in**: `batches`, this rank's list of (x, y), (rows, features) and (rows,); lists differ in length, none is empty;
#   `weight`, the same on all ranks; `lr` of plain SGD on the mean squared error
# - **out**: the final weight, (features,), equal on all ranks
# - **done when** every batch is used, and each step follows the mean gradient of the ranks that still have one, each
#   rank weighing the same however many rows it holds

# %%
# %%torchrun --nproc 2 --stop-when-stuck --push linear
# exercise: ddp/uneven
import contextlib

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def train_uneven(batches, weight, lr):
    """Train until every rank has used its batches and return the final weight, (features,)."""
    raise NotImplementedError


if __name__ == "__main__":
    dist.init_process_group()
    batches = [(torch.ones(2, 2), torch.zeros(2))] * (3 - dist.get_rank())
    print(train_uneven(batches, torch.ones(2), lr=0.1))

# %%
lab.check("uneven")

# %% [markdown]
# *Another place to rest, with the same three cells to run afterwards.*
#
# ## Part 4. What survives
# ### Your turn: `save_and_load` (core)
# Two ranks, one folder, one file.
#
# - **in**: `weight`, to be wrapped; `write(state, path)` saves like `torch.save` on a slow disk
# - **out**: on every rank, what `torch.load("model.pt")` reads back
# - **done when** rank 0 wrote `model.pt`, under the names a single process uses, and nobody read too early

# %%
# %%torchrun --nproc 2 --push linear
# exercise: ddp/save-load
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def write(state, path):
    """Save `state` as torch.save does, on a disk that takes its time."""
    time.sleep(0.4)
    torch.save(state, path)


def save_and_load(weight):
    """Save the model of a DDP training once, as "model.pt", and return what every rank reads back from it."""
    raise NotImplementedError


if __name__ == "__main__":
    dist.init_process_group()
    print(save_and_load(torch.ones(2) * dist.get_rank()))

# %%
lab.check("save-load")

# %% [markdown]
# ### A rank dies
# `torchrun` is *elastic*: it can start all ranks again. `--kill` plays the accident: at its sixth optimizer step, rank 1
# is killed, as the system would do when memory runs out.

# %%
# %%torchrun --nproc 2 --max-restarts 1 --kill rank=1@step=6 --push x,y,fit
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group()
print("start number", os.environ["TORCHELASTIC_RESTART_COUNT"])
model = DDP(torch.nn.Linear(8, 1, dtype=torch.float64))
fit(model, x, y, steps=10)
print("ten steps done")

# %% [markdown]
# torchrun restarts *processes*, from their first line. That they go on where they were is up to your code: this cell
# trained its first steps twice.
#
# Expect a resumed run to end where an undisturbed one does to rounding, not to the last bit: DDP puts its buckets in
# the order of the first backward pass *after* it, so the first step after a restart may add more than two ranks'
# gradients in another order.
#
# ### Your turn: `train_and_resume` (more)
# - **in**: `batches`, this rank's list of (x, y), (rows, features) and (rows,), as many on every rank; `weight`, the same
#   on every rank. One step per batch, on the mean squared error; SGD, rate 0.05, momentum 0.9
# - **out**: the final weight, (features,), as if nothing had happened, and how many batches were trained on since the
#   last start
# - **done when** rank 1 may be killed as it reads `batches[4]` and no step is lost, repeated or different: save after
#   every step, in the working folder, which a restart keeps; after it, other batches stand in place of those before
#   `batches[4]`

# %%
# %%torchrun --nproc 2 --push linear
# exercise: ddp/elastic-resume
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def train_and_resume(batches, weight):
    """Train over the batches, saving as you go, and return (final weight, batches trained on since the last start)."""
    raise NotImplementedError


if __name__ == "__main__":
    dist.init_process_group()
    print(train_and_resume([(torch.ones(2, 2), torch.zeros(2))] * 7, torch.ones(2)))

# %%
lab.check("elastic-resume")

# %% [markdown]
# ### Two machines, nearly
# `--nnodes 2` starts two agents, each with its own ranks, as two machines would; here they share one. *Local* ranks are
# counted from 0 on each node: the local rank picks the GPU.

# %%
# %%torchrun --nnodes 2 --nproc 2
import os

import torch.distributed as dist

dist.init_process_group()
print("node", os.environ["GROUP_RANK"], "local rank", os.environ["LOCAL_RANK"], "of", dist.get_world_size())

# %% [markdown]
# ## Part 5. What nobody averages (more)
# ### Mend: `running_mean`
# Batch normalisation keeps running statistics. They are buffers, not parameters: no gradient, hence no averaging.
# Instead, rank 0's are sent to everybody before each forward, so a rank adds one batch of its own to what rank 0 saw.
#
# - **in**: `x`, this rank's batches, (steps, rows, features)
# - **out**: the mean over ranks of the running means, (features,), each gathered from a rank's own batches
# - **done when** all ranks return the same, and every rank's batches count

# %%
# %%torchrun --nproc 2
# exercise: ddp/batch-statistics
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def running_mean(x):
    """Return the mean over ranks of the running means, (features,), each from a rank's own batches."""
    model = DDP(torch.nn.BatchNorm1d(x.shape[2], dtype=x.dtype))
    for batch in x:
        model(batch)
    return model.module.running_mean


if __name__ == "__main__":
    dist.init_process_group()
    print(running_mean(torch.ones(3, 4, 2) * 10 * dist.get_rank()))

# %%
lab.check("batch-statistics")

# %% [markdown]
# ### Mend: `validate`
# Rank 0 validates while the others wait for its next gradient. In this form the job breaks: run it and read how.
#
# - **in**: `x`, `y`, this rank's batches, (2, rows, 2) and (2, rows); `seen_x`, `seen_y`, to validate on
# - **out**: the validation loss on rank 0 and None elsewhere; this rank's own loss of the second step
# - **done when** training goes on as if rank 0 had not validated


# %%
def small_net():
    """Return a model with batch normalisation; it maps (rows, 2) to (rows,), float64, the same on every rank."""
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.BatchNorm1d(2), torch.nn.Linear(2, 1), torch.nn.Flatten(0)).double()


# %%
# %%torchrun --nproc 2 --push small_net --may-fail
# exercise: ddp/validate-once
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def validate(x, y, seen_x, seen_y):
    """Train a step, validate on rank 0, train a step more; return (validation loss, loss of the second step)."""
    model, seen = DDP(small_net()), None
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(2):
        loss = (model(x[step]) - y[step]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step == 0 and dist.get_rank() == 0:
            seen = (model(seen_x) - seen_y).square().mean().item()
    return seen, loss.item()


if __name__ == "__main__":
    dist.init_process_group()
    x = torch.ones(2, 4, 2, dtype=torch.float64)
    print(validate(x, x[..., 0], x[0], x[0, :, 0]))

# %%
lab.check("validate-once")

# %% [markdown]
# ### Your turn: `rate`
# With w ranks and the same rows per rank, the batch is w times larger and an epoch has w times fewer steps. A common
# rule makes each step w times longer, after a warm-up (Goyal et al., 2017).
#
# - **in**: `step`, counted from 0; `base`, the rate that is right for one rank; `world`; `warmup`, in steps, maybe 0
# - **out**: the rate of that step: `base` at step 0, growing linearly to `base * world` at step `warmup`, then constant;
#   without warm-up `base * world` from the start


# %%
# exercise: ddp/scale-rate
def rate(step, base, world, warmup):
    """Return the learning rate of a step."""
    raise NotImplementedError


# %%
lab.check("scale-rate")

# %% [markdown]
# ### A parameter without a gradient
# DDP counts on a gradient from every parameter. Below, a layer is skipped. Guess which step fails before you run it.

# %%
# %%torchrun --nproc 2 --may-fail
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group()
net = torch.nn.ModuleDict({"used": torch.nn.Linear(8, 1), "skipped": torch.nn.Linear(8, 1)})
net.forward = lambda x: net["used"](x)
model = DDP(net)
for step in range(3):
    print("step", step)
    model(torch.ones(4, 8)).mean().backward()

# %% [markdown]
# The second: only then does DDP notice that the first never ended. `find_unused_parameters=True` helps, at the price of
# walking the graph in every step; not having such parameters is better.
#
# ### Send less
# A *communication hook* replaces the all_reduce of a bucket. This one halves every number on its way:

# %%
# %%torchrun --nproc 2
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group()
model = DDP(torch.nn.Linear(1000, 100))
model.register_comm_hook(None, fp16_compress_hook)
for step in range(5):
    model(torch.ones(4, 1000)).mean().backward()

# %%
parameters = 1000 * 100 + 100  # a few bytes more are sent: DDP compares shapes when it starts
print(f"rank 0 sent {records()[-1].ranks[0].sent_bytes:,} bytes")
print(f"parameters, once, when DDP starts: {4 * parameters:,}")
print(f"five gradients in float16: {5 * 2 * parameters:,} (in float32: {5 * 4 * parameters:,})")

# %% [markdown]
# ### Predict: five broken jobs
# What torchrun printed for five jobs of two ranks, shortened. Name the fault: `"uneven"` batches, a rank `"killed"`, a
# parameter `"unused"`, the wrapper's `"prefix"`, a file read too `"early"`, or the `"network"`.
#
# ```text
# log_a
#     rank 1: epoch done
#     [rank0]: RuntimeError: [...] Connection closed by peer [127.0.0.1]:23943. [...]
#     failed (exitcode: 1) local_rank: 0
# log_b
#     [rank0]: RuntimeError: [...] Connection closed by peer [127.0.0.1]:52104. [...]
#     Sending process 28248 closing signal SIGTERM
#     failed (exitcode: -9) local_rank: 1
# log_c
#     [rank1]: FileNotFoundError: [Errno 2] No such file or directory: 'model.pt'
#     Sending process 28720 closing signal SIGTERM
#     failed (exitcode: 1) local_rank: 1
# log_d
#     [rank0]: Missing key(s) in state_dict: "weight", "bias".
#     [rank0]: Unexpected key(s) in state_dict: "module.weight", "module.bias".
#     failed (exitcode: 1) local_rank: 0
# log_e
#     [rank1]: RuntimeError: Expected to have finished reduction in the prior iteration before starting [...]
#     [rank1]: Parameter indices which did not receive grad for rank 1: 2 3
#     failed (exitcode: 1) local_rank: 1
# ```

# %%
# exercise: ddp/diagnose
log_a = ...
log_b = ...
log_c = ...
log_d = ...
log_e = ...

# %%
lab.check("diagnose")

# %% [markdown]
# ## Close
# You can train one model on several processes and say when the result equals one process; count what is sent; share out
# samples without padding an evaluation; save once and resume after a crash.
#
# Production code differs in a few ways. Launchers on a cluster (Slurm, Kubernetes) start one agent per machine and give
# it the address of the first one. Data come from shards, not from an index sampler. Checkpoints are written by all
# ranks at once, in parts (lesson 17). And models that do not fit one process are not copied to each, but cut.
#
# Sources: the [DDP paper](https://arxiv.org/abs/2006.15704) (Li et al., 2020), for buckets and overlap;
# [PyTorch's DDP notes](https://docs.pytorch.org/docs/2.13/notes/ddp.html) and
# [torchrun](https://docs.pytorch.org/docs/2.13/elastic/run.html), read 2026-11;
# [Goyal et al., 2017](https://arxiv.org/abs/1706.02677), for large batches and warm-up.
#
# **Bring your own.** Put your training script into a `%%torchrun` cell. `--show` prints the shell command that does
# the same, `--save train.py` writes the cell as a script.
