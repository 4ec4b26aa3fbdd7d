"""Total variation, compiled: C++ in ``cpu/variation.cpp``, with the signatures of :mod:`omegamax.kernels.variation`.

Chains take linear time. Grids and graphs are solved by maximum flows that begin where a few over-relaxed sweeps end:
exact to rounding, whatever the strength (``cpu/levels.h``).
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
from omegamax.kernels._library import announce, by_row, dense, found, library

OPS = (
    *("tv_chain", "tv_chain_vjp", "tv_chain_slope"),
    *("tv_grid", "tv_grid_vjp", "tv_grid_slope"),
    *("tv_graph", "tv_graph_vjp", "tv_graph_slope"),
)

_BUILD = "_variation"
announce(_BUILD)
_POINTERS = {"chain": 0, "grid": 0, "graph": 2}  # beyond the tensors: edges and their weights
_NAMES = {"chain": "tv_prox_1d", "grid": "tv_prox_2d", "graph": "tv_prox_graph"}  # by which users know them


@functools.cache
def available() -> bool:
    """Whether the compiled library was found; warns once where there is none."""
    return found(_BUILD)


@functools.cache
def _entry(name: str, tensors: int, dtype: torch.dtype) -> Callable[..., float]:
    """A C function of ``cpu/variation.cpp`` with its signature."""
    opened = library(_BUILD)
    assert opened is not None
    function = getattr(opened, f"omegamax_tv_{name}_{'f32' if dtype == torch.float32 else 'f64'}")
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


def _solved(name: str, x: Tensor, graph: tuple[Tensor, ...], strength: float | Tensor, sizes: tuple) -> Tensor:
    x = dense(x)
    w = empty_like(x)
    _run(name, (x, w), graph, strength, sizes)
    return w


def _spread(
    name: str, w: Tensor, g: Tensor | None, graph: tuple[Tensor, ...], strength: float | Tensor, sizes: tuple
) -> Tensor:
    w = dense(w)
    out = empty_like(w)
    _run(f"{name}_spread", (w, None if g is None else dense(g), out), graph, strength, sizes)
    return out


# ---- chains ----


def _lines(x: Tensor, strength: float | Tensor, dim: int) -> tuple[float | Tensor, tuple[int, int, int]]:
    """The strength of all rows or of each, and ``x`` as [outer, K, inner]."""
    dim %= x.dim()
    shape = x.shape
    sizes = math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :])
    return by_row(strength, x, dim) if isinstance(strength, Tensor) else strength, sizes


def tv_chain(x: Tensor, strength: float | Tensor, dim: int) -> Tensor:
    """As :func:`omegamax.kernels.variation.tv_chain`."""
    return _solved("chain", x, (), *_lines(x, strength, dim))


def tv_chain_vjp(w: Tensor, g: Tensor, strength: float | Tensor, dim: int) -> Tensor:
    """As :func:`omegamax.kernels.variation.tv_chain_vjp`."""
    return _spread("chain", w, g, (), *_lines(w, strength, dim))


def tv_chain_slope(w: Tensor, strength: float | Tensor, dim: int) -> Tensor:
    """As :func:`omegamax.kernels.variation.tv_chain_slope`."""
    return _spread("chain", w, None, (), *_lines(w, strength, dim))


# ---- grids ----


def _images(x: Tensor, strength: float | Tensor) -> tuple[float | Tensor, tuple[int, int, int]]:
    """The strength of all images or of each, and ``x`` as [count, height, width]."""
    *batch, height, width = x.shape
    if isinstance(strength, Tensor):
        strength = strength.detach().double().expand(*batch, 1, 1).contiguous()
    return strength, (math.prod(batch), height, width)


def tv_grid(x: Tensor, strength: float | Tensor) -> Tensor:
    """As :func:`omegamax.kernels.variation.tv_grid`."""
    return _solved("grid", x, (), *_images(x, strength))


def tv_grid_vjp(w: Tensor, g: Tensor, strength: float | Tensor) -> Tensor:
    """As :func:`omegamax.kernels.variation.tv_grid_vjp`."""
    return _spread("grid", w, g, (), *_images(w, strength))


def tv_grid_slope(w: Tensor, strength: float | Tensor) -> Tensor:
    """As :func:`omegamax.kernels.variation.tv_grid_slope`."""
    return _spread("grid", w, None, (), *_images(w, strength))


# ---- graphs ----


def _nodes(
    x: Tensor, edges: Tensor, weights: Tensor, strength: float | Tensor
) -> tuple[tuple[Tensor, Tensor], float | Tensor, tuple[int, int, int]]:
    """Edges and weights, the strength of all rows or of each, and the sizes of rows, nodes and edges."""
    size = edges.shape[-1]
    wires = edges.detach().long().contiguous(), weights.detach().double().expand(size).contiguous()
    rows = by_row(strength, x, -1) if isinstance(strength, Tensor) else strength
    return wires, rows, (math.prod(x.shape[:-1]), x.shape[-1], size)


def tv_graph(x: Tensor, edges: Tensor, weights: Tensor, strength: float | Tensor) -> Tensor:
    """As :func:`omegamax.kernels.variation.tv_graph`."""
    return _solved("graph", x, *_nodes(x, edges, weights, strength))


def tv_graph_vjp(w: Tensor, g: Tensor, edges: Tensor, weights: Tensor, strength: float | Tensor) -> Tensor:
    """As :func:`omegamax.kernels.variation.tv_graph_vjp`."""
    return _spread("graph", w, g, *_nodes(w, edges, weights, strength))


def tv_graph_slope(w: Tensor, edges: Tensor, weights: Tensor, strength: float | Tensor) -> Tensor:
    """As :func:`omegamax.kernels.variation.tv_graph_slope`."""
    return _spread("graph", w, None, *_nodes(w, edges, weights, strength))
