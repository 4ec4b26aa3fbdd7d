"""A factor graph as one quadratic program over the listed structures of each factor."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from omegamax.structured import FactorGraph, Variable

F64 = torch.float64

# What each logic factor means, as a predicate on 0/1 values.
MEANING: dict[str, Callable[..., bool]] = {
    "Xor": lambda *y: sum(y) == 1,
    "AtMostOne": lambda *y: sum(y) <= 1,
    "Or": lambda *y: sum(y) >= 1,
    "Imply": lambda *y: bool(y[-1]) or not all(y[:-1]),
    "XorOut": lambda *y: sum(y[:-1]) <= 1 and y[-1] == sum(y[:-1]),
    "OrOut": lambda *y: bool(y[-1]) == any(y[:-1]),
    "AndOut": lambda *y: bool(y[-1]) == all(y[:-1]),
}


def allowed(meaning: Callable[..., bool], size: int) -> np.ndarray:
    """The 0/1 vectors for which a predicate holds, ``[S, m]``."""
    return np.array([y for y in itertools.product((0.0, 1.0), repeat=size) if meaning(*y)]).reshape(-1, size)


@dataclass
class Joint:
    """Variables with scores ``[N]``, and for each factor its variables, structures and their additional scores."""

    scores: np.ndarray
    factors: list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = field(default_factory=list)

    def add(self, variables: Variable, structures: np.ndarray, additional: np.ndarray | None = None) -> None:
        """A factor on variables (some perhaps negated) with structures ``[S, m]`` and their scores ``[S]``."""
        worth = np.zeros(len(structures)) if additional is None else additional
        self.factors.append((variables.index.reshape(-1), variables.negated.reshape(-1), structures, worth))

    def solve(self) -> np.ndarray | None:
        """Marginals ``[N]``, or None if the program is infeasible."""
        return self.maximum()[0]

    def maximum(self) -> tuple[np.ndarray | None, float]:
        """The same, and the largest value of ``<eta, u> + sum_f <worth_f, weights_f> - |u|^2 / 2``."""
        import cvxpy as cp

        u = cp.Variable(len(self.scores))
        objective, constraints = cp.sum_squares(u - self.scores) / 2, [u >= 0, u <= 1]
        for index, negated, structures, worth in self.factors:
            weights = cp.Variable(len(structures), nonneg=True)
            seen = cp.multiply(1.0 - 2.0 * negated, u[index]) + negated.astype(float)
            constraints += [cp.sum(weights) == 1, structures.T @ weights == seen]
            objective = objective - worth @ weights
        problem = cp.Problem(cp.Minimize(objective), constraints)
        tolerances = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-13)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the solver says when it stops short; the test measures how short
            problem.solve(solver=cp.CLARABEL, **tolerances)
        if u.value is None or problem.status == "infeasible":
            return None, -np.inf
        return u.value, float((self.scores**2).sum() / 2 - problem.value)


def solved(scores: Tensor, build: Callable[[FactorGraph, Variable], None], **options) -> Tensor:
    """Values ``[*batch, n]`` of one row of variables under the factors that ``build`` adds."""
    fg = FactorGraph()
    u = fg.variable_from(scores, batch_dims=scores.dim() - 1)
    build(fg, u)
    fg.solve(**options)
    return u.value
