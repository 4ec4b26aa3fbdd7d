"""The conjugate of a regulariser, with derivatives of every order."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from omegamax._checks import is_plain
from omegamax._custom_op import all_in_front
from omegamax._operation import Operation
from omegamax._torch_internals import apply_of

if TYPE_CHECKING:
    from omegamax.maps.omega import Omega


def conjugate_minus(
    omega: Omega, z: Tensor, y: Tensor | None = None, *, p: Tensor | None = None, smoothing: float = 0.0
) -> Tensor:
    """Return ``Omega*(z) - <y, z>`` over the last axis, ``[*, K] -> [*]``; its gradient is ``argmax(z) - y``.

    Args:
        y: a target shaped like ``z``; or one class for each row, ``[*]``, which shares ``smoothing`` of its mass with
            all; or None, for zero.
        p: ``omega.argmax(z)``. The scores may then have been shifted since, which rounds them.
    """
    p = omega.argmax(z) if p is None else p
    parameters = omega.parameters
    given = (a for a in (z, p, y, *parameters) if isinstance(a, Tensor))
    if is_plain(*given):
        return _apply(z, y, p, smoothing, omega, *parameters)
    return _attach_gradients(omega, z, y, p, smoothing)


class _ConjugateMinus(torch.autograd.Function):
    """Given ``p``, the map at ``z``, as an input of its own: its graph is that of the second derivative."""

    @staticmethod
    def forward(z, y, p, smoothing, omega, *parameters):
        omega = omega.with_parameters(*parameters)
        if y is None:
            return omega.conjugate_at(z, p)
        if _is_dense(y):
            return _conjugate_minus_dense(omega, z, y, p)
        at_target = _target_score(z, y, smoothing)
        value = omega.conjugate_at(z, p, at_target)
        # A target without a score would leave inf - inf.
        return torch.where(at_target.squeeze(-1) == -math.inf, math.inf, value)

    @staticmethod
    def setup_context(ctx, inputs, output):
        z, y, p, ctx.smoothing, ctx.omega, *parameters = inputs
        tensors = [a for a in (y, *parameters) if isinstance(a, Tensor)]
        ctx.axes = tuple(range(output.dim() - z.dim(), 0))
        ctx.save_for_backward(z, p, *tensors)
        ctx.save_for_forward(z, p, *tensors)
        ctx.is_tensor = [isinstance(a, Tensor) for a in (y, *parameters)]
        ctx.numbers = [a for a in (y, *parameters) if not isinstance(a, Tensor)]

    @staticmethod
    def backward(ctx, g):
        z, p, y, parameters = _restore(ctx)
        wanted = ctx.needs_input_grad
        g = g.reshape(g.shape + (1,) * (z.dim() - g.dim()))
        dz = dy = None
        if wanted[0]:
            dz = scale_residual(g, p, y, ctx.smoothing)
        if wanted[1]:
            dy = -g * _drop_unmet(z, p - y)
        grads = [None] * len(parameters)
        if any(wanted[5:]):
            for i, slope in enumerate(ctx.omega.with_parameters(*parameters).parameter_gradients(z, p)):
                if wanted[5 + i]:
                    grads[i] = (g * slope).sum_to_size(parameters[i].shape)
        return (dz, dy, None, None, None, *grads)

    @staticmethod
    def jvp(ctx, dz, dy, dp, _smoothing, _omega, *dparameters):
        z, p, y, parameters = _restore(ctx)
        out = torch.zeros_like(p) if dz is None else scale_residual(dz, p, y, ctx.smoothing, spread=False)
        if dy is not None:
            out = out - dy * _drop_unmet(z, p - y)
        out = out.sum(ctx.axes)
        if any(tangent is not None for tangent in dparameters):
            slopes = ctx.omega.with_parameters(*parameters).parameter_gradients(z, p)
            for tangent, slope in zip(dparameters, slopes, strict=True):
                if tangent is not None:
                    out = out + (slope * tangent).sum(ctx.axes)
        return out


_apply = apply_of(_ConjugateMinus)


def _restore(ctx) -> tuple[Tensor, Tensor, Tensor | None, list[float | Tensor]]:
    z, p, *tensors = ctx.saved_tensors
    tensors, numbers = iter(tensors), iter(ctx.numbers)
    y, *parameters = [next(tensors) if is_tensor else next(numbers) for is_tensor in ctx.is_tensor]
    return z, p, y, parameters


def _is_dense(y: Tensor) -> bool:
    return y.is_floating_point()


def scale_residual(g: Tensor, p: Tensor, y: Tensor | None, smoothing: float, spread: bool = True) -> Tensor:
    """Return ``g (p - y)`` for each entry; ``g`` is ``[*, 1]``, or ``[*, K]`` if not to be ``spread`` over the row."""
    if y is None:
        return g * p
    if _is_dense(y):
        return g * (p - y)
    # The target of a class has one entry of its own, so that it needs no row of its own.
    index = y.unsqueeze(-1)
    taken = (smoothing - 1) * (g if spread else g.gather(-1, index))
    out = g * (p - smoothing / p.shape[-1]) if smoothing else g * p
    return out.scatter_add_(-1, index, taken.expand(index.shape))


def _target_score(z: Tensor, y: Tensor, smoothing: float) -> Tensor:
    """Return ``<y, z>`` for the class ``y`` of each row, ``[*, 1]``."""
    own = z.gather(-1, y.unsqueeze(-1))
    return (1 - smoothing) * own + smoothing * z.mean(-1, keepdim=True) if smoothing else own


def _drop_unmet(z: Tensor, difference: Tensor) -> Tensor:
    """Return the scores with 0 in place of ``-inf`` where ``difference`` is 0: their product would be NaN."""
    return torch.where((z == -math.inf) & (difference == 0), 0.0, z)


def _conjugate_minus_dense(omega: Omega, z: Tensor, y: Tensor | None, p: Tensor) -> Tensor:
    """Return ``<p - y, z> - Omega(p)``: one difference, so that it cancels exactly where ``p = y``."""
    difference = p if y is None else p - y
    at_p = omega.within(z)(p)
    return (difference * _drop_unmet(z, difference)).sum(tuple(range(at_p.dim() - z.dim(), 0))) - at_p


def _attach_gradients(omega: Omega, z: Tensor, y: Tensor | None, p: Tensor, smoothing: float) -> Tensor:
    """Return the same in operations that can be traced, mapped over and intercepted; its gradients have graphs too."""
    parameters = omega.parameters
    constant = [a.detach() if isinstance(a, Tensor) else a for a in (z, y, p, smoothing, omega, *parameters)]
    value = _attach_gradient(_ConjugateMinus.forward(*constant), z, residual(p, y, smoothing))
    if y is not None and _is_dense(y):
        value = _attach_gradient(value, y, -_drop_unmet(z, p - y))
    if any(isinstance(a, Tensor) for a in parameters):
        for a, slope in zip(parameters, omega.parameter_gradients(z, p), strict=True):
            if isinstance(a, Tensor):
                value = _attach_gradient(value, a, slope)
    return value


def residual(p: Tensor, y: Tensor | None, smoothing: float) -> Tensor:
    """Return ``p - y`` for each entry, ``y`` as in :func:`conjugate_minus`; nothing is written in place."""
    if y is None:
        return p
    if _is_dense(y):
        return p - y
    index = y.unsqueeze(-1)
    taken = torch.full_like(index, smoothing - 1, dtype=p.dtype)
    return (p - smoothing / p.shape[-1] if smoothing else p).scatter_add(-1, index, taken)


def _save_slope(ctx, inputs, result):
    value, x, slope = inputs
    ctx.rank, ctx.shape = value.dim(), x.shape
    return [slope]


def _slope_backward(ctx, g):
    (slope,) = ctx.saved_tensors
    spread = g.reshape(g.shape + (1,) * (slope.dim() - ctx.rank))
    return g, (spread * slope).sum_to_size(ctx.shape) if ctx.needs_input_grad[1] else None, None


def _slope_jvp(ctx, d_value, dx, _):
    (slope,) = ctx.saved_tensors
    # Where only the slope moves, the value does not.
    change = (torch.zeros_like(slope) if dx is None else slope * dx).sum(tuple(range(ctx.rank - slope.dim(), 0)))
    return change if d_value is None else d_value + change


def _slope_vmap(info, in_dims, *tensors):
    value, x, slope = all_in_front(info.batch_size, in_dims, *tensors)
    # An input of fewer axes broadcasts from the last one on.
    x = x.reshape(info.batch_size, *(1,) * (slope.dim() - x.dim()), *x.shape[1:])
    return _attach_gradient(value, x, slope), 0


# The value as it is, with one more derivative: ``slope``, in an input that broadcasts to it.
_attach_gradient = Operation(
    "with_slope",
    "(Tensor value, Tensor x, Tensor slope) -> Tensor",
    lambda value, x, slope: value.clone(memory_format=torch.contiguous_format),
    lambda value, x, slope: torch.empty_like(value, memory_format=torch.contiguous_format),
    save=_save_slope,
    backward=_slope_backward,
    jvp=_slope_jvp,
    vmap=_slope_vmap,
    export=lambda value, x, slope: value,
)


def row_max(z: Tensor, axes: tuple[int, ...] = (-1,)) -> Tensor:
    """Return the maximum of each row, a constant: without it, sums of products with large common scores cancel."""
    top = z.detach().amax(axes, keepdim=True)
    # A row of -inf stays as it is, -inf minus -inf being NaN; one with NaN or +inf is NaN whatever we do.
    return torch.where(top.isfinite(), top, 0.0)
