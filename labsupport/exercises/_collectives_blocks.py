"""Lesson 15, transfer: a matrix that is cut into rows becomes one that is cut into columns."""

from typing import TYPE_CHECKING

from labsupport.course import Case, Exercise, Misconception, Probe

if TYPE_CHECKING:  # an answer imports them itself; reading the course's exercises must not cost a second
    import torch
    import torch.distributed as dist

__all__ = ["ROWS_TO_COLUMNS"]

_DOC = "https://docs.pytorch.org/docs/2.13/distributed.html#torch.distributed.all_to_all_single, read 2026-11"


def rows_to_columns(x):
    """Return this rank's columns of the whole matrix, (N * rows, columns / N), given its rows, (rows, columns)."""
    blocks = [block.contiguous() for block in x.chunk(dist.get_world_size(), dim=1)]  # (rows, columns / N) per rank
    arrived = [torch.empty_like(block) for block in blocks]
    dist.all_to_all(arrived, blocks)
    return torch.cat(arrived)  # rank 0's rows above


def _everything_to_everybody(x):
    rank, n_ranks = dist.get_rank(), dist.get_world_size()
    parts = [torch.empty_like(x) for _ in range(n_ranks)]
    dist.all_gather(parts, x)
    return torch.cat(parts).chunk(n_ranks, dim=1)[rank].contiguous()


def _cut_in_memory_order(x):
    arrived = torch.empty_like(x)
    dist.all_to_all_single(arrived, x)
    return arrived.reshape(-1, x.shape[1] // dist.get_world_size())


def _blocks_side_by_side(x):
    blocks = [block.contiguous() for block in x.chunk(dist.get_world_size(), dim=1)]
    arrived = [torch.empty_like(block) for block in blocks]
    dist.all_to_all(arrived, blocks)
    return torch.cat(arrived, dim=1)


def _own_block_only(x):
    return x.chunk(dist.get_world_size(), dim=1)[dist.get_rank()].contiguous()


def _transposed(x):
    blocks = [block.T.contiguous() for block in x.chunk(dist.get_world_size(), dim=1)]
    arrived = [torch.empty_like(block) for block in blocks]
    dist.all_to_all(arrived, blocks)
    return torch.cat(arrived, dim=1)


def _hands_over_a_strided_view(x):
    n_ranks = dist.get_world_size()
    turned = x.reshape(len(x), n_ranks, -1).transpose(0, 1)
    arrived = torch.empty(turned.shape, dtype=x.dtype)
    dist.all_to_all_single(arrived, turned)
    return arrived.reshape(-1, turned.shape[2])


def _own_block_first(x):
    rank, n_ranks = dist.get_rank(), dist.get_world_size()
    blocks = [block.contiguous() for block in x.chunk(n_ranks, dim=1)]
    arrived = [torch.empty_like(block) for block in blocks]
    dist.all_to_all(arrived, blocks)
    others = [block for other, block in enumerate(arrived) if other != rank]
    return torch.cat([arrived[rank], *others])


def _matrices(n_ranks, rows, columns):
    return lambda rng: ([(rng.normal(size=(rows, columns)),) for _ in range(n_ranks)],)


ROWS_TO_COLUMNS = Exercise(
    id="collectives/rows-to-columns",
    kind="ranks",
    task="A matrix is cut into N equal blocks of rows; each of N ranks has one of them, (rows, columns), "
    "and N divides the columns. Return this rank's block of columns of the whole matrix, (N * rows, columns / N). With "
    "3 ranks and 20 x 60 float64 each, a rank sends at most 6,400 bytes to others. `x` stays as it is.",
    names=("rows_to_columns",),
    setup="import torch\nimport torch.distributed as dist",
    reference=rows_to_columns,
    cases=(
        Case("3 ranks, 2 x 6 each", _matrices(3, 2, 6)),
        Case("3 ranks, 1 x 3 each", _matrices(3, 1, 3)),
        Case("3 ranks, 20 x 60 each", _matrices(3, 20, 60)),
    ),
    probe=Probe("ranks", {"max_sent": 6_400}),
    misconceptions=(
        Misconception(
            id="everything-to-everybody",
            specimen=_everything_to_everybody,
            says="The block is right, but every rank was sent the whole matrix and threw most of it away.",
            next="Which collective gives each rank a different part of what another rank holds?",
        ),
        Misconception(
            id="cut-in-memory-order",
            specimen=_cut_in_memory_order,
            says="all_to_all_single cuts along the first axis, in memory order: your ranks exchange rows. A block of "
            "columns is spread over all rows.",
            next="Bring the columns of one destination together before you send them.",
        ),
        Misconception(
            id="blocks-side-by-side",
            specimen=_blocks_side_by_side,
            says="The right blocks have arrived, but you put them side by side. They are rows of the same columns.",
            next="Which rank's rows stand above which in the whole matrix?",
        ),
        Misconception(
            id="own-block-only",
            specimen=_own_block_only,
            says="You return this rank's columns of its own rows. The other ranks' rows have to be fetched.",
            next="Each rank keeps one block and sends the others away.",
        ),
        Misconception(
            id="transposed",
            specimen=_transposed,
            says="You transposed the blocks: rows have become columns. Only the cut was to change, not the matrix.",
            next="Element [i, j] of the whole matrix keeps its row and its column.",
        ),
        Misconception(
            id="hands-over-a-strided-view",
            specimen=_hands_over_a_strided_view,
            says="What you hand over does not lie in memory one number after another: `transpose`, `permute` and "
            "slices only change strides. all_to_all_single refuses that; all_reduce would have read it wrongly "
            "without a word.",
            next="A contiguous copy, before the call.",
        ),
        Misconception(
            id="own-block-first",
            specimen=_own_block_first,
            says="You put this rank's own rows on top. Rows are ordered by rank, the same way everywhere.",
            next="Concatenate the blocks in the order in which they arrived.",
        ),
    ),
    hints=(
        "Cut your rows into one block of columns per rank. Block k belongs to rank k.",
        "`dist.all_to_all(arrived, blocks)` sends blocks[k] to rank k; arrived[k] came from rank k.",
    ),
    core=False,
    level=4,
    minutes=8,
    source=_DOC,
)
