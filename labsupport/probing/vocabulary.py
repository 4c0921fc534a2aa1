"""Which words a program uses: statements and names, read from its syntax tree."""

import ast
import textwrap

__all__ = ["STATEMENTS", "words_used"]

STATEMENTS = {
    "for": (ast.For, ast.AsyncFor),
    "while": (ast.While,),
    "comprehension": (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
    "if": (ast.If, ast.IfExp),
    "try": (ast.Try,),
    "import": (ast.Import, ast.ImportFrom),
    "lambda": (ast.Lambda,),
}


def words_used(source, words, namespace=None):
    """Return those of `words` that the source uses, in the order given.

    Args:
        source: a program's text.
        words: names of statements (keys of `STATEMENTS`) or identifiers: attributes and keywords count, and so does a
            text that is nothing but the word, as in `getattr(np, "broadcast_to")`.
        namespace: where its names are looked up, so that a function under another name is known for what it is.
    """
    tree = ast.parse(textwrap.dedent(source))
    identifiers, nodes = set(), set()
    for node in ast.walk(tree):
        nodes.add(type(node))
        for attribute in ("id", "attr", "arg", "value"):
            if isinstance(value := getattr(node, attribute, None), str):
                identifiers.add(value)
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            identifiers.update(alias.name.split(".")[-1] for alias in node.names)
    known = (getattr((namespace or {}).get(name), "__name__", None) for name in tuple(identifiers))
    identifiers.update(name for name in known if isinstance(name, str))
    used = [w for w in words if (any(n in nodes for n in STATEMENTS[w]) if w in STATEMENTS else w in identifiers)]
    return tuple(used)
