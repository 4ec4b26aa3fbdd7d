"""Call the compiled kernel of isotonic regression: C++ in ``cpp/oscar.h``."""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable

import torch
from torch import Tensor

from omegamax.kernels._library import expand_by_row, make_dense, open_library


@functools.cache
def _entry(dtype: torch.dtype) -> Callable[..., None]:
    """Return the C function for a dtype with its signature."""
    suffix = {torch.float32: "f32", torch.float64: "f64"}[dtype]
    function = getattr(open_library("isotonic"), f"omegamax_isotonic_oscar_{suffix}")
    pointers, sizes = [ctypes.c_void_p] * 2, [ctypes.c_int64] * 3
    function.argtypes = [*pointers, ctypes.c_double, ctypes.c_void_p, *sizes, ctypes.c_int]
    function.restype = None
    return function


def oscar(z: Tensor, strength: float | Tensor, dim: int) -> Tensor:
    """Return what :func:`omegamax.kernels.isotonic.reference.oscar` does."""
    z = make_dense(z)
    u = torch.empty_like(z)
    number, each = (0.0, expand_by_row(strength, z, dim)) if isinstance(strength, Tensor) else (strength, None)
    dim %= z.dim()
    sizes = math.prod(z.shape[:dim]), z.shape[dim], math.prod(z.shape[dim + 1 :])
    strengths = None if each is None else each.data_ptr()
    _entry(z.dtype)(z.data_ptr(), u.data_ptr(), number, strengths, *sizes, torch.get_num_threads())
    return u
