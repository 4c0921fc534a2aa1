"""lab exercises: every exercise, for people or (--json) for programs."""

import json
import sys

from labsupport import catalog


def add_arguments(parser):
    parser.add_argument("lesson", nargs="?", help="one lesson; all when left out")
    parser.add_argument("--json", action="store_true", help="one JSON list")


def run(args):
    """Return 0, or 1 when a lesson's exercises could not be read: the others are listed all the same."""
    slug = None if args.lesson is None else catalog.find_lesson(args.lesson).slug
    found, errors = catalog.readable_exercises(slug)
    if args.json:
        print(json.dumps([_as_json(e) for e in found], indent=1, ensure_ascii=False))
    else:
        for exercise in found:
            core = "core" if exercise.core else "more"
            print(f"{exercise.id:<34} {exercise.kind:<10} {core}  level {exercise.level}  {exercise.minutes:>2} min")
    for error in errors:
        print(error, file=sys.stderr)
    return int(bool(errors))


def _as_json(exercise):
    points = exercise.points if isinstance(exercise.points, (int, float)) else dict(exercise.points)
    return {
        "id": exercise.id,
        "lesson": exercise.slug,
        "kind": exercise.kind,
        "core": exercise.core,
        "names": list(exercise.names),
        "task": exercise.task,
        "cases": [case.label for case in exercise.cases],
        "misconceptions": [m.id for m in exercise.misconceptions],
        "hints": list(exercise.hints),
        "points": points,
        "level": exercise.level,
        "minutes": exercise.minutes,
    }
