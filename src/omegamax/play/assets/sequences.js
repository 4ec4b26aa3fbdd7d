// SparseMAP over the 0/1 sequences with k ones, where a pair of neighbours has a score: an active set of sequences.

// The sequence with the largest <z, y> + transition * (pairs of ones next to each other), by dynamic programming.
function bestSequence(z, k, transition, atMost) {
  const n = z.length;
  // best[i][c][s]: of the first i entries, c of them ones, the last one s.
  const best = range(n + 1).map(() => range(k + 1).map(() => [-Infinity, -Infinity]));
  const from = range(n + 1).map(() => range(k + 1).map(() => [0, 0]));
  best[0][0][0] = 0;
  for (let i = 0; i < n; i++) {
    for (let c = 0; c <= k; c++) {
      for (const s of [0, 1]) {
        const value = best[i][c][s];
        if (value === -Infinity) continue;
        if (value > best[i + 1][c][0]) (best[i + 1][c][0] = value), (from[i + 1][c][0] = s);
        const gain = value + z[i] + (s ? transition : 0);
        if (c < k && gain > best[i + 1][c + 1][1]) (best[i + 1][c + 1][1] = gain), (from[i + 1][c + 1][1] = s);
      }
    }
  }
  let [count, last] = [k, 0];
  for (const c of atMost ? range(k + 1) : [k]) {
    for (const s of [0, 1]) if (best[n][c][s] > best[n][count][last]) [count, last] = [c, s];
  }
  const y = zeros(n), value = best[n][count][last];
  for (let i = n, c = count, s = last; i > 0; i--) {
    const before = from[i][c][s];
    if (s) (y[i - 1] = 1), (c -= 1);
    s = before;
  }
  return { y, value };
}

const neighbours = (y) => sum(y.map((x, i) => (i ? x * y[i - 1] : 0)));

// The marginals p, and the sequences they mix. The active set stays affinely independent: a sequence that depends on
// those there takes the place of one of them.
function sparseMap(z, k, transition, atMost) {
  const n = z.length, score = (y) => dot(z, y) + transition * neighbours(y);
  let active = [bestSequence(z, k, transition, atMost).y], weights = [1];
  const marginals = () => range(n).map((i) => sum(active.map((y, a) => weights[a] * y[i])));
  const drop = (gone) => {
    active = active.filter((_, a) => !gone(a));
    weights = weights.filter((_, a) => !gone(a));
  };
  const gram = () => active.map((y) => active.map((x) => dot(x, y) + 1));

  for (let round = 0; round < 500; round++) {
    // Of all mixtures of the active set, negative weights and all, the best: then as far towards it as weights allow.
    const border = active.map((y) => [...active.map((x) => dot(x, y)), 1]);
    const wanted = solveSystem([...border, [...active.map(() => 1), 0]], [...active.map(score), 1]);
    const goal = wanted.slice(0, -1);
    if (goal.some((w) => w < -1e-14)) {
      let step = 1, out = -1;
      goal.forEach((w, a) => {
        const reach = w < 0 ? weights[a] / (weights[a] - w) : Infinity;
        if (reach <= step) (step = reach), (out = a);
      });
      weights = weights.map((w, a) => w + step * (goal[a] - w));
      drop((a) => a === out);
      continue;
    }
    weights = goal.map((w) => Math.max(w, 0));
    const p = marginals(), found = bestSequence(z.map((x, i) => x - p[i]), k, transition, atMost);
    const known = maximum(active.map((y) => dot(y, z) - dot(y, p) + transition * neighbours(y)));
    if (found.value <= known + 1e-11) break;
    const share = solveSystem(gram(), active.map((y) => dot(y, found.y) + 1));
    const rest = found.y.map((x, i) => x - sum(active.map((y, a) => share[a] * y[i])));
    const apart = dot(rest, rest) + (1 - sum(share)) ** 2;
    if (apart > 1e-16) {
      active.push(found.y), weights.push(0);
      continue;
    }
    let step = Infinity, out = -1;
    share.forEach((a, i) => { if (a > 1e-12 && weights[i] / a < step) (step = weights[i] / a), (out = i); });
    weights = weights.map((w, i) => w - step * share[i]);
    active.push(found.y), weights.push(step);
    drop((a) => a === out);
  }
  drop((a) => weights[a] <= 1e-12);
  return { p: marginals(), active, weights };
}

function sequenceConjugate(z, p, k, transition, atMost) {
  return 0.5 * dot(p, p) + bestSequence(z.map((x, i) => x - p[i]), k, transition, atMost).value;
}

// The projection onto the differences of the sequences that are mixed.
function sequenceJacobian(active) {
  const n = active[0].length, basis = [];
  for (const y of active.slice(1)) {
    let d = y.map((x, i) => x - active[0][i]);
    for (let twice = 0; twice < 2; twice++) for (const b of basis) {
      const along = dot(b, d);
      d = d.map((x, i) => x - along * b[i]);
    }
    const size = Math.sqrt(dot(d, d));
    if (size > 1e-8) basis.push(d.map((x) => x / size));
  }
  return matrix(n, (i, j) => sum(basis.map((b) => b[i] * b[j])));
}
