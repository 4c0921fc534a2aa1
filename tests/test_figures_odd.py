"""Figures of objects nobody planned for: drawn when that is possible, else told in words; never invalid, never ours."""

import json
from xml.etree import ElementTree

import numpy as np
import pytest

from labsupport.errors import LabError
from labsupport.figures import broadcasting, strides

A = np.arange(6.0).reshape(2, 3)
NAN = float("nan")


def drawn(figure):
    """Return a figure after looking at all that a browser gets of it."""
    json.dumps([figure.source, figure.state], allow_nan=False).encode("utf-8")
    ElementTree.fromstring(figure.svg())
    assert figure.html() and figure.code() and figure.alt
    return figure


class Silent:
    """An object that cannot be shown, nor added."""

    def __repr__(self):
        raise ValueError("no text for this")

    def __add__(self, other):
        raise KeyError("no sum for this")

    __radd__ = __add__


class Liar:
    shape = (2, 3)

    def __getattr__(self, name):
        raise RuntimeError(f"no {name} here")


def test_objects_that_cannot_be_shown_go_by_their_type():
    array = np.array([Silent(), 1, "x"], dtype=object)
    assert drawn(strides.draw(array)).source["runs"] == [[0, ["<Silent>", "1", "'x'"]]]
    source = drawn(broadcasting.draw(array, array)).source
    assert source["operands"][0]["labels"] == ["<Silent>", "1", "x"] and source["result"]["labels"] == []


@pytest.mark.parametrize("text, label", [("\x01a", r"\x01a"), ("a\nb", r"a\nb"), ("\ud800", r"\ud800"), ("é", "é")])
def test_texts_that_no_picture_can_hold_are_escaped(text, label):
    for dtype in ("U3", object):
        array = np.array([text, "x"], dtype=dtype)
        assert drawn(broadcasting.draw(array, array)).source["operands"][0]["labels"] == [label, "x"]
        assert label in drawn(strides.draw(array)).source["runs"][0][1][0]


@pytest.mark.parametrize("array", [
    np.ma.array([1, 2, 3], mask=[0, 1, 0]), np.zeros(3, "V5"), np.zeros(3, "V0"), np.array(["2020", "NaT"], "M8[D]"),
    np.zeros(3, [("a", "i4"), ("b", "f8")]), np.ones(3, np.longdouble), np.array([], "S0"), np.array([np.nan, np.inf]),
    np.array([10**5000], dtype=object), np.array(["a"], dtype=np.dtypes.StringDType()), np.zeros((0, 3)),
], ids=lambda array: str(array.dtype))  # fmt: skip
def test_arrays_of_every_kind_are_drawn(array):
    drawn(strides.draw(array))
    drawn(broadcasting.draw(array, array))


WRONG = {
    "a shape that is a number": lambda: strides.draw(A, shape=5),
    "a shape that is a text": lambda: strides.draw(A, shape="23", strides=(8, 8)),
    "an offset that is no number": lambda: strides.draw(A, offset=NAN),
    "a flag that is an array": lambda: strides.draw(A, writeable=A),
    "a name that is a number": lambda: strides.draw(A, name=5),
    "a name that cannot be shown": lambda: strides.draw(A, name=Silent()),
    "an unknown option": lambda: strides.draw(A, colour=3),
    "no array": lambda: strides.draw(),
    "two arrays": lambda: strides.draw(A, A),
    "an object that lies": lambda: strides.draw(Liar()),
    "an object that cannot be shown": lambda: strides.draw(Silent()),
    "names that are a number": lambda: broadcasting.draw(A, A, names=5),
    "names that are numbers": lambda: broadcasting.draw(A, A, names=[1, 2]),
    "too few names": lambda: broadcasting.draw(A, A, names=["x"]),
    "an unknown option of shapes": lambda: broadcasting.draw(A, A, shape=3),
    "no operands": lambda: broadcasting.draw(),
    "an operand that lies": lambda: broadcasting.draw(A, Liar()),
    "an operand that cannot be shown": lambda: broadcasting.draw(A, Silent()),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_use_is_told_in_words(name):
    with pytest.raises(LabError) as raised:
        WRONG[name]()
    assert "Error" not in raised.value.what and (raised.value.next_step or "must be" in raised.value.what)


def test_what_a_figure_takes_is_told_with_an_unknown_option():
    with pytest.raises(LabError) as raised:
        strides.draw(A, colour="red")
    assert "colour" in raised.value.why and "shape, strides, offset" in raised.value.next_step


def test_any_exception_of_an_object_becomes_words(monkeypatch):
    class Odd(np.ndarray):
        @property
        def strides(self):
            raise ZeroDivisionError("no strides today\nand more")

    with pytest.raises(LabError, match="cannot be drawn") as raised:
        strides.draw(A.view(Odd))
    assert raised.value.why == "ZeroDivisionError: no strides today" and "NumPy array" in raised.value.next_step


SETTINGS = {
    "asked": (NAN, "x", None, 1.5), "right": (NAN,), "code": (NAN, "x", 3, A), "predict": ("x",), "revealed": (A, None),
    "at": (5, ["x", 1], [0.5, 1], [NAN, 0]), "shape": (5, "ab"), "strides": (5,), "offset": (NAN, None, [1]),
    "steps": (5, [NAN], "[::2]"), "shapes": (5, [5, 5], [(2, 3)], [(2, NAN), (3,)]),
}  # fmt: skip


@pytest.mark.parametrize("part, value", [(part, value) for part, values in SETTINGS.items() for value in values])
@pytest.mark.parametrize("make", [lambda: strides.draw(A), lambda: broadcasting.draw(A, A)], ids=["strides", "shapes"])
def test_a_setting_that_makes_no_sense_is_refused_and_nothing_changes(make, part, value):
    figure = make()
    before = figure.state
    with pytest.raises(LabError):
        figure.set(**{part: value})
    assert figure.state == before
    drawn(figure)


def test_settings_become_plain_numbers_and_flags():
    state = drawn(
        strides.draw(A).set(asked=np.int64(3), code=np.True_, offset=np.uint8(8), shape=np.array([1, 2]))
    ).state
    assert state["asked"] == 3 and state["code"] is True and state["offset"] == 8 and state["shape"] == [1, 2]


# Tensors


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


@pytest.mark.filterwarnings("ignore:ComplexHalf")
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "complex32", "uint16"])
def test_tensors_that_numpy_has_no_dtype_for_show_their_values_and_bytes(torch, dtype):
    tensor = torch.arange(6.0).reshape(2, 3).to(getattr(torch, dtype)).T
    source = drawn(broadcasting.draw(tensor, tensor)).source
    item = tensor.element_size()
    (one, _) = source["operands"]
    wanted = ["0", "3", "1", "4", "2", "5"]
    assert [label.removesuffix("+0j") for label in one["labels"]] == wanted
    assert (one["dtype"], one["itemsize"], one["strides"]) == (dtype, item, [item, 3 * item])
    assert source["result"]["itemsize"] == item
    assert [text.removesuffix("+0j") for text in drawn(strides.draw(tensor)).source["runs"][0][1]] == sorted(wanted)


def test_the_sum_of_tensors_is_torchs_own(torch):
    large = torch.tensor([256.0]).bfloat16()
    one = torch.ones(1).bfloat16()
    assert broadcasting.draw(large, one).source["result"] == {"dtype": "bfloat16", "itemsize": 2, "labels": ["256"]}
    whole, half = torch.arange(3), torch.ones(3, dtype=torch.float32)
    assert broadcasting.draw(whole, half).source["result"]["dtype"] == "float32"  # NumPy would say float64
    assert broadcasting.draw(half.half(), torch.tensor(2.0)).source["result"]["dtype"] == "float16"
    far = torch.zeros(1000, 1).bfloat16()
    assert broadcasting.draw(far, far.T).source["result"] == {"dtype": "bfloat16", "itemsize": 2, "labels": []}


def test_a_tensor_beside_an_array(torch):
    source = drawn(broadcasting.draw(torch.arange(3).bfloat16(), np.ones(3))).source
    assert source["result"] == {"dtype": "float64", "itemsize": 8, "labels": ["1", "2", "3"]}
    assert source["operands"][0]["itemsize"] == 2


def test_lazy_conjugates_and_negatives_show_what_is_read(torch):
    conj = torch.tensor([1 + 2j, 3 - 1j]).conj()
    assert drawn(broadcasting.draw(conj, conj)).source["operands"][0]["labels"] == ["1-2j", "3+1j"]
    assert drawn(broadcasting.draw(conj.imag, conj.imag)).source["result"]["labels"] == ["-4", "2"]
    assert drawn(broadcasting.draw(conj, np.ones(2))).source["result"]["labels"] == ["2-2j", "4+1j"]
    assert drawn(strides.draw(conj)).source["runs"] == [[0, ["1-2j", "3+1j"]]]


def test_tensors_whose_values_torch_itself_cannot_tell_are_drawn_without(torch):
    if not hasattr(torch, "bits8"):
        pytest.skip("this torch has no bits8")
    bits = torch.zeros(4, dtype=torch.uint8).view(torch.bits8)
    assert drawn(strides.draw(bits)).source["runs"] == [[0, ["·"] * 4]]
    assert drawn(broadcasting.draw(bits, bits)).source["operands"][0]["labels"] == ["·"] * 4


NO_MEMORY = {
    "meta": (lambda torch: torch.empty(2, 3, device="meta"), "another device"),
    "sparse": (lambda torch: torch.eye(3).to_sparse(), "to_dense"),
    "compressed": (lambda torch: torch.eye(3).to_sparse_csr(), "to_dense"),
    "nested": (lambda torch: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), "unbind"),
    "jagged": (lambda torch: torch.nested.nested_tensor([torch.ones(2)], layout=torch.jagged), "unbind"),
    "quantized": (lambda torch: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.quint8), "dequantize"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NO_MEMORY)
def test_tensors_without_values_or_strides_are_told_with_what_to_pass(torch, name):
    make, step = NO_MEMORY[name]
    tensor = make(torch)
    for draw in (strides.draw, lambda t: broadcasting.draw(t, A), lambda t: broadcasting.draw(t, t)):
        with pytest.raises(LabError) as raised:
            draw(tensor)
        assert step in raised.value.next_step


def test_parameters_and_tensors_with_a_history_are_drawn(torch):
    weight = torch.nn.Parameter(torch.ones(2, 3))
    for tensor in (weight, weight * 2, weight.T, torch.ones(3).expand(2, 3), torch.empty(0, 3), torch.tensor(1.5)):
        drawn(strides.draw(tensor))
        drawn(broadcasting.draw(tensor, tensor))
