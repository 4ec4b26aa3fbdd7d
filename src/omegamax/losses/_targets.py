"""What a classification loss may be given as target, brought into one form."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from omegamax._arguments import check_interval, check_type
from omegamax._checks import check_floating, readable
from omegamax._numerics import working_dtype
from omegamax.losses._fenchel_young import check_probabilities


@dataclass
class Target:
    """Targets of the rows ``[*]`` of scores ``[*, C]``."""

    value: Tensor  # [*], one class for each row, or [*, C], a point of the domain for each row
    dense: bool  # which of the two
    weight: Tensor | None  # [*]
    ignored: Tensor | None  # [*], bool
    count: Tensor | int  # what the mean divides by


def class_indices(name: str, z: Tensor, target: Tensor, axis: int, weight: Tensor | None, ignore_index: int) -> Target:
    """Return one class for each row."""
    _check_integer(name, target)
    wanted = z.shape[:axis] + z.shape[axis + 1 :]
    if target.shape != wanted:
        raise ValueError(
            f"{name}: target must hold class indices of shape {tuple(wanted)} or probabilities of shape "
            f"{tuple(z.shape)}, got {target.dtype} of shape {tuple(target.shape)}"
        )
    index, ignored = in_range(name, z.shape[axis], target, ignore_index)
    if weight is None:
        return Target(index, False, None, ignored, (~ignored).sum())
    by_row = torch.where(ignored, 0.0, weight.to(working_dtype(z))[index])
    return Target(index, False, by_row, ignored, by_row.sum())


def index_sets(
    name: str, z: Tensor, target: Tensor, axis: int, k: float | Tensor, weight: Tensor | None, ignore_index: int
) -> Target:
    """Return a set of k classes for each row, listed along the class axis."""
    _check_integer(name, target)
    if isinstance(k, Tensor) or k != int(k):
        raise ValueError(f"{name}: with class indices as target, k must be an integer, got {k}")
    wanted = (*z.shape[:axis], int(k), *z.shape[axis + 1 :])
    if target.shape != wanted:
        raise ValueError(
            f"{name}: target must hold k={int(k)} class indices in shape {wanted} or k-hot floats in shape "
            f"{tuple(z.shape)}, got {target.dtype} of shape {tuple(target.shape)}"
        )
    index, left_out = in_range(name, z.shape[axis], target.movedim(axis, -1), ignore_index)
    ignored = left_out.any(-1)
    dtype = working_dtype(z)
    dense = torch.zeros((*index.shape[:-1], z.shape[axis]), dtype=dtype, device=z.device)
    dense = dense.scatter_add(-1, index, torch.ones_like(index, dtype=dtype))
    if readable(dense) and bool(((dense > 1) & ~ignored.unsqueeze(-1)).any()):
        raise ValueError(f"{name}: the k class indices of a target must differ from each other")
    if weight is None:
        return Target(dense, True, None, ignored, (~ignored).sum())
    by_row = torch.where(ignored, 0.0, weight.to(dtype)[index].sum(-1) / max(int(k), 1))
    return Target(dense, True, by_row, ignored, by_row.sum())


def probabilities(
    name: str,
    z: Tensor,
    target: Tensor,
    axis: int,
    total: float | Tensor,
    weight: Tensor | None,
    ignore_index: int,
) -> Target:
    """Return a point of the domain, whose entries sum to ``total``, for each row."""
    check_probabilities(name, "target", target, z)
    if ignore_index >= 0:
        raise ValueError(f"{name}: ignore_index goes with class indices, got {ignore_index} and probabilities")
    dense = target.movedim(axis, -1)
    count = z.numel() // z.shape[axis]
    if weight is None:
        return Target(dense, True, None, None, count)
    by_row = (dense * (weight.to(working_dtype(z)) / total)).sum(-1)
    return Target(dense, True, by_row, None, count)


def at_class(z: Tensor, smoothing: float) -> Tensor:
    """Return the first class, smoothed, ``[1, ..., C]``: Omega is the same for all, so no target needs its own row."""
    size = z.shape[-1]
    one_hot = (torch.arange(size, device=z.device) == 0).to(working_dtype(z))
    return ((1 - smoothing) * one_hot + smoothing / size).expand((1,) * (z.dim() - 1) + (size,))


def class_axis(name: str, z: Tensor) -> int:
    """Return 1, or 0 for a single sample."""
    check_type(name, "z", z, Tensor, "a torch.Tensor")
    if z.dim() == 0:
        raise ValueError(f"{name}: z must have shape [C], [N, C] or [N, C, d1, ...], got a scalar")
    return min(z.dim() - 1, 1)


def check_smoothing(name: str, label_smoothing: float) -> None:
    """Refuse a share of the uniform distribution that is not one."""
    check_interval(name, "label_smoothing", label_smoothing, "[0, 1]")


def check_weight(name: str, weight: Tensor | None, size: int) -> None:
    """Refuse class weights that are not one float for each class."""
    if weight is None:
        return
    check_floating(name, "weight", weight)
    if weight.shape != (size,):
        raise ValueError(f"{name}: weight must have shape ({size},), one for each class, got {tuple(weight.shape)}")


def _check_integer(name: str, target: Tensor) -> None:
    if target.dtype == torch.bool or target.is_complex():
        raise TypeError(f"{name}: target must hold integer class indices or float probabilities, got {target.dtype}")


def in_range(name: str, size: int, target: Tensor, ignore_index: int) -> tuple[Tensor, Tensor]:
    """Return indices that are safe to look up, and which of them stand for ``ignore_index``."""
    target = target.long()
    ignored = target == ignore_index
    index = torch.where(ignored, 0, target)
    if readable(index) and index.numel():
        low, high = (int(i) for i in index.aminmax())
        if low < 0 or high >= size:
            raise IndexError(
                f"{name}: target must hold class indices in [0, {size}) or ignore_index={ignore_index}, "
                f"got {low if low < 0 else high}"
            )
    return index, ignored
