"""The errors the course raises on purpose: what happened, why, what to do next."""

__all__ = ["LabError", "UsageError"]


class LabError(Exception):
    """A problem told in up to three lines: what happened, why, and one next action.

    Args:
        what: what happened, with the real values, as one clause.
        why: the cause in words, or None when `what` already says it.
        next_step: one action the reader can take, or None.
    """

    exit_code = 1  # of a `lab` command that ends with this error

    def __init__(self, what, *, why=None, next_step=None):
        super().__init__(what)
        self.what = what
        self.why = why
        self.next_step = next_step

    def __str__(self):
        lines = [self.what]
        if self.why:
            lines.append(f"  why:  {self.why}")
        if self.next_step:
            lines.append(f"  next: {self.next_step}")
        return "\n".join(lines)

    def _render_traceback_(self):
        """Shown by IPython instead of a traceback: the learner's code is not at fault."""
        return str(self).splitlines()


class UsageError(LabError):
    """Something was asked for that does not exist or does not fit: an unknown id, a wrong argument."""

    exit_code = 2
