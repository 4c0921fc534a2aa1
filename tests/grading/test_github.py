"""GitHub Actions: annotations and summary say what happened, and no learner can give the runner a command."""

import re

import pytest
import yaml
from classroom import EXERCISES, NASTY, row
from test_reports import nasty_report, report

from labsupport.errors import LabError
from labsupport.grading.reports import github
from labsupport.grading.reports.texts import annotation, markdown, quiet_commands
from labsupport.places import ROOT


def commands_in(text):
    """Return what GitHub's runner would take for commands: `::` at the start of a trimmed line, `##[` anywhere."""
    return [one for one in text.splitlines() if one.strip().startswith("::") or "##[" in one]


def test_the_first_ten_of_a_kind_are_annotated_the_graders_own_faults_as_errors():
    rows = [row(f"learner {n}", outcome="wrong", why="You drop one.", next="Count.") for n in range(15)]
    rows += [row("cy", outcome="grader fault", why="ours"), row("dee"), row("eve", outcome="not yet")]
    told = github.annotations(report(*rows))
    assert told[0] == f"::error title=cy%3A grader fault {EXERCISES[0]}::  why: ours"
    assert len(told) == 11
    assert told[1].startswith(
        f"::warning title=learner 0%3A wrong {EXERCISES[0]}::  why:  You drop one.%0A  next: Count."
    )


def test_one_learner_is_not_named():
    assert "ada" not in github.annotations(report(row(outcome="wrong", why="x")))[0]


@pytest.mark.parametrize("text", NASTY)
def test_an_annotation_is_one_command_on_one_line(text):
    told = annotation("warning", text, title=text, file=text)
    assert len(told.splitlines()) == 1
    _, properties, message = told.split("::", 2)
    assert properties.startswith("warning ") and properties.count(",") == 1
    assert "\n" not in message and not re.search(r"%(?!25|0A|0D|3A|2C)", told)


@pytest.mark.parametrize(
    "text", [*NASTY, "  ::add-mask::x", "\t::x::", "::x::\n::y::", "a ##[group]", ":::x", "\u00a0::x::"]
)
def test_printed_text_holds_no_command(text):
    assert commands_in(quiet_commands(text)) == []


def test_commands_are_stopped_while_results_are_printed_with_a_word_nobody_knows():
    printed = []
    with github.quiet(printed.append) as say:
        say("::error::owned")
    with github.quiet(printed.append) as say:
        pass
    first, text, last, second, _ = printed
    token = first.removeprefix("::stop-commands::")
    assert last == f"::{token}::" and len(token) == 32 and second != first
    assert commands_in(text) == []


def test_commands_are_heard_again_after_an_error():
    printed = []
    with pytest.raises(KeyError), github.quiet(printed.append):
        raise KeyError
    assert printed[1] == printed[0].replace("stop-commands::", "") + "::"


def test_the_summary_of_one_learner_has_their_messages():
    told = github.summary(report(row(outcome="wrong", why="You drop `it`.", next="Count."), row(exercise=EXERCISES[1])))
    assert told.startswith("### 1 passed, 1 wrong")
    assert "You drop <code>it</code>&#46;" in told
    assert told.count("\n| ") == 3


def test_the_summary_of_a_class_has_a_line_per_learner_and_says_what_is_left_out():
    rows = [row(f"learner {n}") for n in range(250)]
    told = github.summary(report(*rows, notes=("a note",)))
    assert told.count("\n| learner ") == 201  # the head of the table begins like a learner
    assert "50 more learners" in told and "- a note" in told


def test_no_markdown_of_a_learner_means_anything():
    told = github.summary(nasty_report())
    for mark in ("<script", "](", "http://", "::", "##[", "| a |"):
        assert mark not in told
    assert all(len(re.findall(r"(?<!\\)\|", one)) == 4 for one in told.splitlines() if one.startswith("|"))
    assert markdown("a|b\nc*d_@e") == "a&#124;b c&#42;d&#95;&#64;e"


def test_a_summary_too_large_for_github_is_cut(monkeypatch):
    monkeypatch.setattr(github, "_MOST_BYTES", 300)
    told = github.summary(report(row(outcome="wrong", why="x" * 500)))
    assert "index.html" in told and len(told) < 300


def test_the_summary_is_added_to_what_is_there(tmp_path):
    path = tmp_path / "summary.md"
    path.write_text("before\n", encoding="utf-8")
    github.write_summary(report(row()), path)
    assert path.read_text(encoding="utf-8").startswith("before\n### 1 passed")
    with pytest.raises(LabError, match="summary"):
        github.write_summary(report(row()), tmp_path)


# The workflow for a learner's repository

WORKFLOW = ROOT / ".github" / "workflows" / "grade.yml"


def test_the_workflow_grades_with_a_course_that_is_not_the_learners():
    said = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))
    assert said["permissions"] == {"contents": "read"}
    job = said["jobs"]["grade"]
    checkouts = [step for step in job["steps"] if str(step.get("uses", "")).startswith("actions/checkout@")]
    assert [step["with"]["path"] for step in checkouts] == ["submission", "course"]
    course = checkouts[1]["with"]
    assert "inputs.course" in course["repository"] and "inputs.ref" in course["ref"]
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


def test_nothing_a_learner_controls_is_pasted_into_a_script():
    said = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))
    scripts = [step["run"] for step in said["jobs"]["grade"]["steps"] if "run" in step]
    assert scripts and not any("${{" in script for script in scripts)
    assert any("lab grade" in script and "--github" in script for script in scripts)
    kept = next(step for step in said["jobs"]["grade"]["steps"] if "upload-artifact" in str(step.get("uses")))
    assert "sqlite" not in kept["with"]["path"]
