"""lab check: the clean check of a notebook as saved."""

from labsupport import catalog
from labsupport.errors import LabError
from labsupport.journal import Journal
from labsupport.places import workspace
from labsupport.showing import show_verdict


def add_arguments(parser):
    parser.add_argument("what", nargs="?", help="a lesson or an exercise id; all started lessons when left out")


def run(args):
    """Print a verdict per exercise; exit code 1 when one that was answered is not right."""
    worst = 0
    for lesson, exercises in _asked(args.what):
        path = workspace() / lesson.notebook
        if not path.is_file():
            raise LabError(f"{lesson.notebook} is not in your workspace", next_step=f"lab start {lesson.slug}")
        print(f"{lesson.notebook}: checking {len(exercises)} answer(s) as saved")
        worst = max(worst, _check(path, exercises))
    return worst


def _asked(what):
    if what is None:
        started = [k for k in catalog.lessons() if k.ready and (workspace() / k.notebook).is_file()]
        if not started:
            raise LabError("no lesson is in your workspace yet", next_step="lab start")
        return [(lesson, catalog.exercises(lesson.slug)) for lesson in started]
    if "/" in what and not what.endswith(".ipynb"):
        exercise = catalog.find_exercise(what)
        return [(catalog.find_lesson(exercise.slug), (exercise,))]
    lesson = catalog.find_lesson(what)
    return [(lesson, catalog.exercises(lesson.slug))]


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
