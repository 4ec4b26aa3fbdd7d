"""Shannon's and Tsallis' entropies, negated."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax import functional
from omegamax._checks import check_above
from omegamax._numerics import on_support, phi, tsallis_log_alpha
from omegamax.omegas._base import Omega


class Shannon(Omega):
    r"""Negative Shannon entropy, ``sum_i p_i log p_i``: the regulariser of softmax.

        >>> Shannon().argmax(torch.tensor([1.0, 0.5, -1.0]))
        tensor([0.5741, 0.3482, 0.0777])
    """

    name = "softmax"
    margin = math.inf

    def __call__(self, p: Tensor) -> Tensor:
        return torch.special.xlogy(p, on_support(p)[1]).sum(-1)

    def argmax(self, z: Tensor, dim: int = -1, *, mask: Tensor | None = None) -> Tensor:
        return functional.softmax(z, dim, mask=mask)

    def __repr__(self) -> str:
        return "Shannon()"


class Tsallis(Omega):
    r"""Negative Tsallis entropy, ``(sum_i p_i^alpha - 1) / (alpha (alpha - 1))``: the regulariser of entmax.

    Args:
        alpha: in (0, inf]; a float, or a tensor that broadcasts to the scores with size 1 along the axis of
            normalisation. 1 is Shannon, 2 the squared norm (sparsemax).

        >>> Tsallis(2.0).argmax(torch.tensor([1.0, 0.5, -1.0]))
        tensor([0.7500, 0.2500, 0.0000])
        >>> Tsallis(1.5).margin
        2.0
    """

    def __init__(self, alpha: float | Tensor = 1.5):
        check_above("Tsallis", "alpha", alpha, 0.0)
        self.alpha = alpha

    @property
    def name(self) -> str:
        if isinstance(self.alpha, Tensor):
            return "entmax"
        return {1.0: "softmax", 1.5: "entmax15", 2.0: "sparsemax"}.get(float(self.alpha), "entmax")

    @property
    def margin(self) -> float:
        alpha = float(self.alpha.min()) if isinstance(self.alpha, Tensor) else self.alpha
        return 1 / (alpha - 1) if alpha > 1 else math.inf

    @property
    def parameters(self) -> tuple[float | Tensor, ...]:
        return (self.alpha,)

    def with_parameters(self, *parameters: float | Tensor) -> Tsallis:
        return Tsallis(*parameters)

    def parameter_gradients(self, p: Tensor) -> tuple[Tensor, ...]:
        alpha = _last(self.alpha)
        return (-(self(p) + (p * tsallis_log_alpha(p, self.alpha)).sum(-1)) / alpha,)

    def __call__(self, p: Tensor) -> Tensor:
        if not isinstance(self.alpha, Tensor) and self.alpha == math.inf:
            return torch.zeros_like(p[..., 0])
        # sum p (p^e - 1) / (e alpha) with e = alpha - 1: no difference of sums, smooth through e = 0.
        log_p = on_support(p)[1].log()
        return (p * log_p * phi((self.alpha - 1) * log_p)).sum(-1) / _last(self.alpha)

    def argmax(self, z: Tensor, dim: int = -1, *, mask: Tensor | None = None) -> Tensor:
        return functional.entmax(z, self.alpha, dim, mask=mask)

    def __repr__(self) -> str:
        return f"Tsallis(alpha={self.alpha})"


def _last(alpha: float | Tensor) -> float | Tensor:
    """A parameter ``[*, 1]`` in the shape of the values, ``[*]``."""
    return alpha.squeeze(-1) if isinstance(alpha, Tensor) and alpha.dim() else alpha
