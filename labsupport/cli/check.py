"""lab check: the clean check of a notebook as saved."""

import sys

from labsupport import catalog
from labsupport.errors import LabError
from labsupport.figures.words import count
from labsupport.journal import Journal
from labsupport.places import workspace
from labsupport.showing import show_verdict


def add_arguments(parser):
    parser.add_argument("what", nargs="?", help="a lesson or an exercise id; all started lessons when left out")


def run(args):
    """Print a verdict per exercise; exit code 1 when one that was answered is not right.

    Of several lessons one that cannot be checked is told on the error output, and the others are checked.
    """
    if args.what is not None:
        return _lesson(*_asked(args.what))
    started = [lesson for lesson in catalog.lessons() if lesson.ready and (workspace() / lesson.notebook).is_file()]
    if not started:
        raise LabError("no lesson is in your workspace yet", next_step="lab start")
    worst = 0
    for lesson in started:
        try:
            worst = max(worst, _lesson(lesson))
        except LabError as error:
            print(error, file=sys.stderr)
            worst = max(worst, error.exit_code)
    return worst


def _asked(what):
    """Return the lesson asked for, and its exercises when not all are meant."""
    if "/" in what and not what.endswith(".ipynb"):
        exercise = catalog.find_exercise(what)
        return catalog.find_lesson(exercise.slug), (exercise,)
    return catalog.find_lesson(what), None


def _lesson(lesson, exercises=None):
    exercises = catalog.exercises(lesson.slug) if exercises is None else exercises
    path = workspace() / lesson.notebook
    if not path.is_file():
        raise LabError(f"{lesson.notebook} is not in your workspace", next_step=f"lab start {lesson.slug}")
    print(f"{lesson.notebook}: checking {count(len(exercises), 'answer')} as saved")
    return _check(path, exercises)


def _check(path, exercises):
    from labsupport.clean import clean_check

    journal = Journal()
    checked = clean_check(path, exercises, journal=journal)
    verdicts = [one.verdict for one in checked.values()]
    for verdict in verdicts:
        journal.append("clean", verdict.exercise, outcome=verdict.outcome.value, misconception=verdict.misconception)
    waiting = [v.exercise for v in verdicts if v.outcome.value == "not yet"]
    for one in checked.values():
        if one.verdict.outcome.value != "not yet" or one.disagrees:
            print(show_verdict(one.verdict, notes=[("live", one.disagrees)]))
    if waiting:
        print(f"not yet: {', '.join(waiting)}")
    passed = sum(v.passed for v in verdicts)
    print(f"{passed} passed, {len(waiting)} not yet, {len(verdicts) - passed - len(waiting)} to look at")
    return int(passed + len(waiting) < len(verdicts))
