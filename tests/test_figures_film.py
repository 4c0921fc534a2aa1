"""Films: what is packed is what was drawn, what is asked is what was told, and nothing grows beyond its bounds."""

import json

import pytest

from labsupport.errors import LabError
from labsupport.figures import film as films
from labsupport.figures.film import Ask, Frame, Table, film, marks_at, named, reason_for, scene_at
from labsupport.figures.picture import cell, path, text
from labsupport.figures.player import PlayerFigure

WIDTHS = (300, 700)


def draw(k, width):
    """Two cells that change, one that moves at frame 2, a line below, and a text only where there is room."""
    marks = [
        cell("a", 10, 10, 40, 40, "touched" if k else "idle", [str(k), ""]),
        cell("b", 60 + 10 * (k == 2), 10, 40, 40, "idle", ["b" if width < 500 else "beta"]),
        named("down", path("send", f"M10 10V{width}")),
    ]
    if width > 500:
        marks.append(named("words", text(10, 80, "note", "wide")))
    if k == 1:
        marks.append(named("over", path("now", "M0 0H9")))
    return marks, 100 + k


def made(**more):
    frames = [Frame(title=f"step {k}: {k} of 2", words=f"It is {k}.", code=f"f({k})", verdict=more.pop(k, None))
              for k in range(3)]  # fmt: skip
    about = {"kind": "test", "title": "A test", "note": "simulated", "summary": "Three frames."}
    return film(**about, frames=frames, draw=draw, widths=WIDTHS, **more)


def by_name(marks):
    return {mark["name"]: mark for mark in marks}


@pytest.mark.parametrize("k", range(3))
@pytest.mark.parametrize("layout", range(2))
def test_what_is_packed_is_what_was_drawn(k, layout):
    played = json.loads(json.dumps(made()))
    assert by_name(marks_at(played, k, layout)) == by_name(draw(k, WIDTHS[layout])[0])
    assert played["heights"] == [102, 102]


def test_marks_lie_below_cells_lie_below_lines_lie_below_texts():
    kinds = [(m["kind"], m["name"]) for m in marks_at(made(), 1, 1)]
    assert kinds == [("path", "down"), ("cell", "a"), ("cell", "b"), ("path", "over"), ("text", "words")]


def test_only_changes_are_kept():
    played = made()
    n = [len(frame["changes"]) // 2 for frame in played["frames"]]
    # all; a and the line; the line and both forms of b go, b comes elsewhere in both, a changes
    assert n == [5, 2, 6]


@pytest.mark.parametrize("room, width", [(100, 300), (300, 300), (699, 300), (700, 700), (2000, 700)])
def test_the_widest_layout_that_fits_is_taken(room, width):
    assert scene_at(made(), 0, room)["width"] == width


def test_a_name_is_given_once():
    both = [named("a", text(0, 0, "note", "x")), named("a", text(0, 9, "note", "y"))]
    with pytest.raises(ValueError, match="twice"):
        film(kind="t", title="t", note="n", summary="s", widths=(300,), frames=[Frame(title="t", words="w")],
             draw=lambda k, width: (both, 10))  # fmt: skip


def test_too_many_marks_are_refused():
    marks = [named(str(k), text(0, k, "note", "x")) for k in range(films.MOST_MARKS + 1)]
    with pytest.raises(ValueError, match="at most"):
        film(kind="t", title="t", note="n", summary="s", widths=(300,), frames=[Frame(title="t", words="w")],
             draw=lambda k, width: (marks, 10))  # fmt: skip


def test_reasons_are_told_for_every_answer():
    ask = Ask(prompt="Which?", fields=(("row", ("x", "y", "z")), ("column", ("0", "1"))))

    def verdict(row, column):
        return "" if (row, column) == (2, 1) else "{0} is not it, nor {1}." if row else "Too high."

    frames = [Frame(title="start", words="w", verdict=verdict), Frame(title="end", words="w")]
    played = film(kind="t", title="t", note="n", summary="s", widths=(300,), frames=frames, ask=ask,
                  draw=lambda k, width: ([named("a", text(0, 0, "note", "x"))], 10))  # fmt: skip
    assert played["frames"][0]["verdicts"] == "B2C3A"
    got = [[reason_for(played, 0, (row, column)) for column in range(2)] for row in range(3)]
    assert got == [["Too high."] * 2, ["y is not it, nor 0.", "y is not it, nor 1."], ["z is not it, nor 0.", ""]]
    assert reason_for(played, 1, (0, 0)) is None
    figure = PlayerFigure(played)
    assert figure.reason("z", 1) == ""
    for wrong in (("z",), ("q", "0"), ("x", "2")):
        with pytest.raises(LabError):
            figure.reason(*wrong)
    with pytest.raises(LabError, match="nothing is to be predicted"):
        figure.set(step=1).reason("x", "0")


def test_only_steps_are_counted():
    frames = [Frame(title=str(k), words="w", counts=k not in (0, 4)) for k in range(5)]
    played = film(kind="t", title="t", note="n", summary="s", widths=(300,), frames=frames,
                  draw=lambda k, width: ([named("a", text(0, 0, "note", "x"))], 10))  # fmt: skip
    assert [frame["place"] for frame in played["frames"]] == ["", "1 of 3", "2 of 3", "3 of 3", ""]


def test_state_is_set_and_read_from_python():
    figure = PlayerFigure(made())
    assert figure.state["step"] == 0
    assert figure.set(step=2, code=True).state | {"step": 2, "code": True} == figure.state
    assert figure.words()["walk"] == "Step 2: 2 of 2. It is 2."
    assert figure.code() == "f(2)"
    with pytest.raises(LabError, match="no 'speed'"):
        PlayerFigure(made(), speed=2)
    for wrong in ({"step": 3}, {"step": -1}, {"step": 1.5}, {"predict": True}, {"code": 1}, {"speed": 2}):
        with pytest.raises(LabError):
            figure.set(**wrong)
    assert figure.state["step"] == 2


def test_predicting_begins_where_one_is():
    ask = Ask(prompt="Which?", fields=(("row", ("x",)),))
    frames = [Frame(title=f"step {k}", words="w", verdict=lambda row: "") for k in range(3)]
    played = film(kind="t", title="t", note="n", summary="s", widths=(300,), frames=frames, ask=ask,
                  draw=lambda k, width: ([named("a", text(0, 0, "note", str(k)))], 10))  # fmt: skip
    figure = PlayerFigure(played).set(step=2).set(step=1).set(predict=True)
    assert figure.state["seen"] == 1
    assert figure.words()["walk"].endswith("Which?")
    assert figure.set(step=2).state["seen"] == 2
    assert figure.set(step=0).state["seen"] == 2  # what has been seen stays open


def test_the_still_picture_shows_the_poster_and_the_table():
    table = Table(caption="All <steps>", head=("n", "words"), rows=(("1", "a & b"),))
    figure = PlayerFigure(made(poster=1, table=table))
    assert "It is 1." in figure.alt and "It is 1." in figure.svg()
    assert "<details><summary>All &lt;steps&gt;</summary>" in figure.html() and "<td>a &amp; b</td>" in figure.html()
    assert "It is 2." in figure.set(step=2).alt


def test_the_still_picture_says_where_its_numbers_come_from():
    svg = PlayerFigure(made()).svg()
    assert "A test (simulated)" in svg and "Three frames." in svg
    assert "width='760'" in svg  # as wide as it is shown, whatever the layout's width
