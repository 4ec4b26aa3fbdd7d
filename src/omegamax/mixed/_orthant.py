"""Probabilities that a Gaussian vector is positive."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from omegamax.mixed._fibre import log_line_integral
from omegamax.mixed._quadrature import legendre, sobol

_SURE = 40.0  # deviations from which an entry counts as positive with probability exactly 1
_COARSE = 17


def log_orthant(mean: Tensor, cov: Tensor, there: Tensor, order: int, points: int) -> Tensor:
    r"""Return ``log P(V_j > 0 for every j that is there)`` of Gaussian vectors V, ``[*]``.

    Up to three entries by Gauss-Legendre rules, accurate to rounding in the tails too unless the matrix is almost
    singular; for more, Genz's separation of variables at ``points`` fixed Sobol points.

    Args:
        mean: ``[*, K]``.
        cov: ``[*, K, K]``, positive definite on the entries that are there.
        there: ``[*, K]`` bool.
    """
    few = there.sum(-1) <= 3
    # Each row by the rule of its own count, so that its value does not depend on the rows beside it.
    return by_rows(few, partial(_few, order=order), partial(_many, points=points), mean, cov, there)


def by_rows(chosen: Tensor, yes: Callable[..., Tensor], no: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """Return ``yes`` of the rows that are chosen (``[*]`` bool) and ``no`` of the others; tensors are ``[*, ...]``."""
    if bool(chosen.all()):
        return yes(*tensors)
    if not bool(chosen.any()):
        return no(*tensors)
    first, second = yes(*(t[chosen] for t in tensors)), no(*(t[~chosen] for t in tensors))
    result = first.new_zeros(chosen.shape)
    return result.masked_scatter(chosen, first).masked_scatter(~chosen, second.to(first.dtype))


def _sort(mean: Tensor, cov: Tensor, there: Tensor) -> tuple[Tensor, Tensor]:
    """Standardise, and drop entries that no row has; those that a row lacks become independent, and sure."""
    count = int(there.sum(-1).max()) if there.numel() else 0
    scale = torch.where(there, cov.diagonal(dim1=-2, dim2=-1), 1.0).sqrt()
    mean = torch.where(there, mean / scale, _SURE)
    both = there.unsqueeze(-1) & there.unsqueeze(-2)
    corr = torch.where(both, cov / (scale.unsqueeze(-1) * scale.unsqueeze(-2)), 0.0)
    corr = corr.masked_fill(torch.eye(mean.shape[-1], dtype=torch.bool, device=mean.device), 1.0)
    # The least likely first: what is drawn first is then what matters most. What is sure comes last.
    rank = torch.where(there, mean.detach(), math.inf).argsort(-1)[..., :count]
    mean = mean.gather(-1, rank)
    corr = corr.gather(-2, rank.unsqueeze(-1).expand(*rank.shape, corr.shape[-1]))
    return mean, corr.gather(-1, rank.unsqueeze(-2).expand(*rank.shape, count))


def _few(mean: Tensor, cov: Tensor, there: Tensor, order: int) -> Tensor:
    mean, corr = _sort(mean, cov, there)
    count = mean.shape[-1]
    if count == 0:
        return torch.zeros(mean.shape[:-1], dtype=mean.dtype, device=mean.device)
    if count == 1:
        return torch.special.log_ndtr(mean[..., 0])
    return _two(mean, corr, order) if count == 2 else _three(mean, corr, order)


def _two(mean: Tensor, cov: Tensor, order: int) -> Tensor:
    """Integrate, over the first of two entries, the distribution function of the second given the first."""
    first, rest, _ = _condition(mean, cov)
    offset, slope, scale = rest[0], rest[1], rest[2]
    variance = cov[..., 0, 0]
    line = log_line_integral(first, variance, offset / scale, slope / scale, order, positive=True)
    return line - 0.5 * (2 * math.pi * variance).log()


def _condition(mean: Tensor, cov: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor], Tensor]:
    """Return the mean of the first entry, ``offset + slope * V_1``.

    The other results are the deviations and the covariance of the others.
    """
    slope = cov[..., 1:, 0] / cov[..., :1, 0]
    offset = mean[..., 1:] - slope * mean[..., :1]
    rest = cov[..., 1:, 1:] - slope.unsqueeze(-1) * cov[..., :1, 1:]
    # Rounding can leave nothing of an entry that the first one settles.
    variance = rest.diagonal(dim1=-2, dim2=-1).clamp(min=torch.finfo(cov.dtype).eps ** 2)
    return mean[..., 0], (offset, slope, variance.sqrt()), rest


def _three(mean: Tensor, cov: Tensor, order: int) -> Tensor:
    """Integrate the probability of two entries over the third."""
    first, (offset, slope, _), rest = _condition(mean, cov)
    variance = cov[..., 0, 0]

    def log_integrand(t: Tensor, order: int) -> Tensor:  # [*, Q] -> [*, Q]
        others = offset.unsqueeze(-2) + slope.unsqueeze(-2) * t.unsqueeze(-1)
        pair = _two(others, rest.unsqueeze(-3).expand(*others.shape, 2), order)
        return pair - 0.5 * (t - first.unsqueeze(-1)).square() / variance.unsqueeze(-1)

    with torch.no_grad():
        deviation = variance.sqrt()
        low = (first - 9.5 * deviation).clamp(min=0)
        high = first.clamp(min=0) + 9.5 * deviation
        share = torch.linspace(0, 1, _COARSE, dtype=mean.dtype, device=mean.device)
        for _ in range(4):
            grid = low.unsqueeze(-1) + (high - low).unsqueeze(-1) * share
            height = log_integrand(grid, 12)
            top, at = height.max(-1)
            mode = grid.gather(-1, at.unsqueeze(-1)).squeeze(-1)
            cell = (high - low) / (_COARSE - 1)
            kept = height > top.unsqueeze(-1) - 42
            low = (torch.where(kept, grid, math.inf).amin(-1) - cell).clamp(min=0)
            high = torch.where(kept, grid, -math.inf).amax(-1) + cell
        x, w = legendre(order, mean)
        before, after = (mode - low).unsqueeze(-1), (high - mode).unsqueeze(-1)
        nodes = torch.cat([mode.unsqueeze(-1) - before * x, mode.unsqueeze(-1) + after * x], -1)
        log_weights = torch.cat([before * w, after * w], -1).log()
    return (log_weights + log_integrand(nodes, order)).logsumexp(-1) - 0.5 * (2 * math.pi * variance).log()


def _many(mean: Tensor, cov: Tensor, there: Tensor, points: int) -> Tensor:
    """Integrate by Genz's separation of variables: each entry given that it and those before it are positive."""
    log_u = sobol(mean.shape[-1] - 1, points).log().to(mean)
    mean, corr = _sort(mean, cov, there)
    count = mean.shape[-1]
    tril = torch.linalg.cholesky(corr)
    total = torch.zeros((), dtype=mean.dtype, device=mean.device)
    drawn: list[Tensor] = []
    for i in range(count):
        shift = mean[..., i, None]
        for j, e in enumerate(drawn):
            shift = shift + tril[..., i, j, None] * e
        log_p = torch.special.log_ndtr(shift / tril[..., i, i, None])
        total = total + log_p
        if i < count - 1:
            drawn.append(-quantile(log_u[:, i] + log_p))
    return total.logsumexp(-1) - math.log(points)


class _Quantile(torch.autograd.Function):
    """The x at which ``log Phi(x)`` is as given, without a loss of accuracy far out on the left."""

    @staticmethod
    def forward(log_p: Tensor) -> Tensor:
        x = torch.special.ndtri(log_p.exp())
        far = log_p < -30
        y = torch.where(far, -2 * log_p, 60.0)
        start = -(y - (2 * math.pi * y).log()).sqrt()
        x = torch.where(far, start, x)
        for _ in range(3):  # Newton
            log_ratio = torch.special.log_ndtr(x) + 0.5 * x.square() + 0.5 * math.log(2 * math.pi)
            step = (torch.special.log_ndtr(x) - log_p) * log_ratio.exp()
            x = torch.where(far, x - step, x)
        return x

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return g * (torch.special.log_ndtr(x) + 0.5 * x.square() + 0.5 * math.log(2 * math.pi)).exp()


def quantile(log_p: Tensor) -> Tensor:
    return _Quantile.apply(log_p)
