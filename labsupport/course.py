"""The nouns of the course: plain frozen data, no behaviour beyond checking themselves.

notebook file -> Answer -> Observation -> Verdict -> screen, journal, report
"""

import enum
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

__all__ = [
    "KINDS", "Answer", "Case", "Drill", "Exercise", "Limits", "Misconception",
    "Observation", "Outcome", "Probe", "Raised", "Verdict",
]  # fmt: skip

KINDS = ("function", "class", "prediction", "debug", "budget", "ranks", "artifact")
_NOTHING: Mapping = MappingProxyType({})
_HEAVY = re.compile(r"(import|from)\s+(torch|zarr|h5py)\b")


@dataclass(frozen=True)
class Case:
    """One situation an answer is put in.

    Args:
        label: what is special about this case, in the learner's words.
        make: `make(rng)` returns a tuple of inputs as plain data (numbers, text, tuples, lists,
            dicts, arrays of any layout). Shapes and structure are fixed; only contents depend on `rng`.
        raises: name of the exception class the reference must raise, or None.
        group: name of the points group, or "" when the exercise has one score.
    """

    label: str
    make: Callable
    raises: str | None = None
    group: str = ""


@dataclass(frozen=True)
class Probe:
    """How an answer is driven and what is observed: a name in `labsupport.probing` and plain options."""

    name: str = "call"
    options: Mapping = field(default_factory=dict)


@dataclass(frozen=True)
class Misconception:
    """A wrong belief as a program that runs.

    Args:
        id: what the person believes or does (`drops-the-remainder`); never changes once released.
        specimen: a function or class (its source is taken), source text, or, for a prediction, the wrong
            value or a function of the case's inputs that returns it.
        says: what is wrong with such an answer, 8 to 60 words together with `next`.
        next: what to look at.
    """

    id: str
    specimen: object
    says: str
    next: str


@dataclass(frozen=True)
class Limits:
    """What one case may use. `call_s` is a hang guard, not a measure of speed."""

    call_s: float = 5.0
    memory_bytes: int = 1_000_000_000


@dataclass(frozen=True)
class Drill:
    """Endless fresh questions of one kind.

    Args:
        make: `make(rng)` returns inputs, as in `Case.make`; the exercise's reference answers them.
        ask: `ask(*inputs)` returns the question as text (Markdown; code fences allowed).
    """

    make: Callable
    ask: Callable


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """What is asked, how it is judged, and which wrong beliefs are known. Pure data and plain functions."""

    id: str
    kind: str
    task: str
    names: tuple[str, ...]
    reference: object
    cases: tuple[Case, ...]
    misconceptions: tuple[Misconception, ...]
    hints: tuple[str, ...]
    core: bool
    level: int
    minutes: int
    source: str
    setup: str = ""
    probe: Probe = Probe()
    points: int | Mapping[str, int] = 1
    limits: Limits = Limits()
    drill: Drill | None = None

    def __post_init__(self):
        if self.kind not in KINDS:
            raise ValueError(f"{self.id}: kind {self.kind!r} is none of {', '.join(KINDS)}")
        if self.id.count("/") != 1:
            raise ValueError(f"{self.id!r} is not 'lesson/verb-noun'")
        if not self.names or not self.cases:
            raise ValueError(f"{self.id}: an exercise needs at least one name and one case")
        if not 1 <= self.level <= 5:
            raise ValueError(f"{self.id}: level {self.level} is not 1 to 5")

    @property
    def slug(self):
        """The lesson's slug as used in files: `start_here` for `start-here/return-shape`."""
        return self.id.split("/")[0].replace("-", "_")

    @property
    def on_ranks(self):
        """Whether its answer is a `%%torchrun` cell: a program of its own that several processes run."""
        return self.probe.name == "ranks"

    @property
    def needs_libraries(self):
        """Whether its answers use a library that takes seconds to load: torch, zarr or h5py, by its `setup`."""
        return any(_HEAVY.match(line) for line in self.setup.splitlines())

    @property
    def short_id(self):
        """The part after the slash, as used inside the lesson."""
        return self.id.split("/")[1]


@dataclass(frozen=True)
class Answer:
    """Source text and the names it defines: a learner's answer, a reference and a specimen alike."""

    source: str
    names: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Raised:
    """An exception as plain text: its class, the names of the classes it derives from, the answer's own line."""

    type: str
    message: str
    line: str = ""
    lineno: int = 0
    bases: tuple[str, ...] = ()

    def is_a(self, name):
        """Return whether `except NAME` would catch it."""
        return name == self.type or name in self.bases


@dataclass(frozen=True, kw_only=True)
class Observation:
    """What one answer did on one case.

    Args:
        value: the result as plain data; anything else becomes `probing.plain.Opaque`.
        raised: the exception, or None.
        over: which limit was exceeded, in words, or None.
        facts: structural facts that are compared (view or copy, inputs changed, within a budget).
        notes: measured numbers that are shown but never compared (bytes allocated, steps taken).
    """

    value: object = None
    raised: Raised | None = None
    over: str | None = None
    facts: Mapping = field(default_factory=lambda: _NOTHING)
    notes: Mapping = field(default_factory=lambda: _NOTHING)


class Outcome(enum.StrEnum):
    """The eight things a check can say."""

    PASSED = "passed"
    WRONG = "wrong"
    NOT_YET = "not yet"
    CRASHED = "crashed"
    OVER_LIMIT = "over limit"
    CANNOT_RUN_HERE = "cannot run here"
    UNREADABLE = "unreadable"
    GRADER_FAULT = "grader fault"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a check says about one answer.

    Args:
        exercise: the exercise's id.
        outcome: one of the eight.
        case: label of the first case that failed, or None.
        misconception: id of the matched misconception, or None.
        why: what is wrong with this answer, in a sentence.
        next: one thing to look at or do.
        seen: what differs, in a sentence, when `why` is a misconception's text; tells expected values only
            where they may be told.
        call: the call that went wrong, when it is short enough to read; only the live check tells it.
        measured: numbers worth showing, in words ("512,000 bytes allocated").
        points: points earned; `points_of` is the most that could be.
    """

    exercise: str
    outcome: Outcome
    case: str | None = None
    misconception: str | None = None
    why: str = ""
    next: str = ""
    seen: str = ""
    measured: str = ""
    call: str = ""
    points: float = 0
    points_of: float = 0

    @property
    def passed(self):
        return self.outcome is Outcome.PASSED
