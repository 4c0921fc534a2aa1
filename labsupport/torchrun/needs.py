"""Which names a piece of source uses and which it binds, and how a name can be imported: read, never run."""

import symtable
import sys
import types

__all__ = ["ANYTHING", "bound_by", "import_of", "names_used"]

ANYTHING = object()  # a cell with `import *`, or one that cannot be read: nobody knows what it binds


def names_used(text, own, deferred=False):
    """Return (early, late): global names used while a definition is made, and when it is called later.

    Args:
        text: source of one function or class.
        own: its own name, which does not count.
        deferred: annotations are not evaluated (`from __future__ import annotations`).
    """
    if deferred:
        text = f"from __future__ import annotations\n{text}"
    top = symtable.symtable(text, "<pushed>", "exec")
    early = {symbol.get_name() for symbol in top.get_symbols() if symbol.is_referenced()}
    late = set()
    for table in top.get_children():
        _collect(table, early, late, at_once=True)
    early -= {"annotations"} if deferred else set()
    bound = {symbol.get_name() for symbol in top.get_symbols() if symbol.is_assigned()} | {own}
    return early - bound, late - early - bound


def _collect(table, early, late, at_once):
    at_once = at_once and table.get_type() == "class"  # a class body runs when the class is made, a function's later
    names = {s.get_name() for s in table.get_symbols() if s.is_global() and s.is_referenced()}
    (early if at_once else late).update(names)
    for child in table.get_children():
        _collect(child, early, late, at_once)


def bound_by(cell):
    """Return the set of names that a cell binds at its top level, or ANYTHING when that cannot be told."""
    try:
        table = symtable.symtable(cell, "<cell>", "exec")
    except (SyntaxError, ValueError):
        return ANYTHING
    if "import *" in cell:
        return ANYTHING
    symbols = table.get_symbols()
    return {s.get_name() for s in symbols if s.is_assigned() or s.is_imported() or s.is_namespace()}


def import_of(name, value):
    """Return the line that imports `value` as `name` on a rank, or None when it belongs to the notebook."""
    if isinstance(value, types.ModuleType):
        if value.__name__ == "__main__" or sys.modules.get(value.__name__) is not value:
            return None
        return f"import {value.__name__} as {name}" if value.__name__ != name else f"import {name}"
    module, own = getattr(value, "__module__", None), getattr(value, "__name__", None)
    if type(module) is not str or type(own) is not str or module == "__main__" or not own.isidentifier():
        return None
    if getattr(sys.modules.get(module), own, None) is not value:
        return None
    if module == "builtins":
        return f"{name} = {own}" if name != own else None
    return f"from {module} import {own}" + (f" as {name}" if name != own else "")
