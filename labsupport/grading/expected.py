"""What the course's own programs do on the inputs of one submission: references and specimens, in a child of their own.

With a secret every submission has inputs of its own, so a reference is run for each. What it takes (bytes, lines,
memory let go) depends on the shapes of a case and not on its contents; that is counted once, on the public inputs.
"""

import functools
from dataclasses import dataclass, replace

from labsupport import answering
from labsupport.course import Exercise, Probe
from labsupport.grading import outside
from labsupport.grading.programs import Program, observe_course
from labsupport.grading.together import frame_of
from labsupport.inputs import PUBLIC_SEED, inputs_for
from labsupport.observing import reference_observations, specimen_observations

__all__ = ["Asked", "on_one_case", "reference_of", "specimens_of"]


@dataclass(frozen=True)
class Asked:
    """An exercise with the inputs of a seed, each made once."""

    exercise: Exercise
    seed: int

    @functools.cached_property
    def inputs(self):
        """A tuple of inputs per case; nobody changes them."""
        return inputs_for(self.exercise, self.seed)

    @functools.cached_property
    def frame(self):
        """The same as bytes."""
        return frame_of(self.inputs)


# (exercise id, misconception id or None, seed[, case]) -> what was observed. With a secret nothing but what was seen on
# the public inputs is found here again; without one everything is.
_KEPT = {}
_MOST_KEPT = 2000


def _kept(keys, make):
    """Return the values of the keys; all that are missing are made at once by `make(missing)`."""
    found = {key: _KEPT[key] for key in keys if key in _KEPT}
    if missing := [key for key in keys if key not in found]:
        made = dict(zip(missing, make(missing), strict=True))
        if len(_KEPT) >= _MOST_KEPT:
            for key in [key for key in _KEPT if key[2] != PUBLIC_SEED]:
                del _KEPT[key]
        _KEPT.update(made)
        found |= made
    return [found[key] for key in keys]


def reference_of(asked, children):
    """Return the reference's observations, one per case.

    Args:
        asked: an `Asked`.
        children: the `Children` of which the course's own runs it.
    """
    if asked.exercise.kind == "prediction":  # worked out here, by the course's own code; there is nothing to drive
        return reference_observations(asked.exercise, asked.seed)

    def make(missing):
        return _counted_before(asked, [None], children)

    (found,) = _kept([(asked.exercise.id, None, asked.seed)], make)
    return found


def specimens_of(asked, misconceptions, children):
    """Return {misconception id: the observations of its specimen}.

    Each is counted now: one that remembers earlier calls behaves as it does among as many calls as an answer gets.
    """
    if asked.exercise.kind == "prediction":
        return specimen_observations(asked.exercise, asked.seed, misconceptions)
    names = [m.id for m in misconceptions]
    return dict(zip(names, _in_full(asked, names, children), strict=True))


def on_one_case(asked, misconceptions, index, children):
    """Return {misconception id: what its specimen does on one case alone}: most are told apart by that."""
    exercise, names = asked.exercise, [m.id for m in misconceptions]
    if exercise.kind == "prediction":
        found = specimen_observations(exercise, asked.seed, misconceptions)
        return {name: seen[index] for name, seen in found.items()}
    whole = {name: seen[index] for name in names if (seen := _KEPT.get((exercise.id, name, asked.seed)))}
    alone = [name for name in names if name not in whole]

    def make(missing):
        return [seen for (seen,) in _counted_before(asked, [key[1] for key in missing], children, index)]

    found = _kept([(exercise.id, name, asked.seed, index) for name in alone], make)
    return whole | dict(zip(alone, found, strict=True))


def _in_full(asked, names, children):
    """Return the observations of specimens by their ids, and of the reference by None, all that is counted included."""

    def make(missing):
        programs = [_program(asked, key[1]) for key in missing]
        return observe_course(asked.exercise, programs, asked.inputs, children, asked.frame)

    return _kept([(asked.exercise.id, name, asked.seed) for name in names], make)


def _counted_before(asked, names, children, index=None):
    """Return the same, on one case alone if an index is given, with what is counted taken from the public inputs."""
    exercise, only = asked.exercise, slice(None) if index is None else slice(index, index + 1)
    frame = asked.frame if index is None else None
    programs = [_program(asked, name) for name in names]
    if asked.seed == PUBLIC_SEED or not outside.counted(exercise):
        return observe_course(exercise, programs, asked.inputs[only], children, frame)
    counted = _in_full(Asked(exercise, PUBLIC_SEED), names, children)
    once = replace(exercise, probe=Probe(exercise.probe.name, outside.uncounted(exercise)))
    found = observe_course(once, programs, asked.inputs[only], children, frame)
    return [_with_counts(seen, known[only]) for seen, known in zip(found, counted, strict=True)]


def _with_counts(seen, counted):
    return tuple(_with_count(*pair) for pair in zip(seen, counted, strict=True))


def _with_count(seen, counted):
    if seen.raised or seen.over:
        return seen
    if counted.raised or counted.over:  # it does something else when it is called again to be counted
        return counted
    return replace(seen, facts=dict(counted.facts) | dict(seen.facts))


def _program(asked, name):
    exercise = asked.exercise
    if name is None:
        answer = answering.reference_answer(exercise, asked.seed)
    else:
        misconception = next(m for m in exercise.misconceptions if m.id == name)
        answer = answering.specimen_answer(exercise, misconception, asked.seed)
    return Program(exercise.setup, (), answer.source, exercise.names)
