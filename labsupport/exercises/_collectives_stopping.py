"""Lesson 15, mending: a collective that a rank never calls, because it has left the loop."""

from typing import TYPE_CHECKING

from labsupport.course import Case, Exercise, Misconception, Probe

if TYPE_CHECKING:  # an answer imports them itself; reading the course's exercises must not cost a second
    import torch
    import torch.distributed as dist

__all__ = ["STOP_TOGETHER"]

_DOC = "https://docs.pytorch.org/docs/2.13/distributed.html, read 2026-11"
_SETUP = "import torch\nimport torch.distributed as dist"


def steps_taken(losses, target):
    """Return after how many steps all ranks stop: as soon as any rank's loss is below `target`."""
    steps = 0
    for loss in losses:
        done = (loss < target).to(torch.int64)
        dist.all_reduce(done, op=dist.ReduceOp.MAX)  # asked and answered on every rank
        if done:
            break
        dist.all_reduce(torch.ones(3))  # stands for the gradients of this step
        steps += 1
    return steps


def _decides_alone(losses, target):
    steps = 0
    for loss in losses:
        if loss < target:
            break
        dist.all_reduce(torch.ones(3))
        steps += 1
    return steps


def _waits_for_all(losses, target):
    steps = 0
    for loss in losses:
        done = (loss < target).to(torch.int64)
        dist.all_reduce(done, op=dist.ReduceOp.MIN)
        if done:
            break
        dist.all_reduce(torch.ones(3))
        steps += 1
    return steps


def _rank_0_decides(losses, target):
    steps = 0
    for loss in losses:
        done = (loss < target).to(torch.int64)
        dist.broadcast(done, src=0)
        if done:
            break
        dist.all_reduce(torch.ones(3))
        steps += 1
    return steps


def _the_mean_decides(losses, target):
    steps = 0
    for loss in losses:
        mean = loss.clone()
        dist.all_reduce(mean)
        if mean / dist.get_world_size() < target:
            break
        dist.all_reduce(torch.ones(3))
        steps += 1
    return steps


def _one_step_late(losses, target):
    steps = 0
    for loss in losses:
        dist.all_reduce(torch.ones(3))
        steps += 1
        done = (loss < target).to(torch.int64)
        dist.all_reduce(done, op=dist.ReduceOp.MAX)
        if done:
            break
    return steps


def _the_sum_decides(losses, target):
    steps = 0
    for loss in losses:
        total = loss.clone()
        dist.all_reduce(total)
        if total < target:
            break
        dist.all_reduce(torch.ones(3))
        steps += 1
    return steps


def _at_the_target_too(losses, target):
    steps = 0
    for loss in losses:
        done = (loss <= target).to(torch.int64)
        dist.all_reduce(done, op=dist.ReduceOp.MAX)
        if done:
            break
        dist.all_reduce(torch.ones(3))
        steps += 1
    return steps


def _never_stops(losses, target):
    steps = 0
    for _ in losses:
        dist.all_reduce(torch.ones(3))
        steps += 1
    return steps


_STEPS = 30


def _loss_curves(*below, before=8.0, after=0.1, at_target=None):
    """Return a maker: each rank's losses; that of rank r first falls below the target 1 at some step plus `below[r]`.

    Until then they lie just above `before`: by 8 the mean follows only when all have, by 1.1 one rank is enough.
    From then on they lie just above `after`: by 0.1 the sum of two is below the target, by 0.6 it never is.
    At step `at_target` they are the target itself.
    """

    def one(rng, first):
        losses = rng.uniform(before, before + 0.2, _STEPS)
        losses[first:] = rng.uniform(after, after + 0.3, _STEPS)[first:]
        if at_target is not None:
            losses[at_target] = 1.0
        return (losses, 1.0)

    def make(rng):
        start = int(rng.integers(1, _STEPS - 4))
        return ([one(rng, start + later) for later in below],)

    return make


STOP_TOGETHER = Exercise(
    id="collectives/stop-together",
    kind="debug",
    task="Repair steps_taken: all ranks are to stop before the first step at which any rank's loss is below `target`, "
    "and to return the number of steps taken. The all_reduce of ones stands for the gradients of a step: leave it in.",
    names=("steps_taken",),
    setup=_SETUP,
    reference=steps_taken,
    cases=(
        Case("2 ranks, rank 1 gets there first", _loss_curves(2, 0)),
        Case("2 ranks, nobody gets there, a loss equals the target", _loss_curves(_STEPS, _STEPS, at_target=3)),
        Case("2 ranks, rank 0 gets there first", _loss_curves(0, 2, after=0.6)),
        Case("2 ranks, rank 0 misses the target by a hair", _loss_curves(3, 0, before=1.1)),
    ),
    probe=Probe("ranks", {}),
    misconceptions=(
        Misconception(
            id="decides-alone",
            specimen=_decides_alone,
            says="One rank has returned, and the others wait in an all_reduce that it will never call: it left on what "
            "it alone knew.",
            next="Before anybody leaves, every rank has to know. What can carry one yes or no between ranks?",
        ),
        Misconception(
            id="waits-for-all",
            specimen=_waits_for_all,
            says="You stop only once the last rank is below the target. Any one is enough.",
            next="Look at what you combine, flags, losses or steps, and by which operation: which of MIN and MAX lets "
            "the first rank decide?",
        ),
        Misconception(
            id="rank-0-decides",
            specimen=_rank_0_decides,
            says="Everybody follows rank 0, so nothing hangs; but a loss below the target on another rank goes "
            "unheard.",
            next="All flags have to be combined, not one of them sent round.",
        ),
        Misconception(
            id="the-mean-decides",
            specimen=_the_mean_decides,
            says="You compare the mean loss with the target. One rank below it is enough, whatever the others have.",
            next="Compare first, on every rank; then combine the answers.",
        ),
        Misconception(
            id="the-sum-decides",
            specimen=_the_sum_decides,
            says="You compare the sum of the ranks' losses with the target. One loss below it is enough, whatever the "
            "sum is.",
            next="Compare first, on every rank, and let what travels be the answer: yes or no.",
        ),
        Misconception(
            id="at-the-target-too",
            specimen=_at_the_target_too,
            says="You stop at a loss that equals the target. Asked for is a loss below it.",
            next="Look at the comparison: `<` or `<=`?",
        ),
        Misconception(
            id="one-step-late",
            specimen=_one_step_late,
            says="One step too many is taken: you ask after the step, and it should be before.",
            next="Move the question to the top of the loop.",
        ),
        Misconception(
            id="never-stops",
            specimen=_never_stops,
            says="Nobody waits for anybody, because nobody stops: all steps are taken.",
            next="Keep the comparison with the target, but let all ranks decide together.",
        ),
    ),
    hints=(
        "Make the decision a tensor: 1 where this rank wants to stop, else 0.",
        "all_reduce the flag with `op=dist.ReduceOp.MAX` before the step; leave the loop where it is 1.",
    ),
    core=False,
    level=3,
    minutes=7,
    source=_DOC,
)
