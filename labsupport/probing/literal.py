"""The probe of predictions: reads one literal, runs nothing."""

from labsupport.course import Observation, Raised
from labsupport.probing.plain import plain_literal

__all__ = ["run"]


def run(subject, inputs, options, limits):
    """Return the value bound to the subject's first name; `...` counts as not answered yet.

    Options: `one_of`, the words that are answers at all; the judge tells them to whoever wrote another one.
    """
    name = subject.names[0]
    value = subject.namespace.get(name, ...)
    if value is ...:
        return Observation(raised=Raised(type="NotImplementedError", message=f"`{name}` is still `...`"))
    return Observation(value=plain_literal(value))
