"""How shapes meet: pure numbers, no drawing. `assets/broadcasting.js` computes the same in the browser.

`source["operands"]` says what was given: name, shape, strides, itemsize, labels; `state["shapes"]` what the learner has
made of the shapes. Where a shape was changed, values are made up: 0, 1, 2 for the first operand, tens for the next.
"""

from itertools import product
from math import prod

from labsupport.figures.words import brackets, byte_text, count, join_words, number, tuple_text

__all__ = ["CELLS", "broadcast_code", "broadcast_model", "broadcast_reason", "broadcast_words", "fit", "result_of"]

CELLS = 480  # elements drawn in all, operands and result together
MOST_DRAWN_AXES = 3


def result_of(shapes):
    """Return (result shape, axes that do not fit). The shape holds None on those axes."""
    ndim = max((len(s) for s in shapes), default=0)
    result, clashes = [], []
    for axis in range(ndim):
        sizes = {s[axis - ndim] for s in shapes if len(s) >= ndim - axis} - {1}
        result.append(None if len(sizes) > 1 else sizes.pop() if sizes else 1)
        if result[-1] is None:
            clashes.append(axis)
    return result, clashes


def _c_strides(shape, itemsize):
    strides, step = [], itemsize
    for n in reversed(shape):
        strides.insert(0, step)
        step *= n
    return strides


def _axis(size, stride, out):
    """Return how one operand meets one axis of the result."""
    if size is None:
        return {"size": None, "out": out, "stride": 0, "how": "added" if out == 1 else "new"}  # one step: no stretch
    if out is None:
        return {"size": size, "out": None, "stride": stride, "how": "clash" if size != 1 else "own"}
    if size == out:
        return {"size": size, "out": out, "stride": stride, "how": "own"}
    return {"size": size, "out": out, "stride": 0, "how": "stretched"}


def _row(operand, shape, result, known):
    pad = len(result) - len(shape)
    edited = shape != operand["shape"]
    strides = _c_strides(shape, operand["itemsize"]) if edited else operand["strides"]
    axes = [
        _axis(None if k < pad else shape[k - pad], 0 if k < pad else strides[k - pad], out)
        for k, out in enumerate(result)
    ]
    held = prod(n for n, s in zip(shape, strides) if s != 0 or n == 0) * operand["itemsize"]
    implied = prod(result) * operand["itemsize"] if known else 0
    return {"name": operand["name"], "shape": shape, "axes": axes, "held": held, "implied": implied, "edited": edited}


def broadcast_model(source, state):
    """Return the rows of the table, the result shape (None where it fails), clashes and byte counts."""
    shapes = state["shapes"]
    result, clashes = result_of(shapes)
    known = not clashes
    rows = [_row(o, s, result, known) for o, s in zip(source["operands"], shapes)]
    elements = prod(result) if known else 0
    return {
        "ndim": len(result), "result": result if known else None, "axes": result, "clashes": clashes, "rows": rows,
        "elements": elements, "new": elements * source["result"]["itemsize"],
        "drawn": known and len(result) <= MOST_DRAWN_AXES and elements * (len(rows) + 1) <= CELLS,
        "made_up": any(r["edited"] for r in rows) or not source["real"],
    }  # fmt: skip


def own_index(row, index):
    """Return the index an operand is read at, for an index of the result."""
    pad = len(index) - len(row["shape"])
    return [0 if n == 1 else i for i, n in zip(index[pad:], row["shape"])]


def flat(shape, index):
    """Return the position of `index` in row-major order."""
    position = 0
    for i, n in zip(index, shape):
        position = position * n + i
    return position


def operand_label(source, model, k, index):
    """Return the text of operand `k` at its own `index`."""
    position = flat(model["rows"][k]["shape"], index)
    if model["made_up"]:
        return str(position * 10**k)
    labels = source["operands"][k]["labels"]
    return labels[position] if position < len(labels) else "·"


def result_label(source, model, index):
    """Return the text of the result at `index`: the sum."""
    if model["made_up"]:
        return str(sum(flat(r["shape"], own_index(r, index)) * 10**k for k, r in enumerate(model["rows"])))
    position = flat(model["result"], index)
    labels = source["result"]["labels"]
    return labels[position] if position < len(labels) else "·"


def chosen_index(model, state):
    """Return the selected index of the result, else the first; None when nothing is drawn."""
    if not model["drawn"] or model["elements"] == 0:
        return None
    at = list(state.get("at") or [])
    fits = len(at) == model["ndim"] and all(0 <= i < n for i, n in zip(at, model["result"]))
    return at if fits else [0] * model["ndim"]


def fit(names, shapes):
    """Return one new axis that makes the shapes fit, as (code, its shape, result), or None."""
    best = None
    for k, shape in enumerate(shapes):
        for place in range(1, len(shape) + 1):
            tried = [*shape[:place], 1, *shape[place:]]
            result, clashes = result_of([*shapes[:k], tried, *shapes[k + 1 :]])
            if not clashes and (best is None or len(result) < len(best[2])):
                best = (f"{names[k]}[{':, ' * place}None]", tried, result)
    return best


def _clash_words(source, model, axis):
    sizes = [
        f"{r['name']} has {number(r['axes'][axis]['size'])}"
        for r in model["rows"]
        if r["axes"][axis]["size"] is not None
    ]
    return f"Axis {axis} does not fit: {join_words(sizes)}, and sizes that differ must be 1."


def _total_words(source, model):
    names = " + ".join(r["name"] for r in model["rows"])
    shapes = join_words(f"{r['name']} {tuple_text(r['shape'])}" for r in model["rows"])
    if model["clashes"]:
        words = [f"{shapes} do not broadcast.", *(_clash_words(source, model, axis) for axis in model["clashes"])]
        found = fit([r["name"] for r in model["rows"]], [r["shape"] for r in model["rows"]])
        if found:
            words.append(
                f"{found[0]} has shape {tuple_text(found[1])} and would fit: the result is {tuple_text(found[2])}."
            )
        return words
    words = [f"{shapes} give {names} the shape {tuple_text(model['result'])}."]
    stretched = []
    for r in model["rows"]:
        axes = [str(k) for k, a in enumerate(r["axes"]) if a["how"] in ("stretched", "new")]
        if axes:
            stretched.append(f"{r['name']} along {'axis' if len(axes) == 1 else 'axes'} {join_words(axes)}")
    if stretched:
        words.append(f"Stretched with stride 0, nothing copied: {join_words(stretched)}.")
    held, implied = sum(r["held"] for r in model["rows"]), sum(r["implied"] for r in model["rows"])
    words.append(f"The operands hold {byte_text(held)} and stand for {byte_text(implied)}.")
    words.append(f"The result is new: {byte_text(model['new'])}.")
    return words


def _walk_words(source, model, index):
    if model["clashes"]:
        return _clash_words(source, model, model["clashes"][0])
    if index is None:
        size = "no element" if model["elements"] == 0 else count(model["elements"], "element")
        return f"The result has {size}; shape {tuple_text(model['result'])}."
    names, values = [], []
    for k, r in enumerate(model["rows"]):
        own = own_index(r, index)
        names.append(r["name"] + brackets(own))
        values.append(operand_label(source, model, k, own))
    sums = " + ".join(f"({v})" if v.startswith("-") else v for v in values)
    return f"result{brackets(index)} = {' + '.join(names)} = {sums} = {result_label(source, model, index)}."


def broadcast_words(source, state, model):
    """Return the picture in sentences: `walk` (the selected element), `summary` (shapes and bytes), `alt` (both)."""
    if state.get("predict") and not state.get("revealed"):
        names = " + ".join(r["name"] for r in model["rows"])
        walk = f"Which shape has {names}? Type the sizes, or the word error, then press Check."
        shapes = join_words(f"{r['name']} {tuple_text(r['shape'])}" for r in model["rows"])
        return {"walk": walk, "summary": f"{shapes}.", "alt": f"Broadcast aligner. {shapes}. {walk}"}
    words = _total_words(source, model)
    if model["made_up"] and model["drawn"]:
        words.append("The values are made up.")
    if not model["clashes"] and not model["drawn"]:
        most = CELLS // (len(model["rows"]) + 1)
        words.append(f"Elements are drawn for up to {MOST_DRAWN_AXES} axes and {most} elements.")
    walk, summary = _walk_words(source, model, chosen_index(model, state)), " ".join(words)
    alt = f"Broadcast aligner. {summary}" + ("" if model["clashes"] else f" {walk}")  # a clash is in both
    return {"walk": walk, "summary": summary, "alt": alt}


def broadcast_code(source, state, model):
    """Return NumPy code that says the same."""
    if state.get("predict") and not state.get("revealed"):
        return "# shown after the prediction"
    call = f"np.broadcast_shapes({', '.join(tuple_text(r['shape']) for r in model['rows'])})"
    if model["clashes"]:
        return f"{call}  # raises ValueError"
    lines = [f"{call}  # {tuple_text(model['result'])}"]
    for r in model["rows"]:
        strides = tuple_text(
            0 if a["out"] == 1 else a["stride"] for a in r["axes"]
        )  # NumPy sets 0 where no step is taken
        lines.append(f"np.broadcast_to({r['name']}, {tuple_text(model['result'])}).strides  # {strides}")
    return "\n".join(lines)


def broadcast_reason(source, model, answer):
    """Return what is wrong with a predicted shape (a list, or "error"), in a sentence; "" when it is right."""
    shapes, result = [r["shape"] for r in model["rows"]], model["result"]
    if answer == ("error" if result is None else result):
        return ""
    from_left, left_clashes = result_of([[*s, *[1] * (model["ndim"] - len(s))] for s in shapes])
    if answer == "error":
        return "It works: on every axis, counted from the right, the sizes are equal, or one is 1 or missing."
    if not left_clashes and answer == from_left:
        return "Shapes line up at their last axes, from the right; that lines them up at the first."
    if result is None:
        return _clash_words(source, model, model["clashes"][0])
    if answer == [n for s in shapes for n in s]:
        return "Axes are not appended one after another: they are matched, the last with the last."
    if len(answer) != len(result):
        return f"The result has {count(len(result), 'axis', 'axes')}: as many as the longest shape."
    axis = next(k for k, (n, m) in enumerate(zip(answer, result)) if n != m)
    sizes = [number(r["axes"][axis]["size"]) for r in model["rows"] if r["axes"][axis]["size"] is not None]
    if result[axis] == 0:
        return f"On axis {axis} a size of 0 meets {join_words(sizes)}: 1 stretches to 0, and nothing is left."
    if len(sizes) == 1:
        return f"On axis {axis} only one shape has a size, and it is kept."
    if answer[axis] == 1:
        return f"On axis {axis} the sizes {join_words(sizes)} meet: the 1 stretches, not the other."
    return f"Look at axis {axis} again: the sizes {join_words(sizes)} meet there."


def result_indices(model):
    """Return every index of the result, in row-major order."""
    return [list(i) for i in product(*map(range, model["result"]))]
