"""A recorded run of a DataLoader as rows of a timeline: who did what when, and how long the main process waited.

A track is one run. Its rows hold spans (kind, start, end) in seconds since the run began; rows of the main process come
first, one for each sort of work, then one for each worker.
"""

from dataclasses import dataclass

from labsupport.errors import LabError
from labsupport.figures.words import clip_label, repr_label

__all__ = ["MOST_WORKERS", "Row", "Track", "seconds", "tracks_of", "waited"]

MOST_WORKERS = 12  # lanes that are drawn; of more only the numbers are shown
# rows of the main process: name, kinds of event
_MAIN = (("waits", ("start", "wait")), ("copies", ("transfer",)), ("computes", ("compute",)))
_MAIN_ALONE = (("loads", ("start", "wait", "fetch", "collate")), *_MAIN[1:])
_LABELLED = ("num_workers", "batch_size", "prefetch_factor", "persistent_workers", "batched_fetch", "pin_memory",
             "multiprocessing_context", "dataset", "steps")  # fmt: skip


@dataclass(frozen=True)
class Row:
    """A lane: its name, and its spans as (kind, start, end, batch), in order of start."""

    name: str
    spans: tuple


@dataclass(frozen=True)
class Track:
    """One run, ready to be drawn; `waits` are the (start, end) in which the main process had no batch to work on."""

    label: str
    seconds: float
    share: float
    rows: tuple
    hidden: tuple  # rows of workers that are not drawn
    queue: tuple
    starts: tuple  # of the epochs after the first
    waits: tuple
    run: object

    @property
    def most_ready(self):
        """The most batches that were ready at once."""
        return max((ready for _, ready in self.queue), default=0)


def tracks_of(run, other=None):
    """Return the `Track`s of one run or two: what `loaderbench.record` returns, or the paths of files.

    Raises:
        LabError: one of them is no recorded run, or nothing happened in it.
    """
    runs = [_loaded(one) for one in ([run] if other is None else [run, other])]
    labels = _labels([one.settings for one in runs])
    return [_track(one, label) for one, label in zip(runs, labels)]


def _loaded(run):
    if isinstance(run, str) or hasattr(run, "__fspath__"):
        from labsupport.loaderbench.runs import Run

        run = Run.load(run)
    needed = ("events", "queue", "settings", "totals")
    if not all(hasattr(run, name) for name in needed):
        step = "pass what labsupport.loaderbench.record(dataset, ...) returned, or the path of a saved run"
        raise LabError(f"{repr_label(run, 40)} is no recorded run", next_step=step)
    if not run.events or max(event.end_s for event in run.events) <= 0:
        raise LabError("nothing happened in this run", next_step="record at least one batch")
    return run


def _labels(settings):
    """Return what tells two runs apart: the first setting in which they differ."""
    if len(settings) == 1:
        return [""]
    for key in dict.fromkeys([*_LABELLED, *settings[0], *settings[1]]):
        values = [one.get(key) for one in settings]
        if values[0] != values[1]:
            return [f"{key} {clip_label(value, 20)}" for value in values]
    return ["First run", "Second run"]


def _track(run, label):
    lanes = {}
    for event in sorted(run.events, key=lambda event: event.start_s):
        lanes.setdefault(event.lane, []).append((event.kind, event.start_s, event.end_s, event.batch))
    main = lanes.pop("main", [])
    rows = []
    for name, kinds in _MAIN if lanes else _MAIN_ALONE:
        if spans := [span for span in main if span[0] in kinds]:
            rows.append(Row(f"main {name}", tuple(spans)))
    workers = [Row(name, tuple(lanes[name])) for name in sorted(lanes, key=_number)]
    end = max(event.end_s for event in run.events)
    waits = [(a, b) for kind, a, b, _ in main if kind == "wait"]
    if not lanes:  # without workers the main process loads by itself, and nothing else can go on
        waits = [(a, b) for kind, a, b, _ in main if kind in ("fetch", "collate")]
    length = max(getattr(run, "seconds", 0) or 0, end)
    share = getattr(run, "wait_share", None)
    share = sum(b - a for a, b in waits) / length if share is None else share
    starts = tuple(epoch.start_s for epoch in getattr(run, "epochs", ())[1:])
    drawn, hidden = (*rows, *workers[:MOST_WORKERS]), tuple(workers[MOST_WORKERS:])
    return Track(label, length, share, drawn, hidden, tuple(run.queue), starts, tuple(waits), run)


def _number(lane):
    tail = lane.rpartition(" ")[2]
    return (int(tail), lane) if tail.isdigit() else (10**9, lane)


def waited(track, start, end):
    """Return the seconds between two moments in which the main process had no batch to work on."""
    return sum(max(0.0, min(b, end) - max(a, start)) for a, b in track.waits)


def seconds(value):
    """Return a time as text: "850 µs", "12.3 ms", "1.25 s"."""
    if value and value < 1e-3:
        return f"{value * 1e6:.3g} µs"
    return f"{value * 1e3:.3g} ms" if value < 0.9995 else f"{value:.3g} s" if value < 999.5 else f"{value:,.0f} s"
