"""Expectations over the line by composite double-exponential quadrature: no code of the library.

Each density is a formula of the papers, each integral cut wherever something happens: at the peak, at every power of
two of the density's width, at the ends of supports, and around the basis function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaln

Function = Callable[[np.ndarray], np.ndarray]

_T = np.arange(-3.4, 3.41, 0.1)
_Y = np.pi / 2 * np.sinh(_T)
_DE_X = np.exp(_Y) / (2 * np.cosh(_Y))  # on [0, 1]
_DE_W = 0.1 * np.pi / 4 * np.cosh(_T) / np.cosh(_Y) ** 2


@dataclass(frozen=True)
class Bump:
    """A basis function of the offset from its centre, with its derivative and the offsets at which to cut."""

    center: float
    size: float
    value: Function
    slope: Function
    cuts: list[float]


def gaussian(center: float, std: float) -> Bump:
    def value(x: np.ndarray) -> np.ndarray:
        return np.exp(-((x / std) ** 2) / 2) / (std * math.sqrt(2 * math.pi))

    return Bump(center, std, value, lambda x: -x / std**2 * value(x), [k * std for k in range(-10, 11, 2)])


def paraboloid(center: float, radius: float) -> Bump:
    """With peak 1."""
    cuts = [-radius, 0.0, radius]
    return Bump(center, radius, lambda x: 1 - (x / radius) ** 2, lambda x: -2 * x / radius**2, cuts)


@dataclass(frozen=True)
class Line:
    """A density symmetric about ``loc``, as a function of the distance from it."""

    loc: float
    radius: float  # where it ends, or inf
    width: float  # on which it changes
    of_distance: Function

    def expect(self, bump: Bump) -> tuple[float, float, float]:
        """``E[psi]``, ``E[psi']`` and ``E[psi' (t - loc)]``: the value, and its change as the density moves, grows."""
        apart = bump.center - self.loc
        if bump.size < self.width:  # offsets from the narrower of both: they are not differences of large numbers
            x, weight = self._nodes(-apart, bump.cuts)
            y = x + apart
        else:
            y, weight = self._nodes(0.0, [apart + c for c in bump.cuts])
            x = y - apart
        weight = weight * self.of_distance(np.abs(y))
        slope = weight * bump.slope(x)
        return float((weight * bump.value(x)).sum()), float(slope.sum()), float((slope * y).sum())

    def mean(self, f: Function, low: float, high: float) -> float:
        """``E[f(t)]`` between two points."""
        y, weight = self._nodes(0.0, [low - self.loc, high - self.loc])
        return float((weight * self.of_distance(np.abs(y)) * f(self.loc + y)).sum())

    def _nodes(self, middle: float, cuts: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
        """Nodes and weights from the first to the last cut, where ``middle`` is the centre of the density."""
        low, high = max(cuts[0], middle - self.radius), min(cuts[-1], middle + self.radius)
        if high <= low:
            return np.zeros(1), np.zeros(1)
        steps = self.width * 2.0 ** np.arange(-20, 60)
        places = np.concatenate([[low, high, middle], np.asarray(cuts), middle + steps, middle - steps])
        if math.isfinite(self.radius):
            steps = self.radius * 2.0 ** -np.arange(1, 40)
            places = np.concatenate([places, middle + self.radius - steps, middle - self.radius + steps])
        ends = np.unique(places[(places >= low) & (places <= high)])
        a, b = ends[:-1, None], ends[1:, None]
        return a + (b - a) * _DE_X, (b - a) * _DE_W


def beta_gaussian(alpha: float, loc: float, variance: float) -> Line:
    """[NeurIPS] eqs. 7 and 10; Student's t below alpha = 1. ``variance`` is the Sigma of the score."""
    if alpha == 1:
        sigma = math.sqrt(variance)
        return Line(loc, math.inf, sigma, lambda d: np.exp(-((d / sigma) ** 2) / 2) / (sigma * math.sqrt(2 * math.pi)))
    e = alpha - 1
    if e > 0:
        m = 1 / e  # the integral of [e (h - d^2 / 2 Sigma)]^m is e^m h^m a B(1/2, m + 1) with a^2 = 2 h Sigma
        log_beta = gammaln(0.5) + gammaln(m + 1) - gammaln(m + 1.5)
        h = math.exp(-(m * math.log(e) + log_beta + 0.5 * math.log(2 * variance)) / (m + 0.5))
        a = math.sqrt(2 * h * variance)
        return Line(loc, a, a * min(1, math.sqrt(e)), lambda d: (e * h * np.maximum(1 - d / a, 0) * (1 + d / a)) ** m)
    k = -1 / e  # [-e (tau + d^2 / 2 Sigma)]^-k
    log_beta = gammaln(0.5) + gammaln(k - 0.5) - gammaln(k)
    tau = math.exp((-k * math.log(-e) + log_beta + 0.5 * math.log(2 * variance)) / (k - 0.5))
    s = math.sqrt(2 * tau * variance)
    return Line(loc, math.inf, s, lambda d: np.exp(-k * (math.log(-e * tau) + np.log1p((d / s) ** 2))))


def beta_laplace(alpha: float, loc: float, scale: float) -> Line:
    """[NeurIPS] eq. 12 for alpha = 2."""
    if alpha == 1:
        return Line(loc, math.inf, scale, lambda d: np.exp(-d / scale) / (2 * scale))
    e = alpha - 1
    if e > 0:
        m = 1 / e
        a = math.exp((math.log((m + 1) / 2) + m * math.log(scale / e)) / (m + 1))
        return Line(loc, a, a * min(1, e), lambda d: (e * np.maximum(a - d, 0) / scale) ** m)
    k = -1 / e  # [-e (a + d) / b]^-k; its integral is 2 (-e / b)^-k a^(1-k) / (k - 1)
    a = math.exp((math.log((k - 1) / 2) + k * math.log(-e / scale)) / (1 - k))
    return Line(loc, math.inf, a, lambda d: (-e * (a + d) / scale) ** -k)


def location_scale(g: Function, slope: Function, loc: float, scale: float) -> Line:
    """[NeurIPS] eq. 13."""
    edge = brentq(lambda a: a * slope(a) - g(a) + g(0.0) - 0.5, 1e-3, 50.0, xtol=1e-15)  # type: ignore
    return Line(loc, scale * edge, scale * edge, lambda d: np.maximum(slope(edge) - slope(d / scale), 0) / scale)


def derivative(f: Callable[[float], float], x: float, h: float) -> float:
    """By central differences of eighth order."""
    weights = [4 / 5, -1 / 5, 4 / 105, -1 / 280]
    return sum(w * (f(x + k * h) - f(x - k * h)) for k, w in enumerate(weights, start=1)) / h
