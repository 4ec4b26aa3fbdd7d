"""The loss that belongs to a regulariser."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax._checks import check_choice, check_scores
from omegamax._registry import get
from omegamax.omegas import Omega

REDUCTIONS = ("mean", "sum", "none")
_HALF = (torch.float16, torch.bfloat16)


def fenchel_young_loss(z: Tensor, y: Tensor, omega: str | Omega, reduction: str = "mean") -> Tensor:
    r"""How far the probabilities of the scores are from the target, as the regulariser sees it.

    .. math:: L_\Omega(z; y) = \Omega(y) + \Omega^*(z) - \langle y, z \rangle, \qquad
              \nabla_z L_\Omega(z; y) = \hat p(z) - y

    Convex in ``z``, never negative, zero exactly where the map returns ``y``. With Shannon's entropy it is the
    Kullback-Leibler divergence from softmax to ``y``.

    Args:
        z: scores ``[*, K]``; ``-inf`` masks an entry, and costs ``inf`` where the target has mass.
        y: target in the domain of ``omega`` (probabilities; k-hot vectors for k-subsets), shaped like ``z``.
            Gradients reach it.
        omega: name of a map or an Omega. Gradients reach its parameters.
        reduction: ``"mean"`` or ``"sum"`` over the rows, or ``"none"``.

    Returns:
        A scalar, or ``[*]`` without reduction.

        >>> z = torch.tensor([1.0, 0.5, -1.0], requires_grad=True)
        >>> loss = fenchel_young_loss(z, torch.tensor([1.0, 0.0, 0.0]), "sparsemax")
        >>> loss.item(), torch.autograd.grad(loss, z)[0]
        (0.0625, tensor([-0.2500,  0.2500,  0.0000]))

    Reference: Blondel, Martins & Niculae (JMLR 2020), Def. 2.
    """
    name = "fenchel_young_loss"
    check_scores(name, z, -1)
    check_probabilities(name, "y", y, z)
    check_choice(name, "reduction", reduction, REDUCTIONS)
    omega = get(omega)
    loss = divergence(full_precision(z), y.to(full_precision_dtype(z)), omega, rounded_in=y.dtype)
    if reduction != "none":
        loss = loss.mean() if reduction == "mean" else loss.sum()
    return returned_precision(loss, z)


def check_probabilities(name: str, argument: str, y: Tensor, z: Tensor) -> None:
    """Refuse a dense target that is not floating or does not look like the scores."""
    if not isinstance(y, Tensor) or not y.is_floating_point():
        given = y.dtype if isinstance(y, Tensor) else type(y).__name__
        raise TypeError(f"{name}: {argument} must be a floating-point tensor of probabilities, got {given}")
    if z.dim() == 0 or y.shape != z.shape:
        raise ValueError(
            f"{name}: z and {argument} must have the same shape [*, K], got {tuple(z.shape)} and {tuple(y.shape)}"
        )


def divergence(z: Tensor, y: Tensor, omega: Omega, rounded_in: torch.dtype) -> Tensor:
    """The loss of each row, ``[*, K], [*, K] -> [*]``, against a target whose entries were ``rounded_in`` a dtype."""
    at_y = omega(y)
    # An Omega over more than the last axis (a grid) shows it in the rank of its value.
    axes = tuple(range(at_y.dim() - z.dim(), 0))
    if getattr(omega, "at_most", False):
        # Points of the domain differ in their sum, so that a shift of the scores counts.
        return non_negative(conjugate_minus(z, y, omega) + at_y)
    top = row_max(z, axes)
    short = omega.total - y.sum(axes, keepdim=True)
    # The rounding of K entries adds up, and a large common score would multiply it: it counts as none.
    slack = z.shape[-1] * torch.finfo(rounded_in).eps
    short = short - torch.where(short.abs() <= slack, short, 0.0).detach()
    return non_negative(conjugate_minus(z - top, y, omega) + at_y + (short * top).reshape(at_y.shape))


def conjugate_minus(z: Tensor, y: Tensor | None, omega: Omega) -> Tensor:
    """``Omega*(z) - <y, z>``, or ``Omega*(z)`` where ``y`` is None, with derivatives of every order."""
    if torch.compiler.is_compiling():
        # The envelope theorem gives the first derivative, which is all that a compiled graph is asked for.
        return _value(z, y, omega.argmax(z.detach()).detach(), omega)
    return _ConjugateMinus.apply(z, y, omega.argmax(z), omega, *omega.parameters)


def row_max(z: Tensor, axes: tuple[int, ...] = (-1,)) -> Tensor:
    """What to take off the scores: sums of products with large common scores would cancel. A constant."""
    top = z.detach().amax(axes, keepdim=True)
    # A row of -inf stays as it is, -inf minus -inf being NaN; one with NaN or +inf is NaN whatever we do.
    return torch.where(top.isfinite(), top, 0.0)


def non_negative(loss: Tensor) -> Tensor:
    """Rounding below zero taken off the value, not off the gradient; adds rather than subtracts, for ``inf``."""
    return loss + (-loss).detach().clamp(min=0)


def full_precision_dtype(z: Tensor) -> torch.dtype:
    """The dtype in which a loss of ``z`` is computed."""
    return torch.float32 if z.dtype in _HALF else z.dtype


def full_precision(z: Tensor) -> Tensor:
    """``z`` in the dtype of the computation."""
    return z.to(full_precision_dtype(z))


def returned_precision(loss: Tensor, z: Tensor) -> Tensor:
    """``loss`` in the dtype of the scores; in that of the computation under autocast, as torch's losses."""
    autocast = torch.is_autocast_enabled(z.device.type)
    return loss.to(full_precision_dtype(z) if autocast else z.dtype)


def _value(z: Tensor, y: Tensor | None, p: Tensor, omega: Omega) -> Tensor:
    """``<p - y, z> - Omega(p)``. One difference, so that it cancels exactly where ``p = y``."""
    move = p if y is None else p - y
    at_p = omega(p)
    return (move * _met(z, move)).sum(tuple(range(at_p.dim() - z.dim(), 0))) - at_p


def _met(z: Tensor, move: Tensor) -> Tensor:
    """Scores with 0 in place of the ``-inf`` that no mass meets."""
    return torch.where((z == -math.inf) & (move == 0), 0.0, z)


def _by_entry(g: Tensor, z: Tensor) -> Tensor:
    """A value for each row, ``[*]``, against its entries, ``[*, K]``."""
    return g.reshape(g.shape + (1,) * (z.dim() - g.dim()))


class _ConjugateMinus(torch.autograd.Function):
    """Given ``p``, the map at ``z``, as an input of its own: its graph is that of the second derivative."""

    generate_vmap_rule = True

    @staticmethod
    def forward(z, y, p, omega, *parameters):
        return _value(z, y, p, omega.with_parameters(*parameters))

    @staticmethod
    def setup_context(ctx, inputs, output):
        z, y, p, ctx.omega, *parameters = inputs
        tensors = [a for a in parameters if isinstance(a, Tensor)]
        ctx.dense = y is not None
        ctx.axes = tuple(range(output.dim() - z.dim(), 0))
        kept = (z, p, *([y] if ctx.dense else []), *tensors)
        ctx.save_for_backward(*kept)
        ctx.save_for_forward(*kept)
        ctx.floats = [None if isinstance(a, Tensor) else a for a in parameters]

    @staticmethod
    def backward(ctx, g):
        z, p, move, omega, parameters = _restored(ctx)
        wanted = ctx.needs_input_grad
        g_entry = _by_entry(g, z)
        grads = [None] * len(parameters)
        if any(wanted[4:]):
            for i, slope in enumerate(omega.parameter_gradients(p)):
                if wanted[4 + i]:
                    grads[i] = -_by_entry(g * slope, z).sum_to_size(parameters[i].shape)
        dy = -g_entry * _met(z, move) if wanted[1] else None
        return (g_entry * move if wanted[0] else None, dy, None, None, *grads)

    @staticmethod
    def jvp(ctx, dz, dy, dp, _, *dparameters):
        z, p, move, omega, _ = _restored(ctx)
        out = torch.zeros_like(z) if dz is None else move * dz
        if dy is not None:
            out = out - dy * _met(z, move)
        out = out.sum(ctx.axes)
        if any(tangent is not None for tangent in dparameters):
            for tangent, slope in zip(dparameters, omega.parameter_gradients(p), strict=True):
                if tangent is not None:
                    out = out - (_by_entry(slope, z) * tangent).reshape(out.shape)
        return out


def _restored(ctx) -> tuple[Tensor, Tensor, Tensor, Omega, list[float | Tensor]]:
    z, p, *rest = ctx.saved_tensors
    move = p - rest.pop(0) if ctx.dense else p
    tensors = iter(rest)
    parameters = [next(tensors) if a is None else a for a in ctx.floats]
    return z, p, move, ctx.omega.with_parameters(*parameters), parameters
