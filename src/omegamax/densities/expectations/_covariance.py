"""Covariances under the escort of a density, which are the Jacobians of continuous entmax."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from omegamax import functional
from omegamax.densities._base import Density
from omegamax.densities._beta_gaussian import BetaGaussian
from omegamax.densities._grid import GridDensity
from omegamax.densities._laplace import BetaLaplace
from omegamax.densities._location_scale import LocationScale, _check_power
from omegamax.densities.expectations._nodes import gauss_tsallis
from omegamax.densities.expectations._product import default_order, excess, product_nodes, to_double_precision
from omegamax.densities.expectations._sphere import sphere_nodes
from omegamax.densities.expectations._windows import NODES, WEIGHTS, Flank

Statistic = Callable[[Tensor], Tensor]


def generalized_covariance(
    density: Density, first: Statistic, second: Statistic | None = None, beta: float | Tensor | None = None
) -> Tensor:
    r"""Return the covariance of two statistics under the escort of a density, times the integral of its power.

    .. math:: \mathrm{cov}_{p, \beta}[\phi, \psi] = \int p^\beta \,
              \bigl(E_{\tilde p^\beta}[\phi \psi^\top] - E_{\tilde p^\beta}[\phi] \, E_{\tilde p^\beta}[\psi]^\top\bigr)

    The covariance at beta = 1. For a density of the score :math:`\theta^\top \phi(t)` it is at beta = 2 - alpha the
    Jacobian of :math:`E_p[\psi(t)]` by theta: what continuous attention is learnt by.

    Args:
        density: a :class:`BetaGaussian`, by the rule of :func:`product_nodes`; a :class:`BetaLaplace` or a
            :class:`LocationScale`, by 64 nodes on each side of the peak; a :class:`GridDensity`, by its own rule.
        first, second: phi and psi, functions of points ``[*, Q, n]`` to ``[*, Q, A]``, such as a basis; ``second`` is
            ``first`` if None.
        beta: 2 - alpha by default. Above 0, or anything above :math:`1 - \alpha` for compact support (location-scale
            densities: at least 0).

    Returns:
        ``[*, A, B]``, differentiable in the parameters of the density.

        >>> p = BetaGaussian(torch.zeros(1), 2 / 3, alpha=2.0)  # on [-1, 1]
        >>> generalized_covariance(p, lambda t: t)  # 2 times the variance of the uniform density there
        tensor([[0.6667]])
        >>> generalized_covariance(p, lambda t: t, beta=1.0), p.variance
        (tensor([[0.2000]]), tensor([0.2000]))

    Reference: Martins et al. (NeurIPS 2020), Eq. 17 and Prop. 3.
    """
    if isinstance(density, (GridDensity, LocationScale)):
        power: Any = 2 - density.alpha if beta is None else beta
        if isinstance(density, LocationScale):
            _check_power("generalized_covariance", power)
            nodes, weights = density.quadrature()
            probs = density.prob(nodes.movedim(-2, 0)).movedim(0, -1)
        else:
            nodes, weights, probs = density.nodes, density.node_weights, density.probs_at_nodes
        power = power.unsqueeze(-1) if isinstance(power, Tensor) else power
        values = [first(nodes), None if second is None else second(nodes)]
        return functional.generalized_covariance(probs, power, *values, weights=weights)
    if not isinstance(density, (BetaGaussian, BetaLaplace)):
        raise NotImplementedError(
            "generalized_covariance: density must be a BetaGaussian, a BetaLaplace, a LocationScale or a GridDensity, "
            f"got {type(density).__name__}"
        )
    rule = _escort_rule(density, beta) if isinstance(density, BetaGaussian) else _flank_rule(density, beta)
    t, w, log_mass = rule
    points = t.to(density.loc.dtype)
    phi = first(points).double()
    psi = phi if second is None else second(points).double()
    w = w.unsqueeze(-1)
    phi, psi = phi - (w * phi).sum(-2, keepdim=True), psi - (w * psi).sum(-2, keepdim=True)
    return (log_mass.exp()[..., None, None] * (w * phi).mT @ psi).to(density.loc.dtype)


def _escort_rule(density: BetaGaussian, beta: float | Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Return points ``[*, Q, n]`` and weights of the escort, and the logarithm ``[*]`` of the integral of the power."""
    density = to_double_precision(density)
    n, e = density.dimension, excess(density)
    power: Any = 1 - e if beta is None else beta.double() if isinstance(beta, Tensor) else beta
    if _is_positive(power, e):
        escort = density.escort(power)
        t, w = product_nodes(escort)
        return t, w, power * density.log_peak - escort.log_peak
    # The power of 1 - e q / 2c, at 0 or below: uniform on the support, or larger towards its border.
    order = default_order(n)
    half, weights = (x.to(density.loc.device) for x in gauss_tsallis(order, n / 2 - 1, e, power))
    directions, shares = (x.to(density.loc.device) for x in sphere_nodes(n, order))
    z = ((2 * half).sqrt()[..., None, None] * directions).flatten(-3, -2)
    t = density.loc.unsqueeze(-2) + (z @ density.scale_tril.mT) * density.dilation.sqrt()[..., None, None]
    e, m = (torch.as_tensor(x, dtype=torch.float64, device=t.device) for x in (e, power / e))
    volume = density.scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    volume = volume + 0.5 * n * (2 * math.pi * density.dilation / e).log() + (m + 1).lgamma() - (m + 1 + n / 2).lgamma()
    return t, (weights.unsqueeze(-1) * shares).flatten(-2), power * density.log_peak + volume


def _flank_rule(density: BetaLaplace, beta: float | Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Return what :func:`_escort_rule` does, with the integral ``2 s p(mu)^beta / (beta + alpha - 1)``."""
    e: Any = density.alpha.double() - 1 if isinstance(density.alpha, Tensor) else density.alpha - 1
    power: Any = 1 - e if beta is None else beta.double() if isinstance(beta, Tensor) else beta
    density = BetaLaplace(density.loc.double(), density.scale.double(), 1 + e, validate_args=False)
    flank = Flank.of(density)
    if _is_positive(power, e):
        of_escort = Flank.of(density.escort(power))
        x = NODES.to(flank.loc.device)
        r, weights = of_escort.point(x)  # [*, 1, Q] and [Q]
        distance, weights = of_escort.unit * r.squeeze(-2), weights * WEIGHTS.to(x.device)
    else:
        r, weights = (v.to(flank.loc.device) for v in gauss_tsallis(len(NODES), 0.0, e, power))
        distance, weights = flank.unit * r, weights / 2
    t = torch.cat([flank.loc - distance, flank.loc + distance], -1).unsqueeze(-1)
    total = torch.as_tensor(power + e, dtype=torch.float64, device=t.device)
    log_mass = (2 * flank.unit).log().squeeze(-1) + power * density.log_prob(density.loc) - total.log()
    return t, torch.cat([weights, weights], -1), log_mass


def _is_positive(beta: Any, e: Any) -> bool:
    """Tell whether beta is above 0, and refuse one at which the power of the density has no integral."""
    positive = beta > 0
    if bool(positive.all()) if isinstance(positive, Tensor) else positive:
        return True
    least = beta + e
    if not bool((least > 0).all() if isinstance(least, Tensor) else least > 0):
        raise ValueError(f"generalized_covariance: beta must be above 1 - alpha = {_least(-e):g}, got {_least(beta):g}")
    if isinstance(positive, Tensor) and bool(positive.any()):
        raise ValueError("generalized_covariance: beta must have one sign for all densities of a batch, got both")
    return False


def _least(value: Any) -> float:
    return value.min().item() if isinstance(value, Tensor) else value
