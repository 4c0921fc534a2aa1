"""Which observations a verdict needs, and getting them: the answer's, the reference's, the specimens'."""

import dataclasses

from labsupport.answering import load, reference_answer, specimen_answer
from labsupport.course import Observation, Raised
from labsupport.describing import show_value
from labsupport.inputs import PUBLIC_SEED, inputs_for
from labsupport.judging import FAILED, Observed, judge, settle
from labsupport.probing import Subject, observe
from labsupport.probing.plain import plain_literal

__all__ = [
    "PUBLIC_SEED",
    "inputs_for",
    "observe_subject",
    "reference_observations",
    "specimen_observations",
    "verdict_on",
]


def observe_subject(exercise, subject, seed=PUBLIC_SEED):
    """Return one observation per case. After a case that hangs the rest are not run and count as hanging too."""
    seen = []
    for index, inputs in enumerate(inputs_for(exercise, seed)):
        if seen and seen[-1].over:
            seen.append(seen[-1])
            continue
        one = subject
        if exercise.kind == "prediction":
            one = Subject((exercise.names[index],), subject.namespace, subject.source)
        seen.append(observe(exercise.probe, one, inputs, exercise.limits))
    return tuple(seen)


_KEPT = {}
_MOST_KEPT = 2000


def _kept(what, exercise, seed, make):
    """Return `make()`, made once per exercise object and seed; the exercise is kept too, so its id() stays its own."""
    key = (what, id(exercise), seed)
    if key not in _KEPT:
        if len(_KEPT) >= _MOST_KEPT:  # a grader draws a seed per submission
            _KEPT.clear()
        _KEPT[key] = (exercise, make())
    return _KEPT[key][1]


def reference_observations(exercise, seed=PUBLIC_SEED):
    """Return the reference's observations, one per case; kept, since every check of the exercise needs them."""

    def make():
        if exercise.kind == "prediction":
            return tuple(_run_now(exercise.reference, inputs) for inputs in inputs_for(exercise, seed))
        return _observe_answer(exercise, reference_answer(exercise), seed)

    return _kept("reference", exercise, seed, make)


def specimen_observations(exercise, seed=PUBLIC_SEED, only=None):
    """Return {misconception id: observations}; kept like the reference's.

    Args:
        exercise, seed: which exercise, on which inputs.
        only: the misconceptions that are wanted; all when None.
    """
    wanted = exercise.misconceptions if only is None else only
    return {m.id: _kept(("specimen", m.id), exercise, seed, lambda m=m: _specimen(exercise, m, seed)) for m in wanted}


def _specimen(exercise, misconception, seed):
    if exercise.kind != "prediction":
        return _observe_answer(exercise, specimen_answer(exercise, misconception, seed), seed)
    specimen = misconception.specimen
    value = specimen if callable(specimen) else lambda *inputs: specimen
    return tuple(_run_now(value, inputs) for inputs in inputs_for(exercise, seed))


def _on_one_case(exercise, misconceptions, index, seed):
    """Return {misconception id: what its specimen does on one case alone}: most are ruled out by that."""
    if exercise.kind == "prediction":
        return {name: seen[index] for name, seen in specimen_observations(exercise, seed, misconceptions).items()}
    inputs = inputs_for(exercise, seed)[index]

    def on_this_case(misconception):
        answer = specimen_answer(exercise, misconception, seed)
        subject = _subject(exercise, answer)
        return observe(exercise.probe, subject, inputs, exercise.limits)

    def kept(m):
        return _kept(("specimen", m.id, index), exercise, seed, lambda: on_this_case(m))

    return {m.id: kept(m) for m in misconceptions}


def _observe_answer(exercise, answer, seed):
    return observe_subject(exercise, _subject(exercise, answer), seed)


def _subject(exercise, answer):
    """Return an answer ready to be driven; what runs on ranks is executed there and not here."""
    namespace = {} if exercise.on_ranks else load(answer)
    return Subject(answer.names, namespace, answer.source, own=True)


def _run_now(function, inputs):
    try:
        return Observation(value=plain_literal(function(*inputs)))
    except Exception as error:
        return Observation(raised=Raised(type=type(error).__name__, message=str(error)))


def verdict_on(exercise, subject, seed=PUBLIC_SEED, *, untouched=False, reveal=True):
    """Return the verdict on a subject, observing the specimens only when the answer is not right.

    Args:
        untouched: the answer is still the stub as shipped, so nothing is run.
        reveal: whether the expected value may be told (the live check does, a clean one never).
    """
    if untouched:
        return judge(exercise, Observed(answer=None, reference=(), untouched=True))
    answer = observe_subject(exercise, subject, seed)
    verdict = settle(
        exercise,
        Observed(answer=answer, reference=reference_observations(exercise, seed)),
        lambda misconceptions, index: _on_one_case(exercise, misconceptions, index, seed),
        lambda misconceptions: specimen_observations(exercise, seed, misconceptions),
        reveal=reveal,
    )
    if not reveal or verdict.outcome not in FAILED:
        return verdict
    return dataclasses.replace(verdict, call=_call_of(exercise, verdict.case, seed))


_LONGEST_CALL = 140


def _call_of(exercise, label, seed):
    """Return the call of a case as one would type it, "" when it is long or not a plain call."""
    if exercise.probe.name != "call":
        return ""
    labels = [case.label for case in exercise.cases]
    inputs = inputs_for(exercise, seed)[labels.index(label)]
    text = f"{exercise.names[0]}({', '.join(show_value(value) for value in inputs)})"
    return text if len(text) <= _LONGEST_CALL else ""
