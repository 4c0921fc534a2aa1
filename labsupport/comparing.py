"""Comparing two observations, and saying in one sentence how they differ."""

from dataclasses import dataclass

import numpy as np

from labsupport.probing.plain import Opaque

__all__ = ["Difference", "compare", "describe", "describe_prediction", "differs", "show_value"]

# Relative tolerance per floating dtype; the absolute one is the same share of the largest expected value.
_RTOL = {"float16": 1e-3, "float32": 1.3e-6, "float64": 1e-9, "complex64": 1.3e-6, "complex128": 1e-9}
_FLOOR = {"float16": 1e-6, "float32": 1e-9, "float64": 1e-12, "complex64": 1e-9, "complex128": 1e-12}
_LONGEST = 160


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The first difference found.

    Args:
        kind: what differs: raised, type, length, keys, shape, dtype, value, or a fact's name.
        where: index or path inside the value, as text, or "".
        got, expected: the two sides (for a value: the elements that differ).
        largest: largest absolute error of numeric arrays, or None.
        count: (elements that differ, elements in all) of arrays, or None.
    """

    kind: str
    where: str = ""
    got: object = None
    expected: object = None
    largest: float | None = None
    count: tuple[int, int] | None = None


def differs(got, expected):
    """Return whether two observations of one case differ in anything that is compared."""
    return compare(got, expected) is not None


def compare(got, expected):
    """Return the first `Difference` between two observations of one case, or None."""
    if got.over or expected.over:
        return None if got.over and expected.over else Difference(kind="over", got=got.over, expected=expected.over)
    if got.raised or expected.raised:
        if got.raised and expected.raised and got.raised.is_a(expected.raised.type):
            return None
        return Difference(kind="raised", got=got.raised or got.value, expected=expected.raised or expected.value)
    if found := _compare_values(got.value, expected.value, ""):
        return found
    for name, wanted in expected.facts.items():
        if (had := got.facts.get(name)) != wanted:
            return Difference(kind=name, got=had, expected=wanted)
    return None


def _compare_values(got, expected, where):
    if isinstance(expected, np.ndarray) and expected.ndim == 0 and isinstance(got, np.ndarray):
        return _compare_arrays(got, expected, where)
    if _is_number(expected) and _is_number(got):
        return _compare_numbers(got, expected, where)
    if type(got) is not type(expected) or isinstance(got, Opaque):
        return Difference(kind="type", where=where, got=got, expected=expected)
    if isinstance(expected, np.ndarray):
        return _compare_arrays(got, expected, where)
    if isinstance(expected, (list, tuple)):
        if len(got) != len(expected):
            return Difference(kind="length", where=where, got=got, expected=expected)
        pairs = ((g, e, f"{where}[{i}]") for i, (g, e) in enumerate(zip(got, expected, strict=True)))
        return next((found for pair in pairs if (found := _compare_values(*pair))), None)
    if isinstance(expected, dict):
        if set(got) != set(expected):
            return Difference(kind="keys", where=where, got=got, expected=expected)
        pairs = ((got[k], expected[k], f"{where}{_key(k)}") for k in expected)
        return next((found for pair in pairs if (found := _compare_values(*pair))), None)
    return None if got == expected else Difference(kind="value", where=where, got=got, expected=expected)


def _key(key):
    """Return a key as it is indexed; one that is a phrase (a step of a driven object) says where by itself."""
    return f"{key}, " if isinstance(key, str) and key.startswith("step ") else f"[{key!r}]"


def _is_number(value):
    return isinstance(value, (bool, int, float, complex, np.generic)) and not isinstance(
        value, (np.str_, np.bytes_, np.void)
    )


def _kind_of_number(value):
    return "b" if isinstance(value, (bool, np.bool_)) else np.asarray(value).dtype.kind.replace("u", "i")


def _compare_numbers(got, expected, where):
    """A Python number and a NumPy scalar of its kind are the same thing; float32 is not float64, True is not 1."""
    if type(got) is int and type(expected) is int:  # of any size: NumPy's end at 64 bits
        return None if got == expected else Difference(kind="value", where=where, got=got, expected=expected)
    dtypes = [np.asarray(side).dtype for side in (got, expected)]
    narrower = dtypes[0] != dtypes[1] and dtypes[0].kind in "fc"
    if _kind_of_number(got) != _kind_of_number(expected) or narrower:
        return Difference(kind="type", where=where, got=got, expected=expected)
    if _close(np.asarray(got), np.asarray(expected)).all():
        return None
    return Difference(kind="value", where=where, got=got, expected=expected)


def _compare_arrays(got, expected, where):
    if got.shape != expected.shape:
        return Difference(kind="shape", where=where, got=got, expected=expected)
    if got.dtype != expected.dtype:
        return Difference(kind="dtype", where=where, got=got, expected=expected)
    close = _close(got, expected)
    if close.all():
        return None
    index = tuple(int(i) for i in np.argwhere(~close)[0])
    return Difference(
        kind="value",
        where=f"{where}[{', '.join(map(str, index))}]" if index else where,
        got=got[index],
        expected=expected[index],
        largest=_largest_error(got, expected),
        count=(int((~close).sum()), int(close.size)),
    )


def _close(got, expected):
    if expected.dtype.kind not in "fc":
        return np.asarray(got == expected)
    name = expected.dtype.name
    finite = np.abs(expected[np.isfinite(expected)]) if expected.size else expected
    scale = float(finite.max()) if finite.size else 0.0
    rtol = _RTOL.get(name, 1e-9)
    with np.errstate(all="ignore"):
        return np.isclose(got, expected, rtol=rtol, atol=max(rtol * scale, _FLOOR.get(name, 1e-12)), equal_nan=True)


def _largest_error(got, expected):
    if expected.dtype.kind not in "iufc":
        return None
    with np.errstate(all="ignore"):
        wide = np.complex128 if expected.dtype.kind == "c" else np.float64
        error = np.abs(got.astype(wide) - expected.astype(wide))
    if not (np.isfinite(got) & np.isfinite(expected)).all():
        return None  # a number would say nothing about elements that are not numbers
    return float(error.max()) if error.size else None


def describe(difference, *, reveal):
    """Return one sentence about a difference; expected *values* are named only when `reveal` is true."""
    if difference.kind in _FACTS:
        return _FACTS[difference.kind](difference)
    return _SENTENCES[difference.kind](difference, reveal)


def describe_prediction(difference, *, reveal):
    """Return one sentence about a wrong prediction: what was written, and what kind of value is asked for."""
    got, expected = difference.got, difference.expected
    told = isinstance(expected, str) or isinstance(got, str)  # that a word is right would be half the answer
    if difference.kind == "type" and not told:
        return f"You wrote {_kind_in_words(got)}{_at(difference)}; asked for is {_kind_in_words(expected)}."
    if difference.kind == "length":
        values = "1 value" if len(got) == 1 else f"{len(got)} values"
        return f"You wrote {values}{_at(difference)}; the number of values is another one."
    wanted = f", but it is {show_value(expected)}" if reveal else ", which is not what happens"
    return f"You wrote {show_value(got)}{_at(difference)}{wanted}."


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
    return _KINDS_IN_WORDS.get(type(value), f"a value of type {_type_name(value)}")


def _at(difference):
    return f" at {difference.where.rstrip(', ')}" if difference.where else ""


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
    if d.got is None:
        return f"Returns None{_at(d)}, expected {_type_name(d.expected)}: is a `return` missing?"
    return f"Returns {_type_name(d.got)}{_at(d)}, expected {_type_name(d.expected)}."


def _say_raised(d, reveal):
    from labsupport.course import Raised

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
    extra = [i for i in d.got or () if i not in d.expected]
    if not extra:
        missing = [i for i in d.expected if i not in (d.got or ())]
        return f"The {_ordinals(missing)} should have been changed in place, but it is as it was."
    return f"Right values, but your code changed its {_ordinals(extra)}: whoever passed it in now holds other data."


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
    "released": lambda d: (
        "Right values, but the input's memory stays alive as long as the result does."
        if d.expected
        else "The input's memory is freed although it should stay alive."
    ),
}


def _budget(d):
    return str(d.expected).split()[-1]


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
