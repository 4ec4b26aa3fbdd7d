"""The beta-Gaussian: what entmax makes of a quadratic score over R^n."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.distributions import constraints
from torch.distributions.utils import lazy_property

from omegamax._checks import check_above, is_number, is_plain, readable
from omegamax._numerics import phi, working_dtype
from omegamax.densities._base import Density
from omegamax.densities._normaliser import log_ratio, log_volume, log_volume_slope
from omegamax.densities._root import Root, inverse_root, root_of_diagonal, root_of_scale, root_of_tril


class BetaGaussian(Density):
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
        >>> p.prob(torch.tensor([[0.0], [0.5], [1.0], [2.0]]))
        tensor([0.7500, 0.5625, 0.0000, 0.0000])
        >>> p.support_radius * p.scale_tril
        tensor([[1.0000]])
        >>> p.variance
        tensor([0.2000])

    Reference: Martins et al. (NeurIPS 2020), eqs. 7, 10 and 11 for alpha = 2; Martins et al. (JMLR 2022) for any alpha.
    """

    alpha: float | Tensor
    arg_constraints = {  # noqa: RUF012
        "loc": constraints.real_vector,
        "scale": constraints.positive_definite,
        "scale_diag": constraints.independent(constraints.positive, 1),
        "scale_tril": constraints.lower_cholesky,
        "alpha": constraints.dependent,  # its bound depends on n, and is checked below
    }
    # The density is defined, and zero, outside its ellipsoid too: see support_contains.
    support = constraints.real_vector

    def __init__(
        self,
        loc: Tensor,
        scale: Tensor | float | None = None,
        alpha: float | Tensor = 2.0,
        *,
        scale_diag: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ):
        name = type(self).__name__
        loc = _location(name, "loc", loc)
        n = loc.shape[-1]
        given = [scale is not None, scale_diag is not None, scale_tril is not None]
        if sum(given) != 1:
            raise ValueError(f"{name}: give one of scale, scale_diag and scale_tril, got {sum(given)} of them")
        full = None
        if scale_diag is not None:
            root = root_of_diagonal(name, "scale_diag", scale_diag, n, loc)
        elif scale_tril is not None:
            root = root_of_tril(name, "scale_tril", scale_tril, n, loc)
        else:
            assert scale is not None
            root, full = root_of_scale(name, "scale", scale, n, loc)
        self._assemble(loc, root, alpha, validate_args, full)

    def _assemble(
        self,
        loc: Tensor,
        root: Root,
        alpha: float | Tensor,
        validate_args: bool | None = None,
        scale: Tensor | None = None,
    ) -> BetaGaussian:
        """Set every attribute; what ``__init__`` and the other ways to make a density share."""
        name = type(self).__name__
        n = loc.shape[-1]
        alpha = check_above(name, "alpha", alpha, 1 - 2 / n)
        shapes = [loc.shape[:-1], root.batch_shape]
        if isinstance(alpha, Tensor):
            if not alpha.is_floating_point():
                raise TypeError(f"{name}: alpha must be a float or a floating-point tensor, got dtype {alpha.dtype}")
            shapes.append(alpha.shape)
            if readable(alpha) and bool(alpha.isinf().any()):
                raise ValueError(f"{name}: alpha must be finite everywhere, got inf")
        elif alpha == math.inf:
            raise ValueError(f"{name}: alpha must be finite, got inf")
        try:
            batch = torch.broadcast_shapes(*shapes)
        except RuntimeError:
            listed = ", ".join(str(tuple(shape)) for shape in shapes)
            raise ValueError(f"{name}: batch shapes of loc, scale and alpha do not broadcast, got {listed}") from None
        loc = loc.to(root.dtype)
        self._root = root
        self._loc = loc  # not yet broadcast
        self.loc = loc.expand((*batch, n))
        self.alpha = alpha.expand(batch) if isinstance(alpha, Tensor) else alpha
        # The one form that was given; torch checks it. The others are made when asked for.
        if scale is not None:
            self.scale = scale.expand((*batch, n, n))
        elif root.diagonal:
            self.scale_diag = root.values.square().expand((*batch, n))
        else:
            self.scale_tril = root.values.expand((*batch, n, n))
        # Floats for a number alpha, otherwise tensors: computed in float64, kept in the working dtype.
        e: Any = _wide(alpha) - 1 if isinstance(alpha, Tensor) else alpha - 1.0
        self._e: Any = _cast(e, loc)
        self._g: Any = _cast(1 + e * (n / 2), loc)
        self._spread: Any = _cast(1 + e * (n / 2 + 1), loc)
        self._delta: Any = _cast(log_volume(e, n), loc)
        self._log_peak = (self._delta - 0.5 * n * math.log(2 * math.pi) - root.log_det()) / self._g
        self._dilation = (self._e * self._log_peak).exp()
        if validate_args is None and not is_plain(loc, root.values):
            validate_args = False  # values cannot be looked at while they are traced or mapped over
        super().__init__(batch, torch.Size([n]), validate_args=validate_args)
        return self

    @classmethod
    def from_moments(
        cls,
        mean: Tensor,
        covariance: Tensor | float,
        alpha: float | Tensor = 2.0,
        *,
        validate_args: bool | None = None,
    ) -> BetaGaussian:
        r"""The density with this mean ``[*, n]`` and covariance ``[*, n, n]`` (or a multiple of the identity).

        alpha must be above ``n / (n + 2)``: below, no covariance is finite.

            >>> BetaGaussian.from_moments(torch.zeros(1), 0.2).scale  # eq. 4.3: 2/3 (5 Var)^(3/2)
            tensor([[0.6667]])

        Reference: Farinhas (2021), eqs. 4.1 to 4.6 for alpha = 2.
        """
        name = f"{cls.__name__}.from_moments"
        mean = _location(name, "mean", mean)
        n = mean.shape[-1]
        alpha = check_above(name, "alpha", alpha, n / (n + 2))
        root, _ = root_of_scale(name, "covariance", covariance, n, mean)
        e: Any = _wide(alpha) - 1 if isinstance(alpha, Tensor) else alpha - 1.0
        spread = 1 + e * (n / 2 + 1)
        # Sigma = k Cov with log k = g log(g + e) - e (delta - A(Cov)), A the logarithm of the Gaussian's volume.
        constant = _cast((1 + e * (n / 2)) * _log(spread) - e * log_volume(e, n), root.values)
        volume = root.log_det() + 0.5 * n * math.log(2 * math.pi)
        root = root.times((0.5 * (constant + _cast(e, root.values) * volume)).exp())
        return cls.__new__(cls)._assemble(mean, root, alpha, validate_args)

    @classmethod
    def from_canonical(
        cls,
        theta1: Tensor,
        theta2: Tensor | float,
        alpha: float | Tensor = 2.0,
        *,
        validate_args: bool | None = None,
    ) -> BetaGaussian:
        r"""The density of the score ``theta1' t + t' theta2 t``: ``[*, n]`` and ``[*, n, n]``, negative definite.

            >>> p = BetaGaussian.from_canonical(torch.tensor([2.0]), torch.tensor([[-0.5]]), alpha=1.0)
            >>> p.loc, p.scale
            (tensor([2.]), tensor([[1.]]))

        Reference: Martins et al. (NeurIPS 2020), section 2.4.
        """
        name = f"{cls.__name__}.from_canonical"
        theta1 = _location(name, "theta1", theta1)
        if not isinstance(theta2, Tensor) and not is_number(theta2):
            raise TypeError(f"{name}: theta2 must be a float or a tensor, got {type(theta2).__name__}")
        root = inverse_root(root_of_scale(name, "-2 theta2", -2 * theta2, theta1.shape[-1], theta1)[0])
        loc = root.colour(root.colour_transposed(theta1.to(root.dtype)))
        return cls.__new__(cls)._assemble(loc, root, alpha, validate_args)

    def expand(self, batch_shape: Any, _instance: BetaGaussian | None = None) -> BetaGaussian:
        new: Any = type(self).__new__(type(self)) if _instance is None else _instance
        batch = torch.Size(batch_shape)
        sizes = {"loc": 1, "scale": 2, "scale_diag": 1, "scale_tril": 2}
        for name, value in self.__dict__.items():
            new.__dict__[name] = value.expand(batch + value.shape[-sizes[name] :]) if name in sizes else value
        new._loc = new.loc
        new.alpha = self.alpha.expand(batch) if isinstance(self.alpha, Tensor) else self.alpha
        new._batch_shape = batch
        return new

    # --- Parameters

    @property
    def dimension(self) -> int:
        """n"""
        return self._event_shape[0]

    @lazy_property
    def scale(self) -> Tensor:
        """Sigma, ``[*, n, n]``."""
        n = self.dimension
        return self._root.gram().expand((*self._batch_shape, n, n))

    @lazy_property
    def scale_diag(self) -> Tensor:
        """The diagonal of Sigma, ``[*, n]``."""
        return self.scale.diagonal(dim1=-2, dim2=-1)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor L of Sigma, ``[*, n, n]``."""
        n = self.dimension
        return self._root.tril().expand((*self._batch_shape, n, n))

    @property
    def canonical(self) -> tuple[Tensor, Tensor]:
        r"""``(theta1, theta2)`` of shapes ``[*, n]`` and ``[*, n, n]``: the score is ``theta1' t + t' theta2 t``.

        .. math:: \theta_1 = \Sigma^{-1} \mu, \qquad \theta_2 = -\tfrac12 \Sigma^{-1}
        """
        half = self._root.whiten_matrix(torch.eye(self.dimension).to(self.loc))
        precision = (half.mT @ half).expand((*self._batch_shape, self.dimension, self.dimension))
        return (precision @ self.loc.unsqueeze(-1)).squeeze(-1), -0.5 * precision

    @property
    def log_peak(self) -> Tensor:
        """The logarithm of the density at ``loc``, its maximum; ``[*]``."""
        return self._log_peak.expand(self._batch_shape)

    @property
    def dilation(self) -> Tensor:
        r"""``c``, the peak to the power of alpha - 1, ``[*]``; 1 at alpha = 1.

        The density is :math:`p(\mu) \, [1 - (\alpha - 1) \, q / 2c]_+^{1/(\alpha - 1)}` at the squared Mahalanobis
        distance q, as if Sigma had been stretched by c.
        """
        return self._dilation.expand(self._batch_shape)

    @property
    def support_radius(self) -> Tensor:
        """The radius of the support in Mahalanobis' distance of Sigma, ``[*]``; inf for alpha <= 1."""
        if not isinstance(self._e, Tensor):
            return (2 / self._e * self.dilation).sqrt() if self._e > 0 else torch.full_like(self.log_peak, math.inf)
        bounded = self._e > 0
        radius = (2 * self._dilation / torch.where(bounded, self._e, 1.0)).sqrt()
        return torch.where(bounded, radius, math.inf).expand(self._batch_shape)

    @property
    def support_tril(self) -> Tensor:
        """``[*, n, n]``: maps the unit ball onto the support, less ``loc``."""
        return self.support_radius[..., None, None] * self.scale_tril

    def boundary(self, points: int = 100) -> Tensor:
        """Where the support ends: ``[*, points, 2]`` on its ellipse, or its two ends ``[*, 2, 1]``."""
        if self.dimension > 2:
            raise ValueError(f"{type(self).__name__}.boundary: needs 1 or 2 dimensions, got {self.dimension}")
        if self.dimension == 1:
            sphere = self.loc.new_tensor([[-1.0], [1.0]])
        else:
            angles = torch.arange(points).to(self.loc) * (2 * math.pi / points)
            sphere = torch.stack([angles.cos(), angles.sin()], -1)
        return self.loc.unsqueeze(-2) + sphere @ self.support_tril.mT

    # --- The density

    def _distance(self, value: Tensor) -> Tensor:
        """``q / 2c``: half the squared Mahalanobis distance, 1 / (alpha - 1) where the support ends."""
        return self._root.whiten(value - self._loc).square().sum(-1) / (2 * self._dilation)

    def log_prob(self, value: Tensor) -> Tensor:
        """At points ``[*, n]``; -inf outside the support, with gradient 0 there."""
        if self._validate_args:
            self._validate_sample(value)
        e = self._e
        r = self._distance(value)
        if not isinstance(e, Tensor) and e <= 0:
            return self._log_peak - r if e == 0 else self._log_peak + (-e * r).log1p() / e
        outside = e * r >= 1
        r = torch.where(outside, 0.0, r)
        bend = -r * log_ratio(-e * r) if isinstance(e, Tensor) else (-e * r).log1p() / e
        return torch.where(outside, -math.inf, self._log_peak + bend)

    def support_contains(self, value: Tensor) -> Tensor:
        return self._e * self._distance(value) < 1

    # --- Moments

    @property
    def mean(self) -> Tensor:
        """``[*, n]``; NaN where there is none, for alpha <= 1 - 2 / (n + 1)."""
        exists = self._spread - 0.5 * self._e > 0
        if isinstance(exists, Tensor):
            return torch.where(exists.unsqueeze(-1), self.loc, math.nan)
        return self.loc if exists else torch.full_like(self.loc, math.nan)

    @property
    def mode(self) -> Tensor:
        """``[*, n]``"""
        return self.loc

    @property
    def covariance_matrix(self) -> Tensor:
        """A multiple of Sigma, ``[*, n, n]``; inf for alpha <= n / (n + 2), NaN where there is no mean."""
        ratio = self._variance_ratio[..., None, None]
        return torch.where(ratio.isfinite(), ratio, 1.0) * self.scale + torch.where(ratio.isfinite(), 0.0, ratio)

    @property
    def _variance_ratio(self) -> Tensor:
        """The covariance in units of Sigma, ``[*]``."""
        e, spread = self._e, self._spread
        if isinstance(spread, Tensor):
            heavy = torch.where(spread - 0.5 * e > 0, math.inf, math.nan)
            ratio = torch.where(spread > 0, self._dilation / torch.where(spread > 0, spread, 1.0), heavy)
            return ratio.expand(self._batch_shape)
        if spread > 0:
            return self.dilation / spread
        return torch.full_like(self.dilation, math.inf if spread - 0.5 * e > 0 else math.nan)

    def entropy(self) -> Tensor:
        """Shannon's, ``[*]``."""
        alpha = self.alpha
        e: Any = _wide(alpha) - 1 if isinstance(alpha, Tensor) else alpha - 1.0
        n = self.dimension
        return n / 2 - _cast(e * log_volume_slope(e, n), self.loc) - self.log_peak

    def tsallis_entropy(self) -> Tensor:
        r""":math:`-\Omega_\alpha(p)`, ``[*]``; inf for alpha <= n / (n + 2), undefined (NaN) for alpha <= 0."""
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

    # --- Samples

    def rsample(self, sample_shape: Any = torch.Size()) -> Tensor:  # noqa: B008
        r"""Points ``sample_shape + [*, n]``, with gradients to ``loc``, the scale and alpha.

        No rejection, no gamma variate: a normal vector ``z`` is pulled in (alpha > 1) or pushed out (alpha < 1), by a
        factor that is smooth in alpha and 1 at alpha = 1. In an even dimension ``1 - (alpha - 1) q / 2c`` is a product
        of powers ``U_j^(e / (1 + je))`` of uniform variables, j = 1 ... n/2, and an odd one is a margin of the next.
        """
        shape = self._extended_shape(sample_shape)
        n, e = self.dimension, self._e
        even = n + n % 2
        still = not isinstance(e, Tensor) and e == 0
        z = torch.randn((*shape[:-1], n if still else even), dtype=self.loc.dtype, device=self.loc.device)
        if still:
            return self.loc + self._root.colour(z)
        energy = 0.5 * z.square().sum(-1)
        if even == 2:
            pace = 1 / self._g
        else:  # the logarithms -log U_j add up to the energy; how they share it is another matter
            shares = torch.empty((*shape[:-1], even // 2), dtype=z.dtype, device=z.device).exponential_()
            steps = torch.arange(even // 2).to(z) + (0.5 if n % 2 else 1.0)
            paces = 1 / (1 + (e.unsqueeze(-1) if isinstance(e, Tensor) else e) * steps)
            pace = (shares * paces).sum(-1) / shares.sum(-1)
        pull = (self._dilation * pace * phi(-e * energy * pace)).sqrt()
        return self.loc + self._root.colour(z[..., :n] * pull.unsqueeze(-1))

    def __repr__(self) -> str:
        alpha = tuple(self.alpha.shape) if isinstance(self.alpha, Tensor) else self.alpha
        return f"{type(self).__name__}(loc: {tuple(self.loc.shape)}, alpha: {alpha})"


def _location(name: str, argument: str, loc: Tensor) -> Tensor:
    if not isinstance(loc, Tensor):
        raise TypeError(f"{name}: {argument} must be a torch.Tensor [*, n], got {type(loc).__name__}")
    if not loc.is_floating_point():
        raise TypeError(f"{name}: {argument} must be a floating-point tensor, got dtype {loc.dtype}")
    if loc.dim() == 0 or loc.shape[-1] == 0:
        raise ValueError(f"{name}: {argument} must have shape [*, n] with n >= 1, got {tuple(loc.shape)}")
    return loc.to(working_dtype(loc))


def _wide(alpha: Tensor) -> Tensor:
    return alpha if alpha.device.type == "mps" else alpha.double()  # Apple's devices have no float64


def _log(value: Any) -> Any:
    return value.log() if isinstance(value, Tensor) else math.log(value)


def _cast(value: float | Tensor, like: Tensor) -> float | Tensor:
    return value.to(like) if isinstance(value, Tensor) else value
