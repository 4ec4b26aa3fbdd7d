"""Solve entmax and normmax in plain torch: exact, slow, any device. All other kernels are tested against this one.

Rows are solved in float64, whatever the dtype, because thresholds are differences of sums. One rule for edge cases: a
row with nothing left (all ``-inf``) gives zeros, one that holds NaN or ``+inf`` gives NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from omegamax.kernels.rows.entmax_jacobian import alpha_vjp as alpha_vjp
from omegamax.kernels.rows.entmax_jacobian import entmax_vjp as entmax_vjp
from omegamax.kernels.rows.normmax_jacobian import normmax_vjp as normmax_vjp
from omegamax.kernels.rows.tsallis import power_sum as power_sum
from omegamax.kernels.rows.tsallis import tsallis as tsallis
from omegamax.kernels.rows.tsallis import tsallis_in_alpha as tsallis_in_alpha

MAX_STEPS = 200  # Newton needs 2 to 15; the cap only bounds the time spent on rows that hold NaN


def entmax(z: Tensor, alpha: float | Tensor, dim: int = -1) -> Tensor:
    """Compute Tsallis entmax for any alpha in (0, inf], a float or one for each row with size 1 along ``dim``."""
    if not isinstance(alpha, Tensor):
        return solve_rows(_choose_solver(alpha), z, dim)
    by_row = flatten_parameter(alpha, z, dim, 1)
    return solve_rows(lambda u: _entmax_rows(u, by_row), z, dim)


def normmax(z: Tensor, alpha: float | Tensor, dim: int = -1) -> Tensor:
    """Compute the norm-regularised map for alpha in (1, inf], a float or one for each row with size 1 along ``dim``."""
    exponent = 1 / (flatten_parameter(alpha, z, dim, 1) - 1)

    def solve(u: Tensor) -> Tensor:
        log_height = _log_height(u, _norm_threshold(u, exponent))
        return _normalise(torch.where(log_height > -math.inf, (exponent * log_height).exp(), 0.0))

    return solve_rows(solve, z, dim)


def solve_rows(solve: Callable[[Tensor], Tensor], z: Tensor, dim: int, shift: bool = True) -> Tensor:
    """Apply ``solve``, which takes float64 rows ``[N, K]``, along ``dim``, and settle rows without a finite maximum.

    The maximum becomes 0, unless bounds may decide it and leave the others to share the rest: their differences would
    not survive being taken from a score of 1e30.
    """
    moved = z.movedim(dim, -1)
    rows = moved.reshape(-1, moved.shape[-1]).double()
    if rows.numel() == 0:
        return torch.empty_like(z, memory_format=torch.contiguous_format)
    top = rows.amax(-1, keepdim=True)
    sound = top.isfinite()
    p = solve(torch.where(sound, rows - top if shift else rows, 0.0))
    p = torch.where(sound, p, torch.where(top == -math.inf, 0.0, math.nan))
    p = p.to(z.dtype).reshape(moved.shape).movedim(-1, dim).contiguous()
    # Autograd lets nobody write into a Function's result that is a view.
    return p.clone() if p._is_view() else p


def flatten_parameter(value: float | Tensor, z: Tensor, dim: int, size: int) -> Tensor:
    """Expand a parameter of scores ``z``, a scalar or a tensor with their rank, to ``[N, size]`` in float64."""
    lead = z.movedim(dim, -1).shape[:-1]
    if not isinstance(value, Tensor):
        return z.new_full((math.prod(lead), size), value, dtype=torch.float64)
    moved = value.movedim(dim, -1) if value.dim() else value
    return moved.double().expand(*lead, size).reshape(math.prod(lead), size)


def _choose_solver(alpha: float):
    """Return the solver for one alpha: the exact one where there is one."""
    if alpha == 1:
        return lambda u: u.softmax(-1)
    if alpha == 1.5:
        return _entmax15
    if alpha == 2:
        return _sparsemax
    return lambda u: _entmax_rows(u, u.new_full((u.shape[0], 1), alpha))


def _sparsemax(u: Tensor) -> Tensor:
    """Solve by Martins & Astudillo (2016), Alg. 1, with the support found by bisection, measured from its last entry.

    A running sum over a long row of equal scores would round in the same direction at every step.
    """
    top = u.sort(-1, descending=True).values
    size = _find_support_size(top, lambda t: (top - t).clamp(min=0).sum(-1, keepdim=True))
    last = top.gather(-1, size - 1)
    excess = (top - last).clamp(min=0).sum(-1, keepdim=True) - 1
    return ((u - last) - excess / size).clamp(min=0)


def _entmax15(u: Tensor) -> Tensor:
    """Solve by Peters, Niculae & Martins (2019), Alg. 2, with the support found by bisection on a sum of squares."""
    v = u / 2
    top = v.sort(-1, descending=True).values
    # The k-th entry is in the support iff the squared gaps of the larger ones to it sum to less than one, which
    # is monotone in k: a binary search needs no square root and no difference of running squares.
    size = _find_support_size(top, lambda t: (top - t).clamp(min=0).square().sum(-1, keepdim=True))
    kept = torch.arange(u.shape[-1], device=u.device) < size
    top = torch.where(kept, top, 0.0)
    mean = top.sum(-1, keepdim=True) / size
    spread = torch.where(kept, top - mean, 0.0).square().sum(-1, keepdim=True)
    tau = mean - ((1 - spread).clamp(min=0) / size).sqrt()
    return (v - tau).clamp(min=0).square()


def _entmax_rows(u: Tensor, alpha: Tensor) -> Tensor:
    """Solve rows of which each has an alpha of its own."""
    e = alpha - 1
    gentle, steep = e <= 1, (e > 1) & ~e.isinf()
    p = (u == 0).to(u.dtype)  # alpha = inf: the maxima share
    p = torch.where(gentle, _newton(u, torch.where(gentle, e, 0.0)), p / p.sum(-1, keepdim=True))
    if bool(steep.any()):
        p = torch.where(steep, _above_two(u, torch.where(steep, e, 2.0)), p)
    return torch.where(alpha > 0, p, math.nan)


def _newton(u: Tensor, e: Tensor) -> Tensor:
    """Solve ``sum exp_e(u - tau) = 1`` for e <= 1: Newton on (s^e - 1) / e, convex and decreasing in tau, from 0."""
    tau = torch.zeros_like(e)
    inverse = torch.where(e == 0, 0.0, 1 / e)
    for _ in range(MAX_STEPS):
        p, base = deformed_exp(u - tau, e, inverse)
        s = p.sum(-1, keepdim=True)
        r = torch.where(p > 0, p / base, 0.0).sum(-1, keepdim=True)
        log_s = s.log()
        step = s / r * torch.where(e == 0, log_s, -(-e * log_s).expm1() * inverse)
        moved = tau + step
        if bool((moved <= tau).all()):
            break
        tau = torch.maximum(moved, tau)
    return _normalise(deformed_exp(u - tau, e, inverse)[0])


def deformed_exp(t: Tensor, e: Tensor, inverse: Tensor) -> tuple[Tensor, Tensor]:
    """Compute ``exp_e(t) = [1 + e t]_+^(1/e)`` and its base ``1 + e t``."""
    base = torch.where(e == 0, 1.0, 1 + e * t)
    log_p = torch.where(e == 0, t, torch.where(base > 0, (e * t).clamp(min=-1).log1p(), -math.inf) * inverse)
    return torch.where(base > 0, log_p.exp(), 0.0), base


def _norm_threshold(u: Tensor, exponent: Tensor) -> Tensor:
    """Find the tau of normmax: ``[1 + u - tau]_+`` has a q-norm of one, q = 1 + exponent, for scores with maximum 0.

    Newton on the norm, convex and decreasing in tau, from 0. The powers of the leaders are measured from 1: where one
    score leads all others by nearly 1, tau is next to nothing, and a high root of what it leaves needs all its digits.
    """
    q = 1 + exponent
    tau = torch.zeros_like(exponent)
    leaders = (u == 0).sum(-1, keepdim=True)
    for _ in range(MAX_STEPS):
        log_height = _log_height(u, tau)
        weight = torch.where(log_height > -math.inf, (exponent * log_height).exp(), 0.0)
        mass = torch.where(u < 0, weight * (1 + u - tau).clamp(min=0), 0.0).sum(-1, keepdim=True)
        lead = (q * (-tau).log1p()).expm1()
        excess = mass + (leaders - 1) * (lead + 1) + lead
        above = (excess.log1p() / q).expm1()
        moved = tau + above * (excess + 1) / (weight.sum(-1, keepdim=True) * (above + 1))
        if bool((moved <= tau).all()):
            break
        tau = torch.maximum(moved, tau)
    return tau


def _log_height(u: Tensor, tau: Tensor) -> Tensor:
    """Compute ``log [1 + u - tau]_+`` for u <= 0, accurate where the height is next to 1 and where it is next to 0."""
    fall, height = u - tau, (1 + u) - tau
    near = fall.clamp(min=-0.5).log1p()
    far = torch.where(height > 0, height, 1.0).log()
    return torch.where(height > 0, torch.where(fall > -0.5, near, far), -math.inf)


def _above_two(u: Tensor, e: Tensor) -> Tensor:
    """Solve alpha > 2, where p has infinite slope at the edge of the support, for the smallest probability.

    With y the probability of the last entry in the support and d its gaps to the others times e, the sum
    y + sum (y^e + d)^(1/e) is convex and increasing in y: Newton from above, y = 1 / size, cannot overshoot.
    """
    q = 1 / e
    top = u.sort(-1, descending=True).values
    size = _find_support_size(top, lambda t: (e * (top - t)).clamp(min=0).pow(q).sum(-1, keepdim=True))
    last = top.gather(-1, size - 1)

    def raise_power(y: Tensor, scores: Tensor) -> Tensor:
        # (y^e + gap)^(1/e): as logarithms, because the power of y underflows at large e.
        inside = scores >= last
        gap = torch.where(inside, e * (scores - last), 0.0)
        return torch.where(inside, (torch.logaddexp(e * y.log(), gap.log()) * q).exp(), 0.0)

    y = 1 / size.to(u.dtype)
    for _ in range(MAX_STEPS):
        p = raise_power(y, top)
        slope = torch.where(p > 0, (y / p).pow(e - 1), 0.0).sum(-1, keepdim=True)
        lower = (y - (p.sum(-1, keepdim=True) - 1) / slope.clamp(min=1)).clamp(min=0)
        if bool((lower >= y).all()):
            break
        y = torch.minimum(lower, y)
    return _normalise(raise_power(y, u))


def _find_support_size(top: Tensor, mass_above) -> Tensor:
    """Find the largest n such that ``mass_above(top[n - 1]) < 1``, by bisection; ``top`` is descending. ``[N, 1]``."""
    low = top.new_ones(top.shape[0], 1, dtype=torch.long)
    high = torch.full_like(low, top.shape[-1])
    for _ in range(top.shape[-1].bit_length()):
        middle = (low + high + 1) // 2
        inside = mass_above(top.gather(-1, middle - 1)) < 1
        low, high = torch.where(inside, middle, low), torch.where(inside, high, middle - 1)
        high = torch.maximum(low, high)
    return low


def _normalise(p: Tensor) -> Tensor:
    return p / p.sum(-1, keepdim=True)
