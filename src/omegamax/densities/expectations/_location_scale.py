"""Basis functions under location-scale densities, for any convex g."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax.basis import Basis, GaussianRBF
from omegamax.densities._base import register_expectation
from omegamax.densities._location_scale import LocationScale, _slope
from omegamax.densities.expectations._laplace import REACH
from omegamax.densities.expectations._windows import NODES, WEIGHTS, integrate, to_double


@register_expectation(LocationScale, GaussianRBF)
def expect_location_scale(density: LocationScale, basis: GaussianRBF) -> Tensor:
    """Return ``E_p[psi_j]`` for Gaussian functions, ``[*, J]``, by 64 nodes in a window on each side of the peak.

    In the square root of the distance, so that :math:`g'` may begin like a half-integer power. Absolute error 1e-12
    for a g that is smooth elsewhere.
    """
    loc, scale = to_double(density.loc), to_double(density.scale)
    # What g holds broadcasts with [*, 1]: sides and functions go in front.
    front = (-1,) + (1,) * loc.dim()
    d = (to_double(basis.centers[:, 0]).reshape(front) - loc) / scale
    w = to_double(basis.covariance[:, 0, 0]).sqrt().reshape(front) / scale
    d = torch.stack([d, -d])
    near = (d - REACH * w).detach().clamp(min=0)
    far = torch.maximum(torch.minimum((d + REACH * w).detach(), to_double(density._edge)), near)
    value = _from(density, d, w, near, far).sum(0) / scale  # [J, *, 1]
    value = value.squeeze(-1).movedim(0, -1)
    return (value * to_double(basis.log_weight).exp()).to(density.loc.dtype)


@register_expectation(LocationScale, Basis)
def expect_any(density: LocationScale, basis: Basis) -> Tensor:
    """Return ``E_p[psi_j]`` for any other functions, ``[*, J]``, by 64 nodes on each side of the peak.

    Absolute error 1e-12 for functions that are smooth on the scale of the density (a wave that turns by less than 10
    radians over it); functions with kinks or narrow peaks need a rule of their own.
    """
    loc, scale, edge = to_double(density.loc), to_double(density.scale), to_double(density._edge)
    x, weight = (t.to(loc.device).reshape((-1,) + (1,) * loc.dim()) for t in (NODES, WEIGHTS))
    v = edge * x.square()
    weight = 2 * edge * x * weight * height_of(density, v)
    return sum((basis(loc + side * scale * v) * weight).sum(0) for side in (-1, 1)).to(density.loc.dtype)


def height_of(density: LocationScale, v: Tensor) -> Tensor:
    """Return the density at scale one, up to the edge, and its continuation beyond."""
    # Nodes of empty windows may lie at 0, where derivatives of g may be infinite, or far out, where g itself is.
    edge = to_double(density._edge)
    return density._top - _slope(density.g, torch.where(v > 2 * edge, edge, v.clamp(min=1e-60)))


def _from(density: LocationScale, d: Tensor, w: Tensor, near: Tensor, far: Tensor) -> Tensor:
    """Integrate over distances from ``near`` to ``far``, measured from the near end: v = (sqrt(near) + y)^2.

    All tensors are ``[2, J, *, 1]``.
    """
    start = near.sqrt()
    end = far.clamp(min=1e-300).sqrt()
    width = (far - near) / (start + end)
    d, w, near, start = (t.unsqueeze(-1) for t in (d, w, near, start))

    def integrand(y: Tensor, still: bool) -> Tensor:
        further = y * (2 * start + y)
        value = height_of(density, (near + further).movedim(-1, 0)).movedim(0, -1)
        bump = (((near - d + further) / w).square() / -2).exp() / (w * math.sqrt(2 * math.pi))
        return value * bump * 2 * (start + y)

    return integrate(integrand, None, width)
