"""The bucket timeline: its numbers are the record's, exposure is what comes after computing, and sizes are compared."""

import json
from xml.etree import ElementTree

import pytest
from test_figures_collective import inside

from labsupport.errors import LabError
from labsupport.figures import buckets
from labsupport.figures.buckets_model import busy, estimate, runs_of, simulated


def recorded(n=6, per=2, rank=0, began=100.0, took=0.004, step=0.002):
    """Return a record: gradient k is ready at (k + 1) · step, every `per` of them make a bucket of `took` seconds."""
    ready = [{"name": f"layer{k}.weight", "bytes": 1000 * (k + 1), "at": (k + 1) * step}
             for k in range(n)]  # fmt: skip
    made = []
    for k in range(0, n, per):
        own = ready[k : k + per]
        made.append({"index": k // per, "bytes": sum(g["bytes"] for g in own), "parameters": [g["name"] for g in own],
                     "start": own[-1]["at"] + 1e-5, "end": own[-1]["at"] + took})  # fmt: skip
    return {"kind": "buckets", "rank": rank, "world": 2, "machine": "Linux test, 2 cores", "date": "2026-11-30 12:00",
            "began": began, "ended": ready[-1]["at"] + took + 1e-4, "ready": ready, "buckets": made}  # fmt: skip


def cells(figure, width=760):
    return {m["name"]: m for m in figure.scene(width)["marks"] if m["kind"] == "cell"}


def test_exposed_is_what_lies_after_the_last_gradient():
    (run,) = runs_of(recorded())
    assert run["computed"] == pytest.approx(0.012)
    assert [b["exposed"] for b in run["buckets"]] == pytest.approx([0, 0, 0.00399], abs=1e-9)
    total, exposed = busy(run)
    assert (total, exposed) == pytest.approx((3 * 0.00399, 0.004))
    (slow,) = runs_of(recorded(took=0.02))
    assert busy(slow) == pytest.approx((0.02 + 0.008 - 1e-5, 0.02))  # overlapping buckets are counted once
    assert [b["exposed"] for b in slow["buckets"]] == pytest.approx([0.012, 0.016, 0.01999])


def test_every_event_is_a_step_and_tells_its_numbers():
    figure = buckets.draw(recorded())
    titles = [f["title"] for f in figure.film["frames"]]
    assert titles[:3] == ["start: backward begins", "step 1: bucket 0 is full", "step 2: bucket 0 is reduced"]
    assert titles[5] == "step 5: the last gradient is ready" and len(titles) == 8
    walk = figure.set(step=1).words()["walk"]
    assert "2 of 6 gradients are ready. Bucket 0 holds 2 gradients, 3,000 bytes; layer1.weight was the last" in walk
    assert "took 3.99 ms, hidden behind computing" in figure.set(step=2).words()["walk"]
    assert "took 3.99 ms, 3.99 ms of it exposed" in figure.set(step=7).words()["walk"]
    assert "12 ms computing; 3 buckets with 21,000 bytes, 12 ms communicating, of it 4 ms exposed" in figure.alt


def test_bars_grow_to_the_time_of_the_step_and_no_further():
    figure = buckets.draw(recorded())
    ends = []
    for step in range(figure.steps + 1):
        bars = cells(figure.set(step=step))
        ends.append(bars["c0"]["w"] if "c0" in bars else 0)
    assert ends == sorted(ends) and ends[0] == 0
    last = cells(figure)
    for name, role in (("c0", "computing"), ("h0.0", "communicating"), ("x0.2", "wasted!"), ("f0.1", "waiting~")):
        assert last[name]["role"] == role
    assert "x0.0" not in last
    # 12 ms of computing in a picture of 16.1 ms
    room = 760 - 14 - 76 - 14
    assert last["c0"]["w"] == pytest.approx(room * 12 / 16.1, abs=1)


def test_what_is_to_come_is_outlined_until_it_has_come():
    figure = buckets.draw(recorded())
    drawn = [{m.get("name"): m for m in figure.set(step=k).scene(760)["marks"]} for k in (0, 3, figure.steps)]
    assert "outline0" in drawn[0] and drawn[0]["outline0"] == drawn[1]["outline0"] and "outline0" not in drawn[2]
    assert drawn[0]["outline0"]["d"].count("z") == 4  # computing and three buckets
    bar = drawn[2]["c0"]
    assert drawn[0]["outline0"]["d"].startswith(f"M{bar['x']} {bar['y']}h{bar['w']}v{bar['h']}h")
    assert figure.set(step=0).words()["walk"].endswith("Dotted outlines show what is to come.")


@pytest.mark.parametrize("make", [
    lambda: recorded(), lambda: recorded(n=1, per=1), lambda: recorded(n=200, per=2), lambda: recorded(n=39, per=39),
    lambda: [recorded(rank=r, began=100 + r / 1000) for r in range(4)], lambda: recorded(n=300, per=100, took=2.0),
    lambda: {**recorded(), "buckets": []},
], ids=["three", "one", "hundred", "whole", "four ranks", "slow", "none"])  # fmt: skip
@pytest.mark.parametrize("sizes", [None, True, [0.001, 0.01, 25]])
def test_figures_are_small_whole_and_described(make, sizes):
    figure = buckets.draw(make(), sizes_mb=sizes)
    assert len(json.dumps(figure.film, ensure_ascii=False, separators=(",", ":")).encode()) <= 40_000
    assert len(figure.html()) <= 60_000
    assert ("recorded on Linux test" in figure.alt) and ("simulated" in figure.alt) == (sizes is not None)
    for step in (0, figure.steps // 2, figure.steps):
        ElementTree.fromstring(figure.set(step=step).svg())
        for width in figure.film["widths"]:
            bars = [m for m in figure.scene(width)["marks"] if m["kind"] == "cell"]
            scene = figure.scene(width)
            for m in bars:
                assert 0 <= m["x"] and m["x"] + m["w"] <= width and m["y"] + m["h"] <= scene["height"], m
                assert len(m["lines"][0]) * 8 <= m["w"] or not m["lines"][0]
            if len(bars) < 30 and sizes is None:
                inside({**scene, "marks": [m for m in scene["marks"] if m["kind"] == "text"]})


def test_ranks_are_lined_up_by_the_machines_clock():
    figure = buckets.draw([recorded(rank=1, began=100.003), recorded(rank=0, began=100.0)])
    figure.set(step=figure.steps)
    bars = cells(figure)
    ms = (760 - 14 - 76 - 14) / 19.1  # the second rank ends 3 ms after the first, at 19.1 ms
    assert bars["c1"]["x"] - bars["c0"]["x"] == pytest.approx(3 * ms, abs=1)
    assert bars["x1.2"]["x"] + bars["x1.2"]["w"] >= bars["x0.2"]["x"] + bars["x0.2"]["w"] + 3 * ms - 1
    assert "Rank 1, which began 3 ms later: " in figure.alt


def test_the_late_gradient_can_be_predicted():
    figure = buckets.draw(recorded())
    assert figure.reason("layer1.weight") == ""
    assert (
        figure.reason("layer0.weight") == "layer0.weight is in bucket 0, but another of its gradients is ready later."
    )
    assert "layer4.weight is not in bucket 0" in figure.reason("layer4.weight")
    assert figure.set(step=6).film["frames"][6]["verdicts"] == ""


@pytest.mark.parametrize("cap, sizes", [(0, [1] * 6), (1001, [2, 1, 1, 1, 1]), (1500, [2, 1, 1, 1, 1]), (10**9, [6])])
def test_a_bucket_closes_once_it_holds_the_cap(cap, sizes):
    (run,) = runs_of(recorded())
    made = simulated(run, cap, 0.001, 1e6)
    assert [len(b["parameters"]) for b in made["buckets"]] == sizes
    free = 0.0
    for b in made["buckets"]:  # one after another, each with latency and bytes
        assert b["start"] == pytest.approx(max(free, b["full"]))
        assert b["end"] - b["start"] == pytest.approx(0.001 + b["bytes"] / 1e6)
        free = b["end"]


def test_the_best_size_is_the_one_least_exposed():
    figure = buckets.draw(recorded(), sizes_mb=[0.001, 0.005, 1], latency_ms=1, gb_per_s=0.01)
    exposed = [busy(simulated(runs_of(recorded())[0], mb * 2**20, 1e-3, 1e7))[1] for mb in (0.001, 0.005, 1)]
    assert figure.film["poster"] == exposed.index(min(exposed))
    assert figure.film["slider"] == "Size"
    assert "latency 1 ms, 10 MB per second, one after another" in figure.alt
    assert "estimated" in buckets.draw(recorded(), sizes_mb=[1]).alt
    assert figure.code() == "DistributedDataParallel(model, bucket_cap_mb=0.001)"


def test_an_estimate_explains_the_recorded_time():
    (run,) = runs_of(recorded())
    latency, rate = estimate(run)
    assert sum(latency + b["bytes"] / rate for b in run["buckets"]) == pytest.approx(busy(run)[0])


@pytest.mark.parametrize("wrong", [
    lambda: buckets.draw(3), lambda: buckets.draw([]), lambda: buckets.draw({}), lambda: buckets.draw([{"a": 1}]),
    lambda: buckets.draw({**recorded(), "ready": []}), lambda: buckets.draw(recorded(), sizes_mb=[-1]),
    lambda: buckets.draw(recorded(), sizes_mb="all"), lambda: buckets.draw(recorded(), gb_per_s=1),
    lambda: buckets.draw(recorded(), sizes_mb=[1], latency_ms=True), lambda: buckets.draw(recorded(), zoom=2),
])  # fmt: skip
def test_wrong_arguments_are_told_in_words(wrong):
    with pytest.raises(LabError):
        wrong()
