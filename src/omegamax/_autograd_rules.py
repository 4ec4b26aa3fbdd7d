"""Make the classes through which autograd differentiates an operation: its rules, for each mode that asks for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, is_grad_enabled

from omegamax import kernels
from omegamax._checks import is_plain
from omegamax._custom_op import refuse_forward_mode


def make_rules(name: str, save: Callable, backward: Callable, jvp: Callable | None) -> type[torch.autograd.Function]:
    """Return the rules of an operation, from how it saves what they need and its two derivatives."""
    forward_mode = jvp or refuse_forward_mode(name, "use reverse mode")

    class OperationRules(torch.autograd.Function):
        @staticmethod
        def setup_context(ctx, inputs, output):
            kept = save(ctx, inputs, output)
            ctx.save_for_backward(*kept)
            ctx.save_for_forward(*kept)
            ctx.count = len(inputs)
            ctx.set_materialize_grads(False)

        @staticmethod
        def backward(ctx, *gradients):
            if all(g is None for g in gradients):
                return (None,) * ctx.count
            return backward(ctx, *gradients)

        jvp = staticmethod(forward_mode)

    return OperationRules


def make_forward_mode(name: str, run: Callable, rules: type[torch.autograd.Function]) -> type[torch.autograd.Function]:
    """Return the Function with all the rules."""

    class ForwardMode(rules):  # type: ignore[valid-type, misc]
        forward = staticmethod(run)

    ForwardMode.__name__ = ForwardMode.__qualname__ = name
    return ForwardMode


def make_reverse_mode(
    name: str, run: Callable, save: Callable, rules: type[torch.autograd.Function]
) -> type[torch.autograd.Function]:
    """Return the Function for reverse mode alone, which takes half the time to set up."""

    class ReverseMode(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *inputs):
            output = run(*inputs)
            ctx.save_for_backward(*save(ctx, inputs, output))
            ctx.count = len(inputs)
            ctx.set_materialize_grads(False)
            return output

        backward = staticmethod(rules.backward)

    ReverseMode.__name__ = ReverseMode.__qualname__ = name
    return ReverseMode


def make_reverse_mode_in_scores(
    name: str, solve: Callable, gradient: Callable, rules: type[torch.autograd.Function]
) -> type[torch.autograd.Function]:
    """Return the Function for scores that need a gradient and parameters that are floats.

    On a GPU a short map takes less time than the Python of its derivative.
    """

    class ReverseModeInScores(torch.autograd.Function):
        @staticmethod
        def forward(ctx, z, *rest):
            p = solve(z, *rest)
            ctx.save_for_backward(p)
            ctx.set_materialize_grads(False)
            ctx.rest = rest
            ctx.backend = kernels.current_backend()
            return p

        @staticmethod
        def backward(ctx, g):
            rest = ctx.rest
            if g is None:  # as of a loss, whose gradient goes past the probabilities
                return (None,) * (len(rest) + 1)
            if is_grad_enabled() or ctx.backend != kernels.current_backend() or not is_plain(g):
                ctx.floats, ctx.dim = rest[:-1], rest[-1]
                return rules.backward(ctx, g)
            return (gradient(*ctx.saved_tensors, g, *rest), *(None,) * len(rest))

    ReverseModeInScores.__name__ = ReverseModeInScores.__qualname__ = name
    return ReverseModeInScores


def make_map_rules(name: str, vjp: Callable, jvp: Callable, bounded: bool) -> type[torch.autograd.Function]:
    """Return the rules of a map, which give each gradient the shape and the dtype of its argument."""

    class MapRules(torch.autograd.Function):
        @staticmethod
        def setup_context(ctx, inputs, output):
            kept = save_map(ctx, inputs, output)
            ctx.save_for_backward(*kept)
            ctx.save_for_forward(*kept)
            ctx.set_materialize_grads(False)

        @staticmethod
        def backward(ctx, g):
            if g is None:
                return (None,) * (len(ctx.floats) + 2)
            if ctx.backend != kernels.current_backend():  # in a thread of autograd's own, or outside of its block
                with kernels.backend(ctx.backend):
                    return MapRules.backward(ctx, g)
            p, *parameters = _restore_map(ctx)
            wanted = ctx.needs_input_grad
            dtype = p.dtype
            if not is_grad_enabled() and not any(wanted[1:]) and is_plain(g, p):
                grad = vjp(g, p, *parameters, dim=ctx.dim)[0]
                return ((grad() if callable(grad) else grad).to(dtype), *(None for _ in wanted[1:]))
            if dtype.itemsize == 2:
                # Kernels that take half precision compute in float32; plain torch would not.
                g, p = g.float(), p.float()
                if bounded:
                    parameters = _round_bounds(parameters, dtype)
            grads = []
            for i, grad in enumerate(vjp(g, p, *parameters, dim=ctx.dim)):
                if not wanted[i]:
                    grads.append(None)
                    continue
                grad = grad() if callable(grad) else grad
                grads.append(grad.to(dtype) if i == 0 else grad.sum_to_size(parameters[i - 1].shape))
            return (*grads, None)

        @staticmethod
        def jvp(ctx, *tangents):
            p, *parameters = _restore_map(ctx)
            dz, *others = tangents[:-1]
            if p.dtype.itemsize == 2:
                dz = dz if dz is None else dz.float()
                if bounded:
                    parameters = _round_bounds(parameters, p.dtype)
                return jvp((dz, *others), p.float(), *parameters, dim=ctx.dim).to(p.dtype)
            return jvp((dz, *others), p, *parameters, dim=ctx.dim)

    MapRules.__name__ = MapRules.__qualname__ = name
    return MapRules


def save_map(ctx, inputs: Sequence, p: Tensor) -> list[Tensor]:
    """Note the floats among the parameters, ``dim`` and the backend; return ``p`` and the other parameters."""
    parameters = inputs[1:-1]
    # The type first: isinstance is slow for tensors.
    tensors = [a for a in parameters if type(a) is not float and isinstance(a, Tensor)]
    ctx.floats = [None if isinstance(a, Tensor) else a for a in parameters] if tensors else parameters
    ctx.dim = inputs[-1]
    ctx.backend = kernels.current_backend()
    return [p, *tensors]


def _restore_map(ctx) -> list:
    p, *tensors = ctx.saved_tensors
    if not tensors:
        return [p, *ctx.floats]
    rest = iter(tensors)
    return [p, *(next(rest) if a is None else a for a in ctx.floats)]


def _round_bounds(bounds: Sequence[float | Tensor], dtype: torch.dtype) -> list:
    """Return bounds as probabilities of this dtype hold them, in their own dtype."""
    return [a.to(dtype).to(a.dtype) if isinstance(a, Tensor) else torch.tensor(a, dtype=dtype).item() for a in bounds]
