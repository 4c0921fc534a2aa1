"""What course code that runs beside an answer hands back, and finding that code by its name."""

import importlib

from labsupport.course import Observation, Raised

__all__ = ["UNUSABLE", "Driven", "Unusable", "find", "unusable"]

UNUSABLE = "Unusable"  # in place of an exception's name: its message is a sentence about the result


class Driven:
    """What was observed of an answer.

    Args:
        value: plain data, compared with what the reference gives; keys that are phrases ("gradient of x") read best.
        facts: {noun phrase: small value}, compared too: "Right values, but NOUN PHRASE: VALUE, expected VALUE."
        notes: {noun phrase: number}, shown and never compared.
    """

    # No dataclass: the lines of its generated `__init__` lie in no file, and would count as lines of the answer.
    def __init__(self, *, value=None, facts=None, notes=None):
        self.value, self.facts, self.notes = value, dict(facts or {}), dict(notes or {})


class Unusable(Exception):
    """A result that cannot be looked at any further; the message is a whole sentence for whoever wrote the answer.

    Of a file or a store it goes on after "The file `name`": "is not an HDF5 file".
    """


def unusable(error, notes=None):
    """Return the observation that stands for a result nobody can look at any further."""
    return Observation(raised=Raised(type=UNUSABLE, message=str(error)), notes=notes or {})


def find(folder, text):
    """Return the function that "module:function" names in `labsupport.probing.<folder>`.

    Raises:
        ValueError: there is none (an author's mistake).
    """
    module, colon, function = text.partition(":")
    if not colon:
        raise ValueError(f"{text!r} is not 'module:function'")
    try:
        return getattr(importlib.import_module(f"labsupport.probing.{folder}.{module}"), function)
    except (ModuleNotFoundError, AttributeError) as error:
        raise ValueError(f"labsupport.probing.{folder} has no {text!r} ({error})") from error
