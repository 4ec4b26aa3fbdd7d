"""Call the compiled kernels of maps with bounds: C++ in ``cpp/bounds.h``; k-subsets share the row loop of entmax."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable

import torch
from torch import Tensor

from omegamax.kernels._library import expand_by_row, make_dense, open_library
from omegamax.kernels.kinds import Kind
from omegamax.kernels.rows.cpu import run_backward, run_forward

k_subsets = functools.partial(run_forward, Kind.K_SUBSETS)  # (z, k, dim)


def k_subsets_vjp(p: Tensor, g: Tensor, dim: int) -> Tensor:
    """Multiply ``g`` by the Jacobian of k-subsets at the output ``p``, which does not depend on k."""
    return run_backward(Kind.K_SUBSETS, p, g, 0.0, dim)


Bound = float | Tensor
_POINTER, _NUMBER, _SIZE = ctypes.c_void_p, ctypes.c_double, ctypes.c_int64
_BOUND = [_POINTER, _NUMBER, _SIZE]
_SIGNATURES = {
    "box_simplex": [*[_POINTER] * 2, *_BOUND, *_BOUND, _NUMBER, _POINTER],
    "box_simplex_vjp": [*[_POINTER] * 3, *_BOUND, *_BOUND],
    "capped_softmax": [*[_POINTER] * 2, *_BOUND],
    "capped_softmax_vjp": [*[_POINTER] * 3, *_BOUND],
}


@functools.cache
def _entry(name: str, dtype: torch.dtype) -> Callable[..., None]:
    """Return a C function of ``cpp/bounds.h`` with its signature."""
    suffix = {torch.float32: "f32", torch.float64: "f64"}[dtype]
    function = getattr(open_library("bounds"), f"omegamax_bounds_{name}_{suffix}")
    function.argtypes = [*_SIGNATURES[name], _SIZE, _SIZE, ctypes.c_int]  # rows, K, threads
    function.restype = None
    return function


def box_simplex(z: Tensor, lower: Bound, upper: Bound, total: Bound, dim: int = -1) -> Tensor:
    """Project onto ``{lower <= p <= upper, sum p = total}``; ``total`` has size 1 along ``dim``."""
    number, totals = (0.0, expand_by_row(total, z, dim)) if isinstance(total, Tensor) else (total, None)
    return _run("box_simplex", [z], [lower, upper], dim, number, None if totals is None else totals.data_ptr())


def box_simplex_vjp(p: Tensor, g: Tensor, lower: Bound, upper: Bound, dim: int) -> Tensor:
    """Multiply ``g`` by the Jacobian of :func:`box_simplex` at its output ``p``."""
    return _run("box_simplex_vjp", [p, g], [lower, upper], dim)


def capped_softmax(z: Tensor, upper: Bound, dim: int = -1) -> Tensor:
    """Compute ``min(upper, c exp(z))`` with ``c`` such that it sums to one."""
    return _run("capped_softmax", [z], [upper], dim)


def capped_softmax_vjp(p: Tensor, g: Tensor, upper: Bound, dim: int) -> Tensor:
    """Multiply ``g`` by the Jacobian of :func:`capped_softmax` at its output ``p``."""
    return _run("capped_softmax_vjp", [p, g], [upper], dim)


def _run(name: str, tensors: list[Tensor], bounds: list[Bound], dim: int, *more: float | int | None) -> Tensor:
    """Call a kernel on rows that lie one behind the other, and return its result in the shape of the first tensor."""
    first = tensors[0]
    last = dim % first.dim() == first.dim() - 1
    rows = [make_dense(t if last else t.movedim(dim, -1)) for t in tensors]
    out = torch.empty_like(rows[0])
    kept = [_lay_out(bound, first, dim) for bound in bounds]  # held while the kernel reads them
    pointers = [t.data_ptr() for t in (*rows, out)]
    arguments = [part for entries, *rest in kept for part in (None if entries is None else entries.data_ptr(), *rest)]
    K = first.shape[dim]
    count = first.numel() // K
    _entry(name, first.dtype)(*pointers, *arguments, *more, count, K, torch.get_num_threads())
    # Never a view, which autograd would not let anybody change.
    return out if last else out.movedim(-1, dim).clone(memory_format=torch.contiguous_format)


def _lay_out(bound: Bound, z: Tensor, dim: int) -> tuple[Tensor | None, float, int]:
    """Return the entries of a bound, a number where there are none, and the stride from row to row.

    A row of bounds that all rows of scores share is not repeated. A number is rounded as scores are, since an entry at
    its bound is told by being equal to it.
    """
    if not isinstance(bound, Tensor) or bound.numel() == 1:
        return None, torch.as_tensor(bound, dtype=z.dtype).item(), 0
    bound = bound.detach().to(z.dtype).movedim(dim, -1)
    K = z.shape[dim]
    if bound.shape[:-1].numel() == 1:
        return make_dense(bound.expand(*bound.shape[:-1], K)), 0.0, 0
    return make_dense(bound.expand(z.movedim(dim, -1).shape)), 0.0, K
