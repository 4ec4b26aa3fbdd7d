"""The 2-Wasserstein distance of two densities with a common radial distribution."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax._arguments import check_type
from omegamax.densities._beta_gaussian import BetaGaussian
from omegamax.densities._fenchel_young import check_same_alpha
from omegamax.densities._root import Root


def wasserstein2(p: BetaGaussian, q: BetaGaussian, squared: bool = False) -> Tensor:
    r"""Return the 2-Wasserstein distance of two beta-Gaussians with the same alpha and dimension, ``[*]``.

    .. math:: W_2^2(p, q) = |\mu_p - \mu_q|^2
              + \operatorname{tr}\bigl( C_p + C_q - 2 (C_p^{1/2} C_q C_p^{1/2})^{1/2} \bigr)
              = |\mu_p - \mu_q|^2 + \min_{Q'Q = I} \| L_p - L_q Q \|_F^2

    with covariances ``C = L L'``, which must be finite (NaN where a tensor alpha makes them infinite). The second
    form is the one computed: nothing cancels where the two are close. The gradient is 0 where they are equal. Unless
    both scales are diagonal, derivatives beyond the first leave out the change of the rotation ``Q``.

        >>> from omegamax.densities import Gaussian, TruncatedParaboloid
        >>> wasserstein2(Gaussian(torch.zeros(1), 1.0), Gaussian(torch.tensor([3.0]), 25.0))
        tensor(5.)
        >>> p = TruncatedParaboloid(torch.zeros(2), torch.tensor([[2.0, 0.5], [0.5, 1.0]]))
        >>> wasserstein2(p, p)
        tensor(0.)

    Reference: Gelbrich (1990), Theorem 2.1 and 2.4.
    """
    for name, density in (("p", p), ("q", q)):
        check_type("wasserstein2", name, density, BetaGaussian)
    if p.dimension != q.dimension:
        raise ValueError(f"wasserstein2: p and q must have the same dimension, got {p.dimension} and {q.dimension}")
    check_same_alpha("wasserstein2", p, q)
    if not isinstance(p._spread, Tensor) and p._spread <= 0:
        least = f"{p.dimension}/{p.dimension + 2}"
        raise ValueError(f"wasserstein2: alpha must be > {least} in {p.dimension} dimensions, got {p.alpha:g}")
    shift = (p.mean - q.mean).square().sum(-1)
    distance = shift + _rotated_distance(_covariance_root(p), _covariance_root(q))
    if isinstance(p._spread, Tensor):
        distance = torch.where(p._spread > 0, distance, math.nan)
    if squared:
        return distance
    zero = distance == 0
    return torch.where(zero, 0.0, torch.where(zero, 1.0, distance).sqrt())


def _covariance_root(density: BetaGaussian) -> Root:
    ratio = density._variance_ratio
    return density._root.times(torch.where(ratio.isfinite(), ratio, 1.0).sqrt())


def _rotated_distance(p: Root, q: Root) -> Tensor:
    """Return the squared distance of two roots, turned onto each other."""
    if p.diagonal and q.diagonal:
        return (p.values - q.values).square().sum(-1)
    first, second = p.tril(), q.tril()
    with torch.no_grad():  # the rotation is optimal, so that its change does not count at first order
        u, _, vh = torch.linalg.svd(second.mT @ first)
        rotation = u @ vh
    straight = (first - second).square().sum((-2, -1))
    turned = (first - second @ rotation).square().sum((-2, -1))
    # No rotation is exact for equal roots; the computed one is the identity to rounding only.
    return torch.where(straight <= turned, straight, turned)
