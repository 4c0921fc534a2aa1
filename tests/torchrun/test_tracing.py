"""The chart of `--trace`: intervals, what counts as what, sums against the profiler's own events, the picture."""

import itertools
import json
import random
import xml.etree.ElementTree as ET

import pytest

from labsupport.errors import LabError
from labsupport.torchrun import tracing
from labsupport.torchrun.timeline import Spans, Timeline, common, length, minus, union
from labsupport.torchrun.trace_picture import TracePicture, duration

# -- intervals ----------------------------------------------------------------------------------------------------


def covered(spans, moment):
    return any(begin <= moment < end for begin, end in spans)


def test_intervals_agree_with_asking_each_moment():
    rng = random.Random(0)
    for _ in range(300):
        some, others = ([sorted(rng.sample(range(40), 2)) for _ in range(rng.randint(0, 8))] for _ in range(2))
        one, other = union(some), union(others)
        for moment in range(41):
            assert covered(one, moment) == covered(some, moment)
            assert covered(minus(one, other), moment) == (covered(some, moment) and not covered(others, moment))
            assert covered(common(one, other), moment) == (covered(some, moment) and covered(others, moment))
        assert all(a[1] < b[0] for a, b in itertools.pairwise(one))
        assert length(one) == sum(covered(some, moment) for moment in range(41))
        assert length(minus(one, other)) + length(common(one, other)) == length(one)


def test_who_comes_late_makes_the_others_wait():
    timeline = Timeline(
        {
            0: Spans([[0, 10]], [("all_reduce", 10, 50)]),
            1: Spans([[0, 40]], [("all_reduce", 40, 50)]),
        }
    )
    early, late = timeline.sums(0), timeline.sums(1)
    assert (early.computing, early.waiting, early.communicating, early.exposed, early.other) == (10, 30, 10, 10, 0)
    assert (late.computing, late.waiting, late.communicating, late.exposed) == (40, 0, 10, 10)


def test_a_transfer_under_computing_is_hidden_and_a_broadcast_makes_nobody_wait():
    timeline = Timeline(
        {
            0: Spans([[0, 100]], [("all_reduce", 20, 60), ("broadcast", 100, 101)]),
            1: Spans([[0, 30]], [("all_reduce", 20, 60), ("broadcast", 90, 101)]),
        }
    )
    assert timeline.sums(0).communicating == 41 and timeline.sums(0).exposed == 1
    one = timeline.sums(1)
    assert (one.communicating, one.exposed, one.waiting, one.other) == (51, 41, 0, 30)


def test_transfers_that_cannot_be_matched_are_communication():
    timeline = Timeline(
        {0: Spans([], [("all_reduce", 0, 10)]), 1: Spans([], [("all_reduce", 5, 10), ("all_reduce", 20, 30)])}
    )
    assert timeline.sums(0).waiting == 0 and timeline.sums(0).communicating == 10


# -- what counts as what ------------------------------------------------------------------------------------------


def event(name, begin, end, *, cat="cpu_op", tid=1):
    return {"ph": "X", "cat": cat, "name": name, "ts": begin, "dur": end - begin, "pid": 7, "tid": tid}


def test_waiting_inside_an_operator_is_not_computing():
    spans = tracing.spans_of(
        {
            "baseTimeNanoseconds": 2_000_000,
            "traceEvents": [
                event("DistributedDataParallel.forward", 0, 100, cat="user_annotation"),
                event("aten::linear", 0, 10),
                event("aten::addmm", 2, 8),
                event("autograd::engine::evaluate_function: X", 20, 60),
                event("_c10d_functional::wait_tensor", 30, 50),
                event("c10d::allreduce_", 70, 72),
                event("gloo:all_reduce", 71, 90, cat="user_annotation", tid=2),
                event("aten::add_", 75, 80, tid=2),  # the backend's thread adds up: a part of the transfer
                {"ph": "i", "name": "Iteration Start", "ts": 0},
            ],
        }
    )
    assert spans["base_ns"] == 2_000_000
    assert spans["computing"] == [[0, 10], [20, 30], [50, 60]]
    assert spans["communicating"] == [["all_reduce", 71, 90]]


def test_on_a_gpu_kernels_count_and_operators_do_not():
    kernel = {"cat": "kernel", "tid": 9}
    spans = tracing.spans_of(
        {
            "traceEvents": [
                event("aten::mm", 0, 1000),
                event("sm90_gemm", 10, 20, **kernel),
                event("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 15, 40, **kernel),
                event("nccl:all_reduce", 5, 6, cat="user_annotation"),
            ]
        }
    )
    assert spans["computing"] == [[10, 20]]
    assert spans["communicating"] == [["all_reduce", 15, 40]]


def test_a_merged_trace_keeps_every_event_under_its_ranks_name(tmp_path):
    for rank, base in enumerate((1_000_000, 3_000_000)):
        folder = tmp_path / f"rank-{rank}"
        folder.mkdir()
        events = [
            event("aten::mm", 5, 6),
            {"ph": "M", "name": "process_name", "pid": 7, "args": {"name": "python"}},
            {"ph": "M", "name": "thread_name", "pid": 7, "tid": 1, "args": {"name": "main"}},
            {"ph": "s", "id": 4, "pid": 7, "tid": 1, "ts": 5, "name": "ac2g", "cat": "ac2g"},
        ]
        trace = {"schemaVersion": 1, "baseTimeNanoseconds": base, "traceEvents": events}
        (folder / "trace.json").write_text(json.dumps(trace), encoding="utf-8")
    merged = json.loads(tracing.merge(tmp_path, tmp_path / "all.json").read_text(encoding="utf-8"))
    ops = [(e["pid"], e["ts"]) for e in merged["traceEvents"] if e["ph"] == "X"]
    assert ops == [(0, 5), (1, 2005)]
    assert [e["args"]["name"] for e in merged["traceEvents"] if e["name"] == "process_name"] == ["rank 0", "rank 1"]
    assert [e["id"] for e in merged["traceEvents"] if e["ph"] == "s"] == ["0-4", "1-4"]
    with pytest.raises(LabError, match="cannot be written"):
        tracing.merge(tmp_path, tmp_path / "no folder" / "all.json")


def test_profiles_with_another_origin_are_laid_on_one_clock(tmp_path):
    for rank, base in enumerate((1_000_000, 3_000_000)):
        (tmp_path / f"rank-{rank}").mkdir()
        spans = tracing.spans_of({"baseTimeNanoseconds": base, "traceEvents": [event("aten::mm", 5, 6)]})
        (tmp_path / f"rank-{rank}/spans.json").write_text(json.dumps(spans), encoding="utf-8")
    timeline = tracing.read(tmp_path)
    assert timeline.ranks[1].computing == [[2005, 2006]] and timeline.end - timeline.begin == 2001


def test_without_profiles_there_is_a_sentence(tmp_path):
    with pytest.raises(LabError, match="nothing to draw"):
        tracing.read(tmp_path)
    with pytest.raises(LabError, match="no traces"):
        tracing.merge(tmp_path, tmp_path / "x.json")
    (tmp_path / "rank-0").mkdir()
    (tmp_path / "rank-0" / "spans.json").write_text("{", encoding="utf-8")
    (tmp_path / "rank-0" / "trace.json").write_text("{}", encoding="utf-8")
    with pytest.raises(LabError) as caught:
        tracing.read(tmp_path)
    assert "too large" in str(caught.value)


def test_the_flag_may_name_a_file():
    from labsupport.torchrun.options import parse

    assert parse("--trace").trace and parse("--trace").trace_file is None
    assert parse("--nproc 2 --trace=all.json").trace and parse("--trace=all.json").trace_file == "all.json"
    with pytest.raises(LabError, match="takes no value"):
        parse("--trace=")


# -- the picture --------------------------------------------------------------------------------------------------


@pytest.fixture
def picture():
    return TracePicture(
        Timeline(
            {
                0: Spans([[0, 40_000]], [("all_reduce", 30_000, 100_000)]),
                1: Spans([[0, 80_000]], [("all_reduce", 80_000, 100_000)]),
            }
        )
    )


def test_the_sentences_have_the_sums(picture):
    assert picture.sentences() == [
        "Rank 0 computed for 40 ms, communicated for 20 ms (20 ms of it computing nothing) and waited 40 ms for other "
        "ranks.",
        "Rank 1 computed for 80 ms and communicated for 20 ms (20 ms of it computing nothing).",
    ]
    assert picture.summary() == (
        "Of 100 ms, communication that no computing overlapped took at most 20 % (rank 0: 20 ms)."
    )
    for words in (*picture.sentences(), picture.summary(), "2 ranks"):
        assert words in picture.alt


def test_boxes_are_as_long_as_the_times_they_stand_for(picture):
    scene = picture.scene()
    boxes = {mark["name"]: mark for mark in scene["marks"] if mark["kind"] == "cell"}
    room = 760 - 2 * 14 - 62
    assert boxes["c0.0"]["w"] == pytest.approx(0.4 * room, abs=1) and boxes["c0.0"]["role"] == "computing"
    assert boxes["w0.0"]["w"] == pytest.approx(0.4 * room, abs=1) and boxes["w0.0"]["role"] == "waiting"
    assert boxes["e0.0"]["w"] == pytest.approx(0.2 * room, abs=1) and boxes["e0.0"]["role"] == "communicating"
    assert all(14 <= mark["x"] and mark["x"] + mark["w"] <= 760 for mark in boxes.values())
    assert all(mark["y"] < scene["height"] for mark in scene["marks"] if mark["kind"] != "path")


def test_it_is_an_image_with_words_in_light_and_dark(picture):
    for theme in ("light", "dark"):
        ET.fromstring(picture.svg(theme))
    assert picture.svg("light") != picture.svg("dark")
    markup = picture.html()
    assert markup.count("data:image/svg+xml;base64,") == 2 and "prefers-color-scheme: dark" in markup
    assert picture._repr_html_() == markup and repr(picture) == picture.text()


def test_many_ranks_many_spans_and_none():
    rng = random.Random(1)
    sent = [("all_reduce", 5 * k, 5 * k + 2) for k in range(1000)]
    spans = {rank: Spans(union([[t, t + rng.random()] for t in range(2000)]), sent[:400]) for rank in range(20)}
    many = TracePicture(Timeline(spans))
    assert len(many.svg()) < 400_000 and "4 more ranks are not drawn" in many.svg()
    nothing = TracePicture(Timeline({0: Spans([], [])}))
    assert "no rank communicated" in nothing.summary()
    ET.fromstring(nothing.svg())


def test_durations_in_words():
    assert [duration(t) for t in (0, 400, 9_949, 12_400, 999_400, 12_345_678)] == [
        "0.0 ms", "0.4 ms", "9.9 ms", "12 ms", "999 ms", "12.35 s"
    ]  # fmt: skip


# -- real ranks ---------------------------------------------------------------------------------------------------

_CELL = """
import time
import torch
import torch.distributed as dist

dist.init_process_group()
x = torch.ones(200_000)
if dist.get_rank() == 1:
    time.sleep(0.2)
dist.all_reduce(x)
work = dist.all_reduce(x, async_op=True)
y = torch.randn(300, 300) @ torch.randn(300, 300)
work.wait()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(50, 50))
model(torch.randn(8, 50)).sum().backward()
"""


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    pytest.importorskip("torch")
    from labsupport.torchrun import Request, helper, launch

    if not helper.forks():
        pytest.skip("ranks are not forked here; the trace itself is the same")
    with launch(Request(source=_CELL, flags=("--nproc-per-node", "2"), trace=True)) as job:
        record = job.wait()
        attempt = job.folder / "attempt-0"
        errors = [(attempt / f"rank-{rank}/err").read_text(encoding="utf-8") for rank in range(2)]
        assert record.code == 0, errors
        target = tmp_path_factory.mktemp("traced")
        merged = tracing.merge(attempt, target / "merged.json")
        traces = [json.loads((attempt / f"rank-{rank}/trace.json").read_text(encoding="utf-8")) for rank in range(2)]
        return tracing.read(attempt), traces, json.loads(merged.read_text(encoding="utf-8")), errors


def own_events(trace):
    return [(e, e["ts"], e["ts"] + e["dur"]) for e in trace["traceEvents"] if e.get("ph") == "X"]


def test_the_sums_are_those_of_the_profilers_events(traced):
    """Every moment between two neighbouring ends of events is asked directly, without any union of intervals."""
    timeline, traces, _, _ = traced
    for rank, trace in enumerate(traces):
        events = own_events(trace)
        sent = [(a, b, e["tid"]) for e, a, b in events if e["name"].startswith("gloo:")]
        calls = [(a, b, e["tid"]) for e, a, b in events if e["name"].startswith(("c10d::", "_c10d_functional::"))]
        ops = [(a, b, e["tid"]) for e, a, b in events if e["cat"] == "cpu_op"]
        ends = sorted({moment for a, b, _ in sent + calls + ops for moment in (a, b)})
        computing = exposed = busy = 0.0
        for begin, end in itertools.pairwise(ends):
            middle = (begin + end) / 2
            now = {tid for a, b, tid in ops if a < middle < b} - {t for a, b, t in calls + sent if a < middle < b}
            moving = any(a < middle < b for a, b, _ in sent)
            computing += (end - begin) * bool(now)
            busy += (end - begin) * moving
            exposed += (end - begin) * (moving and not now)
        sums = timeline.sums(rank)
        assert sums.computing == pytest.approx(computing, rel=1e-6)
        assert sums.exposed + sums.waiting == pytest.approx(exposed, rel=1e-6)
        assert sums.communicating <= busy * (1 + 1e-6)
        names = sorted(e["name"].removeprefix("gloo:") for e, _, _ in events if e["name"].startswith("gloo:"))
        assert sorted(name for name, _, _ in timeline.ranks[rank].communicating) == names
        assert names.count("all_reduce") >= 3  # two of the cell, at least one of DDP


def test_the_rank_that_slept_makes_the_other_wait(traced):
    timeline = traced[0]
    assert timeline.sums(0).waiting - timeline.sums(1).waiting > 100_000  # it slept 200 ms
    assert timeline.sums(1).other > 150_000


def test_the_merged_trace_has_all_events_of_both(traced):
    _, traces, merged, _ = traced
    for rank, trace in enumerate(traces):
        mine = [e for e in merged["traceEvents"] if e.get("ph") == "X" and e["pid"] == rank]
        theirs = [e for e in trace["traceEvents"] if e.get("ph") == "X" and isinstance(e["pid"], int)]
        assert [e["name"] for e in mine] == [e["name"] for e in theirs]
    assert merged["baseTimeNanoseconds"] == traces[0]["baseTimeNanoseconds"]


def test_the_profiler_says_nothing_on_the_error_output(traced):
    assert not any("USDT" in error or "profiler_st" in error for error in traced[3])


def test_the_real_chart_is_drawn(traced):
    chart = TracePicture(traced[0])
    ET.fromstring(chart.svg())
    assert chart.sentences()[0].startswith("Rank 0 computed for ")
