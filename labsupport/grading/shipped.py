"""A lesson as it is shipped: what in a learner's notebook is the course's and not theirs."""

import difflib
import functools
import re
from dataclasses import dataclass

from labsupport import catalog
from labsupport.grading.cells import Cell, bindings

__all__ = ["Shipped", "alike", "key_of", "lesson_mentioned", "lessons_in", "shipped_lesson"]

_ALIKE = 0.6
_LOOKED_AT = 4_000  # characters
_WORDS = re.compile(r"\w+|[^\w\s]")
_MENTIONED = re.compile(rb"(?:exercise:\s*|[\"'](?:ex|check)-|lesson\(\\?[\"'])([a-z0-9_-]+)")
_OPENED = re.compile(r"""\blesson\(\s*["']([\w-]+)["']""")


def key_of(text):
    """Return a text with blank space at its ends and at line ends left out, to compare cells by."""
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def alike(one, other):
    """Return how alike two texts are, from 0 to 1, by their words and signs; only the beginning of long ones counts."""
    words, others = (_WORDS.findall(text[:_LOOKED_AT]) for text in (one, other))
    return difflib.SequenceMatcher(None, words, others, autojunk=False).ratio()


@dataclass(frozen=True)
class Shipped:
    """The cells of one built lesson and what can be asked about them."""

    slug: str
    cells: tuple[Cell, ...]

    @functools.cached_property
    def stubs(self):
        """{exercise id: the cell shipped for it}."""
        return {exercise: cell for cell in self.cells if cell.kind == "code" for exercise in cell.marked}

    @functools.cached_property
    def exercise_ids(self):
        """The ids of the exercise cells."""
        return frozenset(cell.id for cell in self.stubs.values())

    @functools.cached_property
    def own(self):
        """The course's cells, exercises aside."""
        return tuple(cell for cell in self.cells if not (cell.kind == "code" and cell.marked))

    @functools.cached_property
    def keys(self):
        """The texts of the course's cells, as `key_of` writes them."""
        return frozenset(key_of(cell.text) for cell in self.own)

    @functools.cached_property
    def _programs(self):
        return frozenset(cell.statements for cell in self.own if cell.kind == "code" and cell.statements)

    @functools.cached_property
    def statements(self):
        """Every top-level statement of the course's code cells, as `statement_key` writes it."""
        return frozenset(statement for program in self._programs for statement in program)

    @functools.cached_property
    def prose(self):
        """The lines of the course's text cells."""
        lines = (line.strip() for cell in self.own if cell.kind != "code" for line in cell.text.splitlines())
        return frozenset(line for line in lines if line)

    @functools.cached_property
    def _by_id(self):
        return {cell.id: cell for cell in self.own}

    @functools.cached_property
    def _stub_programs(self):
        return frozenset(cell.statements for cell in self.stubs.values())

    def id_of(self, exercise):
        """Return the id of the cell shipped for an exercise."""
        stub = self.stubs.get(exercise)
        return stub.id if stub else "ex-" + exercise.replace("/", "-")

    def bindings(self, exercise, names):
        """Return what the shipped cell of an exercise binds the names to, as `cells.bindings` does."""
        if exercise not in self._bindings:
            self._bindings[exercise] = bindings(self.stubs[exercise].tree.body, names)
        return self._bindings[exercise]

    @functools.cached_property
    def _bindings(self):
        return {}

    def is_course(self, cell):
        """Return whether a cell is one of the course's own, perhaps edited a little; kept with the cell."""
        if "of" not in vars(cell):
            vars(cell)["of"] = {}
        known = vars(cell)["of"]
        if self.slug not in known:
            known[self.slug] = self._is_course(cell)
        return known[self.slug]

    def _is_course(self, cell):
        if cell.marked and cell.kind == "code":
            return False
        if key_of(cell.text) in self.keys or (cell.kind == "code" and cell.statements in self._programs):
            return True
        was = self._by_id.get(cell.id)
        if was is None or was.kind != cell.kind:
            return False
        return alike(was.text, cell.text) >= _ALIKE

    def meant_by(self, mark):
        """Return the exercise a marker names, or nearly names, or None."""
        if mark in self.stubs:
            return mark
        if mark not in self._meant:
            near = difflib.get_close_matches(mark[:100], self.stubs, 1, 0.85)
            if len(self._meant) > 1000:
                self._meant.clear()
            self._meant[mark] = near[0] if near else None
        return self._meant[mark]

    @functools.cached_property
    def _meant(self):
        return {}

    def is_stub(self, cell):
        """Return whether a cell is some exercise's stub as shipped."""
        return cell.statements in self._stub_programs and bool(cell.statements)

    def answers_other(self, cell, exercise):
        """Return whether a cell defines everything that another exercise asks for."""
        return any(stub.names and stub.names <= cell.names for key, stub in self.stubs.items() if key != exercise)

    def neighbours(self, exercise, cells):
        """Return the positions in `cells` of the nearest course cells before and after an exercise, None if lost."""
        stub = self.stubs.get(exercise)
        if stub is None:
            return None, None
        place = self.cells.index(stub)
        found = {key_of(cell.text): i for i, cell in enumerate(cells)}
        before = (found.get(key_of(cell.text)) for cell in reversed(self.cells[:place]))
        after = (found.get(key_of(cell.text)) for cell in self.cells[place + 1 :])
        return tuple(next((i for i in side if i is not None), None) for side in (before, after))


@functools.cache
def shipped_lesson(slug):
    """Return the `Shipped` of a lesson; empty when its notebook is not built.

    Raises:
        LabError: the notebook cannot be read.
    """
    cells = enumerate(catalog.cells_as_built(slug), 1)
    return Shipped(slug, tuple(Cell(n, c.get("id", ""), c["cell_type"], c["source"]) for n, c in cells))


def lessons_in(cells):
    """Return {slug: weight} of the lessons that a notebook's cells speak of, the likeliest first.

    Markers and ids of exercises weigh most, then the call that opens a lesson, then cells of the course that are
    there word for word, then the names an exercise asks for.
    """
    weights = {}
    for lesson in catalog.lessons():
        if lesson.ready and (weight := _weight(lesson, cells)):
            weights[lesson.slug] = weight
    return dict(sorted(weights.items(), key=lambda item: -item[1]))


def _weight(lesson, cells):
    shipped, opened = shipped_lesson(lesson.slug), {lesson.slug, lesson.prefix}
    weight = 0
    for cell in cells:
        if any(mark in shipped.stubs for mark in cell.marked):
            weight += 10
        elif cell.marked:
            continue  # another lesson's
        elif cell.id in shipped.exercise_ids or (cell.kind == "code" and opened & set(_OPENED.findall(cell.text))):
            weight += 5
        elif key_of(cell.text) in shipped.keys and not cell.empty:
            weight += 2
        elif cell.kind == "code" and any(stub.names and stub.names <= cell.names for stub in shipped.stubs.values()):
            weight += 2
    return weight


def lesson_mentioned(data):
    """Return the slug of the lesson that a damaged file's bytes speak of most, or ""."""
    heard = [match.decode("ascii", "ignore").replace("_", "-") for match in _MENTIONED.findall(data[:2_000_000])]
    weights = {
        lesson.slug: sum(h.startswith(lesson.prefix) for h in heard) for lesson in catalog.lessons() if lesson.ready
    }
    best = max(weights, key=weights.get, default="")
    return best if weights.get(best) else ""
