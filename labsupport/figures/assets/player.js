// The player: steps through a film that was drawn in Python; film.py says what a film is.

const REST_MS = 1400; // between two steps while playing: slower than anything that could flash
const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const capital = (words) => words.slice(0, 1).toUpperCase() + words.slice(1);

function markAt(kind, name, place, look) {
  if (kind === "cell") {
    const [x, y, w, h] = place;
    return { kind, name, x, y, w, h, role: look[0], lines: look[1] };
  }
  if (kind === "text") return { kind, name, x: place[0], y: place[1], style: look[0], text: look[1] };
  return { kind, name, d: place, role: look[0] };
}

function marksAt(film, step, layout) {
  const looks = [];
  for (const { changes } of film.frames.slice(0, step + 1)) {
    for (let k = 0; k < changes.length; k += 2) looks[changes[k]] = changes[k + 1];
  }
  return film.marks.flatMap(([kind, name, ...places], k) => (
    (looks[k] ?? -1) < 0 || places[layout] === null ? [] : [markAt(kind, name, places[layout], film.looks[looks[k]])]));
}

function sceneAt(film, step, width) {
  const layout = Math.max(0, film.widths.filter((w) => w <= width).length - 1);
  return { width: film.widths[layout], height: film.heights[layout], marks: marksAt(film, step, layout) };
}

// what is wrong with a prediction of the next step; "" when it is right, null when none is asked
function reasonFor(film, step, answer) {
  const { verdicts } = film.frames[step];
  if (!verdicts) return null;
  const place = film.ask.fields.reduce((at, field, n) => at * field.options.length + answer[n], 0);
  const letters = verdicts.replace(/([A-Za-z])(\d+)/g, (_, letter, n) => letter.repeat(Number(n)));
  const words = film.ask.reasons[LETTERS.indexOf(letters[place])];
  return film.ask.fields.reduce((said, field, n) => said.replaceAll(`{${n}}`, field.options[answer[n]]), words);
}

function walkOf(film, state) {
  const frame = film.frames[state.step];
  const asks = state.predict && frame.verdicts ? ` ${film.ask.prompt}` : "";
  return `${capital(frame.title)}. ${frame.words}${asks}`;
}

function tableNode(film) {
  const { caption, head, rows } = film.table;
  const cells = (tag, words) => words.map((w) => node(tag, tag === "th" ? { scope: "col" } : { class: w.length <= 14 && "short" }, w));
  const body = rows.map((row) => node("tr", {}, ...cells("td", row)));
  const table = node("table", {}, node("caption", {}, caption), node("thead", {}, node("tr", {}, ...cells("th", head))),
    node("tbody", {}, ...body));
  // wider than the page it scrolls, and what scrolls must be reachable by keyboard
  return [node("div", { class: "sheet", hidden: true, tabindex: "0", role: "group", "aria-label": caption }, table), body];
}

function render({ model, el }) {
  const { film } = model.get("source");
  const state = () => model.get("state");
  const last = film.frames.length - 1;
  let [timer, tried] = [null, false];
  let feedback = { step: 0, words: "" }; // what is said first, as long as this step is shown
  const change = (patch) => (model.set("state", { ...state(), ...patch }), model.save_changes());
  const open = () => (state().predict ? state().seen : last); // the last step that may be looked at

  function go(step, patch = {}, words = "") {
    tried = false;
    say(step, words);
    change({ step, seen: Math.max(state().predict ? state().seen : 0, step), ...patch });
  }
  const say = (step, words, alone = false) => (feedback = { step, words, alone });
  function move(step) {
    const to = Math.max(0, Math.min(step, open()));
    const words = step > to ? "The next step is not shown yet: answer first, or press Show. " : "";
    if (to !== state().step) go(to, {}, words);
    else say(to, words), shown.redraw();
  }

  // a control that can do nothing now stays in the order of Tab, so that the focus is not lost to the page
  const control = (words, act) => button(words, (event) => event.currentTarget.ariaDisabled !== "true" && act());
  const able = (made, can) => made.setAttribute("aria-disabled", String(!can));
  const halt = () => (clearTimeout(timer), (timer = null), (play.textContent = "Play"));
  const manual = (act) => () => (halt(), act());
  const first = control("First", manual(() => move(0)));
  const back = control("Back", manual(() => move(state().step - 1)));
  const next = control("Next", manual(() => move(state().step + 1)));
  const end = control("Last", manual(() => move(last)));
  const play = control("Play", () => {
    if (timer) return halt();
    play.textContent = "Pause";
    if (state().step >= open()) go(0);
    timer = setTimeout(tick, REST_MS);
  });
  function tick() {
    if (!el.isConnected) return halt();
    move(state().step + 1);
    timer = state().step < open() ? setTimeout(tick, REST_MS) : halt() && null;
  }

  const sliderId = unique("slider");
  const slider = node("input", { type: "range", id: sliderId, min: 0, max: last, step: 1,
    oninput: () => (halt(), move(Number(slider.value)), update()) });
  const where = node("span", { class: "where", "aria-hidden": "true" });
  const predict = toggle("Predict", () => go(state().step, { predict: !state().predict, seen: state().step }));
  const code = toggle("Code", () => change({ code: !state().code }));
  const table = toggle("Table", () => change({ table: !state().table }));
  const toggles = node("span", { class: "together" }, ...(film.ask ? [predict] : []),
    ...(film.frames.some((f) => f.code) ? [code] : []), ...(film.table ? [table] : []));
  const steps = node("span", { class: "together steps" }, first, back, play, next, end);
  const bar = node("div", { class: "bar" }, ...(last ? [steps] : []), toggles);
  const track = node("div", { class: "bar track" }, node("label", { for: sliderId }, film.slider), slider, where);

  const fields = (film.ask ? film.ask.fields : []).map((field) => {
    const id = unique("ask");
    const select = node("select", { id }, ...field.options.map((words, k) => node("option", { value: k }, words)));
    return { select, root: node("span", { class: "field" }, node("label", { for: id }, field.label), select) };
  });
  const ask = node("div", { class: "bar ask", hidden: true, role: "group", "aria-label": "Prediction" },
    ...fields.map((f) => f.root), button("Check", () => check()), button("Show", () => go(state().step + 1)));
  function check() {
    const { step } = state();
    const why = reasonFor(film, step, fields.map((f) => Number(f.select.value)));
    const score = scoreOf({ ...state(), revealed: step < state().seen }, tried, !why);
    if (!why) return go(step + 1, score, rightWords({ ...state(), ...score }));
    tried = true;
    say(step, `${why} `, true);
    change(score);
    shown.redraw(); // a second wrong answer changes no state, only what is said
  }

  const [sheet, rows] = film.table ? tableNode(film) : [null, []];
  function update() {
    const { step, seen } = state();
    for (const [made, can] of [[first, step > 0], [back, step > 0], [next, step < open()], [end, step < open()], [play, open() > 0]]) {
      able(made, can);
    }
    slider.value = step;
    slider.setAttribute("aria-valuetext", film.frames[step].title);
    const { title, place } = film.frames[step];
    where.textContent = capital(title) + (place && ` (${place})`);
    for (const [made, key] of [[predict, "predict"], [code, "code"], [table, "table"]]) {
      made.setAttribute("aria-pressed", String(Boolean(state()[key])));
    }
    ask.hidden = !state().predict || !film.frames[step].verdicts;
    if (sheet) sheet.hidden = !state().table;
    rows.forEach((row, k) => {
      row.hidden = state().predict && film.table.shown[k] > seen;
      row.className = film.table.shown[k] === step && step ? "now" : "";
    });
  }

  const marks = svgNode("g");
  const stage = node("div", { class: "stage" });
  const shown = frame({
    model, el, kind: film.kind, title: film.title,
    parts: {
      note: film.note, stage, controls: last ? [bar, track] : [bar], after: [ask, ...(sheet ? [sheet] : [])],
      paint(drawing, scene) {
        if (!marks.parentNode) drawing.append(marks);
        drawing.setAttribute("role", "img");
        drawing.setAttribute("aria-label", `${film.title}: ${film.frames[state().step].title}`);
        repaint(marks, scene.marks);
        // a drawing wider than its place scrolls, and what scrolls must be reachable by keyboard
        if (scene.width > stage.clientWidth + 1) stage.setAttribute("tabindex", "0");
        else stage.removeAttribute("tabindex");
      },
      draw(width) {
        update();
        return sceneAt(film, state().step, width);
      },
      words() {
        const words = feedback.step === state().step ? feedback.words : "";
        const walk = feedback.alone && words ? words + film.ask.prompt : words + walkOf(film, state());
        return { walk, summary: film.summary };
      },
      code: () => film.frames[state().step].code || "# this step has no code of its own",
    },
  });
  return () => (halt(), shown.stop());
}

export default { render, pure: { marksAt, sceneAt, reasonFor, walkOf } };
