"""One density over the unit square, taken out of a batch."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from omegamax._arguments import check_type
from omegamax.densities import BetaGaussian, Density, Mixture
from omegamax.viz.picture import Index, check_index

_ANGLES = 360
_CHUNK = 8192


@dataclass(frozen=True)
class Region:
    """A density in float64 on the CPU: its parts that have weight, and what it is at points ``[N, 2]``.

    Args:
        weights: of the parts, ``[K]``; a density that is no mixture is its only part.
        means: of the parts, ``[K, 2]``.
        ellipses: the parts themselves, of batch ``[K]``, if they are elliptic.
        prob: the density at points.
        contains: whether points lie in the support.
    """

    weights: Tensor
    means: Tensor
    ellipses: BetaGaussian | None
    prob: Callable[[Tensor], Tensor]
    contains: Callable[[Tensor], Tensor]

    def borders(self) -> list[Tensor]:
        """Trace where the support of elliptic parts ends, ``[M, 2]`` each: ellipses, or arcs that no other covers."""
        if self.ellipses is None or not bool(self.ellipses.support_radius.isfinite().all()):
            return []
        loc, shape = self.ellipses.loc, self.ellipses.support_tril
        return [arc for k in range(len(loc)) for arc in _arcs(loc, shape, k)]


def region(name: str, density: Density, index: Index | None, argument: str = "density") -> Region:
    """Member ``index`` of a batch of densities; None if there is only one."""
    check_type(name, argument, density, Density, "a density of omegamax.densities")
    if density.event_shape != (2,):
        given = tuple(density.event_shape)
        raise ValueError(f"{name}: {argument} must be over two dimensions, got event shape {given}")
    here = check_index(name, tuple(density.batch_shape), index, argument)
    parts: Density
    if isinstance(density, Mixture):
        weights, parts = density.weights.cpu()[here].double(), density.components
        alive = weights > 0
        part: tuple[Any, ...] = (*here, alive)
    else:
        weights, parts = torch.ones(1, dtype=torch.float64), density
        alive, part = weights > 0, (*here, None)
    if isinstance(parts, BetaGaussian):
        alpha = torch.as_tensor(parts.alpha, dtype=torch.float64, device="cpu").expand(parts.batch_shape)[part]
        loc, tril = (t.cpu()[part].double() for t in (parts.loc.expand(*parts.batch_shape, 2), parts.scale_tril))
        _refuse(name, argument, loc, tril, tril.diagonal(dim1=-2, dim2=-1).log(), alpha, weights)
        ellipses = BetaGaussian(loc, scale_tril=tril, alpha=alpha, validate_args=False)
        whole = Mixture(weights[alive], ellipses, validate_args=False)
        return Region(weights[alive], loc, ellipses, whole.prob, whole.support_contains)
    means = parts.mean.expand(*parts.batch_shape, 2).cpu()[part].double()
    _refuse(name, argument, means, weights)
    prob, contains = (_at(of, density, here) for of in (density.prob, density.support_contains))
    return Region(weights[alive], means, None, prob, contains)


def _refuse(name: str, argument: str, *values: Tensor) -> None:
    if not all(bool(value.isfinite().all()) for value in values):
        raise ValueError(f"{name}: {argument} must have finite parameters and a positive scale, got others")


def _at(function: Callable[[Tensor], Tensor], density: Density, place: tuple[Any, ...]) -> Callable[[Tensor], Tensor]:
    """Return a function of points of the whole batch, as one of points ``[N, 2]`` of a member."""

    def member(points: Tensor) -> Tensor:
        found = []
        for some in points.split(_CHUNK):
            wide = some.to(density.mean).reshape(-1, *(1 for _ in place), 2)
            found.append(function(wide.expand(-1, *density.batch_shape, 2)).cpu()[(slice(None), *place)])
        values = torch.cat(found)
        return values if values.dtype == torch.bool else values.double()

    return member


def _arcs(loc: Tensor, shape: Tensor, own: int) -> list[Tensor]:
    """Return the parts of one of K ellipses that lie in no other."""

    def ring(angles: Tensor) -> Tensor:
        return loc[own] + torch.stack([angles.cos(), angles.sin()], -1) @ shape[own].mT

    def free(angles: Tensor) -> Tensor:
        offset = (ring(angles)[:, None] - loc).movedim(0, -1)  # [K, 2, M]
        inside = torch.linalg.solve_triangular(shape, offset, upper=False).norm(dim=1) < 1 - 1e-9  # twins do not count
        inside[own] = False
        return ~inside.any(0)

    angles = torch.linspace(0, 2 * math.pi, _ANGLES + 1, dtype=torch.float64)
    outside = free(angles)
    if outside.all() or not outside.any():
        return [ring(angles)] if outside.all() else []
    angles = angles + angles[int((~outside).nonzero()[0])]  # a start under another ellipse: arcs are then whole
    outside = free(angles)
    outside[0] = outside[-1] = False
    (change,) = torch.nonzero(outside[1:] != outside[:-1], as_tuple=True)
    within = torch.where(outside[change], angles[change + 1], angles[change])
    without = torch.where(outside[change], angles[change], angles[change + 1])
    for _ in range(60):
        middle = (within + without) / 2
        outer = free(middle)
        within, without = torch.where(outer, within, middle), torch.where(outer, middle, without)
    ends = without.reshape(-1, 2)
    inner = [angles[(angles > start) & (angles < stop)] for start, stop in ends]
    return [ring(torch.cat([start[None], some, stop[None]])) for (start, stop), some in zip(ends, inner, strict=True)]
