r"""Coordinates in which a density and a basis function are both diagonal, and the Gaussian integral there.

A beta-Gaussian is a mixture, for alpha > 1 with complex weights, of Gaussians with one centre and proportional scales.
All that an expectation of a Gaussian basis function needs is therefore

.. math:: k(r) = \int e^{-r q(t) / 2} N(t; c_j, S_j) \, dt
          = \sqrt{\frac{|\Sigma|}{|\Sigma + r S_j|}} \, \exp\Bigl(-\frac r2 d^\top (\Sigma + r S_j)^{-1} d\Bigr),
          \qquad d = c_j - \mu

at real or complex rates r. The change of coordinates is a constant for differentiation: eigenvectors have no
derivative where eigenvalues meet, but the formula holds in any coordinates.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from omegamax.basis import GaussianRBF
from omegamax.densities._beta_gaussian import BetaGaussian
from omegamax.densities._normaliser import log_volume
from omegamax.densities.expectations._jacobi import orthogonalise_rows


class Wide(NamedTuple):
    """A beta-Gaussian in float64: all that the integrals need of it."""

    loc: Tensor  # [*, n]
    root: Tensor  # [*, n, n]: a factor of Sigma
    e: Tensor  # [*]: alpha - 1
    dilation: Tensor  # [*]: c
    log_peak: Tensor  # [*]: B


def widen(density: BetaGaussian, alpha: float | Tensor) -> Wide:
    """The location and the scale of a density in float64, with this alpha. (A new density would cost more.)"""
    n = density.dimension
    loc, root = density.loc.double(), density.scale_tril.double()
    e: Any = alpha - 1
    volume = 0.5 * n * math.log(2 * math.pi) + root.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    log_peak = (log_volume(e, n) - volume) / (1 + e * (n / 2))
    # The dtype is said: torch makes float32 of a number.
    wide_e = torch.as_tensor(e, dtype=torch.float64, device=loc.device).expand(log_peak.shape)
    return Wide(loc, root, wide_e, (e * log_peak).exp(), log_peak)


def wide_scale(density: BetaGaussian) -> Tensor:
    """Sigma in float64, ``[*, n, n]``, from the form in which it was given."""
    if density._root.square is not None:
        return density.scale.double()
    root = density.scale_tril.double()
    return root @ root.mT


class Frame(NamedTuple):
    """A density with J basis functions; ``sigma`` is diagonal up to rounding, but differentiable in all its entries."""

    sigma: Tensor  # [*, J or 1, n, n]: the scale matrix
    delta: Tensor  # [*, J, n]: basis centre less location
    spread: Tensor  # [*, J, n] or [J, n]: the diagonal of the basis function's covariance

    @property
    def diagonal(self) -> Tensor:
        """Of sigma, ``[*, J or 1, n]``."""
        return self.sigma.diagonal(dim1=-2, dim2=-1)


def frame(wide: Wide, basis: GaussianRBF) -> Frame:
    """The coordinates of each pair; where all covariances are multiples of the identity, one set for each density."""
    root = wide.root
    n = root.shape[-1]
    eye = torch.eye(n, dtype=root.dtype, device=root.device)
    delta = basis.centers.to(root) - wide.loc.unsqueeze(-2)
    if basis.variance is not None:
        spread = basis.variance.to(root).unsqueeze(-1).expand(-1, n)
        if n == 1:
            return Frame(root.square().unsqueeze(-3), delta, spread)
        rows, axes = orthogonalise_rows(root.detach(), eye.expand_as(root))
        turned = axes @ root
        sigma = turned @ turned.mT
        sigma = torch.diag_embed(rows.square().sum(-1)) + (sigma - sigma.detach())
        return Frame(sigma.unsqueeze(-3), delta @ axes.mT, spread)
    # With L^-1 S_j L^-T = U diag(spread) U', in the coordinates U' L^-1 t the scale is the identity.
    fixed = root.detach().unsqueeze(-3)
    bumps = basis.covariance.to(root)
    factor = torch.linalg.cholesky_ex(bumps)[0].expand(*root.shape[:-2], *bumps.shape)
    inverse = torch.linalg.solve_triangular(fixed, eye.expand_as(fixed), upper=False)
    rows, axes = orthogonalise_rows(
        torch.linalg.solve_triangular(fixed, factor, upper=False), inverse.expand(*factor.shape)
    )
    spread = rows.square().sum(-1).clamp(min=torch.finfo(rows.dtype).tiny)
    turned = axes @ root.unsqueeze(-3)
    sigma = turned @ turned.mT
    # The identity up to rounding: what is left of sigma are its derivatives.
    return Frame(eye + (sigma - sigma.detach()), (axes @ delta.unsqueeze(-1)).squeeze(-1), spread)


def log_kernel(pair: Frame, rate: Tensor) -> Tensor:
    """``log k(r)`` at rates ``[*, J or 1, K]``, real or complex, ``[*, J, K]``."""
    sigma, delta, spread = (t.unsqueeze(-1) for t in pair)
    n = delta.shape[-2]
    # Elimination without pivots: off the diagonal there are only zeros, and what their derivatives say.
    rows = [[sigma[..., i, j, :] + (rate * spread[..., i, :] if i == j else 0) for j in range(i + 1)] for i in range(n)]
    alone = [[sigma[..., i, j, :] for j in range(i + 1)] for i in range(n)]
    ends = [delta[..., i, :] for i in range(n)]
    quadratic: Tensor | float = 0.0
    log_det: Tensor | float = 0.0
    for i in range(n):
        quadratic = quadratic + ends[i].square() / rows[i][i]
        log_det = log_det + torch.log(rows[i][i]) - alone[i][i].log()
        for j in range(i + 1, n):
            share, share_alone = rows[j][i] / rows[i][i], alone[j][i] / alone[i][i]
            ends[j] = ends[j] - share * ends[i]
            for k in range(i + 1, j + 1):
                rows[j][k] = rows[j][k] - share * rows[k][i]
                alone[j][k] = alone[j][k] - share_alone * alone[k][i]
    assert isinstance(log_det, Tensor)
    return -(log_det + rate * quadratic) / 2


def log_normal(delta: Tensor, covariance: Tensor) -> Tensor:
    r"""``log N(delta; 0, C)`` for vectors ``[*, n]`` and matrices ``[*, n, n]`` that broadcast, ``[*]``.

    By elimination: backward stable for a positive definite matrix, and a diagonal one is exactly a product.
    """
    n = delta.shape[-1]
    rows = [[covariance[..., i, j] for j in range(i + 1)] for i in range(n)]
    ends = list(delta.unbind(-1))
    total: Tensor | float = n * math.log(2 * math.pi)
    for i in range(n):
        total = total + rows[i][i].log() + ends[i].square() / rows[i][i]
        for j in range(i + 1, n):
            share = rows[j][i] / rows[i][i]
            ends[j] = ends[j] - share * ends[i]
            for k in range(i + 1, j + 1):
                rows[j][k] = rows[j][k] - share * rows[k][i]
    assert isinstance(total, Tensor)
    return -total / 2
