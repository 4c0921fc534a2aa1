"""Lesson 15: an all-reduce built by hand, from messages between neighbours."""

from typing import TYPE_CHECKING

from labsupport.course import Case, Exercise, Misconception, Probe

if TYPE_CHECKING:  # an answer imports them itself; reading the course's exercises must not cost a second
    import torch
    import torch.distributed as dist

__all__ = ["RING_ALL_REDUCE"]

_RING_DOC = "https://www.cs.fsu.edu/~xyuan/paper/09jpdc.pdf (Patarasuk and Yuan, 2009), read 2026-11"


def ring_all_reduce(x):
    """Return the sum of all ranks' `x`, (n,), having sent 2 (N - 1) chunks of about n / N numbers to the right."""
    rank, n_ranks = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % n_ranks, (rank - 1) % n_ranks
    total = x.clone()
    chunks = total.tensor_split(n_ranks)  # views of total; lengths differ by one at most, and may be 0
    for step in range(2 * (n_ranks - 1)):
        outgoing, target = chunks[(rank - step) % n_ranks], chunks[(rank - step - 1) % n_ranks]
        incoming = torch.empty_like(target)
        sending = dist.isend(outgoing, right)  # under way while this rank receives: nobody waits for a turn
        dist.recv(incoming, left)
        sending.wait()
        if step < n_ranks - 1:
            target += incoming  # reduce-scatter: one more rank's numbers are in it
        else:
            target.copy_(incoming)  # all-gather: it is complete already
    return total


def _only_reduce_scatter(x):
    rank, n_ranks = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % n_ranks, (rank - 1) % n_ranks
    total = x.clone()
    chunks = total.tensor_split(n_ranks)
    for step in range(n_ranks - 1):
        target = chunks[(rank - step - 1) % n_ranks]
        incoming = torch.empty_like(target)
        sending = dist.isend(chunks[(rank - step) % n_ranks], right)
        dist.recv(incoming, left)
        sending.wait()
        target += incoming
    return total


def _adds_to_the_end(x):
    rank, n_ranks = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % n_ranks, (rank - 1) % n_ranks
    total = x.clone()
    chunks = total.tensor_split(n_ranks)
    for step in range(2 * (n_ranks - 1)):
        target = chunks[(rank - step - 1) % n_ranks]
        incoming = torch.empty_like(target)
        sending = dist.isend(chunks[(rank - step) % n_ranks], right)
        dist.recv(incoming, left)
        sending.wait()
        target += incoming
    return total


def _own_chunk_every_time(x):
    rank, n_ranks = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % n_ranks, (rank - 1) % n_ranks
    total = x.clone()
    chunks = total.tensor_split(n_ranks)
    for step in range(2 * (n_ranks - 1)):
        target = chunks[(rank - 1) % n_ranks]
        incoming = torch.empty_like(target)
        sending = dist.isend(chunks[rank], right)
        dist.recv(incoming, left)
        sending.wait()
        if step < n_ranks - 1:
            target += incoming
        else:
            target.copy_(incoming)
    return total


def _phase_two_from_its_own_chunk(x):
    rank, n_ranks = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % n_ranks, (rank - 1) % n_ranks
    total = x.clone()
    chunks = total.tensor_split(n_ranks)
    for phase in range(2):
        for step in range(n_ranks - 1):
            target = chunks[(rank - step - 1) % n_ranks]
            incoming = torch.empty_like(target)
            sending = dist.isend(chunks[(rank - step) % n_ranks], right)
            dist.recv(incoming, left)
            sending.wait()
            if phase == 0:
                target += incoming
            else:
                target.copy_(incoming)
    return total


def _remainder_left_out(x):
    rank, n_ranks = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % n_ranks, (rank - 1) % n_ranks
    total = x.clone()
    length = len(x) // n_ranks
    chunks = [total[k * length : (k + 1) * length] for k in range(n_ranks)]
    for step in range(2 * (n_ranks - 1)):
        target = chunks[(rank - step - 1) % n_ranks]
        incoming = torch.empty_like(target)
        sending = dist.isend(chunks[(rank - step) % n_ranks], right)
        dist.recv(incoming, left)
        sending.wait()
        if step < n_ranks - 1:
            target += incoming
        else:
            target.copy_(incoming)
    return total


def _everybody_sends_first(x):
    rank, n_ranks = dist.get_rank(), dist.get_world_size()
    total = x.clone()
    chunks = total.tensor_split(n_ranks)
    for step in range(2 * (n_ranks - 1)):
        target = chunks[(rank - step - 1) % n_ranks]
        incoming = torch.empty_like(target)
        dist.send(chunks[(rank - step) % n_ranks], (rank + 1) % n_ranks)
        dist.recv(incoming, (rank - 1) % n_ranks)
        if step < n_ranks - 1:
            target += incoming
        else:
            target.copy_(incoming)
    return total


def _one_step_short(x):
    rank, n_ranks = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % n_ranks, (rank - 1) % n_ranks
    total = x.clone()
    chunks = total.tensor_split(n_ranks)
    for step in range(2 * (n_ranks - 1) - 1):
        target = chunks[(rank - step - 1) % n_ranks]
        incoming = torch.empty_like(target)
        sending = dist.isend(chunks[(rank - step) % n_ranks], right)
        dist.recv(incoming, left)
        sending.wait()
        if step < n_ranks - 1:
            target += incoming
        else:
            target.copy_(incoming)
    return total


def _everybody_receives_first(x):
    rank, n_ranks = dist.get_rank(), dist.get_world_size()
    total = x.clone()
    chunks = total.tensor_split(n_ranks)
    for step in range(2 * (n_ranks - 1)):
        target = chunks[(rank - step - 1) % n_ranks]
        incoming = torch.empty_like(target)
        dist.recv(incoming, (rank - 1) % n_ranks)
        dist.send(chunks[(rank - step) % n_ranks], (rank + 1) % n_ranks)
        if step < n_ranks - 1:
            target += incoming
        else:
            target.copy_(incoming)
    return total


def _whole_vectors(x):
    rank, n_ranks = dist.get_rank(), dist.get_world_size()
    total, passing = x.clone(), x.clone()
    for _ in range(n_ranks - 1):
        incoming = torch.empty_like(x)
        sending = dist.isend(passing, (rank + 1) % n_ranks)
        dist.recv(incoming, (rank - 1) % n_ranks)
        sending.wait()
        total += incoming
        passing = incoming
    return total


def _all_through_rank_0(x):
    rank, n_ranks = dist.get_rank(), dist.get_world_size()
    total = x.clone()
    if rank == 0:
        for other in range(1, n_ranks):
            incoming = torch.empty_like(x)
            dist.recv(incoming, other)
            total += incoming
        for other in range(1, n_ranks):
            dist.send(total, other)
    else:
        dist.send(total, 0)
        dist.recv(total, 0)
    return total


def _one_after_another(x):
    rank, n_ranks = dist.get_rank(), dist.get_world_size()
    total = x.clone()
    if rank > 0:
        incoming = torch.empty_like(x)
        dist.recv(incoming, rank - 1)
        total += incoming
    if rank < n_ranks - 1:
        dist.send(total, rank + 1)
        dist.recv(total, rank + 1)
    if rank > 0:
        dist.send(total, rank - 1)
    return total


def _in_the_input(x):
    rank, n_ranks = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % n_ranks, (rank - 1) % n_ranks
    chunks = x.tensor_split(n_ranks)
    for step in range(2 * (n_ranks - 1)):
        target = chunks[(rank - step - 1) % n_ranks]
        incoming = torch.empty_like(target)
        sending = dist.isend(chunks[(rank - step) % n_ranks], right)
        dist.recv(incoming, left)
        sending.wait()
        if step < n_ranks - 1:
            target += incoming
        else:
            target.copy_(incoming)
    return x


def _asks_the_library(x):
    total = x.clone()
    dist.all_reduce(total)
    return total


def _vectors(n_ranks, length):
    return lambda rng: ([(rng.normal(size=length),) for _ in range(n_ranks)],)


RING_ALL_REDUCE = Exercise(
    id="collectives/ring-all-reduce",
    kind="ranks",
    task="Return the sum of all ranks' x (one axis, float64, any length) on every rank, by messages between neighbours "
    "on a ring: each rank sends to the right and receives from the left, one chunk at a time. `x` stays as it is. "
    "With 4 ranks and 1,000 numbers, a rank sends at most 12,000 bytes. Not allowed: collectives.",
    names=("ring_all_reduce",),
    setup="import torch\nimport torch.distributed as dist",
    reference=ring_all_reduce,
    cases=(
        Case("4 ranks, 1,000 numbers", _vectors(4, 1000)),
        Case("4 ranks, 10 numbers: chunks of 3, 3, 2 and 2", _vectors(4, 10)),
        Case("4 ranks, 3 numbers: one chunk is empty", _vectors(4, 3)),
        Case("3 ranks, 7 numbers", _vectors(3, 7)),
    ),
    probe=Probe(
        "ranks",
        {
            "max_sent": 12_000,
            "max_collectives": {"all_reduce": 0, "all_gather": 0, "reduce_scatter": 0, "reduce": 0, "broadcast": 0},
        },
    ),
    misconceptions=(
        Misconception(
            id="only-reduce-scatter",
            specimen=_only_reduce_scatter,
            says="You stop after N - 1 steps. Each rank then has one finished chunk, the one with the number of its "
            "right neighbour, and leftovers in the rest.",
            next="Every finished chunk has to travel once more round the ring.",
        ),
        Misconception(
            id="one-step-short",
            specimen=_one_step_short,
            says="You stop one step too early: on every rank one chunk is still waiting for its finished sum.",
            next="How many steps has a round in which every chunk visits all other ranks? How many rounds are there?",
        ),
        Misconception(
            id="adds-to-the-end",
            specimen=_adds_to_the_end,
            says="You go on adding in the second half. The chunks that arrive there are complete, and yours is counted "
            "again.",
            next="After N - 1 steps: replace what is there instead of adding to it.",
        ),
        Misconception(
            id="same-chunk-every-step",
            specimen=_own_chunk_every_time,
            says="You send the same chunk at every step. What a rank has just received and added is what its neighbour "
            "is waiting for.",
            next="Send at step s + 1 the chunk you received at step s: which number has it?",
        ),
        Misconception(
            id="starts-over-in-phase-two",
            specimen=_phase_two_from_its_own_chunk,
            says="Your second half starts with chunk `rank` again. The chunk this rank has finished is another one.",
            next="Write down, for rank 0 of 4, which chunk arrives at steps 0, 1 and 2. The last is complete.",
        ),
        Misconception(
            id="leaves-out-the-remainder",
            specimen=_remainder_left_out,
            says="`n // N` numbers per chunk leave some at the end that belong to no chunk and are never added.",
            next="Let chunks differ by one number; `tensor_split` does that.",
        ),
        Misconception(
            id="everybody-in-the-same-call",
            specimen=_everybody_sends_first,
            says="All ranks stand in `send`, which returns once the neighbour receives. Nobody receives.",
            next="Start one of the two with `isend` or `irecv`, do the other, then wait for the first.",
        ),
        Misconception(
            id="everybody-receives-first",
            specimen=_everybody_receives_first,
            says="All ranks stand in `recv`, which returns once the neighbour sends. Nobody has sent yet.",
            next="Start the sending with `isend`, receive, then wait for the handle.",
        ),
        Misconception(
            id="whole-vectors",
            specimen=_whole_vectors,
            says="The sum is right, but whole vectors travel: N - 1 times n numbers from every rank, more with each "
            "rank that joins.",
            next="Cut the vector into N chunks, and let each rank add up only one of them.",
        ),
        Misconception(
            id="all-through-rank-0",
            specimen=_all_through_rank_0,
            says="The sum is right, but rank 0 receives and sends everything, while the others wait for it.",
            next="Give each rank one chunk to add up, and use only the two neighbours.",
        ),
        Misconception(
            id="one-after-another",
            specimen=_one_after_another,
            says="The sum is right, but each rank waits for the one before it and then sends the whole vector: nothing "
            "overlaps.",
            next="With N chunks all ranks can send at every step, each another one.",
        ),
        Misconception(
            id="works-in-the-input",
            specimen=_in_the_input,
            says="The sum is right, but it is built in the caller's own tensor.",
            next="Begin with a clone of x.",
        ),
        Misconception(
            id="asks-the-library",
            specimen=_asks_the_library,
            says="That is the library's own collective. Here you build it from messages between two ranks.",
            next="Use `isend` and `recv`, or `batch_isend_irecv`.",
        ),
    ),
    hints=(
        "Cut x into N chunks. At step s, rank r sends chunk r - s and receives chunk r - s - 1, all modulo N.",
        "For N - 1 steps add what arrives; after that each rank holds one finished chunk. For N - 1 more steps, copy.",
        "One step: `w = dist.isend(outgoing, right)`, `dist.recv(incoming, left)`, `w.wait()`.",
    ),
    core=True,
    level=4,
    minutes=16,
    source=_RING_DOC,
)
