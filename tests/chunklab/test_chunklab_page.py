"""docs/chunklab.md: its cells run in order and print what stands below them; its commands are ones that exist."""

import ast
import contextlib
import io
import re
import shlex

import pytest

from labsupport.cli import main
from labsupport.places import ROOT

PAGE = ROOT / "docs" / "chunklab.md"


def blocks_of(text):
    """Return (kind, body, (start, stop) of the body) of every fenced block."""
    found = re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [(each[1], each[2], each.span(2)) for each in found]


def run_block(source, space):
    """Run a cell; return what it printed, and its last value as a notebook shows it in text."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(tree, "cell", "exec"), space)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), space)
            if value is not None:
                print(repr(value))
    return out.getvalue()


@pytest.mark.filterwarnings("ignore")
def test_every_cell_prints_what_the_page_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    space, printed, shown = {}, "", 0
    for kind, body, _ in blocks_of(PAGE.read_text(encoding="utf-8")):
        if kind == "python":
            printed = run_block(body, space)
        if kind == "text":
            assert printed.rstrip() == body.rstrip()
            shown += 1
    assert shown >= 8
    commands = [line for kind, body, _ in blocks_of(PAGE.read_text(encoding="utf-8")) for line in body.splitlines()
                if kind == "console" and line.startswith("$ lab ")]  # fmt: skip
    assert len(commands) >= 4
    monkeypatch.setattr("sys.stderr", io.StringIO())
    for command in commands:
        more = ["--overwrite"] if " rechunk " in command else []
        assert main([*shlex.split(command.removeprefix("$ lab ")), *more]) == 0, command
