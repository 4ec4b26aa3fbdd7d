// The path of the probabilities along a parameter or a score, and their Jacobian.

const TEMPERATURE = { name: "temperature", label: "temperature", low: 0.05, high: 50, start: 1, log: true };
const axesOf = (map, n) => [TEMPERATURE, ...map.parameters.filter((a) => a.low !== undefined),
  ...range(n).map((i) => ({ name: `z${i + 1}`, label: `score ${i + 1}`, low: -REACH, high: REACH, entry: i }))];

// Where an axis is looked at: as evenly as its slider moves.
function stepsOf(axis, n, count = 61) {
  const low = limit(axis.low, n), high = limit(axis.high, n);
  if (axis.log) return range(count).map((i) => low * (high / low) ** (i / (count - 1)));
  const steps = axis.step === 1 ? Math.round(high - low) + 1 : count;
  return range(steps).map((i) => (steps > 1 ? low + ((high - low) * i) / (steps - 1) : low));
}

function pathOf(map, side, z, temperature, axis) {
  const values = stepsOf(axis, z.length);
  const paths = values.map((value) => (axis.log
    ? map.solve(z.map((x) => x / value), side)
    : map.solve(z.map((x, i) => (i === axis.entry ? value : x) / temperature), { ...side, [axis.name]: value })));
  return { values, paths };
}

function pathChart(width, map, side, z, temperature, axis) {
  const HEIGHT = 190, LEFT = 22, RIGHT = 22, TOP = 10, BOTTOM = 34;
  const { values, paths } = pathOf(map, side, z, temperature, axis), top = Math.max(maximum(paths.flat()), 0.25);
  const low = values[0], high = values.at(-1), now = axis.log ? temperature : z[axis.entry] ?? side[axis.name];
  const place = (v) => (axis.log ? Math.log(v / low) / Math.log(high / low) : high > low ? (v - low) / (high - low) : 0.5);
  const x = (v) => LEFT + place(v) * (width - LEFT - RIGHT), y = (p) => HEIGHT - BOTTOM - (p / top) * (HEIGHT - TOP - BOTTOM);
  const lines = range(z.length).map((i) => polyline(values.map((v, s) => [x(v), y(paths[s][i])]),
    { class: "path", style: `stroke: ${entryColour(i)}`, "stroke-dasharray": i > 5 ? "5 3" : null }));
  // Names at the end where the entries are furthest apart, as far as there is room.
  const left = spreadOf(paths[0]) >= spreadOf(paths.at(-1)), ends = left ? paths[0] : paths.at(-1), taken = [];
  const names = range(z.length).sort((i, j) => ends[j] - ends[i]).flatMap((i) => {
    const at = y(ends[i]);
    if (ends[i] < 1e-3 || taken.some((other) => Math.abs(other - at) < 17)) return [];
    taken.push(at);
    const middle = left ? LEFT - 10 : width - RIGHT + 10;
    return [drawn("circle", { cx: middle, cy: at, r: 8, class: "badge", style: `stroke: ${entryColour(i)}` }),
      text(middle, at + 4.2, String(i + 1), { class: "value", "text-anchor": "middle" })];
  });
  return chart(width, HEIGHT, `Path of the probabilities along the ${axis.label}, from ${digits(low)} to ${digits(high)}, now ${digits(now)}`,
    line(LEFT, y(0), width - RIGHT, y(0), { class: "axis" }),
    line(x(clamp(now, low, high)), TOP, x(clamp(now, low, high)), y(0), { class: "now" }),
    ...lines, ...names,
    text(LEFT, HEIGHT - 16, plain(low), { class: "tick" }),
    text(width - RIGHT, HEIGHT - 16, plain(high), { class: "tick", "text-anchor": "end" }),
    text((LEFT + width - RIGHT) / 2, HEIGHT - 3, axis.label + (axis.log ? " (logarithmic)" : ""), { class: "tick", "text-anchor": "middle" }));
}

const spreadOf = (p) => maximum(p) - minimum(p);

// Orange where a score raises a probability, blue where it lowers it, blank where it does nothing.
function jacobianChart(width, J, label) {
  const n = J.length, GAP = 18, cell = (width - GAP) / n, most = maximum(J.flat().map(Math.abs));
  const cells = J.flatMap((row, i) => row.map((value, j) => {
    const share = Math.abs(value) <= 1e-12 ? 0 : Math.round(18 + 82 * Math.sqrt(Math.abs(value) / most));
    return drawn("rect", { x: GAP + j * cell + 0.5, y: i * cell + 0.5, width: cell - 1, height: cell - 1, rx: Math.min(2, cell / 8),
      class: share ? "entry" : "entry nothing",
      style: share ? `fill: color-mix(in srgb, var(${value > 0 ? "--rise" : "--fall"}) ${share}%, var(--card))` : null },
    drawn("title", {}, `dp${i + 1} / dz${j + 1} = ${digits(value, 4)}`));
  }));
  const every = cell < 16 ? 2 : 1;
  const names = range(n).filter((i) => i % every === 0).flatMap((i) => [
    text(GAP - 5, (i + 0.5) * cell + 4, String(i + 1), { class: "tick", "text-anchor": "end" }),
    text(GAP + (i + 0.5) * cell, width - GAP + 13, String(i + 1), { class: "tick", "text-anchor": "middle" })]);
  const filled = J.flat().filter((value) => Math.abs(value) > 1e-12).length;
  return chart(width, width, `${label}: Jacobian, ${filled} of ${n * n} entries are not zero, largest ${digits(most, 3)}`, ...cells, ...names);
}

// What each number of components scores; the one chosen stands out.
function criterionChart(width, scores, chosen) {
  const HEIGHT = 96, low = minimum(scores), high = maximum(scores), column = width / scores.length;
  const y = (s) => 26 + (high > low ? ((high - s) / (high - low)) * 44 : 22);
  return chart(width, HEIGHT, `Criterion by number of components: ${scores.map((s, k) => `${k + 1}: ${digits(s, 1)}`).join(", ")}; chosen ${chosen + 1}`,
    polyline(scores.map((s, k) => [(k + 0.5) * column, y(s)]), { class: "axis" }),
    scores.map((s, k) => drawn("g", {},
      drawn("circle", { cx: (k + 0.5) * column, cy: y(s), r: k === chosen ? 6 : 4, class: k === chosen ? "own bar" : "other" }),
      text((k + 0.5) * column, y(s) - 10, digits(s, 1), { class: "tick", "text-anchor": "middle" }),
      text((k + 0.5) * column, HEIGHT - 4, `K = ${k + 1}`, { class: k === chosen ? "value" : "tick", "text-anchor": "middle" }))));
}

// Scores, probabilities and Jacobian to read and to copy.
function numbersTable(u, p, J, label) {
  const head = (words) => element("th", { scope: "col" }, words), cell = (x) => element("td", {}, digits(x, 6));
  return element("table", {}, element("caption", {}, `${label}: entries, scores over the temperature, probabilities, Jacobian`),
    element("thead", {}, element("tr", {}, head("i"), head("z/T"), head("p"), p.map((_, j) => head(`dp/dz${j + 1}`)))),
    element("tbody", {}, p.map((x, i) => element("tr", {}, element("th", { scope: "row" }, String(i + 1)), cell(u[i]), cell(x), J[i].map(cell)))));
}
