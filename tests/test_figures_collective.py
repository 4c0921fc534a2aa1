"""The collective player: its numbers are NumPy's, its bytes the closed formulas', its refusals those of the rules."""

import json
from xml.etree import ElementTree

import numpy as np
import pytest

from labsupport.errors import LabError
from labsupport.figures import collective
from labsupport.figures.collective_given import plan_for
from labsupport.figures.collective_model import PLANS
from labsupport.figures.film import MOST_BYTES

EVERY = sorted(PLANS)
SIZES = (2, 3, 4, 5, 8)
NUMPY = {"sum": np.add, "product": np.multiply, "max": np.maximum, "min": np.minimum}


def plan(name, way, values, **more):
    return plan_for(name, way, values, **more)


def result(plan, rank):
    """Return what a rank holds in the end, as one array."""
    return np.concatenate([p.values for p in plan.states[-1][rank] if p is not None])


def random_values(seed, ranks, dtype="int64"):
    rng = np.random.default_rng(seed)
    return [rng.integers(-5, 6, int(np.full(1, 3 + seed % 11)[0])).astype(dtype) for _ in range(ranks)]


@pytest.mark.parametrize("ranks", SIZES)
@pytest.mark.parametrize("op", NUMPY)
@pytest.mark.parametrize("way", ["ring", "tree", "naive"])
def test_all_reduce_ends_with_numpys_result_on_every_rank(way, op, ranks):
    for seed in range(6):
        values = random_values(seed, ranks)
        made = plan("all_reduce", way, values, op=op, root=seed % ranks)
        expected = NUMPY[op].reduce(values)
        for rank in range(ranks):
            assert np.array_equal(result(made, rank), expected)
            assert all(made.finished(c, piece) for c, piece in enumerate(made.states[-1][rank]))


@pytest.mark.parametrize("ranks", SIZES)
@pytest.mark.parametrize("way", ["tree", "flat"])
def test_reduce_and_broadcast(way, ranks):
    values = random_values(ranks, ranks)
    for root in range(ranks):
        assert np.array_equal(result(plan("reduce", way, values, root=root), root), sum(values))
        made = plan("broadcast", way, values, root=root)
        assert all(np.array_equal(result(made, rank), values[root]) for rank in range(ranks))


@pytest.mark.parametrize("ranks", SIZES)
def test_the_others_put_every_chunk_where_it_belongs(ranks):
    values = random_values(ranks, ranks)
    split = [np.array_split(v, ranks) for v in values]
    made = {name: plan(name, None, values, root=ranks - 1) for name in
            ("all_gather", "gather", "scatter", "reduce_scatter", "all_to_all")}  # fmt: skip
    for rank in range(ranks):
        held = {name: p.states[-1][rank] for name, p in made.items()}
        assert np.array_equal(result(made["all_gather"], rank), np.concatenate(values))
        assert np.array_equal(held["scatter"][rank].values, values[rank])
        assert np.array_equal(held["reduce_scatter"][rank].values, sum(s[rank] for s in split))
        got = [piece.values for piece in held["all_to_all"][ranks:]]
        assert all(np.array_equal(g, split[src][rank]) for src, g in enumerate(got))
    assert np.array_equal(result(made["gather"], ranks - 1), np.concatenate(values))
    for made_one in made.values():  # and every place that is promised is right
        assert all(made_one.finished(slot, made_one.states[-1][rank][slot]) for rank, slot in made_one.wanted)


@pytest.mark.parametrize("ranks", range(2, 9))
def test_bytes_follow_the_closed_formulas(ranks):
    values = [np.zeros(ranks * 3, np.float32)] * ranks
    whole, n = values[0].nbytes, ranks
    ring, tree, naive = (plan("all_reduce", way, values) for way in ("ring", "tree", "naive"))
    levels = (n - 1).bit_length()
    assert ring.sent[-1] == [2 * (n - 1) * whole // n] * n
    assert (len(ring.steps), ring.waits_for) == (2 * (n - 1), 2 * (n - 1) * whole // n)
    assert naive.sent[-1] == [(n - 1) * whole] + [whole] * (n - 1)
    assert (len(naive.steps), naive.waits_for) == (2 * (n - 1), 2 * (n - 1) * whole)
    assert (len(tree.steps), tree.waits_for) == (2 * levels, 2 * levels * whole)
    assert sum(tree.sent[-1]) == sum(naive.sent[-1]) == sum(ring.sent[-1]) == 2 * (n - 1) * whole
    for name in ("all_gather", "reduce_scatter", "all_to_all"):
        made = plan(name, None, values)
        chunk = made.chunk_bytes[0]
        assert made.sent[-1] == [(n - 1) * chunk] * n and len(made.steps) == n - 1


@pytest.mark.parametrize("length", [1, 3, 5, 10, 11])
def test_a_length_that_ranks_do_not_divide_keeps_the_sum_of_bytes(length):
    made = plan("all_reduce", "ring", [np.arange(length, dtype=np.float64)] * 4)
    assert sum(made.sent[-1]) == 2 * 3 * length * 8
    assert np.array_equal(result(made, 2), 4 * np.arange(length))
    collective.draw("ring_all_reduce", [np.arange(length, dtype=np.float64)] * 4).svg()


def test_a_gigabyte_on_four_ranks_is_one_and_a_half_sent():
    figure = collective.draw("ring_all_reduce", ranks=4, buffer_bytes=10**9)
    assert "Every rank sends 1.5 GB = 2 × 3/4 × 1.0 GB." in figure.words()["summary"]
    assert "Through rank 0: 6 steps, at most 3.0 GB from one rank" in figure.words()["summary"]
    assert "1.8 GB" in collective.draw("ring_all_reduce", ranks=8, buffer_bytes=10**9).words()["summary"]


def test_in_every_step_a_rank_sends_and_receives_at_most_one_message():
    for name, way in EVERY:
        for ranks in SIZES:
            for step in plan(name, way, None, ranks=ranks).steps:
                for end in ("src", "dst"):
                    ends = [getattr(m, end) for m in step.messages]
                    assert len(ends) == len(set(ends)), (name, way)


@pytest.mark.parametrize("name, way", EVERY)
@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_figures_are_small_whole_and_described(name, way, ranks):
    figure = collective.draw(name, algorithm=way, ranks=ranks)
    size = len(json.dumps(figure.film, ensure_ascii=False, separators=(",", ":")).encode())
    assert size <= MOST_BYTES
    for step in range(figure.steps + 1):
        figure.set(step=step)
        for width in figure.film["widths"]:
            inside(figure.scene(width))
    assert len(figure.html()) <= 60_000
    ElementTree.fromstring(figure.svg())
    assert figure.alt.count("simulated") == 1
    assert f"{ranks} ranks" in figure.alt and "bytes" in figure.alt


def inside(scene):
    """Fail where something lies outside of the picture, or a box on another."""
    boxes = [m for m in scene["marks"] if m["kind"] == "cell"]
    for m in boxes:
        assert 0 <= m["x"] and m["x"] + m["w"] <= scene["width"], m
        assert 0 <= m["y"] and m["y"] + m["h"] <= scene["height"], m
        longest = max(len(m["lines"][0]) * 8, *(len(line) * 7 for line in m["lines"][1:]), 0)
        assert longest <= m["w"] + 2, m
        x, y = m["x"] + m["w"] // 2, m["y"] + m["h"] // 2
        assert sum(b["x"] < x < b["x"] + b["w"] and b["y"] < y < b["y"] + b["h"] for b in boxes) == 1, m
    for m in scene["marks"]:
        if m["kind"] == "text":
            assert 0 <= m["x"] <= scene["width"] and 0 <= m["y"] <= scene["height"], m


@pytest.mark.parametrize("name, way", EVERY)
def test_predictions_are_right_exactly_for_the_steps_own_transfers(name, way):
    for ranks in (2, 4, 5):
        figure = collective.draw(name, algorithm=way, ranks=ranks)
        made, fields = plan(name, way, None, ranks=ranks), figure.film["ask"]["fields"]
        for k, step in enumerate(made.steps):
            figure.set(step=k)
            right = {(m.src, m.dst, m.slots[0])[: len(fields)] for m in step.messages}
            for answer in np.ndindex(*(len(f["options"]) for f in fields)):
                why = figure.reason(*answer)
                assert (why == "") == (answer in right), (name, k, answer)
                assert "{" not in why
        with pytest.raises(LabError):
            figure.set(step=figure.steps).reason(0, 1, 0)


@pytest.mark.parametrize("step, answer, why", [
    (0, (1, 1, 0), "A rank does not send to itself."),
    (0, (0, 2, 0), "In the ring a rank sends only to the next one, and the last to rank 0."),
    (0, (0, 1, 2), "Possible, but here the ring begins otherwise: rank 0 sends chunk 0, rank 1 the one after it."),
    (1, (0, 1, 0), "Chunk 0 of rank 1 already contains part of what rank 0 would send: it would count twice."),
    (1, (0, 1, 2), "Rank 0 passes on what has just arrived; chunk 2 is not that."),
    (3, (2, 3, 1), "Rank 2 does not hold chunk 1 complete yet."),
    (4, (3, 0, 1), "Rank 0 holds chunk 1 complete already."),
])  # fmt: skip
def test_refusals_in_the_ring_name_the_reason(step, answer, why):
    assert collective.draw("ring_all_reduce", ranks=4, step=step).reason(*answer) == why


def test_the_frames_tell_what_the_model_does():
    figure = collective.draw("ring_all_reduce", [np.full(4, 10.0**r) for r in range(4)], step=3)
    walk = figure.words()["walk"]
    assert walk.startswith("Step 3: reduce-scatter 3 of 3. Chunk 2 goes from rank 0 to 1,")
    assert "Sent so far: 24 bytes by every rank." in walk
    cells = {m["name"]: m for m in figure.scene(760)["marks"] if m["kind"] == "cell"}
    assert cells["c1.2"]["lines"] == ["1111", "✓ all"] and cells["c1.2"]["role"] == "computing!"
    assert cells["c0.2"]["lines"] == ["1101", "0+2+3"] and cells["c0.2"]["role"] == "communicating!"
    assert figure.set(step=7).words()["walk"].startswith("Result: after the call. Every rank holds the sum")
    assert figure.film["frames"][0]["code"].startswith("dist.all_reduce(x)")
    assert "The values are made up." in collective.draw("all_reduce").alt
    assert "made up" not in figure.alt


@pytest.mark.parametrize("name, way", EVERY)
def test_counter_and_sentence_count_the_same_steps(name, way):
    figure = collective.draw(name, algorithm=way, ranks=4)
    n = len(plan(name, way, None, ranks=4).steps)
    places = [frame["place"] for frame in figure.film["frames"]]
    assert places == ["", *(f"{k} of {n}" for k in range(1, n + 1)), ""]
    assert f": {n} step" in figure.words()["summary"]


@pytest.mark.parametrize("name", ["gather", "all_gather", "scatter", "all_to_all", "broadcast", "all_reduce"])
def test_a_box_called_own_has_the_colour_of_own_values(name):
    figure = collective.draw(name, ranks=4)
    own = set()
    for step in range(figure.steps + 1):
        marks = figure.set(step=step).scene(760)["marks"]
        own |= {m["role"] for m in marks if m["kind"] == "cell" and m["lines"][1:] == ["own"]}
    assert own <= {"idle", "communicating!"} and "idle" in own


def test_the_longest_chain_is_named_and_compared():
    assert collective.draw("ring_all_reduce", ranks=4).words()["summary"] == (
        "4 ranks, a buffer of 16 bytes on each: 6 steps. Every rank sends 24 bytes = 2 × 3/4 × 16 bytes. The longest "
        "chain of transfers carries 24 bytes. Along a tree: 4 steps, at most 32 bytes from one rank, a chain of "
        "64 bytes. Through rank 0: 6 steps, at most 48 bytes from one rank, a chain of 96 bytes. "
        "The values are made up."
    )
    assert "Straight from rank 0: 3 steps" in collective.draw("broadcast", ranks=4).words()["summary"]


def test_the_code_of_a_step_is_what_one_rank_runs():
    figure = collective.draw("ring_all_reduce", ranks=4, step=2)
    assert figure.code().splitlines() == [
        "# rank 0 in this step", "sending = dist.isend(chunk[3], dst=1)", "dist.recv(arrived, src=3)",
        "sending.wait()", "chunk[2] += arrived",
    ]  # fmt: skip
    for name, way in EVERY:
        for frame in collective.draw(name, algorithm=way, ranks=3).film["frames"]:
            compile(frame["code"], "<code>", "exec")


def test_tensors_of_every_dtype_are_read():
    torch = pytest.importorskip("torch")
    for dtype in (torch.float32, torch.bfloat16, torch.int32, torch.uint8):
        figure = collective.draw("all_reduce", [torch.arange(8).to(dtype).requires_grad_(dtype.is_floating_point)] * 2)
        assert "0 2 4 6" in figure.set(step=figure.steps).svg()
    assert "0 1 2 3" in collective.draw("all_gather", [torch.arange(4.0)[::1]] * 2).svg()


@pytest.mark.parametrize("what", ["ring_all_reduce", "Ring all-reduce", "all_reduce"])
def test_names_are_read_as_people_write_them(what):
    assert collective.draw(what).film["title"] == "Ring all-reduce"


X = np.arange(4.0)
WRONG = {
    "an unknown collective": lambda: collective.draw("ring_all_redcue"),
    "an unknown algorithm": lambda: collective.draw("all_reduce", algorithm="star"),
    "one rank": lambda: collective.draw("all_reduce", ranks=1),
    "nine ranks": lambda: collective.draw("all_reduce", ranks=9),
    "a fraction of a rank": lambda: collective.draw("all_reduce", ranks=2.5),
    "another number of arrays": lambda: collective.draw("all_reduce", [X, X], ranks=3),
    "an array alone": lambda: collective.draw("all_reduce", X),
    "two shapes": lambda: collective.draw("all_reduce", [X, X[:2]]),
    "two dtypes": lambda: collective.draw("all_reduce", [X, X.astype("f4")]),
    "texts": lambda: collective.draw("all_reduce", ["a", "b"]),
    "no root": lambda: collective.draw("reduce", root=4),
    "no op": lambda: collective.draw("reduce", op="mean"),
    "no bytes": lambda: collective.draw("reduce", buffer_bytes=0),
    "an unknown option": lambda: collective.draw("reduce", colour=1),
    "a step too far": lambda: collective.draw("reduce", step=40),
    "no record": lambda: collective.draw(3.5),
    "a record with ranks": lambda: collective.draw([[]], ranks=3),
    "a record without calls": lambda: collective.draw([[], []]),
    "records of something else": lambda: collective.draw([[{"a": 1}]]),
}


@pytest.mark.parametrize("make", WRONG)
def test_wrong_arguments_are_told_in_words(make):
    with pytest.raises(LabError) as told:
        WRONG[make]()
    assert "Error:" not in str(told.value) or make == "an unknown option"


def test_a_near_name_is_offered():
    with pytest.raises(LabError, match='did you mean "ring_all_reduce"'):
        collective.draw("ring_all_redcue")
