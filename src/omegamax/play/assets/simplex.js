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

const regions = new Map(); // drawn already, by map, parameters and size

// How many entries are positive, for the scores at each point of the plane.
function regionsOf(map, side, width) {
  const key = `${writeSide(side)} ${width}`;
  if (regions.has(key)) return regions.get(key);
  // As fine as a tenth of a second allows, by the time that a few take once the browser has compiled them.
  const tryOut = () => range(80).forEach((i) => map.solve(scoresOf([((i * 7) % 40) / 20 - 1, i / 40 - 1]), side));
  tryOut();
  const start = performance.now();
  tryOut();
  const each = (performance.now() - start) / 80, count = Math.min(width, Math.max(40, Math.floor(Math.sqrt(100 / Math.max(each, 1e-4)))));
  const counts = new Uint8Array(count * count);
  for (let r = 0; r < count; r++) {
    for (let c = 0; c < count; c++) {
      const p = map.solve(scoresOf([((c + 0.5) / count - 0.5) * SPAN, (0.5 - (r + 0.5) / count) * SPAN]), side);
      counts[r * count + c] = p.filter((x) => x > 1e-9).length;
    }
  }
  if (regions.size > 40) regions.clear();
  regions.set(key, { count, counts });
  return regions.get(key);
}

function paintRegions(canvas, { count, counts }, colour) {
  canvas.width = canvas.height = count;
  const context = canvas.getContext("2d"), picture = context.createImageData(count, count), [r, g, b] = colour;
  counts.forEach((support, i) => picture.data.set([r, g, b, [0, 105, 58, 18][support]], 4 * i));
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
  let now = [0, 0], held = false;

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

  function refresh(width, map, side, u, colour) {
    const total = map.total ? map.total(side, 3) : 1, p = map.solve(u, side);
    now = planeOf(u);
    const at = ([x, y]) => [(x / SPAN + 0.5) * width, (0.5 - y / SPAN) * width];
    paintRegions(canvas, regionsOf(map, side, Math.round(width)), colour);
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
