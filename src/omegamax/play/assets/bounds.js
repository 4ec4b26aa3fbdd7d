// Maps between bounds: clip(z - tau, lower, upper) with a given sum, and softmax under a ceiling.

// The sum is piecewise linear in tau: between the two breakpoints where it passes the total, tau is in closed form.
function clipToSum(z, lower, upper, total) {
  const clip = (tau) => z.map((x) => clamp(x - tau, lower, upper));
  const breaks = z.flatMap((x) => [x - upper, x - lower]).sort((a, b) => a - b);
  let low = 0, high = breaks.length - 1; // the sum falls from the first breakpoint to the last
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (sum(clip(breaks[middle])) >= total) low = middle;
    else high = middle;
  }
  const [left, right] = [breaks[low], breaks[high]];
  let free = 0, held = 0, scores = 0;
  for (const x of z) {
    if (x - upper >= right) held += upper;
    else if (x - lower <= left) held += lower;
    else (free += 1), (scores += x);
  }
  const tau = free ? (scores + held - total) / free : (left + right) / 2;
  return clip(clamp(tau, left, right));
}

const sparsemax = (z) => clipToSum(z, 0, 1, 1);

function kSubsets(z, k, atMost = false) {
  const box = z.map((x) => clamp(x, 0, 1));
  return atMost && sum(box) <= k ? box : clipToSum(z, 0, 1, Math.min(k, z.length));
}

// Entries are held at the ceiling, the largest first, until the others, with what is left, stay below it.
function cappedSoftmax(z, upper) {
  const order = range(z.length).sort((i, j) => z[j] - z[i]), p = zeros(z.length).fill(upper);
  for (let held = 0, left = 1; held < order.length; held++, left -= upper) {
    const free = order.slice(held), share = entmax(free.map((i) => z[i]), 1);
    if (share[0] * left > upper) continue;
    free.forEach((i, rank) => { p[i] = share[rank] * left; });
    break;
  }
  return p;
}

// Entries strictly between their bounds share what changes.
function boundedJacobian(p, lower, upper, moves = true) {
  const free = p.map((x) => (x > lower && x < upper ? 1 : 0)), count = sum(free) || 1;
  return matrix(p.length, (i, j) => free[i] * free[j] * ((i === j) - (moves ? 1 / count : 0)));
}

function cappedSoftmaxJacobian(p, upper) {
  const free = p.map((x) => (x < upper ? x : 0)), mass = sum(free) || 1;
  return matrix(p.length, (i, j) => (i === j ? free[i] : 0) - (free[i] * free[j]) / mass);
}
