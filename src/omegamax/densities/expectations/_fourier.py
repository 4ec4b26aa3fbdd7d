r"""Waves under a beta-Gaussian of any alpha, in any dimension: its characteristic function.

A density that is symmetric about ``mu`` has :math:`E[e^{i w^\top t}] = \varphi \, e^{i w^\top \mu}` with a real factor.
In units in which the density is :math:`(1 - e |z|^2 / 2)_+^{1/e}`, ``e = alpha - 1``, the factor depends on
:math:`\omega^2 = c \, w^\top \Sigma w` alone, and torch has no function for it:

- alpha > 1: :math:`\Gamma(v + 1) (2/\rho)^v J_v(\rho)`, Bessel's function of order :math:`v = n/2 + 1/e` at
  :math:`\rho = \omega \sqrt{2/e}`;
- alpha = 1: :math:`e^{-\omega^2 / 2}`;
- alpha < 1: :math:`\frac{2}{\Gamma(u)} (\rho/2)^u K_u(\rho)` with :math:`u = -v` and :math:`\rho = \omega \sqrt{-2/e}`.

Three integrals cover all alpha and omega, each with a fixed number of nodes: the mean of :math:`\cos(\omega z_1)` by
Gaussian quadrature where waves are slow, which is smooth through alpha = 1; a contour through the saddle point where
they are fast; a mixture of Gaussians where tails are heavy.

Reference: Watson (1944), sections 3.3, 6.2 and 6.22 for the integrals.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax._checks import readable
from omegamax.basis import Fourier
from omegamax.densities._base import register_expectation
from omegamax.densities._beta_gaussian import BetaGaussian
from omegamax.densities.expectations._nodes import gauss_tsallis
from omegamax.densities.expectations._product import excess, to_double_precision
from omegamax.kernels.contour import stirling

# Tails are heavy below 2 / HEAVY degrees of freedom.
HEAVY = 0.002
# Waves are fast from this ratio of rho to v on: the saddle point is then far enough from its mirror image.
FAST = 2.0
_SLOW_NODES = 32
# A slow wave that 32 nodes cannot resolve has a mean below 1e-15.
_SLOW_LIMIT = 80.0
# Below it, six powers of omega^2 leave 1e-19.
_NEAR, _TERMS = 0.01, 6
_FAST_NODES, _FAST_STEP = 64, 0.2
_HEAVY_NODES, _HEAVY_STEP, _DEPTH = 160, 0.3, 40.0


@register_expectation(BetaGaussian, Fourier)
def expect_fourier(density: BetaGaussian, basis: Fourier) -> Tensor:
    """Return ``[*, 2F]``: cosines, then sines."""
    wide = to_double_precision(density)
    w = basis.frequencies.to(wide.loc)
    # L'w for each frequency. Sums of products: autocast would take a matmul to half precision.
    folded = (wide.scale_tril.unsqueeze(-3) * w.unsqueeze(-1)).sum(-2)
    square = wide.dilation.unsqueeze(-1) * folded.square().sum(-1)
    factor = characteristic(square, excess(density), basis.dimension)
    phase = (wide.loc.unsqueeze(-2) * w).sum(-1)
    return torch.cat([phase.cos() * factor, phase.sin() * factor], -1).to(density.loc.dtype)


def characteristic(square: Tensor, e: float | Tensor, n: int) -> Tensor:
    r"""Return :math:`E[\cos(\omega z_1)]` under the density :math:`(1 - e |z|^2 / 2)_+^{1/e}` of n coordinates.

    ``e`` must be above ``-2/n``.

    The error is below 1e-12 for every e and omega, but for less than two degrees of freedom with omega below 1e-9.

    Args:
        square: omega squared, ``[*, F]``, float64.
        e: alpha - 1, a float or a tensor that broadcasts with ``[*]``.

        >>> characteristic(torch.tensor([0.0, 2.0, 200.0], dtype=torch.float64), 1.0, 1)
        tensor([ 1.0000,  0.6531, -0.0027], dtype=torch.float64)
    """
    if not isinstance(e, Tensor):
        if e == 0:
            return (-square / 2).exp()
        if e <= -HEAVY * (1 + e * (n / 2)):
            return _heavy(square, square.new_tensor(e), n)
        fast = 2 * e * square > (FAST * (1 + e * (n / 2))) ** 2
        return _either(fast if e > 0 else None, square, e, square.new_tensor(abs(e)), n)
    e = e.double().unsqueeze(-1)
    g = 1 + e * (n / 2)
    fast = (e > 0) & (2 * e * square > (FAST * g).square())
    heavy = e <= -HEAVY * g
    value = _either(fast, square, torch.where(heavy, 0.0, e), e, n)
    if readable(e) and not bool(heavy.any()):
        return value
    return torch.where(heavy, _heavy(square, torch.where(heavy, e, -1 / n), n), value)


def _either(fast: Tensor | None, square: Tensor, e: float | Tensor, positive: Tensor, n: int) -> Tensor:
    """Compute slow waves and, where there are any, fast ones; ``e`` has no axis F: one rule serves all waves."""
    if fast is None or (readable(fast) and not bool(fast.any())):
        return _slow(square, e, n)
    rapid = _fast(torch.where(fast, square, 2.0 * (n + 2) ** 2), torch.where(fast, positive, 1.0), n)
    return torch.where(fast, rapid, _slow(torch.where(fast, 0.0, square), e, n))


def _slow(square: Tensor, e: float | Tensor, n: int) -> Tensor:
    r"""Return the mean of :math:`\cos(\omega z_1)`.

    One coordinate has the density :math:`(1 - ez^2/2)^{1/e + (n-1)/2}`.
    """
    half, weight = (x.to(square.device) for x in gauss_tsallis(_SLOW_NODES, -0.5, e, 1 + e * ((n - 1) / 2)))
    gone = square > _SLOW_LIMIT * (1 + e * (n / 2 + 1))
    near = square < _NEAR
    omega = torch.where(gone | near, 1.0, square).sqrt().unsqueeze(-1)
    value = torch.where(gone, 0.0, ((omega * (2 * half).sqrt()).cos() * weight).sum(-1))
    # A root has no derivative at zero: there, the first powers of omega^2.
    x = torch.where(near, square, 0.0) / -2
    series = torch.ones_like(x)
    for k in range(_TERMS, 0, -1):
        series = 1 + x * series / (k * (1 + e * (n / 2 + k)))
    return torch.where(near, series, value)


def _fast(square: Tensor, e: Tensor, n: int) -> Tensor:
    r"""Return the factor for ``e > 0``, :math:`\rho > 2v`, where J is the real part of Hankel's function,

    .. math:: H_v(\rho) = \frac{1}{\pi i} \int_{-\infty}^{\infty + i\pi} e^{\rho \sinh t - vt} dt

    along :math:`t = y + i \theta(y)`, a path that passes the saddle point :math:`i \arccos(v / \rho)` at 45 degrees.
    It is a constant for differentiation: the integral is the same over every other path.
    """
    v = n / 2 + 1 / e
    rho = (2 * square / e).sqrt()
    with torch.no_grad():
        saddle = torch.acos(v / rho).unsqueeze(-1)
        unit = _FAST_STEP * (rho.unsqueeze(-1) * saddle.sin()).rsqrt()
        y = (torch.arange(_FAST_NODES).to(unit) - (_FAST_NODES - 1) / 2) * unit
        speed = math.pi / (saddle * (math.pi - saddle))
        share = torch.sigmoid(speed * y + (saddle / (math.pi - saddle)).log())
        theta, slope = math.pi * share, math.pi * speed * share * (1 - share)
        real, imaginary = y.sinh() * theta.cos(), y.cosh() * theta.sin()
    size = (rho.unsqueeze(-1) * real - v.unsqueeze(-1) * y).exp() * (unit / math.pi)
    phase = rho.unsqueeze(-1) * imaginary - v.unsqueeze(-1) * theta
    bessel = (size * (slope * phase.cos() + phase.sin())).sum(-1)
    return (torch.lgamma(v + 1) + v * (2 / rho).log()).exp() * bessel


def _heavy(square: Tensor, e: Tensor, n: int) -> Tensor:
    r"""Return the factor for ``e < 0``: Gaussians mixed by the trapezoidal rule in the log of their precision,

    .. math:: \frac{u^u}{\Gamma(u)} \int_{-\infty}^\infty e^{u (t - e^t) - b e^{-t}} dt, \qquad
              u = -\tfrac1e - \tfrac n2, \quad b = \frac{\omega^2}{2 + ne}

    Nodes that are left out on the far left, where the integrand is :math:`e^{ut}`, add up to a geometric series.
    """
    u = -(1 / e + n / 2).unsqueeze(-1)
    b = (square / (2 + n * e)).unsqueeze(-1)
    with torch.no_grad():
        reach = _DEPTH / u + (2 * _DEPTH / u).sqrt()
        top = reach.log1p()
        low = torch.maximum(torch.maximum(-reach, (b / _DEPTH).log()), top - (_HEAVY_NODES - 1) * _HEAVY_STEP)
        low = torch.minimum(low, top - 1)
        step = (top - low) / (_HEAVY_NODES - 1)
        t = low + torch.arange(_HEAVY_NODES).to(step) * step
    start = 0.5 * (u / (2 * math.pi)).log() - stirling(u) + step.log()
    terms = (start + u * (t - t.expm1()) - b * (-t).exp()).exp()
    return terms.sum(-1) + terms[..., 0] / (u * step).expm1().squeeze(-1)
