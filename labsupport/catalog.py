"""What the course contains, found by listing files: lessons, exercises, stubs."""

import difflib
import functools
import importlib
import re
import traceback
from dataclasses import dataclass
from pathlib import Path

from labsupport.errors import LabError, UsageError
from labsupport.places import NOTEBOOKS, ROOT, SOURCE
from labsupport.reading import load, text_of_source

__all__ = [
    "PLAN", "Lesson", "cells_as_built", "exercises", "find_exercise", "find_lesson", "lessons", "marker_of",
    "readable_exercises", "stubs",
]  # fmt: skip

# Number, slug and one-line subject of every lesson; one is ready when its source exists.
PLAN = (
    (0, "start_here", "how a lesson works"),
    (1, "objects", "names, identity, mutability"),
    (2, "streams", "iterators, generators, bounded memory"),
    (3, "resources", "contexts, errors, decorators"),
    (4, "interfaces", "data classes, protocols, configuration"),
    (5, "strides", "memory, views and copies"),
    (6, "broadcasting", "aligned shapes without copies"),
    (7, "vectorizing", "indexing, einsum, compiled loops"),
    (8, "tensors", "layout, dtypes, devices"),
    (9, "autograd", "graphs, gradients, saved tensors"),
    (10, "training", "a loop that does not lie"),
    (11, "datasets", "samples, batches, splits"),
    (12, "loading", "keep the device fed"),
    (13, "chunks", "HDF5 and Zarr from the inside"),
    (14, "stores", "shared, concurrent, fed to training"),
    (15, "collectives", "messages between ranks"),
    (16, "ddp", "data parallel with torchrun cells"),
    (17, "sharding", "FSDP2 and distributed checkpoints"),
    (18, "checkpoints", "stop anywhere, lose nothing"),
    (19, "tracking", "runs, manifests, registry"),
    (20, "tuning", "search without fooling yourself"),
    (21, "serving", "a model behind HTTP"),
    (22, "capstone", "one model, every hand-over"),
)

_MARKER = re.compile(r"^#\s*exercise:\s*([a-z0-9-]+/[a-z0-9-]+)\s*$")
_SOURCE_NAME = re.compile(r"^([0-9]{2})_([a-z0-9_]+)\.py$")
_BEGINNING = 10_000  # characters of a cell among which a marker is looked for
_MINUTES = re.compile(r"^\*\*(\d+) minutes \(core\), ([^*]+?)\.?\*\*", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """One lesson as listed: `minutes` is the core's, `hardware` in words, `ready` when it can be opened.

    `problem` says why title and minutes could not be read from the source, "" when they were.
    """

    number: int
    slug: str
    title: str
    minutes: int
    hardware: str
    ready: bool
    problem: str = ""

    @property
    def notebook(self):
        """File name of the built notebook."""
        return f"{self.number:02d}_{self.slug}.ipynb"

    @property
    def prefix(self):
        """The lesson's part of an exercise id: `start-here` for `start_here`."""
        return self.slug.replace("_", "-")


@functools.cache
def lessons():
    """Return every lesson of the course in order, planned ones included."""
    sources = {m[2]: (int(m[1]), p) for p in sorted(SOURCE.glob("*.py")) if (m := _SOURCE_NAME.match(p.name))}
    known = {slug for _, slug, _ in PLAN}
    plan = list(PLAN) + [(number, slug, slug) for slug, (number, _) in sources.items() if slug not in known]
    found = [_lesson(number, slug, subject, sources.get(slug)) for number, slug, subject in plan]
    return tuple(sorted(found, key=lambda lesson: lesson.number))


def _lesson(number, slug, subject, source):
    if source is None:
        return Lesson(number=number, slug=slug, title=subject, minutes=0, hardware="", ready=False)
    text, problem = _text_of(source[1])
    text = f"\n{text}".replace("\n# ", "\n")
    title = re.search(r"^#\s*# (.+)$|^# (.+)$", text, re.MULTILINE)
    minutes = _MINUTES.search(text)
    return Lesson(
        number=source[0],
        slug=slug,
        title=next((t for t in title.groups() if t), subject).strip() if title else subject,
        minutes=int(minutes[1]) if minutes else 0,
        hardware=minutes[2].strip() if minutes else "",
        ready=True,
        problem=problem,
    )


def _text_of(source):
    """Return (a source's text, ""), or ("", why it cannot be read): one broken lesson does not take the list along."""
    try:
        return text_of_source(source), ""
    except LabError as error:
        return "", f"{error.what}: {error.why}"


@functools.cache
def exercises(slug=None):
    """Return the exercises of one lesson, or of all, in course order.

    Raises:
        LabError: the module of a lesson cannot be used; names file, line and reason.
    """
    if slug is None:
        return tuple(e for lesson in lessons() if lesson.ready for e in exercises(lesson.slug))
    if not (ROOT / "labsupport" / "exercises" / f"{slug}.py").is_file():
        return ()
    try:
        found = tuple(importlib.import_module(f"labsupport.exercises.{slug}").EXERCISES)
        if odd := [one for one in found if not hasattr(one, "id")]:
            raise TypeError(f"EXERCISES holds {odd[0]!r}, which is no exercise")
        return found
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and not str(error.name).startswith("labsupport"):
            raise  # a package is missing: that is told, or installed, by the `lab` command
        said = error.msg if isinstance(error, SyntaxError) else error
        raise LabError(
            f"the exercises of {slug} cannot be used",
            why=f"{type(error).__name__}: {said} ({_where(error, slug)})",
            next_step=f"mend it, then python -c 'import labsupport.exercises.{slug}'; other lessons are not affected",
        ) from error


def _where(error, slug):
    """Return file and line of a module's mistake: of the text that does not parse, else of its last line that ran."""
    places = [(Path(frame.filename), frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename:
        places.append((Path(error.filename), error.lineno))
    for path, line in reversed(places):
        if path.parent.name == "exercises":
            return f"labsupport/exercises/{path.name}, line {line}"
    return f"labsupport/exercises/{slug}.py"


def readable_exercises(slug=None):
    """Return (the exercises of one lesson, or of every lesson that can be used, the errors of the others)."""
    slugs = [slug] if slug else [lesson.slug for lesson in lessons() if lesson.ready]
    found, errors = [], []
    for name in slugs:
        try:
            found += exercises(name)
        except LabError as error:
            errors.append(error)
    return tuple(found), errors


def find_lesson(text):
    """Return the lesson meant by a slug, number, file name or prefix.

    Raises:
        LabError: nothing is called that; names the nearest, or says that the lesson is planned.
    """
    wanted = str(text).strip().lower().removesuffix(".ipynb").removesuffix(".py").split("/")[-1]
    by_name = {}
    for lesson in lessons():
        stem = lesson.notebook.removesuffix(".ipynb")
        for name in (lesson.slug, lesson.prefix, stem, str(lesson.number), f"{lesson.number:02d}"):
            by_name[name] = lesson
    if wanted in by_name:
        lesson = by_name[wanted]
        if lesson.ready:
            return lesson
        ready = ", ".join(known.slug for known in lessons() if known.ready)
        raise UsageError(
            f"lesson {lesson.slug!r} is planned, not written yet",
            next_step=f"these can be opened today: {ready}",
        )
    raise _unknown("lesson", wanted, [lesson.slug for lesson in lessons() if lesson.ready], "lab lessons")


def find_exercise(text, slug=None):
    """Return the exercise with this id; inside a lesson (`slug`) the part after the slash is enough.

    Raises:
        LabError: no exercise has this id; names the nearest ones.
    """
    wanted = str(text).strip().lower()
    own = slug or next((k.slug for k in lessons() if k.ready and wanted.startswith(f"{k.prefix}/")), None)
    candidates = exercises(own) if own else readable_exercises()[0]
    known = {e.id: e for e in candidates}
    if slug is not None:
        known |= {e.short_id: e for e in candidates}
    elif "/" not in wanted:
        same = [e for e in candidates if e.short_id == wanted]
        if len(same) == 1:
            return same[0]
    if wanted in known:
        return known[wanted]
    others = exercises(slug) if slug else readable_exercises()[0]
    names = [e.short_id if slug else e.id for e in others]
    raise _unknown("exercise", wanted, names, f"lab exercises {slug}" if slug else "lab exercises")


def _unknown(noun, wanted, names, listing):
    near = difflib.get_close_matches(wanted, names, n=3, cutoff=0.4)
    if not near:  # a close match of the part after the slash is worth more than nothing
        near = [name for name in names if wanted and wanted.split("/")[-1] in name][:3]
    return UsageError(
        f"no {noun} is called {wanted!r}",
        why="the nearest names are " + ", ".join(near) if near else f"the course has {len(names)} of them",
        next_step=f"copy a name from `{listing}`",
    )


def marker_of(source):
    """Return the exercise id named by the marker comment of a cell, or None."""
    for line in source.lstrip()[:_BEGINNING].splitlines()[:3]:
        if match := _MARKER.match(line.strip()):
            return match[1]
    return None


def cells_as_built(slug):
    """Return the cells of one lesson's built notebook, every source as one text; none when it is not built.

    Raises:
        LabError: the file is not the notebook that `lab build` makes.
    """
    lesson = next(known for known in lessons() if known.slug == slug)
    path = NOTEBOOKS / lesson.notebook
    if not path.exists():
        return []
    try:
        return load(path)["cells"]
    except LabError as error:
        what = f"notebooks/{path.name}, as the course ships it, cannot be read"
        raise LabError(what, why=error.why, next_step=f"lab build {slug}") from None


@functools.cache
def stubs(slug):
    """Return {exercise id: the cell shipped for it, marker line included} of one lesson's built notebook.

    Raises:
        LabError: the notebook cannot be read.
    """
    sources = [cell["source"] for cell in cells_as_built(slug) if cell["cell_type"] == "code"]
    return {marker: source for source in sources if (marker := marker_of(source))}
