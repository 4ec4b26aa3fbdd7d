// Every map: what it computes, its regulariser, its Jacobian, its parameters, and how Python calls it.

const ALPHA = { name: "alpha", label: "alpha", low: 1.05, high: 4, step: 0.05, start: 1.5 };
const STRENGTH = { name: "strength", label: "strength", low: 0, high: 1, step: 0.01, start: 0.25 };
const BASE = { name: "base", label: "base", choices: ["sparsemax", "softmax", "entmax15"], start: "sparsemax" };
const BASES = {
  sparsemax: { solve: sparsemax, alpha: 2 },
  softmax: { solve: (z) => entmax(z, 1), alpha: 1 },
  entmax15: { solve: entmax15, alpha: 1.5 },
};
const integer = (name, label, start) => ({ name, label, low: 1, high: (n) => n, step: 1, start });
const AT_MOST = { name: "at_most", label: "at most k", flag: true, start: false };

const half = (p) => 0.5 * dot(p, p);
const clippedSum = (z) => sum(z.map((x) => clamp(x, 0, 1)));

// A map with scores that are smoothed first: `base` of the result.
function penalised(smooth, penalty) {
  return {
    solve: (z, a) => BASES[a.base].solve(smooth(z, a).value),
    omega: (p, a) => tsallis(p, BASES[a.base].alpha) + a.strength * penalty(p, a),
    jacobian(z, p, a) {
      const own = entmaxJacobian(p, BASES[a.base].alpha);
      return a.strength > 0 ? multiply(own, poolJacobian(z.length, smooth(z, a).blocks)) : own;
    },
    search: (z, a) => ({ ...powerSearch(smooth(z, a).value, BASES[a.base].alpha), what: "sum of p, of the smoothed scores" }),
  };
}

const oneOf = (name, alpha, solve = (z) => entmax(z, alpha)) => ({
  name, parameters: [], solve, omega: (p) => tsallis(p, alpha), jacobian: (z, p) => entmaxJacobian(p, alpha),
  search: (z) => powerSearch(z, alpha), python: () => name,
});

const MAPS = [
  oneOf("softmax", 1),
  oneOf("sparsemax", 2, sparsemax),
  oneOf("entmax15", 1.5, entmax15),
  {
    name: "entmax",
    parameters: [{ ...ALPHA, low: 0.5 }],
    solve: (z, a) => entmax(z, a.alpha),
    omega: (p, a) => tsallis(p, a.alpha),
    jacobian: (z, p, a) => entmaxJacobian(p, a.alpha),
    search: (z, a) => powerSearch(z, a.alpha),
    python: (a) => `entmax|alpha=${a.alpha}`,
  },
  { ...oneOf("argmax", Infinity), search: () => "None: the largest score takes all, and equals share.", python: () => `entmax|alpha=float("inf")` },
  {
    name: "normmax",
    parameters: [{ ...ALPHA, low: 1.1, high: 10, start: 3 }],
    solve: (z, a) => normmax(z, a.alpha),
    omega: (p, a) => normEntropy(p, a.alpha),
    jacobian: (z, p, a) => normmaxJacobian(z, a.alpha),
    search: (z, a) => normSearch(z, a.alpha),
    python: (a) => `normmax|alpha=${a.alpha}`,
  },
  {
    name: "k_subsets",
    total: (a, n) => Math.min(a.k, n),
    parameters: [{ ...integer("k", "k", 2), step: 0.25 }, AT_MOST],
    solve: (z, a) => kSubsets(z, a.k, a.at_most),
    omega: half,
    jacobian: (z, p, a) => boundedJacobian(p, 0, 1, !(a.at_most && clippedSum(z) <= a.k)),
    search: (z, a) => (a.at_most && clippedSum(z) <= a.k
      ? "None: scores between 0 and 1 add up to k or less as they are." : clipSearch(z, 0, 1, Math.min(a.k, z.length))),
    python: (a) => `k_subsets|k=${a.k}${a.at_most ? ", at_most=True" : ""}`,
  },
  {
    name: "sequential_k_subsets",
    total: (a, n) => Math.min(a.k, n),
    parameters: [integer("k", "k", 3), { name: "transition", label: "transition", low: -2, high: 2, step: 0.1, start: 0.5 }, AT_MOST],
    solve: (z, a) => (a.transition ? sparseMap(z, a.k, a.transition, a.at_most).p : kSubsets(z, a.k, a.at_most)),
    omega: half,
    conjugate: (z, p, a) => sequenceConjugate(z, p, a.k, a.transition, a.at_most),
    omegaOfTarget: (y, a) => half(y) - a.transition * neighbours(y),
    jacobian: (z, p, a) => sequenceJacobian(sparseMap(z, a.k, a.transition, a.at_most).active),
    search: () => "None: whole sequences are mixed, found one after the other by an active set.",
    python: (a) => `sequential_k_subsets|k=${a.k}, transition=${a.transition}${a.at_most ? ", at_most=True" : ""}`,
  },
  {
    name: "constrained_softmax",
    upper: (a) => a.upper,
    parameters: [{ name: "upper", label: "upper bound", low: (n) => Math.ceil(100 / n) / 100, high: 1, step: 0.01, start: 0.4 }],
    solve: (z, a) => cappedSoftmax(z, a.upper),
    omega: (p) => tsallis(p, 1),
    jacobian: (z, p, a) => cappedSoftmaxJacobian(p, a.upper),
    search: (z, a) => cappedSearch(z, a.upper),
    python: (a) => `constrained_softmax|upper=${a.upper}`,
  },
  {
    name: "constrained_sparsemax",
    upper: (a) => a.upper,
    lower: (a) => a.lower,
    parameters: [
      { name: "upper", label: "upper bound", low: (n) => Math.ceil(100 / n) / 100, high: 1, step: 0.01, start: 0.4 },
      { name: "lower", label: "lower bound", low: 0, high: (n) => Math.floor(100 / n) / 100, step: 0.01, start: 0.02 },
    ],
    solve: (z, a) => clipToSum(z, a.lower, a.upper, 1),
    omega: (p) => tsallis(p, 2),
    jacobian: (z, p, a) => boundedJacobian(p, a.lower, a.upper),
    search: (z, a) => clipSearch(z, a.lower, a.upper, 1),
    python: (a) => `constrained_sparsemax|upper=${a.upper}, lower=${a.lower}`,
  },
  {
    name: "fusedmax",
    parameters: [STRENGTH, BASE],
    ...penalised((z, a) => smoothOnGraph(z, chain(z.length), a.strength), (p) => variation(p, chain(p.length))),
    python: (a) => `fusedmax|strength=${a.strength}, base="${a.base}"`,
  },
  {
    name: "graph_fusedmax",
    parameters: [STRENGTH, { name: "graph", label: "graph", choices: ["ring", "star", "complete"], start: "ring" }, BASE],
    ...penalised(
      (z, a) => smoothOnGraph(z, namedGraph(a.graph, z.length), a.strength), (p, a) => variation(p, namedGraph(a.graph, p.length))),
    python(a, n) {
      const edges = namedGraph(a.graph, n), side = (s) => `[${edges.map((e) => e[s]).join(", ")}]`;
      return `graph_fusedmax|torch.tensor([${side(0)}, ${side(1)}]), strength=${a.strength}, base="${a.base}"`;
    },
  },
  {
    name: "oscarmax",
    parameters: [{ ...STRENGTH, high: 0.5, start: 0.1 }, BASE],
    ...penalised((z, a) => smoothOnPairs(z, a.strength), largerOfPairs),
    python: (a) => `oscarmax|strength=${a.strength}, base="${a.base}"`,
  },
];

// Over an image, whose cells come row by row.
const TVMAX = {
  name: "tvmax",
  parameters: [{ ...STRENGTH, high: 0.1, step: 0.001, start: 0.01 }, BASE],
  ...penalised((z, a) => smoothOnGraph(z, gridEdges(a.height, a.width), a.strength), (p, a) => variation(p, gridEdges(a.height, a.width))),
  python: (a) => `tvmax|strength=${a.strength}, base="${a.base}"`,
};

const mapOf = (name) => [...MAPS, TVMAX].find((map) => map.name === name);

// The Fenchel-Young loss Omega(y) + Omega*(z) - <y, z>.
function fenchelYoung(map, z, p, y, a) {
  const conjugate = map.conjugate ? map.conjugate(z, p, a) : dot(p, z) - map.omega(p, a);
  return (map.omegaOfTarget ?? map.omega)(y, a) + conjugate - dot(y, z);
}
