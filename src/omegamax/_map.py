"""What turns a solver and its derivative into a map that torch can differentiate, map over, trace and export."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, bfloat16, float16, is_grad_enabled
from torch.autograd import forward_ad

from omegamax import kernels
from omegamax._checks import is_plain
from omegamax._operator import define_operator

Parameter = float | Tensor


class Map:
    """Scores ``z`` and parameters to probabilities along ``dim``, in every mode torch has.

    Ordinary tensors go through an ``autograd.Function``; those that are traced, mapped over or intercepted
    (``torch.compile``, ``torch.func``, dispatch modes, subclasses) through the operation ``omegamax::<name>``, which
    has the same rules. Parameters are floats, or tensors with the rank of ``z`` in the dtype of the computation.

    Args:
        name: of the map and of the operation.
        parameters: their names, in order.
        solve: ``(z, *parameters, dim) -> p``; never differentiated, float32 or float64 in and out.
        vjp: ``(g, p, *parameters, dim) -> [dz, *dparameters]``, in differentiable torch; entries may be callables,
            evaluated only if that gradient is wanted.
        jvp: ``(tangents, p, *parameters, dim) -> dp``, tangents being ``[dz | None, *dparameters | None]``.
        gradient: ``(p, g, *parameters, dim) -> dz`` for parameters that are numbers, in the dtype of ``p`` and never
            differentiated: what ``vjp`` gives then, with less around it.
        bounded: the name of the kernel, for parameters that are bounds: probabilities at a bound are equal to it, in
            half precision to the rounded bound.
    """

    def __init__(
        self,
        name: str,
        parameters: Sequence[str],
        solve: Callable,
        vjp: Callable,
        jvp: Callable,
        gradient: Callable | None = None,
        bounded: str | None = None,
    ):
        self.name = name
        self.kernel = bounded or name
        self.solve = solve
        self.function = _function(name, solve, vjp, jvp, bounded is not None)
        # Function.apply looks up the signature of forward each time, which takes longer than a small map itself.
        self.apply = super(torch.autograd.Function, self.function).apply  # type: ignore[misc]
        quick = _quick(name, solve, self.function)
        self.quick = super(torch.autograd.Function, quick).apply  # type: ignore[misc]
        self.quickest = self.quick
        if gradient is not None:
            by_numbers = _by_numbers(name, solve, gradient, self.function)
            self.quickest = super(torch.autograd.Function, by_numbers).apply  # type: ignore[misc]
        self.op = _operator(name, [f"Tensor {a}" for a in parameters], self._run, self.function)
        # A number stays one: a kernel that sees it need not be ready for every other.
        self.number_op = None
        if len(parameters) == 1:
            self.number_op = _operator(f"{name}_by_number", [f"float {parameters[0]}"], self._run, self.function)

    def __call__(self, z: Tensor, *parameters: Parameter, dim: int) -> Tensor:
        dtype = z.dtype
        if dtype is float16 or dtype is bfloat16:
            # As torch.softmax: float32 under autocast, the dtype of the scores otherwise.
            cast = torch.is_autocast_enabled(z.device.type)
            if cast or not kernels.takes_half(self.kernel, z):
                p = self(z.float(), *parameters, dim=dim)
                return p if cast else p.to(dtype)
        if z.dim() == 0:  # a row of one
            row = (a.reshape(1) if isinstance(a, Tensor) else a for a in parameters)
            return self(z.reshape(1), *row, dim=0).reshape(())
        if is_plain(z, *parameters):
            if forward_ad._current_level >= 0:
                return self.apply(z, *parameters, dim)
            if not _derivatives_wanted(z, *parameters):
                return self.solve(z, *parameters, dim)
            for a in parameters:
                if type(a) is not float:
                    return self.quick(z, *parameters, dim)
            return self.quickest(z, *parameters, dim)
        if self.number_op is not None and type(parameters[0]) is float:
            return self.number_op(z, *parameters, dim)
        wide = torch.promote_types(dtype, torch.float32)
        one = (1,) * z.dim()
        return self.op(z, *(a if isinstance(a, Tensor) else z.new_full(one, a, dtype=wide) for a in parameters), dim)

    def _run(self, z: Tensor, *rest) -> Tensor:
        """The operation's values, in any dtype: a graph may have been traced for another backend than this one."""
        if z.dtype.itemsize == 2 and not kernels.takes_half(self.kernel, z):
            return self.solve(z.float(), *rest).to(z.dtype)
        return self.solve(z, *rest)


def _derivatives_wanted(z: Tensor, *parameters: Parameter) -> bool:
    if forward_ad._current_level >= 0:
        return True
    if not is_grad_enabled():
        return False
    if z.requires_grad:
        return True
    for a in parameters:
        if type(a) is not float and isinstance(a, Tensor) and a.requires_grad:
            return True
    return False


def _function(name: str, solve: Callable, vjp: Callable, jvp: Callable, bounded: bool) -> type[torch.autograd.Function]:
    class Function(torch.autograd.Function):
        @staticmethod
        def forward(z, *rest):
            *parameters, dim = rest
            return solve(z, *parameters, dim)

        @staticmethod
        def setup_context(ctx, inputs, output):
            _, *parameters, dim = inputs
            ctx.save_for_forward(output, *_keep(ctx, output, parameters, dim))

        @staticmethod
        def backward(ctx, g):
            if g is None:
                return (None,) * (len(ctx.floats) + 2)
            # In a thread of autograd's own, or after the block of the forward pass.
            if ctx.backend != kernels.current_backend():
                with kernels.backend(ctx.backend):
                    return Function.backward(ctx, g)
            p, *parameters = _saved(ctx)
            wanted = ctx.needs_input_grad
            dtype = p.dtype
            if not is_grad_enabled() and not any(wanted[1:]) and is_plain(g, p):
                grad = vjp(g, p, *parameters, dim=ctx.dim)[0]
                return ((grad() if callable(grad) else grad).to(dtype), *(None for _ in wanted[1:]))
            if dtype.itemsize == 2:
                # Kernels that take half precision compute in float32; plain torch would not.
                g, p = g.float(), p.float()
                if bounded:
                    parameters = _as_rounded(parameters, dtype)
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
            p, *parameters = _saved(ctx)
            dz, *others = tangents[:-1]
            if p.dtype.itemsize == 2:
                dz = dz if dz is None else dz.float()
                if bounded:
                    parameters = _as_rounded(parameters, p.dtype)
                return jvp((dz, *others), p.float(), *parameters, dim=ctx.dim).to(p.dtype)
            return jvp((dz, *others), p, *parameters, dim=ctx.dim)

    Function.__name__ = Function.__qualname__ = name
    return Function


def _quick(name: str, solve: Callable, function: type[torch.autograd.Function]) -> type[torch.autograd.Function]:
    """The same for reverse mode alone, which takes half the time to set up."""

    class Quick(torch.autograd.Function):
        @staticmethod
        def forward(ctx, z, *rest):
            p = solve(z, *rest)
            _keep(ctx, p, rest[:-1], rest[-1])
            return p

        backward = staticmethod(function.backward)

    Quick.__name__ = Quick.__qualname__ = name
    return Quick


def _by_numbers(
    name: str, solve: Callable, gradient: Callable, function: type[torch.autograd.Function]
) -> type[torch.autograd.Function]:
    """The same where the scores alone have a gradient: on a GPU a short map takes less time than its derivative's
    Python."""

    class ByNumbers(torch.autograd.Function):
        @staticmethod
        def forward(ctx, z, *rest):
            p = solve(z, *rest)
            ctx.save_for_backward(p)
            ctx.rest = rest
            ctx.backend = kernels.current_backend()
            return p

        @staticmethod
        def backward(ctx, g):
            rest = ctx.rest
            if is_grad_enabled() or ctx.backend != kernels.current_backend() or not is_plain(g):
                ctx.floats, ctx.dim = rest[:-1], rest[-1]
                return function.backward(ctx, g)
            return (gradient(*ctx.saved_tensors, g, *rest), *(None,) * len(rest))

    ByNumbers.__name__ = ByNumbers.__qualname__ = name
    return ByNumbers


def _keep(ctx, p: Tensor, parameters: Sequence[Parameter], dim: int) -> list[Tensor]:
    """Note for a gradient what it needs; the parameters that are tensors."""
    # The type first: isinstance is slow for tensors.
    tensors = [a for a in parameters if type(a) is not float and isinstance(a, Tensor)]
    ctx.save_for_backward(p, *tensors)
    ctx.floats = [None if isinstance(a, Tensor) else a for a in parameters] if tensors else parameters
    ctx.dim = dim
    ctx.backend = kernels.current_backend()
    ctx.set_materialize_grads(False)
    return tensors


def _saved(ctx) -> list:
    p, *tensors = ctx.saved_tensors
    if not tensors:
        return [p, *ctx.floats]
    rest = iter(tensors)
    return [p, *(next(rest) if a is None else a for a in ctx.floats)]


def _as_rounded(bounds: Sequence[Parameter], dtype: torch.dtype) -> list:
    """Bounds as probabilities of this dtype hold them, in their own."""
    return [a.to(dtype).to(a.dtype) if isinstance(a, Tensor) else torch.tensor(a, dtype=dtype).item() for a in bounds]


def _in_front(size: int, in_dims: Sequence[int | None], z: Tensor, *parameters: Parameter) -> list:
    """Inputs of a mapped call with the mapped axis first; parameters keep broadcasting against the scores."""

    def front(a: Parameter, d: int | None) -> Parameter:
        if not isinstance(a, Tensor):
            return a
        return a.unsqueeze(0) if d is None else a.movedim(d, 0)

    scores = z.movedim(in_dims[0], 0) if in_dims[0] is not None else z.expand(size, *z.shape)
    return [scores, *(front(a, d) for a, d in zip(parameters, in_dims[1:], strict=True))]


def _operator(name: str, parameters: Sequence[str], run: Callable, function: type[torch.autograd.Function]):
    def batched(info, in_dims, z, *rest):
        *given, dim = rest
        z, *given = _in_front(info.batch_size, in_dims[:-1], z, *given)
        return op(z, *given, dim + 1), 0

    op = define_operator(
        name,
        f"({', '.join(['Tensor z', *parameters, 'int dim'])}) -> Tensor",
        run,
        lambda z, *rest: torch.empty_like(z, memory_format=torch.contiguous_format),
        function,
        batched,
    )
    return op
