// A density over the line, with the weights it was fitted to.

function curveChart(width, density, weights, label) {
  const HEIGHT = 210, TOP = 14, BOTTOM = 26, FROM = -0.15, TO = 1.15, n = weights.length;
  const places = range(301).map((i) => FROM + ((TO - FROM) * i) / 300), heights = places.map((t) => density.prob([t]));
  const inside = (t) => !density.values || (t >= 0 && t <= 1); // a grid density is over the unit interval
  const top = Math.max(maximum(heights), maximum(weights) * n, 1) * 1.05;
  const x = (t) => ((t - FROM) / (TO - FROM)) * width, y = (h) => HEIGHT - BOTTOM - (h / top) * (HEIGHT - TOP - BOTTOM);
  const shown = places.flatMap((t, i) => (inside(t) ? [[x(t), y(heights[i])]] : []));
  // Lines are drawn where there is density, not along the axis.
  const trace = (values, look) => {
    const strokes = [[]];
    places.forEach((t, i) => {
      if (inside(t) && [i - 1, i, i + 1].some((j) => values[j] > 0)) strokes.at(-1).push([x(t), y(values[i])]);
      else if (strokes.at(-1).length) strokes.push([]);
    });
    return strokes.filter((stroke) => stroke.length).map((stroke) => polyline(stroke, look));
  };
  const parts = (density.parts?.length > 1 ? density.parts : []).flatMap(({ weight, density: part }) =>
    trace(places.map((t) => weight * part.prob([t])), { class: "part" }));
  const support = (density.parts ?? [{ density }]).filter((c) => Number.isFinite(c.density.radius)).map(({ density: part }) => {
    const reach = part.radius * Math.sqrt(part.covariance[0]);
    return line(x(clamp(part.mean[0] - reach, FROM, TO)), y(0) + 3, x(clamp(part.mean[0] + reach, FROM, TO)), y(0) + 3, { class: "support" });
  });
  const ground = y(0).toFixed(1), area = [`${shown[0][0].toFixed(1)},${ground}`, ...shown.map((p) => p.map((v) => v.toFixed(1)).join(",")),
    `${shown.at(-1)[0].toFixed(1)},${ground}`].join(" ");
  return chart(width, HEIGHT, label,
    weights.map((w, i) => drawn("rect", { class: "weight", x: x(i / n) + 1, width: Math.max(x(1 / n) - x(0) - 2, 1), y: y(w * n), height: Math.max(y(0) - y(w * n), 0) })),
    drawn("polygon", { points: area, class: "area" }),
    ...parts, ...trace(heights, { class: "curve" }), ...support,
    line(0, y(0), width, y(0), { class: "axis" }),
    [0, 0.5, 1].map((t) => text(x(t), HEIGHT - 6, String(t), { class: "tick", "text-anchor": "middle" })));
}

// Words and numbers for a density.
function densityFacts(density, targets = []) {
  const facts = [];
  if (density.parts) {
    facts.push(["components", String(density.parts.length)]);
    density.parts.forEach(({ weight, density: part }, k) => facts.push([`weight, mean ${k + 1}`, `${digits(weight)}, (${part.mean.map((m) => digits(m)).join(", ")})`]));
    return facts;
  }
  facts.push(["mean", density.mean.map((m) => digits(m)).join(", ")]);
  if (density.n === 1) {
    const deviation = Math.sqrt(density.covariance[0]), reach = density.radius * deviation;
    facts.push(["deviation", digits(deviation, 3)]);
    if (!density.values) facts.push(["support", Number.isFinite(reach) ? `[${digits(density.mean[0] - reach)}, ${digits(density.mean[0] + reach)}]` : "all of the line"]);
    else facts.push(["support", `${density.values.filter((v) => v > 0).length} of ${density.values.length} nodes`]);
  } else facts.push(["support", Number.isFinite(density.radius) ? "an ellipse" : "all of the plane"]);
  facts.push(["entropy \u2212\u03a9(p)", digits(density.entropy, 3)]);
  if (density.loss && targets.length) facts.push(["loss at the targets", digits(sum(targets.map(density.loss)) / targets.length, 3)]);
  return facts;
}
