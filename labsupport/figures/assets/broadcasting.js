// The broadcast aligner. Up to "the figure" this is broadcast_model.py and broadcast_scene.py in another language.

const CELLS = 480;
const MOST_DRAWN_AXES = 3;

function resultOf(shapes) {
  const ndim = Math.max(0, ...shapes.map((s) => s.length));
  const [result, clashes] = [[], []];
  for (let axis = 0; axis < ndim; axis++) {
    const sizes = new Set(shapes.filter((s) => s.length >= ndim - axis).map((s) => s[s.length - ndim + axis]));
    sizes.delete(1);
    result.push(sizes.size > 1 ? null : sizes.size ? [...sizes][0] : 1);
    if (sizes.size > 1) clashes.push(axis);
  }
  return [result, clashes];
}

const cStrides = (shape, itemsize) => shape.map((_, k) => itemsize * prod(shape.slice(k + 1)));

function axisOf(size, stride, out) {
  if (size === null) return { size: null, out, stride: 0, how: out === 1 ? "added" : "new" };
  if (out === null) return { size, out: null, stride, how: size !== 1 ? "clash" : "own" };
  return size === out ? { size, out, stride, how: "own" } : { size, out, stride: 0, how: "stretched" };
}

function rowOf(operand, shape, result, known) {
  const pad = result.length - shape.length;
  const edited = !same(shape, operand.shape);
  const strides = edited ? cStrides(shape, operand.itemsize) : operand.strides;
  const axes = result.map((out, k) => axisOf(k < pad ? null : shape[k - pad], k < pad ? 0 : strides[k - pad], out));
  const held = prod(shape.filter((_, k) => strides[k] !== 0 || shape[k] === 0)) * operand.itemsize;
  const implied = known ? prod(result) * operand.itemsize : 0;
  return { name: operand.name, shape: [...shape], axes, held, implied, edited };
}

function broadcastModel(source, state) {
  const [axes, clashes] = resultOf(state.shapes);
  const known = !clashes.length;
  const rows = source.operands.map((o, k) => rowOf(o, state.shapes[k], axes, known));
  const elements = known ? prod(axes) : 0;
  return {
    ndim: axes.length, result: known ? axes : null, axes, clashes, rows,
    elements, new: elements * source.result.itemsize,
    drawn: known && axes.length <= MOST_DRAWN_AXES && elements * (rows.length + 1) <= CELLS,
    made_up: rows.some((r) => r.edited) || !source.real,
  };
}

const ownIndex = (row, index) => {
  const pad = index.length - row.shape.length;
  return row.shape.map((n, k) => (n === 1 ? 0 : index[pad + k]));
};
const flat = (shape, index) => index.reduce((position, i, k) => position * shape[k] + i, 0);

function operandLabel(source, model, k, index) {
  const position = flat(model.rows[k].shape, index);
  return model.made_up ? String(position * 10 ** k) : source.operands[k].labels[position] ?? "·";
}

function resultLabel(source, model, index) {
  if (!model.made_up) return source.result.labels[flat(model.result, index)] ?? "·";
  return String(model.rows.reduce((sum, r, k) => sum + flat(r.shape, ownIndex(r, index)) * 10 ** k, 0));
}

function chosenIndex(model, state) {
  if (!model.drawn || model.elements === 0) return null;
  const at = state.at || [];
  const fits = at.length === model.ndim && at.every((i, k) => i >= 0 && i < model.result[k]);
  return fits ? [...at] : Array(model.ndim).fill(0);
}

function fit(names, shapes) {
  let best = null;
  shapes.forEach((shape, k) => {
    for (let place = 1; place <= shape.length; place++) {
      const tried = [...shape.slice(0, place), 1, ...shape.slice(place)];
      const [result, clashes] = resultOf(shapes.map((s, n) => (n === k ? tried : s)));
      if (clashes.length || (best && result.length >= best[2].length)) continue;
      best = [`${names[k]}[${":, ".repeat(place)}None]`, tried, result];
    }
  });
  return best;
}

const sizesOn = (model, axis) => model.rows.filter((r) => r.axes[axis].size !== null);

function clashWords(model, axis) {
  const sizes = joinWords(sizesOn(model, axis).map((r) => `${r.name} has ${number(r.axes[axis].size)}`));
  return `Axis ${axis} does not fit: ${sizes}, and sizes that differ must be 1.`;
}

function totalWords(model) {
  const names = model.rows.map((r) => r.name);
  const shapes = joinWords(model.rows.map((r) => `${r.name} ${tupleText(r.shape)}`));
  if (model.clashes.length) {
    const words = [`${shapes} do not broadcast.`, ...model.clashes.map((axis) => clashWords(model, axis))];
    const found = fit(names, model.rows.map((r) => r.shape));
    if (found) words.push(`${found[0]} has shape ${tupleText(found[1])} and would fit: the result is ${tupleText(found[2])}.`);
    return words;
  }
  const words = [`${shapes} give ${names.join(" + ")} the shape ${tupleText(model.result)}.`];
  const stretched = model.rows.flatMap((r) => {
    const axes = r.axes.flatMap((a, k) => (a.how === "stretched" || a.how === "new" ? [String(k)] : []));
    return axes.length ? [`${r.name} along ${axes.length === 1 ? "axis" : "axes"} ${joinWords(axes)}`] : [];
  });
  if (stretched.length) words.push(`Stretched with stride 0, nothing copied: ${joinWords(stretched)}.`);
  const total = (part) => byteText(model.rows.reduce((sum, r) => sum + r[part], 0));
  words.push(`The operands hold ${total("held")} and stand for ${total("implied")}.`);
  words.push(`The result is new: ${byteText(model.new)}.`);
  return words;
}

function sumWords(source, model, index) {
  if (model.clashes.length) return clashWords(model, model.clashes[0]);
  if (index === null) {
    const size = model.elements === 0 ? "no element" : count(model.elements, "element");
    return `The result has ${size}; shape ${tupleText(model.result)}.`;
  }
  const own = model.rows.map((r) => ownIndex(r, index));
  const names = model.rows.map((r, k) => r.name + brackets(own[k])).join(" + ");
  const values = model.rows.map((_, k) => operandLabel(source, model, k, own[k]));
  const sums = values.map((v) => (v.startsWith("-") ? `(${v})` : v)).join(" + ");
  return `result${brackets(index)} = ${names} = ${sums} = ${resultLabel(source, model, index)}.`;
}

const isSecret = (state) => Boolean(state.predict && !state.revealed);

function broadcastWords(source, state, model) {
  const names = model.rows.map((r) => r.name).join(" + ");
  if (isSecret(state)) {
    const walk = `Which shape has ${names}? Type the sizes, or the word error, then press Check.`;
    const shapes = joinWords(model.rows.map((r) => `${r.name} ${tupleText(r.shape)}`));
    return { walk, summary: `${shapes}.`, alt: `Broadcast aligner. ${shapes}. ${walk}` };
  }
  const words = totalWords(model);
  if (model.made_up && model.drawn) words.push("The values are made up.");
  if (!model.clashes.length && !model.drawn) {
    const most = floorDiv(CELLS, model.rows.length + 1);
    words.push(`Elements are drawn for up to ${MOST_DRAWN_AXES} axes and ${most} elements.`);
  }
  const [walk, summary] = [sumWords(source, model, chosenIndex(model, state)), words.join(" ")];
  const alt = `Broadcast aligner. ${summary}` + (model.clashes.length ? "" : ` ${walk}`);
  return { walk, summary, alt };
}

function broadcastCode(source, state, model) {
  if (isSecret(state)) return "# shown after the prediction";
  const call = `np.broadcast_shapes(${model.rows.map((r) => tupleText(r.shape)).join(", ")})`;
  if (model.clashes.length) return `${call}  # raises ValueError`;
  const result = tupleText(model.result);
  const lines = model.rows.map((r) => (
    `np.broadcast_to(${r.name}, ${result}).strides  # ${tupleText(r.axes.map((a) => (a.out === 1 ? 0 : a.stride)))}`));
  return [`${call}  # ${result}`, ...lines].join("\n");
}

function broadcastReason(source, model, answer) {
  const [shapes, result] = [model.rows.map((r) => r.shape), model.result];
  const is = (shape) => answer !== "error" && same(answer, shape);
  if (result ? is(result) : answer === "error") return "";
  const [fromLeft, leftClashes] = resultOf(shapes.map((s) => [...s, ...Array(model.ndim - s.length).fill(1)]));
  if (answer === "error") {
    return "It works: on every axis, counted from the right, the sizes are equal, or one is 1 or missing.";
  }
  if (!leftClashes.length && is(fromLeft)) {
    return "Shapes line up at their last axes, from the right; that lines them up at the first.";
  }
  if (!result) return clashWords(model, model.clashes[0]);
  if (is(shapes.flat())) return "Axes are not appended one after another: they are matched, the last with the last.";
  if (answer.length !== result.length) {
    return `The result has ${count(result.length, "axis", "axes")}: as many as the longest shape.`;
  }
  const axis = answer.findIndex((n, k) => n !== result[k]);
  const sizes = sizesOn(model, axis).map((r) => number(r.axes[axis].size));
  if (result[axis] === 0) {
    return `On axis ${axis} a size of 0 meets ${joinWords(sizes)}: 1 stretches to 0, and nothing is left.`;
  }
  if (sizes.length === 1) return `On axis ${axis} only one shape has a size, and it is kept.`;
  if (answer[axis] === 1) return `On axis ${axis} the sizes ${joinWords(sizes)} meet: the 1 stretches, not the other.`;
  return `Look at axis ${axis} again: the sizes ${joinWords(sizes)} meet there.`;
}

// ---- the drawing

const ROW_H = 46;
const CELL_H = 36;
const SIGN_W = 30;
const BAR_H = 14;
const BYTES_W = 320;

function broadcastScene(source, state, model, width) {
  const [room, marks, chosen] = [width - 2 * PAD, [], chosenIndex(model, state)];
  if (isSecret(state)) {
    const y = drawOperands(marks, source, model, room, PAD);
    return { width, height: y + PAD, marks };
  }
  let [y, right] = drawTable(marks, model, room, PAD);
  if (!model.clashes.length) {
    const beside = right + 40;
    y = PAD + room - beside >= BYTES_W
      ? Math.max(y, drawBytes(marks, model, beside, PAD + room - beside, PAD))
      : drawBytes(marks, model, PAD, room, y + 20);
  }
  if (model.drawn && model.elements) y = drawElements(marks, source, model, chosen, room, y + 20);
  else if (model.clashes.length) y = drawOperands(marks, source, model, room, y + 20);
  return { width, height: y + PAD, marks };
}

function drawTable(marks, model, room, y) {
  y = paragraph(marks, PAD, y + 11, "title", "Shapes, lined up at their last axes", room) - 11;
  const rows = model.rows.map((r) => [`${shortName(r.name)} ${tupleText(r.shape)}`, r.axes.map(axisCell)]);
  rows.push(["result", model.axes.map((n) => [n === null ? "✗" : number(n), ""])]);
  const cells = rows.flatMap(([, row]) => row);
  let col = cellWidth(cells.map((c) => c[0]), cells.map((c) => c[1]), 76) + 4;
  const head = Math.max(...rows.map(([name]) => name.length)) * 8 + 12;
  const stacked = head + col * model.ndim > room;
  const left = stacked ? PAD : PAD + head;
  col = Math.max(44, Math.min(col, floorDiv(room - left + PAD, Math.max(1, model.ndim))));
  y += 20;
  for (let k = 0; k < model.ndim; k++) {
    marks.push(text(left + k * col + floorDiv(col - 4, 2), y + 12, "small", `axis ${k}`));
  }
  y += 18;
  rows.forEach(([name, row], n) => {
    const last = n === rows.length - 1;
    if (last) {
      marks.push(path("line", `M${left} ${y + 2}h${Math.max(1, model.ndim) * col - 4}`));
      y += 8;
    }
    marks.push(text(PAD, y + (stacked ? 14 : 25), "words", name));
    y += stacked ? 20 : 0;
    row.forEach(([label, note], k) => {
      const lines = [label.length * 8 + 4 <= col ? label : label.slice(Math.max(0, label.indexOf("→"))), note];
      const role = last ? resultRole(model, k) : axisRole(model.rows[n].axes[k]);
      marks.push(cell(`t${n}:${k}`, left + k * col, y, col - 4, ROW_H - 6, role, lines));
    });
    y += ROW_H;
  });
  return [y, Math.max(left + model.ndim * col, PAD + 260)];
}

function axisCell(axis) {
  const stride = `stride ${number(axis.stride)}`;
  if (axis.how === "added") return ["new, 1", stride];
  if (axis.how === "new") return [`new → ${axis.out === null ? "?" : number(axis.out)}`, stride];
  if (axis.how === "stretched") return [`${number(axis.size)} → ${number(axis.out)}`, stride];
  return [(axis.how === "clash" ? "✗ " : "") + number(axis.size), stride];
}

const axisRole = (axis) => ({ own: "touched", added: "touched", stretched: "waiting~", new: "waiting~", clash: "trouble!" })[axis.how];
const resultRole = (model, axis) => (model.clashes.includes(axis) ? "trouble!" : "computing");

function drawElements(marks, source, model, chosen, room, y) {
  y = paragraph(marks, PAD, y + 11, "title", "Elements: dashed ones are read again, not stored", room) - 11;
  const all = indices(model.result);
  const panels = model.rows.map((r, k) => [
    `${shortName(r.name)} ${tupleText(r.shape)}`, `o${k}:`,
    all.map((i) => operandLabel(source, model, k, ownIndex(r, i))), all.map((i) => elementRole(r, i, chosen))]);
  panels.push([`result ${tupleText(model.result)}`, "r", all.map((i) => resultLabel(source, model, i)),
    all.map((i) => (same(i, chosen) ? "wanted!" : "computing"))]);
  const cw = cellWidth(panels.flatMap((p) => p[2]), [], 40);
  const wide = panels.map(([title]) => Math.max(gridOf(model.result, 0, 0, room, cw, CELL_H).w, title.length * 7));
  const inARow = wide.reduce((a, b) => a + b, 0) + (panels.length - 1) * (SIGN_W + 8) <= room;
  let [x, top, bottom] = [PAD, y + 24, y];
  panels.forEach(([title, stem, labels, roles], n) => {
    const sign = n || !inARow ? SIGN_W : 0;
    const layout = gridOf(model.result, x + sign, top + 18, room - (inARow ? 0 : sign), cw, CELL_H);
    if (n) {
      const middle = top + 18 + floorDiv(layout.h, 2) + 14;
      marks.push(text(x + floorDiv(sign, 2), middle, "sign", stem === "r" ? "=" : "+"));
    }
    marks.push(text(x + sign, top + 11, "words", title), ...layout.heads);
    layout.places.forEach(([cx, cy], k) => {
      marks.push(cell(stem + all[k].join(","), cx, cy, cw - 3, CELL_H - 3, roles[k], [labels[k]]));
    });
    bottom = top + 18 + layout.h;
    if (inARow) x += sign + wide[n] + 8;
    else top = bottom + 12;
  });
  return bottom;
}

function elementRole(row, index, chosen) {
  const own = ownIndex(row, index);
  const pad = index.length - own.length;
  const stored = same(own, index.slice(pad)) && index.slice(0, pad).every((i) => i === 0);
  if (chosen !== null && same(own, ownIndex(row, chosen))) {
    return stored ? "wanted!" : same(index, chosen) ? "waiting!" : "waiting~";
  }
  return stored ? "touched" : "waiting~";
}

function drawOperands(marks, source, model, room, y) {
  y = paragraph(marks, PAD, y + 11, "title", "The operands as they are", room) - 11;
  let [x, top, bottom] = [PAD, y + 24, y + 24];
  model.rows.forEach((r, k) => {
    const title = `${shortName(r.name)} ${tupleText(r.shape)}`;
    const drawn = r.shape.length <= MOST_DRAWN_AXES && prod(r.shape) * model.rows.length <= CELLS;
    const all = drawn ? indices(r.shape) : [];
    const labels = all.map((i) => operandLabel(source, model, k, i));
    const cw = cellWidth(labels, [], 40);
    let layout = gridOf(drawn ? r.shape : [0], x, top + 18, room, cw, CELL_H);
    if (k && x + layout.w > PAD + room) {
      [x, top] = [PAD, bottom + 12];
      layout = gridOf(drawn ? r.shape : [0], x, top + 18, room, cw, CELL_H);
    }
    marks.push(text(x, top + 11, "words", title));
    marks.push(...(drawn ? layout.heads : [text(x, top + 32, "note", "too many to draw")]));
    layout.places.forEach(([cx, cy], n) => {
      marks.push(cell(`o${k}:${all[n].join(",")}`, cx, cy, cw - 3, CELL_H - 3, "touched", [labels[n]]));
    });
    x += Math.max(layout.w, title.length * 7) + 36;
    bottom = Math.max(bottom, top + 18 + layout.h);
  });
  return bottom;
}

function drawBytes(marks, model, x, room, y) {
  y = paragraph(marks, x, y + 11, "title", "Bytes: filled is held, dashed is what it stands for", room) - 11;
  const most = Math.max(model.new, 1, ...model.rows.flatMap((r) => [r.held, r.implied]));
  const long = (bytes) => floorDiv(bytes * room, most);
  y += 22;
  for (const r of model.rows) {
    const means = r.implied === r.held ? "not stretched" : `stands for ${byteText(r.implied)}`;
    const words = `${shortName(r.name)} holds ${byteText(r.held)}, ${means}`;
    y = drawBar(marks, x, y, room, words, long(r.held), long(r.implied));
  }
  return drawBar(marks, x, y, room, `result holds ${byteText(model.new)}, all new`, long(model.new), 0, "new");
}

function drawBar(marks, x, y, room, words, held, implied, role = "held") {
  y = paragraph(marks, x, y + 12, "words", words, room) + 6;
  if (implied) marks.push(path("implied", `M${x} ${y}h${implied}v${BAR_H}h-${implied}z`));
  const long = Math.max(2, held);
  marks.push(path(role, `M${x} ${y}h${long}v${BAR_H}h-${long}z`));
  return y + BAR_H + 8;
}

// ---- the figure

const PLAIN = { code: false, predict: false, revealed: false, asked: 0, right: 0 };
const MOST_AXES = 6;
const MOST_SIZE = 1000000;

// "3, 4", "(3, 4)", "3x4", "()" or "error"; null when it is none of these
function parseShape(words) {
  const plain = words.trim().toLowerCase().replace(/[()[\]]/g, " ").trim();
  if (/^(error|none|no)$/.test(plain)) return "error";
  if (!plain) return /[([]/.test(words) ? [] : null;
  const sizes = plain.split(/[\s,×x]+/).filter((part) => part);
  return sizes.every((part) => /^\d+$/.test(part)) ? sizes.map(Number) : null;
}

function render({ model, el }) {
  const source = model.get("source");
  const first = structuredClone(model.get("state"));
  const state = () => model.get("state");
  let [current, feedback, tried, asked] = [broadcastModel(source, state()), "", false, ""];
  const askedNow = () => JSON.stringify(state().shapes);
  const change = (patch) => {
    const next = { ...state(), ...patch };
    const made = broadcastModel(source, next);
    const at = made.axes.map((n, k) => Math.max(0, Math.min((next.at || [])[k] ?? 0, (n ?? 1) - 1)));
    model.set("state", { ...next, at });
    model.save_changes();
  };
  const hide = () => ((feedback = ""), (tried = false), { revealed: false });
  const reshape = (k, shape) => change({ shapes: state().shapes.map((s, n) => (n === k ? shape : s)), ...hide() });

  const operands = node("div", { class: "axes" });
  const rows = source.operands.map((operand, k) => {
    const owner = unique("operand");
    const sizes = node("span", { class: "sizes" });
    const own = () => state().shapes[k];
    const front = button("+ first axis", () => reshape(k, [1, ...own()]), { "aria-label": `+ first axis for ${operand.name}` });
    const back = button("+ last axis", () => reshape(k, [...own(), 1]), { "aria-label": `+ last axis for ${operand.name}` });
    const drop = button("− first axis", () => reshape(k, own().slice(1)), { "aria-label": `− first axis of ${operand.name}` });
    const root = node("div", { class: "axis", role: "group", "aria-labelledby": owner },
      node("span", { id: owner, class: "name short" }, operand.name), sizes,
      node("span", { class: "together" }, front, back, drop));
    let fields = [];
    function update() {
      if (fields.length !== own().length) {
        fields = own().map((_, axis) => stepper(`size ${axis}`, {
          tells: `size of ${operand.name}, axis ${axis}`, complain: (words) => shown.complain(words), min: 0, max: MOST_SIZE, owner, act: (v) => reshape(k, own().map((n, a) => (a === axis ? v : n))) }));
        sizes.replaceChildren(...(fields.length ? fields.map((f) => f.root) : ["no axes"]));
      }
      fields.forEach((field, axis) => field.set(own()[axis]));
      front.disabled = back.disabled = own().length >= MOST_AXES;
      drop.disabled = own().length === 0;
    }
    operands.append(root);
    return update;
  });
  const predict = toggle("Predict", () => change({ predict: !state().predict, ...hide() }));
  const code = toggle("Code", () => change({ code: !state().code }));
  const bar = node("div", { class: "bar" }, button("Reset", () => (change({ ...first, ...PLAIN, ...hide() }), shown.redraw())), predict, code);

  const askId = unique("ask");
  const answer = node("input", { type: "text", id: askId, class: "wide", autocomplete: "off",
    onkeydown: (event) => event.key === "Enter" && !event.shiftKey && check() });
  const ask = node("div", { class: "bar ask", hidden: true }, node("label", { for: askId }, "Shape of the result"), answer,
    button("Check", () => check()), button("Show", () => ((feedback = ""), (tried = true), change({ revealed: true }))));
  function check() {
    const given = parseShape(answer.value);
    asked = askedNow();
    if (given === null) {
      feedback = "Type sizes such as 3, 4, or the word error. ";
      return shown.redraw();
    }
    const why = broadcastReason(source, current, given);
    const score = scoreOf(state(), tried, !why);
    tried = true;
    const said = given === "error" ? "An error" : tupleText(given);
    feedback = why ? `${said} is not it. ${why} ` : rightWords({ ...state(), ...score });
    change({ ...score, revealed: state().revealed || !why });
    shown.redraw(); // a second wrong answer changes no state, only what is said
  }

  // the drawing, and the keys in the result
  const view = svgNode("g", { class: "view", role: "listbox", tabindex: "0" });
  const backdrop = svgNode("g", { class: "backdrop", "aria-hidden": "true" });
  const [elementId, ring] = [unique("element"), ringNode()];
  const select = (index) => change({ at: index });
  view.addEventListener("keydown", (event) => {
    const chosen = chosenIndex(current, state());
    const index = chosen && !event.ctrlKey && !event.metaKey && walkKey(event.key, current.result, chosen);
    if (index) event.preventDefault(), select(index);
  });
  const indexIn = (words) => (words ? words.split(",").map(Number) : []);
  onCellClick(view, (name) => select(indexIn(name.slice(1))));
  onCellClick(backdrop, (name) => name[0] === "o" && view.parentNode && select(indexIn(name.split(":")[1])));
  function paint(drawing, scene) {
    const chosen = chosenIndex(current, state());
    const isOption = (mark) => mark.kind === "cell" && mark.name[0] === "r";
    const options = scene.marks.filter(isOption).map((mark) => {
      const index = indexIn(mark.name.slice(1));
      const [id, label] = [`${elementId}-${index.join("-")}`, sumWords(source, current, index)];
      return { ...mark, id, label, chosen: same(index, chosen) };
    });
    repaint(backdrop, scene.marks.filter((mark) => !isOption(mark)));
    repaint(view, options, optionNode);
    if (!backdrop.parentNode) drawing.append(backdrop);
    moveRing(ring, options.find((mark) => mark.chosen));
    if (!options.length) return view.remove();
    view.setAttribute("aria-label", `Elements of the result, shape ${tupleText(current.result)}`);
    view.setAttribute("aria-activedescendant", `${elementId}-${chosen.join("-")}`);
    if (!view.parentNode) drawing.append(view, ring);
  }

  const types = source.operands.map((o) => `${o.name} ${o.dtype}`).join(", ");
  const shown = frame({
    model, el, kind: "broadcasting", title: "Broadcast aligner",
    parts: {
      note: `${types}; result ${source.result.dtype}`,
      controls: [operands, bar], after: [ask], paint,
      draw(width) {
        current = broadcastModel(source, state());
        rows.forEach((update) => update());
        predict.setAttribute("aria-pressed", String(Boolean(state().predict)));
        code.setAttribute("aria-pressed", String(Boolean(state().code)));
        ask.hidden = !state().predict;
        return broadcastScene(source, state(), current, width);
      },
      words() {
        const words = broadcastWords(source, state(), current);
        if (!state().predict || !feedback || asked !== askedNow()) return words;
        return { ...words, walk: state().revealed ? feedback + words.walk : feedback.trim() };
      },
      code: () => broadcastCode(source, state(), current),
    },
  });
  return shown.stop;
}

export default { render, pure: { broadcastModel, broadcastWords, broadcastCode, broadcastReason, broadcastScene } };
