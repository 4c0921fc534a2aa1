"""The stride explorer's numbers against NumPy's, for layouts nobody would write by hand."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided, sliding_window_view

from labsupport.errors import LabError
from labsupport.figures.stride_model import LIMIT, selected, trim
from labsupport.figures.strides import draw
from labsupport.figures.words import value_label

layouts = st.integers(0, 4).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(0, 5), min_size=n, max_size=n),
        st.lists(st.integers(-6, 6).map(lambda k: 8 * k), min_size=n, max_size=n),
        st.integers(-3, 30).map(lambda k: 8 * k),
    )
)


def address_of(element, base):
    return element.__array_interface__["data"][0] - base.__array_interface__["data"][0]


@settings(max_examples=150, deadline=None)
@given(layouts)
def test_every_cell_reads_what_numpy_reads(layout):
    shape, strides, offset = layout
    base = np.arange(24) * 3
    model = draw(base, shape=shape, strides=strides, offset=offset).model()
    assert [c["index"] for c in model["cells"]] == [list(i) for i in np.ndindex(*trim(shape))]
    try:
        view = np.ndarray(shape, base.dtype, buffer=base, offset=offset, strides=strides)
    except ValueError:
        assert model["out"] or not 0 <= offset <= base.nbytes or model["elements"] == 0 or model["past"]
        return
    assert model["out"] == 0
    for cell in model["cells"]:
        index = tuple(cell["index"])
        assert cell["at"] == address_of(view[(*index, ...)], base)
        assert cell["label"] == str(view[index])
    assert model["c"] == view.flags.c_contiguous
    assert model["f"] == view.flags.f_contiguous
    assert model["distinct"] == len({c["at"] for c in model["cells"]})


@settings(max_examples=100, deadline=None)
@given(layouts)
def test_reading_outside_is_told_to_the_byte(layout):
    shape, strides, offset = layout
    model = draw(np.arange(24), shape=shape, strides=strides, offset=offset).model()
    for cell in model["cells"]:
        inside = 0 <= cell["at"] and cell["at"] + 8 <= 192
        assert inside == (cell["out"] == "")
        assert cell["by"] == (0 if inside else -cell["at"] if cell["at"] < 0 else cell["at"] + 8 - 192)
    if model["drawn"] == model["shape"]:
        assert model["past"] == max((c["by"] for c in model["cells"] if c["at"] + 8 > 192), default=0)
        assert model["before"] == max((-c["at"] for c in model["cells"] if c["at"] < 0), default=0)


@settings(max_examples=60, deadline=None)
@given(layouts)
def test_memory_is_complete_and_in_order(layout):
    shape, strides, offset = layout
    model = draw(np.arange(24), shape=shape, strides=strides, offset=offset).model()
    starts = [e["at"] for e in model["entries"]]
    assert starts == sorted(starts)
    shown = {e["at"]: e for e in model["entries"] if "gap" not in e}
    assert {c["at"] for c in model["cells"]} <= set(shown)
    edge = min(0, starts[0])
    for entry in model["entries"]:  # no byte is missing and none is shown twice
        assert entry["at"] == edge
        edge += entry.get("gap", 8)
    assert all(c["readers"] == shown[c["at"]]["readers"] for c in model["cells"])


SLICES = {
    "whole": lambda a: a,
    "transposed": lambda a: a.T,
    "reversed": lambda a: a[::-1, ::-1],
    "step": lambda a: a[1::2, ::3],
    "new axis": lambda a: a[:, None],
    "one row": lambda a: a[2],
    "one element": lambda a: a[1:2, 2:3][0, 0, ...],
    "windows": lambda a: sliding_window_view(a, (2, 2)),
    "broadcast": lambda a: np.broadcast_to(a[0], (3, 6)),
    "fortran": np.asfortranarray,
    "axes swapped copy": lambda a: a.T.copy(order="K").T,
    "empty": lambda a: a[:0],
    "real part": lambda a: (a + 1j).real,
    "imaginary part": lambda a: (a + 2j * a).imag,
    "smaller items": lambda a: a.view(np.uint8)[:, :3],
    "bool": lambda a: a > 4,
    "float16": lambda a: a.astype(np.float16)[:, ::-2],
    "text": lambda a: a.astype("U4"),
    "dates": lambda a: a.astype("M8[D]"),
    "objects": lambda a: a.astype(object)[::2],
}


@pytest.mark.parametrize("name", SLICES)
def test_drawn_from_the_real_array(name):
    array = SLICES[name](np.arange(24).reshape(4, 6))
    figure = draw(array)
    model = figure.model()
    assert model["shape"] == list(array.shape)
    assert model["strides"] == list(array.strides)
    assert model["out"] == model["mixed"] == model["beyond"] == 0
    labels = [c["label"] for c in model["cells"]]
    if array.dtype.hasobject:
        assert labels == [repr(v) for v in array.flat]
    else:
        assert labels == [value_label(v) for v in array.flat]


def test_a_field_of_records_keeps_its_pitch():
    records = np.zeros(3, dtype=[("tag", "u1"), ("value", "f8")])
    records["value"] = [1.5, 2.5, 3.5]
    model = draw(records["value"]).model()
    assert [c["label"] for c in model["cells"]] == ["1.5", "2.5", "3.5"]
    assert [c["at"] for c in model["cells"]] == [1, 10, 19]
    assert model["mixed"] == 0


def test_bytes_of_a_buffer_that_is_not_an_array():
    array = np.frombuffer(bytes(range(16)), dtype="<u2")[1::2]
    model = draw(array).model()
    assert [c["label"] for c in model["cells"]] == [str(v) for v in array]
    assert draw(array).source["size"] == 16


def test_a_stride_inside_an_item_is_called_mixed():
    figure = draw(np.arange(6.0), shape=(4,), strides=(4,))
    assert [c["mixed"] for c in figure.model()["cells"]] == [False, True, False, True]
    assert "straddle" in figure.set(at=[1]).words()["walk"]


def test_reads_past_the_end_are_marked_and_counted():
    figure = draw(np.arange(12.0).reshape(3, 4), shape=(4, 4), strides=(32, 8)).set(at=[3, 0])
    assert figure.model()["out"] == 4
    assert "reads past the end by 8 bytes" in figure.words()["walk"]
    assert "✗ 4 elements read outside the buffer, up to 32 bytes past the end" in figure.alt
    assert "as_strided checks nothing" in figure.code()


def test_sharing_is_marked_with_its_count():
    figure = draw(np.arange(10.0), shape=(8, 3), strides=(8, 8))
    assert [e["readers"] for e in figure.model()["entries"]] == [1, 2, 3, 3, 3, 3, 3, 3, 2, 1]
    assert "22 elements share an address" in figure.alt
    assert "writing one changes the others" in figure.alt
    assert "read-only" in draw(np.arange(10.0), shape=(8, 3), strides=(8, 8), writeable=False).alt


def test_a_view_reaching_beyond_its_array_says_so():
    signal = np.arange(100.0)
    figure = draw(signal[:5], shape=(5, 3), strides=(8, 8))
    assert figure.model()["beyond"] == 3
    assert "3 elements lie outside a itself, in the rest of its buffer" in figure.alt


@pytest.mark.parametrize("shape", [(201,), (50, 50), (7, 1000), (1000, 1000), (3, 4, 5, 60)])
def test_large_arrays_are_trimmed_and_it_is_said(shape):
    array = np.zeros(shape)
    figure = draw(array)
    model = figure.model()
    assert len(model["cells"]) <= LIMIT
    assert model["strides"] == list(array.strides)
    assert "Only the first" in figure.alt
    assert len(model["entries"]) <= 2 * LIMIT
    assert all(c["label"] == "0" for c in model["cells"])


def test_trimming_keeps_small_shapes_and_is_quick_for_huge_ones():
    assert trim([10, 20]) == [10, 20]
    assert trim([10**9] * 3) == [4, 4, 4]
    assert trim([10**9, 0]) == [10**9, 0] or 0 in trim([10**9, 0])


@pytest.mark.parametrize(
    "array",
    [np.arange(12.0).reshape(3, 4), np.asfortranarray(np.arange(12).reshape(3, 4)), np.arange(24)[4::2][:6]],
    ids=["C", "F", "slice"],
)
@pytest.mark.parametrize("shift", [0, 8])
def test_the_code_makes_the_view_shown(array, shift):
    a = array
    figure = draw(a, shape=(2, 2), strides=(8, 16), offset=draw(a).state["offset"] + shift)
    made = made_by(figure.code(), {"np": np, "a": a})
    assert list(made.shape) == figure.state["shape"]
    assert list(made.strides) == figure.state["strides"]
    assert [value_label(v) for v in made.flat] == [c["label"] for c in figure.model()["cells"]]


def test_array_and_view_have_two_names():
    a = np.arange(12.0).reshape(3, 4)
    figure = draw(a)
    assert figure.words()["walk"].startswith("a[1, 2] reads")
    assert figure.words()["summary"].startswith("Shape (3, 4)")
    figure.set(shape=(4, 3), strides=(8, 32), at=(1, 2))
    assert figure.words()["walk"].startswith("view[1, 2] reads 8 bytes at address 72")
    assert figure.words()["summary"].startswith("view reads the memory of a: shape (4, 3)")
    assert "Address of view[1, 2]" in texts(figure)
    assert figure.code().splitlines()[-1].startswith("view = as_strided(a, ")
    assert "is read by view[3, 2]." in figure.reason([1, 2], 88)
    assert draw(a, name="view").set(shape=(2, 2), strides=(8, 8)).words()["walk"].startswith("view2[")


def test_one_byte_is_told_in_the_singular():
    assert (
        draw(np.arange(20, dtype=np.uint8))
        .set(at=[13])
        .words()["walk"]
        .endswith("at address 13 = 0 + 13 × 1. It holds 13.")
    )


@pytest.mark.parametrize(
    ("shape", "title"),
    [
        ((5000, 5), "View (5000, 5), first 12 rows"),
        ((5, 5000), "View (5, 5000), first 12 columns"),
        ((300,), "View (300,), first 64"),
        ((50, 50), "View (50, 50), first 8 × 8"),
        ((10, 20), "View (10, 20) ·"),
    ],
)
def test_the_title_tells_the_shape_and_what_is_drawn_of_it(shape, title):
    assert any(words.startswith(title) for words in texts(draw(np.zeros(shape))))


@pytest.mark.parametrize("width", [300, 480, 760])
@pytest.mark.parametrize("rows", [3, 3000, 3_000_000])
def test_long_addresses_fit_their_cells_and_the_sum_its_column(rows, width):
    figure = draw(np.zeros(4), shape=(4, 5), strides=(-800 * rows // 4, 16), offset=800 * rows - 80)
    marks = figure.scene(width)["marks"]
    for m in marks:
        if m["kind"] == "cell" and len(m["lines"]) > 1:
            assert len(m["lines"][1]) * 6.7 + 4 <= m["w"], m
    samples = [m for m in marks if m["kind"] == "path" and m["role"].startswith("walk") and m["d"].endswith("h24")]
    right = max(int(m["d"][1:].split()[0]) + 24 for m in samples)
    for m in marks:
        if m["kind"] == "text" and m["style"] == "sum":
            assert m["x"] - len(m["text"]) * 7.9 >= right + 4, m


def texts(figure):
    return [m["text"] for m in figure.scene()["marks"] if m["kind"] == "text"]


def test_the_code_uses_the_name_that_was_given():
    code = draw(np.arange(6.0)[2:], name="tail").set(shape=(2,), strides=(8,), offset=8).code()
    assert "tail.dtype, buffer=tail.base," in code


def test_the_code_of_a_readonly_view_is_readonly():
    figure = draw(np.arange(6.0), shape=(4, 3), strides=(8, 8), writeable=False)
    assert not made_by(figure.code(), {"np": np, "a": np.arange(6.0)}).flags.writeable


def made_by(code, names):
    """Return what the code calls `view`."""
    exec(code, names)
    return names["view"]


def test_tensors_are_drawn_without_importing_torch():
    torch = pytest.importorskip("torch")
    base = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    for tensor in (base, base.T, base[1:, ::2], base[0].expand(3, 4), base.to(torch.bfloat16)[:, 1:]):
        figure = draw(tensor)
        item = tensor.element_size()
        assert figure.state["strides"] == [s * item for s in tensor.stride()]
        assert figure.state["offset"] == tensor.storage_offset() * item
        assert [c["label"] for c in figure.model()["cells"]] == [value_label(v) for v in tensor.flatten().tolist()]
    moved = draw(base).set(shape=(2, 2), strides=(4, 4))
    made = made_by(moved.code(), {"torch": torch, "a": base})
    assert made.stride() == (1, 1)
    assert "torch refuses negative strides" in draw(base).set(strides=(-16, 4), offset=32).alt


REASONS = [
    ((1, 2), 6, "counts elements"),
    ((1, 2), 72, "axis 0 the last stride"),
    ((1, 2), 88, "count from 0"),
    ((1, 2), 56, "behind the element"),
    ((1, 2), 55, "last byte of the element"),
    ((1, 2), 80, "is read by a[2, 2]."),
    ((1, 2), 41, "No element of this view starts there"),
    ((1, 2), 400, "ends before address 96"),
]


@pytest.mark.parametrize(("index", "answer", "reason"), REASONS)
def test_a_wrong_address_gets_its_own_reason(index, answer, reason):
    figure = draw(np.arange(12.0).reshape(3, 4))
    assert figure.reason(index, 48) == ""
    assert reason in figure.reason(index, answer)


def test_offset_sign_and_layout_have_reasons_too():
    flipped = draw(np.arange(12.0).reshape(3, 4)[::-1])
    assert "backwards" in flipped.reason((1, 1), 64 + 32 + 8)
    assert "starts at the offset, 64" in flipped.reason((1, 1), -24)
    assert "rows lay one after another" in draw(np.arange(12.0).reshape(3, 4).T).reason((1, 1), 32)


def test_predicting_hides_the_answer_until_it_is_given():
    figure = draw(np.arange(12.0).reshape(3, 4)).set(at=[1, 2], predict=True)
    shown = [m.get("text", "") for m in figure.scene()["marks"]] + [
        line for m in figure.scene()["marks"] if m["kind"] == "cell" and m["name"][0] == "v" for line in m["lines"]
    ]
    assert not any("48" in words and words != "48" for words in shown)  # "48" alone is a label below the bar
    assert "48" not in figure.words()["walk"]
    assert all(m["role"] != "wanted!" for m in figure.scene()["marks"] if m.get("name", "").startswith("m"))
    assert "48" in figure.set(revealed=True).words()["walk"]


def test_state_can_be_set_and_read_back():
    figure = draw(np.arange(12.0).reshape(3, 4))
    figure.set(shape=(4, 3), strides=(8, 32), at=(3, 2))
    assert figure.state["strides"] == [8, 32]
    assert selected(figure.model(), figure.state)["at"] == 88
    assert figure.set(shape=(2,), strides=(8,)).state["at"] == [1]


def test_the_first_element_shown_takes_steps_or_reads_outside():
    array = np.arange(12.0).reshape(3, 4)
    assert draw(array).state["at"] == [1, 2]
    assert draw(array[:1, :1]).state["at"] == [0, 0]
    assert draw(array, shape=(4, 4), strides=(32, 8)).state["at"] == [3, 0]


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda a: draw([1, 2, 3]), "not list"),
        (lambda a: draw(a, shape=(2, 2, 2)), "needs its strides"),
        (lambda a: draw(a, shape=(2, 2), strides=(8,)), "2 sizes but 1 strides"),
        (lambda a: draw(a, shape=(-1, 2), strides=(8, 8)), "cannot be drawn"),
        (lambda a: draw(a, strides=(8, 0.5)), "whole numbers"),
        (lambda a: draw(np.zeros((1,) * 7)), "7 axes"),
        (lambda a: draw(a).set(stride=8), "no 'stride'"),
    ],
)
def test_what_cannot_be_drawn_is_explained(act, message):
    with pytest.raises(LabError, match=message):
        act(np.arange(12.0).reshape(3, 4))


def test_no_numpy_dummy_keeps_a_view_from_its_base():
    base = np.arange(10.0)
    assert draw(as_strided(base[2:], (3, 3), (8, 8))).state["offset"] == 16
    assert draw(as_strided(base[2:], (3, 3), (8, 8))).source["size"] == 80


def test_figures_import_neither_matplotlib_nor_torch():
    code = (
        "import sys, labsupport.figures.strides, labsupport.figures.broadcasting;"
        "print(sorted({'torch', 'matplotlib', 'anywidget', 'IPython'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
