"""What an answer leans on: the statements of other cells that bind or fill the names it reads, and nothing else.

A learner's notebook is one namespace, so an answer may use what an earlier cell made. Only what it reads comes along:
a cell that hangs or breaks something costs the answers that use it, not every answer below it.
"""

import ast
import functools
import symtable
import warnings

from labsupport.grading.cells import bound_by, parse

__all__ = ["Offer", "helpers_of", "modules_in", "offers_of", "talks_to_lesson"]

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
    usable = [c for c in cells if c.kind == "code" and c.tree and not c.on_ranks and not lesson.is_stub(c)]
    offered = [offer for cell in usable for offer in offers_of(cell)]
    modules = modules_in([*(offer.node for offer in offered), *(parse(setup) or tree).body])
    offers = [offer.binds | (offer.fills - modules) for offer in offered]
    chosen, needed, before = set(), set(_read_by(source, tree)), None
    while before != len(chosen) < _MOST:
        before = len(chosen)
        for i, names in enumerate(offers):
            if i not in chosen and (names & needed or "*" in names):
                chosen.add(i)
                needed |= offered[i].reads
    imported = set()
    return tuple(offered[i].text for i in sorted(chosen)[:_MOST] if not _is_repeated(offered[i], imported))


def _is_repeated(offer, imported):
    """Whether the same import came before; every cell may begin with the same ones."""
    if not isinstance(offer.node, (ast.Import, ast.ImportFrom)):
        return False
    known = offer.text in imported
    imported.add(offer.text)
    return known


class Offer:
    """A statement, the names it binds, and the names of things it fills (`table[k] = v`, `rows.append(x)`)."""

    def __init__(self, node):
        self.node = node
        self.binds, self.fills = frozenset(bound_by(node)), frozenset(_filled_by(node))

    @functools.cached_property
    def text(self):
        try:
            return ast.unparse(self.node)
        except (ValueError, RecursionError):  # a text within a text that cannot be quoted once more
            return "pass"

    @functools.cached_property
    def reads(self):
        return _read_by(self.text, self.node)


def offers_of(cell):
    """Return the offers of a cell's statements; kept with the cell, since every answer of a notebook asks."""
    if "offers" not in vars(cell):
        body = cell.tree.body if cell.tree else ()
        vars(cell)["offers"] = tuple(Offer(node) for node in body if not talks_to_lesson(node))
    return vars(cell)["offers"]


def talks_to_lesson(node):
    """Return whether a statement needs the lesson object, the course's package or IPython, which are not there."""
    if isinstance(node, ast.Import):
        return any(alias.name.split(".")[0] == "labsupport" for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        return (node.module or "").split(".")[0] == "labsupport"
    return any(isinstance(part, ast.Name) and part.id in _LESSON for part in ast.walk(node))


def _read_by(text, tree):
    """Return the names a text reads from the notebook: what its functions read but do not bind, and all at its top.

    Args:
        text: statements; written out from a tree it may be longer than what somebody may hand in.
        tree: the same as a syntax tree.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            top = symtable.symtable(text, "<cell>", "exec")
    except (SyntaxError, ValueError, RecursionError):
        return {part.id for part in ast.walk(tree) if isinstance(part, ast.Name)}
    found, waiting = set(), [top]
    while waiting:
        scope = waiting.pop()
        waiting += scope.get_children()
        found |= {s.get_name() for s in scope.get_symbols() if s.is_referenced() and (s.is_global() or scope is top)}
    # `x += 1` at the top reads what it binds, and the symbol table does not say so.
    added = (node.target for node in ast.walk(tree) if isinstance(node, ast.AugAssign))
    return found | {target.id for target in added if isinstance(target, ast.Name)}


def modules_in(nodes):
    """Return the names that import statements bind."""
    imports = (node for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom)))
    return {name for node in imports for name in bound_by(node)}


def _filled_by(node):
    for part in ast.walk(node):
        if isinstance(part, (ast.Subscript, ast.Attribute)) and isinstance(part.ctx, ast.Store):
            base = _base(part)
        elif isinstance(part, ast.Expr) and isinstance(part.value, ast.Call):
            base = _base(part.value.func) if isinstance(part.value.func, ast.Attribute) else None
        else:
            continue
        if base is not None:
            yield base


def _base(node):
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None
