"""The beta-Laplace family: what a score that falls off linearly from its peak becomes, for every alpha > 0."""

from __future__ import annotations

import math
from typing import ClassVar, TypeVar

import torch
from torch import Tensor

from omegamax._checks import check_above
from omegamax._numerics import phi
from omegamax.densities._deformed import deformed_log_power
from omegamax.densities._line import LineDensity

Own = TypeVar("Own", bound="_NamedBetaLaplace")


class BetaLaplace(LineDensity):
    r"""Density over the line for the score :math:`f(t) = -|t - \mu| / b`.

    .. math:: p(t) = \Bigl[(\alpha - 1) \frac{a - |t - \mu|}{b}\Bigr]_+^{1/(\alpha - 1)} \quad (\alpha > 1), \qquad
              p(\mu) = \Bigl(\frac{\alpha}{2b}\Bigr)^{1/\alpha}

    For alpha > 1 the support is :math:`[\mu - a, \mu + a]` with :math:`(\alpha - 1) a = b \, p(\mu)^{\alpha - 1}`;
    alpha = 1 is Laplace's density, 2 the triangular one. For alpha < 1 the tails are those of the power
    :math:`|t|^{-1/(1 - \alpha)}`, integrable for every alpha > 0; the mean exists for alpha > 1/2 (NaN otherwise), and
    so does the Tsallis entropy; the variance for alpha > 2/3. Values and gradients are smooth through alpha = 1.

    In units of :math:`s = b \, p(\mu)^{\alpha - 1}` the distance :math:`|t - \mu|` has the generalised Pareto
    distribution of shape :math:`(1 - \alpha) / \alpha` and scale :math:`1 / \alpha`. There is no ``from_canonical``:
    the score is linear in :math:`1/b`, but not in any function of the location.

    Args:
        loc: the peak :math:`\mu`, ``[*, 1]``.
        scale: :math:`b > 0` of the score, which is not the deviation; ``[*, 1]`` or a number.
        alpha: > 0; a float or a tensor ``[*]``, gradients reach it.

        >>> density = BetaLaplace(torch.zeros(1), 4.0, alpha=2.0)
        >>> density.prob(torch.tensor([[0.0], [1.0], [3.0]]))
        tensor([0.5000, 0.2500, 0.0000])
        >>> density.support_radius
        tensor(2.)

    Reference: Martins et al. (NeurIPS 2020), Eq. 12 for alpha = 2; the other alphas follow from their Prop. 1.
    """

    def __init__(
        self, loc: Tensor, scale: float | Tensor, alpha: float | Tensor = 2.0, validate_args: bool | None = None
    ):
        super().__init__(loc, scale, alpha, validate_args)

    @classmethod
    def from_moments(
        cls,
        mean: Tensor,
        covariance: Tensor | float,
        alpha: float | Tensor = 2.0,
        *,
        validate_args: bool | None = None,
    ) -> BetaLaplace:
        """Return the member with this mean ``[*, 1]`` and covariance (a number or ``[*, 1, 1]``); alpha > 2/3."""
        check_above(f"{cls.__name__}.from_moments", "alpha", alpha, 2 / 3)
        scale = _scale_of_covariance(f"{cls.__name__}.from_moments", covariance, alpha, mean)
        return cls(mean, scale, alpha, validate_args)

    def escort(self, beta: float | Tensor) -> BetaLaplace:
        r"""Return the density proportional to :math:`p^\beta`: a beta-Laplace again, of the same support.

        .. math:: \alpha' = 1 + \frac{\alpha - 1}{\beta}, \qquad
                  b' = \Bigl(\frac s\beta\Bigr)^{\alpha'} \Bigl(\frac{2}{\alpha'}\Bigr)^{\alpha' - 1}, \qquad
                  s = b \, p(\mu)^{\alpha - 1}

        beta, a number or a tensor ``[*]``, must be above 0, and above :math:`1 - \alpha`. At 0 it would be uniform on
        the support, which is no beta-Laplace.

            >>> p = BetaLaplace(torch.zeros(1), 4.0, alpha=2.0).escort(2.0)
            >>> p.alpha, p.prob(torch.zeros(1)), p.support_radius
            (1.5, tensor(0.7500), tensor(2.))

        Reference: Martins et al. (NeurIPS 2020), Eq. 5.
        """
        name = f"{type(self).__name__}.escort"
        beta = check_above(name, "beta", beta, 0.0)
        alpha = 1 + (self.alpha - 1) / beta
        if not isinstance(alpha, Tensor) and alpha <= 0:
            raise ValueError(f"{name}: beta must be above {1 - self.alpha:g} for alpha = {self.alpha:g}, got {beta:g}")
        unit = self._unit / (beta.unsqueeze(-1) if isinstance(beta, Tensor) else beta)
        scale = _scale_of_unit(unit, alpha.unsqueeze(-1) if isinstance(alpha, Tensor) else unit.new_tensor(alpha))
        return BetaLaplace(self.loc, scale, alpha, self._validate_args)

    @property
    def mean(self) -> Tensor:
        return torch.where(self._each > 0.5, self.loc, math.nan)

    @property
    def covariance_matrix(self) -> Tensor:
        alpha = self._each
        finite = alpha > 2 / 3
        safe = torch.where(finite, alpha, 1.0)
        value = 2 * self._unit.square() / ((2 * safe - 1) * (3 * safe - 2))
        return torch.where(finite, value, torch.where(alpha > 0.5, math.inf, math.nan)).unsqueeze(-1)

    @property
    def support_radius(self) -> Tensor:
        """Return half the width ``a`` of the support, ``[*]``; infinite for alpha <= 1."""
        e = self._each - 1
        compact = e > 0
        return torch.where(compact, self._unit / torch.where(compact, e, 1.0), math.inf).squeeze(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        drop = (value - self.loc).abs() / self._unit
        return deformed_log_power(self._level, drop, self._each - 1).squeeze(-1)

    def cdf(self, value: Tensor) -> Tensor:
        """Return mass to the left of points ``[*, 1]``, ``[*]``."""
        self._check(value)
        x = (value - self.loc) / self._unit
        half = 0.5 * self._tail(x.abs(), self._each)
        return torch.where(x < 0, half, 1 - half).squeeze(-1)

    def entropy(self) -> Tensor:
        return (1 / self._each - self._level).squeeze(-1)

    def tsallis_entropy(self) -> Tensor:
        alpha = self._each
        finite = alpha > 0.5
        safe = torch.where(finite, alpha, 1.0)
        value = (1 + safe * self._normaliser) / (safe * (2 * safe - 1))
        return torch.where(finite, value, math.inf).squeeze(-1)

    def mean_distance(self, points: Tensor) -> Tensor:
        r"""Return :math:`E_p|t - x|` for points x ``[*, 1]``, ``[*]``; infinite for alpha <= 1/2.

        It is :math:`|x - \mu|` and twice the integral of the tail beyond it.
        """
        alpha = self._each
        finite = alpha > 0.5
        safe = torch.where(finite, 2 * alpha - 1, 1.0)
        offset = points - self.loc
        distance = torch.where(offset < 0, -offset, offset)  # not abs: its curvature at 0 would be lost with the sign
        beyond = self._unit / safe * self._tail(distance / self._unit, safe)
        return torch.where(finite, distance + beyond, math.inf).squeeze(-1)

    @property
    def _each(self) -> Tensor:
        """Return alpha as ``[*, 1]``."""
        return self.alpha.unsqueeze(-1) if isinstance(self.alpha, Tensor) else self.loc.new_tensor([self.alpha])

    @property
    def _level(self) -> Tensor:
        """Return log p at the peak: the integral is ``2 b p(mu)^alpha / alpha`` whatever the sign of alpha - 1."""
        return (self._each / (2 * self.scale)).log() / self._each

    @property
    def _unit(self) -> Tensor:
        return self.scale * ((self._each - 1) * self._level).exp()

    @property
    def _normaliser(self) -> Tensor:
        """Return ``A`` of Prop. 1: ``(1 - c) / (alpha - 1)`` for ``c = p(mu)^(alpha - 1)``."""
        return -self._level * phi((self._each - 1) * self._level)

    def _tail(self, r: Tensor, power: Tensor) -> Tensor:
        """Return ``[1 - e r]_+^(power / e)``, which is P(|t - mu| > r units) if the power is alpha."""
        log_base = deformed_log_power(torch.zeros_like(r), r, self._each - 1)
        inside = log_base != -math.inf  # minus infinity times a power would send a NaN back
        return torch.where(inside, (power * torch.where(inside, log_base, 0.0)).exp(), 0.0)

    def _at(self, tail: Tensor, sign: Tensor) -> Tensor:
        alpha = self._each
        positive = tail > 0
        log_tail = torch.where(positive, tail, 1.0).log() / alpha
        reach = -log_tail * phi((alpha - 1) * log_tail)
        return self.loc + sign * torch.where(positive, self._unit * reach, self.support_radius.unsqueeze(-1))


class _NamedBetaLaplace(BetaLaplace):
    """A beta-Laplace whose alpha is a matter of its class."""

    ALPHA: ClassVar[float]

    def __init__(self, loc: Tensor, scale: float | Tensor, validate_args: bool | None = None):
        super().__init__(loc, scale, self.ALPHA, validate_args)

    @classmethod
    def from_moments(  # type: ignore[override]
        cls: type[Own], mean: Tensor, covariance: Tensor | float, *, validate_args: bool | None = None
    ) -> Own:
        """Return the one with this mean ``[*, 1]`` and covariance (a number or ``[*, 1, 1]``)."""
        scale = _scale_of_covariance(f"{cls.__name__}.from_moments", covariance, cls.ALPHA, mean)
        return cls(mean, scale, validate_args)


class Laplace(_NamedBetaLaplace):
    r"""Laplace's density :math:`\exp(-|t - \mu| / b) / 2b`: the continuous softmax of :math:`-|t - \mu| / b`.

    Args:
        loc: :math:`\mu`, ``[*, 1]``.
        scale: :math:`b > 0`, ``[*, 1]`` or a number.

        >>> Laplace(torch.zeros(1), 0.5).prob(torch.zeros(1))
        tensor(1.)

    Reference: Martins et al. (NeurIPS 2020), Sec. 2.1.
    """

    ALPHA = 1.0


class Triangular(_NamedBetaLaplace):
    r"""Triangular density, the continuous sparsemax of :math:`-|t - \mu| / b`.

    .. math:: p(t) = \Bigl[\frac{1}{\sqrt b} - \frac{|t - \mu|}{b}\Bigr]_+

    Args:
        loc: :math:`\mu`, ``[*, 1]``.
        scale: :math:`b > 0`, ``[*, 1]`` or a number; the support reaches :math:`\sqrt b` to either side.

        >>> Triangular(torch.zeros(1), 4.0).variance
        tensor([0.6667])

    Reference: Martins et al. (NeurIPS 2020), Eq. 12.
    """

    ALPHA = 2.0


def _scale_of_covariance(name: str, covariance: Tensor | float, alpha: float | Tensor, like: Tensor) -> Tensor:
    """Return b with ``2 s^2 / ((2 alpha - 1)(3 alpha - 2))`` the variance, s = b p(mu)^(alpha - 1)."""
    if not isinstance(covariance, Tensor):
        covariance = like.new_tensor([[covariance]])
    if covariance.shape[-2:] != (1, 1):
        raise ValueError(f"{name}: covariance must be a number or [*, 1, 1], got shape {tuple(covariance.shape)}")
    each = alpha.unsqueeze(-1) if isinstance(alpha, Tensor) else covariance.new_tensor(alpha)
    return _scale_of_unit((covariance.squeeze(-1) * (2 * each - 1) * (3 * each - 2) / 2).sqrt(), each)


def _scale_of_unit(unit: Tensor, alpha: Tensor) -> Tensor:
    """Return b for the unit ``s = b p(mu)^(alpha - 1)``."""
    return unit.pow(alpha) * (2 / alpha).pow(alpha - 1)
