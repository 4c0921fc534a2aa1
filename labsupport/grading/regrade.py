"""A corrected exercise judges everybody again, from kept observations: no answer runs, and what changed is told."""

from dataclasses import dataclass, replace

from labsupport import catalog
from labsupport.grading.batch import JUDGED_BEFORE

__all__ = ["Change", "Regraded", "changes", "regrade"]

_NOTHING_RAN = ("not yet", "unreadable")


@dataclass(frozen=True)
class Change:
    """One row whose verdict is another one now; `why` says by which part of the course, as far as that can be told."""

    old: object
    new: object
    why: str

    def __str__(self):
        return f"{self.new.learner}  {self.new.exercise}  {_said(self.old)} -> {_said(self.new)}  ({self.why})"


def _said(row):
    return f"{row.outcome} ({row.misconception})" if row.misconception else row.outcome


@dataclass(frozen=True)
class Regraded:
    """Rows by submission digest, what changed, and which (learner, exercise) must be run again to be judged at all."""

    rows: dict
    changes: tuple
    rerun: tuple


def regrade(planned, store, secret):
    """Return a `Regraded` for the submissions of `planned`; what could be judged as a whole is stored.

    Rows that must be run again stay as they were, with a note; the next `lab grade` runs them.
    """
    from labsupport.grading.engine import course_version

    rows, changed, rerun = {}, [], []
    for one in planned:
        submission = one.submission
        if not submission.lesson:
            continue
        if current := store.rows(one.digest):
            rows[one.digest] = current
            continue
        earlier = store.earlier(submission.learner, submission.sha256, one.digest)
        fresh, open_ = _judged_again(submission, earlier, store, secret, course_version())
        rows[one.digest] = fresh
        rerun += [(submission.learner, exercise) for exercise in open_]
        changed += changes(earlier.values(), fresh)
        if not open_:
            store.add(fresh, {}, one.digest)
    return Regraded(rows, tuple(changed), tuple(rerun))


def _judged_again(submission, earlier, store, secret, version):
    """Return (rows, exercises that must be run again)."""
    rows, rerun = [], []
    for exercise in catalog.exercises(submission.lesson):
        old = earlier.get(exercise.id)
        new = _one(old, exercise, store, secret) if old else None
        if new is not None:
            rows.append(replace(new, course=version, core=exercise.core))
            continue
        rerun.append(exercise.id)
        if old is not None:
            rows.append(replace(old, notes=(*old.notes, JUDGED_BEFORE)))
    return rows, rerun


def _one(old, exercise, store, secret):
    from labsupport.grading.engine import judge_again

    frame = store.observations(old.observed, old.tier) if old.observed else None
    if frame is None:
        return old if old.outcome in _NOTHING_RAN and not old.observed else None
    return judge_again(old, frame, exercise, secret)


def changes(old_rows, new_rows):
    """Return the `Change`s between two lots of rows of the same learners."""
    old = {(row.learner, row.exercise): row for row in old_rows}
    pairs = [(old[key], row) for row in new_rows if (key := (row.learner, row.exercise)) in old]
    return [Change(was, now, _why(was, now)) for was, now in pairs if _told(was) != _told(now)]


def _told(row):
    return row.outcome, row.misconception, row.points, row.case, row.why


def _why(old, new):
    if old.answer != new.answer:
        return "another answer was taken from the file"
    if old.observed != new.observed:
        return "the exercise asks something else now"
    if (old.outcome, old.misconception) == (new.outcome, new.misconception):
        return "points changed" if old.points != new.points else "told in other words"
    return "the course judges the same behaviour differently"
