r"""Make a differentiable operation of torch from a forward, its derivative rules and a rule for shapes.

:class:`Operation` is the general one, :class:`Map` the one for maps from scores and parameters to probabilities. Both
choose, call by call, one of five ways:

================  ====================================================  ==============================================
way               taken when                                            what runs
================  ====================================================  ==============================================
eager             plain tensors, none of which needs a gradient         ``forward`` itself
reverse mode      plain tensors, one of which needs a gradient          an ``autograd.Function`` with a backward only,
                                                                        applied without torch's look at its signature
forward mode      plain tensors inside ``forward_ad.dual_level``        an ``autograd.Function`` that has a jvp as well
traced            ``torch.compile``, ``torch.func``, ``make_fx``,       the custom operator ``omegamax::<name>`` with
                  fake and meta tensors, subclasses, dispatch modes     its fake, vmap, backward and jvp
export            ``torch.export``, ``torch.onnx.export``,              the export form: plain operators of torch, so
                  ``torch.jit.trace``                                   that what is exported does not need omegamax
================  ====================================================  ==============================================

On a GPU a map first looks for a launch that was kept for scores like these (:meth:`Map.launch_again`).

Plain tensors are those of :func:`omegamax._checks.is_plain`. Rules that are written in differentiable torch give double
backward in every way; the last two ways are looked for only if the tensors are not plain, so that they cost the others
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, bfloat16, float16, is_grad_enabled, strided
from torch.compiler import is_compiling

from omegamax import kernels
from omegamax._autograd_rules import (
    make_forward_mode,
    make_map_rules,
    make_reverse_mode,
    make_reverse_mode_in_scores,
    make_rules,
    save_map,
)
from omegamax._checks import SCALARS, is_plain
from omegamax._custom_op import ConstantRules, define_custom_op, map_in_front
from omegamax._numerics import is_autocast_enabled
from omegamax._torch_internals import (
    apply_of,
    dispatch_mode_count,
    in_forward_mode,
    in_jit_trace,
    in_torch_export,
    in_transform,
    is_legacy_batched,
)

Parameter = float | Tensor


class Operation:
    """An operation with the call ``operation(*inputs)``, in whichever way torch needs it (see the module).

    Args:
        name: of the operator, and what its errors speak of.
        schema: arguments and results, as ``torch.library`` writes them; the operation writes to none of its arguments.
        forward: computes the results on tensors with memory.
        shape: computes the metadata of the results (the "fake" of ``torch.library``).
        save: ``(ctx, inputs, results) -> tensors`` that the derivatives need; notes everything else on ``ctx``.
        backward: ``(ctx, *gradients) -> gradients``; called if at least one of them is not None. Without it no result
            is differentiable.
        jvp: ``(ctx, *tangents) -> tangents``; without it forward mode is an error.
        recorded: the forward of reverse mode, if it should keep more.
        traced: the forward of the custom operator, if sizes of results would otherwise depend on values.
        vmap: ``(info, in_dims, *inputs) -> (results, out_dims)``; or "loop", to call the operation for each item, which
            is for those that are long enough by themselves.
        export: ``(*inputs) -> results`` in plain operators of torch; without it an export is an error.
    """

    def __init__(
        self,
        name: str,
        schema: str,
        forward: Callable[..., Any],
        shape: Callable[..., Any],
        *,
        save: Callable[..., Sequence[Tensor | None]] | None = None,
        backward: Callable[..., Any] | None = None,
        jvp: Callable[..., Any] | None = None,
        recorded: Callable[..., Any] | None = None,
        traced: Callable[..., Any] | None = None,
        vmap: Callable[..., Any] | str | None = None,
        export: Callable[..., Any] | None = None,
    ):
        self.forward = forward
        self.export = export or partial(_refuse_export, name)
        rules = ConstantRules if backward is None or save is None else make_rules(name, save, backward, jvp)
        self.op = define_custom_op(name, schema, traced or forward, shape, rules, vmap)
        self._reverse_mode, self._forward_mode = torch.no_grad()(forward), self.op
        if save is not None:
            self._reverse_mode = apply_of(make_reverse_mode(name, recorded or forward, save, rules))
            self._forward_mode = apply_of(make_forward_mode(name, recorded or forward, rules))

    def __call__(self, *inputs: Any) -> Any:
        if is_plain(*inputs):
            if in_forward_mode():
                return self._forward_mode(*inputs)
            return (self._reverse_mode if needs_gradient(*inputs) else self.forward)(*inputs)
        return (self.export if is_exporting() else self.op)(*inputs)


class Map:
    """Scores ``z`` and parameters to probabilities along ``dim``, in whichever way torch needs it (see the module).

    Parameters are floats, or tensors with the rank of ``z`` in the dtype of the computation.

    Args:
        name: of the map and of the operator.
        parameters: their names, in order.
        solve: ``(z, *parameters, dim) -> p``; never differentiated, float32 or float64 in and out.
        vjp: ``(g, p, *parameters, dim) -> [dz, *dparameters]``, in differentiable torch; entries may be callables,
            evaluated only if that gradient is wanted.
        jvp: ``(tangents, p, *parameters, dim) -> dp``, tangents being ``[dz | None, *dparameters | None]``.
        gradient: ``(p, g, *parameters, dim) -> dz`` for parameters that are floats, in the dtype of ``p`` and never
            differentiated: what ``vjp`` gives then, with less around it.
        bounded: the name of the kernel, for parameters that are bounds: probabilities at a bound are equal to it, in
            half precision to the rounded bound.
        export: ``(z, *parameters, dim) -> p`` in plain operators of torch; without it an export is an error.
    """

    def __init__(
        self,
        name: str,
        parameters: Sequence[str],
        solve: Callable[..., Tensor],
        vjp: Callable[..., Any],
        jvp: Callable[..., Tensor],
        gradient: Callable[..., Tensor] | None = None,
        bounded: str | None = None,
        export: Callable[..., Tensor] | None = None,
    ):
        self.name = name
        self.kernel = bounded or name
        self.solve = solve
        self.export = export or partial(_refuse_export, name)
        rules = make_map_rules(name, vjp, jvp, bounded is not None)
        self._forward_mode = apply_of(make_forward_mode(name, solve, rules))
        self._reverse_mode = apply_of(make_reverse_mode(name, solve, save_map, rules))
        self._reverse_mode_in_scores = self._reverse_mode
        if gradient is not None:
            self._reverse_mode_in_scores = apply_of(make_reverse_mode_in_scores(name, solve, gradient, rules))
        self.op = self._define(name, [f"Tensor {a}" for a in parameters], rules)
        # A float stays one: a kernel that sees it need not be ready for every other.
        self.scalar_op = None
        if len(parameters) == 1:
            self.scalar_op = self._define(f"{name}_by_scalar", [f"float {parameters[0]}"], rules)

    def __call__(self, z: Tensor, *parameters: Parameter, dim: int) -> Tensor:
        dtype = z.dtype
        if dtype is float16 or dtype is bfloat16:
            # As torch.softmax: float32 under autocast, the dtype of the scores otherwise.
            cast = is_autocast_enabled(z)
            if cast or not kernels.takes_half(self.kernel, z) or is_exporting():
                p = self(z.float(), *parameters, dim=dim)
                return p if cast else p.to(dtype)
        if z.dim() == 0:  # a row of one
            row = (a.reshape(1) if isinstance(a, Tensor) else a for a in parameters)
            return self(z.reshape(1), *row, dim=0).reshape(())
        if is_plain(z, *parameters):
            if in_forward_mode():
                return self._forward_mode(z, *parameters, dim)
            if not needs_gradient(z, *parameters):
                return self.solve(z, *parameters, dim)
            for a in parameters:
                if type(a) is not float:
                    return self._reverse_mode(z, *parameters, dim)
            return self._reverse_mode_in_scores(z, *parameters, dim)
        if is_exporting():
            return self.export(z, *parameters, dim)
        if self.scalar_op is not None and type(parameters[0]) is float:
            return self.scalar_op(z, *parameters, dim)
        wide = torch.promote_types(dtype, torch.float32)
        one = (1,) * z.dim()
        return self.op(z, *(a if isinstance(a, Tensor) else z.new_full(one, a, dtype=wide) for a in parameters), dim)

    def launch_again(self, z: Tensor, parameter: float, dim: int) -> Tensor | None:
        """Return the probabilities by a kernel that was launched on scores like these, or None if none can be.

        Scores of this shape, dtype and device have passed all checks before: what is left to ask is what may differ
        between two calls with them. A small map on a GPU takes less time than the Python of the whole way.
        """
        if is_compiling() or in_transform() or dispatch_mode_count() or in_jit_trace() or in_forward_mode():
            return None
        if z.layout is not strided or z.is_nested or is_legacy_batched(z) or not z.is_contiguous():
            return None
        last = z.dim() - 1
        if type(dim) is not int or (dim != -1 and dim != last):
            return None
        dtype = z.dtype
        kept = kernels.kept_launches.get((self.name, parameter, z.shape, dtype, z.device))
        if kept is None or kernels.current_backend() not in ("auto", "triton"):
            return None
        if (dtype is float16 or dtype is bfloat16) and is_autocast_enabled(z):
            return None
        if z.requires_grad and is_grad_enabled():
            return self._reverse_mode_in_scores(z, parameter, last)
        return kept.fill(z)

    def _define(self, name: str, parameters: Sequence[str], rules: type[torch.autograd.Function]) -> Callable:
        def vmap(info, in_dims, z, *rest):
            *given, dim = rest
            z, *given = map_in_front(info.batch_size, in_dims[:-1], z, *given)
            return op(z, *given, dim + 1), 0

        schema = f"({', '.join(['Tensor z', *parameters, 'int dim'])}) -> Tensor"
        op = define_custom_op(name, schema, self._run, _like_scores, rules, vmap)
        return op

    def _run(self, z: Tensor, *rest) -> Tensor:
        """Compute the operator's values in any dtype: a graph may have been traced for another backend than this."""
        if z.dtype.itemsize == 2 and not kernels.takes_half(self.kernel, z):
            return self.solve(z.float(), *rest).to(z.dtype)
        return self.solve(z, *rest)


def is_exporting() -> bool:
    """Tell whether a graph is made that others than omegamax will run."""
    if not is_compiling():
        return in_jit_trace()
    # The rules of torch.func inside an exported graph are those of the operation: of plain steps torch exports none.
    return in_torch_export() and not in_transform()


def needs_gradient(*inputs: Any) -> bool:
    """Tell whether one of these needs a gradient in reverse mode."""
    if not is_grad_enabled():
        return False
    for a in inputs:
        if type(a) not in SCALARS and isinstance(a, Tensor) and a.requires_grad:
            return True
    return False


def needs_derivative(*inputs: Any) -> bool:
    """Tell whether a derivative of these may be wanted, in reverse or in forward mode."""
    return in_forward_mode() or needs_gradient(*inputs)


def solve_vjp(op: str, rule: Callable[..., Tensor], p: Tensor, g: Tensor, *rest: Any) -> Tensor:
    """Return a vector-Jacobian product by the kernel ``op``, or by ``rule`` where that is differentiated or traced."""
    if not is_grad_enabled() and is_plain(g, p):
        return kernels.solve(op, p, g, *rest)
    return rule(p, g, *rest)


def check_not_exporting(name: str) -> None:
    """Refuse to be exported: for functions whose operations have no export form, so that the error names them."""
    if is_exporting():
        _refuse_export(name)


def _refuse_export(name: str, *inputs: Any) -> Any:
    raise NotImplementedError(
        f"{name}: cannot be exported (torch.export, torch.onnx.export, torch.jit.trace): its solver is a search whose "
        "steps depend on values"
    )


def _like_scores(z: Tensor, *rest) -> Tensor:
    return torch.empty_like(z, memory_format=torch.contiguous_format)
