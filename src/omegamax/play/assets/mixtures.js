// Mixtures of densities, fitted to weighted points by expectation-maximisation, and how many components they need.

// Centres of the cells of a grid over the unit interval or square; coordinates are (x, y), rows one after the other.
function gridPoints(size) {
  const centre = (i, k) => (2 * i + 1) / (2 * k);
  if (size.length === 1) return range(size[0]).map((i) => [centre(i, size[0])]);
  const [height, width] = size;
  return range(height * width).map((i) => [centre(i % width, width), centre(Math.floor(i / width), height)]);
}

// The least variance of a component, that of a uniform density over a cell.
const cellVariance = (size) => Math.pow(size.reduce((a, b) => a * b, 1), -2 / size.length) / 12;

// Least and largest coordinates of the points that have weight.
function boxOf(points, weights) {
  const kept = points.filter((_, l) => weights[l] > 0), axes = range(points[0].length);
  return [axes.map((a) => minimum(kept.map((x) => x[a]))), axes.map((a) => maximum(kept.map((x) => x[a])))];
}

const MARGIN = 1e-6; // part of a box by which a cut is moved: points on it belong to the second half, as in the library

// The box of the points that have weight, cut into boxes of equal volume.
function splitBoxes(points, weights, components) {
  const n = points[0].length, [low, high] = boxOf(points, weights);
  const fraction = points.map((x) => x.map((t, a) => (high[a] > low[a] ? (t - low[a]) / (high[a] - low[a]) : 0.5)));
  const labels = zeros(points.length);
  (function cut(box, label, parts, axis) {
    if (parts === 1) return;
    const first = Math.floor(parts / 2), [start, end] = box[axis], middle = start + ((end - start) * first) / parts;
    labels.forEach((own, l) => { if (own === label && fraction[l][axis] >= middle - MARGIN) labels[l] = label + first; });
    const following = axis ? axis - 1 : n - 1, other = (side) => box.map((b, a) => (a === axis ? side : b));
    cut(other([start, middle]), label, first, following);
    cut(other([middle, end]), label + first, parts - first, following);
  })(range(n).map(() => [0, 1]), 0, components, n - 1);
  return labels;
}

// A covariance with no variance below the floor, in any direction.
function holdAtFloor(covariance, floor) {
  if (covariance.length === 1) return [Math.max(covariance[0], floor)];
  const [a, b, c] = covariance, middle = (a + c) / 2, half = (a - c) / 2, radius = Math.hypot(half, b);
  if (middle - radius >= floor) return covariance;
  if (middle + radius <= floor || radius <= Number.EPSILON * middle) return [floor, 0, floor];
  const centre = (middle + radius + floor) / 2, ratio = (middle + radius - floor) / (2 * radius);
  return [centre + ratio * half, ratio * b, centre - ratio * half];
}

// Weights, means and covariances of K Gaussians; alpha is put in when they are shown.
function weightedEm(size, given, components, iterations) {
  const total = sum(given), positive = (_, l) => given[l] > 0; // the others have no say
  const points = gridPoints(size).filter(positive), weights = given.filter((w) => w > 0).map((w) => w / total);
  const floor = cellVariance(size), whole = moments(points, weights);
  const maximise = (gamma) => {
    const mass = gamma.map((row) => dot(row, weights)), all = sum(mass);
    return mass.map((m, k) => {
      if (m <= Number.EPSILON ** 2) return { weight: 0, mean: whole.mean, covariance: holdAtFloor(whole.covariance, floor) };
      const { mean, covariance } = moments(points, gamma[k].map((g, l) => (g * weights[l]) / m));
      return { weight: m / all, mean, covariance: holdAtFloor(covariance, floor) };
    });
  };
  const labels = splitBoxes(points, weights, components);
  let state = maximise(range(components).map((k) => labels.map((label) => (label === k ? 1 : 0))));
  for (let i = 0; i < iterations; i++) state = maximise(shares(points, state).gamma);
  return { state, likelihood: dot(weights, shares(points, state).logs), size: 1 / dot(weights, weights) };
}

// The responsibility of each component for each point, and the logarithm of the mixture there.
function shares(points, state) {
  const n = points[0].length, gamma = state.map(({ weight, mean, covariance }) => {
    const precision = inverse(covariance), [a, b, c] = n === 1 ? [precision[0], 0, 0] : precision;
    const constant = Math.log(weight) - 0.5 * n * Math.log(2 * Math.PI) - 0.5 * Math.log(determinant(covariance));
    return points.map((x) => {
      const d = x[0] - mean[0], e = n === 1 ? 0 : x[1] - mean[1];
      return weight > 0 ? constant - 0.5 * (a * d * d + 2 * b * d * e + c * e * e) : -Infinity;
    });
  });
  const logs = points.map((_, l) => {
    let top = -Infinity, total = 0;
    for (const row of gamma) top = Math.max(top, row[l]);
    for (const row of gamma) total += row[l] = Math.exp(row[l] - top);
    for (const row of gamma) row[l] /= total;
    return top + Math.log(total);
  });
  return { gamma, logs };
}

// The smaller the better: what the fit leaves unexplained, plus the price of its parameters.
function criterionScore(name, penalty, { state, likelihood, size }, n) {
  const count = state.filter((c) => c.weight > 0).length, parameters = count * (1 + n + (n * (n + 1)) / 2) - 1;
  if (name === "Linear") return -2 * likelihood + penalty * count;
  return -2 * size * likelihood + parameters * (name === "AIC" ? 2 : Math.log(size));
}

// Mixtures of 1 to `most` components, their scores, and the one that scores best; of equals the smallest.
function selectComponents(size, weights, most, iterations, criterion, penalty) {
  const fits = range(most).map((k) => weightedEm(size, weights, k + 1, k ? iterations : 0));
  const scores = fits.map((fit) => criterionScore(criterion, penalty, fit, size.length)), best = minimum(scores);
  const chosen = scores.findIndex((s) => s <= best + 1e-9 * Math.max(Math.abs(best), 1));
  return { state: fits[chosen].state, scores, chosen };
}

function mixtureDensity(state, alpha) {
  const parts = state.filter((c) => c.weight > 0)
    .map((c) => ({ weight: c.weight, density: betaGaussian(c.mean, c.covariance, alpha) }));
  return { n: parts[0].density.n, alpha, parts, prob: (t) => sum(parts.map((c) => c.weight * c.density.prob(t))) };
}
