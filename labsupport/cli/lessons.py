"""lab lessons: the lessons and how far you are, in words."""

from labsupport import catalog
from labsupport.journal import Journal
from labsupport.live import progress_of


def add_arguments(parser):
    parser.add_argument("--all", action="store_true", help="list planned lessons too")


def run(args):
    journal = Journal()
    passed = journal.passed()
    for lesson in catalog.lessons():
        if lesson.ready:
            print(f"{lesson.number:02d}  {lesson.slug:<13} {lesson.title}\n{'':19}{progress_of(lesson, passed)}")
        elif args.all:
            print(f"{lesson.number:02d}  {lesson.slug:<13} planned: {lesson.title}")
    if torn := journal.unreadable():
        print(
            f"{torn} line(s) of {journal.path.name} could not be read; they were left as they are and count for nothing"
        )
    return 0
