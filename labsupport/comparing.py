"""Comparing two observations: the first thing in which they differ."""

from dataclasses import dataclass

import numpy as np

from labsupport.probing.driven import UNUSABLE
from labsupport.probing.plain import Opaque

__all__ = ["Difference", "compare", "differs"]

# Relative tolerance per floating dtype; the absolute one is the same share of the largest expected value.
_RTOL = {"float16": 1e-3, "float32": 1.3e-6, "float64": 1e-9, "complex64": 1.3e-6, "complex128": 1e-9}
_FLOOR = {"float16": 1e-6, "float32": 1e-9, "float64": 1e-12, "complex64": 1e-9, "complex128": 1e-12}


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
        if got.raised and expected.raised and _same_end(got.raised, expected.raised):
            return None
        return Difference(kind="raised", got=got.raised or got.value, expected=expected.raised or expected.value)
    if found := _compare_values(got.value, expected.value, ""):
        return found
    for name, wanted in expected.facts.items():
        if (had := got.facts.get(name)) != wanted:
            return Difference(kind=name, got=had, expected=wanted)
    return None


def _same_end(got, expected):
    """Return whether two exceptions are the same; what makes a result unusable is told by the sentence alone."""
    same_words = got.message == expected.message or UNUSABLE not in (got.type, expected.type)
    return got.is_a(expected.type) and same_words


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
    """Return a key as it is indexed; one that is a phrase (a step of a driven object, a rank) says where by itself."""
    return f"{key}, " if isinstance(key, str) and " " in key else f"[{key!r}]"


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
