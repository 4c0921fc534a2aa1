"""From observations to a verdict: pure, prints nothing, measures nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from labsupport.comparing import compare, describe, describe_prediction, differs, show_value
from labsupport.course import Observation, Outcome, Verdict
from labsupport.probing.plain import Opaque

__all__ = ["Observed", "alike", "judge"]


@dataclass(frozen=True, kw_only=True)
class Observed:
    """What a verdict is made from: one observation per case of the answer, the reference and each specimen.

    `untouched` says that the answer is still the stub as shipped (its observations are then not needed).
    """

    answer: tuple[Observation, ...] | None
    reference: tuple[Observation, ...]
    specimens: Mapping[str, tuple[Observation, ...]] = field(default_factory=dict)
    untouched: bool = False


def judge(exercise, observed, *, reveal=False):
    """Return the verdict on an answer.

    The order: not yet, grader fault, over limit, passed, wrong by misconception, crashed, wrong by difference.

    Args:
        exercise: the `Exercise`.
        observed: an `Observed`.
        reveal: whether the verdict may contain expected values.
    """
    of = _points_of(exercise)
    if observed.untouched or _not_implemented(exercise, observed.answer):
        return _not_yet(exercise, observed, of)
    if fault := _reference_fault(exercise, observed.reference):
        return Verdict(exercise=exercise.id, outcome=Outcome.GRADER_FAULT, why=fault, next=_REPORT, points_of=of)
    pairs = list(zip(observed.answer, observed.reference, strict=True))
    failed = [i for i, pair in enumerate(pairs) if differs(*pair)]
    if not failed:
        measured = _measured(observed.answer) if exercise.kind == "budget" else ""
        return Verdict(exercise=exercise.id, outcome=Outcome.PASSED, points=of, points_of=of, measured=measured)
    return _failed(exercise, observed, failed, of, reveal)


_REPORT = "Nothing is wrong with your answer as far as we know: please report this exercise's id."


def _not_implemented(exercise, answer):
    """A stub raises `NotImplementedError` on every case; of a prediction, each open name counts."""
    missing = [
        bool(seen.raised) and seen.raised.type == "NotImplementedError" and case.raises != "NotImplementedError"
        for seen, case in zip(answer, exercise.cases, strict=True)
    ]
    return any(missing) if exercise.kind == "prediction" else all(missing)


def _not_yet(exercise, observed, of):
    why = f"`{exercise.names[0]}` is still the stub the lesson ships."
    if not observed.untouched:
        why = f"`{exercise.names[0]}` still raises NotImplementedError."
    elif exercise.kind == "debug":
        why = f"`{exercise.names[0]}` is unchanged."
    if exercise.kind == "prediction":
        open_names = exercise.names
        if observed.answer:
            open_names = [n for n, seen in zip(exercise.names, observed.answer, strict=True) if seen.raised]
        why = f"{_listed(open_names)} {'is' if len(open_names) == 1 else 'are'} still `...`."
    do = "Change the code in" if exercise.kind == "debug" else "Fill in"
    return Verdict(
        exercise=exercise.id,
        outcome=Outcome.NOT_YET,
        why=why,
        next=f"{do} the cell above, run it, then run this check again.",
        points_of=of,
    )


def _listed(names):
    names = [f"`{name}`" for name in names]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _reference_fault(exercise, reference):
    for case, seen in zip(exercise.cases, reference, strict=True):
        raised = seen.raised.type if seen.raised else None
        if seen.over or (raised != case.raises and not (seen.raised and case.raises and seen.raised.is_a(case.raises))):
            told = seen.over or (f"{raised}: {seen.raised.message}" if raised else f"no {case.raises}")
            return f"The course's own solution failed on case '{case.label}' ({told})."
        if beyond := [name for name, fact in seen.facts.items() if str(fact).startswith("over ")]:
            return f"The course's own solution is over its own budget on case '{case.label}' ({', '.join(beyond)})."
    return None


def _failed(exercise, observed, failed, of, reveal):
    first = failed[0]
    answer, reference = observed.answer[first], observed.reference[first]
    difference = compare(answer, reference)
    known = _misconception(exercise, observed, failed)
    outcome = Outcome.WRONG
    if answer.over:
        outcome = Outcome.OVER_LIMIT
    elif answer.raised and not exercise.cases[first].raises:
        outcome = Outcome.CRASHED
    why, step = (
        (known.says, known.next)
        if known
        else _plain_words(difference, answer, outcome, reveal, exercise.kind == "prediction")
    )
    # A fact that failed (a copy, a loop, a budget) is what the misconception's own text is about: once is enough.
    about_value = difference.kind not in answer.facts and exercise.kind != "prediction"
    seen = describe(difference, reveal=reveal) if known and outcome is Outcome.WRONG and about_value else ""
    if outcome is Outcome.CRASHED and known:
        seen = _crash(answer.raised)
    return Verdict(
        exercise=exercise.id,
        outcome=outcome,
        case=exercise.cases[first].label,
        misconception=known.id if known else None,
        why=why,
        next=step,
        seen=seen,
        measured=_measured([answer], counts=difference.kind in answer.facts),
        points=_earned(exercise, failed),
        points_of=of,
    )


def _misconception(exercise, observed, failed):
    """Return the misconception this answer behaves like, or None.

    It may match when on every case the answer equals the specimen or the reference, and equals the specimen on the
    first case that failed. Of those that may, the one is told that shares most of its own failing cases, and none that
    shares fewer than half: an answer that goes wrong once is not told about a mistake that would show everywhere.
    The cases of a prediction are separate questions: only the first failed one counts.
    """
    told, best = None, 0.5
    for misconception in exercise.misconceptions:
        specimen = observed.specimens.get(misconception.id)
        if specimen is None or not alike(observed.answer[failed[0]], specimen[failed[0]]):
            continue
        if specimen[failed[0]].notes.get("printed") and not observed.answer[failed[0]].notes.get("printed"):
            continue  # its text is about printing, and this answer prints nothing
        if exercise.kind == "prediction":
            return misconception
        if not all(alike(observed.answer[i], specimen[i]) for i in failed):
            continue
        wrong = [i for i, seen in enumerate(specimen) if differs(seen, observed.reference[i])]
        share = len(failed) / max(1, len(wrong))
        if share > best or (share == best and told is None):
            told, best = misconception, share
    return told


def alike(answer, specimen):
    """Return whether two wrong observations are one behaviour; values that equal nothing are alike by their type."""
    if isinstance(answer.value, Opaque) and isinstance(specimen.value, Opaque):
        return answer.value.type_name == specimen.value.type_name
    return not differs(answer, specimen)


def _plain_words(difference, answer, outcome, reveal, predicted):
    if outcome is Outcome.OVER_LIMIT:
        return f"On this case the answer was {answer.over}.", _after_a_limit(answer.over)
    if outcome is Outcome.CRASHED:
        return _crash(answer.raised), "Call it yourself on a small input of this kind and follow that line."
    if predicted:
        return describe_prediction(difference, reveal=reveal), _PREDICT_AGAIN
    return describe(difference, reveal=reveal), _where_to_look(difference)


def _crash(raised):
    if raised.type in _NO_EXCEPTIONS:
        return f"Its result does not hold: {raised.message}."
    if raised.type == "ProcessEnded":  # said by a runner, not by Python
        return f"The process that ran it ended: {raised.message}."
    line = raised.line.replace("`", "'")
    at = f"Your line `{line}` raised" if line else "It raised"
    return f"{at} {raised.type}: {raised.message}" if raised.message else f"{at} {raised.type}."


_LIMIT_ADVICE = {
    "memory": "Find the largest array it makes: its shape times its item size.",
    "disk": "Look at what it writes, and how often.",
    "process": "Look for what starts threads or processes.",
    "answer": "Look at how large a thing it returns.",
}


def _after_a_limit(over):
    """Return what to look at after a limit, by the word that names it; time is the usual one."""
    return next((step for word, step in _LIMIT_ADVICE.items() if word in over), "Look for a loop that never ends.")


_NO_EXCEPTIONS = ("AnotherResult", "MeasurementStopped")  # what a probe reports in an exception's place
_PREDICT_AGAIN = "Go through the code line by line and say what each line gives, then predict again."


def _where_to_look(difference):
    """Return the one thing to look at next, for a difference no misconception explains."""
    if difference.kind == "shape" and difference.got.ndim == difference.expected.ndim:
        return "The number of axes is right: which axis has the wrong size, and which line sets it?"
    if difference.kind == "inputs changed" and not difference.got:
        return "The task asks for a change in place: `x[...] = ...` writes into x, `x = ...` only renames."
    return _WHERE_TO_LOOK.get(difference.kind, _WHERE_TO_LOOK["value"])


_WHERE_TO_LOOK = {
    "value": "Work this case out by hand for one element, and compare with what your code does.",
    "type": "Look at what the `return` line hands back.",
    "raised": "Read the task's sentence about input that is not allowed.",
    "shape": "Print the shape after each step of your code, and find where the axis appears or goes.",
    "dtype": "Print the dtype after each step; find where it widens or narrows.",
    "length": "Count what goes in and what comes out on this case.",
    "keys": "Compare the keys with those the task names.",
    "inputs changed": "Look for the line that writes into an input: `x += 1` and `out=x` do, `x = x + 1` does not.",
    "layout": "Ask `np.shares_memory(result, x)` after each step.",
    "writeable": "Look at `result.flags.writeable`.",
    "allocation": "Find the largest temporary array: its shape times its item size.",
    "kept": "Ask what your object still refers to once the call is over, `.base` included.",
    "steps": "Say the whole operation on arrays at once, so that NumPy runs the loop.",
    "vocabulary": "Say it with the tools this exercise is about.",
    "released": "Follow `.base` of what you keep: whose memory is it?",
}


def _measured(observations, counts=True):
    """Return the largest of each measured number, in words; without `counts` only what was printed."""
    notes = {}
    for seen in observations:
        for name, value in seen.notes.items():
            if counts and isinstance(value, (int, float)):
                notes[name] = max(value, notes.get(name, 0))
    words = {
        "allocated_bytes": "bytes allocated at the peak",
        "kept_bytes": "bytes still held",
        "steps": "Python lines run",
    }
    parts = [f"{value:,} {words.get(name, name)}" for name, value in notes.items()]
    printed = next((seen.notes["printed"] for seen in observations if seen.notes.get("printed")), None)
    if printed:
        parts.append(f"printed {show_value(printed.strip())}")
    return ", ".join(parts)


def _points_of(exercise):
    points = exercise.points
    return points if isinstance(points, (int, float)) else sum(points.values())


def _earned(exercise, failed):
    """Return the points of the groups in which no case failed; an exercise with one score earns all or nothing."""
    if isinstance(exercise.points, (int, float)):
        return 0
    lost = {exercise.cases[i].group for i in failed}
    return sum(points for group, points in exercise.points.items() if group not in lost)
