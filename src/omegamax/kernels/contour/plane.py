r"""Round Gaussian functions under compact densities over the plane: from parameters to the contour integral, and back.

In coordinates along the axes of Sigma all is diagonal, and the axes are constants for differentiation: eigenvectors
have no derivative where eigenvalues meet, but the formulas hold in any coordinates. So the derivative in Sigma is that
of the integral, in all entries of a matrix that happens to be diagonal, turned back, and what comes through the
normaliser

.. math:: B = \frac{\log \alpha - \log 2 \pi - \frac12 \log |\Sigma|}{\alpha}, \qquad
          h = \frac{e^{(\alpha - 1) B}}{\alpha - 1}, \qquad
          \frac{\partial B}{\partial \Sigma} = -\frac{1}{2 \alpha} \Sigma^{-1}
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from omegamax._numerics import factor_in_plane


def integrate_in_plane(
    contour: Callable[..., Tensor],
    loc: Tensor,
    matrix: Tensor,
    centers: Tensor,
    variance: Tensor,
    alpha: float,
    factored: bool,
    fine: bool,
) -> Tensor:
    """Return expectations of J functions and their derivatives, ``[*, 7, J]``, in the dtype of ``loc``.

    Args:
        contour: the integral, as in :func:`omegamax.kernels.contour.reference.contour`.
        loc: of the densities, ``[*, 2]``.
        matrix: their Sigma, ``[*, 2, 2]``, or a lower triangular factor of it, if ``factored``.
        centers, variance: of the functions, ``[J, 2]`` and ``[J]``.
        alpha: above 1.
        fine: as in the integral.

    Returns:
        The value, then its derivatives in ``loc`` (two) and Sigma (four, row by row); computed in float64.
    """
    e = alpha - 1
    root = matrix.double() if factored else factor_in_plane(matrix.double())
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
    along, across = along + through / small.unsqueeze(-1), across + through / large.unsqueeze(-1)
    twist = 2 * cos * sin * mixed
    off = cos * sin * (across - along) + (cos.square() - sin.square()) * mixed
    in_sigma = (
        cos.square() * along + twist + sin.square() * across,
        off,
        off,
        sin.square() * along - twist + cos.square() * across,
    )
    return torch.stack([value, -cos * in_x - sin * in_y, sin * in_x - cos * in_y, *in_sigma], -2).to(loc.dtype)
