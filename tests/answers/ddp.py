"""Right answers to lesson 16 that are written differently from the course's own. They run on ranks, as text."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as DDP
    from torch.utils.data import DataLoader, DistributedSampler

    def linear(weight): ...
    def small_net(): ...
    def write(state, path): ...


# -- train-equals-single


def train_by_hand(x, y, weight, lr, steps, batch):
    """Without DDP: the gradient of a linear model written out, summed over ranks."""
    rank, world = dist.get_rank(), dist.get_world_size()
    weight = weight.clone()
    dist.broadcast(weight, 0)
    share = batch // world
    for step in range(steps):
        first = step * batch + rank * share
        xs, ys = x[first : first + share], y[first : first + share]
        gradient = 2 * xs.T @ (xs @ weight - ys) / batch
        dist.all_reduce(gradient)
        weight -= lr * gradient
    return weight, share * steps


def train_with_contiguous_shares(x, y, weight, lr, steps, batch):
    world = dist.get_world_size()
    model = DDP(linear(weight))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    xs = x[: steps * batch].reshape(steps, world, batch // world, -1)[:, dist.get_rank()]
    ys = y[: steps * batch].reshape(steps, world, batch // world)[:, dist.get_rank()]
    for a, b in zip(xs, ys):
        model.zero_grad()
        torch.nn.functional.mse_loss(model(a), b).backward()
        optimizer.step()
    return model.module[0].weight.data.squeeze(), xs.shape[0] * xs.shape[1]


# -- weighted-loss


def gradient_by_hand(x, y, weight):
    total = 2 * x.T @ (x @ weight - y)
    count = torch.tensor([float(len(x))], dtype=x.dtype)
    both = torch.cat([total, count])
    dist.all_reduce(both)
    return both[:-1] / both[-1]


def gradient_with_scaled_mean(x, y, weight):
    counts = [None] * dist.get_world_size()
    dist.all_gather_object(counts, len(x))
    model = DDP(linear(weight))
    errors = (model(x) - y) ** 2
    scale = len(counts) * len(x) / sum(counts)
    loss = errors.mean() * scale if len(x) else errors.sum()
    loss.backward()
    return model.module[0].weight.grad.flatten()


# -- inner-module


def gradient_without_wrapper(x, y, weight):
    model = linear(weight)
    loss = (model(x) - y).square().mean()
    loss.backward()
    grad = model[0].weight.grad
    dist.all_reduce(grad, op=dist.ReduceOp.AVG)
    return grad.flatten(), float(loss)


# -- set-epoch


def orders_by_new_samplers(samples, epochs, seed):
    drawn = []
    for epoch in range(epochs):
        sampler = DistributedSampler(range(samples), shuffle=True, seed=seed + epoch)
        drawn.append([int(i) for batch in DataLoader(range(samples), 2, sampler=sampler) for i in batch])
    return drawn


# -- exact-eval


def evaluate_gathered(right):
    rank, world = dist.get_rank(), dist.get_world_size()
    mine = [i for i in range(len(right)) if i % world == rank]
    hits = [None] * world
    dist.all_gather_object(hits, [bool(right[i]) for i in mine])
    flat = [hit for part in hits for hit in part]
    return sum(flat) / len(flat), mine


# -- accumulate


def accumulate_in_two_blocks(x, y, weight, lr):
    model = DDP(linear(weight))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    for xs, ys in zip(x, y):
        with model.no_sync():
            for a, b in zip(xs[:-1], ys[:-1]):
                ((model(a) - b).square().mean() / len(xs)).backward()
        ((model(xs[-1]) - ys[-1]).square().mean() / len(xs)).backward()
        optimizer.step()
        optimizer.zero_grad()
    return next(model.parameters()).detach().flatten()


def accumulate_without_wrapper(x, y, weight, lr):
    model = linear(weight)
    (parameter,) = model.parameters()
    for xs, ys in zip(x, y):
        parameter.grad = None
        for a, b in zip(xs, ys):
            (model(a) - b).square().mean().backward()
        dist.all_reduce(parameter.grad)
        parameter.data -= lr * parameter.grad / (len(xs) * dist.get_world_size())
    return parameter.data[0]


# -- uneven


def uneven_by_hand(batches, weight, lr):
    """Ranks that have run out send zeros and are not counted."""
    weight = weight.clone()
    longest = torch.tensor(len(batches))
    dist.all_reduce(longest, op=dist.ReduceOp.MAX)
    for step in range(int(longest)):
        sums = torch.zeros(len(weight) + 1, dtype=weight.dtype)
        if step < len(batches):
            x, y = batches[step]
            sums[:-1] = 2 * x.T @ (x @ weight - y) / len(x)
            sums[-1] = 1
        dist.all_reduce(sums)
        weight -= lr * sums[:-1] / sums[-1]
    return weight


# -- batch-statistics


def running_mean_by_hand(x):
    norm = torch.nn.BatchNorm1d(x.shape[-1]).to(x.dtype)
    for batch in x:
        norm(batch)
    everybody = [torch.empty_like(norm.running_mean) for _ in range(dist.get_world_size())]
    dist.all_gather(everybody, norm.running_mean)
    return torch.stack(everybody).mean(0)


# -- validate-once


def validate_on_a_copy(x, y, seen_x, seen_y):
    import copy

    model = DDP(small_net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    result = None
    for step in range(2):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x[step]), y[step])
        loss.backward()
        optimizer.step()
        if step == 0 and dist.get_rank() == 0:
            frozen = copy.deepcopy(model.module).eval()
            with torch.inference_mode():
                result = float(torch.nn.functional.mse_loss(frozen(seen_x), seen_y))
    return result, float(loss)


# -- scale-rate


def rate_in_branches(step, base, world, warmup):
    if step >= warmup:
        return base * world
    return base + (base * world - base) * step / warmup


# -- save-load


def save_with_prefix_removed(weight):
    model = DDP(linear(weight))
    names = {name.removeprefix("module."): value for name, value in model.state_dict().items()}
    if not dist.get_rank():
        write(names, "part.pt")
        import pathlib

        pathlib.Path("part.pt").replace("model.pt")
    dist.all_reduce(torch.zeros(1))  # nobody passes before rank 0 is here
    return torch.load("model.pt")


def save_and_say_so(weight):
    model = DDP(linear(weight))
    if dist.get_rank() == 0:
        write(model.module.state_dict(), "model.pt")
        dist.broadcast_object_list(["written"], 0)
    else:
        dist.broadcast_object_list([None], 0)
    return torch.load("model.pt")


# -- elastic-resume


def resume_from_numbered_files(batches, weight):
    model = DDP(linear(weight))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    kept = sorted(Path.cwd().glob("step-*.pt"))
    done = 0
    if kept:
        model_state, optimizer_state, done = torch.load(kept[-1])
        model.load_state_dict(model_state)
        optimizer.load_state_dict(optimizer_state)
    for number, (x, y) in [(i, batches[i]) for i in range(done, len(batches))] if done else enumerate(batches):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        if dist.get_rank() == 0:
            torch.save((model.state_dict(), optimizer.state_dict(), number + 1), "saving")
            Path("saving").rename(f"step-{number:03d}.pt")
        dist.barrier()
    return model.module[0].weight.detach().flatten(), len(batches) - done


def resume_with_a_file_per_rank(batches, weight):
    """Each rank keeps its own file; the barrier keeps them at the same step."""
    import contextlib

    model = DDP(linear(weight))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    mine = Path(f"rank-{dist.get_rank()}.pt")
    saved = torch.load(mine) if mine.exists() else {"done": 0}
    if saved["done"]:
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
    with contextlib.suppress(IndexError):
        step = saved["done"]
        while True:
            x, y = batches[step]
            optimizer.zero_grad()
            (model(x) - y).square().mean().backward()
            optimizer.step()
            step += 1
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "done": step}
            torch.save(state, mine.with_suffix(".new"))
            mine.with_suffix(".new").replace(mine)
            dist.barrier()
    return next(model.parameters()).data[0], step - saved["done"]


ANSWERS = {
    "ddp/train-equals-single": [train_by_hand, train_with_contiguous_shares],
    "ddp/weighted-loss": [gradient_by_hand, gradient_with_scaled_mean],
    "ddp/inner-module": [gradient_without_wrapper],
    "ddp/set-epoch": [orders_by_new_samplers],
    "ddp/exact-eval": [evaluate_gathered],
    "ddp/accumulate": [accumulate_in_two_blocks, accumulate_without_wrapper],
    "ddp/uneven": [uneven_by_hand],
    "ddp/batch-statistics": [running_mean_by_hand],
    "ddp/validate-once": [validate_on_a_copy],
    "ddp/scale-rate": [rate_in_branches],
    "ddp/save-load": [save_with_prefix_removed, save_and_say_so],
    "ddp/elastic-resume": [resume_from_numbered_files, resume_with_a_file_per_rank],
}

# A survivor of the mutant test is named here with the reason why it is no mistake.
EQUIVALENT_MUTANTS = {
    ("ddp/set-epoch", "Constant: 2"): "how many indices make a batch does not change which are drawn",
    ("ddp/save-load", "Constant: 0"): "the model is saved and never called: how its output is flattened is not seen",
    ("ddp/save-load", "Constant: 0.4"): "how long the disk takes is not what is asked",
    ("ddp/save-load", "Constant: True"): "torch.load reads weights only unless it is told otherwise",
    ("ddp/elastic-resume", "Constant: 0"): "whichever rank saves, the barrier makes the others wait",
    ("ddp/elastic-resume", "Compare: dist.get_rank() == 0"): "with two ranks one saves either way, and both wait",
}
