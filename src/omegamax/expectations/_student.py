"""Gaussian basis functions under heavy-tailed beta-Gaussians, alpha < 1, in any dimension."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax.kernels.steepest import stirling
from omegamax.expectations._frame import Frame, log_kernel

# The step in u is a 192nd of the range in which the mixing weight is above 4e-18; 2e-11 is left in the worst case, the
# heaviest tails of one dimension, and 1e-15 from two degrees of freedom on.
NODES = 192
_DEPTH = 40.0


def student(pair: Frame, e: Tensor, dilation: Tensor, log_peak: Tensor) -> Tensor:
    r"""``E_p[psi_j]`` for ``alpha < 1``, ``[*, J]``; ``e = alpha - 1``, ``dilation`` and ``log_peak`` are ``[*]``.

    .. math:: E = e^B \, \frac{1}{\Gamma(\kappa)} \int_0^\infty x^{\kappa - 1} e^{-x} k(x / \tau) \, dx,
              \qquad \kappa = \tfrac{1}{1 - \alpha}, \quad \tau = \tfrac{c}{1 - \alpha}

    with k of :mod:`._frame`, by the trapezoidal rule in ``u = log(x / kappa)``. Where tails are heavy, a narrow and far
    basis function sees only tiny x: in u it is one step like the others. (Gauss-Laguerre nodes would leave it out.)
    """
    kappa = (-1 / e)[..., None, None]
    with torch.no_grad():
        reach = _DEPTH / kappa + (2 * _DEPTH / kappa).sqrt()
        top = reach.log1p()
        step = (top + reach) / (NODES - 1)
        u = torch.arange(NODES).to(reach) * step - reach
        x = u.exp()
    log_weight = kappa * (u - torch.expm1(u)) - stirling(kappa) + 0.5 * (kappa / (2 * math.pi)).log() + step.log()
    rate = x * kappa / (-dilation / e)[..., None, None]
    log_f = log_peak[..., None, None] + log_weight + log_kernel(pair, rate)
    return log_f.exp().sum(-1)
