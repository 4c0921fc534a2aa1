"""Values as bytes and back between kernel and ranks, without pickle: what `--return` and `--push` carry.

A value becomes a tree of what `labsupport.grading.codec` writes: None, numbers, text, bytes, lists, NumPy arrays. All
else is a tuple that starts with a tag: `("set", 1, 2)`, `("tensor", "bfloat16", ...)`. Reading makes only what the
tags name; no part of a frame can name a module, a function or a file, and no method of the reader's own classes is
called. Importing this module loads neither NumPy nor torch; torch is loaded when a tensor arrives.
"""

from labsupport.errors import LabError

__all__ = ["MAX_BYTES", "BadValue", "pack", "pack_tree", "unpack", "unpack_frame"]

MAX_BYTES = 2**31  # of one value: what fits a laptop twice


class BadValue(LabError):
    """Bytes that are not a value: cut off, changed, or not written by `pack`. Nothing of them was used."""


def pack(value, name, gathered=None):
    """Return `value` as bytes.

    Args:
        value: what the variable holds.
        name: the variable's name, for what is said.
        gathered: {id of a DTensor: the whole tensor}; a DTensor that is not there is refused.

    Raises:
        LabError: some part of it does not cross; the text names the part, its type and the way out.
    """
    from labsupport.grading import codec

    tree = pack_tree(value, name, gathered)
    try:
        return codec.encode(["value", *tree], max_bytes=MAX_BYTES)
    except codec.TooLarge as error:
        raise LabError(
            f"`{name}` is too large to cross: {error}",
            next_step=f"make `{name}` an array or a tensor, or a smaller part of it",
        ) from None


def pack_tree(value, name, gathered=None, kinds=None):
    """Return (tree, notes) of a value; the classes of its dataclasses and named tuples are added to `kinds`, a set."""
    from labsupport.torchrun.lowering import Lowering

    lowering = Lowering(gathered or {}, set() if kinds is None else kinds)
    return lowering.lower(value, name, 0), lowering.notes


def unpack(raw, namespace=None):
    """Return (value, notes) from the bytes that `pack` made; notes are sentences on what arrived changed.

    Args:
        raw: the bytes; they may be hostile.
        namespace: names among which the classes of dataclasses and named tuples are looked up.

    Raises:
        BadValue: the bytes are not exactly what `pack` writes.
    """
    from labsupport.grading import codec, decoding

    try:
        frame = decoding.decode(raw, max_bytes=MAX_BYTES)
    except codec.WireError as error:
        raise BadValue("these bytes are not a value", why=str(error)) from None
    return unpack_frame(frame, namespace)


def unpack_frame(frame, namespace=None):
    """Return (value, notes) from a decoded frame; `unpack` says the rest."""
    from labsupport.torchrun.lifting import Lifting, wanted

    lifting = Lifting(namespace or {})
    try:
        if type(frame) is not list or len(frame) != 3 or frame[0] != "value" or type(frame[2]) is not list:
            raise ValueError("not a value")
        lifting.notes += [wanted(note, str) for note in frame[2]]
        return lifting.lift(frame[1]), lifting.notes
    except (ValueError, TypeError, OverflowError, RuntimeError, MemoryError) as error:
        why = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise BadValue("these bytes are not a value", why=why) from None
