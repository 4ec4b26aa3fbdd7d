"""The row kernels as the dispatcher calls them: ``(z, *parameters, dim)`` in, probabilities of the same shape out.

Half precision is read and written as it is and computed in float32; float64 goes to plain torch.
"""

from __future__ import annotations

import torch
from torch import Tensor, float64

from omegamax.kernels import jacobians, reference
from omegamax.kernels.triton import _simplex
from omegamax.kernels.triton._layout import LONGEST, as_rows, by_row, like, on_device, tile

Parameter = float | Tensor

_ENTMAX = {1.0: _simplex.SOFTMAX.value, 1.5: _simplex.ENTMAX15.value, 2.0: _simplex.SPARSEMAX.value}


def _kind(alpha: Parameter) -> int:
    if isinstance(alpha, Tensor) or alpha > 2:  # a tensor is not looked at, which would wait for the GPU
        return _simplex.STEEP.value
    return _ENTMAX.get(alpha, _simplex.ENTMAX.value)


def _forward(kind: int, z: Tensor, alpha: Parameter, dim: int) -> Tensor:
    rows = as_rows(z, dim)
    count, size = rows.shape
    p = torch.empty_like(rows, memory_format=torch.contiguous_format)
    if count:
        shape = tile(size)
        many = by_row(alpha, z, dim) if isinstance(alpha, Tensor) else None
        with on_device(z):
            _simplex.forward[(-(-count // shape.rows),)](
                rows,
                p,
                many,
                0.0 if many is not None else alpha,
                count,
                size,
                rows.stride(0),
                KIND=kind,
                PER_ROW=many is not None,
                R=shape.rows,
                BLOCK=shape.block,
                num_warps=shape.warps,
            )
    return like(p, z, dim)


def _backward(kind: int, p: Tensor, g: Tensor, alpha: Parameter, dim: int) -> Tensor:
    rows, incoming = as_rows(p, dim), as_rows(g, dim)
    count, size = rows.shape
    out = torch.empty_like(rows, memory_format=torch.contiguous_format)
    if count:
        shape = tile(size)
        many = by_row(alpha, p, dim) if isinstance(alpha, Tensor) else None
        with on_device(p):
            _simplex.backward[(-(-count // shape.rows),)](
                rows,
                incoming,
                out,
                many,
                0.0 if many is not None else alpha,
                count,
                size,
                rows.stride(0),
                incoming.stride(0),
                KIND=kind,
                PER_ROW=many is not None,
                R=shape.rows,
                BLOCK=shape.block,
                num_warps=shape.warps,
            )
    return like(out, p, dim)


def _plain(kernel, z: Tensor, *rest) -> Tensor:
    *parameters, dim = rest
    moved = (a.movedim(dim, -1) if isinstance(a, Tensor) else a for a in (z, *parameters))
    return kernel(*moved).movedim(-1, dim).contiguous()


def entmax(z: Tensor, alpha: Parameter, dim: int) -> Tensor:
    if z.dtype is float64 or z.shape[dim] > LONGEST:
        return _plain(reference.entmax, z, alpha, dim)
    return _forward(_kind(alpha), z, alpha, dim)


def normmax(z: Tensor, alpha: Parameter, dim: int) -> Tensor:
    if z.dtype is float64 or z.shape[dim] > LONGEST:
        return _plain(reference.normmax, z, alpha, dim)
    return _forward(_simplex.NORMMAX.value, z, alpha, dim)


def entmax_vjp(p: Tensor, g: Tensor, alpha: Parameter, dim: int) -> Tensor:
    if p.dtype is float64 or p.shape[dim] > LONGEST:
        return jacobians.entmax_vjp(p, g, alpha, dim)
    return _backward(_kind(alpha), p, g, alpha, dim)


def normmax_vjp(p: Tensor, g: Tensor, alpha: Parameter, dim: int) -> Tensor:
    if p.dtype is float64 or p.shape[dim] > LONGEST:
        return jacobians.normmax_vjp(p, g, alpha, dim)
    return _backward(_simplex.NORMMAX.value, p, g, alpha, dim)
