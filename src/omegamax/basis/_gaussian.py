"""Gaussian radial basis functions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from omegamax.basis._elliptic import EllipticRBF, grid_of_bumps


class GaussianRBF(EllipticRBF):
    r"""J Gaussian bumps, :math:`\psi_j(t) = N(t; c_j, S_j)`, or with peak 1, :math:`\exp(-q_j(t)/2)`.

    :math:`q_j(t) = (t - c_j)^\top S_j^{-1} (t - c_j)`. Normalised bumps are those of the papers; their peak
    :math:`|2 \pi S_j|^{-1/2}` is 159 for :math:`S_j = 0.001 I` in the plane, so that a ridge penalty weighs less
    against them than against bumps with peak 1, by the square of that.

    Args:
        centers: ``[J, n]``.
        scale: variances (not standard deviations). A number for all; ``[J]``, one for each bump; ``[J, n]``, the
            diagonals of covariances; ``[J, n, n]``, covariances. The first axis may have size 1, for all bumps alike.
            A tensor with two axes is always read as diagonals, also where J = n: one covariance for all is
            ``[1, n, n]``.
        normalised: whether each bump integrates to one.

    ``variance`` is ``[J]`` if every covariance is a multiple of the identity, else None; ``covariance`` is
    ``[J, n, n]``; ``shared`` says that all bumps have one and the same ``variance``; ``log_weight [J]`` is what to add
    to the log of the normal density to have that of :math:`\psi_j`.

        >>> basis = GaussianRBF(torch.tensor([[0.0], [1.0]]), 0.25)
        >>> basis(torch.tensor([[0.0], [0.5]]))
        tensor([[0.7979, 0.1080],
                [0.4839, 0.4839]])
        >>> GaussianRBF.grid(10, 2, variance=0.001)
        GaussianRBF(J=100, n=2, isotropic, shared, normalised=True)

    Reference: Martins et al. (NeurIPS 2020), Sec. 3.1 and App. G.
    """

    @classmethod
    def grid(
        cls,
        per_axis: int | tuple[int, ...],
        n: int,
        variance: float | Sequence[float],
        normalised: bool = True,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> GaussianRBF:
        r"""Bumps at the nodes of a grid over :math:`[0, 1]^n`, from end to end: 0, 1/(k-1), ..., 1 for k along an axis.

        Nodes come in the order of :func:`grid_positions`: ``per_axis`` as the size of an array, x fastest. (Cell
        centres are for the values; the outermost bumps lie on the border, so that none is missing there.)

        Args:
            per_axis: nodes along each axis; an int for the same number along all n.
            n: dimension.
            variance: a number, or several: one whole grid for each, one after the other. The papers give standard
                deviations in one dimension (0.1 and 0.5 are the variances 0.01 and 0.25) and variances in two.

            >>> GaussianRBF.grid(3, 1, variance=[0.01, 0.25]).centers.T
            tensor([[0.0000, 0.5000, 1.0000, 0.0000, 0.5000, 1.0000]])
        """
        centers, scale = grid_of_bumps(f"{cls.__name__}.grid", per_axis, n, variance, dtype, device)
        return cls(centers, scale, normalised)

    @property
    def log_weight(self) -> Tensor:
        r"""``[J]``: 0 where normalised, else :math:`\frac12 \log|2 \pi S_j|`."""
        if self.normalised:
            return torch.zeros_like(self.centers[:, 0])
        return -self._log_peak(self.centers.dtype)

    def forward(self, t: Tensor) -> Tensor:
        half = self._squared_distance(t) / 2
        return (self._log_peak(half.dtype) - half if self.normalised else -half).exp()

    def _log_peak(self, dtype: torch.dtype) -> Tensor:
        """Of the normal density, ``[J]``."""
        return -(self.dimension * math.log(2 * math.pi) + self._log_det(dtype)) / 2
