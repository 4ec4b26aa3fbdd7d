"""Entmax losses of rows on a GPU, which store a threshold for each row and no probabilities."""

from __future__ import annotations

import torch
from torch import Tensor, float64
from torch._C._functorch import is_legacy_batchedtensor
from torch.autograd import forward_ad

from omegamax import kernels
from omegamax._checks import is_plain
from omegamax._operator import define_operator, refuse_forward_mode
from omegamax.kernels import triton
from omegamax.maps import Omega, Shannon, Tsallis
from omegamax.maps.conjugate import _times_move


def applies(z: Tensor, omega: Omega, target: Tensor | None = None) -> bool:
    """Whether there is a kernel for the loss of this regulariser on scores like these, as they are differentiated."""
    if not isinstance(omega, (Shannon, Tsallis)) or z.dtype is float64 or not kernels.takes_half("entmax_loss", z):
        return False
    if target is not None and target.requires_grad:
        return False
    # Maps over rows and forward derivatives go the long way.
    if forward_ad._current_level >= 0:
        return False
    return torch.compiler.is_compiling() or not torch._C._are_functorch_transforms_active()


def row_losses(z: Tensor, target: Tensor, omega: Omega, smoothing: float) -> Tensor:
    """In float32, for scores ``[*, C]`` of any precision: ``Omega*(z) - <y, z>`` for classes ``[*]``, and with
    ``Omega(y)`` for probabilities ``[*, C]``."""
    alpha = omega.alpha if isinstance(omega, Tsallis) else 1.0
    by_row, number = None, 2.0
    if isinstance(alpha, Tensor):
        by_row = alpha.expand(*z.shape[:-1], 1).reshape(-1).float()
    else:
        number = float(alpha)
    target = _as_rows(target) if target.is_floating_point() else target.reshape(-1)
    wants_slope = by_row is not None and by_row.requires_grad and torch.is_grad_enabled()
    value, _, _ = _outputs(_as_rows(z), target, by_row, number, smoothing, wants_slope)
    return value.reshape(z.shape[:-1])


def _outputs(z: Tensor, target: Tensor, alpha: Tensor | None, *numbers) -> tuple[Tensor, Tensor, Tensor]:
    """The operation, or what it does without torch's machinery for one, which takes seconds to import."""
    if not is_plain(z, target):
        return _loss(z, target, alpha, *numbers)
    if torch.is_grad_enabled() and (z.requires_grad or (alpha is not None and alpha.requires_grad)):
        return _apply(z, target, alpha, *numbers)
    return _forward(z, target, alpha, *numbers)


def _as_rows(x: Tensor) -> Tensor:
    rows = x.reshape(-1, x.shape[-1])
    return rows if rows.stride(-1) == 1 else rows.contiguous()


def _forward(z, target, alpha, number, smoothing, slope):
    return triton.load("entmax_loss")(z, target, number if alpha is None else alpha, smoothing, slope)


def _fake(z, target, alpha, number, smoothing, slope):
    count = z.shape[0]
    shapes = ((count,), (count, 3), (count if slope else 0,))
    return tuple(z.new_empty(shape, dtype=torch.float32) for shape in shapes)


def _gradient(z, target, state, g, alpha, number, smoothing):
    return triton.load("entmax_loss_vjp")(z, target, state, g, number if alpha is None else alpha, smoothing, False)


def _setup_context(ctx, inputs, output) -> None:
    z, target, alpha, ctx.number, ctx.smoothing, _ = inputs
    _, state, slope = output
    ctx.save_for_backward(z, target, alpha, state, slope)
    ctx.mark_non_differentiable(state, slope)
    ctx.set_materialize_grads(False)


def _backward(ctx, g, _state, _slope):
    if g is None:
        return (None,) * 6
    z, target, alpha, state, slope = ctx.saved_tensors
    wanted = ctx.needs_input_grad
    # A graph that is being traced is not differentiated again.
    if is_legacy_batchedtensor(g) or (torch.is_grad_enabled() and is_plain(g)):
        return (*_differentiable(g, z, target, alpha, ctx.number, ctx.smoothing, wanted), None, None, None)
    dz = d_alpha = None
    if wanted[0]:
        gradient = _gradient if is_plain(g) else _loss_vjp
        dz = gradient(z, target, state, g, alpha, ctx.number, ctx.smoothing)
    if wanted[2]:
        d_alpha = g * slope
    return dz, None, d_alpha, None, None, None


def _differentiable(g, z, target, alpha, number, smoothing, wanted):
    """The gradients in operations that have derivatives of their own, for those of second order."""
    omega = Tsallis(number if alpha is None else alpha.unsqueeze(-1))
    scores, g = z.float(), g.unsqueeze(-1)
    p = omega.argmax(scores)
    dense = target.is_floating_point()
    if dense:
        target = (1 - smoothing) * target.float() + smoothing / target.shape[-1]
    dz = d_alpha = None
    if wanted[0]:
        dz = _times_move(g, p, target, smoothing).to(z.dtype)
    if wanted[2]:
        slope = omega.parameter_gradients(scores, p)[0]
        slope = slope - omega.parameter_gradients(scores, target)[0] if dense else slope
        d_alpha = (g * slope).squeeze(-1)
    return dz, None, d_alpha


class _Rules(torch.autograd.Function):
    setup_context = staticmethod(_setup_context)
    backward = staticmethod(_backward)
    jvp = refuse_forward_mode("entmax_loss", 'call it inside omegamax.backend("reference")')


class _Loss(torch.autograd.Function):
    """The operation for tensors that nobody traces."""

    @staticmethod
    def forward(ctx, *inputs):
        output = _forward(*inputs)
        _setup_context(ctx, inputs, output)
        return output

    backward = staticmethod(_backward)
    jvp = _Rules.jvp


class _GradientRules(torch.autograd.Function):
    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, *_):
        raise RuntimeError(
            "entmax_loss: its kernels can be differentiated once where they are traced; for higher derivatives call it "
            'inside omegamax.backend("reference")'
        )

    jvp = _Rules.jvp


# Function.apply looks up the signature of forward each time.
_apply = super(torch.autograd.Function, _Loss).apply  # type: ignore[misc]
_loss = define_operator(
    "entmax_loss_rows",
    "(Tensor z, Tensor target, Tensor? alpha, float number, float smoothing, bool slope) -> (Tensor, Tensor, Tensor)",
    _forward,
    _fake,
    _Rules,
    one_by_one=True,
)
_loss_vjp = define_operator(
    "entmax_loss_rows_vjp",
    "(Tensor z, Tensor target, Tensor state, Tensor g, Tensor? alpha, float number, float smoothing) -> Tensor",
    _gradient,
    lambda z, *rest: torch.empty_like(z, memory_format=torch.contiguous_format),
    _GradientRules,
    one_by_one=True,
)
