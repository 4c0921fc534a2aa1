"""The default probe: calls the answer's function and looks at what came back and what was left behind."""

import gc
import math
import weakref

import numpy as np

from labsupport.course import Observation
from labsupport.probing.plain import Opaque, fresh, identical, plain
from labsupport.probing.running import SecondCall, attempt, count_steps, peak_bytes
from labsupport.probing.vocabulary import words_used

__all__ = [
    "all_gone", "headers_of", "inputs_changed", "measure", "owner_of", "run", "second_call", "within",
]  # fmt: skip


def run(subject, inputs, options, limits):
    """Call `names[0](*inputs)` on fresh copies and return the observation.

    Options (all may be missing):
        view_of: index of an input; fact `layout`: is the result a view of it, a copy, or partly both.
        writeable: True; fact `writeable` of the resulting array.
        max_allocated: bytes; fact `allocation`, note `allocated_bytes`.
        max_steps: Python lines; fact `steps`, note `steps`.
        forbid: words of `vocabulary`; fact `vocabulary`: those used.
        releases: index of an input; fact `released`: is its memory freed while the result is held.
    """
    function = subject.namespace[subject.names[0]]
    args = fresh(inputs)
    before, headers = plain(args), headers_of(args)
    result, raised, over, printed = attempt(function, args, limits.call_s)
    notes = {"printed": printed} if printed else {}
    if raised or over:
        return Observation(raised=raised, over=over, notes=notes)
    value = plain(result)
    facts = {"inputs changed": inputs_changed(args, before, headers)}
    if "view_of" in options and not isinstance(value, Opaque):
        facts["layout"] = _layout(result, args[options["view_of"]])
    if options.get("writeable"):
        facts["writeable"] = bool(result.flags.writeable) if type(result) is np.ndarray else None
    del result
    try:
        more_facts, more_notes = measure(subject, lambda: fresh(inputs), function, options, limits.call_s, value)
    except SecondCall as again:
        return second_call(again, notes)
    return Observation(value=value, facts=facts | more_facts, notes=notes | more_notes)


def second_call(again, notes):
    """Return the observation of an answer that did something else when it was called again."""
    over = f"{again.over} when it was called a second time" if again.over else None
    return Observation(raised=again.raised, over=over, notes=notes)


def inputs_changed(args, before, headers):
    """Return the indices of the inputs that are not what they were, values and headers.

    Args:
        args: the inputs as they are now.
        before: `plain(args)` of then.
        headers: `headers_of(args)` of then.
    """
    now = zip(plain(args), before, headers_of(args), headers, strict=True)
    return tuple(i for i, (a, b, x, y) in enumerate(now) if not identical(a, b) or x != y)


def headers_of(args):
    """Return what an array is beside its values: an answer may freeze, reshape or retype the caller's array."""
    return [(a.flags.writeable, a.shape, a.strides, a.dtype) if isinstance(a, np.ndarray) else None for a in args]


def measure(subject, make_args, function, options, seconds, known):
    """Return (facts, notes) of the counted options, each on a call of its own with fresh inputs.

    Raises:
        SecondCall: one of these calls raised, took longer than `seconds`, or did not return `known` again.
    """
    facts, notes = {}, {}
    if "max_allocated" in options or "max_kept" in options:
        most = tuple(options.get(name, math.inf) for name in ("max_allocated", "max_kept"))
        peak, kept = peak_bytes(function, make_args, seconds, known, most)
        if "max_allocated" in options:
            facts["allocation"], notes["allocated_bytes"] = within(peak, options["max_allocated"]), peak
        if "max_kept" in options:
            facts["kept"], notes["kept_bytes"] = within(kept, options["max_kept"]), kept
    if "max_steps" in options:
        steps = count_steps(function, make_args(), seconds, known)
        facts["steps"], notes["steps"] = within(steps, options["max_steps"]), steps
    if "forbid" in options:
        source = subject.source or ""
        facts["vocabulary"] = words_used(source, options["forbid"], subject.namespace)
    if "releases" in options:
        facts["released"] = _released(function, make_args(), options["releases"], seconds)
    return facts, notes


def within(count, most):
    """Return a count against its budget as a fact: exact numbers differ from run to run, the claim does not."""
    return f"within {most:,}" if count <= most else f"over {most:,}"


def _layout(result, source):
    """Return "view", "copy" or "partly": every bit of the source's memory is flipped and the result looked at again."""
    if type(result) is not np.ndarray or not result.size:
        return None
    owner = owner_of(source)
    if not np.may_share_memory(result, owner):
        return "copy"
    seen = np.ascontiguousarray(result).view(np.uint8).copy()
    raw = owner.reshape(-1, order="A").view(np.uint8)
    if not raw.flags.writeable:
        raw.flags.writeable = True
    np.invert(raw, out=raw)
    changed = np.ascontiguousarray(result).view(np.uint8) != seen
    np.invert(raw, out=raw)
    return "view" if changed.all() else "partly" if changed.any() else "copy"


def _released(function, args, index, seconds):
    owners = [weakref.ref(array) for array in _owners(args[index])]
    result, *_ = attempt(function, args, seconds)
    del args
    freed = all_gone(owners)
    del result
    return freed


def all_gone(references):
    """Return whether every weakly referenced object is freed; cycles are collected only when that is needed to tell."""
    if any(reference() is not None for reference in references):
        gc.collect()
    return all(reference() is None for reference in references)


def owner_of(array):
    """Return the array at the end of the chain of bases: the one whose memory it is."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _owners(value):
    if isinstance(value, np.ndarray):
        return [owner_of(value)]
    if isinstance(value, (list, tuple)):
        return [owner for item in value for owner in _owners(item)]
    return []
