"""The table of a report as rows of texts, for a terminal and for a page."""

from labsupport.loaderbench.measuring import spread_of
from labsupport.loaderbench.wording import duration, size

__all__ = ["rows_of"]


def rows_of(report):
    """Return the table as rows of texts, header first. Times are medians per batch; the spread is that of the step."""
    header = ["setting", "per batch", "least to most", "wait", "load", "collate", "transfer", "step", "start"]
    header += ["pass", "own memory", "in flight"]
    rows = [header]
    for setting, samples in report.samples.items():
        rows.append([_name(report, setting), *_cells(samples)])
    idle = [at for at in (6, 7) if all(row[at] == "-" for row in rows[1:])]
    return [[cell for at, cell in enumerate(row) if at not in idle] for row in rows]


def _name(report, setting):
    decision = report.decision
    mark = "* " if setting == decision.setting else "  "
    return mark + setting.words()


def _cells(samples):
    def middle(name):
        return spread_of(getattr(sample, name) for sample in samples).median

    step = spread_of(sample.step_s for sample in samples)
    private = [sample.private_bytes for sample in samples if sample.private_bytes is not None]
    some = [duration(value) if value else "-" for value in (middle("transfer_s"), middle("compute_s"))]
    return [
        duration(step.median),
        f"{duration(step.least)} to {duration(step.most)}",
        *(duration(middle(name)) for name in ("wait_s", "load_s", "collate_s")),
        *some,
        duration(middle("later_start_s")),
        duration(middle("epoch_s")),
        size(spread_of(private).median) if private else "-",
        size(samples[0].flight_bytes) if samples[0].flight_bytes else "-",
    ]
