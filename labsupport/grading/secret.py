"""The instructor's secret: inputs nobody can prepare for, and a signature on the record."""

import hashlib
import hmac
import os
from dataclasses import dataclass

from labsupport.errors import LabError
from labsupport.inputs import PUBLIC_SEED

__all__ = ["Secret"]

_SECRET_BYTES = 16


@dataclass(frozen=True)
class Secret:
    """The instructor's secret: inputs are derived from it, and records are signed with it; empty means `feedback`."""

    key: bytes = b""

    @classmethod
    def load(cls, path=None):
        """Return the secret of `path`, else of LAB_SECRET, else none.

        Raises:
            LabError: the file is missing or can be read by others, or the secret has fewer than 16 bytes. An empty
                LAB_SECRET counts as none.
        """
        if path is None:
            given = os.fsencode(os.environ.get("LAB_SECRET", ""))
            step = "set it to at least 16 random ones, or unset it: without a secret the inputs are public (feedback)"
            return cls(_long_enough(given, "LAB_SECRET", step)) if given else cls()
        try:
            mode, key = path.stat().st_mode, path.read_bytes()
        except OSError as error:
            raise LabError(
                f"the secret {path} cannot be read ({error.strerror})", next_step="name a file that holds it"
            ) from None
        if mode & 0o077 and os.name == "posix":
            raise LabError(f"the secret {path} can be read by others", next_step=f"chmod 600 {path}")
        return cls(_long_enough(key, f"the secret {path}", "write at least 16 random ones into it"))

    def __bool__(self):
        return bool(self.key)

    def __repr__(self):
        return f"Secret({'set' if self.key else 'none'})"

    def seed(self, submission, exercise_id):
        """Return the seed of one submission's inputs: its own, and the same when it is graded again."""
        if not self.key:
            return PUBLIC_SEED
        digest = hmac.new(self.key, f"{submission}\n{exercise_id}".encode(), hashlib.sha256).digest()
        return int.from_bytes(digest[:8], "big")

    def sign(self, text):
        """Return the HMAC of a record as hex, "" without a secret."""
        return hmac.new(self.key, text.encode(), hashlib.sha256).hexdigest() if self.key else ""


def _long_enough(key, name, next_step):
    """Return a secret without the blanks around it; raise LabError when it is too short to keep anything secret."""
    stripped = key.strip()
    if len(stripped) < _SECRET_BYTES:
        nothing = "nothing but blanks in it" if key else "nothing in it"
        size = f"only {len(stripped)} of the {_SECRET_BYTES} bytes it needs" if stripped else nothing
        raise LabError(f"{name} has {size}", next_step=next_step)
    return stripped
