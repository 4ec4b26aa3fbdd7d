"""Where the values of a fit are: regular grids of any size, or places that were given."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from omegamax._numerics import working_dtype
from omegamax.basis._base import at_least_single
from omegamax.basis._positions import cell_centres, check_sizes, product

F64 = torch.float64
Size = tuple[int, ...]
Lengths = Tensor | int | Sequence


class Places(torch.nn.Module):
    """The places of L values in n dimensions, as :class:`RidgeFit` takes them.

    A size is the number of cells along each axis of a regular grid; of places that were given, how many of the first.
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

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Places:
        return super()._apply(at_least_single(fn), recurse)

    def grid_size(self, positions: int | tuple[int, ...]) -> Size:
        """The size of a grid, one number for each axis."""
        sizes = (positions,) if isinstance(positions, int) else positions
        return check_sizes("RidgeFit", "positions", sizes, self.dimension)

    def check(self, positions: Tensor, width: int | None = None) -> Tensor:
        """Refuse what is not ``[*, L, n]``."""
        if not isinstance(positions, Tensor) or not positions.is_floating_point():
            given = positions.dtype if isinstance(positions, Tensor) else type(positions).__name__
            raise TypeError(f"RidgeFit: positions must be a floating-point tensor, got {given}")
        wanted = f"[*, {'L' if width is None else width}, {self.dimension}]"
        shape = tuple(positions.shape)
        if len(shape) < 2 or shape[-1] != self.dimension or (width is not None and shape[-2] != width):
            raise ValueError(f"RidgeFit: positions must be {wanted}, got shape {shape}")
        return positions

    def whole(self, width: int) -> Size:
        """The size when no lengths are given and there are ``width`` values."""
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
        """The shape of a batch and the size of each example in it, refused where it needs more than ``width``."""
        axes = self.dimension if self.points is None and self.dimension > 1 else None
        batch: Sequence[int]
        sizes: list[Size]
        if axes is None and type(lengths) is int:  # no tensor: nothing for a tracer to stumble upon
            batch, sizes = (), [(lengths,)]
        elif axes is not None and isinstance(lengths, tuple) and len(lengths) == axes and type(lengths[0]) is int:
            batch, sizes = (), [lengths]
        else:
            given = _integers(lengths)
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
        """How many values there are places for."""
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
        """The places of an example of this size, ``[l, n]``, float64."""
        if self.points is not None:
            return self.points[: size[0]].to(device, F64)
        if 0 in size:
            return torch.zeros(0, self.dimension, dtype=F64, device=device)
        return product([cell_centres(k, 0, F64, device) for k in size])

    def outside(self, size: Size, device: torch.device) -> Tensor:
        """Cell centres of the same spacing around the unit cube, half a side deep, ``[m, n]``, float64."""
        if 0 in size:
            return torch.zeros(0, self.dimension, dtype=F64, device=device)
        around = product([cell_centres(k, k // 2, F64, device) for k in size])
        return around[((around < 0) | (around > 1)).any(-1)]

    def each(
        self,
        lengths: Lengths | None,
        positions: Tensor | None,
        mask: Tensor | None,
        width: int,
        device: torch.device,
    ) -> tuple[Tensor, Tensor | None]:
        """Places ``[*, L, n]`` of every example, float64, and which of them are there ``[*, L]`` (None: all are)."""
        present = None
        if positions is not None:
            points = self.check(positions, width).to(device, F64)
            if lengths is not None:
                present = torch.arange(width, device=device) < _integers(lengths).to(device).unsqueeze(-1)
        elif lengths is None:
            points = self.inside(self.whole(width), device)
        else:
            batch, sizes = self.sizes(lengths, width)
            points, present = self._spread(batch, sizes, width, device)
        if mask is not None:
            _check_mask(mask, width)
            present = mask if present is None else present & mask
        return points, present

    def _spread(
        self, batch: Sequence[int], sizes: list[Size], width: int, device: torch.device
    ) -> tuple[Tensor, Tensor]:
        distinct = {s: i for i, s in enumerate(dict.fromkeys(sizes))}
        rows = []
        for s in distinct:
            inside = self.inside(s, device)
            rows.append(torch.cat([inside, inside.new_full((width - len(inside), self.dimension), 0.5)]))
        index = torch.tensor([distinct[s] for s in sizes], dtype=torch.long, device=device)
        table = torch.stack(rows) if rows else torch.zeros(0, width, self.dimension, dtype=F64, device=device)
        return table[index].reshape(*batch, width, self.dimension), self.present(batch, sizes, width, device)

    @staticmethod
    def present(batch: Sequence[int], sizes: list[Size], width: int, device: torch.device) -> Tensor:
        """Which of ``width`` rows each example fills, ``[*, L]``."""
        counts = torch.tensor([math.prod(s) for s in sizes], dtype=torch.long, device=device)
        return torch.arange(width, device=device) < counts.reshape(tuple(batch)).unsqueeze(-1)


def _integers(lengths: Lengths) -> Tensor:
    given = torch.as_tensor(lengths)
    if given.is_floating_point() or given.is_complex() or given.dtype == torch.bool:
        raise TypeError(f"RidgeFit: lengths must be integers, got dtype {given.dtype}")
    return given


def _check_mask(mask: Tensor, width: int) -> None:
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        given = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise TypeError(f"RidgeFit: mask must be a bool tensor (True keeps a value), got {given}")
    if mask.dim() == 0 or mask.shape[-1] != width:
        raise ValueError(f"RidgeFit: mask must be [*, {width}], got shape {tuple(mask.shape)}")
