"""Every private name of torch that the library relies on, in one file: what to read first when torch changes.

Two groups: in which state torch is (:func:`in_forward_mode`, :func:`in_transform`, ...), and how a rule for derivatives
or for vmap is registered at one level of ``torch.func`` (:func:`differentiate_at_level`, :func:`map_at_level`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._C import _are_functorch_transforms_active as in_transform  # inside torch.func: vmap, grad, jvp, ...
from torch._C import _current_graph_task_id as backward_pass_id  # -1 outside of a backward pass
from torch._C import _DisableFuncTorch as DisableTransforms  # what is inside sees memory, not what a transform makes
from torch._C import _is_tracing as in_jit_trace
from torch._C import _len_torch_dispatch_stack as dispatch_mode_count  # fake, proxy and other TorchDispatchModes
from torch._C._functorch import (
    CVmapInterpreterPtr,
    _add_batch_dim,
    _unwrap_batched,
    get_single_level_autograd_function_allowed,
    peek_interpreter_stack,
    set_single_level_autograd_function_allowed,
)
from torch._C._functorch import is_legacy_batchedtensor as is_legacy_batched  # of is_grads_batched=True
from torch.autograd import forward_ad
from torch.distributions import Distribution

__all__ = [
    "DisableTransforms",
    "backward_pass_id",
    "dispatch_mode_count",
    "in_jit_trace",
    "in_transform",
    "is_legacy_batched",
]

current_cuda_device: Any = getattr(torch._C, "_cuda_getDevice", None)  # without the checks of torch.cuda.current_device

_inside_rule: ContextVar[bool] = ContextVar("inside_rule", default=False)


def in_forward_mode() -> bool:
    """Tell whether dual tensors may be about (``torch.autograd.forward_ad``, ``torch.func.jvp``)."""
    return forward_ad._current_level >= 0


def in_torch_export() -> bool:
    """Tell whether ``torch.export`` or ``torch.onnx.export`` traces, of torch 2.7 and later.

    ``torch.compiler.is_exporting`` says the same, but the compiler of torch 2.11 takes it for True everywhere.
    """
    return getattr(torch.compiler, "_is_exporting_flag", False)


def new_instance(distribution: Distribution, kind: Any, given: Any) -> Any:
    """Return what ``expand`` is to fill: ``given``, or a new one of the same class, which must not have its own init.

    It is torch's ``_get_checked_instance`` in a form that compiles in torch 2.11, too.
    """
    own: Any = type(distribution)
    if given is None and own.__init__ is not kind.__init__:
        return distribution._get_checked_instance(kind)  # which raises an error
    return own.__new__(own) if given is None else given


def inside_jvp_rule() -> bool:
    """Tell whether a rule for forward mode runs at a level of ``torch.func``, where no ``autograd.Function`` can."""
    return _inside_rule.get()


def apply_of(function: type[torch.autograd.Function]) -> Callable:
    """Return ``function.apply`` without the part that looks up the signature of ``forward`` in every call.

    That takes longer than a small map itself. It is there for ``torch.func``: the result is for plain tensors only.
    """
    return super(torch.autograd.Function, function).apply  # type: ignore[misc]


def differentiate_at_level(name: str, operation: Callable, rules: type[torch.autograd.Function]) -> Callable:
    """Return the autograd kernel of an operation: ``setup_context``, ``backward`` and ``jvp`` of ``rules``.

    ``torch.func`` has chosen the level of its stack at which the kernel runs: ``Function.apply`` would start anew at
    the top.
    """

    class Differentiated(rules):  # type: ignore[valid-type, misc]
        @staticmethod
        def forward(*inputs):
            # A Function turns both modes off, which the levels of torch.func below this one may need.
            below = torch._C._AutoDispatchBelowAutograd()
            with torch.enable_grad(), forward_ad._set_fwd_grad_enabled(True), below:
                return operation(*inputs)

        @staticmethod
        def jvp(ctx, *tangents):
            if not in_transform():
                return rules.jvp(ctx, *tangents)
            with forward_ad._set_fwd_grad_enabled(True):
                marked = _inside_rule.set(True)
                try:
                    return rules.jvp(_WithoutTangents(ctx), *tangents)
                finally:
                    _inside_rule.reset(marked)

    Differentiated.__name__ = Differentiated.__qualname__ = name
    apply = apply_of(Differentiated)

    def call(*inputs):
        before = get_single_level_autograd_function_allowed()
        set_single_level_autograd_function_allowed(True)
        try:
            return apply(*inputs)
        finally:
            set_single_level_autograd_function_allowed(before)

    return call


class _WithoutTangents:
    """A context whose tensors have no tangents at the level of torch.func that is differentiated, only below it."""

    def __init__(self, ctx):
        self.ctx = ctx
        self.saved_tensors = [t if t is None else forward_ad.unpack_dual(t, level=0).primal for t in ctx.saved_tensors]

    def __getattr__(self, name: str):
        return getattr(self.ctx, name)


class VmapInfo(NamedTuple):
    """What a rule for vmap is told."""

    batch_size: int


def map_at_level(operation: Callable, rule: Callable) -> Callable:
    """Return the vmap kernel of an operation, ``rule(info, in_dims, *inputs) -> (results, out_dims)``.

    It is what ``torch.library.register_vmap`` registers, which in torch 2.5 fails inside other transforms.
    """

    def call(*inputs):
        interpreter = peek_interpreter_stack()
        level, info = interpreter.level(), VmapInfo(CVmapInterpreterPtr(interpreter).batchSize())
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
