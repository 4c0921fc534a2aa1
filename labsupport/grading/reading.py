"""What a program says, read by the judge from its text: which forbidden words the answer can reach.

Only what the answer's definition leads to is read: a trial below it, or another cell's work, does not count. What a
program spells while it runs (`getattr` of a text put together) is not seen.
"""

import ast
import re

from labsupport.grading.cells import parse
from labsupport.grading.helping import Offer, modules_in
from labsupport.probing.vocabulary import words_used

__all__ = ["words_reached"]


def words_reached(program, words):
    """Return those of `words` that a program's answer uses, in the order given.

    Args:
        program: a `Program`: the statements of `source` and of `helpers` that bind its names, and those that bind
            or fill what these use, and so on, are read.
        words: as in `labsupport.probing.vocabulary.words_used`.
    """
    texts = [*program.helpers, program.source]
    trees = [parse(text) for text in texts]
    if any(tree is None for tree in trees):
        # Too long or too deep to be read closely, but it may still run: then every mention counts.
        return tuple(word for word in words if any(re.search(rf"\b{re.escape(word)}\b", text) for text in texts))
    statements = [node for tree in trees for node in tree.body]
    modules = modules_in([*statements, *ast.parse(program.setup).body])
    reached = _reached([Offer(node) for node in statements], modules, program.names)
    return words_used("\n".join(offer.text for offer in reached), words)


def _reached(offers, modules, names):
    """Return the statements that the names lead to, in their order."""
    chosen, needed, before = set(), set(names), None
    while before != len(chosen):
        before = len(chosen)
        for i, offer in enumerate(offers):
            if i not in chosen and (offer.binds | (offer.fills - modules)) & needed:
                chosen.add(i)
                needed |= offer.reads
    return [offers[i] for i in sorted(chosen)]
