"""Call the compiled row kernels: C++ in ``cpp/rows.h``."""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable

import torch
from torch import Tensor, empty_like, get_num_threads

from omegamax.kernels._library import expand_by_row, make_dense, open_library
from omegamax.kernels.kinds import Kind


@functools.cache
def _entries(direction: str) -> dict[torch.dtype, Callable[..., None]]:
    """Return the C functions of ``cpp/rows.h`` with their signature, by dtype."""
    tensors = 2 if direction == "forward" else 3
    entries = {}
    for dtype, suffix in ((torch.float32, "f32"), (torch.float64, "f64")):
        function = entries[dtype] = getattr(open_library("rows"), f"omegamax_rows_{direction}_{suffix}")
        function.argtypes = [
            ctypes.c_int,  # kind
            *[ctypes.c_void_p] * tensors,
            ctypes.c_double,  # the parameter that all rows share,
            ctypes.c_void_p,  # or one for each row
            *[ctypes.c_int64] * 3,  # outer, K, inner
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


# Small inputs are all overhead: the two functions below count their calls.


def run_forward(kind: int, z: Tensor, parameter: float | Tensor, dim: int) -> Tensor:
    """Compute probabilities along ``dim``; the parameter is a float, or a tensor with one for each row."""
    if not z.is_contiguous() or z.is_neg():
        z = make_dense(z)
    p = empty_like(z)
    run, sizes, threads = _entries("forward")[z.dtype], _sizes(z, dim), get_num_threads()
    if type(parameter) is not float and isinstance(parameter, Tensor):
        rows = expand_by_row(parameter, z, dim)
        run(kind, z.data_ptr(), p.data_ptr(), 0.0, rows.data_ptr(), *sizes, threads)
    else:
        run(kind, z.data_ptr(), p.data_ptr(), parameter, None, *sizes, threads)
    return p


def run_backward(kind: int, p: Tensor, g: Tensor, parameter: float | Tensor, dim: int) -> Tensor:
    """Multiply ``g`` by the Jacobian at the probabilities ``p``, both along ``dim``."""
    p, g = make_dense(p), make_dense(g)
    out = empty_like(p)
    run, sizes, threads = _entries("backward")[p.dtype], _sizes(p, dim), get_num_threads()
    if isinstance(parameter, Tensor):
        rows = expand_by_row(parameter, p, dim)
        run(kind, p.data_ptr(), g.data_ptr(), out.data_ptr(), 0.0, rows.data_ptr(), *sizes, threads)
    else:
        run(kind, p.data_ptr(), g.data_ptr(), out.data_ptr(), parameter, None, *sizes, threads)
    return out


entmax = functools.partial(run_forward, Kind.ENTMAX)  # (z, alpha, dim)
normmax = functools.partial(run_forward, Kind.NORMMAX)  # (z, alpha, dim)
entmax_vjp = functools.partial(run_backward, Kind.ENTMAX)  # (p, g, alpha, dim)
normmax_vjp = functools.partial(run_backward, Kind.NORMMAX)  # (p, g, alpha, dim)
