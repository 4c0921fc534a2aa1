"""lab exercises: every exercise, for people or (--json) for programs."""

import json

from labsupport import catalog


def add_arguments(parser):
    parser.add_argument("lesson", nargs="?", help="one lesson; all when left out")
    parser.add_argument("--json", action="store_true", help="one JSON list")


def run(args):
    lesson = catalog.find_lesson(args.lesson) if args.lesson else None
    found = catalog.exercises(lesson.slug if lesson else None)
    if args.json:
        print(json.dumps([_as_json(e) for e in found], indent=1, ensure_ascii=False))
        return 0
    for exercise in found:
        core = "core" if exercise.core else "more"
        print(f"{exercise.id:<34} {exercise.kind:<10} {core}  level {exercise.level}  {exercise.minutes:>2} min")
    return 0


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
