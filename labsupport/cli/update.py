"""lab update: bring the course's new text into the learner's copies and keep everything of theirs."""

import sys

from labsupport.places import ROOT

__all__ = ["add_arguments", "run"]


def add_arguments(parser):
    """Declare LESSON."""
    parser.add_argument("lesson", nargs="?", metavar="LESSON", help="only this lesson, or home (default: all copies)")
    parser.epilog = "Save open notebooks first. After a `git pull` this is what brings the news into work/."


def run(args):
    """Return 0 once every copy is current, 1 when one could not be updated (the others are).

    A backup of each changed copy is in work/.lab/backups/.
    """
    from labsupport import workspace as copies
    from labsupport.catalog import find_lesson

    slug = args.lesson
    if slug is not None:
        slug = "home" if slug.removesuffix(".ipynb") == "home" else find_lesson(slug).slug
    try:
        done, failed = copies.update(slug), ()
    except copies.UpdatesFailed as error:
        done, failed = error.done, error.failed
    if not done and not failed:
        print("There are no copies yet: `lab start` makes them.")
    _tell(done)
    for error in failed:
        print(error, file=sys.stderr)
    return int(bool(failed))


def _tell(done):
    for updated in done:
        print(_said(updated))
    if any(updated.changed for updated in done):
        print(
            "\nIf one of these is open in JupyterLab: File, Reload Notebook from Disk. "
            "Should it ask about a changed file, choose Revert;\nOverwrite would put the old version back."
        )


def _said(updated):
    name = updated.path.name
    if not updated.changed:
        return f"{name}: up to date"
    lines = [f"{name}: updated; {_count(len(updated.answers), 'answer')} kept"]
    if updated.both:
        lines.append(
            f"  {_count(updated.both, 'cell')} changed in the course and by you: "
            "yours is right below the new one, marked 'Kept'"
        )
    if updated.gone:
        lines.append(f"  {_count(updated.gone, 'cell')} of yours, no longer in the course, kept and marked 'Kept'")
    if updated.restubbed:
        lines.append(f"  starting code changed, your answer kept: {', '.join(updated.restubbed)}")
    lines.append(f"  the version before: {shown(updated.backup)}")
    return "\n".join(lines)


def _count(number, noun):
    return f"{number} {noun}" + ("" if number == 1 else "s")


def shown(path):
    """Return a path as it is typed from the course's folder, when it lies there."""
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else str(path)
