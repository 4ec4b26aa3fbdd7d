// What the page shows, and the link that holds it.

const SIZES = [20, 32, 64]; // cells along each side of the image
const LEVELS = 15; // of grey
const REACH = 4; // largest score that bars reach, unless a larger one was typed
const LARGEST = 1000; // score of all
const METHODS = ["bisection", "Newton"];
const SHADES = ["support", "p1", "p2", "p3"];
const VIEWS = ["scores", "simplex", "line", "image"];
const WEIGHTS = ["softmax", "sparsemax", "entmax15"];
const SIMPLEX_MAPS = MAPS.map((map) => map.name);
const IMAGE_MAPS = ["softmax", "sparsemax", "entmax15", "entmax", "normmax", "k_subsets", "constrained_softmax"];
const choicesOf = (view) => ({
  scores: SIMPLEX_MAPS,
  simplex: SIMPLEX_MAPS,
  line: KINDS.map((kind) => kind.name),
  image: [...IMAGE_MAPS, "tvmax", ...KINDS.filter((kind) => !kind.line).map((kind) => kind.name)],
})[view];
const thingOf = (name) => mapOf(name) ?? kindOf(name);
const sizeOf = (view, state) => (view === "simplex" ? 3 : view === "image" ? state.image.length : state.z.length);
const cellsOf = (state) => Math.sqrt(state.image.length);

const limit = (bound, n) => (typeof bound === "function" ? bound(n) : bound);

function makeSide(name, n, given = {}) {
  const side = { name };
  for (const parameter of thingOf(name).parameters) {
    const value = given[parameter.name];
    if (parameter.choices) side[parameter.name] = parameter.choices.includes(value) ? value : parameter.start;
    else if (parameter.flag) side[parameter.name] = value === true || value === "true";
    else {
      const number = Number(value ?? parameter.start);
      side[parameter.name] = clamp(Number.isFinite(number) ? number : parameter.start, limit(parameter.low, n), limit(parameter.high, n));
    }
  }
  return side;
}

function startState() {
  return {
    view: "scores",
    z: [1.2, 2.1, 1.8, -0.6, 0.3, 0.9, -1.5],
    s: [0.9, 0.5, -0.2],
    temperature: { scores: 1, simplex: 1, line: 1, image: 5 },
    marks: [1],
    weights: { line: "softmax", image: "sparsemax" },
    image: drawPreset("two lights", SIZES[0]),
    axes: ["", ""], // along which the paths are; none: the first parameter, or else the temperature
    searches: [{ method: "bisection", step: 4 }, { method: "Newton", step: 2 }],
    shade: "support",
    sides: {
      scores: [makeSide("softmax", 7), makeSide("sparsemax", 7)],
      simplex: [makeSide("entmax15", 3), makeSide("sparsemax", 3)],
      line: [makeSide("Gaussian", 7), makeSide("truncated paraboloid", 7)],
      image: [makeSide("sparsemax", 400), makeSide("tvmax", 400)],
    },
  };
}

// name~parameter=value~...
const writeSide = ({ name, ...rest }) =>
  [name, ...Object.entries(rest).map(([key, value]) => `${key}=${typeof value === "number" ? plain(value) : value}`)].join("~");

function readSide(written, view, n, before) {
  const [name, ...rest] = (written ?? "").split("~");
  if (!choicesOf(view).includes(name)) return before;
  return makeSide(name, n, Object.fromEntries(rest.map((pair) => pair.split("="))));
}

function writeLink(state) {
  const view = state.view, fields = new URLSearchParams({ view });
  if (view === "image") fields.set("image", state.image.map((x) => x.toString(16)).join(""));
  else fields.set("z", (view === "simplex" ? state.s : state.z).map(plain).join(","));
  fields.set("T", plain(state.temperature[view]));
  if (view === "scores" || view === "line") fields.set("target", state.marks.map((i) => i + 1).join(","));
  if (view === "line" || view === "image") fields.set("weights", state.weights[view]);
  if (view === "scores") {
    fields.set("axes", state.axes.join(","));
    fields.set("steps", state.searches.map(({ method, step }) => `${method}~${step}`).join(","));
  }
  if (view === "simplex") fields.set("shade", state.shade);
  state.sides[view].forEach((side, i) => fields.set("ab"[i], writeSide(side)));
  return "#" + fields.toString();
}

// Anything that is missing or makes no sense stays as it was at the start.
function readLink(fragment) {
  const state = startState(), fields = new URLSearchParams(fragment.replace(/^#/, "")), view = fields.get("view");
  if (!VIEWS.includes(view)) return state;
  state.view = view;
  const numbers = (fields.get("z") ?? "").split(",").map((x) => (x.trim() ? Number(x) : NaN));
  if (numbers.every(Number.isFinite)) {
    const z = numbers.map((x) => clamp(x, -LARGEST, LARGEST));
    if (view === "simplex" && z.length === 3) state.s = z;
    else if (view !== "simplex" && z.length >= 2 && z.length <= 12) state.z = z;
  }
  const image = fields.get("image") ?? "";
  if (SIZES.some((cells) => cells * cells === image.length) && /^[0-9a-f]+$/.test(image)) state.image = [...image].map((c) => parseInt(c, 16));
  const temperature = Number(fields.get("T"));
  if (temperature > 0) state.temperature[view] = clamp(temperature, 0.05, 50);
  if (WEIGHTS.includes(fields.get("weights"))) state.weights[view] = fields.get("weights");
  if (fields.has("target")) {
    const marked = fields.get("target").split(",").map((x) => Number(x) - 1).filter((i) => Number.isInteger(i) && state.z[i] != null);
    state.marks = [...new Set(marked)].sort((a, b) => a - b);
  } else state.marks = state.marks.filter((i) => i < state.z.length);
  if (SHADES.includes(fields.get("shade"))) state.shade = fields.get("shade");
  const axes = (fields.get("axes") ?? "").split(","), steps = (fields.get("steps") ?? "").split(",").map((words) => words.split("~"));
  state.axes = state.axes.map((_, i) => axes[i] ?? ""); // one that the map does not have counts as none
  state.searches = state.searches.map((search, i) => {
    const [method, step] = steps[i] ?? [], number = Number(step);
    return METHODS.includes(method) && Number.isInteger(number) && number >= 1 ? { method, step: Math.min(number, 60) } : search;
  });
  const n = sizeOf(view, state);
  state.sides[view] = state.sides[view].map((side, i) => readSide(fields.get("ab"[i]), view, n, makeSide(side.name, n, side)));
  return state;
}

// Other scores ask for other bounds.
function fitSides(state, view) {
  const n = sizeOf(view, state);
  state.sides[view] = state.sides[view].map((side) => makeSide(side.name, n, side));
}
