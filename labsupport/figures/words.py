"""Numbers and shapes in words; `assets/common.js` says the same words in the browser."""

from math import floor

__all__ = [
    "brackets",
    "byte_text",
    "clip_label",
    "count",
    "join_words",
    "number",
    "repr_label",
    "shape_text",
    "short_bytes",
    "short_name",
    "tuple_text",
    "value_label",
]


_UNITS = ((10**9, "GB"), (10**12, "TB"), (10**15, "PB"), (10**18, "EB"))


def number(n):
    """Return an integer as text, as the prose writes it: a true minus sign, commas between thousands."""
    return f"{n:,}".replace("-", "−")


def count(n, noun, plural=None):
    """Return "1 byte", "2 bytes"."""
    return f"{number(n)} {noun if n == 1 else plural or noun + 's'}"


def byte_text(n):
    """Return an amount of memory: exact below 10⁹ bytes, then in GB, TB, PB or EB with one decimal."""
    if n < 1_000_000_000:
        return count(n, "byte")
    unit, name = next(((u, name) for u, name in _UNITS if n < 1000 * u), _UNITS[-1])
    tenths = floor(n / (unit / 10) + 0.5)
    return f"{number(tenths // 10)}.{tenths % 10} {name}"


def short_bytes(n):
    """Return an amount of memory in few letters: "7,888 B", "115 kB", "8.0 MB"."""
    if n < 10_000:
        return f"{number(n)} B"
    unit, name = next(((u, name) for u, name in ((10**3, "kB"), (10**6, "MB"), *_UNITS) if n < 1000 * u), _UNITS[-1])
    tenths = floor(n / (unit / 10) + 0.5)
    return f"{tenths // 10}.{tenths % 10} {name}" if tenths < 100 else f"{floor(n / unit + 0.5)} {name}"


def join_words(words):
    """Return "a", "a and b" or "a, b and c"."""
    words = list(words)
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def tuple_text(values):
    """Return a tuple as Python writes it: "(3,)", "(3, 4)", "()"."""
    values = [str(v) for v in values]
    return f"({values[0]},)" if len(values) == 1 else f"({', '.join(values)})"


def brackets(index):
    """Return an index as it is written behind a name: "[1, 2]"; "[()]" for no axis."""
    return f"[{', '.join(str(i) for i in index)}]" if index else "[()]"


def shape_text(shape):
    """Return "3 × 4"; "no axes" for a single number."""
    return " × ".join(number(n) for n in shape) if shape else "no axes"


def short_name(name):
    """Return a name as a drawing has room for it, cut to 24 letters; the sentences hold all of it."""
    return f"{name[:23]}…" if len(name) > 24 else name


def clip_label(text, limit=9):
    """Return `text`, cut to `limit` characters with an ellipsis; what no picture can hold is written as an escape."""
    text = str(text)[: limit + 1]
    if not text.isprintable():
        text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def repr_label(value, limit=9):
    """Return `value` as Python shows it, cut to `limit` characters; the name of its type when it cannot be shown."""
    try:
        return clip_label(repr(value), limit)
    except Exception:  # any object may be an element, and its own code says how it is shown
        return clip_label(f"<{type(value).__name__}>", limit)


def value_label(value):
    """Return a short text for one element, at most 9 characters."""
    try:
        return _value_label(value)
    except Exception:  # as above
        return clip_label(f"<{type(value).__name__}>")


def _value_label(value):
    value = value.item() if hasattr(value, "item") and not isinstance(value, (bytes, str)) else value
    if isinstance(value, bool) or not isinstance(value, (int, float, complex)):
        return clip_label(value)
    if isinstance(value, int):
        return str(value) if len(str(value)) <= 8 else f"{value:.2e}"
    return clip_label(f"{value:.4g}" if isinstance(value, float) else f"{value:.2g}")
