"""`--push NAMES`: variables, functions and classes of the notebook, given to every rank before its cell runs.

Values cross as data (`carrying`). Functions and classes that the notebook defines cross as their source text, together
with the imports they use. What else they use has to be pushed too, or defined by the cell; `pack_names` says so before
a rank is started. Nothing is pickled in either direction.
"""

import __future__

import builtins
import graphlib
import inspect
import keyword
import linecache
import sys
import types

from labsupport.errors import LabError, UsageError
from labsupport.torchrun import likeness, needs

__all__ = ["pack_names", "parse_pushes", "receive"]

_ON_EVERY_RANK = {*dir(builtins), "__name__", "__file__", "__doc__", "__builtins__"}
_WHY_SOURCE = "the ranks get the source, and would run something else than the notebook"
_FUTURE = __future__.annotations.compiler_flag


def parse_pushes(words):
    """Return the names in texts such as ("train_step,config", "LR"), each once. Raises UsageError for what is none."""
    names = dict.fromkeys(name.strip() for name in ",".join(words).split(",") if name.strip())
    for name in names:
        if not name.isidentifier() or keyword.iskeyword(name):
            step = "give the value a name in a cell of the notebook, and push that name"
            raise UsageError(f"--push takes names of the notebook, got {name!r}", next_step=step)
    return tuple(names)


def pack_names(names, namespace, *, cell="", history=()):
    """Return the bytes that bring `names` of the notebook to the ranks.

    Args:
        names: names to push.
        namespace: the notebook's names.
        cell: source of the cell that the ranks will run: what it defines need not be pushed.
        history: sources of the cells run so far, oldest first: where classes without methods are found.

    Raises:
        LabError: a name is not defined, does not cross, or uses something that the ranks will not have.
    """
    pieces = {name: _piece(name, namespace, history) for name in names}
    imports = _complete(pieces, namespace, needs.bound_by(cell), history)
    frames = [_frame("import", text) for text in dict.fromkeys(imports)]
    return b"".join([*frames, *(piece.frame for piece in _in_order(pieces))])


class _Piece:
    """One pushed name: `frame` its bytes, `early` the names needed when it is made, `late` those needed when called."""

    def __init__(self, name, frame, early=(), late=(), imports=()):
        self.name, self.frame, self.early, self.late = name, frame, set(early), set(late)
        self.imports = list(imports)


def _frame(kind, text, name="", flags=0):
    from labsupport.grading import codec

    return codec.encode(["code", kind, name, text, flags])


def _piece(name, namespace, history):
    if name not in namespace:
        raise _not_here(name, namespace)
    value = namespace[name]
    if isinstance(value, (types.FunctionType, type, types.BuiltinFunctionType, types.ModuleType)):
        line = needs.import_of(name, value)
        return _Piece(name, _frame("import", line)) if line else _source(name, value, namespace, history)
    if type(value) is types.MethodType:
        raise LabError(f"`{name}` is a method of an object", next_step="push a function written with def")
    return _value(name, value)


def _not_here(name, namespace):
    import difflib

    near = difflib.get_close_matches(name, [n for n in namespace if not n.startswith("_")], n=1)
    step = f"write --push {near[0]}" if near else "run the cell that defines it first"
    return LabError(f"the notebook defines no `{name}`", next_step=step)


def _value(name, value):
    from labsupport.grading import codec
    from labsupport.torchrun import carrying

    kinds = set()
    try:
        tree = carrying.pack_tree(value, name, kinds=kinds)
        frame = codec.encode(["value", name, *tree], max_bytes=carrying.MAX_BYTES)
    except codec.TooLarge as error:
        raise LabError(
            f"`{name}` is too large to push: {error}", next_step="let the ranks read it from a file"
        ) from None
    except LabError as error:
        raise LabError(error.what, why=error.why, next_step=_for_push(error.next_step or "")) from None
    lines = {kind: needs.import_of(kind.__name__, kind) for kind in kinds}
    return _Piece(
        name, frame, {kind.__name__ for kind in kinds if not lines[kind]}, imports=filter(None, lines.values())
    )


def _for_push(step):
    """Return the way out of a value that does not cross, in the words of `--push`."""
    if "--push" in step:  # it says how code crosses, and this is an object that holds some
        return "push its data, or make it in the cell"
    return (
        step.replace("return ", "push ", 1).replace("in the cell and name", "in a cell of the notebook and push")
        or None
    )


def _source(name, value, namespace, history):
    from labsupport.answering import definition_in, live_source

    if getattr(value, "__closure__", None) and set(value.__code__.co_freevars) - {"__class__"}:
        kept = ", ".join(f"`{n}`" for n in value.__code__.co_freevars)
        why = f"it keeps {kept} from the call that made it, and source text does not hold that"
        raise LabError(f"`{name}` was made inside another function", why=why, next_step="push the outer function")
    own = getattr(value, "__name__", name)
    if own == "<lambda>":
        raise LabError(f"`{name}` is a lambda: its source has no name", next_step=f"write it as def {name}(...)")
    flags = _FUTURE if _has_deferred_annotations(value) else 0
    texts = [live_source(value), *(definition_in(cell, own) for cell in reversed(history))]
    texts = list(dict.fromkeys(text for text in texts if text))
    if not texts:
        step = "define it in a cell of this notebook, or import it in the cell that the ranks run"
        raise LabError(f"the source of `{name}` is not to be found", next_step=step)
    faults = [likeness.difference(value, text, namespace, flags) for text in texts]
    if all(faults):
        step = f"run a cell that defines `{own}` as it is to be, then push it"
        raise LabError(f"`{name}` is not what its source says: {faults[0]}", why=_WHY_SOURCE, next_step=step)
    text = texts[faults.index("")]
    early, late = needs.names_used(text, own, bool(flags))
    alias = f"\n{name} = {own}\n" if own != name else ""
    return _Piece(name, _frame("source", text + alias, name, flags), early, late)


def _has_deferred_annotations(value):
    functions = [value] if not isinstance(value, type) else [f for f in vars(value).values() if inspect.isfunction(f)]
    return any(f.__code__.co_flags & _FUTURE for f in map(inspect.unwrap, functions))


# -- what the pieces need -----------------------------------------------------------------------------------------


def _complete(pieces, namespace, bound, history):
    """Return the import lines that the pieces need. Raises LabError when they need what the ranks will not have."""
    imports, missing, users = [line for piece in pieces.values() for line in piece.imports], {}, []
    ahead = list(pieces.values())
    while ahead:
        piece = ahead.pop(0)
        for name in sorted(piece.early | piece.late):
            known = name in pieces or name in missing or name in _ON_EVERY_RANK
            if known or ((bound is needs.ANYTHING or name in bound) and name not in piece.early):
                if name in missing and piece.name in pieces:
                    users.append(piece.name)
                continue
            if name in namespace and (line := needs.import_of(name, namespace[name])):
                imports.append(line)
                continue
            if piece.name in pieces:
                users.append(piece.name)
            missing[name] = piece.name
            ahead += _looked_into(name, namespace, history)
    if missing:
        raise _incomplete(pieces, namespace, missing, users)
    return imports


def _looked_into(name, namespace, history):
    """Return [the piece] of a name that is missing, so that what it needs itself is told at once as well."""
    try:
        return [_piece(name, namespace, history)]
    except LabError:
        return []


def _incomplete(pieces, namespace, missing, users):
    from labsupport.figures.words import join_words

    user = users[0]
    used = [name for name, by in missing.items() if by == user]
    here = [name for name in missing if name in namespace]
    nowhere = [name for name in missing if name not in namespace]
    step = (
        f"write --push {','.join([*pieces, *here])}" if not nowhere else f"define {nowhere[0]} before you push {user}"
    )
    return LabError(
        f"`{user}` uses {join_words(f'`{name}`' for name in used)}, which the ranks would not have",
        why="they start with what the cell defines and what --push gives them",
        next_step=step,
    )


def _in_order(pieces):
    """Return the pieces so that each comes after those it needs to be made."""
    graph = {name: {other for other in piece.early if other in pieces and other != name}
             for name, piece in pieces.items()}  # fmt: skip
    try:
        return [pieces[name] for name in graphlib.TopologicalSorter(graph).static_order()]
    except graphlib.CycleError:
        return list(pieces.values())


# -- on a rank ----------------------------------------------------------------------------------------------------


def receive(pushed, namespace):
    """Put what was pushed into a rank's namespace: values as data, functions and classes by running their source.

    Args:
        pushed: bytes that `pack_names` made in the kernel of the same user, or None.
        namespace: dict in which the cell will run.

    Raises:
        LabError: the bytes are no such thing, or a definition fails on the rank.
    """
    from labsupport.grading import codec
    from labsupport.torchrun import carrying

    for frame in _frames(pushed or b""):
        if type(frame) is list and len(frame) == 4 and frame[0] == "value" and type(frame[1]) is str:
            namespace[frame[1]], notes = carrying.unpack_frame(["value", *frame[2:]], namespace)
            for note in notes:
                print(note, file=sys.stderr)
        elif type(frame) is list and len(frame) == 5 and frame[0] == "code":
            _define(*frame[1:], namespace)
        else:
            raise codec.WireError("not something pushed")


def _frames(raw):
    from labsupport.grading import codec, decoding
    from labsupport.torchrun import carrying

    view = memoryview(raw)
    try:
        while view:
            size = codec.PREFIX.size + sum(decoding.lengths(view[: codec.PREFIX.size], carrying.MAX_BYTES))
            yield decoding.decode(view[:size], max_bytes=carrying.MAX_BYTES)
            view = view[size:]
    except (codec.WireError, ValueError) as error:
        raise carrying.BadValue("what was pushed cannot be read", why=str(error)) from None
    except Exception as error:
        if type(error).__name__ != "error":  # struct.error: the bytes end inside a prefix
            raise
        raise carrying.BadValue("what was pushed cannot be read", why="it was cut off") from None


def _define(kind, name, text, flags, namespace):
    filename = f"<pushed {name}>" if kind == "source" else "<pushed imports>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    try:
        exec(compile(text, filename, "exec", flags=flags, dont_inherit=True), namespace)
    except Exception as error:
        said = (str(error).splitlines() or [""])[0][:200]
        raise LabError(
            f"`{name or text}` could not be defined on the ranks", why=f"{type(error).__name__}: {said}"
        ) from error
