"""The marks of a loader's timeline between two moments: bars in rows, batches that were ready, and the axis of time.

The bars of one kind in one row are one stroke, so that hundreds of them stay a small file. Kinds differ in thickness
and in place, not in colour alone.
"""

from math import floor, log10

from labsupport.figures.film import named
from labsupport.figures.key import key
from labsupport.figures.picture import PAD, path, text
from labsupport.figures.timeline_model import seconds
from labsupport.figures.words import number

__all__ = ["KINDS", "draw_timeline", "drawn_bars"]

LEFT = 110
ROW_H = 22
QUEUE_H = 34
SECTION = 22
# kind of event: (role of its bar, how far below the middle of its row, what it is called)
KINDS = {
    "start": ("bar-start", 0, "starts"),
    "fetch": ("bar-fetch", -2, "fetches samples"),
    "collate": ("bar-collate", 7, "collates a batch"),
    "wait": ("bar-wait", 0, "waits for a batch"),
    "transfer": ("bar-transfer", 0, "copies to the device"),
    "compute": ("bar-compute", 0, "computes"),
}


def drawn_bars(row, kind, scale, window, gap):
    """Return [(x, width)] of one kind in one row; those closer than `gap` pixels are one bar."""
    start, end = window
    bars = []
    for own, a, b, _ in row.spans:
        if own != kind or b < start or a > end:
            continue
        x0, x1 = scale(max(a, start)), scale(min(b, end))
        if x1 - x0 >= 4:
            x1 -= 1  # neighbours stay apart
        x1 = max(x0 + 1, x1)
        if bars and x0 < bars[-1][1] + gap:
            bars[-1][1] = max(bars[-1][1], x1)
        else:
            bars.append([x0, x1])
    return [(a, b - a) for a, b in bars]


def draw_timeline(tracks, window, width, gap, tag):
    """Return (marks, height, number of bars) of what happened in a window.

    Args:
        tracks: one or two.
        window: (start, end) in seconds.
        width: in CSS pixels.
        gap: pixels below which neighbouring bars are drawn together.
        tag: what tells the marks of this window from those of another, "" for marks that never change.
    """
    room = width - 2 * PAD - LEFT
    start, end = window

    def scale(moment):
        return PAD + LEFT + round((moment - start) / (end - start) * room)

    marks, y, total, bands = [], PAD, 0, []
    for n, track in enumerate(tracks):
        if track.label:
            marks.append(named(f"run{n}", text(PAD, y + 12, "title", track.label)))
            y += SECTION
        top = y
        for k, row in enumerate(track.rows):
            middle = y + ROW_H // 2
            marks.append(named(f"row{n}.{k}", text(PAD, middle + 4, "words", row.name)))
            for kind, (role, below, _) in KINDS.items():
                bars = drawn_bars(row, kind, scale, window, gap)
                if bars:
                    marks.append(named(f"{tag}{n}.{k}{kind[0:2]}", path(role, _stroke(bars, middle + below))))
                    total += len(bars)
            y += ROW_H
        if track.queue:
            y = _queue(marks, track, n, scale, window, y, tag)
        bands.append((top, y))
        if track.starts:
            _epochs(marks, track, n, window, scale, bands[-1], tag)
        y += 6
    _axis(marks, window, scale, bands, tag)
    return marks, _key(marks, tracks, y + 24, width) + PAD, total


def _stroke(bars, y):
    """Return path data of bars: a stroke along the middle of each."""
    parts, at = [], None
    for x, w in bars:
        parts.append(f"M{x} {y}h{w}" if at is None else f"m{x - at} 0h{w}")
        at = x + w
    return "".join(parts)


def _queue(marks, track, n, scale, window, y, tag):
    """Add the number of ready batches over time; several changes within a pixel show the most."""
    start, end = window
    most, bottom = max(1, track.most_ready), y + QUEUE_H - 6
    marks.append(named(f"ready{n}", text(PAD, y + 14, "words", "batches ready")))
    marks.append(named(f"most{n}", text(PAD, y + 28, "note", f"0 to {number(most)}")))
    high = lambda ready: bottom - round(ready / most * (QUEUE_H - 12))  # noqa: E731
    now = 0
    columns = {}
    for moment, ready in track.queue:
        if moment > end:
            break
        if moment < start:
            now = ready
            continue
        x = scale(moment)
        columns[x] = (max(columns.get(x, (0, 0))[0], ready), ready)
    level = high(now)
    x, d = scale(start), [f"M{scale(start)} {level}"]
    for column, (top, last) in columns.items():
        d.append(f"h{column - x}" if column > x else "")
        for ready in dict.fromkeys((high(top), high(last))):
            d.append(f"v{ready - level}" if ready != level else "")
            level = ready
        x = column
    until = scale(min(end, track.seconds))
    d.append(f"h{until - x}" if until > x else "")
    marks.append(named(f"{tag}{n}.q", path("queue", "".join(d))))
    return y + QUEUE_H


def _axis(marks, window, scale, bands, tag):
    start, end = window
    span = end - start
    most = min(5, (scale(end) - scale(start)) // 60)  # texts stay apart
    step = 10 ** floor(log10(span / most))
    step *= next((k for k in (1, 2, 5) if span / (step * k) <= most), 10)
    k = -floor(-start / step)
    n = 0
    while k * step <= end + step * 1e-9:
        x = scale(k * step)
        marks.append(named(f"{tag}rule{n}", path("rule", "".join(f"M{x} {top}V{y}" for top, y in bands))))
        words = seconds(round(k * step, 9)) if k else "0 s"
        marks.append(named(f"{tag}time{n}", text(x, bands[-1][1] + 20, "small", words)))
        k, n = k + 1, n + 1


def _epochs(marks, track, n, window, scale, band, tag):
    inside = dict.fromkeys(scale(m) for m in track.starts if window[0] < m < window[1])
    if inside:
        d = "".join(f"M{x} {band[0]}V{band[1]}" for x in inside)
        marks.append(named(f"{tag}epochs{n}", path("walk1", d)))


def _key(marks, tracks, y, width):
    used = {span[0] for track in tracks for row in track.rows for span in row.spans}
    entries = [(role, words) for kind, (role, _, words) in KINDS.items() if kind in used]
    if any(track.starts for track in tracks):
        entries.append(("walk1", "a new epoch begins"))
    return key(marks, entries, y, width, strokes=True)
