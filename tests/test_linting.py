"""Every rule of `lab lint` finds what it is for, says where, and lets a clean lesson pass."""

import subprocess
import sys

import little_course
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labsupport import building, catalog, linting
from labsupport.cli import main
from labsupport.linting import running
from labsupport.linting.lesson import prose_of
from labsupport.linting.numbers import numbers_in, quantities, traced
from labsupport.places import ROOT

CLEAN = little_course.LESSON


@pytest.fixture
def lint(tmp_path, monkeypatch):
    """Return a function from a lesson's source to its problems; `outputs` stands in for a run."""
    notebooks = little_course.use(tmp_path, monkeypatch.setattr)
    little_course.release(tmp_path)
    monkeypatch.setattr(running, "_CACHE", tmp_path / "cache")

    def lint(text, outputs=None, name="05_demo.py"):
        path = notebooks / "source" / name
        path.write_text(text, encoding="utf-8")
        if outputs is not None:
            count = len(building.build(path)["cells"])
            monkeypatch.setattr(running, "remembered", lambda notebook: (outputs + [""] * count)[:count])
        return linting.lint(path)

    return lint


def test_a_clean_lesson_has_no_problems(lint):
    assert lint(CLEAN) == []


def added(cell, before="# %% [markdown]\n# ## Close"):
    return CLEAN.replace(before, f"{cell}\n\n{before}")


LONG = "# %%\n" + "print(1)\n" * 16
TOO_MANY = "".join(f"# %%\nprint({n})\n\n" for n in range(60))
BAD = {
    "a second title": ("title", added("# %% [markdown]\n# # Again"), "# # Again"),
    "no title": ("title", CLEAN.replace("# # Look twice", "# Look twice"), "# Look twice"),
    "a level skipped": (
        "headings",
        added("# %% [markdown]\n# ### Deep\n# #### Deeper\n# ###### Deepest"),
        "# ###### De",
    ),
    "an empty cell": ("empty", added("# %%\n"), None),
    "a long cell": ("lengths", added(LONG), "print(1)"),
    "too many cells": ("lengths", added(TOO_MANY), "# %% [markdown]"),
    "a large file": ("lengths", added("# %% [markdown]\n# " + "word " * 25_000), "# %% [markdown]"),
    "no minutes": ("minutes", CLEAN.replace("minutes (core)", "min"), None),
    "too many minutes": ("minutes", CLEAN.replace("**20 minutes", "**75 minutes"), "# **75 minutes"),
    "a long set-up": ("setup", CLEAN.replace("lab = ", "# a\n" * 8 + "lab = "), "from labsupport"),
    "another lesson's set-up": ("setup", CLEAN.replace('lesson("demo")', 'lesson("strides")'), "lab = lesson"),
    "no set-up": ("setup", CLEAN.replace("lab = lesson", "lab = print(lesson) and lesson"), "# %% [markdown]"),
    "code below prose": ("marked", added("# %% [markdown]\n# text\nx = 1"), "x = 1"),
    "a header with more": ("header", "# ---\n# jupyter:\n#   jupytext: 1\n# ---\n" + CLEAN, "#   jupytext: 1"),
    "an exercise twice": (
        "exercises",
        added("# %%\n# exercise: demo/predict-sum\ntotal = ..."),
        "# exercise: demo/pred",
    ),
    "an unknown marker": ("exercises", added("# %%\n# exercise: demo/sum-up\nx = ..."), "# exercise: demo/sum-up"),
    "a missing exercise": ("exercises", CLEAN.replace("# exercise: demo/predict-sum\n", ""), "# %% [markdown]"),
    "a stub without its name": ("exercises", CLEAN.replace("total = ...", "sum_ = ..."), "# exercise: demo/pred"),
    "an unknown hint": ("exercises", added('# %%\nlab.hint("sum-up")'), 'lab.hint("sum-up")'),
    "a second check": ("checks", added('# %%\nlab.check("predict-sum")'), 'lab.check("predict-sum")'),
    "an unknown check": ("exercises", added('# %%\nlab.check("sum-up")'), 'lab.check("sum-up")'),
    "no check": ("checks", CLEAN.replace('lab.check("predict-sum")', "print(2)"), "# exercise: demo/pred"),
    "a shared check cell": ("checks", CLEAN.replace('lab.check("pred', 'print(2)\nlab.check("pred'), "print(2)"),
    "an answer used": ("answers", added("# %%\nprint(double_up(2))"), "print(double_up"),
    "an answer overwritten": ("answers", added("# %%\ntotal = 3"), "total = 3"),
    "a link to nowhere": ("links", added("# %% [markdown]\n# [a](06_gone.ipynb)"), "# [a]"),
    "a link out of the course": ("links", added("# %% [markdown]\n# [a](../../etc.md)"), "# [a]"),
    "a link out of work": ("links", added("# %% [markdown]\n# [a](../README.md)"), "# [a]"),
    "a plain http link": ("links", added("# %% [markdown]\n# see http://example.org/x"), "# see http"),
    "an attachment": ("links", added("# %% [markdown]\n# ![a](attachment:b.png)"), "# ![a]"),
    "a heading that is not there": ("links", added("# %% [markdown]\n# [a](#Nowhere)"), "# [a]"),
    "a content network": ("networks", added('# %%\nprint("https://cdn.jsdelivr.net/npm/d3")'), "print("),
    "an absolute path": ("paths", added('# %%\nprint(open("/home/someone/a.txt"))'), "print("),
    "an absolute path in prose": ("paths", added("# %% [markdown]\n# Look at /tmp/result today."), "# Look at"),
    "a path of Windows": ("paths", added('# %%\nprint("C:\\\\data")'), "print("),
    "an install": ("installs", added("# %%\n# %pip install numpy"), "# %pip"),
    "an unknown name": ("programs", added("# %%\nprint(unknown_name)"), "print(unknown"),
    "an unused import": ("programs", added("# %%\nimport os"), "import os"),
    "a syntax error": ("programs", added("# %%\nx = = 1"), "x = = 1"),
    "a parent's name in ranks": ("programs", added("# %%\nn = 2\n\n# %%\n# %%torchrun\nprint(n)"), "print(n)"),
    "pyplot in a function": (
        "pyplot",
        added("# %%\nimport matplotlib.pyplot as pl\n\n\ndef draw(change):\n    pl.plot([1])\n\n\ndraw(1)"),
        "    pl.plot",
    ),
    "a quantity from nowhere": ("numbers", added("# %% [markdown]\n# That took 51 MB in all."), "# That took"),
    "an allowance without a reason": ("allow", added('# %% allow="lengths"\nprint(1)'), "print(1)"),
    "an allowance of nothing": ("allow", added('# %% allow="lengths: a table"\nprint(1)'), "print(1)"),
    "an allowance of an unknown rule": ("allow", added('# %% allow="size: a table"\nprint(1)'), "print(1)"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_lesson_is_told_which_rule_where_why_and_what_next(lint, name):
    rule, text, start = BAD[name]
    if name == "a link out of work":
        (catalog.ROOT / "README.md").write_text("here", encoding="utf-8")
    found = [problem for problem in lint(text, outputs=[]) if problem.rule == rule]
    assert found, [problem.what for problem in lint(text, outputs=[])]
    assert all(problem.what and problem.why and problem.next for problem in found)
    if start is not None:
        lines = text.splitlines()
        assert any(lines[problem.line - 1].startswith(start) for problem in found), [p.line for p in found]


GOOD = {
    "a torchrun cell of 25 lines": added("# %%\n# %%torchrun\n" + "print(1)\n" * 24),
    "names of a %%time cell": added("# %%\n# %%time\nvalue = lab\n\n# %%\nprint(value)"),
    "a shell cell": added("# %%\n# %%bash\n# echo $HOME"),
    "IPython at work": added("# %%\n# %matplotlib inline\nvalue = 1\nvalue\n\n# %%\ndisplay(value)\n_"),
    "a local server": added("# %% [markdown]\n# Open http://127.0.0.1:8000/docs now."),
    "a heading that is there": added("# %% [markdown]\n# [a](#Close) and [b](home.ipynb)"),
    "an allowed long cell": added(LONG.replace("# %%", '# %% allow="lengths: a table"')),
    "an answer through lab": added('# %%\nlab.show("x", double_up)'),
    "an own parameter of the same name": added("# %%\ndef add(total):\n    return total\n\n\nprint(add(1))"),
    "numbers in code and formulas": added("# %% [markdown]\n# `51 MB` and $3 s$\n#\n# ```\n# 7 ms\n# ```"),
    "a sourced number": added("# %% [markdown]\n# It takes 5 ms (https://example.org/a, read 2026-11)."),
    "a number of the exercise's code": added("# %%\nprint(4096)\n\n# %% [markdown]\n# Pages of 4,096 bytes."),
}


@pytest.mark.parametrize("name", GOOD)
def test_what_a_lesson_may_do_passes(lint, name):
    assert lint(GOOD[name], outputs=[]) == []


def test_home_needs_neither_minutes_nor_a_lesson(lint):
    assert lint(little_course.HOME, name="home.py") == []


def test_a_printed_number_traces_a_rounded_one(lint):
    text = added("# %%\nlab.machine()\n\n# %% [markdown]\n# That took 51 MB in all.")
    outputs = [""] * 20
    place = text.count("# %%", 0, text.index("lab.machine"))
    outputs[place - 1] = "51,200,000 bytes at the peak"
    assert lint(text, outputs=outputs) == []
    outputs[place - 1] = "52,200,000 bytes at the peak"
    assert [problem.rule for problem in lint(text, outputs=outputs)] == ["numbers"]


def test_a_weak_number_far_away_traces_nothing(lint):
    filler = "".join(f"# %%\nprint('{'a' * n}')\n\n" for n in range(1, 20))
    text = added("# %%\nprint(48)\n\n" + filler + "# %% [markdown]\n# Each has 48 bytes.")
    assert [problem.rule for problem in lint(text, outputs=[])] == ["numbers"]
    assert lint(text.replace("print(48)", "print(4808)").replace("48 bytes", "4,808 bytes"), outputs=[]) == []


@pytest.mark.parametrize(
    ("prose", "output", "right"),
    [
        ("51 MB", "51200000", True),
        ("51 MB", "51.2 MB", True),
        ("51.2 MB", "51 MB", False),
        ("64 times", "63.98", True),
        ("64 times", "63", False),
        ("25 %", "0.25", True),
        ("25%", "25.0", True),
        ("8 bytes", "(8, 8)", True),
        ("8 bytes", "18", False),
        ("8-byte", "itemsize 8", True),
        ("3 ms", "0.0031 s", True),
        ("3 ms", "3 bytes", False),
        ("2 KiB", "2048", True),
        ("5 metres", "-5", True),
    ],
)
def test_tracing(prose, output, right):
    (quantity,) = quantities(prose)
    assert traced(quantity, numbers_in(output)) is right


@pytest.mark.parametrize(
    "prose", ["3 x 4", "(3, 4)", "lesson 06", "version 2.4", "20 minutes", "8.5.1 bytes-like", "1st"]
)
def test_no_quantity(prose):
    assert quantities(prose_of(prose)) == []


@given(st.integers(1, 10**13), st.sampled_from(["bytes", "KB", "MB", "GB"]))
def test_what_python_rounds_is_traced(value, unit):
    scale = {"bytes": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9}[unit]
    (quantity,) = quantities(f"{value / scale:,.1f} {unit}")
    assert traced(quantity, numbers_in(f"{value:,} bytes"))


def test_without_a_run_numbers_are_a_note_and_with_one_they_are_found(lint, monkeypatch, capsys):
    lint(added("# %% [markdown]\n# That took 51 MB in all."))
    assert main(["lint", "demo"]) == 0
    assert "1 number in prose waits" in capsys.readouterr().out
    monkeypatch.setattr(running, "printed", lambda notebook, text: ([""] * len(text.cells), None))
    assert main(["lint", "demo", "--run"]) == 1
    said = capsys.readouterr().out
    assert "notebooks/source/05_demo.py:" in said and "51 MB" in said and "next:" in said


def test_lint_of_everything_counts_its_sources(lint, capsys):
    lint(CLEAN)
    assert main(["lint"]) == 0 and "2 sources, 0 problems" in capsys.readouterr().out


@pytest.mark.slow
def test_a_run_is_remembered_and_a_stop_is_told(lint, tmp_path):
    path = building.SOURCE / "home.py"
    text = '# %% [markdown]\n# # Title\n\n# %%\nprint(2 * 25.6, "MB")\n\n# %% [markdown]\n# It is 51.2 MB.\n'
    path.write_text(text, encoding="utf-8")
    assert linting.lint(path, run=True) == []
    assert linting.lint(path) == []  # from memory
    path.write_text(text + "\n# %%\n1 / 0\n", encoding="utf-8")
    found = linting.lint(path, run=True)
    assert [(problem.rule, problem.line) for problem in found][-1] == ("runs", 11)
    assert "division by zero" in found[-1].what


def test_the_sources_of_the_course_follow_the_rules():
    found = [
        f"{source.name}:{problem.line}: {problem.what}"
        for source in building.sources()
        for problem in linting.lint(source)
        if problem.next != "lab lint --run"
    ]
    assert found == []


@pytest.mark.parametrize("words", [("check",), ("format", "--check")], ids=" ".join)
def test_ruff_has_nothing_to_say_about_the_course(words):
    own = ("lab", "labsupport", "notebooks", "tests", "benchmarks", "data")  # work/ is the learner's
    command = [sys.executable, "-m", "ruff", *words, "--no-cache", *own]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stdout + done.stderr
