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

__all__ = ["MAX_BYTES", "MAX_QUESTION", "TooLarge", "WireError", "encode"]

MAGIC = b"LAB1"
PREFIX = struct.Struct("<4sII")
MAX_BYTES = 16 * 1024 * 1024  # of a whole frame, unless the caller allows more
MAX_QUESTION = 4 * MAX_BYTES  # what the judge sends it knows; inputs may be larger than answers
MAX_HEADER = 3 * 1024 * 1024
MAX_TOKENS = 100_000
MAX_DEPTH = 60  # of the value; plain data itself stops at 40
MAX_DIMS = 32
MAX_ELEMENTS = 2**31  # counting an empty axis as 1, so that no shape is absurd
MAX_OFFSET = 2**31 - 1  # bytes
MAX_INT_BYTES = 1785  # 4,298 decimal digits: Python refuses to print longer ones
MAX_TYPE_NAME = 200
MAX_TEXT = 4 * 1024 * 1024  # bytes of all str together: one wide character makes each of its str four times as large

_NUMERIC = ("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16")
DTYPES = {np.dtype(order + name).str: np.dtype(order + name) for name in _NUMERIC for order in "<>"}
TENSOR_BYTES = {
    "bool": 1, "uint8": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8, "float16": 2, "bfloat16": 2, "float32": 4,
    "float64": 8, "complex64": 8, "complex128": 16,
}  # fmt: skip
_SURROGATES = (0xD800, 0xDFFF)


class WireError(Exception):
    """A frame that is not what it says, or not what may be said."""


class TooLarge(WireError):
    """A value or a frame over one of the caps; the text names the cap."""


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


def header_of(tokens):
    """Return a header's bytes: its only spelling."""
    return _as_json(tokens).encode("ascii")


_as_json = json.JSONEncoder(separators=(",", ":")).encode


class _Writer:
    def __init__(self, max_bytes, keep_layout):
        self.max_bytes, self.keep_layout = max_bytes, keep_layout
        self.tokens, self.buffers, self.size, self.text = [], [], PREFIX.size, 0
        self.roots = {}  # id of an array that owns memory -> (its number, the array, kept alive)

    def frame(self):
        if len(self.tokens) > MAX_TOKENS:
            raise TooLarge(f"more than {MAX_TOKENS:,} parts")
        header = header_of(self.tokens)
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
        size = self.size + len(raw)
        if size > self.max_bytes:
            raise TooLarge(f"more than {self.max_bytes:,} bytes")
        self.size = size
        self.buffers.append(raw)

    def make_room(self, size):
        if self.size + size > self.max_bytes:
            raise TooLarge(f"more than {self.max_bytes:,} bytes")

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
        self.text += len(raw)
        if self.text > MAX_TEXT:
            raise TooLarge(f"more than {MAX_TEXT:,} bytes of text")
        self.tokens += ("s", len(raw))
        self.put_bytes(raw)

    def put_raw(self, value, depth):
        self.add("y", len(value))
        self.put_bytes(value)

    def put_items(self, value, depth):
        self.add("l" if type(value) is list else "t", len(value))
        for item in value:
            self.put(item, depth + 1)

    def put_dict(self, value, depth):
        if not all(is_key(key) for key in value):
            return self.put_opaque("dict with keys that are neither text nor whole numbers")
        self.add("d", len(value))
        for key, item in value.items():
            self.put(key, depth + 1)
            self.put(item, depth + 1)

    def put_array(self, value, depth):
        if value.dtype.kind == "U" and not self.keep_layout:
            self.make_room(value.nbytes)  # first: a stretched array is small until somebody looks at all of it
        name = _dtype_name(value) if is_shape(value.shape) else None
        if name is None:
            return self.put_opaque(f"ndarray of {value.dtype}")
        if self.keep_layout:
            return self.put_view(value)
        self.make_room(value.nbytes)
        self.add("a", name, value.ndim, *value.shape)
        self.put_bytes(_bytes_of(value))

    def put_view(self, value):
        root, axes, value, offset = layouts.rooted(value, lambda array: _dtype_name(array) is not None)
        known = id(root) in self.roots
        number, root = self.roots.setdefault(id(root), (len(self.roots), root))
        self.add("v", number)
        if not known:
            self.make_room(root.nbytes)
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
        dense = value.layout is sys.modules["torch"].strided and not value.is_quantized and not value.is_meta
        if name not in TENSOR_BYTES or not dense or not is_shape(value.shape):
            return self.put_opaque(f"Tensor of {name}")
        self.make_room(value.numel() * TENSOR_BYTES[name])
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


def is_shape(shape):
    """Return whether a shape may cross: few axes, and no size that only an empty axis makes possible."""
    return len(shape) <= MAX_DIMS and math.prod(side or 1 for side in shape) <= MAX_ELEMENTS


def is_key(key):
    """Return whether a value may be a key: exact text, or an exact int that hashes to itself (below 64 bits)."""
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
    return name if fixed and (array.dtype.kind == "S" or is_text(array)) else None


def _bytes_of(array):
    if array.dtype.kind == "b":
        array = array.view(np.uint8) != 0  # any other byte than 0 and 1 is a bool in name only
    return array.tobytes()


def is_text(array):
    """Return whether an array of `U` holds only code points that are characters."""
    once = tuple(slice(None) if step else slice(1) for step in array.strides)  # a stretched axis repeats itself
    array = array[(*once, ...)]  # the dots keep an array an array: a scalar made of such bytes is a SystemError
    codes = np.ascontiguousarray(array).reshape(-1).view(array.dtype.str[0] + "u4")
    low = codes < _SURROGATES[0]
    low |= (codes > _SURROGATES[1]) & (codes <= sys.maxunicode)
    return bool(low.all())
