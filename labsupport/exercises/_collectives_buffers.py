"""Lesson 15, mending: which memory a collective writes into, and which it reads."""

from typing import TYPE_CHECKING

import numpy as np

from labsupport.course import Case, Exercise, Misconception, Probe

if TYPE_CHECKING:  # an answer imports them itself; reading the course's exercises must not cost a second
    import torch
    import torch.distributed as dist

__all__ = ["COLUMN_VIEW", "ONE_BUFFER"]

_DOC = "https://docs.pytorch.org/docs/2.13/distributed.html, read 2026-11"
_VIEWS_ISSUE = "https://github.com/pytorch/pytorch/issues/192920, read 2026-11"
_SETUP = "import torch\nimport torch.distributed as dist"


# -- one-buffer


def gather_scores(score):
    """Return the scores of all ranks, (rank, class), on every rank."""
    gathered = [torch.empty_like(score) for _ in range(dist.get_world_size())]  # one buffer per rank
    dist.all_gather(gathered, score)
    return torch.stack(gathered)


def _one_buffer(score):
    buffer = torch.empty_like(score)
    gathered = []
    for _ in range(dist.get_world_size()):
        gathered.append(buffer)
    dist.all_gather(gathered, score)
    return torch.stack(gathered)


def _the_score_is_the_buffer(score):
    gathered = [score] * dist.get_world_size()
    dist.all_gather(gathered, score)
    return torch.stack(gathered)


def _own_row_only(score):
    gathered = score.new_zeros(dist.get_world_size(), len(score))
    gathered[dist.get_rank()] = score
    return gathered


def _adds_instead_of_gathering(score):
    gathered = score.expand(dist.get_world_size(), -1).contiguous()
    dist.all_reduce(gathered)
    return gathered


def _gathers_to_rank_0(score):
    rank = dist.get_rank()
    gathered = [torch.empty_like(score) for _ in range(dist.get_world_size())] if rank == 0 else None
    dist.gather(score, gathered, dst=0)
    return torch.stack(gathered) if rank == 0 else None


def _hands_back_the_list(score):
    gathered = [torch.empty_like(score) for _ in range(dist.get_world_size())]
    dist.all_gather(gathered, score)
    return gathered


def _rows_end_to_end(score):
    gathered = [torch.empty_like(score) for _ in range(dist.get_world_size())]
    dist.all_gather(gathered, score)
    return torch.cat(gathered)


def _vectors(n_ranks, length, dtype=np.float32):
    return lambda rng: ([(rng.permutation(50)[:length].astype(dtype) + 50 * rank,) for rank in range(n_ranks)],)


ONE_BUFFER = Exercise(
    id="collectives/one-buffer",
    kind="debug",
    task="Repair gather_scores: it is to return the scores of all ranks, shape (ranks, classes), on every rank. It "
    "returns the same row again and again. `score` stays as it is.",
    names=("gather_scores",),
    setup=_SETUP,
    reference=gather_scores,
    cases=(
        Case("2 ranks, 3 classes", _vectors(2, 3)),
        Case("3 ranks, 2 classes, int64", _vectors(3, 2, np.int64)),
    ),
    probe=Probe("ranks", {}),
    misconceptions=(
        Misconception(
            id="one-buffer-many-times",
            specimen=_one_buffer,
            says="Your list holds one tensor several times. Every rank's scores are written into it, one over the "
            "other, and the last ones are all you see.",
            next="Ask `gathered[0] is gathered[1]`. A list comprehension that makes a new tensor each time "
            "gives False.",
        ),
        Misconception(
            id="gathers-into-the-input",
            specimen=_the_score_is_the_buffer,
            says="You hand in the rank's own score as the place for everybody's: it is overwritten, for the "
            "caller too.",
            next="Every rank's part needs memory of its own, and `score` needs to keep its own as well.",
        ),
        Misconception(
            id="own-row-only",
            specimen=_own_row_only,
            says="Each rank fills in its own row, and the others stay empty: nothing has been sent.",
            next="Rows of other ranks arrive by a collective only.",
        ),
        Misconception(
            id="adds-instead-of-gathering",
            specimen=_adds_instead_of_gathering,
            says="all_reduce adds the ranks' scores up, so that all rows are their sum. Gathering keeps them apart.",
            next="Keep all_gather, and look at the list it writes into.",
        ),
        Misconception(
            id="only-rank-0-has-them",
            specimen=_gathers_to_rank_0,
            says="Rank 0 has all scores, the other ranks return None. They were asked for on every rank.",
            next="Which collective gives the parts to all, and not to one destination?",
        ),
        Misconception(
            id="hands-back-the-list",
            specimen=_hands_back_the_list,
            says="The parts are right, but you return them as a list.",
            next="Stack them: one tensor, rank as the first axis.",
        ),
        Misconception(
            id="rows-end-to-end",
            specimen=_rows_end_to_end,
            says="The ranks' scores form one long row: they are joined along the axis of the classes, as by `cat`.",
            next="The rank needs an axis of its own: `stack` makes one, so does `reshape`.",
        ),
    ),
    hints=(
        "How many tensors does `[buffer] * 3` make? Count with `len({id(t) for t in gathered})`.",
        "Make a new empty tensor for each rank, inside the list.",
    ),
    core=False,
    level=2,
    minutes=5,
    source=_DOC,
)


# -- column-view


def share_column(m, column):
    """Add up column `column` of `m` over all ranks, in place; return `m`."""
    total = m[:, column].contiguous()  # side by side, as gloo will read them
    dist.all_reduce(total)
    m[:, column] = total
    return m


def _hands_over_the_view(m, column):
    view = m[:, column]
    dist.all_reduce(view)
    m[:, column] = view
    return m


def _makes_the_matrix_contiguous(m, column):
    m = m.contiguous()
    dist.all_reduce(m[:, column])
    return m


def _never_writes_back(m, column):
    total = m[:, column].clone()
    dist.all_reduce(total)
    return m


def _writes_back_by_luck(m, column):
    dist.all_reduce(m[:, column].contiguous())
    return m


def _hands_over_the_matrix(m, column):
    dist.all_reduce(m)
    return m


def _reduces_every_column(m, column):
    total = m.contiguous()
    dist.all_reduce(total)
    m[:] = total
    return m


def _works_on_a_copy(m, column):
    m = m.clone()
    total = m[:, column].contiguous()
    dist.all_reduce(total)
    m[:, column] = total
    return m


def _returns_the_column(m, column):
    total = m[:, column].contiguous()
    dist.all_reduce(total)
    m[:, column] = total
    return total


def _reduces_the_row(m, column):
    dist.all_reduce(m[column])
    return m


def _matrices(change, column=1):
    """Return a maker: two ranks, 4 x 4 float64 each; `change(rank, m)` sets the layout."""
    return lambda rng: ([(change(rank, rng.uniform(1, 9, (4, 4))), column) for rank in range(2)],)


COLUMN_VIEW = Exercise(
    id="collectives/column-view",
    kind="debug",
    task="Repair share_column: it is to add up one column of `m` over all ranks, in place, whatever the strides of `m` "
    "are on each rank, and to return `m`. It runs, and changes elements nobody asked for.",
    names=("share_column",),
    setup=_SETUP,
    reference=share_column,
    cases=(
        Case("4 x 4, row after row", _matrices(lambda rank, m: m)),
        Case("4 x 4, column after column on rank 1", _matrices(lambda rank, m: m.T if rank else m, column=2)),
        Case("every second row of a taller matrix", _matrices(lambda rank, m: np.repeat(m, 2, axis=0)[::2], column=0)),
    ),
    probe=Probe("ranks", {}),
    misconceptions=(
        Misconception(
            id="hands-over-the-view",
            specimen=_hands_over_the_view,
            says="Gloo takes the address of the column and its number of elements, and not its strides: it adds up the "
            "bytes that follow, which belong to a row.",
            next="What must be true of four numbers before somebody may read them one after another?",
        ),
        Misconception(
            id="makes-the-matrix-contiguous",
            specimen=_makes_the_matrix_contiguous,
            says="You made the matrix contiguous. Its columns are still strided views, and only a column is "
            "handed over.",
            next="Which tensor does gloo see: m, or m[:, column]?",
        ),
        Misconception(
            id="never-writes-back",
            specimen=_never_writes_back,
            says="The m you return is as it was: whatever was added up never came back into it. A reduced copy of the "
            "column is not yet a column of m.",
            next="Assign it: `m[:, column] = ...`.",
        ),
        Misconception(
            id="writes-back-by-luck",
            specimen=_writes_back_by_luck,
            says="`.contiguous()` makes a copy only where it has to. There the sum stays in the copy; only where the "
            "column lies in one piece already was it m's own memory.",
            next="Keep the tensor you reduce under a name, and assign it to the column, whatever the strides are.",
        ),
        Misconception(
            id="hands-over-the-matrix",
            specimen=_hands_over_the_matrix,
            says="You hand over all of m: every column is added up, and where m is strided, gloo pairs up elements "
            "that do not belong together.",
            next="Take out the one column, as a contiguous copy, reduce it, and put it back.",
        ),
        Misconception(
            id="reduces-every-column",
            specimen=_reduces_every_column,
            says="You add up all columns. Only one was asked for, and the others travel for nothing.",
            next="Take the column out, reduce it, put it back.",
        ),
        Misconception(
            id="works-on-a-copy",
            specimen=_works_on_a_copy,
            says="You return the right values in a new matrix; the caller's own still has its old column.",
            next="Only the column needs a copy; write it back into the m you were given.",
        ),
        Misconception(
            id="returns-the-column",
            specimen=_returns_the_column,
            says="The matrix is changed as asked, but you return the column alone.",
            next="End with `return m`.",
        ),
        Misconception(
            id="reduces-the-row",
            specimen=_reduces_the_row,
            says="`m[column]` is a row, and what was asked for is a column.",
            next="A column is `m[:, column]`; make a contiguous copy of it.",
        ),
    ),
    hints=(
        "Look at `m[:, column].stride()` and `.is_contiguous()`, then at which elements changed.",
        "Three lines: a contiguous copy, all_reduce, and write back.",
    ),
    core=True,
    level=3,
    minutes=6,
    source=_VIEWS_ISSUE,
)
