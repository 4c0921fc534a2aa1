"""Lesson 15: one number out of many ranks' numbers, and rows of which every rank has another count."""

from typing import TYPE_CHECKING

import numpy as np

from labsupport.course import Case, Exercise, Misconception, Probe

if TYPE_CHECKING:  # an answer imports them itself; reading the course's exercises must not cost a second
    import torch
    import torch.distributed as dist

__all__ = ["GATHER_UNEVEN", "MEAN_METRIC"]

_DOC = "https://docs.pytorch.org/docs/2.13/distributed.html, read 2026-11"
_SETUP = "import torch\nimport torch.distributed as dist"


# -- mean-metric


def mean_over_ranks(losses):
    """Return the mean of all ranks' losses, the same float on every rank."""
    pair = torch.tensor([losses.sum().item(), len(losses)], dtype=torch.float64)  # (sum, count)
    dist.all_reduce(pair)  # adds, in place
    total, count = pair.tolist()
    return total / count


def _sum_of_the_means(losses):
    mean = losses.mean()
    dist.all_reduce(mean)
    return mean.item()


def _mean_of_the_means(losses):
    mean = losses.mean()
    dist.all_reduce(mean)
    return (mean / dist.get_world_size()).item()


def _an_empty_rank_has_mean_0(losses):
    mean = losses.mean() if len(losses) else torch.tensor(0.0, dtype=torch.float64)
    dist.all_reduce(mean)
    return (mean / dist.get_world_size()).item()


def _divides_by_the_ranks(losses):
    total = losses.sum()
    dist.all_reduce(total)
    return (total / dist.get_world_size()).item()


def _divides_by_its_own_count(losses):
    total = losses.sum()
    dist.all_reduce(total)
    return (total / (len(losses) * dist.get_world_size())).item()


def _keeps_what_is_returned(losses):
    pair = torch.tensor([losses.sum().item(), len(losses)], dtype=torch.float64)
    pair = dist.all_reduce(pair)
    return (pair[0] / pair[1]).item()


def _only_rank_0_knows(losses):
    pair = torch.tensor([losses.sum().item(), len(losses)], dtype=torch.float64)
    dist.reduce(pair, dst=0)
    return (pair[0] / pair[1]).item()


def _its_own_mean(losses):
    return losses.mean().item()


def _adds_up_the_losses_themselves(losses):
    dist.all_reduce(losses)
    return (losses.mean() / dist.get_world_size()).item()


def _adds_up_a_copy_of_the_losses(losses):
    total = losses.clone()
    dist.all_reduce(total)
    return (total.mean() / dist.get_world_size()).item()


def _losses(*counts):
    """Return a maker: one vector of positive float64 losses per rank, of the given lengths."""
    return lambda rng: ([(rng.uniform(0.5, 4.0, n),) for n in counts],)


MEAN_METRIC = Exercise(
    id="collectives/mean-metric",
    kind="ranks",
    task="On every rank, return the mean over the losses of all ranks as a Python float. Ranks may hold different "
    "numbers of losses, some none at all; `losses` stays as it is.",
    names=("mean_over_ranks",),
    setup=_SETUP,
    reference=mean_over_ranks,
    cases=(
        Case("3 ranks, 4 losses each", _losses(4, 4, 4)),
        Case("3 ranks with 2, 3 and 7 losses", _losses(2, 3, 7)),
        Case("3 ranks, none on rank 0", _losses(0, 3, 5)),
    ),
    probe=Probe("ranks", {}),
    misconceptions=(
        Misconception(
            id="all-reduce-averages",
            specimen=_sum_of_the_means,
            says="You return the sum of the ranks' means: all_reduce adds, it does not average. With a rank that has "
            "no losses the sum is NaN.",
            next="Which two numbers of each rank can be added up, and divided afterwards?",
        ),
        Misconception(
            id="mean-of-means",
            specimen=_mean_of_the_means,
            says="You average the ranks' means, which gives a rank with two losses the weight of one with seven; the "
            "mean of no losses is NaN, and one NaN makes every rank's result NaN.",
            next="Which two numbers per rank can be added up without losing who had how many?",
        ),
        Misconception(
            id="an-empty-rank-has-mean-0",
            specimen=_an_empty_rank_has_mean_0,
            says="You average the ranks' means and let a rank without losses count as a mean of 0. It has nothing to "
            "say, and should have no weight at all.",
            next="Let each rank's weight be its number of losses: which two numbers have to travel?",
        ),
        Misconception(
            id="counts-ranks",
            specimen=_divides_by_the_ranks,
            says="You divide the total by the number of ranks. What was added up are losses.",
            next="How many losses do all ranks have together, and how does a rank learn that?",
        ),
        Misconception(
            id="takes-its-count-for-everyones",
            specimen=_divides_by_its_own_count,
            says="You divide by this rank's count times the number of ranks, as if all had as many; now every rank "
            "reports another mean.",
            next="The counts have to travel as well as the sums.",
        ),
        Misconception(
            id="keeps-what-is-returned",
            specimen=_keeps_what_is_returned,
            says="That line met something of the wrong type. Often it is None: all_reduce works in place and returns "
            "nothing, so after `x = dist.all_reduce(x)` x is gone.",
            next="Call it on a line of its own, with a tensor, and go on with that tensor.",
        ),
        Misconception(
            id="only-rank-0-knows",
            specimen=_only_rank_0_knows,
            says="You reduce to one rank. What the others compute from their buffer is not the mean, and not even the "
            "same kind of wrong each time.",
            next="Which collective leaves the result on every rank?",
        ),
        Misconception(
            id="stays-on-its-rank",
            specimen=_its_own_mean,
            says="Each rank reports the mean of its own losses; nothing has been sent.",
            next="Call a collective on what you want to add up over all ranks.",
        ),
        Misconception(
            id="adds-up-the-losses-themselves",
            specimen=_adds_up_the_losses_themselves,
            says="You all-reduce the vector of losses: that overwrites the caller's losses, and ranks with vectors of "
            "different lengths cannot take part at all.",
            next="Make a small tensor of your own, with the same shape on every rank.",
        ),
        Misconception(
            id="adds-up-vectors-of-any-length",
            specimen=_adds_up_a_copy_of_the_losses,
            says="You hand all_reduce one number per loss. A collective wants the same shape on every rank, and the "
            "ranks have different numbers of losses.",
            next="Which tensor can every rank make, with the same shape, however many losses it has?",
        ),
    ),
    hints=(
        "A mean cannot be added up; a sum and a count can.",
        "Put both into one float64 tensor of two numbers, all_reduce it once, then divide.",
    ),
    core=True,
    level=2,
    minutes=8,
    source=_DOC,
)


# -- gather-uneven


def gather_rows(x):
    """Return the rows of all ranks, (rows of rank 0 + rows of rank 1 + ..., columns), on every rank."""
    n_ranks = dist.get_world_size()
    counts = [torch.zeros(1, dtype=torch.int64) for _ in range(n_ranks)]
    dist.all_gather(counts, torch.tensor([len(x)]))
    most = max(int(count) for count in counts)
    padded = x.new_zeros(most, x.shape[1])  # the same shape on every rank
    padded[: len(x)] = x
    parts = [torch.empty_like(padded) for _ in range(n_ranks)]
    dist.all_gather(parts, padded)
    return torch.cat([part[: int(count)] for part, count in zip(parts, counts)])


def _takes_lengths_for_equal(x):
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, x.contiguous())
    return torch.cat(parts)


def _keeps_the_padding(x):
    most = torch.tensor([len(x)])
    dist.all_reduce(most, op=dist.ReduceOp.MAX)
    padded = x.new_zeros(int(most), x.shape[1])
    padded[: len(x)] = x
    parts = [torch.empty_like(padded) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, padded)
    return torch.cat(parts)


def _takes_zero_rows_for_padding(x):
    most = torch.tensor([len(x)])
    dist.all_reduce(most, op=dist.ReduceOp.MAX)
    padded = x.new_zeros(int(most), x.shape[1])
    padded[: len(x)] = x
    parts = [torch.empty_like(padded) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, padded)
    rows = torch.cat(parts)
    return rows[rows.any(dim=1)]


def _cuts_to_the_shortest(x):
    least = torch.tensor([len(x)])
    dist.all_reduce(least, op=dist.ReduceOp.MIN)
    short = x[: int(least)].contiguous()
    parts = [torch.empty_like(short) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, short)
    return torch.cat(parts)


def _cuts_to_its_own_length(x):
    most = torch.tensor([len(x)])
    dist.all_reduce(most, op=dist.ReduceOp.MAX)
    padded = x.new_zeros(int(most), x.shape[1])
    padded[: len(x)] = x
    parts = [torch.empty_like(padded) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, padded)
    return torch.cat([part[: len(x)] for part in parts])


def _all_becomes_float(x):
    n_ranks = dist.get_world_size()
    counts = [torch.zeros(1, dtype=torch.int64) for _ in range(n_ranks)]
    dist.all_gather(counts, torch.tensor([len(x)]))
    padded = torch.zeros(max(int(count) for count in counts), x.shape[1])
    padded[: len(x)] = x
    parts = [torch.empty_like(padded) for _ in range(n_ranks)]
    dist.all_gather(parts, padded)
    return torch.cat([part[: int(count)] for part, count in zip(parts, counts)])


def _only_rank_0_has_them(x):
    n_ranks, rank = dist.get_world_size(), dist.get_rank()
    counts = [torch.zeros(1, dtype=torch.int64) for _ in range(n_ranks)]
    dist.all_gather(counts, torch.tensor([len(x)]))
    padded = x.new_zeros(max(int(count) for count in counts), x.shape[1])
    padded[: len(x)] = x
    parts = [torch.empty_like(padded) for _ in range(n_ranks)] if rank == 0 else None
    dist.gather(padded, parts, dst=0)
    return torch.cat([part[: int(count)] for part, count in zip(parts, counts)]) if rank == 0 else x


def _rows(*counts, dtype=np.float32):
    """Return a maker: one matrix of three columns per rank; each rank with two rows or more has a row of zeros."""

    def one(rng, n):
        rows = rng.integers(1, 1000, (n, 3)).astype(dtype)
        if n >= 2:
            rows[n // 2] = 0
        return (rows,)

    return lambda rng: ([one(rng, n) for n in counts],)


GATHER_UNEVEN = Exercise(
    id="collectives/gather-uneven",
    kind="ranks",
    task="On every rank, return the rows of all ranks' matrices, rank 0's first. Each rank has its own number of rows, "
    "possibly none; columns and dtype agree. A row of zeros is a row like any other; `x` stays as it is.",
    names=("gather_rows",),
    setup=_SETUP,
    reference=gather_rows,
    cases=(
        Case("3 ranks, 4 rows each", _rows(4, 4, 4)),
        Case("3 ranks with 3, 1 and 2 rows", _rows(3, 1, 2)),
        Case("int64, no rows on rank 1", _rows(2, 0, 3, dtype=np.int64)),
    ),
    probe=Probe("ranks", {}),
    misconceptions=(
        Misconception(
            id="takes-lengths-for-equal",
            specimen=_takes_lengths_for_equal,
            says="You make room for every rank by your own length. all_gather wants one shape on all ranks, and here "
            "they differ.",
            next="Let the ranks tell each other how many rows they have, before any rows travel.",
        ),
        Misconception(
            id="keeps-the-padding",
            specimen=_keeps_the_padding,
            says="The rows you added to make all shapes equal are still in the result.",
            next="How many rows of each part are real? Their rank knows: that number has to travel too.",
        ),
        Misconception(
            id="takes-zero-rows-for-padding",
            specimen=_takes_zero_rows_for_padding,
            says="You throw out every row of zeros, also those that a rank really had.",
            next="Cut each part by its rank's count, not by what its rows look like.",
        ),
        Misconception(
            id="cuts-to-the-shortest",
            specimen=_cuts_to_the_shortest,
            says="You made all shapes equal by cutting to the shortest, so rows are lost, and with one empty rank all "
            "of them.",
            next="Make every part as long as the longest instead, and cut after the exchange.",
        ),
        Misconception(
            id="cuts-to-its-own-length",
            specimen=_cuts_to_its_own_length,
            says="You cut every part to this rank's own length, so that ranks come back with different results.",
            next="Each part has its own count: the one of the rank it came from.",
        ),
        Misconception(
            id="all-becomes-float",
            specimen=_all_becomes_float,
            says="`torch.zeros` without a dtype makes float32, and whole numbers stored in it come back as floats.",
            next="Make the padded buffer with the dtype of x; `x.new_zeros` does that.",
        ),
        Misconception(
            id="only-rank-0-has-them",
            specimen=_only_rank_0_has_them,
            says="You gather to rank 0 only; the other ranks return what they came with.",
            next="Which collective gives the parts to every rank?",
        ),
    ),
    hints=(
        "Two exchanges: first how many rows each rank has, then the rows in buffers of one common shape.",
        "Pad to the largest count, all_gather, cut every part back to its rank's count, and concatenate.",
    ),
    core=False,
    level=3,
    minutes=9,
    source=_DOC,
)
