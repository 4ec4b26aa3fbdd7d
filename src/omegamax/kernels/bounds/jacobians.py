"""Differentiate the maps with bounds, as functions of their output, in torch that can itself be differentiated."""

from __future__ import annotations

import torch
from torch import Tensor


def k_subsets_vjp(p: Tensor, g: Tensor, dim: int) -> Tensor:
    """Multiply J by g, with J the projection onto the entries strictly between 0 and 1, centred."""
    free = (p > 0) & (p < 1)
    return torch.where(free, centre(g, free, dim), 0.0)


def box_simplex_vjp(p: Tensor, g: Tensor, lower: float | Tensor, upper: float | Tensor, dim: int) -> Tensor:
    """Multiply J by g, with J the projection onto the entries that are at no bound, centred."""
    free = is_free(p, lower, upper)
    return torch.where(free, centre(g, free, dim), 0.0)


def is_free(p: Tensor, lower: float | Tensor, upper: float | Tensor) -> Tensor:
    """Tell which probabilities are at no bound: those that are at one are equal to it; masked entries are 0."""
    return (p > 0) & (p != lower) & (p != upper)


def capped_softmax_vjp(p: Tensor, g: Tensor, upper: float | Tensor, dim: int) -> Tensor:
    """Multiply J by g, with J that of softmax on the entries below their bound, which share what the others leave."""
    free = torch.where(p == upper, 0.0, p)
    mass = free.sum(dim, keepdim=True)
    return free * (g - (free * g).sum(dim, keepdim=True) / torch.where(mass > 0, mass, 1.0))


def centre(g: Tensor, free: Tensor, dim: int) -> Tensor:
    """Subtract from ``g`` its mean over the entries that are ``free``, everywhere; unchanged where none is."""
    count = free.sum(dim, keepdim=True).clamp(min=1)
    return g - torch.where(free, g, 0.0).sum(dim, keepdim=True) / count
