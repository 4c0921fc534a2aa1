"""Where the broadcast aligner's marks go; `assets/broadcasting.js` lays them out the same, number for number."""

from itertools import product
from math import prod

from labsupport.figures.broadcast_model import (
    CELLS,
    MOST_DRAWN_AXES,
    chosen_index,
    operand_label,
    own_index,
    result_indices,
    result_label,
)
from labsupport.figures.picture import PAD, cell, cell_width, grid, paragraph, path, text
from labsupport.figures.words import byte_text, number, short_name, tuple_text

__all__ = ["broadcast_scene"]

ROW_H = 46
CELL_H = 36
SIGN_W = 30
BAR_H = 14
BYTES_W = 320  # least room for the bars beside the table


def broadcast_scene(source, state, model, width):
    """Return the scene for a picture `width` pixels wide: aligned shapes, elements, bytes."""
    secret = bool(state.get("predict") and not state.get("revealed"))
    room, marks, chosen = width - 2 * PAD, [], chosen_index(model, state)
    if secret:
        y = _operands(marks, source, model, room, PAD)
        return {"width": width, "height": y + PAD, "marks": marks}
    y, right = _table(marks, model, room, PAD)
    if not model["clashes"]:
        beside = right + 40
        if PAD + room - beside >= BYTES_W:
            y = max(y, _bytes(marks, model, beside, PAD + room - beside, PAD))
        else:
            y = _bytes(marks, model, PAD, room, y + 20)
    if model["drawn"] and model["elements"]:
        y = _elements(marks, source, model, chosen, room, y + 20)
    elif model["clashes"]:
        y = _operands(marks, source, model, room, y + 20)
    return {"width": width, "height": y + PAD, "marks": marks}


def _table(marks, model, room, y):
    """Add a row per operand and one for the result, axes lined up at the right; return the y below and the x behind."""
    y = paragraph(marks, PAD, y + 11, "title", "Shapes, lined up at their last axes", room) - 11
    rows = [
        (f"{short_name(r['name'])} {tuple_text(r['shape'])}", [_axis_cell(a) for a in r["axes"]]) for r in model["rows"]
    ]
    rows.append(("result", [("✗" if n is None else number(n), "") for n in model["axes"]]))
    notes = [note for _, cells in rows for _, note in cells]
    col = cell_width([label for _, cells in rows for label, _ in cells], notes, 76) + 4
    head = max(len(name) for name, _ in rows) * 8 + 12
    stacked = head + col * model["ndim"] > room  # too narrow: names go above their row
    left = PAD if stacked else PAD + head
    col = max(44, min(col, (room - left + PAD) // max(1, model["ndim"])))
    y += 20
    for k in range(model["ndim"]):
        marks.append(text(left + k * col + (col - 4) // 2, y + 12, "small", f"axis {k}"))
    y += 18
    for n, (name, cells) in enumerate(rows):
        last = n == len(rows) - 1
        if last:
            marks.append(path("line", f"M{left} {y + 2}h{max(1, model['ndim']) * col - 4}"))
            y += 8
        marks.append(text(PAD, y + (14 if stacked else 25), "words", name))
        y += 20 if stacked else 0
        for k, (label, note) in enumerate(cells):
            lines = [label if len(label) * 8 + 4 <= col else label[max(0, label.find("→")) :], note]
            role = _result_role(model, k) if last else _axis_role(model["rows"][n]["axes"][k])
            marks.append(cell(f"t{n}:{k}", left + k * col, y, col - 4, ROW_H - 6, role, lines))
        y += ROW_H
    return y, max(left + model["ndim"] * col, PAD + 260)


def _axis_cell(axis):
    stride = f"stride {number(axis['stride'])}"
    if axis["how"] == "added":
        return ("new, 1", stride)
    if axis["how"] == "new":
        return (f"new → {'?' if axis['out'] is None else number(axis['out'])}", stride)
    if axis["how"] == "stretched":
        return (f"{number(axis['size'])} → {number(axis['out'])}", stride)
    return ("✗ " * (axis["how"] == "clash") + number(axis["size"]), stride)


def _axis_role(axis):
    return "trouble!" if axis["how"] == "clash" else "touched" if axis["how"] in ("own", "added") else "waiting~"


def _result_role(model, axis):
    return "trouble!" if axis in model["clashes"] else "computing"


def _elements(marks, source, model, chosen, room, y):
    """Add every operand as it is read, stretched to the result, and the result; return the y below."""
    y = paragraph(marks, PAD, y + 11, "title", "Elements: dashed ones are read again, not stored", room) - 11
    indices = result_indices(model)
    panels = []
    for k, r in enumerate(model["rows"]):
        labels = [operand_label(source, model, k, own_index(r, i)) for i in indices]
        roles = [_element_role(r, i, chosen) for i in indices]
        panels.append((f"{short_name(r['name'])} {tuple_text(r['shape'])}", f"o{k}:", labels, roles))
    roles = ["wanted!" if i == chosen else "computing" for i in indices]
    labels = [result_label(source, model, i) for i in indices]
    panels.append((f"result {tuple_text(model['result'])}", "r", labels, roles))
    cw = cell_width([label for panel in panels for label in panel[2]], [], 40)
    wide = [max(grid(model["result"], 0, 0, room, cw, CELL_H)["w"], len(p[0]) * 7) for p in panels]
    in_a_row = sum(wide) + (len(panels) - 1) * (SIGN_W + 8) <= room
    x, top, bottom = PAD, y + 24, y
    for n, (title, stem, labels, roles) in enumerate(panels):
        sign = SIGN_W if n or not in_a_row else 0
        layout = grid(model["result"], x + sign, top + 18, room - (0 if in_a_row else sign), cw, CELL_H)
        if n:
            middle = top + 18 + layout["h"] // 2 + 14
            marks.append(text(x + sign // 2, middle, "sign", "=" if stem == "r" else "+"))
        marks.append(text(x + sign, top + 11, "words", title))
        marks.extend(layout["heads"])
        for (cx, cy), i, label, role in zip(layout["places"], indices, labels, roles):
            marks.append(cell(stem + ",".join(map(str, i)), cx, cy, cw - 3, CELL_H - 3, role, [label]))
        bottom = top + 18 + layout["h"]
        x, top = (x + sign + wide[n] + 8, top) if in_a_row else (x, bottom + 12)
    return bottom


def _element_role(row, index, chosen):
    own = own_index(row, index)
    stored = own == index[len(index) - len(own) :] and not any(index[: len(index) - len(own)])
    if chosen is not None and own == own_index(row, chosen):
        if stored:
            return "wanted!"
        return "waiting!" if index == chosen else "waiting~"
    return "touched" if stored else "waiting~"


def _operands(marks, source, model, room, y):
    """Add the operands as they are, each small one as a grid; return the y below."""
    y = paragraph(marks, PAD, y + 11, "title", "The operands as they are", room) - 11
    x, top, bottom = PAD, y + 24, y + 24
    for k, r in enumerate(model["rows"]):
        title = f"{short_name(r['name'])} {tuple_text(r['shape'])}"
        drawn = len(r["shape"]) <= MOST_DRAWN_AXES and prod(r["shape"]) * len(model["rows"]) <= CELLS
        indices = [list(i) for i in product(*map(range, r["shape"]))] if drawn else []
        labels = [operand_label(source, model, k, i) for i in indices]
        cw = cell_width(labels, [], 40)
        layout = grid(r["shape"] if drawn else [0], x, top + 18, room, cw, CELL_H)
        if k and x + layout["w"] > PAD + room:
            x, top = PAD, bottom + 12
            layout = grid(r["shape"] if drawn else [0], x, top + 18, room, cw, CELL_H)
        marks.append(text(x, top + 11, "words", title))
        marks.extend(layout["heads"] if drawn else [text(x, top + 32, "note", "too many to draw")])
        for (cx, cy), i, label in zip(layout["places"], indices, labels):
            marks.append(cell(f"o{k}:{','.join(map(str, i))}", cx, cy, cw - 3, CELL_H - 3, "touched", [label]))
        x += max(layout["w"], len(title) * 7) + 36
        bottom = max(bottom, top + 18 + layout["h"])
    return bottom


def _bytes(marks, model, x, room, y):
    """Add a bar per operand: bytes held, filled, inside the bytes it stands for, dashed; return the y below."""
    y = paragraph(marks, x, y + 11, "title", "Bytes: filled is held, dashed is what it stands for", room) - 11
    most = max([model["new"], *(max(r["held"], r["implied"]) for r in model["rows"]), 1])
    y += 22
    for r in model["rows"]:
        means = f"stands for {byte_text(r['implied'])}" if r["implied"] != r["held"] else "not stretched"
        words = f"{short_name(r['name'])} holds {byte_text(r['held'])}, {means}"
        y = _bar(marks, x, y, room, words, r["held"] * room // most, r["implied"] * room // most)
    return _bar(
        marks, x, y, room, f"result holds {byte_text(model['new'])}, all new", model["new"] * room // most, 0, "new"
    )


def _bar(marks, x, y, room, words, held, implied, role="held"):
    y = paragraph(marks, x, y + 12, "words", words, room) + 6
    if implied:
        marks.append(path("implied", f"M{x} {y}h{implied}v{BAR_H}h-{implied}z"))
    held = max(2, held)
    marks.append(path(role, f"M{x} {y}h{held}v{BAR_H}h-{held}z"))
    return y + BAR_H + 8
