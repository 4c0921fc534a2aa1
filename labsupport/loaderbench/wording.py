"""Numbers in words: seconds and bytes with three digits and the unit that fits."""

__all__ = ["duration", "size"]


def duration(seconds):
    """Return seconds as "12.3 ms", "1.2 s", "3 min 20 s"."""
    if seconds >= 100:
        return f"{int(seconds // 60)} min {int(seconds % 60)} s"
    for factor, unit in ((1, "s"), (1e-3, "ms")):
        if seconds >= factor:
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"


def size(count):
    """Return bytes as "12.3 MB" (a million bytes), "512 B"."""
    for factor, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count:.0f} B"
