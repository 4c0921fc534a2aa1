"""Lesson 05: keeping a little without keeping it all."""

import numpy as np

from labsupport.course import Case, Exercise, Misconception, Probe

__all__ = ["KEEP_ALIVE"]

_COPIES_DOC = "https://numpy.org/doc/stable/user/basics.copies.html, read 2026-11"


# -- keep-alive


class Tails:
    """The last `n` samples of every block pushed, without the blocks."""

    def __init__(self, n):
        self.n = n
        self.kept = []

    def push(self, block):
        # A slice would keep its base alive, that is, the whole block: only a copy lets go of it.
        self.kept.append(block[-self.n :].copy())

    def tails(self):
        """Return the tails as a list of arrays, oldest first."""
        return list(self.kept)


class _KeepsSlices:
    def __init__(self, n):
        self.n = n
        self.kept = []

    def push(self, block):
        self.kept.append(block[-self.n :])

    def tails(self):
        return list(self.kept)


class _CopiesWholeBlocks:
    def __init__(self, n):
        self.n = n
        self.kept = []

    def push(self, block):
        self.kept.append(block.copy()[-self.n :])

    def tails(self):
        return list(self.kept)


class _KeepsTheFirst:
    def __init__(self, n):
        self.n = n
        self.kept = []

    def push(self, block):
        self.kept.append(block[: self.n].copy())

    def tails(self):
        return list(self.kept)


class _KeepsTheLatestOnly:
    def __init__(self, n):
        self.n = n

    def push(self, block):
        self.latest = block[-self.n :].copy()

    def tails(self):
        return [self.latest]


class _TurnsIntoLists:
    def __init__(self, n):
        self.n = n
        self.kept = []

    def push(self, block):
        self.kept.append(block[-self.n :].tolist())

    def tails(self):
        return list(self.kept)


class _StartsBelowZero:
    def __init__(self, n):
        self.n = n
        self.kept = []

    def push(self, block):
        self.kept.append(block[len(block) - self.n :].copy())

    def tails(self):
        return list(self.kept)


class _SkipsShortBlocks:
    def __init__(self, n):
        self.n = n
        self.kept = []

    def push(self, block):
        if len(block) >= self.n:
            self.kept.append(block[-self.n :].copy())

    def tails(self):
        return list(self.kept)


class _EmptiesItself:
    def __init__(self, n):
        self.n = n
        self.kept = []

    def push(self, block):
        self.kept.append(block[-self.n :].copy())

    def tails(self):
        kept, self.kept = self.kept, []
        return kept


class _CutsTheLastAxis:
    def __init__(self, n):
        self.n = n
        self.kept = []

    def push(self, block):
        self.kept.append(block[..., -self.n :].copy())

    def tails(self):
        return list(self.kept)


class _SharesOneList:
    kept = []  # noqa: RUF012 - the mistake

    def __init__(self, n):
        self.n = n

    def push(self, block):
        self.kept.append(block[-self.n :].copy())

    def tails(self):
        return list(self.kept)


class _JoinsTheTails:
    def __init__(self, n):
        self.n = n
        self.kept = []

    def push(self, block):
        self.kept.append(block[-self.n :].copy())

    def tails(self):
        return np.concatenate(self.kept)


class _NewestFirst:
    def __init__(self, n):
        self.n = n
        self.kept = []

    def push(self, block):
        self.kept.insert(0, block[-self.n :].copy())

    def tails(self):
        return list(self.kept)


def _pushes(n, blocks, ask_between=False):
    steps = [("Tails", (n,))]
    for block in blocks:
        steps += [("push", (block,))] + ([("tails", ())] if ask_between else [])
    return (steps if ask_between else [*steps, ("tails", ())],)


KEEP_ALIVE = Exercise(
    id="strides/keep-alive",
    kind="class",
    task="Write Tails(n): push(block) keeps the last n samples (rows) of a block, tails() returns them as a list of "
    "arrays, oldest first. Once the caller lets go of a block, its memory must be free.",
    names=("Tails",),
    setup="import numpy as np",
    reference=Tails,
    cases=(
        Case("one block of 1,000 samples, n = 10", lambda rng: _pushes(10, [rng.normal(size=1000)])),
        Case("five blocks of 5,000, n = 10", lambda rng: _pushes(10, [rng.normal(size=5000) for _ in range(5)])),
        Case(
            "blocks of rows, int16", lambda rng: _pushes(2, [rng.integers(0, 99, (50, 3), np.int16) for _ in range(3)])
        ),
        Case("blocks shorter than n", lambda rng: _pushes(4, [rng.normal(size=size) for size in (3, 6, 1)])),
        Case(
            "asked after every push", lambda rng: _pushes(3, [rng.normal(size=8) for _ in range(3)], ask_between=True)
        ),
        Case("nothing pushed yet", lambda rng: _pushes(3, [])),
    ),
    probe=Probe("drive", {"releases": True, "max_kept": 40_000}),
    misconceptions=(
        Misconception(
            id="keeps-the-slice",
            specimen=_KeepsSlices,
            says="You keep the block or a slice of it, and a slice holds its whole block: ten samples keep all 1,000 "
            "alive.",
            next="What must happen to ten samples before the other 990 can go?",
        ),
        Misconception(
            id="copies-the-whole-block",
            specimen=_CopiesWholeBlocks,
            says="You copy the whole block before you cut it, so the caller's block is free, but yours stays: a slice"
            " of a copy holds the copy.",
            next="In which order should cutting and copying happen?",
        ),
        Misconception(
            id="keeps-the-first",
            specimen=_KeepsTheFirst,
            says="You keep the samples at the start of each block; asked for are those at its end.",
            next="A negative start counts from the end.",
        ),
        Misconception(
            id="keeps-only-the-latest",
            specimen=_KeepsTheLatestOnly,
            says="Each push replaces what was kept before, so only the latest block has a tail.",
            next="Collect one tail per push.",
        ),
        Misconception(
            id="newest-first",
            specimen=_NewestFirst,
            says="The tails are right and come in reverse: the newest block stands first.",
            next="Asked for is the order in which the blocks were pushed.",
        ),
        Misconception(
            id="turns-arrays-into-lists",
            specimen=_TurnsIntoLists,
            says="Your tails are Python lists: the memory of the block is free, but dtype and shape are lost.",
            next="There is a way to copy that leaves an array an array.",
        ),
        Misconception(
            id="starts-below-zero",
            specimen=_StartsBelowZero,
            says="For a block shorter than n your start, `len(block) - n`, is negative, and a negative start counts "
            "from the end: samples at the front of the short block are lost.",
            next="What is the least your start may be? Or name it from the end in the first place.",
        ),
        Misconception(
            id="skips-short-blocks",
            specimen=_SkipsShortBlocks,
            says="A block shorter than n leaves no tail behind; it should be kept whole.",
            next="A slice that reaches past the start returns what is there.",
        ),
        Misconception(
            id="empties-itself",
            specimen=_EmptiesItself,
            says="After `tails()` your object has forgotten the blocks pushed before: asked again, it returns only "
            "what came since.",
            next="Asking changes nothing: return the tails and go on keeping them.",
        ),
        Misconception(
            id="cuts-the-last-axis",
            specimen=_CutsTheLastAxis,
            says="Of a block with rows you cut the columns: your slice works on the last axis, and samples are counted "
            "along the first.",
            next="A single slice, without `...`, applies to the first axis.",
        ),
        Misconception(
            id="shares-one-list",
            specimen=_SharesOneList,
            says="The tails of an earlier object turn up in this one: all your objects share one list, because it was "
            "made once, outside `__init__`.",
            next="Make the list where each new object is made.",
        ),
        Misconception(
            id="joins-the-tails",
            specimen=_JoinsTheTails,
            says="You return one joined array; the caller can no longer tell the blocks apart.",
            next="Return a list with one array per push.",
        ),
    ),
    hints=(
        "Look at `block[-10:].base`. As long as your slice exists, so does what it points to.",
        "Cut first, then copy the piece: the copy has no base.",
    ),
    core=True,
    level=2,
    minutes=8,
    source=_COPIES_DOC,
)
