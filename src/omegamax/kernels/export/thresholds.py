"""Entmax and normmax: thresholds in closed form, or by a fixed number of Newton's steps."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax.kernels.export.axis import Parameter, count_rounds, count_up, keep, normalise, solve_rows, to_rows

NEWTON_STEPS = 20  # 15 were the most that a row of any alpha was seen to need
LEAST = 1e-8  # of |alpha - 1| where alpha is a tensor
TINY = 1e-300


def entmax(z: Tensor, alpha: Parameter, dim: int) -> Tensor:
    r"""Compute entmax: in closed form for the alphas that have one, else by Newton's method.

    .. math:: p_i = \bigl[1 + (\alpha - 1)(u_i - \tau)\bigr]_+^{1/(\alpha - 1)}, \quad u = z - \max z
    """
    if isinstance(alpha, Tensor):
        e = to_rows(alpha, z, dim) - 1
        return solve_rows(lambda u: _entmax_by_row(u, e), z.double(), dim).to(z.dtype)
    closed = {1.0: _softmax, 1.5: _entmax15, 2.0: _sparsemax, math.inf: _argmax}.get(alpha)
    if closed is not None:
        return solve_rows(closed, z, dim)
    solve = _entmax_up_to_two if alpha < 2 else _entmax_above_two
    return solve_rows(lambda u: solve(u, alpha - 1), z.double(), dim).to(z.dtype)


def normmax(z: Tensor, alpha: Parameter, dim: int) -> Tensor:
    r"""Compute normmax by Newton's method on the norm, which is convex and decreasing in tau, from 0.

    .. math:: p \propto h^{1/(\alpha - 1)}, \quad h = [1 + u - \tau]_+, \quad \lVert h \rVert_q = 1, \quad
              q = \tfrac{\alpha}{\alpha - 1}, \quad u = z - \max z
    """
    exponent = 1 / (to_rows(alpha, z, dim) - 1)
    q = 1 + exponent

    def solve(u: Tensor) -> Tensor:
        tau = 0 * u.amax(-1, keepdim=True)
        for _ in range(NEWTON_STEPS):
            h = (1 + u - tau).clamp(min=0)
            weight = keep(h.pow(exponent), h > 0)
            power = (weight * h).sum(-1, keepdim=True)
            norm = power.pow(1 / q)
            tau = torch.maximum(tau, tau + (norm - 1) * power / (norm * weight.sum(-1, keepdim=True)))
        h = (1 + u - tau).clamp(min=0)
        return normalise(keep(h.pow(exponent), h > 0))

    return solve_rows(solve, z.double(), dim).to(z.dtype)


def _softmax(u: Tensor) -> Tensor:
    return u.softmax(-1)


def _argmax(u: Tensor) -> Tensor:
    return normalise((u == 0).to(u.dtype))


def _sparsemax(u: Tensor) -> Tensor:
    """Martins & Astudillo (2016), Alg. 1: the n largest are the support if ``1 + n u_(n)`` exceeds their sum."""
    top = u.sort(-1, descending=True)[0]
    n = count_up(u) + 1
    support = 1 + n * top > top.cumsum(-1)
    tau = (keep(top, support).sum(-1, keepdim=True) - 1) / support.to(u.dtype).sum(-1, keepdim=True)
    return (u - tau).clamp(min=0)


def _entmax15(u: Tensor) -> Tensor:
    """Peters, Niculae & Martins (2019), Alg. 2, with ``v = u / 2``.

    The n largest are the support if their squared gaps to the last of them, ``sum_i (v_(i) - v_(n))^2``, are below 1.
    """
    v = u / 2
    top = v.sort(-1, descending=True)[0]
    n = count_up(u) + 1
    support = n * top * top - 2 * top * top.cumsum(-1) + (top * top).cumsum(-1) < 1
    size = support.to(u.dtype).sum(-1, keepdim=True)
    mean = keep(top, support).sum(-1, keepdim=True) / size
    gap = keep(top - mean, support)
    tau = mean - ((1 - (gap * gap).sum(-1, keepdim=True)).clamp(min=0) / size).sqrt()
    return (v - tau).clamp(min=0) ** 2


def _entmax_up_to_two(u: Tensor, e: Parameter) -> Tensor:
    """Solve ``e = alpha - 1 <= 1``: Newton on ``(s^e - 1) / e``, s the sum, convex and decreasing in tau, from 0."""
    tau = 0 * u.amax(-1, keepdim=True)
    for _ in range(NEWTON_STEPS):
        base = (1 + e * (u - tau)).clamp(min=0)
        p = base.pow(1 / e)
        s = p.sum(-1, keepdim=True)
        r = keep(p / base, p > 0).sum(-1, keepdim=True)
        tau = torch.maximum(tau, tau + s / r * (1 - s.pow(-e)) / e)
    return normalise((1 + e * (u - tau)).clamp(min=0).pow(1 / e))


def _entmax_above_two(u: Tensor, e: Parameter) -> Tensor:
    """Solve ``e = alpha - 1 > 1``, where p has infinite slope at the edge of the support.

    The unknown is y, the smallest probability: the others are ``(y^e + e gap)^(1/e)``, gap being what a score is ahead
    of the last of the support. Their sum is convex and increasing in y: Newton from above.
    """
    top = u.sort(-1, descending=True)[0]
    low = (0 * top[..., :1]).long() + 1
    high = 0 * low + u.shape[-1]
    for _ in range(count_rounds(u.shape[-1])):  # the most entries that those above the last leave some mass
        middle = torch.div(low + high + 1, 2, rounding_mode="floor")
        ahead = (e * (top - top.gather(-1, middle - 1))).clamp(min=0)
        inside = ahead.pow(1 / e).sum(-1, keepdim=True) < 1
        low, high = torch.where(inside, middle, low), torch.where(inside, high, middle - 1)
        high = torch.maximum(low, high)
    last = top.gather(-1, low - 1)
    support = u >= last
    alone = (e * keep(u - last, support)).pow(1 / e)  # the probability if y were 0

    def raise_to(y: Tensor) -> Tensor:
        largest = torch.maximum(y, alone)  # measured from it, no power underflows
        return keep(largest * ((y / largest).pow(e) + (alone / largest).pow(e)).pow(1 / e), support)

    y = 1 / low.to(u.dtype)
    for _ in range(NEWTON_STEPS):
        p = raise_to(y)
        slope = keep((y / p).pow(e - 1), p > 0).sum(-1, keepdim=True).clamp(min=1)
        y = torch.minimum(y, (y - (p.sum(-1, keepdim=True) - 1) / slope).clamp(min=TINY))
    return normalise(raise_to(y))


def _entmax_by_row(u: Tensor, e: Tensor) -> Tensor:
    """Solve entmax for one alpha for each row, ``e = alpha - 1 [*, 1]``."""
    steep, endless = e > 1, e == math.inf
    above = _entmax_above_two(u, e.masked_fill(~steep | endless, 2.0))
    e = e.masked_fill(steep, 0.5)
    below = _entmax_up_to_two(u, e.masked_fill(e.abs() < LEAST, LEAST))
    return torch.where(steep, torch.where(endless, _argmax(u), above), below)
