"""Which integral serves Gaussian basis functions under a beta-Gaussian: by alpha and dimension."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from omegamax import kernels
from omegamax._checks import readable
from omegamax._first_order import has_first_order
from omegamax._numerics import log_volume
from omegamax.basis import GaussianRBF
from omegamax.densities._base import register_expectation
from omegamax.densities._beta_gaussian import BetaGaussian
from omegamax.densities._root import Root
from omegamax.densities.expectations._chord import integrate_chords
from omegamax.densities.expectations._contour import integrate_contour
from omegamax.densities.expectations._frame import make_frame, widen
from omegamax.densities.expectations._gaussian_plane import NEAR, expect_compact_in_plane, expect_gaussian_in_plane
from omegamax.densities.expectations._line import expect_on_line, expect_under_gaussian, expect_under_parabola
from omegamax.densities.expectations._product import to_double_precision
from omegamax.densities.expectations._student import integrate_student
from omegamax.densities.expectations._windows import ORDERS, Bell, find_order, gauss_legendre, to_double

# The closed form is a sum of moments that cancel the more, the wider the basis function and the higher the power: at
# this width (in half-widths of the support) it has lost 1e-14 for m = 4, 2e-12 for m = 6, 4e-6 for m = 12.
_NARROW = 0.3
# From there on, that many nodes leave 1e-15.
_NODES, _WEIGHTS = gauss_legendre(24)


@register_expectation(BetaGaussian, GaussianRBF)
def expect_gaussian_rbf(density: BetaGaussian, basis: GaussianRBF) -> Tensor:
    """Return ``E_p[psi_j]``, ``[*, J]``: closed at alpha = 1; else a mixture of Gaussians, complex for alpha > 1.

    Where alpha - 1 is one over an integer, on the line all is closed. In the plane chords do, in a few large
    tensors: quicker than the contour where that is not compiled.
    """
    alpha = density.alpha
    if not isinstance(alpha, Tensor) and density.dimension <= 2 and _is_usual(density, basis):
        value = _expect_in_one(density, basis, alpha)
        if value is not None:
            return value if basis.normalised else (value * basis.log_weight.to(value).exp()).to(density.loc.dtype)
    if isinstance(alpha, Tensor):
        value = _each_alpha(density, basis, alpha.double())
    elif density.dimension == 1 and alpha > 1 and find_order(alpha) is not None:
        return integrate_interval(density, basis)
    else:
        value = _one_alpha(density, basis, alpha)
    return (value * basis.log_weight.to(value).exp()).to(density.loc.dtype)


def _is_usual(density: BetaGaussian, basis: GaussianRBF) -> bool:
    """Tell whether first derivatives in location and scale are what there may be, outside of any tracing."""
    if any(t.requires_grad for t in (*basis.parameters(), *basis.buffers())):
        return False
    return has_first_order(density._loc, density._root.given, basis.centers)


def _expect_in_one(density: BetaGaussian, basis: GaussianRBF, alpha: float) -> Tensor | None:
    """Return ``E_p[psi_j]`` of normalised functions as one operation, ``[*, J]``; None if there is none for it."""
    if density.dimension == 1:
        return _expect_on_line(density, basis) if alpha in (1, 2) else None
    if alpha == 1:
        return expect_gaussian_in_plane(density, basis, partial(_in_dtype, _gaussian, basis))
    if alpha > 1 + NEAR and basis.variance is not None and kernels.is_compiled("contour_in_plane", density.loc):
        return expect_compact_in_plane(density, basis, partial(_in_dtype, partial(_compact, alpha=alpha), basis))
    return None


def _in_dtype(expect: Callable[..., Tensor], basis: GaussianRBF, density: BetaGaussian) -> Tensor:
    return expect(density, basis).to(density.loc.dtype)


def _expect_on_line(density: BetaGaussian, basis: GaussianRBF) -> Tensor:
    """Return ``E_p[psi_j]`` in one dimension for alpha 1 or 2, of normalised functions, ``[*, J]``: one operation."""
    centers = basis.centers[:, 0]
    variance = basis.covariance[:, 0, 0] if basis.variance is None else basis.variance
    if density.alpha == 2:

        def integrate(loc: Tensor, root: Tensor) -> Tensor:
            return integrate_interval(BetaGaussian._from_root(loc, Root(root, True), 2.0, False), basis, False)

        root = density.scale_tril.squeeze(-1)
        return expect_on_line(expect_under_parabola, integrate, density.loc, root, centers, variance)

    def compute(loc: Tensor, scale: Tensor) -> Tensor:
        wide = to_double(variance) + to_double(scale)
        delta = to_double(centers) - to_double(loc)
        return log_normal(delta.unsqueeze(-1), wide[..., None, None]).exp().to(loc.dtype)

    given, diagonal = density._root.square, density._root.diagonal
    if given is None:
        scale = density.scale_tril.squeeze(-1).square()
    else:
        scale = density.scale_diag if diagonal else density.scale.squeeze(-1)
    return expect_on_line(expect_under_gaussian, compute, density.loc, scale, centers, variance)


def _one_alpha(density: BetaGaussian, basis: GaussianRBF, alpha: float) -> Tensor:
    if alpha == 1:
        return _gaussian(density, basis)
    if abs(alpha - 1) < NEAR:
        return _near_one(density, basis, torch.tensor(alpha, dtype=torch.float64, device=density.loc.device))
    # A traced contour is one operation, whatever it does inside.
    small = not torch.compiler.is_compiling() and not kernels.is_compiled("contour", density.loc)
    if small and density.dimension == 2 and find_order(alpha) is not None:
        return integrate_chords(to_double_precision(density), basis)
    return (_compact if alpha > 1 else _heavy)(density, basis, alpha)


def _each_alpha(density: BetaGaussian, basis: GaussianRBF, alpha: Tensor) -> Tensor:
    """Compute every case over the whole batch, with another alpha where it does not apply.

    A case that does not occur is left out.
    """
    cases = [
        (alpha >= 1 + NEAR, 2.0, _compact),
        (alpha <= 1 - NEAR, 1 - 1 / density.dimension, _heavy),
        ((alpha - 1).abs() < NEAR, 1.0, _near_one),
    ]
    value = torch.zeros((), dtype=torch.float64, device=alpha.device)
    for applies, stand_in, expect in cases:
        if not readable(alpha) or bool(applies.any()):
            part = expect(density, basis, torch.where(applies, alpha, stand_in))
            value = torch.where(applies.unsqueeze(-1), part, value)
    return value


def _compact(density: BetaGaussian, basis: GaussianRBF, alpha: float | Tensor) -> Tensor:
    wide = widen(density, alpha)
    return integrate_contour(make_frame(wide, basis), wide, fine=density.loc.dtype == torch.float64)


def _heavy(density: BetaGaussian, basis: GaussianRBF, alpha: float | Tensor) -> Tensor:
    wide = widen(density, alpha)
    return integrate_student(make_frame(wide, basis), wide)


def _gaussian(density: BetaGaussian, basis: GaussianRBF, stretch: Tensor | None = None) -> Tensor:
    r"""Return :math:`N(c_j; \mu, c \Sigma + S_j)` with c = 1 or ``stretch [*]``.

    From Sigma itself: its factor, or its determinant apart from this sum, would bring in the condition of a scale that
    the sum does not feel, in the gradient most of all.
    """
    scale = wide_scale(density)
    if stretch is not None:
        scale = stretch[..., None, None] * scale
    delta = basis.centers.to(scale) - density.loc.double().unsqueeze(-2)
    return log_normal(delta, scale.unsqueeze(-3) + basis.covariance.to(scale)).exp()


def _near_one(density: BetaGaussian, basis: GaussianRBF, alpha: Tensor) -> Tensor:
    """Return the parabola in e through the values at -NEAR, 0 and NEAR of the integral of ``e^B (1 - e q / 2c)^(1/e)``.

    Of the shape alone, that is: peak and width, which can change faster, are those of the alpha at hand.
    """
    wide = widen(density, alpha)
    pair = make_frame(wide, basis)
    step = torch.full_like(wide.e, NEAR)
    below, above = integrate_student(pair, wide._replace(e=-step)), integrate_contour(pair, wide._replace(e=step))
    # Of exp(B - q / 2c), whose mass is exp(delta).
    mass = log_volume(wide.e, density.dimension).exp().unsqueeze(-1)
    middle = mass * _gaussian(density, basis, wide.c)
    x = (wide.e / NEAR).unsqueeze(-1)
    return middle + x * (above - below) / 2 + x.square() * (above - 2 * middle + below) / 2


def wide_scale(density: BetaGaussian) -> Tensor:
    """Return Sigma in float64, ``[*, n, n]``, from the form in which it was given."""
    if density._root.square is not None:
        return density.scale.double()
    root = density.scale_tril.double()
    return root @ root.mT


def log_normal(delta: Tensor, covariance: Tensor) -> Tensor:
    r"""Return ``log N(delta; 0, C)`` for vectors ``[*, n]`` and matrices ``[*, n, n]`` that broadcast, ``[*]``.

    By elimination: backward stable for a positive definite matrix, and a diagonal one is exactly a product.
    """
    n = delta.shape[-1]
    rows = [[covariance[..., i, j] for j in range(i + 1)] for i in range(n)]
    ends = list(delta.unbind(-1))
    total: Tensor | float = n * math.log(2 * math.pi)
    for i in range(n):
        total = total + rows[i][i].log() + ends[i].square() / rows[i][i]
        for j in range(i + 1, n):
            share = rows[j][i] / rows[i][i]
            ends[j] = ends[j] - share * ends[i]
            for k in range(i + 1, j + 1):
                rows[j][k] = rows[j][k] - share * rows[k][i]
    assert isinstance(total, Tensor)
    return -total / 2


def integrate_interval(density: BetaGaussian, basis: GaussianRBF, weighted: bool = True) -> Tensor:
    r"""Return ``E_p[psi_j]`` in one dimension where :func:`find_order` of alpha is m, ``[*, J]``.

    .. math:: E = \frac{1}{a \, B(\frac12, m + 1)} \int_{-1}^1 (1 - s^2)^m N(s; s_0, w^2) \, ds, \qquad
              s_0 = \frac{c_j - \mu}{a}, \quad w = \frac{\sigma_j}{a}

    for the half-width a of the support. Narrow functions by the moments

    .. math:: M_r = \int_{-1}^1 s^r N(s; s_0, w^2) \, ds
              = s_0 M_{r-1} + (r - 1) w^2 M_{r-2} - w^2 \bigl[s^{r-1} N(s; s_0, w^2)\bigr]_{-1}^1,

    wide ones by Gauss-Legendre nodes. Absolute error below 1e-14 / a. Functions that are not ``weighted`` are those
    that integrate to one.

    Reference: Martins et al. (NeurIPS 2020), Eq. 50 for alpha = 2.
    """
    m = find_order(density.alpha)
    if m is None:
        raise NotImplementedError(
            f"integrate_interval: 1 / (alpha - 1) must be one of {ORDERS}, got alpha = {density.alpha}"
        )
    bell = Bell.of(density)
    half = bell.unit * math.sqrt(2 * m)
    s0 = (to_double(basis.centers[:, 0]) - bell.loc) / half
    w = to_double(basis.covariance[:, 0, 0]).sqrt() / half
    narrow = w < _NARROW
    every, some = (bool(narrow.all()), bool(narrow.any())) if readable(w) else (False, True)
    if every:
        value = _sum_moments(m, s0, w)
    elif not some:
        value = _sum_nodes(m, s0, w)
    else:  # each with arguments that it can digest, so that neither sends a NaN back through the other
        value = torch.where(
            narrow, _sum_moments(m, s0, torch.where(narrow, w, 0.1)), _sum_nodes(m, s0, torch.where(narrow, 1.0, w))
        )
    scale = math.gamma(m + 1.5) / math.gamma(m + 1) / math.sqrt(math.pi)  # 1 / B(1/2, m + 1)
    value = value * (scale / half)
    return (value * to_double(basis.log_weight).exp() if weighted else value).to(density.loc.dtype)


def _sum_moments(m: int, s0: Tensor, w: Tensor) -> Tensor:
    # Even in s0, and from the positive side both ends of the normal distribution are in its lower tail, where it is
    # accurate. From 10 on it is zero.
    s0 = torch.where(s0 < 0, -s0, s0).clamp(max=10)
    right, left = (1 - s0) / w, (-1 - s0) / w
    at_right, at_left = (w * (-z.square() / 2).exp() / math.sqrt(2 * math.pi) for z in (right, left))
    moments = [0.5 * (torch.erfc(right / -math.sqrt(2)) - torch.erfc(left / -math.sqrt(2)))]
    moments.append(s0 * moments[0] - (at_right - at_left))
    for r in range(2, 2 * m + 1):
        ends = at_right + at_left if r % 2 == 0 else at_right - at_left
        moments.append(s0 * moments[-1] + (r - 1) * w.square() * moments[-2] - ends)
    total = moments[0]
    for i in range(1, m + 1):
        total = total + (-1) ** i * math.comb(m, i) * moments[2 * i]
    return total


def _sum_nodes(m: int, s0: Tensor, w: Tensor) -> Tensor:
    s, weight = 2 * _NODES.to(s0.device) - 1, 2 * _WEIGHTS.to(s0.device)
    weight = weight * (1 - s.square()).pow(m) / math.sqrt(2 * math.pi)
    return ((((s - s0.unsqueeze(-1)) / w.unsqueeze(-1)).square() / -2).exp() @ weight) / w
