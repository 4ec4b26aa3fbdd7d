"""Radial basis functions: Gaussian bumps and truncated paraboloids, with a centre and a scale matrix each."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from omegamax._checks import check_floating, check_points, is_plain
from omegamax.basis._base import Basis, check_matrix
from omegamax.basis._scale import place_on_grid, to_scale


class EllipticRBF(Basis):
    r"""J functions of :math:`q_j(t) = (t - c_j)^\top S_j^{-1} (t - c_j)`, with centres ``[J, n]`` and scales S.

    Scales that are multiples of the identity, in whatever form they came, are kept as J scalars.
    """

    centers: Tensor
    _scale: Tensor  # [J], [J, n] (diagonal) or [J, n, n]

    def __init__(self, centers: Tensor, scale: float | Tensor, normalised: bool = True):
        super().__init__()
        name = type(self).__name__
        centers = check_matrix(name, "centers", centers)
        check_floating(name, "centers", centers)
        self.dimension = centers.shape[1]
        self.normalised = bool(normalised)
        self._hold("centers", centers)
        scale = to_scale(name, self.centers, scale)
        self._hold("_scale", scale)
        # Where values cannot be read (a meta device), scales count as different.
        same = scale.dim() == 1 and (len(scale) == 1 or (is_plain(scale) and bool((scale == scale[0]).all())))
        self.shared = bool(same)

    def __len__(self) -> int:
        return len(self.centers)

    @property
    def variance(self) -> Tensor | None:
        """Return the J scalars v with S = v I, or None where a scale is no multiple of the identity."""
        return self._scale if self._scale.dim() == 1 else None

    @property
    def covariance(self) -> Tensor:
        """Return the matrices S, ``[J, n, n]``."""
        if self._scale.dim() == 3:
            return self._scale
        if self._scale.dim() == 1:
            return torch.diag_embed(self._scale.unsqueeze(-1).expand(-1, self.dimension))
        return torch.diag_embed(self._scale)

    @property
    def log_weight(self) -> Tensor:
        r"""Return the log of what :math:`\psi_j` integrates to, ``[J]``: 0 where normalised."""
        raise NotImplementedError

    def _log_det(self, dtype: torch.dtype) -> Tensor:
        r"""Return :math:`\log|S_j|`, ``[J]``, computed in ``dtype``: points in double precision want it so too."""
        scale = self._scale.to(dtype)
        if scale.dim() == 1:
            return self.dimension * scale.log()
        if scale.dim() == 2:
            return scale.log().sum(-1)
        return 2 * torch.linalg.cholesky_ex(scale)[0].diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def _squared_distance(self, t: Tensor) -> Tensor:
        r"""Return :math:`q_j(t)` at points ``[*, n]``, ``[*, J]``."""
        check_points(type(self).__name__, "t", t, self.dimension)
        d = t.unsqueeze(-2) - self.centers
        scale = self._scale.to(d.dtype)
        if scale.dim() == 1:
            return d.square().sum(-1) / scale
        if scale.dim() == 2:
            return (d.square() / scale).sum(-1)
        root = torch.linalg.cholesky_ex(scale)[0]
        eye = torch.eye(self.dimension, dtype=root.dtype, device=root.device).expand_as(root)
        inverse_root = torch.linalg.solve_triangular(root, eye, upper=False)
        # Sums of products and no matmul, which autocast would take to half precision.
        return (inverse_root * d.unsqueeze(-2)).sum(-1).square().sum(-1)

    def extra_repr(self) -> str:
        kind = {1: "isotropic", 2: "diagonal", 3: "full"}[self._scale.dim()]
        return f"J={len(self)}, n={self.dimension}, {kind}{', shared' * self.shared}, normalised={self.normalised}"


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
        r"""Return bumps at the nodes of a grid over :math:`[0, 1]^n`, from end to end: 0, 1/(k-1), ..., 1 for k nodes.

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
        centers, scale = place_on_grid(f"{cls.__name__}.grid", per_axis, n, variance, dtype, device)
        return cls(centers, scale, normalised)

    @property
    def log_weight(self) -> Tensor:
        r"""Return ``[J]``: 0 where normalised, else :math:`\frac12 \log|2 \pi S_j|`."""
        if self.normalised:
            return torch.zeros_like(self.centers[:, 0])
        return -self._log_peak(self.centers.dtype)

    def forward(self, t: Tensor) -> Tensor:
        half = self._squared_distance(t) / 2
        return (self._log_peak(half.dtype) - half if self.normalised else -half).exp()

    def _log_peak(self, dtype: torch.dtype) -> Tensor:
        """Return the log of the peak of the normal density, ``[J]``."""
        return -(self.dimension * math.log(2 * math.pi) + self._log_det(dtype)) / 2


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
        r"""Return paraboloids at the nodes of a grid over :math:`[0, 1]^n`; arguments as for :meth:`GaussianRBF.grid`.

        >>> TruncatedParaboloidRBF.grid(10, 2, scale=1e-4)
        TruncatedParaboloidRBF(J=100, n=2, isotropic, shared, normalised=True)
        """
        centers, scales = place_on_grid(f"{cls.__name__}.grid", per_axis, n, scale, dtype, device)
        return cls(centers, scales, normalised)

    @property
    def height(self) -> Tensor:
        """Return what the density reaches at its centre, ``[J]``."""
        return self._height(self.centers.dtype)

    @property
    def log_weight(self) -> Tensor:
        r"""Return ``[J]``: 0 where normalised, else :math:`-\log h_j`."""
        return torch.zeros_like(self.centers[:, 0]) if self.normalised else -self.height.log()

    def forward(self, t: Tensor) -> Tensor:
        half = self._squared_distance(t) / 2
        height = self._height(half.dtype)
        return (height - half).relu() if self.normalised else (1 - half / height).relu()

    def _height(self, dtype: torch.dtype) -> Tensor:
        n = self.dimension
        log_root = (n * math.log(2 * math.pi) + self._log_det(dtype)) / 2
        return (2 / (n + 2) * (math.lgamma(n / 2 + 2) - log_root)).exp()  # Eq. (11)
