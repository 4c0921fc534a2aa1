"""The house rules of lesson sources, each a small function; a rule is lifted on the line that needs it:

# %% allow="lengths: one table, read as a whole"
"""

import re

from labsupport import building
from labsupport.linting import exercises, links, numbers, programs, running, shape
from labsupport.linting.lesson import Problem, Text

__all__ = ["Problem", "lint"]

RULES = (*shape.RULES, *exercises.RULES, *links.RULES, *programs.RULES, *numbers.RULES)
NAMES = (
    "answers checks empty exercises header headings installs lengths links marked minutes networks numbers "
    "paths programs pyplot runs setup title"
).split()


def lint(path, run=False, outputs=None):
    """Return the problems of one source file, in line order.

    Args:
        path: a file of `notebooks/source/`.
        run: run the lesson when what it prints is not remembered; without it the numbers rule has less to go by.
        outputs: what each cell prints, when the lesson was run already.
    """
    text = Text.of(path)
    notebook = building.build(path)
    problems = []
    text.outputs = running.remembered(notebook) if outputs is None else outputs
    if text.outputs is None and run:
        text.outputs, stopped = running.printed(notebook, text)
        problems += [stopped] if stopped else []
    for rule in RULES:
        problems += rule(text)
    return sorted(_allowed(text, problems), key=lambda problem: (problem.line, problem.rule))


def _allowed(text, problems):
    """Yield the problems no allowance lifts, and the allowances that are wrong themselves."""
    lifted, used = {}, set()
    for index, cell in enumerate(text.cells):
        for part in filter(None, re.split(r";\s*", str(cell.options.get("allow", "")))):
            rule, _, reason = (piece.strip() for piece in part.partition(":"))
            lifted[index, rule] = cell.line
            if rule not in NAMES or not reason:
                why = "an allowance names a rule and says why" if rule in NAMES else f"rules: {', '.join(NAMES)}"
                yield Problem("allow", cell.line, f"the allowance {part!r}", why, 'allow="lengths: because ..."', index)
    for problem in problems:
        if (problem.cell, problem.rule) in lifted:
            used.add((problem.cell, problem.rule))
        else:
            yield problem
    undecided = "numbers" if text.outputs is None else None
    for (index, rule), line in lifted.items():
        if (index, rule) not in used and rule in NAMES and rule != undecided:
            why = "left in place it would hide the next mistake"
            yield Problem("allow", line, f"the allowance for {rule!r} lifts nothing", why, "remove it", index)
