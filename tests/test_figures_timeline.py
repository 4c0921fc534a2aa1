"""The loader's timeline: its bars, counts and shares are the run's, whole, in parts, and for two runs on one axis."""

import json
import re
from xml.etree import ElementTree

import pytest

from labsupport.errors import LabError
from labsupport.figures import timeline
from labsupport.figures.timeline_model import seconds, tracks_of, waited
from labsupport.loaderbench.runs import Epoch, Event, Run


def made(workers=2, batches=20, fetch=0.02, step=0.005, epochs=1, **settings):
    """Return a run as `record` would give it of a loader that is as regular as a clock."""
    events, queue, t, ready_at = [], [], 0.01, {}
    events.append(Event("main", "start", 0.0, 0.01))
    free = [0.03] * workers
    events += [Event(f"worker {w}", "start", 0.0, 0.03) for w in range(workers)]
    spent = 0.0
    for k in range(batches):
        begin = t
        if workers:
            w = k % workers
            lane, start = f"worker {w}", max(free[w], t - 4 * step)
            ready_at[k] = free[w] = start + fetch + 0.001
            t = max(t, ready_at[k])
            events.append(Event("main", "wait", begin, t, k))
            queue += [(ready_at[k], 1), (t, -1)]
        else:
            lane, start = "main", t
            t = start + fetch + 0.001
        events += [Event(lane, "fetch", start, start + fetch, k), Event(lane, "collate", start + fetch,
                                                                       start + fetch + 0.001, k)]  # fmt: skip
        spent += t - begin
        events.append(Event("main", "compute", t, t + step, k))
        t += step
    ready, rows = 0, []
    for moment, change in sorted(queue, key=lambda item: (item[0], -item[1])):
        ready += change
        rows.append((moment, ready))
    totals = {kind: sum(e.end_s - e.start_s for e in events if e.kind == kind)
              for kind in ("start", "fetch", "collate", "wait", "transfer", "compute")}  # fmt: skip
    return Run(
        settings={"dataset": "Crops", "num_workers": workers, "batch_size": 8} | settings,
        events=tuple(sorted(events, key=lambda e: e.start_s)), queue=tuple(rows), totals=totals | {"next": spent},
        counts={"batches": batches, "items": 8 * batches, "calls": 8 * batches, "bytes": 64 * batches,
                "processes": 1 + workers},
        epochs=tuple(Epoch(t * k / epochs, 0.0, t * (k + 1) / epochs, batches) for k in range(epochs)),
        versions={"python": "3.11.7", "torch": "2.13.0+cpu", "system": "linux"},
    )  # fmt: skip


def bars(figure, width=760):
    """Return {name: [(x, width)]} of every stroke in a frame."""
    found = {}
    for m in figure.scene(width)["marks"]:
        if m["kind"] == "path" and m["role"].startswith("bar-") and not m["name"].startswith("key"):
            x, own = 0, []
            for command, numbers in re.findall(r"([Mmh])([-\d ]+)", m["d"]):
                values = [int(v) for v in re.findall(r"-?\d+", numbers)]
                if command == "h":
                    own.append((x, values[0]))
                    x += values[0]
                else:
                    x = values[0] if command == "M" else x + values[0]
            found[m["name"]] = own
    return found


def rows(figure):
    return figure.film["table"]["rows"]


def test_every_event_is_one_bar_at_its_time():
    run = made(workers=0, batches=10, fetch=0.02, step=0.02)
    figure = timeline.draw(run)
    drawn = bars(figure)
    assert len(drawn["0.0fe"]) == len(drawn["0.1co"]) == 10
    room = 760 - 2 * 14 - 110
    for (x, w), event in zip(drawn["0.1co"], [e for e in run.events if e.kind == "compute"]):
        assert x == pytest.approx(124 + event.start_s / run.seconds * room, abs=1)
        assert w == pytest.approx((event.end_s - event.start_s) / run.seconds * room, abs=2)


@pytest.mark.parametrize("workers", [0, 1, 2, 5])
@pytest.mark.parametrize("batches", [1, 20, 90])
def test_counts_and_shares_are_the_runs(workers, batches):
    run = made(workers, batches)
    figure = timeline.draw(run)
    table = rows(figure)
    names = {"start": "starts", "fetch": "fetches samples", "collate": "collates a batch", "wait": "waits for a batch",
             "compute": "computes"}  # fmt: skip
    for kind, words in names.items():
        counted = sum(int(row[2]) for row in table if row[1] == words)
        assert counted == sum(event.kind == kind for event in run.events), kind
    assert table[-1][1].startswith(f"{batches} batch") and f"{8 * batches} items" in table[-1][1]
    share = f"{run.wait_share * 100:.0f} %"
    assert f"the main process waited {share} of the time" in figure.alt
    if workers:
        taken = next(row[3] for row in table if row[1] == "waits for a batch")
        assert taken == seconds(run.totals["wait"])


def test_waits_of_the_parts_are_those_of_the_whole():
    (track,) = tracks_of(made(2, 60))
    parts = [waited(track, track.seconds * k / 5, track.seconds * (k + 1) / 5) for k in range(5)]
    assert sum(parts) == pytest.approx(waited(track, 0, track.seconds)) == pytest.approx(track.run.totals["wait"])
    (alone,) = tracks_of(made(0, 20))
    assert waited(alone, 0, alone.seconds) == pytest.approx(alone.run.totals["next"])


def test_parts_are_the_whole_enlarged():
    figure = timeline.draw(made(2, 60))
    frames = figure.film["frames"]
    assert [f["place"] for f in frames] == ["", "1 of 5", "2 of 5", "3 of 5", "4 of 5", "5 of 5"]
    whole = len(bars(figure)["0.1co"])
    seen = [len(bars(figure.set(step=k))[f"w{k}.0.1co"]) for k in range(1, 6)]
    assert whole == 60 and 60 <= sum(seen) <= 64  # a bar on the border of two parts is in both
    assert figure.set(step=3).words()["walk"].startswith("Part 3: ")
    assert "the main process waited" in figure.words()["walk"] and figure.film["slider"] == "Part"


def test_two_runs_share_an_axis():
    alone, two = made(0, 20), made(2, 20)
    figure = timeline.draw(alone, two)
    drawn = bars(figure)
    ends = [max(x + w for name, own in drawn.items() if name.startswith(f"{n}.") for x, w in own) for n in (0, 1)]
    room, longest = 760 - 2 * 14 - 110, max(alone.seconds, two.seconds)
    for end, run in zip(ends, (alone, two)):
        assert end == pytest.approx(124 + run.seconds / longest * room, abs=2)
    titles = [m["text"] for m in figure.scene()["marks"] if m["kind"] == "text" and m["style"] == "title"]
    assert titles == ["num_workers 0", "num_workers 2"]
    assert "num_workers 0: 20 batches" in figure.alt and "num_workers 2: 20 batches" in figure.alt
    per = [seconds(run.seconds / 20) for run in (alone, two)]
    assert f"took {per[1]} per batch instead of {per[0]}" in figure.alt
    assert {row[0] for row in rows(figure)} == {"num_workers 0", "num_workers 2"}


def test_two_runs_with_the_same_settings_are_told_apart():
    titles = [track.label for track in tracks_of(made(), made())]
    assert titles == ["First run", "Second run"]
    titles = [track.label for track in tracks_of(made(trace="a"), made(trace="b"))]
    assert titles == ["trace a", "trace b"]


def test_ready_batches_are_drawn_as_steps():
    run = made(2, 30)
    figure = timeline.draw(run)
    (line,) = [m["d"] for m in figure.scene()["marks"] if m["kind"] == "path" and m["role"] == "queue"]
    level, levels = 0, []
    for command, value in re.findall(r"([vh])(-?\d+)", line):
        level += int(value) if command == "v" else 0
        levels.append(-level)
    most = max(ready for _, ready in run.queue)
    assert max(levels) == 22 and min(levels) == 0
    assert f"0 to {most}" in [m["text"] for m in figure.scene()["marks"] if m["kind"] == "text"]
    assert timeline.draw(made(0)).film["heights"][-1] < figure.film["heights"][-1]


@pytest.mark.parametrize("workers, batches", [(0, 1), (2, 100), (4, 2000), (16, 4000), (40, 400)])
@pytest.mark.parametrize("twice", [False, True])
def test_films_are_small_and_what_is_together_is_told(workers, batches, twice):
    run = made(workers, batches)
    figure = timeline.draw(run, made(0, batches) if twice else None)
    assert len(json.dumps(figure.film, ensure_ascii=False, separators=(",", ":")).encode()) <= 40_000
    for step in range(figure.steps + 1):
        assert sum(map(len, bars(figure.set(step=step)).values())) <= 2_000
        assert len(figure.html()) <= 60_000
        ElementTree.fromstring(figure.svg())
    drawn = sum(map(len, bars(figure.set(step=0), figure.film["widths"][-1]).values()))
    shown = [row for track in tracks_of(run, made(0, batches) if twice else None) for row in track.rows]
    events = sum(len(row.spans) for row in shown)
    said = re.search(r"([\d,]+) events are drawn as ([\d,]+) bars", figure.alt)
    assert (said is None) == (drawn == events)
    if said:
        assert [int(n.replace(",", "")) for n in said.groups()] == [events, drawn]
    assert ("not drawn, only 12 of a run" in figure.alt) == (workers > 12)


@pytest.mark.parametrize("width", [300, 520, 760])
def test_nothing_lies_outside(width):
    figure = timeline.draw(made(3, 40, epochs=2), made(0, 40))
    for step in range(figure.steps + 1):
        scene = figure.set(step=step).scene(width)
        for m in scene["marks"]:
            if m["kind"] == "text":
                assert 0 <= m["x"] <= width and 0 <= m["y"] <= scene["height"]
        for own in bars(figure, width).values():
            assert all(124 <= x and x + w <= width - 12 for x, w in own)


def test_a_share_can_be_predicted():
    figure = timeline.draw(made(1, 60)).set(step=1)
    words = figure.set(step=2).words()["walk"]
    share = int(re.search(r"\((\d+) %\)", words)[1])
    option = f"{share // 20 * 20} to {share // 20 * 20 + 20} %"
    figure.set(step=1)
    assert figure.reason(option) == ""
    wrong = "0 to 20 %" if share >= 20 else "80 to 100 %"
    assert figure.reason(wrong).startswith(f"It is {'more' if share >= 20 else 'less'} than {wrong}: compare")


def test_epochs_are_marked():
    figure = timeline.draw(made(2, 40, epochs=3))
    (line,) = [m["d"] for m in figure.scene()["marks"] if m.get("name") == "epochs0"]
    assert line.count("M") == 2
    assert "a new epoch begins" in [m["text"] for m in figure.scene()["marks"] if m["kind"] == "text"]


def test_a_saved_run_is_drawn_from_its_path(tmp_path):
    path = made(2, 20).save(tmp_path / "run.json")
    assert timeline.draw(path).alt == timeline.draw(str(path)).alt == timeline.draw(made(2, 20)).alt
    with pytest.raises(LabError):
        timeline.draw(tmp_path / "none.json")


@pytest.mark.parametrize(
    "text", [(0.0005, "500 µs"), (0.0123, "12.3 ms"), (0.99951, "1 s"), (1.234, "1.23 s"), (0, "0 ms")]
)
def test_times_are_written_short(text):
    assert seconds(text[0]) == text[1]


def test_code_makes_the_run_again():
    figure = timeline.draw(made(2, 20, prefetch_factor=4))
    assert figure.code() == "record(dataset, num_workers=2, batch_size=8, prefetch_factor=4)"


@pytest.mark.parametrize("wrong", [
    lambda: timeline.draw(3), lambda: timeline.draw({}), lambda: timeline.draw(made(), 5), lambda: timeline.draw(),
    lambda: timeline.draw(Run({}, (), (), {}, {})), lambda: timeline.draw(made(), zoom=2), lambda: timeline.draw(None),
    lambda: timeline.draw(Run({}, (Event("main", "compute", 0.0, 0.0, 0),), (), {}, {})),
])  # fmt: skip
def test_wrong_use_is_told_in_words(wrong):
    with pytest.raises(LabError) as raised:
        wrong()
    assert raised.value.next_step and "Error" not in raised.value.what
