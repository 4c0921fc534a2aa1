"""The clean check: answers are taken from the saved notebook and run apart from everything the kernel holds.

`clean_check` is the interface; who runs the answers is its `run` argument. On Linux that is the grader's own engine,
caged as well as the machine allows, with the public inputs; elsewhere a plain child process.
"""

import sys
from dataclasses import dataclass

from labsupport.course import Outcome, Verdict
from labsupport.disagreeing import why_they_disagree
from labsupport.grading.finding import take_answers
from labsupport.grading.notebooks import Unreadable, read_bytes, read_notebook

__all__ = ["Checked", "clean_check", "run_apart"]


@dataclass(frozen=True, kw_only=True)
class Checked:
    """One answer's clean check.

    Args:
        verdict: the `Verdict`.
        how: which cell was taken as the answer, and why.
        disagrees: why it does not pass although the live check did, or "".
    """

    verdict: Verdict
    how: str = ""
    disagrees: str = ""


def clean_check(path, exercises, *, journal=None, run=None):
    """Return {exercise id: Checked} for the answers saved in a notebook; nothing of the notebook is changed.

    Args:
        path: the learner's notebook.
        exercises: the exercises to check, all of one lesson.
        journal: the workspace's `Journal`, to say why the live check disagreed.
        run: `run(taken) -> iterator of verdicts`; `run_apart` when None.
    """
    try:
        notebook = read_notebook(read_bytes(path, follow=True))
    except Unreadable as error:
        why = f"{path.name} cannot be read as a notebook. {error.what}"
        step = f"{error.next_step} The file was left as it is."
        verdict = {"outcome": Outcome.UNREADABLE, "why": why, "next": step}
        return {e.id: Checked(verdict=Verdict(exercise=e.id, **verdict)) for e in exercises}
    taken = {t.exercise: t for t in take_answers(notebook.cells, exercises)}
    verdicts = {t.exercise: _not_found(t) for t in taken.values() if not t.source}
    verdicts |= {v.exercise: v for v in (run or run_apart)([t for t in taken.values() if t.source])}
    cells = [(cell.id, cell.program) for cell in notebook.cells if cell.kind == "code"]

    def checked(exercise):
        verdict, one = verdicts[exercise.id], taken[exercise.id]
        cause = why_they_disagree(exercise, verdict, one, cells, journal) if journal else ""
        return Checked(verdict=verdict, how=one.how, disagrees=cause)

    return {e.id: checked(e) for e in exercises}


def run_apart(taken):
    """Yield a verdict per `Taken`: by the grader's engine where a cage or a fence can be had, else by a plain child."""
    if sys.platform != "linux":
        from labsupport.plain_child import run_in_child

        yield from run_in_child(taken)
        return
    from labsupport.grading.engine import check_answers
    from labsupport.grading.runner import Runner

    if taken:
        with Runner(feedback=True) as runner:
            yield from check_answers(taken, runner)


def _not_found(taken):
    outcome, why = Outcome.NOT_YET, "No cell of the saved notebook answers this exercise."
    if taken.unreadable:
        outcome, why = Outcome.UNREADABLE, taken.unreadable
    step = f"`lab reset {taken.exercise}` puts its cell back; your other cells stay."
    return Verdict(exercise=taken.exercise, outcome=outcome, why=why, next=step)
