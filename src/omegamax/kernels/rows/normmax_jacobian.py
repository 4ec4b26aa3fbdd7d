"""Differentiate normmax in its scores and in alpha, as a function of its output, in torch that can be differentiated.

Normmax is the gradient of a convex conjugate, so its Jacobian J in the scores is symmetric: one function serves reverse
mode, forward mode and, being differentiable, second order.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax._numerics import on_support


def normmax_vjp(p: Tensor, g: Tensor, alpha: float | Tensor, dim: int) -> Tensor:
    r"""Multiply g by J, ``(diag(s) - s p^T - p s^T + sum(s) p p^T) / (alpha - 1)``, ``s = p (||p|| / p)^(alpha-1)``."""
    if not isinstance(alpha, Tensor) and alpha == math.inf:
        return torch.zeros_like(g)
    support, safe = on_support(p)
    flat = alpha.isinf() if isinstance(alpha, Tensor) else None
    a = alpha if flat is None else torch.where(flat, 2.0, alpha)
    # J does not see a constant, which would meet s as a rounding error: g is measured from its value at the largest s,
    # which belongs to the smallest probability for alpha > 2.
    steep = a > 2
    rank = torch.where(steep, safe, -safe) if isinstance(steep, Tensor) else safe if steep else -safe
    h = g - g.gather(dim, torch.where(support, rank, math.inf).argmin(dim, keepdim=True))
    h = torch.where(support, h, 0.0)
    # p^(2 - alpha) alone overflows for large alpha; its product with ||p||^(alpha - 1) does not. The quotient itself
    # does where a probability is subnormal.
    ratio = (norm(p, a, dim) / safe).clamp(max=torch.finfo(p.dtype).max)
    s = torch.where(support, safe * ratio.pow(a - 1), 0.0)
    sh = s * (h - (p * h).sum(dim, keepdim=True))
    out = (sh - p * sh.sum(dim, keepdim=True)) / (a - 1)
    return out if flat is None else torch.where(flat, 0.0, out)


def normmax_in_alpha(p: Tensor, alpha: float | Tensor, dim: int) -> Tensor:
    """Differentiate normmax in alpha, entry by entry; zero at infinity.

    With ``y = p / ||p||_alpha``: ``d tau = -sum y^alpha log y / (alpha sum y)``, and y follows.
    """
    flat = torch.as_tensor(alpha).isinf()
    a = torch.where(flat, 2.0, alpha)
    support, safe = on_support(p)
    top = p.argmax(dim, keepdim=True)
    most = safe.gather(dim, top)
    # Measured from the largest: what the others add to the norm is lost in it, but not in its logarithm, and a small
    # y^(2 - alpha) makes much of that.
    log_ratio = torch.where(support, safe / most, 1.0).log()
    power = torch.where(support, (a * log_ratio).exp(), 0.0)
    rest = power.scatter(dim, top, 0.0).sum(dim, keepdim=True)
    log_norm = rest.log1p() / a
    log_y = log_ratio - log_norm
    size = most * log_norm.exp()
    weight = -(power * log_y).sum(dim, keepdim=True) / (1 + rest)
    # dtau y^(2 - alpha), in which the power may overflow where the product does not.
    moves = weight > 0
    log_weight = torch.where(moves, weight, 1.0).log()
    tilt = torch.where(moves, ((2 - a) * torch.where(moves, log_y, 0.0) + log_weight).exp(), 0.0) * (size / a)
    dy = torch.where(support, -(log_y.exp() * log_y + tilt) / (a - 1), 0.0)
    return torch.where(flat, 0.0, size * (dy - p * dy.sum(dim, keepdim=True)))


def norm(p: Tensor, alpha: float | Tensor, dim: int) -> Tensor:
    """Compute ``||p||_alpha`` along ``dim``, kept; scaled by the largest entry so that no power underflows."""
    top = p.amax(dim, keepdim=True).detach()
    top = torch.where(top > 0, top, 1.0)
    support = p > 0
    # Zeros become ones after the division: 1 / top to a large power would be infinite, and its derivative NaN.
    ratio = torch.where(support, p / top, 1.0)
    power = torch.where(support, ratio.pow(alpha), 0.0).sum(dim, keepdim=True)
    return top * torch.where(power > 0, power, 1.0).pow(1 / alpha)
