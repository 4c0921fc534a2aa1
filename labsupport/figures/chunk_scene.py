"""Where the chunk map's marks go; `assets/chunks.js` lays them out the same, number for number."""

from math import floor

from labsupport.figures.chunk_model import hits
from labsupport.figures.chunk_words import NAMES, is_secret, layout_name, times
from labsupport.figures.picture import PAD, paragraph, path, text
from labsupport.figures.words import byte_text, number, shape_text

__all__ = ["chunk_scene"]

SIDE = 44  # room for row numbers
GAP = 26
LEAST_PX = 5  # a box drawn smaller than this is no box
BOXES = 1000  # in one map: two of them are within what a page redraws at once
STRIP_BOXES = 200
SLIVERS = 20  # pieces of a stepped selection drawn one by one, along each axis
STRIP_H = 18
BAR_H = 14
TALL = 340


def chunk_scene(source, state, model, width):
    """Return the scene for a picture `width` pixels wide: a map for each layout, a strip for each other axis, bars."""
    room, marks = width - 2 * PAD, []
    layouts = state["layouts"][: len(model["layouts"])]
    beside = len(layouts) == 2 and room >= 560
    wide = (room - GAP) // 2 if beside else room
    spans = _spans(source["shape"], layouts)
    maps, x, bottom = [], PAD, PAD - 16
    tops = _titles(marks, layouts, wide) if beside else None
    for k, layout in enumerate(layouts):
        if beside:
            x, y = PAD + k * (wide + GAP), tops
        else:
            y = paragraph(marks, x, bottom + 27, "title", _title(k, layout), wide)
        place = _map(marks, source, state, model["box"], layout, spans, x, y, wide)
        maps.append(place["map"])
        bottom = max(bottom, place["bottom"])
    bottom = paragraph(marks, PAD, bottom + 24, "note", _legend(marks), room)
    bottom = _bars(marks, state, model, room, bottom + 10)
    return {"width": width, "height": bottom + PAD, "marks": marks, "maps": maps}


def _legend(marks):
    roles = {mark.get("role") for mark in marks}
    words = ["Full colour: wanted."]
    words += ["Pale with a frame: chunks touched."] if "chunk" in roles else []
    words += ["Dotted line: the end of the array."] if "beyond" in roles else []
    words += ["Thick line: the edge of a shard."] if "shard" in roles else []
    return " ".join(words)


def _title(k, layout):
    return f"{NAMES[k]}: {layout_name(layout)}"


def _titles(marks, layouts, wide):
    """Add two titles side by side and return the y of the lower one's last line."""
    starts = (PAD + k * (wide + GAP) for k in range(len(layouts)))
    return max(
        paragraph(marks, x, PAD + 11, "title", _title(k, o), wide) for k, (x, o) in enumerate(zip(starts, layouts))
    )


def _spans(shape, layouts):
    """Return how many elements the drawing spans along each axis: the array, and the padding of its last chunks."""
    spans = list(shape)
    for layout in layouts:
        if layout["format"] != "contiguous":
            for k, (n, c) in enumerate(zip(shape, layout["chunks"])):
                spans[k] = max(spans[k], min(-(-n // c) * c, n + n // 2 + 1))
    return spans


def _map(marks, source, state, box, layout, spans, x, y, wide):
    """Add one layout's map and strips below a title that ends at `y`; return where the map lies and the y below."""
    shape, plane = source["shape"], state["plane"]
    plain = is_secret(state) or layout["format"] == "contiguous"  # no chunk to be painted
    row, col = (None, plane[0]) if len(plane) == 1 else plane
    left, top, w = x + SIDE, y + 28, wide - SIDE
    h = 40 if row is None else max(40, min(TALL, w, w * spans[row] // spans[col]))
    rows = _ONE_ROW | {"px": h, "end": h} if row is None else _axis(source, layout, spans, box, row, h, BOXES)
    rows, cols = _folded(rows, _axis(source, layout, spans, box, col, w, BOXES))
    _sizes(marks, shape, row, col, x, y + 20, left + cols["end"], top + rows["end"])
    _picture(marks, source, box, plane, left, top, cols["end"], rows["end"])
    _boxes(marks, rows, cols, left, top, plain)
    place = {"x": left, "y": top, "w": w, "h": h, "row": row, "col": col, "spans": spans, "strips": []}
    bottom, strips = top + h, []
    for axis in [k for k in range(len(shape)) if k not in plane]:
        strip = _axis(source, layout, spans, box, axis, w, STRIP_BOXES)
        strips.append(strip)
        bottom += 12
        marks.append(text(x, bottom + 13, "note", f"axis {axis}"))
        _boxes(marks, _ONE_ROW | {"px": STRIP_H, "end": STRIP_H}, strip, left, bottom, plain)
        place["strips"].append({"axis": axis, "x": left, "y": bottom, "w": w, "h": STRIP_H})
        bottom += STRIP_H
    words = _fold_words([cols] if row is None else [rows, cols], strips, plain)
    if words:
        bottom = paragraph(marks, x, bottom + 17, "note", words, wide)
    return {"map": place, "bottom": bottom}


def _sizes(marks, shape, row, col, x, y, right, bottom):
    """Add the names of the axes drawn and their sizes, each at its end; a long one of rows stands behind the name."""
    across, down = number(shape[col]), "" if row is None else number(shape[row])
    beside = len(down) * 7 <= SIDE
    names = f"axis {col} →" if row is None else f"axis {row} ↓{'' if beside else ' ' + down}, axis {col} →"
    marks.append(text(x, y, "note", names))
    marks.append(text(right - max(12, len(across) * 7 // 2), y, "small", across))
    if down and beside:
        marks.append(text(x + SIDE // 2 - 4, bottom - 2, "small", down))


# the other direction of a strip
_ONE_ROW = {"span": 1, "box": [0, 1, 1], "chunk": 1, "grid": 1, "fold": 1, "per": 0}


def _axis(source, layout, spans, box, axis, px, most):
    """Return one axis of a drawing: its chunks, folded until they can be drawn, and where the array ends in pixels."""
    n, span = source["shape"][axis], spans[axis]
    chunk = n if layout["format"] == "contiguous" else layout["chunks"][axis]
    fold, grid = 1, -(-n // chunk)
    per = layout["per"][axis] if layout["format"] == "sharded" else 0
    while fold < grid and (px * chunk * fold < LEAST_PX * span or -(-grid // fold) > most):
        fold = _coarser(fold, per, grid)
    return {"span": span, "box": box[axis], "chunk": chunk, "px": px, "grid": grid, "fold": fold, "per": per,
            "end": n * px // span}  # fmt: skip


def _coarser(fold, per, grid):
    """Return the next number of chunks in a box: a shard where there is one, so that boxes end where shards do."""
    return min(grid, per if fold < per < grid else 2 * fold)


def _folded(rows, cols):
    """Return the axes, folded further where together they make too many boxes."""
    while -(-rows["grid"] // rows["fold"]) * -(-cols["grid"] // cols["fold"]) > BOXES:
        longer = max((rows, cols), key=lambda a: -(-a["grid"] // a["fold"]))
        longer["fold"] = _coarser(longer["fold"], longer["per"], longer["grid"])
    return rows, cols


def _fold_words(axes, strips, plain):
    """Return what a drawn box is, where it is not one chunk, and what is drawn together."""
    fold, long = [axis["fold"] for axis in axes], {strip["fold"] for strip in strips}
    words = [f"Each box stands for {shape_text(fold)} chunks."] if max(fold) > 1 else []
    if max(long, default=1) > 1:
        words.append(f"Each box of a strip stands for {'up to ' * (len(long) > 1)}{number(max(long))} chunks.")
    words += ["What is touched is drawn to scale."] if words and not plain else []
    return " ".join([*words, *["Steps too fine to draw are drawn as one."] * any(map(_is_fine, [*axes, *strips]))])


def _cuts(axis):
    """Return the drawn boxes of an axis as [first px, end px, touched]."""
    size, cuts = axis["chunk"] * axis["fold"], []
    for k in range(-(-axis["grid"] // axis["fold"])):
        edge = min((k + 1) * size, axis["grid"] * axis["chunk"], axis["span"])
        low, high = k * size * axis["px"] // axis["span"], edge * axis["px"] // axis["span"]
        cuts.append([low, high, hits(axis["box"], k * size, (k + 1) * size) > 0])
    return cuts


def _is_fine(axis):
    """Return whether the steps of a selection lie too close along an axis to be drawn one by one."""
    start, stop, step = axis["box"]
    wanted = -(-(stop - start) // step)
    return wanted > 1 and step > 1 and (wanted > SLIVERS or step * axis["px"] < 4 * axis["span"])


def _slivers(axis, unit=1):
    """Return what is wanted along an axis, in whole units of elements, as pieces [first px, end px] of 2 at least."""
    start, stop, step = axis["box"]
    last = start + (-(-(stop - start) // step) - 1) * step
    ends = [(start, last)] if step <= unit or _is_fine(axis) else [(i, i) for i in range(start, stop, step)]
    px, span = axis["px"], axis["span"]
    edges = ((low // unit * unit * px // span, min(span, (high // unit + 1) * unit) * px // span) for low, high in ends)
    return [[low, max(low + 2, high)] for low, high in edges]


def _touched(axis, cuts):
    """Return the touched chunks of an axis as pieces: the boxes, or, where a box is many chunks, drawn to scale."""
    return _slivers(axis, axis["chunk"]) if axis["fold"] > 1 else [cut for cut in cuts if cut[2]]


def _boxes(marks, rows, cols, x, y, plain):
    """Add the chunks of two axes: edges, those touched, the padding behind the array's end, what is wanted."""
    down, across = _cuts(rows), _cuts(cols)
    if not plain:
        touched = [_rect(x, y, a, b) for b in _touched(rows, down) for a in _touched(cols, across)]
        marks.append(path("chunk", "".join(touched)))
    w, h = across[-1][1], down[-1][1]
    lines = [f"M{x + a[1]} {y}v{h}" for a in across[:-1]] + [f"M{x} {y + b[1]}h{w}" for b in down[:-1]]
    marks.append(path("grid", f"M{x} {y}h{w}v{h}h-{w}z{''.join(lines)}"))
    shards = [f"M{x + a} {y}v{h}" for a in _shard_edges(cols)] + [f"M{x} {y + b}h{w}" for b in _shard_edges(rows)]
    if shards:
        marks.append(path("shard", "".join(shards)))
    if w > cols["end"]:
        marks.append(path("beyond", f"M{x + cols['end']} {y}v{h}"))
    if h > rows["end"]:
        marks.append(path("beyond", f"M{x} {y + rows['end']}h{w}"))
    marks.append(path("chosen", "".join(_rect(x, y, a, b) for b in _slivers(rows) for a in _slivers(cols))))


def _shard_edges(axis):
    """Return where shards meet, in pixels; none where they lie too close to be drawn."""
    size = axis["chunk"] * axis["per"]
    if axis["per"] == 0 or axis["px"] * size < LEAST_PX * axis["span"]:
        return []
    last = axis["chunk"] * axis["grid"]
    return [at * axis["px"] // axis["span"] for at in range(size, min(last, axis["span"]), size)]


def _rect(x, y, across, down):
    w, h = across[1] - across[0], down[1] - down[0]
    return f"M{x + across[0]} {y + down[0]}h{w}v{h}h-{w}z"


def _picture(marks, source, box, plane, x, y, w, h):
    """Add the sampled picture of the plane nearest to the selection, under the chunks."""
    images = [image for image in source["images"] if image["plane"] == plane]
    if not images or not w or not h:
        return
    others = [k for k in range(len(source["shape"])) if k not in plane]
    at = box[others[0]][0] if others else 0
    nearest = min(images, key=lambda image: abs(image["at"] - at))
    marks.append({"kind": "image", "x": x, "y": y, "w": w, "h": h, "href": nearest["href"]})


def _bars(marks, state, model, room, y):
    """Add bars of bytes: what is wanted, then what each layout decodes for it."""
    wanted = model["wanted_bytes"]
    if is_secret(state):
        return paragraph(marks, PAD, y + 12, "note", f"Wanted: {byte_text(wanted)}. Decoded: ?", room)
    most = max([wanted, *(cost["read"] for cost in model["layouts"])])
    y = _bar(marks, y, room, f"Wanted: {byte_text(wanted)}", [["chosen", wanted]], most)
    for name, cost in zip(NAMES, model["layouts"]):
        words = f"{name} decodes {byte_text(cost['decoded'])}, {times(cost['decoded'], wanted)} what is wanted"
        index = cost["read"] - cost["decoded"]
        words += f", and reads {byte_text(index)} of index" if index else ""
        useful = min(wanted, cost["read"])
        y = _bar(marks, y, room, words, [["chosen", useful], ["waste", cost["read"] - useful]], most)
    return y - 8


def _bar(marks, y, room, words, parts, most):
    y = paragraph(marks, PAD, y + 12, "words", words, room) + 6
    x = PAD
    for role, amount in parts:
        long = min(max(2, floor(amount / most * room)), PAD + room - x) if amount else 0
        if long:
            marks.append(path(role, f"M{x} {y}h{long}v{BAR_H}h-{long}z"))
        x += long
    return y + BAR_H + 8
