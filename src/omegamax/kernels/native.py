"""The compiled row kernels and the contour integral: C++ in ``cpu/native.cpp``."""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable

import torch
from torch import Tensor, empty_like, get_num_threads

from omegamax.kernels import steepest
from omegamax.kernels._library import announce, by_row, dense, found, library, processor

OPS = ("entmax", "normmax", "k_subsets", "entmax_vjp", "normmax_vjp", "k_subsets_vjp", "contour")

_ENTMAX, _NORMMAX, _SUBSETS = range(3)  # enum Kind in cpu/vjp.h

_MAX_DIMENSION = 16  # of the contour integral, in cpu/contour.h

# The builds that run on what torch says of this processor, best first.
_BUILDS = {"AVX512": ("_avx512", "_avx2", "_base"), "AVX2": ("_avx2", "_base")}


@functools.cache
def available() -> bool:
    """Whether a compiled library was found; warns once where there is none."""
    return found(*_builds())


def _builds() -> tuple[str, ...]:
    return _BUILDS.get(processor(), ("_base",))


def _library() -> ctypes.CDLL | None:
    return library(*_builds())


announce(*_builds())


@functools.cache
def _entries(direction: str) -> dict[torch.dtype, Callable[..., None]]:
    """The C functions of ``cpu/native.cpp`` with their signature, by dtype."""
    library = _library()
    assert library is not None
    tensors = 2 if direction == "forward" else 3
    entries = {}
    for dtype, suffix in ((torch.float32, "f32"), (torch.float64, "f64")):
        function = entries[dtype] = getattr(library, f"omegamax_{direction}_{suffix}")
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
    """``z`` as [outer, K, inner]."""
    shape = z.shape
    K = shape[dim]
    if dim == len(shape) - 1:
        return z.numel() // K, K, 1
    inner = math.prod(shape[dim + 1 :])
    return (z.numel() // (K * inner) if inner else 0), K, inner


# Small inputs are all overhead: the two functions below count their calls.


def _forward(kind: int, z: Tensor, parameter: float | Tensor, dim: int) -> Tensor:
    if not z.is_contiguous() or z.is_neg():
        z = dense(z)
    p = empty_like(z)
    run, sizes, threads = _entries("forward")[z.dtype], _sizes(z, dim), get_num_threads()
    if type(parameter) is not float and isinstance(parameter, Tensor):
        rows = by_row(parameter, z, dim)
        run(kind, z.data_ptr(), p.data_ptr(), 0.0, rows.data_ptr(), *sizes, threads)
    else:
        run(kind, z.data_ptr(), p.data_ptr(), parameter, None, *sizes, threads)
    return p


def _backward(kind: int, p: Tensor, g: Tensor, parameter: float | Tensor, dim: int) -> Tensor:
    p, g = dense(p), dense(g)
    out = empty_like(p)
    run, sizes, threads = _entries("backward")[p.dtype], _sizes(p, dim), get_num_threads()
    if isinstance(parameter, Tensor):
        rows = by_row(parameter, p, dim)
        run(kind, p.data_ptr(), g.data_ptr(), out.data_ptr(), 0.0, rows.data_ptr(), *sizes, threads)
    else:
        run(kind, p.data_ptr(), g.data_ptr(), out.data_ptr(), parameter, None, *sizes, threads)
    return out


entmax = functools.partial(_forward, _ENTMAX)  # (z, alpha, dim)
normmax = functools.partial(_forward, _NORMMAX)  # (z, alpha, dim)
k_subsets = functools.partial(_forward, _SUBSETS)  # (z, k, dim)
entmax_vjp = functools.partial(_backward, _ENTMAX)  # (p, g, alpha, dim)
normmax_vjp = functools.partial(_backward, _NORMMAX)  # (p, g, alpha, dim)


def k_subsets_vjp(p: Tensor, g: Tensor, dim: int) -> Tensor:
    return _backward(_SUBSETS, p, g, 0.0, dim)


@functools.cache
def _contour_entry() -> Callable[..., None]:
    library = _library()
    assert library is not None
    function = library.omegamax_contour
    function.argtypes = [
        *[ctypes.c_void_p] * 8,
        *[ctypes.c_int64] * 2,  # rows, functions
        *[ctypes.c_int] * 4,  # n, one diagonal for a row, one spread for a function, nodes
        ctypes.c_double,  # step
        ctypes.c_int,  # threads
    ]
    function.restype = None
    return function


def contour(
    size: Tensor, height: Tensor, log_peak: Tensor, diagonal: Tensor, delta: Tensor, spread: Tensor, fine: bool
) -> Tensor:
    """As :func:`omegamax.kernels.steepest.contour`."""
    *batch, functions, n = delta.shape
    if n > _MAX_DIMENSION:
        return steepest.contour(size, height, log_peak, diagonal, delta, spread, fine)
    row = (*batch, 1)
    one_diagonal, one_spread = diagonal.shape[-2] != functions, spread.dim() == 2
    log_scale = log_peak + steepest.log_gamma_scale(size)
    tensors = [t.expand(row) for t in (size, height, log_scale, steepest.digamma_gap(size))]
    tensors.append(diagonal.expand((*batch, 1, n) if one_diagonal else delta.shape))
    tensors += [delta, spread.expand((functions, n) if one_spread else delta.shape)]
    tensors = [dense(t) for t in tensors]
    out = delta.new_empty((*batch, functions, steepest.results(n)))
    nodes, step = steepest.NODES[fine]
    sizes = (math.prod(batch), functions, n, one_diagonal, one_spread, nodes)
    _contour_entry()(*[t.data_ptr() for t in tensors], out.data_ptr(), *sizes, step, get_num_threads())
    return out
