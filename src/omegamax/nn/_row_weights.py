"""The weights of the values of a call: made to sum to one, and the moments of positions under them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from omegamax import kernels
from omegamax._checks import broadcast_batches, check_batches, check_floating, check_shape, is_plain, readable
from omegamax._first_order import FirstOrder, has_first_order
from omegamax._numerics import working_dtype
from omegamax.basis.positions import BatchPositions
from omegamax.kernels.moments import MOST_AXES


class RowWeights:
    """Weights ``[*, L]`` of values, of which those that are absent count for nothing, and what is made of them.

    Rows that cannot be made to sum to one are ``lost``, ``[*, 1]``: they have equal weights in their stead, and no
    gradient. ``nothing`` is what such a row has to have as its context: 0, or NaN if it is not finite.

    On a GPU all that is asked for first comes from one launch, and its gradient from another.

    Args:
        shared: whether the weights that sum to one will be asked for beside the moments.
    """

    lost: Tensor
    nothing: Tensor

    def __init__(self, name: str, weights: Tensor, where: BatchPositions, shared: bool):
        check_shape(
            name, "weights", check_floating(name, "weights", weights), "*", where.width, meaning="one for each value"
        )
        self.where, self._shared = where, shared
        self._p: Tensor | None = None
        self.batch, present = weights.shape[:-1], where.present
        if present is not None:
            check_batches(name, {"weights": self.batch, "lengths or mask": present.shape[:-1]})
            if present.shape[:-1] != self.batch:
                self.batch = torch.broadcast_shapes(self.batch, present.shape[:-1])
        read = readable(weights)
        here = not read and (present is None or present.device == weights.device)
        self._fused = here and kernels.is_compiled("moments", weights) and has_first_order(weights)
        self._weights = weights if self._fused else _mask(where, weights)  # a kernel masks for itself
        if read and bool((self._weights < 0).any()):
            raise ValueError(f"{name}: weights must be >= 0, got a minimum of {self._weights.min().item():g}")

    @property
    def like(self) -> Tensor:
        """Return a tensor of the working dtype, on the device."""
        dtype = working_dtype(self._weights)
        return self._weights if self._weights.dtype == dtype else self._weights.new_empty((), dtype=dtype)

    @property
    def p(self) -> Tensor:
        """Return the weights ``[*, L]`` that sum to one, in the working dtype."""
        if self._p is None:
            (self._p,) = self._run(None, None, True) if self._fused else self._normalise()
        return self._p

    def moments(self, floor: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean ``[*, n]`` and covariance ``[*, n, n]`` of the positions, ``floor [*, n]`` on its diagonal.

        The covariance is symmetric to the last bit.
        """
        where = self.where
        fixed = where.extents is None and (where.points is None or not where.points.requires_grad)
        if not (self._fused and fixed and where.dimension <= MOST_AXES):
            return _find_moments(where, floor, self.p)
        shared = self._shared and self._p is None
        mean, covariance, *rest = self._run(where.table(self.like), floor, shared)
        if shared:
            (self._p,) = rest
        return mean, covariance

    def blank(self, rows: Tensor) -> Tensor:
        """Return rows ``[*, L]`` with nothing in place of those that are lost."""
        return torch.where(self.lost, self.nothing.to(rows.dtype), rows)

    def _run(self, points: Tensor | None, floor: Tensor | None, shared: bool) -> tuple[Tensor, ...]:
        """Return mean and covariance, if there are points, and the weights that sum to one, if ``shared``."""
        batches = [self.batch, *(t.shape[:-k] for t, k in ((points, 2), (floor, 1)) if t is not None)]
        batch = broadcast_batches(*batches)
        weights, present = self._weights, self.where.present
        if weights.shape[:-1] != batch:
            weights = weights.expand((*batch, self.where.width))
        found: Any = kernels.solve("moments", weights.detach(), present, points, floor, shared)
        self.nothing, self.lost = found.sums[1], found.lost

        def compute(weights: Tensor) -> Any:
            outputs = (found.mean, found.covariance, found.p)
            kept = (weights, present, points, found.sums, found.mean)
            return tuple(t for t in outputs if t is not None), kept

        plainly = partial(_find_plainly, self.where, self.lost, floor, shared)
        results = FirstOrder.apply(compute, partial(_pull_back, plainly, shared), plainly, weights)
        return results if isinstance(results, tuple) else (results,)

    def _normalise(self) -> tuple[Tensor]:
        """Return the weights that sum to one, in plain torch."""
        weights = self._weights
        total = weights.detach().sum(-1, keepdim=True)
        bounds = torch.finfo(total.dtype)
        self.lost = total.clamp(bounds.tiny, bounds.max) != total  # elsewhere 1 / total is finite
        self.nothing = 0 * total
        equal = self.where.equal_weights(weights)
        plainly = partial(_divide_plainly, self.lost, equal)
        if not has_first_order(weights):
            return (plainly(weights),)
        return (FirstOrder.apply(partial(_divide, total, self.lost, equal), _pull_division_back, plainly, weights),)


# Functions that a graph keeps are none of the object: it holds their results, and neither would ever go.


def _mask(where: BatchPositions, weights: Tensor) -> Tensor:
    weights = weights.to(working_dtype(weights))
    return weights if where.present is None else torch.where(where.present, weights, 0.0)


def _find_plainly(
    where: BatchPositions, lost: Tensor, floor: Tensor | None, shared: bool, weights: Tensor
) -> tuple[Tensor, ...]:
    weights = _mask(where, weights)
    p = _divide_plainly(lost, where.equal_weights(weights), weights)
    moments = () if floor is None else _find_moments(where, floor, p)
    return (*moments, p) if shared else moments


def _find_moments(where: BatchPositions, floor: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
    mean, covariance = where.moments(p)
    if floor.shape[-1] == 1:
        return mean, covariance + floor.unsqueeze(-1)
    covariance = covariance + torch.diag_embed(floor)
    return mean, (covariance + covariance.mT) / 2


def _pull_back(
    plainly: Callable[[Tensor], tuple[Tensor, ...]],
    shared: bool,
    weights: Tensor,
    present: Tensor | None,
    points: Tensor | None,
    sums: Tensor,
    mean: Tensor | None,
    *gradients: Tensor,
) -> tuple[Tensor, ...]:
    if not is_plain(*gradients):  # batched ones have no memory that a kernel could read
        with torch.enable_grad():
            given = weights.view_as(weights)
            return torch.autograd.grad(plainly(given), given, gradients)
    of_p = gradients[-1] if shared else None
    of_moments = (None, None) if points is None else gradients[:2]
    # The backend of the way there, which has no other: that of this thread, one of autograd's own, may be another.
    pull_back: Any = kernels.load("moments_vjp", "triton")
    return (pull_back(weights, present, points, sums, mean, of_p, *of_moments),)


def _divide_plainly(lost: Tensor, equal: Tensor | float, weights: Tensor) -> Tensor:
    return torch.where(lost, equal, weights / weights.sum(-1, keepdim=True).masked_fill(lost, 1.0))


def _divide(
    total: Tensor, lost: Tensor, equal: Tensor | float, weights: Tensor
) -> tuple[tuple[Tensor], tuple[Tensor, ...]]:
    divisor = total.masked_fill(lost, 1.0)
    p = weights / divisor
    p = torch.where(lost, equal, p) if isinstance(equal, Tensor) else p.masked_fill_(lost, equal)
    return (p,), (p, divisor, lost)


def _pull_division_back(p: Tensor, divisor: Tensor, lost: Tensor, g: Tensor) -> tuple[Tensor]:
    centred = g - (g * p).sum(-1, keepdim=True)
    return (centred.div_(divisor).masked_fill_(lost, 0.0),)
