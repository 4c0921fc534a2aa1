"""Learners for the tests of grading: rows, submissions and notebooks, right and wrong in known ways."""

import hashlib
import os
from dataclasses import dataclass, field

from labsupport import answering, building, catalog
from labsupport.grading.finding import Taken
from labsupport.grading.store import Row
from labsupport.places import NOTEBOOKS
from labsupport.reading import load

LESSON = "start_here"
EXERCISES = tuple(e.id for e in catalog.exercises(LESSON))

# Every class of text that could act on the place where it is shown.
NASTY = (
    '=HYPERLINK("http://evil")', "+1+1", "-2", "@SUM(A1)", "\tx", "\rx", "<script>alert(1)</script>",
    "\x1b[31mred\x1b[0m", "\x1b]8;;http://evil\x07link", "a\u202eb", "::error::owned", "##[add-path]x", "| a | b |",
    "[x](http://evil)", "`code`", "]]>", "&amp;", "\x00", "\ud800", "\ufffe", "a\nb\n::warning::c", "%0A::error::x",
    "' onmouseover='x", '" onload="x', "\x9b31m", "  =1+1",
)  # fmt: skip


def row(learner="ada", exercise=EXERCISES[0], outcome="passed", **fields):
    """Return a `Row` with sensible values."""
    usual = {"lesson": LESSON, "points": float(outcome == "passed"), "points_of": 1.0, "submission": "f" * 64}
    usual |= {"tier": "A"}
    return Row(learner=learner, exercise=exercise, outcome=outcome, **usual | fields)


@dataclass(frozen=True)
class Submission:
    """What `intake` makes of a file, without a file."""

    learner: str
    lesson: str = LESSON
    path: str = "00_start_here.ipynb"
    sha256: str = ""
    answers: dict = field(default_factory=dict)
    notes: tuple = ()
    unreadable: str = ""
    repair: str = ""


@dataclass(frozen=True)
class Deadly(Submission):
    """Ends whatever process looks at its answers, except the one that made it."""

    home: int = field(default_factory=os.getpid)

    def __getattribute__(self, name):
        if name == "answers" and os.getpid() != object.__getattribute__(self, "home"):
            os._exit(9)
        return object.__getattribute__(self, name)


def answers_of(wrong=(), lesson=LESSON):
    """Return {exercise: Taken}: references, and the first specimen for the ids in `wrong`."""
    found = {}
    for exercise in catalog.exercises(lesson):
        answer = answering.reference_answer(exercise)
        if exercise.id in wrong:
            answer = answering.specimen_answer(exercise, exercise.misconceptions[0])
        found[exercise.id] = Taken(exercise.id, answer.source, (), "by its marker")
    return found


def submission(learner, wrong=(), kind=Submission, **fields):
    """Return a learner's `Submission`."""
    digest = hashlib.sha256(f"{learner} {sorted(wrong)}".encode("utf-8", "surrogatepass")).hexdigest()
    return kind(learner=learner, **{"sha256": digest, "answers": answers_of(wrong)} | fields)


def notebook_text(wrong=(), lesson=LESSON, more=None):
    """Return a lesson's notebook with answers in it, as text; `more` maps exercise ids to other sources."""
    known = next(one for one in catalog.lessons() if one.slug == lesson)
    sources = {name: taken.source for name, taken in answers_of(wrong, lesson).items()} | (more or {})
    return building.dump(building.graft(load(NOTEBOOKS / known.notebook), sources))
