"""Whether ranks are in step: as many calls of each kind, or one of them is ahead."""

__all__ = ["out_of_step"]


def out_of_step(counts, world):
    """Return how the ranks' calls of one cell differ, as a clause, or "".

    Args:
        counts: {rank: ({kind: number}, {group: members})}, as `held_rank.counts_of` counts.
        world: number of ranks, who are the members where nobody knows better.
    """
    kinds = {kind for own, _ in counts.values() for kind in own if kind.startswith("group: ")}
    known = {group: members for _, groups in counts.values() for group, members in groups.items()}
    for kind in sorted(kinds):
        members = [rank for rank in known.get(kind, range(world)) if rank in counts]
        numbers = {rank: counts[rank][0].get(kind, 0) for rank in members}
        if len(set(numbers.values())) > 1:
            most, least = max(numbers, key=numbers.get), min(numbers, key=numbers.get)
            return (
                f"its ranks are out of step: in this cell rank {most} called {numbers[most]} "
                f"collective{'s'[: numbers[most] != 1]} "
                f"and rank {least} only {numbers[least]}"
            )
    return _pairs_out_of_step(counts)


def _pairs_out_of_step(counts):
    pairs = [(kind, *kind.split()[-3::2]) for own, _ in counts.values() for kind in own if kind.startswith("pair: ")]
    if any("None" in pair for pair in pairs):  # received from whoever came first: nobody can tell which send it was
        return ""
    for kind, sender, receiver in sorted(pairs):
        sent, taken = (counts.get(int(rank), ({}, {}))[0].get(kind, 0) for rank in (sender, receiver))
        if sent != taken:
            return (
                f"its ranks are out of step: rank {sender} sent {_times(sent)} to rank {receiver}, which took {taken}"
            )
    return ""


def _times(number):
    return "once" if number == 1 else f"{number} times"
