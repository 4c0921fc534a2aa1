"""What a program says, read by the judge from its text: which forbidden words the answer can reach.

Only what the answer's definition leads to is read: a trial below it, or another cell's work, does not count. What a
program spells while it runs (`getattr` of a text put together) is not seen.
"""

import ast
import re
import symtable

from labsupport.grading.cells import bound_by, parse
from labsupport.probing.vocabulary import words_used

__all__ = ["words_reached"]


def words_reached(program, words):
    """Return those of `words` that a program's answer uses, in the order given.

    Args:
        program: a `Program`: the statements of `source` and of `helpers` that bind its names, and those that bind
            what these use, and so on, are read.
        words: as in `labsupport.probing.vocabulary.words_used`.
    """
    texts = [*program.helpers, program.source]
    trees = [parse(text) for text in texts]
    if any(tree is None for tree in trees):
        # Too long or too deep to be read closely, but it may still run: then every mention counts.
        return tuple(word for word in words if any(re.search(rf"\b{re.escape(word)}\b", text) for text in texts))
    statements = [node for tree in trees for node in tree.body]
    reached = _reached(statements, program.names)
    return words_used("\n".join(ast.unparse(node) for node in reached), words)


def _reached(statements, names):
    binding = {}
    for node in statements:
        for name in bound_by(node):
            binding.setdefault(name, []).append(node)
    found, waiting = [], list(names)
    looked_up = set()
    while waiting:
        name = waiting.pop()
        if name in looked_up:
            continue
        looked_up.add(name)
        for node in binding.get(name, ()):
            if node not in found:
                found.append(node)
                waiting += _looks_up(node)
    return [node for node in statements if node in found]


def _looks_up(node):
    """Return the global names a statement uses, those of the functions in it included; its local names are not."""
    try:
        tables = [symtable.symtable(ast.unparse(node), "answer", "exec")]
    except (SyntaxError, ValueError, RecursionError):
        return [part.id for part in ast.walk(node) if isinstance(part, ast.Name)]
    names = set()
    while tables:
        table = tables.pop()
        tables += table.get_children()
        at_top = table.get_type() == "module"
        names |= {s.get_name() for s in table.get_symbols() if s.is_referenced() and (at_top or s.is_global())}
    return sorted(names)
