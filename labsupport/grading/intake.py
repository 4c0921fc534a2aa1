"""Submissions: whose notebook answers which lesson, and with what. Read only; metadata and file names are not believed.

`NN_slug.ipynb` inside `learner-a/` belongs to the learner `learner-a`, as does all that lies there; any other notebook
or archive at the top level belongs to the learner named by its stem. The lesson is found by what the notebook holds.
Nothing that was handed in is dropped in silence: what cannot be read is a submission too, with the reason and a way to
repair it.
"""

import dataclasses
import hashlib
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from labsupport import catalog
from labsupport.errors import UsageError
from labsupport.grading import archives
from labsupport.grading.finding import Taken, recognised, take_answers
from labsupport.grading.notebooks import Unreadable, read_bytes, read_notebook
from labsupport.grading.owners import (
    NO_LEARNER,
    as_name,
    learner_of,
    lesson_of_file,
    names_lesson,
    nearest,
    owner_of,
    short_digest,
    wrappers,
)
from labsupport.grading.patience import TooSlow, time_budget
from labsupport.grading.shipped import lesson_mentioned, lessons_in

__all__ = ["Submission", "Taken", "find_submissions", "read_submission"]

_DEEPEST = 30  # folders below a path
_MOST = 50  # notebooks of one learner
_READ_S = 60.0  # of processor time for one notebook; a large real one takes a second


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
    learner = learner or learner_of(path.name, path.absolute().parent.parts)
    try:
        data = read_bytes(path, follow=True)
    except Unreadable as error:
        return _unreadable(learner, path, b"", error)
    return _submission(data, learner, path)


def find_submissions(paths):
    """Return the submissions in folders, archives and notebooks, sorted by learner and lesson, one for each of these.

    Whose a file is, the outermost level below a path decides: nothing inside a learner's folder or archive makes or
    touches another learner. Of two notebooks of one lesson by one learner the one with more answers is taken, and a
    note names both; where two folders or archives claim one name for a lesson, neither is taken.

    Args:
        paths: paths as given by whoever grades; links among them are followed, links below them never.

    Raises:
        UsageError: one of the paths does not exist, or is neither a file nor a folder.
    """
    found = []
    for path in map(Path, paths):
        if path.is_dir():
            found += _in_folder(path)
        elif not path.is_file():
            raise UsageError(_why_nothing(path), next_step="name a folder, an archive or a notebook")
        elif archives.is_archive(path.name):
            found += _in_class_archive(path)
        else:
            found.append((str(path.absolute().parent), read_submission(path)))
    return sorted(_one_each(_told_apart(found)), key=lambda s: (s.learner, s.lesson, str(s.path)))


def _why_nothing(path):
    if path.is_symlink():
        return f"{path} is a link that leads to no file or folder"
    return f"{path} is neither a file nor a folder" if path.exists() else f"there is nothing at {path}"


# -- where they are: each is found as a pair (what its learner's name comes from, submission) -------------------------


def _in_folder(root):
    """Return the pairs below a folder."""
    files = list(_walk(root))
    skip = wrappers([parts for _, parts, _ in files])
    groups = {}
    for path, parts, problem in files:
        whose = owner_of(parts[skip:], (*root.absolute().parts, *parts[:skip]))
        groups.setdefault(whose, []).append((path, problem))
    by_level = {True: [], False: []}
    for (learner, entry), members in groups.items():
        inside = entry in {str(path.absolute()) for path, _ in members}  # the file itself gives the name
        by_level[inside or entry == ""] += [(entry, one) for one in _of_one(learner, members)]
    shared = _with_owner([one for _, one in by_level[True]])
    top = str(root.absolute())
    return by_level[False] + [(entry or top, one) for (entry, _), one in zip(by_level[True], shared, strict=True)]


def _walk(root):
    """Yield (path, parts below the root, problem) of notebooks and archives; of folders only those with a problem."""
    waiting = [(root, ())]
    while waiting:
        folder, parts = waiting.pop()
        if len(parts) > _DEEPEST:
            why = f"Its folders are nested more than {_DEEPEST} levels deep."
            yield folder, parts, Unreadable(why, "Hand in fewer levels.")
            continue
        try:
            with os.scandir(folder) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            yield folder, parts, Unreadable(f"The folder cannot be opened ({error.strerror}).", "Make it readable.")
            continue
        inner = []
        for entry in listed:
            if archives.is_ignored([entry.name]) or entry.name.lower() == "home.ipynb":
                continue
            if entry.is_dir(follow_symlinks=False):
                inner.append((Path(entry.path), (*parts, entry.name)))
            elif not entry.is_dir() and (archives.is_archive(entry.name) or entry.name.lower().endswith(".ipynb")):
                yield Path(entry.path), (*parts, entry.name), None
        waiting += reversed(inner)


def _of_one(learner, members):
    """Return the submissions in one learner's files: no more than _MOST of them."""
    found, left = [], 0
    for path, problem in members:
        if len(found) >= _MOST:
            left += 1
        elif problem:
            found.append(_unreadable(learner, path, b"", problem))
        elif archives.is_archive(path.name):
            found += _in_archive(path, learner)
        else:
            found.append(_in_file(path, learner))
    left += len(found[_MOST:])
    return _capped(found[:_MOST], left)


def _capped(found, left):
    if not left:
        return found
    were = "was" if left == 1 else "were"
    note = f"There are more than {_MOST} notebooks of this learner; {left:,} {were} left out."
    return [dataclasses.replace(one, notes=(*one.notes, note)) for one in found]


def _in_file(path, learner):
    try:
        return _submission(read_bytes(path), learner, path)
    except Unreadable as error:
        return _unreadable(learner, path, b"", error)


def _with_owner(here):
    """Give notebooks of no lesson to the learner whose lessons lie beside them: somebody's scratch is no learner."""
    owners = {s.learner for s in here if names_lesson(s.path.name)}
    owner = owners.pop() if len(owners) == 1 else None
    return [dataclasses.replace(s, learner=owner) if owner and not s.lesson else s for s in here]


def _in_archive(path, learner):
    """Return the submissions in an archive that somebody handed in: all are theirs, whatever its folders are called."""
    found, trouble, broken = _members(path, learner, most=_MOST)
    return _with_trouble([one for _, one in found], trouble, broken, path, learner)


def _in_class_archive(path):
    """Return the pairs in an archive that whoever grades named: by folder when it holds several learners."""
    owner = nearest(path.absolute().parent.parts, "archive")
    owner = owner if names_lesson(path.name) else as_name(archives.stem_of(path.name))
    found, trouble, broken = _members(path, owner, follow=True)
    skip = wrappers([parts for parts, _ in found], packed=True)
    whose = [owner_of(parts[skip:], (str(path.absolute()), *parts[:skip])) for parts, _ in found]
    alone = any(len(parts) == skip + 1 and names_lesson(parts[-1]) for parts, _ in found)
    told = {name for (name, entry), (_, one) in zip(whose, found, strict=True) if one.lesson and entry}
    groups = {}
    for (name, entry), (_, one) in zip(whose, found, strict=True):
        name = name if entry and not alone and len(told) > 1 else owner
        groups.setdefault((name, entry if name != owner else str(path.absolute())), []).append(one)
    pairs = []
    for (name, entry), members in groups.items():
        kept = [dataclasses.replace(one, learner=name) for one in members[:_MOST]]
        pairs += [(entry, one) for one in _capped(kept, len(members) - len(kept))]
    entries, made = (
        [entry for entry, _ in pairs],
        _with_trouble([one for _, one in pairs], trouble, broken, path, owner),
    )
    return list(zip(entries + [str(path.absolute())] * (len(made) - len(entries)), made, strict=True))


def _members(path, learner, *, follow=False, most=None):
    """Return ([(parts, submission)], sentences about what was not read, what ended the reading or None)."""
    found, trouble, broken = [], [], None
    try:
        for member in archives.members_of(path, follow=follow):
            parts = tuple(part for part in member.name.replace("\\", "/").split("/") if part not in ("", ".", ".."))
            one = _of_member(member, parts, learner, path)
            if one and (one.lesson or not one.unreadable):
                found.append((parts, one))
            elif one:
                trouble.append(f"`{as_name(member.name)}`: {member.problem or one.unreadable}")
            if most and len(found) >= most:
                trouble.append(f"only the first {most} notebooks were read")
                break
    except Unreadable as error:
        broken = error
        trouble.append(error.what)
    except Exception as error:
        broken = _ours(error)
        trouble.append(broken.what)
    return found, trouble, broken


def _with_trouble(found, trouble, broken, path, owner):
    """Return an archive's submissions with notes on what was not read, and one for who may be missing."""
    if not found:
        why = " ".join(trouble[:3]) or "The archive holds no notebook."
        return [_unreadable(owner, path, b"", Unreadable(why, "Put the notebooks into one `.zip` as `.ipynb` files."))]
    more = [f"{len(trouble) - 5:,} more like this."] if len(trouble) > 5 else []
    notes = tuple(f"In {path.name}: {text}" for text in trouble[:5] + more)
    # Of a class that could be read in part, somebody may be missing whom nobody can name.
    rest = [_unreadable(owner, path, b"", broken)] if broken and len({s.learner for s in found}) > 1 else []
    return [dataclasses.replace(s, notes=s.notes + notes) for s in found] + rest


def _of_member(member, parts, learner, archive):
    if parts and parts[-1].lower() == "home.ipynb":
        return None
    path = Path(archive, *parts)
    if member.data is None:
        return _unreadable(learner, path, b"", Unreadable(f"Not read: {member.problem}.", "Hand in the file itself."))
    return _submission(member.data, learner, path)


# -- what they hold -----------------------------------------------------------------------------------------------


def _submission(data, learner, path):
    """Return what one notebook's bytes hold; whatever happens on the way costs this file and no other."""
    try:
        with time_budget(_READ_S):
            return _read(data, learner, path)
    except Unreadable as error:
        return _unreadable(learner, path, data, error)
    except TooSlow:
        why = f"It takes more than {_READ_S:g} s to look into, as nothing real does."
        return _unreadable(learner, path, data, Unreadable(why, "Take out what is not the lesson's."))
    except Exception as error:
        return _unreadable(learner, path, data, _ours(error))


def _ours(error):
    return Unreadable(f"Looking into it failed ({type(error).__name__}).", "Whoever grades looks at this file.")


def _read(data, learner, path):
    notebook = read_notebook(data)
    cells = recognised(notebook.cells)
    lessons = lessons_in(cells)
    if not lessons:
        notes = (*notebook.notes, "No exercise of the course was found in it.")
        return Submission(learner, "", path, _digest(data), notes=notes)
    slug = next(iter(lessons))
    answers = {taken.exercise: taken for taken in take_answers(cells, catalog.exercises(slug))}
    notes = (*notebook.notes, *_about_lessons(slug, lessons, path))
    return Submission(learner, slug, path, _digest(data), answers, notes)


def _about_lessons(slug, lessons, path):
    named = lesson_of_file(path.name)
    if named and named != slug:
        yield f"The file is named after the lesson {named}, but holds {slug}."
    others = [other for other, weight in lessons.items() if other != slug and weight >= 10]
    if others:
        yield f"It also holds exercises of {', '.join(others)}; they count in a notebook of their own only."


def _unreadable(learner, path, data, error):
    """Return the submission of a file that cannot be graded, with the lesson it seems to be of."""
    lesson = lesson_of_file(path.name) or lesson_mentioned(data)
    return Submission(
        learner, lesson, path, _digest(data), unreadable=error.what, repair=error.next_step or "Hand in the file again."
    )


def _digest(data):
    return hashlib.sha256(data).hexdigest()


# -- one of each --------------------------------------------------------------------------------------------------


def _told_apart(found):
    """Return the submissions of pairs; where one name comes from several places, that is said or neither is taken."""
    places, lessons = {}, {}
    for entry, one in found:
        places.setdefault(one.learner, set()).add(entry)
        lessons.setdefault((one.learner, one.lesson), set()).add((entry, one.sha256))
    made = []
    for entry, one in found:
        claims = lessons[one.learner, one.lesson]
        claimants, files = (set(column) for column in zip(*claims, strict=True))
        if one.lesson and len(claimants) > 1 and len(files) > 1:
            one = _claimed(one, entry, claimants)
        elif len(places[one.learner]) > 1 and len(claims) == 1:
            note = f"The name {one.learner} comes from several places: {_shown(places[one.learner])}."
            one = dataclasses.replace(one, notes=(*one.notes, note))
        made.append(one)
    return made


def _claimed(one, entry, entries):
    why = f"The name {one.learner} is claimed by {_shown(entries)}: whose answers these are cannot be told."
    step = "Give each learner a name of their own, or grade these one by one."
    name = f"{one.learner} ~{short_digest(entry)}"
    return dataclasses.replace(one, learner=name, answers={}, unreadable=why, repair=step)


def _shown(entries):
    return " and ".join("/".join(Path(entry).parts[-2:]) for entry in sorted(entries))


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
    alike = len({s.path.name for s in ranked}) < len(ranked)
    told = ", ".join(f"{'/'.join(s.path.parts[-2:]) if alike else s.path.name} ({_in_words(s)})" for s in ranked)
    same = all(s.sha256 == best.sha256 for s in others)
    why = "they are the same file" if same else f"{best.path} was taken"
    notes = [f"{len(group)} notebooks of this lesson: {told}; {why}."]
    folders = {s.path.parent.name for s in ranked if s.path.parent.name.lower() not in NO_LEARNER}
    if len(folders) > 1 and not same:
        notes.append(f"If {best.learner} is a group and not one learner, give the path of the group to `lab grade`.")
    return dataclasses.replace(best, notes=(*best.notes, *notes))


def _in_words(submission):
    return "unreadable" if submission.unreadable else f"{submission.answered} answered"


def _renamed(submission):
    return not re.fullmatch(r"\d\d_[a-z0-9_]+\.ipynb", submission.path.name)
