"""Entmax losses of rows on a GPU, which store a threshold for each row and no probabilities."""

from __future__ import annotations

import torch
from torch import Tensor, float64

from omegamax import kernels
from omegamax._checks import is_plain
from omegamax._custom_op import refuse_forward_mode, refuse_second_derivative
from omegamax._operation import Operation
from omegamax._torch_internals import in_forward_mode, in_transform, is_legacy_batched
from omegamax.maps import Omega, Shannon, Tsallis
from omegamax.maps.conjugate import scale_residual


def applies(z: Tensor, omega: Omega, target: Tensor | None = None) -> bool:
    """Tell whether there is a kernel for the loss of this regulariser on scores that are differentiated like these."""
    if not isinstance(omega, (Shannon, Tsallis)) or z.dtype is float64 or not kernels.takes_half("entmax_loss", z):
        return False
    if target is not None and target.requires_grad:
        return False
    # Maps over rows and forward derivatives go the long way.
    if in_forward_mode():
        return False
    return torch.compiler.is_compiling() or not in_transform()


def row_losses(z: Tensor, target: Tensor, omega: Omega, smoothing: float) -> Tensor:
    """Compute ``Omega*(z) - <y, z>`` for classes ``[*]``, and with ``Omega(y)`` for probabilities ``[*, C]``.

    In float32, for scores ``[*, C]`` of any precision.
    """
    alpha = omega.alpha if isinstance(omega, Tsallis) else 1.0
    by_row, number = None, 2.0
    if isinstance(alpha, Tensor):
        by_row = alpha.expand(*z.shape[:-1], 1).reshape(-1).float()
    else:
        number = float(alpha)
    target = _as_rows(target) if target.is_floating_point() else target.reshape(-1)
    wants_slope = by_row is not None and by_row.requires_grad and torch.is_grad_enabled()
    value, _, _ = _loss(_as_rows(z), target, by_row, number, smoothing, wants_slope)
    return value.reshape(z.shape[:-1])


def _as_rows(x: Tensor) -> Tensor:
    rows = x.reshape(-1, x.shape[-1])
    return rows if rows.stride(-1) == 1 else rows.contiguous()


def _forward(z, target, alpha, number, smoothing, slope):
    run = kernels.load("entmax_loss", "triton")
    return run(z, target, number if alpha is None else alpha, smoothing, slope)


def _fake(z, target, alpha, number, smoothing, slope):
    count = z.shape[0]
    shapes = ((count,), (count, 3), (count if slope else 0,))
    return tuple(z.new_empty(shape, dtype=torch.float32) for shape in shapes)


def _gradient(z, target, state, g, alpha, number, smoothing):
    run = kernels.load("entmax_loss_vjp", "triton")
    return run(z, target, state, g, number if alpha is None else alpha, smoothing, False)


def _save(ctx, inputs, results):
    z, target, alpha, ctx.number, ctx.smoothing, _ = inputs
    _, state, slope = results
    ctx.mark_non_differentiable(state, slope)
    return [z, target, alpha, state, slope]


def _backward(ctx, g, _state, _slope):
    z, target, alpha, state, slope = ctx.saved_tensors
    wanted = ctx.needs_input_grad
    # A graph that is being traced is not differentiated again.
    if is_legacy_batched(g) or (torch.is_grad_enabled() and is_plain(g)):
        return (*_differentiable(g, z, target, alpha, ctx.number, ctx.smoothing, wanted), None, None, None)
    dz = _loss_vjp(z, target, state, g, alpha, ctx.number, ctx.smoothing) if wanted[0] else None
    return dz, None, g * slope if wanted[2] else None, None, None, None


def _differentiable(g, z, target, alpha, number, smoothing, wanted):
    """Compute the gradients in operations that have derivatives of their own, for those of second order."""
    omega = Tsallis(number if alpha is None else alpha.unsqueeze(-1))
    scores, g = z.float(), g.unsqueeze(-1)
    p = omega.argmax(scores)
    dense = target.is_floating_point()
    if dense:
        target = (1 - smoothing) * target.float() + smoothing / target.shape[-1]
    dz = d_alpha = None
    if wanted[0]:
        dz = scale_residual(g, p, target, smoothing).to(z.dtype)
    if wanted[2]:
        slope = omega.parameter_gradients(scores, p)[0]
        slope = slope - omega.parameter_gradients(scores, target)[0] if dense else slope
        d_alpha = (g * slope).squeeze(-1)
    return dz, None, d_alpha


_jvp = refuse_forward_mode("entmax_loss", 'call it inside omegamax.backend("reference")')
_loss = Operation(
    "entmax_loss_rows",
    "(Tensor z, Tensor target, Tensor? alpha, float number, float smoothing, bool slope) -> (Tensor, Tensor, Tensor)",
    _forward,
    _fake,
    save=_save,
    backward=_backward,
    jvp=_jvp,
    vmap="loop",
)
_loss_vjp = Operation(
    "entmax_loss_rows_vjp",
    "(Tensor z, Tensor target, Tensor state, Tensor g, Tensor? alpha, float number, float smoothing) -> Tensor",
    _gradient,
    lambda z, *rest: torch.empty_like(z, memory_format=torch.contiguous_format),
    save=lambda ctx, inputs, results: (),
    backward=refuse_second_derivative("entmax_loss", "its kernels can be differentiated once where they are traced"),
    jvp=_jvp,
    vmap="loop",
)
