"""Probes: each drives an answer in one way and returns what was observed.

They run beside the answer and therefore never import `labsupport.exercises`.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass

from labsupport.course import Limits, Observation, Probe

__all__ = ["PROBES", "Subject", "observe"]

# Name -> module that has `run(subject, inputs, options, limits) -> Observation`.
PROBES = {
    "artifact": "labsupport.probing.artifact",
    "call": "labsupport.probing.call",
    "drive": "labsupport.probing.drive",
    "files": "labsupport.probing.files",
    "literal": "labsupport.probing.literal",
    "ranks": "labsupport.probing.ranks",
    "through": "labsupport.probing.through",
}


@dataclass(frozen=True)
class Subject:
    """An answer ready to be driven.

    Args:
        names: the names the exercise declares; the first is the one that is called.
        namespace: where they are looked up.
        source: the answer's source text, or None when it cannot be had.
        setup: the lines the exercise lets it rely on; a probe that starts a process of its own runs setup + source.
        own: it is one of the course's own programs, which leave nothing behind: such may share a process.
    """

    names: tuple[str, ...]
    namespace: Mapping
    source: str | None = None
    setup: str = ""
    own: bool = False


def observe(probe: Probe, subject: Subject, inputs: tuple, limits: Limits) -> Observation:
    """Drive `subject` on one case's inputs and return the observation; exceptions become part of it."""
    run = importlib.import_module(PROBES[probe.name]).run
    return run(subject, inputs, probe.options, limits)
