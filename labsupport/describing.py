"""Saying in one sentence how two observations differ."""

import numpy as np

from labsupport.comparing import Difference
from labsupport.course import Raised
from labsupport.probing.driven import UNUSABLE
from labsupport.probing.plain import Opaque

__all__ = ["describe", "describe_prediction", "show_value"]

_LONGEST = 160  # characters of a value that is shown


def describe(difference, *, reveal):
    """Return one sentence about a difference; expected *values* are named only when `reveal` is true."""
    if difference.kind in _FACTS:
        return _FACTS[difference.kind](difference)
    if difference.where.startswith("file ") and isinstance(difference.got, str):
        return f"The file `{difference.where[5:].rstrip(', ')}` {difference.got}."
    return _SENTENCES.get(difference.kind, _say_fact)(difference, reveal)


def _say_fact(d, reveal):
    """A fact that a driver or an inspector named: its name is a noun phrase."""
    told = {True: "yes", False: "no", None: "none"}
    got, expected = (told[side] if side is None or isinstance(side, bool) else side for side in (d.got, d.expected))
    return f"Right values, but {d.kind}: {got}" + (f", expected {expected}." if reveal or _is_budget(expected) else ".")


def _is_budget(fact):
    return isinstance(fact, str) and fact.startswith("within ")


def describe_prediction(difference, *, reveal):
    """Return one sentence about a wrong prediction: what was written, and what kind of value is asked for."""
    got, expected = difference.got, difference.expected
    # That a word, or None, is right would be the answer, or half of it.
    told = expected is None or isinstance(expected, str) or isinstance(got, str)
    if difference.kind == "type" and not told:
        return f"You wrote {_kind_in_words(got)}{_at(difference)}; asked for is {_kind_in_words(expected)}."
    if difference.kind == "length":
        values = "1 value" if len(got) == 1 else f"{len(got)} values"
        return f"You wrote {values}{_at(difference)}; the number of values is another one."
    wanted = f", but it is {show_value(expected)}" if reveal else _only_misspelt(got, expected)
    return f"You wrote {show_value(got)}{_at(difference)}{wanted}."


def _only_misspelt(got, expected):
    """Return how the sentence ends; of a word that may well mean what is right it says what is wrong with the word."""
    if isinstance(got, str) and got.replace(",", "").lstrip("-").isdecimal():
        return " as a text; a number is written without quotes"
    names_one = isinstance(got, str) and got.endswith("error") and got != "error"
    if names_one and (expected == "error" or not isinstance(expected, str)):
        return "; whichever exception it is, the word here is 'error'"
    return ", which is not what happens"


_KINDS_IN_WORDS = {
    bool: "True or False",
    int: "a whole number",
    float: "a number with a fraction",
    str: "a word in quotes",
    tuple: "several values in brackets",
    type(None): "None",
}


def _kind_in_words(value):
    if isinstance(value, tuple) and len(value) == 1:
        return "one value in brackets"
    if isinstance(value, float) and value != value:
        return "NaN"
    return _KINDS_IN_WORDS.get(type(value), f"a value of type {_type_name(value)}")


def _at(difference):
    where = difference.where.rstrip(", ")
    if where.startswith("rank "):
        rank, _, inside = where.partition(", ")
        return f" on {rank}" + (f" at {inside}" if inside else "")
    return f" at {where}" if where else ""


def _say_value(d, reveal):
    got, expected = _told_apart(d.got, d.expected)
    wanted = f", expected {expected}" if reveal else ""
    if d.count and d.count[1] > 1:
        share = f"{d.count[0]:,} of {d.count[1]:,} elements differ"
        largest = f", largest error {d.largest:.3g}" if d.largest is not None else ""
        return f"First difference{_at(d)}: {got}{wanted} ({share}{largest})."
    return f"Got {got}{_at(d)}{wanted}."


def _told_apart(got, expected):
    """Return both values as text, with all their digits where the short form would print two different ones alike."""
    short = show_value(got), show_value(expected)
    if short[0] != short[1]:
        return short
    return tuple(str(side.item() if isinstance(side, np.generic) else side) for side in (got, expected))


def _say_type(d, reveal):
    got, expected = _type_name(d.got), _type_name(d.expected)
    if d.where.startswith("rank "):  # ranks work with tensors; they cross as arrays
        got, expected = (name.replace("ndarray", "a tensor") for name in (got, expected))
    if d.got is None:
        return f"Returns None{_at(d)}, expected {expected}: is a `return` missing?"
    return f"Returns {got}{_at(d)}, expected {expected}."


def _say_raised(d, reveal):
    if isinstance(d.got, Raised) and d.got.type == UNUSABLE:
        return d.got.message
    if isinstance(d.expected, Raised):
        wanted = f"{d.expected.type}"
        if isinstance(d.got, Raised):
            return f"Raises {d.got.type} ({d.got.message}), expected {wanted}."
        return f"Returns {show_value(d.got)} where {wanted} should be raised."
    return f"Raises {d.got.type}: {d.got.message}"


_SENTENCES = {
    "value": _say_value,
    "type": _say_type,
    "raised": _say_raised,
    "over": lambda d, reveal: f"The answer is {d.got}." if d.got else "The answer ended where a limit was expected.",
    "shape": lambda d, reveal: f"Shape {d.got.shape}{_at(d)}, expected {d.expected.shape}.",
    "dtype": lambda d, reveal: f"Dtype {d.got.dtype}{_at(d)}, expected {d.expected.dtype}.",
    "length": lambda d, reveal: f"Length {len(d.got)}{_at(d)}, expected {len(d.expected)}.",
    "keys": lambda d, reveal: _say_keys(d),
}


def _say_keys(d):
    missing = [repr(k) for k in d.expected if k not in d.got]
    extra = [repr(k) for k in d.got if k not in d.expected]
    parts = [f"missing {', '.join(missing)}"] if missing else []
    parts += [f"not asked for {', '.join(extra)}"] if extra else []
    return f"Keys{_at(d)}: {'; '.join(parts)}."


def _say_changed(d):
    if any(isinstance(of_rank, tuple) for of_rank in d.expected):
        return _say_changed_on_ranks(d)
    extra = [i for i in d.got or () if i not in d.expected and isinstance(i, int)]
    if not extra:
        missing = [i for i in d.expected if i not in (d.got or ())]
        return f"The {_ordinals(missing)} should have been changed in place, but it is as it was."
    return f"Right values, but your code changed its {_ordinals(extra)}: whoever passed it in now holds other data."


def _say_changed_on_ranks(d):
    got = d.got or ((),) * len(d.expected)
    rank = next((r for r, wanted in enumerate(d.expected) if got[r : r + 1] != (wanted,)), 0)
    had = got[rank] if rank < len(got) and isinstance(got[rank], tuple) else ()
    inner = Difference(kind=d.kind, got=had, expected=d.expected[rank])
    return f"On rank {rank}: {_say_changed(inner)}"


def _say_collectives(d):
    for rank, (had, wanted) in enumerate(zip(d.got or (), d.expected, strict=False)):
        had, wanted = dict(had), dict(wanted)
        for op in (op for op in {**wanted, **had} if had.get(op, 0) != wanted.get(op, 0)):
            return (
                f"Right values, but rank {rank} called `{op}` {_times(had.get(op, 0))}, expected {wanted.get(op, 0)}."
            )
    return "Right values, but not by the calls that were asked for."


def _times(count):
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count:,} times")


def _say_files(d):
    got, expected = d.got or {}, d.expected
    if missing := [name for name in expected if name not in got]:
        return f"Right values, but the file `{missing[0]}` was not written."
    if extra := [name for name in got if name not in expected]:
        return f"Right values, but a file `{extra[0]}` is left that nobody asked for."
    name = next(name for name in expected if got[name] != expected[name])
    return f"Right values, but `{name}` was written by {_ranks(got[name])}, expected {_ranks(expected[name])}."


def _ranks(numbers):
    if not numbers:
        return "no rank"
    names = ", ".join(map(str, numbers[:-1]))
    return f"ranks {names} and {numbers[-1]}" if names else f"rank {numbers[0]}"


def _ordinals(indices):
    words = ["first", "second", "third", "fourth", "fifth"]
    names = [words[i] if i < len(words) else f"{i + 1}th" for i in indices]
    return f"{' and '.join(names)} input{'s' if len(names) > 1 else ''}"


def _say_layout(d):
    if d.expected == "view":
        return "Equal values, but a copy: writing to the input leaves the result unchanged."
    if d.got == "partly":
        return "Equal values, but part of the result shares memory with the input."
    return "Equal values, but a view: writing to the input changes the result."


_FACTS = {
    "inputs changed": _say_changed,
    "layout": _say_layout,
    "writeable": lambda d: (
        "Right values, but the result "
        + ("can be written to; it should be read-only." if d.got else "is read-only; it should be writeable.")
    ),
    "allocation": lambda d: f"Right values, but over the memory budget ({_budget(d)} bytes at the peak).",
    "kept": lambda d: f"Right values, but more than the budget stays allocated ({_budget(d)} bytes).",
    "steps": lambda d: f"Right values, but a Python loop does the work: over {_budget(d)} Python lines ran.",
    "vocabulary": lambda d: (
        f"Right values, but not in the way asked: it uses {', '.join(f'`{w}`' for w in d.got or ())}."
    ),
    "collectives": _say_collectives,
    "calls": lambda d: f"Right values, but more calls than the budget allows: {d.got} on a rank.",
    "sent": lambda d: f"Right values, but a rank sends more than the budget of {_budget_of(d.got)} bytes.",
    "files": _say_files,
    "killed": lambda d: (
        "Right values, but the rank that was to be killed never came to that batch: the answer does not read it."
    ),
    "released": lambda d: (
        "Right values, but the input's memory stays alive as long as the result does."
        if d.expected
        else "The input's memory is freed although it should stay alive."
    ),
}


def _budget(d):
    return _budget_of(d.expected)


def _budget_of(fact):
    return str(fact).split()[-1]


def _type_name(value):
    if isinstance(value, Opaque):
        return value.type_name
    if isinstance(value, np.ndarray):
        return "ndarray"
    return "None" if value is None else type(value).__name__


def show_value(value):
    """Return a value as short text: NumPy scalars as numbers, long text cut."""
    if isinstance(value, np.generic):
        value = value.item() if value.dtype.kind in "biufcSU" else value
    if isinstance(value, np.ndarray):
        text = (
            f"array of shape {value.shape}, {value.dtype}"
            if value.size > 12
            else np.array2string(value, separator=", ")
        )
    else:
        text = f"{value:.6g}" if isinstance(value, float) else repr(value)
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
