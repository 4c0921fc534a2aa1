"""From text to notebook: the same bytes every time, ids that say what a cell says, magics, grafting, loading."""

import json
import re

import little_course
import nbformat
import pytest

from labsupport.building import build, built, dump, graft, read_source, sources
from labsupport.cli import main
from labsupport.errors import LabError
from labsupport.reading import load


@pytest.fixture
def write(tmp_path):
    def write(text, name="07_demo.py"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


def sources_of(notebook):
    return [cell["source"] for cell in notebook["cells"]]


def test_a_lesson_becomes_a_valid_notebook_without_outputs_and_with_nothing_but_tags(write):
    notebook = build(write('# %% [markdown] tags=["a"] allow="title: no"\n# # Title\n\n# %% slow=true\nx = 1\n'))
    nbformat.validate(nbformat.reads(dump(notebook), as_version=4))
    assert notebook["metadata"] == {
        "kernelspec": {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    }
    assert [cell["metadata"] for cell in notebook["cells"]] == [{"tags": ["a"]}, {}]
    assert notebook["cells"][1]["outputs"] == [] and notebook["cells"][1]["execution_count"] is None


def test_the_bytes_are_those_nbformat_writes(write):
    text = dump(build(write("# %% [markdown]\n# # Größe – π\n#\n# two\n\n# %%\nx = 'é'\n\ny = 2\n")))
    assert text == nbformat.writes(nbformat.reads(text, as_version=4)) + "\n"
    assert "Größe – π" in text and "\r" not in text and text.endswith("}\n") and not text.endswith("\n\n")


def test_ids_come_from_content_and_repeats_get_a_counter(write):
    one = build(write("# %%\nx = 1\n\n# %%\nx = 2\n\n# %%\nx = 1\n"))
    names = [cell["id"] for cell in one["cells"]]
    assert re.fullmatch(r"[0-9a-f]{8}", names[0]) and names[2] == f"{names[0]}-2"
    two = build(write("# %% [markdown]\n# new\n\n# %%\nx = 1\n\n# %%\nx = 2\n\n# %%\nx = 1\n"))
    assert [cell["id"] for cell in two["cells"]][1:] == names


def test_exercise_and_check_cells_are_named_after_the_exercise(write):
    long = "a-very-long-name-of-an-exercise-that-does-not-end-soon-and-goes-on"
    text = "# %%\n# exercise: demo/add-one\nx = ...\n\n# %%\nlab.check('add-one')\n\n"
    text += f"# %%\n# exercise: demo/{long}\ny = 1\n"
    names = [cell["id"] for cell in build(write(text))["cells"]]
    assert names[:2] == ["ex-demo-add-one", "check-demo-add-one"]
    assert len(names[2]) <= 64 and names[2].startswith("ex-demo-a-very-long")


def test_a_commented_magic_wakes_up_and_comments_stay_comments(write):
    text = (
        "# %%\n# %%torchrun --nproc 2\nimport os\n# cat the rows\n# why?\n# !important\nos\n\n"
        "# %%\n# %matplotlib inline\nx = 1\n\n# %%\n# %%bash\n# ls  # list\n# echo '# no'\n"
    )
    cells = sources_of(build(write(text)))
    assert cells[0] == "%%torchrun --nproc 2\nimport os\n# cat the rows\n# why?\n# !important\nos"
    assert cells[1] == "%matplotlib inline\nx = 1"
    assert cells[2] == "%%bash\nls  # list\necho '# no'"


def test_the_header_is_left_out_and_lines_are_counted_as_written(write):
    header = "# ---\n# jupyter:\n#   kernelspec:\n#     name: python3\n# ---\n\n"
    text = '# %% [markdown]\n# # T\n#\n# two\n\n# %%\n\ns = """\n# %% inside\n"""\n\n\n# %%\ny = 1\n'
    path = write(header + text)
    cells = read_source(path)
    assert [cell.kind for cell in cells] == ["markdown", "code", "code"]
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [lines[cell.line - 1] for cell in cells] == ["# # T", 's = """', "y = 1"]


def test_line_ends_of_windows_do_not_reach_the_notebook(tmp_path):
    path = tmp_path / "07_demo.py"
    path.write_bytes(b"# %% [markdown]\r\n# # T\r\n\r\n# %%\r\nx = 1\r\n")
    assert "\\r" not in dump(build(path))


def test_every_notebook_of_the_course_is_what_its_source_says():
    stale = [s.name for s in sources() if built(s).read_bytes() != dump(build(s)).encode("utf-8")]
    assert stale == []


def test_check_names_the_file_and_the_next_step_and_writes_nothing(tmp_path, monkeypatch, capsys):
    notebooks = little_course.use(tmp_path, monkeypatch.setattr)
    little_course.release(tmp_path)
    assert main(["build", "--check"]) == 0
    path = notebooks / "05_demo.ipynb"
    edited = path.read_bytes().replace(b"That was it.", b"That was it!")
    path.write_bytes(edited)
    capsys.readouterr()
    assert main(["build", "--check"]) == 1
    said = capsys.readouterr().out
    assert "notebooks/05_demo.ipynb differs" in said and "next: lab build 05_demo" in said
    assert path.read_bytes() == edited
    assert main(["build", "demo"]) == 0 and main(["build", "--check"]) == 0


def test_check_tells_line_ends_a_missing_notebook_and_one_without_source(tmp_path, monkeypatch, capsys):
    notebooks = little_course.use(tmp_path, monkeypatch.setattr)
    little_course.release(tmp_path)
    path = notebooks / "05_demo.ipynb"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    (notebooks / "home.ipynb").rename(notebooks / "09_gone.ipynb")
    assert main(["build", "--check"]) == 1
    said = capsys.readouterr().out
    assert "line ends are not LF" in said and "home.ipynb is missing" in said and "09_gone.ipynb has no source" in said


def test_an_unknown_lesson_ends_with_2(tmp_path, monkeypatch, capsys):
    little_course.use(tmp_path, monkeypatch.setattr)
    little_course.release(tmp_path)
    assert main(["build", "dmeo"]) == 2
    assert "demo" in capsys.readouterr().err


def test_graft_puts_answers_below_their_markers(write):
    notebook = build(write("# %%\n# exercise: demo/a-b\nx = ...\n\n# %%\n# exercise: demo/c-d\ny = ...\n"))
    full = "# exercise: demo/c-d\ny = 2"
    grafted = graft(notebook, {"demo/a-b": "x = 1\n", "demo/c-d": full})
    assert sources_of(grafted) == ["# exercise: demo/a-b\nx = 1", full]
    assert sources_of(notebook)[0].endswith("x = ...")
    magic = graft(notebook, {"demo/a-b": "%%torchrun\nx = 1"})
    assert sources_of(magic)[0] == "%%torchrun\n# exercise: demo/a-b\nx = 1"
    with pytest.raises(LabError, match="demo/e-f"):
        graft(notebook, {"demo/e-f": "z = 1"})


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "empty"),
        (b"not json", "not complete JSON"),
        (b'{"cells": [', "not complete JSON"),
        (b"[1, 2]", "not a notebook"),
        (b'{"a": 1}', "not a notebook"),
        (b'{"nbformat": 3, "worksheets": []}', "format 3"),
        (b'{"nbformat": 4, "cells": {}}', "cells are missing"),
        (b'{"nbformat": 4, "cells": [7]}', "cell 1"),
        (b'{"nbformat": 4, "cells": [{"cell_type": "code", "source": [1]}]}', "cell 1 has no text"),
        (b"<<<<<<< HEAD\n{}\n=======\n{}\n>>>>>>> other\n", "conflict markers"),
        (b"\xff\xfe\x00", "UTF-8"),
        (b"[" * 100_000, "not complete JSON"),
    ],
)
def test_what_is_not_a_notebook_is_named_with_the_reason_and_left_alone(tmp_path, content, why):
    path = tmp_path / "05_demo.ipynb"
    path.write_bytes(content)
    with pytest.raises(LabError) as raised:
        load(path)
    assert "05_demo.ipynb" in raised.value.what and why in raised.value.why
    assert path.read_bytes() == content


def test_load_reads_what_editors_write(tmp_path):
    path = tmp_path / "x.ipynb"
    cell = {"cell_type": "markdown", "source": ["a\n", "b"]}
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps({"nbformat": 4, "nbformat_minor": 4, "cells": [cell]}).encode())
    assert sources_of(load(path)) == ["a\nb"]


def test_half_a_surrogate_pair_is_kept_as_an_escape():
    notebook = {"cells": [{"cell_type": "raw", "source": "\ud800"}]}
    assert json.loads(dump(notebook).encode("utf-8"))["cells"][0]["source"] == ["\ud800"]
