// The Tsallis family: softmax at alpha = 1, sparsemax at 2, argmax at infinity; and normmax, regularised by a norm.

// p_i = [m^e - e (max z - z_i)]_+^(1/e) with e = alpha - 1: a function of its largest entry m, which the sum fixes.
function entmax(z, alpha, total = 1, weight = 1) {
  const top = maximum(z), below = z.map((x) => top - x), n = z.length;
  if (alpha === Infinity) {
    const ties = below.filter((u) => u === 0).length;
    return below.map((u) => (u === 0 ? total / (weight * ties) : 0));
  }
  if (alpha === 1) {
    const e = below.map((u) => Math.exp(-u)), scale = total / (weight * sum(e));
    return e.map((x) => x * scale);
  }
  const e = alpha - 1, most = total / weight;
  const at = (m) => below.map((u) => Math.pow(Math.max(Math.pow(m, e) - e * u, 0), 1 / e));
  const p = at(findRoot((m) => sum(at(m)) - most, most / n, most));
  const scale = most / sum(p);
  return p.map((x) => x * scale);
}

// Sorted scores tell how many are in the support, and its size gives the threshold in closed form.
function entmax15(z) {
  const half = z.map((x) => (x - maximum(z)) / 2), sorted = [...half].sort((a, b) => b - a);
  let mean = 0, square = 0, tau = 0;
  for (let k = 1; k <= sorted.length; k++) {
    mean += (sorted[k - 1] - mean) / k;
    square += (sorted[k - 1] ** 2 - square) / k;
    const rest = (1 - k * (square - mean * mean)) / k;
    const candidate = mean - Math.sqrt(Math.max(rest, 0));
    if (rest < 0 || candidate > sorted[k - 1]) break;
    tau = candidate;
  }
  return half.map((x) => Math.max(x - tau, 0) ** 2);
}

function tsallis(p, alpha) {
  if (alpha === 1) return sum(p.map((x) => (x > 0 ? x * Math.log(x) : 0)));
  if (alpha === Infinity) return 0;
  return (sum(p.map((x) => (x > 0 ? Math.pow(x, alpha) : 0))) - 1) / (alpha * (alpha - 1));
}

// diag(s) - s s' / sum s, with s = p^(2 - alpha) on the support.
function entmaxJacobian(p, alpha) {
  const s = p.map((x) => (x > 0 && alpha < Infinity ? Math.pow(x, 2 - alpha) : 0)), mass = sum(s) || 1;
  return matrix(p.length, (i, j) => (i === j ? s[i] : 0) - (s[i] * s[j]) / mass);
}

// p is proportional to [z - tau]_+^(1 / (alpha - 1)), where [z - tau]_+ has norm 1 in the conjugate exponent.
function normmax(z, alpha) {
  const { lead, power } = normmaxLead(z, alpha);
  const w = lead.map((v) => (v > 0 ? Math.pow(v, power) : 0)), mass = sum(w);
  return w.map((x) => x / mass);
}

function normmaxLead(z, alpha) {
  const top = maximum(z), below = z.map((x) => top - x), power = alpha === Infinity ? 0 : 1 / (alpha - 1);
  const size = (m) => sum(below.map((u) => Math.pow(Math.max(m - u, 0), power + 1)));
  const m = findRoot((x) => size(x) - 1, 0, 1);
  return { lead: below.map((u) => Math.max(m - u, 0)), power };
}

function normEntropy(p, alpha) {
  const top = maximum(p);
  if (alpha === Infinity || !top) return top - 1;
  return top * Math.pow(sum(p.map((x) => Math.pow(x / top, alpha))), 1 / alpha) - 1;
}

function normmaxJacobian(z, alpha) {
  const { lead, power } = normmaxLead(z, alpha);
  const w = lead.map((v) => (v > 0 ? Math.pow(v, power) : 0)), mass = sum(w), p = w.map((x) => x / mass);
  const slope = lead.map((v) => (v > 0 ? (power * Math.pow(v, power - 1)) / mass : 0));
  const moved = matrix(z.length, (i, j) => slope[i] * ((i === j) - p[j])); // of w: the threshold moves by <p, dz>
  const gain = range(z.length).map((j) => sum(moved.map((row) => row[j])));
  return matrix(z.length, (i, j) => moved[i][j] - p[i] * gain[j]);
}
