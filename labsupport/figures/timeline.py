"""The loader's timeline: what the main process and every worker did in a recorded run, and where somebody waited."""

import json

from labsupport.figures.figure import told
from labsupport.figures.film import MOST_BYTES, MOST_MARKS, Ask, Frame, Table, film
from labsupport.figures.player import PlayerFigure
from labsupport.figures.timeline_model import MOST_WORKERS, seconds, tracks_of, waited
from labsupport.figures.timeline_scene import KINDS, draw_timeline
from labsupport.figures.words import byte_text, count, join_words, number

__all__ = ["draw"]

WIDTHS = (300, 520, 760)
MOST_BARS = 2_000
MOST_PARTS = 8
PER_PART = 12  # batches
_SHARES = ("0 to 20 %", "20 to 40 %", "40 to 60 %", "60 to 80 %", "80 to 100 %")


@told('lab.show("timeline", run) with what labsupport.loaderbench.record returned; a second run can follow')
def draw(run, other=None, **state):
    """Return the timeline of a recorded run of a DataLoader, or of two runs on one axis of time.

    The picture shows the whole run; the slider goes through its parts, larger. The share of time waited is the run's
    own: what the main process spent inside `next()`.

    Args:
        run: what `labsupport.loaderbench.record(dataset, ...)` returned, or the path of a run that was saved.
        other: a second one, drawn below it.
        state: step, code, table, predict: what is set at first.

    At most 2,000 bars are drawn. What is closer than a pixel or two is drawn together, and the figure says so; of more
    than 12 workers the further ones are in the table only.

    Raises:
        LabError: it is no recorded run, or nothing happened in it.
    """
    tracks = tracks_of(run, other)
    for parts, widths, gap in _details(tracks):
        made = _film(tracks, parts, widths, gap)
        if made and len(json.dumps(made, ensure_ascii=False, separators=(",", ":")).encode()) <= MOST_BYTES:
            break
    return PlayerFigure(made, **state)


def _details(tracks):
    """Yield (parts, widths, gap) from the finest on."""
    batches = max(sum(span[0] == "fetch" for row in (*t.rows, *t.hidden) for span in row.spans) for t in tracks)
    most = max(1, min(MOST_PARTS, -(-batches // PER_PART)))
    yield from ((parts, WIDTHS, 1) for parts in dict.fromkeys((most, min(most, 5))))
    yield from ((min(most, 5), WIDTHS[1:], gap) for gap in (1, 2, 3))
    yield from ((min(most, 3), WIDTHS[2:], gap) for gap in (2, 4, 8, 16, 32))


def _film(tracks, parts, widths, gap):
    """Return the film, None when it has too many bars."""
    windows = _windows(tracks, parts)
    pictures, bars = {}, 0
    for k, window in enumerate(windows):
        for width in widths:
            marks, height, n = draw_timeline(tracks, window, width, gap, f"w{k}." if k else "")
            if n > MOST_BARS or len(marks) > MOST_MARKS:
                return None
            pictures[k, width] = marks, height
            bars = n if k == 0 else bars  # of the widest picture of the whole
    frames = [_frame(tracks, windows, k) for k in range(len(windows))]
    asks = len(windows) > 2
    ask = Ask(prompt="How much of the next part does the main process wait for a batch?", fields=(("waits", _SHARES),))
    known = getattr(tracks[0].run, "versions", None) or {}
    made_with = ", ".join(f"{k} {known[k].partition('+')[0]}" for k in ("torch", "python") if k in known)
    return film(
        kind="timeline", title="A DataLoader at work", note=f"recorded with {made_with}" if made_with else "recorded",
        summary=_summary(tracks, bars, gap), frames=frames, widths=widths, slider="Part", poster=0,
        ask=ask if asks else None, table=_table(tracks), draw=lambda k, width: pictures[k, width],
    )  # fmt: skip


def _windows(tracks, parts):
    """Return (start, end) of the whole and of its parts."""
    end = max(track.seconds for track in tracks)
    if parts == 1:
        return [(0.0, end)]
    return [(0.0, end), *((end * k / parts, end * (k + 1) / parts) for k in range(parts))]


def _frame(tracks, windows, k):
    verdict = _verdict(tracks[0], windows[k + 1]) if len(windows) > 2 and k + 1 < len(windows) else None
    start, end = windows[k]
    title = f"part {k}: {seconds(start) if start else '0 s'} to {seconds(end)}" if k else "the whole run"
    if k == 0 and len(tracks) > 1:
        title = "both runs, whole"
    words = " ".join(_words(track, start, min(end, track.seconds), whole=k == 0) for track in tracks)
    return Frame(title=title, words=words, code=_code(tracks), verdict=verdict, counts=k > 0)


def _words(track, start, end, whole):
    who = f"{track.label}: " if track.label else ""
    if end <= start:
        return f"{who}at its end already."
    if whole:
        batches = getattr(track.run, "counts", {}).get("batches") or _batches(track, start, end)[2]
        words = (f"{who}{count(batches, 'batch', 'batches')} in {seconds(track.seconds)}; the main process waited "
                 f"{percent(track.share)} of the time for a batch{_why(track)}.")  # fmt: skip
        longest = max(track.waits, key=lambda wait: wait[1] - wait[0], default=None)
        words += f" The longest wait took {seconds(longest[1] - longest[0])}." if longest else ""
        start = sum(b - a for row in track.rows[:1] for kind, a, b, _ in row.spans if kind == "start")
        return words + (f" Starting took another {seconds(start)}." if start >= track.seconds / 100 else "")
    idle = waited(track, start, end)
    first, last, n = _batches(track, start, end)
    which = f"batches {number(first)} to {number(last)}" if n > 1 else f"batch {number(first)}" if n else "no batch"
    share = percent(idle / (end - start))
    which = which if who else which[:1].upper() + which[1:]
    words = f"{who}{which}; the main process waited {seconds(idle)} of {seconds(end - start)} ({share})."
    ready = [r for at, r in track.queue if start <= at <= end]
    return words + (f" Up to {count(max(ready), 'batch was', 'batches were')} ready." if ready else "")


def _why(track):
    return ", loading it itself" if not any(row.name.startswith("worker") for row in track.rows) else ""


def percent(share):
    """Return "3 %", or "0.4 %" below one."""
    return f"{share * 100:.0f} %" if share >= 0.01 or share <= 0 else f"{share * 100:.1g} %"


def _batches(track, start, end):
    """Return (first, last, how many) of the batches that the main process worked on or waited for in a window."""
    found = {span[3] for row in track.rows if row.name.startswith("main") for span in row.spans
             if span[3] is not None and span[2] > start and span[1] < end}  # fmt: skip
    return (min(found), max(found), len(found)) if found else (None, None, 0)


def _verdict(track, window):
    """Return a function that says what is wrong with a guess of the share waited in a window."""
    start, end = window[0], min(window[1], track.seconds)
    share = waited(track, start, end) / (end - start) if end > start else 0
    right = min(4, int(share * 5))

    def verdict(option):
        if option == right:
            return ""
        way = "more" if option < right else "less"
        row = "waits" if any(r.name == "main waits" for r in track.rows) else "loads"
        return f"It is {way} than {{0}}: compare the bars of “main {row}” with the room between them."

    return verdict


def _summary(tracks, bars, gap):
    words = []
    for track in tracks:
        settings = ", ".join(f"{k} {v}" for k, v in track.run.settings.items() if v is not None)
        words.append(f"{'First' if track is tracks[0] else 'Second'} run: {settings}." if len(tracks) > 1 else
                     f"Settings: {settings}.")  # fmt: skip
    if len(tracks) == 2:
        one, two = tracks
        words.append(f"The second run took {seconds(_per_batch(two))} per batch instead of {seconds(_per_batch(one))}, "
                     f"and waited {percent(two.share)} of its time instead of {percent(one.share)}.")  # fmt: skip
    events = sum(len(row.spans) for track in tracks for row in track.rows)
    if bars < events:
        near = "one pixel" if gap == 1 else f"{gap} pixels"
        words.append(f"{number(events)} events are drawn as {number(bars)} bars: those closer than {near} together.")
    hidden = [row.name for track in tracks for row in track.hidden]
    if hidden:
        words.append(f"{count(len(hidden), 'worker is', 'workers are')} not drawn, only {MOST_WORKERS} of a run.")
    return " ".join(words)


def _per_batch(track):
    return track.seconds / max(1, _batches(track, 0, track.seconds)[2])


def _code(tracks):
    lines = []
    for track in tracks:
        kept = {k: v for k, v in track.run.settings.items() if v is not None and k not in ("dataset", "batched_fetch")}
        lines.append(f"record(dataset, {', '.join(f'{k}={v!r}' for k, v in kept.items())})")
    return "\n".join(lines)


def _table(tracks):
    head = (["run"] if len(tracks) > 1 else []) + ["who", "does", "times", "takes", "of the run"]
    rows = []
    for track in tracks:
        lead = [track.label] if len(tracks) > 1 else []
        for who, kind, spans in _groups(track):
            taken = sum(b - a for _, a, b, _ in spans)
            rows.append((*lead, who, KINDS[kind][2], number(len(spans)), seconds(taken),
                         percent(taken / track.seconds)))  # fmt: skip
        counts = getattr(track.run, "counts", None) or {}
        said = [byte_text(n) if name == "bytes" else _counted(n, name) for name, n in counts.items()]
        if said:
            rows.append((*lead, "in all", join_words(said), "", seconds(track.seconds), "100 %"))
    return Table(caption="All numbers as a table", head=tuple(head), rows=tuple(rows))


def _counted(n, plural):
    one = {"batches": "batch", "processes": "process"}.get(plural, plural.removesuffix("s"))
    return count(n, one, plural)


def _groups(track):
    """Yield (who, kind, spans) for every row that is drawn, and all workers that are not as one."""
    together = {}
    for row in track.rows:
        who = "main" if row.name.startswith("main") else row.name
        for span in row.spans:
            together.setdefault((who, span[0]), []).append(span)
    for row in track.hidden:
        for span in row.spans:
            together.setdefault(("other workers", span[0]), []).append(span)
    for (who, kind), spans in together.items():
        yield who, kind, spans
