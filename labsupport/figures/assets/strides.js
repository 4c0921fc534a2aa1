// The stride explorer. Up to "the figure" this is stride_model.py and stride_scene.py in another language.

const LIMIT = 200;
const TRIMMED = 64;
const ENTRIES = 260;
const NEIGHBOURS = 2;
const SMALL_GAP = 8;

function trim(whole, most = LIMIT) {
  if (prod(whole) <= most) return [...whole];
  const shape = whole.map((n) => Math.min(n, TRIMMED));
  while (prod(shape) > TRIMMED) shape[shape.indexOf(Math.max(...shape))] -= 1;
  return shape;
}

const dot = (index, strides) => index.reduce((sum, i, k) => sum + i * strides[k], 0);

function extent(shape, strides, offset, itemsize) {
  if (prod(shape) === 0) return [offset, offset];
  const ends = shape.map((n, k) => (n - 1) * strides[k]);
  const sum = (pick) => ends.reduce((total, e) => total + pick(e, 0), offset);
  return [sum(Math.min), sum(Math.max) + itemsize];
}

function contiguous(shape, strides, itemsize) {
  if (shape.includes(0)) return true;
  let expected = itemsize;
  for (let k = shape.length - 1; k >= 0; k--) {
    if (shape[k] !== 1 && strides[k] !== expected) return false;
    expected *= shape[k];
  }
  return true;
}

function labelsOf(source) {
  const labels = new Map();
  for (const [first, texts] of source.runs) texts.forEach((t, k) => labels.set(first + k, t));
  return labels;
}

function slotOf(source, at) {
  const slot = floorDiv(at - source.phase, source.pitch);
  return [slot, at - source.phase - slot * source.pitch];
}

function cellOf(source, labels, index, at) {
  const end = at + source.itemsize;
  const [low, high] = extent(source.own.shape, source.own.strides, source.own.offset, source.itemsize);
  const [slot, rest] = slotOf(source, at);
  const c = { index, at, label: labels.get(slot) ?? "·", out: "", by: 0, mixed: false, beyond: at < low || end > high };
  if (at < 0) return { ...c, out: "before", by: -at, label: "✗" };
  if (end > source.size) return { ...c, out: "past", by: end - source.size, label: "✗" };
  return rest ? { ...c, mixed: true, label: "mixed" } : c;
}

function slotsOf(source, cells) {
  const total = Math.max(0, floorDiv(source.size - source.phase - source.itemsize, source.pitch) + 1);
  if (total <= LIMIT) return Array.from({ length: total }, (_, k) => k);
  const near = new Set();
  for (const c of cells.filter((c) => !c.out)) {
    const [slot, rest] = slotOf(source, c.at);
    near.add(slot);
    if (rest) near.add(slot + 1);
  }
  if (near.size) {
    const read = [...near].sort((a, b) => a - b);
    const [low, high] = [read[0], read[read.length - 1]];
    read.slice(1).forEach((following, k) => {
      if (following - read[k] - 1 > SMALL_GAP || near.size >= LIMIT) return;
      for (let slot = read[k] + 1; slot < following; slot++) near.add(slot);
    });
    for (let k = 1; k <= NEIGHBOURS; k++) near.add(low - k), near.add(high + k);
  } else near.add(0);
  return [...near].filter((slot) => slot >= 0 && slot < total).sort((a, b) => a - b);
}

function entriesOf(source, cells, labels, readers) {
  const parts = new Set();
  for (const c of cells.filter((c) => c.mixed)) {
    const [slot] = slotOf(source, c.at);
    parts.add(slot).add(slot + 1);
  }
  const entries = [...new Set(cells.filter((c) => c.out).map((c) => c.at))].map((at) => (
    { at, label: "✗", readers: readers.get(at), part: false, out: true }));
  for (const slot of slotsOf(source, cells)) {
    const at = source.phase + slot * source.pitch;
    entries.push({ at, label: labels.get(slot) ?? "·", readers: readers.get(at) || 0, part: parts.has(slot), out: false });
  }
  return withGaps(source, entries.sort((a, b) => a.at - b.at));
}

function withGaps(source, entries) {
  const all = [];
  let edge = entries.length ? Math.min(0, entries[0].at) : 0;
  const last = entries.length ? Math.max(source.size, entries[entries.length - 1].at) : source.size;
  for (const e of [...entries, null]) {
    const at = e ? e.at : last;
    if (at - edge >= source.pitch) all.push({ at: edge, gap: at - edge });
    if (e) all.push(e), (edge = Math.max(edge, at + source.pitch));
  }
  return all;
}

function bytesRead(source, cells) {
  let [total, edge] = [0, 0];
  const starts = new Set(cells.filter((c) => !c.out).map((c) => c.at));
  for (const at of [...starts].sort((a, b) => a - b)) {
    total += Math.max(0, at + source.itemsize - Math.max(at, edge));
    edge = Math.max(edge, at + source.itemsize);
  }
  return total;
}

function readAll(source, labels, drawn, { strides, offset }) {
  const readers = new Map();
  const cells = indices(drawn).map((index) => cellOf(source, labels, index, offset + dot(index, strides)));
  for (const c of cells) readers.set(c.at, (readers.get(c.at) || 0) + 1);
  for (const c of cells) c.readers = readers.get(c.at);
  return [cells, entriesOf(source, cells, labels, readers), readers];
}

function strideModel(source, state) {
  const { shape, strides, offset } = state;
  const labels = labelsOf(source);
  let drawn = trim(shape);
  let [cells, entries, readers] = readAll(source, labels, drawn, state);
  if (entries.length > ENTRIES) {
    drawn = trim(shape, TRIMMED);
    [cells, entries, readers] = readAll(source, labels, drawn, state);
  }
  const [low, high] = extent(shape, strides, offset, source.itemsize);
  const total = (holds) => cells.filter(holds).length;
  return {
    shape: [...shape], strides: [...strides], offset, drawn, elements: prod(shape),
    cells, entries, distinct: readers.size,
    shared: total((c) => c.readers > 1), out: total((c) => c.out),
    beyond: total((c) => c.beyond && !c.out), mixed: total((c) => c.mixed),
    before: cells.length ? Math.max(0, -low) : 0, past: cells.length ? Math.max(0, high - source.size) : 0,
    bytes_read: bytesRead(source, cells),
    c: contiguous(shape, strides, source.itemsize),
    f: contiguous([...shape].reverse(), [...strides].reverse(), source.itemsize),
  };
}

const selected = (model, state) => model.cells.find((c) => same(c.index, state.at || [])) || model.cells[0] || null;
const isSecret = (state) => Boolean(state.predict && !state.revealed);

// the array's own name while the layout is the array's
function viewName(source, { shape, strides, offset }) {
  const own = source.own;
  if (same(shape, own.shape) && same(strides, own.strides) && offset === own.offset) return source.name;
  return source.name !== "view" ? "view" : "view2";
}

function firstWords({ drawn, shape }) {
  if (same(drawn, shape)) return "";
  if (drawn.length === 2 && drawn[1] === shape[1]) return `first ${count(drawn[0], "row")}`;
  if (drawn.length === 2 && drawn[0] === shape[0]) return `first ${count(drawn[1], "column")}`;
  return `first ${shapeText(drawn)}`;
}
const shapeWords = (model) => [tupleText(model.shape), firstWords(model)].filter(Boolean).join(", ");

function walkWords(source, model, c) {
  const signed = (s) => (s < 0 ? `(${number(s)})` : number(s));
  const formula = [number(model.offset), ...c.index.map((i, k) => `${number(i)} × ${signed(model.strides[k])}`)].join(" + ");
  const name = viewName(source, model) + brackets(c.index);
  const words = `${name} reads ${count(source.itemsize, "byte")} at address ${number(c.at)} = ${formula}.`;
  const by = count(c.by, "byte");
  if (c.out === "before") return `${words} That starts ${by} before the buffer.`;
  if (c.out === "past") return `${words} That reads past the end by ${by}: the buffer has ${number(source.size)}.`;
  if (c.mixed) return `${words} They straddle two elements, so the value mixes bytes of both.`;
  const others = c.readers - 1;
  const hold = source.itemsize === 1 ? "It holds" : "They hold";
  if (!others) return `${words} ${hold} ${c.label}.`;
  const reads = others === 1 ? "other element reads" : "other elements read";
  return `${words} ${hold} ${c.label}; ${number(others)} ${reads} the same address.`;
}

function troubleWords(source, model) {
  const words = [];
  if (model.past || model.before) {
    const sides = model.past ? [`${count(model.past, "byte")} past the end`] : [];
    if (model.before) sides.push(`${count(model.before, "byte")} before the start`);
    const some = model.out === 1 ? "1 element reads" : `${number(model.out)} elements read`;
    const reads = model.out ? some : "Elements that are not drawn read";
    words.push(`✗ ${reads} outside the buffer, up to ${sides.join(" and ")}.`);
  }
  if (model.mixed) words.push(`${count(model.mixed, "element straddles", "elements straddle")} two items.`);
  if (model.beyond) {
    const lie = count(model.beyond, "element lies", "elements lie");
    words.push(`${lie} outside ${source.name} itself, in the rest of its buffer.`);
  }
  if (source.kind === "torch" && Math.min(0, ...model.strides) < 0) {
    words.push("torch refuses negative strides: flip() copies instead.");
  }
  return words;
}

function orderWords(model) {
  if (model.elements === 0) return "No element to read.";
  if (model.c && model.f) return "C-contiguous and F-contiguous.";
  return model.c ? "C-contiguous." : model.f ? "F-contiguous." : "Not contiguous.";
}

function strideWords(source, state, model) {
  const [c, name] = [selected(model, state), viewName(source, model)];
  const start = name === source.name ? "Shape" : `${name} reads the memory of ${source.name}: shape`;
  const words = [
    `${start} ${tupleText(model.shape)}, strides ${tupleText(model.strides.map(number))} bytes, ` +
      `offset ${number(model.offset)}, ${source.dtype} (${count(source.itemsize, "byte")} each).`,
    `${count(model.cells.length, "element reads", "elements read")} ` +
      `${count(model.distinct, "address", "addresses")}, ` +
      `${number(model.bytes_read)} of the buffer's ${count(source.size, "byte")}.`,
    orderWords(model),
  ];
  if (model.shared) {
    const effect = source.writeable ? "writing one changes the others" : "read-only, so nothing can be written";
    words.push(`${count(model.shared, "element")} share an address with another (marked ×n): ${effect}.`);
  }
  words.push(...troubleWords(source, model));
  if (!same(model.drawn, model.shape)) {
    words.push(`Only the first ${shapeText(model.drawn)} of ${shapeText(model.shape)} are drawn and counted.`);
  }
  let walk = c ? walkWords(source, model, c) : "This shape has no element: a size is 0.";
  if (isSecret(state) && c) {
    walk = `Which address does ${name}${brackets(c.index)} read? Type it, then press Check.`;
  }
  const summary = words.join(" ");
  return { walk, summary, alt: `Stride explorer. ${summary} ${walk}` };
}

function strideCode(source, state, model) {
  const [shape, strides] = [tupleText(model.shape), tupleText(model.strides)];
  const [name, outside] = [source.name, model.past || model.before];
  const view = viewName(source, model);
  const made = view === name ? "" : `${view} = `;
  if (state.steps) return `${made}${name}${state.steps.join("")}  # shape ${shape}, strides ${strides}`;
  if (source.kind === "torch") {
    const unit = source.itemsize;
    const inElements = tupleText(model.strides.map((s) => floorDiv(s, unit)));
    const whole = [...model.strides, model.offset].every((v) => v % unit === 0);
    const call = `${made}torch.as_strided(${name}, ${shape}, ${inElements}, ${floorDiv(model.offset, unit)})`;
    return call + (whole ? "  # strides in elements" : "  # torch counts whole elements: not this layout");
  }
  if (model.offset === source.own.offset) {
    const flags = source.writeable ? "" : ", writeable=False";
    const warning = outside ? "\n# as_strided checks nothing: this reads memory that is not yours" : "";
    const call = `${made}as_strided(${name}, shape=${shape}, strides=${strides}${flags})`;
    return `from numpy.lib.stride_tricks import as_strided\n\n${call}${warning}`;
  }
  const refused = outside ? "  # refused: it would read outside the buffer" : "";
  return (
    `${made}np.ndarray(${shape}, ${name}.dtype, buffer=${source.owner},\n` +
    `${" ".repeat(made.length)}           offset=${model.offset}, strides=${strides})${refused}`
  );
}

function strideReason(source, model, index, answer) {
  const { strides, offset, shape } = model;
  const item = source.itemsize;
  const at = offset + dot(index, strides);
  if (answer === at) return "";
  const flat = index.reduce((sum, i, k) => sum * shape[k] + i, 0);
  const unit = `in bytes: one element takes ${number(item)}.`;
  const beliefs = [
    [at - offset, `The walk starts at the offset, ${number(offset)}, not at 0.`],
    [offset + floorDiv(at - offset, item), `That counts elements. Strides are ${unit}`],
    [floorDiv(at, item), `That counts elements. Addresses are ${unit}`],
    [offset + dot(index, [...strides].reverse()), "That gives axis 0 the last stride; its stride is the first one."],
    [offset + dot(index, strides.map(Math.abs)), "A negative stride walks backwards: subtract."],
    [offset + dot(index.map((i) => i + 1), strides), "Indices count from 0: index 1 is one step, not two."],
    [offset + flat * item, "That would be right if the rows lay one after another. Follow this view's strides."],
    [at + item, "That is the byte behind the element. Its address is its first byte."],
    [at + item - 1, "That is the last byte of the element. Its address is its first byte."],
  ];
  for (const [value, reason] of beliefs) if (answer === value) return reason;
  const reader = model.cells.find((c) => c.at === answer);
  if (reader) return `Address ${number(answer)} is read by ${viewName(source, model)}${brackets(reader.index)}.`;
  if (answer < 0 || answer >= source.size) {
    return `The buffer ends before address ${number(source.size)}; start at the offset and walk axis by axis.`;
  }
  return "No element of this view starts there. Start at the offset; for each axis add index × stride.";
}

// ---- the drawing

const CELL_H = 42;
const LEDGER_W = 290;
const LINE = 22;
const SLOT_H = 40;
const FOOT = 24;
const FINE = 48;
const HOPS = 8;

const arrow = (x, y) => `M${x} ${y}l-4 -8h8z`;
const disc = (x, y) => `M${x - 4} ${y}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z`;

function strideScene(source, state, model, width) {
  const [chosen, secret, room, marks] = [selected(model, state), isSecret(state), width - 2 * PAD, []];
  const [w, h] = drawGrid(marks, model, chosen, secret, room);
  const beside = PAD + w + 36;
  const bottom = beside + LEDGER_W <= width - PAD
    ? Math.max(PAD + h, drawLedger(marks, source, model, chosen, secret, beside, PAD, width - PAD - beside))
    : drawLedger(marks, source, model, chosen, secret, PAD, PAD + h + 14, room);
  const height = drawMemory(marks, source, model, chosen, secret, room, bottom + 18);
  return { width, height: height + PAD, marks };
}

function drawGrid(marks, model, chosen, secret, room) {
  const axes = ["", " · axis 0 →", " · axis 0 ↓, axis 1 →"];
  const title = `View ${shapeWords(model)}${axes[model.drawn.length] ?? " · last two axes ↓ →"}`;
  const y = paragraph(marks, PAD, PAD + 11, "title", title, room) + 9;
  const cw = cellWidth(model.cells.map((c) => c.label), model.cells.map((c) => `@${number(c.at)}`));
  const layout = gridOf(model.drawn, PAD, y, room, cw, CELL_H);
  marks.push(...layout.heads);
  model.cells.forEach((c, k) => {
    const [x, y] = layout.places[k];
    const lines = secret ? [c === chosen ? "?" : "·", ""] : [c.label, `@${number(c.at)}`];
    marks.push(cell(`v${c.index.join(",")}`, x, y, cw - 3, CELL_H - 3, viewRole(c, chosen, secret), lines));
  });
  return [Math.max(layout.w, Math.min(title.length * 7, room)), y - PAD + layout.h];
}

function viewRole(c, chosen, secret) {
  if (c === chosen) return c.out && !secret ? "trouble!" : "wanted!";
  if (secret) return "idle";
  if (c.out) return "trouble~";
  return chosen && c.at === chosen.at ? "touched!" : "touched";
}

function drawLedger(marks, source, model, chosen, secret, x, y, room) {
  if (!chosen) return paragraph(marks, x, y + 11, "note", "A size is 0: there is no address to work out.", room) + 9;
  y = paragraph(marks, x, y + 11, "title", `Address of ${shortName(viewName(source, model))}${brackets(chosen.index)}`, room) - 11;
  const rows = [[null, number(model.offset), "offset"]];
  chosen.index.forEach((i, axis) => {
    const step = i * model.strides[axis];
    const words = `axis ${axis}: ${number(i)} × ${number(model.strides[axis])}`;
    rows.push([axis, `${step < 0 ? "−" : "+"} ${number(Math.abs(step))}`, words]);
  });
  const total = `= ${number(chosen.at)}`;
  const col = Math.max(104, longest([total, ...rows.map((row) => row[1])]) * 8 + 40);
  y += 30;
  for (const [axis, amount, words] of rows) {
    marks.push(axis === null ? path("head", disc(x + 12, y - 4)) : path(`walk${Math.min(axis, 3)}`, `M${x} ${y - 4}h24`));
    marks.push(text(x + col, y, "sum", secret ? "?" : amount));
    y = paragraph(marks, x + col + 12, y, "words", words, room - col - 12) + LINE;
  }
  marks.push(path("line", `M${x + 40} ${y - 14}h${col - 38}`));
  marks.push(text(x + col, y + 4, "sum", secret ? "= ?" : total));
  return paragraph(marks, x + col + 12, y + 4, "words", secret ? "" : readsWords(source, chosen), room - col - 12) + 8;
}

function readsWords(source, c) {
  if (c.out) return `✗ ${c.out === "past" ? "past the end" : "before the start"} by ${count(c.by, "byte")}`;
  if (c.mixed) return "mixes bytes of two items";
  const last = c.at + source.itemsize - 1;
  const one = last === c.at;
  return `${one ? `byte ${number(c.at)} holds` : `bytes ${number(c.at)} to ${number(last)} hold`} ${c.label}`;
}

function drawMemory(marks, source, model, chosen, secret, room, y) {
  const entries = model.entries;
  marks.push(text(PAD, y + 11, "title", `Memory: ${count(source.size, "byte")} from address 0`));
  const feet = entries.map((e) => ("gap" in e ? shortBytes(e.gap) : number(e.at)));
  const sw = cellWidth(entries.map((e) => e.label || ""), feet);
  const most = Math.max(1, floorDiv(room, sw));
  const per = entries.length <= most || most < 8 ? most : most - (most % 4);
  const rows = Math.ceil(entries.length / per);
  const arcs = rows <= 3 ? 34 : 20;
  const [rowH, top, places, half, front] = [arcs + SLOT_H + FOOT, y + 20, new Map(), floorDiv(sw, 2), []];
  entries.forEach((e, k) => {
    const row = floorDiv(k, per);
    const [x, rowY] = [PAD + (k % per) * sw, top + row * rowH + arcs];
    places.set(e.at, [x, rowY, row]);
    if ("gap" in e) {
      marks.push(text(x + half, rowY + 24, "value", "⋯"), text(x + half, rowY + SLOT_H + 14, "small", feet[k]));
      return;
    }
    const role = slotRole(e, chosen, secret);
    (role.endsWith("!") ? front : marks).push(cell(`m${e.at}`, x, rowY, sw, SLOT_H, role, [e.label, slotNote(e)]));
    marks.push(text(x + half, rowY + SLOT_H + 14, "small", feet[k]));
    if (source.itemsize > 1 && source.itemsize <= 8 && entries.length <= FINE && !e.out) {
      let ticks = "";
      for (let b = 1; b < source.itemsize; b++) {
        ticks += `M${x + floorDiv(b * sw, source.pitch)} ${rowY + SLOT_H}v-4`;
      }
      marks.push(path("tick", ticks));
    }
  });
  marks.push(...front);
  if (chosen && !secret) drawWalk(marks, source, model, chosen, { source, places, sw, right: PAD + per * sw, arcs });
  return top + rows * rowH;
}

function slotRole(e, chosen, secret) {
  if (chosen && e.at === chosen.at && !secret) return e.out ? "trouble!" : "wanted!";
  if (e.out) return "trouble~";
  return e.readers || e.part ? "touched" : "idle";
}

const slotNote = (e) => (e.readers > 1 ? `×${e.readers}` : e.part && !e.readers ? "part" : "");

function spotOf(spots, at) {
  const half = floorDiv(spots.sw, 2);
  if (spots.places.has(at)) {
    const [x, y, row] = spots.places.get(at);
    return [x, x + half, y, row];
  }
  const [, inside] = slotOf(spots.source, at);
  if (!spots.places.has(at - inside)) return null;
  const [x, y, row] = spots.places.get(at - inside);
  const left = x + floorDiv(inside * spots.sw, spots.source.pitch);
  return [left, left + half, y, row];
}

function drawWalk(marks, source, model, chosen, spots) {
  let at = model.offset;
  const start = spotOf(spots, at);
  if (start) marks.push(path("head", disc(start[1], start[2] - 1)));
  chosen.index.forEach((i, axis) => {
    const stride = model.strides[axis];
    const steps = i <= HOPS ? Array(i).fill(stride) : [i * stride];
    for (const step of steps) {
      const [here, there] = [spotOf(spots, at), spotOf(spots, at + step)];
      at += step;
      if (here && there) drawHop(marks, `walk${Math.min(axis, 3)}`, here, there, spots);
    }
  });
  const spot = spotOf(spots, chosen.at);
  if (chosen.mixed && spot) {
    const [left, , y] = spot;
    const wide = Math.min(floorDiv(source.itemsize * spots.sw, source.pitch), spots.right - left);
    marks.push(path("band", `M${left} ${y + SLOT_H - 7}v7h${wide}v-7z`));
  }
}

function drawHop(marks, role, [, x, y, row], [, x2, y2, row2], spots) {
  const most = spots.arcs - 4;
  if (row === row2 && x === x2) {
    marks.push(path(role, `M${x - 5} ${y - 2}C${x - 22} ${y - most} ${x + 22} ${y - most} ${x + 5} ${y - 6}`));
    marks.push(path("head", arrow(x + 5, y2 - 1)));
    return;
  }
  if (row === row2) {
    const up = Math.min(most, 12 + floorDiv(Math.abs(x2 - x), 12));
    marks.push(path(role, `M${x} ${y - 2}C${x} ${y - 2 - up} ${x2} ${y2 - 2 - up} ${x2} ${y2 - 8}`));
  } else {
    const [out, back] = row2 > row ? [spots.right, PAD] : [PAD, spots.right];
    marks.push(path(role, `M${x} ${y - 2}C${x} ${y - 15} ${x} ${y - 15} ${out} ${y - 15}`));
    marks.push(path(role, `M${back} ${y2 - 15}C${x2} ${y2 - 15} ${x2} ${y2 - 15} ${x2} ${y2 - 8}`));
  }
  marks.push(path("head", arrow(x2, y2 - 1)));
}

// ---- the figure

const PLAIN = { code: false, predict: false, revealed: false, asked: 0, right: 0 };

// what the buttons do to a layout, and how NumPy writes it
const MOVES = {
  transpose: (s) => ({ shape: [...s.shape].reverse(), strides: [...s.strides].reverse(), at: [...s.at].reverse(), step: ".T" }),
  reverse(s, axis) {
    const strides = s.strides.map((v, k) => (k === axis ? -v : v));
    const offset = s.offset + Math.max(0, s.shape[axis] - 1) * s.strides[axis];
    return { strides, offset, step: slice(axis, "::-1") };
  },
  halve(s, axis) {
    const pick = (values, act) => values.map((v, k) => (k === axis ? act(v) : v));
    return { shape: pick(s.shape, (n) => Math.ceil(n / 2)), strides: pick(s.strides, (v) => v * 2), step: slice(axis, "::2") };
  },
};
const slice = (axis, words) => `[${":, ".repeat(axis)}${words}]`;

function render({ model, el }) {
  const source = model.get("source");
  const first = structuredClone(model.get("state"));
  const state = () => model.get("state");
  const numbers = () => strideModel(source, state());
  let [current, feedback, tried, asked] = [numbers(), "", false, ""];
  const askedNow = () => JSON.stringify([current.shape, current.strides, current.offset, state().at]);
  const change = (patch) => {
    const next = { ...state(), ...patch };
    const { drawn } = strideModel(source, next);
    const at = next.shape.map((_, k) => Math.max(0, Math.min((next.at || [])[k] ?? 0, drawn[k] - 1)));
    model.set("state", { ...next, at });
    model.save_changes();
  };
  const hide = () => ((feedback = ""), (tried = false), { revealed: false });
  const relayout = (patch) => change({ ...patch, ...hide() });
  const move = (name, axis) => {
    const { step, ...layout } = MOVES[name](state(), axis);
    relayout({ ...layout, steps: state().steps && [...state().steps, step] });
  };
  const edit = (part, axis, value) => relayout({ [part]: state()[part].map((v, k) => (k === axis ? value : v)), steps: null });
  const select = (index) => change({ at: index, ...hide() });

  const complain = (words) => shown.complain(words);

  // controls
  const axes = node("div", { class: "axes" });
  const offset = stepper("offset, bytes", { tells: "offset", complain, step: () => source.itemsize, act: (v) => relayout({ offset: v, steps: null }) });
  let rows = [];
  function buildAxes(n) {
    rows = Array.from({ length: n }, (_, axis) => {
      const owner = unique("axis");
      const size = stepper("size", { tells: `axis ${axis} size`, complain, min: 0, owner, act: (v) => edit("shape", axis, v) });
      const stride = stepper("stride, bytes", { tells: `axis ${axis} stride`, complain, step: () => source.itemsize, owner,
        act: (v) => edit("strides", axis, v) });
      const root = node("div", { class: "axis", role: "group", "aria-labelledby": owner },
        node("span", { id: owner, class: "name" }, `axis ${axis}`), size.root, stride.root,
        node("span", { class: "together" },
          button("Reverse", () => move("reverse", axis), { "aria-label": `Reverse axis ${axis}` }),
          button("Every 2nd", () => move("halve", axis), { "aria-label": `Every 2nd along axis ${axis}` })));
      return { root, size, stride };
    });
    axes.replaceChildren(...rows.map((r) => r.root), node("div", { class: "axis" }, node("span", { class: "name" }, "start"), offset.root));
  }
  const addAxis = button("Add axis", () => relayout({
    shape: [...state().shape, 1], strides: [...state().strides, source.itemsize], steps: null }));
  const dropAxis = button("Drop last axis", () => relayout({
    shape: state().shape.slice(0, -1), strides: state().strides.slice(0, -1), steps: null }));
  const predict = toggle("Predict", () => relayout({ predict: !state().predict, ...(state().predict ? {} : { at: question(0) }) }));
  const code = toggle("Code", () => change({ code: !state().code }));
  const bar = node("div", { class: "bar" }, button("Transpose", () => move("transpose")), addAxis, dropAxis,
    button("Reset", () => (relayout({ ...first, ...PLAIN }), shown.redraw())), predict, code);

  // predicting an address
  const askId = unique("ask");
  const answer = node("input", { type: "number", id: askId, step: "any", autocomplete: "off",
    onkeydown: (event) => event.key === "Enter" && !event.shiftKey && check() });
  const askLabel = node("label", { for: askId });
  const next = button("Next", () => {
    answer.value = "";
    select(question(state().asked));
    answer.focus();
  });
  const ask = node("div", { class: "bar ask", hidden: true }, askLabel, answer, button("Check", () => check()),
    button("Show", () => ((feedback = ""), (tried = true), change({ revealed: true }))), next);
  // a fixed walk through the elements that looks unordered: the same questions in every run
  const question = (k) => {
    const cells = current.cells;
    return cells.length ? cells[(cells.length - 1 + k * 7919) % cells.length].index : [];
  };
  function check() {
    const chosen = selected(current, state());
    if (!chosen) return;
    asked = askedNow();
    if (!wholeNumber(answer.value)) {
      feedback = "Type the address as a whole number of bytes. ";
      return shown.redraw();
    }
    const why = strideReason(source, current, chosen.index, Number(answer.value));
    const score = scoreOf(state(), tried, !why);
    tried = true;
    feedback = why ? `${number(Number(answer.value))} is not it. ${why} ` : rightWords({ ...state(), ...score });
    change({ ...score, revealed: state().revealed || !why });
    shown.redraw(); // a second wrong answer changes no state, only what is said
  }

  // the drawing, and the keys in its grid
  const view = svgNode("g", { class: "view", role: "listbox", tabindex: "0" });
  const backdrop = svgNode("g", { class: "backdrop", "aria-hidden": "true" });
  const [elementId, ring] = [unique("element"), ringNode()];
  view.addEventListener("keydown", (event) => {
    const chosen = selected(current, state());
    const index = chosen && !event.ctrlKey && !event.metaKey && walkKey(event.key, current.drawn, chosen.index);
    if (index) event.preventDefault(), select(index);
  });
  onCellClick(view, (name) => select(current.cells.find((c) => `v${c.index.join(",")}` === name).index));
  onCellClick(backdrop, (name) => {
    const reader = current.cells.find((c) => `m${c.at}` === name);
    if (reader && !isSecret(state())) select(reader.index);
  });
  function paint(drawing, scene) {
    const chosen = selected(current, state());
    const isOption = (mark) => mark.kind === "cell" && mark.name[0] === "v";
    repaint(backdrop, scene.marks.filter((mark) => !isOption(mark)));
    repaint(view, scene.marks.filter(isOption).map((mark, k) => {
      const c = current.cells[k];
      const tells = isSecret(state()) ? "" : `, address ${number(c.at)}, ${c.out ? "outside the buffer" : c.mixed ? c.label : `value ${c.label}`}`;
      const [id, label] = [`${elementId}-${c.index.join("-")}`, `${viewName(source, current)}${brackets(c.index)}${tells}`];
      return { ...mark, id, label, chosen: c === chosen };
    }), optionNode);
    view.setAttribute("aria-label", `Elements of the view, shape ${shapeWords(current)}`);
    if (chosen) view.setAttribute("aria-activedescendant", `${elementId}-${chosen.index.join("-")}`);
    else view.removeAttribute("aria-activedescendant");
    moveRing(ring, scene.marks.find((mark) => chosen && mark.name === `v${chosen.index.join(",")}`));
    if (!view.parentNode) drawing.append(backdrop, view, ring);
  }

  buildAxes(state().shape.length);
  const shown = frame({
    model, el, kind: "strides", title: "Stride explorer",
    parts: {
      note: `${source.dtype}, ${count(source.itemsize, "byte")} per element; buffer of ${count(source.size, "byte")}`,
      controls: [axes, bar], after: [ask], paint,
      draw(width) {
        current = numbers();
        const s = state();
        if (rows.length !== s.shape.length) buildAxes(s.shape.length);
        rows.forEach((row, k) => (row.size.set(s.shape[k]), row.stride.set(s.strides[k])));
        offset.set(s.offset);
        addAxis.disabled = s.shape.length >= 6;
        dropAxis.disabled = s.shape.length === 0;
        predict.setAttribute("aria-pressed", String(Boolean(s.predict)));
        code.setAttribute("aria-pressed", String(Boolean(s.code)));
        ask.hidden = !s.predict;
        const chosen = selected(current, s);
        askLabel.textContent = chosen ? `Address of ${viewName(source, current)}${brackets(chosen.index)}` : "No element";
        return strideScene(source, s, current, width);
      },
      words() {
        const words = strideWords(source, state(), current);
        if (!state().predict || !feedback || asked !== askedNow()) return words;
        return { ...words, walk: state().revealed ? feedback + words.walk : feedback.trim() };
      },
      code: () => strideCode(source, state(), current),
    },
  });
  return shown.stop;
}

export default { render, pure: { strideModel, strideWords, strideCode, strideReason, strideScene, MOVES } };
