"""Call the compiled kernels of total variation: C++ in ``cpp/variation.cpp``.

Chains take linear time. Grids and graphs are solved by maximum flows that begin where a few over-relaxed sweeps end:
exact to rounding, whatever the strength (``cpp/levels.h``).
"""

from __future__ import annotations

import ctypes
import functools
import math
import warnings
from collections.abc import Callable

import torch
from torch import Tensor, empty_like, get_num_threads

from omegamax._warnings import ConvergenceWarning
from omegamax.kernels._library import expand_by_row, make_dense, open_library

_POINTERS = {"chain": 0, "grid": 0, "graph": 2}  # beyond the tensors: edges and their weights
_NAMES = {"chain": "tv_prox_1d", "grid": "tv_prox_2d", "graph": "tv_prox_graph"}  # by which users know them


@functools.cache
def _entry(name: str, tensors: int, dtype: torch.dtype) -> Callable[..., float]:
    """Return a C function of ``cpp/variation.cpp`` with its signature."""
    function = getattr(open_library("variation"), f"omegamax_tv_{name}_{'f32' if dtype == torch.float32 else 'f64'}")
    function.argtypes = [
        *[ctypes.c_void_p] * (tensors + _POINTERS[name.split("_")[0]]),
        ctypes.c_double,  # the strength that all rows share,
        ctypes.c_void_p,  # or one for each row
        *[ctypes.c_int64] * 3,
        ctypes.c_int,  # threads
    ]
    function.restype = ctypes.c_double
    return function


def _run(
    name: str, tensors: tuple[Tensor | None, ...], graph: tuple[Tensor, ...], strength: float | Tensor, sizes: tuple
) -> None:
    pointers = [None if t is None else t.data_ptr() for t in (*tensors, *graph)]
    rows = strength.data_ptr() if isinstance(strength, Tensor) else None
    value = 0.0 if isinstance(strength, Tensor) else float(strength)
    first = tensors[0]
    assert first is not None
    undone = _entry(name, len(tensors), first.dtype)(*pointers, value, rows, *sizes, get_num_threads())
    known = _NAMES[name.split("_")[0]]
    if undone < 0:
        raise MemoryError(f"{known}: no memory for {tuple(first.shape)}")
    if undone > 0:
        message = f"{known}: a limit on the work was met; values differ from the solution by up to {undone:.1e}"
        warnings.warn(f"{message}, relative to the scores", ConvergenceWarning, stacklevel=4)


def _solve(name: str, x: Tensor, graph: tuple[Tensor, ...], strength: float | Tensor, sizes: tuple) -> Tensor:
    x = make_dense(x)
    w = empty_like(x)
    _run(name, (x, w), graph, strength, sizes)
    return w


def _average(
    name: str, w: Tensor, g: Tensor | None, graph: tuple[Tensor, ...], strength: float | Tensor, sizes: tuple
) -> Tensor:
    w = make_dense(w)
    out = empty_like(w)
    _run(f"{name}_spread", (w, None if g is None else make_dense(g), out), graph, strength, sizes)
    return out


# ---- chains ----


def _lines(x: Tensor, strength: float | Tensor, dim: int) -> tuple[float | Tensor, tuple[int, int, int]]:
    """Return the strength of all rows or of each, and ``x`` as [outer, K, inner]."""
    dim %= x.dim()
    shape = x.shape
    sizes = math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :])
    return expand_by_row(strength, x, dim) if isinstance(strength, Tensor) else strength, sizes


def tv_chain(x: Tensor, strength: float | Tensor, dim: int) -> Tensor:
    """Compute what :func:`omegamax.kernels.variation.reference.tv_chain` does."""
    return _solve("chain", x, (), *_lines(x, strength, dim))


def tv_chain_vjp(w: Tensor, g: Tensor, strength: float | Tensor, dim: int) -> Tensor:
    """Compute what :func:`omegamax.kernels.variation.reference.tv_chain_vjp` does."""
    return _average("chain", w, g, (), *_lines(w, strength, dim))


def tv_chain_slope(w: Tensor, strength: float | Tensor, dim: int) -> Tensor:
    """Compute what :func:`omegamax.kernels.variation.reference.tv_chain_slope` does."""
    return _average("chain", w, None, (), *_lines(w, strength, dim))


# ---- grids ----


def _images(x: Tensor, strength: float | Tensor) -> tuple[float | Tensor, tuple[int, int, int]]:
    """Return the strength of all images or of each, and ``x`` as [count, height, width]."""
    *batch, height, width = x.shape
    if isinstance(strength, Tensor):
        strength = strength.detach().double().expand(*batch, 1, 1).contiguous()
    return strength, (math.prod(batch), height, width)


def tv_grid(x: Tensor, strength: float | Tensor) -> Tensor:
    """Compute what :func:`omegamax.kernels.variation.reference.tv_grid` does."""
    return _solve("grid", x, (), *_images(x, strength))


def tv_grid_vjp(w: Tensor, g: Tensor, strength: float | Tensor) -> Tensor:
    """Compute what :func:`omegamax.kernels.variation.reference.tv_grid_vjp` does."""
    return _average("grid", w, g, (), *_images(w, strength))


def tv_grid_slope(w: Tensor, strength: float | Tensor) -> Tensor:
    """Compute what :func:`omegamax.kernels.variation.reference.tv_grid_slope` does."""
    return _average("grid", w, None, (), *_images(w, strength))


# ---- graphs ----


def _nodes(
    x: Tensor, edges: Tensor, weights: Tensor, strength: float | Tensor
) -> tuple[tuple[Tensor, Tensor], float | Tensor, tuple[int, int, int]]:
    """Return edges and weights, the strength of all rows or of each, and the sizes of rows, nodes and edges."""
    size = edges.shape[-1]
    wires = edges.detach().long().contiguous(), weights.detach().double().expand(size).contiguous()
    rows = expand_by_row(strength, x, -1) if isinstance(strength, Tensor) else strength
    return wires, rows, (math.prod(x.shape[:-1]), x.shape[-1], size)


def tv_graph(x: Tensor, edges: Tensor, weights: Tensor, strength: float | Tensor) -> Tensor:
    """Compute what :func:`omegamax.kernels.variation.reference.tv_graph` does."""
    return _solve("graph", x, *_nodes(x, edges, weights, strength))


def tv_graph_vjp(w: Tensor, g: Tensor, edges: Tensor, weights: Tensor, strength: float | Tensor) -> Tensor:
    """Compute what :func:`omegamax.kernels.variation.reference.tv_graph_vjp` does."""
    return _average("graph", w, g, *_nodes(w, edges, weights, strength))


def tv_graph_slope(w: Tensor, edges: Tensor, weights: Tensor, strength: float | Tensor) -> Tensor:
    """Compute what :func:`omegamax.kernels.variation.reference.tv_graph_slope` does."""
    return _average("graph", w, None, *_nodes(w, edges, weights, strength))
