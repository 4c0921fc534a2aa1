"""Which of the learner's cells came from which cell of the course, told by several anchors.

Editors strip ids, learners duplicate, move, split and delete cells. So a cell is recognised by the exercise it
names, by its id, by its text, by what it defines, and, only when an editor took every id away, by likeness.
"""

import ast
import difflib
import functools
from dataclasses import dataclass

from labsupport.building import checks_in
from labsupport.catalog import marker_of

__all__ = ["KEPT", "Slot", "is_kept", "match", "same_text", "slots_of", "trimmed"]

KEPT = 'Kept by "lab update":'
_ALIKE = 0.6


@dataclass(frozen=True)
class Slot:
    """One place of the course: the cell it had when the copy was made (`base`) and the cell it has now (`course`)."""

    base: dict | None
    course: dict | None

    @property
    def now(self):
        return self.course or self.base

    @property
    def fixed(self):
        """Whether it is an exercise or its check: such cells are known by name and come back when deleted."""
        return self.now["id"].startswith(("ex-", "check-"))


def same_text(one, other):
    """Return whether two cells are of one type and say the same, blank space at line ends aside."""
    return one["cell_type"] == other["cell_type"] and trimmed(one["source"]) == trimmed(other["source"])


@functools.lru_cache(maxsize=2048)  # each cell is compared with many others
def trimmed(text):
    """Return a text by which cells are compared: its lines, blank space at both ends and at line ends left out."""
    return tuple(line.rstrip() for line in text.strip().splitlines())


def is_kept(cell):
    """Return whether an earlier update put this cell aside for the learner."""
    return str(cell.get("id")).startswith("kept-") or any(KEPT in line for line in cell["source"].split("\n", 2)[:2])


def slots_of(base, course):
    """Return the slots of two lists of course cells: first those of `course` in order, then those it gave up."""
    pairs = {}
    _pair(pairs, base, course, lambda cell: cell["id"])
    _pair(pairs, base, course, lambda cell: (cell["cell_type"], cell["source"]))
    free = [cell for cell in base if cell["id"] not in pairs.values() and not Slot(cell, None).fixed]
    new = [cell for cell in course if cell["id"] not in pairs and not Slot(None, cell).fixed]
    for one, other in _alike(free, new):
        pairs[new[other]["id"]] = free[one]["id"]
    by_id = {cell["id"]: cell for cell in base}
    slots = [Slot(by_id.get(pairs.get(cell["id"])), cell) for cell in course]
    return slots + [Slot(cell, None) for cell in base if cell["id"] not in set(pairs.values())]


def _pair(pairs, base, course, key):
    taken = set(pairs.values())
    free = {}
    for cell in base:
        if cell["id"] not in taken:
            free.setdefault(key(cell), []).append(cell["id"])
    for cell in course:
        if cell["id"] not in pairs and free.get(key(cell)):
            pairs[cell["id"]] = free[key(cell)].pop(0)


def _alike(ones, others):
    """Return pairs of positions of cells of one type that are edits of each other, the likest first."""
    found = []
    for a, one in enumerate(ones):
        matcher = difflib.SequenceMatcher(None, b=one["source"], autojunk=False)
        for b, other in enumerate(others):
            matcher.set_seq1(other["source"])
            if one["cell_type"] == other["cell_type"] and matcher.real_quick_ratio() >= _ALIKE <= matcher.quick_ratio():
                found.append((-matcher.ratio(), abs(a - b), a, b))
    pairs, used_a, used_b = [], set(), set()
    for ratio, _, a, b in sorted(found):
        if -ratio >= _ALIKE and a not in used_a and b not in used_b:
            pairs.append((a, b))
            used_a.add(a)
            used_b.add(b)
    return pairs


def match(slots, mine):
    """Return {position in `mine`: position in `slots`} for the learner's cells that came from the course."""
    found = _Found(slots, mine)
    for anchor in (_by_exercise, _by_id, _by_check, _by_text, _by_names, _by_likeness):
        anchor(found)
    return found.slot_of


def _given(name, known):
    return isinstance(name, str) and (name in known or name.startswith(("own-", "kept-")))


class _Found:
    """The slots and the learner's cells that no anchor has joined yet."""

    def __init__(self, slots, mine):
        self.slots, self.mine, self.slot_of = slots, mine, {}
        self.cells = [n for n, cell in enumerate(mine) if not is_kept(cell)]
        self.free = list(range(len(slots)))
        known = {cell["id"] for slot in slots for cell in (slot.base, slot.course) if cell}
        # Without a single id that the course or an update gave, an editor has stripped or renewed them all.
        self.stripped = not any(_given(cell.get("id"), known) for cell in mine)

    def join(self, cell, slot):
        self.slot_of[cell] = slot
        self.cells.remove(cell)
        self.free.remove(slot)

    def given_up(self, slot):
        """Whether only an id may join this slot: copies of what the course gave up are the learner's own cells."""
        return self.slots[slot].course is None and not self.stripped

    def versions(self, slot):
        return [cell for cell in (self.slots[slot].course, self.slots[slot].base) if cell]

    def says(self, cell, slot):
        return any(same_text(self.mine[cell], version) for version in self.versions(slot))


def _by_exercise(found):
    slots = {}
    for slot in found.free:
        if not found.given_up(slot) and (marker := marker_of(found.slots[slot].now["source"])):
            slots[marker] = slot
    for marker, slot in slots.items():
        named = [n for n in found.cells if _marker(found.mine[n]) == marker]
        if named:
            # Of several copies: the one in its old place, else the first that was worked on.
            found.join(min(named, key=lambda n: (*_strangeness(found, n, slot), n)), slot)


def _strangeness(found, cell, slot):
    """Return what speaks against a cell as the answer: another id, the stub's text, how far below its check is."""
    name, exercise = found.slots[slot].now["id"], f"/{marker_of(found.slots[slot].now['source'])}"
    below = found.mine[cell + 1 :]
    checks = [n for n, other in enumerate(below) for asked in _checks(other) if exercise.endswith(f"/{asked}")]
    return found.mine[cell].get("id") != name, found.says(cell, slot), min(checks, default=len(found.mine))


def _marker(cell):
    return marker_of(cell["source"]) if cell["cell_type"] == "code" else None


def _by_id(found):
    for slot in list(found.free):
        names = {version["id"] for version in found.versions(slot)}
        named = [n for n in found.cells if found.mine[n].get("id") in names and _may_be(found, n, slot)]
        if named:
            found.join(min(named, key=lambda n: (not found.says(n, slot), n)), slot)


def _may_be(found, cell, slot):
    """A cell that carries the id of one exercise and the marker of another is not the first one's answer."""
    marker = _marker(found.mine[cell])
    return marker is None or marker == marker_of(found.slots[slot].now["source"])


def _by_check(found):
    for slot in list(found.free):
        if found.given_up(slot) or not found.slots[slot].now["id"].startswith("check-"):
            continue
        checked = checks_in(found.slots[slot].now["source"])
        asked = [n for n in found.cells if found.mine[n]["cell_type"] == "code" and _checks(found.mine[n]) == checked]
        if asked:
            found.join(asked[0], slot)


def _checks(cell):
    return checks_in(cell["source"])


def _by_text(found):
    for cell in list(found.cells):
        for slot in found.free:
            if not found.given_up(slot) and found.says(cell, slot):
                found.join(cell, slot)
                break


def _by_names(found):
    for slot in list(found.free):
        if found.given_up(slot) or not found.slots[slot].now["id"].startswith("ex-"):
            continue
        wanted = _names(found.slots[slot].now["source"])
        for cell in found.cells:
            text = found.mine[cell]
            if wanted and text["cell_type"] == "code" and not _marker(text) and wanted <= _names(text["source"]):
                found.join(cell, slot)
                break


def _names(source):
    """Return the names a cell defines at its top level: functions, classes, assignments."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return set()
    names = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {leaf.id for target in node.targets for leaf in ast.walk(target) if isinstance(leaf, ast.Name)}
    return names


def _by_likeness(found):
    if not found.stripped:
        return
    free = [slot for slot in found.free if not found.slots[slot].fixed]
    cells = list(found.cells)
    texts = [found.versions(slot)[-1] for slot in free]  # as it was when the copy was made
    for one, other in _alike(texts, [found.mine[n] for n in cells]):
        found.join(cells[other], free[one])
