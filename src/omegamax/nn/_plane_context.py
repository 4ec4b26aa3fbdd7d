"""Contexts over the plane in one operation: from weights, or from the components of a mixture, to a mean of values.

A step of training launches a few short kernels there, and Python takes longer from one to the next than they do. What
autograd would record between them is written out here, with one way back. Second derivatives are those of plain torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from omegamax import kernels
from omegamax._checks import is_plain
from omegamax._numerics import disable_autocast
from omegamax._operation import needs_gradient
from omegamax._torch_internals import apply_of
from omegamax.nn._plane_table import PlaneTable

# The results for these tensors, in operations that autograd differentiates any number of times.
Plainly = Callable[..., Sequence[Tensor]]


def attend_in_plane(table: PlaneTable, plainly: Plainly, values: Tensor, weights: Tensor) -> tuple[Tensor, ...]:
    """Return context ``[*, D]``, mean ``[*, 2]`` and covariance ``[*, 2, 2]`` for weights ``[*, L]`` of the values."""
    if needs_gradient(values, weights):
        return _attend(table, plainly, values, weights)
    with _without_autocast(values):
        return _compute(table, values, weights)[0]


def mix_in_plane(
    table: PlaneTable, plainly: Plainly, blank: tuple[Tensor, Tensor], values: Tensor, *components: Tensor
) -> Tensor:
    """Return the context ``[*, D]`` under mixtures: weights ``[*, K]``, means and covariances of their components.

    ``blank`` are the rows without a context, ``[*, 1]``, and what they have in its stead.
    """
    if needs_gradient(values, *components):
        return _mix(table, plainly, blank, values, *components)
    with _without_autocast(values):
        return _compute_mixture(table, blank, values, *components)[0]


def _compute(table: PlaneTable, values: Tensor, weights: Tensor) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Return the results, and what the way back needs."""
    found: Any = kernels.solve(table.rule.of_weights, weights, table.points, table.floor, *table.rule.given)
    mean, covariance, both = found
    context, w = _take_mean(table, both.select(-2, 0), values)
    return (context, mean, covariance), (values, weights, mean, both, w)


def _compute_mixture(
    table: PlaneTable, blank: tuple[Tensor, Tensor], values: Tensor, pi: Tensor, mean: Tensor, covariance: Tensor
) -> tuple[Tensor, tuple[Tensor, ...]]:
    both = kernels.solve(table.rule.of_moments, mean, covariance, *table.rule.given)
    r = torch.where(*blank, _product(pi.unsqueeze(-2), both.select(-2, 0)).squeeze(-2))
    context, w = _take_mean(table, r, values)
    return context, (values, pi, mean, covariance, both, w)


def _take_mean(table: PlaneTable, r: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Return the context that expectations ``[*, J]`` lead to, and the weights of the values ``[*, L]`` on the way."""
    w = torch.matmul(r, table.operator)
    context = _product(w.unsqueeze(-2), values.to(w.dtype)).squeeze(-2)
    return context.to(values.dtype), w


def _pull_mean_back(
    table: PlaneTable, g: Tensor, values: Tensor, w: Tensor, of_values: bool, of_rest: bool
) -> tuple[Tensor | None, Tensor | None]:
    """Return the gradients in the values and in the expectations, None for one that is not wanted."""
    g = g.to(w.dtype)
    in_values = (w.unsqueeze(-1) * g.unsqueeze(-2)).to(values.dtype) if of_values else None
    if not of_rest:
        return in_values, None
    return in_values, torch.matmul(_product(values.to(w.dtype), g.unsqueeze(-1)).squeeze(-1), table.operator.mT)


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: PlaneTable, plainly: Plainly, values: Tensor, weights: Tensor) -> Any:
        with _without_autocast(values):
            results, kept = _compute(table, values, weights)
        ctx.save_for_backward(*kept)
        ctx.set_materialize_grads(False)
        ctx.table, ctx.plainly = table, plainly
        return results

    @staticmethod
    def backward(ctx: Any, g: Tensor | None, in_mean: Tensor | None, in_covariance: Tensor | None) -> Any:
        values, weights, mean, both, w = ctx.saved_tensors
        gradients, (of_values, of_weights) = (g, in_mean, in_covariance), ctx.needs_input_grad[2:]
        if _has_no_kernel(gradients):
            return None, None, *_differentiate(ctx.plainly, gradients, values, weights)
        in_values = in_weights = in_r = None
        with _without_autocast(values):
            if g is not None:
                in_values, in_r = _pull_mean_back(ctx.table, g, values, w, of_values, of_weights)
            if of_weights:
                # The backend of the way there: that of this thread, one of autograd's own, may be another.
                pull_back: Any = kernels.load("weights_vjp", "triton")
                in_weights = pull_back(weights, ctx.table.points, mean, both, in_r, in_mean, in_covariance)
        return None, None, in_values, in_weights


class _Mix(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, table: PlaneTable, plainly: Plainly, blank: tuple, values: Tensor, *components: Tensor
    ) -> Any:
        with _without_autocast(values):
            context, kept = _compute_mixture(table, blank, values, *components)
        ctx.save_for_backward(*kept)
        ctx.table, ctx.plainly = table, plainly
        return context

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        values, *components, both, w = ctx.saved_tensors
        if _has_no_kernel((g,)):
            return None, None, None, *_differentiate(ctx.plainly, (g,), values, *components)
        of_values, *others = ctx.needs_input_grad[3:]
        in_components: tuple[Tensor | None, ...] = (None, None, None)
        with _without_autocast(values):
            in_values, in_r = _pull_mean_back(ctx.table, g, values, w, of_values, any(others))
            if in_r is not None:
                in_pi = _product(both.select(-2, 0), in_r.unsqueeze(-1)).squeeze(-1)
                moved = kernels.solve("plane_vjp", both, components[0].unsqueeze(-1) * in_r.unsqueeze(-2))
                in_components = (in_pi, *moved)
        return None, None, None, in_values, *in_components


_attend, _mix = apply_of(_Attend), apply_of(_Mix)


def _has_no_kernel(gradients: Sequence[Tensor | None]) -> bool:
    """Tell whether the way back is itself differentiated, or batched: a kernel could not read that."""
    return torch.is_grad_enabled() or not is_plain(*(g for g in gradients if g is not None))


def _differentiate(plainly: Plainly, gradients: Sequence[Tensor | None], *inputs: Tensor) -> Sequence[Tensor]:
    """Return the gradients of the inputs by way of plain torch."""
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        # Views: what one input may have from another is no derivative of this operation.
        given = [t.view_as(t) if t.requires_grad else t.detach().requires_grad_() for t in inputs]
        pairs = [(y, g) for y, g in zip(plainly(*given), gradients, strict=True) if g is not None]
        results, seeds = zip(*pairs, strict=True)
        return torch.autograd.grad(results, given, seeds, create_graph=again, materialize_grads=True)


def _product(a: Tensor, b: Tensor) -> Tensor:
    """Return products of matrices of equal batches."""
    return torch.bmm(a, b) if a.dim() == 3 else torch.matmul(a, b)  # which looks at shapes first


def _without_autocast(like: Tensor) -> AbstractContextManager:
    return disable_autocast(like.device) if torch.is_autocast_enabled(like.device.type) else nullcontext()
