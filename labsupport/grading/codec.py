"""Plain data as frames of bytes and back, never a pickle: what the wire between judge and child carries.

A frame is `LAB1`, two lengths (header, buffers; unsigned, little-endian, 4 bytes each), a header and raw buffers. The
header is one flat JSON array of tokens in reading order: a letter for the type, then what that type needs. Text and
array bytes lie in the buffers, back to back, in the same order. A header without nesting, without escapes and with a
counted number of commas costs no more to parse than it says, so a hostile frame is refused before it is understood.

Only exact types cross. Whatever else an answer returns arrives as an `Opaque`, which equals nothing.
"""

import json
import math
import struct
import sys

import numpy as np

from labsupport.grading import layouts
from labsupport.probing.plain import Opaque

__all__ = ["DTYPES", "MAX_BYTES", "PREFIX", "TooLarge", "WireError", "decode", "encode", "lengths"]

MAGIC = b"LAB1"
PREFIX = struct.Struct("<4sII")
MAX_BYTES = 16 * 1024 * 1024  # of a whole frame, unless the caller allows more
MAX_HEADER = 3 * 1024 * 1024
MAX_TOKENS = 100_000
MAX_DEPTH = 60  # of the value; plain data itself stops at 40
MAX_DIMS = 32
MAX_ELEMENTS = 2**31  # counting an empty axis as 1, so that no shape is absurd
MAX_OFFSET = 2**31 - 1  # bytes
MAX_INT_BYTES = 1785  # 4,298 decimal digits: Python refuses to print longer ones
MAX_TYPE_NAME = 200

_NUMERIC = ("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16")
DTYPES = {np.dtype(order + name).str: np.dtype(order + name) for name in _NUMERIC for order in "<>"}
_TENSORS = (
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
)
_SURROGATES = (0xD800, 0xDFFF)


class WireError(Exception):
    """A frame that is not what it says, or not what may be said."""


class TooLarge(WireError):
    """A value or a frame over one of the caps; the text names the cap."""


# -- value -> frame -----------------------------------------------------------------------------------------------


def encode(value, *, max_bytes=MAX_BYTES, keep_layout=False):
    """Return a frame (bytes) that holds plain data.

    Args:
        value: None, bool, int, float, complex, str, bytes, list, tuple, dict with text or int keys, ndarray, NumPy
            scalar, `torch.Tensor` when torch is loaded, of exactly these types; anything else becomes an `Opaque`.
        max_bytes: cap on the frame.
        keep_layout: arrays keep their strides, their offset and what they share memory with (for inputs).

    Raises:
        TooLarge: the value has too many nodes or bytes.
    """
    writer = _Writer(max_bytes, keep_layout)
    writer.put(value, 0)
    return writer.frame()


class _Writer:
    def __init__(self, max_bytes, keep_layout):
        self.max_bytes, self.keep_layout = max_bytes, keep_layout
        self.tokens, self.buffers, self.size = [], [], PREFIX.size
        self.roots = {}  # id of an array that owns memory -> (its number, the array, kept alive)

    def frame(self):
        if len(self.tokens) > MAX_TOKENS:
            raise TooLarge(f"more than {MAX_TOKENS:,} parts")
        header = json.dumps(self.tokens, separators=(",", ":")).encode("ascii")
        if len(header) > MAX_HEADER or self.size + len(header) > self.max_bytes:
            raise TooLarge(f"more than {min(self.max_bytes, MAX_HEADER):,} bytes")
        return b"".join([PREFIX.pack(MAGIC, len(header), self.size - PREFIX.size), header, *self.buffers])

    def put(self, value, depth):
        if len(self.tokens) > MAX_TOKENS:
            raise TooLarge(f"more than {MAX_TOKENS:,} parts")
        kind = type(value)
        if depth >= MAX_DEPTH:
            self.put_opaque("structure nested too deeply")
        elif kind in _PUT:
            _PUT[kind](self, value, depth)
        elif isinstance(value, np.generic) and kind.__module__ == "numpy":
            self.put_scalar(value)
        elif "torch" in sys.modules and kind is sys.modules["torch"].Tensor:
            self.put_tensor(value)
        else:
            self.put_opaque(kind.__name__)

    def add(self, *tokens):
        self.tokens += tokens

    def put_bytes(self, raw):
        self.size += len(raw)
        if self.size > self.max_bytes:
            raise TooLarge(f"more than {self.max_bytes:,} bytes")
        self.buffers.append(raw)

    def put_opaque(self, name):
        raw = name.encode("utf-8", "replace")[:MAX_TYPE_NAME] or b"?"
        raw = raw.decode("utf-8", "ignore").encode()  # a cut inside a character
        self.add("o", len(raw))
        self.put_bytes(raw)

    def put_int(self, value, depth):
        size = value.bit_length() // 8 + 1
        if size <= 8:
            self.add("i", value)
        elif size <= MAX_INT_BYTES:
            self.add("I", size)
            self.put_bytes(value.to_bytes(size, "little", signed=True))
        else:
            self.put_opaque(f"int of {value.bit_length():,} bits")

    def put_text(self, value, depth):
        try:
            raw = value.encode("utf-8")
        except UnicodeEncodeError:
            return self.put_opaque("str that is not text (lone surrogates)")
        self.add("s", len(raw))
        self.put_bytes(raw)

    def put_raw(self, value, depth):
        self.add("y", len(value))
        self.put_bytes(value)

    def put_items(self, value, depth):
        self.add("l" if type(value) is list else "t", len(value))
        for item in value:
            self.put(item, depth + 1)

    def put_dict(self, value, depth):
        if not all(_is_key(key) for key in value):
            return self.put_opaque("dict with keys that are neither text nor whole numbers")
        self.add("d", len(value))
        for key, item in value.items():
            self.put(key, depth + 1)
            self.put(item, depth + 1)

    def put_array(self, value, depth):
        name = _dtype_name(value)
        if name is None:
            return self.put_opaque(f"ndarray of {value.dtype}")
        if self.keep_layout:
            return self.put_view(value)
        self.add("a", name, value.ndim, *value.shape)
        self.put_bytes(_bytes_of(value))

    def put_view(self, value):
        root, axes, value, offset = layouts.rooted(value, lambda array: _dtype_name(array) is not None)
        known = id(root) in self.roots
        number, root = self.roots.setdefault(id(root), (len(self.roots), root))
        self.add("v", number)
        if not known:
            in_order = root.transpose(axes)
            self.add(root.dtype.str, root.ndim, *in_order.shape, *axes)
            self.put_bytes(_bytes_of(in_order))
        if value is root:
            return self.add("r")
        self.add("p", value.dtype.str, int(value.flags.writeable), offset, value.ndim, *value.shape, *value.strides)

    def put_scalar(self, value):
        array = np.asarray(value)
        name = _dtype_name(array)
        if name is None or array.ndim:
            return self.put_opaque(type(value).__name__)
        self.add("n", name)
        self.put_bytes(_bytes_of(array))

    def put_tensor(self, value):
        name = str(value.dtype).removeprefix("torch.")
        if (
            name not in _TENSORS
            or value.layout is not sys.modules["torch"].strided
            or value.is_quantized
            or value.is_meta
        ):
            return self.put_opaque(f"Tensor of {name}")
        raw = layouts.tensor_bytes(value)
        self.add("T", name, int(value.requires_grad), value.ndim, *value.shape)
        self.put_bytes(raw)


_PUT = {
    type(None): lambda w, value, depth: w.add("0"),
    bool: lambda w, value, depth: w.add("b", int(value)),
    int: _Writer.put_int,
    float: lambda w, value, depth: w.add("f", value.hex()),
    complex: lambda w, value, depth: w.add("c", value.real.hex(), value.imag.hex()),
    str: _Writer.put_text,
    bytes: _Writer.put_raw,
    list: _Writer.put_items,
    tuple: _Writer.put_items,
    dict: _Writer.put_dict,
    np.ndarray: _Writer.put_array,
    Opaque: lambda w, value, depth: w.put_opaque(str(value.type_name)),
}


def _is_key(key):
    if type(key) is int:
        return key.bit_length() < 64
    return type(key) is str and (key.isascii() or not any(_is_surrogate(ord(c)) for c in key))


def _is_surrogate(code):
    return _SURROGATES[0] <= code <= _SURROGATES[1]


def _dtype_name(array):
    """Return the name under which an array's dtype crosses, or None when it does not."""
    name = array.dtype.str
    if name in DTYPES and DTYPES[name] == array.dtype:
        return name
    fixed = array.dtype.kind in "SU" and array.dtype.itemsize
    return name if fixed and (array.dtype.kind == "S" or _is_text(array)) else None


def _bytes_of(array):
    if array.dtype.kind == "b":
        array = array.view(np.uint8) != 0  # any other byte than 0 and 1 is a bool in name only
    return array.tobytes()


def _is_text(array):
    """Return whether an array of `U` holds only code points that are characters."""
    codes = np.ascontiguousarray(array).reshape(-1).view(array.dtype.str[0] + "u4")
    low = codes < _SURROGATES[0]
    low |= (codes > _SURROGATES[1]) & (codes <= sys.maxunicode)
    return bool(low.all())


# -- frame -> value -----------------------------------------------------------------------------------------------


def decode(frame, *, max_bytes=MAX_BYTES, layouts_allowed=False):
    """Return the value in a frame; it shares no memory with the frame.

    Args:
        frame: bytes of exactly one frame.
        max_bytes: cap on the frame.
        layouts_allowed: accept arrays with a layout (a child does, the judge never).

    Raises:
        WireError: anything in the frame is not what it says or may not be said; TooLarge over a cap.
    """
    view = memoryview(frame)
    if len(view) < PREFIX.size:
        raise WireError("the frame ends inside its prefix")
    header_size, buffers_size = lengths(view[: PREFIX.size], max_bytes)
    if len(view) != PREFIX.size + header_size + buffers_size:
        raise WireError("the frame has not the length it says")
    start = PREFIX.size + header_size
    reader = _Reader(_tokens(view[PREFIX.size : start]), view[start:], layouts_allowed)
    try:
        return reader.read_all()
    except (ValueError, TypeError, OverflowError, MemoryError, UnicodeError) as error:
        raise WireError(f"a part of the frame cannot be read ({type(error).__name__})") from None


def lengths(prefix, max_bytes=MAX_BYTES):
    """Return (header bytes, buffer bytes) of a frame from its prefix, refusing what is over the caps."""
    magic, header_size, buffers_size = PREFIX.unpack(prefix)
    if magic != MAGIC:
        raise WireError("this is not a frame")
    if header_size > MAX_HEADER or PREFIX.size + header_size + buffers_size > max_bytes:
        raise TooLarge(f"a frame of more than {max_bytes:,} bytes")
    return header_size, buffers_size


def _tokens(header):
    """Return the tokens of a header that is one flat JSON array without escapes, refusing others unparsed."""
    raw = bytes(header)
    flat = raw[:1] == b"[" and raw[-1:] == b"]" and raw.count(b"[") == 1 == raw.count(b"]") and raw.isascii()
    if not flat or b"{" in raw or b"\\" in raw:
        raise WireError("the header is not a flat list")
    if raw.count(b",") >= MAX_TOKENS:
        raise TooLarge(f"more than {MAX_TOKENS:,} parts")
    try:
        return json.loads(raw, parse_int=_int, parse_float=_refuse, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise WireError("the header is not JSON of whole numbers and short texts") from None


def _int(text):
    if len(text) > 20:
        raise ValueError("a number too long")
    return int(text)


def _refuse(text):
    raise ValueError("a number that is not whole")


class _Reader:
    def __init__(self, tokens, buffers, layouts_allowed):
        self.tokens, self.at = tokens, 0
        self.buffers, self.offset = buffers, 0
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
        number = self.token(int)
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
        if depth > MAX_DEPTH:
            raise WireError("nested too deeply")
        tag = self.token(str)
        if tag not in _READ:
            raise WireError("an unknown type")
        return _READ[tag](self, depth)

    def size(self):
        return self.number(0, MAX_OFFSET)

    def read_big(self, depth):
        size = self.number(9, MAX_INT_BYTES)
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

    def read_opaque(self, depth):
        return Opaque(str(self.take(self.number(1, MAX_TYPE_NAME)), "utf-8"))

    def read_items(self, depth):
        return [self.read(depth + 1) for _ in range(self.number(0, len(self.tokens) - self.at))]

    def read_dict(self, depth):
        count, found = self.number(0, len(self.tokens) - self.at), {}
        for _ in range(count):
            key = self.read(depth + 1)
            if not _is_key(key) or key in found:
                raise WireError("a key that may not be one, or twice the same")
            found[key] = self.read(depth + 1)
        return found

    def shape(self):
        shape = tuple(self.number(0, MAX_ELEMENTS) for _ in range(self.number(0, MAX_DIMS)))
        if math.prod(side or 1 for side in shape) > MAX_ELEMENTS:
            raise WireError("a shape without measure")
        return shape

    def dtype(self):
        name = self.token(str)
        if name in DTYPES:
            return DTYPES[name]
        if name[1:2] in ("S", "U") and name[2:].isdecimal() and len(name) <= 12:
            dtype = np.dtype(name)
            if dtype.str == name and dtype.itemsize:
                return dtype
        raise WireError("a dtype that does not cross")

    def read_array(self, depth):
        return self.array(self.dtype(), self.shape())

    def array(self, dtype, shape):
        raw = self.take(dtype.itemsize * math.prod(shape))
        array = np.ndarray(shape, dtype, buffer=raw).copy() if len(raw) else np.empty(shape, dtype)
        if dtype.kind == "b" and array.size and array.view(np.uint8).max() > 1:
            raise WireError("a bool that is neither 0 nor 1")
        if dtype.kind == "U" and not _is_text(array):
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
        strides = tuple(self.number(-MAX_OFFSET, MAX_OFFSET) for _ in shape)
        return layouts.view_of(root, dtype, shape, strides, offset, bool(writeable))

    def read_tensor(self, depth):
        name, needs_grad, shape = self.token(str), self.number(0, 1), self.shape()
        if name not in _TENSORS:
            raise WireError("a dtype that does not cross")
        raw = self.take(layouts.tensor_itemsize(name) * math.prod(shape))
        if name == "bool" and len(raw) and np.frombuffer(raw, np.uint8).max() > 1:
            raise WireError("a bool that is neither 0 nor 1")
        # A judge that did not load torch expects no tensor, and nobody else makes it pay for the import.
        return layouts.tensor_from(raw, name, shape, bool(needs_grad)) if "torch" in sys.modules else Opaque("Tensor")


_READ = {
    "0": lambda r, depth: None,
    "b": lambda r, depth: bool(r.number(0, 1)),
    "i": lambda r, depth: r.number(-(2**63), 2**63 - 1),
    "I": _Reader.read_big,
    "f": _Reader.read_float,
    "c": lambda r, depth: complex(r.read_float(), r.read_float()),
    "s": lambda r, depth: str(r.take(r.size()), "utf-8"),
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
