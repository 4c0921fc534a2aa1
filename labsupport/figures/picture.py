"""Marks and where they go: the vocabulary that Python and the browser share, and Python's SVG of it.

A scene is `{"width", "height", "marks"}`; a mark is a dict with "kind" cell, text or path. Coordinates are whole CSS
pixels. `assets/common.js` has the same `cell`, `text` and `path`, and `grid` as `gridOf`, so that both draw mark for
mark the same.
"""

import re
from html import escape
from itertools import product
from math import ceil

from labsupport.figures.palette import PALETTE

__all__ = ["PAD", "UNDER", "cell", "cell_width", "grid", "paragraph", "path", "svg", "text"]

PAD = 14
HEAD = 28  # room for row numbers
TOP = 18  # room for column numbers
BLOCK_GAP = 20
_WIDE = re.compile("[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\uff00-\uff60\U0001f000-\U0001faff]")

_MONO = "ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace"
# style: (size, anchor, weight, monospace, colour)
TEXT_STYLES = {
    "title": (13, "start", 600, False, "ink"),
    "value": (13, "middle", 400, True, "ink"),
    "small": (11, "middle", 400, True, "quiet"),
    "note": (12, "start", 400, False, "quiet"),
    "words": (13, "start", 400, False, "ink"),
    "sum": (13, "end", 400, True, "ink"),
    "sign": (20, "middle", 400, False, "ink"),
}
# path role: (stroke, fill, width, dash); "walkN" is the stroke of axis N
PATH_STYLES = {
    "line": ("line", "none", 1, ""),
    "tick": ("line", "none", 1, ""),
    "walk0": ("ink", "none", 2, ""),
    "walk1": ("ink", "none", 2, "6 4"),
    "walk2": ("ink", "none", 2, "2 3"),
    "walk3": ("ink", "none", 2, "9 3 2 3"),
    "head": ("none", "ink", 0, ""),
    "band": ("none", "focus", 0, ""),
    "held": ("touched-edge", "touched", 1, ""),
    "new": ("computing-edge", "computing", 1, ""),
    "implied": ("line", "none", 1, "3 3"),
    "send": ("communicating-edge", "none", 2, ""),
    "wait": ("trouble-edge", "none", 2, "4 4"),
    "rule": ("line", "none", 1, "2 4"),
    "now": ("focus", "none", 2, ""),
    "edge": ("line", "none", 1, ""),
    "box": ("line", "ground", 1, ""),
    "queue": ("ink", "none", 1, ""),
    "bar-start": ("idle-edge", "none", 4, ""),
    "bar-fetch": ("touched-edge", "none", 11, ""),
    "bar-collate": ("wanted", "none", 5, ""),
    "bar-wait": ("waiting-edge", "none", 8, ""),
    "bar-transfer": ("communicating-edge", "none", 9, ""),
    "bar-compute": ("computing-edge", "none", 14, ""),
    "grid": ("quiet", "none", 1, ""),
    "shard": ("ink", "none", 2, ""),
    "chunk": ("touched-edge", "touched", 1, ""),
    "chosen": ("wanted-edge", "wanted", 2, ""),
    "waste": ("wasted-edge", "wasted", 1, ""),
    "beyond": ("ink", "none", 2, "3 3"),
}
_SEE_THROUGH = {"chunk": 0.6, "chosen": 0.7}  # fills that lie over an image
UNDER = frozenset({"send", "wait", "rule", "edge", "box"})  # drawn below the cells, so that no line crosses a label


def cell(name, x, y, w, h, role, lines):
    """Return a box with one or two lines of text. `role` may end in "~" (dashed edge) or "!" (thick edge)."""
    return {"kind": "cell", "name": name, "x": x, "y": y, "w": w, "h": h, "role": role, "lines": lines}


def text(x, y, style, words):
    """Return a line of text; `style` is a key of TEXT_STYLES."""
    return {"kind": "text", "x": x, "y": y, "style": style, "text": words}


def paragraph(marks, x, y, style, words, room, line=18):
    """Add `words` as lines no wider than `room` (7.6 px a letter is generous at 13 px); return the last line's y."""
    lines, most = [""], max(8, room * 10 // 76)
    for word in (w[k : k + most] for w in words.split(" ") for k in range(0, max(1, len(w)), most)):
        if lines[-1] and len(lines[-1]) + 1 + len(word) > most:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    marks.extend(text(x, y + k * line, style, t) for k, t in enumerate(lines))
    return y + (len(lines) - 1) * line


def path(role, d):
    """Return a stroke; `role` is a key of PATH_STYLES."""
    return {"kind": "path", "role": role, "d": d}


def cell_width(labels, notes, least=44):
    """Return how wide a cell must be for its longest label (13 px) and note (11 px) in a monospaced face."""
    longest, note = (max(map(_columns, texts), default=0) for texts in (labels, notes))
    return max(least, longest * 8 + 14, note * 7 + 10)


def _columns(words):
    """Return how many letters' room a text takes: Chinese, Japanese and Korean letters and emoji take two."""
    return len(words) + len(_WIDE.findall(words))


def grid(shape, x0, y0, room, cw, ch):
    """Return where the elements of `shape` go: places (row-major), heads (text marks), and the size w, h.

    The last two axes make a block, wrapped into bands when it is wider than `room`; the others set blocks side by side.
    """
    lead, cols = shape[:-2], shape[-1] if shape else 1
    rows = shape[-2] if len(shape) >= 2 else 1
    if 0 in shape:
        return {"places": [], "heads": [text(x0, y0 + 14, "note", "no elements")], "w": 120, "h": 24}
    head = HEAD if len(shape) >= 2 else 0
    per = max(1, min(cols, (room - head) // cw))
    bands = ceil(cols / per)
    per = ceil(cols / bands)
    band_h = TOP + rows * ch
    title_h = TOP if lead else 0
    block_w, block_h = head + per * cw, title_h + bands * band_h + (bands - 1) * 6
    whole_row = len(lead) == 2 and lead[1] * (block_w + BLOCK_GAP) - BLOCK_GAP <= room
    places, heads, x, y, right = [], [], x0, y0, x0
    for number, index in enumerate(product(*map(range, lead))):
        new_row = whole_row and number and index[1] == 0
        if new_row or x + block_w > x0 + max(room, block_w):
            x, y = x0, y + block_h + 10
        if lead:
            heads.append(text(x, y + 12, "note", f"[{', '.join(map(str, index))}, :, :]"))
        _block(places, heads, x, y + title_h, (rows, cols, per, band_h), (head, cw, ch), bool(shape))
        right = max(right, x + block_w)
        x += block_w + BLOCK_GAP
    return {"places": places, "heads": heads, "w": right - x0, "h": y + block_h - y0}


def _block(places, heads, x, y, counts, sizes, numbered):
    rows, cols, per, band_h = counts
    head, cw, ch = sizes
    for c in range(cols if numbered else 0):
        top = y + (c // per) * (band_h + 6)
        heads.append(text(x + head + (c % per) * cw + cw // 2 - 1, top + 13, "small", str(c)))
    for r in range(rows):
        for band in range(ceil(cols / per) if head else 0):
            top = y + band * (band_h + 6) + TOP + r * ch
            heads.append(text(x + 13, top + ch // 2 + 3, "small", str(r)))
        for c in range(cols):
            top = y + (c // per) * (band_h + 6) + TOP + r * ch
            places.append((x + head + (c % per) * cw, top))


def svg(scene, theme="light"):
    """Return a scene as a self-contained SVG with an opaque ground and text of fixed size."""
    colours = PALETTE[theme]
    width, height = scene["width"], scene["height"]
    under = [m for m in scene["marks"] if m["kind"] == "path" and m["role"] in UNDER]
    over = [m for m in scene["marks"] if m["kind"] != "path" or m["role"] not in UNDER]
    body = [*_strokes(under, colours), *_boxes(over, colours), *_strokes(over, colours), *_texts(over, colours)]
    body = [*_images(scene["marks"]), *body]
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}' viewBox='0 0 {width} {height}'>"
        f"<rect width='{width}' height='{height}' fill='{colours['ground']}'/>{''.join(body)}</svg>"
    )


def _images(marks):
    """Yield the pictures that lie, faint, under everything; their address holds the data."""
    for m in (m for m in marks if m["kind"] == "image"):
        yield (
            f"<image x='{m['x']}' y='{m['y']}' width='{m['w']}' height='{m['h']}' href='{m['href']}' opacity='0.55' "
            "preserveAspectRatio='none' style='image-rendering:pixelated'/>"
        )


def _boxes(marks, colours):
    """Return one path per role: many boxes of one kind share their colours, and the file stays small."""
    shapes = {}
    for mark in marks:
        if mark["kind"] == "cell":
            x, y, w, h = (mark[key] for key in "xywh")
            shapes.setdefault(mark["role"], []).append(f"M{x + 0.5} {y + 0.5}h{w}v{h}h-{w}z")
    for role, parts in sorted(shapes.items(), key=lambda item: item[0].endswith("!")):  # thick edges on top
        fill, edge, _ = colours["roles"][role.rstrip("~!")]
        width = 3 if role.endswith("!") else 1
        dash = " stroke-dasharray='4 3'" if role.endswith("~") else ""
        yield f"<path d='{''.join(parts)}' fill='{fill}' stroke='{edge}' stroke-width='{width}'{dash}/>"


def _strokes(marks, colours):
    for mark in marks:
        if mark["kind"] == "path":
            stroke, fill, width, dash = PATH_STYLES[mark["role"]]
            dashed = f" stroke-dasharray='{dash}'" if dash else ""
            dashed += f" fill-opacity='{_SEE_THROUGH[mark['role']]}'" if mark["role"] in _SEE_THROUGH else ""
            yield (
                f"<path d='{mark['d']}' stroke='{_paint(stroke, colours)}' fill='{_paint(fill, colours)}' "
                f"stroke-width='{width}'{dashed}/>"
            )


def _paint(name, colours):
    if name == "none":
        return name
    role, _, edge = name.partition("-")
    return colours["roles"][role][1 if edge else 0] if role in colours["roles"] else colours[role]


def _texts(marks, colours):
    groups = {}
    for mark in marks:
        if mark["kind"] == "text":
            colour = colours[TEXT_STYLES[mark["style"]][4]]
            groups.setdefault((mark["style"], colour), []).append((mark["x"], mark["y"], mark["text"]))
        elif mark["kind"] == "cell":
            colour = colours["roles"][mark["role"].rstrip("~!")][2]
            for style, (x, y, words) in zip(("value", "small"), cell_lines(mark)):
                groups.setdefault((style, colour), []).append((x, y, words))
    for (style, colour), lines in groups.items():
        size, anchor, weight, mono, _ = TEXT_STYLES[style]
        family = _MONO if mono else "system-ui,sans-serif"
        words = "".join(_lines([line for line in lines if line[2]]))
        yield (
            f"<g font-family=\"{family}\" font-size='{size}' font-weight='{weight}' text-anchor='{anchor}' "
            f"fill='{colour}'>{words}</g>"
        )


def _lines(lines):
    """Return text elements; those of one height share it in a group, which makes a full picture a third smaller."""
    rows = {}
    for x, y, words in lines:
        rows.setdefault(y, []).append((x, escape(words)))
    for y, row in rows.items():
        if len(row) < 4:
            yield "".join(f"<text x='{x}' y='{y}'>{words}</text>" for x, words in row)
        else:
            words = "".join(f"<text x='{x}'>{words}</text>" for x, words in row)
            yield f"<g transform='translate(0,{y})'>{words}</g>"


def cell_lines(mark):
    """Return (x, y, text) for each line of a cell: one line centred, or a value over a note."""
    middle = mark["x"] + mark["w"] // 2
    if len(mark["lines"]) == 1 or not mark["lines"][1]:
        return [(middle, mark["y"] + mark["h"] // 2 + 5, mark["lines"][0])]
    return [(middle, mark["y"] + 17, mark["lines"][0]), (middle, mark["y"] + 32, mark["lines"][1])]
