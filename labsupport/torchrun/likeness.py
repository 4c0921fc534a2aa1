"""Whether a function or class of the notebook still is what a source text says, so that the text can stand for it.

A definition may be replaced by `exec`, get other defaults, or have its attributes patched; its text knows nothing of
that. Code objects are compared, and what the text writes down as a literal or a plain name; nothing is run.
"""

import ast
import inspect
import types

__all__ = ["difference"]

_UNKNOWN = object()
_DEFS = (ast.FunctionDef, ast.AsyncFunctionDef)


def difference(value, text, namespace, flags=0):
    """Return how a function or class differs from the definition in `text`, as a clause, or "".

    Args:
        value: the function or class.
        text: source of one definition.
        namespace: the notebook's names, for defaults that are names.
        flags: of the compiler.
    """
    tree = ast.parse(text)
    node = tree.body[0]
    if not isinstance(node, (*_DEFS, ast.ClassDef)):
        return ""
    codes = _codes_in(compile(text, "<pushed>", "exec", flags=flags, dont_inherit=True))
    if isinstance(value, type):
        return _of_class(value, node, codes, namespace) if isinstance(node, ast.ClassDef) else "it is a class now"
    return _of_function(inspect.unwrap(value), node, codes, namespace)


def _codes_in(code):
    """Return all code objects below one."""
    own = [part for part in code.co_consts if isinstance(part, types.CodeType)]
    return [*own, *(inner for part in own for inner in _codes_in(part))]


def _of_function(function, node, codes, namespace):
    if not isinstance(function, types.FunctionType):
        return ""
    if not any(_alike(function.__code__, code) for code in codes):
        return "it was defined again without a cell, or changed"
    if not isinstance(node, _DEFS) or function.__name__ != node.name:
        return ""
    written = [*node.args.defaults, *(part for part in node.args.kw_defaults if part is not None)]
    kept = function.__kwdefaults__ or {}
    names = [arg.arg for arg, part in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if part is not None]
    live = [*(function.__defaults__ or ()), *(kept[name] for name in names if name in kept)]
    if len(written) != len(live) or not all(map(_holds, written, live, [namespace] * len(live))):
        return "its defaults have changed"
    return ""


def _of_class(kind, node, codes, namespace):
    defined = {part.name: part for part in node.body if isinstance(part, _DEFS)}
    assigned = {
        target.id: part.value
        for part in node.body
        if isinstance(part, (ast.Assign, ast.AnnAssign)) and part.value is not None
        for target in (part.targets if isinstance(part, ast.Assign) else [part.target])
        if isinstance(target, ast.Name)
    }
    for name, value in vars(kind).items():
        if name in defined:
            fault = _of_method(value, name, defined[name], codes, namespace)
        elif name in assigned and not node.decorator_list and type(kind) is type:
            by_its_base = hasattr(value, "__get__")  # such as the fields of a named tuple
            fault = "" if by_its_base or _holds(assigned[name], value, namespace) else "it has changed"
        else:
            fault = _of_more(kind, name, value, node)
        if fault:
            return f"`{kind.__name__}.{name}`: {fault}"
    gone = [] if node.decorator_list else [name for name in defined if name not in vars(kind)]
    return f"`{kind.__name__}.{gone[0]}` is gone" if gone and type(kind) is type else ""


def _of_method(value, name, node, codes, namespace):
    value = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
    value = inspect.unwrap(value) if callable(value) else value
    if isinstance(value, types.FunctionType) and (value.__name__ == name or not node.decorator_list):
        return _of_function(value, node, codes, namespace)
    return "" if node.decorator_list else "it is no function of the class any more"


def _of_more(kind, name, value, node):
    """What is in the class and not written in its body: put there by a decorator, its kind or base, or patched."""
    made_by_others = node.decorator_list or type(kind) is not type or name.startswith("_")
    hooked = any("__init_subclass__" in vars(base) for base in kind.__mro__[1:-1])
    bound = {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    bound |= {part.name for part in ast.walk(node) if isinstance(part, (*_DEFS, ast.ClassDef))}
    bound |= {part.asname or part.name for part in ast.walk(node) if isinstance(part, ast.alias)}
    if (
        made_by_others
        or hooked
        or name in bound
        or not isinstance(value, (types.FunctionType, property, int, float, str))
    ):
        return ""
    return "it was added later"


def _holds(written, value, namespace):
    """Whether an expression may stand for a value; of what is neither a literal nor a name nobody can tell."""
    try:
        meant = ast.literal_eval(written)
    except (ValueError, TypeError, MemoryError, RecursionError):
        meant = namespace.get(written.id, _UNKNOWN) if isinstance(written, ast.Name) else _UNKNOWN
    if meant is _UNKNOWN or meant is value:
        return True
    if type(meant) is not type(value):
        return False
    return type(meant) not in (int, float, complex, str, bytes, bool, tuple, list, dict, set) or repr(meant) == repr(
        value
    )


def _alike(one, other):
    plain = ("co_name", "co_code", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_argcount",
             "co_posonlyargcount", "co_kwonlyargcount")  # fmt: skip
    if any(getattr(one, name) != getattr(other, name) for name in plain) or len(one.co_consts) != len(other.co_consts):
        return False
    return all(map(_same_constant, one.co_consts, other.co_consts))


def _same_constant(one, other):
    if isinstance(one, types.CodeType) and isinstance(other, types.CodeType):
        return _alike(one, other)
    if type(one) is not type(other):
        return False
    # The text was moved to the left, and with it the lines of texts that go over several lines.
    return one.split() == other.split() if isinstance(one, str) and "\n" in one else repr(one) == repr(other)
