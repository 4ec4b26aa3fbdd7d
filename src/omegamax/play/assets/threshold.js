// How a threshold is found: the sum of the parts of all scores falls as tau rises, and passes its total at the threshold.

// Each map says what the part of a score is, its slope, the total, and two ends between which the threshold lies.

// Parts [(alpha - 1)(z - tau)]_+^(1 / (alpha - 1)), and exp(z - tau) at alpha = 1: between where the largest is 1 and 1/n.
function powerSearch(z, alpha) {
  const e = alpha - 1, top = maximum(z), n = z.length, least = e ? -Math.pow(n, -e) / e : Math.log(n);
  const part = (v) => (e === 0 ? Math.exp(v) : e * v > 0 ? Math.pow(e * v, 1 / e) : e > 0 ? 0 : Infinity);
  return { z, part, slope: (v) => (part(v) > 0 ? Math.pow(part(v), 2 - alpha) : 0), total: 1, low: top - (e && 1 / e), high: top + least };
}

// The sum of [z - tau]_+^q is 1, q = alpha / (alpha - 1); probabilities are proportional to the power q - 1.
function normSearch(z, alpha) {
  const q = alpha / (alpha - 1), top = maximum(z), lead = (v) => Math.max(v, 0);
  return {
    z, part: (v) => Math.pow(lead(v), q), slope: (v) => q * Math.pow(lead(v), q - 1), total: 1,
    low: top - 1, high: top - Math.pow(z.length, -1 / q), what: "sum of powers of z \u2212 \u03c4",
  };
}

function clipSearch(z, lower, upper, total) {
  return {
    z, part: (v) => clamp(v, lower, upper), slope: (v) => (v > lower && v < upper ? 1 : 0), total,
    low: minimum(z) - upper, high: maximum(z) - lower,
  };
}

function cappedSearch(z, upper) {
  const part = (v) => Math.min(Math.exp(v), upper);
  return {
    z, part, slope: (v) => (Math.exp(v) < upper ? Math.exp(v) : 0), total: 1,
    low: minimum(z) - Math.log(upper), high: maximum(z) + Math.log(z.length),
  };
}

const sumAt = ({ z, part }, tau) => sum(z.map((x) => part(x - tau)));

// The thresholds tried one after the other, each with the bracket it was drawn from. Newton's steps start at the lower end;
// one that would leave the bracket, or that has no slope to follow, goes to the middle.
function searchSteps(search, method) {
  const steps = [], { z, total } = search;
  let low = search.low, high = search.high + 1e-6 * (search.high - search.low); // for ties it lies at the upper end
  let tau = method === "Newton" ? low : (low + high) / 2;
  while (steps.length < 60) {
    const found = sumAt(search, tau), slope = sum(z.map((x) => search.slope(x - tau)));
    steps.push({ low, high, tau, sum: found, slope });
    if (Math.abs(found - total) <= 1e-12 * total || high - low <= 1e-13 * (1 + Math.abs(low))) break;
    if (found > total) low = tau;
    else high = tau;
    const newton = tau + (found - total) / slope;
    tau = method === "Newton" && newton > low && newton < high ? newton : (low + high) / 2;
  }
  return steps;
}

// The sum along tau, its total, the steps so far, and the bracket of the last one; Newton's next step is along the tangent.
function thresholdChart(width, search, steps, shown, method, label) {
  const HEIGHT = 190, LEFT = 22, RIGHT = 10, TOP = 10, BOTTOM = 34, { total } = search, span = search.high - search.low || 1;
  const from = search.low - 0.06 * span, to = search.high + 0.12 * span, now = steps[shown - 1];
  const top = clamp(sumAt(search, search.low) * 1.1, 1.5 * total, 3.5 * total);
  const x = (tau) => LEFT + ((clamp(tau, from, to) - from) / (to - from)) * (width - LEFT - RIGHT);
  const y = (value) => HEIGHT - BOTTOM - (Math.min(value, top) / top) * (HEIGHT - TOP - BOTTOM);
  const curve = range(161).map((i) => from + ((to - from) * i) / 160).map((tau) => [x(tau), y(sumAt(search, tau))]);
  const next = steps[shown], tangent = method === "Newton" && next ? line(x(now.tau), y(now.sum), x(next.tau), y(total), { class: "tangent" }) : null;
  return chart(width, HEIGHT, label,
    drawn("rect", { x: x(now.low), y: TOP, width: Math.max(x(now.high) - x(now.low), 1), height: y(0) - TOP, class: "bracket" }),
    line(LEFT, y(0), width - RIGHT, y(0), { class: "axis" }),
    line(LEFT, y(total), width - RIGHT, y(total), { class: "now" }),
    text(LEFT - 5, y(total) + 4, digits(total, Number.isInteger(total) ? 0 : 2), { class: "tick", "text-anchor": "end" }),
    // A score that tau passes leaves the support.
    search.z.flatMap((score, i) => (score >= from && score <= to
      ? [line(x(score), y(0) - 5, x(score), y(0) + 5, { style: `stroke: ${entryColour(i)}; stroke-width: 2.5` })] : [])),
    polyline(curve, { class: "curve" }), tangent,
    steps.slice(0, shown).map((step, i) => drawn("circle", { cx: x(step.tau), cy: y(step.sum), r: i === shown - 1 ? 6 : 3.5, class: i === shown - 1 ? "handle" : "tried" })),
    text(LEFT, HEIGHT - 16, digits(from), { class: "tick" }),
    text(width - RIGHT, HEIGHT - 16, digits(to), { class: "tick", "text-anchor": "end" }),
    text((LEFT + width - RIGHT) / 2, HEIGHT - 3, "threshold \u03c4", { class: "tick", "text-anchor": "middle" }));
}
