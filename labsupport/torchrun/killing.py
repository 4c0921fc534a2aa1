"""`--kill rank=2@step=12`, `--kill node=1`: a failure on purpose, to see what the others do and what a restart does.

    rank=2@step=12     rank 2 ends by SIGKILL once one of its optimizers has made its 12th step
    rank=2@seconds=1.5 rank 2 ends 1.5 seconds after its script began
    node=1             the agent of node 1 ends by SIGKILL, and its ranks with it; as if the machine were gone
    rank=2             without "@": at step 10

Steps are those of `torch.optim` optimizers, counted in each rank from 1, in the first attempt only: a restart is what
one wants to see survive.
"""

import os
import re
import signal
import threading
from dataclasses import dataclass

from labsupport.errors import UsageError

__all__ = ["Kill", "arm", "missed", "parse"]

_FORM = re.compile(r"(rank|node)=(\d+)(?:@(step|seconds)=(\d+(?:\.\d+)?))?")
_STEP = 10


@dataclass(frozen=True)
class Kill:
    """Who is to end (`kind` "rank" or "node", `number`) and when (`when` "step" or "seconds", `at`)."""

    kind: str
    number: int
    when: str
    at: float

    def __str__(self):
        return f"{self.kind}={self.number}@{self.when}={self.at:g}"


def parse(text):
    """Return the `Kill` that a text such as "rank=2@step=12" asks for.

    Raises:
        UsageError: it asks for nothing that can be done.
    """
    match = _FORM.fullmatch(text.replace(" ", ""))
    if match is None or (match[3] == "step" and ("." in match[4] or int(match[4]) < 1)):
        raise UsageError(
            f"--kill cannot be read: {text!r}",
            why="it names a rank or a node, and a step (from 1) or a number of seconds",
            next_step="write for example --kill rank=2@step=12, --kill node=1 or --kill rank=0@seconds=1.5",
        )
    return Kill(match[1], int(match[2]), match[3] or "step", float(match[4] or _STEP))


def arm(place):
    """On a rank, in its first attempt: wait for the moment at which it, or its node, is to end."""
    if place.attempt:
        return
    for kill in map(parse, place.options.get("kills", ())):
        if kill.number == (place.rank if kill.kind == "rank" else place.node):
            _arm(kill, place)


def _arm(kill, place):
    if kill.when == "seconds":
        timer = threading.Timer(kill.at, _end, (kill, place))
        timer.daemon = True
        timer.start()
        return
    from torch.optim.optimizer import register_optimizer_step_post_hook

    made = {}

    def count(optimizer, *_):
        made[id(optimizer)] = made.get(id(optimizer), 0) + 1
        if made[id(optimizer)] >= kill.at:
            _end(kill, place)

    register_optimizer_step_post_hook(count)


def _end(kill, place):
    from labsupport.torchrun.events import Events

    Events(place.job, place.begun).write("kill", what=str(kill), rank=place.rank, node=place.node)
    at_once = getattr(signal, "SIGKILL", signal.SIGTERM)  # on Windows the second is as hard
    if kill.kind == "node":
        os.kill(place.agent or os.getppid(), at_once)  # the ranks of its node follow it, this one too
    os.kill(os.getpid(), at_once)


def missed(kills, events):
    """Return sentences about those kills that did not come to pass, given the job's events."""
    happened = {event["what"] for event in events if event["event"] == "kill"}
    return [
        f"--kill {kill} did not happen: "
        + ("the script ended before" if kill.when == "seconds" else "no optimizer made that many steps there")
        for kill in map(parse, kills)
        if str(kill) not in happened
    ]
