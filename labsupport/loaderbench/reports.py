"""The report of a sweep: a table and a recommendation as text and as HTML, kept and read as JSON."""

import dataclasses
import json
import os
import platform
import sys
from dataclasses import dataclass
from pathlib import Path

from labsupport.errors import LabError
from labsupport.figures.words import count
from labsupport.loaderbench.deciding import Decision
from labsupport.loaderbench.measuring import Sample
from labsupport.loaderbench.runs import Run
from labsupport.loaderbench.settings import Setting, cores, usual_start
from labsupport.loaderbench.table import rows_of

__all__ = ["Report", "surroundings"]

_FORMAT = "loaderbench report 1"


@dataclass(frozen=True)
class Report:
    """What a sweep found.

    Attributes:
        dataset: name of the dataset's class; `length` its items, or None.
        surroundings: versions, cores and what else the numbers depend on.
        decision: the recommendation with its evidence.
        samples: {Setting: its samples}, in the order in which they were first run.
        refused: (Setting, LabError) of those that could not run here.
        runs: {Setting: a recorded `Run`} of the baseline and of the recommended setting, for a timeline.
        notes: sentences on what was not measured.
    """

    dataset: str
    length: int | None
    surroundings: dict
    decision: Decision
    samples: dict
    refused: tuple = ()
    runs: dict = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def baseline_run(self):
        """Return one recorded run of the baseline."""
        return self.runs[self.decision.baseline]

    @property
    def recommended_run(self):
        """Return one recorded run of the recommended setting."""
        return self.runs[self.decision.setting]

    def text(self):
        """Return the report as plain text: the table, the recommendation, the evidence."""
        header, *rows = rows_of(self)
        widths = [max(len(row[at]) for row in (header, *rows)) for at in range(len(header))]
        lines = [self.title(), ""]
        for row in (header, *rows):
            cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))]
            lines.append("  ".join(cells).rstrip())
        lines += [f"not run: {words}: {_in_a_line(error)}" for words, error in self.not_run()]
        lines += ["", self.decision.headline(), *(f"  - {sentence}" for sentence in self.decision.because)]
        if self.decision.verdict == "change":
            lines.append(f"  {self.decision.setting.call()}")
        lines += [f"note: {note}" for note in self.notes]
        return "\n".join(lines)

    def not_run(self):
        """Return [(settings in words, the error)] of those that could not run; one line for each reason."""
        reasons = {}
        for setting, error in self.refused:
            reasons.setdefault(_in_a_line(error), (error, []))[1].append(setting.words())
        return [("; ".join(words), error) for error, words in reasons.values()]

    def title(self):
        """Return what was measured where, in one line."""
        items = "no length" if self.length is None else count(self.length, "item")
        around = self.surroundings
        return f"{self.dataset}, {items}; {count(around['cores'], 'core')}, torch {around['torch']}, {around['system']}"

    __str__ = __repr__ = text

    def _repr_html_(self):
        from labsupport.loaderbench.page import as_html

        return as_html(self)

    def as_data(self):
        """Return the report as what JSON holds."""
        settings = [
            {"setting": dataclasses.asdict(setting), "samples": [dataclasses.asdict(row) for row in rows]}
            for setting, rows in self.samples.items()
        ]
        return {
            "format": _FORMAT,
            "dataset": self.dataset,
            "length": self.length,
            "surroundings": self.surroundings,
            "decision": dataclasses.asdict(self.decision),
            "settings": settings,
            "refused": [
                {"setting": dataclasses.asdict(setting), "what": error.what, "why": error.why, "next": error.next_step}
                for setting, error in self.refused
            ],
            "runs": [
                {"setting": dataclasses.asdict(setting), "run": run.as_data()} for setting, run in self.runs.items()
            ],
            "notes": list(self.notes),
        }

    @classmethod
    def from_data(cls, data):
        """Return the report that `as_data` described.

        Raises:
            LabError: it is not the description of a report.
        """
        if not isinstance(data, dict) or data.get("format") != _FORMAT:
            raise LabError("that is not a report of loaderbench", next_step="give a file that --out or save wrote")
        try:
            decision = data["decision"]
            kept = {"setting": Setting(**decision["setting"]), "baseline": Setting(**decision["baseline"])}
            return cls(
                dataset=data["dataset"],
                length=data["length"],
                surroundings=data["surroundings"],
                decision=Decision(**decision | kept | {"because": tuple(decision["because"])}),
                samples={
                    Setting(**one["setting"]): tuple(Sample(**s) for s in one["samples"]) for one in data["settings"]
                },
                refused=tuple((Setting(**one["setting"]), _error(one)) for one in data["refused"]),
                runs={Setting(**one["setting"]): Run.from_data(one["run"]) for one in data["runs"]},
                notes=tuple(data["notes"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise LabError("the report is damaged", why=f"{type(error).__name__}: {error}") from None

    def save(self, path):
        """Write the report to `path` as JSON, whole or not at all, and return the path."""
        path = Path(path)
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            beside.write_text(json.dumps(self.as_data(), indent=1), encoding="utf-8")
            beside.replace(path)
        except OSError as error:
            beside.unlink(missing_ok=True)
            raise LabError(f"{path} cannot be written", why=error.strerror or str(error)) from None
        return path

    @classmethod
    def load(cls, path):
        """Return the report saved at `path`.

        Raises:
            LabError: there is no such file, or it does not hold a report.
        """
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise LabError(f"there is no file {path}", next_step="give a file that --out or save wrote") from None
        except (OSError, ValueError) as error:
            raise LabError(f"{path} cannot be read as a report", why=f"{type(error).__name__}: {error}") from None
        return cls.from_data(data)


def _error(one):
    return LabError(one["what"], why=one["why"], next_step=one["next"])


def _in_a_line(error):
    return "; ".join(filter(None, (error.what, error.why, error.next_step)))


def surroundings(device):
    """Return what the numbers depend on besides the settings."""
    import torch

    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "system": sys.platform,
        "machine": platform.machine(),
        "cores": cores(),
        "threads": torch.get_num_threads(),
        "start": usual_start(),
        "device": None if device is None else device.name,
    }
