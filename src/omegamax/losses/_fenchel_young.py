"""The loss that belongs to a regulariser."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax._arguments import check_choice
from omegamax._checks import check_floating, check_scores
from omegamax._numerics import returned_dtype, working_dtype
from omegamax.maps import Omega, SquaredNorm, get
from omegamax.maps.conjugate import conjugate_minus, row_max

REDUCTIONS = ("mean", "sum", "none")


def fenchel_young_loss(z: Tensor, y: Tensor, omega: str | Omega, reduction: str = "mean") -> Tensor:
    r"""Measure how far the probabilities of the scores are from the target, as the regulariser sees it.

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
    loss = divergence(full_precision(z), y.to(working_dtype(z)), omega, rounded_in=y.dtype)
    if reduction != "none":
        loss = loss.mean() if reduction == "mean" else loss.sum()
    return returned_precision(loss, z)


def check_probabilities(name: str, argument: str, y: Tensor, z: Tensor) -> None:
    """Refuse a dense target that is not floating or does not look like the scores."""
    check_floating(name, argument, y, "a floating-point tensor of probabilities")
    if z.dim() == 0 or y.shape != z.shape:
        raise ValueError(
            f"{name}: z and {argument} must have the same shape [*, K], got {tuple(z.shape)} and {tuple(y.shape)}"
        )


def divergence(z: Tensor, y: Tensor, omega: Omega, rounded_in: torch.dtype) -> Tensor:
    """Return the loss of each row, ``[*, K], [*, K] -> [*]``, against a target with entries ``rounded_in`` a dtype."""
    if isinstance(omega, SquaredNorm):
        return omega.divergence(z, y)
    at_y = omega.within(z)(y)
    # An Omega over more than the last axis (a grid) shows it in the rank of its value.
    axes = tuple(range(at_y.dim() - z.dim(), 0))
    if getattr(omega, "at_most", False):
        # Points of the domain differ in their sum, so that a shift of the scores counts.
        return clip_negative(conjugate_minus(omega, z, y) + at_y)
    # Before the shift, which rounds the scores.
    p = omega.argmax(z)
    top = row_max(z, axes)
    short = omega.total - y.sum(axes, keepdim=True)
    # The rounding of K entries adds up, and a large common score would multiply it: it counts as none.
    slack = z.shape[-1] * torch.finfo(rounded_in).eps
    short = short - torch.where(short.abs() <= slack, short, 0.0).detach()
    return clip_negative(conjugate_minus(omega, z - top, y, p=p) + at_y + (short * top).reshape(at_y.shape))


def clip_negative(loss: Tensor) -> Tensor:
    """Take rounding below zero off the value, not off the gradient; adds rather than subtracts, for ``inf``."""
    return loss + (-loss).detach().clamp(min=0)


def full_precision(z: Tensor) -> Tensor:
    """Return ``z`` in the dtype of the computation."""
    return z.to(working_dtype(z))


def returned_precision(loss: Tensor, z: Tensor) -> Tensor:
    """Return ``loss`` in the dtype of the scores; in that of the computation under autocast, as torch's losses."""
    return loss.to(returned_dtype(z))
