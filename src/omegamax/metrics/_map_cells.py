"""Which axes of its arguments a measure reads as one map, and what a map is worth as a distribution."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Distribution

from omegamax._arguments import check_sizes, is_number
from omegamax._checks import check_bools, readable
from omegamax.metrics._grid import dimension, on_grid

Map = Tensor | Distribution
Dim = int | tuple[int, ...]
Size = int | tuple[int, ...]


class MapCells:
    """The cells of a map: axes of a tensor, or a grid under a density. Everything becomes rows ``[*, L]``.

    Args:
        name: the function that asks, for messages.
        maps: p first, by which the axes are counted.
        dim: axes of one map; by default the last, or as many as ``size`` has entries.
        size: cells along each axis, needed for densities.
        samples: points for each cell and axis at which densities are read.
    """

    def __init__(self, name: str, maps: tuple[Map, ...], dim: Dim | None, size: Size | None, samples: int):
        self.name, self.samples = name, samples
        self.batch = torch.Size()
        self.size: tuple[int, ...] | None = None
        if size is not None:
            if dim is not None:
                raise ValueError(f"{name}: dim and size both name the axes of a map; give one, got {dim} and {size}")
            axes = {dimension(name, p) for p in maps if isinstance(p, Distribution)}
            if len(axes) > 1:
                raise ValueError(f"{name}: p and q must have the same number of axes, got densities of {sorted(axes)}")
            self.size = check_sizes(name, "size", size, *axes)
            self.axes: tuple[int, ...] = tuple(range(-len(self.size), 0))
        else:
            rank = maps[0].dim() if isinstance(maps[0], Tensor) else None
            self.axes = _axes(name, -1 if dim is None else dim, rank)
        self.cells: torch.Size | None = None if self.size is None else torch.Size(self.size)

    def rows(self, argument: str, p: Map) -> Tensor:
        """Return a map as ``[*, L]``, in its own dtype."""
        if isinstance(p, Distribution):
            if self.size is None:
                raise ValueError(f"{self.name}: {argument} is a density, whose map needs size, the cells of each axis")
            p = on_grid(p, self.size, samples=self.samples)
        elif not isinstance(p, Tensor):
            wanted = "a torch.Tensor or a density"
            raise TypeError(f"{self.name}: {argument} must be {wanted}, got {type(p).__name__}")
        elif p.is_complex():
            raise TypeError(f"{self.name}: {argument} must be a real tensor, got dtype {p.dtype}")
        if p.dim() < -min(self.axes):
            raise IndexError(f"{self.name}: {argument} of shape {tuple(p.shape)} has no axes {self.axes}")
        p = p.movedim(self.axes, tuple(range(-len(self.axes), 0)))
        batch, cells = p.shape[: -len(self.axes)], p.shape[-len(self.axes) :]
        if self.cells is None:
            self.cells = cells
        if cells != self.cells:
            wanted = f"a map of {tuple(self.cells)} cells along axes {self.axes}"
            raise ValueError(f"{self.name}: {argument} must be {wanted}, got shape {tuple(cells)} there")
        if cells.numel() == 0:
            raise ValueError(f"{self.name}: {argument} needs at least one cell, got shape {tuple(cells)}")
        try:
            self.batch = torch.broadcast_shapes(self.batch, batch)
        except RuntimeError:
            wanted = f"batch axes that broadcast with {tuple(self.batch)}"
            raise ValueError(f"{self.name}: {argument} must have {wanted}, got {tuple(batch)}") from None
        return p.flatten(-len(self.axes))

    def beside(self, argument: str, t: Tensor) -> Tensor:
        """Return what accompanies a map and broadcasts to it, cells included, as rows ``[*, L]``."""
        assert self.cells is not None
        whole = [1] * -min(self.axes)
        for axis, k in zip(self.axes, self.cells, strict=True):
            whole[axis] = k
        try:
            shape = torch.broadcast_shapes(t.shape, tuple(whole))
        except RuntimeError:
            shape = t.shape  # refused by its cells below
        return self.rows(argument, t.expand(shape))

    def kept(self, mask: Tensor | None) -> Tensor | None:
        """Return the mask as rows ``[*, L]``."""
        if mask is None:
            return None
        check_bools(self.name, "mask", mask, "True keeps a cell")
        return self.beside("mask", mask)

    def check_sign(self, argument: str, rows: Tensor) -> None:
        """Refuse negative cells, where that costs no device sync."""
        if rows.dtype != torch.bool and readable(rows) and bool((rows < 0).any()):
            raise ValueError(f"{self.name}: {argument} must be >= 0 everywhere, got a minimum of {rows.min().item():g}")


def common_dtype(*maps: Tensor) -> torch.dtype:
    """Return the dtype in which maps meet: float32, or float64 if one of them has it."""
    dtype = torch.float32
    for p in maps:
        dtype = torch.promote_types(dtype, p.dtype)
    return dtype


def shares(
    cells: MapCells, argument: str, rows: Tensor, keep: Tensor | None, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Return the shares of a map in its sum, ``[*, L]``, and where there are none, ``[*]``.

    Its shares there are 0, or negative.
    """
    rows = rows.to(dtype)
    if keep is not None:
        rows = torch.where(keep, rows, 0.0)
    cells.check_sign(argument, rows)
    # The result does not depend on the scale, so the largest cell may set it, without a gradient: no sum overflows.
    top = rows.detach().amax(-1, keepdim=True)
    rows = rows / torch.where(top > 0, top, 1.0)
    mass = rows.sum(-1, keepdim=True)
    bad = (rows < 0).any(-1, keepdim=True) | (mass == 0)
    return rows / torch.where(bad, 1.0, mass), bad.squeeze(-1)


def held_zeros(rows: Tensor) -> Tensor:
    """Return the same cells; those that are exactly zero pass no gradient on."""
    return torch.where(rows == 0, 0, rows)


def check_base(name: str, base: float) -> float:
    """Return the natural logarithm of a base > 1."""
    if not is_number(base):
        raise TypeError(f"{name}: base must be a number, got {type(base).__name__}")
    if not 1 < base < math.inf:
        raise ValueError(f"{name}: base must be > 1 and finite (2 for bits, math.e for nats), got {base:g}")
    return math.log(base)


def _axes(name: str, dim: object, rank: int | None) -> tuple[int, ...]:
    """Return the axes of one map, counted from the end."""
    axes = dim if isinstance(dim, tuple | list) else (dim,)
    if not axes or not all(type(a) is int for a in axes):
        raise TypeError(f"{name}: dim must be an int or a tuple of ints, got {dim!r}")
    if rank is not None:
        if not all(-rank <= a < rank for a in axes):
            raise IndexError(f"{name}: dim={dim} is out of range for maps of {rank} axes")
        axes = tuple(a - rank if a >= 0 else a for a in axes)
    if len(set(axes)) < len(axes):
        raise ValueError(f"{name}: dim must name each axis once, got {dim}")
    return tuple(axes)
