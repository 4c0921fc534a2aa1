"""What can go wrong between the judge and a child; importing this loads nothing that only one system has."""

from labsupport.errors import LabError

__all__ = ["CannotRunHere", "Died", "GradingImpossible", "OverLimit"]


class GradingImpossible(LabError):
    """Verdicts computed here could not be relied on; nothing of a learner was run. `report` says what was found."""

    exit_code = 3  # not that of failing submissions

    def __init__(self, what, *, why=None, next_step=None, report=None):
        super().__init__(what, why=why, next_step=next_step)
        self.report = report


class CannotRunHere(LabError):
    """This machine's tier is too weak for what the exercise needs."""


class Died(Exception):
    """The child ended by itself. `how` says it in words, `code` is its exit code or minus the signal's number."""

    def __init__(self, how, code=None):
        super().__init__(how)
        self.how, self.code = how, code


class OverLimit(Exception):
    """A limit was passed: `which` ("time", "memory", "cpu", "disk", "processes", "answer") and its value.

    The value is in seconds for time and CPU, in bytes for memory, disk and answers, else a number.
    """

    def __init__(self, which, limit):
        super().__init__(f"{which}: the limit is {_in_words(which, limit)}")
        self.which, self.limit = which, limit


def _in_words(which, limit):
    if which in ("time", "cpu"):
        return f"{limit:g} s"
    return f"{limit:,}" + (" bytes" if which in ("memory", "disk", "answer") else "")
