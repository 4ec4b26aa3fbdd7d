"""Gaussian basis functions under heavy-tailed beta-Gaussians, alpha < 1, in any dimension."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax._checks import readable
from omegamax.densities.expectations._frame import Frame, Wide, log_kernel
from omegamax.kernels.contour import stirling

# The trapezoidal rule leaves exp(-pi^2 / step): 1e-16. Its ends are where the integrand is exp(-DEPTH) of its bulk.
_STEP = 0.27
_DEPTH = 40.0
_FEWEST_NODES, _DEFAULT_NODES, _MOST_NODES = 96, 256, 4096


def integrate_student(pair: Frame, wide: Wide) -> Tensor:
    r"""Return ``E_p[psi_j]`` for ``alpha < 1``, ``[*, J]``.

    .. math:: E = e^B \, \frac{1}{\Gamma(\kappa)} \int_0^\infty x^{\kappa - 1} e^{-x} k(x / \tau) \, dx,
              \qquad \kappa = \tfrac{1}{1 - \alpha}, \quad \tau = \tfrac{c}{1 - \alpha}

    with k of :mod:`._frame`, by the trapezoidal rule in ``u = log(x / kappa)``. Where tails are heavy, a narrow and far
    basis function, or a wide one, sees tiny x: in u that is a few steps more. (Gauss-Laguerre nodes would miss it.)
    """
    kappa, tau = (-1 / wide.e)[..., None, None], (-wide.c / wide.e)[..., None, None]
    with torch.no_grad():
        low, high = _ends(pair, kappa, tau)
        longest = (high - low).max() if low.numel() else low.new_zeros(())
        count = _DEFAULT_NODES
        if readable(longest) and longest.isfinite():
            count = min(max(math.ceil(longest.item() / _STEP), _FEWEST_NODES), _MOST_NODES)
        step = (high - low) / (count - 1)
        u = low + torch.arange(count).to(low) * step
        x = u.exp()
    log_weight = kappa * (u - torch.expm1(u)) - stirling(kappa) + 0.5 * (kappa / (2 * math.pi)).log() + step.log()
    log_f = wide.B[..., None, None] + log_weight + log_kernel(pair, x * kappa / tau)
    return log_f.exp().sum(-1)


def _ends(pair: Frame, kappa: Tensor, tau: Tensor) -> tuple[Tensor, Tensor]:
    """Return the range in u, ``[*, J, 1]``."""
    n = pair.delta.shape[-1]
    spread = _DEPTH / kappa + (2 * _DEPTH / kappa).sqrt()
    # The basis function is wide from x = 1 / 2a on: there the integrand rises like x^(kappa - n/2), below like x^kappa.
    slow = kappa - n / 2
    turn = -(kappa / tau * (pair.spread / pair.diagonal).amax(-1, keepdim=True)).log().clamp(min=0.0)
    beyond = turn - (_DEPTH + slow * turn).clamp(min=0.0) / kappa
    low = torch.maximum(-_DEPTH / slow, beyond) - (2 * _DEPTH / kappa).sqrt()
    return torch.minimum(low, -spread), spread.log1p()
