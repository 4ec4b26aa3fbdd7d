// The page: tabs, the scores at the left, two cards, and the link in the address.

const data = JSON.parse(at("data").textContent);

const app = { state: readLink(location.hash), refresh: schedule, setSimplex };
const cards = [0, 1].map((index) => makeCard(index, app));
const inputs = at("inputs");
let due = 0, input = null, shape = "", linked = 0, waiting = 0, cost = 0;

function schedule() {
  cancelAnimationFrame(due);
  due = requestAnimationFrame(refresh);
}

function refresh() {
  due = 0;
  const { state } = app, { view } = state;
  fitSides(state, view);
  if (shape !== view) buildInputs(), (shape = view), (cost = 0);
  for (const tab of document.querySelectorAll("[role=tab]")) {
    const on = tab.dataset.view === view;
    tab.setAttribute("aria-selected", String(on));
    tab.tabIndex = on ? 0 : -1;
  }
  at("bench").setAttribute("aria-labelledby", `tab-${view}`);
  at("bench").dataset.view = view;
  input.refresh();
  // Where the cards take long, hands come first, and the cards follow after a rest as long.
  if (cost < 40) refreshCards();
  else if (!waiting) waiting = setTimeout(refreshCards, Math.min(cost, 250));
}

function refreshCards() {
  clearTimeout(waiting);
  waiting = 0;
  const { state } = app, { view } = state, start = performance.now();
  const u = state.z.map((x) => x / state.temperature.scores);
  const solved = view === "scores" ? state.sides.scores.map((side) => mapOf(side.name).solve(u, side)) : [];
  const top = solved.length ? Math.max(Math.ceil(maximum(solved.flat()) * 10) / 10, 0.3) : 1;
  announce(cards.map((card) => card.refresh({ u, solved, top })).join(". "));
  cost = performance.now() - start;
  clearTimeout(linked);
  linked = setTimeout(() => {
    linked = 0;
    history.replaceState(null, "", writeLink(app.state));
  }, 120);
}

function setSimplex(u) {
  const T = app.state.temperature.simplex;
  app.state.s = u.map((x) => clamp(Math.round(x * T * 100) / 100, -REACH, REACH));
  schedule();
}

function go(view) {
  app.state.view = view;
  schedule();
}

const button = (label, click, more = {}) => element("button", { type: "button", class: "quiet", click, ...more }, label);

function temperature(view) {
  const bounds = { label: "temperature", low: 0.05, high: 50, log: true };
  return makeSlider("temperature", bounds, app.state.temperature[view], (T) => { app.state.temperature[view] = T; schedule(); });
}

function weightsChoice() {
  const { view } = app.state;
  return makeChoice("weights", "weights", WEIGHTS, app.state.weights[view], (name) => { app.state.weights[view] = name; schedule(); });
}

function buildInputs() {
  input = { scores: scoreInputs, simplex: simplexInputs, line: scoreInputs, image: imageInputs }[app.state.view]();
}

// What is drawn on, and beneath or beside it what is set.
function layOut(drawnOn, set) {
  inputs.replaceChildren(...[drawnOn, set].map((children) => element("div", {}, children)));
}

function scoreInputs() {
  const { view } = app.state, marks = element("div", { class: "marks", role: "group", "aria-label": "Targets of the loss" });
  const bars = makeScoreBars(() => app.state.z, (z) => { app.state.z = z; schedule(); });
  const resize = (z) => {
    app.state.z = z;
    app.state.marks = app.state.marks.filter((i) => i < z.length);
    schedule();
  };
  const fewer = button("\u2212", () => resize(app.state.z.slice(0, -1)), { "aria-label": "One score fewer" });
  const more = button("+", () => resize([...app.state.z, 0]), { "aria-label": "One score more" });
  const drawNormal = () => Math.round(40 * Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random())) / 40 * 1.4;
  const count = element("span", { class: "count" }), typed = makeNumbers("typed", 2, 12, () => app.state.z, resize);
  layOut([
    element("h2", {}, "Scores z"),
    element("p", { class: "hint" }, view === "line" ? "Drag the bars: scores at positions on a line, and the weights they get." : "Drag the bars, or use the arrow keys."),
    bars.node, marks, element("p", { class: "hint" }, "Press a number to make it a target of the loss."),
  ], [
    element("div", { class: "buttons" }, fewer, count, more,
      button("Draw anew", () => resize(app.state.z.map(() => clamp(drawNormal(), -REACH, REACH)))),
      button("Sort", () => resize([...app.state.z].sort((a, b) => b - a)))),
    typed.node,
    element("div", { class: "controls" }, temperature(view), view === "line" ? weightsChoice() : null),
  ]);
  return {
    refresh() {
      const { z, marks: marked } = app.state;
      bars.refresh(Math.floor(bars.node.clientWidth));
      fewer.disabled = z.length <= 2;
      more.disabled = z.length >= 12;
      count.textContent = `${z.length} scores`;
      typed.refresh();
      if (marks.children.length !== z.length) {
        marks.replaceChildren(...z.map((_, i) => button(String(i + 1), () => {
          const on = app.state.marks.includes(i);
          app.state.marks = on ? app.state.marks.filter((j) => j !== i) : [...app.state.marks, i].sort((a, b) => a - b);
          schedule();
        }, { class: "mark", "aria-label": `Target ${i + 1}` })));
      }
      [...marks.children].forEach((mark, i) => {
        mark.setAttribute("aria-pressed", String(marked.includes(i)));
        mark.style.setProperty("--entry", entryColour(i));
      });
    },
  };
}

function simplexInputs() {
  const bars = makeScoreBars(() => app.state.s, (s) => { app.state.s = s; schedule(); });
  const typed = makeNumbers("typed", 3, 3, () => app.state.s, (s) => { app.state.s = s; schedule(); });
  const key = element("ul", { class: "key", "aria-label": "Shades of the plane" });
  const swatch = (depth, words) => element("li", {}, element("span", { class: "swatch", style: `--deep: ${depth}%` }), words);
  const showKey = () => key.replaceChildren(...(app.state.shade === "support"
    ? [[41, "1"], [23, "2"], [7, "3"]].map(([depth, count]) => swatch(depth, `${count} of 3 positive`))
    : [swatch(0, "exactly 0"), swatch(5, "above 0"), swatch(28, "0.5 and more"), swatch(52, "1")]));
  const shade = makeChoice("shade", "shades show", SHADES, app.state.shade, (name) => { app.state.shade = name; schedule(); });
  layOut([
    element("h2", {}, "Three scores"),
    element("p", { class: "hint" }, "Drag the point z in either plane, or the bars. The filled point is p, the summit of \u27e8p, z\u27e9 \u2212 \u03a9(p), whose levels are the thin lines; the thick line is its path from high to low temperature."),
    bars.node,
  ], [typed.node, element("div", { class: "controls" }, temperature("simplex"), shade), key]);
  return {
    refresh() {
      bars.refresh(Math.floor(bars.node.clientWidth));
      typed.refresh();
      showKey();
    },
  };
}

function imageInputs() {
  const drawing = makeDrawing(() => app.state.image, (image) => { app.state.image = image; schedule(); });
  const put = (image) => { app.state.image = image; schedule(); }, cells = () => cellsOf(app.state);
  const file = element("input", { id: "file", type: "file", accept: "image/*", class: "unseen", change: async () => {
    try {
      if (file.files[0]) put(await loadPicture(file.files[0], cells()));
      at("trouble").textContent = "";
      announce("Picture loaded", "picture");
    } catch {
      at("trouble").textContent = "This file is no picture that the browser can read.";
    }
    file.value = "";
  } });
  const erase = button("Erase", () => {
    drawing.brush.erase = !drawing.brush.erase;
    erase.setAttribute("aria-pressed", String(drawing.brush.erase));
  }, { "aria-pressed": "false", class: "quiet toggle" });
  layOut([
    element("h2", {}, "Image"),
    element("p", { class: "hint" }, "Draw: bright cells have high scores."),
    drawing.node,
  ], [
    element("div", { class: "buttons" }, erase, element("label", { for: "file", class: "quiet file" }, "Load a picture", file),
      ...Object.keys(PRESETS).map((name) => button(name, () => put(drawPreset(name, cells()))))),
    element("p", { id: "trouble", class: "hint", role: "status" }),
    element("div", { class: "controls" },
      makeSlider("brush", { label: "brush", low: 0.02, high: 0.2, step: 0.01 }, drawing.brush.size, (size) => { drawing.brush.size = size; }),
      makeChoice("cells", "cells a side", SIZES.map(String), String(cells()), (count) => put(resample(app.state.image, Number(count)))),
      temperature("image"), weightsChoice()),
  ]);
  return { refresh: drawing.refresh };
}

at("tabs").append(...VIEWS.map((view) => element("button", { type: "button", role: "tab", id: `tab-${view}`, "data-view": view,
  "aria-controls": "bench", click: () => go(view) }, { scores: "Scores", simplex: "Simplex", line: "Line", image: "Image" }[view])));
at("tabs").addEventListener("keydown", (event) => {
  const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!by) return;
  const next = VIEWS[(VIEWS.indexOf(app.state.view) + by + VIEWS.length) % VIEWS.length];
  go(next);
  at(`tab-${next}`).focus();
});
at("link").addEventListener("click", () => copy(location.href.split("#")[0] + writeLink(app.state), at("link")));

function setState(state) {
  app.state = state;
  shape = "";
  for (const card of cards) card.reset();
  schedule();
}
at("reset").addEventListener("click", () => setState({ ...startState(), view: app.state.view }));
addEventListener("hashchange", () => { if (location.hash !== writeLink(app.state)) setState(readLink(location.hash)); });
dark.addEventListener("change", schedule);
new ResizeObserver(schedule).observe(at("bench"));
at("cards").append(...cards.map((card) => card.node));
refresh();

// For a console, and for the tests.
window.omegamax = { MAPS, TVMAX, KINDS, mapOf, kindOf, fenchelYoung, betaGaussian, betaLaplace, gridDensity, weightedEm, selectComponents, pythonOf, pathOf, objectiveValues, searchSteps, thingOf, limit, readLink, writeLink, app, isBusy: () => due > 0 || waiting > 0 || linked > 0 };
