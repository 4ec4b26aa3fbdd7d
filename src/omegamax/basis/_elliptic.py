"""Bumps with a centre and a scale matrix each: what Gaussian and truncated-paraboloid RBFs share."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from omegamax._arguments import is_number
from omegamax._checks import check_scale, check_symmetric, is_plain
from omegamax.basis._base import Basis, check_matrix
from omegamax.basis._positions import check_sizes, nodes, product


class EllipticRBF(Basis):
    r"""J functions of :math:`q_j(t) = (t - c_j)^\top S_j^{-1} (t - c_j)`, with centres ``[J, n]`` and scales S.

    Scales that are multiples of the identity, in whatever form they came, are kept as J numbers.
    """

    centers: Tensor
    _scale: Tensor  # [J], [J, n] (diagonal) or [J, n, n]

    def __init__(self, centers: Tensor, scale: float | Tensor, normalised: bool = True):
        super().__init__()
        name = type(self).__name__
        centers = check_matrix(name, "centers", centers)
        if not centers.is_floating_point():
            raise TypeError(f"{name}: centers must be a floating-point tensor, got dtype {centers.dtype}")
        self.dimension = centers.shape[1]
        self.normalised = bool(normalised)
        self._hold("centers", centers)
        scale = _scale_of(name, self.centers, scale)
        self._hold("_scale", scale)
        # Where values cannot be read (a meta device), scales count as different.
        same = scale.dim() == 1 and (len(scale) == 1 or (is_plain(scale) and bool((scale == scale[0]).all())))
        self.shared = bool(same)

    def __len__(self) -> int:
        return len(self.centers)

    @property
    def variance(self) -> Tensor | None:
        """The J numbers v with S = v I, or None where a scale is no multiple of the identity."""
        return self._scale if self._scale.dim() == 1 else None

    @property
    def covariance(self) -> Tensor:
        """The matrices S, ``[J, n, n]``."""
        if self._scale.dim() == 3:
            return self._scale
        if self._scale.dim() == 1:
            return torch.diag_embed(self._scale.unsqueeze(-1).expand(-1, self.dimension))
        return torch.diag_embed(self._scale)

    @property
    def log_weight(self) -> Tensor:
        r"""Log of what :math:`\psi_j` integrates to, ``[J]``: 0 where normalised."""
        raise NotImplementedError

    def _log_det(self, dtype: torch.dtype) -> Tensor:
        r""":math:`\log|S_j|`, ``[J]``, computed in ``dtype``: points in double precision want it so too."""
        scale = self._scale.to(dtype)
        if scale.dim() == 1:
            return self.dimension * scale.log()
        if scale.dim() == 2:
            return scale.log().sum(-1)
        return 2 * torch.linalg.cholesky_ex(scale)[0].diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def _squared_distance(self, t: Tensor) -> Tensor:
        r""":math:`q_j(t)` at points ``[*, n]``, ``[*, J]``."""
        self._check_points(t)
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


def grid_of_bumps(
    name: str,
    per_axis: int | tuple[int, ...],
    n: int,
    scale: float | Sequence[float],
    dtype: torch.dtype | None,
    device: torch.device | str | None,
) -> tuple[Tensor, Tensor]:
    """Centres ``[J, n]`` on the nodes of a grid, once for each scale, and the scales ``[J]``."""
    sizes = check_sizes(name, "per_axis", per_axis, n)
    scales: list = list(scale) if isinstance(scale, list | tuple) else [scale]
    if not scales or not all(is_number(s) and s > 0 for s in scales):
        raise ValueError(f"{name}: scales must be positive numbers, got {scale!r}")
    centers = product([nodes(k, dtype, device) for k in sizes])
    each = torch.tensor([float(s) for s in scales], dtype=centers.dtype, device=centers.device)
    return centers.repeat(len(scales), 1), each.repeat_interleave(len(centers))


def _scale_of(name: str, centers: Tensor, scale: float | Tensor) -> Tensor:
    """Any accepted form of the scale as ``[J]``, ``[J, n]`` or ``[J, n, n]``, the first that can hold it."""
    count, n = centers.shape
    if is_number(scale):
        return centers.new_full((count,), check_scale(name, "scale", float(scale), centers))
    if not isinstance(scale, Tensor):
        raise TypeError(f"{name}: scale must be a float or a tensor, got {type(scale).__name__}")
    wanted = [(), (count,), (count, n), (count, n, n)][scale.dim()] if scale.dim() < 4 else None
    if wanted is None or scale.shape[1:] != wanted[1:] or scale.shape[:1] not in (wanted[:1], (1,)):
        raise ValueError(
            f"{name}: scale must be a number, [{count}], [{count}, {n}] or [{count}, {n}, {n}] (the first axis may "
            f"have size 1), got shape {tuple(scale.shape)}"
        )
    scale = scale.detach().to(centers)
    scale = scale.expand(count) if scale.dim() == 0 else scale.expand(count, *scale.shape[1:])
    if is_plain(scale):
        scale = _simplest(name, scale)
    return scale.clone(memory_format=torch.contiguous_format)


def _simplest(name: str, scale: Tensor) -> Tensor:
    """Refuse scales that are not positive definite; drop what a diagonal or a single number can say."""
    if scale.dim() == 3:
        check_symmetric(name, "scale", scale)
        scale = (scale + scale.mT) / 2
        if bool((torch.linalg.cholesky_ex(scale)[1] != 0).any()) or not bool(scale.isfinite().all()):
            raise ValueError(f"{name}: scale must be positive definite matrices")
        diagonal = scale.diagonal(dim1=-2, dim2=-1)
        if not torch.equal(torch.diag_embed(diagonal), scale):
            return scale
        scale = diagonal
    if not bool(((scale > 0) & scale.isfinite()).all()):
        raise ValueError(f"{name}: scale must be > 0 and finite everywhere")
    if scale.dim() == 2 and bool((scale == scale[:, :1]).all()):
        return scale[:, 0]
    return scale
