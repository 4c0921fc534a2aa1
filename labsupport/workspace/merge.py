"""Three notebooks into one: the course as it was, the course as it is, and what the learner made of it.

Course cells follow the course. Answers, added cells and edits are the learner's and are never dropped: where both
sides changed one cell, the course's version comes first and the learner's right below it.
"""

import re
from dataclasses import dataclass

from labsupport.building import content_id, exercise_id_of
from labsupport.catalog import marker_of
from labsupport.errors import LabError
from labsupport.workspace.matching import KEPT, is_kept, match, same_text, slots_of, trimmed

__all__ = ["Merged", "merge", "put_back", "untouched_base"]

_CHANGED = f"{KEPT} your version of the cell above, which the course has changed."
_GONE = f"{KEPT} yours; the course no longer has this cell."
_VALID_ID = re.compile(r"^[A-Za-z0-9_-]{1,64}$")


@dataclass(frozen=True)
class Merged:
    """The merged notebook and what a learner wants to know about it.

    Args:
        notebook: the result, format 4.5.
        answers: ids of the exercises whose answer was kept.
        both: how many course cells were changed on both sides; the learner's versions stand below them.
        gone: how many of the learner's versions of cells the course gave up were kept.
        restubbed: ids of answered exercises whose starting code has changed.
    """

    notebook: dict
    answers: tuple = ()
    both: int = 0
    gone: int = 0
    restubbed: tuple = ()


def merge(base, course, mine):
    """Return `mine` brought to the release `course`, given the release `base` it was made from.

    Args:
        base, course: notebooks as `building.build` makes them.
        mine: any notebook of format 4; its ids, metadata and order may have been changed.

    Raises:
        LabError: a cell of the learner would be lost; this is a defect, and nothing has been written.
    """
    slots = slots_of(base["cells"], course["cells"])
    slot_of = match(slots, mine["cells"])
    cell_at = {slot: mine["cells"][n] for n, slot in slot_of.items()}
    own, gone = _anchored(slots, slot_of, mine["cells"])
    cells, standing, both = list(own.get(None, [])), set(), 0
    answers, restubbed = [], []
    for number in range(len(course["cells"])):
        slot, cell = slots[number], cell_at.get(number)
        kept, beside = _resolved(slot, cell)
        standing |= {len(cells)} if kept else set()
        cells += kept + beside + own.get(number, [])
        both += len(beside)
        if cell and (marker := marker_of(slot.course["source"])) and slot.fixed and not same_text(kept[0], slot.course):
            answers.append(marker)
            if slot.base and not same_text(slot.base, slot.course):
                restubbed.append(marker)
    known = {cell["id"] for cell in (*base["cells"], *course["cells"])}
    notebook = _with_cells(base, course, mine, _unique_ids(cells, standing, known))
    _nothing_lost(slots, mine, notebook)
    return Merged(notebook, tuple(answers), both, gone, tuple(restubbed))


def _anchored(slots, slot_of, mine):
    """Return ({slot or None: the learner's own cells that follow it}, how many of them the course gave up)."""
    own, anchor, gone = {}, None, 0
    for number, cell in enumerate(mine):
        slot = slot_of.get(number)
        if slot is None:
            own.setdefault(anchor, []).append(cell)
        elif slots[slot].course:
            anchor = slot
        elif not same_text(cell, slots[slot].base):
            own.setdefault(anchor, []).append(_kept(cell, _GONE))
            gone += 1
    return own, gone


def _resolved(slot, cell):
    """Return ([the cell that stands in a slot of the course], [the learner's version below it]); both may be empty."""
    old, new = slot.base, slot.course
    if cell is None:  # a course cell deleted by the learner stays deleted until the course changes it
        deleted = old is not None and same_text(old, new) and not slot.fixed
        return ([] if deleted else [new]), []
    if same_text(cell, new):
        return [_adopted(slot, cell, text=new["source"])], []
    if old is not None and same_text(cell, old):
        return [_fresh(slot, cell)], []
    if new["id"].startswith("ex-") or old is None or same_text(old, new):
        return [_adopted(slot, cell, text=cell["source"])], []
    return [_fresh(slot, cell)], [_kept(cell, _CHANGED)]


def _adopted(slot, cell, text):
    """Return the learner's cell, outputs and all, under the course's id."""
    return cell | {"id": slot.course["id"], "source": text, "metadata": _metadata(slot, cell)}


def _fresh(slot, cell):
    """Return the course's cell: what the learner's run printed belongs to the old text and goes."""
    return slot.course | {"metadata": _metadata(slot, cell)}


def _metadata(slot, cell):
    """Return the learner's metadata with the tags of the course; tags of their own stay."""
    old = (slot.base or slot.course)["metadata"].get("tags", [])
    tags = list(slot.course["metadata"].get("tags", []))
    had = cell["metadata"].get("tags", [])
    tags += [tag for tag in had if tag not in old and tag not in tags] if isinstance(had, list) else []
    rest = {key: value for key, value in cell["metadata"].items() if key != "tags"}
    return rest | ({"tags": tags} if tags else {})


def _kept(cell, why):
    text = cell["source"]
    if cell["cell_type"] == "markdown":
        text = f"*{why}*\n\n{text}"
    elif text.startswith("%%"):  # a cell magic only works on the first line
        magic, _, rest = text.partition("\n")
        text = f"{magic}\n# {why}\n{rest}"
    else:
        text = f"# {why}\n{text}"
    return cell | {"source": text, "id": f"kept-{_digest(cell)}"}


def _digest(cell):
    return content_id(cell["cell_type"], cell["source"])


def _unique_ids(cells, standing, known):
    """Return the cells, each with a valid id that no other has.

    Args:
        standing: positions of the cells that stand for the course's and have its ids.
        known: every id the course uses or used; copies of its cells get another one.
    """
    taken, result = set(known), []
    for number, cell in enumerate(cells):
        name = cell.get("id")
        if number not in standing and (not isinstance(name, str) or not _VALID_ID.match(name) or name in taken):
            stem = f"kept-{_digest(cell)}" if is_kept(cell) else f"own-{_digest(cell)}"
            name = next(n for n in _numbered(stem) if n not in taken)
        taken.add(name)
        result.append(_complete(cell | {"id": name}))
    return result


def _numbered(stem):
    yield stem
    number = 2
    while True:
        yield f"{stem}-{number}"
        number += 1


def _complete(cell):
    if cell["cell_type"] == "code":
        return {"execution_count": None, "outputs": []} | cell
    return {key: value for key, value in cell.items() if key not in ("outputs", "execution_count")}


def _with_cells(base, course, mine, cells):
    metadata = mine.get("metadata", {})
    metadata = course["metadata"] if metadata in ({}, base["metadata"]) else course["metadata"] | metadata
    minor = max(5, mine.get("nbformat_minor", 5))
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": minor}


def _nothing_lost(slots, mine, merged):
    """Raise when a text of the learner is neither in the result nor a text of the course."""
    texts = {cell["source"] for cell in merged["cells"]}
    course = {_key(cell) for slot in slots for cell in (slot.base, slot.course) if cell}
    doubtful = [cell for cell in mine["cells"] if cell["source"] not in texts and _key(cell) not in course]
    there = {line for text in texts for line in text.splitlines()} if doubtful else set()
    for cell in doubtful:
        if not there.issuperset(cell["source"].splitlines()):
            raise LabError(
                "the update was stopped: it would have lost a cell of yours",
                why=f"the cell begins with {cell['source'][:60]!r}; this is a mistake in lab update, not yours",
                next_step="your notebook is unchanged; please report it with a copy of the notebook",
            )


def _key(cell):
    """Return what two cells share when they say the same, as `same_text` has it."""
    return cell["cell_type"], trimmed(cell["source"])


def untouched_base(mine, course):
    """Return a stand-in for a lost base record: the cells that are provably the course's, of whatever release.

    The id of a course cell is the digest of its text, so a cell whose id fits its text was not edited.
    """
    known = {cell["id"]: cell for cell in course["cells"] if cell["id"].startswith(("ex-", "check-"))}
    cells, seen = [], set()
    for cell in mine["cells"]:
        name = str(cell.get("id"))
        if name in seen:
            continue
        if name in known:
            cells.append(known[name])
        elif name.split("-")[0] == _digest(cell):
            plain = {key: cell[key] for key in ("cell_type", "id", "source")} | {"metadata": {}}
            cells.append(plain | ({"execution_count": None, "outputs": []} if cell["cell_type"] == "code" else {}))
        else:
            continue
        seen.add(name)
    return course | {"cells": cells}


def put_back(course, mine, exercise_id):
    """Return `mine` with the exercise's cell as shipped; a cell that was deleted returns before its check.

    Raises:
        LabError: the release the copy was made from has no such exercise.
    """
    slots = slots_of(course["cells"], course["cells"])
    name = exercise_id_of(exercise_id)
    target = next((n for n, slot in enumerate(slots) if slot.now["id"] == name), None)
    if target is None:
        raise LabError(f"this copy of the lesson has no exercise {exercise_id}", next_step="lab update")
    slot_of = match(slots, mine["cells"])
    cells = list(mine["cells"])
    standing = {n: slots[slot].now["id"] for n, slot in slot_of.items()}
    place = next((n for n, slot in slot_of.items() if slot == target), None)
    if place is not None:
        cells[place] = _fresh(slots[target], cells[place])
    else:
        place = _place_of(slots, slot_of, target)
        cells.insert(place, slots[target].course)
        standing = {n + (n >= place): known for n, known in standing.items()} | {place: name}
    cells = [cell | {"id": standing.get(n, cell.get("id"))} for n, cell in enumerate(cells)]
    return _with_cells(course, course, mine, _unique_ids(cells, standing, {cell["id"] for cell in course["cells"]}))


def _place_of(slots, slot_of, target):
    """Return where in the learner's notebook a missing exercise cell belongs: before its check, or in course order."""
    check = slots[target].now["id"].replace("ex-", "check-", 1)
    before = [n for n, slot in slot_of.items() if slots[slot].now["id"] == check]
    return min(before) if before else max((n + 1 for n, slot in slot_of.items() if slot < target), default=0)
