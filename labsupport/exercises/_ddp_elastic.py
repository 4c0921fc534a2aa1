"""Lesson 16: a training that goes on after a rank was killed.

The functions below are shown and run as text, on ranks, with the exercise's setup before them; nothing calls them here.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from labsupport.course import Case, Exercise, Limits, Misconception, Probe
from labsupport.exercises._ddp_training import SETUP

if TYPE_CHECKING:  # torch takes a second to load, and only the ranks need it
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as DDP

    def linear(weight): ...


__all__ = ["ELASTIC_RESUME"]

_ELASTIC = "https://docs.pytorch.org/docs/2.13/elastic/train_script.html, read 2026-11"


# -- elastic-resume

_RESUMING = SETUP.replace("import torch\n", "from pathlib import Path\n\nimport torch\n", 1)


def train_and_resume(batches, weight):
    """Train over the batches, saving as you go, and return (final weight, batches trained on since the last start).

    When a rank dies, all ranks are started again, from the first line, in the same folder.

    Args:
        batches: this rank's list of (x, y); one step each, SGD with rate 0.05 and momentum 0.9.
        weight: (features,), the same on every rank.
    """
    model = DDP(linear(weight))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    first = 0
    if Path("last.pt").exists():
        saved = torch.load("last.pt", weights_only=True)
        model.module.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["step"]
    for step in range(first, len(batches)):
        x, y = batches[step]
        optimizer.zero_grad()
        (model(x) - y).square().mean().backward()
        optimizer.step()
        if dist.get_rank() == 0:
            state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "step": step + 1}
            torch.save(state, "new.pt")
            Path("new.pt").replace("last.pt")
        dist.barrier()
    return next(model.parameters()).detach()[0], len(batches) - first


def _starts_over(batches, weight):
    model = DDP(linear(weight))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for x, y in batches:
        optimizer.zero_grad()
        (model(x) - y).square().mean().backward()
        optimizer.step()
    return next(model.parameters()).detach()[0], len(batches)


def _without_the_momentum(batches, weight):
    model = DDP(linear(weight))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    first = 0
    if Path("last.pt").exists():
        saved = torch.load("last.pt", weights_only=True)
        model.module.load_state_dict(saved["model"])
        first = saved["step"]
    for step in range(first, len(batches)):
        x, y = batches[step]
        optimizer.zero_grad()
        (model(x) - y).square().mean().backward()
        optimizer.step()
        if dist.get_rank() == 0:
            torch.save({"model": model.module.state_dict(), "step": step + 1}, "new.pt")
            Path("new.pt").replace("last.pt")
        dist.barrier()
    return next(model.parameters()).detach()[0], len(batches) - first


def _repeats_a_step(batches, weight):
    model = DDP(linear(weight))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    first = 0
    if Path("last.pt").exists():
        saved = torch.load("last.pt", weights_only=True)
        model.module.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["step"]
    for step in range(first, len(batches)):
        x, y = batches[step]
        optimizer.zero_grad()
        (model(x) - y).square().mean().backward()
        optimizer.step()
        if dist.get_rank() == 0:
            state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            torch.save(state, "new.pt")
            Path("new.pt").replace("last.pt")
        dist.barrier()
    return next(model.parameters()).detach()[0], len(batches) - first


def _from_the_first_batch(batches, weight):
    model = DDP(linear(weight))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    if Path("last.pt").exists():
        saved = torch.load("last.pt", weights_only=True)
        model.module.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
    for x, y in batches:
        optimizer.zero_grad()
        (model(x) - y).square().mean().backward()
        optimizer.step()
        if dist.get_rank() == 0:
            torch.save({"model": model.module.state_dict(), "optimizer": optimizer.state_dict()}, "new.pt")
            Path("new.pt").replace("last.pt")
        dist.barrier()
    return next(model.parameters()).detach()[0], len(batches)


def _skips_a_step(batches, weight):
    model = DDP(linear(weight))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    first = 0
    if Path("last.pt").exists():
        saved = torch.load("last.pt", weights_only=True)
        model.module.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["step"] + 1
    for step in range(first, len(batches)):
        x, y = batches[step]
        optimizer.zero_grad()
        (model(x) - y).square().mean().backward()
        optimizer.step()
        if dist.get_rank() == 0:
            state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "step": step + 1}
            torch.save(state, "new.pt")
            Path("new.pt").replace("last.pt")
        dist.barrier()
    return next(model.parameters()).detach()[0], len(batches) - first


def _resumed_case(label, world, steps):
    def make(rng):
        weight = rng.normal(size=2)
        lists = [[(rng.normal(size=(2, 2)), rng.normal(size=2)) for _ in range(steps)] for _ in range(world)]
        return ([(batches, weight) for batches in lists],)

    return Case(label, make)


ELASTIC_RESUME = Exercise(
    id="ddp/elastic-resume",
    kind="ranks",
    task="Rank 1 is killed when it reads `batches[4]`, and all ranks are started again in the same folder, once. Train "
    "and save after every step, so that nothing is lost: SGD with rate 0.05 and momentum 0.9 on the mean squared "
    "error, one step per batch. Return the final weight, (features,), as if nothing had happened, and how many batches "
    "were trained on since the last start. After the restart, other batches stand in place of those before "
    "`batches[4]`. `linear(weight)` is given.",
    names=("train_and_resume",),
    setup=_RESUMING,
    probe=Probe("ranks", {"kill": {"rank": 1, "item": 4, "batches": 0}, "max_restarts": 1}),
    reference=train_and_resume,
    cases=(_resumed_case("two ranks, seven batches", 2, 7),),
    misconceptions=(
        Misconception(
            id="starts-over",
            specimen=_starts_over,
            says="After the restart all batches are trained on, with nothing brought back: the work before the failure "
            "was lost, and a run that fails daily would never end.",
            next="Save after each step and look for a checkpoint at the start; count from where you resumed.",
        ),
        Misconception(
            id="without-the-momentum",
            specimen=_without_the_momentum,
            says="You bring back the weights but not the optimizer's momentum, so the first steps after the restart "
            "are too short.",
            next="The optimizer has a state of its own to save and load.",
        ),
        Misconception(
            id="repeats-a-step",
            specimen=_repeats_a_step,
            says="Your checkpoint names the step it was made after as the one to start with, so that batch is trained "
            "on twice.",
            next="Save the number of the next batch.",
        ),
        Misconception(
            id="from-the-first-batch",
            specimen=_from_the_first_batch,
            says="You bring back weights and momentum, then train on all batches again: the first ones count twice.",
            next="Where in the data a run stands is part of its state.",
        ),
        Misconception(
            id="skips-a-step",
            specimen=_skips_a_step,
            says="A batch is never trained on: you resume one batch too far, or your checkpoint was made before the "
            "step that it claims to contain.",
            next="Save after the optimizer has moved; decide whether the number saved is the last batch done or the "
            "next one to do.",
        ),
    ),
    hints=(
        "A checkpoint holds three things here: the model's state, the optimizer's state, and the next batch's number.",
        "One rank writes, to another name first and then by `Path.replace`, so that no half-written file is ever read; "
        "a barrier keeps the others from running ahead.",
    ),
    core=False,
    level=4,
    minutes=10,
    points=3,
    limits=Limits(call_s=20.0),
    source=_ELASTIC,
)
