"""The collectives of a recorded run: rows, who waits, who is missing; from calls as a job leaves them."""

import dataclasses
import json
import types
from xml.etree import ElementTree

import numpy as np
import pytest

from labsupport.figures import collective
from labsupport.figures.collective_record import MOST_ROWS, lanes_of
from labsupport.figures.collective_rows import pairs_of, rows_of, waiting_at
from labsupport.ranks.recorder import Call, to_dicts


def call(op, number, at_ms=0, **more):
    pair = {"send": "dst", "recv": "src"}.get(op)
    shape = () if op == "barrier" else ((4,),)
    base = {"shapes": shape, "dtypes": ("float32",) * len(shape), "began_ns": 10**18 + at_ms * 10**6,
            "line": f"dist.{op}(x)", "lineno": number + 3, "way": pair or ""}  # fmt: skip
    return Call(op=op, number=number, **base | more)


def lanes(*ranks):
    return [list(calls) for calls in ranks]


EQUAL = lanes(*[
    [call("init_process_group", 1, group=""), call("all_reduce", 1, r), call("broadcast", 2, 5 + 40 * (r == 1)),
     call("barrier", 3, 60)] for r in range(3)
])  # fmt: skip
SKIPPED = lanes(
    [call("all_reduce", 1), call("all_reduce", 2, 9, done=False)],
    [call("all_reduce", 1)],
    [call("all_reduce", 1), call("all_reduce", 2, 9, done=False)],
)
MISMATCH = lanes([call("all_reduce", 1, done=False)], [call("broadcast", 1, done=False)])
BOTH_SEND = lanes([call("send", 1, peer=1, done=False)], [call("send", 1, peer=0, done=False)])
SUBGROUP = lanes(
    [call("all_reduce", 1), call("all_reduce", 1, 2, group="1", members=(0, 1)), call("barrier", 2, 3)],
    [call("all_reduce", 1), call("all_reduce", 1, 2, group="1", members=(0, 1)), call("barrier", 2, 3)],
    [call("all_reduce", 1), call("barrier", 2, 2)],
)
SHAPES = lanes([call("all_reduce", 1)], [call("all_reduce", 1, shapes=((5,),), raised=True)])
CASES = {"equal": EQUAL, "skipped": SKIPPED, "mismatch": MISMATCH, "both send": BOTH_SEND, "subgroup": SUBGROUP,
         "shapes": SHAPES}  # fmt: skip


def shown(figure, width=760):
    return {m["name"]: m for m in figure.scene(width)["marks"] if m["kind"] == "cell"}


@pytest.mark.parametrize("case", CASES)
def test_every_call_is_drawn_once_and_in_order(case):
    figure = collective.draw(CASES[case])
    figure.set(step=figure.steps)
    for width in figure.film["widths"]:
        cells = shown(figure, width)
        for rank, calls in enumerate(CASES[case]):
            own = sorted(int(name[1:].partition(".")[0]) for name, m in cells.items()
                         if name.endswith(f".{rank}") and m["lines"][1] != "not called")  # fmt: skip
            assert len(own) == sum(bool(c.group) for c in calls)
    ElementTree.fromstring(figure.svg())
    assert figure.alt.count("recorded on") == 1 and "simulated" not in figure.alt
    json.dumps(figure.film)


def test_rows_hold_what_belongs_together():
    rows = rows_of(lanes_of(SUBGROUP)[0])
    assert [{rank: (c["op"], c["group"]) for rank, c in row.items()} for row in rows] == [
        dict.fromkeys(range(3), ("all_reduce", "0")), dict.fromkeys(range(2), ("all_reduce", "1")),
        dict.fromkeys(range(3), ("barrier", "0")),
    ]  # fmt: skip


GATHER = lanes(  # all send to rank 0 at once, which takes one after another and answers in the same order
    [*(call("recv", k, 10 * k, peer=k) for k in (1, 2, 3)), *(call("send", k, 40 + k, peer=k) for k in (1, 2, 3))],
    *([call("send", 1, r, peer=0), call("recv", 2, 10 * r + 2, peer=0)] for r in (1, 2, 3)),
)


def whats(found):
    return [{rank: (c["op"], c["peer"]) for rank, c in row.items()} for row in found]


def test_a_send_and_its_receive_are_one_row():
    sent = [{0: ("recv", k), k: ("send", 0)} for k in (1, 2, 3)]
    assert whats(rows_of(lanes_of(GATHER)[0])) == sent + [{0: ("send", k), k: ("recv", 0)} for k in (1, 2, 3)]
    walk = collective.draw(GATHER).set(step=2).words()["walk"]
    assert "Rank 2 sends (4,) float32 to rank 0, which receives it." in walk
    assert "Rank 1 waits in recv ← 0 already. Rank 3 waits in send → 0 already." in walk


def test_who_has_called_early_waits_until_its_row():
    figure = collective.draw(GATHER)
    looks = [{name: (m["role"], m["lines"][1]) for name, m in shown(figure.set(step=k)).items()} for k in range(5)]
    assert looks[0]["c2.3"] == ("idle", "(4,)")  # nothing has been called yet
    assert looks[1]["c2.3"] == looks[2]["c2.3"] == ("waiting", "waits")
    assert looks[3]["c2.3"] == ("communicating!", "(4,)") and looks[4]["c2.3"] == ("touched", "(4,)")
    assert looks[1]["c3.1"] == ("idle", "(4,)")  # rank 1 has not come to its receive


def test_the_kth_send_meets_the_kth_receive_of_its_tag():
    tagged = lanes(
        [call("send", k + 1, k, peer=1, tag=tag, lineno=k) for k, tag in enumerate((7, 8, 7))],
        [call("recv", k + 1, 9 + k, peer=0, tag=tag, lineno=k) for k, tag in enumerate((7, 7, 8))],
    )
    pairs = pairs_of(lanes_of(tagged)[0])
    assert {sent: got for sent, got in pairs.items() if not sent[0]} == {(0, 0): (1, 0), (0, 1): (1, 2), (0, 2): (1, 1)}
    walk = collective.draw(tagged).set(step=2).words()["walk"]  # send 2 is received after send 3
    assert "Rank 0 sends (4,) float32 to rank 1 (received in row 4)." in walk


def test_a_receive_from_any_rank_takes_what_was_sent_first():
    wild = lanes(
        [call("recv", 1, 20, peer=None), call("recv", 2, 21, peer=None)],
        [call("send", 1, 9, peer=0)], [call("send", 1, 5, peer=0)],
    )  # fmt: skip
    assert [sorted(row) for row in rows_of(lanes_of(wild)[0])] == [[0, 2], [0, 1]]


@pytest.mark.parametrize("first, second", [("isend", "recv"), ("irecv", "send"), ("send", "recv")])
def test_a_ring_in_which_all_do_the_same_is_two_rows(first, second):
    def one(op, number, rank):
        way, peer = ("dst", (rank + 1) % 4) if op.endswith("send") else ("src", (rank - 1) % 4)
        return call(op, number, 10 * number + rank, way=way, peer=peer, asynchronous=op[0] == "i")

    ring = [[one(first, 1, rank), one(second, 2, rank)] for rank in range(4)]
    assert [[c["op"] for c in row.values()] for row in rows_of(lanes_of(ring)[0])] == [[first] * 4, [second] * 4]
    assert "in row 2)" in collective.draw(ring).set(step=1).words()["walk"]


def test_members_of_a_group_wait_for_the_one_that_has_not_called():
    late = lanes(
        [call("all_reduce", 1, 0)], [call("all_reduce", 1, 1)],
        [call("all_reduce", 1, 500, group="1", members=(2,)), call("all_reduce", 1, 600)],
    )  # fmt: skip
    figure = collective.draw(late).set(step=1)
    assert "Ranks 0 and 1 wait in all_reduce already." in figure.words()["walk"]
    assert shown(figure)["c1.0"]["lines"][1] == "waits"


def test_every_rank_keeps_its_own_order_whatever_the_calls():
    rng = np.random.default_rng(5)
    for _ in range(200):
        made = [[] for _ in range(3)]
        for k in range(12):
            rank, peer = rng.choice(3, 2, replace=False)
            op = rng.choice(["send", "recv", "isend", "all_reduce"])
            way = {"all_reduce": "", "recv": "src"}.get(op, "dst")
            made[rank].append(call(str(op), k, int(rng.integers(99)), peer=int(peer) if way else None, way=way))
        calls = lanes_of(made)[0]
        found = rows_of(calls)
        for rank, own in calls.items():
            assert [id(row[rank]) for row in found if rank in row] == list(map(id, own))
        assert len(waiting_at(found)) == len(found)


def test_groups_in_crossed_order_still_come_to_an_end():
    crossed = lanes([call("all_reduce", 1, 1, group="1"), call("all_reduce", 1, 2, group="2")],
                    [call("all_reduce", 1, 3, group="2"), call("all_reduce", 1, 4, group="1")])  # fmt: skip
    assert sum(map(len, rows_of(lanes_of(crossed)[0]))) == 4
    collective.draw(crossed)


def test_lateness_is_told_from_a_millisecond_on():
    figure = collective.draw(EQUAL)
    assert "Rank 1 comes last, 40 ms after the first." in figure.set(step=2).words()["walk"]
    assert "comes last" not in figure.set(step=3).words()["walk"]
    assert "Nobody waits at the end." in figure.words()["summary"]


def test_a_missing_call_is_an_empty_place_and_a_sentence():
    figure = collective.draw(SKIPPED)
    assert (
        figure.set(step=3).words()["walk"].endswith("Ranks 0 and 2 wait in all_reduce 2, which rank 1 has not called.")
    )
    cells = shown(figure)
    assert cells["c1.1"]["lines"][1] == "not called" and cells["c1.1"]["role"] == "trouble~"
    assert cells["c1.0"]["lines"][1] == "waits" and cells["c1.0"]["role"] == "waiting!"
    assert shown(figure.set(step=1))["c1.1"]["lines"][1] == ""  # not before one has come there


def test_a_mismatch_is_told_with_both_sides():
    figure = collective.draw(MISMATCH)
    walk = figure.set(step=1).words()["walk"]
    assert "rank 0 all_reduce (4,) float32; rank 1 broadcast (4,) float32" in walk
    assert shown(figure)["c0.1"]["role"] == "trouble!"
    assert (
        "rank 0 all_reduce (4,) float32; rank 1 all_reduce (5,)" in collective.draw(SHAPES).set(step=1).words()["walk"]
    )


def test_sends_and_receives_name_their_peer():
    walk = collective.draw(BOTH_SEND).set(step=1).words()["walk"]
    assert "Rank 0 sends (4,) float32 to rank 1 and waits in it." in walk


def test_every_form_of_a_record_is_read():
    plain = [to_dicts(calls) for calls in EQUAL]
    expected = collective.draw(EQUAL).film
    for form in (
        plain,
        json.loads(json.dumps(plain)),
        dict(enumerate(plain)),
        {str(r): c for r, c in enumerate(plain)},
    ):
        frames = collective.draw(form).film["frames"]
        assert [f["words"] for f in frames] == [f["words"] for f in expected["frames"]]


def test_a_jobs_record_is_read_at_its_last_attempt():
    rank = types.SimpleNamespace
    ranks = [
        rank(rank=r, attempt=a, calls=to_dicts(EQUAL[r] if a else MISMATCH[0])) for a in range(2) for r in range(2)
    ]
    figure = collective.draw(types.SimpleNamespace(ranks=ranks, started=1_700_000_000.0))
    assert "mismatch" not in figure.alt and "2 ranks" in figure.alt and "2023-11-1" in figure.alt


def test_a_long_run_shows_its_end_and_says_so():
    many = [[call("all_reduce", k, k) for k in range(1, 60)] for _ in range(2)]
    figure = collective.draw(many)
    assert figure.steps == MOST_ROWS + 1
    assert f"The first {59 - MOST_ROWS} rows are left out." in figure.alt
    assert len(figure.html()) <= 60_000 and len(json.dumps(figure.film)) <= 40_000


def test_calls_have_the_fields_that_are_read():
    known = {field.name for field in dataclasses.fields(Call)}
    assert {"op", "number", "group", "shapes", "dtypes", "done", "raised", "peer", "way", "lineno", "line", "members",
            "began_ns"} <= known  # fmt: skip
