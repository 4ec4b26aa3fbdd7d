"""Which integral serves Gaussian basis functions under a beta-Gaussian: by alpha and dimension."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax import kernels
from omegamax._checks import readable
from omegamax.basis import GaussianRBF
from omegamax.densities._base import register_expectation
from omegamax.densities._beta_gaussian import BetaGaussian
from omegamax.densities._normaliser import log_volume
from omegamax.densities.expectations._chord import chord
from omegamax.densities.expectations._contour import contour
from omegamax.densities.expectations._frame import frame, log_normal, wide_scale, widen
from omegamax.densities.expectations._interval import interval, order
from omegamax.densities.expectations._product import widened
from omegamax.densities.expectations._student import student

# This close to alpha = 1 the integrals on both sides become sums of huge numbers, while the expectation is as smooth
# in alpha as a parabola: the next term is 1e-12.
NEAR = 1e-4


@register_expectation(BetaGaussian, GaussianRBF)
def expect_gaussian_rbf(density: BetaGaussian, basis: GaussianRBF) -> Tensor:
    """Closed at alpha = 1; below, a real and above, a complex mixture of Gaussians. ``[*, J]``

    Where alpha - 1 is one over a whole number, on the line all is closed. In the plane chords do, in a few large
    tensors: quicker than the contour where that is not compiled.
    """
    if density.dimension == 1 and order(density.alpha) is not None:
        return interval(density, basis)
    if isinstance(density.alpha, Tensor):
        value = _each_alpha(density, basis, density.alpha.double())
    else:
        value = _one_alpha(density, basis, density.alpha)
    return (value * basis.log_weight.to(value).exp()).to(density.loc.dtype)


def _one_alpha(density: BetaGaussian, basis: GaussianRBF, alpha: float) -> Tensor:
    if alpha == 1:
        return _gaussian(density, basis)
    if abs(alpha - 1) < NEAR:
        return _near_one(density, basis, torch.tensor(alpha, dtype=torch.float64, device=density.loc.device))
    # A traced contour is one operation, whatever it does inside.
    small = not torch.compiler.is_compiling() and not kernels.is_compiled("contour", density.loc)
    if small and density.dimension == 2 and order(alpha) is not None:
        return chord(widened(density), basis)
    return (_compact if alpha > 1 else _heavy)(density, basis, alpha)


def _each_alpha(density: BetaGaussian, basis: GaussianRBF, alpha: Tensor) -> Tensor:
    """Every case over the whole batch, with a stand-in where it does not apply; what does not occur is left out."""
    cases = [
        (alpha >= 1 + NEAR, 2.0, _compact),
        (alpha <= 1 - NEAR, 1 - 1 / density.dimension, _heavy),
        ((alpha - 1).abs() < NEAR, 1.0, _near_one),
    ]
    value = torch.zeros((), dtype=torch.float64, device=alpha.device)
    for applies, stand_in, integral in cases:
        if not readable(alpha) or bool(applies.any()):
            part = integral(density, basis, torch.where(applies, alpha, stand_in))
            value = torch.where(applies.unsqueeze(-1), part, value)
    return value


def _compact(density: BetaGaussian, basis: GaussianRBF, alpha: float | Tensor) -> Tensor:
    wide = widen(density, alpha)
    return contour(frame(wide, basis), wide, fine=density.loc.dtype == torch.float64)


def _heavy(density: BetaGaussian, basis: GaussianRBF, alpha: float | Tensor) -> Tensor:
    wide = widen(density, alpha)
    return student(frame(wide, basis), wide)


def _gaussian(density: BetaGaussian, basis: GaussianRBF, stretch: Tensor | None = None) -> Tensor:
    r""":math:`N(c_j; \mu, c \Sigma + S_j)` with c = 1 or ``stretch [*]``.

    From Sigma itself: its factor, or its determinant apart from this sum, would bring in the condition of a scale that
    the sum does not feel, in the gradient most of all.
    """
    scale = wide_scale(density)
    if stretch is not None:
        scale = stretch[..., None, None] * scale
    delta = basis.centers.to(scale) - density.loc.double().unsqueeze(-2)
    return log_normal(delta, scale.unsqueeze(-3) + basis.covariance.to(scale)).exp()


def _near_one(density: BetaGaussian, basis: GaussianRBF, alpha: Tensor) -> Tensor:
    """The parabola in e through the values at -NEAR, 0 and NEAR of the integral of ``e^B (1 - e q / 2c)^(1/e)``.

    Of the shape alone, that is: peak and width, which can change faster, are those of the alpha at hand.
    """
    wide = widen(density, alpha)
    pair = frame(wide, basis)
    step = torch.full_like(wide.e, NEAR)
    below, above = student(pair, wide._replace(e=-step)), contour(pair, wide._replace(e=step))
    # Of exp(B - q / 2c), whose mass is exp(delta).
    mass = log_volume(wide.e, density.dimension).exp().unsqueeze(-1)
    middle = mass * _gaussian(density, basis, wide.dilation)
    x = (wide.e / NEAR).unsqueeze(-1)
    return middle + x * (above - below) / 2 + x.square() * (above - 2 * middle + below) / 2
