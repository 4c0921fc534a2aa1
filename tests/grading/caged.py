"""What the tests of cages share: runners per tier, and questions in one line."""

import contextlib
import os
import sys
from pathlib import Path

import pytest

from labsupport import places
from labsupport.grading.errors import GradingImpossible

__all__ = ["call", "load", "needs_linux", "opened", "run"]

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="cages need Linux; other systems have tier C only")


@contextlib.contextmanager
def opened(tier, **options):
    """Give an open runner of a tier; a machine that cannot have it skips the test, a CI that should have it fails."""
    from labsupport.grading.runner import Runner

    try:
        runner = Runner(tier, **options).__enter__()
    except GradingImpossible as error:
        if os.environ.get("CI") and tier != "A":
            raise
        pytest.skip(f"tier {tier} cannot be had here: {error.why}")
    try:
        yield runner
    finally:
        runner.close()


def load(child, source, *names, **question):
    """Return the reply to loading an answer that defines `names`."""
    asked = {"op": "load", "setup": "import numpy as np", "helpers": [], "source": source, "names": list(names or "f")}
    return child.ask(asked | question)


def call(child, *inputs, name="f", call_s=5.0, options=None):
    """Return the reply to calling an answer once."""
    probe = {"name": "call", "options": options or {}}
    return child.ask({"op": "observe", "probe": probe, "names": [name], "inputs": inputs, "limits": {"call_s": call_s}})


def run(runner, source, *inputs, limits=None, call_s=5.0):
    """Return what `f(*inputs)` of an answer gave in a child of its own: its value, or a dict of what it raised."""
    with runner.child(limits) as child:
        load(child, source)
        reply = call(child, *inputs, call_s=call_s)
        return reply["raised"] or reply["value"]


def own_files(names):
    """Return the names an answer can have made: a course that lies below /tmp shows its first folder there."""
    places_of_the_course = [Path(place).parts for place in (places.ROOT, sys.prefix)]
    shown = {parts[2] for parts in places_of_the_course if parts[1:2] == ("tmp",)}
    return [name for name in names if name not in shown]
