"""Where the marks of the bucket timeline go: for each rank a bar of computing, and one bar for each bucket."""

from math import floor, log10

from labsupport.figures.film import named
from labsupport.figures.key import key
from labsupport.figures.picture import PAD, cell, path, text

__all__ = ["WIDTHS", "draw_timeline", "end_of", "ms"]

WIDTHS = (270, 520, 760)
LEFT = 76
BAR_H = 24
PITCH = 31
SECTION = 20
MOST_ROWS = 10  # bars below each other for one rank; more buckets share rows
KEYS = (
    ("computing", "computing"), ("waiting~", "fills, waits its turn"), ("communicating", "is reduced"),
    ("wasted!", "is reduced after computing: exposed"),
)  # fmt: skip


def ms(seconds):
    """Return a time in milliseconds as text: "2.73 ms"."""
    return f"{seconds * 1000:.3g} ms" if seconds < 1 else f"{seconds * 1000:,.0f} ms"


def end_of(runs):
    """Return when the last of some runs ends, in seconds after the first rank's start."""
    return max(max([r["ended"], *(b["end"] for b in r["buckets"])]) + r["shift"] for r in runs)


def draw_timeline(runs, moments, width, ends):
    """Return (marks, height) of what has happened at the last of some moments.

    Args:
        runs: one for each rank.
        moments: seconds after the first rank's start, in order: those of the frames so far.
        width: in CSS pixels.
        ends: the end of the axis, in seconds.
    """
    room, until = width - PAD - LEFT - PAD, moments[-1]
    scale = lambda t: LEFT + PAD + round(t / ends * room)  # noqa: E731
    marks, y = [], PAD
    axis_top = y
    for run in runs:
        if len(runs) > 1:
            marks.append(named(f"rank{run['rank']}", text(PAD, y + 10, "title", f"rank {run['rank']}")))
            y += SECTION
        own = [moment - run["shift"] for moment in moments]
        placed = lambda t, by=run["shift"]: scale(t + by)  # noqa: E731
        if until < ends:
            marks.append(named(f"outline{run['rank']}", path("rule", _outlines(run, placed, y))))
        y = _run(marks, run, own, placed, y) + 8
    _axis(marks, ends, scale, axis_top, y)
    if until < ends:
        marks.append(named("now", path("now", f"M{scale(until)} {axis_top}V{y}")))
    return marks, key(marks, KEYS, y + 26, width) + PAD


def _run(marks, run, moments, scale, y):
    """Add one rank's bars up to the last moment (seconds of its own clock); returns the y below."""
    rank, now = run["rank"], moments[-1]
    marks.append(named(f"computing{rank}", text(PAD, y + 16, "words", "computing")))
    _bar(marks, f"c{rank}", scale, 0, min(now, run["computed"]), y, "computing", ms(run["computed"]))
    for k, (after, moment) in enumerate(zip([-1.0, *moments], moments)):  # one mark for what each frame adds
        ticks = [f"M{scale(g['at'])} {y + BAR_H + 1}v5" for g in run["ready"] if after < g["at"] <= moment]
        if ticks:
            marks.append(named(f"ready{rank}.{k}", path("tick", "".join(dict.fromkeys(ticks)))))
    rows = _rows(run["buckets"])
    for row, bucket in zip(rows, run["buckets"]):
        top, name = y + PITCH * (1 + row), f"{rank}.{bucket['index']}"
        if len(rows) <= MOST_ROWS:
            marks.append(named(f"b{name}", text(PAD, top + 16, "words", f"bucket {bucket['index']}")))
            _bar(marks, f"f{name}", scale, bucket["first"], min(now, bucket["start"]), top, "waiting~", "")
        hidden = max(bucket["start"], min(bucket["end"], run["computed"]))
        label = str(bucket["index"]) if len(rows) > MOST_ROWS else ms(hidden - bucket["start"])
        _bar(marks, f"h{name}", scale, bucket["start"], min(now, hidden), top, "communicating", label)
        _bar(marks, f"x{name}", scale, hidden, min(now, bucket["end"]), top, "wasted!", ms(bucket["exposed"]))
    if not run["buckets"]:
        marks.append(named(f"none{rank}", text(PAD, y + PITCH + 16, "note", "no bucket was reduced")))
    return y + PITCH * (1 + max(rows, default=0) + 1)


def _outlines(run, scale, y):
    """Return the outline of every bar of a rank as a path: where the bars will be once all has happened."""
    spans = [(0, run["computed"], y)]
    for row, bucket in zip(_rows(run["buckets"]), run["buckets"]):
        spans.append((bucket["start"], bucket["end"], y + PITCH * (1 + row)))
    boxes = ((scale(start), max(2, scale(end) - scale(start)), top) for start, end, top in spans)
    return "".join(f"M{x} {top}h{w}v{BAR_H}h-{w}z" for x, w, top in boxes)


def _rows(buckets):
    """Return the row of each bucket: its own, or, for many, the first one that is free at its start."""
    if len(buckets) <= MOST_ROWS:
        return list(range(len(buckets)))
    free, rows = [], []
    for bucket in buckets:
        row = next((k for k, until in enumerate(free) if until <= bucket["start"]), len(free))
        free[row : row + 1] = [bucket["end"]]
        rows.append(min(row, MOST_ROWS - 1))
    return rows


def _bar(marks, name, scale, start, end, y, role, label):
    """Add a bar; its label stands in it where there is room, and nothing is drawn before its start."""
    if end <= start:
        return
    x, w = scale(start), max(2, scale(end) - scale(start))
    marks.append(cell(name, x, y, w, BAR_H, role, [label if w >= len(label) * 8 + 8 else ""]))


def _axis(marks, ends, scale, top, y):
    """Add marks of time in round milliseconds, at most six, and so that their texts stay apart."""
    most = min(6, (scale(ends) - scale(0)) // 52)
    step = 10 ** floor(log10(ends / most))
    step *= next((k for k in (1, 2, 5) if ends / (step * k) <= most), 10)
    k = 0
    while k * step <= ends:
        x = scale(k * step)
        marks.append(named(f"rule{k}", path("rule", f"M{x} {top}V{y}")))
        at = k * step * 1000
        words = (f"{at:.4g}" if at < 999.95 else f"{at:,.0f}") + (" ms" if k == 0 else "")
        marks.append(named(f"time{k}", text(x, y + 14, "small", words)))
        k += 1
