// Every density that can be put over the line or over an image: its parameters, its fit, and its line of Python.

// Below these alphas there is no variance: 0.5 for a quadratic score in the plane, 2/3 for a linear one on the line.
const DENSITY_ALPHA = { name: "alpha", label: "alpha", low: 0.6, high: 4, step: 0.05, start: 1.5 };
const LINEAR_ALPHA = { ...DENSITY_ALPHA, low: 0.7 };
const COMPONENTS = { name: "K", label: "components K", low: 1, high: 5, step: 1, start: 2 };
const ITERATIONS = { name: "iterations", label: "iterations", low: 0, high: 50, step: 1, start: 10 };

const fitOne = (size, w) => weightedEm(size, w, 1, 0).state[0];
const varianceText = (L) => `((w @ x**2) - (w @ x) ** 2).clamp(min=1 / (12 * ${L}**2)).reshape(1, 1)`;

const quadraticKind = (name, alpha, summary) => ({
  name, summary, parameters: alpha == null ? [DENSITY_ALPHA] : [],
  fit(size, w, a) {
    const { mean, covariance } = fitOne(size, w);
    return betaGaussian(mean, covariance, alpha ?? a.alpha);
  },
  python: (a) => `omegamax.mixtures.weighted_em(x, w, 1, alpha=${alpha === 4 / 3 ? "4 / 3" : plain(alpha ?? a.alpha)})`,
});

const linearKind = (name, alpha, summary) => ({
  name, summary, line: true, parameters: alpha == null ? [LINEAR_ALPHA] : [],
  fit(size, w, a) {
    const { mean, covariance } = fitOne(size, w);
    return betaLaplace(mean, covariance, alpha ?? a.alpha);
  },
  python: (a, size) =>
    `omegamax.densities.BetaLaplace.from_moments(w @ x, ${varianceText(size[0])}, alpha=${plain(alpha ?? a.alpha)})`,
});

const KINDS = [
  quadraticKind("Gaussian", 1, "continuous softmax of a quadratic score: alpha = 1"),
  quadraticKind("truncated paraboloid", 2, "continuous sparsemax: alpha = 2, exactly zero outside an interval or ellipse"),
  quadraticKind("biweight", 1.5, "alpha = 1.5, compact and smooth at its ends"),
  quadraticKind("triweight", 4 / 3, "alpha = 4/3, compact and smoother still"),
  quadraticKind("beta-Gaussian", null, "the whole family: heavy tails below alpha = 1, compact above"),
  linearKind("Laplace", 1, "of a score that falls off linearly: alpha = 1"),
  linearKind("triangular", 2, "of a score that falls off linearly: alpha = 2"),
  linearKind("beta-Laplace", null, "every alpha of a score that falls off linearly"),
  {
    name: "mixture",
    summary: "K components, fitted by weighted expectation-maximisation",
    parameters: [COMPONENTS, { ...DENSITY_ALPHA, start: 1 }, ITERATIONS],
    fit: (size, w, a) => mixtureDensity(weightedEm(size, w, a.K, a.iterations).state, a.alpha),
    python: (a) => `omegamax.mixtures.weighted_em(x, w, ${a.K}, ${a.iterations}, alpha=${plain(a.alpha)})`,
  },
  {
    name: "selected mixture",
    summary: "as many components as the criterion finds them worth",
    parameters: [
      { ...COMPONENTS, label: "at most K", start: 4 },
      { name: "criterion", label: "criterion", choices: ["BIC", "AIC", "Linear"], start: "BIC" },
      { name: "penalty", label: "penalty", low: 0, high: 5, step: 0.05, start: 0.2, when: (a) => a.criterion === "Linear" },
      { ...DENSITY_ALPHA, start: 1 },
      ITERATIONS,
    ],
    fit(size, w, a) {
      const { state, scores, chosen } = selectComponents(size, w, a.K, a.iterations, a.criterion, a.penalty);
      return { ...mixtureDensity(state, a.alpha), scores, chosen };
    },
    python: (a) =>
      `omegamax.mixtures.select_components(x, w, ${a.K}, omegamax.mixtures.${a.criterion}` +
      `(${a.criterion === "Linear" ? plain(a.penalty) : ""}), 1, init="split", iterations=${a.iterations}, alpha=${plain(a.alpha)})`,
  },
  {
    name: "grid density",
    line: true,
    summary: "of the scores themselves, whatever their shape: entmax over the interval",
    parameters: [{ ...DENSITY_ALPHA, low: 0.5, start: 2 }],
    fit: (size, w, a, z) => gridDensity(z, a.alpha),
    python: (a, size) => `omegamax.densities.GridDensity(z, x, torch.full_like(z, 1 / ${size[0]}), alpha=${plain(a.alpha)})`,
  },
];

const kindOf = (name) => KINDS.find((kind) => kind.name === name);
