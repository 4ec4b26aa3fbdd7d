"""Weighted points to try things on, and what is compared of two mixtures."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax.basis import grid_positions
from omegamax.densities import Mixture

double = torch.float64
GRID = grid_positions((8, 8)).to(double)


def cloud(*batch: int, points: int = 40, n: int = 2, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Points in a few groups, ``[L, n]``, and weights, ``[*, L]``."""
    draw = torch.Generator().manual_seed(seed)
    centres = 3 * torch.randn(4, n, generator=draw, dtype=double)
    x = centres[torch.arange(points) % 4] + 0.7 * torch.randn(points, n, generator=draw, dtype=double)
    return x, torch.rand(*batch, points, generator=draw, dtype=double)


def moments(p: Mixture) -> tuple[Tensor, Tensor, Tensor]:
    return p.weights, p.components.mean, p.components.covariance_matrix


def assert_same(p: Mixture, q: Mixture, atol: float = 1e-10, rtol: float = 1e-8) -> None:
    for a, b in zip(moments(p), moments(q), strict=True):
        torch.testing.assert_close(a, b, atol=atol, rtol=rtol)


def sane(p: Mixture) -> bool:
    finite = all(bool(t.isfinite().all()) for t in moments(p))
    definite = bool((torch.linalg.eigvalsh(p.components.covariance_matrix) > 0).all())
    return finite and definite and torch.allclose(p.weights.sum(-1), torch.ones_like(p.weights[..., 0]))
