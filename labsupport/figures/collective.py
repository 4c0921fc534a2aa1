"""The collective player: ranks, chunks and messages of a collective, simulated step by step or recorded from a run."""

from labsupport.errors import LabError
from labsupport.figures.collective_given import plan_for
from labsupport.figures.collective_player import player_of
from labsupport.figures.figure import told

__all__ = ["draw"]


@told(
    'lab.show("collective", "ring_all_reduce", ranks=4), or a list of arrays, one for each rank, or a record of a run'
)
def draw(what, values=None, *, ranks=None, algorithm=None, root=0, op="sum", buffer_bytes=None, **state):
    """Return the player of one collective.

    Args:
        what: "all_reduce", "broadcast", "reduce", "gather", "scatter", "all_gather", "reduce_scatter" or "all_to_all",
            with the algorithm before it if you like: "ring_all_reduce", "tree_all_reduce", "naive_all_reduce",
            "flat_broadcast". Or a `Moves` that you have played, or the record of a `%%torchrun` job.
        values: a list of arrays or tensors of one shape and dtype, one for each rank: what the rank passes to the
            collective (for scatter: what it gets). Made up when None.
        ranks: 2 to 8, when there are no values; 4 when None.
        algorithm: "ring", "tree" or "naive" for all_reduce, "tree" or "flat" for broadcast and reduce.
        root: the rank that gives or receives, where there is one.
        op: "sum", "product", "max" or "min".
        buffer_bytes: the size of each rank's buffer, to see the traffic of a larger one than the values fill.
        state: step, code, table, predict: what is set at first.

    Raises:
        LabError: an unknown name, unequal values, or a number of ranks that is not drawn.
    """
    if not isinstance(what, str):
        from labsupport.figures import collective_record, moves

        given = {"values": values, "ranks": ranks, "algorithm": algorithm, "buffer_bytes": buffer_bytes}
        if extra := [name for name, value in given.items() if value is not None]:
            raise LabError(f"{extra[0]} is for a collective named in words", next_step="leave it out here")
        player = moves.figure if isinstance(what, moves.Moves) else collective_record.figure
        return player(what, **state)
    plan = plan_for(what, algorithm, values, ranks=ranks, root=root, op=op, buffer_bytes=buffer_bytes)
    return player_of(plan, made_up=values is None, **state)
