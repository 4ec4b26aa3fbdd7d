"""Parameters of a map as its scores want them: one for each row or entry; a budget, bounds that entries can hold."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax._arguments import is_number
from omegamax._checks import broadcasts, check_dense, readable
from omegamax._numerics import working_dtype


def row_parameter(name: str, argument: str, value: Tensor, z: Tensor, dim: int) -> Tensor:
    """Return ``value`` with the rank of ``z`` and size 1 along ``dim``: a scalar for each row, in the working dtype."""
    check_dense(name, argument, value)
    if value.dim() < z.dim():
        value = value.reshape((1,) * (z.dim() - value.dim()) + tuple(value.shape))
    if not broadcasts(value.shape, z.shape) or (value.dim() and value.shape[dim] != 1):
        raise ValueError(
            f"{name}: {argument} must broadcast to scores of shape {tuple(z.shape)} with size 1 along dim={dim}, "
            f"got shape {tuple(value.shape)}"
        )
    return value.to(working_dtype(z))


def entry_parameter(name: str, argument: str, value: float | Tensor, z: Tensor) -> Tensor:
    """Return ``value`` with the rank of ``z``: a scalar for each entry, or for an axis, in the working dtype."""
    if not isinstance(value, Tensor):
        return z.new_full((1,) * z.dim(), value, dtype=working_dtype(z))
    check_dense(name, argument, value)
    if not broadcasts(value.shape, z.shape):
        raise ValueError(
            f"{name}: {argument} of shape {tuple(value.shape)} does not broadcast to scores of shape {tuple(z.shape)}"
        )
    return value.reshape((1,) * (z.dim() - value.dim()) + tuple(value.shape)).to(working_dtype(z))


def check_budget(name: str, k: float | Tensor, size: float, at_most: bool) -> float | Tensor:
    """Refuse a number of ones that ``size`` entries cannot hold; return a tensor as it is, a number as a float."""
    high = math.inf if at_most else size
    if type(k) is not int and isinstance(k, Tensor):
        check_dense(name, "k", k)
        if readable(k) and not bool(((k >= 0) & (k <= high)).all()):
            raise ValueError(f"{name}: k must lie in [0, {high}] everywhere, got values outside it")
        return k
    if not is_number(k):
        raise TypeError(f"{name}: k must be a number or a tensor, got {type(k).__name__}")
    if not 0 <= k <= high:
        raise ValueError(f"{name}: k must lie in [0, {high}], the number of entries along dim, got {k:g}")
    return float(k)


def check_bounds(name: str, z: Tensor, upper: Tensor, lower: Tensor | None, dim: int) -> None:
    """Refuse bounds that no probabilities satisfy, in rows that have an entry left."""
    if not (readable(z) and readable(upper) and (lower is None or readable(lower))):
        return
    if not z.numel():
        return
    # The least entry comes much sooner than a comparison of all, which only what is refused, or skipped, needs.
    kept = None if bool(z.amin() > -math.inf) else z != -math.inf
    low = z.new_zeros(()) if lower is None else lower

    def fails(room: Tensor) -> bool:
        """Tell whether the room of an entry that is there is not at least 0."""
        if bool(room.amin() >= 0):
            return False
        return bool((~(room >= 0) if kept is None else kept & ~(room >= 0)).any())

    def add_up(bound: Tensor) -> Tensor:
        """Return the sum of a bound in each row."""
        if kept is not None:
            return torch.where(kept, bound, 0.0).sum(dim)
        if bound.dim() and bound.shape[dim] != z.shape[dim]:
            return bound.squeeze(dim) * z.shape[dim]
        return bound.sum(dim) if bound.dim() else bound

    if fails(low):
        raise ValueError(f"{name}: lower must be >= 0 everywhere")
    if fails(upper if lower is None else upper - low):
        raise ValueError(f"{name}: upper must be >= lower (0 where none is given) everywhere")
    # Bounds that should sum to one do so only to rounding (three times 1/3).
    slack = 4 * (z.shape[dim] if z.dim() else 1) * torch.finfo(z.dtype).eps
    some = torch.ones((), dtype=torch.bool) if kept is None else kept.any(dim)
    most = add_up(upper)
    if bool((some & ~(most >= 1 - slack)).any()):
        raise ValueError(f"{name}: upper must sum to at least 1 in every row, got {_least(most, some):g}")
    if lower is None:
        return
    least = add_up(low)
    if bool((some & ~(least <= 1 + slack)).any()):
        raise ValueError(f"{name}: lower must sum to at most 1 in every row, got {-_least(-least, some):g}")


def _least(sums: Tensor, some: Tensor) -> float:
    """Return the least sum of the rows in question."""
    return sums.expand(torch.broadcast_shapes(sums.shape, some.shape))[some].min().item()
