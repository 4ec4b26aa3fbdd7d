r"""Round Gaussian functions under compact densities over the plane: from parameters to the contour integral, and back.

In coordinates along the axes of Sigma all is diagonal, and the axes are constants for differentiation: eigenvectors
have no derivative where eigenvalues meet, but the formulas hold in any coordinates. So the derivative in Sigma is that
of the integral, in all entries of a matrix that happens to be diagonal, turned back, and what comes through the
normaliser

.. math:: B = \frac{\log \alpha - \log 2 \pi - \frac12 \log |\Sigma|}{\alpha}, \qquad
          h = \frac{e^{(\alpha - 1) B}}{\alpha - 1}, \qquad
          \frac{\partial B}{\partial \Sigma} = -\frac{1}{2 \alpha} \Sigma^{-1}

Of a density with the covariance C, Sigma is ``k C``, where k is a multiple of ``|C|^((alpha - 1) / 2)``, and

.. math:: D = \frac{\partial E}{\partial \Sigma}, \qquad
          \frac{\partial E}{\partial C} = k \Bigl( D + \tfrac{\alpha - 1}{2} \mathrm{tr}(D \Sigma) \, \Sigma^{-1} \Bigr)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import IntEnum, unique

import torch
from torch import Tensor

from omegamax._numerics import factor_in_plane, log_stretch


@unique
class Form(IntEnum):
    """By which matrix it is said how wide a density is."""

    SIGMA = 0
    FACTOR = 1  # of Sigma, lower triangular
    COVARIANCE = 2


def integrate_in_plane(
    contour: Callable[..., Tensor],
    loc: Tensor,
    matrix: Tensor,
    centers: Tensor,
    variance: Tensor,
    alpha: float,
    form: Form,
    fine: bool,
) -> Tensor:
    """Return expectations of J functions and their derivatives, ``[*, 7, J]``, in the dtype of ``loc``.

    Args:
        contour: the integral, as in :func:`omegamax.kernels.contour.reference.contour`.
        loc: of the densities, ``[*, 2]``.
        matrix: how wide they are, ``[*, 2, 2]``.
        centers, variance: of the functions, ``[J, 2]`` and ``[J]``.
        alpha: above 1.
        form: what the matrix is.
        fine: as in the integral.

    Returns:
        The value, then its derivatives in ``loc`` (two), and in Sigma or the covariance (four, row by row; if a factor
        is given those in Sigma); computed in float64.
    """
    e = alpha - 1
    root = matrix.double() if form is Form.FACTOR else factor_in_plane(matrix.double())
    stretch = None
    if form is Form.COVARIANCE:
        log_det = root[..., 0, 0].log() + root[..., 1, 1].log()
        stretch = (log_stretch(e, 2) + e * log_det).exp().unsqueeze(-1)
        root = stretch.sqrt().unsqueeze(-1) * root
    first, below, last = root[..., 0, 0], root[..., 1, 0], root[..., 1, 1]
    B = (math.log(alpha) - math.log(2 * math.pi) - first.log() - last.log()) / alpha
    h = (e * B).exp() / e
    # The rotation that makes the rows of the factor orthogonal: no large numbers are added to small ones.
    product = first * below
    apart = product == 0
    ratio = (below.square() + last.square() - first.square()) / (2 * torch.where(apart, 1.0, product))
    tangent = torch.where(ratio < 0, -1.0, 1.0) / (ratio.abs() + torch.hypot(ratio, torch.ones_like(ratio)))
    tangent = torch.where(apart, 0.0, tangent)
    cos = torch.rsqrt(1 + tangent.square())
    sin = cos * tangent
    small = (cos * first - sin * below).square() + (sin * last).square()
    large = (sin * first + cos * below).square() + (cos * last).square()
    x, y = (centers.double() - loc.double().unsqueeze(-2)).unbind(-1)
    cos, sin, B, h = (t.unsqueeze(-1) for t in (cos, sin, B, h))
    delta = torch.stack([cos * x - sin * y, sin * x + cos * y], -1)
    diagonal = torch.stack([small, large], -1)
    spread = variance.double().unsqueeze(-1).expand(-1, 2)
    both = contour(torch.full_like(B, 1 + 1 / e), h, B, diagonal.unsqueeze(-2), delta, spread, fine)
    value, along, mixed, across, in_x, in_y, _, _, _, in_h = both.unbind(-1)
    through = (value + e * h * in_h) * (-0.5 / alpha)
    small, large = small.unsqueeze(-1), large.unsqueeze(-1)
    if stretch is not None:
        through = through + 0.5 * e * (along * small + across * large + 2 * through)
    along, across = along + through / small, across + through / large
    if stretch is not None:
        along, mixed, across = stretch * along, stretch * mixed, stretch * across
    twist = 2 * cos * sin * mixed
    off = cos * sin * (across - along) + (cos.square() - sin.square()) * mixed
    in_matrix = (
        cos.square() * along + twist + sin.square() * across,
        off,
        off,
        sin.square() * along - twist + cos.square() * across,
    )
    return torch.stack([value, -cos * in_x - sin * in_y, sin * in_x - cos * in_y, *in_matrix], -2).to(loc.dtype)
