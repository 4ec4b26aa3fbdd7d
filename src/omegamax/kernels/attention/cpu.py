"""Call the compiled bounds of pages: C++ in ``cpp/page_bounds.h``."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable

import torch
from torch import Tensor, get_num_threads

from omegamax.kernels._library import make_dense, open_library
from omegamax.kernels.attention.reference import PageBounds


@functools.cache
def _entry(dtype: torch.dtype) -> Callable[..., None]:
    suffix = {torch.float32: "f32", torch.float64: "f64"}[dtype]
    function = getattr(open_library("attention"), f"omegamax_page_bounds_{suffix}")
    function.argtypes = [
        *[ctypes.c_void_p] * 9,
        *[ctypes.c_int64] * 8,  # texts, rows, depth, size, page, pages, strides of the texts of codes and extremes
        *[ctypes.c_double] * 2,  # floor, eps
        ctypes.c_int,  # threads
    ]
    function.restype = None
    return function


def page_bounds(
    q: Tensor, codes: Tensor, low: Tensor, high: Tensor, limits: Tensor, reach: Tensor, size: int, floor: float
) -> PageBounds:
    """Bound like :func:`omegamax.kernels.attention.reference.page_bounds`; boxes that are too low are not looked into.

    Codes and extremes may be parts of rooms that are larger: only the texts may be further apart.
    """
    texts, rows, depth = q.shape
    pages, page = codes.shape[1], codes.shape[3]
    codes, low, high = (_lay_out(x) for x in (codes, low, high))
    given = [make_dense(q), codes, low, high, make_dense(limits.long()), make_dense(reach.double())]
    out = PageBounds(*(q.new_empty(texts, rows, pages) for _ in range(3)))
    sizes = (texts, rows, depth, size, page, pages, codes.stride(0), low.stride(0))
    pointers = [x.data_ptr() for x in (*given, *out)]
    _entry(q.dtype)(*pointers, *sizes, floor, torch.finfo(q.dtype).eps, get_num_threads())
    return out


def _lay_out(x: Tensor) -> Tensor:
    """Return ``[T, ...]`` such that what belongs to a text lies one behind the other."""
    return x if len(x) == 0 or (x[0].is_contiguous() and not x.is_neg()) else make_dense(x)
