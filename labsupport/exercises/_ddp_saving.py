"""Lesson 16: one checkpoint for all ranks.

The functions below are shown and run as text, on ranks, with the exercise's setup before them; nothing calls them here.
"""

from typing import TYPE_CHECKING

from labsupport.course import Case, Exercise, Limits, Misconception, Probe
from labsupport.exercises._ddp_training import SETUP

if TYPE_CHECKING:  # torch takes a second to load, and only the ranks need it
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as DDP

    def linear(weight): ...
    def write(state, path): ...


__all__ = ["SAVE_LOAD"]

_SAVING = "https://docs.pytorch.org/tutorials/intermediate/ddp_tutorial.html, section on checkpoints, read 2026-11"


# -- save-load

_SLOW_DISK = (
    SETUP.replace("import torch\n", "import time\n\nimport torch\n", 1)
    + '''


def write(state, path):
    """Save `state` as torch.save does, on a disk that takes its time."""
    time.sleep(0.4)
    torch.save(state, path)'''
)


def save_and_load(weight):
    """Save the model of a DDP training once, as "model.pt", and return what every rank reads back from it.

    Args:
        weight: (features,), different on every rank; rank 0's is trained with, as always under DDP.
    """
    model = DDP(linear(weight))
    if dist.get_rank() == 0:
        write(model.module.state_dict(), "model.pt")
    dist.barrier()
    return torch.load("model.pt", weights_only=True)


def _with_the_prefix(weight):
    model = DDP(linear(weight))
    if dist.get_rank() == 0:
        write(model.state_dict(), "model.pt")
    dist.barrier()
    return torch.load("model.pt", weights_only=True)


def _everybody_writes(weight):
    model = DDP(linear(weight))
    write(model.module.state_dict(), "model.pt")
    dist.barrier()
    return torch.load("model.pt", weights_only=True)


def _nobody_waits(weight):
    model = DDP(linear(weight))
    if dist.get_rank() == 0:
        write(model.module.state_dict(), "model.pt")
    return torch.load("model.pt", weights_only=True)


def _a_file_each(weight):
    model = DDP(linear(weight))
    name = f"model-{dist.get_rank()}.pt"
    write(model.module.state_dict(), name)
    dist.barrier()
    return torch.load(name, weights_only=True)


def _the_unwrapped_start(weight):
    model = linear(weight)
    DDP(linear(weight))
    if dist.get_rank() == 1:
        write(model.state_dict(), "model.pt")
    dist.barrier()
    return torch.load("model.pt", weights_only=True)


def _weights_case(label, world, features):
    def make(rng):
        return ([(rng.normal(size=features),) for _ in range(world)],)

    return Case(label, make)


SAVE_LOAD = Exercise(
    id="ddp/save-load",
    kind="ranks",
    task="Wrap a model, have rank 0 save it, once, as `model.pt`, under the names a single process uses, and return on "
    "every rank what `torch.load` reads back. `linear(weight)` is given, and `write(state, path)`, which saves like "
    "`torch.save` on a slow disk.",
    names=("save_and_load",),
    setup=_SLOW_DISK,
    probe=Probe("ranks", {"files": True, "read_back": ["model.pt"]}),
    reference=save_and_load,
    cases=(_weights_case("two ranks", 2, 3),),
    misconceptions=(
        Misconception(
            id="with-the-prefix",
            specimen=_with_the_prefix,
            says="The names in your file begin with `module.`: it is the wrapper's state, and a plain model will not "
            "find its weights in it.",
            next="Save the state of the module inside the wrapper.",
        ),
        Misconception(
            id="everybody-writes",
            specimen=_everybody_writes,
            says="Every rank writes the same file, at the same time: whoever comes last wins, or the file is torn.",
            next="One rank is enough; all ranks hold the same weights.",
        ),
        Misconception(
            id="nobody-waits",
            specimen=_nobody_waits,
            says="Rank 1 opens the file before rank 0 has written it: nothing makes it wait. A barrier before the "
            "writing, or inside the branch that only rank 0 enters, does not.",
            next="All ranks must call the barrier, after the writing.",
        ),
        Misconception(
            id="a-file-each",
            specimen=_a_file_each,
            says="Every rank writes a file of its own. All hold the same weights, so that is the same file many times, "
            "and none is called `model.pt`.",
            next="One rank writes, the others wait and read.",
        ),
        Misconception(
            id="not-what-was-wrapped",
            specimen=_the_unwrapped_start,
            says="You saved weights that rank 0 does not train with. DDP sends rank 0's weights to the model it "
            "wraps; another copy keeps its own.",
            next="Save the model inside the wrapper, on rank 0.",
        ),
    ),
    hints=(
        "`if dist.get_rank() == 0:` around the writing; a barrier after it, for all ranks.",
        "The wrapper keeps the model in `.module`, and puts that word in front of every name in its state.",
    ),
    core=True,
    level=2,
    minutes=6,
    points=2,
    limits=Limits(call_s=20.0),
    source=_SAVING,
)
