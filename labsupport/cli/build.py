"""`lab build`: notebooks from their sources, or only the comparison."""

import sys

from labsupport import building
from labsupport.errors import LabError

__all__ = ["add_arguments", "run"]


def add_arguments(parser):
    parser.add_argument("lessons", nargs="*", metavar="LESSON", help="lessons to build, or home (default: all)")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a notebook is out of date")


def run(args):
    """Return 0 when every notebook is (or was brought) up to date, 1 when `--check` found one that is not.

    A source that cannot be built is told on the error output and makes it 1; the others are built all the same.
    """
    different = failed = 0
    for source in building.sources(args.lessons):
        try:
            different += _build(source, check=args.check)
        except LabError as error:
            failed += 1
            print(error, file=sys.stderr)
    for path in [] if args.lessons else _orphans():
        different += 1
        print(f"notebooks/{path.name} has no source\n  why:  it was renamed or removed\n  next: delete the notebook")
    if not different and not failed:
        print("every notebook is what its source says")
    return 1 if failed or (args.check and different) else 0


def _build(source, check):
    """Return whether the notebook was not what its source says; without `check` it is now."""
    path = building.built(source)
    wanted = building.dump(building.build(source)).encode("utf-8")
    if path.is_file() and path.read_bytes() == wanted:
        return False
    if check:
        print(_stale(path, wanted, source))
    else:
        from labsupport.workspace.atomic import write_atomic

        write_atomic(path, wanted)
        print(f"built notebooks/{path.name}")
    return True


def _orphans():
    wanted = {building.built(source) for source in building.sources()}
    return [path for path in sorted(building.NOTEBOOKS.glob("*.ipynb")) if path not in wanted]


def _stale(path, wanted, source):
    shown = f"notebooks/{path.name}"
    again = f"lab build {source.stem}"
    if not path.is_file():
        return f"{shown} is missing\n  why:  it was not built\n  next: {again}"
    now = path.read_bytes().decode("utf-8", "replace").splitlines()
    want = wanted.decode("utf-8").splitlines()
    pairs = zip(now, want, strict=False)
    line = next((n for n, (a, b) in enumerate(pairs, 1) if a != b), min(len(now), len(want)) + 1)
    if now == want:
        why = "its line ends are not LF: an editor or git rewrote them"
    else:
        why = f"it first differs on line {line}: the notebook was edited, or not rebuilt"
    return f"{shown} differs from notebooks/source/{source.name}\n  why:  {why}\n  next: {again}"
