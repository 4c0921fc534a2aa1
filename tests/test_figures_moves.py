"""An all-reduce by hand: what is refused, why, what is reached, and that a chunk can be lost for good."""

import subprocess
import sys

import numpy as np
import pytest

from labsupport.errors import LabError
from labsupport.figures import collective
from labsupport.figures.moves import Moves


def ring(ranks, **more):
    """Return moves that play the ring."""
    moves = Moves(ranks=ranks, **more)
    for step in moves.plan.steps:
        for m in step.messages:
            moves.send(m.src, m.dst, m.slots[0])
        moves.step()
    return moves


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_the_ring_played_by_hand_is_as_good_as_the_ring(ranks):
    values = [np.arange(2 * ranks) * (r + 1) for r in range(ranks)]
    moves = ring(ranks, values=values)
    assert moves.done and moves.score().as_good and not moves.stuck
    assert len(moves.steps) == 2 * (ranks - 1)
    assert moves.sent == [2 * (ranks - 1) * values[0].nbytes // ranks] * ranks
    for lane in moves.held:
        assert np.array_equal(np.concatenate([p.values for p in lane]), sum(values))


REFUSED = {
    "to itself": (lambda m: m.send(1, 1, 0), "A rank does not send to itself."),
    "no rank": (lambda m: m.send(0, 4, 0), "There is no rank 4."),
    "no chunk": (lambda m: m.send(0, 1, -1), "There is no chunk -1."),
    "sends twice": (lambda m: m.send(0, 1, 0).send(0, 2, 1), "Rank 0 already sends in this step."),
    "receives twice": (lambda m: m.send(0, 1, 0).send(2, 1, 1), "Rank 1 already receives in this step."),
    "counts twice": (lambda m: m.send(0, 1, 0).step().send(0, 1, 0), "Rank 0 does not hold chunk 0 complete yet"),
    "comes back": (lambda m: m.send(0, 1, 0).step().send(1, 0, 0), "contains rank 0 already"),
    "complete there": (lambda m: ring(4).send(0, 1, 0), "Rank 1 holds chunk 0 complete already."),
    "an empty step": (lambda m: m.step(), "nothing is sent"),
    "a fraction": (lambda m: m.send(0.5, 1, 0), "whole number"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_allowed_is_refused_with_the_reason(case):
    act, why = REFUSED[case]
    with pytest.raises(LabError) as told:
        act(Moves(ranks=4))
    assert why in str(told.value)


def test_a_refused_move_changes_nothing():
    moves = Moves(ranks=3).send(0, 1, 0)
    before = repr(moves)
    with pytest.raises(LabError):
        moves.send(0, 2, 1)
    assert repr(moves) == before


def test_messages_of_a_step_leave_with_the_values_from_before_it():
    moves = Moves(ranks=3, values=[np.array([1, 1, 1]) * 10**r for r in range(3)]).send(0, 1, 0).send(1, 2, 0).step()
    assert [lane[0].values[0] for lane in moves.held] == [1, 11, 110]


def test_a_complete_chunk_replaces_and_a_partial_one_is_added():
    moves = Moves(ranks=2, values=[np.array([1, 2]), np.array([10, 20])]).send(0, 1, 0).step()
    assert moves.held[1][0].values.tolist() == [11]
    moves.send(1, 0, 0).step()
    assert moves.held[0][0].values.tolist() == [11]


def test_a_chunk_can_be_lost_and_undo_brings_it_back():
    moves = Moves(ranks=3).send(0, 1, 0).send(1, 2, 0).send(2, 0, 0)  # each pair shares a rank now
    assert moves.stuck == [0] and "cannot be completed any more" in moves.hint()
    moves.undo()
    assert moves.stuck == []
    moves.step().undo()
    assert moves.steps == [] and "0: 0 → 1, 0: 1 → 2" in repr(moves)


def test_hints_grow_and_lead_to_the_end():
    moves = Moves(ranks=4)
    first, second = moves.hint(), moves.hint()
    assert "every step" in first and "next one" in second
    for _ in range(100):
        if moves.done:
            break
        hint = moves.hint()
        getattr(moves, hint.partition("(")[0])(
            *(int(n) for n in hint.partition("(")[2].partition(")")[0].split(", ") if n)
        )
    assert moves.score().as_good and moves.hint() == "It is complete."


def test_hints_lead_to_the_end_from_anywhere():
    for seed in range(12):
        rng, moves = np.random.default_rng(seed), Moves(ranks=4)
        for _ in range(12):
            move = rng.integers(0, 4, 3).tolist()
            try:
                moves.send(*move)
            except LabError:
                moves.step() if moves._open else None
            if moves.stuck:
                moves.undo()
        for _ in range(3):
            moves.hint()
        for _ in range(200):
            if moves.done:
                break
            hint = moves.hint()
            assert "any more" not in hint
            moves.step() if hint.startswith("step") else eval(f"moves.{hint}")
        assert moves.done, seed


def test_what_was_played_is_drawn():
    moves = Moves(ranks=4).send(0, 1, 0).send(1, 2, 1).step().send(1, 3, 0)
    figure = collective.draw(moves)
    assert figure.film["note"].startswith("your own moves") and figure.steps == 3
    assert figure.set(step=2).words()["walk"].startswith("Step 2: your step 2 of 2. Chunk 0 goes from rank 1 to 3.")
    assert "Not complete yet: rank 0 chunks 0, 1, 2 and 3" in figure.set(step=3).words()["walk"]
    assert "In a ring: 6 steps" in figure.alt
    assert "Every rank holds the sum" in (done := collective.draw(ring(3))).set(step=done.steps).alt
    assert collective.draw(Moves(ranks=2)).steps == 1


def test_the_game_runs_in_a_terminal():
    words = "0 1 0\n0 1 1\nstep\n1 0 0\nstep\nsomething\n1 0 1\nstep\n0 1 1\nstep\n"
    done = subprocess.run([sys.executable, "-m", "labsupport.figures.moves", "--ranks", "2"], input=words, text=True,
                          capture_output=True, encoding="utf-8", timeout=120)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Rank 0 already sends in this step." in done.stdout and "Three numbers send a chunk" in done.stdout
    assert "Complete: 4 steps, at most 8 bytes sent by one rank; the ring takes 2 steps and 8 bytes." in done.stdout
