"""The broadcast aligner's numbers against NumPy's."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labsupport.errors import LabError
from labsupport.figures.broadcast_model import fit, result_of
from labsupport.figures.broadcasting import draw
from labsupport.figures.words import byte_text, short_bytes, value_label

shapes = st.lists(st.sampled_from([0, 1, 1, 2, 3, 4]), max_size=4)


@settings(max_examples=300, deadline=None)
@given(st.lists(shapes, min_size=2, max_size=3))
def test_result_and_strides_are_numpys(given_shapes):
    arrays = [np.zeros(s) for s in given_shapes]
    model = draw(*arrays).model()
    try:
        expected = np.broadcast_shapes(*map(tuple, given_shapes))
    except ValueError:
        assert model["result"] is None
        assert model["clashes"]
        return
    assert model["result"] == list(expected)
    for row, array in zip(model["rows"], arrays):
        strides = np.broadcast_to(array, expected).strides
        for axis, n, s in zip(row["axes"], expected, strides):
            assert axis["stride"] == s or n <= 1  # the stride of an axis of one step is never used
        assert row["held"] == array.nbytes
        assert row["implied"] == np.broadcast_to(array, expected).nbytes
    assert model["new"] == np.zeros(expected).nbytes


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.sampled_from([1, 2, 3]), max_size=3), min_size=2, max_size=3))
def test_elements_are_numpys(given_shapes):
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-9, 9, size=s) for s in given_shapes]
    try:
        total = sum(arrays[1:], arrays[0])
    except ValueError:
        return
    figure = draw(*arrays)
    cells = {m["name"]: m["lines"][0] for m in figure.scene()["marks"] if m["kind"] == "cell"}
    for index in np.ndindex(*total.shape):
        name = ",".join(map(str, index))
        assert cells["r" + name] == str(total[index])
        for k, array in enumerate(arrays):
            assert cells[f"o{k}:{name}"] == str(np.broadcast_to(array, total.shape)[index])


@settings(max_examples=100, deadline=None)
@given(st.lists(shapes, min_size=2, max_size=2))
def test_the_suggested_axis_really_fits(given_shapes):
    if not result_of(given_shapes)[1]:
        return
    found = fit("ab", given_shapes)
    if found is None:
        return
    code, shape, result = found
    arrays = {name: np.zeros(s) for name, s in zip("ab", given_shapes)}
    assert eval(code, arrays.copy()).shape == tuple(shape)
    other = arrays["b" if code[0] == "a" else "a"]
    assert (eval(code, arrays.copy()) + other).shape == tuple(result)


def test_failure_names_the_axis_and_the_way_out():
    figure = draw((4,), (4, 3))
    assert "Axis 1 does not fit: a has 4 and b has 3" in figure.alt
    assert "a[:, None] has shape (4, 1) and would fit: the result is (4, 3)" in figure.alt
    assert "raises ValueError" in figure.code()


@pytest.mark.parametrize(
    "shapes", [[(3, 1), (4,)], [(3, 1), (2, 1, 1)], [(4,), (1, 4)], [(1,), (1, 1)], [(0, 1), (1,)]]
)
def test_the_code_says_what_numpy_says(shapes):
    a, b = map(np.zeros, shapes)
    for line in draw(a, b).code().splitlines():
        call, _, says = line.partition("  # ")
        assert str(eval(call, {"np": np, "a": a, "b": b})) == says


def test_a_new_axis_of_size_1_is_not_called_stretched():
    figure = draw(np.zeros(4), np.zeros((1, 4)))
    (added,) = [m for m in figure.scene()["marks"] if m.get("name") == "t0:0"]
    assert (added["role"], added["lines"]) == ("touched", ["new, 1", "stride 0"])
    assert "Stretched" not in figure.alt
    assert "Stretched with stride 0, nothing copied: a along axis 0." in draw((4,), (2, 4)).alt


def test_bytes_held_count_what_a_broadcast_array_really_holds():
    model = draw(np.broadcast_to(1.0, (1000, 1000)), (1000, 1000)).model()
    assert [r["held"] for r in model["rows"]] == [8, 8_000_000]


def test_large_results_show_the_table_only_and_say_so():
    figure = draw((50, 1), (60,))
    assert not figure.model()["drawn"]
    assert "up to 3 axes and 160 elements" in figure.alt
    assert draw((2, 2, 2, 2), (2,)).model()["drawn"] is False


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ([3, 4], ""),
        ("error", "It works"),
        ([3, 1, 4], "not appended"),
        ([3, 1], "the 1 stretches"),
        ([4], "2 axes"),
        ([4, 4], "axis 0 only one shape has a size"),
    ],
)
def test_a_wrong_shape_gets_its_own_reason(answer, reason):
    found = draw((3, 1), (4,)).reason(answer)
    assert reason in found if reason else found == ""


def test_reasons_for_lining_up_at_the_left_for_zero_and_for_errors():
    assert "from the right" in draw((4,), (4, 3)).reason([4, 3])
    assert "1 stretches to 0" in draw((0,), (1,)).reason([1])
    assert draw((4,), (4, 3)).reason("error") == ""
    assert "Axis 1 does not fit" in draw((4,), (4, 3)).reason([4, 4])


def test_predicting_hides_result_and_stretching():
    figure = draw((3, 1), (4,)).set(predict=True)
    shown = str(figure.scene()["marks"]) + figure.alt + figure.code()
    assert "(3, 4)" not in shown
    assert "→" not in shown
    assert "(3, 4)" in figure.set(revealed=True).alt


def test_real_values_and_dtype_of_the_result():
    figure = draw(np.array([250, 10], np.uint8), np.array([[10]], np.uint8))
    assert figure.source["result"]["dtype"] == "uint8"
    assert figure.source["result"]["labels"] == ["4", "20"]  # uint8 wraps
    edited = figure.set(shapes=[[2], [2, 1]])
    assert "values are made up" in edited.alt


def test_tensors_are_accepted():
    torch = pytest.importorskip("torch")
    figure = draw(torch.arange(3.0)[:, None], torch.arange(4.0))
    assert figure.model()["result"] == [3, 4]
    assert figure.source["operands"][0]["labels"] == [value_label(v) for v in (0.0, 1.0, 2.0)]


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: draw((3,)), "1 operands"),
        (lambda: draw((3,), "ab"), "neither an array nor a shape"),
        (lambda: draw((3,), 4), "neither an array nor a shape"),
        (lambda: draw((3,), (-1,)), "cannot be drawn"),
        (lambda: draw((3,), (1,) * 7), "cannot be drawn"),
        (lambda: draw((3,), (1,)).set(shapes=[(3,)]), "1 shapes for 2 operands"),
    ],
)
def test_what_cannot_be_drawn_is_explained(act, message):
    with pytest.raises(LabError, match=message):
        act()


def test_bytes_in_words():
    assert byte_text(1) == "1 byte"
    assert byte_text(8_000_000) == "8,000,000 bytes"
    assert byte_text(102_400_000_000) == "102.4 GB"
    assert byte_text(5 * 10**21) == "5,000.0 EB"
    assert [short_bytes(n) for n in (7888, 114_984, 8_000_000, 10**13)] == ["7,888 B", "115 kB", "8.0 MB", "10 TB"]
