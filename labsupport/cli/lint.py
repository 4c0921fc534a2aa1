"""lab lint: the house rules, checked on the lesson sources."""

from labsupport.errors import LabError

__all__ = ["add_arguments", "run"]


def add_arguments(parser):
    """Declare LESSON and --run."""
    parser.add_argument("lessons", nargs="*", metavar="LESSON", help="lessons to look at, or home (default: all)")
    parser.add_argument("--run", action="store_true", help="run lessons that changed, to trace the numbers in prose")


def run(args):
    """Return 0 when nothing was found, else 1. A number that only a run can trace is a note until `--run`.

    A source that cannot be read counts as a problem; the others are looked at all the same.
    """
    from labsupport import building, linting
    from labsupport.figures.words import count

    found = undecided = 0
    sources = building.sources(args.lessons)
    for source in sources:
        try:
            problems = linting.lint(source, run=args.run)
        except LabError as error:
            found += 1
            print(error)
            continue
        for problem in problems:
            if problem.rule == "numbers" and problem.next == "lab lint --run":
                undecided += 1
                continue
            found += 1
            print(f"notebooks/source/{source.name}:{problem.line}: {problem.rule}: {problem.what}")
            print(f"  why:  {problem.why}\n  next: {problem.next}")
    if undecided:
        waits = "waits" if undecided == 1 else "wait"
        print(f"{count(undecided, 'number')} in prose {waits} for a run to be traced: lab lint --run")
    print(f"{count(len(sources), 'source')}, {count(found, 'problem')}")
    return 1 if found else 0
