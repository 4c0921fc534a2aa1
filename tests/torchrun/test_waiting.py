"""Who waits for whom, on tables of calls."""

import pytest

from labsupport.ranks.recorder import Call
from labsupport.ranks.waiting import Standing, explain, first_difference, unnoticed


def c(number, op="all_reduce", *, shape=(7,), dtype="float32", lineno=9, **more):
    return Call(number=number, at=number, op=op, shapes=(shape,), dtypes=(dtype,), lineno=lineno, **more)


def done(count):
    return [c(number, lineno=5) for number in range(1, count + 1)]


def waits(number, op="all_reduce", **more):
    return c(number, op, done=False, waiting=True, **more)


def pair(op, peer, nth=1, *, tag=0, lineno=3, waiting=True, shape=(2,)):
    way = "dst" if "send" in op else "src"
    return Call(
        number=nth, op=op, peer=peer, nth=nth, tag=tag, way=way, lineno=lineno, waiting=waiting, done=not waiting,
        shapes=(shape,), dtypes=("float32",),
    )  # fmt: skip


def stand(*calls, state="running", line=None, text=""):
    return Standing(state, tuple(calls), line, text)


def certain(now):
    return explain(now, dict(now))


# -- tables -------------------------------------------------------------------------------------------------------


def test_nobody_waits():
    assert explain({0: stand(*done(3)), 1: stand(*done(3))}) is None
    assert explain({0: stand(*done(2), waits(3)), 1: stand(*done(2), waits(3))}) is None  # it is going on
    assert explain({0: stand(), 1: stand(state="starting")}) is None


def test_a_rank_that_sleeps_is_named_and_nothing_is_certain():
    others = stand(*done(3), waits(4))
    now = {0: others, 1: others, 2: stand(*done(3), line=12, text="time.sleep(60)"), 3: others}
    stall = certain(now)
    assert stall.sentence == (
        "rank 2 has not called collective 4 (all_reduce [7]); ranks 0, 1, 3 wait in it at line 9; "
        "rank 2 is at line 12: `time.sleep(60)`"
    )
    assert (stall.kind, stall.culprits, stall.certain, stall.waiting) == ("straggler", (2,), False, (0, 1, 3))


@pytest.mark.parametrize("state, word", [("done", "has ended"), ("failed", "has failed"), ("gone", "has gone")])
def test_a_rank_that_ended_early(state, word):
    now = {0: stand(*done(1), waits(2)), 1: stand(*done(1), state=state)}
    stall = certain(now)
    assert stall.sentence == (
        f"rank 1 has not called collective 2 (all_reduce [7]); rank 0 waits in it at line 9; rank 1 {word}"
    )
    assert (stall.kind, stall.culprits, stall.certain) == ("ended early", (1,), True)
    assert not explain(now).certain  # one look is not enough
    assert not explain(now, {**now, 0: stand(*done(1))}).certain  # something moved between the looks


def test_an_ended_rank_that_has_done_its_part_is_no_culprit():
    root_is_through = {0: stand(c(1, "broadcast", root=0), state="done"), 1: stand(waits(1, "broadcast", root=0))}
    assert certain(root_is_through) is None


def test_different_operations_make_a_table():
    now = {0: stand(*done(3), waits(4, lineno=20, line="dist.all_reduce(x)"))}
    now |= {r: stand(*done(3), waits(4, "broadcast", lineno=22, root=0)) for r in (1, 2)}
    stall = certain(now)
    assert (stall.kind, stall.certain, stall.culprits) == ("mismatch", True, (0,))
    assert stall.sentence == (
        "collective 4 has different operations: rank 0 called all_reduce [7]; ranks 1, 2 called broadcast [7]"
    )
    assert stall.rows == (
        ("0", "all_reduce", "[7]", "float32", "line 20: `dist.all_reduce(x)`"),
        ("1, 2", "broadcast (root 0)", "[7]", "float32", "line 22"),
    )


@pytest.mark.parametrize(
    "other, what",
    [
        (waits(1, shape=(9,)), "different shapes"),
        (waits(1, dtype="float64"), "different dtypes: rank 0 called all_reduce [7] of float32; rank 1 called"),
        (waits(1, "barrier"), "different operations"),
    ],
)
def test_what_differs_is_said(other, what):
    stall = certain({0: stand(waits(1)), 1: stand(other)})
    assert what in stall.sentence and stall.certain and len(stall.rows) == 2


def test_different_roots():
    now = {r: stand(waits(1, "broadcast", root=r)) for r in (0, 1)}
    assert certain(now).sentence == (
        "collective 1 has different roots: rank 0 called broadcast [7] with root 0; "
        "rank 1 called broadcast [7] with root 1"
    )


def test_one_operation_spelled_differently_is_no_mismatch():
    now = {0: stand(waits(1, "all_gather")), 1: stand(waits(1, "all_gather_into_tensor"))}
    assert certain(now) is None


def test_uneven_parts_are_no_mismatch():
    now = {0: stand(waits(1, "all_to_all_single", shape=(3,))), 1: stand(waits(1, "all_to_all_single", shape=(5,)))}
    assert certain(now) is None


def test_a_group_counts_for_itself_and_is_named():
    group = {"group": "1", "members": (1, 3)}
    now = {
        0: stand(*done(1), waits(2)), 1: stand(*done(1), waits(1, lineno=30, **group)),
        2: stand(*done(1), waits(2)), 3: stand(*done(1), waits(2)),
    }  # fmt: skip
    stall = certain(now)
    assert stall.certain and stall.kind == "missing call"
    assert "rank 1 waits in collective 1 (all_reduce [7]) of the group of ranks 1, 3 at line 30 for rank 3" in (
        stall.sentence
    )


def test_both_send_and_both_receive():
    stall = certain({0: stand(pair("send", 1)), 1: stand(pair("send", 0, lineno=4))})
    assert (stall.kind, stall.certain) == ("both send", True)
    assert "rank 0 in send at line 3; rank 1 in send at line 4" in stall.sentence
    stall = certain({0: stand(pair("recv", 1)), 1: stand(pair("recv", 2)), 2: stand(pair("recv", 0))})
    assert (stall.kind, stall.culprits, stall.certain) == ("both receive", (0, 1, 2), True)


def test_a_send_whose_receive_is_there_goes_on():
    assert certain({0: stand(pair("send", 1)), 1: stand(pair("recv", 0))}) is None
    posted = pair("irecv", 0, waiting=False)
    assert certain({0: stand(pair("send", 1)), 1: stand(posted, waits(1))}).sentence.startswith("rank 0 has not")


def test_a_tag_that_nobody_receives():
    stall = certain({0: stand(pair("send", 1, tag=1)), 1: stand(pair("recv", 0, tag=2))})
    assert stall.certain and "tag 1" in stall.sentence and "tag 2" in stall.sentence


def test_the_wrong_peer():
    now = {0: stand(pair("send", 2)), 1: stand(pair("recv", 0)), 2: stand(state="done")}
    stall = certain(now)
    assert stall.certain and stall.culprits == (2,)
    assert stall.sentence == (
        "rank 0 waits in send [2] to rank 2 at line 3, and rank 2 has not called what receives it; rank 2 has ended"
    )


def test_the_second_of_two_sends_needs_a_second_receive():
    first = pair("send", 1, waiting=False)
    now = {0: stand(first, pair("send", 1, nth=2)), 1: stand(pair("recv", 0, waiting=False), state="done")}
    assert certain(now).certain


def test_a_receive_from_any_rank_may_take_any_send():
    now = {0: stand(pair("send", 1)), 1: stand(pair("recv", None)), 2: stand(state="done")}
    assert certain(now) is None
    nobody = {0: stand(state="done"), 1: stand(pair("recv", None)), 2: stand(state="done")}
    assert certain(nobody).certain
    somebody_may = {0: stand(), 1: stand(pair("recv", None)), 2: stand(state="done")}
    assert not certain(somebody_may).certain


def test_receive_against_collective():
    now = {0: stand(pair("recv", 1)), 1: stand(waits(1))}
    stall = certain(now)
    assert stall.certain and "for rank 1" in stall.sentence and "for rank 0" in stall.sentence


def test_what_torch_calls_counts_and_has_the_line_of_the_stack():
    reducer = Call(number=5, at=5, op="all_reduce", shapes=((10,),), done=False, origin="torch", asynchronous=True)
    now = {0: Standing("running", (*done(4), reducer), 31, "loss.backward()"), 1: stand(*done(4), state="done")}
    stall = certain(now)
    assert stall.certain
    assert "collective 5 (all_reduce [10], called by torch); rank 0 waits in it at line 31" in stall.sentence


@pytest.mark.parametrize(
    "change",
    [{"threads": 1}, {"timeout_ms": 2000}, {"own_timeout": True, "timeout_ms": 60_000}],
    ids=["another thread may call it", "it gives up soon", "it was given a limit"],
)
def test_what_may_go_on_by_itself_is_not_certain(change):
    now = {0: stand(waits(1, **change)), 1: stand(state="done")}
    stall = certain(now)
    assert stall is not None and not stall.certain


def test_something_in_flight_may_start_what_is_missing():
    flying = c(2, done=False, asynchronous=True)
    now = {0: stand(*done(1), flying, waits(3)), 1: stand(*done(1), flying, pair("recv", 0))}
    stall = certain(now)
    assert stall is not None and not stall.certain


def test_the_last_difference_is_found_after_a_crash():
    now = {0: stand(*done(2), c(3, shape=(4,))), 1: stand(*done(2), c(3, shape=(5,)), state="gone")}
    stall = first_difference(now)
    assert stall.sentence == (
        "collective 3 has different shapes: rank 0 called all_reduce [4]; rank 1 called all_reduce [5]"
    )
    assert first_difference({0: stand(*done(2)), 1: stand(*done(2))}) is None
    sent = {0: stand(pair("send", 1, shape=(4,))), 1: stand(pair("recv", 0, shape=(2,)))}
    assert first_difference(sent).sentence == "rank 0 sends [4] float32, rank 1 receives into [2] float32"


@pytest.mark.parametrize(
    "other, what, cell",
    [
        (c(1, dtype="int32"), "different dtypes", "int32"),
        (c(1, shape=(3,)), "different shapes", "[3]"),
        (c(1, how="MAX"), "different reductions: rank 0 called all_reduce [7] with SUM", "all_reduce MAX"),
    ],
)
def test_what_went_through_although_it_should_not_have(other, what, cell):
    stall = unnoticed({0: stand(c(1, how="SUM" if "reductions" in what else "")), 1: stand(other)})
    assert stall.kind == "unnoticed" and what in stall.sentence and any(cell in row for row in stall.rows)


def test_what_is_right_is_not_worth_a_word():
    right = {
        0: stand(c(1, shape=(2, 3)), c(2, "all_to_all_single", shape=(1,))),
        1: stand(c(1, shape=(6,)), c(2, "all_to_all_single")),
    }
    assert unnoticed(right) is None
    assert unnoticed({0: stand(c(1, shape=(3,), raised=True)), 1: stand(c(1))}) is None


def test_a_rank_whose_calls_are_not_known_is_no_culprit():
    now = {0: stand(waits(1)), 1: Standing("done", None)}
    assert certain(now) is None
    assert not certain({**now, 2: stand(state="done")}).culprits == (1, 2)
