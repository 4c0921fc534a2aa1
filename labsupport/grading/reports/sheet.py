"""grades.csv: one line per learner and exercise, for spreadsheets and gradebooks.

Its first line names the columns, since that is what programs expect; tier, layers, course and mode, which other reports
say first, are columns of every line.
"""

import csv
import io

from labsupport.grading.reports.texts import csv_cell

__all__ = ["COLUMNS", "table"]

COLUMNS = (
    "learner", "lesson", "exercise", "core", "outcome", "points", "points_of", "misconception", "case", "why", "next",
    "seen", "measured", "clean_run", "taken", "notes", "mode", "tier", "layers", "course", "submission", "answer",
)  # fmt: skip


def table(report):
    """Return the table as CSV text (RFC 4180, every text in quotes); no cell is a formula."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow(COLUMNS)
    layers = "; ".join(f"{name} {said}" for name, said in report.header.layers.items())
    for row in report.rows:
        about = {"mode": report.header.mode, "layers": layers, "notes": " / ".join(row.notes)}
        about |= {"tier": row.tier or report.header.tier, "course": row.course or report.header.course}
        writer.writerow([csv_cell(about[name] if name in about else getattr(row, name)) for name in COLUMNS])
    return out.getvalue()
