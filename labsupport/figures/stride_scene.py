"""Where the stride explorer's marks go; `assets/strides.js` lays them out the same, number for number."""

from labsupport.figures.picture import PAD, cell, cell_width, grid, paragraph, path, text
from labsupport.figures.stride_model import first_words, selected, view_name
from labsupport.figures.words import brackets, count, number, short_bytes, short_name, tuple_text

__all__ = ["stride_scene"]

CELL_H = 42
LEDGER_W = 290
LINE = 22
SLOT_H = 40
FOOT = 24  # room for addresses below a row of memory
FINE = 48  # entries up to which bytes are ticked
HOPS = 8  # more steps than this along one axis are drawn as one hop


def stride_scene(source, state, model, width):
    """Return the scene for a picture `width` pixels wide: grid, sum of the address, memory bar."""
    chosen = selected(model, state)
    secret = bool(state.get("predict") and not state.get("revealed"))
    room = width - 2 * PAD
    marks = []
    w, h = _grid(marks, source, model, chosen, secret, room)
    beside = PAD + w + 36
    if beside + LEDGER_W <= width - PAD:
        bottom = max(PAD + h, _ledger(marks, source, model, chosen, secret, beside, PAD, width - PAD - beside))
    else:
        bottom = _ledger(marks, source, model, chosen, secret, PAD, PAD + h + 14, room)
    height = _memory(marks, source, model, chosen, secret, room, bottom + 18)
    return {"width": width, "height": height + PAD, "marks": marks}


def _grid(marks, source, model, chosen, secret, room):
    axes = ("", " · axis 0 →", " · axis 0 ↓, axis 1 →")  # with no-break spaces: an arrow stays with its axis
    hint = axes[len(model["drawn"])] if len(model["drawn"]) < 3 else " · last two axes ↓ →"
    cells = model["cells"]
    title = ", ".join(filter(None, (f"View {tuple_text(model['shape'])}", first_words(model)))) + hint
    y = paragraph(marks, PAD, PAD + 11, "title", title, room) + 9
    cw = cell_width([c["label"] for c in cells], [f"@{number(c['at'])}" for c in cells])
    layout = grid(model["drawn"], PAD, y, room, cw, CELL_H)
    marks.extend(layout["heads"])
    for c, (left, top) in zip(cells, layout["places"]):
        lines = [c["label"], f"@{number(c['at'])}"]
        if secret:
            lines = ["?" if c is chosen else "·", ""]
        marks.append(cell(f"v{','.join(map(str, c['index']))}", left, top, cw - 3, CELL_H - 3,
                          _view_role(c, chosen, secret), lines))  # fmt: skip
    return max(layout["w"], min(len(title) * 7, room)), y - PAD + layout["h"]


def _view_role(c, chosen, secret):
    if c is chosen:
        return "trouble!" if c["out"] and not secret else "wanted!"
    if secret:
        return "idle"
    if c["out"]:
        return "trouble~"
    return "touched!" if chosen and c["at"] == chosen["at"] else "touched"


def _ledger(marks, source, model, chosen, secret, x, y, room):
    """Add the sum that makes the address, one line per axis; return the y below it."""
    if chosen is None:
        return paragraph(marks, x, y + 11, "note", "A size is 0: there is no address to work out.", room) + 9
    title = f"Address of {short_name(view_name(source, model))}{brackets(chosen['index'])}"
    y = paragraph(marks, x, y + 11, "title", title, room) - 11
    rows = [("dot", number(model["offset"]), "offset")]
    for axis, (i, s) in enumerate(zip(chosen["index"], model["strides"])):
        step = i * s
        rows.append(
            (axis, f"{'−' if step < 0 else '+'} {number(abs(step))}", f"axis {axis}: {number(i)} × {number(s)}")
        )
    total = f"= {number(chosen['at'])}"
    col = max(104, max(len(amount) for amount in [total, *(amount for _, amount, _ in rows)]) * 8 + 40)
    y += 30
    for sample, amount, words in rows:
        if sample == "dot":
            marks.append(path("head", _disc(x + 12, y - 4)))
        else:
            marks.append(path(f"walk{min(sample, 3)}", f"M{x} {y - 4}h24"))
        marks.append(text(x + col, y, "sum", "?" if secret else amount))
        y = paragraph(marks, x + col + 12, y, "words", words, room - col - 12) + LINE
    marks.append(path("line", f"M{x + 40} {y - 14}h{col - 38}"))
    marks.append(text(x + col, y + 4, "sum", "= ?" if secret else total))
    words = "" if secret else _reads(source, chosen)
    return paragraph(marks, x + col + 12, y + 4, "words", words, room - col - 12) + 8


def _reads(source, c):
    if c["out"]:
        return f"✗ {'past the end' if c['out'] == 'past' else 'before the start'} by {count(c['by'], 'byte')}"
    if c["mixed"]:
        return "mixes bytes of two items"
    last = c["at"] + source["itemsize"] - 1
    where = f"byte {number(c['at'])} holds" if last == c["at"] else f"bytes {number(c['at'])} to {number(last)} hold"
    return f"{where} {c['label']}"


def _memory(marks, source, model, chosen, secret, room, y):
    """Add the memory bar in rows as wide as the room; return the y below it."""
    entries = model["entries"]
    marks.append(text(PAD, y + 11, "title", f"Memory: {count(source['size'], 'byte')} from address 0"))
    sw = cell_width([e.get("label", "") for e in entries],
                    [short_bytes(e["gap"]) if "gap" in e else number(e["at"]) for e in entries])  # fmt: skip
    most = max(1, room // sw)
    per = most if len(entries) <= most or most < 8 else most - most % 4
    rows, front = -(-len(entries) // per), []
    arcs = 34 if rows <= 3 else 20  # room for the hops above a row
    row_h, top, places = arcs + SLOT_H + FOOT, y + 20, {}
    for k, e in enumerate(entries):
        x, row_y = PAD + (k % per) * sw, top + (k // per) * row_h + arcs
        places[e["at"]] = (x, row_y, k // per)
        if "gap" in e:
            marks.append(text(x + sw // 2, row_y + 24, "value", "⋯"))
            marks.append(text(x + sw // 2, row_y + SLOT_H + 14, "small", short_bytes(e["gap"])))
            continue
        role, lines = _slot_role(e, chosen, secret), [e["label"], _slot_note(e)]
        (front if role.endswith("!") else marks).append(cell(f"m{e['at']}", x, row_y, sw, SLOT_H, role, lines))
        marks.append(text(x + sw // 2, row_y + SLOT_H + 14, "small", number(e["at"])))
        if 1 < source["itemsize"] <= 8 and len(entries) <= FINE and not e["out"]:
            ticks = (f"M{x + b * sw // source['pitch']} {row_y + SLOT_H}v-4" for b in range(1, source["itemsize"]))
            marks.append(path("tick", "".join(ticks)))
    marks.extend(front)
    if chosen is not None and not secret:
        _walk(marks, source, model, chosen, _Spots(source, places, sw, PAD + per * sw, arcs))
    return top + rows * row_h


def _slot_role(e, chosen, secret):
    if chosen is not None and e["at"] == chosen["at"] and not secret:
        return "trouble!" if e["out"] else "wanted!"
    if e["out"]:
        return "trouble~"
    return "touched" if e["readers"] or e["part"] else "idle"


def _slot_note(e):
    return f"×{e['readers']}" if e["readers"] > 1 else "part" if e["part"] and not e["readers"] else ""


class _Spots:
    """Where addresses lie in the bar: centres, left edges, rows."""

    def __init__(self, source, places, sw, right, arcs):
        self.source, self.places, self.sw, self.right, self.arcs = source, places, sw, right, arcs

    def of(self, at):
        """Return (left edge, centre, y, row) of an element, also of one that straddles two slots; None if not drawn."""
        source = self.source
        if at in self.places:
            x, y, row = self.places[at]
            return x, x + self.sw // 2, y, row
        inside = (at - source["phase"]) % source["pitch"]
        if at - inside not in self.places:
            return None
        x, y, row = self.places[at - inside]
        left = x + inside * self.sw // source["pitch"]
        return left, left + self.sw // 2, y, row


def _walk(marks, source, model, chosen, spots):
    """Add the hops from the offset to the chosen element, axis by axis; a band marks bytes that straddle two items."""
    at = model["offset"]
    start = spots.of(at)
    if start:
        marks.append(path("head", _disc(start[1], start[2] - 1)))
    for axis, (i, s) in enumerate(zip(chosen["index"], model["strides"])):
        for step in [s] * i if i <= HOPS else [i * s]:
            here, there = spots.of(at), spots.of(at + step)
            at += step
            if here and there:
                _hop(marks, f"walk{min(axis, 3)}", here, there, spots)
    spot = spots.of(chosen["at"])
    if chosen["mixed"] and spot:
        left, _, y, _ = spot
        wide = min(source["itemsize"] * spots.sw // source["pitch"], spots.right - left)
        marks.append(path("band", f"M{left} {y + SLOT_H - 7}v7h{wide}v-7z"))


def _hop(marks, role, here, there, spots):
    _, x, y, row = here
    _, x2, y2, row2 = there
    most = spots.arcs - 4
    if row == row2 and x == x2:  # stride 0: the step goes nowhere
        marks.append(path(role, f"M{x - 5} {y - 2}C{x - 22} {y - most} {x + 22} {y - most} {x + 5} {y - 6}"))
        marks.append(path("head", _arrow(x + 5, y2 - 1)))
        return
    if row == row2:
        up = min(most, 12 + abs(x2 - x) // 12)
        marks.append(path(role, f"M{x} {y - 2}C{x} {y - 2 - up} {x2} {y2 - 2 - up} {x2} {y2 - 8}"))
    else:
        out, back = (spots.right, PAD) if row2 > row else (PAD, spots.right)
        marks.append(path(role, f"M{x} {y - 2}C{x} {y - 15} {x} {y - 15} {out} {y - 15}"))
        marks.append(path(role, f"M{back} {y2 - 15}C{x2} {y2 - 15} {x2} {y2 - 15} {x2} {y2 - 8}"))
    marks.append(path("head", _arrow(x2, y2 - 1)))


def _arrow(x, y):
    return f"M{x} {y}l-4 -8h8z"


def _disc(x, y):
    return f"M{x - 4} {y}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z"
