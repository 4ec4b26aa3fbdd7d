r"""The beta-Gaussian: what entmax makes of a quadratic score over R^n.

With ``e = alpha - 1`` and ``n`` dimensions the density is ``exp(B) (1 - e q / 2c)^(1/e)`` where

.. math:: B = \frac{\delta(e, n) - \tfrac12 \log\det 2\pi\Sigma}{1 + en/2}, \qquad c = e^{eB}

and all that depends on alpha alone is ``delta``, :func:`omegamax._numerics.log_volume`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.distributions.utils import lazy_property

from omegamax._checks import check_above
from omegamax._first_order import FirstOrder, has_first_order
from omegamax._numerics import log_ratio, log_stretch, log_volume, log_volume_slope, phi
from omegamax.densities._quadratic import Quadratic, as_location
from omegamax.densities._root import MatchedRoot, Root, root_of_scale
from omegamax.densities._standard import cumulative, draw

Own = TypeVar("Own", bound="BetaGaussian")


class BetaGaussian(Quadratic):
    r"""The density of the quadratic score :math:`f(t) = -\tfrac12 (t - \mu)' \Sigma^{-1} (t - \mu)` under entmax.

    .. math:: p = \arg\max_p \; E_p[f(t)] - \Omega_\alpha(p)
                = \bigl[(\alpha - 1)(f(t) - \tau)\bigr]_+^{1 / (\alpha - 1)}

    A Gaussian at alpha = 1; a Student-t with ``2 / (1 - alpha) - n`` degrees of freedom below; above, compact: zero
    outside an ellipsoid. ``Sigma`` is the matrix of the score. The covariance is a multiple of it that depends on
    alpha and on the volume of ``Sigma``: use :meth:`from_moments` to start from a covariance.

    Everything is smooth in alpha, through 1 too: alpha may be learnt.

    Args:
        loc: the location mu, ``[*, n]``.
        scale: Sigma, ``[*, n, n]``. A number, a 0-d tensor or ``[*, 1, 1]`` is that multiple of the identity.
        alpha: above ``1 - 2/n``, where the density ceases to exist; a float or a tensor that broadcasts with the batch.
        scale_diag: instead of ``scale``, the diagonal of a diagonal Sigma, ``[*, n]``.
        scale_tril: instead of ``scale``, a lower triangular ``L`` with ``L L' = Sigma``, ``[*, n, n]``.

    Half precision is computed, and returned, in float32.

        >>> p = BetaGaussian(torch.zeros(1), 2 / 3, alpha=2.0)  # Epanechnikov's kernel
        >>> p.prob(torch.tensor([[0.0], [0.5], [1.5]]))
        tensor([0.7500, 0.5625, 0.0000])
        >>> p.variance
        tensor([0.2000])

    Reference: Martins et al. (NeurIPS 2020), eqs. 7, 10 and 11 for alpha = 2; Martins et al. (JMLR 2022) for any alpha.
    """

    def _assemble(self, loc: Tensor, root: Root, alpha: float | Tensor, validate_args: bool | None) -> None:
        super()._assemble(loc, root, alpha, validate_args)
        # Floats for a number alpha; otherwise tensors, computed in float64 and kept in the working dtype.
        e, n = self._wide_e(), self.dimension
        found: Any = (e, 1 + e * (n / 2), 1 + e * (n / 2 + 1), log_volume(e, n))
        self._e, self._g, self._spread, self._delta = map(self._cast, found) if isinstance(e, Tensor) else found

    def expand(self: Own, batch_shape: Any, _instance: Own | None = None) -> Own:
        new = super().expand(batch_shape, _instance)
        new._e, new._g, new._spread, new._delta = self._e, self._g, self._spread, self._delta
        return new

    @lazy_property
    def _log_peak(self) -> Tensor:
        return (self._delta - _gaussian_volume(self._root, self.dimension)) / self._g

    @lazy_property
    def _dilation(self) -> Tensor:
        return (self._e * self._log_peak).exp()

    @classmethod
    def from_moments(
        cls: type[Own],
        mean: Tensor,
        covariance: Tensor | float,
        alpha: float | Tensor = 2.0,
        *,
        validate_args: bool | None = None,
    ) -> Own:
        r"""Return the density with this mean ``[*, n]`` and covariance ``[*, n, n]`` (or a multiple of the identity).

        alpha must be above ``n / (n + 2)``: below, no covariance is finite.

            >>> BetaGaussian.from_moments(torch.zeros(1), 0.2).scale  # eq. 4.3: 2/3 (5 Var)^(3/2)
            tensor([[0.6667]])

        Reference: Farinhas (2021), eqs. 4.1 to 4.6 for alpha = 2.
        """
        name = f"{cls.__name__}.from_moments"
        mean = as_location(name, "mean", mean)
        n = mean.shape[-1]
        alpha = check_above(name, "alpha", alpha, n / (n + 2))
        root = root_of_scale(name, "covariance", covariance, n, mean, cls._validates(validate_args))
        return cls._from_root(mean, match_root(root, n, alpha, cls._validates(validate_args)), alpha, validate_args)

    @classmethod
    def _from_covariance(cls: type[Own], mean: Tensor, covariance: Tensor, alpha: float | Tensor) -> Own:
        """Return what :meth:`from_moments` does, of a covariance in full that is symmetric to the last bit."""
        n = mean.shape[-1]
        if n == 1:
            variance = covariance.squeeze(-1)
            root = Root(variance.sqrt(), True, variance)
        else:
            root = Root(None, False, covariance)
        return cls._from_root(mean, match_root(root, n, alpha, False), alpha, False)

    def marginal(self, indices: int | Sequence[int]) -> BetaGaussian:
        """Return the density of some of the coordinates: a beta-Gaussian again, with an alpha nearer to 1.

        >>> p = BetaGaussian(torch.zeros(3), 1.0, alpha=2.0).marginal([0])  # a biweight
        >>> p.alpha, p.event_shape
        (1.5, torch.Size([1]))
        """
        kept = [indices] if isinstance(indices, int) else list(indices)
        k, e = len(kept), self._wide_e()
        # The exponents 1/e of nested margins differ by 1/2 for each coordinate; the support casts its shadow.
        lost = 1 + e * ((self.dimension - k) / 2)
        e_kept = e / lost
        g = 1 + e_kept * (k / 2)
        root = self._root.take(kept)
        constant = self._cast(g * _log(lost) + e_kept * log_volume(e_kept, k))
        volume = self._cast(e_kept) * _gaussian_volume(root, k)
        log_factor = self._cast(g) * self._e * self._log_peak - constant + volume
        root = root.times((0.5 * log_factor).exp())
        return BetaGaussian._from_root(self._loc[..., kept], root, 1 + e_kept, self._validate_args)

    def escort(self, beta: float | Tensor) -> BetaGaussian:
        r"""Return the density proportional to :math:`p^\beta`: a beta-Gaussian again, of the same support.

        Its alpha is :math:`1 + (\alpha - 1) / \beta`, so that beta must be above 0, and above
        :math:`(1 - \alpha) n / 2`. At 0 it would be uniform on the support, which is no beta-Gaussian.

            >>> p = BetaGaussian(torch.zeros(1), 2 / 3, alpha=2.0).escort(2.0)  # a biweight
            >>> p.alpha, p.prob(torch.zeros(1)), p.support_radius * p.scale_tril[0, 0]
            (1.5, tensor(0.9375), tensor(1.))

        Reference: Martins et al. (NeurIPS 2020), Eq. 5.
        """
        n, e, name = self.dimension, self._wide_e(), f"{type(self).__name__}.escort"
        beta = check_above(name, "beta", beta, 0.0)
        ratio = e / _wide(beta)
        lowest = -2 / n
        if not isinstance(ratio, Tensor) and ratio <= lowest:
            raise ValueError(f"{name}: beta must be above {-e * n / 2:g} for alpha = {self.alpha:g}, got {beta:g}")
        # Sigma = s Sigma with (alpha' - 1) / (c' s) = (alpha - 1) / c, where c' depends on s as well.
        g = 1 + ratio * (n / 2)
        volume = self._cast(ratio) * _gaussian_volume(self._root, n) - self._cast(ratio * log_volume(ratio, n))
        log_factor = self._cast(g) * (self._e * self._log_peak - self._cast(_log(_wide(beta)))) + volume
        root = self._root.times((0.5 * log_factor).exp())
        return BetaGaussian._from_root(self._loc, root, 1 + ratio, self._validate_args)

    # --- Where it is

    @property
    def log_peak(self) -> Tensor:
        """Return the logarithm of the density at ``loc``, its maximum; ``[*]``."""
        return self._log_peak.expand(self._batch_shape)

    @property
    def dilation(self) -> Tensor:
        r"""Return ``c``, the peak to the power of alpha - 1, ``[*]``; 1 at alpha = 1.

        The density is :math:`p(\mu) \, [1 - (\alpha - 1) \, q / 2c]_+^{1/(\alpha - 1)}` at the squared Mahalanobis
        distance q, as if Sigma had been stretched by c.
        """
        return self._dilation.expand(self._batch_shape)

    @property
    def support_radius(self) -> Tensor:
        """Return the radius of the support in Mahalanobis' distance of Sigma, ``[*]``; inf for alpha <= 1."""
        if not isinstance(self._e, Tensor):
            return (2 / self._e * self.dilation).sqrt() if self._e > 0 else torch.full_like(self.log_peak, math.inf)
        bounded = self._e > 0
        radius = (2 * self._dilation / torch.where(bounded, self._e, 1.0)).sqrt()
        return torch.where(bounded, radius, math.inf).expand(self._batch_shape)

    @property
    def support_tril(self) -> Tensor:
        """Return ``[*, n, n]``: maps the unit ball onto the support, less ``loc``."""
        return self.support_radius[..., None, None] * self.scale_tril

    def boundary(self, points: int = 100) -> Tensor:
        """Return where the support ends: ``[*, points, 2]`` on its ellipse, or its two ends ``[*, 2, 1]``."""
        if self.dimension > 2:
            raise ValueError(f"{type(self).__name__}.boundary: needs 1 or 2 dimensions, got {self.dimension}")
        if not isinstance(self._e, Tensor) and self._e <= 0:
            raise ValueError(f"{type(self).__name__}.boundary: alpha must be > 1, got {self.alpha:g}")
        if self.dimension == 1:
            sphere = self.loc.new_tensor([[-1.0], [1.0]])
        else:
            angles = torch.arange(points, dtype=self.loc.dtype, device=self.loc.device) * (2 * math.pi / points)
            sphere = torch.stack([angles.cos(), angles.sin()], -1)
        return self.loc.unsqueeze(-2) + sphere @ self.support_tril.mT

    def support_contains(self, value: Tensor) -> Tensor:
        q = self._distance(value)
        return ~((self._e * q >= 2 * self._dilation) | q.isnan())

    def _distance(self, value: Tensor) -> Tensor:
        """Return ``q``, the squared Mahalanobis distance from the location; large, but never infinite."""
        q = self._root.whiten(value - self._loc).square().sum(-1)
        return q.clamp(max=torch.finfo(q.dtype).max / 1e3)

    # --- The density

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-density at points ``[*, n]``; -inf outside the support, with gradient 0 there."""
        if self._validate_args:
            self._validate_sample(value)
        e, q, width = self._e, self._distance(value), 2 * self._dilation
        if not isinstance(e, Tensor) and e <= 0:
            return self._log_peak - q / width if e == 0 else self._log_peak + (-e * q / width).log1p() / e
        outside = e * q >= width
        r = torch.where(outside, 0.0, q) / width
        bend = -r * log_ratio(-e * r) if isinstance(e, Tensor) else (-e * r).log1p() / e
        return torch.where(outside, -math.inf, self._log_peak + bend)

    def cdf(self, value: Tensor) -> Tensor:
        """Return the distribution function at points ``[*, 1]`` of the line; to about 1e-13, gradients to alpha too."""
        if self.dimension != 1:
            raise NotImplementedError(f"{type(self).__name__}.cdf: needs one dimension, got {self.dimension}")
        if self._validate_args:
            self._validate_sample(value)
        s = self._root.whiten(value - self._loc).squeeze(-1) / (2 * self._dilation).sqrt()
        return cumulative(s, self._e, self._delta)

    def rsample(self, sample_shape: Any = torch.Size()) -> Tensor:  # noqa: B008
        """Return points ``sample_shape + [*, n]``, with gradients to ``loc``, the scale and alpha."""
        shape = self._extended_shape(sample_shape)
        x = draw(shape[:-1], self.dimension, self._e, self.loc)
        return self.loc + self._root.colour(x * self._dilation.sqrt().unsqueeze(-1))

    # --- Moments

    @property
    def mean(self) -> Tensor:
        """Return ``[*, n]``; NaN where there is none, for alpha <= 1 - 2 / (n + 1)."""
        exists = self._spread - 0.5 * self._e > 0
        if isinstance(exists, Tensor):
            return torch.where(exists.unsqueeze(-1), self.loc, math.nan)
        return self.loc if exists else torch.full_like(self.loc, math.nan)

    @property
    def mode(self) -> Tensor:
        """Return ``[*, n]``."""
        return self.loc

    @property
    def covariance_matrix(self) -> Tensor:
        """Return a multiple of Sigma, ``[*, n, n]``; inf for alpha <= n / (n + 2), NaN where there is no mean."""
        ratio = self._variance_ratio[..., None, None]
        finite = ratio.isfinite()
        return torch.where(finite, torch.where(finite, ratio, 1.0) * self.scale, ratio)

    @property
    def _variance_ratio(self) -> Tensor:
        """Return the covariance in units of Sigma, ``[*]``."""
        e, spread = self._e, self._spread
        if isinstance(spread, Tensor):
            heavy = torch.where(spread - 0.5 * e > 0, math.inf, math.nan)
            ratio = torch.where(spread > 0, self._dilation / torch.where(spread > 0, spread, 1.0), heavy)
            return ratio.expand(self._batch_shape)
        if spread > 0:
            return self.dilation / spread
        return torch.full_like(self.dilation, math.inf if spread - 0.5 * e > 0 else math.nan)

    def entropy(self) -> Tensor:
        """Return Shannon's, ``[*]``."""
        e, n = self._wide_e(), self.dimension
        return n / 2 - self._cast(e * log_volume_slope(e, n)) - self.log_peak

    def tsallis_entropy(self) -> Tensor:
        r"""Return :math:`-\Omega_\alpha(p)`, ``[*]``; inf for alpha <= n / (n + 2), undefined (NaN) for alpha <= 0."""
        spread, alpha = self._spread, self._e + 1
        log_partition = -self._log_peak * phi(self._e * self._log_peak)
        if isinstance(spread, Tensor):
            finite = spread > 0
            heavy = torch.where(alpha > 0, math.inf, math.nan)
            half = self.dimension / (2 * torch.where(finite, alpha, 1.0))
            entropy = (log_partition + half) / torch.where(finite, spread, 1.0)
            return torch.where(finite, entropy, heavy).expand(self._batch_shape)
        if spread > 0:
            return ((log_partition + self.dimension / (2 * alpha)) / spread).expand(self._batch_shape)
        return torch.full_like(self.log_peak, math.inf if alpha > 0 else math.nan)

    def _wide_e(self) -> Any:
        """Return alpha - 1, in float64."""
        return _wide(self.alpha) - 1

    def _cast(self, value: Any) -> Any:
        return _like(value, self._loc)


def match_root(root: Root, n: int, alpha: float | Tensor, at_once: bool) -> Root:
    """Return the root of the Sigma of the density of alpha that has the covariance of this root.

    ``at_once``: Sigma is made now, and not only when someone asks for it.
    """
    e = _wide(alpha) - 1
    if not isinstance(e, Tensor) and e == 0:
        return root
    if n == 1 and not isinstance(e, Tensor):  # the same as below, in few operations: a power of the deviation
        return Root(math.exp(0.5 * log_stretch(e, 1)) * root.values.pow(1 + e / 2), True)
    if n == 2 and not isinstance(alpha, Tensor) and not root.diagonal:  # Sigma itself: whoever needs a factor makes one
        square, match = root.gram(), partial(stretch_in_plane, e=e)
        if at_once or not has_first_order(square):
            return Root(None, False, match(square))
        return MatchedRoot(square, alpha, match)
    log_factor = _like(log_stretch(e, n), root.values) + _like(e, root.values) * root.log_det()
    return root.times((0.5 * log_factor).exp())


def stretch_in_plane(covariance: Tensor, e: float) -> Tensor:
    """Return the Sigma of covariances ``[*, 2, 2]``, for alpha = 1 + e."""
    stretch = partial(_stretch, scale=math.exp(log_stretch(e, 2)), power=e / 2)
    if has_first_order(covariance):
        return FirstOrder.apply(stretch, _pull_stretch_back, lambda c: stretch(c)[0][0], covariance)
    return stretch(covariance)[0][0]


def _stretch(square: Tensor, scale: float, power: float) -> tuple[tuple[Tensor], tuple[Tensor, Tensor, Tensor]]:
    """Return ``k C`` with ``k = scale det(C)^power``, for C ``[*, 2, 2]``; and C, k, and the slope of k in det(C)."""
    a, b, c = square[..., :1, :1], square[..., 1:, :1], square[..., 1:, 1:]
    determinant = a * (c - b.square() / a)  # by the pivots: a c - b^2 would lose the digits of a thin ellipse
    k = scale * determinant.pow(power)
    return (k * square,), (square, k, k * power / determinant)


def _pull_stretch_back(square: Tensor, k: Tensor, slope: Tensor, g: Tensor) -> tuple[Tensor]:
    # The derivative of a determinant is the adjugate: tr(C) I - C in the plane.
    trace = square.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None]
    adjugate = trace * torch.eye(2, dtype=square.dtype, device=square.device) - square
    moved = (g * square).sum((-2, -1), keepdim=True)
    return (torch.addcmul(g * k, moved * slope, adjugate),)


def _gaussian_volume(root: Root, n: int) -> Tensor:
    """Return ``log det(2 pi Sigma) / 2``, ``[*]``."""
    return root.log_det() + 0.5 * n * math.log(2 * math.pi)


def _wide(alpha: Any) -> Any:
    if not isinstance(alpha, Tensor) or alpha.device.type == "mps":  # Apple's devices have no float64
        return alpha
    return alpha.double()


def _like(value: Any, like: Tensor) -> Any:
    return value.to(like) if isinstance(value, Tensor) else value


def _log(value: Any) -> Any:
    return value.log() if isinstance(value, Tensor) else math.log(value)
