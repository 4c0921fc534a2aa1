"""Frames of bytes back into plain data, strictly: whatever is not exactly what `codec` writes is refused.

A frame comes from a process that runs a learner's code. So sizes are checked before anything is made, the header is
parsed only when it is flat and short, and no part of a frame can name a class, a module or a file.
"""

import json
import math
import re
import sys

import numpy as np

from labsupport.grading import codec, layouts
from labsupport.grading.codec import TooLarge, WireError
from labsupport.probing.plain import Opaque

__all__ = ["decode", "decode_body", "lengths"]


def decode(frame, *, max_bytes=codec.MAX_BYTES, layouts_allowed=False):
    """Return the value in a frame; it shares no memory with the frame.

    Args:
        frame: bytes of exactly one frame.
        max_bytes: cap on the frame.
        layouts_allowed: accept arrays with a layout (a child does, the judge never).

    Raises:
        WireError: anything in the frame is not what it says or may not be said; TooLarge over a cap.
    """
    view = memoryview(frame)
    if len(view) < codec.PREFIX.size:
        raise WireError("the frame ends inside its prefix")
    header_size, buffers_size = lengths(view[: codec.PREFIX.size], max_bytes)
    if len(view) != codec.PREFIX.size + header_size + buffers_size:
        raise WireError("the frame has not the length it says")
    return decode_body(view[codec.PREFIX.size :], header_size, layouts_allowed=layouts_allowed)


def decode_body(body, header_size, *, layouts_allowed=False):
    """Return the value in what follows a frame's prefix; `decode` says the rest."""
    view = memoryview(body)
    reader = _Reader(_tokens(view[:header_size]), view[header_size:], layouts_allowed)
    try:
        return reader.read_all()
    except (ValueError, TypeError, OverflowError, MemoryError, RuntimeError) as error:
        raise WireError(f"a part of the frame cannot be read ({type(error).__name__})") from None


def lengths(prefix, max_bytes=codec.MAX_BYTES):
    """Return (header bytes, buffer bytes) of a frame from its prefix, refusing what is over the caps."""
    magic, header_size, buffers_size = codec.PREFIX.unpack(prefix)
    if magic != codec.MAGIC:
        raise WireError("this is not a frame")
    if header_size > codec.MAX_HEADER or codec.PREFIX.size + header_size + buffers_size > max_bytes:
        raise TooLarge(f"a frame of more than {max_bytes:,} bytes")
    return header_size, buffers_size


def _tokens(header):
    """Return the tokens of a header that is one flat JSON array without escapes, refusing others unparsed."""
    raw = bytes(header)
    flat = raw[:1] == b"[" and raw[-1:] == b"]" and raw.count(b"[") == 1 == raw.count(b"]") and raw.isascii()
    if not flat or b"{" in raw or b"\\" in raw:
        raise WireError("the header is not a flat list")
    if raw.count(b",") >= codec.MAX_TOKENS:
        raise TooLarge(f"more than {codec.MAX_TOKENS:,} parts")
    if _LONG_NUMBER.search(raw):
        raise WireError("a number too long")
    try:
        tokens = _from_json(raw.decode("ascii"))
    except (ValueError, RecursionError):
        raise WireError("the header is not JSON of whole numbers and short texts") from None
    if codec.header_of(tokens) != raw:
        raise WireError("the header is not in its own spelling")
    return tokens


def _refuse(text):
    raise ValueError("a number that is not whole")


_from_json = json.JSONDecoder(parse_float=_refuse, parse_constant=_refuse).decode
_LONG_NUMBER = re.compile(rb"[0-9]{21}")  # no part of a header has so many digits

_FIXED_TEXT = re.compile(r"(\|S|[<>]U)[1-9][0-9]{0,6}")


class _Reader:
    def __init__(self, tokens, buffers, layouts_allowed):
        self.tokens, self.at = tokens, 0
        self.buffers, self.offset, self.text = buffers, 0, 0
        self.layouts_allowed, self.roots = layouts_allowed, []

    def read_all(self):
        value = self.read(0)
        if self.at != len(self.tokens) or self.offset != len(self.buffers):
            raise WireError("something follows the value")
        return value

    def token(self, kind):
        if self.at >= len(self.tokens):
            raise WireError("the header ends inside a value")
        token = self.tokens[self.at]
        self.at += 1
        if type(token) is not kind:
            raise WireError("a token of the wrong type")
        return token

    def number(self, low, high):
        if self.at >= len(self.tokens):
            raise WireError("the header ends inside a value")
        number = self.tokens[self.at]
        self.at += 1
        if type(number) is not int:
            raise WireError("a token of the wrong type")
        if not low <= number <= high:
            raise WireError(f"{number} is out of range")
        return number

    def take(self, size):
        if size > len(self.buffers) - self.offset:
            raise WireError("the buffers are shorter than the header says")
        raw = self.buffers[self.offset : self.offset + size]
        self.offset += size
        return raw

    def read(self, depth):
        if depth > codec.MAX_DEPTH:
            raise WireError("nested too deeply")
        reader = _READ.get(self.token(str))
        if reader is None:
            raise WireError("an unknown type")
        return reader(self, depth)

    def size(self):
        return self.number(0, codec.MAX_OFFSET)

    def read_big(self, depth):
        size = self.number(9, codec.MAX_INT_BYTES)
        value = int.from_bytes(self.take(size), "little", signed=True)
        if value.bit_length() // 8 + 1 != size:
            raise WireError("a whole number not in its shortest form")
        return value

    def read_float(self, depth=0):
        text = self.token(str)
        value = float.fromhex(text) if len(text) <= 32 else math.nan
        if value.hex() != text:
            raise WireError("a float not in its own spelling")
        return value

    def read_text(self, depth):
        size = self.number(0, codec.MAX_TEXT - self.text)
        self.text += size
        return str(self.take(size), "utf-8")

    def read_opaque(self, depth):
        return Opaque(str(self.take(self.number(1, codec.MAX_TYPE_NAME)), "utf-8"))

    def read_items(self, depth):
        return [self.read(depth + 1) for _ in range(self.number(0, len(self.tokens) - self.at))]

    def read_dict(self, depth):
        count, found = self.number(0, len(self.tokens) - self.at), {}
        for _ in range(count):
            key = self.read(depth + 1)
            if not codec.is_key(key) or key in found:
                raise WireError("a key that may not be one, or twice the same")
            found[key] = self.read(depth + 1)
        return found

    def shape(self):
        shape = tuple(self.number(0, codec.MAX_ELEMENTS) for _ in range(self.number(0, codec.MAX_DIMS)))
        if not codec.is_shape(shape):
            raise WireError("a shape without measure")
        return shape

    def dtype(self):
        name = self.token(str)
        if name in codec.DTYPES:
            return codec.DTYPES[name]
        if _FIXED_TEXT.fullmatch(name):  # asked first: NumPy's own reader of dtype names takes far more
            return np.dtype(name)
        raise WireError("a dtype that does not cross")

    def read_array(self, depth):
        return self.array(self.dtype(), self.shape())

    def array(self, dtype, shape):
        raw = self.take(dtype.itemsize * math.prod(shape))
        array = np.ndarray(shape, dtype, buffer=raw).copy() if len(raw) else np.empty(shape, dtype)
        if dtype.kind == "b" and array.size and array.view(np.uint8).max() > 1:
            raise WireError("a bool that is neither 0 nor 1")
        if dtype.kind == "U" and not codec.is_text(array):
            raise WireError("text that is not Unicode")
        return array

    def read_scalar(self, depth):
        return self.array(self.dtype(), ())[()]

    def read_view(self, depth):
        if not self.layouts_allowed:
            raise WireError("a layout where none is wanted")
        number = self.number(0, len(self.roots))
        if number == len(self.roots):
            dtype, shape = self.dtype(), self.shape()
            axes = tuple(self.number(0, len(shape) - 1) for _ in shape)
            self.roots.append(layouts.in_order(self.array(dtype, shape), axes))
        root = self.roots[number]
        how = self.token(str)
        if how == "r":
            return root
        if how != "p":
            raise WireError("an unknown kind of view")
        dtype, writeable, offset, shape = self.dtype(), self.number(0, 1), self.size(), self.shape()
        strides = tuple(self.number(-codec.MAX_OFFSET, codec.MAX_OFFSET) for _ in shape)
        view = layouts.view_of(root, dtype, shape, strides, offset, bool(writeable))
        if dtype.kind == "U" and not codec.is_text(view):
            raise WireError("text that is not Unicode")
        return view

    def read_tensor(self, depth):
        name, needs_grad, shape = self.token(str), self.number(0, 1), self.shape()
        if name not in codec.TENSOR_BYTES or (needs_grad and "float" not in name and "complex" not in name):
            raise WireError("a dtype that does not cross, or not with gradients")
        raw = self.take(codec.TENSOR_BYTES[name] * math.prod(shape))
        if name == "bool" and len(raw) and np.frombuffer(raw, np.uint8).max() > 1:
            raise WireError("a bool that is neither 0 nor 1")
        # A judge that did not load torch expects no tensor, and nobody else makes it pay for the import.
        return layouts.tensor_from(raw, name, shape, bool(needs_grad)) if "torch" in sys.modules else Opaque("Tensor")


_READ = {
    "0": lambda r, depth: None,
    "b": lambda r, depth: bool(r.number(0, 1)),
    "i": lambda r, depth: r.number(1 - 2**63, 2**63 - 1),
    "I": _Reader.read_big,
    "f": _Reader.read_float,
    "c": lambda r, depth: complex(r.read_float(), r.read_float()),
    "s": _Reader.read_text,
    "y": lambda r, depth: bytes(r.take(r.size())),
    "l": _Reader.read_items,
    "t": lambda r, depth: tuple(r.read_items(depth)),
    "d": _Reader.read_dict,
    "a": _Reader.read_array,
    "n": _Reader.read_scalar,
    "v": _Reader.read_view,
    "T": _Reader.read_tensor,
    "o": _Reader.read_opaque,
}
