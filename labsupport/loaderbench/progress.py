"""How far a sweep is, and how long it will take: one line in a terminal, one line in a notebook that renews itself."""

import sys
from html import escape
from time import monotonic

from labsupport.errors import UsageError
from labsupport.loaderbench.wording import duration

__all__ = ["NotebookProgress", "Silent", "TerminalProgress", "progress_of"]


def progress_of(wanted):
    """Return an object with `show(done, total, words, left_s)` and `close()`.

    Raises:
        UsageError: `wanted` is not "auto", None or such an object.
    """
    if wanted is None:
        return Silent()
    if hasattr(wanted, "show") and hasattr(wanted, "close"):
        return wanted
    if wanted != "auto":
        raise UsageError(
            f"progress cannot be {wanted!r}", next_step="give 'auto', None, or an object with show and close"
        )
    return NotebookProgress() if _in_a_notebook() else TerminalProgress(sys.stderr)


def _in_a_notebook():
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


def words_of(done, total, words, left_s):
    """Return the state in one line of plain text."""
    left = "" if left_s is None else f", about {duration(max(1, round(left_s)))} left"
    return f"run {min(done + 1, total)} of at most {total}{left}: {words}"


class Silent:
    """Shows nothing."""

    def show(self, done, total, words, left_s):
        """Do nothing."""

    def close(self):
        """Do nothing."""


class TerminalProgress:
    """One line that renews itself; where the output is a file, one line per stage."""

    def __init__(self, stream):
        from labsupport.environment.progress import Progress

        self._progress, self._stage = Progress(stream), None

    def show(self, done, total, words, left_s):
        """Show the state."""
        stage = words.partition(":")[0]
        if self._progress.live or stage != self._stage:
            self._progress.update(words_of(done, total, words, left_s))
        self._stage = stage

    def close(self):
        """Take the line away."""
        if self._progress.live:
            self._progress.update("")


class NotebookProgress:
    """One output of the cell, replaced at every run; what stays is how long the sweep took.

    A page made of the saved notebook would show an emptied output as a gap, and no front end can take one away
    without the learner's own lines above it.
    """

    def __init__(self):
        self._handle, self._since = None, monotonic()

    def show(self, done, total, words, left_s):
        """Show the state."""
        text = words_of(done, total, words, left_s)
        bar = f'<progress value="{done}" max="{max(1, total)}" aria-label="runs done"></progress> '
        self._put({"text/plain": text, "text/html": f"<div>{bar}{escape(text)}</div>"})

    def close(self):
        """Say how long it took, also when the sweep was stopped."""
        if self._handle is not None:
            text = f"loaderbench ran for {duration(max(1, round(monotonic() - self._since)))}."
            self._put({"text/plain": text, "text/html": f"<div>{escape(text)}</div>"})

    def _put(self, bundle):
        from IPython.display import display

        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)
