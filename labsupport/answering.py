"""Answers as text: taken from objects, compared as programs, executed in an empty namespace."""

import ast
import functools
import hashlib
import inspect
import linecache
import re
import textwrap

from labsupport.course import Answer, Exercise

__all__ = [
    "definition_in", "live_source", "load", "reference_answer", "same_program", "source_of", "specimen_answer",
    "without_magic",
]  # fmt: skip


def source_of(obj, name, setup=""):
    """Return the source of a function, class or text, renamed to `name`, with `setup` before it.

    Args:
        obj: a function or class written with `def` or `class`, or source text that already uses `name`.
        name: the name the exercise declares.
        setup: lines the source may rely on.

    Raises:
        ValueError: the object is a lambda or has no source (an author's mistake).
    """
    text = textwrap.dedent(obj) if isinstance(obj, str) else _renamed(obj, name)
    return f"{setup.rstrip()}\n\n\n{text.strip()}\n" if setup else f"{text.strip()}\n"


@functools.lru_cache(maxsize=4096)  # references and specimens are asked for again with every answer
def _renamed(obj, name):
    if getattr(obj, "__name__", "<lambda>") == "<lambda>":
        raise ValueError(f"{obj!r} has no name to rename: write it with def or class")
    # A class knows its file only through its module, which need not be there any more; its methods know theirs.
    text = textwrap.dedent(live_source(obj) or inspect.getsource(obj))
    tree = ast.parse(text)
    old = tree.body[0].name
    # Edited as text at the places the tree names, so that comments and layout survive.
    lines = [line.encode() for line in text.splitlines(keepends=True)]
    places = {(n.lineno, n.col_offset) for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == old}
    for lineno, column in sorted(places, reverse=True):
        line = lines[lineno - 1]
        lines[lineno - 1] = line[:column] + name.encode() + line[column + len(old.encode()) :]
    head = tree.body[0].lineno - 1
    lines[head] = re.sub(rf"\b(def|class)(\s+){old}\b".encode(), rf"\1\2{name}".encode(), lines[head], count=1)
    return b"".join(lines).decode()


def reference_answer(exercise: Exercise, seed=0):
    """Return the reference as an answer; a prediction is run (with the inputs of `seed`) and becomes assignments."""
    if exercise.kind == "prediction":
        return Answer(_literals(exercise, lambda inputs: exercise.reference(*inputs), seed), exercise.names)
    return Answer(source_of(exercise.reference, exercise.names[0], exercise.setup), exercise.names)


def specimen_answer(exercise: Exercise, misconception, seed=0):
    """Return a misconception's specimen as an answer."""
    specimen = misconception.specimen
    if exercise.kind == "prediction":
        value = specimen if callable(specimen) else lambda *inputs: specimen
        return Answer(_literals(exercise, lambda inputs: value(*inputs), seed), exercise.names)
    return Answer(source_of(specimen, exercise.names[0], exercise.setup), exercise.names)


def _literals(exercise, value_of, seed):
    from labsupport.inputs import inputs_for
    from labsupport.probing.plain import plain_literal

    rows = zip(exercise.names, inputs_for(exercise, seed), strict=True)
    return "".join(f"{name} = {plain_literal(value_of(inputs))!r}\n" for name, inputs in rows)


def load(answer: Answer, namespace=None):
    """Execute an answer's source in an empty namespace (or in the one given) and return that namespace.

    Its lines are registered, so that tracebacks and `inspect` can show them.
    """
    digest = hashlib.sha256(answer.source.encode()).hexdigest()[:12]
    filename = f"<answer {digest}>"
    linecache.cache[filename] = (len(answer.source), None, answer.source.splitlines(keepends=True), filename)
    namespace = {"__name__": "__answer__"} if namespace is None else namespace
    exec(compile(answer.source, filename, "exec"), namespace)
    return namespace


def live_source(obj):
    """Return the source of a live function or class, or None when it has none (built-in, `exec`, a lambda)."""
    try:
        return _live_source(obj)
    except Exception:  # an object may answer any of these questions by raising
        return None


def _live_source(obj):
    obj = inspect.unwrap(obj) if callable(obj) else obj
    code = getattr(obj, "__code__", None)
    if code is None and isinstance(obj, type):
        # A class in a notebook has no file of its own: its first method's code knows the cell.
        methods = (inspect.unwrap(m) for m in vars(obj).values() if callable(m))
        code = next((m.__code__ for m in methods if hasattr(m, "__code__")), None)
    if code is None:
        return None
    text = "".join(linecache.getlines(code.co_filename))
    return definition_in(text, obj.__name__, near=code.co_firstlineno)


_RANKS = re.compile(r"\A\s*%%torchrun\b")


def without_magic(text):
    """Return a cell's text with a leading `%%torchrun` line as a comment: the rest is a program, its lines stay."""
    return text.replace("%%torchrun", "# %%torchrun", 1) if _RANKS.match(text) else text


def definition_in(text, name, near=None):
    """Return the text of the definition of `name` in `text` (the one at line `near` when several), or None."""
    text = without_magic(text)
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return None
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    found = [node for node in ast.walk(tree) if isinstance(node, kinds) and node.name == name]
    if not found:
        return None
    if near is not None:
        enclosing = [node for node in found if _first_line(node) <= near <= node.end_lineno]
        found = enclosing or found
    node = found[-1]
    lines = text.splitlines(keepends=True)[_first_line(node) - 1 : node.end_lineno]
    return textwrap.dedent("".join(lines))


def _first_line(node):
    return min([node.lineno, *(d.lineno for d in node.decorator_list)])


def same_program(a, b):
    """Return whether two sources are the same program: comments, layout and docstrings do not count."""
    try:
        return _shape_of(a) == _shape_of(b)
    except (SyntaxError, ValueError):
        return a.strip() == b.strip()


def _shape_of(source):
    tree = ast.parse(textwrap.dedent(without_magic(source)))
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and ast.get_docstring(node, False):
            node.body = node.body[1:] or [ast.Pass()]
    return ast.dump(tree)
