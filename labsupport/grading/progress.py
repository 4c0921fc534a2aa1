"""How far a class is: a bar with the time left on a terminal, plain lines elsewhere."""

import contextlib
import time

__all__ = ["progress"]

_EVERY_S = 15.0


@contextlib.contextmanager
def progress(total, stream, clock=time.monotonic):
    """Yield `told(done)`, to be called after each submission.

    Args:
        total: how many submissions there are.
        stream: where to write, standard error as a rule.
        clock: seconds that only grow.
    """
    if total and stream.isatty():
        with _bar(total, stream) as told:
            yield told
    else:
        yield _Lines(total, stream, clock)


@contextlib.contextmanager
def _bar(total, stream):
    from rich import progress as bars
    from rich.console import Console

    columns = (bars.TextColumn("grading"), bars.BarColumn(), bars.MofNCompleteColumn(), bars.TimeElapsedColumn())
    left = (bars.TextColumn("left"), bars.TimeRemainingColumn())
    with bars.Progress(*columns, *left, console=Console(file=stream)) as shown:
        task = shown.add_task("grading", total=total)
        yield lambda done: shown.update(task, completed=done)


class _Lines:
    """A line for every tenth of the class, and one now and then where that takes long."""

    def __init__(self, total, stream, clock):
        self._total, self._stream, self._clock = total, stream, clock
        self._started = self._said = clock()
        self._tenth = 0

    def __call__(self, done):
        now, tenth = self._clock(), 10 * done // max(1, self._total)
        if tenth == self._tenth and now - self._said < _EVERY_S:
            return
        self._tenth, self._said = tenth, now
        left = (now - self._started) / done * (self._total - done)
        more = f", about {_words(left)} left" if left else ""
        print(f"graded {done} of {self._total}{more}", file=self._stream, flush=True)


def _words(seconds):
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
