"""Calls and ranks in words."""

__all__ = ["call_in_words", "line_in_words", "named", "ranks_in_words", "shapes_in_words"]


def ranks_in_words(ranks):
    """Return "rank 2", "ranks 0, 1, 3" or "ranks 0-7"."""
    ranks = sorted(ranks)
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) > 3 and ranks == list(range(ranks[0], ranks[-1] + 1)):
        return f"ranks {ranks[0]}-{ranks[-1]}"
    return "ranks " + ", ".join(map(str, ranks))


def shapes_in_words(shapes):
    """Return "[3, 2]"; of several tensors the first, and how many more."""
    if not shapes:
        return ""
    first = str(list(shapes[0]))
    return first if len(shapes) == 1 else f"{first} and {len(shapes) - 1} more"


def named(call):
    """Return "all_reduce [7]", or "send [7] to rank 1"."""
    words = " ".join(part for part in (call.op, shapes_in_words(call.shapes)) if part)
    if call.pair:
        peer = "any rank" if call.peer is None else f"rank {call.peer}"
        words += f" {'to' if call.way == 'dst' else 'from'} {peer}" + (f", tag {call.tag}" if call.tag else "")
    return words


def call_in_words(call, n_ranks=None):
    """Return "collective 4 (all_reduce [7])", with the group's ranks when those are not all `n_ranks`."""
    if call.pair or call.setup:
        return named(call)
    by_torch = ", called by torch" if call.origin == "torch" else ""
    own = n_ranks is not None and call.members is not None and len(call.members) < n_ranks
    group = f" of the group of {ranks_in_words(call.members)}" if own else ""
    return f"collective {call.number} ({named(call)}{by_torch}){group}"


def line_in_words(lineno, line=""):
    """Return "line 9", with the line's text when that is short."""
    if lineno is None:
        return ""
    return f"line {lineno}" + (f": `{line}`" if line and len(line) <= 60 and "`" not in line else "")
