"""Notebooks that attack the grader, and honest ones that had an accident: data, run by `test_attacks.py`."""

from . import accidents, escaping, escaping_files, exhausting, forging, forging_facts, known, stealing
from .attack import Attack

__all__ = ["ATTACKS", "KNOWN", "Attack"]

ATTACKS = (
    *forging.ATTACKS,
    *forging_facts.ATTACKS,
    *stealing.ATTACKS,
    *exhausting.ATTACKS,
    *escaping.ATTACKS,
    *escaping_files.ATTACKS,
    *accidents.ATTACKS,
)
KNOWN = known.ATTACKS
