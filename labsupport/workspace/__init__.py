"""The learner's copies of the lessons: made once, updated by merging, and never overwritten without a backup.

work/05_strides.ipynb            the learner's
work/.lab/base/05_strides.ipynb  the release it was copied from, which an update needs
work/.lab/backups/               the last ten versions before each update or reset
"""

import contextlib
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from labsupport.building import dump, exercise_id_of
from labsupport.catalog import find_exercise, find_lesson, lessons
from labsupport.errors import LabError
from labsupport.places import NOTEBOOKS, workspace
from labsupport.reading import load
from labsupport.workspace.atomic import cannot_write, clear_leftovers, locked, write_atomic
from labsupport.workspace.merge import merge, put_back, untouched_base
from labsupport.workspace.records import load_release, went_wrong

__all__ = ["Updated", "UpdatesFailed", "backups", "copy_of", "outdated", "reset", "start", "start_all", "update"]

_KEEP = 10
_IGNORED = """\
# This machine's only; base/ and the journal belong with the notebooks.
/backups/
/jupyter/
/lock
*.lab-tmp
"""


@dataclass(frozen=True)
class Updated:
    """What an update did to one copy: `changed` is False when it was current; counts as in `merge.Merged`."""

    path: Path
    changed: bool
    answers: tuple = ()
    both: int = 0
    gone: int = 0
    restubbed: tuple = ()
    backup: Path | None = None


class UpdatesFailed(LabError):
    """Some copies could not be updated: `failed` holds the error of each, `done` what was done to the others."""

    def __init__(self, failed, done):
        first, *rest = failed
        also = [f"also: {error.what} ({error.why})" if error.why else f"also: {error.what}" for error in rest]
        others = [f"{len(done)} other copies are up to date"] if done else []
        why = "; ".join([*([first.why] if first.why else []), *also, *others])
        super().__init__(first.what, why=why or None, next_step=first.next_step)
        self.failed, self.done = tuple(failed), tuple(done)


def copy_of(slug):
    """Return where the learner's copy of a lesson (or `home`) is, or would be.

    A copy made when the lesson had another number is found too, and stays where it is.
    """
    name = _name(slug)
    path = workspace() / name
    if not path.exists() and name[:2].isdigit():
        earlier = sorted(workspace().glob(f"[0-9][0-9]{name[2:]}"))
        path = earlier[0] if earlier else path
    return path


def _name(slug):
    return "home.ipynb" if slug == "home" else find_lesson(slug).notebook


def start(slug):
    """Return the learner's copy of a lesson (or `home`), made now if it was not there; never overwrites.

    Raises:
        LabError: no such lesson, no built notebook, or a workspace that cannot be written to.
    """
    _name(slug)  # an unknown lesson is told before anything is made
    with _held():
        return _start(slug)


def start_all(problems=None):
    """Return the copies of every lesson that is ready, and of the home notebook last.

    Args:
        problems: a list that takes the `LabError` of each copy that could not be made; without it the first is raised.
    """
    slugs = [lesson.slug for lesson in lessons() if lesson.ready]
    made = []
    with _held():
        for slug in [*slugs, "home"]:
            try:
                made.append(_start(slug))
            except LabError as error:
                if problems is None:
                    raise
                problems.append(error)
    return made


def _start(slug):
    path = copy_of(slug)
    if not path.exists():
        data = _shipped(slug).read_bytes()
        # The record first: a copy without one could not be updated well, a record without a copy does no harm.
        write_atomic(_base(path), data)
        write_atomic(path, data)
    return path


def _shipped(slug):
    path = NOTEBOOKS / _name(slug)
    if not path.is_file():
        raise LabError(f"notebooks/{path.name} is missing", why="it was not built", next_step=f"lab build {slug}")
    return path


def update(slug=None):
    """Return what was done to the copy of one lesson, or to every copy there is, as a list of `Updated`.

    Course cells follow the course; answers, edits and added cells stay. A backup is made before a copy changes.

    Raises:
        UpdatesFailed: of all copies some could not be updated; the others are.
        LabError: the one copy asked for cannot be read or is missing, or the workspace is busy.
    """
    if slug is not None:
        _name(slug)
    with _held():
        if slug is not None:
            return [_updated(slug)]
        done, failed = [], []
        for name in [*(lesson.slug for lesson in lessons() if lesson.ready), "home"]:
            try:
                if copy_of(name).exists():
                    done.append(_updated(name))
            except LabError as error:
                failed.append(error)
    if failed:
        raise UpdatesFailed(failed, done)
    return done


def _updated(slug):
    """Return what `_update` does; whatever goes wrong with one copy is told as a `LabError` that names it."""
    try:
        return _update(slug)
    except LabError:
        raise
    except Exception as error:
        raise went_wrong(copy_of(slug), "updated", error) from error


def _update(slug):
    path = copy_of(slug)
    if not path.exists():
        raise LabError(f"there is no {path.name} in {workspace()}", next_step=f"lab start {slug}")
    shipped = _shipped(slug)
    for _ in range(5):
        before = _bytes(path)
        mine, course = load(path), load_release(shipped, rebuilt_by=f"lab build {slug}")
        base = _load_base(path, mine, course)
        if base == course:
            return Updated(path, changed=False)
        merged = merge(base, course, mine)
        data = dump(merged.notebook).encode("utf-8")
        kept = _backup(path, before) if data != before else None
        if path.read_bytes() != before:
            continue  # an editor has just saved: that version is the learner's now
        if kept:
            write_atomic(path, data)
        # Last: when the process dies before this line, the same update runs again and changes nothing.
        write_atomic(_base(path), shipped.read_bytes())
        counts = {name: getattr(merged, name) for name in ("answers", "both", "gone", "restubbed")}
        return Updated(path, changed=kept is not None, backup=kept, **counts)
    raise LabError(f"{path.name} changes while it is updated", next_step="close it in the editor, then run lab update")


def outdated():
    """Return the copies for which the course has a newer release than the one they were made from, as a list of paths.

    Reads only the records, not the copies; one that is lost or torn is left to `update`.
    """
    found = []
    for slug in [*(lesson.slug for lesson in lessons() if lesson.ready), "home"]:
        path = copy_of(slug)
        with contextlib.suppress(LabError, OSError):
            base, shipped = _base(path), _shipped(slug)
            differs = path.exists() and base.read_bytes() != shipped.read_bytes()
            if differs and load_release(base) != load_release(shipped):
                found.append(path)
    return found


def _bytes(path):
    try:
        return path.read_bytes()
    except OSError as error:
        raise LabError(f"{path} cannot be opened", why=error.strerror or str(error)) from None


def _base(path):
    return path.parent / ".lab" / "base" / path.name


def _load_base(path, mine, course):
    """Return the release a copy was made from; when the record is lost, what can be proved to be the course's."""
    record, kept = _base(path), path.parent / ".lab" / "backups"
    try:
        return load_release(record)
    except LabError:
        with contextlib.suppress(OSError):
            if record.is_dir():
                record.rename(kept / f"{record.stem}.base.{_now()}")  # or the next record could not be written
            else:
                _backup(record, record.read_bytes(), folder=kept, label=".base")
        return untouched_base(mine, course)


def backups(path):
    """Return the backups of a copy, oldest first."""
    return _backups(path.parent / ".lab" / "backups", path.stem)


def _backups(folder, stem):
    return sorted(folder.glob(f"{stem}.[0-9]*.ipynb"))


def _backup(path, data, folder=None, label=""):
    """Return a file holding `data`: the newest backup if it says the same, else a new one; the oldest go."""
    folder = folder or path.parent / ".lab" / "backups"
    stem = f"{path.stem}{label}"
    there = _backups(folder, stem)
    if there and there[-1].read_bytes() == data:
        return there[-1]
    kept = folder / f"{stem}.{_now()}.ipynb"
    write_atomic(kept, data)
    for old in [*there, kept][:-_KEEP]:
        with contextlib.suppress(OSError):
            old.unlink()
    return kept


def _now():
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"


def reset(exercise_id):
    """Return (path of the copy, path of the backup) after putting one exercise back to its first state.

    The output of its check goes too. Without a difference nothing is written, and the backup is None.

    Raises:
        LabError: no such exercise, no copy of its lesson, or a copy that cannot be read.
    """
    exercise = find_exercise(exercise_id)
    with _held():
        path = copy_of(exercise.slug)
        try:
            return path, _reset(path, exercise)
        except LabError:
            raise
        except Exception as error:
            raise went_wrong(path, "reset", error) from error


def _reset(path, exercise):
    if not path.exists():
        raise LabError(f"there is no {path.name} in {workspace()}", next_step=f"lab start {exercise.slug}")
    before = _bytes(path)
    mine = load(path)
    course = load_release(_shipped(exercise.slug), rebuilt_by=f"lab build {exercise.slug}")
    base = _load_base(path, mine, course)
    known = {cell["id"] for cell in base["cells"]}
    release = base if exercise_id_of(exercise.id) in known else course
    back = put_back(release, mine, exercise.id)
    if [cell["source"] for cell in back["cells"]] == [cell["source"] for cell in mine["cells"]]:
        return None
    data = dump(_unchecked(back, exercise.id)).encode("utf-8")
    kept = _backup(path, before)
    write_atomic(path, data)
    return kept


def _unchecked(notebook, exercise_id):
    """Return the notebook with no output at the check of one exercise: the verdict was on an answer that is gone."""
    fresh = {"outputs": [], "execution_count": None}
    name = exercise_id_of(exercise_id, "check")
    cells = [
        cell | fresh if cell.get("id") == name and cell["cell_type"] == "code" else cell for cell in notebook["cells"]
    ]
    return notebook | {"cells": cells}


@contextlib.contextmanager
def _held():
    """Hold the workspace: make its folders, take the lock, clear what a killed process left behind."""
    folder = workspace() / ".lab"
    try:
        (folder / "base").mkdir(parents=True, exist_ok=True)
        (folder / "backups").mkdir(exist_ok=True)
    except OSError as error:
        raise cannot_write(workspace(), error) from error
    with locked(folder / "lock"):
        clear_leftovers(workspace(), folder, folder / "base", folder / "backups")
        if not (folder / ".gitignore").exists():
            write_atomic(folder / ".gitignore", _IGNORED.encode())
        try:
            yield
        except OSError as error:  # a folder in place of a file, a file that went away just now
            raise LabError(
                f"{error.filename or workspace()} cannot be used",
                why=error.strerror or str(error),
                next_step="put that right, then repeat the command",
            ) from error
