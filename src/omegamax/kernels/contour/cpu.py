"""Call the compiled contour integral: C++ in ``cpp/contour.h``."""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable

from torch import Tensor, get_num_threads

from omegamax.kernels._library import make_dense, open_library
from omegamax.kernels.contour import reference
from omegamax.kernels.contour.plane import integrate_in_plane

MAX_DIMENSION = 16  # as in cpp/contour.h


@functools.cache
def _entry() -> Callable[..., None]:
    function = open_library("contour").omegamax_contour
    function.argtypes = [
        *[ctypes.c_void_p] * 8,
        *[ctypes.c_int64] * 2,  # rows, functions
        *[ctypes.c_int] * 4,  # n, one diagonal for a row, one spread for a function, nodes
        ctypes.c_double,  # step
        ctypes.c_int,  # threads
    ]
    function.restype = None
    return function


def contour(M: Tensor, h: Tensor, B: Tensor, diagonal: Tensor, delta: Tensor, spread: Tensor, fine: bool) -> Tensor:
    """Integrate like :func:`omegamax.kernels.contour.reference.contour`."""
    *batch, functions, n = delta.shape
    if n > MAX_DIMENSION:
        return reference.contour(M, h, B, diagonal, delta, spread, fine)
    row = (*batch, 1)
    one_diagonal, one_spread = diagonal.shape[-2] != functions, spread.dim() == 2
    log_scale = B + reference.log_gamma_scale(M)
    tensors = [t.expand(row) for t in (M, h, log_scale, reference.digamma_gap(M))]
    tensors.append(diagonal.expand((*batch, 1, n) if one_diagonal else delta.shape))
    tensors += [delta, spread.expand((functions, n) if one_spread else delta.shape)]
    tensors = [make_dense(t) for t in tensors]
    out = delta.new_empty((*batch, functions, reference.count_results(n)))
    nodes, step = reference.NODES[fine]
    sizes = (math.prod(batch), functions, n, one_diagonal, one_spread, nodes)
    _entry()(*[t.data_ptr() for t in tensors], out.data_ptr(), *sizes, step, get_num_threads())
    return out


contour_in_plane = functools.partial(integrate_in_plane, contour)
