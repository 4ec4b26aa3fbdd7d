"""Members of the beta-Gaussian family that have a name."""

from __future__ import annotations

from typing import ClassVar, TypeVar

import torch

from omegamax.densities._beta_gaussian import BetaGaussian

Own = TypeVar("Own", bound="_NamedBetaGaussian")


class _NamedBetaGaussian(BetaGaussian):
    """A beta-Gaussian whose alpha is a matter of its class."""

    ALPHA: ClassVar[float]

    def __init__(
        self,
        loc: torch.Tensor,
        scale: torch.Tensor | float | None = None,
        *,
        scale_diag: torch.Tensor | None = None,
        scale_tril: torch.Tensor | None = None,
        validate_args: bool | None = None,
    ):
        super().__init__(
            loc, scale, self.ALPHA, scale_diag=scale_diag, scale_tril=scale_tril, validate_args=validate_args
        )

    @classmethod
    def from_moments(  # type: ignore[override]
        cls: type[Own], mean: torch.Tensor, covariance: torch.Tensor | float, *, validate_args: bool | None = None
    ) -> Own:
        """Return the density with this mean ``[*, n]`` and covariance ``[*, n, n]`` (or a multiple of the identity)."""
        return super().from_moments(mean, covariance, cls.ALPHA, validate_args=validate_args)

    @classmethod
    def from_canonical(  # type: ignore[override]
        cls: type[Own], theta1: torch.Tensor, theta2: torch.Tensor | float, *, validate_args: bool | None = None
    ) -> Own:
        """Return the density of the score ``theta1' t + t' theta2 t``.

        ``theta1`` is ``[*, n]``, ``theta2`` ``[*, n, n]`` and negative definite.
        """
        return super().from_canonical(theta1, theta2, cls.ALPHA, validate_args=validate_args)


class Gaussian(_NamedBetaGaussian):
    r"""The Gaussian, alpha = 1: continuous softmax. ``scale`` is its covariance.

        >>> Gaussian(torch.zeros(2), 1.0).prob(torch.zeros(2))  # 1 / 2 pi
        tensor(0.1592)

    Reference: Martins et al. (NeurIPS 2020), section 2.3.
    """

    ALPHA = 1.0


class Triweight(_NamedBetaGaussian):
    r"""Alpha = 4/3: the cube of a truncated paraboloid.

        >>> Triweight.from_moments(torch.zeros(1), 1 / 9).boundary().round(decimals=4)
        tensor([[-1.],
                [ 1.]])

    Reference: Martins et al. (JMLR 2022).
    """

    ALPHA = 4 / 3


class Biweight(_NamedBetaGaussian):
    r"""Alpha = 3/2: the square of a truncated paraboloid.

        >>> Biweight.from_moments(torch.zeros(1), 1 / 7).boundary().round(decimals=4)
        tensor([[-1.],
                [ 1.]])

    Reference: Martins et al. (JMLR 2022).
    """

    ALPHA = 3 / 2


class TruncatedParaboloid(_NamedBetaGaussian):
    r"""Alpha = 2: continuous sparsemax. In one dimension the truncated parabola, or Epanechnikov's kernel.

    .. math:: p(t) = \bigl[ -\lambda - \tfrac12 (t - \mu)' \Sigma^{-1} (t - \mu) \bigr]_+, \qquad
              \lambda = -\Bigl( \Gamma(n/2 + 2) / \sqrt{\det 2\pi\Sigma} \Bigr)^{2 / (2 + n)}

        >>> p = TruncatedParaboloid(torch.zeros(2), 1.0)
        >>> p.prob(torch.tensor([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]]))  # 1 / sqrt(pi) at the peak
        tensor([0.5642, 0.0642, 0.0000])

    Reference: Martins et al. (NeurIPS 2020), eqs. 10 and 11.
    """

    ALPHA = 2.0
