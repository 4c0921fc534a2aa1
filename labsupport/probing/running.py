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
import tracemalloc
import warnings

from labsupport.course import Raised

__all__ = ["OverLimit", "attempt", "count_steps", "peak_bytes"]

_KEEP_PRINTED = 200
# Folders whose lines are not the answer's; a child in a cage adds those it finds its packages in.
LIBRARIES = tuple(sysconfig.get_paths()[key] for key in ("stdlib", "purelib", "platlib"))


class OverLimit(BaseException):
    """Raised inside an answer that runs too long; not an `Exception`, so that a broad `except` cannot eat it."""


@contextlib.contextmanager
def _deadline(seconds):
    """Interrupt Python code after `seconds`, where the platform can (the main thread on Unix)."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(*_):
        raise OverLimit

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)  # rings again, for code that swallows the first
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def attempt(function, args, seconds):
    """Call `function(*args)` and return (result, Raised or None, over-limit text or None, printed text)."""
    printed = io.StringIO()
    try:
        with (
            _deadline(seconds),
            warnings.catch_warnings(),
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            return function(*args), None, None, printed.getvalue()[:_KEEP_PRINTED]
    except OverLimit:
        return None, None, f"still running after {seconds:g} s", printed.getvalue()[:_KEEP_PRINTED]
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit and friends included: an answer must not end the check
        return None, _as_raised(error), None, printed.getvalue()[:_KEEP_PRINTED]


def _as_raised(error):
    try:
        message = str(error)
    except Exception:
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
        or filename.startswith("<frozen")
        or filename == __file__
        or (f"labsupport{'/' if '/' in filename else chr(92)}probing" in filename)
    )


def peak_bytes(function, make_args, rounds=2):
    """Return (peak bytes allocated during a call, bytes still held afterwards) by `tracemalloc`.

    Held is what the result keeps alive once the caller has let go of the inputs: an input it refers to counts.
    The smaller of two rounds counts: the first one also pays for caches and lazy imports. Errors count as 0.
    """
    was_tracing, was_collecting = tracemalloc.is_tracing(), gc.isenabled()
    gc.disable()  # old garbage freed in the middle would count in the answer's favour
    if not was_tracing:
        tracemalloc.start()
    try:
        seen = [_one_round(function, make_args) for _ in range(rounds)]
    finally:
        if not was_tracing:
            tracemalloc.stop()
        if was_collecting:
            gc.enable()
    return min(peak for peak, _ in seen), min(held for _, held in seen)


def _one_round(function, make_args):
    empty, _ = tracemalloc.get_traced_memory()
    args = make_args()
    before, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    result = None
    with contextlib.suppress(Exception), contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = function(*args)
    _, peak = tracemalloc.get_traced_memory()
    del args
    held, _ = tracemalloc.get_traced_memory()
    del result  # it had to live until the numbers were read
    return max(0, peak - before), max(0, held - empty)


def count_steps(function, args):
    """Return how many Python lines outside libraries ran during the call: a loop over n items takes at least n."""
    steps = 0

    def trace(frame, event, _):
        nonlocal steps
        if _is_library(frame.f_code.co_filename):
            return None
        steps += event in ("call", "line")
        return trace

    before = sys.gettrace(), threading.gettrace()
    sys.settrace(trace)
    threading.settrace(trace)  # a loop in a thread of its own is a loop
    try:
        with contextlib.suppress(Exception), contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function(*args)
    finally:
        sys.settrace(before[0])
        threading.settrace(before[1])
    return steps
