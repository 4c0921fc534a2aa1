"""Films: what the player plays. A film is plain data (JSON), made here, played by `assets/player.js` and by Python.

An author gives frames (words, code, and what may be predicted about the next one) and a function that draws each of
them as a list of marks for a width, in the vocabulary of `picture.py`, every mark with a name of its own. `film(...)`
draws every frame for every width and keeps of it only what differs:

    {"kind": "collective", "title": ..., "note": ...,        # the heading; simulated or recorded, where and when
     "summary": ..., "slider": "Step",                       # the sentence below; what the slider is called
     "widths": [300, 520, 760], "heights": [...],            # one layout for each width, in CSS pixels
     "marks": [[kind, name, place, place, ...], ...],        # one place for each layout, None: not in it
     "looks": [[role or style, lines or text], ...],         # every way a mark looks in any frame
     "frames": [{"title", "place", "words", "code", "changes": [mark, look, mark, look, ...], "verdicts"}, ...],
     "poster": 3,                                            # the frame that the still picture shows
     "ask": {"prompt", "fields": [{"label", "options"}], "reasons": [...]} or None,
     "table": {"head": [...], "rows": [[...]], "shown": [frame, ...], "caption": ...} or None}

- A place is [x, y, w, h] of a cell, [x, y] of a text, or the `d` of a path. A mark that moves is two marks: one goes,
  one comes. `changes` are relative to the frame before (to nothing, for the first), and look -1 takes a mark away.
- Marks lie on each other in the order of `marks`: paths of a role in UNDER, cells, other paths, texts.
- `verdicts` has one letter (A-Z, a-z) for each combination of the fields' options, the last field fastest: the number
  of a reason; a number behind a letter repeats it ("AB12"). Reason A is "", the right answer; in the others {0}, {1}...
  stand for the option chosen in that field.
- A film of one frame is a picture: the player leaves out what steps through it.
- `place` is "3 of 6" in the frames that count; the start, the end and the result are no steps, and have none.
- A table's row is hidden until frame `shown[row]` has been seen, while one predicts.
"""

import re
import string
from dataclasses import dataclass
from itertools import groupby, product

from labsupport.figures.picture import UNDER

__all__ = ["MOST_BYTES", "MOST_MARKS", "Ask", "Frame", "Table", "film", "marks_at", "named", "reason_for", "scene_at"]

MOST_MARKS = 2_000  # in one frame; more must be drawn together, and said so
MOST_BYTES = 40_000  # of a whole film as JSON
_LETTERS = string.ascii_uppercase + string.ascii_lowercase
_LAYERS = {"cell": 1, "path": 2, "text": 3}


@dataclass(frozen=True, kw_only=True)
class Frame:
    """One step of a film.

    `verdict` tells what is wrong with a prediction of the next frame ("" when it is right): it is called with one
    option of each field of the film's `Ask`, and its words may hold {0}, {1}... for them. None: nothing is asked here.
    """

    title: str  # in the slider's words: "step 3: reduce-scatter 3 of 3"
    words: str  # what happens in it
    code: str = ""
    verdict: object = None
    counts: bool = True  # whether it is a step; the state before the first and after the last one is not


@dataclass(frozen=True, kw_only=True)
class Ask:
    """What is predicted before each next frame: a prompt, and fields as (label, options)."""

    prompt: str
    fields: tuple


@dataclass(frozen=True, kw_only=True)
class Table:
    """The same numbers as text: a head, rows of texts, and for each row the frame it belongs to (0: always shown)."""

    caption: str
    head: tuple
    rows: tuple
    shown: tuple = ()


def named(name, mark):
    """Return a mark with a name, the same in every frame and for every width."""
    return {**mark, "name": name}


def film(*, kind, title, note, summary, frames, draw, widths, ask=None, table=None, poster=None, slider="Step"):
    """Return a film as plain data.

    Args:
        kind: one word for the sort of figure.
        title, note, summary: see the module; all plain text.
        frames: `Frame`s, at least one.
        draw: called as draw(number of the frame, width); returns (marks, height). Every mark has its own name.
        widths: CSS pixels, in rising order; the player takes the widest that fits.
        ask: an `Ask`, when something can be predicted.
        table: a `Table`.
        poster: the frame for the still picture, the last one when None.
        slider: what the slider is called.

    Raises:
        ValueError: a name is given twice in a frame, or a frame has more than 2,000 marks.
    """
    pictures = [[draw(k, width) for width in widths] for k in range(len(frames))]
    marks, looks, changes = _packed([[marks for marks, _ in picture] for picture in pictures], len(widths))
    reasons = [""]
    return {
        "kind": kind, "title": title, "note": note, "summary": summary, "slider": slider,
        "widths": list(widths), "heights": [max(p[n][1] for p in pictures) for n in range(len(widths))],
        "marks": marks, "looks": looks,
        "frames": [{"title": f.title, "place": p, "words": f.words, "code": f.code, "changes": c,
                    "verdicts": _verdicts(f, ask, reasons)} for f, p, c in zip(frames, _places(frames), changes)],
        "poster": len(frames) - 1 if poster is None else poster,
        "ask": ask and {"prompt": ask.prompt, "reasons": reasons,
                        "fields": [{"label": label, "options": list(options)} for label, options in ask.fields]},
        "table": table and {"caption": table.caption, "head": list(table.head), "rows": [list(r) for r in table.rows],
                            "shown": list(table.shown) or [0] * len(table.rows)},
    }  # fmt: skip


def marks_at(played, step, layout):
    """Return the marks of frame `step` for the layout of that number, as dicts."""
    looks = {}
    for frame in played["frames"][: step + 1]:
        changes = frame["changes"]
        for mark, look in zip(changes[::2], changes[1::2]):
            looks[mark] = look
    marks = []
    for k, (kind, name, *places) in enumerate(played["marks"]):
        if looks.get(k, -1) >= 0 and places[layout] is not None:
            marks.append(_mark(kind, name, places[layout], played["looks"][looks[k]]))
    return marks


def scene_at(played, step, width):
    """Return the scene of frame `step` for a room `width` wide: the widest layout that fits, or the narrowest."""
    fitting = [n for n, w in enumerate(played["widths"]) if w <= width]
    layout = fitting[-1] if fitting else 0
    return {
        "width": played["widths"][layout],
        "height": played["heights"][layout],
        "marks": marks_at(played, step, layout),
    }


def reason_for(played, step, answer):
    """Return what is wrong with a prediction of the frame after `step`, "" when it is right, None when none is asked.

    Args:
        answer: the number of an option for each field.
    """
    verdicts, ask = played["frames"][step]["verdicts"], played["ask"]
    if not verdicts:
        return None
    place = 0
    for field, option in zip(ask["fields"], answer, strict=True):
        place = place * len(field["options"]) + option
    letters = "".join(letter * int(times or 1) for letter, times in re.findall(r"([A-Za-z])(\d*)", verdicts))
    words = ask["reasons"][_LETTERS.index(letters[place])]
    for n, (field, option) in enumerate(zip(ask["fields"], answer)):
        words = words.replace(f"{{{n}}}", field["options"][option])
    return words


def _mark(kind, name, place, look):
    if kind == "cell":
        x, y, w, h = place
        return {"kind": kind, "name": name, "x": x, "y": y, "w": w, "h": h, "role": look[0], "lines": look[1]}
    if kind == "text":
        return {"kind": kind, "name": name, "x": place[0], "y": place[1], "style": look[0], "text": look[1]}
    return {"kind": kind, "name": name, "d": place, "role": look[0]}


def _places(frames):
    """Return for each frame where it stands among those that count: "3 of 6", "" for the others."""
    steps = [k for k, frame in enumerate(frames) if frame.counts]
    return [f"{steps.index(k) + 1} of {len(steps)}" if frame.counts else "" for k, frame in enumerate(frames)]


def _place_and_look(mark):
    """Return where a mark is and how it looks, both hashable; a tuple becomes a list of the film."""
    if mark["kind"] == "cell":
        return (mark["x"], mark["y"], mark["w"], mark["h"]), (mark["role"], tuple(mark["lines"]))
    if mark["kind"] == "text":
        return (mark["x"], mark["y"]), (mark["style"], mark["text"])
    return mark["d"], (mark["role"],)


def _packed(pictures, layouts):
    """Return (marks, looks, changes for each frame) of pictures[frame][layout], each a list of marks."""
    entries, looks, frames = {}, {}, []
    for picture in pictures:
        shown = {}
        for entry, layer, look in _entries(picture, layouts):
            entries.setdefault(entry, layer)
            shown[entry] = looks.setdefault(look, len(looks))
        frames.append(shown)
    order = sorted(entries, key=entries.get)  # a stable sort: within a layer, as they came
    number = {entry: n for n, entry in enumerate(order)}
    before, changes = {}, []
    for shown in frames:
        gone = [n for e in before if e not in shown for n in (number[e], -1)]
        changes.append(gone + [n for e, look in shown.items() if before.get(e) != look for n in (number[e], look)])
        before = shown
    return _as_lists(order), _as_lists(looks), changes


def _entries(picture, layouts):
    """Yield (entry, layer, look) for one frame; marks of one name that look the same share an entry."""
    found = {}
    for n, marks in enumerate(picture):
        names = {mark["name"] for mark in marks}
        if len(names) < len(marks):
            raise ValueError(f"a name is given twice among {sorted(m['name'] for m in marks)}")
        if len(marks) > MOST_MARKS:
            raise ValueError(f"{len(marks)} marks in a frame; at most {MOST_MARKS} are drawn")
        for mark in marks:
            place, look = _place_and_look(mark)
            kind = mark["kind"]
            layer = 0 if kind == "path" and mark["role"] in UNDER else _LAYERS[kind]
            places = found.setdefault((kind, mark["name"], look), (layer, [None] * layouts))[1]
            places[n] = place
    for (kind, name, look), (layer, places) in found.items():
        yield (kind, name, *places), layer, look


def _as_lists(values):
    return [_as_lists(value) if isinstance(value, tuple) else value for value in values]


def _verdicts(frame, ask, reasons):
    """Return one letter for each possible prediction, repeats as numbers; add to `reasons` what is said first here."""
    if ask is None or frame.verdict is None:
        return ""
    letters = []
    for answer in product(*(range(len(options)) for _, options in ask.fields)):
        words = frame.verdict(*answer)
        if words not in reasons:
            reasons.append(words)
        letters.append(_LETTERS[reasons.index(words)])
    runs = ((letter, len(list(same))) for letter, same in groupby(letters))
    return "".join(letter if n == 1 else f"{letter}{n}" for letter, n in runs)
