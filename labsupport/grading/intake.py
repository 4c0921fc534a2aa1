"""Submissions: whose notebook answers which lesson, and with what. Read only; metadata and file names are not believed.

`NN_slug.ipynb` inside `learner-a/` belongs to the learner `learner-a`; any other notebook or archive belongs to the
learner named by its stem. The lesson is found by what the notebook holds. Nothing that was handed in is dropped in
silence: what cannot be read is a submission too, with the reason and a way to repair it.
"""

import dataclasses
import hashlib
import os
import re
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path

from labsupport import catalog
from labsupport.errors import UsageError
from labsupport.grading import archives
from labsupport.grading.finding import Taken, take_answers
from labsupport.grading.notebooks import Unreadable, read_bytes, read_notebook
from labsupport.grading.shipped import lessons_in

__all__ = ["Submission", "Taken", "find_submissions", "read_submission"]

# Folders that say where in a learner's folder something lies, not whose it is.
_NO_LEARNER = frozenset(("work", "notebooks", "source", "submission", "answers"))
_COPY = r"(?:[ _()-]|copy|\d)*"  # what systems append to the name of a second copy
_MENTIONED = re.compile(rb"(?:exercise:\s*|[\"'](?:ex|check)-|lesson\(\\?[\"'])([a-z0-9_-]+)")
_LONGEST_NAME = 100


@dataclass(frozen=True)
class Submission:
    """One notebook that was handed in, read.

    Args:
        learner: whose it is.
        lesson: the lesson's slug, or "" when none could be found.
        path: where it lies; inside an archive `archive.zip/folder/name.ipynb`.
        sha256: of the notebook's bytes.
        answers: {exercise id: `Taken`} for every exercise of the lesson.
        notes: sentences about the file and how it was read.
        unreadable: why it cannot be graded, in a sentence, or "".
        repair: what to do about that.
    """

    learner: str
    lesson: str
    path: Path
    sha256: str
    answers: dict = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    unreadable: str = ""
    repair: str = ""

    @property
    def answered(self):
        """How many exercises have an answer that is not the shipped stub."""
        return sum(bool(taken.source or taken.unreadable) and not taken.untouched for taken in self.answers.values())


def read_submission(path, learner=None):
    """Return the `Submission` of one notebook file; what is wrong with the file is part of it, never an error.

    Args:
        path: the notebook.
        learner: whose it is; by default the path says so.
    """
    path = Path(path)
    learner = learner or _learner_of(path.name, path.absolute().parent.parts)
    try:
        data = read_bytes(path, follow=True)
    except Unreadable as error:
        return _unreadable(learner, path, b"", error)
    return _submission(data, learner, path)


def find_submissions(paths):
    """Return the submissions in folders, archives and notebooks, sorted by learner and lesson, one for each of these.

    Of two notebooks of one lesson by one learner the one with more answers is taken, and a note names both.

    Args:
        paths: paths as given by whoever grades.

    Raises:
        UsageError: one of the paths does not exist.
    """
    found = []
    for path in map(Path, paths):
        if not path.exists():
            raise UsageError(f"there is nothing at {path}", next_step="name a folder, an archive or a notebook")
        if path.is_dir():
            found += _in_folder(path)
        elif archives.is_archive(path.name):
            found += _in_archive(path, path.absolute().parent.parts, follow=True)
        else:
            found.append(read_submission(path))
    return sorted(_one_each(found), key=lambda s: (s.learner, s.lesson, str(s.path)))


# -- where they are -----------------------------------------------------------------------------------------------


def _in_folder(root):
    for folder, inner, names in os.walk(root):  # links to folders are not followed
        inner[:] = sorted(name for name in inner if not archives.is_ignored([name]))
        above, here = Path(folder).absolute().parts, []
        for name in sorted(names):
            path = Path(folder, name)
            if archives.is_ignored([name]) or name.lower() == "home.ipynb":
                continue
            if archives.is_archive(name):
                yield from _in_archive(path, above)
            elif name.lower().endswith(".ipynb"):
                here.append(_in_file(path, _learner_of(name, above)))
        yield from _with_owner(here)


def _in_file(path, learner):
    try:
        return _submission(read_bytes(path), learner, path)
    except Unreadable as error:
        return _unreadable(learner, path, b"", error)


def _with_owner(here):
    """Give notebooks of no lesson to the learner whose lessons lie beside them: somebody's scratch is no learner."""
    owners = {s.learner for s in here if _lesson_of_file(s.path.name)}
    owner = owners.pop() if len(owners) == 1 else None
    return [dataclasses.replace(s, learner=owner) if owner and not s.lesson else s for s in here]


def _in_archive(path, above=(), *, follow=False):
    """Return the submissions in an archive: by folder when several folders hold lessons, else by the archive's name."""
    owner = _learner_of(path.name, above)
    by_folder, trouble, broken = {}, [], None
    try:
        for member in archives.members_of(path, follow=follow):
            *folders, name = member.name.replace("\\", "/").split("/")
            found = _of_member(member, folders, name, owner, path)
            if found and (found.lesson or not found.unreadable):
                by_folder.setdefault(tuple(folders), []).append(found)
            elif found:
                trouble.append(f"`{_as_name(member.name)}`: {member.problem or found.unreadable}")
    except Unreadable as error:
        broken = error
        trouble.append(error.what)
    found = [s for here in by_folder.values() for s in _with_owner(here)]
    if len({s.learner for s in found if s.lesson and s.learner != owner}) < 2:
        found = [dataclasses.replace(s, learner=owner) for s in found]
    if not found:
        why = " ".join(trouble[:3]) or "The archive holds no notebook."
        return [_unreadable(owner, path, b"", Unreadable(why, "Put the notebooks into one `.zip` as `.ipynb` files."))]
    more = [f"{len(trouble) - 5:,} more like this."] if len(trouble) > 5 else []
    notes = tuple(f"In {path.name}: {text}" for text in trouble[:5] + more)
    # Of a class that could be read in part, somebody may be missing whom nobody can name.
    rest = [_unreadable(owner, path, b"", broken)] if broken and len({s.learner for s in found}) > 1 else []
    return [dataclasses.replace(s, notes=s.notes + notes) for s in found] + rest


def _of_member(member, folders, name, owner, archive):
    if name.lower() == "home.ipynb":
        return None
    learner = _learner_of(name, folders, otherwise=owner)
    path = Path(archive, *(part for part in (*folders, name) if part not in ("", ".", "..")))
    if member.data is None:
        return _unreadable(learner, path, b"", Unreadable(f"Not read: {member.problem}.", "Hand in the file itself."))
    return _submission(member.data, learner, path)


def _learner_of(name, above, otherwise=None):
    """Return whose a file is: the nearest telling folder's for a lesson's file name, else the file's own stem."""
    stem = archives.stem_of(name)
    if stem.lower() in _NO_LEARNER or _lesson_of_file(name):
        telling = [part for part in above if part.lower() not in _NO_LEARNER and part.strip("./\\")]
        stem = telling[-1] if telling else otherwise or stem
    return _as_name(stem)


def _lesson_of_file(name):
    """Return the slug of the lesson whose file name this is, perhaps with what marks a copy, or ""."""
    stem = unicodedata.normalize("NFC", archives.stem_of(name))
    slugs = (lesson.slug for lesson in catalog.lessons())
    return next((slug for slug in slugs if re.fullmatch(rf"\d\d_{slug}{_COPY}", stem, re.IGNORECASE)), "")


def _as_name(text):
    """Return text as a learner's name: composed characters, nothing that does not show, one line, not endless."""
    text = "".join("?" if unicodedata.category(c)[0] == "C" else c for c in unicodedata.normalize("NFC", text))
    return " ".join(text.split())[:_LONGEST_NAME] or "unnamed"


# -- what they hold -----------------------------------------------------------------------------------------------


def _submission(data, learner, path):
    try:
        notebook = read_notebook(data)
    except Unreadable as error:
        return _unreadable(learner, path, data, error)
    lessons = lessons_in(notebook.cells)
    if not lessons:
        notes = (*notebook.notes, "No exercise of the course was found in it.")
        return Submission(learner, "", path, _digest(data), notes=notes)
    slug = next(iter(lessons))
    answers = {taken.exercise: taken for taken in take_answers(notebook.cells, catalog.exercises(slug))}
    notes = (*notebook.notes, *_about_lessons(slug, lessons, path))
    return Submission(learner, slug, path, _digest(data), answers, notes)


def _about_lessons(slug, lessons, path):
    named = _lesson_of_file(path.name)
    if named and named != slug:
        yield f"The file is named after the lesson {named}, but holds {slug}."
    others = [other for other, weight in lessons.items() if other != slug and weight >= 10]
    if others:
        yield f"It also holds exercises of {', '.join(others)}; they count in a notebook of their own only."


def _unreadable(learner, path, data, error):
    """Return the submission of a file that cannot be graded, with the lesson it seems to be of."""
    lesson = _lesson_of_file(path.name) or _lesson_mentioned(data)
    return Submission(
        learner, lesson, path, _digest(data), unreadable=error.what, repair=error.next_step or "Hand in the file again."
    )


def _lesson_mentioned(data):
    """Return the lesson that a damaged file speaks of most."""
    heard = [match.decode("ascii", "ignore").replace("_", "-") for match in _MENTIONED.findall(data[:2_000_000])]
    weights = {
        lesson.slug: sum(h.startswith(lesson.prefix) for h in heard) for lesson in catalog.lessons() if lesson.ready
    }
    best = max(weights, key=weights.get, default="")
    return best if weights.get(best) else ""


def _digest(data):
    return hashlib.sha256(data).hexdigest()


# -- one of each --------------------------------------------------------------------------------------------------


def _one_each(found):
    """Return one submission per learner and lesson; what was not taken is named in a note of what was."""
    groups = {}
    for submission in found:
        groups.setdefault((submission.learner, submission.lesson), []).append(submission)
    for (_, lesson), group in groups.items():
        yield from [_best(group)] if lesson and len(group) > 1 else group


def _best(group):
    ranked = sorted(group, key=lambda s: (bool(s.unreadable), -s.answered, _renamed(s), str(s.path)))
    best, *others = ranked
    told = ", ".join(f"{s.path.name} ({_in_words(s)})" for s in ranked)
    same = all(s.sha256 == best.sha256 for s in others)
    why = "they are the same file" if same else f"{best.path} was taken"
    return dataclasses.replace(best, notes=(*best.notes, f"{len(group)} notebooks of this lesson: {told}; {why}."))


def _in_words(submission):
    return "unreadable" if submission.unreadable else f"{submission.answered} answered"


def _renamed(submission):
    return not re.fullmatch(r"\d\d_[a-z0-9_]+\.ipynb", submission.path.name)
