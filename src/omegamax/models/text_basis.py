"""The basis functions of values along a text: Gaussians of several widths, as configurations name them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from omegamax._arguments import check_integer
from omegamax._checks import check_above
from omegamax.basis import GaussianRBF


def check_widths(name: str, functions: int, widths: Sequence[float]) -> tuple[float, ...]:
    """Refuse what :func:`make_basis` cannot take; return the widths, which a file of settings has as a list."""
    check_integer(name, "functions", functions, least=1)
    for width in widths:
        check_above(name, "widths", width, 0.0)
    widths = tuple(widths)
    if not widths or functions % len(widths):
        given = f"{functions} and {widths}"
        raise ValueError(f"{name}: functions must be a multiple of the number of widths, got {given}")
    return widths


def make_basis(functions: int, widths: Sequence[float]) -> GaussianRBF:
    """Return as many functions of each width, a standard deviation, their centres linearly spaced in [0, 1].

    >>> make_basis(6, (0.1, 0.5)).centers.squeeze(-1)
    tensor([0.0000, 0.0000, 0.5000, 0.5000, 1.0000, 1.0000])
    """
    count = functions // len(widths)
    centers = torch.linspace(0, 1, count).repeat_interleave(len(widths)).unsqueeze(-1)
    return GaussianRBF(centers, torch.tensor(widths).square().repeat(count))
