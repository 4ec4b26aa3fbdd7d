// What the page shows, and the link that holds it.

const CELLS = 20; // along each side of the image
const LEVELS = 15; // of grey
const REACH = 4; // largest score
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
const sizeOf = (view, state) => (view === "simplex" ? 3 : view === "image" ? CELLS * CELLS : state.z.length);

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
    image: drawPreset("two lights"),
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
    const z = numbers.map((x) => clamp(x, -REACH, REACH));
    if (view === "simplex" && z.length === 3) state.s = z;
    else if (view !== "simplex" && z.length >= 2 && z.length <= 12) state.z = z;
  }
  const image = fields.get("image") ?? "";
  if (new RegExp(`^[0-9a-f]{${CELLS * CELLS}}$`).test(image)) state.image = [...image].map((c) => parseInt(c, 16));
  const temperature = Number(fields.get("T"));
  if (temperature > 0) state.temperature[view] = clamp(temperature, 0.05, 50);
  if (WEIGHTS.includes(fields.get("weights"))) state.weights[view] = fields.get("weights");
  if (fields.has("target")) {
    state.marks = fields.get("target").split(",").map((x) => Number(x) - 1).filter((i) => Number.isInteger(i) && state.z[i] != null);
  } else state.marks = state.marks.filter((i) => i < state.z.length);
  const n = sizeOf(view, state);
  state.sides[view] = state.sides[view].map((side, i) => readSide(fields.get("ab"[i]), view, n, makeSide(side.name, n, side)));
  return state;
}

// Other scores ask for other bounds.
function fitSides(state, view) {
  const n = sizeOf(view, state);
  state.sides[view] = state.sides[view].map((side) => makeSide(side.name, n, side));
}
