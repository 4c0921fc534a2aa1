"""The wire: plain data arrives as it was, everything else is refused before it costs anything."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from fuzz_wire import frame, same

from labsupport.grading import codec
from labsupport.grading.codec import MAGIC, PREFIX
from labsupport.grading.wire import MAX_BYTES, TooLarge, WireError, decode, encode
from labsupport.probing.plain import Opaque

GUARD_S = 30

# -- what crosses -------------------------------------------------------------------------------------------------

PLAIN = [
    None, True, False, 0, -1, 2**63 - 1, 1 - 2**63, -(2**63), 2**64, 10**4200, -(10**300), 1.5, -0.0, 5e-324,
    float("nan"), float("inf"), 1j, complex("nan-0j"), "", "é 😀\n\0", b"", b"\0\xff", [], (), {}, [[], ((),)],
    {"a": 1, 2: ["b"]}, {"1": 1, 1: "1"}, np.arange(6.0).reshape(2, 3), np.array(3), np.zeros((0, 5)), np.float32(2),
    np.bool_(True), np.str_("hé"), np.bytes_(b"x"), np.int8(-1), np.array([1, 2], ">i4"), np.array(["ab", ""]),
    np.array([b"a"]), np.array([1 + 2j], "c8"), np.array([np.nan], "f2"), Opaque("Mock"),
]  # fmt: skip


@pytest.mark.parametrize("value", PLAIN, ids=lambda value: type(value).__name__)
def test_plain_data_arrives_as_it_was(value):
    assert same(decode(encode(value)), value)


class Text(str):
    pass


class Number(float):
    pass


class Equal:
    def __eq__(self, other):
        return True

    __hash__ = None


class Table(np.ndarray):
    pass


OTHER = [
    (Text("a"), "Text"),
    (Number(1), "Number"),
    (type("Whole", (int,), {})(1), "Whole"),
    (type("Map", (dict,), {})(), "Map"),
    (Equal(), "Equal"),
    (np.zeros(2).view(Table), "Table"),
    (np.ma.array([1]), "MaskedArray"),
    (type("float64", (np.float64,), {})(1.0), "float64"),
    (np.array([None]), "ndarray of object"),
    (np.zeros(2, "i4,f8"), "ndarray of [('f0', '<i4'), ('f1', '<f8')]"),
    (np.array(["2026-01-01"], "M8[D]"), "ndarray of datetime64[D]"),
    (np.zeros(2, "V3"), "ndarray of |V3"),
    (np.longdouble(1), "longdouble"),
    (np.datetime64("2026-01-01"), "datetime64"),
    (np.array([0x110000], "u4").view("U1"), "ndarray of <U1"),
    ({1.5: 0}, "dict with keys that are neither text nor whole numbers"),
    ({True: 0}, "dict with keys that are neither text nor whole numbers"),
    ({2**64: 0}, "dict with keys that are neither text nor whole numbers"),
    ("\ud800", "str that is not text (lone surrogates)"),
    (10**5000, "int of 16,610 bits"),
    (range(3), "range"),
    (print, "builtin_function_or_method"),
    (np.broadcast_to(np.float64(1), (2**16, 2**16)), "ndarray of float64"),
]


@pytest.mark.parametrize(("value", "name"), OTHER, ids=[name for _, name in OTHER])
def test_whatever_is_not_exactly_plain_arrives_as_something_that_equals_nothing(value, name):
    got = decode(encode([value, 1]))
    assert (type(got[0]), got[0].type_name, got[1]) == (Opaque, name, 1)
    assert got[0] != got[0]


def test_a_bool_in_name_only_becomes_a_bool():
    odd = np.array([0, 2, 255], np.uint8).view(bool)
    assert decode(encode(odd)).view(np.uint8).tolist() == [0, 1, 1]
    assert decode(encode(odd[1])).tobytes() == b"\x01"


def test_the_caps_are_told_before_anything_is_built():
    with pytest.raises(TooLarge, match="parts"):
        encode([0] * 60_000)
    with pytest.raises(TooLarge, match="text"):
        encode(["x" * codec.MAX_TEXT, "x"])
    with pytest.raises(TooLarge, match="bytes"):
        encode(np.empty(MAX_BYTES, np.uint8))
    huge = np.broadcast_to(np.float64(1), (2**15, 2**15))  # 8 GiB if anyone made it
    with pytest.raises(TooLarge, match="bytes"):
        encode(huge)
    with pytest.raises(TooLarge, match="bytes"):
        encode(np.broadcast_to(np.array("a"), (2**20, 2**10)))
    assert encode(np.zeros(MAX_BYTES, np.uint8), max_bytes=2 * MAX_BYTES)


def test_a_list_that_holds_itself_ends():
    endless = []
    endless.append(endless)
    got, depth = decode(encode(endless)), 0
    while type(got) is list:
        got, depth = got[0], depth + 1
    assert (got.type_name, depth) == ("structure nested too deeply", codec.MAX_DEPTH)


# -- layouts ------------------------------------------------------------------------------------------------------


def layouts():
    base = np.arange(24.0).reshape(2, 3, 4).copy()
    turned = base.transpose(1, 0, 2) + 1  # owns memory in neither C nor Fortran order
    frozen = base[0].view()
    frozen.flags.writeable = False
    views = [base, base[0], base.T, base[:, ::-1, 1:], base.view("u1")[..., ::2], base[0, 0, :0], frozen]
    stretched = np.broadcast_to(base[0, 0], (5, 4))
    others = [turned, turned[1], np.asfortranarray(base[0]), base.astype(">f4")[::2], np.array(5.0), np.zeros((0, 3)).T]
    return [*views, stretched, *others]


def test_inputs_arrive_with_their_strides_and_share_what_they_shared():
    sent = layouts()
    got = decode(encode(tuple(sent), keep_layout=True), layouts_allowed=True)
    for mine, theirs in zip(sent, got, strict=True):
        assert same(mine, theirs)
        facts = [(a.strides, a.flags.writeable, a.flags.f_contiguous) for a in (mine, theirs)]
        assert facts[0] == facts[1]
    shared = [[[np.shares_memory(a, b) for b in side] for a in side] for side in (sent, got)]
    assert shared[0] == shared[1]
    got[0][0, 0, 0] = 99
    assert (got[1][0, 0], got[2][0, 0, 0], got[7][3, 0]) == (99, 99, 99)


def test_an_array_with_gaps_and_no_owner_arrives_without_them():
    gaps = np.lib.stride_tricks.as_strided(np.arange(8.0), (2,), (32,))
    got = decode(encode(gaps, keep_layout=True), layouts_allowed=True)
    assert (got.tolist(), got.strides) == ([0, 4], (8,))


def test_an_array_that_owned_its_memory_owns_it_again():
    sent = (np.zeros((2, 3)), np.zeros((2, 3), order="F"), np.arange(24.0).reshape(2, 3, 4).transpose(1, 0, 2) * 2)
    got = decode(encode(sent, keep_layout=True), layouts_allowed=True)
    assert [a.base is None and a.flags.owndata for a in got] == [True] * 3
    assert [a.strides for a in got] == [a.strides for a in sent]


def test_the_judge_takes_no_layouts():
    with pytest.raises(WireError, match="layout"):
        decode(encode(np.zeros(3), keep_layout=True))


OUTSIDE = [
    ("<f8", 0, [4], [8]),
    ("<f8", 0, [2], [-8]),
    ("<f8", 20, [1], [8]),
    ("<f8", 0, [2, 2], [8, 16]),
    ("<c16", 16, [1], [0]),
    ("<f8", 2**31 - 1, [0], [8]),
]


@pytest.mark.parametrize(("dtype", "offset", "shape", "strides"), OUTSIDE)
def test_a_view_outside_its_array_is_refused(dtype, offset, shape, strides):
    root = ["v", 0, "<f8", 1, 3, 0]
    raw = frame([*root, "p", dtype, 1, offset, len(shape), *shape, *strides], bytes(24))
    with pytest.raises(WireError):
        decode(raw, layouts_allowed=True)


def test_a_view_that_reads_bytes_as_text_has_to_be_text():
    raw = frame(["v", 0, "<c8", 0, "p", "<U2", 1, 0, 2, 3, 1048576, 0, 0], b"\xff" * 8)
    with pytest.raises(WireError, match="Unicode"):
        decode(raw, layouts_allowed=True)


def test_a_view_of_an_empty_array_reaches_nothing():
    # NumPy itself lets this one through when the buffer is empty.
    raw = frame(["v", 0, "<u8", 1, 0, 0, "p", "<u4", 1, 0, 1, 1_000_000, 4])
    with pytest.raises(WireError):
        decode(raw, layouts_allowed=True)


# -- what is refused ----------------------------------------------------------------------------------------------

GOOD = encode([1, "a", np.zeros(2)])
PICKLE = pickle.dumps(os.getcwd)
HOSTILE = {
    "nothing": b"",
    "half a prefix": GOOD[:7],
    "no header": frame(b""),
    "cut": GOOD[:-1],
    "something after": GOOD + b"\0",
    "another magic": b"LAB2" + GOOD[4:],
    "a pickle": PICKLE,
    "a pickle in a frame": frame(PICKLE),
    "header longer than the frame": PREFIX.pack(MAGIC, 1000, 0) + b'["0"]',
    "4 GB announced": PREFIX.pack(MAGIC, 5, 2**32 - 1) + b'["0"]',
    "4 GB of header announced": PREFIX.pack(MAGIC, 2**32 - 1, 0) + b'["0"]',
    "200,000 lists deep": frame(b"[" * 200_000 + b"]" * 200_000),
    "200,000 lists open": frame(b"[" * 200_000),
    "200,000 objects deep": frame(b'[{"a":' * 200_000 + b"0" + b"}]" * 200_000),
    "an object": frame(b'[{"0":1}]'),
    "twice the same key": frame(["d", 2, "i", 1, "0", "i", 1, "0"]),
    "NaN": frame(b'["f",NaN]'),
    "Infinity": frame(b'["i",Infinity]'),
    "a JSON float": frame(b'["i",1.0]'),
    "an exponent": frame(b'["i",1e2]'),
    "minus zero": frame(b'["i",-0]'),
    "a million digits": frame(b'["i",' + b"9" * 1_000_000 + b"]"),
    "spaces": frame(b'["i", 1]'),
    "an escape": frame(b'["\\u0030"]'),
    "not ASCII": frame('["é"]'.encode()),
    "not UTF-8": frame(b'["\xff"]'),
    "a null byte": frame(b'["0"]\0'),
    "nothing said": frame([]),
    "unknown type": frame(["z"]),
    "type that is no text": frame([0]),
    "true for one": frame(b'["b",true]'),
    "null": frame(b"[null]"),
    "two": frame(["b", 2]),
    "65 bits": frame(["i", 2**64]),
    "long int too short": frame(["I", 9], bytes(9)),
    "long int too long": frame(["I", 5000], b"\x01" * 5000),
    "float in decimal": frame(["f", "1.5"]),
    "float with a sign on NaN": frame(["f", "-nan"]),
    "float out of range": frame(["f", "0x1.0p+99999"]),
    "float as a number": frame(["f", 1]),
    "float a mile long": frame(["f", "0x" + "0" * 1_000_000 + "1p0"]),
    "text not UTF-8": frame(["s", 2], b"\xff\xff"),
    "text with a surrogate": frame(["s", 3], b"\xed\xa0\x80"),
    "text shorter than said": frame(["s", 5], b"abc"),
    "negative length": frame(["s", -1]),
    "list of more than there is": frame(["l", 10**9, "0"]),
    "bytes nobody claimed": frame(["0"], b"x"),
    "tokens nobody claimed": frame(["0", "0"]),
    "key that is a float": frame(["d", 1, "f", "0x1.0p+0", "0"]),
    "key that is a list": frame(["d", 1, "l", 0, "0"]),
    "key of 65 bits": frame(["d", 1, "I", 9, "0"], (2**64).to_bytes(9, "little")),
    "objects": frame(["a", "|O", 1, 1], bytes(8)),
    "void": frame(["a", "|V8", 1, 1], bytes(8)),
    "datetime": frame(["a", "<M8[s]", 1, 1], bytes(8)),
    "long double": frame(["a", "<f16", 1, 1], bytes(16)),
    "fields": frame(["a", "i4,f8", 1, 1], bytes(12)),
    "native order": frame(["a", "f8", 1, 1], bytes(8)),
    "a dtype that is an expression": frame(["a", ",U1", 1, 1], bytes(4)),
    "text without width": frame(["a", "<U0", 1, 10**9]),
    "text with a leading zero": frame(["a", "<U01", 1, 1], bytes(4)),
    "text of 4 GB": frame(["a", "<U999999999", 0]),
    "text beyond Unicode": frame(["a", "<U1", 1, 1], b"\xff\xff\xff\xff"),
    "text beyond Unicode without axes": frame(["a", "<U1", 0], b"\xff\xff\xff\xff"),
    "a text scalar beyond Unicode": frame(["n", "<U1"], b"\xff\xff\xff\xff"),
    "surrogates in an array": frame(["a", "<U1", 1, 1], b"\x00\xd8\x00\x00"),
    "a bool of 2": frame(["a", "|b1", 1, 1], b"\x02"),
    "a bool scalar of 2": frame(["n", "|b1"], b"\x02"),
    "shape larger than its bytes": frame(["a", "<f8", 1, 3], bytes(16)),
    "shape smaller than its bytes": frame(["a", "<f8", 1, 1], bytes(16)),
    "shape that overflows": frame(["a", "<f8", 3, 2**31, 2**31, 4], bytes(8)),
    "shape without measure": frame(["a", "<f8", 3, 2**31, 2**31, 0]),
    "negative side": frame(["a", "<f8", 1, -1]),
    "33 axes": frame(["a", "<f8", 33, *[1] * 33], bytes(8)),
    "61 deep": frame([*["l", 1] * 61, "0"]),
    "no name": frame(["o", 0]),
    "a long name": frame(["o", 1000], b"x" * 1000),
    "too many parts": frame(["l", 120_000, *["0"] * 120_000]),
    "tensor of strings": frame(["T", "str", 0, 0], b"x"),
    "tensor of whole numbers with gradients": frame(["T", "int8", 1, 0], b"x"),
    "tensor shorter than said": frame(["T", "float32", 0, 1, 3], bytes(8)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_frames_are_refused(name):
    with pytest.raises(WireError):
        decode(HOSTILE[name])
    with pytest.raises(WireError):
        decode(HOSTILE[name], layouts_allowed=True)


def test_a_judge_without_torch_is_not_made_to_load_it():
    raw = frame(["T", "float32", 0, 1, 2], bytes(8))
    program = f"import sys; from labsupport.grading.wire import decode; print(decode({raw!r}), 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=GUARD_S)
    assert done.stdout.split() == ["<Tensor>", "False"]


def test_tensors_cross_where_torch_is_loaded():
    torch = pytest.importorskip("torch")
    for tensor in (
        torch.arange(6.0).reshape(2, 3).T, torch.tensor(3), torch.zeros(0, 2), torch.ones(2, dtype=torch.bfloat16),
        torch.ones(2, requires_grad=True), torch.tensor([1 + 2j]).conj(), torch.tensor([True, False]),
    ):  # fmt: skip
        got = decode(encode(tensor))
        assert torch.equal(got, tensor)
        assert (got.dtype, got.shape, got.requires_grad) == (tensor.dtype, tensor.shape, tensor.requires_grad)
    for other, name in (
        (torch.nn.Parameter(torch.ones(2)), "Parameter"),
        (torch.ones(2).to_sparse(), "Tensor of float32"),
        (torch.ones(2, device="meta"), "Tensor of float32"),
    ):
        assert decode(encode(other)).type_name == name
