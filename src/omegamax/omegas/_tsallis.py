"""Shannon's and Tsallis' entropies, negated."""

from __future__ import annotations

import math
from typing import overload

import torch
from torch import Tensor

from omegamax import functional
from omegamax._checks import check_above
from omegamax._numerics import on_support, tsallis_log, tsallis_log_alpha
from omegamax.omegas._base import Omega


class Shannon(Omega):
    r"""Negative Shannon entropy, ``sum_i p_i log p_i``: the regulariser of softmax.

    >>> Shannon().argmax(torch.tensor([1.0, 0.5, -1.0]))
    tensor([0.5741, 0.3482, 0.0777])
    """

    keeps_order = True
    name = "softmax"
    margin = math.inf

    def __call__(self, p: Tensor) -> Tensor:
        return torch.special.xlogy(p, on_support(p)[1]).sum(-1)

    def argmax(self, z: Tensor, dim: int = -1, *, mask: Tensor | None = None) -> Tensor:
        return functional.softmax(z, dim, mask=mask)

    def conjugate_at(self, z: Tensor, p: Tensor, origin: Tensor | None = None) -> Tensor:
        return _conjugate_at(1.0, z, p, origin)

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

    keeps_order = True

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

    def parameter_gradients(self, z: Tensor, p: Tensor) -> tuple[Tensor, ...]:
        change = (p * tsallis_log_alpha(p, self.alpha)).sum(-1, keepdim=True)
        return ((self(p).unsqueeze(-1) + change) / self.alpha,)

    def __call__(self, p: Tensor) -> Tensor:
        alpha = self.alpha
        if isinstance(alpha, Tensor):
            flat = alpha.isinf()
            alpha = torch.where(flat, 2.0, alpha)
            return torch.where(_last(flat), 0.0, (p * tsallis_log(p, alpha)).sum(-1) / _last(alpha))
        if alpha == math.inf:
            return torch.zeros_like(p[..., 0])
        if alpha == 2:
            return 0.5 * (p * (p - 1)).sum(-1)
        if alpha >= 1.05:  # the difference loses a factor 1 / (alpha - 1) of accuracy, and takes about half the time
            return (p.pow(alpha) - p).sum(-1) / (alpha * (alpha - 1))
        # sum p (p^e - 1) / (e alpha) with e = alpha - 1: no difference of powers, smooth through e = 0. Its slope at
        # p = 0 is infinite for alpha <= 1, and taken as 0.
        return (p * tsallis_log(p, alpha)).sum(-1) / alpha

    def conjugate_at(self, z: Tensor, p: Tensor, origin: Tensor | None = None) -> Tensor:
        return _conjugate_at(self.alpha, z, p, origin)

    def argmax(self, z: Tensor, dim: int = -1, *, mask: Tensor | None = None) -> Tensor:
        return functional.entmax(z, self.alpha, dim, mask=mask)

    def __repr__(self) -> str:
        return f"Tsallis(alpha={self.alpha})"


def _conjugate_at(alpha: float | Tensor, z: Tensor, p: Tensor, origin: Tensor | None) -> Tensor:
    """The conjugate without a pass over the scores but for their maximum.

    On the support ``z = l + (p^e - 1) / e``, so that ``<p, z> - Omega(p) = l + (sum p^alpha - 1) / alpha``; the entry
    with the largest probability gives ``l``.
    """
    top = z.amax(-1) if origin is None else z.amax(-1) - origin.squeeze(-1)
    largest = p.amax(-1)
    flat = None
    if isinstance(alpha, Tensor):
        flat = _last(alpha.isinf())
        alpha = torch.where(alpha.isinf(), 2.0, alpha)
    elif alpha == math.inf:
        return torch.where(largest == 0, 0.0, top)
    value = top - tsallis_log(largest, _last(alpha)) + (_sum_of_powers(p, alpha) - 1) / _last(alpha)
    if flat is not None:
        value = torch.where(flat, top, value)
    return torch.where(largest == 0, 0.0, value)  # a row with nothing left


def _sum_of_powers(p: Tensor, alpha: float | Tensor) -> Tensor | float:
    if not isinstance(alpha, Tensor) and alpha == 1:
        return 1.0
    if not isinstance(alpha, Tensor) and alpha == 2:
        return torch.linalg.vector_norm(p, dim=-1).square()  # writes no row of squares
    return p.pow(alpha).sum(-1)


@overload
def _last(alpha: Tensor) -> Tensor: ...
@overload
def _last(alpha: float | Tensor) -> float | Tensor: ...
def _last(alpha: float | Tensor) -> float | Tensor:
    """A parameter ``[*, 1]`` in the shape of the values, ``[*]``."""
    return alpha.squeeze(-1) if isinstance(alpha, Tensor) and alpha.dim() else alpha
