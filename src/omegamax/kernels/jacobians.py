"""Jacobians of the maps as functions of their output, in torch that can itself be differentiated.

Every map here is the gradient of a convex conjugate, so its Jacobian J in the scores is symmetric: one function
serves reverse mode, forward mode and, being differentiable, second order.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax._numerics import on_support, tsallis_log_alpha


def entmax_vjp(p: Tensor, g: Tensor, alpha: float | Tensor, dim: int) -> Tensor:
    r"""``J g`` with ``J = diag(s) - s s^T / sum(s)``, ``s = p^(2 - alpha)`` on the support."""
    if not isinstance(alpha, Tensor) and alpha == math.inf:
        return torch.zeros_like(g)
    support, safe = on_support(p)
    # The largest s belongs to the smallest probability for alpha > 2, to the largest one below.
    anchor = p.argmax(dim, keepdim=True)
    if isinstance(alpha, Tensor):
        # alpha = inf is piecewise constant; s would be 1 or inf there.
        support = support & ~alpha.isinf()
        alpha = torch.where(alpha.isinf(), 2.0, alpha)
        anchor = torch.where(alpha > 2, torch.where(support, p, math.inf).argmin(dim, keepdim=True), anchor)
    elif alpha > 2:
        anchor = torch.where(support, p, math.inf).argmin(dim, keepdim=True)
    # J does not see a constant. With g measured from the entry of the largest s, the product there is -w sum(s h)
    # over the others: s itself, 1e54 for p = 1e-3 and alpha = 20, would overflow and its difference cancel.
    h = g - g.gather(dim, anchor)
    largest = safe.gather(dim, anchor)
    ratio = torch.where(support, (safe / largest).pow(2 - alpha), 0.0)
    sh = (torch.where(support, safe.pow(2 - alpha), 0.0).scatter(dim, anchor, 0.0)) * h
    weight = ratio / ratio.sum(dim, keepdim=True).clamp(min=torch.finfo(p.dtype).tiny)
    return sh - weight * sh.sum(dim, keepdim=True)


def alpha_vjp(p: Tensor, dz: Tensor, alpha: float | Tensor, dim: int) -> Tensor:
    """The gradient of entmax in alpha, one number for each row, given its gradient ``dz`` in the scores."""
    # dp/dalpha = J c with c the change of the deformed logarithm, and J is symmetric.
    return (dz * score_change(p, alpha, dim)).sum(dim, keepdim=True)


def score_change(p: Tensor, alpha: float | Tensor, dim: int) -> Tensor:
    """What raising alpha does, as a change of the scores; measured from that of the largest probability.

    The Jacobian does not see a constant, but its entries are large for large alpha (p^-8 at alpha = 10), and a
    constant times their rounding would remain.
    """
    change = tsallis_log_alpha(p, alpha)
    return change - change.gather(dim, p.argmax(dim, keepdim=True)).detach()


def normmax_vjp(p: Tensor, g: Tensor, alpha: float | Tensor, dim: int) -> Tensor:
    r"""``J g`` with ``J = (diag(s) - s p^T - p s^T + sum(s) p p^T) / (alpha - 1)``, ``s = p (||p|| / p)^(alpha-1)``."""
    if not isinstance(alpha, Tensor) and alpha == math.inf:
        return torch.zeros_like(g)
    support, safe = on_support(p)
    flat = alpha.isinf() if isinstance(alpha, Tensor) else None
    a = alpha if flat is None else torch.where(flat, 2.0, alpha)
    # p^(2 - alpha) alone overflows for large alpha; its product with ||p||^(alpha - 1) does not. The quotient itself
    # does where a probability is subnormal.
    ratio = (norm(p, a, dim) / safe).clamp(max=torch.finfo(p.dtype).max)
    s = torch.where(support, safe * ratio.pow(a - 1), 0.0)
    h = g - (p * g).sum(dim, keepdim=True)
    out = (s * h - p * (s * h).sum(dim, keepdim=True)) / (a - 1)
    return out if flat is None else torch.where(flat, 0.0, out)


def k_subsets_vjp(p: Tensor, g: Tensor, dim: int) -> Tensor:
    """``J g`` with J the projection onto the entries strictly between 0 and 1, centred."""
    free = (p > 0) & (p < 1)
    return torch.where(free, centred(g, free, dim), 0.0)


def box_simplex_vjp(p: Tensor, g: Tensor, lower: float | Tensor, upper: float | Tensor, dim: int) -> Tensor:
    """The same for bounds of any kind."""
    free = between(p, lower, upper)
    return torch.where(free, centred(g, free, dim), 0.0)


def between(p: Tensor, lower: float | Tensor, upper: float | Tensor) -> Tensor:
    """Which probabilities are at no bound: those that are at one are equal to it; masked entries are 0."""
    return (p > 0) & (p != lower) & (p != upper)


def capped_softmax_vjp(p: Tensor, g: Tensor, upper: float | Tensor, dim: int) -> Tensor:
    """``J g`` with J that of softmax on the entries below their ceilings, which share what the others leave."""
    free = torch.where(p == upper, 0.0, p)
    mass = free.sum(dim, keepdim=True)
    return free * (g - (free * g).sum(dim, keepdim=True) / torch.where(mass > 0, mass, 1.0))


def norm(p: Tensor, alpha: float | Tensor, dim: int) -> Tensor:
    """``||p||_alpha`` along ``dim``, kept; scaled by the largest entry so that no power underflows."""
    top = p.amax(dim, keepdim=True).detach()
    top = torch.where(top > 0, top, 1.0)
    support, safe = on_support(p)
    power = torch.where(support, (safe / top).pow(alpha), 0.0).sum(dim, keepdim=True)
    return top * torch.where(power > 0, power, 1.0).pow(1 / alpha)


def centred(g: Tensor, free: Tensor, dim: int) -> Tensor:
    """``g`` minus its mean over the entries that are ``free``, everywhere; unchanged where none is."""
    count = free.sum(dim, keepdim=True).clamp(min=1)
    return g - torch.where(free, g, 0.0).sum(dim, keepdim=True) / count
