"""The least variance of a component: the best covariance that no direction falls below."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from omegamax.mixtures._packed import pack, unpack


def hold_at_floor(packed: Tensor, floor: Tensor, e: float | Tensor, n: int) -> Tensor:
    r"""Return the covariance that fits a scatter matrix S best, among those with all eigenvalues >= ``floor``; packed.

    .. math:: \arg\min_{C \succeq f I} \; \tfrac12 \operatorname{tr}(P_C S) + \Omega_\alpha^*(P_C)

    with ``P_C`` the precision of the score of the beta-Gaussian with covariance C, and ``e = alpha - 1``. C has the
    eigenvectors of S and the eigenvalues ``max(f, s_i / rho)``, where rho is 1 if none is held at the floor, or if
    alpha = 1 (each direction for itself), and otherwise solves

    .. math:: \rho + \tfrac{e}{2} \sum_i \min(s_i / f, \rho) = 1 + \tfrac{e n}{2}

    So no M-step lowers the objective, whatever alpha. ``packed [*, n(n+1)/2]``; ``floor`` and ``e`` broadcast to ``*``.
    """
    if n == 1:
        return torch.maximum(packed, floor.unsqueeze(-1))
    if n == 2:
        return _hold_in_plane(packed, floor, e)
    exponent = e if isinstance(e, Tensor) else floor.new_tensor(e)
    batch = packed.shape[:-1]
    return pack(_Spectral.apply(unpack(packed, n), floor.expand(batch), exponent.expand(batch)))


def _hold_in_plane(packed: Tensor, floor: Tensor, e: float | Tensor) -> Tensor:
    """Return two eigenvalues in closed form: ``mid +- radius``."""
    a, b, c = packed.unbind(-1)
    mid, half = (a + c) / 2, (a - c) / 2
    square = half.square() + b.square()
    oblong = square > (torch.finfo(a.dtype).eps * mid).square()  # a circle has no axes, and no gradient of them
    safe = torch.where(oblong, square, 1.0).sqrt()
    radius = torch.where(oblong, safe, 0.0)
    low, high = mid - radius, mid + radius
    if isinstance(e, Tensor) or e != 0:
        high = high * (1 + e / 2) / (1 + e - e / 2 * (low / floor).clamp(0, 1))
    thin = low < floor
    dot = thin & ~((high > floor) & oblong)
    ratio = (high - floor) / (2 * safe)
    middle = (high + floor) / 2
    return torch.stack(
        [
            torch.where(thin, torch.where(dot, floor, middle + ratio * half), a),
            torch.where(thin, torch.where(dot, 0.0, ratio * b), b),
            torch.where(thin, torch.where(dot, floor, middle - ratio * half), c),
        ],
        -1,
    )


class _Spectral(torch.autograd.Function):
    """In three dimensions and more: by eigenvalues. Torch's own derivative of these is NaN where two are equal."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, floor: Tensor, e: Tensor) -> Tensor:
        values, vectors = torch.linalg.eigh(matrix)
        raised, _ = _raise_eigenvalues(values, floor, e)
        ctx.save_for_backward(values, vectors, floor, e)
        return (vectors * raised.unsqueeze(-2)) @ vectors.mT

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, Tensor]:
        values, vectors, floor, e = ctx.saved_tensors
        inner = vectors.mT @ ((grads[0] + grads[0].mT) / 2) @ vectors
        with torch.enable_grad():
            values, e = values.detach().requires_grad_(), e.detach().requires_grad_()
            raised, rho = _raise_eigenvalues(values, floor, e)
            slopes = torch.autograd.grad(raised, [values, e], inner.diagonal(dim1=-2, dim2=-1), allow_unused=True)
        # Divided differences of the eigenvalues: 1 / rho for two above the floor, equal or not, and 0 for two at it.
        free = raised > floor.unsqueeze(-1)
        one, both = free.unsqueeze(-1) ^ free.unsqueeze(-2), free.unsqueeze(-1) & free.unsqueeze(-2)
        gap = values.unsqueeze(-1) - values.unsqueeze(-2)
        rise = (raised.unsqueeze(-1) - raised.unsqueeze(-2)) / torch.where(one & (gap != 0), gap, 1.0)
        slope = torch.where(both, (1 / rho).unsqueeze(-1), torch.where(one, rise, 0.0))
        inner = inner * slope.detach()
        inner = inner - torch.diag_embed(inner.diagonal(dim1=-2, dim2=-1)) + torch.diag_embed(slopes[0])
        return vectors @ inner @ vectors.mT, None, torch.zeros_like(e) if slopes[1] is None else slopes[1]


def _raise_eigenvalues(values: Tensor, floor: Tensor, e: Tensor) -> tuple[Tensor, Tensor]:
    """Return eigenvalues ``[*, n]``, ascending, held at the floor, and rho, ``[*, 1]``."""
    n = values.shape[-1]
    floor, e = floor.unsqueeze(-1), e.unsqueeze(-1)
    ratios = values.clamp(min=0) / floor
    held = torch.arange(n + 1, dtype=values.dtype, device=values.device)  # how many are held at the floor
    taken = torch.nn.functional.pad(ratios.cumsum(-1), (1, 0))
    candidates = (1 + e * n / 2 - e / 2 * taken) / (1 + e / 2 * (n - held))
    following = torch.nn.functional.pad(ratios, (0, 1), value=torch.inf)
    rho = candidates.gather(-1, (following > candidates).int().argmax(-1, keepdim=True))  # the first that fits
    return torch.maximum(values / rho, floor), rho
