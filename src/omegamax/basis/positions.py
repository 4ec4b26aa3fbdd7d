"""Where values are: cells of a regular grid over the unit cube, or points that were given."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from omegamax._arguments import check_sizes
from omegamax._checks import check_batches, check_floating, check_presence, is_plain
from omegamax._first_order import has_first_order
from omegamax._numerics import working_dtype
from omegamax.basis._base import at_least_single
from omegamax.basis._moments import find_moments_in_space, find_moments_on_line
from omegamax.basis.grid import (
    F64,
    Size,
    cell_centres,
    keep_cell_variance,
    keep_line_table,
    make_line_table,
    mesh_points,
)

Lengths = Tensor | int | Sequence
LONGEST = 1024  # cells of a line up to which all operators can be kept: 256 MB with 64 functions


class Positions(torch.nn.Module):
    """The positions of L values in n dimensions, as :class:`RidgeFit` is given them at construction.

    A size is the number of cells along each axis of a regular grid; of points that were given, how many of the first.
    """

    points: Tensor | None

    def __init__(self, positions: int | tuple[int, ...] | Tensor | None, dimension: int):
        super().__init__()
        self.dimension = dimension
        self.size: Size | None = None
        points = None
        if isinstance(positions, Tensor):
            if positions.dim() != 2:
                raise ValueError(f"RidgeFit: positions must be [L, {dimension}], got shape {tuple(positions.shape)}")
            points = self.check(positions)
            points = points.to(working_dtype(points))
        elif positions is not None:
            self.size = self.grid_size(positions)
        self.register_buffer("points", points, persistent=False)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Positions:
        return super()._apply(at_least_single(fn), recurse)

    def grid_size(self, positions: int | tuple[int, ...]) -> Size:
        """Return the size of a grid, one integer for each axis."""
        sizes = (positions,) if isinstance(positions, int) else positions
        return check_sizes("RidgeFit", "positions", sizes, self.dimension)

    def check(self, positions: Tensor, width: int | None = None) -> Tensor:
        """Refuse what is not ``[*, L, n]``; return it."""
        check_floating("RidgeFit", "positions", positions)
        wanted = f"[*, {'L' if width is None else width}, {self.dimension}]"
        shape = tuple(positions.shape)
        if len(shape) < 2 or shape[-1] != self.dimension or (width is not None and shape[-2] != width):
            raise ValueError(f"RidgeFit: positions must be {wanted}, got shape {shape}")
        return positions

    def full_size(self, width: int) -> Size:
        """Return the size when no lengths are given and there are ``width`` values."""
        size = self.size if self.points is None else (len(self.points),)
        if size is None and self.dimension == 1:
            return (width,)
        if size is None:
            raise ValueError("RidgeFit: positions are needed, at construction or in the call (or lengths)")
        count = math.prod(size)
        if count != width:
            raise ValueError(f"RidgeFit: values must have {count} rows, one for each position, got {width}")
        return size

    def sizes(self, lengths: Lengths, width: int | None) -> tuple[Sequence[int], list[Size]]:
        """Return the shape of a batch and the size of each example in it; refuse one that needs more than ``width``."""
        axes = self.dimension if self.points is None and self.dimension > 1 else None
        batch: Sequence[int]
        sizes: list[Size]
        if axes is None and type(lengths) is int:  # no tensor: nothing for a tracer to stumble upon
            batch, sizes = (), [(lengths,)]
        elif axes is not None and isinstance(lengths, tuple) and len(lengths) == axes and type(lengths[0]) is int:
            batch, sizes = (), [lengths]
        else:
            given = _as_integers(lengths)
            if axes is not None and (given.dim() == 0 or given.shape[-1] != axes):
                shape = tuple(given.shape)
                raise ValueError(f"RidgeFit: lengths must be [*, {axes}], cells along each axis, got shape {shape}")
            batch = given.shape if axes is None else given.shape[:-1]
            sizes = [tuple(k) for k in given.reshape(-1, axes or 1).tolist()]
        if any(k < 0 for s in sizes for k in s):
            raise ValueError("RidgeFit: lengths must be >= 0")
        most = len(self.points) if self.points is not None else width
        if width is not None and most is not None:
            most = min(most, width)
        if most is not None and any(math.prod(s) > most for s in sizes):
            worst = max(sizes, key=math.prod)
            raise ValueError(
                f"RidgeFit: lengths must fit in {most} values, got {worst[0] if len(worst) == 1 else worst}"
            )
        return batch, sizes

    def width(self, lengths: Lengths | None, positions: Tensor | None) -> int:
        """Return how many values there are positions for."""
        if positions is not None:
            return self.check(positions).shape[-2]
        if self.points is not None:
            return len(self.points)
        if self.size is not None:
            return math.prod(self.size)
        if lengths is None:
            raise ValueError("RidgeFit: positions, lengths or width are needed where none were given at construction")
        return max(map(math.prod, self.sizes(lengths, None)[1]), default=0)

    def inside(self, size: Size, device: torch.device) -> Tensor:
        """Return the positions of an example of this size, ``[l, n]``, float64."""
        if self.points is not None:
            return self.points[: size[0]].to(device, F64)
        if 0 in size:
            return torch.zeros(0, self.dimension, dtype=F64, device=device)
        return mesh_points([cell_centres(k, 0, F64, device) for k in size])

    def outside(self, size: Size, device: torch.device) -> Tensor:
        """Return cell centres of the same spacing around the unit cube, half a side deep, ``[m, n]``, float64."""
        if 0 in size:
            return torch.zeros(0, self.dimension, dtype=F64, device=device)
        around = mesh_points([cell_centres(k, k // 2, F64, device) for k in size])
        return around[((around < 0) | (around > 1)).any(-1)]

    def _stays_on_device(self, lengths: Tensor, width: int) -> bool:
        """Tell whether lengths are used where they are: on a GPU, for cells of a line that is not too long."""
        known = self.dimension == 1 and self.points is None and width <= LONGEST
        return known and lengths.device.type != "cpu" and is_plain(lengths)

    def locate(
        self,
        name: str,
        lengths: Lengths | None,
        positions: Tensor | None,
        mask: Tensor | None,
        width: int,
        device: torch.device,
    ) -> BatchPositions:
        """Return where the ``width`` values of each example are, given the arguments of one call of ``name``."""
        if mask is not None:
            check_presence(name, "mask", mask, width)
        if positions is not None:
            given = self.check(positions, width).to(device, F64)
            here = None
            if lengths is not None:
                here = torch.arange(width, device=device) < _as_integers(lengths).to(device).unsqueeze(-1)
            present = _join(name, {"positions": given.shape[:-2]}, here, mask)
            return BatchPositions(self.dimension, width, (), None, given, present, False)
        if isinstance(lengths, Tensor) and self._stays_on_device(lengths, width):
            lengths = _as_integers(lengths).to(device)
            present = _join(name, {}, torch.arange(width, device=device) < lengths.unsqueeze(-1), mask)
            return BatchPositions(1, width, lengths.shape, None, None, present, mask is None, counts=lengths)
        batch: Sequence[int] = ()
        here = points = None
        if lengths is None:
            sizes = [self.full_size(width)]
        else:
            batch, sizes = self.sizes(lengths, width)
            counts = [math.prod(s) for s in sizes]
            if any(count < width for count in counts):
                filled = _send(counts, device).reshape(tuple(batch))
                here = torch.arange(width, device=device) < filled.unsqueeze(-1)
        if self.points is not None:
            points = self.inside((width,), device)
            if len(points) < width:  # behind the lengths: any number does
                points = torch.cat([points, points.new_full((width - len(points), self.dimension), 0.5)])
        present = _join(name, {"lengths": batch}, here, mask)
        return BatchPositions(self.dimension, width, batch, sizes, points, present, mask is None)


@dataclass(frozen=True)
class BatchPositions:
    """The positions of the values of one call, for examples that may differ: cells of regular grids, or points."""

    dimension: int  # n
    width: int  # L
    batch: Sequence[int]  # the shape of the sizes
    sizes: list[Size] | None  # of each example, in array order; None if the positions came with the call
    points: Tensor | None  # [*, L, n], float64; None for regular grids
    present: Tensor | None  # [*, L], True where there is a value; None: everywhere
    fixed: bool  # whether the sizes say all: neither positions nor a mask came with the call
    extents: Tensor | None = None  # [*, L, n], sides of the boxes that the values fill; None: cells, or points
    counts: Tensor | None = None  # [*], cells of a line, where they were not read from a device; sizes is None then

    def coordinates(self, like: Tensor) -> list[Tensor]:
        """Return n coordinates ``[*, L]``; finite, though meaningless, where there is no value."""
        return list(self.table(like).unbind(-2))

    def table(self, like: Tensor) -> Tensor:
        """Return the coordinates in one tensor, ``[*, n, L]``."""
        if self.points is not None:
            points = self.points.to(like)
            if self.present is not None:
                points = torch.where(self.present.unsqueeze(-1), points, 0.5)
            return points.mT
        if self.dimension == 1:  # few operations: of a short text they take longer than what they compute
            odd = torch.arange(1, 2 * self.width + 1, 2, dtype=like.dtype, device=like.device)
            if self.counts is not None:
                return (odd / (2 * self.counts.clamp(min=1)).unsqueeze(-1)).unsqueeze(-2)
            assert self.sizes is not None
            one = len(set(self.sizes)) == 1
            return (odd / (2 * max(self.sizes[0][0], 1) if one else self._line_table(like)[0])).unsqueeze(-2)
        if self._is_one_grid() and is_plain(like):
            return _keep_table(self.sizes[0], self.width, like.dtype, like.device)  # type: ignore[index]
        return self._make_table(like)

    def _is_one_grid(self) -> bool:
        """Tell whether all examples are grids of the same size."""
        return self.points is None and self.sizes is not None and len(set(self.sizes)) == 1

    def _make_table(self, like: Tensor) -> Tensor:
        """Return that of regular grids."""
        index = torch.arange(self.width, device=like.device)
        axes: list[Tensor] = []
        for k in reversed(self._cells(like.device)):  # the last axis of the array runs fastest: the first coordinate
            cells = k.clamp(min=1).unsqueeze(-1) if isinstance(k, Tensor) else max(k, 1)
            axes.append((2 * (index % cells) + 1).to(like.dtype) / (2 * cells))
            index = index // cells
        return torch.stack(axes, -2)

    def stack(self, device: torch.device) -> Tensor:
        """Return the positions ``[*, L, n]``, float64; what is absent holds anything, NaN too."""
        if self.points is not None:
            return self.points
        return torch.stack(self.coordinates(torch.empty((), dtype=F64, device=device)), -1)

    def cell_variance(self, like: Tensor) -> Tensor:
        """Return the variance of a uniform density over one cell, ``[*, n]``; points share the unit cube equally."""
        if self.counts is not None:
            return (12 * self.counts.clamp(min=1).to(like.dtype).square()).reciprocal().unsqueeze(-1)
        if self.points is None and self.dimension == 1:
            assert self.sizes is not None
            if len(set(self.sizes)) == 1:
                return like.new_full((1,), 1 / (12 * max(self.sizes[0][0], 1) ** 2))
            return self._line_table(like)[1]
        if self._is_one_grid() and is_plain(like):
            return keep_cell_variance(self.sizes[0], like.dtype, like.device)  # type: ignore[index]
        if self.points is None:
            # Filled in there: a number that is copied to a GPU waits, and no CUDA graph can hold it.
            counts = [
                k.to(like.dtype) if isinstance(k, Tensor) else like.new_full((), k)
                for k in reversed(self._cells(like.device))
            ]
            return 1 / (12 * torch.stack(counts, -1).clamp(min=1).square())
        count = like.new_tensor(self.width) if self.present is None else self.present.sum(-1).to(like.dtype)
        return (1 / (12 * count.clamp(min=1).pow(2 / self.dimension))).unsqueeze(-1)

    def box_variance(self, p: Tensor) -> Tensor:
        """Return the mean under ``p [*, L]`` of the variance of a uniform density over each value's box, ``[*, n]``."""
        assert self.extents is not None
        sides = self.extents.to(p)
        if self.present is not None:  # a weight of 0 would not stop a NaN
            sides = torch.where(self.present.unsqueeze(-1), sides, 0.0)
        return (p.unsqueeze(-1) * sides.square()).sum(-2) / 12

    def moments(self, p: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean ``[*, n]`` and covariance ``[*, n, n]`` of the positions under ``p [*, L]`` that sums to one.

        Sums of products and no matmul: autocast and TF32 would round the coordinates.
        """
        table = self.table(p)
        if self.points is None and self.dimension == 1 and has_first_order(p):
            return find_moments_on_line(p, table.squeeze(-2))
        if self.points is None and has_first_order(p):
            return find_moments_in_space(p, table)
        coordinates = table.unbind(-2)
        means = [(p * x).sum(-1) for x in coordinates]
        # Centred first: the difference of two raw moments is all rounding where the weights are concentrated.
        centred = [x - m.unsqueeze(-1) for x, m in zip(coordinates, means, strict=True)]
        weighted = [p * x for x in centred]
        n = len(coordinates)
        lower = {(i, j): (weighted[i] * centred[j]).sum(-1) for i in range(n) for j in range(i + 1)}
        rows = [torch.stack([lower[max(i, j), min(i, j)] for j in range(n)], -1) for i in range(n)]
        return torch.stack(means, -1), torch.stack(rows, -2)

    def equal_weights(self, like: Tensor) -> float | Tensor:
        """Return equal weights of the values present, ``[*, L]``, or a number for all; if none is, those of all."""
        if self.present is None:
            return 1 / max(self.width, 1)
        counts = [math.prod(size) for size in self.sizes or ()]
        if self.fixed and self.points is None and counts and min(counts) > 0:
            if self.dimension == 1 and len(set(counts)) > 1:
                return self.present * self._line_table(like)[2]
            share = torch.tensor([1 / count for count in counts], dtype=like.dtype)
            return self.present * share.to(like.device, non_blocking=True).reshape(*self.batch, 1)
        equal = (self.present | ~self.present.any(-1, keepdim=True)).to(like.dtype)
        return equal / equal.sum(-1, keepdim=True)

    def _line_table(self, like: Tensor) -> Tensor:
        """Return twice the cells of each line, the variance of one and its share, ``[3, *, 1]``, in one copy."""
        assert self.sizes is not None
        make = keep_line_table if is_plain(like) else make_line_table
        return make(tuple(max(k, 1) for (k,) in self.sizes), like.dtype, like.device).reshape(3, *self.batch, 1)

    def _cells(self, device: torch.device) -> Sequence[int | Tensor]:
        """Return the cells along each axis, in array order: ints, or ``[*]`` if examples differ."""
        if self.counts is not None:
            return [self.counts]
        assert self.sizes is not None
        if len(set(self.sizes)) == 1:
            return list(self.sizes[0])
        table = _send(self.sizes, device).reshape(*self.batch, self.dimension)
        return list(table.unbind(-1))


@lru_cache(maxsize=64)
def _keep_table(size: Size, width: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return the coordinates of a regular grid, ``[n, L]``, kept on each device: else each call launches a dozen."""
    with torch.inference_mode(False), torch.no_grad():
        where = BatchPositions(len(size), width, (), [size], None, None, True)
        return where._make_table(torch.empty((), dtype=dtype, device=device))


def _send(numbers: Sequence[Any], device: torch.device) -> Tensor:
    """Return integers on a device, without waiting for all that a GPU still has to do."""
    return torch.tensor(numbers, dtype=torch.long).to(device, non_blocking=True)


def _join(name: str, shapes: Mapping[str, Sequence[int]], here: Tensor | None, mask: Tensor | None) -> Tensor | None:
    """Return which values are present by lengths and by mask; refuse batches that do not broadcast."""
    if here is not None:
        shapes = {**shapes, "lengths": here.shape[:-1]}
    if mask is not None:
        shapes = {**shapes, "mask": mask.shape[:-1]}
    check_batches(name, shapes)
    return mask if here is None else here if mask is None else here & mask


def _as_integers(lengths: Lengths) -> Tensor:
    given = torch.as_tensor(lengths)
    if given.is_floating_point() or given.is_complex() or given.dtype == torch.bool:
        raise TypeError(f"RidgeFit: lengths must be integers, got dtype {given.dtype}")
    return given
