"""What an answer leans on: the statements of other cells that bind or fill the names it reads, and nothing else.

A learner's notebook is one namespace, so an answer may use what an earlier cell made. Only what it reads comes along:
a cell that hangs or breaks something costs the answers that use it, not every answer below it.
"""

import ast
import symtable
import warnings

from labsupport.grading.cells import bound_by, parse

__all__ = ["helpers_of", "talks_to_lesson"]

_LESSON = frozenset(("lab", "lesson", "progress", "get_ipython"))
_MOST = 500  # statements


def helpers_of(source, cells, lesson, setup=""):
    """Return the statements of `cells` that `source` leans on, directly or through others, in their order.

    Args:
        source: the answer's text.
        cells: the cells whose statements may come along: those before the answer, and those up to its check.
        lesson: the `Shipped` lesson; its stubs help nobody.
        setup: lines the answer gets anyway.
    """
    tree = parse(source)
    if tree is None:
        return ()
    usable = [cell for cell in cells if cell.kind == "code" and cell.tree and not lesson.is_stub(cell)]
    nodes = [node for cell in usable for node in cell.tree.body if not talks_to_lesson(node)]
    modules = _modules([*nodes, *(parse(setup) or tree).body])
    offers = [_offers(node, modules) for node in nodes]
    chosen, needed, before = {}, _read_by(source), None
    while before != len(chosen):
        before = len(chosen)
        for i, offered in enumerate(offers):
            if i not in chosen and (offered & needed or "*" in offered):
                chosen[i] = ast.unparse(nodes[i])
                needed |= _read_by(chosen[i])
    texts = [chosen[i] for i in sorted(chosen)]
    imports = {chosen[i] for i in chosen if isinstance(nodes[i], (ast.Import, ast.ImportFrom))}
    once = [text for n, text in enumerate(texts) if text not in imports or text not in texts[:n]]
    return tuple(once[:_MOST])


def talks_to_lesson(node):
    """Return whether a statement needs the lesson object, the course's package or IPython, which are not there."""
    if isinstance(node, ast.Import):
        return any(alias.name.split(".")[0] == "labsupport" for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        return (node.module or "").split(".")[0] == "labsupport"
    return any(isinstance(part, ast.Name) and part.id in _LESSON for part in ast.walk(node))


def _read_by(text):
    """Return the names a text reads from the notebook: what its functions read but do not bind, and all at its top."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            top = symtable.symtable(text, "<cell>", "exec")
    except (SyntaxError, ValueError, RecursionError):
        return {part.id for part in ast.walk(parse(text)) if isinstance(part, ast.Name)}
    found, waiting = set(), [top]
    while waiting:
        scope = waiting.pop()
        waiting += scope.get_children()
        found |= {s.get_name() for s in scope.get_symbols() if s.is_referenced() and (s.is_global() or scope is top)}
    # `x += 1` at the top reads what it binds, and the symbol table does not say so.
    added = (node.target for node in ast.walk(parse(text)) if isinstance(node, ast.AugAssign))
    return found | {target.id for target in added if isinstance(target, ast.Name)}


def _modules(nodes):
    imports = (node for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom)))
    return {name for node in imports for name in bound_by(node)}


def _offers(node, modules):
    """Return the names a statement binds, and the names of things it fills (`table[k] = v`, `rows.append(x)`)."""
    names = set(bound_by(node))
    for part in ast.walk(node):
        if isinstance(part, (ast.Subscript, ast.Attribute)) and isinstance(part.ctx, ast.Store):
            names.add(_base(part))
        elif isinstance(part, ast.Expr) and isinstance(part.value, ast.Call):
            names |= {_base(part.value.func)} - modules if isinstance(part.value.func, ast.Attribute) else set()
    return names - {None}


def _base(node):
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None
