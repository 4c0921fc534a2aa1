"""GitHub Actions: a summary of the step, and annotations; nothing a learner wrote is read as a command."""

import contextlib
import secrets

from labsupport.errors import LabError
from labsupport.figures.words import count
from labsupport.grading.reports.texts import annotation, line, markdown, quiet_commands
from labsupport.showing import show_verdict

__all__ = ["annotations", "quiet", "summary", "write_summary"]

_SHOWN = 10  # annotations of one kind that GitHub shows per step
_LEARNERS = 200
_MOST_BYTES = 900_000  # GitHub refuses a summary above 1 MiB


def summary(report):
    """Return the step summary as Markdown: the header, then one learner's messages or a table of the class."""
    learners = report.learners
    counted = ", ".join(f"{count} {outcome}" for outcome, count in report.outcomes().items())
    parts = [f"### {markdown(counted or 'nothing to grade')}", "", markdown(report.header.line), ""]
    parts += [f"- {markdown(note)}" for note in report.notes] + [""] * bool(report.notes)
    parts += _one(report, learners[0]) if len(learners) == 1 else _many(report, learners[:_LEARNERS])
    if len(learners) > _LEARNERS:
        parts += ["", f"{count(len(learners) - _LEARNERS, 'more learner')}: see `index.html` and `grades.csv`."]
    text = "\n".join(parts) + "\n"
    fits = len(text.encode("utf-8")) <= _MOST_BYTES
    return text if fits else "\n".join([*parts[:3], "", "The rest is in `index.html`.", ""])


def _one(report, learner):
    rows = ["| exercise | outcome | why | next |", "|---|---|---|---|"]
    for row in report.of(learner):
        told = (row.exercise, row.outcome, f"{row.why} {row.seen}".strip(), row.next if row.outcome != "passed" else "")
        rows.append(f"| {' | '.join(markdown(text) for text in told)} |")
    return rows


def _many(report, learners):
    rows = ["| learner | points | outcomes |", "|---|---|---|"]
    for learner in learners:
        mine = report.of(learner)
        points = f"{sum(row.points for row in mine):g} of {sum(row.points_of for row in mine):g}"
        counted = ", ".join(f"{count} {outcome}" for outcome, count in report.outcomes(mine).items())
        rows.append(f"| {markdown(learner)} | {points} | {markdown(counted)} |")
    return rows


def write_summary(report, path):
    """Append the summary to the file that GitHub named for this step.

    Raises:
        LabError: it cannot be written.
    """
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(summary(report))
    except OSError as error:
        raise LabError(f"the step summary {path} was not written", why=error.strerror) from error


def annotations(report):
    """Return the workflow commands for what did not pass, the grader's own faults first; GitHub shows ten of a kind."""
    several = len(report.learners) > 1
    ours = [row for row in report.rows if row.outcome == "grader fault"]
    theirs = [row for row in report.rows if row.outcome in ("wrong", "crashed", "over limit", "unreadable")]
    told = []
    for level, rows in (("error", ours), ("warning", theirs)):
        for row in rows[:_SHOWN]:
            who = f"{row.learner}: " if several else ""
            message = "\n".join(str(show_verdict(row.verdict())).splitlines()[1:]) or row.outcome
            told.append(annotation(level, message, title=line(f"{who}{row.outcome} {row.exercise}")))
    return told


@contextlib.contextmanager
def quiet(print_line):
    """While the block runs GitHub's runner ignores workflow commands, whatever is printed; yields a careful print.

    Args:
        print_line: prints one text.
    """
    token = secrets.token_hex(16)  # nobody can guess the word that ends the silence
    print_line(f"::stop-commands::{token}")
    try:
        yield lambda text: print_line(quiet_commands(str(text)))
    finally:
        print_line(f"::{token}::")
