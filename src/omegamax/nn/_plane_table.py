"""What the kernels of continuous attention over the plane take beside values and weights, kept from call to call."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from omegamax import kernels
from omegamax._checks import FLOATS
from omegamax._first_order import has_first_order
from omegamax._numerics import working_dtype
from omegamax.basis import RidgeFit
from omegamax.basis.positions import BatchPositions
from omegamax.densities.expectations import PlaneRule, find_plane_rule

MOST = 64  # tables of a layer, which forgets them all when there are more

Floor = Callable[[Tensor, BatchPositions], Tensor]


class PlaneTable(NamedTuple):
    """The constants of all calls with as many values, on one device and in the same precision."""

    fit: RidgeFit
    centers: Tensor  # of the basis, by which it is seen that this was moved
    where: BatchPositions  # of the values: the cells of a grid
    points: Tensor  # their coordinates, [2, L]
    positions: Tensor  # the same, [L, 2]
    one: Tensor  # [1]
    floor: Tensor  # what variances are raised by, [2]
    operator: Tensor  # from expectations to weights of the values, [J, L]
    rule: PlaneRule


class PlaneTables:
    """The tables of a layer, by what they depend on."""

    def __init__(self) -> None:
        self._made: dict[tuple, PlaneTable] = {}

    def find(
        self, fit: RidgeFit, alpha: object, floor: float | None, values: Tensor, weights: Tensor, make_floor: Floor
    ) -> PlaneTable | None:
        """Return the table for values ``[*, L, D]`` and weights ``[*, L]``; None where kernels do not serve these.

        They do on a GPU, for values on a grid over the plane and Gaussian functions that have no gradient. What else
        an argument may be is left to the other way, and its errors.

        Args:
            alpha: of the densities, for which there are kernels if it is a number.
            floor: that of the layer, from which ``make_floor(like, where)`` makes variances.
        """
        if type(alpha) not in (float, int) or not isinstance(values, Tensor) or not isinstance(weights, Tensor):
            return None
        if not has_first_order(values, weights) or not kernels.is_compiled("weights_vjp", weights):
            return None
        if values.layout is not torch.strided or values.is_nested or weights.is_nested:
            return None
        if weights.dim() == 0 or values.shape[:-1] != weights.shape or values.device != weights.device:
            return None
        width = weights.shape[-1]
        key = (width, values.dtype, weights.dtype, values.device, alpha, floor, fit.penalty, fit.padding, fit.mean)
        table = self._made.get(key)
        if table is not None and table.fit is fit and table.centers is fit.basis.centers:
            return table
        table = _make_table(fit, alpha, values, weights, make_floor)  # type: ignore[arg-type]
        if table is not None:
            if len(self._made) >= MOST:
                self._made.clear()
            self._made[key] = table
        return table


def _make_table(fit: RidgeFit, alpha: float, values: Tensor, weights: Tensor, make_floor: Floor) -> PlaneTable | None:
    if values.dtype not in FLOATS or weights.dtype not in FLOATS:
        return None
    dtype, device = working_dtype(weights), weights.device
    rule = find_plane_rule(fit.basis, alpha, dtype)
    if rule is None or working_dtype(values) != dtype or 0 in values.shape:
        return None
    with torch.inference_mode(False), torch.no_grad():
        where = fit.locate("RidgeFit", None, None, None, weights.shape[-1], device)
        if where.points is not None:
            return None
        like = weights.new_empty((), dtype=dtype)
        operator = fit.operator_at(where, dtype, device)
        points, floor, one = where.table(like), make_floor(like, where), like.new_ones(1)
        centers, positions = rule.given[0], points.mT.contiguous()
        return PlaneTable(fit, centers, where, points, positions, one, floor, operator, rule)
