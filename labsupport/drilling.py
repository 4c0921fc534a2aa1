"""Endless fresh questions: asked from a seed, answered by running the thing itself."""

import dataclasses

import numpy as np

from labsupport.course import Case
from labsupport.observing import verdict_on
from labsupport.probing import Subject
from labsupport.showing import Message, show_verdict

__all__ = ["Question"]


_SECRET_TRIES = 2


class Question:
    """One question of a drill.

    Args:
        exercise: an `Exercise` with a `drill`.
        seed: which stream of questions.
        number: which question of the stream, from 1.
    """

    def __init__(self, exercise, seed, number=1):
        self.exercise, self.seed, self.number = exercise, seed, number
        self._inputs = exercise.drill.make(np.random.default_rng([seed, number]))
        self.text = exercise.drill.ask(*self._inputs)
        self._tries = 0

    def next(self):
        """Return the question after this one."""
        return Question(self.exercise, self.seed, self.number + 1)

    def judge(self, answer):
        """Return the verdict on an answer, with the misconception it shows if one is known.

        The right answer is told from the third wrong one on.
        """
        self._tries += 1
        name = self.exercise.names[0]
        case = Case(f"question {self.number}", lambda rng: self._inputs)
        one = dataclasses.replace(self.exercise, names=(name,), cases=(case,))
        return verdict_on(one, Subject((name,), {name: answer}), reveal=self._tries > _SECRET_TRIES)

    def asked(self):
        """Return the question as a `Message`."""
        return Message(
            f"Question {self.number}",
            [("question", self.text), ("next", "Replace the `...` by your answer and run this cell again.")],
        )

    def answered(self, verdict, following):
        """Return the verdict, and the question that is open now."""
        if not verdict.passed:
            return show_verdict(
                verdict,
                notes=[
                    ("question", self.text),
                    ("help", "The question stays: correct your answer and run the cell again."),
                ],
            )
        lines = [("question", following.text), ("next", "Put your next answer in the same cell.")]
        return Message(f"passed   question {self.number}.   Question {following.number}:", lines, "good")
