"""Notebooks that attack the grader, and honest ones that had an accident: data, run by `test_attacks.py`."""

from . import (
    accidents,
    escaping,
    escaping_files,
    exhausting,
    exhausting_answers,
    files_and_drivers,
    forging,
    forging_facts,
    forging_types,
    handing_over,
    known,
    stealing,
)
from .attack import Attack

__all__ = ["ATTACKS", "KNOWN", "Attack"]

_FORGING = (forging, forging_types, forging_facts, files_and_drivers, handing_over)
_EXHAUSTING = (exhausting, exhausting_answers)
_ESCAPING = (escaping, escaping_files)
_MODULES = (*_FORGING, stealing, *_EXHAUSTING, *_ESCAPING, accidents)
ATTACKS = tuple(attack for module in _MODULES for attack in module.ATTACKS)
KNOWN = known.ATTACKS
