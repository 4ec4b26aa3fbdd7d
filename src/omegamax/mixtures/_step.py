"""One iteration of expectation-maximisation, for every family of components and every map of responsibilities."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from omegamax._checks import readable
from omegamax._numerics import phi
from omegamax.maps import Omega, Shannon
from omegamax.mixtures._floor import hold_at_floor
from omegamax.mixtures._packed import diagonal, inverse, pairs, times, unpack
from omegamax.mixtures._points import Points

# The score of a component without weight: none of its exponentials, differences or powers is more than 0, and unlike
# -inf it may be multiplied by 0.
NEVER = -1e30


class MixtureParameters(NamedTuple):
    """The parameters of K components, in the frame of the points."""

    weights: Tensor  # [*, K]
    mean: Tensor  # [*, K, n]
    cov: Tensor  # [*, K, n(n+1)/2], packed

    def flat(self) -> Tensor:
        """Return all of them in one row, ``[*, p]``."""
        return torch.cat([self.weights, self.mean.flatten(-2), self.cov.flatten(-2)], -1)

    def like(self, flat: Tensor) -> MixtureParameters:
        """Return the reverse, for as many components in as many dimensions."""
        k, n, p = self.mean.shape[-2:] + self.cov.shape[-1:]
        weights, mean, cov = flat.split([k, k * n, k * p], -1)
        return MixtureParameters(weights, mean.unflatten(-1, (k, n)), cov.unflatten(-1, (k, p)))

    def in_units(self, points: Points) -> tuple[Tensor, Tensor, Tensor]:
        """Return weights, means and whole covariances in the units that the points came in; NaN where these are broken.

        They have the dtype of the points' results.
        """
        unit, broken = points.unit[..., None, None], points.broken[..., None, None]
        mean = (self.mean * unit + points.centre.unsqueeze(-2)).masked_fill(broken, torch.nan)
        cov = unpack(self.cov * unit.square(), points.dimension)
        weights = self.weights.masked_fill(broken.squeeze(-1), torch.nan)
        return weights.to(points.dtype), mean.to(points.dtype), cov.to(points.dtype)

    def where(self, condition: Tensor, other: MixtureParameters) -> MixtureParameters:
        """Return this state where ``condition [*]``, the other elsewhere."""
        deep = condition[..., None, None]
        weights = torch.where(condition.unsqueeze(-1), self.weights, other.weights)
        return MixtureParameters(
            weights, torch.where(deep, self.mean, other.mean), torch.where(deep, self.cov, other.cov)
        )


@dataclass(frozen=True, eq=False)
class Iteration:
    r"""The two steps that raise J, each with the other's result held fixed.

    .. math:: J(\pi, \mu, C) = \sum_l w_l \, \Omega^*(s_l)
              = \max_\gamma \sum_l w_l \Bigl[ \sum_k \gamma_{lk} s_{lk} - \Omega(\gamma_l) \Bigr], \qquad
              s_{lk} = \log \pi_k - D_k(x_l)

    E-step: ``gamma_l`` is Omega's map of the scores. M-step: the masses ``N_k = sum_l w_l gamma_lk`` are the weights
    that maximise ``sum_k N_k log pi_k``, and the moments under ``w_l gamma_lk / N_k`` minimise the sum of D, which is
    the negative log-density of a Gaussian or, with ``e = alpha - 1``, a Fenchel-Young loss.
    """

    omega: Omega
    e: float | Tensor = 0.0  # alpha - 1 of the Fenchel-Young loss, a float or [*, 1]
    mix: Callable[[Tensor], Tensor] | None = None  # weights from masses, [*, K] to [*, K]; None: the masses themselves

    def fit_one(self, points: Points) -> MixtureParameters:
        """Return all points as one component."""
        _, mean, cov = points.moments(torch.ones_like(points.weights).unsqueeze(-2))
        return MixtureParameters(torch.ones_like(mean[..., 0]), mean, self.hold_at_floor(points, cov))

    def scores(self, points: Points, state: MixtureParameters, whole: MixtureParameters) -> Tensor:
        r"""Return ``log pi_k - D_k(x_l)``, ``[*, K, L]``.

        .. math:: D_k(x) = \frac{e^{-e r_k}}{2 (g + e)} \, (x - \mu_k)' C_k^{-1} (x - \mu_k)
                         + \frac{g \, r_k}{g + e} \, \varphi(-e \, r_k) + \tfrac12 \log |2 \pi C|, \qquad
                  r_k = \tfrac12 \log \frac{|C_k|}{|C|}, \quad g = 1 + \tfrac{e n}{2}

        with ``e = alpha - 1`` and C the covariance of all points: the cross-Fenchel-Young loss in units of the peak, to
        the power of e, of the one density that fits all. At e = 0 it is ``-log N(x; mu_k, C_k)``.
        """
        n, e = points.dimension, self.e
        precision, log_det = inverse(state.cov, n)
        constant = 0.5 * n * math.log(2 * math.pi) + 0.5 * log_det
        if isinstance(e, Tensor) or e != 0:
            g = 1 + e * (n / 2)
            total = 0.5 * inverse(whole.cov, n)[1]
            r = 0.5 * log_det - total
            constant = constant - r + g / (g + e) * r * phi(-e * r)
            precision = precision * ((-e * r).exp() / (g + e)).unsqueeze(-1)
        linear = times(precision, state.mean)
        square = (linear * state.mean).sum(-1)
        if points.spread is not None:
            along = [precision[..., k] * points.spread[..., i, None] for i, k in enumerate(diagonal(n))]
            square = square + torch.stack(along, -1).sum(-1)
        alive = state.weights > 0
        log_weights = torch.where(alive, torch.where(alive, state.weights, 1.0).log(), NEVER)
        # Off the diagonal twice.
        factors = [(-0.5 if i == j else -1.0) * precision[..., k] for k, (i, j) in enumerate(pairs(n))]
        first = (log_weights - constant - 0.5 * square).unsqueeze(-1)
        return torch.cat([first, linear, torch.stack(factors, -1)], -1) @ points.features.mT

    def responsibilities(self, scores: Tensor) -> Tensor:
        """Return ``gamma [*, K, L]``: the E-step."""
        if isinstance(self.omega, Shannon):
            return scores.softmax(-2)
        return self.omega.argmax(scores, -2)

    def value(self, points: Points, scores: Tensor) -> Tensor:
        """Return J for given scores, in units of the frame, ``[*]``."""
        if isinstance(self.omega, Shannon):
            return (points.weights * scores.logsumexp(-2)).sum(-1)
        return (points.weights * self.omega.conjugate(scores.mT)).sum(-1)

    def maximise(self, points: Points, gamma: Tensor, whole: MixtureParameters) -> MixtureParameters:
        """Take the M-step. A component without mass has weight 0 from then on, and the moments of all points."""
        mass, mean, cov = points.moments(gamma)
        weights = mass / mass.sum(-1, keepdim=True) if self.mix is None else self.mix(mass)
        alive = (weights > 0).unsqueeze(-1)
        cov = self.hold_at_floor(points, torch.where(alive, cov, whole.cov.detach()))
        return MixtureParameters(weights, torch.where(alive, mean, whole.mean.detach()), cov)

    def hold_at_floor(self, points: Points, cov: Tensor) -> Tensor:
        """Return the covariances that fit scatter matrices best, none below the floor of the points."""
        return hold_at_floor(cov, points.floor.unsqueeze(-1), self.e, points.dimension)

    def step(self, points: Points, state: MixtureParameters, whole: MixtureParameters) -> MixtureParameters:
        """Take both steps."""
        return self.maximise(points, self.responsibilities(self.scores(points, state, whole)), whole)

    def run(
        self, points: Points, state: MixtureParameters, iterations: int, tolerance: float | None = None
    ) -> MixtureParameters:
        """Take several steps; with a tolerance an example stays as it is once J has grown by no more than that."""
        whole = self.fit_one(points)
        if tolerance is None:
            for _ in range(iterations):
                state = self.step(points, state, whole)
            return state
        before, done = None, None
        for _ in range(iterations):
            scores = self.scores(points, state, whole)
            with torch.no_grad():
                value = self.value(points, scores.detach())
                if before is not None:
                    # Where components are pruned J may fall, and that is no end.
                    still = (value - before if self.mix is None else (value - before).abs()) <= tolerance
                    done = still if done is None else done | still
                    if readable(done) and bool(done.all()):
                        break
                before = value
            new = self.maximise(points, self.responsibilities(scores), whole)
            state = new if done is None else state.where(done, new)
        return state

    def objective(self, points: Points, state: MixtureParameters) -> Tensor:
        """Return J, in the units that the positions came in, ``[*]``."""
        value = self.value(points, self.scores(points, state, self.fit_one(points)))
        return value - points.dimension * points.unit.log()
