"""What grading has found so far, in one SQLite file: observations, so that nothing runs twice, and verdicts.

Rows are only ever inserted, never changed: kill the grader at any moment and start it again, and nothing is lost or
counted twice. A verdict is tied to the exact answer and the exact course that judged it.
"""

import json
import sqlite3
from dataclasses import asdict, dataclass, field

__all__ = ["Row", "Store"]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS observation (
    key TEXT PRIMARY KEY,          -- digest of answer, inputs, probe, limits
    frame BLOB NOT NULL            -- the observations of all cases, in the wire's format
);
CREATE TABLE IF NOT EXISTS verdict (
    learner TEXT NOT NULL,
    exercise TEXT NOT NULL,
    digest TEXT NOT NULL,          -- digest of submission, course and key of the inputs
    number INTEGER NOT NULL,       -- order of arrival
    record TEXT NOT NULL,          -- JSON of a Row
    PRIMARY KEY (learner, exercise, digest)
);
CREATE TABLE IF NOT EXISTS attempt (
    submission TEXT NOT NULL,      -- digest of a submission whose worker died
    number INTEGER NOT NULL,
    how TEXT NOT NULL,
    PRIMARY KEY (submission, number)
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
    usage: dict = field(default_factory=dict)


class Store:
    """The grader's file. One process writes; opening a second time while a grader runs waits, then says so."""

    def __init__(self, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(path, timeout=30, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.executescript(_SCHEMA)

    def close(self):
        self._db.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def observations(self, key):
        """Return the kept frame of observations, or None."""
        found = self._db.execute("SELECT frame FROM observation WHERE key = ?", (key,)).fetchone()
        return found[0] if found else None

    def add(self, rows, frames, digest):
        """Insert a submission's rows and observation frames in one transaction; what is there already stays as it is.

        Args:
            rows: `Row`s of one submission.
            frames: {key: frame}.
            digest: what the verdicts are tied to.
        """
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany("INSERT OR IGNORE INTO observation VALUES (?, ?)", list(frames.items()))
            start = self._db.execute("SELECT COALESCE(MAX(number), 0) FROM verdict").fetchone()[0]
            self._db.executemany(
                "INSERT OR IGNORE INTO verdict VALUES (?, ?, ?, ?, ?)",
                [(r.learner, r.exercise, digest, start + i, json.dumps(asdict(r))) for i, r in enumerate(rows, 1)],
            )

    def rows(self, digest):
        """Return the rows tied to a digest, in order of arrival."""
        found = self._db.execute("SELECT record FROM verdict WHERE digest = ? ORDER BY number", (digest,))
        return [_row(record) for (record,) in found]

    def latest(self, learner, exercise, before=None):
        """Return the newest row of a learner's exercise that is not tied to the digest `before`, or None."""
        found = self._db.execute(
            "SELECT record FROM verdict WHERE learner = ? AND exercise = ? AND digest <> ? ORDER BY number DESC LIMIT 1",
            (learner, exercise, before or ""),
        ).fetchone()
        return _row(found[0]) if found else None

    def attempts(self, submission):
        """Return how many workers this submission has broken so far."""
        return self._db.execute("SELECT COUNT(*) FROM attempt WHERE submission = ?", (submission,)).fetchone()[0]

    def add_attempt(self, submission, how):
        """Record that a worker died on a submission."""
        self._db.execute("INSERT INTO attempt VALUES (?, ?, ?)", (submission, self.attempts(submission), how))


def _row(record):
    fields = json.loads(record)
    fields["notes"] = tuple(fields["notes"])
    return Row(**fields)
