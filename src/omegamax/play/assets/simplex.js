// Three scores as a point of the plane, and the triangle of the probabilities in it.

const HEIGHT_OF_TRIANGLE = Math.sqrt(3) / 2, SPAN = 2.5; // of the plane that is shown, in sides of the triangle
const CORNERS = [[-0.5, -HEIGHT_OF_TRIANGLE / 3], [0.5, -HEIGHT_OF_TRIANGLE / 3], [0, (2 * HEIGHT_OF_TRIANGLE) / 3]];

// What all entries share does not show: a vector less its mean, in the plane of the triangle.
function planeOf(v) {
  const centre = sum(v) / 3;
  return [0, 1].map((a) => sum(v.map((x, i) => (x - centre) * CORNERS[i][a])));
}

function scoresOf([x, y]) {
  return CORNERS.map(([a, b]) => 2 * (a * x + b * y));
}

const regions = new Map(), paces = new Map(); // what was computed already, by map, parameters and size; milliseconds a point

// The probabilities for the scores at each point of the plane, as finely as the time allows.
function regionsOf(map, side, width, budget) {
  const key = `${writeSide(side)} ${width}`, known = regions.get(key);
  if (known && known.budget >= budget) return known;
  const count = clamp(Math.floor(Math.sqrt(budget / (paces.get(map.name) ?? 0.01))), 40, width), values = new Float32Array(3 * count * count);
  const start = performance.now();
  for (let r = 0; r < count; r++) {
    for (let c = 0; c < count; c++) {
      values.set(map.solve(scoresOf([((c + 0.5) / count - 0.5) * SPAN, (0.5 - (r + 0.5) / count) * SPAN]), side), 3 * (r * count + c));
    }
  }
  paces.set(map.name, Math.max((performance.now() - start) / (count * count), 1e-4));
  if (regions.size > 40) regions.clear();
  regions.set(key, { count, values, budget });
  return regions.get(key);
}

// How many entries are positive, or the probability of one of them in steps of a tenth: blank where it is exactly 0.
function paintRegions(canvas, { count, values }, colour, shade) {
  canvas.width = canvas.height = count;
  const context = canvas.getContext("2d"), picture = context.createImageData(count, count), [r, g, b] = colour, entry = SHADES.indexOf(shade) - 1;
  for (let i = 0; i < count * count; i++) {
    const p = values.subarray(3 * i, 3 * i + 3), depth = entry < 0
      ? [0, 105, 58, 18][p.filter((x) => x > 1e-9).length] : p[entry] > 1e-9 ? 12 + 12 * Math.floor(p[entry] * 10 + 1e-6) : 0;
    picture.data.set([r, g, b, depth], 4 * i);
  }
  context.putImageData(picture, 0, 0);
}

// The domain: corners are the vectors with k ones.
function domainOf(total) {
  if (total === 3) return [];
  return Number.isInteger(total) ? (total === 2 ? CORNERS.map(([x, y]) => [-x, -y]) : CORNERS) : hexagon(total);
}

function hexagon(total) {
  const whole = Math.floor(total), part = total - whole, corners = [];
  for (const order of [[0, 1, 2], [1, 0, 2], [1, 2, 0], [2, 1, 0], [2, 0, 1], [0, 2, 1]]) {
    const v = zeros(3);
    order.forEach((i, rank) => { v[i] = rank < whole ? 1 : rank === whole ? part : 0; });
    corners.push(planeOf(v));
  }
  return corners;
}

function makeTriangle(move) {
  const canvas = element("canvas", { class: "regions", "aria-hidden": "true" });
  const layer = element("div", { class: "layer" });
  const holder = element("div", { class: "plane" }, canvas, layer);
  let now = [0, 0], held = false, refining = 0;

  const place = (event) => {
    const box = layer.getBoundingClientRect();
    return [((event.clientX - box.left) / box.width - 0.5) * SPAN, (0.5 - (event.clientY - box.top) / box.height) * SPAN];
  };
  layer.addEventListener("pointerdown", (event) => {
    held = true;
    layer.setPointerCapture(event.pointerId);
    event.preventDefault();
    move(scoresOf(place(event)));
    layer.querySelector("[role=slider]")?.focus({ preventScroll: true });
  });
  layer.addEventListener("pointermove", (event) => { if (held) move(scoresOf(place(event))); });
  for (const end of ["pointerup", "pointercancel", "lostpointercapture"]) layer.addEventListener(end, () => { held = false; });
  layer.addEventListener("keydown", (event) => {
    const by = { ArrowUp: [0, 0.04], ArrowDown: [0, -0.04], ArrowLeft: [-0.04, 0], ArrowRight: [0.04, 0] }[event.key];
    if (!by) return;
    event.preventDefault();
    now = now.map((x, a) => clamp(x + by[a], -SPAN / 2, SPAN / 2)); // keys may come faster than pictures
    move(scoresOf(now));
  });

  // Coarse at once, so that sliders do not stick; fine once they rest.
  function paint(width, map, side, colour, shade) {
    const draw = (budget) => paintRegions(canvas, regionsOf(map, side, width, budget), colour, shade);
    clearTimeout(refining);
    draw(10);
    refining = setTimeout(() => draw(100), 200);
  }

  function refresh(width, map, side, u, colour, shade) {
    const total = map.total ? map.total(side, 3) : 1, p = map.solve(u, side);
    now = planeOf(u);
    const at = ([x, y]) => [(x / SPAN + 0.5) * width, (0.5 - y / SPAN) * width];
    paint(Math.round(width), map, side, colour, shade);
    const focused = layer.contains(document.activeElement);
    const corners = domainOf(total).map(at), [zx, zy] = at(now.map((x) => clamp(x, -SPAN / 2, SPAN / 2))), [px, py] = at(planeOf(p));
    const trail = range(80).map((i) => at(planeOf(map.solve(u.map((x) => x * 10 ** (-2 + i / 16)), side))));
    const names = CORNERS.map((c, i) => {
      const [x, y] = at(c.map((v) => v * (total === 2 ? -1.24 : 1.2)));
      return text(x, y + 5, total === 2 ? `not ${i + 1}` : String(i + 1), { class: "corner", "text-anchor": "middle" });
    });
    const words = `scores ${u.map((x) => digits(x)).join(", ")}; probabilities ${p.map((x) => digits(x, 3)).join(", ")}`;
    layer.replaceChildren(chart(width, width, "",
      drawn("path", { d: isolines(map, side, u, total, width), class: "isoline" }),
      drawn("polygon", { points: corners.map((c) => c.map((x) => x.toFixed(1)).join(",")).join(" "), class: "domain" }),
      ...names,
      polyline(trail, { class: "trail" }),
      line(zx, zy, px, py, { class: "arrow" }),
      drawn("circle", { cx: px, cy: py, r: 6.5, class: "own bar" }),
      drawn("g", { role: "slider", tabindex: 0, class: "point", "aria-label": "Scores as a point of the plane; arrow keys move it",
        "aria-valuenow": plain(u[0]), "aria-valuetext": words },
      drawn("circle", { cx: zx, cy: zy, r: 18, class: "hit" }), drawn("circle", { cx: zx, cy: zy, r: 7.5, class: "handle" }),
      text(zx + (zx > width - 30 ? -20 : 13), zy + 4, "z", { class: "value" }))));
    if (focused) layer.querySelector("[role=slider]").focus({ preventScroll: true });
    return p;
  }

  return { node: holder, refresh };
}
