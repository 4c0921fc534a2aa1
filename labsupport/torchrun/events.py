"""A job's events.jsonl: what agents and ranks tell, one line each."""

import contextlib
import json
import os
import time
from pathlib import Path

__all__ = ["Events"]


class Events:
    """Write and read the events of a job. `t` is seconds since the job was asked for.

    Args:
        folder: the job's.
        begun: `time.monotonic()` at that moment; every process of a machine has the same clock.
    """

    def __init__(self, folder, begun):
        self._file, self._begun = Path(folder) / "events.jsonl", begun

    def write(self, event, **more):
        """Append one event, whole: several processes write to the file."""
        line = json.dumps({"t": round(time.monotonic() - self._begun, 4), "event": event} | more) + "\n"
        fd = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(fd, line.encode())
        finally:
            os.close(fd)

    def read(self):
        """Return all events so far as a tuple of dicts."""
        with contextlib.suppress(OSError):
            lines = self._file.read_text(encoding="utf-8").splitlines()
            return tuple(json.loads(line) for line in lines if line.endswith("}"))
        return ()
