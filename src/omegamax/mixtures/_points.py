"""Weighted points: the data of a mixture, checked, made to sum to one and brought to a common frame."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from omegamax._arguments import is_number
from omegamax._checks import check_floating, check_presence, readable
from omegamax._numerics import working_dtype
from omegamax.mixtures._packed import pairs, products


@dataclass(eq=False)
class Points:
    """L points with weights, for each example of a batch ``[*]``. The points may be shared by the batch.

    Coordinates are those of a frame with the centre of the points as origin and the longest side of their bounding
    box as unit; in double precision, where sums of raw products lose nothing that matters.
    """

    x: Tensor  # [*, L, n] or [L, n]
    weights: Tensor  # [*, L], each row sums to one
    centre: Tensor  # origin of the frame, [*, n] or [n]
    unit: Tensor  # its unit of length, [*] or []
    floor: Tensor  # least variance of a component, [*] or []
    spread: Tensor | None  # variance of a point along each axis, [*, n] or [n]; None: 0
    broken: Tensor  # [*], True where numbers that are not finite were given: what follows from them is NaN
    dtype: torch.dtype  # of the results
    features: Tensor = field(init=False)  # 1, coordinates and their products: all that a quadratic score needs

    def __post_init__(self) -> None:
        self.features = torch.cat([torch.ones_like(self.x[..., :1]), self.x, products(self.x)], -1)

    @property
    def dimension(self) -> int:
        """Return n."""
        return self.x.shape[-1]

    @property
    def batch_shape(self) -> torch.Size:
        """Return the shape ``[*]``."""
        return self.weights.shape[:-1]

    def moments(self, gamma: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return mass ``[*, K]``, mean ``[*, K, n]`` and packed covariance ``[*, K, P]`` of shares ``gamma [*, K, L]``.

        Of a share without mass the mean and the covariance mean nothing, but are finite.
        """
        n = self.dimension
        sums = (gamma * self.weights.unsqueeze(-2)) @ self.features
        mass = sums[..., 0]
        # Below the square of the rounding error nothing can be seen of a component, nor divided by its mass.
        mass = torch.where(mass > torch.finfo(mass.dtype).eps ** 2, mass, 0.0)
        moments = sums[..., 1:] / torch.where(mass > 0, mass, 1.0).unsqueeze(-1)
        mean = moments[..., :n]
        cov = moments[..., n:] - products(mean)
        if self.spread is not None:
            added = [self.spread[..., i] if i == j else torch.zeros_like(self.spread[..., 0]) for i, j in pairs(n)]
            cov = cov + torch.stack(added, -1).unsqueeze(-2)
        return mass, mean, cov

    @property
    def box(self) -> tuple[Tensor, Tensor]:
        """Return least and largest coordinates of the points that have weight, ``[*, n]``."""
        return _box(self.x.detach(), self.weights.detach() > 0)

    @property
    def size(self) -> Tensor:
        """Return Kish's effective number of points, ``1 / sum w^2``, ``[*]``."""
        return 1 / self.weights.square().sum(-1)


def as_points(
    name: str,
    positions: Tensor,
    weights: Tensor,
    mask: Tensor | None,
    floor: float | Tensor | None,
    spread: float | Tensor,
) -> Points:
    """Return the points of these arguments of the function ``name``."""
    _check(name, positions, weights, mask)
    double = torch.float32 if weights.device.type == "mps" else torch.float64
    x, w = positions.to(double), weights.to(double)
    shapes = [x.shape[:-2], w.shape[:-1]] + ([] if mask is None else [mask.shape[:-1]])
    try:
        batch = torch.broadcast_shapes(*shapes)
    except RuntimeError:
        listed = ", ".join(str(tuple(s)) for s in shapes)
        raise ValueError(f"{name}: batches of positions, weights and mask must broadcast, got {listed}") from None
    width, n = x.shape[-2:]
    present = None if mask is None else mask.expand((*batch, width))
    p, broken = _normalise(name, w.expand((*batch, width)), present)

    finite = x.isfinite().all(-1)
    active = p.detach() > 0
    broken = broken | (active & ~finite).any(-1)
    # Where no example of the batch has weight, a point may be anywhere.
    used = finite & (active.to(double).sum_to_size(finite.shape) > 0)
    low, high = _box(x.detach(), used)
    unit = (high - low).amax(-1)
    unit = torch.where(unit > 0, unit, 1.0)
    centre = (low + high) / 2
    near = (x - centre.unsqueeze(-2)) / unit[..., None, None]
    near = torch.where(used.unsqueeze(-1), near, 0.0)

    eps = torch.finfo(working_dtype(weights)).eps
    least = max(4 * (n - 1) * eps, 2.0**-40)  # so that precisions can be computed with, in either dtype
    if floor is None:
        rounding = 16 * torch.finfo(working_dtype(positions)).eps
        bound = _cell_variance(x.detach(), finite if present is None else finite & present, rounding)
    else:
        bound = _variance(name, "floor", floor, x, batch)
    bound = (bound / unit.square()).clamp(min=least)
    given = None
    if isinstance(spread, Tensor) or spread != 0:
        axes = _variance(name, "spread", spread, x, (*batch, n))
        given = (axes / unit.square().unsqueeze(-1)).expand((*torch.broadcast_shapes(axes.shape[:-1], unit.shape), n))
    return Points(near, p, centre, unit, bound, given, broken, working_dtype(weights))


def _check(name: str, positions: Tensor, weights: Tensor, mask: Tensor | None) -> None:
    for argument, value, rank in (("positions", positions, 2), ("weights", weights, 1)):
        wanted = "[*, L, n]" if rank == 2 else "[*, L]"
        check_floating(name, argument, value)
        if value.dim() < rank or 0 in value.shape[-rank:]:
            raise ValueError(f"{name}: {argument} must be {wanted}, got shape {tuple(value.shape)}")
    width = positions.shape[-2]
    if weights.shape[-1] != width:
        raise ValueError(f"{name}: weights must be [*, {width}], one for each position, got {tuple(weights.shape)}")
    if mask is not None:
        check_presence(name, "mask", mask, width)


def _variance(name: str, argument: str, value: float | Tensor, like: Tensor, shape: Sequence[int]) -> Tensor:
    if isinstance(value, Tensor):
        try:
            value.expand(shape)
        except RuntimeError:
            wanted = f"a number or expand to {tuple(shape)}"
            raise ValueError(f"{name}: {argument} must be {wanted}, got shape {tuple(value.shape)}") from None
        if readable(value) and not bool(((value >= 0) & value.isfinite()).all()):
            raise ValueError(f"{name}: {argument} must be >= 0 and finite everywhere")
        return value.to(like)
    if not is_number(value):
        raise TypeError(f"{name}: {argument} must be a variance, a float or a tensor, got {type(value).__name__}")
    if not 0 <= value < math.inf:
        raise ValueError(f"{name}: {argument} must be >= 0 and finite, got {value:g}")
    return like.new_full((), value)


def _normalise(name: str, weights: Tensor, present: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return rows that sum to one, and which of them, ``[*]``, held what is not finite.

    A row of zeros becomes uniform.
    """
    if present is not None:
        weights = torch.where(present, weights, 0.0)
    if readable(weights) and bool((weights < 0).any()):
        raise ValueError(f"{name}: weights must be >= 0, got a minimum of {weights.min().item():g}")
    total = weights.sum(-1, keepdim=True)
    broken = ~total.isfinite()
    usable = (total > torch.finfo(total.dtype).tiny) & ~broken
    equal = torch.ones_like(weights) if present is None else (present | ~present.any(-1, keepdim=True)).to(weights)
    equal = equal / equal.sum(-1, keepdim=True)
    safe = torch.where(usable, weights, 0.0) / torch.where(usable, total, 1.0)
    return torch.where(usable, safe, equal), broken.squeeze(-1)


def _box(x: Tensor, used: Tensor) -> tuple[Tensor, Tensor]:
    kept = used.unsqueeze(-1)
    low, high = torch.where(kept, x, math.inf).amin(-2), torch.where(kept, x, -math.inf).amax(-2)
    some = kept.any(-2)
    return torch.where(some, low, 0.0), torch.where(some, high, 0.0)


def _cell_variance(x: Tensor, present: Tensor, rounding: float) -> Tensor:
    """Return the variance of a uniform density along one side of a cell, ``[*]``: 1 / 12 k^2 for k cells a unit.

    A cell is the share of one position in a box that has, along each axis, as many times the usual (median) gap between
    coordinates as there are coordinates. Repeated positions count once, and neither their order nor a few far ones
    matter.
    """
    n = x.shape[-1]
    generic = x @ x.new_tensor([math.sqrt(2 + k) for k in range(n)])  # tells positions apart
    steps, counts = [], []
    for values in (*x.unbind(-1), generic):
        ordered = torch.where(present, values, math.inf).sort(-1).values
        before, after = ordered[..., :-1], ordered[..., 1:]
        gap = after - before
        new = (gap > rounding * torch.maximum(before.abs(), after.abs())) & (after < math.inf)
        counts.append(new.sum(-1).to(x.dtype) + 1.0)
        steps.append(torch.where(new, gap, math.nan).nanmedian(-1).values if gap.shape[-1] else gap.sum(-1))
    distinct = counts.pop()
    wide = torch.stack(counts, -1) > 1  # points on a line share the line, not the plane
    sides = torch.stack(steps[:-1], -1) * torch.stack(counts, -1)
    volume = torch.where(wide, sides, 1.0).log().sum(-1) - distinct.log()
    side = (volume / wide.sum(-1).clamp(min=1)).exp()
    return torch.where(wide.any(-1), side, 1.0).square() / 12
