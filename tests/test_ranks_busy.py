"""Checks on a machine that has no time for them: what waits for a processor is never told to be stuck. No ranks run."""

import json
import os
import signal
import socket
import sys
import time

import pytest

from labsupport.course import Observation
from labsupport.probing import fair, ranks, ranks_crew, ranks_host, ranks_looks, ranks_rank, ranks_start, running
from labsupport.probing.ranks_stalls import Stuck
from labsupport.ranks import calls as calls_of_a_rank
from labsupport.ranks import noting, recorder, waiting
from labsupport.ranks.calls import Call


class Machine:
    """A clock that stands still, and processes that wait for a processor for as long as they are told to."""

    def __init__(self, processes=1):
        self.now, self.delays = 100.0, [5.0] * processes

    def clock(self):
        return fair.Clock(lambda: list(self.delays), lambda: self.now)

    def passes(self, seconds, *waited):
        self.now += seconds
        for rank, more in enumerate(waited):
            self.delays[rank] += more


# -- time that counts -------------------------------------------------------------------------------------------------


def test_time_without_a_processor_does_not_count():
    machine = Machine()
    clock = machine.clock()
    machine.passes(3.0, 2.5)
    assert clock.elapsed_s() == 3.0 and clock.fair_s() == 0.5
    machine.passes(1.0)
    assert clock.fair_s() == 1.5 and not clock.is_over(2.0) and clock.is_over(1.5)
    assert clock.granted_s(10.0) == 2.5 and clock.granted_s(0.1) == 0.5  # there is an end to it
    assert not clock.gives_up(1.0) and clock.gives_up(0.5)


def test_of_processes_side_by_side_the_longest_wait_counts_and_waits_in_turns_add_up():
    machine = Machine(2)
    together, in_turns = machine.clock(), machine.clock()
    for waited in ((1.0, 0.0), (0.0, 1.0)):
        machine.passes(1.0, *waited)
        in_turns.starved_s()
    assert in_turns.fair_s() == 0.0
    assert together.fair_s() == 1.0
    machine.passes(1.0, 7.0, 0.0)  # the threads of a process together
    assert in_turns.fair_s() == 0.0
    machine.delays = [0.0, 0.0]  # a thread that ended has taken its waits along
    assert in_turns.fair_s() == 0.0


def test_who_has_had_a_processor_for_as_long_as_the_limit_is_over_it():
    used, machine = [3.0, 3.0], Machine(2)
    clock = fair.Clock(lambda: list(machine.delays), lambda: machine.now, lambda: list(used))
    machine.passes(5.0, 4.0, 5.0)
    assert not clock.is_over(2.0)
    used[0] = 5.0
    assert clock.is_over(2.0) and not clock.is_over(2.5)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")
def test_the_system_tells_who_waits():
    assert fair.thread_delay("self") >= 0.0 and fair.whole_delay("self") >= fair.thread_delay("self")
    assert fair.thread_delay(2**30) == fair.whole_delay(2**30) == fair.thread_used(2**30) == 0.0
    assert fair.thread_used("self") > 0.0


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="nothing interrupts an answer there")
def test_an_answer_without_a_processor_is_not_interrupted(monkeypatch):
    looks = []

    def starved():
        looks.append(time.monotonic())
        return [looks[-1]]  # all of the time that passes

    monkeypatch.setattr(fair, "own_delay", starved)

    def returns_late():
        while len(looks) < 4:
            time.sleep(0.001)
        return "right"

    assert running.attempt(returns_late, (), 0.01)[:3] == ("right", None, None)
    monkeypatch.setattr(fair, "own_delay", lambda: [0.0])
    _, _, over, _ = running.attempt(time.sleep, (60,), 0.01)
    assert over == "still running after 0.01 s"


# -- what is said when time is over -----------------------------------------------------------------------------------


class Looks:
    def __init__(self, found):
        self.found = found

    def held(self, seconds, clock):
        return self.found


def late(clock, found=None, call_s=5.0):
    crew = object.__new__(ranks_crew.Crew)
    crew._looks = Looks(found)
    return crew._late(clock, call_s)


def test_ranks_without_a_processor_get_more_time_and_are_never_called_stuck():
    machine, stuck = Machine(2), Stuck("stuck: rank 1 has not called", "straggler: barrier")
    clock = machine.clock()
    machine.passes(20.0, 19.0, 3.0)
    assert late(clock, stuck) is None
    machine.passes(11.0, 8.0, 0.0)
    busy = late(clock, stuck)
    assert busy.busy_s == 31.0 and not busy.sentence
    seen = {"ranks": [{"waits": True}] * 2, "over": {"sentence": "", "kind": "", "busy_s": 31.0}}
    with pytest.raises(fair.TooBusy, match="too busy: within 31 s"):
        ranks._observation(seen, {})


def test_ranks_with_a_processor_are_told_what_the_looks_found():
    machine, stuck = Machine(2), Stuck("stuck: rank 1 has not called", "straggler: barrier")
    clock = machine.clock()
    machine.passes(5.5, 0.1, 0.4)
    assert late(clock, stuck) is stuck
    assert late(clock) == Stuck("still running after 5 s")
    over = {"sentence": "stuck: so", "kind": "k", "busy_s": None}
    assert ranks._observation({"ranks": [], "over": over}, {}) == Observation(over="stuck: so", facts={"stuck": "k"})


def joins(message):
    return {"raised": {"type": "RuntimeError", "message": message}, "joins": True}


def test_what_keeps_ranks_from_the_group_of_a_case_is_not_told_as_the_answers():
    refused, victim = joins("No space left on device"), joins("Connection reset by peer")
    cut_off = {"raised": {"type": "RuntimeError", "message": "Connection closed by peer"}}
    for replies in ([refused, refused], [refused, {"value": 1}], [victim, refused], [cut_off, refused]):
        with pytest.raises(ranks_start.NotMade, match="could not join a group"):
            ranks._observation({"ranks": replies, "over": None}, {})
    own = {"raised": {"type": "ValueError", "message": "no"}}
    assert ranks._observation({"ranks": [refused, own], "over": None}, {}).raised.message == "rank 1: no"


def test_ranks_that_the_system_refuses_are_not_told_as_the_answers(monkeypatch, tmp_path):
    def refuses(*of):
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(ranks_host, "Crew", refuses)
    with pytest.raises(ranks_start.NotMade, match="temporarily unavailable"):
        ranks_host.Host(tmp_path).observe({"program": {}, "args": [()], "options": {}})


# -- looks ------------------------------------------------------------------------------------------------------------


WAITS = (Call(number=1, op="barrier", done=False, waiting=True, timeout_ms=1_800_000, at=1),)
NONE = ()


class Ranks:
    """Two ranks that say where they stand when a test has them do so."""

    def __init__(self):
        pairs = [socket.socketpair() for _ in range(2)]
        self.looks = ranks_looks.Looks([here for here, _ in pairs])
        self._there, self._pairs = [there for _, there in pairs], pairs
        self.machine = Machine(2)
        self.clock = self.machine.clock()
        self.replies = [None, None]

    def begin(self):
        self.looks.begin()
        self.clock = self.machine.clock()

    def asked(self):
        """Let time pass until the ranks are asked; return what each was asked."""
        self.machine.passes(0.6)
        found = self.looks.stuck(self.replies, self.clock)
        return found or [self._heard(there) for there in self._there]

    @staticmethod
    def _heard(there):
        there.setblocking(False)
        try:
            return there.recv(100)
        except BlockingIOError:
            return b""

    def say(self, rank, number, calls):
        said = {"look": number, "line": "", "lineno": 0, "calls": json.dumps(calls_of_a_rank.to_dicts(calls))}
        self.send(rank, json.dumps(said).encode())

    def send(self, rank, raw):
        self._there[rank].sendall(len(raw).to_bytes(4, "little") + raw)
        self.looks.hear(self._pairs[rank][0])

    def close(self):
        for pair in self._pairs:
            for end in pair:
                end.close()


@pytest.fixture
def two():
    two = Ranks()
    yield two
    two.close()


def test_what_was_said_about_an_earlier_look_is_not_what_is_so_now(two):
    (number,), _ = two.asked()
    two.say(0, number, WAITS)  # rank 1 gets no processor, and the case ends
    two.begin()
    (again,), _ = two.asked()
    two.say(1, number, WAITS)
    assert two.looks.open() == two.looks._watches  # both are still waited for
    two.say(0, again, NONE)
    two.say(1, again, NONE)
    assert not two.looks.open()
    assert two.looks._where[1]["look"] == again


def test_a_part_of_a_message_is_kept_for_the_next_case(two):
    two.asked()
    two._there[0].sendall(b"\x06\x00")
    two.looks.hear(two._pairs[0][0])
    two.begin()
    (again,), _ = two.asked()
    two._there[0].sendall(b"\x00\x00{}    ")
    two.looks.hear(two._pairs[0][0])
    two.say(0, again, NONE)
    two.say(1, again, NONE)
    assert not two.looks.open() and two.looks._where.keys() == {0, 1}


def test_nothing_is_believed_of_a_rank_that_sends_what_is_no_message(two):
    two.asked()
    two.send(0, b"no JSON")
    two.send(1, b"[1]")
    assert two.looks._mute == {0, 1} and not two.looks.open()
    assert two.asked() == [b"", b""]


def test_a_stall_on_a_busy_machine_does_not_hold(two):
    waits = (Call(number=1, op="barrier", done=False, waiting=True, timeout_ms=1_800_000, at=1, threads=1),)
    for _ in range(4):  # `threads`: another thread may come, so it is never certain
        (number,), _ = two.asked()
        two.say(0, number, waits)
        two.say(1, number, NONE)
    two.looks.stuck(two.replies, two.clock)
    assert two.looks.held(0.5, two.clock).kind == "straggler: barrier"
    two.machine.passes(2.0)
    assert two.looks.held(0.5, two.clock) is None  # a rank has not come to say where it stands since
    two.begin()
    for _ in range(4):
        (number,), _ = two.asked()
        two.say(0, number, waits)
        two.say(1, number, NONE)
        two.machine.passes(0.6, 0.0, 0.6)
        two.clock.starved_s()
    two.looks.stuck(two.replies, two.clock)
    assert two.looks.held(3.0, two.clock) is None


# -- joining and leaving ----------------------------------------------------------------------------------------------


def test_a_rank_tells_nothing_while_the_group_of_its_case_is_made(monkeypatch):
    """One has left the call that makes the group and waits in its own first call, the other is on its way out of it."""
    joining = Call(number=1, op="init_process_group", group="", done=False, waiting=True)
    late = {0: waiting.Standing("running", (joining,)), 1: waiting.Standing("running", WAITS)}
    assert waiting.explain(late, late).certain  # which is why
    import torch.distributed as dist

    told = []
    rank = ranks_rank._Rank(0, 2)
    monkeypatch.setattr(dist, "FileStore", lambda *of: None)
    monkeypatch.setattr(dist, "init_process_group", lambda *args, **more: told.append(rank.since_ns))
    rank.since_ns = 7  # that of the last case
    rank._join("store")
    assert told == [ranks_rank._NEVER] and 7 < rank.since_ns <= time.time_ns()
    monkeypatch.setattr(ranks_rank.os, "chdir", lambda folder: None)
    rank._end({})
    assert rank.since_ns == ranks_rank._NEVER > time.time_ns()
    nothing = {0: waiting.Standing("running", ()), 1: waiting.Standing("running", WAITS)}
    assert not waiting.explain(nothing, nothing).certain


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="room cannot be asked for there")
def test_a_full_disk_is_told_before_an_answer_begins(monkeypatch, tmp_path):
    """A page of a mapped file that cannot be had would end the rank by a signal, as if its answer had crashed."""

    def full(*of):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    monkeypatch.setattr(ranks_rank.os, "chdir", lambda folder: None)
    monkeypatch.setattr(ranks_rank.os, "environ", {})
    monkeypatch.setattr(ranks_rank.tempfile, "tempdir", None)
    question = {"attempt": 0, "tmp": str(tmp_path), "work": "", "notes": str(tmp_path), "store": ""}
    reply = ranks_rank._Rank(0, 2)._case(question)
    assert reply["joins"] and "No space left" in reply["raised"]["message"]


def test_ranks_with_open_receives_are_not_asked_to_leave(monkeypatch, tmp_path):
    class Crew:
        forks, program, cases, pids, ended = True, None, 0, (), 0

        def __init__(self, *of):
            self.replies = [{"value": 1, "receives": True}, {"value": 1, "receives": False}]

        def load(self, program):
            return True

        def run(self, *of):
            return None

        def was_killed(self, rank):
            return False

        def leave(self):
            raise AssertionError("it takes seconds, in vain")

        def end(self, keep=()):
            Crew.ended += 1

    monkeypatch.setattr(ranks_host, "Crew", Crew)
    question = {"program": {}, "args": [(), ()], "options": {}, "call_s": 1.0, "counts": False}
    seen = ranks_host.Host(tmp_path).observe(question)
    assert seen["over"] is None and [reply["value"] for reply in seen["ranks"]] == [1, 1] and Crew.ended == 1


def test_an_open_receive_is_one_that_nobody_has_waited_for(tmp_path):
    from labsupport.ranks.ledger import RETURNED, Ledger

    told = noting._Noting(Ledger(tmp_path / "calls"))
    assert not told.has_open_receives()
    for way in ("dst", "src"):
        told.peers["0", way, 1, 0] = 1
        index = told.begin("irecv", group="0", way=way, **{"async": True})
        told.end(index, RETURNED)
        assert told.has_open_receives() is (way == "src")
    told.ledger.work(index, 2)
    assert not told.has_open_receives()


# -- calls that are not known any more --------------------------------------------------------------------------------


def barrier(place, **more):
    return Call(number=place, op="barrier", at=place, timeout_ms=1_800_000, **more)


def sent(nth, **more):
    return Call(number=nth, op="send", way="dst", peer=0, nth=nth, **more)


RECEIVES = Call(number=1, op="recv", way="src", peer=1, nth=1, done=False, waiting=True, timeout_ms=1_800_000)
STANDS = {"done": False, "waiting": True}


@pytest.mark.parametrize(
    ("here", "there"),
    [
        ((RECEIVES,), (barrier(700, lost=True), barrier(701, **STANDS))),  # it may have been sent before
        ((barrier(3, group="pair", members=(0, 1), **STANDS),), (barrier(9, lost=True), barrier(10, **STANDS))),
        ((sent(1, done=False, waiting=True, timeout_ms=1_800_000),), (barrier(9, lost=True), barrier(10, **STANDS))),
        ((Call(number=1, op="init_process_group", group="", **STANDS),), (barrier(1, lost=True), barrier(2, **STANDS))),
    ],
)
def test_what_may_have_been_called_before_is_not_missing(here, there):
    if here[0].way == "dst":
        here = (Call(**{**vars(here[0]), "peer": 1}),)
    now = {0: waiting.Standing("running", here), 1: waiting.Standing("running", there)}
    assert not (found := waiting.explain(now, now)) or not found.certain
    known = {
        rank: [Call(**{**vars(call), "lost": False}) for call in calls] for rank, calls in enumerate((here, there))
    }
    now = {rank: waiting.Standing("running", tuple(calls)) for rank, calls in known.items()}
    assert waiting.explain(now, now).certain


def test_who_is_in_a_group_is_not_guessed_from_what_is_left():
    stands = (barrier(8, group="pair", lost=True), barrier(9, group="pair", **STANDS))
    now = {rank: waiting.Standing("running", stands) for rank in (0, 1)} | {2: waiting.Standing("done", ())}
    assert waiting.explain(now, now) is None  # the two of the group have all called, and are about to come back


def test_the_first_call_of_a_ring_that_began_anew_is_marked(tmp_path):
    from labsupport.ranks.ledger import RETURNED, Ledger

    ledger = Ledger(tmp_path / "calls", slots=4)
    for i in range(6):
        ledger.end(ledger.begin({"op": "barrier", "group": "0", "at": i + 1}, 10 * i, 1), RETURNED, 10 * i + 1)
        assert [call.lost for call in recorder.join((), ledger.notes())][:1] == [i > 3]
    assert not any(call.lost for call in recorder.join((), ledger.notes(), since_ns=35))


def test_of_many_calls_those_are_told_that_say_who_waits():
    calls = [sent(n) for n in range(1, 4)] + [barrier(1, done=False)] + [barrier(n) for n in range(2, 900)]
    kept = calls_of_a_rank.latest(calls, 10)
    assert [call.nth for call in kept if call.pair] == [3] and kept[-10:] == calls[-10:] and len(kept) == 13
    assert calls_of_a_rank.latest(calls[:5], 10) == calls[:5]
