"""The probe of classes: builds one object and drives it through a list of steps."""

import weakref

import numpy as np

from labsupport.course import Observation
from labsupport.probing.call import all_gone, measure, owner_of, second_call
from labsupport.probing.plain import fresh, plain
from labsupport.probing.running import SecondCall, attempt

__all__ = ["run"]


def run(subject, inputs, options, limits):
    """Drive the answer through `inputs[0]`, a list of steps; the value is {step: what it gave}.

    A step is (name, args): the first builds the object, a later one calls a method, and ".name" reads an
    attribute. Options: `max_allocated`, `max_kept` (bytes still held after the last step), `max_steps`,
    `forbid`, and `releases: True` (fact: every array passed in is freed once the caller lets go of it).
    """
    (steps,) = inputs
    built = subject.namespace[subject.names[0]]

    def drive(steps):
        # The object comes back too: what it holds must live until the measurements are read.
        return _drive(built, steps)

    result, raised, over, printed = attempt(drive, (fresh(steps),), limits.call_s)
    notes = {"printed": printed} if printed else {}
    if raised or over:
        return Observation(raised=raised, over=over, notes=notes)
    counted = {name: options[name] for name in options if name != "releases"}
    try:
        facts, more = measure(subject, lambda: (fresh(steps),), drive, counted, limits.call_s, plain(result))
    except SecondCall as again:
        return second_call(again, notes)
    if options.get("releases"):
        facts["released"] = _all_released(built, fresh(steps), limits)
    return Observation(value=result[1], facts=facts, notes=notes | more)


def _drive(built, steps):
    """Return (the object, {step: what it gave}); a step is gone once it is done, and what was passed in with it."""
    obj, given = built(*steps.pop(0)[1]), {}
    while steps:
        name, args = steps.pop(0)
        given[_label(len(given) + 1, name)] = plain(_step(obj, name, args))
        del args
    return obj, given


def _label(number, name):
    """Return a step as a learner would say it: `step 3: push()`."""
    return f"step {number}: {name}" + ("" if name.startswith(".") else "()")


def _step(obj, name, args):
    if name.startswith("."):
        return getattr(obj, name[1:])
    return getattr(obj, name)(*args)


def _all_released(built, steps, limits):
    arrays = [weakref.ref(owner_of(arg)) for _, args in steps for arg in args if isinstance(arg, np.ndarray)]

    held, *_ = attempt(_drive, (built, steps), limits.call_s)
    del steps
    freed = all_gone(arrays)
    del held
    return freed
