"""lab reset: put one exercise back to its first state."""

import sys

from labsupport.cli.update import shown
from labsupport.errors import UsageError
from labsupport.places import command

__all__ = ["add_arguments", "run"]


def add_arguments(parser):
    """Declare EXERCISE and --yes."""
    parser.add_argument("exercise", metavar="EXERCISE", help="its id, for example strides/address-of")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def run(args):
    """Return 0 once the exercise is at its first state, 1 when the learner changed their mind."""
    from labsupport import workspace as copies
    from labsupport.catalog import find_exercise

    exercise = find_exercise(args.exercise)
    if not args.yes and not _agreed(exercise):
        print("Nothing was changed.")
        return 1
    path, backup = copies.reset(exercise.id)
    if backup is None:
        print(f"{exercise.id} in {path.name} is already at its first state, as saved. If JupyterLab shows an answer")
        print("there, it is not saved: save the notebook (Ctrl-S, on a Mac Cmd-S), then repeat the command.")
        return 0
    print(f"{exercise.id} in {path.name} is back to its first state; your other cells are as they were.")
    print(f"The version before: {shown(backup)}")
    print("If it is open in JupyterLab: File, Reload Notebook from Disk (at a question about a changed file: Revert).")
    return 0


def _agreed(exercise):
    if not sys.stdin or not sys.stdin.isatty():
        raise UsageError(f"{command()} reset asks before it resets", next_step=f"{command()} reset {exercise.id} --yes")
    print(
        "If the notebook is open in JupyterLab, save it first (Ctrl-S, on a Mac Cmd-S): the backup is of what is saved."
    )
    try:
        answer = input(f"Replace your answer to {exercise.id} by its starting code? [y/N] ")
    except EOFError:
        return False
    return answer.strip().lower() in ("y", "yes")
