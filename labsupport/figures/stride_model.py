"""What a view reads: pure numbers, no drawing. `assets/strides.js` computes the same in the browser.

`source` says what memory holds: itemsize, size (bytes in the buffer), pitch and phase (where its items start), labels,
and `own`, the layout of the array that was given. `state` is what the learner may change: shape, strides, offset.
All addresses are bytes counted from the start of the buffer.
"""

from collections import Counter
from itertools import pairwise, product
from math import prod

from labsupport.figures.words import brackets, count, number, shape_text, tuple_text

__all__ = [
    "LIMIT",
    "extent",
    "first_words",
    "stride_code",
    "stride_model",
    "stride_reason",
    "stride_words",
    "trim",
    "view_name",
]

LIMIT = 200  # elements drawn at most
TRIMMED = 64  # elements drawn of a view that has more: the first along every axis, and the figure says so
_ENTRIES = 260  # slots and gaps in the memory bar, above which the view is trimmed as well
_NEIGHBOURS = 2  # unread slots kept around what is read, in a buffer too long to draw
_SMALL_GAP = 8  # unread slots between two that are read, up to which all are drawn


def trim(shape, most=LIMIT):
    """Return `shape`, or, above `most` elements, `shape` with its longest axes cut until TRIMMED are left."""
    if prod(shape) <= most:
        return list(shape)
    shape = [min(n, TRIMMED) for n in shape]
    while prod(shape) > TRIMMED:
        longest = shape.index(max(shape))
        shape[longest] -= 1
    return shape


def extent(shape, strides, offset, itemsize):
    """Return the first byte read and the byte behind the last one; (offset, offset) when there is no element."""
    if prod(shape) == 0:
        return offset, offset
    ends = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    return offset + sum(min(e, 0) for e in ends), offset + sum(max(e, 0) for e in ends) + itemsize


def _address(index, strides, offset):
    return offset + sum(i * s for i, s in zip(index, strides, strict=True))


def _contiguous(shape, strides, itemsize):
    """Return whether the last axis is densest and nothing is skipped (NumPy's C order rule)."""
    if 0 in shape:
        return True
    expected = itemsize
    for n, s in zip(reversed(shape), reversed(strides), strict=True):
        if n != 1 and s != expected:
            return False
        expected *= n
    return True


def _labels(source):
    return {first + k: text for first, texts in source["runs"] for k, text in enumerate(texts)}


def _cell(source, labels, index, at):
    """Return what is known of one element: its address, its text, whether it is outside, mixed or beyond the array."""
    end, own = at + source["itemsize"], source["own"]
    low, high = extent(own["shape"], own["strides"], own["offset"], source["itemsize"])
    slot, rest = divmod(at - source["phase"], source["pitch"])
    cell = {"index": list(index), "at": at, "label": labels.get(slot, "·"), "out": "", "by": 0, "mixed": False}
    cell["beyond"] = at < low or end > high
    if at < 0:
        cell.update(out="before", by=-at, label="✗")
    elif end > source["size"]:
        cell.update(out="past", by=end - source["size"], label="✗")
    elif rest:
        cell.update(mixed=True, label="mixed")
    return cell


def _slots(source, cells):
    """Return the numbers of the slots drawn inside the buffer, ascending."""
    total = max(0, (source["size"] - source["phase"] - source["itemsize"]) // source["pitch"] + 1)
    if total <= LIMIT:
        return list(range(total))
    near = set()
    for cell in cells:
        if not cell["out"]:
            slot, rest = divmod(cell["at"] - source["phase"], source["pitch"])
            near.update((slot, slot + 1) if rest else (slot,))
    if near:
        low, high = min(near), max(near)
        for slot, following in pairwise(sorted(near)):
            if following - slot - 1 <= _SMALL_GAP and len(near) < LIMIT:
                near.update(range(slot + 1, following))
        near.update(range(low - _NEIGHBOURS, low))
        near.update(range(high + 1, high + 1 + _NEIGHBOURS))
    return [slot for slot in sorted(near or {0}) if 0 <= slot < total]


def _entries(source, cells, labels, readers):
    """Return what the memory bar shows, in address order: slots, gaps between them, and addresses outside."""
    parts, entries = set(), []
    for cell in cells:
        if cell["mixed"]:
            slot = (cell["at"] - source["phase"]) // source["pitch"]
            parts.update((slot, slot + 1))
    for at in sorted({c["at"] for c in cells if c["out"]}):
        entries.append({"at": at, "label": "✗", "readers": readers[at], "part": False, "out": True})
    for slot in _slots(source, cells):
        at = source["phase"] + slot * source["pitch"]
        entries.append({"at": at, "label": labels.get(slot, "·"), "readers": readers[at],
                        "part": slot in parts, "out": False})  # fmt: skip
    entries.sort(key=lambda entry: entry["at"])
    return _with_gaps(source, entries)


def _with_gaps(source, entries):
    with_gaps, edge = [], min(0, entries[0]["at"]) if entries else 0
    last = max(source["size"], entries[-1]["at"]) if entries else source["size"]
    for entry in [*entries, None]:
        at = last if entry is None else entry["at"]
        if at - edge >= source["pitch"]:
            with_gaps.append({"at": edge, "gap": at - edge})
        if entry is not None:
            with_gaps.append(entry)
            edge = max(edge, at + source["pitch"])
    return with_gaps


def _bytes_read(source, cells):
    """Return how many different bytes of the buffer the drawn elements read."""
    total, edge = 0, 0
    for at in sorted({c["at"] for c in cells if not c["out"]}):
        total += max(0, at + source["itemsize"] - max(at, edge))
        edge = max(edge, at + source["itemsize"])
    return total


def _read(source, labels, drawn, state):
    """Return the cells of the drawn part, the memory entries, and how many cells read each address."""
    addresses = ((i, _address(i, state["strides"], state["offset"])) for i in product(*map(range, drawn)))
    cells = [_cell(source, labels, index, at) for index, at in addresses]
    readers = Counter(c["at"] for c in cells)
    for cell in cells:
        cell["readers"] = readers[cell["at"]]
    return cells, _entries(source, cells, labels, readers), readers


def stride_model(source, state):
    """Return everything the picture shows: cells in row-major order, memory entries, counts, contiguity."""
    shape, strides, offset = state["shape"], state["strides"], state["offset"]
    drawn, labels = trim(shape), _labels(source)
    cells, entries, readers = _read(source, labels, drawn, state)
    if len(entries) > _ENTRIES:
        drawn = trim(shape, TRIMMED)
        cells, entries, readers = _read(source, labels, drawn, state)
    low, high = extent(shape, strides, offset, source["itemsize"])
    return {
        "shape": list(shape), "strides": list(strides), "offset": offset, "drawn": drawn, "elements": prod(shape),
        "cells": cells, "entries": entries, "distinct": len(readers),
        "shared": sum(c["readers"] > 1 for c in cells), "out": sum(bool(c["out"]) for c in cells),
        "beyond": sum(c["beyond"] and not c["out"] for c in cells), "mixed": sum(c["mixed"] for c in cells),
        "before": max(0, -low) if cells else 0, "past": max(0, high - source["size"]) if cells else 0,
        "bytes_read": _bytes_read(source, cells),
        "c": _contiguous(shape, strides, source["itemsize"]),
        "f": _contiguous(shape[::-1], strides[::-1], source["itemsize"]),
    }  # fmt: skip


def selected(model, state):
    """Return the selected cell: the one at `state["at"]`, else the first; None when there is none."""
    wanted = list(state.get("at") or [])
    return next((c for c in model["cells"] if c["index"] == wanted), model["cells"][0] if model["cells"] else None)


def view_name(source, model):
    """Return what the drawn view is called: the array's own name while its layout is the array's, else "view"."""
    if all(model[part] == source["own"][part] for part in ("shape", "strides", "offset")):
        return source["name"]
    return "view" if source["name"] != "view" else "view2"


def first_words(model):
    """Return which part of the view is drawn, "first 12 rows" or "first 4 × 4 × 4"; "" when all of it is."""
    drawn, shape = model["drawn"], model["shape"]
    if drawn == shape:
        return ""
    if len(drawn) == 2 and drawn[1] == shape[1]:
        return f"first {count(drawn[0], 'row')}"
    if len(drawn) == 2 and drawn[0] == shape[0]:
        return f"first {count(drawn[1], 'column')}"
    return f"first {shape_text(drawn)}"


def _formula(model, index):
    def signed(s):
        return f"({number(s)})" if s < 0 else number(s)

    terms = [f"{number(i)} × {signed(s)}" for i, s in zip(index, model["strides"], strict=True)]
    return " + ".join([number(model["offset"]), *terms])


def _walk_words(source, model, cell):
    name = view_name(source, model) + brackets(cell["index"])
    size = count(source["itemsize"], "byte")
    words = f"{name} reads {size} at address {number(cell['at'])} = {_formula(model, cell['index'])}."
    if cell["out"] == "before":
        return f"{words} That starts {count(cell['by'], 'byte')} before the buffer."
    if cell["out"] == "past":
        past = count(cell["by"], "byte")
        return f"{words} That reads past the end by {past}: the buffer has {number(source['size'])}."
    if cell["mixed"]:
        return f"{words} They straddle two elements, so the value mixes bytes of both."
    others, hold = cell["readers"] - 1, "It holds" if source["itemsize"] == 1 else "They hold"
    if others:
        same = "other element reads" if others == 1 else "other elements read"
        return f"{words} {hold} {cell['label']}; {number(others)} {same} the same address."
    return f"{words} {hold} {cell['label']}."


def _trouble_words(source, model):
    words = []
    if model["past"] or model["before"]:
        sides = [f"{count(model['past'], 'byte')} past the end"] if model["past"] else []
        sides += [f"{count(model['before'], 'byte')} before the start"] if model["before"] else []
        reads = "1 element reads" if model["out"] == 1 else f"{number(model['out'])} elements read"
        reads = reads if model["out"] else "Elements that are not drawn read"
        words.append(f"✗ {reads} outside the buffer, up to {' and '.join(sides)}.")
    if model["mixed"]:
        straddle = "element straddles" if model["mixed"] == 1 else "elements straddle"
        words.append(f"{number(model['mixed'])} {straddle} two items.")
    if model["beyond"]:
        lie = "element lies" if model["beyond"] == 1 else "elements lie"
        words.append(f"{number(model['beyond'])} {lie} outside {source['name']} itself, in the rest of its buffer.")
    if source["kind"] == "torch" and min(model["strides"], default=0) < 0:
        words.append("torch refuses negative strides: flip() copies instead.")
    return words


def _order_words(model):
    if model["elements"] == 0:
        return "No element to read."
    if model["c"] and model["f"]:
        return "C-contiguous and F-contiguous."
    return "C-contiguous." if model["c"] else "F-contiguous." if model["f"] else "Not contiguous."


def stride_words(source, state, model):
    """Return the picture in sentences: `walk` (the selected element), `summary` (the view) and `alt` (both)."""
    cell, name = selected(model, state), view_name(source, model)
    start = "Shape" if name == source["name"] else f"{name} reads the memory of {source['name']}: shape"
    layout = (
        f"{start} {tuple_text(model['shape'])}, strides {tuple_text(number(s) for s in model['strides'])} bytes, "
        f"offset {number(model['offset'])}, {source['dtype']} ({count(source['itemsize'], 'byte')} each)."
    )
    reads = (
        f"{count(len(model['cells']), 'element reads', 'elements read')} "
        f"{count(model['distinct'], 'address', 'addresses')}, "
        f"{number(model['bytes_read'])} of the buffer's {count(source['size'], 'byte')}."
    )
    words = [layout, reads, _order_words(model)]
    if model["shared"]:
        effect = "writing one changes the others" if source["writeable"] else "read-only, so nothing can be written"
        words.append(f"{count(model['shared'], 'element')} share an address with another (marked ×n): {effect}.")
    words += _trouble_words(source, model)
    if model["drawn"] != model["shape"]:
        drawn, whole = shape_text(model["drawn"]), shape_text(model["shape"])
        words.append(f"Only the first {drawn} of {whole} are drawn and counted.")
    if state.get("predict") and not state.get("revealed") and cell:
        walk = f"Which address does {name}{brackets(cell['index'])} read? Type it, then press Check."
    else:
        walk = _walk_words(source, model, cell) if cell else "This shape has no element: a size is 0."
    summary = " ".join(words)
    return {"walk": walk, "summary": summary, "alt": f"Stride explorer. {summary} {walk}"}


def _layout(model, sign):
    return f"shape{sign}{tuple_text(model['shape'])}, strides{sign}{tuple_text(model['strides'])}"


def stride_code(source, state, model):
    """Return NumPy (or torch) code that makes the same view of `source["name"]`."""
    name, own, steps = source["name"], source["own"], state.get("steps")
    layout = _layout(model, " ")
    outside = model["past"] or model["before"]
    view = view_name(source, model)
    made = "" if view == name else f"{view} = "
    if steps is not None:
        return f"{made}{name}{''.join(steps)}  # {layout}"
    if source["kind"] == "torch":
        unit = source["itemsize"]
        in_elements = tuple_text(s // unit for s in model["strides"])
        call = f"{made}torch.as_strided({name}, {tuple_text(model['shape'])}, {in_elements}, {model['offset'] // unit})"
        whole = all(v % unit == 0 for v in [*model["strides"], model["offset"]])
        return call + ("  # strides in elements" if whole else "  # torch counts whole elements: not this layout")
    if model["offset"] == own["offset"]:
        flags = "" if source["writeable"] else ", writeable=False"
        call = f"{made}as_strided({name}, {_layout(model, '=')}{flags})"
        warning = "\n# as_strided checks nothing: this reads memory that is not yours" if outside else ""
        return f"from numpy.lib.stride_tricks import as_strided\n\n{call}{warning}"
    refused = "  # refused: it would read outside the buffer" if outside else ""
    return (
        f"{made}np.ndarray({tuple_text(model['shape'])}, {name}.dtype, buffer={source['owner']},\n"
        f"{' ' * len(made)}           offset={model['offset']}, strides={tuple_text(model['strides'])}){refused}"
    )


def stride_reason(source, model, index, answer):
    """Return what is wrong with a predicted address, in one sentence; "" when it is right."""
    strides, offset, item = model["strides"], model["offset"], source["itemsize"]
    at = _address(index, strides, offset)
    if answer == at:
        return ""
    flat = 0
    for i, n in zip(index, model["shape"], strict=True):
        flat = flat * n + i
    unit = f"in bytes: one element takes {number(item)}."
    beliefs = [
        (at - offset, f"The walk starts at the offset, {number(offset)}, not at 0."),
        (offset + (at - offset) // item, f"That counts elements. Strides are {unit}"),
        (at // item, f"That counts elements. Addresses are {unit}"),
        (_address(index, strides[::-1], offset), "That gives axis 0 the last stride; its stride is the first one."),
        (_address(index, [abs(s) for s in strides], offset), "A negative stride walks backwards: subtract."),
        (_address([i + 1 for i in index], strides, offset), "Indices count from 0: index 1 is one step, not two."),
        (offset + flat * item, "That would be right if the rows lay one after another. Follow this view's strides."),
        (at + item, "That is the byte behind the element. Its address is its first byte."),
        (at + item - 1, "That is the last byte of the element. Its address is its first byte."),
    ]
    for value, reason in beliefs:
        if answer == value:
            return reason
    for cell in model["cells"]:
        if cell["at"] == answer:
            return f"Address {number(answer)} is read by {view_name(source, model)}{brackets(cell['index'])}."
    if answer < 0 or answer >= source["size"]:
        return f"The buffer ends before address {number(source['size'])}; start at the offset and walk axis by axis."
    return "No element of this view starts there. Start at the offset; for each axis add index × stride."
