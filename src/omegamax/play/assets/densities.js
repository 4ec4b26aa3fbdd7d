// Densities over the line and the plane: what entmax makes of a score that falls off as a square or linearly.

// Minus the logarithm of the volume of (1 - e |x|^2 / 2)^(1/e), in units of the Gaussian's.
function logVolume(e, n) {
  if (n === 2) return Math.log1p(e);
  if (e === 0) return 0;
  const m = 1 / Math.abs(e);
  return e > 0
    ? logGamma(m + 1.5) - logGamma(m + 1) - 0.5 * Math.log(m)
    : logGamma(m) - logGamma(m - 0.5) - 0.5 * Math.log(m);
}

// A symmetric matrix of one or two dimensions, as [a] or [a, b, c].
const determinant = (s) => (s.length === 1 ? s[0] : s[0] * s[2] - s[1] * s[1]);
const inverse = (s) => (s.length === 1 ? [1 / s[0]] : [s[2], -s[1], s[0]].map((x) => x / determinant(s)));
const quadratic = (s, d) =>
  s.length === 1 ? s[0] * d[0] * d[0] : s[0] * d[0] * d[0] + 2 * s[1] * d[0] * d[1] + s[2] * d[1] * d[1];

// The beta-Gaussian with a mean and a covariance: a Gaussian at alpha = 1, compact above, heavy tails below. Its loss at a
// point is Omega*(f) - f(t), at alpha = 1 minus the log-likelihood.
function betaGaussian(mean, covariance, alpha) {
  const n = mean.length, e = alpha - 1, g = 1 + (e * n) / 2, delta = logVolume(e, n);
  const volume = (s) => 0.5 * Math.log(determinant(s)) + 0.5 * n * Math.log(2 * Math.PI);
  const factor = Math.exp(g * Math.log(g + e) - e * (delta - volume(covariance)));
  const scale = covariance.map((x) => x * factor), precision = inverse(scale);
  const logPeak = (delta - volume(scale)) / g, dilation = Math.exp(e * logPeak);
  const logPartition = e === 0 ? -logPeak : -Math.expm1(e * logPeak) / e;
  const entropy = (logPartition + n / (2 * alpha)) / (g + e);
  const cost = (t) => quadratic(precision, t.map((x, i) => x - mean[i])) / 2; // minus the score
  const conjugate = entropy - n / (2 * factor); // E_p[f] - Omega(p)
  return {
    n, mean, covariance, alpha, entropy,
    // In units of the deviation along each direction; infinite where the support is.
    radius: e > 0 ? Math.sqrt((2 * dilation * factor) / e) : Infinity,
    loss: (t) => cost(t) + conjugate,
    prob(t) {
      const q = cost(t);
      if (e === 0) return Math.exp(logPeak - q);
      const base = 1 - (e * q) / dilation;
      return base > 0 ? Math.exp(logPeak + Math.log(base) / e) : 0;
    },
  };
}

// The same for a score that falls off linearly, over the line: Laplace at alpha = 1, triangular at 2.
function betaLaplace(mean, covariance, alpha) {
  const e = alpha - 1, unit = Math.sqrt((covariance[0] * (2 * alpha - 1) * (3 * alpha - 2)) / 2), peak = alpha / (2 * unit);
  const power = e === 0 ? 0 : Math.pow(peak, e) * alpha / (2 * alpha - 1); // the integral of p^alpha
  const entropy = e === 0 ? 1 - Math.log(peak) : -(power - 1) / (alpha * e), scale = unit / Math.pow(peak, e);
  return {
    n: 1, mean, covariance, alpha, entropy,
    radius: e > 0 ? unit / e / Math.sqrt(covariance[0]) : Infinity,
    loss: ([t]) => (Math.abs(t - mean[0]) - unit / (2 * alpha - 1)) / scale + entropy,
    prob([t]) {
      const distance = Math.abs(t - mean[0]) / unit;
      if (e === 0) return peak * Math.exp(-distance);
      const base = 1 - e * distance;
      return base > 0 ? peak * Math.pow(base, 1 / e) : 0;
    },
  };
}

// Any scores at nodes of equal weight: entmax over the interval, linear between nodes and constant beyond the last.
function gridDensity(scores, alpha) {
  const count = scores.length, p = entmax(scores, alpha, 1, 1 / count);
  const nodes = range(count).map((i) => (i + 0.5) / count);
  const average = dot(p, nodes) / count;
  const powers = p.map((x) => (x > 0 ? (alpha === 1 ? x * Math.log(x) : Math.pow(x, alpha)) : 0));
  return {
    n: 1, alpha, values: p, mean: [average],
    covariance: [sum(p.map((x, i) => (x * (nodes[i] - average) ** 2) / count))],
    entropy: alpha === 1 ? -sum(powers) / count : (1 - sum(powers) / count) / (alpha * (alpha - 1)),
    radius: Infinity,
    prob([t]) {
      const place = clamp(t * count - 0.5, 0, count - 1), i = Math.min(Math.floor(place), count - 2);
      return count === 1 ? p[0] : p[i] + (place - i) * (p[i + 1] - p[i]);
    },
  };
}

// Mean and covariance of points under weights that sum to one.
function moments(points, weights) {
  const n = points[0].length, mean = zeros(n), covariance = zeros(n === 1 ? 1 : 3);
  points.forEach((x, l) => { for (let a = 0; a < n; a++) mean[a] += weights[l] * x[a]; });
  points.forEach((x, l) => {
    const d = x[0] - mean[0], e = n === 1 ? 0 : x[1] - mean[1];
    covariance[0] += weights[l] * d * d;
    if (n === 2) (covariance[1] += weights[l] * d * e), (covariance[2] += weights[l] * e * e);
  });
  return { mean, covariance };
}
