"""Rules on code: unknown and unused names, cell magics on their own, installs, pyplot in functions."""

import ast
import json
import re
import subprocess
import sys

from labsupport import building
from labsupport.building import FOREIGN
from labsupport.catalog import marker_of
from labsupport.errors import LabError
from labsupport.linting.lesson import KERNEL_MAGICS, Problem, magic_of, tree_of
from labsupport.torchrun import options

__all__ = ["RULES"]

# F704: a notebook may await at the top; F811: a lesson may improve a function it has shown before.
_SELECT = ["--select", "F,E9", "--ignore", "F704,F811"]
_KERNEL_NAMES = ("_", "__", "In", "Out")
_UNUSED_IMPORT = "F401"
_INSTALL = re.compile(
    r"^\s*[%!]?\s*(?:(?:python3? -m )?pip3?|conda|mamba|uv|apt(?:-get)?)\s+(?:install|add|pip)\b", re.M
)


def whole(text):
    """The lesson as one program: ruff knows notebooks and leaves foreign magics out."""
    notebook = building.build(text.path)
    brought = [name for _, cell in text.of_kind("code") for name in _crossing(cell.text)[1]]
    for found in _ruff(building.dump(notebook), "lesson.ipynb", (*_KERNEL_NAMES, *brought)):
        index = found["cell"] - 1
        yield _finding(found, text.cells[index].line + found["location"]["row"] - 1, index, "the lesson's own names")


def magics(text):
    """Every cell magic as a program of its own: its ranks do not see the notebook's names, but for those pushed."""
    for index, cell in text.of_kind("code"):
        magic = magic_of(cell.text)
        if magic is None or magic in KERNEL_MAGICS | FOREIGN:
            continue
        body = "\n" + cell.text.partition("\n")[2]
        for found in _ruff(body, "cell.py", _crossing(cell.text)[0]):
            if found["code"] == _UNUSED_IMPORT and marker_of(cell.text):
                continue  # a stub brings what its answer will use
            seen_by = f"%%{magic} runs the cell as a program of its own, which does not see the notebook's names"
            yield _finding(found, cell.line + found["location"]["row"] - 1, index, seen_by)


def _crossing(cell):
    """Return the names a `%%torchrun` cell takes from the notebook, and those it brings back."""
    if magic_of(cell) != "torchrun":
        return (), ()
    given = options.parse(cell.partition("\n")[0].removeprefix("%%torchrun"))
    return given.push, tuple(name.partition("@")[0] for name in given.returns)


def _finding(found, line, index, why):
    what = f"{found['code'] or 'syntax'}: {found['message']}"
    if why == "the lesson's own names":
        why = "run from the top, the lesson as a whole has or uses no such thing"
    return Problem("programs", line, what, why, "define it, use it, or remove it", index)


def _ruff(source, name, known=()):
    """Return what ruff finds in a program that may use the names `known` without defining them."""
    command = [sys.executable, "-m", "ruff", "check", "--isolated", *_SELECT, "--output-format", "json"]
    command += ["--config", f"builtins = {json.dumps(sorted(known))}"]
    done = subprocess.run(
        [*command, "--stdin-filename", name, "-"], input=source, capture_output=True, text=True, encoding="utf-8"
    )
    if done.returncode not in (0, 1) or not done.stdout.strip():
        raise LabError(
            "ruff could not look at the code", why=done.stderr.strip()[:200], next_step='pip install ".[test]"'
        )
    return json.loads(done.stdout)


def installs(text):
    """Nothing is installed from a lesson, except in lesson 00."""
    if text.path.name.startswith("00_"):
        return
    for index, cell in text.of_kind("code"):
        if match := _INSTALL.search(cell.text):
            why = "lab start installs what the lessons need; a cell would change the machine behind its owner's back"
            step = "name the package in pyproject.toml"
            line = text.at(index, match[0].strip())
            yield Problem("installs", line, f"the cell runs {match[0].strip()!r}", why, step, index)


def pyplot(text):
    """Functions draw with Figure objects: pyplot's current figure is hidden state that callbacks leak and mix up."""
    names = {"pyplot", "plt"}
    for _, cell in text.of_kind("code"):
        names |= set(re.findall(r"^\s*import matplotlib\.pyplot as (\w+)", cell.text, re.MULTILINE))
    for index, cell in text.of_kind("code"):
        for scope in [n for n in ast.walk(tree_of(cell.text)) if isinstance(n, ast.FunctionDef | ast.Lambda)]:
            used = [n for n in ast.walk(scope) if isinstance(n, ast.Name | ast.Attribute) and _last(n) in names]
            if used:
                line = cell.line + used[0].lineno - 1
                why = "called from a callback it draws into whatever figure happens to be current, and keeps it"
                step = "make a matplotlib.figure.Figure in the function and return it"
                yield Problem("pyplot", line, "a function draws with pyplot", why, step, index)
                break


def _last(node):
    return node.id if isinstance(node, ast.Name) else node.attr


RULES = (whole, magics, installs, pyplot)
