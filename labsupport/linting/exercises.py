"""Rules on exercises: each once, checked once, known by name, and used by nobody but the lesson object."""

import ast
import re
from collections import Counter

from labsupport.answering import without_magic
from labsupport.building import checks_in
from labsupport.catalog import marker_of
from labsupport.linting.lesson import Problem, tree_of

__all__ = ["RULES"]

_NAMED = re.compile(r"\blab\.(hint|solution|drill)\(\s*[\"']([\w/-]+)[\"']")


def present(text):
    """Every exercise of the lesson's module has one cell, and every marker names one of them."""
    if not text.slug:
        return
    found = [(index, marker_of(cell.text)) for index, cell in text.of_kind("code") if marker_of(cell.text)]
    counts = Counter(marker for _, marker in found)
    for index, marker in found:
        line = text.at(index, "# exercise:")
        if marker not in text.exercises:
            yield _unknown(text, line, f"the marker names {marker!r}", index)
        elif counts[marker] > 1:
            why = f"it has {counts[marker]} cells, so which one answers it is not clear"
            yield Problem("exercises", line, f"{marker} appears more than once", why, "keep one of them", index)
    for missing in [known for known in text.exercises if known not in counts]:
        why = f"labsupport/exercises/{text.slug}.py declares it, and nobody could answer it"
        yield Problem("exercises", 1, f"{missing} has no cell", why, f"add a cell that begins `# exercise: {missing}`")


def stubs(text):
    """An exercise's cell defines what its answer must define."""
    for index, cell in text.of_kind("code"):
        exercise = text.exercises.get(marker_of(cell.text))
        if exercise is None:
            continue
        missing = [name for name in exercise.names if name not in _bound(tree_of(without_magic(cell.text)))]
        if missing:
            why = "a learner who fills in the cell would still be told that the name is missing"
            what = f"the cell of {exercise.id} does not define {missing[0]}"
            yield Problem("exercises", cell.line, what, why, f"begin it with `{missing[0]} = ...` or a stub", index)


def checks(text):
    """Every exercise is checked once, alone in the cell after its own, and every id that is used is known."""
    if not text.slug:
        return
    prefix = text.slug.replace("_", "-")
    found = []
    for index, cell in text.of_kind("code"):
        for name in checks_in(cell.text):
            found.append((index, name if "/" in name else f"{prefix}/{name}", text.at(index, name)))
            if cell.text.count("\n"):
                why = "what else it does would be run again with every check"
                yield Problem("checks", cell.line, "a check shares its cell", why, "give it a cell of its own", index)
        for how, name in _NAMED.findall(cell.text):
            if (name if "/" in name else f"{prefix}/{name}") not in text.exercises:
                yield _unknown(text, text.at(index, name), f"lab.{how} names {name!r}", index)
    counts = Counter(name for _, name, _ in found)
    for index, name, line in found:
        if name not in text.exercises:
            yield _unknown(text, line, f"lab.check names {name!r}", index)
        elif counts[name] > 1:
            why = "progress and the two runs of the lesson count one check per exercise"
            yield Problem("checks", line, f"{name} is checked {counts[name]} times", why, "keep one check", index)
    yield from _unchecked(text, counts)


def _unchecked(text, counts):
    for index, cell in text.of_kind("code"):
        marker = marker_of(cell.text)
        if marker in text.exercises and not counts[marker]:
            why = "nobody is told whether the answer is right"
            step = f'add a cell `lab.check("{marker.split("/")[1]}")` below'
            yield Problem("checks", cell.line, f"{marker} is never checked", why, step, index)


def answers(text):
    """The course's cells never touch the learner's answers except through `lab`."""
    names = {name: known.id for known in text.exercises.values() for name in known.names}
    for index, cell in text.of_kind("code"):
        own = text.exercises.get(marker_of(cell.text))
        for name in sorted(_used(tree_of(cell.text)) & set(names)):
            if own is None or name not in own.names:
                why = f"it is the answer of {names[name]}, which is a stub in the lesson as shipped"
                step = "use another name, or reach it through lab.check"
                yield Problem("answers", text.at(index, name), f"the cell uses {name}", why, step, index)


def _bound(tree):
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    stores = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    return names | {node.id for node in stores}


def _used(tree):
    """Return the names a cell reads or binds at its top level, outside of arguments of `lab.*(...)`."""
    through_lab = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if isinstance(node.func.value, ast.Name) and node.func.value.id == "lab":
                through_lab |= {id(leaf) for leaf in ast.walk(node)}
    local = {id(leaf) for inner in ast.walk(tree) if _is_scope(inner) for leaf in _own_names(inner)}
    names = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and id(n) not in through_lab | local]
    return {node.id for node in names} | {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def _is_scope(node):
    return isinstance(node, ast.FunctionDef | ast.Lambda | ast.comprehension | ast.ListComp | ast.GeneratorExp)


def _own_names(scope):
    """Return the uses of a function's or comprehension's own names: another thing than the lesson's."""
    arguments = getattr(scope, "args", None)
    own = {a.arg for a in ast.walk(arguments) if isinstance(a, ast.arg)} if arguments else set()
    leaves = [leaf for leaf in ast.walk(scope) if isinstance(leaf, ast.Name)]
    own |= {leaf.id for leaf in leaves if isinstance(leaf.ctx, ast.Store)}
    return [leaf for leaf in leaves if leaf.id in own]


def _unknown(text, line, what, index):
    why = f"labsupport/exercises/{text.slug}.py has no exercise of that name"
    known = ", ".join(text.exercises) or "none"
    return Problem("exercises", line, what, why, f"exercises of this lesson: {known}", index)


RULES = (present, stubs, checks, answers)
