"""One notebook that tries something, as data, and the few shapes most of them have."""

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["SYSCALLS", "Attack", "escapes", "steals"]

SHAPE = "start-here/return-shape"
BATCHES = "start-here/mend-batches"


@dataclass(frozen=True, kw_only=True)
class Attack:
    """A notebook and what has to come of it.

    Args:
        id: names the test.
        kind: forging, stealing, exhausting, escaping, accident or known.
        tries: what it does, in words.
        cells: {exercise id: source of its answer cell}; the other exercises of the lesson nearby are answered rightly.
        expect: outcomes allowed for those exercises, joined by "|"; or {exercise id: outcomes}.
        loose: cells that stand before all others; `after`: at the end. They belong to no exercise.
        says: words that the row of the first exercise has to contain, whatever their case.
        why: of a known one: why it cannot be told from a right answer.
        others: what may come of the other exercises; anything else is a lost neighbour.
        is_patient: the limits stay as they are, since right answers beside it need their time.

    In a cell, words between @ signs are replaced: @SECRET@ is the path of a file that holds the secret, @HOST@ a folder
    of the host, @MARK@ a name not used elsewhere, @PORT@ a listening port of the host, @JUDGE@ the judge's pid,
    @REPOSITORY@ the course's folder, @SUBMISSION@ another learner's file.
    """

    id: str
    kind: str
    tries: str
    cells: Mapping
    expect: object = "wrong|crashed"
    loose: tuple = ()
    after: tuple = ()
    says: str = ""
    why: str = ""
    others: str = "passed"
    is_patient: bool = False

    def allowed(self, exercise_id):
        """Return the outcomes allowed for an exercise, as a set."""
        text = self.expect if isinstance(self.expect, str) else self.expect[exercise_id]
        return set(text.split("|"))


def escapes(body):
    """Return an answer cell that is right exactly when `breaks_out()`, defined in `body`, returns something true.

    So a passed exercise is an escape, and the tests need not know how it was done.
    """
    return textwrap.dedent(body).strip() + textwrap.dedent("""


        def batch_shape(samples, batch_rows):
            try:
                out = breaks_out()
            except BaseException as error:
                return f"contained by {type(error).__name__}"
            return (batch_rows, *samples.shape[1:]) if out else "contained"
        """)


def steals(body):
    """Return an answer cell that hands back what `finds()`, defined in `body`, returns: as a value, printed, raised."""
    return textwrap.dedent(body).strip() + textwrap.dedent("""


        def batch_shape(samples, batch_rows):
            try:
                found = finds()
            except Exception as error:
                found = error
            print(found)
            if batch_rows == 3:
                raise RuntimeError(found)
            return repr(found)
        """)


SYSCALLS = """
import ctypes, os, platform
libc = ctypes.CDLL(None, use_errno=True)
def call(x86, arm, *args):
    number = x86 if platform.machine() == "x86_64" else arm
    words = [ctypes.c_long(arg) if isinstance(arg, int) else arg for arg in args]
    return libc.syscall(ctypes.c_long(number), *words)
"""
