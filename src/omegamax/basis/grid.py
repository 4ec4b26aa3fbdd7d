"""Cells of a regular grid over the unit cube, and points of it."""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor

from omegamax._arguments import check_sizes
from omegamax._checks import readable

F64 = torch.float64
Size = tuple[int, ...]


def grid_positions(
    size: int | tuple[int, ...], *, dtype: torch.dtype | None = None, device: torch.device | str | None = None
) -> Tensor:
    r"""Return the centres of the cells of a regular grid over :math:`[0, 1]^n`, row-major; ``[L, n]`` for L cells.

    Along an axis with k cells the centres are :math:`(i + 1/2)/k`. Sizes come as for an array, ``(H, W)`` or
    ``(D, H, W)``; coordinates come as ``(x, y)`` or ``(x, y, z)``, so that x runs along the last axis of the array,
    fastest. ``grid_positions((H, W))[r * W + c]`` is the position of ``image[r, c]``.

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
    return mesh_points([cell_centres(k, 0, dtype, device) for k in sizes])


def find_grid(points: Tensor, dimension: int) -> Size | None:
    """Return the size of which ``points`` are the :func:`grid_positions`, up to rounding; None if they are not."""
    if points.dim() != 2 or points.shape[-1] != dimension or not points.is_floating_point() or not readable(points):
        return None
    size = tuple(len(axis.unique()) for axis in reversed(points.detach().unbind(-1)))
    if math.prod(size) != len(points) or not len(points):
        return None
    gap = (points.detach().to(F64) - grid_positions(size, dtype=F64)).abs().max()
    return size if gap <= 8 * torch.finfo(points.dtype).eps else None


def cell_centres(k: int, extra: int, dtype: torch.dtype | None, device: torch.device | str | None) -> Tensor:
    """Return the centres of k cells on [0, 1], and of ``extra`` more of the same width on either side."""
    dtype = dtype or torch.get_default_dtype()
    # In double precision first: in half, integers beyond 2048 would be rounded.
    odd = 2 * torch.arange(-extra, k + extra, dtype=torch.float64, device=device) + 1
    return (odd / (2 * k)).to(dtype)


def spaced_nodes(k: int, dtype: torch.dtype | None, device: torch.device | str | None) -> Tensor:
    """Return k nodes from 0 to 1, both included; a single one lies in the middle."""
    if k == 1:
        return torch.full((1,), 0.5, dtype=dtype, device=device)
    return torch.linspace(0, 1, k, dtype=dtype, device=device)


def mesh_points(axes: list[Tensor]) -> Tensor:
    """Return all points of a product of axes in array order; the last axis runs fastest and is the first coordinate."""
    mesh = torch.meshgrid(*axes, indexing="ij")
    return torch.stack([m.reshape(-1) for m in reversed(mesh)], -1)


@lru_cache(maxsize=64)
def keep_cell_variance(size: Size, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return the variance of a uniform density over a cell of a regular grid, ``[n]``, kept on each device."""
    with torch.inference_mode(False), torch.no_grad():
        return torch.tensor([1 / (12 * max(k, 1) ** 2) for k in reversed(size)], dtype=dtype).to(device)


def make_line_table(cells: Size, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return twice the cells of lines, the variance of one and one over their number, ``[3, N]``."""
    rows = [[2.0 * k for k in cells], [1 / (12 * k**2) for k in cells], [1 / k for k in cells]]
    return torch.tensor(rows, dtype=dtype).to(device, non_blocking=True)


@lru_cache(maxsize=16)
def keep_line_table(cells: Size, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return the same, kept on each device."""
    with torch.inference_mode(False):
        return make_line_table(cells, dtype, device)
