"""The three-way merge: examples a learner would recognise, then properties over random histories."""

import copy
import re

import nbformat
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from labsupport.building import KERNEL, content_id, dump, exercise_id_of
from labsupport.workspace.merge import merge, put_back, untouched_base

STUB = '# exercise: demo/{}\ndef {}(x):\n    """Return something about x."""\n    raise NotImplementedError'


def notebook(*cells):
    return {"cells": list(cells), "metadata": {"kernelspec": dict(KERNEL)}, "nbformat": 4, "nbformat_minor": 5}


def markdown(text, name=None):
    return {"cell_type": "markdown", "id": name or content_id("markdown", text), "metadata": {}, "source": text}


def code(text, name=None, outputs=()):
    return {
        "cell_type": "code", "id": name or content_id("code", text), "metadata": {}, "source": text,
        "outputs": list(outputs), "execution_count": len(outputs) or None,
    }  # fmt: skip


def exercise(name, text=None):
    return code(text or STUB.format(name, name.replace("-", "_")), exercise_id_of(f"demo/{name}"))


def check(name):
    return code(f'lab.check("{name}")', exercise_id_of(f"demo/{name}", "check"))


def texts(merged):
    return [cell["source"] for cell in merged.notebook["cells"]]


ANSWER = "# exercise: demo/one\ndef one(x):\n    return x"


@pytest.fixture
def base():
    return notebook(
        markdown("# Look twice"), code("x = 1"), exercise("one"), check("one"), markdown("## Close\nThat was it.")
    )


def test_a_copy_that_was_never_touched_becomes_the_course(base):
    course = notebook(markdown("# Look thrice"), code("x = 2"), exercise("two"), check("two"))
    assert merge(base, course, copy.deepcopy(base)).notebook == course


def test_answers_and_added_cells_stay_where_they_were(base):
    mine = copy.deepcopy(base)
    mine["cells"][2]["source"] = ANSWER
    mine["cells"].insert(2, code("x + 1  # a note of mine", "11111111-aaaa"))
    course = copy.deepcopy(base)
    course["cells"].insert(2, markdown("A new paragraph."))
    course["cells"][1] = code("x = 1.5")
    merged = merge(base, course, mine)
    wanted = ["# Look twice", "x = 1.5", "x + 1  # a note of mine", "A new paragraph.", ANSWER]
    assert texts(merged)[:5] == wanted
    assert merged.answers == ("demo/one",) and not merged.both


def test_both_changed_one_cell_the_course_first_then_the_learner(base):
    mine, course = copy.deepcopy(base), copy.deepcopy(base)
    mine["cells"][1]["source"] = "x = 100"
    course["cells"][1] = code("x = 1.5")
    merged = merge(base, course, mine)
    assert texts(merged)[1] == "x = 1.5"
    assert texts(merged)[2].startswith('# Kept by "lab update"') and texts(merged)[2].endswith("x = 100")
    assert merged.both == 1


def test_an_edit_the_course_did_not_touch_stays(base):
    mine, course = copy.deepcopy(base), copy.deepcopy(base)
    mine["cells"][1]["source"] = "x = 100"
    course["cells"][0] = markdown("# Look thrice")
    assert texts(merge(base, course, mine))[:2] == ["# Look thrice", "x = 100"]


def test_an_answered_exercise_that_the_course_removed_stays_as_an_added_cell(base):
    mine, course = copy.deepcopy(base), copy.deepcopy(base)
    mine["cells"][2]["source"] = ANSWER
    del course["cells"][2:4]
    merged = merge(base, course, mine)
    assert texts(merged)[2].endswith(ANSWER) and texts(merged)[2].startswith("# Kept")
    assert merged.gone == 1 and len(texts(merged)) == 4


def test_an_untouched_exercise_that_the_course_removed_goes(base):
    course = copy.deepcopy(base)
    del course["cells"][2:4]
    assert merge(base, course, copy.deepcopy(base)).notebook == course


def test_new_starting_code_reaches_an_untouched_exercise_and_spares_an_answer(base):
    course = copy.deepcopy(base)
    course["cells"][2] = exercise("one", STUB.format("one", "one").replace("about x", "about x, in bytes"))
    assert texts(merge(base, course, copy.deepcopy(base)))[2] == course["cells"][2]["source"]
    mine = copy.deepcopy(base)
    mine["cells"][2]["source"] = ANSWER
    merged = merge(base, course, mine)
    assert texts(merged)[2] == ANSWER and merged.restubbed == ("demo/one",)


def test_an_answer_is_found_without_its_marker_without_its_id_and_without_both(base):
    course = copy.deepcopy(base)
    course["cells"][4] = markdown("## Close\nThat was all.")
    for marker in (True, False):
        for name in ("ex-demo-one", "99999999", None):
            mine = copy.deepcopy(base)
            mine["cells"][2] = code(ANSWER if marker else ANSWER.partition("\n")[2])
            mine["cells"][2]["id"] = name
            if name is None:
                del mine["cells"][2]["id"]
            merged = merge(base, course, mine)
            assert [cell["id"] for cell in merged.notebook["cells"]] == [cell["id"] for cell in course["cells"]]
            assert texts(merged)[2].endswith("return x")


def test_of_duplicated_answers_the_one_in_place_is_the_answer_and_none_is_lost(base):
    mine = copy.deepcopy(base)
    mine["cells"][2]["source"] = ANSWER
    mine["cells"].insert(0, code(ANSWER.replace("return x", "return 2 * x"), "ex-demo-one"))
    mine["cells"].insert(4, code(ANSWER.replace("return x", "return 3 * x"), "12345678"))
    course = copy.deepcopy(base)
    course["cells"][1] = code("x = 1.5")
    cells = [cell for cell in merge(base, course, mine).notebook["cells"] if "demo/one" in cell["source"]]
    assert [cell["source"].partition("return ")[2] for cell in cells] == ["2 * x", "x", "3 * x"]
    assert len({cell["id"] for cell in cells}) == 3


def test_a_deleted_check_comes_back_and_a_deleted_paragraph_stays_away_until_it_changes(base):
    mine, course = copy.deepcopy(base), copy.deepcopy(base)
    course["cells"][1] = code("x = 1.5")
    del mine["cells"][3:]
    assert texts(merge(base, course, mine))[-1] == 'lab.check("one")'
    course["cells"][4] = markdown("## Close\nThat was all.")
    assert texts(merge(base, course, mine))[-2:] == ['lab.check("one")', "## Close\nThat was all."]


def test_outputs_stay_with_unchanged_cells_only(base):
    printed = {"output_type": "stream", "name": "stdout", "text": ["1\n"]}
    mine, course = copy.deepcopy(base), copy.deepcopy(base)
    mine["cells"][1] = code("x = 1", outputs=[printed])
    mine["cells"][3]["outputs"] = [printed]
    course["cells"][1] = code("x = 1.5")
    cells = merge(base, course, mine).notebook["cells"]
    assert cells[1]["outputs"] == [] and cells[3]["outputs"] == [printed]


def test_tags_of_the_course_and_of_the_learner(base):
    mine, course = copy.deepcopy(base), copy.deepcopy(base)
    base["cells"][1]["metadata"] = {"tags": ["old"]}
    mine["cells"][1]["metadata"] = {"tags": ["old", "mine"], "collapsed": True}
    course["cells"][1]["metadata"] = {"tags": ["new"]}
    metadata = merge(base, course, mine).notebook["cells"][1]["metadata"]
    assert metadata == {"tags": ["new", "mine"], "collapsed": True}


def test_a_magic_stays_on_the_first_line_of_a_kept_cell(base):
    base["cells"][1] = code("%%torchrun --nproc 2\nprint(1)")
    mine, course = copy.deepcopy(base), copy.deepcopy(base)
    mine["cells"][1]["source"] = "%%torchrun --nproc 2\nprint(2)"
    course["cells"][1] = code("%%torchrun --nproc 4\nprint(1)")
    assert re.match(r"%%torchrun --nproc 2\n# Kept by .*\nprint\(2\)$", texts(merge(base, course, mine))[2])


def test_without_a_record_of_the_release_untouched_cells_are_known_by_their_ids(base):
    mine = copy.deepcopy(base)
    mine["cells"][2]["source"] = ANSWER
    mine["cells"].append(code("x + 1", "own"))
    course = notebook(markdown("# Look thrice"), code("x = 2"), *base["cells"][2:])
    merged = merge(untouched_base(mine, course), course, mine)
    assert texts(merged) == ["# Look thrice", "x = 2", ANSWER, *texts_of(course)[3:], "x + 1"]


def texts_of(book):
    return [cell["source"] for cell in book["cells"]]


def test_put_back_restores_one_exercise_and_nothing_else(base):
    mine = copy.deepcopy(base)
    mine["cells"][2] = code(ANSWER, "ex-demo-one", outputs=[{"output_type": "stream", "name": "stdout", "text": "1"}])
    mine["cells"][1]["source"] = "x = 100"
    back = put_back(base, mine, "demo/one")
    assert back["cells"][2] == base["cells"][2] and back["cells"][1] == mine["cells"][1]


def test_put_back_brings_a_deleted_exercise_back_before_its_check(base):
    mine = copy.deepcopy(base)
    mine["cells"] = [code("y = 0", "mine"), mine["cells"][3], mine["cells"][0]]
    back = put_back(base, mine, "demo/one")
    assert [cell["id"] for cell in back["cells"]] == [
        "mine", "ex-demo-one", "check-demo-one", base["cells"][0]["id"]
    ]  # fmt: skip


# Properties. A history is a course, a later release of it, and what a learner did to a copy of the first.

TEXTS = [f"{kind} {n}" for kind in ("look at", "measure", "count") for n in range(4)]
NAMES = ["one", "two", "three"]


@st.composite
def courses(draw):
    cells = [markdown("# Title of the lesson")]
    for text in draw(st.lists(st.sampled_from(TEXTS), max_size=6)):
        cells.append(draw(st.sampled_from([markdown, code]))(text))
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=3)):
        place = draw(st.integers(1, len(cells)))
        cells[place:place] = [exercise(name), check(name)]
    return numbered(cells)


def numbered(cells):
    """Return a notebook as `build` would number it: repeated cells get a counter."""
    seen, result = {}, []
    for cell in cells:
        stem = cell["id"] if cell["id"].startswith(("ex-", "check-")) else content_id(cell["cell_type"], cell["source"])
        seen[stem] = seen.get(stem, 0) + 1
        result.append(cell | {"id": stem if seen[stem] == 1 else f"{stem}-{seen[stem]}"})
    return notebook(*result)


@st.composite
def releases(draw, base):
    cells = copy.deepcopy(base["cells"])
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(cells) - 1)) if cells else 0
        action = draw(st.sampled_from(["edit", "delete", "insert", "move"]))
        if action == "insert" or not cells:
            cells.insert(place, draw(st.sampled_from([markdown, code]))(draw(st.sampled_from(TEXTS))))
        elif action == "delete":
            del cells[place]
        elif action == "move":
            cells.insert(draw(st.integers(0, len(cells) - 1)), cells.pop(place))
        elif not cells[place]["id"].startswith("check-"):
            cells[place] = cells[place] | {"source": cells[place]["source"] + "\n# release two"}
    return numbered(cells)


class Learner:
    """Does things to a copy of a lesson and remembers every text that is the learner's own."""

    def __init__(self, base, draw):
        self.draw, self.cells, self.own, self.moved = draw, copy.deepcopy(base["cells"]), [], False

    def act(self):
        name = self.draw(st.sampled_from(["edit", "add", "delete", "duplicate", "move", "strip", "run", "answer"]))
        if self.cells or name == "add":
            getattr(self, name)(self.draw(st.integers(0, max(0, len(self.cells) - 1))))

    def token(self):
        self.own.append(f"mine_{len(self.own)}")
        return self.own[-1]

    def rewrite(self, place, text):
        earlier = self.cells[place]["source"]
        self.own = [token for token in self.own if token not in earlier or token in text]
        self.cells[place] = self.cells[place] | {"source": text}

    def edit(self, place):
        self.rewrite(place, f"{self.cells[place]['source']}\n{self.token()}")

    def answer(self, place):
        text = self.cells[place]["source"]
        if "# exercise:" in text:
            token = self.token()
            body = text.replace("raise NotImplementedError", f"return {token}")
            self.rewrite(place, body if token in body else f"{text}\n{token}")

    def add(self, place):
        kind = self.draw(st.sampled_from([markdown, code]))
        self.cells.insert(place, kind(f"note {self.token()}", f"user-{len(self.own)}"))

    def delete(self, place):
        gone = self.cells.pop(place)["source"]
        there = "\n".join(cell["source"] for cell in self.cells)
        self.own = [token for token in self.own if token not in gone or token in there]

    def duplicate(self, place):
        name = self.draw(st.sampled_from([self.cells[place].get("id", "copy"), f"dup-{len(self.cells)}"]))
        self.cells.insert(self.draw(st.integers(0, len(self.cells))), copy.deepcopy(self.cells[place]) | {"id": name})

    def move(self, place):
        cell = self.cells.pop(place)
        if self.draw(st.booleans()):
            cell = cell | {"id": f"moved-{place}-{len(self.own)}"}  # cut and paste renews the id
        self.cells.insert(self.draw(st.integers(0, len(self.cells))), cell)

    def strip(self, place):
        del place
        if self.draw(st.booleans()):
            self.cells = [{k: v for k, v in cell.items() if k != "id"} for cell in self.cells]
        else:
            self.cells = [cell | {"id": f"renewed-{n}"} for n, cell in enumerate(self.cells)]

    def run(self, place):
        if self.cells[place]["cell_type"] == "code":
            printed = {"output_type": "stream", "name": "stdout", "text": ["1\n"]}
            self.cells[place] = self.cells[place] | {"outputs": [printed], "execution_count": 1}


@st.composite
def histories(draw):
    base = draw(courses())
    course = draw(releases(base))
    learner = Learner(base, draw)
    for _ in range(draw(st.integers(0, 6))):
        learner.act()
    return base, course, notebook(*learner.cells), learner.own


many = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@many
@given(histories())
def test_nothing_of_the_learner_is_lost_and_the_result_is_a_notebook(history):
    base, course, mine, own = history
    before = copy.deepcopy(mine)
    merged = merge(base, course, mine).notebook
    assert mine == before
    whole = "\n".join(cell["source"] for cell in merged["cells"])
    assert [token for token in own if not re.search(rf"{token}\b", whole)] == []
    names = [cell["id"] for cell in merged["cells"]]
    assert len(set(names)) == len(names)
    nbformat.validate(nbformat.reads(dump(merged), as_version=4))


@many
@given(histories())
def test_a_second_update_changes_nothing_whatever_release_it_believes_to_start_from(history):
    base, course, mine, _ = history
    once = merge(base, course, mine).notebook
    # A copy without one cell of the course looks like one whose ids an editor has renewed.
    assume({cell["id"] for cell in once["cells"]} & {cell["id"] for cell in course["cells"]})
    assert merge(course, course, once).notebook == once
    # A process killed between writing the notebook and writing its record leaves the old record.
    assert merge(base, course, once).notebook == once


@many
@given(histories())
def test_course_cells_keep_the_order_of_the_course_and_new_ones_arrive(history):
    base, course, mine, _ = history
    order = [cell["id"] for cell in course["cells"]]
    merged = merge(base, course, mine).notebook
    standing = [cell["id"] for cell in merged["cells"] if cell["id"] in order]
    assert standing == [name for name in order if name in standing]
    old = {cell["id"] for cell in base["cells"]}
    fixed = [name for name in order if name not in old or name.startswith(("ex-", "check-"))]
    assert [name for name in fixed if name not in standing] == []


@many
@given(st.data())
def test_an_untouched_copy_becomes_the_new_release_exactly(data):
    base = data.draw(courses())
    course = data.draw(releases(base))
    assert merge(base, course, copy.deepcopy(base)).notebook == course


@many
@given(st.data())
def test_edits_and_additions_survive_an_update_without_news_unchanged(data):
    base = data.draw(courses())
    learner = Learner(base, data.draw)
    for _ in range(data.draw(st.integers(0, 5))):
        place = data.draw(st.integers(0, len(learner.cells) - 1))
        getattr(learner, data.draw(st.sampled_from(["edit", "add", "answer", "run"])))(place)
    mine = notebook(*learner.cells)
    assert merge(base, base, mine).notebook["cells"] == mine["cells"]


@many
@given(histories())
def test_a_lost_record_loses_nothing_and_converges(history):
    _, course, mine, own = history
    merged = merge(untouched_base(mine, course), course, mine).notebook
    whole = "\n".join(cell["source"] for cell in merged["cells"])
    assert [token for token in own if not re.search(rf"{token}\b", whole)] == []
    assert merge(course, course, merged).notebook == merged
