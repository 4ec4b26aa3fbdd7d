"""Derivatives of constrained softmax and sparsemax, in the scores and in the bounds.

An entry at its bound does not follow its score but its bound, and the free entries make room for it.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from omegamax._operation import solve_vjp
from omegamax.kernels.bounds import box_simplex_vjp, capped_softmax_vjp, centre, is_free

Bound = float | Tensor


def softmax_vjp(g: Tensor, p: Tensor, upper: Bound, *, dim: int):
    """Return the gradient of constrained softmax in the scores, and what makes that in the ceilings."""

    def bound() -> Tensor:
        capped, share = _find_capped(p, upper, dim)
        # With every entry at its bound nothing can move.
        stuck = capped.all(dim, keepdim=True)
        return torch.where(capped & ~stuck, g - (share * g).sum(dim, keepdim=True), 0.0)

    return solve_vjp("capped_softmax_vjp", capped_softmax_vjp, p, g, upper, dim), bound


def softmax_jvp(tangents, p: Tensor, upper: Bound, *, dim: int) -> Tensor:
    """Return how constrained softmax changes with its scores and ceilings."""
    dz, du = tangents
    capped, share = _find_capped(p, upper, dim)
    out = torch.zeros_like(p)
    if dz is not None:
        out = torch.where(capped, 0.0, p * (dz - (share * dz).sum(dim, keepdim=True)))
    if du is not None:
        taken = torch.where(capped & ~capped.all(dim, keepdim=True), du, 0.0)
        out = out + taken - share * taken.sum(dim, keepdim=True)
    return out


def _find_capped(p: Tensor, upper: Bound, dim: int) -> tuple[Tensor, Tensor]:
    """Return which entries are at their bound, and the probabilities of the others as shares of what is left."""
    capped = p == upper
    free = torch.where(capped, 0.0, p)
    mass = free.sum(dim, keepdim=True)
    return capped, free / torch.where(mass > 0, mass, 1.0)


def sparsemax_vjp(g: Tensor, p: Tensor, upper: Bound, lower: Bound, *, dim: int):
    """Return the gradient of constrained sparsemax in the scores, and what makes those in the ceilings and floors."""

    def bound(which: int) -> Tensor:
        free, *ends = _find_bound(p, upper, lower, dim)
        return torch.where(ends[which], centre(g, free, dim), 0.0)

    dz = solve_vjp("box_simplex_vjp", box_simplex_vjp, p, g, lower, upper, dim)
    return dz, partial(bound, 0), partial(bound, 1)


def sparsemax_jvp(tangents, p: Tensor, upper: Bound, lower: Bound, *, dim: int) -> Tensor:
    """Return how constrained sparsemax changes with its scores, ceilings and floors."""
    dz, du, dl = tangents
    free, high, low = _find_bound(p, upper, lower, dim)
    push = torch.zeros_like(p)
    for part, tangent in ((free, dz), (high, du), (low, dl)):
        if tangent is not None:
            push = torch.where(part, tangent, push)
    count = free.sum(dim, keepdim=True).clamp(min=1)
    return push - torch.where(free, push.sum(dim, keepdim=True) / count, 0.0)


def _find_bound(p: Tensor, upper: Bound, lower: Bound, dim: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return which entries are free, at their upper and at their lower bound; if none is free, no bound counts."""
    free = is_free(p, lower, upper)
    some = free.any(dim, keepdim=True)
    return free, some & (p == upper) & (upper > lower), some & (p == lower)
