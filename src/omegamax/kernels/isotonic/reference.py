"""Solve isotonic regression in plain torch, and with it the proximal operator of OSCAR's penalty.

The penalty ``sum_{i<j} max(w_i, w_j)`` is ``sum_i (K - i) w_(i)`` over the sorted entries: its proximal operator
subtracts those weights from the sorted scores and restores the order by isotonic regression, entries that meet being
pooled. Values inside a pool are bitwise equal, so that the pools can be read off the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor


def oscar(z: Tensor, strength: float | Tensor, dim: int) -> Tensor:
    """Return what :func:`solve_oscar` does, by :func:`isotonic`."""
    return solve_oscar(z, strength, dim, isotonic)


def solve_oscar(z: Tensor, strength: float | Tensor, dim: int, regress: Callable[[Tensor], Tensor]) -> Tensor:
    """Return pooled scores ``u`` with ``prox(z) = u - strength (K - 1)`` along ``dim``, K entries being present.

    Measured that way the scores near the top, which are the ones that count, are small if ``z`` is, whatever K.
    ``strength`` is a float, or a tensor with the rank of ``z`` and size 1 along ``dim``. ``-inf`` entries stay what
    they are; NaN, ``+inf`` and a strength that is NaN or negative turn their row into NaN. ``regress`` is an isotonic
    regression of rows like :func:`isotonic`.
    """
    rows = z.movedim(dim, -1)
    shape = rows.shape
    rows = rows.reshape(-1, shape[-1]).double()
    if rows.numel() == 0:
        return torch.empty_like(z, memory_format=torch.contiguous_format)
    if isinstance(strength, Tensor):
        weight = strength.movedim(dim, -1).expand(*shape[:-1], 1).reshape(-1, 1).double()
    else:
        weight = rows.new_full((1, 1), strength)
    top = rows.amax(-1, keepdim=True)
    sound = (top < math.inf) & (weight >= 0)
    weight = weight.clamp(max=torch.finfo(rows.dtype).max / (4 * shape[-1]))  # which makes one pool of any row
    # Scaled by a power of two, so that neither differences nor sums of the largest numbers there are overflow.
    scale = 2.0 ** -(1 + shape[-1].bit_length())
    # Measured from the one nearest to zero, which takes no digits from any other, means lose none to what all share.
    nearest = rows.gather(-1, rows.abs().argmin(-1, keepdim=True))
    gaps = torch.where(sound & (rows != -math.inf), rows * scale - nearest * scale, -math.inf)
    gaps, order = gaps.sort(dim=-1, descending=True, stable=True)
    rank = torch.arange(shape[-1], dtype=rows.dtype, device=rows.device)
    pooled = regress(gaps + torch.where(sound, weight * scale, 0.0) * rank) / scale
    u = torch.empty_like(rows).scatter_(-1, order, pooled)
    u = torch.where(sound, u + nearest, torch.where(top == -math.inf, -math.inf, math.nan))
    return u.to(z.dtype).reshape(shape).movedim(-1, dim).contiguous()


def isotonic(x: Tensor) -> Tensor:
    """Return the non-increasing rows closest to the rows of ``x``, ``[N, K]``; ``-inf`` entries come last and stay.

    Halves that are in order are merged, all of them at once, in log2 K rounds. Where the left one ends below the
    beginning of the right one, its lower entries and the higher entries of the right one become their common mean; both
    being sorted, an entry is among them if and only if the mean of those nearer to the middle tells so.
    """
    rows, size = x.shape
    width = 1 << (size - 1).bit_length()
    fit = torch.nn.functional.pad(x, (0, width - size), value=-math.inf).contiguous()
    half = 1
    while half < width:
        pair = fit.view(rows, -1, 2, half)
        # Both outwards from the middle, so that sums never see an entry that is not pooled.
        left, right = pair[:, :, 0].flip(-1).contiguous(), pair[:, :, 1].contiguous()
        falling = -right
        sums = _prefix_sums(left), _prefix_sums(right)
        above, below = torch.searchsorted(falling, -left), torch.searchsorted(left, right)
        nearer = torch.arange(half, device=x.device)
        mean_left = (sums[0][..., :-1] + sums[1].gather(-1, above)) / (nearer + above)
        mean_right = (sums[1][..., :-1] + sums[0].gather(-1, below)) / (nearer + below)
        n_left = _count_pooled(left, (above > 0) & (mean_left > left))
        n_right = _count_pooled(falling, (below > 0) & (mean_right < right))
        pooled = (n_left > 0) & (n_right > 0)
        n_left, n_right = torch.where(pooled, n_left, 0), torch.where(pooled, n_right, 0)
        mean = (sums[0].gather(-1, n_left) + sums[1].gather(-1, n_right)) / (n_left + n_right)
        position = torch.arange(-half, half, device=x.device).view(2, half)
        inside = (position >= -n_left.unsqueeze(-1)) & (position < n_right.unsqueeze(-1))
        fit = torch.where(inside, mean.unsqueeze(-1), pair).view(rows, width)
        half *= 2
    # A mean may be rounded past the pool next to it, which it then joins.
    return fit[:, :size].cummin(-1).values


def _prefix_sums(values: Tensor) -> Tensor:
    """Return the sums of the first 0, 1, ... values."""
    return torch.nn.functional.pad(values.cumsum(-1), (1, 0))


def _count_pooled(values: Tensor, true: Tensor) -> Tensor:
    """Count the sorted values up to the last one that is true, with those equal to it: ``[*, 1]``."""
    position = torch.arange(1, true.shape[-1] + 1, device=true.device)
    count = torch.where(true, position, 0).amax(-1, keepdim=True)
    equals = torch.searchsorted(values, values.gather(-1, (count - 1).clamp(min=0)), right=True)
    return torch.where(count > 0, equals, 0)


def pool_mean(u: Tensor, g: Tensor, dim: int) -> Tensor:
    """Average ``g`` over the entries with equal ``u`` along ``dim``; 0 where ``u`` is ``-inf``."""
    ordered, order = u.sort(dim=dim, descending=True)
    size = u.shape[dim]
    fresh = ordered.narrow(dim, 1, size - 1) != ordered.narrow(dim, 0, size - 1)
    index = torch.cat([torch.zeros_like(order.narrow(dim, 0, 1)), fresh.long().cumsum(dim)], dim)
    pool = torch.zeros_like(order).scatter(dim, order, index)
    total = torch.zeros_like(g).scatter_add(dim, pool, g)
    count = torch.zeros_like(g).scatter_add(dim, pool, torch.ones_like(g))
    return torch.where(u == -math.inf, 0.0, (total / count.clamp(min=1)).gather(dim, pool))


def pool_rank(u: Tensor, dim: int) -> Tensor:
    """Count the entries above each one, halves for those in its own pool: the slope of ``u`` in the strength."""
    rank = torch.zeros_like(u)
    order = u.argsort(dim=dim, descending=True)
    shape = [1] * u.dim()
    shape[dim] = -1
    position = torch.arange(u.shape[dim], dtype=u.dtype, device=u.device).view(shape).expand_as(order)
    return pool_mean(u, rank.scatter(dim, order, position), dim)
