"""How lesson 09 makes wrong programs out of right ones, and programs of single numbers out of nothing."""

import inspect
import textwrap

import numpy as np

__all__ = ["altered", "random_program"]


def altered(right, *changes):
    """Return the source of a function or class (or this text) with each (old, new) replaced; old must occur once."""
    text = right if isinstance(right, str) else textwrap.dedent(inspect.getsource(right))
    for old, new in changes:
        if text.count(old) != 1:
            raise ValueError(f"{old!r} occurs {text.count(old)} times in\n{text}")
        text = text.replace(old, new)
    return text


def random_program(seed, leaves, steps, ops=("+", "-", "*", "/", "tanh", "exp", "log", "relu", "**2", "**-1")):
    """Return instructions on numbered values, as the drivers run them: every leaf is used, and no value grows large.

    Args:
        seed: of the structure; which numbers the leaves hold is another matter.
        leaves: how many values there are to begin with.
        steps: how many operations are drawn; each is followed by a tanh and a shift that keep it between 1 and 3.
        ops: what is drawn from.
    """
    rng = np.random.default_rng(seed)
    program, last = [], leaves - 1
    ready = list(range(leaves))
    for step in range(steps):
        op = str(rng.choice(ops))
        first = step if step < leaves else int(rng.choice(ready))
        second = int(rng.choice(ready))
        program.append((op, first, second) if op in "+-*/" else (op, first))
        program.append(("tanh", last + 1))
        program.append(("+", last + 2, ("number", 2.0)))
        last += 3
        ready.append(last)
    for other in ready[leaves:-1]:
        program.append(("+", last, other))
        last += 1
    return program
