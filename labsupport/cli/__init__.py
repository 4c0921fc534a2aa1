"""The `lab` command: one table of subcommands, each a module of this package that is imported when asked for.

A subcommand `name` lives in `labsupport/cli/name.py` and has two functions: `add_arguments(parser)` declares its
arguments, `run(args)` does the work and returns an exit code. `lab --help` reads the table below and imports nothing.
"""

import argparse
import difflib
import importlib
import importlib.util
import os
import sys

import labsupport
from labsupport.errors import LabError, UsageError

__all__ = ["COMMANDS", "main"]

# group -> {name: what it does, in one line}. The order is the order of `lab --help`.
COMMANDS = {
    "learner": {
        "start": "open the course in JupyterLab (sets up the machine on the first call)",
        "doctor": "look at this machine and say what is missing",
        "lessons": "list the lessons and your progress",
        "check": "run the clean check of a lesson or an exercise as saved on disk",
        "hint": "show the next hint of an exercise",
        "solution": "show a solution, once the exercise is passed, or tried and its hints read",
        "reset": "put one exercise back to its first state (a backup is kept)",
        "update": "bring new course text into your copies and keep your answers",
        "drill": "ask fresh questions of a lesson in the terminal",
    },
    "grader": {
        "grade": "grade a folder, an archive or notebooks; goes on where it stopped",
    },
    "tools": {
        "loaderbench": "measure the loading of your own dataset and say which settings fit it",
        "chunklab": "count what reads of HDF5 and Zarr take, rechunk, advise on chunk shapes",
    },
    "author": {
        "exercises": "list every exercise; --json for programs",
        "build": "build the notebooks from their sources; --check only compares",
        "lint": "check the lesson sources against the house rules",
        "new": "make the skeleton of a lesson or an exercise",
        "test": "run the project's tests; --fast leaves out the browser and the notebooks",
    },
}
_NAMES = tuple(name for group in COMMANDS.values() for name in group)
_FOR = {"learner": "for learners", "grader": "for graders", "tools": "for your own data", "author": "for authors"}


def main(argv=None):
    """Return the exit code of `lab ARGV`: 0 done, 1 a problem was found, 2 wrong use, 3 no grading, 130 interrupted."""
    argv = list(sys.argv[1:] if argv is None else argv)
    _never_fail_on_a_character()
    try:
        code = _dispatch(argv)
        sys.stdout.flush()  # a closed pipe shows itself here, not at exit where nobody can answer for it
        return code
    except LabError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except ModuleNotFoundError as error:
        # Outside an environment the launcher takes this as the sign that one is needed; our own modules are never lost.
        if sys.prefix == sys.base_prefix or str(error.name).startswith("labsupport"):
            raise
        print(_incomplete(error.name), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader (`lab exercises | head`) has seen enough; Python would complain again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except SystemExit as stop:  # argparse leaves this way after --help and after wrong arguments
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)


def _dispatch(argv):
    if not argv or argv[0] in ("-h", "--help"):
        print(_overview())
        return 0
    if argv[0] in ("-V", "--version"):
        print(f"lab {labsupport.__version__}")
        return 0
    if argv[0] == "help":
        return _dispatch([*argv[1:2], "--help"])
    name, rest = argv[0], argv[1:]
    module = _module(name)
    parser = argparse.ArgumentParser(prog=f"lab {name}", description=_help_of(name), allow_abbrev=False)
    module.add_arguments(parser)
    return module.run(parser.parse_args(rest)) or 0


def _module(name):
    if name not in _NAMES:
        raise _unknown(name)
    full = f"{__name__}.{name}"
    if importlib.util.find_spec(full) is None:
        raise LabError(f"lab {name} is not in this release", next_step="lab --help lists what is planned and present")
    return importlib.import_module(full)


def _unknown(name):
    near = difflib.get_close_matches(name, _NAMES, n=2, cutoff=0.5)
    return UsageError(
        f"there is no command {name!r}",
        why=f"the nearest is {' or '.join(near)}" if near else None,
        next_step=f"lab {near[0]} --help" if near else "lab --help lists the commands",
    )


def _incomplete(package):
    return LabError(
        f"the package {package} is missing from {sys.prefix}",
        why="it was removed after the course was set up",
        next_step="delete the folder .venv and run ./lab start: it is made again",
    )


def _overview():
    lines = ["usage: lab COMMAND [...]        lab COMMAND --help explains one command", ""]
    for group, commands in COMMANDS.items():
        lines.append(f"{_FOR[group]}:")
        lines += [f"  {name:<11} {what}" for name, what in commands.items()]
        lines.append("")
    lines.append("Exit codes: 0 done, 1 a problem was found, 2 wrong use, 3 grading failed or is not possible here.")
    return "\n".join(lines)


def _help_of(name):
    return next(group[name] for group in COMMANDS.values() if name in group)


def _never_fail_on_a_character():
    """A console that cannot show a character shows a question mark instead of ending the command."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
