"""lab drill: fresh questions in the terminal."""

import ast
import random

from labsupport import catalog
from labsupport.errors import LabError
from labsupport.journal import Journal
from labsupport.showing import show_verdict


def add_arguments(parser):
    parser.add_argument("lesson", nargs="?", help="one lesson; all when left out")
    parser.add_argument("--seed", type=int, help="which stream of questions (a fresh one when left out)")


def run(args):
    lesson = catalog.find_lesson(args.lesson) if args.lesson else None
    having = [e for e in catalog.exercises(lesson.slug if lesson else None) if e.drill]
    if not having:
        raise LabError("there is no drill here", next_step="lab drill (all lessons)")
    seed = args.seed if args.seed is not None else random.SystemRandom().randrange(1 << 32)
    print(f"Answer as Python would print it, for example (8, 32). An empty line ends the drill. (seed {seed})")
    right, asked = _ask_on(having, seed)
    print(f"{right} of {asked} right at the first try")
    return 0


def _ask_on(having, seed):
    from labsupport.drilling import Question

    journal, right, asked = Journal(), 0, 0
    questions = [Question(exercise, seed) for exercise in having]
    while True:
        question = questions.pop(0)
        print(f"\n{question.exercise.id}\n{question.text}")
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
        if not typed:
            return None
        try:
            value = ast.literal_eval(typed)
        except (ValueError, SyntaxError):
            value = typed.strip("'\"")  # words such as view and copy may be typed bare
        verdict = question.judge(value)
        journal.append(
            "drill", question.exercise.id, outcome=verdict.outcome.value, misconception=verdict.misconception
        )
        print(show_verdict(verdict))
        first = verdict.passed if first is None else first
        if verdict.passed:
            return first
