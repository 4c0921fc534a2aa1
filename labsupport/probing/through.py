"""The probe for answers that course code drives: it builds what they work on, and says what was seen."""

from types import SimpleNamespace

from labsupport.course import Observation
from labsupport.probing.call import headers_of, inputs_changed, measure, second_call
from labsupport.probing.driven import Driven, Unusable, find, unusable
from labsupport.probing.plain import fresh, plain
from labsupport.probing.running import SecondCall, attempt

__all__ = ["COUNTED", "run"]

COUNTED = ("max_allocated", "max_kept", "max_steps", "forbid")  # options of the probe, not of the driver


def run(subject, inputs, options, limits):
    """Return what a driver sees of an answer.

    Options:
        driver: "module:function" in `labsupport.probing.drivers`; called as `function(answer, *inputs, **others)`,
            where `answer` has the exercise's names as attributes, in their order.
        weigh: "module:function" in `labsupport.probing.drivers`, for answers that choose something where many choices
            are right: the driver returns the choice, plain data, and `function(choice, *inputs)` says what it is
            worth. A grader calls it in a process that never ran the answer.
        max_allocated, max_steps, forbid: as of `call`; the driver's own allocations count, its lines do not.
        others: whatever else stands there goes to the driver.
    """
    chosen = _driven(subject, inputs, {name: value for name, value in options.items() if name != "weigh"}, limits)
    if "weigh" not in options or chosen.raised or chosen.over:
        return chosen
    from labsupport.probing import inspecting

    return inspecting.merged(chosen, inspecting.weigh(chosen.value, inputs, options, limits.call_s))


def _driven(subject, inputs, options, limits):
    drive = _driver(subject, options)
    args = fresh(inputs)
    before, headers = plain(args), headers_of(args)
    result, raised, over, printed = attempt(drive, args, limits.call_s)
    notes = {"printed": printed} if printed else {}
    if raised or over:
        return Observation(raised=raised, over=over, notes=notes)
    if isinstance(result, Unusable):
        return unusable(result, notes)
    value = plain(result.value)
    facts = {**result.facts, "inputs changed": inputs_changed(args, before, headers)}
    notes |= result.notes
    del result

    def value_of(*args):
        return drive(*args).value

    counted = {name: options[name] for name in COUNTED if name in options}
    try:
        more_facts, more_notes = measure(subject, lambda: fresh(inputs), value_of, counted, limits.call_s, value)
    except SecondCall as again:
        return second_call(again, notes)
    return Observation(value=value, facts=facts | more_facts, notes=notes | more_notes)


def _driver(subject, options):
    function = find("drivers", options["driver"])
    others = {name: value for name, value in options.items() if name not in (*COUNTED, "driver")}

    def drive(*inputs):
        """Return a `Driven`, or the `Unusable` that was raised: it is about the result, so it is no crash."""
        answer = SimpleNamespace(**{name: subject.namespace[name] for name in subject.names})
        try:
            result = function(answer, *inputs, **others)
        except Unusable as error:
            return error
        return result if isinstance(result, Driven) else Driven(value=result)

    return drive
