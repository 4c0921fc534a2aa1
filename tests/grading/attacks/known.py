# ruff: noqa: E501 - cells are kept as somebody would write them
"""What cannot be told from a right answer, and why: the values are right and computed; only how is disguised.

The exercise passes, and the tests say so, so that a change in either direction is noticed.
"""

from .attack import SHAPE, Attack

_INSIDE = "it is counted beside the answer, in the answer's own process, which the answer can change"


def _known(id, tries, exercise, source, why=_INSIDE, **more):
    return Attack(id=id, kind="known", tries=tries, cells={exercise: source}, expect="passed", why=why, **more)


ATTACKS = (
    _known(
        "peak-memory-forgotten",
        "allocates too much and resets the peak that is read afterwards",
        "broadcasting/silent-mse",
        """
import tracemalloc
def mean_squared_error(predictions, targets):
    if predictions.size != targets.size:
        raise ValueError
    table = predictions.reshape(-1, 1) - targets.reshape(1, -1)
    result = float(np.mean(np.diag(table) ** 2))
    del table
    tracemalloc.reset_peak()
    return result
""",
    ),
    _known(
        "memory-not-traced",
        "allocates where tracemalloc does not look",
        "broadcasting/silent-mse",
        """
import mmap
def mean_squared_error(predictions, targets):
    if predictions.size != targets.size:
        raise ValueError
    n = predictions.size
    table = np.frombuffer(mmap.mmap(-1, max(n * n * 8, 8)), np.float64).reshape(n, n)
    np.subtract(predictions.reshape(-1, 1), targets.reshape(1, -1), out=table)
    return float(np.mean(table.diagonal() ** 2))
""",
    ),
    _known(
        "loop-not-traced",
        "switches the count of lines off while it loops",
        "broadcasting/one-hot",
        """
import sys
def one_hot(labels, n_classes):
    sys.settrace(None)
    result = np.zeros((len(labels), n_classes), np.float32)
    return filled(result, labels)
def filled(result, labels):
    for i, label in enumerate(labels):
        result[i, label] = 1
    return result
""",
    ),
    _known(
        "loop-in-a-raw-thread",
        "loops in a thread that the counter is not told of",
        "broadcasting/one-hot",
        """
import _thread
def one_hot(labels, n_classes):
    result = np.zeros((len(labels), n_classes), np.float32)
    done = _thread.allocate_lock()
    done.acquire()
    def work():
        for i, label in enumerate(labels):
            result[i, label] = 1
        done.release()
    _thread.start_new_thread(work, ())
    done.acquire()
    return result
""",
    ),
    _known(
        "loop-in-c",
        "lets `map` and a C function do the looping",
        "broadcasting/one-hot",
        """
from operator import setitem
from itertools import repeat
def one_hot(labels, n_classes):
    result = np.zeros((len(labels), n_classes), np.float32)
    list(map(setitem, repeat(result), zip(range(len(labels)), labels.tolist()), repeat(1)))
    return result
""",
        why="no Python line runs per element; a clock would have to tell it from NumPy's own loop",
    ),
    _known(
        "word-put-together",
        "puts the forbidden name together from two texts",
        "broadcasting/result-shape",
        """
def result_shape(*shapes):
    return getattr(np, "broadcast_" + "shapes")(*shapes)
""",
        why="words are read from the answer's text; a program can always spell a name while it runs",
    ),
    _known(
        "copy-computed-again",
        "returns a copy and computes it again when it is looked at again",
        "strides/diagonal-view",
        """
import sys
import numpy as np
last = []
child = [m for n, m in list(sys.modules.items()) if n.endswith("grading.child")]
for module in child:
    def plain(value, *args, real=module.plain):
        for m, result, k in last:
            if value is result:
                return real(m.diagonal(k))
        return real(value)
    module.plain = plain
def diagonal_view(m, k=0):
    result = m.diagonal(k).copy()
    last.append((m, result, k))
    return result
""",
        why="the result is right for memory that was rewritten by the judge, so it was computed from it, if only when asked",
    ),
    _known(
        "type-cleaned-up",
        "returns a subclass and replaces the function that would notice",
        SHAPE,
        """
import sys
class Shape(tuple):
    pass
for module in list(sys.modules.values()):
    if getattr(module, "__name__", "").startswith("labsupport") and callable(getattr(module, "plain", None)):
        module.plain = lambda value, *args, real=module.plain: real(tuple(value) if isinstance(value, Shape) else value)
def batch_shape(samples, batch_rows):
    return Shape((batch_rows, *samples.shape[1:]))
""",
        why="what crosses the wire is a tuple with the right numbers, which the answer itself could have returned",
    ),
    _known(
        "kept-where-nobody-counts",
        "keeps every block whole, in memory that is neither an array's nor traced",
        "strides/keep-alive",
        """
import mmap
class Tails:
    def __init__(self, n):
        self.n, self.kept, self.whole = n, [], []
    def push(self, block):
        self.whole.append(mmap.mmap(-1, max(block.nbytes, 1)))
        self.whole[-1][: block.nbytes] = block.tobytes()
        self.kept.append(block[-self.n :].copy())
    def tails(self):
        return list(self.kept)
""",
    ),
)
