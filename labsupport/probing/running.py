"""Running an answer's code: guarded against hanging, quiet, with its exceptions as data."""

import builtins
import contextlib
import gc
import io
import linecache
import signal
import sys
import sysconfig
import threading
import time
import tracemalloc
import warnings

import numpy as np

from labsupport.course import Raised
from labsupport.probing import fair
from labsupport.probing.plain import Opaque, plain

__all__ = ["OverLimit", "SecondCall", "attempt", "count_steps", "peak_bytes"]

_AGAIN_S = 0.01  # until the time is looked at again, at least
_KEEP_PRINTED = 200
ANOTHER_RESULT = "AnotherResult"  # in place of an exception's name
ANOTHER_FILE = "called again on the same input, it wrote something else"
_TRACED = 4  # times as long as untraced code may take, since a trace slows each line down
# Folders whose lines are not the answer's; a child in a cage adds those it finds its packages in.
LIBRARIES = tuple(sysconfig.get_paths()[key] for key in ("stdlib", "purelib", "platlib"))


class OverLimit(BaseException):
    """Raised inside an answer that runs too long; not an `Exception`, so that a broad `except` cannot eat it."""


class SecondCall(Exception):
    """An answer that returned the first time and did something else when it was called again to be measured."""

    def __init__(self, raised, over):
        super().__init__(raised, over)
        self.raised, self.over = raised, over


class _Sink(io.TextIOBase):
    """A stream that keeps the beginning of what is printed; it cannot be filled, and closing it does nothing."""

    def __init__(self):
        self.text = ""

    def writable(self):
        return True

    def write(self, text):
        if len(self.text) < _KEEP_PRINTED:
            self.text += text[: _KEEP_PRINTED - len(self.text)]
        return len(text)

    def close(self):
        pass


@contextlib.contextmanager
def _deadline(seconds):
    """Interrupt Python code after `seconds` that count, where the platform can (the main thread on Unix)."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    clock = fair.Clock(fair.own_delay)

    def ring(*_):
        if clock.is_over(seconds):
            raise OverLimit
        signal.setitimer(signal.ITIMER_REAL, max(_AGAIN_S, seconds - clock.fair_s()), 1.0)  # it had no processor

    before, started = signal.signal(signal.SIGALRM, ring), time.monotonic()
    # Rings again, for code that swallows the first.
    others_s, others_interval_s = signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if others_s:  # somebody else's alarm goes on, with the time that has passed meanwhile taken off
            left_s = max(1e-3, others_s - (time.monotonic() - started))
            signal.setitimer(signal.ITIMER_REAL, left_s, others_interval_s)


@contextlib.contextmanager
def _quiet(sink):
    with warnings.catch_warnings(), contextlib.redirect_stdout(sink), contextlib.redirect_stderr(_Sink()):
        warnings.simplefilter("ignore")
        yield


def attempt(function, args, seconds):
    """Call `function(*args)` and return (result, Raised or None, over-limit text or None, printed text)."""
    printed, deepest = _Sink(), sys.getrecursionlimit()
    try:
        with _deadline(seconds), _quiet(printed):
            return function(*args), None, None, printed.text
    except OverLimit:
        return None, None, f"still running after {seconds:g} s", printed.text
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit and friends included: an answer must not end the check
        return None, _as_raised(error), None, printed.text
    finally:
        if sys.getrecursionlimit() != deepest:  # one answer's way out is not to be the next one's
            sys.setrecursionlimit(deepest)


def _as_raised(error):
    try:
        message = str(error)
    except BaseException:
        message = "(its text cannot be shown)"
    line, lineno = "", 0
    trace = error.__traceback__
    while trace is not None:
        filename = trace.tb_frame.f_code.co_filename
        if not _is_library(filename):
            line, lineno = linecache.getline(filename, trace.tb_lineno).strip(), trace.tb_lineno
        trace = trace.tb_next
    bases = tuple(_name_of(base) for base in type(error).__mro__[1:] if issubclass(base, BaseException))
    return Raised(type=_name_of(type(error)), message=message[:500], line=line, lineno=lineno, bases=bases)


_BUILT_IN = {name: kind for name, kind in vars(builtins).items() if isinstance(kind, type)}


def _name_of(kind):
    """Return an exception class's name; with its module where it only borrows the name of a built-in one.

    NumPy shows some of its own under the name of the built-in class they derive from: whoever catches that gets them.
    """
    if issubclass(kind, _BUILT_IN.get(kind.__name__, kind)):
        return kind.__name__
    module = kind.__module__ if type(kind.__module__) is str else ""
    return f"{module}.{kind.__name__}"


def _is_library(filename):
    # Compared by prefix: a cell's file lies in a temporary folder, an answer's is called "<answer ...>".
    return (
        filename.startswith(LIBRARIES)
        or filename.endswith((".pyx", ".pxd", ".pxi"))  # compiled code gives its source's name, without a folder
        or filename.startswith("<frozen")
        or filename == __file__
        or any(f"labsupport{'/' if '/' in filename else chr(92)}{own}" in filename for own in ("probing", "ranks"))
    )


def same_again(result, known):
    """Raise `SecondCall` unless a result is what the first call returned: what is measured must be what is judged."""
    if not _alike(plain(result), known):
        raise SecondCall(
            Raised(type=ANOTHER_RESULT, message="called again on the same input, it returned something else"), None
        )


def _alike(a, b):
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        if a.tobytes() == b.tobytes():  # asked first: as a rule they are the same to the bit
            return True
        return bool(np.allclose(a, b, equal_nan=True) if a.dtype.kind in "fc" else (a == b).all())
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(_alike, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_alike(a[key], b[key]) for key in a)
    return isinstance(a, Opaque) or a == b or a != a


def peak_bytes(function, make_args, seconds, known, most=(0, 0)):
    """Return (peak bytes allocated during a call, bytes still held afterwards) by `tracemalloc`.

    Held is what the result keeps alive once the caller has let go of the inputs: an input it refers to counts.
    Where that is over a budget the smaller of two rounds counts: the first one also pays for caches and lazy imports.

    Args:
        function, make_args: what is called, and what makes its arguments anew.
        seconds: how long a call may take.
        known: the plain value it returned before.
        most: the budgets (peak, held).

    Raises:
        SecondCall: the answer did not return this time, returned something else, or stopped the counting.
    """
    was_tracing, was_collecting = tracemalloc.is_tracing(), gc.isenabled()
    gc.disable()  # old garbage freed in the middle would count in the answer's favour
    if not was_tracing:
        tracemalloc.start()
    try:
        seen = [_one_round(function, make_args, seconds, known)]
        if any(bytes_ > budget for bytes_, budget in zip(seen[0], most, strict=True)):
            seen.append(_one_round(function, make_args, seconds, known))
    finally:
        if not was_tracing:
            tracemalloc.stop()
        if was_collecting:
            gc.enable()
    return min(peak for peak, _ in seen), min(held for _, held in seen)


def _one_round(function, make_args, seconds, known):
    empty, _ = tracemalloc.get_traced_memory()
    args = make_args()
    before, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    result, raised, over, _ = attempt(function, args, seconds)
    _, peak = tracemalloc.get_traced_memory()
    del args
    held, _ = tracemalloc.get_traced_memory()
    if not (raised or over) and not tracemalloc.is_tracing():
        raised = Raised(
            type="MeasurementStopped", message="it stopped tracemalloc, which counts the bytes it allocates"
        )
    if raised or over:
        raise SecondCall(raised, over)
    same_again(result, known)
    del result  # it had to live until the numbers were read
    return max(0, peak - before), max(0, held - empty)


def count_steps(function, args, seconds, known):
    """Return how many Python lines outside libraries ran during the call: a loop over n items takes at least n.

    Raises:
        SecondCall: the answer did not return this time, or returned something else than `known`.
    """
    steps = 0

    def trace(frame, event, _):
        if _is_library(frame.f_code.co_filename):
            return None
        count(frame, "line", _)
        return count

    def count(frame, event, _):
        nonlocal steps
        steps += event == "line"
        return count

    before = sys.gettrace(), threading.gettrace()
    sys.settrace(trace)
    threading.settrace(trace)  # a loop in a thread of its own is a loop
    try:
        result, raised, over, _ = attempt(function, args, _TRACED * seconds)
    finally:
        sys.settrace(before[0])
        threading.settrace(before[1])
    if raised or over:
        raise SecondCall(raised, over)
    same_again(result, known)
    return steps
