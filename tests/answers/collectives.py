"""Right answers to lesson 15 that are written differently from the course's own."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # each answer gets them from its exercise's setup
    import torch
    import torch.distributed as dist

# -- mean-metric


def mean_by_two_calls(losses):
    total, count = losses.sum(), torch.tensor(float(len(losses)), dtype=torch.float64)
    dist.all_reduce(total)
    dist.all_reduce(count)
    return float(total / count)


def mean_by_objects(losses):
    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, (float(losses.sum()), len(losses)))
    return sum(total for total, _ in everyone) / sum(count for _, count in everyone)


def mean_on_rank_0_then_broadcast(losses):
    pair = torch.stack([losses.sum(), torch.tensor(len(losses), dtype=torch.float64)])
    dist.reduce(pair, dst=0)
    dist.broadcast(pair, src=0)
    return (pair[0] / pair[1]).item()


def mean_by_gathering(losses):
    pairs = [torch.zeros(2, dtype=torch.float64) for _ in range(dist.get_world_size())]
    dist.all_gather(pairs, torch.stack([losses.sum(), torch.tensor(len(losses), dtype=torch.float64)]))
    total, count = torch.stack(pairs).sum(dim=0)
    return total.item() / count.item()


# -- one-buffer


def scores_into_one_tensor(score):
    out = score.new_empty(dist.get_world_size() * len(score))
    dist.all_gather_into_tensor(out, score)
    return out.reshape(-1, len(score))


def scores_into_rows(score):
    out = torch.empty(dist.get_world_size(), len(score), dtype=score.dtype)
    dist.all_gather(list(out), score)
    return out


def scores_by_adding_zeros(score):
    out = torch.zeros(dist.get_world_size(), len(score), dtype=score.dtype)
    out[dist.get_rank()] = score
    dist.all_reduce(out)
    return out


# -- gather-uneven


def rows_by_objects(x):
    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, x)
    return torch.cat(everyone)


def rows_by_broadcast(x):
    parts = []
    for rank in range(dist.get_world_size()):
        count = torch.tensor([len(x)])
        dist.broadcast(count, src=rank)
        part = x.clone() if rank == dist.get_rank() else x.new_empty(int(count), x.shape[1])
        dist.broadcast(part, src=rank)
        parts.append(part)
    return torch.cat(parts)


def rows_by_adding_zeros(x):
    rank, n_ranks = dist.get_rank(), dist.get_world_size()
    counts = torch.zeros(n_ranks, dtype=torch.int64)
    counts[rank] = len(x)
    dist.all_reduce(counts)
    ends = counts.cumsum(0).tolist()
    rows = torch.zeros(ends[-1], x.shape[1], dtype=x.dtype)
    rows[ends[rank] - len(x) : ends[rank]] = x
    dist.all_reduce(rows)
    return rows


# -- column-view


def column_by_clone(m, column):
    kept = m[:, column].clone(memory_format=torch.contiguous_format)
    dist.all_reduce(kept)
    m[:, column].copy_(kept)
    return m


def column_by_list(m, column):
    total = torch.tensor(m[:, column].tolist(), dtype=m.dtype)
    dist.all_reduce(total)
    for row, value in enumerate(total):
        m[row, column] = value
    return m


def column_by_gathering(m, column):
    parts = [torch.empty(len(m), dtype=m.dtype) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, m[:, column].contiguous())
    m[:, column] = torch.stack(parts).sum(dim=0)
    return m


# -- order


def totals_in_one_call(metrics):
    names = sorted(metrics)
    values = torch.stack([metrics[name] for name in names])
    dist.all_reduce(values)
    return {name: value for name, value in zip(names, values)}


def totals_in_rank_0s_order(metrics):
    names = list(metrics)
    dist.broadcast_object_list(names, src=0)
    totals = {}
    for name in names:
        totals[name] = metrics[name] * 1
        dist.all_reduce(totals[name])
    return totals


def totals_by_objects(metrics):
    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, metrics)
    return {name: sum(one[name] for one in everyone) for name in metrics}


def totals_by_text(metrics):
    names = sorted(set(metrics), key=str)
    totals = [metrics[name].clone() for name in names]
    for total in totals:
        dist.all_reduce(total)
    return dict(zip(names, totals))


def totals_backwards(metrics):
    totals = {}
    for name in sorted(metrics, reverse=True):
        totals[name] = metrics[name].clone()
        dist.all_reduce(totals[name])
    return totals


# -- stop-together


def steps_by_adding_flags(losses, target):
    for step, loss in enumerate(losses):
        flag = torch.tensor([1.0 if loss < target else 0.0])
        dist.all_reduce(flag)
        if flag.item() > 0:
            return step
        dist.all_reduce(torch.ones(3))
    return len(losses)


def steps_by_the_lowest_loss(losses, target):
    steps = 0
    for loss in losses:
        lowest = loss.clone()
        dist.all_reduce(lowest, op=dist.ReduceOp.MIN)
        if lowest.item() < target:
            break
        dist.all_reduce(torch.ones(3))
        steps += 1
    return steps


def steps_decided_beforehand(losses, target):
    below = (losses < target).to(torch.int64)
    dist.all_reduce(below)
    steps = int((below.cumsum(0) == 0).sum())
    for _ in range(steps):
        dist.all_reduce(torch.ones(3))
    return steps


def steps_by_the_earliest_rank(losses, target):
    below = (losses < target).nonzero()
    first = below[0] if len(below) else torch.tensor([len(losses)])
    dist.all_reduce(first, op=dist.ReduceOp.MIN)
    for _ in range(int(first)):
        dist.all_reduce(torch.ones(3))
    return int(first)


# -- ring-all-reduce


def ring_by_batches(x):
    rank, n = dist.get_rank(), dist.get_world_size()
    parts = [part.clone() for part in x.tensor_split(n)]
    for step in range(2 * n - 2):
        out, at = (rank - step) % n, (rank - step - 1) % n
        arrived = torch.empty_like(parts[at])
        operations = [
            dist.P2POp(dist.isend, parts[out], (rank + 1) % n),
            dist.P2POp(dist.irecv, arrived, (rank - 1) % n),
        ]
        for work in dist.batch_isend_irecv(operations):
            work.wait()
        parts[at] = parts[at] + arrived if step < n - 1 else arrived
    return torch.cat(parts)


def ring_in_turns(x):
    """One rank receives first, so that the chain of blocking sends has an end."""
    rank, n = dist.get_rank(), dist.get_world_size()
    total = x.clone()
    bounds = [len(x) * k // n for k in range(n + 1)]

    def pass_on(out, at):
        outgoing = total[bounds[out] : bounds[out + 1]].clone()
        incoming = torch.empty(bounds[at + 1] - bounds[at], dtype=x.dtype)
        if rank == 0:
            dist.recv(incoming, n - 1)
            dist.send(outgoing, 1)
        else:
            dist.send(outgoing, (rank + 1) % n)
            dist.recv(incoming, rank - 1)
        return incoming

    for step in range(n - 1):
        at = (rank - step - 1) % n
        total[bounds[at] : bounds[at + 1]] += pass_on((rank - step) % n, at)
    for step in range(n - 1):
        at = (rank - step) % n
        total[bounds[at] : bounds[at + 1]] = pass_on((rank + 1 - step) % n, at)
    return total


def ring_that_receives_early(x):
    rank, n = dist.get_rank(), dist.get_world_size()
    length = -(-len(x) // n)  # the last chunks are short, or empty
    total = x.clone()
    chunks = [total[k * length : (k + 1) * length] for k in range(n)]
    for step in range(2 * (n - 1)):
        target = chunks[(rank - step - 1) % n]
        incoming = torch.empty_like(target)
        receiving = dist.irecv(incoming, (rank - 1) % n)
        dist.send(chunks[(rank - step) % n], (rank + 1) % n)
        receiving.wait()
        target.copy_(incoming if step >= n - 1 else target + incoming)
    return total


# -- ring-cost


def cost_in_two_rounds(n_ranks, size_bytes, seconds):
    one_round = n_ranks - 1
    chunk = size_bytes / n_ranks
    sent = sum(chunk for _ in range(one_round)) + sum(chunk for _ in range(one_round))
    return one_round * 2, float(sent), float(sent) / seconds


def cost_by_nccl_tests(n_ranks, size_bytes, seconds):
    algorithm_bandwidth = size_bytes / seconds
    factor = 2 * (n_ranks - 1) / n_ranks
    return 2 * n_ranks - 2, factor * size_bytes, algorithm_bandwidth * factor


def cost_with_an_exit(n_ranks, size_bytes, seconds):
    if n_ranks == 1:
        return 0, 0, 0
    sent = 2 * (n_ranks - 1) * (size_bytes // n_ranks)
    return 2 * (n_ranks - 1), sent, sent / seconds


# -- rows-to-columns


def columns_by_one_tensor(x):
    n_ranks = dist.get_world_size()
    turned = x.reshape(len(x), n_ranks, -1).transpose(0, 1).contiguous()
    arrived = torch.empty_like(turned)
    dist.all_to_all_single(arrived, turned)
    return arrived.reshape(-1, arrived.shape[2])


def columns_by_messages(x):
    rank, n_ranks = dist.get_rank(), dist.get_world_size()
    blocks = [block.clone(memory_format=torch.contiguous_format) for block in x.chunk(n_ranks, dim=1)]
    arrived = [torch.empty_like(block) if k != rank else block for k, block in enumerate(blocks)]
    sending = [dist.isend(block, k) for k, block in enumerate(blocks) if k != rank]
    for k in range(n_ranks):
        if k != rank:
            dist.recv(arrived[k], k)
    for work in sending:
        work.wait()
    return torch.cat(arrived)


ANSWERS = {
    "collectives/mean-metric": [
        mean_by_two_calls,
        mean_by_objects,
        mean_on_rank_0_then_broadcast,
        mean_by_gathering,
    ],
    "collectives/one-buffer": [scores_into_one_tensor, scores_into_rows, scores_by_adding_zeros],
    "collectives/gather-uneven": [rows_by_objects, rows_by_broadcast, rows_by_adding_zeros],
    "collectives/column-view": [column_by_clone, column_by_list, column_by_gathering],
    "collectives/order": [
        totals_in_one_call,
        totals_in_rank_0s_order,
        totals_by_objects,
        totals_by_text,
        totals_backwards,
    ],
    "collectives/stop-together": [
        steps_by_adding_flags,
        steps_by_the_lowest_loss,
        steps_decided_beforehand,
        steps_by_the_earliest_rank,
    ],
    "collectives/ring-all-reduce": [ring_by_batches, ring_in_turns, ring_that_receives_early],
    "collectives/ring-cost": [cost_in_two_rounds, cost_by_nccl_tests, cost_with_an_exit],
    "collectives/rows-to-columns": [columns_by_one_tensor, columns_by_messages],
}

# A survivor of the mutant test is named here with the reason why it is no mistake.
EQUIVALENT_MUTANTS = {
    (
        "collectives/stop-together",
        "Constant: 3",
    ): "the ones stand for gradients; how many there are is nobody's business",
}
