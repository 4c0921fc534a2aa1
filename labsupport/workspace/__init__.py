"""The learner's copies of the lessons: made once, updated by merging, and never overwritten without a backup.

work/05_strides.ipynb            the learner's
work/.lab/base/05_strides.ipynb  the release it was copied from, which an update needs
work/.lab/backups/               the last ten versions before each update or reset
"""

import contextlib
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from labsupport.building import dump, exercise_id_of, load
from labsupport.catalog import find_exercise, find_lesson, lessons
from labsupport.errors import LabError
from labsupport.places import NOTEBOOKS, workspace
from labsupport.workspace.atomic import clear_leftovers, locked, write_atomic
from labsupport.workspace.merge import merge, put_back, untouched_base

__all__ = ["Updated", "backups", "copy_of", "reset", "start", "start_all", "update"]

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


def start_all():
    """Return the copies of every lesson that is ready, and of the home notebook last."""
    slugs = [lesson.slug for lesson in lessons() if lesson.ready]
    with _held():
        return [_start(slug) for slug in [*slugs, "home"]]


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
        LabError: a copy cannot be read (the others are updated first), is missing, or the workspace is busy.
    """
    if slug is not None:
        _name(slug)
    with _held():
        if slug is not None:
            return [_update(slug)]
        done, failed = [], []
        for name in [*(lesson.slug for lesson in lessons() if lesson.ready), "home"]:
            if copy_of(name).exists():
                try:
                    done.append(_update(name))
                except LabError as error:
                    failed.append(error)
    if failed:
        raise _joined(failed, done)
    return done


def _joined(failed, done):
    if len(failed) == 1 and not done:
        return failed[0]
    first, *rest = failed
    also = "".join(f"; also: {error.what}" for error in rest)
    others = f"{len(done)} other copies are up to date"
    return LabError(first.what + also, why=f"{first.why}; {others}" if first.why else others, next_step=first.next_step)


def _update(slug):
    path = copy_of(slug)
    if not path.exists():
        raise LabError(f"there is no {path.name} in {workspace()}", next_step=f"lab start {slug}")
    shipped = _shipped(slug)
    for _ in range(5):
        before = _bytes(path)
        mine, course = load(path), load(shipped)
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


def _bytes(path):
    try:
        return path.read_bytes()
    except OSError as error:
        raise LabError(f"{path} cannot be opened", why=error.strerror or str(error)) from None


def _base(path):
    return path.parent / ".lab" / "base" / path.name


def _load_base(path, mine, course):
    """Return the release a copy was made from; when the record is lost, what can be proved to be the course's."""
    try:
        return load(_base(path))
    except LabError:
        with contextlib.suppress(FileNotFoundError):
            _backup(_base(path), _base(path).read_bytes(), folder=path.parent / ".lab" / "backups", label=".base")
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
    kept = folder / f"{stem}.{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}.ipynb"
    write_atomic(kept, data)
    for old in [*there, kept][:-_KEEP]:
        with contextlib.suppress(OSError):
            old.unlink()
    return kept


def reset(exercise_id):
    """Return (path of the copy, path of the backup) after putting one exercise back to its first state.

    Raises:
        LabError: no such exercise, no copy of its lesson, or a copy that cannot be read.
    """
    exercise = find_exercise(exercise_id)
    with _held():
        path = copy_of(exercise.slug)
        if not path.exists():
            raise LabError(f"there is no {path.name} in {workspace()}", next_step=f"lab start {exercise.slug}")
        before = _bytes(path)
        mine, course = load(path), load(_shipped(exercise.slug))
        base = _load_base(path, mine, course)
        known = {cell["id"] for cell in base["cells"]}
        release = base if exercise_id_of(exercise.id) in known else course
        data = dump(put_back(release, mine, exercise.id)).encode("utf-8")
        kept = _backup(path, before)
        write_atomic(path, data)
    return path, kept


@contextlib.contextmanager
def _held():
    """Hold the workspace: make its folders, take the lock, clear what a killed process left behind."""
    folder = workspace() / ".lab"
    try:
        (folder / "base").mkdir(parents=True, exist_ok=True)
        (folder / "backups").mkdir(exist_ok=True)
    except OSError as error:
        raise LabError(
            f"the workspace {workspace()} cannot be written to",
            why=error.strerror or str(error),
            next_step="make the folder writable, or set LAB_WORK to one that is",
        ) from error
    with locked(folder / "lock"):
        clear_leftovers(workspace(), folder, folder / "base", folder / "backups")
        if not (folder / ".gitignore").exists():
            write_atomic(folder / ".gitignore", _IGNORED.encode())
        yield
