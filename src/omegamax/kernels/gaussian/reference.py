r"""Integrate Gaussian functions under Gaussians over the plane, in torch.

.. math:: E_j = N(d_j; 0, C_j), \quad d_j = c_j - \mu, \quad C_j = \Sigma + S_j, \qquad
          \frac{\partial E_j}{\partial \mu} = E_j z_j, \quad
          \frac{\partial E_j}{\partial \Sigma} = \tfrac12 E_j (z_j z_j' - C_j^{-1}), \quad z_j = C_j^{-1} d_j
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def gaussian_in_plane(loc: Tensor, sigma: Tensor, centers: Tensor, spread: Tensor) -> Tensor:
    """Return expectations of J functions and their derivatives, ``[*, 7, J]``, in the dtype of ``loc``.

    Args:
        loc, sigma: of the densities, ``[*, 2]`` and ``[*, 2, 2]``.
        centers: of the functions, ``[J, 2]``.
        spread: their covariances, ``[J, 2, 2]``, or ``[J]`` for multiples of the identity.

    Returns:
        The value, then its derivatives in ``loc`` (two) and ``sigma`` (four, row by row); computed in float64.
    """
    x, y = (centers.double() - loc.double().unsqueeze(-2)).unbind(-1)
    square, spread = sigma.double()[..., None, :, :], spread.double()
    if spread.dim() == 1:
        a, b, c = square[..., 0, 0] + spread, square[..., 1, 0], square[..., 1, 1] + spread
    else:
        a, b, c = (square[..., i, j] + spread[:, i, j] for i, j in ((0, 0), (1, 0), (1, 1)))
    # By elimination: backward stable for a positive definite matrix, and a diagonal one is exactly a product.
    share = b / a
    upper, lower = 1 / a, 1 / (c - share * b)
    rest = y - share * x
    v = rest * lower
    u = x * upper - share * v
    value = torch.exp(-0.5 * (x.square() * upper + rest * v)) * (upper * lower).sqrt() / (2 * math.pi)
    half = 0.5 * value
    mixed = half * (u * v + share * lower)
    in_sigma = (half * (u.square() - upper - share.square() * lower), mixed, mixed, half * (v.square() - lower))
    return torch.stack([value, value * u, value * v, *in_sigma], -2).to(loc.dtype)


def plane_vjp(both: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients in ``loc``, ``[*, 2]``, and in the matrix, ``[*, 2, 2]``, of expectations over the plane.

    Args:
        both: expectations of J functions and their derivatives, ``[*, 7, J]``, as :func:`gaussian_in_plane` has them.
        g: the gradient in the expectations, ``[*, J]``.
    """
    moved = (both[..., 1:, :] * g.unsqueeze(-2)).sum(-1)
    return moved[..., :2], moved[..., 2:].reshape((*moved.shape[:-1], 2, 2))
