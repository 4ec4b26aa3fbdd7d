"""The row kernels as the dispatcher calls them: ``(z, *parameters, dim)`` in, probabilities of the same shape out.

Half precision is read and written as it is and computed in float32; float64 goes to plain torch.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, float64

from omegamax.kernels import jacobians, reference
from omegamax.kernels.triton import _long, _simplex
from omegamax.kernels.triton._layout import LONG, LONGEST, as_rows, by_row, like, on_device, tile

Parameter = float | Tensor

ENTMAX, NORMMAX, STEEP = (kind.value for kind in (_simplex.ENTMAX, _simplex.NORMMAX, _simplex.STEEP))
EXACT = {1.0: _simplex.SOFTMAX.value, 1.5: _simplex.ENTMAX15.value, 2.0: _simplex.SPARSEMAX.value}


def entmax(z: Tensor, alpha: Parameter, dim: int) -> Tensor:
    kind = _kind(alpha)
    if z.dtype is float64 or (kind == STEEP and z.shape[dim] > LONGEST):
        return _along(reference.entmax, z, alpha, dim)
    return _forward(kind, z, alpha, dim)


def normmax(z: Tensor, alpha: Parameter, dim: int) -> Tensor:
    if z.dtype is float64:
        return _along(reference.normmax, z, alpha, dim)
    return _forward(NORMMAX, z, alpha, dim)


def entmax_vjp(p: Tensor, g: Tensor, alpha: Parameter, dim: int) -> Tensor:
    kind = _kind(alpha)
    if p.dtype is float64 or (kind == STEEP and p.shape[dim] > LONGEST):
        return jacobians.entmax_vjp(p, g, alpha, dim)
    return _backward(kind, p, g, alpha, dim)


def normmax_vjp(p: Tensor, g: Tensor, alpha: Parameter, dim: int) -> Tensor:
    if p.dtype is float64 or p.shape[dim] > LONGEST:
        return jacobians.normmax_vjp(p.to(_wide(p)), g.to(_wide(p)), alpha, dim).to(p.dtype)
    return _backward(NORMMAX, p, g, alpha, dim)


def _kind(alpha: Parameter) -> int:
    if isinstance(alpha, Tensor) or alpha > 2:  # a tensor is not looked at, which would wait for the GPU
        return STEEP
    return EXACT.get(alpha, ENTMAX)


def _forward(kind: int, z: Tensor, alpha: Parameter, dim: int) -> Tensor:
    rows = as_rows(z, dim)
    p = torch.empty_like(rows, memory_format=torch.contiguous_format)
    _launch(_simplex.forward, _long.forward, (rows, p), kind, alpha, z, dim, rows.stride(0))
    return like(p, z, dim)


def _backward(kind: int, p: Tensor, g: Tensor, alpha: Parameter, dim: int) -> Tensor:
    rows, incoming = as_rows(p, dim), as_rows(g, dim)
    out = torch.empty_like(rows, memory_format=torch.contiguous_format)
    strides = (rows.stride(0), incoming.stride(0))
    _launch(_simplex.backward, _long.backward, (rows, incoming, out), kind, alpha, p, dim, *strides)
    return like(out, p, dim)


def _launch(short: Any, long: Any, tensors: tuple[Tensor, ...], kind: int, alpha: Parameter, x, dim, *strides) -> None:
    count, size = tensors[0].shape
    if not count:
        return
    many = by_row(alpha, x, dim) if isinstance(alpha, Tensor) else None
    number = 2.0 if many is not None else alpha
    with on_device(x):
        if size <= LONGEST:
            rows, block, warps = tile(size)
            grid, shape = (-(-count // rows),), {"R": rows, "BLOCK": block}
            short[grid](*tensors, many, number, count, size, *strides, kind, many is not None, **shape, num_warps=warps)
        else:
            block, warps = LONG.block, LONG.warps
            long[(count,)](
                *tensors, many, number, count, size, *strides, kind, many is not None, BLOCK=block, num_warps=warps
            )


def _along(kernel, z: Tensor, alpha: Parameter, dim: int) -> Tensor:
    moved = (a.movedim(dim, -1) if isinstance(a, Tensor) else a for a in (z, alpha))
    return kernel(*moved).movedim(-1, dim).contiguous()


def _wide(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)
