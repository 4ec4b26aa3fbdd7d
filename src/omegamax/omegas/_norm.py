"""Norms as entropies."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax import functional
from omegamax._checks import check_above
from omegamax._numerics import on_support
from omegamax.kernels.rows import norm
from omegamax.omegas._base import Omega


class NormEntropy(Omega):
    r"""``||p||_alpha - 1``: the regulariser of normmax. Its margin is 1 for every alpha.

    Args:
        alpha: in (1, inf]; a float, or a tensor that broadcasts to the scores with size 1 along the axis of
            normalisation.

        >>> NormEntropy(2.0).argmax(torch.tensor([1.0, 0.5, -1.0]))
        tensor([0.6890, 0.3110, 0.0000])
    """

    keeps_order = True
    name = "normmax"
    margin = 1.0

    def __init__(self, alpha: float | Tensor = 2.0):
        check_above("NormEntropy", "alpha", alpha, 1.0)
        self.alpha = alpha

    @property
    def parameters(self) -> tuple[float | Tensor, ...]:
        return (self.alpha,)

    def with_parameters(self, *parameters: float | Tensor) -> NormEntropy:
        return NormEntropy(*parameters)

    def parameter_gradients(self, z: Tensor, p: Tensor) -> tuple[Tensor, ...]:
        size = norm(p, self.alpha, -1)
        support, safe = on_support(p)
        share = torch.where(support, (safe / size).pow(self.alpha), 0.0)
        slope = size.log() - (share * safe.log()).sum(-1, keepdim=True)
        return (size * slope / self.alpha,)

    def __call__(self, p: Tensor) -> Tensor:
        if not isinstance(self.alpha, Tensor) and self.alpha == math.inf:
            return p.amax(-1) - 1
        return norm(p, self.alpha, -1).squeeze(-1) - 1

    def argmax(self, z: Tensor, dim: int = -1, *, mask: Tensor | None = None) -> Tensor:
        return functional.normmax(z, self.alpha, dim, mask=mask)

    def __repr__(self) -> str:
        return f"NormEntropy(alpha={self.alpha})"
