"""A recorded run of a DataLoader as plain data: what each process did when, and what was counted."""

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path

from labsupport.errors import LabError

__all__ = ["KINDS", "Epoch", "Event", "Run", "Worker"]

KINDS = ("start", "fetch", "collate", "wait", "transfer", "compute")
_FORMAT = "loaderbench run 1"


@dataclass(frozen=True)
class Event:
    """Something that took from `start_s` to `end_s` (seconds since the run began) on a lane, for one batch.

    Lanes are "main" and "worker 0", "worker 1", ...; kinds are those of `KINDS`. `batch` counts over the whole run,
    in the order in which the main process received them; None for "start".
    """

    lane: str
    kind: str
    start_s: float
    end_s: float
    batch: int | None = None


@dataclass(frozen=True)
class Epoch:
    """One pass: when it began, when its first batch was there, when it ended; its batches and its workers' pids."""

    start_s: float
    first_batch_s: float
    end_s: float
    batches: int
    pids: tuple[int, ...] = ()


@dataclass(frozen=True)
class Worker:
    """One worker process: its number and pid, batches and calls, and the memory that is its own, in bytes or None."""

    number: int
    pid: int
    batches: int
    calls: int
    private_dirty_bytes: int | None = None


@dataclass(frozen=True)
class Run:
    """A recorded run. All seconds count from its beginning.

    Attributes:
        settings: the loader's settings in plain words, and how the run was made.
        events: what every lane did when, in order of start.
        queue: (seconds, batches that were ready and not yet taken), at each change.
        totals: seconds per kind of event, over all lanes; "next" is what the main process spent inside
            `next()`, "cpu" the processor time of all fetching and collating.
        counts: batches, items, calls (of the dataset), bytes (of all batches), processes.
        epochs: one `Epoch` per pass.
        workers: one `Worker` per worker process.
        notes: sentences on what could not be measured here.
    """

    settings: dict
    events: tuple[Event, ...]
    queue: tuple[tuple[float, int], ...]
    totals: dict
    counts: dict
    epochs: tuple[Epoch, ...] = ()
    workers: tuple[Worker, ...] = ()
    notes: tuple[str, ...] = ()
    versions: dict = field(default_factory=dict)

    @property
    def seconds(self):
        """The length of the run."""
        return self.epochs[-1].end_s if self.epochs else 0.0

    @property
    def wait_share(self):
        """The share of the run that the main process spent inside `next()`: 0 is a loader that is always ahead."""
        return self.totals["next"] / self.seconds if self.seconds else 0.0

    def as_data(self):
        """Return the run as what JSON holds."""
        return {"format": _FORMAT} | dataclasses.asdict(self)

    @classmethod
    def from_data(cls, data):
        """Return the run that `as_data` described.

        Raises:
            LabError: it is not the description of a run.
        """
        if not isinstance(data, dict) or data.get("format") != _FORMAT:
            raise LabError("that is not a recorded run", next_step="give a file that `Run.save` wrote")
        try:
            return cls(
                settings=data["settings"],
                events=tuple(Event(**event) for event in data["events"]),
                queue=tuple((float(at), int(ready)) for at, ready in data["queue"]),
                totals=data["totals"],
                counts=data["counts"],
                epochs=tuple(Epoch(**epoch | {"pids": tuple(epoch["pids"])}) for epoch in data["epochs"]),
                workers=tuple(Worker(**worker) for worker in data["workers"]),
                notes=tuple(data["notes"]),
                versions=data["versions"],
            )
        except (KeyError, TypeError, ValueError) as error:
            raise LabError("the recorded run is damaged", why=f"{type(error).__name__}: {error}") from None

    def save(self, path):
        """Write the run to `path` as JSON and return the path."""
        path = Path(path)
        path.write_text(json.dumps(self.as_data()), encoding="utf-8")
        return path

    @classmethod
    def load(cls, path):
        """Return the run saved at `path`.

        Raises:
            LabError: there is no such file, or it does not hold a run.
        """
        try:
            return cls.from_data(json.loads(Path(path).read_text(encoding="utf-8")))
        except FileNotFoundError:
            raise LabError(f"there is no file {path}", next_step="give the path that `Run.save` returned") from None
        except (OSError, ValueError) as error:
            raise LabError(f"{path} cannot be read as a run", why=f"{type(error).__name__}: {error}") from None

    def __str__(self):
        setting = ", ".join(f"{key} {value}" for key, value in self.settings.items() if value is not None)
        spent = ", ".join(f"{kind} {self.totals[kind]:.3g} s" for kind in KINDS if self.totals.get(kind))
        counted = ", ".join(f"{value:,} {key}" for key, value in self.counts.items())
        return f"{setting}\n{self.seconds:.3g} s, {self.wait_share:.0%} of it inside next(): {spent}\n{counted}"

    __repr__ = __str__
