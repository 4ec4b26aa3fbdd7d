"""Operations whose first derivatives are at hand, so that autograd need not record their parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from omegamax._checks import is_plain
from omegamax._torch_internals import in_forward_mode

# From inputs to outputs, and what the way back needs; and from that and gradients of outputs to those of inputs.
Compute = Callable[..., tuple[tuple[Tensor, ...], tuple[Tensor, ...]]]
Back = Callable[..., Sequence[Tensor]]


def has_first_order(*tensors: Tensor) -> bool:
    """Tell whether :class:`FirstOrder` serves: ordinary tensors, outside of tracing, vmap and forward mode."""
    return is_plain(*tensors) and not in_forward_mode() and tensors[0].device.type != "mps"


class FirstOrder(torch.autograd.Function):
    """An operation with a short way back; second derivatives are taken from a form of it that autograd differentiates.

    A step of training on short sequences spends more time on launching small operations than on what they compute.

    ``apply(compute, back, plainly, *inputs)``, with tensors as inputs: ``compute(*inputs)`` returns outputs and what to
    keep, ``back(*kept, *gradients)`` the gradients of the inputs, and ``plainly(*inputs)`` the outputs in operations
    that autograd knows.
    """

    @staticmethod
    def forward(ctx: Any, compute: Compute, back: Back, plainly: Callable[..., Any], *inputs: Tensor) -> Any:
        outputs, kept = compute(*inputs)
        ctx.save_for_backward(*inputs, *kept)
        ctx.back, ctx.plainly, ctx.count = back, plainly, len(inputs)
        return outputs if len(outputs) > 1 else outputs[0]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        inputs, kept = ctx.saved_tensors[: ctx.count], ctx.saved_tensors[ctx.count :]
        if not torch.is_grad_enabled():
            return None, None, None, *ctx.back(*kept, *gradients)
        with torch.enable_grad():
            # Views: what one input may have from another is no derivative of this operation.
            given = [t.view_as(t) if t.requires_grad else t.detach().requires_grad_() for t in inputs]
            found = torch.autograd.grad(ctx.plainly(*given), given, gradients, create_graph=True)
        return None, None, None, *found
