"""Derivatives at a fixed point: of where an iteration ends, without its history."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

Step = Callable[..., Tensor]


def attach_fixed_point(step: Step, end: Tensor, *inputs: Tensor) -> Tensor:
    r"""Return ``end [*, p]``, with the derivatives in ``inputs`` of a solution of ``theta = step(theta, *inputs)``.

    .. math:: \frac{d \theta}{d w} = (I - \partial_\theta T)^{-1} \, \partial_w T

    Backward takes one step and some products with its Jacobian, whatever the number of steps that led to ``end``. Each
    row of the batch ``[*]`` is a system of its own. Only the first derivative is available.
    """
    return _FixedPoint.apply(step, end.detach(), *inputs)


class _FixedPoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, step: Step, end: Tensor, *inputs: Tensor) -> Tensor:
        ctx.step = step
        ctx.save_for_backward(end, *inputs)
        return end.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        end, *inputs = ctx.saved_tensors
        wanted = ctx.needs_input_grad[2:]
        with torch.enable_grad():
            theta = end.detach().requires_grad_()
            leaves = [t.detach().requires_grad_(w) for t, w in zip(inputs, wanted, strict=True)]
            after = ctx.step(theta, *leaves)

        def apply_transposed(u: Tensor) -> Tensor:
            (product,) = torch.autograd.grad(after, theta, u, retain_graph=True)
            return u - product

        u = gmres(apply_transposed, grads[0])
        active = [t for t, w in zip(leaves, wanted, strict=True) if w]
        found = iter(torch.autograd.grad(after, active, u, allow_unused=True))
        return (None, None, *(next(found) if w else None for w in wanted))


def gmres(apply: Callable[[Tensor], Tensor], b: Tensor, tolerance: float = 1e-12) -> Tensor:
    """Solve ``apply(u) = b`` for linear systems ``[*, p]``, each to a residual of ``tolerance`` or as well as may be.

    A singular system (two components that are the same) gets a solution of least squares among those of the Krylov
    space, and no division by zero.

    Reference: Saad and Schultz (1986), GMRES.
    """
    norm = torch.linalg.vector_norm(b, dim=-1, keepdim=True)
    safe = torch.where(norm > 0, norm, 1.0)
    basis = [b / safe]
    columns: list[Tensor] = []
    size = b.shape[-1]
    y = residual = None
    for j in range(size):
        v = apply(basis[-1])
        column = v.new_zeros((*v.shape[:-1], size + 1))
        for _ in range(2):  # once more, for what rounding left
            for i, q in enumerate(basis):
                part = (v * q).sum(-1, keepdim=True)
                v = v - part * q
                column[..., i : i + 1] += part
        rest = torch.linalg.vector_norm(v, dim=-1, keepdim=True)
        # The space is closed, and only rounding is left: a direction of zeros changes nothing from here on.
        ended = rest <= 16 * torch.finfo(v.dtype).eps * torch.linalg.vector_norm(column, dim=-1, keepdim=True)
        rest = torch.where(ended, 0.0, rest)
        column[..., j + 1 : j + 2] = rest
        columns.append(column)
        basis.append(torch.where(ended, 0.0, v / torch.where(ended, 1.0, rest)))
        hessenberg = torch.stack(columns, -1)[..., : j + 2, :]
        target = torch.zeros_like(hessenberg[..., 0])
        target[..., 0] = 1.0
        y = (torch.linalg.pinv(hessenberg) @ target.unsqueeze(-1)).squeeze(-1)
        residual = torch.linalg.vector_norm((hessenberg @ y.unsqueeze(-1)).squeeze(-1) - target, dim=-1)
        if bool(((residual <= tolerance) | ended.squeeze(-1)).all()):
            break
    assert y is not None
    return norm * (torch.stack(basis[: len(columns)], -1) @ y.unsqueeze(-1)).squeeze(-1)
