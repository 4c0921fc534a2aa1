"""lab lessons: the lessons and how far you are, in words."""

from labsupport import catalog
from labsupport.errors import LabError
from labsupport.figures.words import count
from labsupport.journal import Journal
from labsupport.live import progress_of


def add_arguments(parser):
    parser.add_argument("--all", action="store_true", help="list planned lessons too")


def run(args):
    """Return 0, or 1 when a lesson could not be read: the others are listed all the same."""
    journal = Journal()
    passed = journal.passed()
    broken = 0
    for lesson in catalog.lessons():
        if lesson.ready:
            progress, whole = _progress(lesson, passed)
            broken += not whole
            print(f"{lesson.number:02d}  {lesson.slug:<13} {lesson.title}\n{'':19}{progress}")
        elif args.all:
            print(f"{lesson.number:02d}  {lesson.slug:<13} planned: {lesson.title}")
    if torn := journal.unreadable():
        print(f"{count(torn, 'line')} of {journal.path.name} could not be read: left as found, and not counted")
    return int(bool(broken))


def _progress(lesson, passed):
    """Return (how far the learner is in a lesson, True), or (what is wrong with the lesson, False)."""
    if lesson.problem:
        return lesson.problem, False
    try:
        return progress_of(lesson, passed), True
    except LabError as error:
        return f"{error.what}: {error.why}", False
