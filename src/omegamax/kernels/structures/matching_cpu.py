"""Call the compiled projection onto the assignment polytope: C++ in ``cpp/matching.h``."""

from __future__ import annotations

import ctypes
import functools

import torch
from torch import Tensor, get_num_threads

from omegamax.kernels._library import make_dense, open_library
from omegamax.kernels.structures.matching import TransportPlan


@functools.cache
def _load_entries() -> ctypes.CDLL:
    """Return the C functions of ``cpp/matching_entries.h`` with their signatures."""
    entries = open_library("structures")
    pointer, integer, threads = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int
    sizes, limits = [integer] * 3, [ctypes.c_int, ctypes.c_double, integer]
    signatures: dict[str, list] = {
        "project": [pointer, *sizes, *limits, *[pointer] * 5, threads],
        "jacobian": [*[pointer] * 3, *sizes, pointer, threads],
    }
    for name, arguments in signatures.items():
        getattr(entries, f"omegamax_matching_{name}").argtypes = arguments
    return entries


def matching(scores: Tensor, rows: Tensor | None, columns: Tensor | None, tol: float, max_iter: int) -> TransportPlan:
    """Project like :func:`omegamax.kernels.structures.matching.matching`."""
    count, n, m = scores.shape
    if n > m:
        raise ValueError(f"matching: scores must have no more rows than columns, got shape {tuple(scores.shape)}")
    scores = _take("matching", "scores", scores, torch.float64, (count, n, m))
    warm = rows is not None and columns is not None
    if rows is not None and columns is not None:  # they are overwritten
        rows = _take("matching", "rows", rows, torch.float64, (count, n, 1)).clone()
        columns = _take("matching", "columns", columns, torch.float64, (count, 1, m)).clone()
    else:
        rows, columns = scores.new_empty(count, n, 1), scores.new_empty(count, 1, m)
    iterations = torch.empty(count, dtype=torch.int64)
    plan = TransportPlan(torch.empty_like(scores), rows, columns, iterations, scores.new_empty(count))
    if not _load_entries().omegamax_matching_project(
        scores.data_ptr(), count, n, m, warm, tol, max_iter, *(t.data_ptr() for t in plan), get_num_threads()
    ):
        raise MemoryError(f"matching: no memory for {count} matrices of {n} x {m}")
    return plan


def matching_vjp(g: Tensor, support: Tensor, full: Tensor) -> Tensor:
    """Compute what :func:`omegamax.kernels.structures.matching_jacobian.matching_vjp` does."""
    count, n, m = support.shape
    g = _take("matching_vjp", "g", g, torch.float64, (count, n, m))
    support = _take("matching_vjp", "support", support, torch.bool, (count, n, m))
    full = _take("matching_vjp", "full", full, torch.bool, (count, 1, m))
    out = torch.empty_like(g)
    given = (t.data_ptr() for t in (g, support, full))
    if not _load_entries().omegamax_matching_jacobian(*given, count, n, m, out.data_ptr(), get_num_threads()):
        raise MemoryError(f"matching_vjp: no memory for {count} matrices of {n} x {m}")
    return out


def _take(op: str, name: str, t: Tensor, dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
    """Return a tensor as the library takes it, which reads as much memory as the shape says."""
    if t.dtype != dtype or t.shape != shape:
        raise ValueError(f"{op}: {name} must be {dtype} of shape {shape}, got {t.dtype} of shape {tuple(t.shape)}")
    return make_dense(t)
