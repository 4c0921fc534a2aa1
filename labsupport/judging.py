"""From observations to a verdict: pure, prints nothing, measures nothing."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from labsupport.comparing import compare, differs
from labsupport.course import Observation, Outcome, Verdict
from labsupport.describing import describe, describe_prediction, show_value
from labsupport.probing.driven import UNUSABLE
from labsupport.probing.plain import Opaque

__all__ = ["FAILED", "Observed", "alike", "judge", "settle"]

FAILED = (Outcome.WRONG, Outcome.CRASHED, Outcome.OVER_LIMIT)


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


def settle(exercise, observed, on_one_case, in_full, *, reveal=False):
    """Return the verdict on an answer, observing specimens only when it failed and as few as will do.

    Args:
        exercise, observed, reveal: as for `judge`; the specimens are missing.
        on_one_case: `on_one_case(misconceptions, index)` returns {id: observation} of their specimens on one case.
        in_full: `in_full(misconceptions)` returns {id: observations} on all cases.
    """
    verdict = judge(exercise, observed, reveal=reveal)
    if verdict.outcome not in FAILED:
        return verdict
    pairs = zip(observed.answer, observed.reference, strict=True)
    first = next(i for i, pair in enumerate(pairs) if differs(*pair))
    seen = on_one_case(exercise.misconceptions, first)
    like = [m for m in exercise.misconceptions if alike(observed.answer[first], seen[m.id])]
    # One that remembers earlier cases may look different alone: without a likeness all are observed in full.
    for misconceptions in (like, exercise.misconceptions):
        if misconceptions:
            verdict = judge(exercise, replace(observed, specimens=in_full(misconceptions)), reveal=reveal)
        # Ranks have a group of their own for each case: none remembers, and looking at all of them takes long.
        if verdict.misconception or exercise.on_ranks or len(misconceptions) == len(exercise.misconceptions):
            break
    return verdict


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
    elif answer.raised and answer.raised.type != UNUSABLE and not exercise.cases[first].raises:
        outcome = Outcome.CRASHED
    why, step = (known.says, known.next) if known else _plain_words(difference, answer, outcome, reveal, exercise)
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
    if answer.over and specimen.over:
        return answer.facts.get("stuck") == specimen.facts.get("stuck")  # ranks hang in different ways
    if answer.raised and specimen.raised and not _same_complaint(answer.raised, specimen.raised):
        return False
    if isinstance(answer.value, Opaque) and isinstance(specimen.value, Opaque):
        return answer.value.type_name == specimen.value.type_name
    return not differs(answer, specimen)


def _same_complaint(one, other):
    """torch raises a RuntimeError for nearly everything: two are alike when they also begin with the same words."""
    if {one.type, other.type} != {"RuntimeError"}:
        return True
    (one_rank, one_said), (other_rank, other_said) = _on_ranks(one.message), _on_ranks(other.message)
    return bool(one_rank or other_rank) or _first_words(one_said) == _first_words(other_said)


def _first_words(message):
    return re.sub(r"\d+", "0", message).split()[:5]


def _plain_words(difference, answer, outcome, reveal, exercise):
    if outcome is Outcome.OVER_LIMIT:
        return f"On this case the answer was {answer.over}.", _after_a_limit(answer.over)
    if outcome is Outcome.CRASHED:
        return _crash(answer.raised), _CALL_IT if not _on_ranks(answer.raised.message)[0] else _RUN_THE_CELL
    if exercise.kind == "prediction":
        words = exercise.probe.options.get("one_of", ())
        if words and answer.value not in words:
            return f"You wrote {show_value(answer.value)}; asked for is one of {', '.join(words)}.", _PREDICT_AGAIN
        return describe_prediction(difference, reveal=reveal), _PREDICT_AGAIN
    return describe(difference, reveal=reveal), _where_to_look(difference)


_CALL_IT = "Call it yourself on a small input of this kind and follow that line."
_RUN_THE_CELL = "Run the cell with as many ranks and follow what that rank does up to there."


def _crash(raised):
    who, message = _on_ranks(raised.message)
    if raised.type in _NO_EXCEPTIONS:
        return f"Its result does not hold: {raised.message}."
    if raised.type == "ProcessEnded":  # said by a runner, not by Python
        return f"The process {f'of {who}' if who else 'that ran it'} ended: {message}."
    line = raised.line.replace("`", "'")
    at = f"Your line `{line}` raised" if line else "It raised"
    at = f"On {who} {at[0].lower()}{at[1:]}" if who else at
    return f"{at} {raised.type}: {message}" if message else f"{at} {raised.type}."


def _on_ranks(message):
    """Return (who, the rest) of a message that says on which rank it was raised, else ("", message)."""
    match = re.match(r"(rank \d+|every rank): ", message)
    return (match[1], message[match.end() :]) if match else ("", message)


_TOO_LONG = "Look for a loop that never ends, or for a step that is slow and done far more often than needed."
_LIMIT_ADVICE = {
    "memory": "Find the largest array it makes: its shape times its item size.",
    "disk": "Look at what it writes, and how often.",
    "process": "Look for what starts threads or processes.",
    "answer": "Look at how large a thing it returns.",
}


def _after_a_limit(over):
    """Return what to look at after a limit, by the word that names it; time is the usual one."""
    if over.startswith("stuck"):
        if re.search(r"\b(send|recv|sends|receive)\b", over):
            return "Write down, per rank and in order, whom it sends to and receives from: a send needs its recv."
        return "Write down for each rank which collective it calls, in order: all ranks need the same list."
    return next((step for word, step in _LIMIT_ADVICE.items() if word in over), _TOO_LONG)


_NO_EXCEPTIONS = ("AnotherResult", "MeasurementStopped")  # what a probe reports in an exception's place
_PREDICT_AGAIN = "Go through the question step by step and say what each step gives, then predict again."


def _where_to_look(difference):
    """Return the one thing to look at next, for a difference no misconception explains."""
    if difference.kind == "shape" and difference.got.ndim == difference.expected.ndim:
        return "The number of axes is right: which axis has the wrong size, and which line sets it?"
    if difference.kind == "inputs changed" and not difference.got:
        return "The task asks for a change in place: `x[...] = ...` writes into x, `x = ...` only renames."
    if difference.kind == "raised" and getattr(difference.got, "type", None) == UNUSABLE:
        return _WHERE_TO_LOOK[UNUSABLE]
    if difference.kind in _WHERE_TO_LOOK:
        return _WHERE_TO_LOOK[difference.kind]
    return _COUNT_IT if str(difference.expected).startswith("within ") else _NAMED_FACT


# For what a driver or an inspector says about an answer whose values are right.
_COUNT_IT = "Find the line where this is spent: count by hand what one call costs, and how often it comes."
_NAMED_FACT = "Look at the line of your code that decides this."

_WHERE_TO_LOOK = {
    "value": "Work this case out by hand, one element of it is enough, and compare with what your code does.",
    "type": "Look at what the `return` line hands back.",
    "raised": "Read the task's sentence about input that is not allowed.",
    UNUSABLE: "Look at what the answer hands back, or leaves behind, step by step.",
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
    "collectives": "Count the calls one by one on paper: which line makes each of them?",
    "calls": "Look for a call inside a loop that could come once, after it.",
    "sent": "Add up shape times item size of everything one rank sends.",
    "files": "Ask on which ranks the line that writes is reached.",
    "killed": "Read the batches through the list that is passed in.",
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
        "sent_bytes": "bytes sent by a rank",
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
