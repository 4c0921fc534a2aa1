"""Answers that write files or choose, in a cage: one child runs the answer, another one, which never did, looks.

Files travel as bytes through the judge, who does not look into them; a choice, as plain data.
"""

from dataclasses import replace

from labsupport.course import Observation, Probe
from labsupport.grading import outside
from labsupport.grading.errors import Died, OverLimit
from labsupport.grading.wire import WireError
from labsupport.probing.driven import unusable
from labsupport.probing.gathering import is_written
from labsupport.probing.inspecting import merged

__all__ = ["INSPECTION", "inspected", "only_made", "writes"]

INSPECTION = "inspection with libraries"  # the name of the child that looks at what one answer wrote
_SPARE_S = 5.0
_ENDINGS = (Died, OverLimit, WireError)


def writes(exercise):
    """Return whether what an exercise's answer makes is looked at elsewhere: files it writes, or its choice."""
    return exercise.probe.name == "artifact" or _chooses(exercise)


def _chooses(exercise):
    return exercise.probe.name == "through" and "weigh" in exercise.probe.options


def only_made(exercise):
    """Return the exercise as one whose answer is run and whose files, or choice, are handed over."""
    if not _chooses(exercise):
        return replace(exercise, probe=Probe("files", exercise.probe.options))
    options = {name: value for name, value in exercise.probe.options.items() if name != "weigh"}
    return replace(exercise, probe=Probe("through", options))


def inspected(exercise, made, inputs, children, name):
    """Return one observation per case: of the files or the choice, where there are any, else what became of the answer.

    Args:
        exercise: the exercise.
        made: what `files.run` saw of each case, or the driver.
        inputs: a tuple of inputs per case.
        children, name: a `Children`, and which of its children looks. One that looked at an answer's files looks at no
            other answer's: a file may break what reads it.
    """
    seen = [_inspected(exercise, *pair, children, name) for pair in zip(made, inputs, strict=True)]
    if name == INSPECTION:
        children.close(name)
    return tuple(seen)


def _inspected(exercise, made, inputs, children, name):
    if made.raised or made.over:
        return made
    options, seconds = exercise.probe.options, exercise.limits.call_s
    is_choice = _chooses(exercise)
    written = made.value if is_choice or is_written(made.value) else {"files": {}, "folders": []}
    question = {
        "op": "inspect",
        "written": written,
        "inputs": inputs,
        "options": {key: options[key] for key in (("weigh",) if is_choice else ("file", "inspect"))},
        "seconds": seconds,
    }
    try:
        seen = outside.observation_of(children.get(name).ask(question, seconds + _SPARE_S))
    except _ENDINGS as ending:
        children.ended(name, ending, seconds)
        what = "What it returns" if is_choice else f"The file `{options['file']}`"
        return unusable(f"{what} ended the process that looked at it.")
    return merged(Observation(facts=made.facts, notes=made.notes), seen)
