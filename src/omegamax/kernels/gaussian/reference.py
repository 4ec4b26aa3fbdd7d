r"""Integrate Gaussian functions under Gaussians over the plane, and under compact densities over the line, in torch.

.. math:: E_j = N(d_j; 0, C_j), \quad d_j = c_j - \mu, \quad C_j = \Sigma + S_j, \qquad
          \frac{\partial E_j}{\partial \mu} = E_j z_j, \quad
          \frac{\partial E_j}{\partial \Sigma} = \tfrac12 E_j (z_j z_j' - C_j^{-1}), \quad z_j = C_j^{-1} d_j

Under the truncated parabola over the line with half-width a, in :math:`s = (t - \mu) / a` and
:math:`y = (t - c_j) / \sigma_j`,

.. math:: E_j = \frac3{4a} I_0, \quad
          \frac{\partial E_j}{\partial \mu} = -\frac3{4 a \sigma_j} I_1, \quad
          a \frac{\partial E_j}{\partial a} = \frac3{4a} (2 M_0 - 3 I_0), \qquad
          I_k = \int_{-1}^1 (1 - s^2) \, y^k \varphi(y) \, dy, \quad M_0 = \int_{-1}^1 \varphi(y) \, dy
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

REACH = 8.5  # deviations of a function, beyond which nothing of it is left: 1e-16
_THIRD = 1 / 3


def gaussian_on_line(loc: Tensor, scale: Tensor, centers: Tensor, variance: Tensor) -> Tensor:
    """Return expectations of J functions and their derivatives, ``[*, 3, J]``, in the dtype of ``loc``.

    Args:
        loc, scale: of the densities, mean and variance, ``[*, 1]`` each.
        centers, variance: of the functions, ``[J]``.

    Returns:
        The value, then its derivatives in ``loc`` and ``scale``; computed in float64.
    """
    inverse = (scale.double() + variance.double()).reciprocal()
    delta = centers.double() - loc.double()
    z = delta * inverse
    value = torch.exp(torch.mul(delta, z).mul_(-0.5)).mul_((inverse / (2 * math.pi)).sqrt_())
    return torch.stack([value, value * z, z.square().sub_(inverse).mul_(value).mul_(0.5)], -2).to(loc.dtype)


def parabola_on_line(
    loc: Tensor, root: Tensor, centers: Tensor, variance: Tensor, nodes: Tensor, ends: Tensor
) -> Tensor:
    """Return the same under truncated parabolas of scale ``root ** 2``, with derivatives in ``loc`` and ``root``.

    Args:
        nodes: points and weights of a rule over (0, 1), ``[2, Q]``, float64.
        ends: -1 and 1, those of the support in its own unit, on the device of the others.
    """
    dtype, loc, root, centers = loc.dtype, loc.double(), root.double(), centers.double()
    u, weight = nodes.unbind()
    deviation = variance.double().sqrt()
    inverse = (1.5 * root.square()).pow_(-_THIRD)  # 1 / a
    middle, w = (centers - loc) * inverse, deviation * inverse
    k = w.reciprocal()
    # The ends of what there is to integrate over, in both units: each is a difference of large numbers in one of them.
    own = middle.unsqueeze(-1)
    low, high = torch.sub(ends, own).mul_(k.unsqueeze(-1)).clamp_(-REACH, REACH).unbind(-1)
    start, stop = torch.addcmul(own, w.unsqueeze(-1), ends, value=REACH).clamp_(-1, 1).unbind(-1)
    width = torch.where(w < 1, high - low, (stop - start).mul_(k))
    y = torch.addcmul(low.unsqueeze(-1), width.unsqueeze(-1), u)
    s = torch.addcmul(start.unsqueeze(-1), (w * width).unsqueeze(-1), u)
    bell = torch.exp(torch.square(y).mul_(-0.5))
    mass = bell @ weight
    under = torch.addcmul(bell, bell * s, s, value=-1)
    first, second = under @ weight, under.mul_(y) @ weight
    factor = width * (inverse * (0.75 / math.sqrt(2 * math.pi)))
    grown = torch.add(mass, first, alpha=-1.5).mul_(factor).mul_(4 * _THIRD / root)  # a is Sigma to the power of 1/3
    return torch.stack([first * factor, second.mul_(factor).div_(-deviation), grown], -2).to(dtype)


def line_vjp(both: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients in ``loc`` and in the scale, ``[*, 1]`` each, of expectations over the line.

    Args:
        both: expectations of J functions and their derivatives, ``[*, 3, J]``, as :func:`gaussian_on_line` has them.
        g: the gradient in the expectations, ``[*, J]``.
    """
    of_loc, of_scale = (both[..., 1:, :] * g.unsqueeze(-2)).sum(-1).split(1, -1)
    return of_loc, of_scale


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
