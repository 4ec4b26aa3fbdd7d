"""Mean and covariance of coordinates under weights, with the way back of reverse mode worked out beforehand."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax._first_order import FirstOrder


def find_moments_on_line(p: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean ``[*, 1]`` and covariance ``[*, 1, 1]`` of coordinates under p, both ``[*, L]``."""
    mean, variance = FirstOrder.apply(_on_line, _pull_back_on_line, _take_on_line, p, x)
    return mean, variance.unsqueeze(-1)


def find_moments_in_space(p: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean ``[*, n]`` and covariance ``[*, n, n]`` of coordinates ``[*, n, L]`` under ``p [*, L]``."""
    return FirstOrder.apply(_in_space, _pull_back_in_space, _take_in_space, p, x)


def _take_on_line(p: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    mean = (p * x).sum(-1, keepdim=True)
    return mean, (p * (x - mean).square()).sum(-1, keepdim=True)


def _on_line(p: Tensor, x: Tensor) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    mean = (p * x).sum(-1, keepdim=True)
    square = (x - mean).square_()
    return (mean, (p * square).sum(-1, keepdim=True)), (x, square)


def _pull_back_on_line(x: Tensor, square: Tensor, of_mean: Tensor, of_variance: Tensor) -> tuple[Tensor, None]:
    return torch.addcmul(of_mean * x, of_variance, square), None  # coordinates have no gradient


def _in_space(p: Tensor, x: Tensor) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    p = p.unsqueeze(-2)
    mean = (p * x).sum(-1)
    centred = x - mean.unsqueeze(-1)
    covariance = ((p * centred).unsqueeze(-2) * centred.unsqueeze(-3)).sum(-1)
    return (mean, covariance), (x, centred)


def _take_in_space(p: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    return _in_space(p, x)[0]


def _pull_back_in_space(x: Tensor, centred: Tensor, of_mean: Tensor, of_covariance: Tensor) -> tuple[Tensor, None]:
    inner = (of_covariance.unsqueeze(-1) * centred.unsqueeze(-3)).sum(-2)
    return torch.addcmul(inner * centred, of_mean.unsqueeze(-1), x).sum(-2), None  # coordinates have no gradient
