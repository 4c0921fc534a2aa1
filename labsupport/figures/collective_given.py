"""A collective as somebody asks for it, by name, ranks and values, made into the plan that is played."""

import difflib

import numpy as np

from labsupport.errors import LabError
from labsupport.figures.collective_model import OPS, PLANS, REDUCING, plan_of
from labsupport.figures.figure import whole_number
from labsupport.figures.tensors import is_tensor, numpy_of, with_memory
from labsupport.figures.words import byte_text, join_words, repr_label, tuple_text

__all__ = ["plan_for"]

MOST_RANKS = 8
_FIRST = {}  # the algorithm that is shown when none is named
for _name, _way in PLANS:
    _FIRST.setdefault(_name, _way)
_GATHERING = ("gather", "all_gather", "scatter")  # each rank's array is one chunk


def plan_for(what, algorithm, values, *, ranks=None, root=0, op="sum", buffer_bytes=None):
    """Return the plan of a collective named in words; see `collective.draw`."""
    name, algorithm = _named(what, algorithm)
    if op not in OPS:
        raise LabError(f"op cannot be {repr_label(op, 20)}", next_step=f"one of {', '.join(OPS)}")
    arrays = _arrays(values)
    n = _ranks(ranks, arrays)
    root = whole_number(root, "root")
    if not 0 <= root < n:
        raise LabError(f"there is no rank {root} among {n}", next_step=f"pass a root from 0 to {n - 1}")
    parts = _parts(name, arrays or _made_up(name, n), n, root, all_hold=arrays is not None)
    return plan_of(name, algorithm, parts, root=root, op=op, chunk_bytes=_chunk_bytes(parts, n, buffer_bytes))


def _named(what, algorithm):
    """Return (collective, algorithm) from "ring_all_reduce" or from "all_reduce" and an algorithm."""
    words = what.lower().replace("-", "_").replace(" ", "_")
    for name, way in PLANS:
        if words == f"{way}_{name}" and algorithm in (None, way):
            return name, way
    if words in _FIRST:
        ways = [way for name, way in PLANS if name == words]
        if algorithm is not None and algorithm not in ways:
            raise LabError(f"{words} is not drawn by {repr_label(algorithm, 20)}", next_step=f"pass {join_words(ways)}")
        return words, algorithm or _FIRST[words]
    near = difflib.get_close_matches(words, [*_FIRST, *(f"{w}_{n}" for n, w in PLANS)], 1, 0.5)
    step = f'did you mean "{near[0]}"?' if near else f"one of {', '.join(_FIRST)}"
    raise LabError(f"no collective is called {repr_label(what, 40)}", next_step=step)


def _arrays(values):
    """Return the values of all ranks as flat NumPy arrays, or None. Raises LabError when they are not alike."""
    if values is None:
        return None
    if not isinstance(values, list | tuple):
        raise LabError("values must be a list with one array for each rank", next_step="pass [x0, x1, x2, x3]")
    arrays = [numpy_of(with_memory(v)) if is_tensor(v) else np.asarray(v) for v in values]
    kinds = {(a.shape, str(a.dtype)) for a in arrays}
    if len(kinds) > 1:
        shapes = join_words(f"{tuple_text(shape)} {dtype}" for shape, dtype in sorted(kinds))
        raise LabError(f"the ranks' arrays differ: {shapes}", why="a collective needs one shape and dtype everywhere")
    if arrays and arrays[0].dtype.kind not in "biufc":
        raise LabError(f"a collective moves numbers, not {arrays[0].dtype}")
    return [a.reshape(-1) for a in arrays]


def _ranks(ranks, arrays):
    if arrays is not None and ranks not in (None, len(arrays)):
        raise LabError(
            f"{len(arrays)} arrays for {ranks} ranks", next_step="pass one array for each rank, and no ranks="
        )
    n = whole_number(4 if ranks is None else ranks, "ranks") if arrays is None else len(arrays)
    if not 2 <= n <= MOST_RANKS:
        raise LabError(f"{n} ranks are not drawn", next_step=f"2 to {MOST_RANKS}")
    return n


def _made_up(name, n):
    """Return values whose digits tell where they come from."""
    if name in _GATHERING:
        return [np.array([10 * r, 10 * r + 1], np.float32) for r in range(1, n + 1)]
    chunks = np.arange(n, dtype=np.float32)
    if name in REDUCING and n <= 4:  # a sum shows its summands: 1110 lacks rank 0
        return [(chunks + 1) * 10**r for r in range(n)]
    return [10 * (r + 1) + chunks for r in range(n)]


def _parts(name, arrays, n, root, all_hold):
    """Return for every rank the values of its slots, None where it holds nothing."""
    if name in ("gather", "all_gather"):
        return [[arrays[r] if c == r else None for c in range(n)] for r in range(n)]
    if name == "scatter":
        return [list(arrays) if r == root else [None] * n for r in range(n)]
    lanes = [np.array_split(a, n) for a in arrays]
    if name == "all_to_all":
        return [lane + [lane[r] if c == r else None for c in range(n)] for r, lane in enumerate(lanes)]
    if name == "broadcast" and not all_hold:
        return [lane if r == root else [None] * n for r, lane in enumerate(lanes)]
    return lanes


def _chunk_bytes(parts, n, buffer_bytes):
    """Return the size of every slot: that of its values, or its share of `buffer_bytes`."""
    sizes = [next(v.nbytes for v in slot if v is not None) for slot in zip(*parts)]
    if buffer_bytes is None:
        return sizes
    total = whole_number(buffer_bytes, "buffer_bytes")
    if not 0 < total <= 10**15:
        raise LabError(f"buffer_bytes cannot be {byte_text(total)}", next_step="pass a size from 1 to 10**15 bytes")
    return [total // n + (slot % n < total % n) for slot in range(len(sizes))]
