"""Values of the Tsallis family: the negative entropy, its derivative in alpha, and the conjugate where p is known.

Where no derivative is wanted they come from kernels, else from differentiable torch.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax import kernels
from omegamax._checks import is_plain
from omegamax._numerics import tsallis_log
from omegamax._operation import needs_derivative, needs_gradient
from omegamax.kernels.rows import power_sum, squeeze_last, tsallis, tsallis_in_alpha


def negative_entropy(p: Tensor, alpha: float | Tensor) -> Tensor:
    """Return ``(sum_i p_i^alpha - 1) / (alpha (alpha - 1))``, ``[*, K] -> [*]``, with derivatives in both."""
    if not isinstance(alpha, Tensor) and alpha == 2:
        return 0.5 * (p * (p - 1)).sum(-1)
    if needs_derivative(p) or not _may_be_compiled(p, alpha):
        return tsallis(p, alpha)
    if needs_gradient(alpha):
        return _EntropyOfConstant.apply(p, alpha)
    return kernels.solve("tsallis", p, alpha)


class _EntropyOfConstant(torch.autograd.Function):
    """The negative Tsallis entropy of probabilities that need no derivative, as a function of alpha."""

    @staticmethod
    def forward(ctx, p, alpha):
        ctx.save_for_backward(p, alpha)
        return kernels.solve("tsallis", p, alpha)

    @staticmethod
    def backward(ctx, g):
        p, alpha = ctx.saved_tensors
        return None, (g * negative_entropy_in_alpha(p, alpha)).unsqueeze(-1).sum_to_size(alpha.shape)


def negative_entropy_in_alpha(p: Tensor, alpha: float | Tensor) -> Tensor:
    """Differentiate :func:`negative_entropy` in alpha."""
    if needs_derivative(p, alpha) or not _may_be_compiled(p, alpha):
        return tsallis_in_alpha(p, alpha)
    return kernels.solve("tsallis_in_alpha", p, alpha)


def _may_be_compiled(p: Tensor, alpha: float | Tensor) -> bool:
    """Tell whether a kernel can be given these: tensors with memory, in a precision that it computes in."""
    return p.dtype.itemsize >= 4 and is_plain(p, alpha)


def conjugate_at(alpha: float | Tensor, z: Tensor, p: Tensor, origin: Tensor | None) -> Tensor:
    """Return the conjugate without a pass over the scores but for their maximum.

    On the support ``z = l + (p^e - 1) / e``, so that ``<p, z> - Omega(p) = l + (sum p^alpha - 1) / alpha``; the entry
    with the largest probability gives ``l``.
    """
    top = z.amax(-1) if origin is None else z.amax(-1) - origin.squeeze(-1)
    largest = p.amax(-1)
    flat = None
    if isinstance(alpha, Tensor):
        flat = squeeze_last(alpha.isinf())
        alpha = torch.where(alpha.isinf(), 2.0, alpha)
    elif alpha == math.inf:
        return torch.where(largest == 0, 0.0, top)
    value = top - tsallis_log(largest, squeeze_last(alpha)) + (_sum_of_powers(p, alpha) - 1) / squeeze_last(alpha)
    if flat is not None:
        value = torch.where(flat, top, value)
    return torch.where(largest == 0, 0.0, value)  # a row with nothing left


def _sum_of_powers(p: Tensor, alpha: float | Tensor) -> Tensor | float:
    if not isinstance(alpha, Tensor) and alpha == 1:
        return 1.0
    if not isinstance(alpha, Tensor) and alpha == 2:
        return torch.linalg.vector_norm(p, dim=-1).square()  # writes no row of squares
    return kernels.solve("power_sum", p, alpha) if _may_be_compiled(p, alpha) else power_sum(p, alpha)
