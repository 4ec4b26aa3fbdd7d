"""The conjugate of a regulariser, with derivatives of every order."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from omegamax._checks import is_plain
from omegamax._operation import Operation, all_in_front

if TYPE_CHECKING:
    from omegamax.maps.omega import Omega


def conjugate_minus(
    omega: Omega, z: Tensor, y: Tensor | None = None, *, p: Tensor | None = None, smoothing: float = 0.0
) -> Tensor:
    """``Omega*(z) - <y, z>`` over the last axis, ``[*, K] -> [*]``; its gradient is ``argmax(z) - y``.

    Args:
        y: a target shaped like ``z``; or one class for each row, ``[*]``, which shares ``smoothing`` of its mass with
            all; or None, for zero.
        p: ``omega.argmax(z)``. The scores may then have been shifted since, which rounds them.
    """
    p = omega.argmax(z) if p is None else p
    parameters = omega.parameters
    given = (a for a in (z, p, y, *parameters) if isinstance(a, Tensor))
    if is_plain(*given):
        return _ConjugateMinus.apply(z, y, p, smoothing, omega, *parameters)
    return _by_slopes(omega, z, y, p, smoothing)


class _ConjugateMinus(torch.autograd.Function):
    """Given ``p``, the map at ``z``, as an input of its own: its graph is that of the second derivative."""

    @staticmethod
    def forward(z, y, p, smoothing, omega, *parameters):
        omega = omega.with_parameters(*parameters)
        if y is None:
            return omega.conjugate_at(z, p)
        if _dense(y):
            return _gap(omega, z, y, p)
        meeting = _meeting(z, y, smoothing)
        value = omega.conjugate_at(z, p, meeting)
        # A target without a score would leave inf - inf.
        return torch.where(meeting.squeeze(-1) == -math.inf, math.inf, value)

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
        z, p, y, parameters = _restored(ctx)
        wanted = ctx.needs_input_grad
        g = g.reshape(g.shape + (1,) * (z.dim() - g.dim()))
        dz = dy = None
        if wanted[0]:
            dz = _times_move(g, p, y, ctx.smoothing)
        if wanted[1]:
            dy = -g * _met(z, p - y)
        grads = [None] * len(parameters)
        if any(wanted[5:]):
            for i, slope in enumerate(ctx.omega.with_parameters(*parameters).parameter_gradients(z, p)):
                if wanted[5 + i]:
                    grads[i] = (g * slope).sum_to_size(parameters[i].shape)
        return (dz, dy, None, None, None, *grads)

    @staticmethod
    def jvp(ctx, dz, dy, dp, _smoothing, _omega, *dparameters):
        z, p, y, parameters = _restored(ctx)
        out = torch.zeros_like(p) if dz is None else _times_move(dz, p, y, ctx.smoothing, spread=False)
        if dy is not None:
            out = out - dy * _met(z, p - y)
        out = out.sum(ctx.axes)
        if any(tangent is not None for tangent in dparameters):
            slopes = ctx.omega.with_parameters(*parameters).parameter_gradients(z, p)
            for tangent, slope in zip(dparameters, slopes, strict=True):
                if tangent is not None:
                    out = out + (slope * tangent).sum(ctx.axes)
        return out


def _restored(ctx) -> tuple[Tensor, Tensor, Tensor | None, list[float | Tensor]]:
    z, p, *tensors = ctx.saved_tensors
    tensors, numbers = iter(tensors), iter(ctx.numbers)
    y, *parameters = [next(tensors) if is_tensor else next(numbers) for is_tensor in ctx.is_tensor]
    return z, p, y, parameters


def _dense(y: Tensor) -> bool:
    return y.is_floating_point()


def _times_move(g: Tensor, p: Tensor, y: Tensor | None, smoothing: float, spread: bool = True) -> Tensor:
    """``g (p - y)`` for each entry; ``g`` is ``[*, 1]``, or ``[*, K]`` if not to be ``spread`` over the row."""
    if y is None:
        return g * p
    if _dense(y):
        return g * (p - y)
    # The target of a class has one entry of its own, so that it needs no row of its own.
    index = y.unsqueeze(-1)
    taken = (smoothing - 1) * (g if spread else g.gather(-1, index))
    out = g * (p - smoothing / p.shape[-1]) if smoothing else g * p
    return out.scatter_add_(-1, index, taken.expand(index.shape))


def _meeting(z: Tensor, y: Tensor, smoothing: float) -> Tensor:
    """``<y, z>`` for the class ``y`` of each row, ``[*, 1]``."""
    own = z.gather(-1, y.unsqueeze(-1))
    return (1 - smoothing) * own + smoothing * z.mean(-1, keepdim=True) if smoothing else own


def _met(z: Tensor, move: Tensor) -> Tensor:
    """Scores with 0 in place of the ``-inf`` that no mass meets."""
    return torch.where((z == -math.inf) & (move == 0), 0.0, z)


def _gap(omega: Omega, z: Tensor, y: Tensor | None, p: Tensor) -> Tensor:
    """``<p - y, z> - Omega(p)``. One difference, so that it cancels exactly where ``p = y``."""
    move = p if y is None else p - y
    at_p = omega.within(z)(p)
    return (move * _met(z, move)).sum(tuple(range(at_p.dim() - z.dim(), 0))) - at_p


def _by_slopes(omega: Omega, z: Tensor, y: Tensor | None, p: Tensor, smoothing: float) -> Tensor:
    """The same in operations that are traced, mapped over and intercepted; again, the slopes have graphs."""
    parameters = omega.parameters
    constant = [a.detach() if isinstance(a, Tensor) else a for a in (z, y, p, smoothing, omega, *parameters)]
    value = _with_slope(_ConjugateMinus.forward(*constant), z, move_to(p, y, smoothing))
    if y is not None and _dense(y):
        value = _with_slope(value, y, -_met(z, p - y))
    if any(isinstance(a, Tensor) for a in parameters):
        for a, slope in zip(parameters, omega.parameter_gradients(z, p), strict=True):
            if isinstance(a, Tensor):
                value = _with_slope(value, a, slope)
    return value


def move_to(p: Tensor, y: Tensor | None, smoothing: float) -> Tensor:
    """``p - y`` for each entry, ``y`` as in :func:`conjugate_minus`; nothing is written in place."""
    if y is None:
        return p
    if _dense(y):
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
    return _with_slope(value, x, slope), 0


# The value as it is, with one more derivative: ``slope``, in an input that broadcasts to it.
_with_slope = Operation(
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
    """What to take off the scores: sums of products with large common scores would cancel. A constant."""
    top = z.detach().amax(axes, keepdim=True)
    # A row of -inf stays as it is, -inf minus -inf being NaN; one with NaN or +inf is NaN whatever we do.
    return torch.where(top.isfinite(), top, 0.0)
