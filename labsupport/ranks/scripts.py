"""Running a script as `__main__`, and telling of its errors by the script's own lines."""

import builtins
import linecache
import sys
import traceback
import types
from pathlib import Path

__all__ = ["SCRIPT", "described", "new_main", "run_in"]

SCRIPT = "cell.py"  # how the script is called in tracebacks and by the flight recorder
_MOST = 20_000  # characters of a message or a traceback


def new_main(file, arguments=()):
    """Return a new module that is `__main__` now, as for `python file arguments`."""
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=str(file), __builtins__=builtins, __cached__=None)
    sys.modules["__main__"] = module
    sys.argv = [str(file), *arguments]
    return module


def run_in(module, shown):
    """Run a module's file in it.

    Args:
        module: what `new_main` returned.
        shown: the name its code goes by in tracebacks; its source is found under that name without a file.
    """
    source = Path(module.__file__).read_text(encoding="utf-8")
    linecache.cache[shown] = (len(source), None, source.splitlines(keepends=True), shown)
    exec(compile(source, shown, "exec", dont_inherit=True), module.__dict__)


def described(error, shown):
    """Return an exception as JSON data: type, message, bases, lineno and line in the script, traceback.

    `traceback` has the lines from the script on; `full` has all of them.
    """
    error.__traceback__ = _below_us(error.__traceback__)
    places = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == shown]
    lineno = places[-1].lineno if places else None
    if isinstance(error, SyntaxError) and error.filename == shown:
        lineno = error.lineno
    text = "".join(traceback.format_exception(error))
    return {
        "type": type(error).__name__,
        "message": _shortened(_text_of(error)),
        "bases": [base.__name__ for base in type(error).__mro__[1:-1]],
        "lineno": lineno,
        "line": linecache.getline(shown, lineno).strip() if lineno else "",
        "traceback": _shortened(_only_of(error, shown)),
        "full": _shortened(text),
    }


def _text_of(error):
    try:
        return str(error)
    except Exception:
        return "(its text cannot be shown)"


def _shortened(text):
    """Return a text that all who handle it can handle quickly: of a very long one the beginning and the end."""
    left_out = len(text) - _MOST
    if left_out <= 0:
        return text
    head = _MOST - _MOST // 4
    return f"{text[:head]}\n... {left_out:,} characters left out here ...\n{text[head + left_out :]}"


def _below_us(tb):
    """Return a traceback without the frames that ran the script, which are ours."""
    ours = str(Path(__file__).parent)
    while tb is not None and str(Path(tb.tb_frame.f_code.co_filename).parent) == ours:
        tb = tb.tb_next
    return tb


def _only_of(error, shown):
    """Return the traceback with the script's own lines only; all lines when it has none of them."""
    short = traceback.TracebackException.from_exception(error)
    one = short
    while one is not None:
        own = [frame for frame in one.stack if frame.filename == shown]
        if own:
            one.stack = traceback.StackSummary.from_list(own)
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
    return "".join(short.format())
