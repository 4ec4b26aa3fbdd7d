"""Derivatives of entmax and normmax in high precision, by differentiating their defining equations.

Both maps are a function of ``z - tau``, entry by entry, with one tau for a row. Sums of entmax are over pairs of
entries, so that a common part of the directions cancels before it meets a weight of any size.
"""

from __future__ import annotations

import mpmath
from mpmath import mpf

DIGITS = 80
Row = list[mpf]


class Entmax:
    """Probabilities of a row on their support, and derivatives there; ``alpha`` in (0, inf)."""

    def __init__(self, scores: list[float], alpha: float):
        self.a, self.e = mpf(alpha), mpf(alpha) - 1
        self.size = len(scores)
        finite = sorted((i for i, x in enumerate(scores) if x > -mpmath.inf), key=lambda i: -scores[i])
        top = mpf(scores[finite[0]])
        u = [mpf(scores[i]) - top for i in finite]
        if self.e > 0:
            size = max(k for k in range(1, len(u) + 1) if self._above(u, k) < 1)
            self.support, u = finite[:size], u[:size]
            self.p = self._from_the_last(u)
        else:
            self.support = finite
            self.p = self._from_the_first(u)
        self.s = [p ** (2 - self.a) for p in self.p]

    def _above(self, u: Row, k: int) -> mpf:
        return mpmath.fsum((self.e * (x - u[k - 1])) ** (1 / self.e) for x in u[: k - 1])

    def _from_the_last(self, u: Row) -> Row:
        """Newton from above on the smallest probability (e > 1) or its power e, in which the sum is convex."""
        e, gaps = self.e, [self.e * (x - u[-1]) for x in u]
        steep = e > 1
        y = mpf(len(u)) ** (-1 if steep else -e)
        while True:
            base = y**e if steep else y
            p = [(base + d) ** (1 / e) for d in gaps]
            rise = mpmath.fsum((y / x) ** (e - 1) if steep else x ** (1 - e) / e for x in p if x > 0)
            lower = max(y - (mpmath.fsum(p) - 1) / rise, mpf(0))
            if lower >= y * (1 - mpf(10) ** (10 - DIGITS)):
                return p
            y = lower

    def _from_the_first(self, u: Row) -> Row:
        """Newton from below on the shift of the scores, in which the sum is convex."""
        e, shift = self.e, mpf(0)
        if e == 0:
            total = mpmath.fsum(mpmath.exp(x) for x in u)
            return [mpmath.exp(x) / total for x in u]
        while True:
            base = [1 + e * (x - shift) for x in u]
            p = [b ** (1 / e) for b in base]
            step = (mpmath.fsum(p) - 1) / mpmath.fsum(x / b for x, b in zip(p, base, strict=True))
            if step <= (1 + shift) * mpf(10) ** (10 - DIGITS):
                return p
            shift += step

    def on_support(self, values: list[float]) -> Row:
        return [mpf(values[i]) for i in self.support]

    def everywhere(self, values: Row) -> Row:
        row = [mpf(0)] * self.size
        for i, x in zip(self.support, values, strict=True):
            row[i] = x
        return row

    def times(self, g: Row) -> Row:
        """The Jacobian in the scores times ``g``, on the support."""
        total = mpmath.fsum(self.s)
        return [
            si * mpmath.fsum(sj * (gi - gj) for sj, gj in zip(self.s, g, strict=True)) / total
            for si, gi in zip(self.s, g, strict=True)
        ]

    def in_alpha(self) -> Row:
        """dp / dalpha on the support: z - tau = (p^e - 1) / e is constant, so that p moves as if z did."""
        return self.times(self._change())

    def _change(self) -> Row:
        logs = [mpmath.log(p) for p in self.p]
        if self.e == 0:
            return [-(x**2) / 2 for x in logs]
        # Without the constant -1 / e^2.
        return [-(p**self.e) * (self.e * x - 1) / self.e**2 for p, x in zip(self.p, logs, strict=True)]

    def _change_twice(self) -> Row:
        logs, e = [mpmath.log(p) for p in self.p], self.e
        if e == 0:
            return [-(x**3) / 3 for x in logs]
        return [-(p**e) * ((e * x - 1) ** 2 + 1) / e**3 for p, x in zip(self.p, logs, strict=True)]

    def twice(self, g: Row, v: Row) -> Row:
        """The gradient in the scores of ``<v, J g>``: the third derivative of the conjugate."""
        first, second = self._centred(g), self._centred(v)
        terms = zip(self.p, first, second, strict=True)
        return self.times([(2 - self.a) * p ** (1 - self.a) * x * y for p, x, y in terms])

    def mixed(self, g: Row) -> Row:
        """The gradient in the scores of ``<g, dp / dalpha>``."""
        terms = zip(self.p, self._centred(g), self.in_alpha(), strict=True)
        return self.times([x * ((2 - self.a) * d / p - mpmath.log(p)) for p, x, d in terms])

    def twice_in_alpha(self) -> Row:
        """d^2 p / dalpha^2 on the support."""
        d = self.in_alpha()
        terms = zip(self.p, d, self.s, self._change_twice(), strict=True)
        return self.times([x * ((2 - self.a) * x / p - 2 * mpmath.log(p)) / s + c for p, x, s, c in terms])

    def _centred(self, g: Row) -> Row:
        return [x / s for x, s in zip(self.times(g), self.s, strict=True)]


class Normmax:
    """The same for normmax, ``alpha`` in (1, inf): ``y = [z - tau]_+^(1 / (alpha - 1))``, ``p = y / sum y``."""

    def __init__(self, scores: list[float], alpha: float):
        self.a = a = mpf(alpha)
        q = a / (a - 1)
        self.size = len(scores)
        finite = sorted((i for i, x in enumerate(scores) if x > -mpmath.inf), key=lambda i: -scores[i])
        u = [mpf(scores[i]) for i in finite]
        size = max(k for k in range(1, len(u) + 1) if mpmath.fsum((x - u[k - 1]) ** q for x in u[: k - 1]) < 1)
        self.support, gaps = finite[:size], [x - u[size - 1] for x in u[:size]]
        base = mpf(size) ** (-1 / q)
        while True:  # Newton from above: the sum is convex in the height of the last entry above the threshold
            excess = mpmath.fsum((base + d) ** q for d in gaps) - 1
            lower = max(base - excess / mpmath.fsum(q * (base + d) ** (q - 1) for d in gaps), mpf(0))
            if lower >= base * (1 - mpf(10) ** (10 - DIGITS)):
                break
            base = lower
        self.y = [(base + d) ** (1 / (a - 1)) for d in gaps]
        self.total = mpmath.fsum(self.y)
        self.p = [y / self.total for y in self.y]

    on_support = Entmax.on_support
    everywhere = Entmax.everywhere

    def times(self, g: Row) -> Row:
        # dz_i = dtau + (a - 1) y_i^(a - 2) dy_i, and sum y^(a - 1) dy = 0.
        weights = [y / self.total for y in self.y]
        mean = mpmath.fsum(w * x for w, x in zip(weights, g, strict=True))
        return self._normalised([(x - mean) * y ** (2 - self.a) / (self.a - 1) for x, y in zip(g, self.y, strict=True)])

    def in_alpha(self) -> Row:
        a, logs = self.a, [mpmath.log(y) for y in self.y]
        # 0 = dtau / dalpha + y^(a - 1) log y + (a - 1) y^(a - 2) dy, and sum y^a log y + a y^(a - 1) dy = 0.
        fall = -mpmath.fsum(y**a * x for y, x in zip(self.y, logs, strict=True)) / a / self.total
        return self._normalised([-(y * x + fall * y ** (2 - a)) / (a - 1) for y, x in zip(self.y, logs, strict=True)])

    def _normalised(self, dy: Row) -> Row:
        change = mpmath.fsum(dy)
        return [(d - p * change) / self.total for d, p in zip(dy, self.p, strict=True)]
