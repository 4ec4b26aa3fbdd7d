"""Directions: quadrature rules on the unit sphere, with a point opposite to each point."""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import combinations_with_replacement
from statistics import NormalDist

import numpy as np
import torch
from torch import Tensor

from omegamax.densities.expectations._nodes import trace_as_constant

# Beyond this dimension a product of rules takes too many points.
PRODUCT_UP_TO = 4
_PAIRS = 256


@trace_as_constant
def sphere_nodes(n: int, order: int) -> tuple[Tensor, Tensor]:
    r"""Return unit vectors ``[M, n]`` and weights ``[M]`` that sum to one: means over the directions in n dimensions.

    - n = 1: the two directions of a line;
    - n = 2: ``2 order`` equispaced angles;
    - n = 3 and 4: their product with ``order`` Gaussian nodes for the cosine of each further angle. Like the angles,
      exact for polynomials of degree ``2 order - 1``;
    - n > 4: ``256 order`` points of a quasi-random sequence, and their opposites. Their weights differ from equal ones
      by as little as makes the rule exact up to the degree for which the points suffice. With order 4 that is degree
      9 in five dimensions, 7 in six, 5 up to nine, 3 up to 31 and 1 beyond.

        >>> directions, weights = sphere_nodes(3, 4)
        >>> directions.shape, (weights * directions[:, 2] ** 4).sum()  # 3 / (n (n + 2))
        (torch.Size([32, 3]), tensor(0.2000, dtype=torch.float64))
    """
    directions, weights = _make_rule(n, order)
    return torch.tensor(directions, device="cpu"), torch.tensor(weights, device="cpu")


@lru_cache(maxsize=64)
def _make_rule(n: int, order: int) -> tuple[np.ndarray, np.ndarray]:
    if n == 1:
        return np.array([[1.0], [-1.0]]), np.array([0.5, 0.5])
    if n == 2:
        angles = np.arange(2 * order) * (math.pi / order)
        return np.stack([np.cos(angles), np.sin(angles)], -1), np.full(2 * order, 0.5 / order)
    if n > PRODUCT_UP_TO:
        half = _scatter(n, _PAIRS * order)
        weights = _match_moments(half) / 2
        return np.concatenate([half, -half]), np.concatenate([weights, weights])
    # The last coordinate has a density proportional to (1 - x^2)^((n - 3) / 2): Legendre's and Chebyshev's rules.
    rim, rim_weights = _make_rule(n - 1, order)
    if n == 3:
        height, weights = np.polynomial.legendre.leggauss(order)
    else:
        angles = np.arange(1, order + 1) * (math.pi / (order + 1))
        height, weights = np.cos(angles), np.sin(angles) ** 2
    around = np.sqrt(1 - height**2)[:, None, None] * rim
    above = np.broadcast_to(height[:, None, None], (*around.shape[:2], 1))
    directions = np.concatenate([around, above], -1).reshape(-1, n)
    return directions, np.outer(weights / weights.sum(), rim_weights).ravel()


def _scatter(n: int, count: int) -> np.ndarray:
    """Return quasi-random directions ``[count, n]``: Kronecker's sequence for powers of a generalised golden ratio."""
    golden = 2.0
    for _ in range(64):
        golden = (1 + golden) ** (1 / (n + 1))
    uniform = (0.5 + np.arange(1, count + 1)[:, None] * golden ** -np.arange(1.0, n + 1)) % 1
    normal = np.vectorize(NormalDist().inv_cdf)(uniform)
    return normal / np.linalg.norm(normal, axis=1, keepdims=True)


def _match_moments(points: np.ndarray) -> np.ndarray:
    """Return the weights ``[count]`` closest to equal ones with which even monomials have their means.

    All monomials of lower degree then have theirs.
    """
    count, n = points.shape
    weights = np.full(count, 1 / count)
    degree = 0
    while math.comb(n + degree + 1, degree + 2) <= count // 2:
        degree += 2
    if degree == 0:
        return weights
    factors = np.array(list(combinations_with_replacement(range(n), degree)))
    exponents = np.stack([(factors == i).sum(1) for i in range(n)], 1)
    # E[prod u_i^(2 k_i)] = prod (1/2)_(k_i) / (n/2)_(sum k). Multinomial coefficients balance the equations.
    rising = np.concatenate([[1.0], np.cumprod(0.5 + np.arange(degree // 2))])
    means = rising[exponents // 2].prod(1) / (n / 2 + np.arange(degree // 2)).prod()
    means[(exponents % 2).any(1)] = 0.0
    factorials = np.array([math.factorial(k) for k in range(degree + 1)], dtype=float)
    balance = np.sqrt(factorials[degree] / factorials[exponents].prod(1))
    equations = np.ones((len(factors), count))
    for column in factors.T:
        equations *= points[:, column].T
    equations *= balance[:, None]
    for _ in range(2):  # the second time removes what rounding left of the first
        short = means * balance - equations @ weights
        weights = weights + equations.T @ np.linalg.solve(equations @ equations.T, short)
    return weights
