"""Rules that others use for E_p[psi] under compact densities, and a slow one that is right: rivals and referee."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from omegamax.basis import GaussianRBF
from omegamax.densities import BetaGaussian


def polar(density: BetaGaussian, basis: GaussianRBF, angles: int = 100) -> Tensor:
    """The thesis' algorithm 4: the radius in closed form, the angle by equispaced points. Two dimensions, m whole.

    With the corrections it needs: steps of 2 pi / I, and the angle 2 pi, which is 0 again, left out. Its closed form
    for alpha = 2 is written here for any whole m = 1 / (alpha - 1), by the recurrence of Gaussian moments.
    """
    m = round(1 / (density.alpha - 1))
    theta = torch.arange(angles, dtype=density.loc.dtype) * (2 * math.pi / angles)
    # Points of the support are loc + r v, 0 <= r <= 1.
    v = torch.stack([theta.cos(), theta.sin()], -1) @ density.support_tril.mT  # [*, I, 2]
    gap = basis.centers - density.loc.unsqueeze(-2)  # [*, J, 2]
    variance = basis.variance.unsqueeze(-1)
    # Along a ray the basis function is a Gaussian in r with this deviation and centre, times a constant.
    s = (variance / v.square().sum(-1).unsqueeze(-2)).sqrt()  # [*, J, I]
    r0 = (gap @ v.mT) * s.square() / variance
    log_rest = -gap.square().sum(-1, keepdim=True) / (2 * variance) + r0.square() / (2 * s.square())
    rest = log_rest.exp() * s / (math.sqrt(2 * math.pi) * variance)
    low, high = -r0 / s, (1 - r0) / s
    bell = lambda x: torch.exp(-x.square() / 2) / math.sqrt(2 * math.pi)  # noqa: E731
    at_low, at_high = bell(low), bell(high)
    moments = [torch.special.ndtr(high) - torch.special.ndtr(low)]
    moments.append(r0 * moments[0] - s * (at_high - at_low))
    for k in range(2, 2 * m + 2):  # of r^k from 0 to 1
        moments.append(r0 * moments[-1] + (k - 1) * s.square() * moments[-2] - s * at_high)
    radial = sum((-1) ** i * math.comb(m, i) * moments[2 * i + 1] for i in range(m + 1))
    scale = density.log_peak.exp() * density.support_tril.diagonal(dim1=-2, dim2=-1).prod(-1) * 2 * math.pi / angles
    return (radial * rest).sum(-1) * scale.unsqueeze(-1)


def trapezoid(density: BetaGaussian, basis: GaussianRBF, points: int = 1000) -> Tensor:
    """About this many equispaced points in all, over the support, or over six scales where it has no end."""
    n = density.dimension
    each = math.ceil(points ** (1 / n))
    axis = torch.linspace(-1, 1, each, dtype=density.loc.dtype)
    u = torch.stack(torch.meshgrid(*[axis] * n, indexing="ij"), -1).reshape(-1, n)
    reach = density.support_tril if density.alpha > 1 else 6 * density.scale_tril
    t = density.loc.unsqueeze(-2) + u @ reach.mT  # [*, Q, n]
    p = density.log_prob(t.movedim(-2, 0)).exp().movedim(0, -1)  # [*, Q]
    # The ends count half, but there the density is zero.
    weight = reach.diagonal(dim1=-2, dim2=-1).prod(-1, keepdim=True) * (2 / (each - 1)) ** n
    return torch.einsum("...q,...qj->...j", p * weight, basis(t))


def referee(density: BetaGaussian, basis: GaussianRBF, pairs: np.ndarray, order: int) -> np.ndarray:
    """Nested Gauss-Legendre in NumPy over what the support and nine deviations of the basis function have in common.

    In the coordinates in which the support is the unit ball and the basis function a product of normals. ``pairs`` are
    rows (density, basis function); an unbounded density is cut at nine deviations.
    """
    x, w = np.polynomial.legendre.leggauss(order)
    n = density.dimension
    compact = density.alpha > 1
    m = 1 / (density.alpha - 1) if compact else 0.0
    radius = density.support_radius if compact else torch.full_like(density.log_peak, 9.0)
    values = []
    for i, j in pairs:
        scale = density.scale[i].numpy()
        eigenvalues, axes = np.linalg.eigh(scale)
        reach = radius[i].item() * np.sqrt(eigenvalues)
        mean = axes.T @ (basis.centers[j] - density.loc[i]).numpy() / reach
        deviation = math.sqrt(basis.variance[j].item()) / reach
        total, left, log_f = np.ones(()), np.ones(()), np.zeros(())
        for k in range(n):
            c = np.sqrt(np.maximum(left, 1e-300))[..., None] if compact else np.ones(())
            low = np.clip((mean[k] - 9 * deviation[k]) / c, -1, 1)
            high = np.clip((mean[k] + 9 * deviation[k]) / c, -1, 1)
            # u = c sin(phi): no square root is left at the ends.
            a, b = np.arcsin(low), np.arcsin(high)
            phi = (a + b) / 2 + (b - a) / 2 * x
            u = c * np.sin(phi)
            total = total[..., None] * w * (b - a) / 2 * c * np.cos(phi)
            log_f = (
                log_f[..., None]
                - ((u - mean[k]) / deviation[k]) ** 2 / 2
                - math.log(math.sqrt(2 * math.pi) * deviation[k])
            )
            if not compact:
                log_f = log_f - (9.0 * u) ** 2 / 2
            left = np.maximum(left[..., None] - u * u, 0) if compact else np.ones_like(u)
        bell = total * np.exp(log_f) * left**m
        values.append(bell.sum() * math.exp(density.log_peak[i].item()))
    return np.array(values)
