"""Weighted points: the data of a mixture, checked, made to sum to one and brought to a common frame."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from omegamax._arguments import is_number
from omegamax._checks import broadcast_batches, check_floating, check_presence, readable
from omegamax._numerics import exact_dtype, working_dtype
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


@dataclass(frozen=True, eq=False)
class GivenPoints:
    """Arguments that make weighted points, checked, and not yet computed with."""

    name: str  # of the function whose arguments they are
    positions: Tensor  # [*, L, n]
    weights: Tensor  # [*, L], the whole batch
    mask: Tensor | None  # [*, L]
    floor: float | Tensor | None
    spread: float | Tensor

    @property
    def dimension(self) -> int:
        """Return n."""
        return self.positions.shape[-1]

    @property
    def batch_shape(self) -> torch.Size:
        """Return the shape ``[*]``."""
        return self.weights.shape[:-1]

    @property
    def dtype(self) -> torch.dtype:
        """Return that of the results."""
        return working_dtype(self.weights)

    @property
    def exact_dtype(self) -> torch.dtype:
        """Return that of the computation."""
        return exact_dtype(self.weights.device)

    @property
    def least_floor(self) -> float:
        """Return the least variance with whose inverse can be computed in the frame, in the dtype of the weights."""
        return max(4 * (self.dimension - 1) * torch.finfo(self.dtype).eps, 2.0**-40)

    def floor_tensor(self) -> Tensor | None:
        """Return the floor in the units of the positions, ``[*]``; None: 0."""
        if self.floor is not None:
            return self._variance(self.floor, ())
        x = self.positions.detach().to(self.exact_dtype)
        kept = x.isfinite().all(-1)
        rounding = 16 * torch.finfo(working_dtype(self.positions)).eps
        return _cell_variance(x, kept if self.mask is None else kept & self.mask, rounding)

    def spread_tensor(self) -> Tensor | None:
        """Return the variance of a point along each axis, which broadcasts to ``[*, n]``; None: 0."""
        return self._variance(self.spread, (self.dimension,))

    def _variance(self, value: float | Tensor, shape: tuple[int, ...]) -> Tensor | None:
        if isinstance(value, Tensor):
            return value.to(self.weights.device)
        return None if value == 0 else self.weights.new_full(shape, value, dtype=self.exact_dtype)

    def bring_to_frame(self) -> Points:
        """Return the points, normalised and in their frame."""
        double, n = self.exact_dtype, self.dimension
        x, w = self.positions.to(double), self.weights.to(double)
        present = None if self.mask is None else self.mask.expand(w.shape)
        p, broken = _normalise(w, present)
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

        floor, spread = self.floor_tensor(), self.spread_tensor()
        bound = x.new_full((), self.least_floor)
        if floor is not None:
            bound = (floor.to(double) / unit.square()).clamp(min=self.least_floor)
        if spread is not None:
            shape = torch.broadcast_shapes(spread.shape[:-1], unit.shape)
            spread = (spread.to(double) / unit.square().unsqueeze(-1)).expand((*shape, n))
        return Points(near, p, centre, unit, bound, spread, broken, self.dtype)


def check_points(
    name: str,
    positions: Tensor,
    weights: Tensor,
    mask: Tensor | None,
    floor: float | Tensor | None,
    spread: float | Tensor,
) -> GivenPoints:
    """Return the points of these arguments of the function ``name``; refuse what are none."""
    _check(name, positions, weights, mask)
    shapes = [positions.shape[:-2], weights.shape[:-1]] + ([] if mask is None else [mask.shape[:-1]])
    try:
        batch = broadcast_batches(*shapes)
    except RuntimeError:
        listed = ", ".join(str(tuple(s)) for s in shapes)
        raise ValueError(f"{name}: batches of positions, weights and mask must broadcast, got {listed}") from None
    _check_values(name, weights, mask)
    if floor is not None:
        _check_variance(name, "floor", floor, batch)
    _check_variance(name, "spread", spread, (*batch, positions.shape[-1]))
    width = positions.shape[-2]
    weights = weights if weights.shape[:-1] == batch else weights.expand((*batch, width))
    return GivenPoints(name, positions, weights, mask, floor, spread)


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


def _check_values(name: str, weights: Tensor, mask: Tensor | None) -> None:
    if not readable(weights):
        return
    kept = weights if mask is None else torch.where(mask, weights, 0.0)
    if bool((kept < 0).any()):
        raise ValueError(f"{name}: weights must be >= 0, got a minimum of {kept.min().item():g}")


def _check_variance(name: str, argument: str, value: float | Tensor, shape: Sequence[int]) -> None:
    if isinstance(value, Tensor):
        try:
            value.expand(shape)
        except RuntimeError:
            wanted = f"a number or expand to {tuple(shape)}"
            raise ValueError(f"{name}: {argument} must be {wanted}, got shape {tuple(value.shape)}") from None
        if readable(value) and not bool(((value >= 0) & value.isfinite()).all()):
            raise ValueError(f"{name}: {argument} must be >= 0 and finite everywhere")
        return
    if not is_number(value):
        raise TypeError(f"{name}: {argument} must be a variance, a float or a tensor, got {type(value).__name__}")
    if not 0 <= value < math.inf:
        raise ValueError(f"{name}: {argument} must be >= 0 and finite, got {value:g}")


def _normalise(weights: Tensor, present: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return rows that sum to one, and which of them, ``[*]``, held what is not finite.

    A row of zeros becomes uniform.
    """
    if present is not None:
        weights = torch.where(present, weights, 0.0)
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
    # What tells positions apart. Its factors are made on the device: a copy to a GPU would wait.
    generic = x @ torch.arange(2, x.shape[-1] + 2, dtype=x.dtype, device=x.device).sqrt()
    values = torch.cat([x.movedim(-1, 0), generic.unsqueeze(0)])
    values = values.reshape(len(values), *(1,) * (present.dim() - generic.dim()), *generic.shape)
    ordered = torch.where(present, values, math.inf).sort(-1).values
    before, after = ordered[..., :-1], ordered[..., 1:]
    gap, size = after - before, ordered.abs()
    new = (gap > rounding * torch.maximum(size[..., :-1], size[..., 1:])) & (after < math.inf)
    counts = new.sum(-1).to(x.dtype) + 1.0
    steps = torch.where(new, gap, math.nan).nanmedian(-1).values if gap.shape[-1] else gap.sum(-1)
    sides, counts, distinct = (steps * counts)[:-1], counts[:-1], counts[-1]
    wide = counts > 1  # points on a line share the line, not the plane
    volume = torch.where(wide, sides, 1.0).log().sum(0) - distinct.log()
    side = (volume / wide.sum(0).clamp(min=1)).exp()
    return torch.where(wide.any(0), side, 1.0).square() / 12
