"""Call the compiled row kernels: C++ in ``cpp/rows.h``."""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable
from enum import IntEnum

import torch
from torch import Tensor, empty_like, get_num_threads

from omegamax.kernels._library import expand_by_row, make_dense, open_library
from omegamax.kernels.kinds import Kind


class RowSum(IntEnum):
    """The sums of ``cpp/entmax_alpha.h``, with its values."""

    POWERS = 0
    TSALLIS = 1
    TSALLIS_IN_ALPHA = 2
    ALPHA_VJP = 3


@functools.cache
def _entries(name: str) -> dict[torch.dtype, Callable[..., None]]:
    """Return the C functions of ``cpp/rows.h`` with their signature, by dtype."""
    tensors = 2 if name == "forward" else 3
    entries = {}
    for dtype, suffix in ((torch.float32, "f32"), (torch.float64, "f64")):
        function = entries[dtype] = getattr(open_library("rows"), f"omegamax_rows_{name}_{suffix}")
        function.argtypes = [
            ctypes.c_int,  # kind
            *[ctypes.c_void_p] * tensors,
            ctypes.c_double,  # the parameter that all rows share,
            ctypes.c_void_p,  # or one for each row
            *[ctypes.c_int64] * 3,  # outer, K, inner; of sums how many rows, K, and how far apart they are
            ctypes.c_int,  # threads
        ]
        function.restype = None
    return entries


def _sizes(z: Tensor, dim: int) -> tuple[int, int, int]:
    """View ``z`` as [outer, K, inner]."""
    shape = z.shape
    K = shape[dim]
    if dim == len(shape) - 1:
        return z.numel() // K, K, 1
    inner = math.prod(shape[dim + 1 :])
    return (z.numel() // (K * inner) if inner else 0), K, inner


def _number_or_rows(parameter: float | Tensor, z: Tensor, dim: int) -> tuple[float, Tensor | None]:
    """Return the parameter that all rows share, or one for each."""
    if type(parameter) is float or not isinstance(parameter, Tensor):
        return parameter, None
    if parameter.numel() == 1:
        return parameter.item(), None
    return 0.0, expand_by_row(parameter, z, dim)


# Small inputs are all overhead: the two functions below count their calls.


def run_forward(kind: int, z: Tensor, parameter: float | Tensor, dim: int) -> Tensor:
    """Compute probabilities along ``dim``; the parameter is a float, or a tensor with one for each row."""
    if not z.is_contiguous() or z.is_neg():
        z = make_dense(z)
    p = empty_like(z)
    number, rows = _number_or_rows(parameter, z, dim)
    at = None if rows is None else rows.data_ptr()
    _entries("forward")[z.dtype](kind, z.data_ptr(), p.data_ptr(), number, at, *_sizes(z, dim), get_num_threads())
    return p


def run_backward(kind: int, p: Tensor, g: Tensor, parameter: float | Tensor, dim: int) -> Tensor:
    """Multiply ``g`` by the Jacobian at the probabilities ``p``, both along ``dim``."""
    p, g = make_dense(p), make_dense(g)
    out = empty_like(p)
    number, rows = _number_or_rows(parameter, p, dim)
    pointers = (p.data_ptr(), g.data_ptr(), out.data_ptr(), number, None if rows is None else rows.data_ptr())
    _entries("backward")[p.dtype](kind, *pointers, *_sizes(p, dim), get_num_threads())
    return out


def run_sum(kind: int, p: Tensor, alpha: float | Tensor, g: Tensor | None = None) -> Tensor:
    """Compute one scalar for each row along the last axis, over the entries that are not 0."""
    if isinstance(alpha, Tensor):
        p = p.expand(torch.broadcast_shapes(p.shape, alpha.shape))
    shape = p.shape
    rows = p.reshape(shape[:-1].numel(), shape[-1])
    if rows.stride(1) != 1 or rows.is_neg() or g is not None:
        rows = make_dense(rows)
    grads = None if g is None else make_dense(g)
    out = p.new_empty(shape[:-1])
    number, alphas = _number_or_rows(alpha, p, -1)
    pointers = [None if x is None else x.data_ptr() for x in (rows, grads, out)]
    sizes = (*rows.shape, rows.stride(0))
    at = None if alphas is None else alphas.data_ptr()
    _entries("sum")[p.dtype](kind, *pointers, number, at, *sizes, get_num_threads())
    return out


def alpha_vjp(p: Tensor, g: Tensor, alpha: float | Tensor, dim: int) -> Tensor:
    """Return the gradient of ``<g, p>`` in alpha, one scalar for each row."""
    if isinstance(alpha, Tensor) and alpha.dim():
        alpha = alpha.movedim(dim, -1)
    return run_sum(RowSum.ALPHA_VJP, p.movedim(dim, -1), alpha, g.movedim(dim, -1)).unsqueeze(dim)


entmax = functools.partial(run_forward, Kind.ENTMAX)  # (z, alpha, dim)
normmax = functools.partial(run_forward, Kind.NORMMAX)  # (z, alpha, dim)
entmax_vjp = functools.partial(run_backward, Kind.ENTMAX)  # (p, g, alpha, dim)
normmax_vjp = functools.partial(run_backward, Kind.NORMMAX)  # (p, g, alpha, dim)
power_sum = functools.partial(run_sum, RowSum.POWERS)  # (p, alpha)
tsallis = functools.partial(run_sum, RowSum.TSALLIS)  # (p, alpha)
tsallis_in_alpha = functools.partial(run_sum, RowSum.TSALLIS_IN_ALPHA)  # (p, alpha)
