"""What grading has found so far, in one SQLite file: observations, so that nothing runs twice, and verdicts.

Observations and verdicts are only ever inserted, never changed: kill the grader at any moment and start it again, and
nothing is lost or counted twice. A verdict is tied to the exact file, the course that judged it, and the inputs used.
"""

import contextlib
import json
import sqlite3
import zlib
from dataclasses import asdict, dataclass, field, fields

from labsupport.course import Outcome, Verdict
from labsupport.errors import LabError

__all__ = ["Row", "Store"]

_FORMAT = 1
_PATIENCE_S = 30  # another grader holds the file for milliseconds

_SCHEMA = """
CREATE TABLE IF NOT EXISTS observation (
    key TEXT NOT NULL,             -- digest of answer, inputs, probe, limits
    tier TEXT NOT NULL,            -- of the cage: what a weaker one saw is not believed by a stronger one
    frame BLOB NOT NULL,           -- the observations of all cases, in the wire's format, compressed
    PRIMARY KEY (key, tier)
);
CREATE TABLE IF NOT EXISTS verdict (
    learner TEXT NOT NULL,
    exercise TEXT NOT NULL,
    digest TEXT NOT NULL,          -- of submission, course and inputs
    again INTEGER NOT NULL,        -- 0, or how often it was graded again because nothing was decided before
    number INTEGER NOT NULL,       -- order of arrival
    submission TEXT NOT NULL,      -- digest of the submitted file
    record TEXT NOT NULL,          -- JSON of a Row
    PRIMARY KEY (learner, exercise, digest, again)
);
CREATE INDEX IF NOT EXISTS verdict_of_submission ON verdict (submission, learner);
CREATE INDEX IF NOT EXISTS verdict_of_digest ON verdict (digest);
CREATE INDEX IF NOT EXISTS verdict_by_number ON verdict (number);  -- the next one is asked for with every submission
CREATE TABLE IF NOT EXISTS attempt (
    digest TEXT NOT NULL,          -- of a submission whose worker ended
    number INTEGER NOT NULL,
    how TEXT NOT NULL,
    PRIMARY KEY (digest, number)
);
CREATE TABLE IF NOT EXISTS clean_run (
    digest TEXT PRIMARY KEY,
    record TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS run (
    number INTEGER PRIMARY KEY,
    record TEXT NOT NULL           -- JSON: what the run said first
);
"""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One learner's result on one exercise, as every report shows it.

    Args:
        learner, lesson, exercise: who and what.
        outcome: one of the eight, as text; `points` of `points_of`.
        misconception, case, why, next, seen, measured: as in `Verdict`; expected values are never in it.
        taken: how the answer was found in the file; `notes`: doubts about the file, in words.
        submission: SHA-256 of the submitted file; `answer`: of the answer's text.
        observed: key of the kept observations, "" when nothing ran.
        clean_run: what the clean run under nbmake said about this answer's cell, "" when it was not made.
        tier: of the cage the answer ran in; `course`: version that judged.
        usage: wall, CPU seconds and peak bytes of the submission's processes.
    """

    learner: str
    lesson: str
    exercise: str
    outcome: str
    points: float = 0
    points_of: float = 0
    misconception: str | None = None
    case: str | None = None
    why: str = ""
    next: str = ""
    seen: str = ""
    measured: str = ""
    taken: str = ""
    notes: tuple = ()
    submission: str = ""
    answer: str = ""
    observed: str = ""
    core: bool = False
    clean_run: str = ""
    tier: str = ""
    course: str = ""
    usage: dict = field(default_factory=dict)

    def verdict(self):
        """Return the `Verdict` it was made from, so that every place tells it in the same words."""
        return Verdict(
            exercise=self.exercise,
            outcome=Outcome(self.outcome),
            case=self.case,
            misconception=self.misconception,
            why=self.why,
            next=self.next,
            seen=self.seen,
            measured=self.measured,
            points=self.points,
            points_of=self.points_of,
        )


class Store:
    """The grader's file. One process writes; a second one waits a moment for each submission.

    Args:
        path: the file; it and its folder are made when missing.

    Raises:
        LabError: the file cannot be opened or was not made by a grader.
    """

    def __init__(self, path):
        self.path = path
        with self._told():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(path, timeout=_PATIENCE_S, isolation_level=None)
            # One plain file, no memory shared between processes: this also holds on a network drive.
            self._db.execute("PRAGMA journal_mode=DELETE")
            self._db.execute("PRAGMA synchronous=FULL")
            made_by = self._db.execute("PRAGMA user_version").fetchone()[0]
            if made_by not in (0, _FORMAT):
                raise LabError(
                    f"{path} is in format {made_by}, this release reads {_FORMAT}",
                    next_step="grade into another folder (--out), or with the release that made it",
                )
            self._db.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version={_FORMAT}; COMMIT;")

    def close(self):
        self._db.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # -- observations ----------------------------------------------------------------------------------------------

    def observations(self, key, tier=""):
        """Return the kept frame of observations made in a cage of this tier, or None."""
        found = self._db.execute("SELECT frame FROM observation WHERE key = ? AND tier = ?", (key, tier)).fetchone()
        return zlib.decompress(found[0]) if found else None

    def known(self, submission, tier=""):
        """Return {key: frame} of everything observed of a submitted file (its SHA-256) in a cage of this tier."""
        found = self._db.execute("SELECT record FROM verdict WHERE submission = ?", (submission,))
        keys = {key for (record,) in found if (key := json.loads(record)["observed"])}
        frames = {key: self.observations(key, tier) for key in sorted(keys)}
        return {key: frame for key, frame in frames.items() if frame is not None}

    # -- verdicts --------------------------------------------------------------------------------------------------

    def add(self, rows, frames, digest, *, tier="", again=0, decided=True):
        """Insert a submission's rows and observation frames in one transaction; what is there already stays as it is.

        Args:
            rows: `Row`s of one submission.
            frames: {key: frame}.
            digest: what the verdicts are tied to.
            tier: of the cage the frames were observed in.
            again: how often this digest was graded before without a decision.
            decided: whether the attempts at this digest are settled by these rows.
        """
        packed = [(key, tier, zlib.compress(frame, 1)) for key, frame in frames.items()]
        with self._told(), self._transaction():
            self._db.executemany("INSERT OR IGNORE INTO observation VALUES (?, ?, ?)", packed)
            start = self._db.execute("SELECT COALESCE(MAX(number), 0) FROM verdict").fetchone()[0]
            self._db.executemany(
                "INSERT OR IGNORE INTO verdict VALUES (?, ?, ?, ?, ?, ?, ?)",
                [
                    (_text(r.learner), r.exercise, digest, again, start + i, r.submission, json.dumps(asdict(r)))
                    for i, r in enumerate(rows, 1)
                ],
            )
            if decided:
                self._db.execute("DELETE FROM attempt WHERE digest = ?", (digest,))

    def rows(self, digest):
        """Return the rows tied to a digest in order of arrival, per exercise the newest."""
        found = self._db.execute("SELECT record FROM verdict WHERE digest = ? ORDER BY again, number", (digest,))
        newest = {}
        for (record,) in found:
            row = _row(record)
            newest[row.learner, row.exercise] = row
        return list(newest.values())

    def again(self, digest):
        """Return how often this digest has been graded so far."""
        query = "SELECT COALESCE(MAX(again) + 1, 0) FROM verdict WHERE digest = ?"
        return self._db.execute(query, (digest,)).fetchone()[0]

    def earlier(self, learner, submission, digest):
        """Return {exercise: newest row} of a learner's file that other versions of the course judged."""
        found = self._db.execute(
            "SELECT record FROM verdict WHERE submission = ? AND learner = ? AND digest <> ? ORDER BY number",
            (submission, _text(learner), digest),
        )
        return {row.exercise: row for (record,) in found for row in [_row(record)]}

    def latest(self, learner, exercise, before=None):
        """Return the newest row of a learner's exercise that is not tied to the digest `before`, or None."""
        found = self._db.execute(
            "SELECT record FROM verdict WHERE learner = ? AND exercise = ? AND digest <> ?"
            " ORDER BY number DESC LIMIT 1",
            (_text(learner), exercise, before or ""),
        ).fetchone()
        return _row(found[0]) if found else None

    # -- submissions that broke a worker ---------------------------------------------------------------------------

    def attempts(self, digest):
        """Return how many workers began this digest, or ended on it, without a verdict."""
        return self._db.execute("SELECT COUNT(*) FROM attempt WHERE digest = ?", (digest,)).fetchone()[0]

    def add_attempt(self, digest, how):
        """Record that a worker begins a digest, or that it ended on it; `add` clears the record."""
        with self._told(), self._transaction():
            self._db.execute(
                "INSERT INTO attempt SELECT ?, COALESCE(MAX(number) + 1, 0), ? FROM attempt WHERE digest = ?",
                (digest, how, digest),
            )

    def take_back(self, digest):
        """Remove the newest attempt: the worker was stopped on purpose, the submission had no part in it."""
        newest = "(SELECT MAX(number) FROM attempt WHERE digest = ?)"
        with self._told(), self._transaction():
            self._db.execute(f"DELETE FROM attempt WHERE digest = ? AND number = {newest}", (digest, digest))

    # -- clean runs ------------------------------------------------------------------------------------------------

    def clean_run(self, digest):
        """Return what the clean run of a digest said, as it was added, or None."""
        found = self._db.execute("SELECT record FROM clean_run WHERE digest = ?", (digest,)).fetchone()
        return json.loads(found[0]) if found else None

    def add_clean_run(self, digest, said):
        """Keep what a clean run said (plain data); the first one stays."""
        with self._told(), self._transaction():
            self._db.execute("INSERT OR IGNORE INTO clean_run VALUES (?, ?)", (digest, json.dumps(said)))

    # -- runs ------------------------------------------------------------------------------------------------------

    def runs(self):
        """Return what each run said first (plain data), the oldest first."""
        return [json.loads(record) for (record,) in self._db.execute("SELECT record FROM run ORDER BY number")]

    def add_run(self, said):
        """Keep what a run says first; the same as last time adds nothing."""
        if self.runs()[-1:] != [said]:
            with self._told(), self._transaction():
                self._db.execute("INSERT INTO run (record) VALUES (?)", (json.dumps(said),))

    # -- machinery -------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _transaction(self):
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    @contextlib.contextmanager
    def _told(self):
        try:
            yield
        except sqlite3.OperationalError as error:
            step = (
                "wait for another grader to end, or free some disk space; then repeat the command, it goes on from here"
            )
            raise LabError(f"{self.path} could not be written", why=str(error), next_step=step) from error
        except sqlite3.DatabaseError as error:
            step = "move it away: the next run makes a new one"
            raise LabError(f"{self.path} is not a grader's file", why=str(error), next_step=step) from error


_FIELDS = {one.name for one in fields(Row)}


def _row(record):
    known = {name: value for name, value in json.loads(record).items() if name in _FIELDS}
    return Row(**known | {"notes": tuple(known.get("notes", ()))})


def _text(learner):
    """Return a name as SQLite can hold it: a file name that is not text comes with lone surrogates."""
    return learner.encode("utf-8", "backslashreplace").decode("utf-8")
