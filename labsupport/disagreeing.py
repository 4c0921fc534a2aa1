"""Why an answer that passed in the kernel does not pass as saved: the cause in a sentence, when it can be known."""

import ast
import hashlib
import re

from labsupport import answering
from labsupport.course import Outcome

__all__ = ["digest_of_answer", "why_they_disagree"]

_NAME = re.compile(r"NameError: name '(\w+)' is not defined")


def digest_of_answer(exercise, *, source=None, namespace=None):
    """Return a digest of an answer that does not depend on layout or comments, or None.

    Args:
        exercise: the exercise.
        source: text that holds the answer's definition, or a prediction's assignments.
        namespace: where a prediction's values are, instead of `source`.
    """
    if exercise.kind == "prediction":
        values = namespace if namespace is not None else _assigned(source)
        told = repr([(name, values.get(name, ...)) for name in exercise.names])
    else:
        definition = answering.definition_in(source or "", exercise.names[0])
        if definition is None:
            return None
        told = ast.dump(ast.parse(definition))
    return hashlib.sha256(told.encode("utf-8", "backslashreplace")).hexdigest()[:16]


def _assigned(source):
    """Return the literals assigned in a text, by name."""
    found = {}
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return found
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            try:
                found[node.targets[0].id] = ast.literal_eval(node.value)
            except (ValueError, TypeError, SyntaxError):
                found[node.targets[0].id] = ast.unparse(node.value)
    return found


def why_they_disagree(exercise, verdict, taken, cells, journal):
    """Return one sentence on why the live check passed and the clean one did not, or "" when that is not the case.

    Args:
        exercise: the exercise.
        verdict: the clean verdict.
        taken: what was taken from the saved notebook (`Taken`).
        cells: the notebook's code cells, [(id, source)].
        journal: the workspace's `Journal`.
    """
    live = [r for r in journal.about(exercise.id) if r["event"] == "check"]
    if verdict.passed or verdict.outcome is Outcome.UNREADABLE or not live or live[-1].get("outcome") != "passed":
        return ""
    cause = (
        _unsaved(exercise, live[-1], taken)
        or _missing_name(verdict, taken, cells)
        or _missing_file(verdict)
        or _overwritten(exercise, taken, cells)
    )
    return cause or "The kernel holds something the saved notebook does not make: restart it and run all cells."


def _unsaved(exercise, record, taken):
    saved = digest_of_answer(exercise, source=taken.source)
    if record.get("answer") and record["answer"] != saved:
        return "The answer that passed in the kernel is not the one in the file: save the notebook, then check again."
    return ""


def _missing_name(verdict, taken, cells):
    """The answer leans on a name: made in a later cell, or in no cell at all."""
    match = _NAME.search(verdict.why) or _NAME.search(verdict.seen)
    if not match:
        return ""
    name, place = match[1], next((i for i, (_, text) in enumerate(cells) if text == taken.source), len(cells))
    later = [i for i, (_, text) in enumerate(cells) if i > place and _binds(text, name)]
    if later:
        return f"`{name}` is defined in a cell below the answer: move that cell up."
    if not any(_binds(text, name) for _, text in cells):
        return f"`{name}` is in your kernel, but no cell of the notebook defines it: its cell was deleted or renamed."
    return ""


def _binds(text, name):
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and node.name == name:
            return True
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store):
            return True
        if isinstance(node, ast.alias) and (node.asname or node.name).split(".")[0] == name:
            return True
    return False


def _missing_file(verdict):
    if "FileNotFoundError" in verdict.why + verdict.seen:
        return "The answer reads a file that lies in your folder only: read what the lesson gives, or its inputs."
    return ""


def _overwritten(exercise, taken, cells):
    name = exercise.names[0]
    if sum(_binds(text, name) for _, text in cells) > 1:
        return (
            f"`{name}` is defined in more than one cell; the kernel may hold another one than the cell that was taken."
        )
    return ""
