"""Lesson 12: what forked workers copy by reading it."""

import numpy as np

from labsupport.course import Case, Exercise, Misconception, Probe

__all__ = ["COPY_ON_WRITE"]

_ISSUE = "https://github.com/pytorch/pytorch/issues/13246, read 2026-11"


class Names:
    """Texts by number, kept in two buffers: one object each, however many texts."""

    def __init__(self, names):
        encoded = [name.encode() for name in names]
        self.text = b"".join(encoded)
        # Text i lies from ends[i] to ends[i + 1], in bytes.
        self.ends = np.cumsum([0, *map(len, encoded)])

    def __len__(self):
        return len(self.ends) - 1

    def __getitem__(self, index):
        return self.text[self.ends[index] : self.ends[index + 1]].decode()


class _KeepsTheList:
    def __init__(self, names):
        self.names = names

    def __len__(self):
        return len(self.names)

    def __getitem__(self, index):
        return self.names[index]


class _TuplesDoNotCount:
    def __init__(self, names):
        self.names = tuple(names)

    def __len__(self):
        return len(self.names)

    def __getitem__(self, index):
        return self.names[index]


class _ArrayOfObjects:
    def __init__(self, names):
        self.names = np.array(names, dtype=object)

    def __len__(self):
        return len(self.names)

    def __getitem__(self, index):
        return self.names[index]


class _AsWideAsTheWidest:
    def __init__(self, names):
        self.names = np.array(names)

    def __len__(self):
        return len(self.names)

    def __getitem__(self, index):
        return str(self.names[index])


class _JoinedAsText:
    def __init__(self, names):
        self.text = "".join(names)
        self.ends = np.cumsum([0, *map(len, names)])

    def __len__(self):
        return len(self.ends) - 1

    def __getitem__(self, index):
        return self.text[self.ends[index] : self.ends[index + 1]]


class _KeepsWhatItReads:
    def __init__(self, names):
        encoded = [name.encode() for name in names]
        self.text = b"".join(encoded)
        self.ends = np.cumsum([0, *map(len, encoded)])
        self.known = {}

    def __len__(self):
        return len(self.ends) - 1

    def __getitem__(self, index):
        if index not in self.known:
            self.known[index] = self.text[self.ends[index] : self.ends[index + 1]].decode()
        return self.known[index]


class _EndsInAList:
    def __init__(self, names):
        encoded = [name.encode() for name in names]
        self.text = b"".join(encoded)
        self.ends = [0]
        for one in encoded:
            self.ends.append(self.ends[-1] + len(one))

    def __len__(self):
        return len(self.ends) - 1

    def __getitem__(self, index):
        return self.text[self.ends[index] : self.ends[index + 1]].decode()


class _SplitsByLines:
    def __init__(self, names):
        self.text = "\n".join(names)
        self.count = len(names)

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return self.text.split("\n")[index]


class _CountsCharacters:
    def __init__(self, names):
        self.text = "".join(names).encode()
        self.ends = np.cumsum([0, *map(len, names)])

    def __len__(self):
        return len(self.ends) - 1

    def __getitem__(self, index):
        return self.text[self.ends[index] : self.ends[index + 1]].decode(errors="replace")


class _ReturnsBytes:
    def __init__(self, names):
        encoded = [name.encode() for name in names]
        self.text = b"".join(encoded)
        self.ends = np.cumsum([0, *map(len, encoded)])

    def __len__(self):
        return len(self.ends) - 1

    def __getitem__(self, index):
        return self.text[self.ends[index] : self.ends[index + 1]]


class _PicklesTheList:
    def __init__(self, names):
        import pickle

        self.count, self.stored = len(names), pickle.dumps(list(names))

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        import pickle

        return pickle.loads(self.stored)[index]


def _names_case(label, count, draw):
    """Return a case of `count` different texts; `draw(rng, i)` makes one."""

    def make(rng):
        names = [draw(rng, i) for i in range(count)]
        return names, [0, count - 1, *(int(i) for i in rng.integers(0, count, 20))]

    return Case(label, make)


def _path(rng, i):
    return f"station-{int(rng.integers(1_000_000)):06}/{i:05}.png"


def _accented(rng, i):
    return ("café", "naïve", "東京", "μg", "plain")[i % 5] + f"-{int(rng.integers(10_000))}"


def _one_emoji(rng, i):
    return "\N{SUN BEHIND CLOUD}.png" if i == 7 else _path(rng, i)


def _one_long(rng, i):
    return "x" * 4_000 + str(int(rng.integers(100))) if i == 7 else f"{int(rng.integers(10**9)):09}-{i}"


def _with_ends_of_lines(rng, i):
    return "" if i % 4 == 0 else f"{int(rng.integers(10**6))}\n{i}"


COPY_ON_WRITE = Exercise(
    id="loading/copy-on-write",
    kind="budget",
    task="Keep a list of texts so that a forked worker that reads all of them writes to next to no memory: at most 60 "
    "Python objects in all, and no more than 16 bytes beside the UTF-8 bytes of each text. Item i is text i.",
    names=("Names",),
    setup="import numpy as np",
    reference=Names,
    cases=(
        _names_case("3,000 file names", 3_000, _path),
        _names_case("letters of more than one byte", 1_000, _accented),
        _names_case("one emoji among 1,000 file names", 1_000, _one_emoji),
        _names_case("one very long text", 1_000, _one_long),
        _names_case("line ends inside, some empty", 2_000, _with_ends_of_lines),
    ),
    probe=Probe("through", {"driver": "loading:names_in_workers"}),
    misconceptions=(
        Misconception(
            id="keeps-the-list",
            specimen=_KeepsTheList,
            says="Each text is an object with its own reference count, and reading it writes that count: in a forked "
            "worker, every page with such an object is copied.",
            next="Put all texts into one object, and remember where each begins.",
        ),
        Misconception(
            id="tuples-do-not-count",
            specimen=_TuplesDoNotCount,
            says="A tuple cannot be changed, but the texts in it are objects like any others: their reference counts "
            "are written to when they are read.",
            next="Fewer objects, not other containers.",
        ),
        Misconception(
            id="array-of-objects",
            specimen=_ArrayOfObjects,
            says="An array with dtype object is a list in disguise: it holds pointers to as many Python objects.",
            next="Which arrays hold the bytes themselves?",
        ),
        Misconception(
            id="as-wide-as-the-widest",
            specimen=_AsWideAsTheWidest,
            says="One object, well done. But texts in it take more room than they need: each as much as the longest, "
            "or each letter four bytes.",
            next="Lay the encoded texts end to end, without padding.",
        ),
        Misconception(
            id="joined-as-text",
            specimen=_JoinedAsText,
            says="One `str` holds all texts, and it is as wide as its widest letter: a single emoji gives every letter "
            "four bytes.",
            next="Encode each text, and join the bytes.",
        ),
        Misconception(
            id="keeps-what-it-reads",
            specimen=_KeepsWhatItReads,
            says="Two buffers, and beside them you keep every text that was asked for: by the end of an epoch each "
            "worker holds all of them as objects again.",
            next="Decoding one text is quick: do it each time it is asked for.",
        ),
        Misconception(
            id="ends-in-a-list",
            specimen=_EndsInAList,
            says="The texts share one buffer, and where they end stands in a list of integers: as many objects as "
            "before.",
            next="Numbers, too, go into an array.",
        ),
        Misconception(
            id="splits-by-lines",
            specimen=_SplitsByLines,
            says="Joined by line ends, texts that hold a line end fall apart; and for one text you split them all "
            "anew.",
            next="Remember positions instead of a separator.",
        ),
        Misconception(
            id="counts-characters",
            specimen=_CountsCharacters,
            says="Your positions count characters and your buffer holds bytes: from the first letter with two bytes "
            "on, everything is shifted.",
            next="Take the lengths after encoding.",
        ),
        Misconception(
            id="returns-bytes",
            specimen=_ReturnsBytes,
            says="Item i should be text again; you return its bytes.",
            next="One call turns them back.",
        ),
        Misconception(
            id="unpacks-everything",
            specimen=_PicklesTheList,
            says="One object at rest; but every item unpacks all texts to return one of them.",
            next="Find one text without touching the others.",
        ),
    ),
    hints=(
        "One `bytes` object with all texts end to end, one array with the positions where they end.",
        "`np.cumsum` of the lengths of the encoded texts; item i lies between two neighbours of it.",
    ),
    core=False,
    level=3,
    minutes=8,
    source=_ISSUE,
)
