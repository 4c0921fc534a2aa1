// The chunk map. Up to "the figure" this is chunk_model.py (with chunklab's cache.py and sieve.py), chunk_words.py and chunk_scene.py once more.

const FORMATS = { hdf5: "HDF5, compressed", raw: "HDF5, no filter", contiguous: "HDF5, contiguous", zarr: "Zarr", sharded: "Zarr, sharded" };
const NAMES = "AB";
const SIEVE = 65536;
const MOST_RUNS = 20000;
const VISITS = 100000;
const ceilDiv = (a, b) => Math.ceil(a / b);
const sizeOf = ([start, stop, step]) => ceilDiv(stop - start, step);
const lastOf = (box) => box[0] + (sizeOf(box) - 1) * box[2];
const zip = (...lists) => lists[0].map((_, k) => lists.map((list) => list[k]));
const selectionOf = (state) => zip(state.start, state.stop, state.by);
const countsOf = (shape, chunks) => shape.map((n, k) => ceilDiv(n, chunks[k]));
const isHdf5 = (layout) => layout.format === "hdf5" || layout.format === "raw";
const shownOf = (state) => state.layouts.slice(0, state.compare ? 2 : 1);
const range = (a, b, step = 1) => Array.from({ length: Math.max(0, ceilDiv(b - a, step)) }, (_, k) => a + k * step);
const product = (lists) => lists.reduce((all, list) => all.flatMap((one) => list.map((v) => [...one, v])), [[]]);

function hits(box, low, high) {
  const [first, end] = [low, high].map((edge) => Math.min(sizeOf(box), Math.max(0, ceilDiv(edge - box[0], box[2]))));
  return Math.max(0, end - first);
}

function touchedIn(box, chunk) {
  if (box[2] <= chunk) return range(floorDiv(box[0], chunk), floorDiv(lastOf(box), chunk) + 1);
  return range(box[0], lastOf(box) + 1, box[2]).map((i) => floorDiv(i, chunk));
}

const touchedCount = (box, chunk) => (
  box[2] <= chunk ? floorDiv(lastOf(box), chunk) - floorDiv(box[0], chunk) + 1 : sizeOf(box));

function chunkModel(source, state) {
  const box = selectionOf(state);
  const wanted = prod(box.map(sizeOf));
  const shown = shownOf(state);
  return {
    box, wanted, wanted_bytes: wanted * source.itemsize,
    layouts: shown.map((layout) => costOf(source, state, layout, box)), replay: replay(source, state, shown),
  };
}

const keptOf = (state) => (state.cache ? state.cache_bytes : 0);

function costOf(source, state, layout, box) {
  const { shape, itemsize: item } = source;
  const wanted = prod(box.map(sizeOf)) * item;
  if (layout.format === "contiguous") {
    const runs = prod(piecesOf(shape, box).map((inside, k) => (inside ? 1 : sizeOf(box[box.length - 1 - k]))));
    return {
      grid: shape.map(() => 1), total: 0, chunk_bytes: prod(shape) * item, touched: shape.map(() => 1), count: 0,
      decoded: wanted, read: wanted, requests: runs, padding: 0, direct: false,
      sieve: runs <= MOST_RUNS ? sieveOf(shape, box, item, wanted / runs) : null, stored: null, objects: 1,
    };
  }
  const chunks = layout.chunks;
  const touched = box.map((b, k) => touchedCount(b, chunks[k]));
  const [count, chunkBytes, grid] = [prod(touched), prod(chunks) * item, countsOf(shape, chunks)];
  const direct = layout.format === "raw" && chunkBytes > keptOf(state);
  const decoded = direct ? wanted : count * chunkBytes;
  const inside = item * prod(box.map((b, k) => (
    touched[k] * chunks[k] - Math.max(0, (floorDiv(lastOf(b), chunks[k]) + 1) * chunks[k] - shape[k]))));
  const cost = {
    grid, total: prod(grid), chunk_bytes: chunkBytes, touched, count, decoded, read: decoded,
    requests: direct ? null : count, padding: direct ? 0 : decoded - inside, direct, sieve: null,
    stored: storedOf(source, layout, box), objects: layout.format === "zarr" ? 1 + prod(grid) : 1,
  };
  return layout.format === "sharded" ? { ...cost, ...shardsOfBox(shape, layout, box, cost) } : cost;
}

function shardsOfBox(shape, layout, box, { decoded, count }) {
  const [per, sizes] = [layout.per, shardsOf(layout)];
  const shards = prod(box.map((b, k) => touchedCount(b, sizes[k])));
  const whole = prod(box.map((b, k) => wholeIn(b, layout.chunks[k], per[k])));
  const index = 16 * prod(per) + 4;
  return {
    shards, whole, index_bytes: index, read: decoded + shards * index,
    requests: whole + (shards - whole) + count - whole * prod(per), objects: 1 + prod(countsOf(shape, sizes)),
  };
}

function wholeIn(box, chunk, per) {
  if (box[2] <= chunk) {
    return Math.max(0, floorDiv(floorDiv(lastOf(box), chunk) + 1, per) - ceilDiv(floorDiv(box[0], chunk), per));
  }
  const counts = new Map();
  for (const at of touchedIn(box, chunk)) counts.set(floorDiv(at, per), (counts.get(floorDiv(at, per)) || 0) + 1);
  return [...counts.values()].filter((n) => n === per).length;
}

// from the last axis on: does it lie within a piece of memory that is read in one go
function piecesOf(shape, box) {
  let within = true;
  return [...box].reverse().map((b, k) => {
    const inside = within && (b[2] === 1 || sizeOf(b) === 1);
    within = inside && sizeOf(b) === shape[shape.length - 1 - k];
    return inside;
  });
}

function sieveOf(shape, box, item, each) {
  const [total, steps] = [prod(shape) * item, []];
  let pitch = item;
  const pieces = piecesOf(shape, box).reverse();
  for (let k = shape.length - 1; k >= 0; k--) {
    const here = pitch;
    steps.unshift(pieces[k] ? [box[k][0] * here] : range(...box[k]).map((i) => i * here));
    pitch *= shape[k];
  }
  let [reads, bytes, low, high] = [0, 0, 0, 0];
  for (const parts of product(steps)) {
    const at = parts.reduce((a, b) => a + b, 0);
    if (low <= at && at + each <= high) continue;
    const size = each > SIEVE ? each : Math.min(SIEVE, total - at);
    if (each <= SIEVE) [low, high] = [at, at + size];
    [reads, bytes] = [reads + 1, bytes + size];
  }
  return [reads, bytes];
}

function storedOf(source, layout, box) {
  const known = source.stored;
  if (!known || layout.format !== known.format || !same(layout.chunks, known.chunks)) return null;
  const grid = countsOf(source.shape, known.chunks);
  const all = product(box.map((b, k) => touchedIn(b, known.chunks[k])));
  const sizes = all.map((index) => known.sizes[index.reduce((at, i, k) => at * grid[k] + i, 0)]);
  return [sizes.reduce((a, b) => a + b, 0), sizes.filter((n) => n === 0).length];
}

// HDF5's chunk cache: chunklab/cache.py
function chunkCache(counts, size, nbytes, slots) {
  const bits = counts.map((n) => 2 ** Math.ceil(Math.log2(n)));
  let [line, evicted] = [[], 0];
  const held = new Map();
  const placeOf = (chunk) => chunk.reduce((at, i, k) => (k ? (at * (bits[k] % slots) + i) % slots : i % slots), 0);
  const full = () => (held.size + 1) * size > nbytes;
  function evict(place) {
    line.splice(line.indexOf(place), 1);
    held.delete(place);
    evicted += 1;
  }
  function makeRoom() {
    const [old, gone] = [[...line], new Set()];
    const after = (at) => {
      if (at === null) return null;
      for (at += 1; at < old.length && gone.has(at);) at += 1;
      return at < old.length ? at : null;
    };
    let [first, second, wait] = [0, null, Math.floor(old.length * 0.75)];
    for (; (first !== null || second !== null) && full(); wait--) {
      if (wait === 0) second = after(-1) ?? old.length;
      [first, second].forEach((at, hand) => {
        if (at === null || at >= old.length || gone.has(at) || !full()) return;
        if (hand || held.get(old[at])[1] === 0) evict(old[at]), gone.add(at);
      });
      [first, second] = [after(first), after(second)];
    }
  }
  function read(chunk, wanted) {
    const [place, name] = [placeOf(chunk), chunk.join()];
    const entry = held.get(place);
    if (entry && entry[0] === name) {
      const at = line.indexOf(place);
      if (at + 1 < line.length) [line[at], line[at + 1]] = [line[at + 1], line[at]];
      entry[1] = Math.max(0, entry[1] - wanted);
      return true;
    }
    if (size <= nbytes) {
      if (entry) evict(place);
      makeRoom();
      held.set(place, [name, Math.max(0, size - wanted)]);
      line.push(place);
    }
    return false;
  }
  return { read, evicted: () => evicted };
}

const played = { key: "", rows: null }; // the last replay: moving the selection does not change it

function replay(source, state, layouts) {
  const key = JSON.stringify([source.shape, source.itemsize, layouts, state.history, keptOf(state), state.cache_slots]);
  if (played.key !== key) {
    const visits = layouts.filter(isHdf5).flatMap(({ chunks }) => (
      state.history.map((box) => prod(box.map((b, k) => touchedCount(b, chunks[k]))))));
    const few = visits.reduce((a, b) => a + b, 0) <= VISITS;
    Object.assign(played, { key, rows: few ? layouts.map((layout) => playedIn(source, state, layout)) : null });
  }
  return played.rows;
}

function playedIn(source, state, layout) {
  if (!isHdf5(layout)) {
    return state.history.map((box) => {
      const cost = costOf(source, state, layout, box);
      return [0, cost.count, 0, cost.read];
    });
  }
  const { chunks } = layout;
  const size = prod(chunks) * source.itemsize;
  const cache = chunkCache(countsOf(source.shape, chunks), size, keptOf(state), state.cache_slots);
  return state.history.map((box) => {
    let [found, missed, before] = [0, 0, cache.evicted()];
    const along = box.map((b, k) => touchedIn(b, chunks[k]).map((i) => [i, hits(b, i * chunks[k], (i + 1) * chunks[k])]));
    for (const parts of product(along)) {
      if (cache.read(parts.map(([i]) => i), source.itemsize * prod(parts.map(([, n]) => n)))) found += 1;
      else missed += 1;
    }
    const direct = layout.format === "raw" && size > keptOf(state);
    const bytes = direct ? source.itemsize * prod(box.map(sizeOf)) : missed * size;
    return [found, missed, cache.evicted() - before, bytes];
  });
}

// ---- words

const isSecret = (state) => Boolean(state.predict && !state.revealed);
const shardsOf = (layout) => layout.chunks.map((c, k) => c * layout.per[k]);
const touches = (cost) => `${number(cost.count)} of ${count(cost.total, "chunk")}`;

function times(a, b) {
  if (b === 0) return "0\u00a0×";
  const tenths = Math.floor((a / b) * 10 + 0.5);
  return tenths < 1000 ? `${floorDiv(tenths, 10)}.${tenths % 10}\u00a0×` : `${number(Math.floor(a / b + 0.5))}\u00a0×`;
}

function boxText(shape, box) {
  return `[${box.map(([start, stop, step], k) => {
    if (stop - start === 1) return start;
    if (start === 0 && stop === shape[k] && step === 1) return ":";
    return `${start}:${stop}${step > 1 ? `:${step}` : ""}`;
  }).join(", ")}]`;
}

function layoutName(layout) {
  const words = FORMATS[layout.format];
  if (layout.format === "contiguous") return words;
  const shards = layout.format === "sharded" ? ` in shards ${tupleText(shardsOf(layout))}` : "";
  return `${words}, chunks ${tupleText(layout.chunks)}${shards}`;
}

function readsWords(model, cost, name) {
  const wanted = model.wanted_bytes;
  if (cost.total === 0) {
    return `${name} reads these bytes alone, in ${count(cost.requests, "piece")}: ${times(cost.read, wanted)}.`;
  }
  if (cost.direct) return `${name} touches ${touches(cost)} and reads only what is wanted of them: ${times(wanted, wanted)}.`;
  return `${name} touches ${touches(cost)} and decodes ${byteText(cost.decoded)}: ${times(cost.decoded, wanted)}.`;
}

function noteWords(layout, cost, name) {
  const words = [];
  if (cost.padding) words.push(`${byteText(cost.padding)} of what is decoded ${cost.padding === 1 ? "lies" : "lie"} outside the array: the last chunk of an axis is stored whole.`);
  if (layout.format === "sharded") {
    const whole = cost.whole ? `; ${number(cost.whole)} wanted whole, in one request each` : "";
    words.push(`Its chunks lie in ${count(cost.shards, "shard")}, with an index of ${count(cost.index_bytes, "byte")} ` +
      `each${whole}: ${count(cost.requests, "request")}.`);
  }
  if (cost.sieve) {
    words.push(`The default driver reads ahead by up to ${number(SIEVE)} bytes: ${count(cost.sieve[0], "read")}, ${byteText(cost.sieve[1])}.`);
  }
  if (cost.direct) words.push("A chunk without a filter that does not fit the cache is read in pieces.");
  if (cost.stored) {
    const absent = cost.stored[1] ? `; ${number(cost.stored[1])} of them were never written` : "";
    words.push(`In the file these chunks take ${byteText(cost.stored[0])}${absent}.`);
  }
  return words.length ? [`${name}: ${words[0]}`, ...words.slice(1)] : [];
}

function replayedWords(state, model) {
  const reads = state.history.length;
  if (!reads) return [];
  if (!model.replay) return [`The ${count(reads, "read of the history visits", "reads of the history visit")} too many chunks to be played here.`];
  return model.replay.map((rows, k) => {
    const { format } = state.layouts[k];
    const [found, missed, gone, bytes] = [0, 1, 2, 3].map((n) => rows.reduce((sum, row) => sum + row[n], 0));
    const start = `${count(reads, "read")} so far, ${NAMES[k]}:`;
    if (format === "contiguous") return `${start} ${byteText(bytes)}.`;
    if (format === "zarr" || format === "sharded") {
      return `${start} ${count(missed, "chunk")} decoded, ${byteText(bytes)}; zarr-python keeps none of them.`;
    }
    return `${start} ${count(found, "hit")}, ${count(missed, "chunk")} decoded, ${number(gone)} evicted, ${byteText(bytes)}.`;
  });
}

// pressing Read is answered
function lastRead({ shape }, { history, layouts }, { replay: rows }) {
  const n = history.length;
  if (!n || !rows) return [];
  const parts = rows.map((all, k) => `${NAMES[k]}: ${rowWords(layouts[k], all[n - 1])}`);
  return [`Read ${n}, ${boxText(shape, history[n - 1])}: ${parts.join("; ")}.`];
}

function cacheWords(state) {
  if (!shownOf(state).some(isHdf5)) return [];
  if (!state.cache) return ["The chunk cache is off (rdcc_nbytes=0)."];
  return [`Chunk cache: rdcc_nbytes=${state.cache_bytes}, rdcc_nslots=${state.cache_slots}.`];
}

function chunkWords(source, state, model) {
  const { shape } = source;
  const wants = `${source.name}${boxText(shape, model.box)} wants ${byteText(model.wanted_bytes)}.`;
  let walk = [wants, ...model.layouts.map((cost, k) => readsWords(model, cost, NAMES[k])), ...lastRead(source, state, model)].join(" ");
  const words = [`Shape ${tupleText(shape)}, ${source.dtype}, ${byteText(prod(shape) * source.itemsize)}.`,
    ...shownOf(state).map((layout, k) => `${NAMES[k]} is ${layoutName(layout)}.`)];
  if (isSecret(state)) walk = `${wants} How many chunks does A touch? Type it, then press Check.`;
  else {
    words.push(...model.layouts.flatMap((cost, k) => noteWords(state.layouts[k], cost, NAMES[k])));
    words.push(...cacheWords(state), ...replayedWords(state, model));
  }
  const summary = words.join(" ");
  return { walk, summary, alt: `Chunk map. ${summary} ${walk}` };
}

function chunkTable(source, state, model) {
  if (isSecret(state)) return [];
  const row = (head, tell) => [head, ...model.layouts.map((cost, k) => tell(cost, state.layouts[k]))];
  const rows = [
    ["", ...NAMES.slice(0, model.layouts.length)],
    row("layout", (c, layout) => layoutName(layout)),
    row("bytes wanted", () => number(model.wanted_bytes)),
    row("chunks touched", (c) => (c.total ? touches(c) : "no chunks")),
    row("bytes decoded", (c) => number(c.decoded)),
    row("of them outside the array", (c) => number(c.padding)),
    row("decoded per byte wanted", (c) => times(c.decoded, model.wanted_bytes)),
    row("bytes read, stored raw", (c) => number(c.read)),
    row("requests", (c) => (c.requests === null ? "in pieces" : number(c.requests))),
    row("files of the array", (c) => number(c.objects)),
  ];
  (model.replay ? state.history : []).forEach((box, n) => {
    rows.push([`read ${n + 1}: ${boxText(source.shape, box)}`, ...model.replay.map((all, k) => rowWords(state.layouts[k], all[n]))]);
  });
  return rows;
}

function rowWords(layout, [found, missed, gone, bytes]) {
  if (isHdf5(layout)) return `${count(found, "hit")}, ${count(missed, "miss", "misses")}, ${number(gone)} evicted, ${byteText(bytes)}`;
  return layout.format === "contiguous" ? byteText(bytes) : `${number(missed)} decoded, ${byteText(bytes)}`;
}

function chunkCode(source, state, model) {
  const [name, box] = [source.name, boxText(source.shape, model.box)];
  return shownOf(state).flatMap((layout, k) => {
    const [letter, chunks] = ["ab"[k], tupleText(layout.chunks)];
    if (layout.format === "zarr" || layout.format === "sharded") {
      const shards = layout.format === "sharded" ? `, shards=${tupleText(shardsOf(layout))}` : "";
      return [`zarr.create_array("${letter}.zarr", data=${name}, chunks=${chunks}${shards})`,
        `zarr.open_array("${letter}.zarr", mode="r")${box}`];
    }
    const more = { hdf5: `, chunks=${chunks}, compression="gzip"`, raw: `, chunks=${chunks}`, contiguous: "" };
    const cache = `, rdcc_nbytes=${keptOf(state)}, rdcc_nslots=${state.cache_slots}`;
    return [`with h5py.File("${letter}.h5", "w") as f:`,
      `    f.create_dataset("${name}", data=${name}${more[layout.format]})`,
      `with h5py.File("${letter}.h5"${layout.format === "contiguous" ? "" : cache}) as f:`, `    f["${name}"]${box}`];
  }).join("\n");
}

function chunkReason(source, state, model, answer) {
  const [cost, { chunks }] = [model.layouts[0], state.layouts[0]];
  if (answer === cost.count) return "";
  const wanted = model.box.map(sizeOf);
  const beliefs = [
    [cost.touched.reduce((a, b) => a + b, 0), "The chunks of the axes multiply: rows of chunks times columns of chunks."],
    [prod(countsOf(wanted, chunks)), "That is the size divided by the chunk. Where the selection starts counts: it may cross an edge more."],
    [prod(wanted), "That counts elements. A chunk holds many of them."],
    [model.wanted_bytes, "That counts bytes wanted. The question is for chunks."],
    [cost.decoded, "That counts bytes decoded. The question is for chunks."],
    [cost.total, "That is every chunk of the array."],
    [prod(cost.touched.map((t) => t + 1)), "One too many along each axis: the stop is not read any more."],
  ];
  for (const [value, reason] of beliefs) if (answer === value) return reason;
  for (const [axis, t] of cost.touched.entries()) {
    if (answer === prod(cost.touched.filter((_, k) => k !== axis))) {
      return `Axis ${axis} counts too: the selection crosses ${count(t, "chunk")} along it.`;
    }
  }
  if (answer > cost.total) return `The array has only ${count(cost.total, "chunk")}.`;
  const low = answer < cost.count ? "few" : "many";
  return `Too ${low}. For each axis: the chunk of the last index, minus the chunk of the first, plus 1; then multiply.`;
}

// ---- the drawing

const SIDE = 44;
const GAP = 26;
const LEAST_PX = 5;
const BOXES = 1000;
const STRIP_BOXES = 200;
const SLIVERS = 20;
const STRIP_H = 18;
const BAR_H = 14;
const TALL = 340;
const ONE_ROW = { span: 1, box: [0, 1, 1], chunk: 1, grid: 1, fold: 1, per: 0 };

function chunkScene(source, state, model, width) {
  const [room, marks, layouts, maps] = [width - 2 * PAD, [], shownOf(state), []];
  const beside = layouts.length === 2 && room >= 560;
  const wide = beside ? floorDiv(room - GAP, 2) : room;
  const spans = spansOf(source.shape, layouts);
  const title = (k, x, y) => paragraph(marks, x, y, "title", `${NAMES[k]}: ${layoutName(layouts[k])}`, wide);
  const left = (k) => PAD + (beside ? k * (wide + GAP) : 0);
  const tops = beside ? Math.max(...layouts.map((_, k) => title(k, left(k), PAD + 11))) : 0;
  let bottom = PAD - 16;
  layouts.forEach((layout, k) => {
    const y = beside ? tops : title(k, PAD, bottom + 27);
    const [map, below] = drawMap(marks, source, state, model.box, layout, spans, left(k), y, wide);
    maps.push(map);
    bottom = Math.max(bottom, below);
  });
  bottom = paragraph(marks, PAD, bottom + 24, "note", legend(marks), room);
  bottom = drawBars(marks, state, model, room, bottom + 10);
  return { width, height: bottom + PAD, marks, maps };
}

function legend(marks) {
  const has = (role) => marks.some((mark) => mark.role === role);
  const words = ["Full colour: wanted."];
  if (has("chunk")) words.push("Pale with a frame: chunks touched.");
  if (has("beyond")) words.push("Dotted line: the end of the array.");
  if (has("shard")) words.push("Thick line: the edge of a shard.");
  return words.join(" ");
}

function spansOf(shape, layouts) {
  const most = (n, c) => Math.min(ceilDiv(n, c) * c, n + floorDiv(n, 2) + 1);
  const padded = layouts.filter((layout) => layout.format !== "contiguous");
  return shape.map((n, k) => Math.max(n, ...padded.map(({ chunks }) => most(n, chunks[k]))));
}

function drawMap(marks, source, state, box, layout, spans, x, y, wide) {
  const [{ shape }, { plane }] = [source, state];
  const plain = isSecret(state) || layout.format === "contiguous"; // no chunk to be painted
  const [row, col] = plane.length === 1 ? [null, plane[0]] : plane;
  const [left, top, w] = [x + SIDE, y + 28, wide - SIDE];
  const h = row === null ? 40 : Math.max(40, Math.min(TALL, w, floorDiv(w * spans[row], spans[col])));
  const axis = (k, px, most) => axisOf(source, layout, spans, box, k, px, most);
  const rows = row === null ? { ...ONE_ROW, px: h, end: h } : axis(row, h, BOXES);
  const cols = axis(col, w, BOXES);
  foldBoth(rows, cols);
  drawSizes(marks, shape, row, col, x, y + 20, left + cols.end, top + rows.end);
  drawPicture(marks, source, box, plane, left, top, cols.end, rows.end);
  drawBoxes(marks, rows, cols, left, top, plain);
  const strips = [];
  const folded = [];
  let bottom = top + h;
  shape.forEach((_, k) => {
    if (plane.includes(k)) return;
    const strip = axis(k, w, STRIP_BOXES);
    folded.push(strip);
    bottom += 12;
    marks.push(text(x, bottom + 13, "note", `axis ${k}`));
    drawBoxes(marks, { ...ONE_ROW, px: STRIP_H, end: STRIP_H }, strip, left, bottom, plain);
    strips.push({ axis: k, x: left, y: bottom, w, h: STRIP_H });
    bottom += STRIP_H;
  });
  const words = foldWords(row === null ? [cols] : [rows, cols], folded, plain);
  if (words) bottom = paragraph(marks, x, bottom + 17, "note", words, wide);
  return [{ x: left, y: top, w, h, row, col, spans, strips }, bottom];
}

function drawSizes(marks, shape, row, col, x, y, right, bottom) {
  const [across, down] = [number(shape[col]), row === null ? "" : number(shape[row])];
  const beside = down.length * 7 <= SIDE;
  marks.push(text(x, y, "note", row === null ? `axis ${col} →` : `axis ${row} ↓${beside ? "" : ` ${down}`}, axis ${col} →`));
  marks.push(text(right - Math.max(12, floorDiv(across.length * 7, 2)), y, "small", across));
  if (down && beside) marks.push(text(x + floorDiv(SIDE, 2) - 4, bottom - 2, "small", down));
}

function axisOf(source, layout, spans, box, k, px, most) {
  const [n, span] = [source.shape[k], spans[k]];
  const chunk = layout.format === "contiguous" ? n : layout.chunks[k];
  const grid = ceilDiv(n, chunk);
  const per = layout.format === "sharded" ? layout.per[k] : 0;
  let fold = 1;
  while (fold < grid && (px * chunk * fold < LEAST_PX * span || ceilDiv(grid, fold) > most)) fold = coarser({ fold, per, grid });
  return { span, box: box[k], chunk, px, grid, fold, per, end: floorDiv(n * px, span) };
}

// a box is a shard where there is one, so that boxes end where shards do
const coarser = ({ fold, per, grid }) => Math.min(grid, fold < per && per < grid ? per : 2 * fold);

function foldBoth(rows, cols) {
  const boxes = (axis) => ceilDiv(axis.grid, axis.fold);
  while (boxes(rows) * boxes(cols) > BOXES) {
    const longer = boxes(rows) >= boxes(cols) ? rows : cols;
    longer.fold = coarser(longer);
  }
}

function foldWords(axes, strips, plain) {
  const [fold, long] = [axes.map((axis) => axis.fold), new Set(strips.map((strip) => strip.fold))];
  const [words, most] = [[], Math.max(1, ...long)];
  if (Math.max(...fold) > 1) words.push(`Each box stands for ${shapeText(fold)} chunks.`);
  if (most > 1) words.push(`Each box of a strip stands for ${long.size > 1 ? "up to " : ""}${number(most)} chunks.`);
  if (words.length && !plain) words.push("What is touched is drawn to scale.");
  if ([...axes, ...strips].some(isFine)) words.push("Steps too fine to draw are drawn as one.");
  return words.join(" ");
}

function cutsOf({ chunk, fold, grid, span, px, box }) {
  const size = chunk * fold;
  return range(0, ceilDiv(grid, fold)).map((k) => {
    const edge = Math.min((k + 1) * size, grid * chunk, span);
    return [floorDiv(k * size * px, span), floorDiv(edge * px, span), hits(box, k * size, (k + 1) * size) > 0];
  });
}

const isFine = ({ box, px, span }) => (
  sizeOf(box) > 1 && box[2] > 1 && (sizeOf(box) > SLIVERS || box[2] * px < 4 * span));

function sliversOf(axis, unit = 1) {
  const { box, px, span } = axis;
  const ends = box[2] <= unit || isFine(axis) ? [[box[0], lastOf(box)]] : range(...box).map((i) => [i, i]);
  return ends.map(([low, high]) => {
    const first = floorDiv(floorDiv(low, unit) * unit * px, span);
    return [first, Math.max(first + 2, floorDiv(Math.min(span, (floorDiv(high, unit) + 1) * unit) * px, span))];
  });
}

// the touched chunks: the boxes, or, where a box is many chunks, drawn to scale
const touchedOf = (axis, cuts) => (axis.fold > 1 ? sliversOf(axis, axis.chunk) : cuts.filter((cut) => cut[2]));

function rectPath(x, y, across, down) {
  const [w, h] = [across[1] - across[0], down[1] - down[0]];
  return `M${x + across[0]} ${y + down[0]}h${w}v${h}h-${w}z`;
}

function drawBoxes(marks, rows, cols, x, y, plain) {
  const [down, across] = [cutsOf(rows), cutsOf(cols)];
  const all = (those, them) => them.flatMap((b) => those.map((a) => rectPath(x, y, a, b))).join("");
  if (!plain) marks.push(path("chunk", all(touchedOf(cols, across), touchedOf(rows, down))));
  const [w, h] = [across[across.length - 1][1], down[down.length - 1][1]];
  const upright = (at) => `M${x + at} ${y}v${h}`;
  const level = (at) => `M${x} ${y + at}h${w}`;
  const lines = [...across.slice(0, -1).map((a) => upright(a[1])), ...down.slice(0, -1).map((b) => level(b[1]))];
  marks.push(path("grid", `M${x} ${y}h${w}v${h}h-${w}z${lines.join("")}`));
  const shards = [...shardEdges(cols).map(upright), ...shardEdges(rows).map(level)];
  if (shards.length) marks.push(path("shard", shards.join("")));
  if (w > cols.end) marks.push(path("beyond", upright(cols.end)));
  if (h > rows.end) marks.push(path("beyond", level(rows.end)));
  marks.push(path("chosen", all(sliversOf(cols), sliversOf(rows))));
}

function shardEdges({ chunk, per, px, span, grid }) {
  const size = chunk * per;
  if (per === 0 || px * size < LEAST_PX * span) return [];
  return range(size, Math.min(chunk * grid, span), size).map((at) => floorDiv(at * px, span));
}

function drawPicture(marks, source, box, plane, x, y, w, h) {
  const images = source.images.filter((image) => same(image.plane, plane));
  if (!images.length || !w || !h) return;
  const other = source.shape.findIndex((_, k) => !plane.includes(k));
  const far = (image) => Math.abs(image.at - (other < 0 ? 0 : box[other][0]));
  const nearest = images.reduce((best, image) => (far(image) < far(best) ? image : best));
  marks.push({ kind: "image", x, y, w, h, href: nearest.href });
}

function drawBars(marks, state, model, room, y) {
  const wanted = model.wanted_bytes;
  if (isSecret(state)) return paragraph(marks, PAD, y + 12, "note", `Wanted: ${byteText(wanted)}. Decoded: ?`, room);
  const most = Math.max(wanted, ...model.layouts.map((cost) => cost.read));
  y = drawBar(marks, y, room, `Wanted: ${byteText(wanted)}`, [["chosen", wanted]], most);
  model.layouts.forEach((cost, k) => {
    const index = cost.read - cost.decoded;
    const words = `${NAMES[k]} decodes ${byteText(cost.decoded)}, ${times(cost.decoded, wanted)} what is wanted`;
    const useful = Math.min(wanted, cost.read);
    y = drawBar(marks, y, room, words + (index ? `, and reads ${byteText(index)} of index` : ""),
      [["chosen", useful], ["waste", cost.read - useful]], most);
  });
  return y - 8;
}

function drawBar(marks, y, room, words, parts, most) {
  y = paragraph(marks, PAD, y + 12, "words", words, room) + 6;
  let x = PAD;
  for (const [role, amount] of parts) {
    const long = amount ? Math.min(Math.max(2, Math.floor((amount / most) * room)), PAD + room - x) : 0;
    if (long) marks.push(path(role, `M${x} ${y}h${long}v${BAR_H}h-${long}z`));
    x += long;
  }
  return y + BAR_H + 8;
}

// ---- the figure

const PLAIN = { code: false, table: false, predict: false, revealed: false, asked: 0, right: 0 };
const SWEEP = 64; // reads that one press of Sweep adds at most
const MOST_READS = 200;
const CORNER = 14; // pixels around the handle that take hold of it

// the moves of a selection: along an axis, or its end
const MOVES = {
  move({ start, stop }, shape, axis, by) {
    const way = Math.max(-start[axis], Math.min(shape[axis] - stop[axis], by));
    const shift = (values) => values.map((v, k) => (k === axis ? v + way : v));
    return { start: shift(start), stop: shift(stop) };
  },
  resize({ start, stop }, shape, axis, by) {
    const end = Math.max(start[axis] + 1, Math.min(shape[axis], stop[axis] + by));
    return { stop: stop.map((v, k) => (k === axis ? end : v)) };
  },
};
const nudgeOf = (n) => Math.max(1, floorDiv(n, 64));

// the reads that follow the selection along an axis, each as large, the last one perhaps smaller
function sweepOf(state, shape, axis) {
  const [reads, size] = [[], state.stop[axis] - state.start[axis]];
  for (let at = state.start[axis]; at < shape[axis] && reads.length < SWEEP; at += size) {
    reads.push(selectionOf(state).map((b, k) => (k === axis ? [at, Math.min(at + size, shape[axis]), b[2]] : b)));
  }
  return reads;
}

// the k-th question: a box somewhere in the array, the same in every run
function questionOf(shape, k) {
  const at = (n, by) => ((k + 1) * by) % n;
  const box = shape.map((n, axis) => {
    const size = axis < shape.length - 2 ? 1 : 1 + at(Math.max(1, floorDiv(n, 3)), 7919 + 104 * axis);
    const start = at(n - size + 1, 6271 + 977 * axis);
    return [start, start + size, 1];
  });
  return { start: box.map((b) => b[0]), stop: box.map((b) => b[1]), by: box.map((b) => b[2]) };
}

function render({ model, el }) {
  const source = model.get("source");
  const { shape } = source;
  const first = structuredClone(model.get("state"));
  const state = () => model.get("state");
  let [current, feedback, tried, asked, maps] = [chunkModel(source, state()), "", false, "", []];
  const askedNow = () => JSON.stringify([selectionOf(state()), state().layouts[0]]);
  const change = (patch) => (model.set("state", { ...state(), ...patch }), model.save_changes());
  const hide = () => ((feedback = ""), (tried = false), { revealed: false });
  const select = (patch) => change({ ...patch, ...hide() });
  const complain = (words) => shown.complain(words);
  const put = (values, axis, value) => values.map((v, k) => (k === axis ? value : v));
  const group = (name, ...children) => {
    const id = unique("group");
    return [id, node("div", { class: "axis", role: "group", "aria-labelledby": id }, node("span", { id, class: "name" }, name), ...children)];
  };

  // the selection, axis by axis
  const axes = shape.map((n, axis) => {
    const [owner, root] = group(`axis ${axis}`);
    const field = (part, min, max, act, label = part) => stepper(label, {
      tells: `axis ${axis} ${label}`, complain, min, max, owner, act: (v) => select({ [part]: put(state()[part], axis, v), ...act(v) }) });
    const fields = {
      start: field("start", 0, n - 1, (v) => (state().stop[axis] > v ? {} : { stop: put(state().stop, axis, v + 1) })),
      stop: field("stop", 1, n, (v) => (state().start[axis] < v ? {} : { start: put(state().start, axis, v - 1) })),
      by: field("by", 1, n, () => ({}), "step"),
    };
    const sweep = button("Sweep", () => add(sweepOf(state(), shape, axis)), { "aria-label": `Sweep along axis ${axis}` });
    root.append(...Object.values(fields).map((f) => f.root), sweep);
    return { root, update: () => ["start", "stop", "by"].forEach((part) => fields[part].set(state()[part][axis])) };
  });

  // the layouts
  const layouts = [0, 1].map((k) => {
    const [owner, root] = group(NAMES[k]);
    const own = () => state().layouts[k];
    const edit = (patch) => select({ layouts: state().layouts.map((layout, n) => (n === k ? { ...layout, ...patch } : layout)) });
    const id = unique("format");
    const format = node("select", { id, "aria-labelledby": `${owner} ${id}-label`, onchange: () => edit({ format: format.value }) },
      ...Object.entries(FORMATS).map(([value, words]) => node("option", { value }, words)));
    const fields = (part, label, max) => shape.map((n, axis) => stepper(`${label} ${axis}`, {
      tells: `${label} ${axis} of ${NAMES[k]}`, complain, min: 1, max: max(n, axis), owner, act: (v) => edit({ [part]: put(own()[part], axis, v) }) }));
    const chunks = fields("chunks", "chunk", (n, axis) => Math.max(n, own().chunks[axis]));
    const per = fields("per", "per shard", (n) => n);
    const [some, more] = [chunks, per].map((all) => node("span", { class: "sizes" }, ...all.map((f) => f.root)));
    root.append(node("label", { for: id, id: `${id}-label` }, "layout"), format, some, more);
    return {
      root,
      update() {
        root.hidden = k === 1 && !state().compare;
        format.value = own().format;
        some.hidden = own().format === "contiguous";
        more.hidden = own().format !== "sharded";
        shape.forEach((_, axis) => (chunks[axis].set(own().chunks[axis]), per[axis].set(own().per[axis])));
      },
    };
  });

  // the chunk cache and the reads so far
  const add = (reads) => change({ history: [...state().history, ...reads].slice(-MOST_READS) });
  const read = () => isSecret(state()) || add([selectionOf(state())]);
  const cacheOn = toggle("Chunk cache", () => change({ cache: !state().cache }));
  const nbytes = stepper("rdcc_nbytes", { tells: "rdcc_nbytes", complain, min: 1, max: 2 ** 40, step: () => 65536, act: (v) => change({ cache_bytes: v }) });
  const slots = stepper("rdcc_nslots", { tells: "rdcc_nslots", complain, min: 1, max: 1e6, act: (v) => change({ cache_slots: v }) });
  const clear = button("Clear reads", () => change({ history: [] }));
  const [, reads] = group("reads", node("span", { class: "together" }, button("Read", read), clear), cacheOn, nbytes.root, slots.root);
  nbytes.root.className = "field";

  const planes = shape.flatMap((_, r) => range(r + 1, shape.length).map((c) => [r, c]));
  const planeId = unique("plane");
  const plane = node("select", { id: planeId, onchange: () => change({ plane: plane.value.split(",").map(Number) }) },
    ...planes.map((p) => node("option", { value: p.join() }, `axes ${p.join(" and ")}`)));
  const drawn = node("span", { class: "together", hidden: planes.length < 2 }, node("label", { for: planeId }, "drawn"), plane);
  const toggles = ["compare", "predict", "table", "code"].map((part) => [part, toggle(part[0].toUpperCase() + part.slice(1), () => (
    part === "predict" ? select({ predict: !state().predict, ...(state().predict ? {} : questionOf(shape, 0)) }) : change({ [part]: !state()[part] })))]);
  const bar = node("div", { class: "bar" }, drawn, ...toggles.map(([, made]) => made),
    button("Reset", () => (change({ ...first, ...PLAIN, ...hide() }), shown.redraw())));

  // predicting
  const askId = unique("ask");
  const answer = node("input", { type: "number", id: askId, step: "any", autocomplete: "off",
    onkeydown: (event) => event.key === "Enter" && !event.shiftKey && check() });
  const next = button("Next", () => {
    answer.value = "";
    select(questionOf(shape, state().asked));
    answer.focus();
  });
  const ask = node("div", { class: "bar ask", hidden: true }, node("label", { for: askId }, "Chunks that A touches"), answer,
    button("Check", () => check()), button("Show", () => ((feedback = ""), (tried = true), change({ revealed: true }))), next);
  function check() {
    asked = askedNow();
    if (!wholeNumber(answer.value)) {
      feedback = "Type how many chunks, a whole number. ";
      return shown.redraw();
    }
    const why = chunkReason(source, state(), current, Number(answer.value));
    const score = scoreOf(state(), tried, !why);
    tried = true;
    feedback = why ? `${number(Number(answer.value))} is not it. ${why} ` : rightWords({ ...state(), ...score });
    change({ ...score, revealed: state().revealed || !why });
    shown.redraw(); // a second wrong answer changes no state, only what is said
  }

  const numbers = node("div", { class: "numbers" });
  function tabulate() {
    const rows = state().table ? chunkTable(source, state(), current) : [];
    numbers.hidden = !rows.length;
    const line = (row, head) => node("tr", {}, ...row.map((words, k) => (
      k && !head ? node("td", {}, words) : node(head && !k ? "td" : "th", { scope: head ? "col" : "row" }, words))));
    numbers.replaceChildren(...(rows.length ? [node("table", {}, node("caption", {}, "The same numbers"),
      node("thead", {}, line(rows[0], true)), node("tbody", {}, ...rows.slice(1).map((row) => line(row))))] : []));
  }

  // the drawing: one stop for Tab, whose keys move the selection; dragging does the same
  const [backdrop, ring] = [svgNode("g", { class: "backdrop", "aria-hidden": "true" }), ringNode()];
  const view = svgNode("g", { class: "view", role: "application", tabindex: "0" });
  const flat = () => state().plane.length === 1;
  const [rowOf, colOf] = [() => (flat() ? null : state().plane[0]), () => state().plane[state().plane.length - 1]];
  const depth = () => shape.findIndex((_, k) => !state().plane.includes(k));
  view.addEventListener("keydown", (event) => {
    const [row, col, deep] = [rowOf(), colOf(), depth()];
    if (event.key === "Enter" && !event.shiftKey) return read();
    const ways = {
      ArrowRight: [col, nudgeOf(shape[col])], ArrowLeft: [col, -nudgeOf(shape[col])], ArrowDown: [row, nudgeOf(shape[row])],
      ArrowUp: [row, -nudgeOf(shape[row])], Home: [col, -shape[col]], End: [col, shape[col]],
      PageDown: [deep, 1], PageUp: [deep, -1],
    };
    if (!ways[event.key] || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const [axis, by] = ways[event.key];
    if (axis !== null && axis >= 0) select(MOVES[event.shiftKey ? "resize" : "move"](state(), shape, axis, by));
  });

  let grip = null; // what a drag holds: axes with their pixels, how it moves them, and where it began
  const elementAt = ({ axis, from, px }, at) => Math.max(0, Math.min(shape[axis] - 1, floorDiv((at - from) * maps[0].spans[axis], px)));
  const pointOf = (event) => {
    const at = backdrop.ownerSVGElement.getBoundingClientRect();
    return [event.clientX - at.left, event.clientY - at.top];
  };
  const within = (area, [x, y]) => x >= area.x - 2 && x <= area.x + area.w + 8 && y >= area.y - 2 && y <= area.y + area.h + 8;
  function sidesAt(point) {
    for (const map of maps) {
      const strip = map.strips.find((area) => within(area, point));
      if (strip) return [{ axis: strip.axis, from: strip.x, px: strip.w, at: 0, strip: true }];
      if (!within(map, point)) continue;
      const sides = [{ axis: map.col, from: map.x, px: map.w, at: 0 }];
      return map.row === null ? sides : [...sides, { axis: map.row, from: map.y, px: map.h, at: 1 }];
    }
    return null;
  }
  const endOf = ({ axis, from, px }) => from + floorDiv(state().stop[axis] * px, maps[0].spans[axis]);
  // the handle lies on the corner, and beside a selection that it would cover
  const handleAt = (side) => {
    const size = floorDiv((state().stop[side.axis] - state().start[side.axis]) * side.px, maps[0].spans[side.axis]);
    return endOf(side) - Math.min(5, floorDiv(size, 2) - 2);
  };
  view.addEventListener("pointerdown", (event) => {
    const point = pointOf(event);
    const sides = sidesAt(point);
    if (!sides || event.button) return;
    event.preventDefault();
    view.focus();
    view.setPointerCapture(event.pointerId);
    const inside = sides.every((side) => {
      const at = elementAt(side, point[side.at]);
      return state().start[side.axis] <= at && at < state().stop[side.axis];
    });
    // all of a small selection is near its corner: there the handle's outer half takes hold of it; strips have none
    const roomy = sides.every(({ axis, px }) => (state().stop[axis] - state().start[axis]) * px > 2 * CORNER * maps[0].spans[axis]);
    const corner = (roomy || !inside) && sides.every((side) => !side.strip && Math.abs(endOf(side) - point[side.at]) <= CORNER);
    grip = { sides, how: corner ? "resize" : "move", last: sides.map((side) => elementAt(side, point[side.at])) };
    if (corner || inside) return;
    let next = state(); // a press elsewhere brings the middle of the selection there
    sides.forEach(({ axis }, k) => {
      const middle = floorDiv(next.start[axis] + next.stop[axis], 2);
      next = { ...next, ...MOVES.move(next, shape, axis, grip.last[k] - middle) };
    });
    select({ start: next.start, stop: next.stop });
  });
  view.addEventListener("pointermove", (event) => {
    if (!grip) return;
    const point = pointOf(event);
    let [next, moved] = [state(), false];
    grip.sides.forEach((side, k) => {
      const at = elementAt(side, point[side.at]);
      const by = grip.how === "resize" ? at + 1 - next.stop[side.axis] : at - grip.last[k];
      if (!by) return;
      [grip.last[k], moved] = [at, true];
      next = { ...next, ...MOVES[grip.how](next, shape, side.axis, by) };
    });
    if (moved) select({ start: next.start, stop: next.stop });
  });
  for (const name of ["pointerup", "pointercancel"]) view.addEventListener(name, () => (grip = null));

  const drawMark = (mark) => (mark.kind === "image" ? svgNode("image", { ...mark, kind: null, width: mark.w, height: mark.h,
    w: null, h: null, preserveAspectRatio: "none" }) : markNode(mark));
  function paint(drawing, scene) {
    repaint(backdrop, scene.marks, drawMark);
    const areas = scene.maps.flatMap((map) => [map, ...map.strips]);
    const handles = scene.maps.map((map) => [handleAt({ axis: map.col, from: map.x, px: map.w }),
      map.row === null ? map.y + map.h - 5 : handleAt({ axis: map.row, from: map.y, px: map.h })]);
    view.replaceChildren(
      ...areas.map(({ x, y, w, h }) => svgNode("rect", { class: "area", x, y, width: w, height: h })),
      ...handles.map(([x, y]) => svgNode("rect", { class: "handle", x, y, width: 10, height: 10 })));
    const deep = depth() < 0 ? "" : `, Page Up and Page Down along axis ${depth()}`;
    view.setAttribute("aria-label", `Selection ${boxText(shape, current.box)}: arrow keys move it${deep}, ` +
      "with Shift they resize it, Enter reads it");
    const { x, y, w, h } = scene.maps[0];
    moveRing(ring, { x, y, w, h });
    if (!view.parentNode) drawing.append(backdrop, view, ring);
  }

  const shown = frame({
    model, el, kind: "chunks", title: "Chunk map",
    parts: {
      note: `${source.name}: ${tupleText(shape)}, ${source.dtype}, ${byteText(prod(shape) * source.itemsize)}`,
      controls: [node("div", { class: "axes narrow" }, ...axes.map((a) => a.root)),
        node("div", { class: "axes narrow" }, ...layouts.map((l) => l.root)), node("div", { class: "axes" }, reads), bar],
      after: [ask, numbers], paint,
      draw(width) {
        const s = state();
        current = chunkModel(source, s);
        [...axes, ...layouts].forEach((part) => part.update());
        nbytes.set(s.cache_bytes), slots.set(s.cache_slots);
        cacheOn.setAttribute("aria-pressed", String(s.cache));
        cacheOn.hidden = !shownOf(s).some(isHdf5); // zarr has none to set
        nbytes.root.hidden = slots.root.hidden = cacheOn.hidden || !s.cache;
        clear.disabled = !s.history.length;
        plane.value = s.plane.join();
        toggles.forEach(([part, made]) => made.setAttribute("aria-pressed", String(Boolean(s[part]))));
        ask.hidden = !s.predict;
        tabulate();
        const scene = chunkScene(source, s, current, width);
        maps = scene.maps;
        return scene;
      },
      words() {
        const words = chunkWords(source, state(), current);
        if (!state().predict || !feedback || asked !== askedNow()) return words;
        return { ...words, walk: state().revealed ? feedback + words.walk : feedback.trim() };
      },
      code: () => chunkCode(source, state(), current),
    },
  });
  return shown.stop;
}

export default { render, pure: { chunkModel, chunkWords, chunkCode, chunkReason, chunkTable, chunkScene, sweepOf, questionOf, MOVES } };
