"""Where the L values of an attention layer are, and what weights over them say: mean and covariance."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from omegamax._checks import readable
from omegamax._numerics import working_dtype
from omegamax.basis import RidgeFit
from omegamax.basis._places import Lengths


@dataclass(frozen=True)
class Layout:
    """The places of L values, for a batch whose examples may differ: cells of a regular grid, or points."""

    width: int
    present: Tensor | None  # [*, L], True where there is a value; None: everywhere
    sizes: list[int | Tensor] | None  # cells along each axis of the grid, in array order; ints, or [*] if they differ
    given: Tensor | None  # [*, L, n]: the points, where there is no grid

    def coordinates(self, like: Tensor) -> list[Tensor]:
        """Of all places, n times ``[*, L]``; finite, though meaningless, where there is no value."""
        if self.given is not None:
            points = self.given.to(like)
            if self.present is not None:
                points = torch.where(self.present.unsqueeze(-1), points, 0.5)
            return list(points.unbind(-1))
        assert self.sizes is not None
        index = torch.arange(self.width, device=like.device)
        axes: list[Tensor] = []
        for k in reversed(self.sizes):  # the last axis of the array runs fastest, and is the first coordinate
            cells = k.clamp(min=1).unsqueeze(-1) if isinstance(k, Tensor) else max(k, 1)
            axes.append((2 * (index % cells) + 1).to(like.dtype) / (2 * cells))
            index = index // cells
        return axes

    def cell_variance(self, n: int, like: Tensor) -> Tensor:
        """Of a uniform density over one cell, along each axis, ``[*, n]``; points share the unit cube equally."""
        if self.sizes is not None:
            counts = [torch.as_tensor(k, device=like.device).to(like.dtype) for k in reversed(self.sizes)]
            return 1 / (12 * torch.stack(counts, -1).clamp(min=1).square())
        count = like.new_tensor(self.width) if self.present is None else self.present.sum(-1).to(like.dtype)
        return (1 / (12 * count.clamp(min=1).pow(2 / n))).unsqueeze(-1)


def layout(
    name: str,
    fit: RidgeFit,
    lengths: Lengths | None,
    positions: Tensor | None,
    mask: Tensor | None,
    width: int,
    device: torch.device,
) -> Layout:
    """The places that a fit uses when it is called with these arguments."""
    if mask is not None:
        if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
            given = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
            raise TypeError(f"{name}: mask must be a bool tensor (True keeps a value), got {given}")
        if mask.dim() == 0 or mask.shape[-1] != width:
            raise ValueError(f"{name}: mask must be [*, {width}], got shape {tuple(mask.shape)}")
    places = fit.places
    if positions is not None or places.points is not None:
        points, present = places.each(lengths, positions, mask, width, device)
        if present is not None:
            check_batches(name, {"positions": points.shape[:-2], "lengths or mask": present.shape[:-1]})
        return Layout(width, present, None, points)
    if lengths is None:
        return Layout(width, mask, list(places.whole(width)), None)
    batch, sizes = places.sizes(lengths, width)
    present = mask
    check_batches(name, {"lengths": batch, "mask": () if mask is None else mask.shape[:-1]})
    if any(math.prod(s) < width for s in sizes):
        here = places.present(batch, sizes, width, device)
        present = here if mask is None else here & mask
    if len(set(sizes)) == 1:
        return Layout(width, present, list(sizes[0]), None)
    table = torch.tensor(sizes, dtype=torch.long, device=device).reshape(*batch, places.dimension)
    return Layout(width, present, list(table.unbind(-1)), None)


def normalised(name: str, weights: Tensor, present: Tensor | None, width: int) -> tuple[Tensor, Tensor]:
    """Weights ``[*, L]`` of the values present, made to sum to one, and which rows cannot be, ``[*, 1]``.

    In the working dtype. A row without any weight is 0 throughout, one that is not finite NaN; neither has a gradient.
    """
    if not isinstance(weights, Tensor) or not weights.is_floating_point():
        given = weights.dtype if isinstance(weights, Tensor) else type(weights).__name__
        raise TypeError(f"{name}: weights must be a floating-point tensor, got {given}")
    if weights.dim() == 0 or weights.shape[-1] != width:
        raise ValueError(f"{name}: weights must be [*, {width}], one for each value, got shape {tuple(weights.shape)}")
    weights = weights.to(working_dtype(weights))
    if present is not None:
        check_batches(name, {"weights": weights.shape[:-1], "lengths or mask": present.shape[:-1]})
        weights = torch.where(present, weights, 0.0)
    if readable(weights) and bool((weights < 0).any()):
        raise ValueError(f"{name}: weights must be >= 0, got a minimum of {weights.min().item():g}")
    total = weights.sum(-1, keepdim=True)
    lost = ~((total > torch.finfo(total.dtype).tiny) & (total < math.inf))  # elsewhere 1 / total is finite
    return torch.where(lost, 0 * total.detach(), weights / torch.where(lost, 1.0, total)), lost


def equalised(p: Tensor, lost: Tensor, present: Tensor | None) -> Tensor:
    """The rows that could not be normalised made equal weights of what is present; of all, if nothing is."""
    equal = torch.ones_like(p) if present is None else (present | ~present.any(-1, keepdim=True)).to(p.dtype)
    return torch.where(lost, equal / equal.sum(-1, keepdim=True), p)


def moments(p: Tensor, coordinates: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Mean ``[*, n]`` and covariance ``[*, n, n]`` of n coordinates ``[*, L]`` under ``p [*, L]`` that sums to one.

    Sums of products and no matmul: autocast and TF32 would round the coordinates.
    """
    means = [(p * x).sum(-1) for x in coordinates]
    # Centred first: the difference of two raw moments is all rounding where the weights are concentrated.
    centred = [x - m.unsqueeze(-1) for x, m in zip(coordinates, means, strict=True)]
    weighted = [p * x for x in centred]
    n = len(coordinates)
    lower = {(i, j): (weighted[i] * centred[j]).sum(-1) for i in range(n) for j in range(i + 1)}
    rows = [torch.stack([lower[max(i, j), min(i, j)] for j in range(n)], -1) for i in range(n)]
    return torch.stack(means, -1), torch.stack(rows, -2)


def check_batches(name: str, shapes: Mapping[str, Sequence[int]]) -> None:
    """Refuse batches, by the names of their arguments, that do not broadcast."""
    distinct = {tuple(s) for s in shapes.values() if len(s)}
    if len(distinct) < 2:  # nearly always; what follows takes torch a tenth of a millisecond
        return
    try:
        torch.broadcast_shapes(*distinct)
    except RuntimeError:
        listed = ", ".join(f"{k} {tuple(s)}" for k, s in shapes.items())
        raise ValueError(f"{name}: batches must broadcast, got {listed}") from None


def check_matrix(name: str, argument: str, wanted: str, value: Tensor, rows: int | None = None) -> None:
    """Refuse what is not a floating tensor with at least two axes, ``rows`` long along the last but one."""
    if not isinstance(value, Tensor) or not value.is_floating_point():
        given = value.dtype if isinstance(value, Tensor) else type(value).__name__
        raise TypeError(f"{name}: {argument} must be a floating-point tensor, got {given}")
    if value.dim() < 2 or (rows is not None and value.shape[-2] != rows):
        raise ValueError(f"{name}: {argument} must be {wanted}, got shape {tuple(value.shape)}")
