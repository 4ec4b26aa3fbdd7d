"""The compiled search for SparseMAP's structures: C++ in ``cpu/structures.cpp``."""

from __future__ import annotations

import ctypes
import functools

import torch
from torch import Tensor, get_num_threads

from omegamax.kernels._library import dense, found, library
from omegamax.kernels.active_set import ActiveSet

OPS = ("active_set",)

_BUILD = "_structures"

# enum class Kind in cpu/structures.cpp
_KINDS = ("k_subsets", "sequential_k_subsets", "sequence", "arborescence", "projective", "spanning_tree")


@functools.cache
def available() -> bool:
    """Whether the compiled library was found; warns once where it was not."""
    return found(_BUILD)


@functools.cache
def _entries() -> ctypes.CDLL:
    """The C functions of ``cpu/structures.cpp`` with their signatures."""
    entries = library(_BUILD)
    assert entries is not None
    pointer, integer = ctypes.c_void_p, ctypes.c_int64
    solve = entries.omegamax_structures_solve
    solve.argtypes = [
        ctypes.c_int,  # kind
        *[pointer] * 2,  # scores, additional
        *[integer] * 3,  # rows, n, m
        *[pointer] * 2,  # sizes, graph
        *[pointer] * 3,  # the start: unary, weights, count
        integer,  # and its width
        ctypes.c_double,  # tol
        integer,  # max_iter
        ctypes.c_int,  # threads
    ]
    solve.restype = pointer
    entries.omegamax_structures_width.argtypes = [pointer]
    entries.omegamax_structures_width.restype = integer
    entries.omegamax_structures_write.argtypes = [pointer, integer, *[pointer] * 6, ctypes.c_int]
    entries.omegamax_structures_write.restype = None
    entries.omegamax_structures_release.argtypes = [pointer]
    entries.omegamax_structures_release.restype = None
    return entries


def active_set(
    scores: Tensor,
    additional: Tensor,
    kind: str,
    sizes: tuple[int, ...],
    graph: Tensor | None,
    start: ActiveSet | None,
    tol: float,
    max_iter: int,
) -> ActiveSet:
    """As :func:`omegamax.kernels.active_set.active_set`."""
    scores, additional = dense(scores), dense(additional)
    (rows, n), m = scores.shape, additional.shape[1]
    edges = None if graph is None else dense(graph)
    begin = () if start is None else (dense(start.unary), dense(start.weights), dense(start.count))
    _check_sizes(kind, sizes, n, m, edges, [t.shape for t in begin], rows)
    entries, threads = _entries(), get_num_threads()
    handle = entries.omegamax_structures_solve(
        _KINDS.index(kind),
        scores.data_ptr(),
        additional.data_ptr(),
        *(rows, n, m),
        (ctypes.c_int64 * 3)(*sizes),
        None if edges is None else edges.data_ptr(),
        *([t.data_ptr() for t in begin] or [None] * 3),
        begin[0].shape[1] if begin else 0,
        *(tol, max_iter, threads),
    )
    if handle is None:
        raise MemoryError(f"active_set: no memory for the structures of {rows} rows of {kind}, sizes {sizes}")
    try:
        width = entries.omegamax_structures_width(handle)
        whole = torch.int64
        found = ActiveSet(
            unary=scores.new_empty(rows, width, n),
            additional=scores.new_empty(rows, width, m),
            weights=scores.new_empty(rows, width),
            count=scores.new_empty(rows, dtype=whole),
            iterations=scores.new_empty(rows, dtype=whole),
            residual=scores.new_empty(rows),
        )
        outputs = (found.unary, found.additional, found.weights, found.count, found.iterations, found.residual)
        entries.omegamax_structures_write(handle, width, *(t.data_ptr() for t in outputs), threads)
    finally:
        entries.omegamax_structures_release(handle)
    return found


def _check_sizes(
    kind: str, sizes: tuple[int, ...], n: int, m: int, edges: Tensor | None, start: list[torch.Size], rows: int
) -> None:
    """Memory is read by these numbers: they must agree."""
    size, *rest = sizes
    extra = 0
    if kind in ("k_subsets", "sequential_k_subsets"):
        sound = n == size and len(rest) == 2 and rest[0] >= 0
        extra = max(n - 1, 0) if kind == "sequential_k_subsets" else 0
    elif kind == "sequence":
        sound = len(rest) == 1 and n == size * rest[0]
        extra = (2 + (size - 1) * rest[0]) * rest[0]
    elif kind in ("arborescence", "projective"):
        sound = len(rest) == 1 and n == size * size
    elif kind == "spanning_tree":
        sound = edges is not None and edges.shape == (2, n) and edges.dtype == torch.int64
        sound = sound and (n == 0 or (0 <= int(edges.min()) and int(edges.max()) < size))  # type: ignore[union-attr]
    else:
        raise ValueError(f"active_set: kind must be one of {', '.join(_KINDS)}, got {kind!r}")
    if not sound or m not in (0, extra):
        shape = None if edges is None else tuple(edges.shape)
        raise ValueError(f"active_set: {n} scores, {m} additional and a graph of shape {shape} are not {kind} of {sizes}")
    if start and (start[0] != (rows, start[0][1], n) or start[1] != start[0][:2] or start[2] != (rows,)):
        raise ValueError(f"active_set: start of shapes {[tuple(s) for s in start]} does not fit {rows} rows of {n} scores")
