"""One submission to rows: answers go into a caged child, observations come back, the judge decides.

This process never runs a line of a learner's code. It knows the references; the child that runs the answer does not.
References and specimens are observed through the same questions, in a child of their own.
"""

import ast
import functools
import hashlib
import time
from dataclasses import dataclass, field, replace

from labsupport import answering, catalog
from labsupport.course import Outcome, Verdict
from labsupport.grading import outside
from labsupport.grading.errors import CannotRunHere, GradingImpossible
from labsupport.grading.expected import Asked, on_one_case, reference_of, specimens_of
from labsupport.grading.programs import Children, Program, child_for, observe_program
from labsupport.grading.secret import Secret
from labsupport.grading.store import Row
from labsupport.grading.wire import TooLarge, decode, encode
from labsupport.judging import FAILED, Observed, judge, settle
from labsupport.observing import reference_observations, specimen_observations
from labsupport.places import NOTEBOOKS, ROOT
from labsupport.probing.fair import TooBusy

__all__ = [
    "Graded", "GradingImpossible", "Secret", "course_version", "grade_submission", "grading_key", "judge_again",
]  # fmt: skip

_SUBMISSION_S = 120.0


@dataclass(frozen=True)
class Graded:
    """A submission's rows, the observation frames behind them ({key: bytes}), and what it used."""

    rows: tuple[Row, ...]
    frames: dict = field(default_factory=dict)
    usage: dict = field(default_factory=dict)


@functools.cache
def course_version():
    """Return a digest of everything a verdict depends on: the package and the built notebooks."""
    found = sorted([*(ROOT / "labsupport").rglob("*.py"), *NOTEBOOKS.glob("*.ipynb")])
    digest = hashlib.sha256()
    for path in found:
        digest.update(f"{path.relative_to(ROOT).as_posix()}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def grading_key(submission, secret):
    """Return what verdict rows are tied to: the file, the course and whose inputs were used."""
    parts = (submission.sha256, submission.learner, submission.lesson, course_version(), secret.sign("inputs"))
    return hashlib.sha256("\n".join(str(part) for part in parts).encode()).hexdigest()[:32]


def grade_submission(submission, *, runner, secret, known=lambda key: None):
    """Return a `Graded` with one row per exercise of the submission's lesson.

    Nothing a learner did makes it raise. An answer that hangs or dies costs its own exercise only: the next one gets
    a new child. Observations that `known(key)` still has are judged without running anything.

    Args:
        submission: an `intake.Submission`.
        runner: an open `Runner`.
        secret: a `Secret`.
        known: returns the kept observation frame of a key, or None.

    Raises:
        GradingImpossible: a required layer of the cage did not report that it works.
    """
    exercises = catalog.exercises(submission.lesson) if submission.lesson else ()
    frames, rows = {}, []
    started = time.monotonic()
    with Children(runner) as children:
        for exercise in exercises:
            taken = submission.answers.get(exercise.id)
            left = _SUBMISSION_S - children.spent_s
            rows.append(_grade_one(exercise, submission, taken, children, secret, known, frames, left))
        usage = {"wall_s": round(time.monotonic() - started, 3), **children.usage()}
    return Graded(tuple(replace(row, usage=usage) for row in rows), frames, usage)


def check_answers(taken, runner):
    """Yield a `Verdict` per `Taken`, on the public inputs: the same path as a grade, for the learner's own eyes.

    Args:
        taken: answers of one lesson.
        runner: an open `Runner` of any tier.
    """
    with Children(runner) as children:
        for one in taken:
            exercise = catalog.find_exercise(one.exercise)
            asked = (exercise, _Nobody(exercise.slug), one, children, Secret(), lambda key: None, {}, _SUBMISSION_S)
            row = _grade_one(*asked)
            told = {name: getattr(row, name) for name in _told(Verdict(exercise="", outcome=Outcome.PASSED))}
            yield Verdict(exercise=exercise.id, **{**told, "outcome": Outcome(row.outcome)})


@dataclass(frozen=True)
class _Nobody:
    """Stands for a submission where an answer is checked for its author: no learner, no file, the public inputs."""

    lesson: str
    learner: str = ""
    sha256: str = ""
    unreadable: str = ""
    notes: tuple = ()


def _grade_one(exercise, submission, taken, children, secret, known, frames, left):
    problem = _before_running(exercise, submission, taken, left)
    if problem:
        return _row(problem, exercise, submission, taken)
    asked = Asked(exercise, secret.seed(submission.sha256, exercise.id))
    key = _observation_key(asked, taken)
    try:
        frame = known(key)
        if frame is None:
            verdict, frame = _run(asked, taken, children)
        else:
            verdict = _judge(asked, _unpacked(decode(frame)), children)
        if frame is not None:
            frames[key] = frame
    except GradingImpossible:
        raise
    except CannotRunHere as error:
        step = "Nothing is held against the answer; it is graded where that is possible."
        verdict = Verdict(exercise=exercise.id, outcome=Outcome.CANNOT_RUN_HERE, why=_sentence(error), next=step)
    except TooBusy as error:
        why = f"Grading did not come to an end: {error.what}."
        step = "Nothing is held against the answer; it is graded again on a machine that has time for it."
        verdict = Verdict(exercise=exercise.id, outcome=Outcome.GRADER_FAULT, why=why, next=step)
    except Exception as error:  # ours: whatever it is, it must not become the learner's zero
        verdict = _fault(exercise, f"{type(error).__name__}: {error}")
    return _row(verdict, exercise, submission, taken, observed=key if key in frames else "")


def _sentence(error):
    """Return what a `LabError` says, and why, as one sentence."""
    text = f"{error.what}, and {error.why}" if error.why else str(error.what)
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def _run(asked, taken, children):
    """Return (verdict, kept frame) of an answer that is run now.

    One that fails where other answers ran before it is run again alone: what they left behind is not its fault.
    """
    exercise = asked.exercise
    program = Program(exercise.setup, tuple(taken.helpers), taken.source, exercise.names)
    while True:
        seen = observe_program(exercise, program, asked.inputs, children, "answer", asked.frame)
        try:
            frame = encode(_packed(seen))
        except TooLarge as error:  # each result is within bounds, all of them together are not
            return _too_much(exercise, error), None
        answer = _unpacked(decode(frame))
        verdict = _judge(asked, answer, children)
        hung = not children.silent and any(seen.over and "still running" in seen.over for seen in answer)
        # By a mistake of its own, which nothing left behind brings about; ranks are made anew for each answer.
        explained = verdict.misconception or hung or exercise.on_ranks
        own = child_for(exercise, "answer")
        if verdict.outcome not in FAILED or explained or not children.is_shared(own):
            return verdict, frame
        children.close(own)


def _before_running(exercise, submission, taken, left):
    """Return the verdict on an answer that need not or cannot be run, else None."""
    if submission.unreadable:
        return Verdict(
            exercise=exercise.id, outcome=Outcome.UNREADABLE, why=submission.unreadable, next=submission.repair
        )
    if taken is not None and (unusable := getattr(taken, "unreadable", "")):
        step = "Split the cell, or take out what does not belong to the answer."
        return Verdict(exercise=exercise.id, outcome=Outcome.UNREADABLE, why=unusable, next=step)
    if taken is None or not taken.source:
        why = "No cell of the notebook answers this exercise."
        return Verdict(
            exercise=exercise.id, outcome=Outcome.NOT_YET, why=why, next="Add the cell back from the lesson."
        )
    if left <= 0:
        why = f"The answers before this one used up the {_SUBMISSION_S:g} s a submission has."
        return Verdict(exercise=exercise.id, outcome=Outcome.OVER_LIMIT, why=why, next="Look at what is slow above.")
    if taken.untouched or _is_stub(exercise, taken.source):
        return judge(exercise, Observed(answer=None, reference=(), untouched=True))
    return None


def _is_stub(exercise, source):
    stub = catalog.stubs(exercise.slug).get(exercise.id, "")
    if not all(word in source for word in _words_of(stub, exercise.names[0])):
        return False
    if answering.same_program(source, stub):
        return True
    if exercise.kind == "prediction":
        return False
    mine, shipped = (answering.definition_in(text, exercise.names[0]) for text in (source, stub))
    return mine is not None and shipped is not None and answering.same_program(mine, shipped)


@functools.cache
def _words_of(stub, name):
    """Return what a text spells that is the same program, or has the same definition: seen without reading it."""
    nodes = ast.walk(ast.parse(answering.definition_in(stub, name) or answering.without_magic(stub)))
    return frozenset(node.id for node in nodes if isinstance(node, ast.Name))


# -- judging -----------------------------------------------------------------------------------------------------


def _judge(asked, answer, children):
    """Return the verdict; specimens are observed only when the answer is not right."""
    return settle(
        asked.exercise,
        Observed(answer=answer, reference=reference_of(asked, children)),
        lambda misconceptions, index: on_one_case(asked, misconceptions, index, children),
        lambda misconceptions: specimens_of(asked, misconceptions, children),
    )


def judge_again(row, frame, exercise, secret):
    """Return the row that the course of today gives on kept observations, or None when the answer must be run again.

    No learner code runs. It must be run again when what is asked has changed: cases, probe, setup or limits.

    Args:
        row: the `Row` made then.
        frame: its kept observations.
        exercise: the exercise as it is now.
        secret: the `Secret` used then.
    """
    seed = secret.seed(row.submission, exercise.id)
    answer = _unpacked(decode(frame))
    digest = _question_digest(Asked(exercise, seed))
    if len(answer) != len(exercise.cases) or not row.observed.startswith(digest):
        return None
    first = Observed(answer=answer, reference=reference_observations(exercise, seed))
    verdict = judge(exercise, first)
    if verdict.outcome in FAILED:
        verdict = judge(exercise, replace(first, specimens=specimen_observations(exercise, seed)))
    return replace(row, **_told(verdict))


def _too_much(exercise, error):
    why = f"The answer's results are too large to be compared ({error})."
    step = "Return what is asked for and nothing beside it."
    return Verdict(exercise=exercise.id, outcome=Outcome.OVER_LIMIT, why=why, next=step)


def _fault(exercise, what):
    why = f"Grading failed on our side ({what})."
    step = "Nothing is held against the answer; it is graded again once this is repaired."
    return Verdict(exercise=exercise.id, outcome=Outcome.GRADER_FAULT, why=why, next=step)


def _told(verdict):
    return {
        "outcome": verdict.outcome.value,
        "points": verdict.points,
        "points_of": verdict.points_of,
        "misconception": verdict.misconception,
        "case": verdict.case,
        "why": verdict.why,
        "next": verdict.next,
        "seen": verdict.seen,
        "measured": verdict.measured,
    }


def _row(verdict, exercise, submission, taken, observed=""):
    points = exercise.points if isinstance(exercise.points, (int, float)) else sum(exercise.points.values())
    told = _told(verdict) | {"points_of": points}
    source = taken.source if taken else ""
    return Row(
        learner=submission.learner,
        lesson=submission.lesson,
        exercise=exercise.id,
        taken=taken.told if taken else "no cell found",
        notes=(*submission.notes, *(taken.notes if taken else ())),
        submission=submission.sha256,
        answer=hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest() if source else "",
        observed=observed,
        core=exercise.core,
        **told,
    )


# -- keys and frames ---------------------------------------------------------------------------------------------


def _question_digest(question):
    """Return a digest of what is asked: inputs, probe, setup, names and limits; not of how it is judged."""
    exercise, digest = question.exercise, hashlib.sha256(question.frame)
    options = sorted((str(k), repr(v)) for k, v in exercise.probe.options.items())
    asked = (
        exercise.id,
        exercise.probe.name,
        options,
        exercise.setup,
        exercise.names,
        exercise.limits,
        outside.VERSION,
    )
    digest.update(repr(asked).encode())
    return digest.hexdigest()[:32]


def _observation_key(asked, taken):
    answer = hashlib.sha256(repr((taken.source, tuple(taken.helpers))).encode("utf-8", "surrogatepass")).hexdigest()[
        :32
    ]
    return f"{_question_digest(asked)}-{answer}"


def _packed(observations):
    """Return observations as plain data for the wire's format."""
    return [
        {"value": seen.value}
        | ({"raised": vars(seen.raised)} if seen.raised else {})
        | ({"over": seen.over} if seen.over else {})
        | ({"facts": dict(seen.facts)} if seen.facts else {})
        | ({"notes": dict(seen.notes)} if seen.notes else {})
        for seen in observations
    ]


def _unpacked(packed):
    return tuple(outside.observation_of(one) for one in packed)
