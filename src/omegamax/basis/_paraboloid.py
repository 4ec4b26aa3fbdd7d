"""Truncated paraboloids as radial basis functions: compact support, exact zeros."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from omegamax.basis._elliptic import EllipticRBF, grid_of_bumps


class TruncatedParaboloidRBF(EllipticRBF):
    r"""J truncated paraboloids, :math:`\psi_j(t) = [h_j - q_j(t)/2]_+`, or with peak 1, :math:`[1 - q_j(t)/(2h_j)]_+`.

    :math:`q_j(t) = (t - c_j)^\top \Sigma_j^{-1} (t - c_j)`, and the height
    :math:`h_j = \bigl(\Gamma(n/2 + 2) / |2 \pi \Sigma_j|^{1/2}\bigr)^{2/(n+2)}` makes it a density: the continuous
    sparsemax of the score :math:`-q_j/2`. It is exactly 0 where :math:`q_j \ge 2 h_j`; in one dimension
    that is beyond :math:`(3\sigma_j^2/2)^{1/3}` from the centre.

    Args:
        centers: ``[J, n]``.
        scale: the matrices :math:`\Sigma_j` in any of the forms that :class:`GaussianRBF` takes. (They are scales, not
            covariances: the covariance of such a density is :math:`2 h_j \Sigma_j / (n + 4)`.)
        normalised: whether each function integrates to one.

    ``height [J]`` is :math:`h_j`, also where the peak is 1; ``covariance [J, n, n]`` is :math:`\Sigma_j`; ``variance``,
    ``shared`` and ``log_weight`` are those of :class:`GaussianRBF`.

        >>> basis = TruncatedParaboloidRBF(torch.tensor([[0.0], [2.0]]), 2 / 3)
        >>> basis.height
        tensor([0.7500, 0.7500])
        >>> basis(torch.tensor([[0.0], [0.5], [1.0]]))
        tensor([[0.7500, 0.0000],
                [0.5625, 0.0000],
                [0.0000, 0.0000]])

    Reference: Martins et al. (NeurIPS 2020), Eq. 10 (one dimension) and Eq. 11.
    """

    @classmethod
    def grid(
        cls,
        per_axis: int | tuple[int, ...],
        n: int,
        scale: float | Sequence[float],
        normalised: bool = True,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> TruncatedParaboloidRBF:
        r"""Paraboloids at the nodes of a grid over :math:`[0, 1]^n`; arguments as for :meth:`GaussianRBF.grid`.

        >>> TruncatedParaboloidRBF.grid(10, 2, scale=1e-4)
        TruncatedParaboloidRBF(J=100, n=2, isotropic, shared, normalised=True)
        """
        centers, scales = grid_of_bumps(f"{cls.__name__}.grid", per_axis, n, scale, dtype, device)
        return cls(centers, scales, normalised)

    @property
    def height(self) -> Tensor:
        """What the density reaches at its centre, ``[J]``."""
        return self._height(self.centers.dtype)

    @property
    def log_weight(self) -> Tensor:
        r"""``[J]``: 0 where normalised, else :math:`-\log h_j`."""
        return torch.zeros_like(self.centers[:, 0]) if self.normalised else -self.height.log()

    def forward(self, t: Tensor) -> Tensor:
        half = self._squared_distance(t) / 2
        height = self._height(half.dtype)
        return (height - half).relu() if self.normalised else (1 - half / height).relu()

    def _height(self, dtype: torch.dtype) -> Tensor:
        n = self.dimension
        log_root = (n * math.log(2 * math.pi) + self._log_det(dtype)) / 2
        return (2 / (n + 2) * (math.lgamma(n / 2 + 2) - log_root)).exp()  # Eq. (11)
