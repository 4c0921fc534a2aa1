"""What the commands of a learner's first hour say: names as they are typed here, and numbers with their nouns."""

import os
import sys
import types

import pytest

from labsupport import catalog, cli, journal
from labsupport.environment.watching import Asking
from labsupport.places import ROOT, command


@pytest.mark.parametrize(
    "called, typed", [("labsupport/__main__.py", "./lab"), ("lab", "./lab"), (".venv/bin/lab", "lab")]
)
def test_the_command_is_named_as_it_is_typed(monkeypatch, called, typed):
    monkeypatch.setattr(sys, "argv", [str(ROOT / called)])
    assert command() == (typed.replace("./lab", "py lab") if os.name == "nt" else typed)


def test_hints_in_a_terminal_point_to_the_terminal(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("LAB_WORK", str(tmp_path / "work"))
    exercise = catalog.find_exercise("strides/address-of")
    for _ in range(len(exercise.hints) + 1):
        cli.main(["hint", exercise.id])
    assert f"{command()} solution {exercise.id}" in capsys.readouterr().out
    assert cli.main(["solution", exercise.id]) == 1
    said = capsys.readouterr().out
    assert f"{command()} check {exercise.id}" in said and "lab.check" not in said
    journal.Journal().append("clean", exercise.id, outcome="wrong")
    assert cli.main(["solution", exercise.id]) == 0, "a check in the terminal is an attempt as well"


def test_packages_are_counted_in_words_that_fit_the_number():
    said = []
    asking = Asking(types.SimpleNamespace(update=lambda text, stage: said.append(text.rsplit("needed", 1)[1])))
    asking.see("Collecting numpy")
    asking.see("Collecting torch")
    assert said == ["", ": 1 package so far", ": 2 packages so far"]
