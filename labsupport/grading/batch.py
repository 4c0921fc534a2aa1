"""A class at once: what is done already is left alone, the rest goes to workers, every result is stored as it arrives.

Kill anything and run again: a submission's rows are stored together or not at all, and stored rows are never graded
again, unless nothing was decided then (`cannot run here`, `grader fault`) or they come from a weaker cage.
"""

import hashlib
from collections import Counter, deque
from dataclasses import dataclass, replace

from labsupport import catalog
from labsupport.course import Outcome
from labsupport.grading.store import Row
from labsupport.grading.workers import Broken, Job, Result

__all__ = ["Planned", "Prepared", "collect", "grade_all", "plan", "prepare"]

JUDGED_BEFORE = "The exercise has changed since this was judged; `lab grade` runs the answer again."
_TRIES = 3  # a submission that ends its worker this often is the grader's to look at
_UNDECIDED = ("cannot run here", "grader fault")
_STRENGTH = {"A": 2, "B": 1, "C": 0, "": -1}


# -- which files, of which lesson ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Prepared:
    """The submissions to grade, and sentences about those that are left out or whose lesson had to be guessed."""

    submissions: tuple
    notes: tuple


def prepare(found, lesson=None):
    """Return the `Prepared` submissions: each has a lesson where one can be told.

    Args:
        found: submissions as read.
        lesson: slug of the only lesson to grade, None for all; also the lesson of files that do not say theirs.
    """
    told = {one.lesson for one in found if one.lesson}
    usual = lesson or (next(iter(told)) if len(told) == 1 else None)
    having = {one.learner for one in found if one.lesson and lesson in (None, one.lesson)}
    kept, notes = [], []
    for one in found:
        where = f"`{one.path}` of {one.learner}"
        if one.lesson and lesson and one.lesson != lesson:
            notes.append(f"{where} is lesson {one.lesson}: not asked for, left out.")
        elif one.lesson:
            kept.append(one)
        elif not one.unreadable and one.learner in having:
            notes.append(f"{where} holds no exercise of the course: left out.")
        elif usual:
            notes.append(f"{where} does not say its lesson: counted as {usual}.")
            kept.append(replace(one, lesson=usual))
        else:
            kept.append(one)
    return Prepared(tuple(kept), tuple(notes))


# -- what is left to do ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Planned:
    """A submission, what its rows are tied to, and whether it has still to be graded."""

    submission: object
    digest: str
    todo: bool
    clean_todo: bool = False


def plan(submissions, store, secret, tier, clean_run=False):
    """Return a `Planned` per submission.

    Args:
        submissions: each with its lesson.
        store: the `Store`.
        secret: the `Secret`.
        tier: of the cage this run would grade in.
        clean_run: whether clean runs are asked for.
    """
    from labsupport.grading.engine import grading_key

    planned = []
    for one in submissions:
        digest = _tied_to(one, grading_key(one, secret))
        todo = bool(one.lesson) and _is_open(store, one, digest, tier)
        clean = clean_run and bool(one.lesson) and not one.unreadable and store.clean_run(digest) is None
        planned.append(Planned(one, digest, todo, clean))
    return planned


def _tied_to(one, key):
    """Return what rows are tied to: for a file that cannot be graded also why, which may be another reason today."""
    if not one.unreadable:
        return key
    return hashlib.sha256("\n".join((key, one.unreadable, one.repair)).encode("utf-8", "replace")).hexdigest()[:32]


def _is_open(store, one, digest, tier):
    rows = store.rows(digest)
    if not rows or (not one.unreadable and any(_was_unreadable(row, one) for row in rows)):
        return True
    if any(_STRENGTH[row.tier] < _STRENGTH[tier] for row in rows if row.observed):
        return True
    undecided = any(row.outcome in _UNDECIDED for row in rows)
    return undecided and store.attempts(digest) < _TRIES


def _was_unreadable(row, one):
    """Whether a row says that an answer cannot be read which can be read today."""
    taken = one.answers.get(row.exercise)
    return row.outcome == Outcome.UNREADABLE.value and taken is not None and not taken.unreadable


# -- grading ---------------------------------------------------------------------------------------------------------


def grade_all(planned, store, secret, desk, *, allow_fenced=False, tier="", progress=lambda done: None):
    """Grade what is open in `planned` on `desk` and store each result at once; returns how many were graded.

    Args:
        planned: as `plan` made them.
        store: the `Store`.
        secret: the `Secret`.
        desk: an open `Here` or `Cluster`.
        allow_fenced: whether tier B may grade.
        tier: of the cage, for what is known already.
        progress: called with the number of submissions done so far.

    Raises:
        GradingImpossible: a worker cannot grade.
    """
    run = _Run(store, secret, desk, allow_fenced, tier)
    waiting = deque({one.digest: one for one in planned if one.todo or one.clean_todo}.values())
    try:
        while waiting or desk.flying:
            while waiting and desk.flying < desk.room:
                run.send(waiting.popleft())
            if not desk.flying:
                continue
            one, result = run.receive()
            if isinstance(result, Broken) and store.attempts(one.digest) < _TRIES:
                waiting.append(one)
                continue
            run.keep(one, result)
            progress(run.kept)
    except BaseException:
        run.excuse()
        raise
    return run.kept


class _Run:
    """One call of `grade_all`: sends, receives, stores."""

    def __init__(self, store, secret, desk, allow_fenced, tier):
        self.store, self.secret, self.desk = store, secret, desk
        self.allow_fenced, self.tier = allow_fenced, tier
        self._sent, self.kept = {}, 0

    def send(self, one):
        from labsupport.grading.engine import course_version

        submission = one.submission
        job = Job(
            submission=submission,
            digest=one.digest,
            secret=self.secret,
            known=self.store.known(submission.sha256, self.tier),
            verdicts=one.todo,
            clean_run=one.clean_todo,
            allow_fenced=self.allow_fenced,
            course=course_version(),
        )
        self._sent[one.digest] = one
        if self.desk.room == 1:  # this very process grades: if the submission ends it, the next run has to know
            self.store.add_attempt(one.digest, "began")
            if self.store.attempts(one.digest) > _TRIES:
                self.keep(one, Broken("the grader ended each time it came to this file"))
                return
        self.desk.submit(job)

    def receive(self):
        job, result = self.desk.next()
        if isinstance(result, Broken):
            for _ in range(result.times):
                self.store.add_attempt(job.digest, result.how)
        return self._sent.pop(job.digest), result

    def keep(self, one, result):
        """Store what came back: rows and observations in one step, then the clean run."""
        from labsupport.grading.engine import course_version

        rows, frames, tier = (), {}, self.tier
        decided = not isinstance(result, Broken)
        if isinstance(result, Result):
            rows, frames, tier = result.rows, result.frames, result.tier
        if isinstance(result, Broken) or result.fault:
            how = f"{result.how}, {_TRIES} times" if isinstance(result, Broken) else result.fault
            rows = _fault_rows(one.submission, how)
        rows = tuple(replace(row, tier=tier if row.observed else "", course=course_version()) for row in rows)
        if rows:
            self.store.add(rows, frames, one.digest, tier=tier, again=self.store.again(one.digest), decided=decided)
        elif decided:
            self.store.take_back(one.digest)
        self.kept += 1
        if decided and result.clean is not None:
            self.store.add_clean_run(one.digest, result.clean)

    def excuse(self):
        """The run was stopped, and not by what it was at."""
        if self.desk.room == 1:
            for digest in self._sent:
                self.store.take_back(digest)


def _fault_rows(submission, how):
    why = f"Grading failed on our side ({how})."
    step = "Nothing is held against the answer; whoever grades looks into it."
    return tuple(
        _row(submission, exercise, Outcome.GRADER_FAULT, why, step) for exercise in catalog.exercises(submission.lesson)
    )


def _row(submission, exercise, outcome, why, step):
    points = exercise.points if isinstance(exercise.points, int | float) else sum(exercise.points.values())
    return Row(
        learner=submission.learner,
        lesson=submission.lesson,
        exercise=exercise.id,
        outcome=outcome.value,
        points_of=points,
        why=why,
        next=step,
        core=exercise.core,
        notes=tuple(submission.notes),
        submission=submission.sha256,
    )


# -- every row of the class --------------------------------------------------------------------------------------------


def collect(planned, store, judged=None):
    """Return (rows, {lesson: exercise ids}): one row per learner and exercise, in a fixed order, nobody left out.

    Where several files of a learner answer the same exercise, the better one counts and the row says so. A lesson that
    others handed in and this learner did not is `not yet` throughout.

    Args:
        planned: as `plan` made them.
        store: the `Store`.
        judged: {digest: rows} to take instead of the stored ones.
    """
    exercises = {slug: [e.id for e in catalog.exercises(slug)] for slug in _lessons(planned)}
    found = {}
    for one in {one.digest: one for one in planned}.values():
        kept = store.rows(one.digest) if judged is None else judged.get(one.digest, [])
        for row in _rows_of(one, kept, store, exercises):
            found.setdefault((row.learner, row.lesson, row.exercise), []).append(row)
    learners = sorted({one.submission.learner for one in planned}, key=lambda name: (name.casefold(), name))
    rows = []
    for learner in learners:
        for slug, ids in exercises.items():
            rows += [_better(found[key]) if (key := (learner, slug, name)) in found else _no_file(*key) for name in ids]
        rows += found.get((learner, "", ""), [])
    shown = exercises | ({"": [""]} if any(not row.exercise for row in rows) else {})
    return tuple(rows), shown


def _lessons(planned):
    wanted = {one.submission.lesson for one in planned}
    return [lesson.slug for lesson in catalog.lessons() if lesson.slug in wanted]


def _rows_of(one, rows, store, exercises):
    if not one.submission.lesson:
        return [_unknown_lesson(one.submission)]
    rows = _told_today(one.submission, rows)
    said = store.clean_run(one.digest)
    if said is None:
        return rows
    from labsupport.grading.clean_run import told

    return [replace(row, clean_run=told(said, row.exercise, exercises[row.lesson])) for row in rows]


def _told_today(submission, rows):
    """Return rows with what is said about the file today: its neighbours may be others than when it was graded."""
    if submission.unreadable:
        asked = (Outcome.UNREADABLE, submission.unreadable, submission.repair)
        return [_row(submission, exercise, *asked) for exercise in catalog.exercises(submission.lesson)]
    told = []
    for row in rows:
        taken = submission.answers.get(row.exercise)
        fresh = (*submission.notes, *(taken.notes if taken else ()))
        added = tuple(note for note in row.notes if note == JUDGED_BEFORE)
        told.append(replace(row, notes=(*fresh, *added)))
    return told


def _unknown_lesson(submission):
    return Row(
        learner=submission.learner,
        lesson="",
        exercise="",
        outcome=Outcome.UNREADABLE.value,
        why=submission.unreadable or "Nothing in this file says which lesson it answers.",
        next=submission.repair or "Grade it again with --lesson and the lesson's name.",
        notes=tuple(submission.notes),
        submission=submission.sha256,
    )


def _better(rows):
    """Return the best of a learner's rows for one exercise; at equal points the one that was judged, then the later."""
    ranked = sorted(rows, key=lambda row: (row.points, row.outcome not in ("not yet", "unreadable")))
    best = ranked[-1]
    others = Counter(row.outcome for row in ranked[:-1])
    if not others:
        return best
    words = ", ".join(f"{count} x {outcome}" for outcome, count in sorted(others.items()))
    note = f"{len(rows)} files of this learner hold this exercise; the best counts (others: {words})."
    return replace(best, notes=(*best.notes, note))


def _no_file(learner, slug, name):
    exercise = catalog.find_exercise(name, slug)
    why, step = "No readable file of this lesson was handed in.", f"Hand in {catalog.find_lesson(slug).notebook}."
    missing = _Missing(learner, slug)
    return replace(_row(missing, exercise, Outcome.NOT_YET, why, step), taken="no file")


@dataclass(frozen=True)
class _Missing:
    learner: str
    lesson: str
    notes: tuple = ()
    sha256: str = ""
