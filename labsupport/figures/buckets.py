"""The bucket timeline: gradients become ready, fill DDP's buckets, and are reduced while others are still computed."""

from labsupport.errors import LabError
from labsupport.figures.buckets_model import busy, estimate, merged, runs_of, simulated
from labsupport.figures.buckets_scene import WIDTHS, draw_timeline, end_of, ms
from labsupport.figures.figure import told
from labsupport.figures.film import Ask, Frame, Table, film
from labsupport.figures.player import PlayerFigure
from labsupport.figures.words import byte_text, count, join_words, number, repr_label, short_bytes

__all__ = ["draw"]

MOST_RANKS = 4
MOST_EVENTS = 24  # steps; of more buckets than that allows, not every start and end has one of its own
MOST_BARS = 20  # for each rank; more buckets are drawn together, and said so
MOST_BARS_COMPARED = 12
MOST_SIZES = 12
MOST_OPTIONS = 40
_CODE = "with record_buckets(model) as seen:\n    loss.backward()"
_CAPS_MB = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25)


@told('lab.show("buckets", seen), with what `with record_buckets(model) as seen:` filled; option: sizes_mb')
def draw(recorded, *, sizes_mb=None, latency_ms=None, gb_per_s=None, **state):
    """Return the timeline of a recorded backward pass, or what other bucket sizes would make of it.

    Args:
        recorded: what `record_buckets` filled, of one rank, or a list with one for each rank (up to 4 are drawn).
        sizes_mb: bucket sizes to compare, in MiB as DDP's `bucket_cap_mb` counts, or True for a range that fits the
            model; the figure then simulates, and its slider chooses the size.
        latency_ms: the time an all_reduce takes before its bytes count; for the simulation, estimated when None.
        gb_per_s: 10⁹ bytes reduced per second; for the simulation, estimated when None.
        state: step, code, table, predict: what is set at first.

    Raises:
        LabError: nothing was recorded, or a number makes no sense.
    """
    runs = runs_of(recorded)[:MOST_RANKS]
    if sizes_mb is None:
        if latency_ms is not None or gb_per_s is not None:
            raise LabError("latency_ms and gb_per_s are for a simulation", next_step="pass sizes_mb=True with them")
        return PlayerFigure(_recorded(runs), **state)
    return PlayerFigure(_what_if(runs[0], sizes_mb, latency_ms, gb_per_s), **state)


# ---- recorded


def _recorded(runs):
    summary = _summary(runs)
    together = -(-max(len(r["buckets"]) for r in runs) // MOST_BARS)
    summary += f" A bar stands for up to {number(together)} buckets." if together > 1 else ""
    runs = [merged(r, MOST_BARS) for r in runs]
    run = runs[0]
    events = _events(run)
    moments = [time + run["shift"] for time, _ in events]
    moments[-1] = end_of(runs)  # the last step shows all ranks to their ends
    frames = [_frame(run, events, k) for k in range(len(events))]
    shown = [next(k for k, (t, _) in enumerate(events) if t >= b["end"]) for b in run["buckets"]]
    names = [g["name"] for g in run["ready"]]
    asks = len(names) <= MOST_OPTIONS and any(f.verdict for f in frames)
    ask = Ask(prompt="A bucket is full next. Which gradient is the last it waits for?", fields=(("gradient", names),))
    when = " · ".join(part for part in (run["machine"], run["date"]) if part)
    return film(
        kind="buckets", title="Gradient buckets of one backward pass",
        note=f"recorded on {when} · rank {run['rank']} of {run['world']}",
        summary=summary, frames=frames, widths=WIDTHS, ask=ask if asks else None,
        table=_table(run, shown), draw=lambda k, width: draw_timeline(runs, moments[: k + 1], width, end_of(runs)),
    )  # fmt: skip


def _events(run):
    """Return [(time, words)]: the start, every bucket's start and end, the end of computing."""
    events = [(0.0, "start: backward begins")]
    for b in run["buckets"]:
        events.append((b["start"], f"bucket {b['index']} is full"))
        events.append((b["end"], f"bucket {b['index']} is reduced"))
    events.append((run["computed"], "the last gradient is ready"))
    events.sort(key=lambda event: event[0])
    if len(events) > MOST_EVENTS:
        keep = {round(k * (len(events) - 1) / (MOST_EVENTS - 1)) for k in range(MOST_EVENTS)}
        events = [event for k, event in enumerate(events) if k in keep or event[0] in (run["computed"],)]
    return [event if k == 0 else (event[0], f"step {k}: {event[1]}") for k, event in enumerate(events)]


def _frame(run, events, k):
    time, title = events[k]
    after = events[k + 1][1] if k + 1 < len(events) else ""
    filled = [b for b in run["buckets"] if after.endswith(f"bucket {b['index']} is full")]
    verdict = _verdict(run, filled[0]) if filled else None
    words = _words(run, time) if k else f"{_words(run, time)} Dotted outlines show what is to come."
    return Frame(title=title, words=words, code=_CODE, verdict=verdict, counts=k > 0)


def _words(run, time):
    """Return what is ready, filling and reduced at a time."""
    ready = sum(g["at"] <= time for g in run["ready"])
    full = [b for b in run["buckets"] if b["start"] <= time]
    moving = [str(b["index"]) for b in full if b["end"] > time]
    words = [f"At {ms(time)}, {_ready_words(ready, len(run['ready']))}."]
    if full and full[-1]["start"] == time:
        b = full[-1]
        words.append(f"Bucket {b['index']} holds {count(len(b['parameters']), 'gradient')}, {byte_text(b['bytes'])}; "
                     f"{b['last']} was the last, and its all_reduce starts.")  # fmt: skip
    for b in full:
        if b["end"] == time:
            exposed = f", {ms(b['exposed'])} of it exposed" if b["exposed"] else ", hidden behind computing"
            words.append(f"The all_reduce of bucket {b['index']} took {ms(b['end'] - b['start'])}{exposed}.")
    if moving:
        words.append(f"{'Bucket' if len(moving) == 1 else 'Buckets'} {join_words(moving)} under way.")
        if time >= run["computed"]:
            words.append("Nothing is left to compute: this communication is exposed.")
    return " ".join(words)


def _ready_words(ready, of):
    return f"{number(ready)} of {count(of, 'gradient is', 'gradients are')} ready"


def _verdict(run, bucket):
    """Return a function that says what is wrong with a guess of the gradient that completes a bucket."""
    names = [g["name"] for g in run["ready"]]

    def verdict(option):
        if names[option] == bucket["last"]:
            return ""
        if names[option] in bucket["parameters"]:
            return f"{{0}} is in bucket {bucket['index']}, but another of its gradients is ready later."
        return f"{{0}} is not in bucket {bucket['index']}: gradients fill buckets in the order in which they are ready."

    return verdict


def _summary(runs):
    words = []
    for run in runs:
        total, exposed = busy(run)
        size = sum(b["bytes"] for b in run["buckets"])
        late = f", which began {ms(run['shift'])} later" if run["shift"] >= 1e-4 else ""
        who = f"Rank {run['rank']}{late}: " if len(runs) > 1 else ""
        if not run["buckets"]:
            words.append(f"{who}{ms(run['computed'])} computing, and no all_reduce (inside no_sync there is none).")
            continue
        words.append(
            f"{who}{ms(run['computed'])} computing; {count(len(run['buckets']), 'bucket')} with {byte_text(size)}, "
            f"{ms(total)} communicating, of it {ms(exposed)} exposed: after the last gradient."
        )
    return " ".join(words)


def _table(run, shown):
    rows = [
        (str(b["index"]), number(len(b["parameters"])), byte_text(b["bytes"]), b["last"], ms(b["start"]), ms(b["end"]),
         ms(b["end"] - b["start"]), ms(b["exposed"]))
        for b in run["buckets"]
    ]  # fmt: skip
    head = ("bucket", "gradients", "size", "last gradient", "starts at", "reduced at", "took", "of it exposed")
    return Table(caption="All buckets as a table", head=head, rows=tuple(rows), shown=tuple(shown))


# ---- what if


def _what_if(run, sizes_mb, latency_ms, gb_per_s):
    """Return a film whose frames are bucket sizes."""
    latency, rate = estimate(run)
    guessed = [name for name, value in (("latency", latency_ms), ("rate", gb_per_s)) if value is None]
    latency = latency if latency_ms is None else _positive(latency_ms, "latency_ms", least=0) / 1e3
    rate = rate if gb_per_s is None else _positive(gb_per_s, "gb_per_s") * 1e9
    sizes = _sizes(run, sizes_mb)
    runs = [simulated(run, size * 2**20, latency, rate) for size in sizes]
    frames = [_size_frame(size, r) for size, r in zip(sizes, runs)]
    best = min(range(len(runs)), key=lambda k: busy(runs[k])[1])
    basis = f"latency {ms(latency)}, {short_bytes(round(rate))} per second"
    how = f" ({' and '.join(guessed)} roughly estimated from the recorded buckets)" if guessed else ""
    summary = (
        f"The gradients are as recorded; each all_reduce is taken to need {basis}{how}, one after another. "
        f"Least exposed with {sizes[best]:g} MiB: {ms(busy(runs[best])[1])}."
    )
    together = -(-max(len(r["buckets"]) for r in runs) // MOST_BARS_COMPARED)
    summary += f" A bar stands for up to {number(together)} buckets." if together > 1 else ""
    drawn, ends = [merged(r, MOST_BARS_COMPARED) for r in runs], end_of(runs)
    rows = tuple(
        (f"{size:g} MiB", number(len(r["buckets"])), ms(busy(r)[0]), ms(busy(r)[1])) for size, r in zip(sizes, runs)
    )
    return film(
        kind="buckets", title="Other bucket sizes for this backward pass", slider="Size",
        note=f"simulated from a run recorded on {run['machine']} · {run['date']}", summary=summary, frames=frames,
        widths=WIDTHS, draw=lambda k, width: draw_timeline([drawn[k]], [ends], width, ends), poster=best,
        table=Table(caption="All sizes as a table", head=("size", "buckets", "communicating", "exposed"), rows=rows),
    )  # fmt: skip


def _size_frame(size, run):
    total, exposed = busy(run)
    n = len(run["buckets"])
    words = (
        f"{ms(total)} communicating, of it {ms(exposed)} exposed. The first bucket is full at "
        f"{ms(run['buckets'][0]['start'])}, the last gradient is ready at {ms(run['computed'])}."
    )
    code = f"DistributedDataParallel(model, bucket_cap_mb={size:g})"
    return Frame(title=f"{size:g} MiB: {count(n, 'bucket')}", words=words, code=code)


def _sizes(run, sizes_mb):
    if sizes_mb is True:
        total = sum(g["bytes"] for g in run["ready"]) / 2**20
        smallest = total / 40
        found = [size for size in _CAPS_MB if smallest <= size <= total] or [total / 8, total / 4, total / 2]
        return [float(f"{size:.2g}") for size in found] + [float(f"{total * 1.05:.2g}")]
    if not isinstance(sizes_mb, list | tuple) or not 1 <= len(sizes_mb) <= MOST_SIZES:
        step = f"pass True, or a list of up to {MOST_SIZES} such as [1, 5, 25]"
        raise LabError(f"sizes_mb cannot be {repr_label(sizes_mb, 40)}", next_step=step)
    return sorted({_positive(size, "sizes_mb") for size in sizes_mb})


def _positive(value, what, least=1e-9):
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < 1e9:
        raise LabError(f"{what} cannot be {repr_label(value, 20)}", next_step="pass a positive number")
    return float(value)
