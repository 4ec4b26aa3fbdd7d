// Sums, products, roots and small linear systems.

const sum = (a) => a.reduce((total, x) => total + x, 0);
const dot = (a, b) => a.reduce((total, x, i) => total + x * b[i], 0);
const maximum = (a) => a.reduce((most, x) => (x > most ? x : most), -Infinity);
const minimum = (a) => a.reduce((least, x) => (x < least ? x : least), Infinity);
const clamp = (x, low, high) => Math.min(Math.max(x, low), high);
const range = (n) => Array.from({ length: n }, (_, i) => i);
const zeros = (n) => new Array(n).fill(0);
const matrix = (n, entry) => range(n).map((i) => range(n).map((j) => entry(i, j)));

// The root of an increasing function between two ends, to the last bit.
function findRoot(f, low, high) {
  for (let i = 0; i < 200; i++) {
    const middle = (low + high) / 2;
    if (middle <= low || middle >= high) break;
    if (f(middle) < 0) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}

function multiply(a, b) {
  return a.map((row) => b[0].map((_, j) => row.reduce((total, x, k) => total + x * b[k][j], 0)));
}

// The solution of a x = b by elimination with pivots; null where there is none or more than one.
function solveSystem(a, b) {
  const n = b.length, rows = a.map((row, i) => [...row, b[i]]);
  for (let c = 0; c < n; c++) {
    let best = c;
    for (let r = c + 1; r < n; r++) if (Math.abs(rows[r][c]) > Math.abs(rows[best][c])) best = r;
    if (Math.abs(rows[best][c]) < 1e-11) return null;
    [rows[c], rows[best]] = [rows[best], rows[c]];
    for (let r = 0; r < n; r++) {
      if (r === c) continue;
      const factor = rows[r][c] / rows[c][c];
      if (factor) for (let k = c; k <= n; k++) rows[r][k] -= factor * rows[c][k];
    }
  }
  return rows.map((row, i) => row[n] / row[i]);
}

// log Gamma(x) for x > 0: Stirling's series, after steps up to where it is exact.
function logGamma(x) {
  let shift = 0;
  for (; x < 15; x++) shift += Math.log(x);
  const y = 1 / (x * x);
  const series = (1 / 12 - y * (1 / 360 - y * (1 / 1260 - y * (1 / 1680 - y / 1188)))) / x;
  return (x - 0.5) * Math.log(x) - x + 0.5 * Math.log(2 * Math.PI) + series - shift;
}
