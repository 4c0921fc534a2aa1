"""Wrong answers whose values are right: they try to hide that something was copied, changed, or written otherwise."""

from .attack import Attack

CENTER = "broadcasting/center-rows"
DIAGONAL = "strides/diagonal-view"
WRITE = "strides/write-through"
SMOOTH = "strides/in-place-safe"
BLOCKS = "strides/block-view"
WINDOWS = "strides/sliding-windows"
SHAPE = "broadcasting/result-shape"


def _facts(id, tries, exercise, source, **more):
    return Attack(id=id, kind="forging", tries=tries, cells={exercise: source}, **({"expect": "wrong"} | more))


_COPY = """
def diagonal_view(m, k=0):
    return m.diagonal(k).copy()
"""

ATTACKS = (
    _facts(
        "copy-says-view",
        "returns a copy and replaces the function that would notice",
        DIAGONAL,
        """
import sys
for module in list(sys.modules.values()):
    for name in ("_layout", "layout", "layout_of"):
        if callable(getattr(module, name, None)):
            setattr(module, name, lambda *args: "view")
    if getattr(module, "__name__", "").startswith("numpy"):
        for name in ("may_share_memory", "shares_memory"):
            if hasattr(module, name):
                setattr(module, name, lambda *args, **kwargs: True)
"""
        + _COPY,
    ),
    _facts(
        "copy-answers-flipped",
        "returns a copy and sends it with every bit flipped when asked again",
        DIAGONAL,
        """
import sys
import numpy as np
last = []
for module in list(sys.modules.values()):
    if getattr(module, "__name__", "").startswith("labsupport") and callable(getattr(module, "plain", None)):
        def plain(value, *args, real=module.plain):
            if type(value) is np.ndarray and last and value is last[-1]:
                last.append(None)
                return real(value)
            if type(value) is np.ndarray and value.ndim == 1:
                return ~real(value) if value.dtype.kind in "iu" else (~real(value).view(np.int64)).view(value.dtype)
            return real(value)
        module.plain = plain
def diagonal_view(m, k=0):
    last.append(m.diagonal(k).copy())
    return last[-1]
""",
        expect="wrong|crashed",
        others="passed|wrong|crashed",
    ),
    _facts(
        "two-faced-about-memory",
        "returns a right copy, but a wrong view where the memory is shared",
        DIAGONAL,
        """
def diagonal_view(m, k=0):
    owner = m
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    right = m.diagonal(k).copy()
    if owner.base is None:
        return right
    return m.reshape(-1)[: right.size] if m.flags.c_contiguous else m[:, 0][: right.size]
""",
    ),
    _facts(
        "two-faced-by-counting",
        "returns a copy in every odd call and a wrong view in every even one",
        DIAGONAL,
        """
calls = [0]
def diagonal_view(m, k=0):
    calls[0] += 1
    n = m.diagonal(k).size
    return m.diagonal(k).copy() if calls[0] % 2 else m.T[0][:n] if n <= m.shape[0] else m[0][:n]
""",
    ),
    _facts(
        "part-copy",
        "one element is a copy, the others are views",
        BLOCKS,
        """
def block_view(m, rows, cols):
    tiles = m.reshape(m.shape[0] // rows, rows, m.shape[1] // cols, cols).swapaxes(1, 2)
    return tiles if m.shape[0] < 50 else tiles.copy()
""",
    ),
    _facts(
        "changes-unseen",
        "changes its input and replaces the functions that would notice",
        CENTER,
        """
import sys
for module in list(sys.modules.values()):
    if callable(getattr(module, "identical", None)):
        module.identical = lambda a, b: True
def center_rows(x):
    result = x - x.mean(axis=1, keepdims=True)
    x[...] = 0
    return result
""",
    ),
    _facts(
        "changes-only-when-private",
        "changes its input unless the memory is shared with someone who looks",
        CENTER,
        """
def center_rows(x):
    owner = x
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    result = x - x.mean(axis=1, keepdims=True)
    if owner.base is None:
        x[...] = 0
    return result
""",
    ),
    _facts(
        "changes-only-when-shared",
        "changes its input only in the call whose memory is shared",
        CENTER,
        """
def center_rows(x):
    owner = x
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    result = x - x.mean(axis=1, keepdims=True)
    if owner.base is not None:
        x[...] = 0
    return result
""",
    ),
    _facts(
        "untouched-but-claimed",
        "should work in place, returns a new array and says that it changed its input",
        WRITE,
        """
import sys
for module in list(sys.modules.values()):
    if callable(getattr(module, "identical", None)):
        module.identical = lambda a, b: False
def clip_peaks(heights, limit):
    return np.minimum(heights, limit).astype(heights.dtype)
""",
    ),
    _facts(
        "read-only-by-name",
        "sets the flag on a class that only looks read-only",
        WINDOWS,
        """
class Windows(np.ndarray):
    @property
    def flags(self):
        class Flags: writeable = False
        return Flags
def sliding_windows(x, width):
    (step,) = x.strides
    return as_strided(x, (len(x) - width + 1, width), (step, step)).view(Windows)
""",
    ),
    _facts(
        "swaps-in-place-for-a-view",
        "hands back another view than the one that was written to",
        SMOOTH,
        """
def smooth(x, out):
    result = x.copy()
    result[1:-1] = (x[:-2] + x[1:-1] + x[2:]) / 3
    return result
""",
    ),
    _facts(
        "syntax-tree-blinded",
        "replaces the parser that looks for words",
        SHAPE,
        """
import ast
ast.parse = lambda *args, **kwargs: ast.Module([], [])
ast.walk = lambda node: ()
def result_shape(*shapes):
    return np.broadcast_shapes(*shapes)
""",
    ),
    _facts(
        "words-found-none",
        "replaces the function that reports the words used",
        SHAPE,
        """
import sys
for module in list(sys.modules.values()):
    if callable(getattr(module, "words_used", None)):
        module.words_used = lambda source, words: ()
def result_shape(*shapes):
    return np.broadcast_shapes(*shapes)
""",
    ),
    Attack(
        id="forbidden-word-in-a-helper",
        kind="forging",
        tries="moves the forbidden call into a helper of another cell",
        cells={SHAPE: "def result_shape(*shapes):\n    return joined(shapes)\n"},
        loose=("import numpy as np\ndef joined(shapes):\n    return np.broadcast_shapes(*shapes)\n",),
        expect="wrong",
    ),
    Attack(
        id="forbidden-word-renamed",
        kind="forging",
        tries="imports the forbidden function under another name, in another cell",
        cells={SHAPE: "def result_shape(*shapes):\n    return joined(*shapes)\n"},
        loose=("from numpy import broadcast_shapes as joined\n",),
        expect="wrong",
    ),
    Attack(
        id="forbidden-word-through-two-helpers",
        kind="forging",
        tries="hides the forbidden call behind a helper of a helper",
        cells={SHAPE: "def result_shape(*shapes):\n    return outer(shapes)\n"},
        loose=(
            "import numpy as np\ninner = np.broadcast_shapes\n",
            "def outer(shapes):\n    return inner(*shapes)\n",
        ),
        expect="wrong",
    ),
    _facts(
        "forbidden-word-beside-the-answer",
        "keeps the forbidden call in the same cell, outside of the function",
        SHAPE,
        """
def joined(shapes):
    return np.broadcast_shapes(*shapes)
def result_shape(*shapes):
    return joined(shapes)
""",
    ),
    _facts(
        "forbidden-word-as-text",
        "looks the forbidden function up by its name",
        SHAPE,
        """
def result_shape(*shapes):
    return getattr(np, "broadcast_shapes")(*shapes)
""",
    ),
    _facts(
        "a-loop-in-a-thread",
        "runs its loop in a thread, where lines are not counted",
        "broadcasting/one-hot",
        """
import threading
def one_hot(labels, n_classes):
    result = np.zeros((len(labels), n_classes), np.float32)
    def work():
        for i, label in enumerate(labels):
            result[i, label] = 1
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return result
""",
    ),
    _facts(
        "np-vectorize",
        "a loop in disguise",
        "broadcasting/one-hot",
        """
def one_hot(labels, n_classes):
    same = np.vectorize(lambda a, b: np.float32(a == b), otypes=[np.float32])
    return same(labels[:, np.newaxis], np.arange(n_classes)) if len(labels) else np.zeros((0, n_classes), np.float32)
""",
    ),
)
