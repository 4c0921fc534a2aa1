"""junit.xml: what every CI system can show; one suite per learner, one case per exercise."""

import xml.etree.ElementTree as ET

from labsupport.grading.reports.texts import line, xml
from labsupport.showing import show_verdict

__all__ = ["suites"]

# Anything else is a failure. What nobody can be blamed for yet is skipped, what is the grader's own is an error.
_SKIPPED = ("not yet", "cannot run here")
_ERROR = ("grader fault",)


def suites(report):
    """Return the file's text; it is well-formed whatever a learner wrote."""
    root = ET.Element("testsuites", {"name": line(report.header.line), **_counts(report.rows)})
    for learner in report.learners:
        rows = report.of(learner)
        suite = ET.SubElement(root, "testsuite", {"name": line(learner), **_counts(rows), "time": _seconds(rows)})
        properties = ET.SubElement(suite, "properties")
        for name in ("mode", "tier", "course", "inputs"):
            ET.SubElement(properties, "property", name=name, value=line(getattr(report.header, name)))
        for row in rows:
            _case(suite, row)
    ET.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _case(suite, row):
    name = row.exercise or "the file"
    case = ET.SubElement(suite, "testcase", {"classname": line(f"{row.learner}.{row.lesson}"), "name": line(name)})
    if row.outcome == "passed":
        return
    tag = "skipped" if row.outcome in _SKIPPED else "error" if row.outcome in _ERROR else "failure"
    told = ET.SubElement(case, tag, {"message": line(f"{row.outcome}: {row.why}")})
    if tag != "skipped":
        told.set("type", line(row.misconception or row.outcome))
        told.text = xml(str(show_verdict(row.verdict())))


def _counts(rows):
    skipped = sum(row.outcome in _SKIPPED for row in rows)
    errors = sum(row.outcome in _ERROR for row in rows)
    failures = sum(row.outcome != "passed" for row in rows) - skipped - errors
    counts = {"tests": len(rows), "failures": failures, "errors": errors, "skipped": skipped}
    return {name: str(count) for name, count in counts.items()}


def _seconds(rows):
    """Return the wall seconds of a learner's submissions, each counted once."""
    walls = {row.submission: row.usage.get("wall_s", 0) for row in rows}
    return f"{sum(w for w in walls.values() if isinstance(w, int | float)):.3f}"
