"""What is told about a class: one `Report`, written as table, record, JUnit file and pages."""

import functools
from collections import Counter
from dataclasses import dataclass, field

from labsupport.course import Outcome

__all__ = ["OUTCOMES", "Header", "Report", "write"]

OUTCOMES = tuple(outcome.value for outcome in Outcome)
_WORDS_OF_TIER = {"A": "caged", "B": "fenced", "C": "open"}
# These never count against a learner: nothing was decided about the answer.
_UNDECIDED = ("cannot run here", "grader fault")


@dataclass(frozen=True, kw_only=True)
class Header:
    """What every report says first.

    Args:
        mode: `grade`, or `feedback` when inputs are public or learner code was not held back.
        tier: A, B or C; `layers`: {layer: "ok" or why it is not there}.
        course: the version that judged.
        inputs: whose inputs were used, in words.
    """

    mode: str
    tier: str
    layers: dict
    course: str
    inputs: str

    @property
    def line(self):
        """The first line of the output and of every report."""
        works = sum(said == "ok" for said in self.layers.values())
        fails = [f"{name}: {said}" for name, said in self.layers.items() if said != "ok"]
        layers = "; ".join([f"{works} {'layer' if works == 1 else 'layers'} ok"] * bool(works) + fails) or "no layers"
        tier = f"tier {self.tier} {_WORDS_OF_TIER.get(self.tier, '')}".rstrip()
        return f"{self.mode} | {tier}: {layers} | course {self.course} | {self.inputs}"


@dataclass(frozen=True, kw_only=True)
class Report:
    """A header, one row per learner and exercise in a fixed order, and what is to be said about the files.

    Args:
        header: a `Header`.
        rows: `Row`s.
        exercises: {lesson: exercise ids in the lesson's order}.
        notes: sentences about files that were left out or doubtful.
        beliefs: {(exercise, misconception): what the course says about it}.
    """

    header: Header
    rows: tuple
    exercises: dict
    notes: tuple = ()
    beliefs: dict = field(default_factory=dict)

    @property
    def learners(self):
        """Names in the order of the rows."""
        return list(dict.fromkeys(row.learner for row in self.rows))

    def of(self, learner):
        """Return a learner's rows."""
        return self._by_learner.get(learner, [])

    @functools.cached_property
    def _by_learner(self):
        index = {}
        for row in self.rows:
            index.setdefault(row.learner, []).append(row)
        return index

    def outcomes(self, rows=None):
        """Return {outcome: how many}, in the order outcomes are always told; none that is not there."""
        counted = Counter(row.outcome for row in (self.rows if rows is None else rows))
        return {outcome: counted[outcome] for outcome in OUTCOMES if counted[outcome]}

    def share(self, learner):
        """Return a learner's share of the points, 0 to 1, of what could be decided; None when nothing is left."""
        rows = [row for row in self.of(learner) if row.outcome not in _UNDECIDED]
        possible = sum(row.points_of for row in rows)
        return sum(row.points for row in rows) / possible if possible else None

    def misconceptions(self, exercise):
        """Return [(id, how many learners, what the course says about it)] of an exercise, the most common first."""
        counted = Counter(row.misconception for row in self.rows if row.exercise == exercise and row.misconception)
        ordered = sorted(counted.items(), key=lambda item: (-item[1], item[0]))
        return [(name, count, self.beliefs.get((exercise, name), "")) for name, count in ordered]


def write(report, out, *, secret):
    """Write every report into the folder `out`, each file whole or not at all; returns {kind: path}.

    Args:
        report: a `Report`.
        out: a folder; made when missing.
        secret: signs the record when it is set.
    """
    from labsupport.grading.reports import junit, pages, record, sheet
    from labsupport.workspace.atomic import write_atomic

    files = {
        "grades.csv": sheet.table(report),
        "grades.json": record.dump(record.record(report, secret)),
        "junit.xml": junit.suites(report),
        **pages.pages(report),
    }
    for name, text in files.items():
        write_atomic(out / name, text.encode("utf-8"))
    for stale in (out / pages.FOLDER).glob("*.html"):
        if f"{pages.FOLDER}/{stale.name}" not in files:
            stale.unlink()
    return {name: out / name for name in ("grades.csv", "grades.json", "junit.xml", "index.html")}
