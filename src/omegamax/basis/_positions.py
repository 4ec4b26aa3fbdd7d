"""Regular grids over the unit cube: cells with their centres, nodes from end to end."""

from __future__ import annotations

import torch
from torch import Tensor


def grid_positions(
    size: int | tuple[int, ...], *, dtype: torch.dtype | None = None, device: torch.device | str | None = None
) -> Tensor:
    r"""Centres of the cells of a regular grid over :math:`[0, 1]^n`, row-major; ``[L, n]`` for L cells.

    Along an axis with k cells the centres are :math:`(i + 1/2)/k`. Sizes come as for an array, ``(H, W)`` or
    ``(D, H, W)``; coordinates come as ``(x, y)`` or ``(x, y, z)``, so that x runs along the last axis of the array,
    fastest. ``grid_positions((H, W))[r * W + c]`` is the place of ``image[r, c]``.

    Args:
        size: cells along each axis, an int for one axis.

        >>> grid_positions((2, 3))
        tensor([[0.1667, 0.2500],
                [0.5000, 0.2500],
                [0.8333, 0.2500],
                [0.1667, 0.7500],
                [0.5000, 0.7500],
                [0.8333, 0.7500]])
        >>> grid_positions(4).T
        tensor([[0.1250, 0.3750, 0.6250, 0.8750]])
    """
    sizes = check_sizes("grid_positions", "size", size)
    return product([cell_centres(k, 0, dtype, device) for k in sizes])


def cell_centres(k: int, extra: int, dtype: torch.dtype | None, device: torch.device | str | None) -> Tensor:
    """Centres of k cells on [0, 1], and of ``extra`` more of the same width on either side."""
    dtype = dtype or torch.get_default_dtype()
    # In double precision first: in half, integers beyond 2048 would be rounded.
    odd = 2 * torch.arange(-extra, k + extra, dtype=torch.float64, device=device) + 1
    return (odd / (2 * k)).to(dtype)


def nodes(k: int, dtype: torch.dtype | None, device: torch.device | str | None) -> Tensor:
    """k nodes from 0 to 1, both included; a single one lies in the middle."""
    if k == 1:
        return torch.full((1,), 0.5, dtype=dtype, device=device)
    return torch.linspace(0, 1, k, dtype=dtype, device=device)


def product(axes: list[Tensor]) -> Tensor:
    """All points of a product of axes in array order; the last axis runs fastest and is the first coordinate."""
    mesh = torch.meshgrid(*axes, indexing="ij")
    return torch.stack([m.reshape(-1) for m in reversed(mesh)], -1)


def check_sizes(name: str, argument: str, size: object, n: int | None = None) -> tuple[int, ...]:
    """A tuple of positive ints, one for each of n axes; an int counts for every axis."""
    is_int = isinstance(size, int) and not isinstance(size, bool)
    sizes = (size,) * (n or 1) if is_int else size
    if not isinstance(sizes, tuple | list) or not sizes or not all(type(k) is int for k in sizes):
        raise TypeError(f"{name}: {argument} must be an int or a tuple of ints, got {size!r}")
    if n is not None and len(sizes) != n:
        raise ValueError(f"{name}: {argument} must have one entry for each of {n} axes, got {size!r}")
    if not all(k >= 1 for k in sizes):
        raise ValueError(f"{name}: {argument} must be at least 1 along every axis, got {size!r}")
    return tuple(sizes)
