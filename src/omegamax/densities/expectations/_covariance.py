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
from omegamax.densities.expectations._nodes import gauss_tsallis
from omegamax.densities.expectations._product import default_order, excess, product_nodes, to_double_precision
from omegamax.densities.expectations._sphere import sphere_nodes

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
        density: a :class:`BetaGaussian`, by the rule of :func:`product_nodes`, or a :class:`GridDensity`, by its own.
        first, second: phi and psi, functions of points ``[*, Q, n]`` to ``[*, Q, A]``, such as a basis; ``second`` is
            ``first`` if None.
        beta: 2 - alpha by default. Above 0, or anything above :math:`1 - \alpha` for compact support.

    Returns:
        ``[*, A, B]``, differentiable in the parameters of the density.

        >>> p = BetaGaussian(torch.zeros(1), 2 / 3, alpha=2.0)  # on [-1, 1]
        >>> generalized_covariance(p, lambda t: t)  # 2 times the variance of the uniform density there
        tensor([[0.6667]])
        >>> generalized_covariance(p, lambda t: t, beta=1.0), p.variance
        (tensor([[0.2000]]), tensor([0.2000]))

    Reference: Martins et al. (NeurIPS 2020), Eq. 17 and Prop. 3.
    """
    if isinstance(density, GridDensity):
        power: Any = 2 - density.alpha if beta is None else beta
        nodes = density.nodes
        values = [first(nodes), None if second is None else second(nodes)]
        power = power.unsqueeze(-1) if isinstance(power, Tensor) else power
        return functional.generalized_covariance(density.probs_at_nodes, power, *values, weights=density.node_weights)
    if not isinstance(density, BetaGaussian):
        raise NotImplementedError(
            f"generalized_covariance: density must be a BetaGaussian or a GridDensity, got {type(density).__name__}"
        )
    wide = to_double_precision(density)
    power = 1 - excess(wide) if beta is None else beta.double() if isinstance(beta, Tensor) else beta
    t, w, log_mass = _escort_rule(wide, power)
    points = t.to(density.loc.dtype)
    phi = first(points).double()
    psi = phi if second is None else second(points).double()
    w = w.unsqueeze(-1)
    phi, psi = phi - (w * phi).sum(-2, keepdim=True), psi - (w * psi).sum(-2, keepdim=True)
    return (log_mass.exp()[..., None, None] * (w * phi).mT @ psi).to(density.loc.dtype)


def _escort_rule(density: BetaGaussian, beta: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Return points ``[*, Q, n]`` and weights of the escort, and the logarithm ``[*]`` of the integral of the power."""
    positive = beta > 0
    every = bool(positive.all()) if isinstance(positive, Tensor) else positive
    if every:
        escort = density.escort(beta)
        t, w = product_nodes(escort)
        return t, w, beta * density.log_peak - escort.log_peak
    n, e = density.dimension, excess(density)
    least = beta + e
    if not bool((least > 0).all() if isinstance(least, Tensor) else least > 0):
        raise ValueError(f"generalized_covariance: beta must be above 1 - alpha = {-e:g}, got {beta:g}")
    if isinstance(positive, Tensor) and bool(positive.any()):
        raise ValueError("generalized_covariance: beta must have one sign for all densities of a batch, got both")
    # The power of 1 - e q / 2c, at 0 or below: uniform on the support, or larger towards its border.
    order = default_order(n)
    half, weights = (x.to(density.loc.device) for x in gauss_tsallis(order, n / 2 - 1, e, beta))
    directions, shares = (x.to(density.loc.device) for x in sphere_nodes(n, order))
    z = ((2 * half).sqrt()[..., None, None] * directions).flatten(-3, -2)
    t = density.loc.unsqueeze(-2) + (z @ density.scale_tril.mT) * density.dilation.sqrt()[..., None, None]
    e, m = (torch.as_tensor(x, dtype=torch.float64, device=t.device) for x in (e, beta / e))
    volume = density.scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    volume = volume + 0.5 * n * (2 * math.pi * density.dilation / e).log() + (m + 1).lgamma() - (m + 1 + n / 2).lgamma()
    return t, (weights.unsqueeze(-1) * shares).flatten(-2), beta * density.log_peak + volume
