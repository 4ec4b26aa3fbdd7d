"""Operations of ``torch.library`` whose derivatives exist in reverse and in forward mode."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._C._functorch import (
    CVmapInterpreterPtr,
    _add_batch_dim,
    _unwrap_batched,
    get_single_level_autograd_function_allowed,
    peek_interpreter_stack,
    set_single_level_autograd_function_allowed,
)
from torch.autograd.forward_ad import _set_fwd_grad_enabled, unpack_dual

_inside_rule: ContextVar[bool] = ContextVar("inside_rule", default=False)


def inside_rule() -> bool:
    """Tell whether a rule for forward mode runs at a level of ``torch.func``, where no ``autograd.Function`` can."""
    return _inside_rule.get()


def define_operator(
    name: str,
    schema: str,
    run: Callable[..., Any],
    fake: Callable[..., Any],
    rules: type[torch.autograd.Function] | None = None,
    batched: Callable[..., Any] | None = None,
    one_by_one: bool = False,
) -> Callable[..., Any]:
    """Register ``omegamax::<name>`` and return it.

    ``torch.library.custom_op`` knows of no forward mode: it drops the tangents of its inputs, which leaves zeros in
    place of a derivative wherever an operation is traced, mapped over or intercepted. Here the rules of an
    ``autograd.Function`` are registered as they are, for both modes and at every level of ``torch.func``.

    Args:
        schema: arguments and results, as ``torch.library`` writes them; the operation writes to none of its arguments.
        run: computes the results on tensors with memory.
        fake: computes the metadata of the results.
        rules: ``setup_context``, ``backward`` and ``jvp``; without a ``jvp`` forward mode is an error, without rules
            nothing has a derivative.
        batched: the rule for vmap, ``(info, in_dims, *inputs) -> (results, out_dims)``.
        one_by_one: whether vmap calls the operation for each item: for those that are long enough by themselves.
    """
    qualified = f"omegamax::{name}"
    torch.library.define(qualified, schema, tags=(torch.Tag.pt2_compliant_tag,))
    torch.library.impl(qualified, "default", _never_compiled(run))
    torch.library.register_fake(qualified, fake)
    operation = getattr(torch.ops.omegamax, name).default
    if one_by_one:
        batched = _map_one_by_one(operation)
    if batched is not None:
        torch.library.impl(qualified, "FuncTorchBatched", _mapped(operation, batched))
    torch.library.impl(qualified, "Autograd", _differentiated(name, operation, rules or _Constant))
    return operation


def _never_compiled(run: Callable) -> Callable:
    """What :func:`torch.compiler.disable` does, without loading a compiler that nobody else has loaded."""
    disabled: list[Callable] = []

    def call(*inputs):
        if not disabled:
            if "torch._dynamo" not in sys.modules:
                return run(*inputs)
            disabled.append(torch.compiler.disable(run))
        return disabled[0](*inputs)

    return call


def refuse_forward_mode(name: str, instead: str) -> Callable:
    """A ``jvp`` for an operation that has none: an error that says what to call instead."""

    def jvp(ctx, *tangents):
        raise NotImplementedError(f"{name}: no derivative in forward mode (jvp, jacfwd, dual tensors) here; {instead}")

    return staticmethod(jvp)  # type: ignore[return-value]


class _Constant(torch.autograd.Function):
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


def _differentiated(name: str, operation: Callable, rules: type[torch.autograd.Function]) -> Callable:
    class Differentiated(rules):  # type: ignore[valid-type, misc]
        @staticmethod
        def forward(*inputs):
            # A Function turns both modes off, which the levels of torch.func below this one may need.
            with torch.enable_grad(), _set_fwd_grad_enabled(True), torch._C._AutoDispatchBelowAutograd():
                return operation(*inputs)

        @staticmethod
        def jvp(ctx, *tangents):
            if not torch._C._are_functorch_transforms_active():
                return rules.jvp(ctx, *tangents)
            with _set_fwd_grad_enabled(True):
                marked = _inside_rule.set(True)
                try:
                    return rules.jvp(_WithoutTangents(ctx), *tangents)
                finally:
                    _inside_rule.reset(marked)

    Differentiated.__name__ = Differentiated.__qualname__ = name
    # torch.func has chosen the level of its stack at which this runs: Function.apply would start anew at the top.
    apply = super(torch.autograd.Function, Differentiated).apply  # type: ignore[misc]

    def at_this_level(*inputs):
        before = get_single_level_autograd_function_allowed()
        set_single_level_autograd_function_allowed(True)
        try:
            return apply(*inputs)
        finally:
            set_single_level_autograd_function_allowed(before)

    return at_this_level


class _WithoutTangents:
    """A context whose tensors have no tangents at the level of torch.func that is differentiated, only below it."""

    def __init__(self, ctx):
        self.ctx = ctx
        self.saved_tensors = [t if t is None else unpack_dual(t, level=0).primal for t in ctx.saved_tensors]

    def __getattr__(self, name: str):
        return getattr(self.ctx, name)


class Info(NamedTuple):
    """What a rule for vmap is told."""

    batch_size: int


def _mapped(operation: Callable, rule: Callable) -> Callable:
    """What ``torch.library.register_vmap`` registers, which in torch 2.5 fails inside other transforms."""

    def call(*inputs):
        interpreter = peek_interpreter_stack()
        level, info = interpreter.level(), Info(CVmapInterpreterPtr(interpreter).batchSize())
        pairs = [_unwrap_batched(x, level) if isinstance(x, Tensor) else (x, None) for x in inputs]
        unwrapped, in_dims = zip(*pairs, strict=True)
        # The levels below see what the rule does.
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.FuncTorchBatched)):
            if all(dim is None for dim in in_dims):
                return operation(*inputs)
            outputs, out_dims = rule(info, in_dims, *unwrapped)
        if isinstance(outputs, Tensor):
            return _add_batch_dim(outputs, out_dims, level)
        return tuple(_add_batch_dim(x, dim, level) for x, dim in zip(outputs, out_dims, strict=True))

    return call


def _map_one_by_one(operation: Callable) -> Callable:
    def rule(info, in_dims, *inputs):
        def item(x, dim, i):
            return x if dim is None or not isinstance(x, Tensor) else x.select(dim, i)

        each = [
            operation(*(item(x, d, i) for x, d in zip(inputs, in_dims, strict=True))) for i in range(info.batch_size)
        ]
        if isinstance(each[0], Tensor):
            return torch.stack(each), 0
        return tuple(torch.stack(parts) for parts in zip(*each, strict=True)), (0,) * len(each[0])

    return rule
