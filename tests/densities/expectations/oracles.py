r"""Expectations of a Gaussian bump under a beta-Gaussian by adaptive quadrature: no code and no formula of the library.

With :math:`x = \mu + \sqrt{2h} L V u`, where ``L L' = Sigma`` and V diagonalises :math:`L^{-1} S L^{-T}`, a compact
density is :math:`P (1 - |u|^2)_+^m` and the bump has independent coordinates :math:`u_i \sim N(d_i, a_i)`; below
alpha = 1 the density is :math:`P (1 + |u|^2)^{-\kappa}`. What is left are nested one-dimensional integrals over
panels, with cuts wherever something happens: around the bump, at the density's own width, where the support ends, and
where an inner integral loses its bump. Linear algebra and normalisers are done with 40 digits.

References: Martins et al. (NeurIPS 2020) for the densities; their Prop. 3 for the derivatives.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import mpmath as mp
import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, ive

Array = NDArray[Any]
mp.mp.dps = 40


@dataclass(frozen=True)
class Rule:
    """How finely to integrate over each coordinate."""

    cuts: Array  # around a bump, in standard deviations; nothing is left beyond the outermost
    panel: tuple[Array, Array]  # Gauss-Legendre on [-1, 1]
    end: tuple[Array, Array]  # on [0, 1], for integrands with any integrable power at 0

    @staticmethod
    def of(cuts: list[float], count: int, step: float) -> Rule:
        t = np.arange(-6.05, 3.3, step)  # doubly exponential: nodes down to 1e-280
        y = np.pi * np.sinh(t)
        half = np.exp(-np.abs(y))
        end = np.where(y < 0, half, 1) / (1 + half), step * np.pi * np.cosh(t) * half / (1 + half) ** 2
        return Rule(np.array(cuts), np.polynomial.legendre.leggauss(count), end)


FINE = Rule.of([-9, -5, -2.5, 0, 2.5, 5, 9], 20, 0.1)  # one or two coordinates: about 1e-14
QUICK = Rule.of([-8, -4.5, -1.5, 1.5, 4.5, 8], 11, 0.17)  # three: about 1e-11


@dataclass(frozen=True)
class Shape:
    """A beta-Gaussian in its own units: ``P (1 - sign |u|^2)^power``, with ``x - mu = sqrt(2 h) L u``."""

    sign: int  # 1: compact, -1: heavy tails
    power: float
    log_peak: float
    h: float


def shape(alpha: float, n: int, log_det: Any) -> Shape:
    """From the integral over R^n, in gamma functions; ``log_det`` of Sigma."""
    e = mp.mpf(alpha) - 1
    half = mp.mpf(n) / 2
    if e > 0:
        m = 1 / e  # 1 = e^m h^(m + n/2) (2 pi)^(n/2) |Sigma|^(1/2) Gamma(m + 1) / Gamma(m + 1 + n/2)
        rest = m * mp.log(e) + half * mp.log(2 * mp.pi) + log_det / 2 + mp.loggamma(m + 1) - mp.loggamma(m + 1 + half)
        log_h = -rest / (m + half)
        return Shape(1, float(m), float(m * (mp.log(e) + log_h)), float(mp.exp(log_h)))
    k = -1 / e
    log_tau = k * mp.log(-e) - half * mp.log(2 * mp.pi) - log_det / 2 + mp.loggamma(k) - mp.loggamma(k - half)
    log_tau = -log_tau / (k - half)
    return Shape(-1, float(-k), float(-k * (mp.log(-e) + log_tau)), float(mp.exp(log_tau)))


@dataclass(frozen=True)
class Whitened:
    """A density and a bump in coordinates in which both are diagonal."""

    mean: Array  # [n], of the bump, in units of Sigma
    variance: Array  # [n]
    axes: Array  # [n, n]: L^-T V
    log_det: Any  # of Sigma
    log_det_bump: Any


def whiten(loc: Array, sigma: Any, center: Array, cov: Array) -> Whitened:
    n = len(loc)
    mp_sigma, mp_cov = mp.matrix(sigma), mp.matrix(cov.tolist())
    root, bump_root = (mp.cholesky(m, mp.mpf("1e-1000")) for m in (mp_sigma, mp_cov))
    inverse = _inverse(root)
    middle = inverse * mp_cov * inverse.T
    if all(middle[i, j] == 0 for i in range(n) for j in range(i)):
        order = sorted(range(n), key=lambda i: middle[i, i])
        values, vectors = [middle[i, i] for i in order], mp.matrix(n)
        for k, i in enumerate(order):
            vectors[i, k] = 1
    else:
        values, vectors = mp.eigsy((middle + middle.T) / 2)
    offset = vectors.T * (inverse * (mp.matrix(center.tolist()) - mp.matrix(loc.tolist())))
    return Whitened(
        _array(offset)[:, 0],
        np.array([float(v) for v in values]),
        _array(inverse.T * vectors),
        2 * sum(mp.log(root[i, i]) for i in range(n)),
        2 * sum(mp.log(bump_root[i, i]) for i in range(n)),
    )


def _inverse(root: Any) -> Any:
    """Of a lower triangular matrix, by substitution."""
    n = root.rows
    inverse = mp.matrix(n)
    for j in range(n):
        for i in range(j, n):
            rest = int(i == j) - mp.fsum(root[i, k] * inverse[k, j] for k in range(j, i))
            inverse[i, j] = rest / root[i, i]
    return inverse


def _array(matrix: Any) -> Array:
    return np.array([[float(matrix[i, j]) for j in range(matrix.cols)] for i in range(matrix.rows)])


@dataclass(frozen=True)
class Group:
    """``size`` coordinates with one variance: alone with its sign, together by their distance from the origin."""

    size: int
    mean: float
    variance: float

    @property
    def std(self) -> float:
        return math.sqrt(self.variance)

    def density(self, r: Array) -> Array:
        z = (r - self.mean) / self.std
        if self.size == 1:
            return np.exp(-0.5 * z * z) / (self.std * math.sqrt(2 * math.pi))
        # Noncentral chi: r^(g-1) exp(-(r^2 + d^2) / 2a) 0F1(g/2; (rd/2a)^2) / (2^(g/2-1) Gamma(g/2) a^(g/2))
        order = self.size / 2 - 1
        x = r * self.mean / self.variance
        small, large = x < 1e-8, x > 1e4
        mid = np.where(small | large, 1.0, x)
        log_bessel = np.log(ive(order, mid)) - order * np.log(mid / 2) + gammaln(order + 1)
        far = np.where(large, x, 1e4)
        mu, total, term = 4 * order * order, np.ones_like(far), np.ones_like(far)
        for k in range(1, 8):
            term = -term * (mu - (2 * k - 1) ** 2) / (k * 8 * far)
            total = total + term
        asymptotic = np.log(total / np.sqrt(2 * np.pi * far)) - order * np.log(far / 2) + gammaln(order + 1)
        log_series = np.where(small, -x, np.where(large, asymptotic, log_bessel))
        log_r = (self.size - 1) * np.log(np.maximum(r, 1e-300) / self.std) - math.log(self.std)
        return np.exp(log_r - 0.5 * z * z + log_series - order * math.log(2) - gammaln(order + 1))


def _cuts(rule: Rule, group: Group, deeper: list[Group], form: Shape, left: Array) -> tuple[Array, Array]:
    """Panel ends ``[*, K]`` for a coordinate with ``left [*]`` of the unit still to share, and the edge ``c [*]``."""
    ks = rule.cuts
    around = group.mean + ks * group.std
    if form.sign > 0:
        edge = np.sqrt(left)
        low = np.clip(around[0] if group.size == 1 else max(around[0], 0.0), -edge, edge)
        high = np.clip(around[-1], -edge, edge)
        width = edge * min(1.0, 1 / math.sqrt(2 * form.power))
        bulk = np.array([0.7, 1.5, 2.5, 4, 6, 9])
    else:
        edge = np.full_like(left, math.inf)
        low = np.full_like(left, around[0] if group.size == 1 else max(around[0], 0.0))
        high = np.full_like(left, around[-1])
        width = np.sqrt(left) * min(1.0, 1 / math.sqrt(-2 * form.power))
        most = max(abs(around[0]), abs(around[-1])) / float(np.min(width))
        bulk = 2.5 ** np.arange(0, max(1, math.ceil(math.log(max(most, 1)) / math.log(2.5))) + 1)
    inner = [np.broadcast_to(around, (*left.shape, len(ks))), np.zeros((*left.shape, 1))]
    inner += [width[..., None] * bulk, -width[..., None] * bulk]
    if form.sign > 0:
        for g in deeper:  # where c' = sqrt(left - u^2) meets the inner bump
            meets = np.sqrt(np.maximum(left[..., None] - (g.mean + ks * g.std) ** 2, 0))
            inner += [meets, -meets]
            if group.variance < 0.1 and abs(g.mean) < 10 * g.std:  # at distances from the edge of all magnitudes
                strip = (high - low)[..., None] * 0.1 ** np.arange(1, 9)
                inner += [edge[..., None] - strip, strip - edge[..., None]]
    cuts = np.concatenate([low[..., None], *inner, high[..., None]], -1)
    cuts = np.sort(np.clip(cuts, low[..., None], high[..., None]), -1)
    if form.sign > 0:  # a strip along the edge much thinner than its neighbour is one with it
        cuts = -_snapped(-_snapped(cuts, edge)[..., ::-1], edge)[..., ::-1]
    return cuts, edge


def _snapped(cuts: Array, edge: Array) -> Array:
    """Sorted cuts; those at the last one, or all but at the edge, are moved back: every row ends with a panel."""
    distance = edge[..., None] - cuts
    thin = (distance[..., 1:] < 0.25 * distance[..., :-1]) & (distance[..., -1:] == 0)
    thin = np.logical_or.accumulate(thin, -1) | (cuts[..., 1:] == cuts[..., -1:])
    back = np.concatenate([np.zeros_like(thin[..., :1]), thin], -1)
    kept = np.where(back, cuts[..., :1], cuts)
    out = np.maximum.accumulate(kept, -1)
    out[..., -1] = cuts[..., -1]
    return out


def _nodes(rule: Rule, cuts: Array, edge: Array, left: Array, sign: int) -> tuple[Array, Array, Array]:
    """Points, weights and what is left of the unit after them, ``[*, N]``: power-law ends at both ends."""
    a, b = cuts[..., :-1], cuts[..., 1:]
    used = (b - a).reshape(-1, a.shape[-1]).max(0) > 1e-15 * np.abs(cuts).max()
    a, b = a[..., used], b[..., used]
    if a.shape[-1] == 0:
        empty = np.zeros((*left.shape, 1))
        return empty, empty, left[..., None] + empty
    first, last = a[..., :1], b[..., -1:]
    half = (b - a)[..., None] / 2
    x = ((a + b)[..., None] / 2 + half * rule.panel[0])[..., 1:-1, :]
    w = (half * rule.panel[1])[..., 1:-1, :]
    flat = (*left.shape, x.shape[-2] * x.shape[-1])
    x, w = x.reshape(flat), w.reshape(flat)
    if a.shape[-1] == 1:
        middle = (first + last) / 2
        ends = [(first, middle - first, 1.0), (last, last - middle, -1.0)]
    else:
        ends = [(first, b[..., :1] - first, 1.0), (last, last - a[..., -1:], -1.0)]
    xs, ws = [x], [w]
    c = edge[..., None]
    lefts = [(c - x) * (c + x) if sign > 0 else left[..., None] + x * x]
    for start, length, direction in ends:
        y = length * rule.end[0]
        xs.append(start + direction * y)
        ws.append(length * rule.end[1])
        if sign > 0:  # measured from the edge, where the distance from it is what matters
            lefts.append(((c + direction * start) + y) * ((c - direction * start) - y))
        else:
            lefts.append(left[..., None] + xs[-1] ** 2)
    return np.concatenate(xs, -1), np.concatenate(ws, -1), np.maximum(np.concatenate(lefts, -1), 0)


def integrals(groups: list[Group], form: Shape, power: float, monomials: list[tuple[int, ...]], logs: int = 0) -> Array:
    r"""``E[(1 - sign |U|^2)^power log(...)^logs prod U_i^k_i]`` for each tuple of k, ``[len(monomials)]``."""
    order = sorted(range(len(groups)), key=lambda i: groups[i].variance)
    groups = [groups[i] for i in order]
    monomials = [tuple(k[i] for i in order) for k in monomials]
    result = np.zeros(len(monomials))
    rule = FINE if len(groups) < 3 else QUICK

    def step(depth: int, left: Array, taken: Array, weight: Array, factors: list[Array]) -> None:
        group = groups[depth]
        cuts, edge = _cuts(rule, group, groups[depth + 1 :], form, left)
        x, w, rest = _nodes(rule, cuts, edge, left, form.sign)
        w = w * group.density(x) * weight[..., None]
        sums = taken[..., None] + x * x
        products = [t[..., None] * x ** k[depth] for t, k in zip(factors, monomials, strict=True)]
        if depth + 1 < len(groups):
            keep = np.abs(w) > 1e-17 * np.abs(w).max()
            if not keep.any():
                return
            step(depth + 1, rest[keep], sums[keep], w[keep], [t[keep] for t in products])
            return
        # Of 1 - |u|^2, rest has the relative accuracy where little is left, log1p where most is.
        log_rest = np.where(sums < 0.5, np.log1p(-form.sign * np.minimum(sums, 0.5)), np.log(np.maximum(rest, 1e-320)))
        f = np.where(rest > 0, np.exp(power * log_rest) * log_rest**logs * w, 0.0)
        for i, t in enumerate(products):
            result[i] = float((f * t).sum())

    one = np.ones(())
    with np.errstate(all="ignore"):
        step(0, one, 0 * one, one, [one for _ in monomials])
    return result


def groups_of(pair: Whitened, form: Shape, together: bool) -> list[Group]:
    """One group for each coordinate, or, ``together``, one for each distinct variance."""
    scale = 2 * form.h
    mean, variance = pair.mean / math.sqrt(scale), pair.variance / scale
    if not together:
        return [Group(1, m, v) for m, v in zip(mean, variance, strict=True)]
    groups: list[Group] = []
    start = 0
    for stop in range(1, len(mean) + 1):
        if stop == len(mean) or variance[stop] > variance[start] * (1 + 1e-12):
            d = mean[start:stop]
            alone = stop - start == 1
            groups.append(Group(stop - start, float(d[0]) if alone else float(np.linalg.norm(d)), variance[start]))
            start = stop
    return groups


@dataclass(frozen=True)
class Expectation:
    value: float
    unit: float  # the smaller of both peaks: no expectation is larger


def expectation(alpha: float, loc: Array, sigma: Any, center: Array, cov: Array) -> Expectation:
    """``E_p[N(x; center, cov)]``."""
    pair = whiten(loc, sigma, center, cov)
    n = len(loc)
    log_bump = float(-(n * mp.log(2 * mp.pi) + pair.log_det_bump) / 2)
    if alpha == 1:
        log_density = float(-(n * mp.log(2 * mp.pi) + pair.log_det) / 2)
        exponent = -0.5 * np.sum(np.log1p(pair.variance) + pair.mean**2 / (1 + pair.variance))
        return Expectation(math.exp(log_density + exponent), math.exp(min(log_density, log_bump)))
    form = shape(alpha, n, pair.log_det)
    groups = groups_of(pair, form, together=True)
    mean = integrals(groups, form, form.power, [(0,) * len(groups)])[0]
    return Expectation(math.exp(form.log_peak) * mean, math.exp(min(form.log_peak, log_bump)))


@dataclass(frozen=True)
class Gradient:
    loc: Array  # [n]
    sigma: Array  # [n, n], symmetric: of a symmetric change
    alpha: float


def gradient(alpha: float, loc: Array, sigma: Any, center: Array, cov: Array) -> Gradient:
    r"""Derivatives of the expectation by Prop. 3: :math:`\int p^{2 - \alpha} (f' - E_{esc}[f']) \psi`.

    The escort density, proportional to :math:`p^{2 - \alpha}`, has the same ellipsoid with power m - 1 (-kappa - 1).
    In alpha, with the score held fixed,

    .. math:: \frac{E[\psi] - E_{esc}[\psi]}{(\alpha - 1)^2}
              - \frac{E[\psi \log p] - E_{esc}[\psi] E[\log p]}{\alpha - 1},

    which at alpha = 1 is :math:`\tfrac12 (E[\log^2 p] E[\psi] - E[\psi \log^2 p])`.
    """
    pair = whiten(loc, sigma, center, cov)
    n = len(loc)
    if alpha == 1:
        return _gradient_at_one(pair)
    form = shape(alpha, n, pair.log_det)
    groups = groups_of(pair, form, together=False)
    zero = (0,) * n
    unit = [tuple(int(i == j) for j in range(n)) for i in range(n)]
    pairs = [(i, j) for i in range(n) for j in range(i + 1)]
    moments = integrals(
        groups,
        form,
        form.power - 1,
        [zero, *unit, *(tuple(unit[i][k] + unit[j][k] for k in range(n)) for i, j in pairs)],
    )
    second = np.zeros((n, n))
    for (i, j), value in zip(pairs, moments[1 + n :], strict=True):
        second[i, j] = second[j, i] = value
    # |u|^2 is Beta(n/2, m) or beta prime(n/2, kappa + 1 - n/2) under the escort: its mean over n
    spread = 1 / (n + 2 * form.power) if form.sign > 0 else 1 / (-2 * form.power - n)
    weight = math.exp((2 - alpha) * form.log_peak)
    in_loc = weight * math.sqrt(2 * form.h) * pair.axes @ moments[1 : 1 + n]
    in_sigma = weight * form.h * pair.axes @ (second - spread * moments[0] * np.eye(n)) @ pair.axes.T
    return Gradient(in_loc, in_sigma, _in_alpha(alpha, n, form, groups, moments[0]))


def _in_alpha(alpha: float, n: int, form: Shape, groups: list[Group], escort: float) -> float:
    e = mp.mpf(alpha) - 1
    zero = [(0,) * n]
    plain = integrals(groups, form, form.power, zero)[0]
    logs = integrals(groups, form, form.power, zero, logs=1)[0]
    # What p^(2 - alpha) integrates to, P^(1 - alpha) times a ratio; and E[log(1 -+ |u|^2)].
    half = n / 2
    if form.sign > 0:
        m = form.power
        ratio, log_mean = (m + half) / m, mp.digamma(m + 1) - mp.digamma(m + 1 + half)
    else:
        kappa = -form.power
        ratio, log_mean = (kappa - half) / kappa, mp.digamma(kappa) - mp.digamma(kappa - half)
    in_escort = escort / ratio  # both in units of the density's peak
    log_p = form.log_peak * plain + form.power * logs
    mean_log_p = form.log_peak + form.power * float(log_mean)
    return math.exp(form.log_peak) * float((plain - in_escort) / e**2 - (log_p - in_escort * mean_log_p) / e)


def _gradient_at_one(pair: Whitened) -> Gradient:
    """Everything is Gaussian."""
    n = len(pair.mean)
    log_peak = float(-(n * mp.log(2 * mp.pi) + pair.log_det) / 2)
    total = 1 + pair.variance
    value = math.exp(log_peak - 0.5 * np.sum(np.log(total) + pair.mean**2 / total))
    mean, variance = pair.mean / total, pair.variance / total  # of p psi / E
    in_loc = value * pair.axes @ mean
    in_sigma = value / 2 * pair.axes @ (np.diag(variance - 1) + np.outer(mean, mean)) @ pair.axes.T

    def log_square(mean: Array, variance: Array) -> float:
        q = np.sum(mean**2 + variance)
        return (log_peak - q / 2) ** 2 + np.sum(2 * variance**2 + 4 * variance * mean**2) / 4

    return Gradient(in_loc, in_sigma, value / 2 * (log_square(0 * mean, 0 * mean + 1) - log_square(mean, variance)))
