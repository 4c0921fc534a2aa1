"""lab drill: fresh questions in the terminal."""

import ast
import random
import sys
import warnings

from labsupport import catalog
from labsupport.errors import LabError, UsageError
from labsupport.journal import Journal
from labsupport.showing import plain, show_verdict


def add_arguments(parser):
    parser.add_argument("lesson", nargs="?", help="one lesson; all when left out")
    parser.add_argument("--seed", type=int, help="which stream of questions (a fresh one when left out)")


def run(args):
    """Return 0 when the learner ends the drill, 1 when a lesson's questions could not be asked."""
    if args.seed is not None and args.seed < 0:
        raise UsageError(f"there is no seed {args.seed}", why="seeds count from 0", next_step="lab drill --seed 1")
    slug = None if args.lesson is None else catalog.find_lesson(args.lesson).slug
    found, errors = catalog.readable_exercises(slug)
    for error in errors:
        print(error, file=sys.stderr)
    having = [e for e in found if e.drill]
    if not having:
        if errors:
            return 1
        raise LabError("there is no drill here", next_step="lab drill (all lessons)")
    seed = args.seed if args.seed is not None else random.SystemRandom().randrange(1 << 32)
    print(f"Answer as Python would print it, for example (8, 32). An empty line ends the drill. (seed {seed})")
    right, asked = _ask_on(having, seed)
    print(f"{right} of {asked} right at the first try")
    return int(bool(errors))


def _ask_on(having, seed):
    from labsupport.drilling import Question

    journal, right, asked = Journal(), 0, 0
    questions = [Question(exercise, seed) for exercise in having]
    while True:
        question = questions.pop(0)
        print(f"\n{question.exercise.id}\n{plain(question.text)}")
        verdict = _answer(question, journal)
        if verdict is None:
            return right, asked
        asked += 1
        right += verdict
        questions.append(question.next())


def _answer(question, journal):
    """Return whether the first try was right, or None when the learner leaves."""
    first = None
    while True:
        try:
            typed = input("> ").strip()
        except EOFError:
            return None
        except UnicodeDecodeError:  # a terminal set to another encoding
            print("That was not text in UTF-8; please type it again.")
            continue
        if not typed:
            return None
        verdict = question.judge(_value(typed))
        journal.append(
            "drill", question.exercise.id, outcome=verdict.outcome.value, misconception=verdict.misconception
        )
        print(show_verdict(verdict))
        first = verdict.passed if first is None else first
        if verdict.passed:
            return first


def _value(typed):
    """Return what was typed as a value; anything that is not one counts as a word, such as view and copy."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what Python says of odd literals says nothing about the answer
            return ast.literal_eval(typed)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return typed.strip("'\"")
