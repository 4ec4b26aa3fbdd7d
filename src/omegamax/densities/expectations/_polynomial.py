r"""Moments of a beta-Gaussian, in closed form: monomials of any degree, in any dimension.

A spherical vector has the moments of a Gaussian one, up to a factor for each degree: with ``e = alpha - 1`` and
``g = 1 + en/2`` those of degree 2r are

.. math:: \kappa_r = \prod_{j=1}^{r} \frac{1}{g + ej}
          \qquad \bigl(E[R^r] = (\tfrac n2)_r \, \kappa_r \text{ for half the squared radius } R\bigr)

times the Gaussian's, for every alpha: 1 at alpha = 1, and finite below it as long as the moment is.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from omegamax._checks import readable
from omegamax.basis import Polynomial
from omegamax.densities._base import register_expectation
from omegamax.densities._beta_gaussian import BetaGaussian
from omegamax.densities.expectations._nodes import trace_as_constant
from omegamax.densities.expectations._product import excess, to_double_precision

Exponents = tuple[int, ...]


class Recurrence(NamedTuple):
    """How the K monomials of one degree follow from those of the two degrees below."""

    axis: Tensor  # [K]: the variable i that is split off
    rest: Tensor  # [K]: the index of what is left, among those of the degree below
    lower: Tensor  # [K, n]: the index of that without a variable j, among those two degrees below
    power: Tensor  # [K, n]: the exponent of j in what is left


@register_expectation(BetaGaussian, Polynomial)
def expect_polynomial(density: BetaGaussian, basis: Polynomial) -> Tensor:
    """Return the means of the monomials, ``[*, J]``.

    Where alpha < 1 leaves no finite mean, it is inf for a monomial with even exponents and NaN otherwise.
    """
    wide, e, n = to_double_precision(density), excess(density), basis.dimension
    select = None
    if readable(basis.exponents):
        wanted: tuple[Exponents, ...] = tuple(map(tuple, basis.exponents.tolist()))
    else:  # every monomial that there could be, and later those that there are
        size = basis.degree + 1
        wanted = tuple(product(range(size), repeat=n))
        select = (basis.exponents * torch.tensor([size ** (n - 1 - i) for i in range(n)]).to(basis.exponents)).sum(-1)
    indices, degrees, even, *tables = (t.to(wide.loc.device) for t in _plan(wanted))
    steps = [Recurrence(*tables[i : i + 4]) for i in range(0, len(tables), 4)]
    levels = gaussian_moments(wide.loc, wide.dilation[..., None, None] * wide.scale, steps)
    factors = _factors(e, n, len(steps) // 2).to(wide.loc.device)
    moments = torch.cat([(level * factors[..., None, : level.shape[-1]]).sum(-1) for level in levels], -1)
    value = moments[..., indices]
    # Where tails are heavy the moments of a degree exist below the degrees of freedom.
    exists = 1 + (e.unsqueeze(-1) if isinstance(e, Tensor) else e) * ((n + degrees) / 2) > 0
    value = torch.where(exists, value, torch.where(even, math.inf, math.nan))
    return (value if select is None else value[..., select]).to(density.loc.dtype)


def gaussian_moments(loc: Tensor, covariance: Tensor, steps: list[Recurrence]) -> list[Tensor]:
    r"""Return moments of Gaussians by Stein's recurrence, each split by powers r of the covariance.

    .. math:: E[t_i \, f(t)] = \mu_i \, E[f(t)] + \sum_j \Sigma_{ij} \, E[\partial_j f(t)]

    Returns:
        for each degree d from 0 on, ``[*, K, d // 2 + 1]``; the moment is the sum over the last axis.
    """
    levels = [torch.ones_like(loc[..., :1, None])]
    for degree, step in enumerate(steps, start=1):
        level = loc[..., step.axis].unsqueeze(-1) * levels[-1][..., step.rest, :]
        if degree == 1:
            levels.append(level)
            continue
        shares = covariance[..., step.axis, :] * step.power
        risen = (shares.unsqueeze(-1) * levels[-2][..., step.lower, :]).sum(-2)
        # One power more of the covariance.
        if degree % 2 == 0:
            level = torch.nn.functional.pad(level, (0, 1))
        levels.append(level + torch.nn.functional.pad(risen, (1, 0)))
    return levels


def _factors(e: float | Tensor, n: int, count: int) -> Tensor:
    """Return ``kappa_r`` for r from 0 to ``count``, ``[*, count + 1]``; something finite where there is no moment."""
    e = e.unsqueeze(-1) if isinstance(e, Tensor) else torch.tensor([e], dtype=torch.float64)
    pace = 1 + e * (n / 2 + torch.arange(1, count + 1, dtype=torch.float64, device=e.device))
    inverse = 1 / torch.where(pace > 0, pace, 1.0)
    return torch.cat([torch.ones_like(e), inverse.cumprod(-1)], -1)


@trace_as_constant
def _plan(wanted: tuple[Exponents, ...]) -> tuple[Tensor, ...]:
    """Return, for each monomial, its index, its degree and whether its exponents are even; then the steps."""
    return tuple(torch.tensor(table, device="cpu") for table in _tables(wanted))


@lru_cache(maxsize=64)
def _tables(wanted: tuple[Exponents, ...]) -> list[np.ndarray]:
    n = len(wanted[0])
    levels: list[set[Exponents]] = [set() for _ in range(max(map(sum, wanted)) + 1)]
    levels[0].add((0,) * n)
    for k in wanted:
        levels[sum(k)].add(k)
    for d in range(len(levels) - 1, 0, -1):  # each asks for monomials of lower degree only
        for k in levels[d]:
            rest = _less(k, _axis(k))
            levels[d - 1].add(rest)
            levels[max(d - 2, 0)].update(_less(rest, j) for j in range(n) if rest[j])
    ordered = [sorted(level) for level in levels]
    index_of = {k: i for level in ordered for i, k in enumerate(level)}
    start = np.cumsum([0, *map(len, ordered)])
    tables = [
        np.array([start[sum(k)] + index_of[k] for k in wanted]),
        np.array([sum(k) for k in wanted]),
        np.array([all(x % 2 == 0 for x in k) for k in wanted]),
    ]
    for level in ordered[1:]:
        rests = [_less(k, _axis(k)) for k in level]
        lower = [[index_of[_less(rest, j)] if rest[j] else 0 for j in range(n)] for rest in rests]
        tables += map(np.array, ([_axis(k) for k in level], [index_of[rest] for rest in rests], lower, rests))
    return tables


def _axis(k: Exponents) -> int:
    """Return the first variable of a monomial."""
    return next(i for i, x in enumerate(k) if x)


def _less(k: Exponents, i: int) -> Exponents:
    """Return the monomial divided by one of its variables."""
    return (*k[:i], k[i] - 1, *k[i + 1 :])
