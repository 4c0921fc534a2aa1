"""What a learner did, as appended lines; progress is derived from them and stored nowhere else."""

import contextlib
import json
import os
from datetime import UTC, datetime

from labsupport.places import workspace

__all__ = ["Journal"]


class Journal:
    """The append-only journal of a workspace: JSON lines in `.lab/journal.jsonl`.

    A torn or foreign line is skipped, never repaired in place. Two kernels may append at once: a record is one
    `write` to a file opened for appending.
    """

    def __init__(self, folder=None):
        self.path = (folder or workspace()) / ".lab" / "journal.jsonl"
        self._unwritten = []  # what could not be written counts until this object is gone

    def append(self, event, exercise="", **details):
        """Add one record; returns False when the workspace cannot be written to (a check still answers then)."""
        record = {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "event": event,
            "exercise": exercise,
            **details,
        }
        line = json.dumps(record, ensure_ascii=False).encode() + b"\n"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab+", buffering=0) as file:
                # A line torn by a crash has no end: ours must not become its tail. Seeing another kernel's line
                # half-way costs an empty line, nothing more.
                with contextlib.suppress(OSError):
                    file.seek(-1, os.SEEK_END)
                    line = line if file.read(1) == b"\n" else b"\n" + line
                file.write(line)
        except OSError:
            self._unwritten.append(record)
            return False
        return True

    def records(self):
        """Return every readable record, oldest first."""
        try:
            lines = self.path.read_bytes().splitlines()
        except OSError:
            lines = []
        found = []
        for line in lines:
            with contextlib.suppress(ValueError, RecursionError):
                record = json.loads(line)
                if _is_record(record):
                    found.append(record)
        return found + self._unwritten

    def unreadable(self):
        """Return how many lines of the journal could not be read (and were left as they are)."""
        try:
            written = len(self.records()) - len(self._unwritten)
            return sum(1 for line in self.path.read_bytes().splitlines() if line.strip()) - written
        except OSError:
            return 0

    def about(self, exercise_id):
        """Return the records of one exercise, oldest first."""
        return [record for record in self.records() if record.get("exercise") == exercise_id]

    def passed(self):
        """Return the ids of the exercises that passed at least once."""
        return {r.get("exercise", "") for r in self.records() if r["event"] == "check" and r.get("outcome") == "passed"}


def _is_record(record):
    """Return whether a line is one of ours: text where text belongs."""
    if not isinstance(record, dict):
        return False
    texts = (record.get("event"), record.get("exercise", ""), record.get("outcome") or "")
    return all(isinstance(text, str) for text in texts)
