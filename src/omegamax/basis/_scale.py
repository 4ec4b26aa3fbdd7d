"""Scales of radial basis functions: one form for all in which they may be given, and those of a grid."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from omegamax._arguments import check_sizes, check_type, is_number
from omegamax._checks import check_scale, check_symmetric, is_plain
from omegamax.basis.grid import mesh_points, spaced_nodes


def to_scale(name: str, centers: Tensor, scale: float | Tensor) -> Tensor:
    """Return any accepted form of the scale as ``[J]``, ``[J, n]`` or ``[J, n, n]``, the first that can hold it."""
    count, n = centers.shape
    if is_number(scale):
        return centers.new_full((count,), check_scale(name, "scale", float(scale), centers))
    scale = check_type(name, "scale", scale, Tensor, "a float or a tensor")
    wanted = [(), (count,), (count, n), (count, n, n)][scale.dim()] if scale.dim() < 4 else None
    if wanted is None or scale.shape[1:] != wanted[1:] or scale.shape[:1] not in (wanted[:1], (1,)):
        raise ValueError(
            f"{name}: scale must be a number, [{count}], [{count}, {n}] or [{count}, {n}, {n}] (the first axis may "
            f"have size 1), got shape {tuple(scale.shape)}"
        )
    scale = scale.detach().to(centers)
    scale = scale.expand(count) if scale.dim() == 0 else scale.expand(count, *scale.shape[1:])
    if is_plain(scale):
        scale = _simplify(name, scale)
    return scale.clone(memory_format=torch.contiguous_format)


def _simplify(name: str, scale: Tensor) -> Tensor:
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


def place_on_grid(
    name: str,
    per_axis: int | tuple[int, ...],
    n: int,
    scale: float | Sequence[float],
    dtype: torch.dtype | None,
    device: torch.device | str | None,
) -> tuple[Tensor, Tensor]:
    """Return centres ``[J, n]`` on the nodes of a grid, once for each scale, and the scales ``[J]``."""
    sizes = check_sizes(name, "per_axis", per_axis, n)
    scales: list = list(scale) if isinstance(scale, list | tuple) else [scale]
    if not scales or not all(is_number(s) and s > 0 for s in scales):
        raise ValueError(f"{name}: scales must be positive numbers, got {scale!r}")
    centers = mesh_points([spaced_nodes(k, dtype, device) for k in sizes])
    each = torch.tensor([float(s) for s in scales], dtype=centers.dtype, device=centers.device)
    return centers.repeat(len(scales), 1), each.repeat_interleave(len(centers))
