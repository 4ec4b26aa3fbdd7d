"""The loss of any map for classification: class indices or points of its domain as targets."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from omegamax._arguments import check_choice
from omegamax._checks import check_scores
from omegamax._map_parameters import check_budget, row_parameter
from omegamax.losses import _rows
from omegamax.losses._fenchel_young import (
    REDUCTIONS,
    clip_negative,
    divergence,
    full_precision,
    returned_precision,
)
from omegamax.losses._targets import (
    Target,
    at_class,
    check_smoothing,
    check_weight,
    class_axis,
    class_indices,
    index_sets,
    probabilities,
)
from omegamax.maps import MapRecord, Omega, find
from omegamax.maps.conjugate import conjugate_minus


def classification_loss(
    map: str,
    z: Tensor,
    target: Tensor,
    parameters: dict[str, Any],
    weight: Tensor | None,
    ignore_index: int,
    reduction: str,
    label_smoothing: float,
) -> Tensor:
    """Return the loss of the map of that name, called as :func:`torch.nn.functional.cross_entropy` is.

    The target is a class for each row or a point of the map's domain; on a budget also a set of k classes. Parameters
    that are tensors broadcast to ``z`` with size 1 along the class axis.
    """
    record = find(map)
    name = record.loss or f"loss of {map}"
    axis = class_axis(name, z)
    check_scores(name, z, axis)
    check_choice(name, "reduction", reduction, REDUCTIONS)
    check_smoothing(name, label_smoothing)
    check_weight(name, weight, z.shape[axis])
    k = parameters["k"] if record.domain == "budget" else None
    if k is not None:
        check_budget(name, k, z.shape[axis], at_most=False)
    for argument, value in parameters.items():
        if isinstance(value, Tensor):
            parameters = {**parameters, argument: row_parameter(name, argument, value, z, axis).movedim(axis, -1)}
    omega = record.omega(**parameters)

    if not isinstance(target, Tensor) or target.is_floating_point():
        goal = probabilities(name, z, target, axis, omega.total, weight, ignore_index)
    elif k is not None and (target.dim() == z.dim() or isinstance(k, Tensor) or k != 1):
        goal = index_sets(name, z, target, axis, k, weight, ignore_index)
    else:
        goal = class_indices(name, z, target, axis, weight, ignore_index)

    if _rows.applies(z, omega, goal.value):
        loss = _fused_losses(z.movedim(axis, -1), goal, omega, label_smoothing)
    else:
        loss = _row_losses(full_precision(z).movedim(axis, -1), goal, omega, label_smoothing)
    if goal.ignored is not None:
        loss = torch.where(goal.ignored, 0.0, loss)
    if goal.weight is not None:
        loss = goal.weight * loss
    if reduction == "sum":
        loss = loss.sum()
    elif reduction == "mean":
        loss = loss.sum() / goal.count
    return returned_precision(loss, z)


def _row_losses(z: Tensor, target: Target, omega: Omega, smoothing: float) -> Tensor:
    """Return the loss of each row against the smoothed target, ``[*, C] -> [*]``."""
    size = z.shape[-1]
    if target.dense:
        y = target.value.to(z.dtype)
        if smoothing:
            y = (1 - smoothing) * y + (smoothing / size) * omega.total
        return divergence(z, y, omega, rounded_in=target.value.dtype)
    value = conjugate_minus(omega, z, target.value, smoothing=smoothing)
    return clip_negative(value + omega(at_class(z, smoothing)))


def _fused_losses(z: Tensor, target: Target, omega: Omega, smoothing: float) -> Tensor:
    """Return the same where a kernel takes the scores as they are."""
    value = _rows.row_losses(z, target.value, omega, smoothing)
    return clip_negative(value + omega(at_class(z, smoothing)) if smoothing and not target.dense else value)


@functools.cache
def make_loss(record: MapRecord) -> Callable[..., Tensor]:
    """Make the loss of a map that was registered; those of the library are written out, with their formulas."""
    parameters = [a.replace(kind=a.POSITIONAL_OR_KEYWORD) for a in record.signature.parameters.values()]
    names = [a.name for a in parameters]

    def loss(
        z: Tensor,
        target: Tensor,
        *given: Any,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
        **options: Any,
    ) -> Tensor:
        options.update(zip(names, given, strict=False))
        return classification_loss(record.name, z, target, options, weight, ignore_index, reduction, label_smoothing)

    shared = inspect.signature(loss).parameters
    loss.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [shared["z"], shared["target"], *parameters, *(a for a in shared.values() if a.kind is a.KEYWORD_ONLY)],
        return_annotation=Tensor,
    )
    loss.__name__ = loss.__qualname__ = record.loss or ""
    loss.__module__ = "omegamax.losses"  # where pickle looks for it
    loss.__doc__ = (
        f"The loss of {record.name}.\n\nArgs:\n    {', '.join(names) or 'parameters'}: those of its Omega.\n"
        "    z, target, weight, ignore_index, reduction, label_smoothing: as in :func:`softmax_loss`.\n\n"
        "Returns:\n    A scalar, or one loss for each sample without reduction.\n"
    )
    return loss
