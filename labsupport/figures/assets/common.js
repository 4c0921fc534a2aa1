// What every figure shares: words, marks, layout (the same as words.py and picture.py), and the frame around a drawing.

const number = (n) => String(n).replace("-", "−").replace(/\B(?=(\d{3})+$)/g, ",");
const count = (n, noun, plural) => `${number(n)} ${n === 1 ? noun : plural || noun + "s"}`;
const UNITS = [[1e9, "GB"], [1e12, "TB"], [1e15, "PB"], [1e18, "EB"]];
function byteText(n) {
  if (n < 1e9) return count(n, "byte");
  const [unit, name] = UNITS.find(([u]) => n < 1000 * u) || UNITS[3];
  const tenths = Math.floor(n / (unit / 10) + 0.5);
  return `${number(floorDiv(tenths, 10))}.${tenths % 10} ${name}`;
}
function shortBytes(n) {
  if (n < 10000) return `${number(n)} B`;
  const [unit, name] = [[1e3, "kB"], [1e6, "MB"], ...UNITS].find(([u]) => n < 1000 * u) || UNITS[3];
  const tenths = Math.floor(n / (unit / 10) + 0.5);
  return tenths < 100 ? `${floorDiv(tenths, 10)}.${tenths % 10} ${name}` : `${Math.floor(n / unit + 0.5)} ${name}`;
}
const joinWords = (w) => (w.length > 1 ? `${w.slice(0, -1).join(", ")} and ${w[w.length - 1]}` : w.join(""));
const tupleText = (v) => (v.length === 1 ? `(${v[0]},)` : `(${v.join(", ")})`);
const brackets = (index) => (index.length ? `[${index.join(", ")}]` : "[()]");
const shortName = (name) => (name.length > 24 ? `${name.slice(0, 23)}…` : name);
const shapeText = (shape) => (shape.length ? shape.map(number).join(" × ") : "no axes");
const prod = (values) => values.reduce((a, b) => a * b, 1);
const floorDiv = (a, b) => Math.floor(a / b);
const same = (a, b) => a.length === b.length && a.every((v, k) => v === b[k]);

// every index of a shape, last axis fastest
function indices(shape) {
  let all = [[]];
  for (const n of shape) all = all.flatMap((index) => Array.from({ length: n }, (_, i) => [...index, i]));
  return all;
}

const PAD = 14;
const HEAD = 28;
const TOP = 18;
const BLOCK_GAP = 20;

const cell = (name, x, y, w, h, role, lines) => ({ kind: "cell", name, x, y, w, h, role, lines });
const text = (x, y, style, words) => ({ kind: "text", x, y, style, text: words });
const path = (role, d) => ({ kind: "path", role, d });
function paragraph(marks, x, y, style, words, room, line = 18) {
  const [lines, most] = [[""], Math.max(8, floorDiv(room * 10, 76))];
  for (const word of words.split(" ").flatMap((w) => w.match(RegExp(`.{1,${most}}`, "g")) || [""])) {
    const last = lines[lines.length - 1];
    if (last && last.length + 1 + word.length > most) lines.push(word);
    else lines[lines.length - 1] = last ? `${last} ${word}` : word;
  }
  lines.forEach((t, k) => marks.push(text(x, y + k * line, style, t)));
  return y + (lines.length - 1) * line;
}
// Chinese, Japanese and Korean letters and emoji take the room of two
const WIDE = /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\uff00-\uff60\u{1f000}-\u{1faff}]/gu;
const columns = (words) => [...words].length + (words.match(WIDE) || []).length;
const longest = (texts) => texts.reduce((most, t) => Math.max(most, columns(t)), 0);
const cellWidth = (labels, notes, least = 44) => Math.max(least, longest(labels) * 8 + 14, longest(notes) * 7 + 10);

function gridOf(shape, x0, y0, room, cw, ch) {
  const lead = shape.slice(0, -2);
  const cols = shape.length ? shape[shape.length - 1] : 1;
  const rows = shape.length >= 2 ? shape[shape.length - 2] : 1;
  if (shape.includes(0)) return { places: [], heads: [text(x0, y0 + 14, "note", "no elements")], w: 120, h: 24 };
  const head = shape.length >= 2 ? HEAD : 0;
  let per = Math.max(1, Math.min(cols, floorDiv(room - head, cw)));
  const bands = Math.ceil(cols / per);
  per = Math.ceil(cols / bands);
  const bandH = TOP + rows * ch;
  const titleH = lead.length ? TOP : 0;
  const blockW = head + per * cw;
  const blockH = titleH + bands * bandH + (bands - 1) * 6;
  const wholeRow = lead.length === 2 && lead[1] * (blockW + BLOCK_GAP) - BLOCK_GAP <= room;
  const places = [];
  const heads = [];
  let [x, y, right] = [x0, y0, x0];
  indices(lead).forEach((index, k) => {
    const newRow = wholeRow && k && index[1] === 0;
    if (newRow || x + blockW > x0 + Math.max(room, blockW)) [x, y] = [x0, y + blockH + 10];
    if (lead.length) heads.push(text(x, y + 12, "note", `[${index.join(", ")}, :, :]`));
    block(places, heads, x, y + titleH, [rows, cols, per, bandH], [head, cw, ch], shape.length > 0);
    right = Math.max(right, x + blockW);
    x += blockW + BLOCK_GAP;
  });
  return { places, heads, w: right - x0, h: y + blockH - y0 };
}

function block(places, heads, x, y, [rows, cols, per, bandH], [head, cw, ch], numbered) {
  const bandTop = (c) => y + floorDiv(c, per) * (bandH + 6);
  for (let c = 0; c < (numbered ? cols : 0); c++) {
    heads.push(text(x + head + (c % per) * cw + floorDiv(cw, 2) - 1, bandTop(c) + 13, "small", String(c)));
  }
  for (let r = 0; r < rows; r++) {
    for (let band = 0; band < (head ? Math.ceil(cols / per) : 0); band++) {
      heads.push(text(x + 13, bandTop(band * per) + TOP + r * ch + floorDiv(ch, 2) + 3, "small", String(r)));
    }
    for (let c = 0; c < cols; c++) places.push([x + head + (c % per) * cw, bandTop(c) + TOP + r * ch]);
  }
}

function cellLines(mark) {
  const middle = mark.x + floorDiv(mark.w, 2);
  if (mark.lines.length === 1 || !mark.lines[1]) return [[middle, mark.y + floorDiv(mark.h, 2) + 5, mark.lines[0]]];
  return [[middle, mark.y + 17, mark.lines[0]], [middle, mark.y + 32, mark.lines[1]]];
}

// ---- elements

// every figure loads its own copy of this module: the counter is the page's, so that no id is given twice
function unique(stem) {
  globalThis.labFigureIds = (globalThis.labFigureIds || 0) + 1;
  return `lab-${stem}-${globalThis.labFigureIds}`;
}

function node(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== false && value != null) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

function svgNode(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) if (value != null) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function textNode(x, y, style, words) {
  return svgNode("text", { x, y, class: `text-${style}` }, words);
}

function markNode(mark) {
  if (mark.kind === "text") return textNode(mark.x, mark.y, mark.style, mark.text);
  if (mark.kind === "path") return svgNode("path", { d: mark.d, class: `path-${mark.role}` });
  const role = mark.role.replace(/[~!]$/, "");
  const weight = mark.role.endsWith("!") ? " thick" : mark.role.endsWith("~") ? " dashed" : "";
  const made = svgNode("g", { class: `cell role-${role}${weight}`, "data-name": mark.name });
  made.append(svgNode("rect", { x: mark.x + 0.5, y: mark.y + 0.5, width: mark.w, height: mark.h }));
  cellLines(mark).forEach(([x, y, words], k) => words && made.append(textNode(x, y, k ? "small" : "value", words)));
  return made;
}

// draw marks into a group; a node whose mark is the same as last time stays, so that a key press changes few of them
function repaint(parent, marks, make = markNode) {
  const [keys, old] = [marks.map((mark) => JSON.stringify(mark)), parent.drawn || []];
  keys.forEach((key, k) => {
    if (old[k] === key) return;
    const made = make(marks[k]);
    if (k < old.length) parent.childNodes[k].replaceWith(made);
    else parent.append(made);
  });
  while (parent.childNodes.length > keys.length) parent.lastChild.remove();
  parent.drawn = keys;
}

// the elements one can walk through: one stop for Tab, one option per mark
function optionNode(mark) {
  const made = markNode(mark);
  made.setAttribute("role", "option");
  made.setAttribute("id", mark.id);
  made.setAttribute("aria-label", mark.label);
  made.setAttribute("aria-selected", String(mark.chosen));
  return made;
}

// the focus ring lies round the chosen element, above its neighbours; null when there is none
const ringNode = () => svgNode("rect", { class: "ring", "aria-hidden": "true" });
function moveRing(ring, mark) {
  ring.setAttribute("visibility", mark ? "inherit" : "hidden");
  if (!mark) return;
  const box = { x: mark.x - 3.5, y: mark.y - 3.5, width: mark.w + 8, height: mark.h + 8 };
  for (const [key, value] of Object.entries(box)) ring.setAttribute(key, value);
}

// call `act` with the name of the cell that was clicked
function onCellClick(group, act) {
  group.addEventListener("click", (event) => {
    const clicked = event.target.closest(".cell");
    if (clicked) act(clicked.dataset.name);
  });
}

// the index an arrow key leads to from `index`, or null for any other key
function walkKey(key, shape, index) {
  const last = shape.length - 1;
  const [row, block] = [Math.max(0, last - 1), Math.max(0, last - 2)];
  const moves = {
    ArrowRight: [last, 1], ArrowLeft: [last, -1], ArrowDown: [row, 1], ArrowUp: [row, -1],
    Home: [last, -shape[last]], End: [last, shape[last]], PageDown: [block, 1], PageUp: [block, -1],
  };
  if (!moves[key] || last < 0) return null;
  const [axis, by] = moves[key];
  return index.map((i, k) => (k === axis ? Math.max(0, Math.min(shape[k] - 1, i + by)) : i));
}

const button = (words, act, more = {}) => node("button", { type: "button", onclick: act, ...more }, words);
// the label keeps the check mark of the pressed state out of the button's name
const toggle = (words, act) => button(words, act, { "aria-pressed": "false", "aria-label": words });
const wholeNumber = (raw) => raw !== "" && Number.isInteger(Number(raw));

// a prediction counts once, at its first try and before it was shown
const scoreOf = (state, tried, right) => (
  tried || state.revealed ? {} : { asked: state.asked + 1, right: state.right + (right ? 1 : 0) });
const rightWords = ({ right, asked }) => (asked ? `Right: ${right} of ${asked} at the first try. ` : "Right. ");

// a number field with a visible label and two buttons; the buttons are for the mouse, the arrow keys do the same;
// `tells` names it in full, `complain` is told what is allowed when the field holds something else, and "" after that
function stepper(label, { tells, complain, step = () => 1, min = -1e9, max = 1e9, owner = null, act }) {
  let kept = 0;
  const id = unique("field");
  const input = node("input", {
    type: "number", id, step: "any", min, max, autocomplete: "off", oninput: () => commit(input.value),
    onkeydown: (event) => {
      const way = { ArrowUp: 1, ArrowDown: -1 }[event.key];
      if (way) event.preventDefault(), move(way);
    },
  });
  const caption = node("label", { for: id, id: id + "-label" }, label);
  if (owner) input.setAttribute("aria-labelledby", `${owner} ${id}-label`);
  function commit(raw) {
    const value = Number(raw);
    if (!wholeNumber(raw) || value < min || value > max) {
      input.setAttribute("aria-invalid", "true");
      const range = `a whole number from ${number(min)} to ${number(max)}`;
      return complain(`The ${tells} takes ${range}. The drawing stays at ${number(kept)}.`);
    }
    if (input.hasAttribute("aria-invalid")) input.removeAttribute("aria-invalid"), complain("");
    act(value);
  }
  function move(way) {
    const next = Math.min(max, Math.max(min, (wholeNumber(input.value) ? Number(input.value) : kept) + way * step()));
    input.value = next;
    commit(String(next));
  }
  const nudge = (words, way, name) =>
    button(words, () => move(way), { tabindex: "-1", "aria-label": `${name} ${tells}`, class: "nudge" });
  const root = node("span", { class: "field" }, caption, nudge("−", -1, "decrease"), input, nudge("+", 1, "increase"));
  return {
    root, input,
    set(value) {
      kept = value;
      if (Number(input.value) !== value || input.value === "") input.value = value;
      input.style.minWidth = `${input.value.length + 2}ch`;
      input.removeAttribute("aria-invalid");
    },
  };
}

// ---- the frame: theme, keyboard shield, status, code, width, the still picture

function themeOf() {
  const lab = document.body.getAttribute("data-jp-theme-light");
  if (lab !== null) return lab === "false" ? "dark" : "light";
  const code = document.body.getAttribute("data-vscode-theme-kind");
  if (code) return code.includes("light") ? "light" : "dark";
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

// keys stay inside the figure, so that Lab does not take "d d" for "delete this cell";
// Escape, Shift+Enter and anything with Ctrl or Meta still reach Lab
function shield(root) {
  root.addEventListener("keydown", (event) => {
    const passes = event.ctrlKey || event.metaKey || event.key === "Escape" || (event.shiftKey && event.key === "Enter");
    if (!passes) event.stopPropagation();
  });
}

function hideStill(root, figure) {
  const area = root.closest(".jp-OutputArea, .output_area, .cell-output") || document;
  for (const still of area.querySelectorAll(`img[data-figure="${figure}"]`)) {
    const row = still.closest(".jp-OutputArea-child") || still;
    row.style.display = "none";
    row.dataset.still = "hidden";
  }
}

// `parts` gives note, controls (nodes above the drawing), stage (a node for the drawing, or none), after (nodes below it),
// draw(width) -> scene, paint(drawing, scene), words() and code(); it is drawn again when the state or the width changes
function frame({ model, el, kind, title, parts }) {
  const stop = [];
  const id = unique(kind);
  const drawing = svgNode("svg", { class: "drawing" });
  const said = node("p", { class: "said", role: "status", "aria-live": "polite" });
  const summary = node("p", { class: "summary" });
  const code = node("pre", { class: "code", hidden: true, role: "group", "aria-label": "the same in code" });
  const root = node("div", { class: "lab-figure", "data-kind": kind, role: "group", "aria-labelledby": id });
  const heading = node("p", { class: "title" }, node("strong", { id }, title), node("span", {}, parts.note));
  if (parts.stage) parts.stage.append(drawing);
  root.append(heading, ...parts.controls, parts.stage || drawing, said, ...parts.after, summary, code);
  el.replaceChildren(root);
  shield(root);

  const width = () => Math.max(260, Math.min(960, Math.floor(root.clientWidth - 2)));
  function redraw() {
    const scene = parts.draw(width());
    parts.paint(drawing, scene);
    drawing.setAttribute("width", scene.width);
    drawing.setAttribute("height", scene.height);
    const words = parts.words();
    say(words.walk);
    summary.textContent = words.summary;
    code.textContent = parts.code();
    code.hidden = !model.get("state").code || !code.textContent;
    root.dataset.state = JSON.stringify(model.get("state"));
    root.dataset.revision = Number(root.dataset.revision || 0) + 1;
  }
  function say(words) {
    if (said.textContent !== words) said.textContent = words;
    if (model.get("said") !== words) model.set("said", words), model.save_changes();
  }
  // says what is wrong with a field, and leaves the drawing and the field alone; "" goes back to the drawing's words
  const complain = (words) => say(words || parts.words().walk);
  const paintTheme = () => (root.dataset.theme = themeOf());
  paintTheme();
  const watcher = new MutationObserver(paintTheme);
  watcher.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light", "data-vscode-theme-kind"] });
  const system = matchMedia("(prefers-color-scheme: dark)");
  system.addEventListener("change", paintTheme);
  let drawn = 0;
  const sizes = new ResizeObserver(() => {
    if (!root.clientWidth || width() === drawn) return; // not on screen: the width is not known yet
    drawn = width();
    redraw();
    root.dataset.ready = "true";
    hideStill(root, model.get("source").figure);
  });
  sizes.observe(root);
  model.on("change:state", redraw);
  stop.push(() => watcher.disconnect(), () => sizes.disconnect(), () => model.off("change:state", redraw));
  stop.push(() => system.removeEventListener("change", paintTheme));
  return { redraw, complain, stop: () => stop.forEach((act) => act()) };
}
