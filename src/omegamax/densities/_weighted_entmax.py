"""Entmax with respect to a measure on the choices: probabilities become density values at quadrature nodes."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax._numerics import on_support, tsallis_log_alpha
from omegamax._operation import Map
from omegamax.functional import escort

MAX_STEPS = 200  # Newton needs 2 to 15; the cap only bounds the time spent on rows that hold NaN


def weighted_entmax(scores: Tensor, alpha: float | Tensor, weights: Tensor) -> Tensor:
    r"""Return density values at nodes of which each stands for a volume ``weights[i]``.

    .. math:: p_i = \bigl[(\alpha - 1)(f_i - \tau)\bigr]_+^{1/(\alpha - 1)}, \qquad \sum_i w_i p_i = 1

    With weights of one it is :func:`omegamax.entmax`. Differentiable any number of times, in all three arguments.

    Args:
        scores: ``[*, Q]``; ``-inf`` takes a node away, and a row without nodes is zero.
        alpha: > 0 and finite; a float or ``[*, 1]``, one for each row.
        weights: positive, broadcastable to ``[*, Q]``.

    Returns:
        ``[*, Q]``.

        >>> weighted_entmax(torch.tensor([0.0, 0.0, -1.0]), 2.0, torch.tensor([0.25, 0.25, 0.5]))
        tensor([1.5000, 1.5000, 0.5000])

    Reference: Martins et al. (NeurIPS 2020), Prop. 1 for a measure on finitely many points.
    """
    rank = scores.dim()

    def add_axes(t: Tensor) -> Tensor:
        return t.reshape((1,) * (rank - t.dim()) + tuple(t.shape))

    if isinstance(alpha, Tensor):
        alpha = add_axes(alpha)
    return _weighted_entmax(scores, alpha, add_axes(weights), dim=rank - 1)


def _solve(z: Tensor, alpha: float | Tensor, weights: Tensor, dim: int) -> Tensor:
    """Solve in float64, since thresholds are differences of sums; rows have their maximum at 0 and a measure of one."""
    f, w = (t.double().movedim(dim, -1).expand(z.movedim(dim, -1).shape) for t in (z, weights))
    shape = f.shape
    f, w = f.reshape(-1, shape[-1]), w.reshape(-1, shape[-1])
    if isinstance(alpha, Tensor):
        e = alpha.double().movedim(dim, -1).expand(*shape[:-1], 1).reshape(-1, 1) - 1
    else:
        e = f.new_full((1, 1), alpha - 1).expand(f.shape[0], 1)
    top = f.amax(-1, keepdim=True)
    sound = top.isfinite()
    gap = torch.where(sound, top - f, 0.0)
    # With all the mass in p_i = P_i / W, the measure W of the nodes drops out: sum (w_i / W) P_i = 1 for gaps W^e.
    total = torch.where(gap.isinf(), 0.0, w).sum(-1, keepdim=True)
    gap, w = gap * (e * total.log()).exp().clamp(max=torch.finfo(f.dtype).max), w / total  # a gap of 0 stays 0
    if isinstance(alpha, Tensor):
        p = _rows(gap, w, e)
    elif alpha == 1:
        p = _normalise((-gap).exp(), w)
    elif alpha == 2:
        p = _sparsemax(gap, w)
    elif alpha == 1.5:
        p = _entmax15(gap, w)
    else:
        p = (_steep if alpha > 2 else _newton)(gap, w, e)
    p = torch.where(sound, p / total, torch.where(top == -math.inf, 0.0, math.nan))
    return p.reshape(shape).movedim(-1, dim).to(z.dtype)


def _sparsemax(gap: Tensor, w: Tensor) -> Tensor:
    """Return ``P = [y - gap]_+``, linear in y once the support is known."""
    kept = _find_support(gap, w, lambda d: d)
    w = torch.where(kept, w, 0.0)
    y = (1 + (w * torch.where(kept, gap, 0.0)).sum(-1, keepdim=True)) / w.sum(-1, keepdim=True)
    return _normalise((y - gap).clamp(min=0), w)


def _entmax15(gap: Tensor, w: Tensor) -> Tensor:
    """Return ``P = [y - gap / 2]_+^2``, quadratic in y: about the mean of the gaps it needs one square root."""
    kept = _find_support(gap, w, lambda d: (d / 2).square())
    w = torch.where(kept, w, 0.0)
    half, mass = torch.where(kept, gap / 2, 0.0), w.sum(-1, keepdim=True)
    mean = (w * half).sum(-1, keepdim=True) / mass
    spread = (w * (half - mean).square()).sum(-1, keepdim=True)
    y = mean + ((1 - spread).clamp(min=0) / mass).sqrt()
    return _normalise((y - gap / 2).clamp(min=0).square(), w)


def _rows(gap: Tensor, w: Tensor, e: Tensor) -> Tensor:
    """Solve rows with an alpha each."""
    gentle = e <= 1
    p = _newton(gap, w, torch.where(gentle, e, 0.0))
    if bool(gentle.all()):
        return p
    return torch.where(gentle, p, _steep(gap, w, torch.where(gentle, 2.0, e)))


def _newton(gap: Tensor, w: Tensor, e: Tensor) -> Tensor:
    """Solve for e <= 1 of either sign. The unknown is L = log of the largest P, which is smooth through e = 0.

    With ``y = exp(e L)`` and ``P = [y - e gap]_+^(1/e)`` the function ``(sum(w P)^e - 1) / e`` is convex in y, by
    Minkowski's inequality (the reverse one for e < 0), so that Newton started beyond the root never passes it.
    """
    inverse = torch.where(e == 0, 0.0, 1 / e)

    def log1p_over_e(t: Tensor) -> Tensor:  # log(1 + e t) / e
        return torch.where(e == 0, t, (e * t).log1p() * inverse)

    # If node j alone held the mass it would have P = 1 / w_j, and L would be at least the root: take the least of them.
    log_w = w.log()
    reach = gap * (e * log_w).exp()
    alone = log1p_over_e(torch.where(e * reach > -1, reach, math.inf)) - log_w
    level = torch.where((e * reach > -1) & ~gap.isinf(), alone, math.inf).amin(-1, keepdim=True)

    def values(level: Tensor) -> tuple[Tensor, Tensor]:
        r = gap * (-e * level).exp()
        inside = (e * r < 1) & ~gap.isinf()
        r = torch.where(inside, r, 0.0)
        return torch.where(inside, (level + log1p_over_e(-r)).exp(), 0.0), 1 - e * r

    for _ in range(MAX_STEPS):
        p, base = values(level)
        mass = (w * p).sum(-1, keepdim=True)
        slope = (w * p / base).sum(-1, keepdim=True)
        log_mass = mass.log()
        step = mass / slope * torch.where(e == 0, log_mass, -(-e * log_mass).expm1() * inverse)
        lower = level + log1p_over_e(-step)
        if not bool((lower < level).any()):
            break
        level = torch.where(lower < level, lower, level)
    return _normalise(values(level)[0], w)


def _steep(gap: Tensor, w: Tensor, e: Tensor) -> Tensor:
    """Solve for alpha > 2, where P has infinite slope at the edge of the support.

    The unknown is its smallest value y there.

    With d the distance of the scores to that of y, the mass ``sum w (y^e + e d)^(1/e)`` is convex and increasing in y:
    Newton from above cannot overshoot.
    """
    kept = _find_support(gap, w, lambda d: (e * d).pow(1 / e))
    lifted = torch.where(kept, e * (torch.where(kept, gap, 0.0).amax(-1, keepdim=True) - gap), 0.0)
    w = torch.where(kept, w, 0.0)
    y = 1 / w.sum(-1, keepdim=True)
    for _ in range(MAX_STEPS):
        p = torch.where(kept, (y.pow(e) + lifted).pow(1 / e), 0.0)
        slope = torch.where(p > 0, w * (y / torch.where(p > 0, p, 1.0)).pow(e - 1), 0.0).sum(-1, keepdim=True)
        tiny = torch.finfo(w.dtype).tiny
        lower = (y - ((w * p).sum(-1, keepdim=True) - 1) / slope.clamp(min=tiny)).clamp(min=0)
        if not bool((lower < y).any()):
            break
        y = torch.where(lower < y, lower, y)
    return _normalise(torch.where(kept, (y.pow(e) + lifted).pow(1 / e), 0.0), w)


def _find_support(gap: Tensor, w: Tensor, density) -> Tensor:
    """Return the support: nodes such that those above would have a mass below one if the threshold were at their score.

    ``density`` is P as a function of the score above the threshold. The mass grows with the gap: bisection on order.
    """
    order = gap.argsort(-1)
    ascending = gap.gather(-1, order)
    low = order.new_zeros(gap.shape[0], 1)
    high = torch.full_like(low, gap.shape[-1] - 1)
    for _ in range(gap.shape[-1].bit_length()):
        middle = (low + high + 1) // 2
        edge = ascending.gather(-1, middle)
        above = torch.where(gap < edge, edge - gap, 0.0)
        inside = ((w * density(above)).sum(-1, keepdim=True) < 1) & ~edge.isinf()
        low, high = torch.where(inside, middle, low), torch.where(inside, high, middle - 1)
        high = torch.maximum(low, high)
    return gap <= ascending.gather(-1, low)


def _normalise(p: Tensor, w: Tensor) -> Tensor:
    return p / (w * p).sum(-1, keepdim=True)


def _escort(p: Tensor, G: Tensor, alpha: float | Tensor, weights: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    r"""Return ``s (G - mean)`` with the mean of G under the escort ``s = w p^(2 - alpha)`` of the support.

    The second result is ``s / sum(s)``.

    Measured from the entry of the largest s, because s of a value near zero is huge for alpha > 2 and its difference
    would cancel.
    """
    support, safe = on_support(p)
    share = escort(torch.where(support, p, 0.0), 2 - alpha, dim, weights=weights)  # none where a row is NaN
    anchor = share.argmax(dim, keepdim=True)
    s = torch.where(support, weights * safe.pow(2 - alpha), 0.0).scatter(dim, anchor, 0.0)
    moved = s * (G - G.gather(dim, anchor))
    return moved - share * moved.sum(dim, keepdim=True), share


def _vjp(g: Tensor, p: Tensor, alpha: float | Tensor, weights: Tensor, *, dim: int):
    # dp_i = q_i (df_i - dl) with q = p^(2 - alpha) and sum w dp + sum p dw = 0; raising alpha acts like a change of f.
    G = g / weights
    df, share = _escort(p, G, alpha, weights, dim)
    return (
        df,
        lambda: (df * _score_change(p, alpha, dim)).sum(dim, keepdim=True),
        lambda: -p * (share * G).sum(dim, keepdim=True),
    )


def _jvp(tangents, p: Tensor, alpha: float | Tensor, weights: Tensor, *, dim: int) -> Tensor:
    df, dalpha, dweights = tangents
    move = torch.zeros_like(p) if df is None else df
    if dalpha is not None:
        move = move + dalpha * _score_change(p, alpha, dim)
    moved, share = _escort(p, move, alpha, weights, dim)
    if dweights is not None:
        moved = moved - share * (p * dweights).sum(dim, keepdim=True)
    return moved / weights


def _score_change(p: Tensor, alpha: float | Tensor, dim: int) -> Tensor:
    change = tsallis_log_alpha(p, alpha)
    return change - change.gather(dim, p.argmax(dim, keepdim=True)).detach()


_weighted_entmax = Map("weighted_entmax", ["alpha", "weights"], _solve, _vjp, _jvp)
