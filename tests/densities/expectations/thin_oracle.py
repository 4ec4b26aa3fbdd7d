r"""Gaussian bumps under beta-Gaussians of any condition number: one-dimensional integrals with 45 digits.

A beta-Gaussian is a mixture of Gaussians with one centre and proportional scales, so that an expectation of a Gaussian
is a mixture of :math:`k(r) = |\Sigma|^{1/2} |\Sigma + r S|^{-1/2} e^{-r d' (\Sigma + rS)^{-1} d / 2}`: over r > 0 with
a gamma weight below alpha = 1, and by Hankel's integral for the reciprocal gamma function above it. In coordinates in
which Sigma and S are diagonal each k is a product; the trapezoidal rule does the rest. With 45 digits neither the
condition of the matrices nor the cancellation on the path matters.
"""

from __future__ import annotations

from typing import Any

import mpmath as mp

DIGITS = 45


def expectation(alpha: float, root: Any, loc: Any, center: Any, cov: Any) -> float:
    """``E_p[N(t; center, cov)]`` where ``Sigma = root root'``; of float64 numbers, or of mpmath's."""
    return float(exact(alpha, root, loc, center, cov))


def exact(alpha: float, root: Any, loc: Any, center: Any, cov: Any) -> Any:
    """The same with all digits."""
    with mp.workdps(DIGITS):
        factor = _matrix(root)
        bump = mp.cholesky(_matrix(cov))
        inverse = mp.inverse(factor)
        whitened = inverse * bump
        variances, vectors = mp.eigsy(whitened * whitened.T)
        offset = mp.matrix([_number(c) - _number(m) for c, m in zip(center, loc, strict=True)])
        mean = vectors.T * (inverse * offset)
        n = len(offset)
        log_det = 2 * mp.log(abs(mp.det(factor)))
        pairs = [(variances[i], mean[i] ** 2) for i in range(n)]
        return _mixture(mp.mpf(alpha), n, log_det, pairs)


def _mixture(alpha: Any, n: int, log_det: Any, pairs: list[tuple[Any, Any]]) -> Any:
    half = mp.mpf(n) / 2
    volume = half * mp.log(2 * mp.pi) + log_det / 2

    def log_k(r: Any) -> Any:
        return -sum(mp.log(1 + r * v) + r * m / (1 + r * v) for v, m in pairs) / 2

    if alpha == 1:
        return mp.exp(log_k(mp.mpf(1)) - volume)
    e = alpha - 1
    if e < 0:
        kappa = -1 / e
        # The threshold form (-e (q/2 + tau))^(-kappa), normalised by gamma functions.
        log_tau = (mp.loggamma(kappa - half) - mp.loggamma(kappa) - kappa * mp.log(-e) + volume) / (kappa - half)
        peak, tau = -kappa * (mp.log(-e) + log_tau), mp.exp(log_tau)

        def f(u: Any) -> Any:
            return mp.exp(kappa * u - mp.exp(u) + log_k(mp.exp(u) / tau))

        step = min(mp.mpf("0.12"), mp.mpf("0.3") / mp.sqrt(kappa))
        return mp.exp(peak - mp.loggamma(kappa)) * _trapezoidal(f, mp.log(kappa), step)
    m = 1 / e
    log_h = -(m * mp.log(e) + volume + mp.loggamma(m + 1) - mp.loggamma(m + 1 + half)) / (m + half)
    peak, h = m * (mp.log(e) + log_h), mp.exp(log_h)
    size = m + 1

    def slope(s: Any) -> Any:
        terms = (v / h / (1 + s / h * v) + b / h / (1 + s / h * v) ** 2 for v, b in pairs)
        return 1 - size / s - sum(terms) / 2

    low, high = mp.mpf(0), size
    while slope(high) < 0:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    start = high  # the saddle point; the path is the parabola through it

    def g(x: Any) -> Any:
        s = start * (1 + 1j * x) ** 2
        return (mp.exp(s - size * mp.log(s) + log_k(s / h)) * (1 + 1j * x)).real

    width = 1 / mp.sqrt(start)
    return mp.exp(peak + mp.loggamma(size)) * start / mp.pi * _trapezoidal(g, mp.mpf(0), width / 9)


def _trapezoidal(f: Any, start: Any, step: Any) -> Any:
    """From a point outwards on both sides, until 10 terms in a row are below 1e-28 of the largest."""
    total = f(start)
    largest = abs(total)
    for sign in (-1, 1):
        k = quiet = 0
        while quiet < 10:
            k += 1
            term = f(start + sign * k * step)
            total += term
            largest = max(largest, abs(term))
            quiet = quiet + 1 if abs(term) <= largest * mp.mpf("1e-28") else 0
    return total * step


def _matrix(values: Any) -> Any:
    return mp.matrix([[_number(x) for x in row] for row in values])


def _number(x: Any) -> Any:
    return x if isinstance(x, mp.mpf) else mp.mpf(float(x))
