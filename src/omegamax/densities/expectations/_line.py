r"""Gaussian basis functions over the line in one operation: value and first derivatives come out of the same sums.

A step of training spends more time on launching small operations than on what they compute. Autograd would record some
sixty here, and as many on the way back; this has some thirty, and three on the way back. With :math:`\sigma_j` the
deviation of a basis function, its expectation under the Gaussian is :math:`N(c_j; \mu, \Sigma + \sigma_j^2)`; under the
truncated parabola with half-width a, in :math:`s = (t - \mu) / a` and :math:`y = (t - c_j) / \sigma_j`,

.. math:: E = \frac3{4a} I_0, \quad
          \frac{\partial E}{\partial \mu} = -\frac3{4 a \sigma_j} I_1, \quad
          a \frac{\partial E}{\partial a} = \frac3{4a} (2 M_0 - 3 I_0), \qquad
          I_k = \int_{-1}^1 (1 - s^2) \, y^k \varphi(y) \, dy, \quad M_0 = \int_{-1}^1 \varphi(y) \, dy
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial

import torch
from torch import Tensor

from omegamax._first_order import FirstOrder
from omegamax.densities.expectations._windows import gauss_legendre

_REACH = 8.5  # deviations of a basis function, beyond which nothing of it is left: 1e-16
_COUNT = 48  # nodes from one end of it to the other
_THIRD = 1 / 3

Derivatives = tuple[Tensor, Tensor, Tensor]  # value, and its derivatives in location and scale, each [*, J], float64


def expect_under_gaussian(loc: Tensor, scale: Tensor, centers: Tensor, variance: Tensor) -> Derivatives:
    r"""Return :math:`N(c_j; \mu, \Sigma + \sigma_j^2)` for locations and scales Sigma ``[*, 1]``."""
    inverse = (scale + variance).reciprocal()
    delta = centers - loc
    z = delta * inverse
    value = torch.exp(torch.mul(delta, z).mul_(-0.5)).mul_((inverse / (2 * math.pi)).sqrt_())
    return value, value * z, z.square().sub_(inverse).mul_(value).mul_(0.5)


def expect_under_parabola(loc: Tensor, root: Tensor, centers: Tensor, variance: Tensor) -> Derivatives:
    """Return the expectation under the truncated parabola, of scale Sigma = ``root ** 2``, all ``[*, 1]``."""
    u, weight, ends = _nodes(loc.device)
    deviation = variance.sqrt()
    inverse = (1.5 * root.square()).pow_(-_THIRD)  # 1 / a
    s0, w = (centers - loc) * inverse, deviation * inverse
    k = w.reciprocal()
    # The ends of what there is to integrate over, in both units: each is a difference of large numbers in one of them.
    middle = s0.unsqueeze(-1)
    low, high = torch.sub(ends, middle).mul_(k.unsqueeze(-1)).clamp_(-_REACH, _REACH).unbind(-1)
    start, stop = torch.addcmul(middle, w.unsqueeze(-1), ends, value=_REACH).clamp_(-1, 1).unbind(-1)
    width = torch.where(w < 1, high - low, (stop - start).mul_(k))
    y = torch.addcmul(low.unsqueeze(-1), width.unsqueeze(-1), u)
    s = torch.addcmul(start.unsqueeze(-1), (w * width).unsqueeze(-1), u)
    bell = torch.exp(torch.square(y).mul_(-0.5))
    mass = bell @ weight
    under = torch.addcmul(bell, bell * s, s, value=-1)
    first, second = under @ weight, under.mul_(y) @ weight
    factor = width * (inverse * (0.75 / math.sqrt(2 * math.pi)))
    grown = torch.add(mass, first, alpha=-1.5).mul_(factor).mul_(4 * _THIRD / root)  # a is Sigma to the power of 1/3
    return first * factor, second.mul_(factor).div_(-deviation), grown


@cache
def _nodes(device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Return nodes and weights over (0, 1), and -1 and 1, the ends of the support.

    They are kept on each device: a copy would wait for all that a GPU has to do.
    """
    x, weight = gauss_legendre(_COUNT)
    with torch.inference_mode(False):
        ends = torch.tensor([-1.0, 1.0], dtype=x.dtype)
        return x.to(device, copy=True), weight.to(device, copy=True), ends.to(device)


def expect_on_line(
    expect: Callable[..., Derivatives],
    plainly: Callable[[Tensor, Tensor], Tensor],
    loc: Tensor,
    scale: Tensor,
    centers: Tensor,
    variance: Tensor,
) -> Tensor:
    """Return ``E_p[psi_j]``, ``[*, J]``, as one operation.

    Args:
        expect: one of the two above.
        plainly: the same of location and scale, in operations that autograd differentiates.
        loc, scale: ``[*, 1]``.
        centers, variance: of the basis functions, ``[J]``, without gradients.
    """
    return FirstOrder.apply(partial(_compute, expect, centers, variance), _pull_back, plainly, loc, scale)


def _compute(
    expect: Callable[..., Derivatives], centers: Tensor, variance: Tensor, loc: Tensor, scale: Tensor
) -> tuple[tuple[Tensor], tuple[Tensor]]:
    value, *slopes = expect(loc.double(), scale.double(), centers.double(), variance.double())
    return (value.to(loc.dtype),), (torch.stack(slopes).to(loc.dtype),)


def _pull_back(slopes: Tensor, g: Tensor) -> tuple[Tensor, ...]:
    return (slopes * g).sum(-1, keepdim=True).unbind()
