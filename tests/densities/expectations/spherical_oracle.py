r"""Closed forms for beta-Gaussians with mpmath, from the textbook's normalisers and Bessel functions.

In units in which the density is :math:`(1 - e |z|^2 / 2)_+^{1/e}`, ``e = alpha - 1``, a density with location mu and
scale L L' is that of :math:`\mu + \sqrt c L z`. Digits are the caller's choice, ``mp.workdps``.
"""

from __future__ import annotations

import mpmath as mp


def dilation(alpha: float, n: int, log_det: float) -> mp.mpf:
    """c, from tau of the threshold form [(alpha - 1)(-q/2 - tau)]^(1/(alpha - 1)), normalised by gamma functions."""
    alpha, log_det = mp.mpf(alpha), mp.mpf(log_det)
    half = mp.mpf(n) / 2
    if alpha == 1:
        return mp.mpf(1)
    if alpha > 1:
        m = 1 / (alpha - 1)
        inside = mp.gamma(half + m + 1) / (mp.gamma(m + 1) * mp.pi**half) * (2 / (alpha - 1)) ** m
        radius = inside ** ((alpha - 1) / (2 + (alpha - 1) * n))
        return (alpha - 1) * radius**2 / 2 * mp.exp(-log_det / (n + 2 * m))
    kappa = 1 / (1 - alpha)
    nu = 2 * kappa - n
    power = (1 - alpha) ** -kappa * (2 * mp.pi) ** half * mp.exp(log_det / 2) * mp.gamma(nu / 2) / mp.gamma(kappa)
    return (1 - alpha) * power ** (2 / nu)


def characteristic(square: float, e: float, n: int) -> mp.mpf:
    """E[cos(omega z_1)] at omega squared; a Bessel function J below its support, K under heavy tails."""
    square, e, half = mp.mpf(square), mp.mpf(e), mp.mpf(n) / 2
    if square == 0:
        return mp.mpf(1)
    if e == 0:
        return mp.exp(-square / 2)
    rho = mp.sqrt(2 * square / abs(e))
    if e > 0:  # Gamma(v + 1) (2 / rho)^v J_v(rho) as a series that cancels: digits in proportion
        with mp.extradps(20 + int(min(rho, square) / 2)):
            return mp.hyp0f1(half + 1 / e + 1, -(rho**2) / 4)
    u = -half - 1 / e
    if u > 100:  # mpmath's Bessel function takes too long
        b, width = square / (2 + n * e), 1 / mp.sqrt(u)
        panels = [k * width for k in range(-15, 16, 3)]
        wave = mp.quad(lambda t: mp.exp(u * (t - mp.expm1(t)) - b * mp.expm1(-t)), panels)
        return mp.exp(-b) * wave / mp.quad(lambda t: mp.exp(u * (t - mp.expm1(t))), panels)
    return 2 / mp.gamma(u) * (rho / 2) ** u * mp.besselk(u, rho)


def exponential(square: float, e: float, n: int) -> mp.mpf:
    """E[exp(omega z_1)] for e >= 0 at omega squared: a modified Bessel function I, as a series."""
    square, e, half = mp.mpf(square), mp.mpf(e), mp.mpf(n) / 2
    return mp.exp(square / 2) if e == 0 else mp.hyp0f1(half + 1 / e + 1, square / (2 * e))
