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

from typing import NamedTuple

import torch
from torch import Tensor

from omegamax.basis import GaussianRBF
from omegamax.densities import BetaGaussian


class Frame(NamedTuple):
    """A density with J basis functions; ``sigma`` is diagonal up to rounding, but differentiable in all its entries."""

    sigma: Tensor  # [*, J or 1, n, n]: the scale matrix
    delta: Tensor  # [*, J, n]: basis centre less location
    spread: Tensor  # [*, J or 1, n] or [J, n]: the diagonal of the basis function's covariance

    @property
    def diagonal(self) -> Tensor:
        """Of sigma, ``[*, J or 1, n]``."""
        return self.sigma.diagonal(dim1=-2, dim2=-1)


def frame(density: BetaGaussian, basis: GaussianRBF) -> Frame:
    """The coordinates of each pair; where all covariances are multiples of the identity, one set for each density."""
    delta = basis.centers.to(density.loc) - density.loc.unsqueeze(-2)
    sigma = density.scale
    if basis.variance is not None:
        spread = basis.variance.to(sigma).unsqueeze(-1).expand(-1, density.dimension)
        if density.dimension == 1:
            return Frame(sigma.unsqueeze(-3), delta, spread)
        axes = torch.linalg.eigh(sigma.detach()).eigenvectors
        return Frame((axes.mT @ sigma @ axes).unsqueeze(-3), delta @ axes, spread)
    # L^-1 S_j L^-T = U diag(spread) U': in the coordinates U' L^-1 t the scale is the identity.
    root = density.scale_tril.detach().unsqueeze(-3)
    half = torch.linalg.solve_triangular(root, basis.covariance.to(sigma), upper=False)
    whitened = torch.linalg.solve_triangular(root, half.mT, upper=False)
    spread, axes = torch.linalg.eigh((whitened + whitened.mT) / 2)
    axes = torch.linalg.solve_triangular(root.mT, axes, upper=True)
    # Rounding can leave the narrowest directions of nearly degenerate pairs at or below zero.
    spread = spread.clamp(min=torch.finfo(spread.dtype).tiny)
    delta = (delta.unsqueeze(-2) @ axes).squeeze(-2)
    return Frame(axes.mT @ sigma.unsqueeze(-3) @ axes, delta, spread)


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
