"""Register an operator of ``torch.library`` with its rules for derivatives and for vmap."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from omegamax._torch_internals import differentiate_at_level, map_at_level


def define_custom_op(
    name: str,
    schema: str,
    run: Callable[..., Any],
    shape: Callable[..., Any],
    rules: type[torch.autograd.Function],
    vmap: Callable[..., Any] | str | None = None,
) -> Callable[..., Any]:
    """Register ``omegamax::<name>`` and return it; arguments as in :class:`Operation`.

    ``torch.library.custom_op`` knows of no forward mode: it drops the tangents of its inputs, which leaves zeros in
    place of a derivative wherever an operation is traced, mapped over or intercepted. Here the ``setup_context``,
    ``backward`` and ``jvp`` of ``rules`` are registered as they are, for both modes and at every level of
    ``torch.func``.
    """
    qualified = f"omegamax::{name}"
    torch.library.define(qualified, schema, tags=(torch.Tag.pt2_compliant_tag,))
    torch.library.impl(qualified, "default", _never_compile(run))
    torch.library.register_fake(qualified, shape)
    op = getattr(torch.ops.omegamax, name).default
    if vmap is not None:
        rule = vmap if callable(vmap) else _map_in_loop(op)
        torch.library.impl(qualified, "FuncTorchBatched", map_at_level(op, rule))
    torch.library.impl(qualified, "Autograd", differentiate_at_level(name, op, rules))
    return op


def _never_compile(run: Callable) -> Callable:
    """Return what :func:`torch.compiler.disable` does, without loading a compiler that nobody else has loaded."""
    disabled: list[Callable] = []

    def call(*inputs):
        if not disabled:
            if "torch._dynamo" not in sys.modules:
                return run(*inputs)
            disabled.append(torch.compiler.disable(run))
        return disabled[0](*inputs)

    return call


def _map_in_loop(op: Callable) -> Callable:
    def rule(info, in_dims, *inputs):
        def item(x, dim, i):
            return x if dim is None or not isinstance(x, Tensor) else x.select(dim, i)

        each = [op(*(item(x, d, i) for x, d in zip(inputs, in_dims, strict=True))) for i in range(info.batch_size)]
        if isinstance(each[0], Tensor):
            return torch.stack(each), 0
        return tuple(torch.stack(parts) for parts in zip(*each, strict=True)), (0,) * len(each[0])

    return rule


def all_in_front(size: int, in_dims: Sequence[int | None], *tensors: Tensor) -> list[Tensor]:
    """Return the tensors of a mapped call with the mapped axis first, expanded where a tensor has none."""
    return [t.expand(size, *t.shape) if d is None else t.movedim(d, 0) for t, d in zip(tensors, in_dims, strict=False)]


def map_in_front(size: int, in_dims: Sequence[int | None], z: Tensor, *parameters: float | Tensor) -> list:
    """Return the same for scores and parameters, which need only broadcast against the scores."""

    def front(a: float | Tensor, d: int | None) -> float | Tensor:
        if not isinstance(a, Tensor):
            return a
        return a.unsqueeze(0) if d is None else a.movedim(d, 0)

    return [
        *all_in_front(size, in_dims[:1], z),
        *(front(a, d) for a, d in zip(parameters, in_dims[1:], strict=True)),
    ]


class ConstantRules(torch.autograd.Function):
    """The rules of an operation without derivatives."""

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.single = isinstance(output, Tensor)
        outputs = (output,) if ctx.single else output
        ctx.count = len(outputs)
        ctx.mark_non_differentiable(*outputs)

    @staticmethod
    def backward(ctx, *gradients):
        raise AssertionError("no result is differentiable")

    @staticmethod
    def jvp(ctx, *tangents):
        return None if ctx.single else (None,) * ctx.count


def refuse_forward_mode(name: str, instead: str) -> Callable:
    """Return a ``jvp`` for an operation that has none: an error that says what to call instead."""

    def jvp(ctx, *tangents):
        raise NotImplementedError(f"{name}: no derivative in forward mode (jvp, jacfwd, dual tensors) here; {instead}")

    return jvp


def refuse_second_derivative(name: str, limit: str) -> Callable:
    """Return a ``backward`` for a gradient that has none: an error that says the limit and what to call instead."""

    def backward(ctx, *gradients):
        raise RuntimeError(f'{name}: {limit}; for higher derivatives call it inside omegamax.backend("reference")')

    return backward
