"""The row kernels as the dispatcher calls them: ``(z, *parameters, dim)`` in, probabilities of the same shape out.

Half precision is read and written as it is and computed in float32; float64 goes to plain torch.
"""

from __future__ import annotations

import functools
import math

import torch
import triton
from torch import Tensor, float64

from omegamax.kernels.rows import reference
from omegamax.kernels.rows.triton import (
    above_two_long,
    any_alpha,
    any_alpha_long,
    exponent,
    general,
    general_long,
    outside,
    power,
    power_long,
)
from omegamax.kernels.rows.triton import alpha_vjp as alpha_vjp_kernels
from omegamax.kernels.rows.triton import normmax as normmax_kernels
from omegamax.kernels.triton.launch import again, launch
from omegamax.kernels.triton.layout import (
    LISTED,
    LONG,
    LONGEST,
    REGISTERS,
    STRETCH,
    along_last,
    as_rows,
    by_row,
    heavy_sheaf,
    like,
    sheaf,
    stretch,
    tile,
    turns_of,
)

Parameter = float | Tensor

SPARSEMAX, ENTMAX15, ENTMAX, NORMMAX, SOFTMAX, STEEP = (getattr(general, name).value for name in general.KINDS)
HIGHEST = 9  # power 1 / (alpha - 1) that is taken by multiplying
POWER = exponent.POWER.value
BROAD = (512, 8192)  # where powers with a fraction are as quick by the kernel that knows none of them
STEEPEST = 64  # alpha up to which normmax takes powers as its threshold does
EXACT = {1.0: SOFTMAX, 1.5: ENTMAX15, 2.0: SPARSEMAX}


def entmax(z: Tensor, alpha: Parameter, dim: int) -> Tensor:
    if type(alpha) is float and dim == z.dim() - 1 and z.is_contiguous():
        key = ("entmax", alpha, z.shape, z.dtype, z.device)
        p = again(key, z)
        if p is not None:
            return p
    else:
        key = None
    kind = _kind(alpha)
    if z.dtype is float64:
        return along_last(reference.entmax, z, alpha, dim)
    return _forward(kind, z, alpha, dim, key)


def normmax(z: Tensor, alpha: Parameter, dim: int) -> Tensor:
    if type(alpha) is float and dim == z.dim() - 1 and z.is_contiguous():
        key = ("normmax", alpha, z.shape, z.dtype, z.device)
        p = again(key, z)
        if p is not None:
            return p
    else:
        key = None
    if z.dtype is float64:
        return along_last(reference.normmax, z, alpha, dim)
    known = _norm_kind(alpha) if type(alpha) is float and z.shape[dim] <= LONGEST else None
    if known is None:
        return _forward(NORMMAX, z, alpha, dim, key)
    kind, whole, fraction = known
    rows = as_rows(z, dim)
    p = torch.empty_like(rows, memory_format=torch.contiguous_format)
    count, size = rows.shape
    if count:
        here, depth, width, warps = sheaf(size, rows.itemsize)
        even = size == depth * width and count % here == 0
        arguments = (alpha, fraction, count, size, rows.stride(0), kind, whole, alpha > 2, even, here, depth, width)
        launch(normmax_kernels.forward, -(-count // here), (rows, p), arguments, warps, key)
    return like(p, z, dim)


def entmax_vjp(p: Tensor, g: Tensor, alpha: Parameter, dim: int) -> Tensor:
    if type(alpha) is float and dim == p.dim() - 1 and p.is_contiguous() and g.is_contiguous():
        key = ("entmax_vjp", alpha, p.shape, p.dtype, g.dtype, p.device)
        out = again(key, p, g)
        if out is not None:
            return out
    else:
        key = None
    kind = _kind(alpha)
    if p.dtype is float64 or (kind == STEEP and p.shape[dim] > LONGEST):
        return reference.entmax_vjp(p, g, alpha, dim)
    return _backward(kind, p, g, alpha, dim, key)


def alpha_vjp(p: Tensor, g: Tensor, alpha: Parameter, dim: int) -> Tensor:
    if p.dtype is float64 or p.shape[dim] > LONGEST:
        return reference.alpha_vjp(p.to(_wide(p)), g.to(_wide(p)), alpha, dim)
    rows, grads = as_rows(p, dim), as_rows(g, dim)
    count, size = rows.shape
    out = torch.empty(count, dtype=torch.float32, device=p.device)
    if count:
        many = by_row(alpha if isinstance(alpha, Tensor) else out.new_tensor(alpha), p, dim)
        here, block, warps = tile(size)
        arguments = (count, size, rows.stride(0), grads.stride(0), here, block)
        launch(alpha_vjp_kernels.backward, -(-count // here), (rows, grads, out, many), arguments, warps)
    shape = p.movedim(dim, -1).shape[:-1]
    return out.view(*shape, 1).movedim(-1, dim)


def normmax_vjp(p: Tensor, g: Tensor, alpha: Parameter, dim: int) -> Tensor:
    if type(alpha) is float and dim == p.dim() - 1 and p.is_contiguous() and g.is_contiguous():
        key = ("normmax_vjp", alpha, p.shape, p.dtype, g.dtype, p.device)
        out = again(key, p, g)
        if out is not None:
            return out
    else:
        key = None
    if p.dtype is float64 or p.shape[dim] > LONGEST:
        return reference.normmax_vjp(p.to(_wide(p)), g.to(_wide(p)), alpha, dim).to(p.dtype)
    if isinstance(alpha, Tensor) or alpha > 2:
        return _backward(NORMMAX, p, g, alpha, dim, key)
    rows, incoming = as_rows(p, dim), as_rows(g, dim)
    out = torch.empty_like(rows, memory_format=torch.contiguous_format)
    count, size = rows.shape
    if count:
        here, block, warps = tile(size)
        even = size == block and count % here == 0
        arguments = (alpha, count, size, rows.stride(0), incoming.stride(0), alpha == 2, even, here, block)
        launch(normmax_kernels.backward, -(-count // here), (rows, incoming, out), arguments, warps, key)
    return like(out, p, dim)


def _kind(alpha: Parameter) -> int:
    if isinstance(alpha, Tensor) or alpha > 2:  # a tensor is not looked at, which would wait for the GPU
        return STEEP
    return EXACT.get(alpha, ENTMAX)


@functools.cache
def _sparse_kind(alpha: float) -> tuple[int, int, float] | None:
    """Which of the sparse kinds, and ``1 / (alpha - 1)`` as a whole number and a fraction; minus the number if none."""
    if not 1 < alpha <= 2:
        return None
    q = 1 / (alpha - 1)
    if alpha in (2.0, 1.5):
        return (exponent.SPARSEMAX if alpha == 2 else exponent.ENTMAX15).value, 0, 0.0
    if q > HIGHEST:
        return None
    if abs(q - round(q)) < 1e-7:
        return exponent.POWER.value, -round(q), 0.0
    return exponent.POWER.value, math.floor(q), q - math.floor(q)


@functools.cache
def _norm_kind(alpha: float) -> tuple[int, int, float] | None:
    """The sparse kind of the entmax that has the threshold of normmax; none where that is nearly sparsemax."""
    return _sparse_kind(2 - 1 / alpha) if alpha <= STEEPEST else None


def _forward(kind: int, z: Tensor, alpha: Parameter, dim: int, key: tuple | None = None) -> Tensor:
    rows = as_rows(z, dim)
    p = torch.empty_like(rows, memory_format=torch.contiguous_format)
    count, size = rows.shape
    sizes = (count, size, rows.stride(0))
    sparse = None if isinstance(alpha, Tensor) or kind == NORMMAX else _sparse_kind(alpha)
    if not count:
        pass
    elif sparse is not None and not (sparse[2] > 0 and BROAD[0] < size <= BROAD[1]):
        _forward_sparse(*sparse, rows, p, sizes, key)
    elif kind != NORMMAX and (isinstance(alpha, Tensor) or 1 < alpha < 2):
        forward = _forward_spectrum if size <= LONGEST else _forward_spectrum_long
        forward(by_row(alpha, z, dim) if isinstance(alpha, Tensor) else alpha, rows, p, sizes, key)
    elif kind == STEEP and size > LONGEST:
        launch(above_two_long.forward, count, (rows, p), (None, alpha, *sizes, False, LONG.block), LONG.warps, key)
    else:
        many, number = (by_row(alpha, z, dim), 2.0) if isinstance(alpha, Tensor) else (None, alpha)
        arguments: tuple = (many, number, *sizes, kind, many is not None)
        if size > LONGEST:
            launch(general_long.forward, count, (rows, p), (*arguments, LONG.block), LONG.warps, key)
        else:
            here, block, warps = tile(size)
            arguments = (*arguments, size == block and count % here == 0, here, block)
            launch(general.forward, -(-count // here), (rows, p), arguments, warps, key)
    return like(p, z, dim)


def _forward_sparse(kind: int, whole: int, fraction: float, rows: Tensor, p: Tensor, sizes: tuple, key) -> None:
    count, size, _ = sizes
    arguments: tuple = (fraction, *sizes, kind, whole)
    part = stretch(size, rows.itemsize, kind == POWER)
    if part is not None:
        members = triton.next_power_of_2(-(-size // part.block))
        groups = max(LISTED[kind == POWER] // members, 1)
        arguments = (*arguments, size % (part.depth * part.block) == 0, part.depth, part.block, members, groups)
        launch(power_long.forward, count, (rows, p), arguments, part.warps, key, work=(count, groups))
    else:
        here, depth, width, warps = sheaf(size, rows.itemsize, kind == SPARSEMAX)
        arguments = (*arguments, size == depth * width and count % here == 0, here, depth, width)
        launch(power.forward, -(-count // here), (rows, p), arguments, warps, key)


def _forward_spectrum(alpha: Parameter, rows: Tensor, p: Tensor, sizes: tuple, key) -> None:
    count, size, _ = sizes
    many, number = (alpha, 2.0) if isinstance(alpha, Tensor) else (None, alpha)
    here, depth, width, warps = heavy_sheaf(size, rows.itemsize)
    registers = REGISTERS if here == 1 and warps <= 4 else None
    even = size == depth * width and count % here == 0
    arguments: tuple = (many, number, *sizes, many is not None, even, here, depth, width)
    launch(any_alpha.forward, -(-count // here), (rows, p), arguments, warps, key, registers)
    if many is not None:
        here, block, warps = tile(size)
        turns = turns_of(count // here, warps)
        launch(outside.forward, -(-count // (here * turns)), (rows, p), (many, *sizes, turns, here, block), warps)


def _forward_spectrum_long(alpha: Parameter, rows: Tensor, p: Tensor, sizes: tuple, key) -> None:
    count, size, _ = sizes
    many, number = (alpha, 2.0) if isinstance(alpha, Tensor) else (None, alpha)
    arguments: tuple = (many, number, *sizes)
    even = size % (STRETCH.depth * STRETCH.block) == 0
    inside = (*arguments, many is not None, even, STRETCH.depth, STRETCH.block)
    launch(any_alpha_long.forward, count, (rows, p), inside, STRETCH.warps, key)
    if many is not None:
        launch(general_long.forward, count, (rows, p), (*arguments, ENTMAX, True, LONG.block), LONG.warps)
        launch(above_two_long.forward, count, (rows, p), (*arguments, True, LONG.block), LONG.warps)


def _backward(kind: int, p: Tensor, g: Tensor, alpha: Parameter, dim: int, key: tuple | None = None) -> Tensor:
    rows, incoming = as_rows(p, dim), as_rows(g, dim)
    out = torch.empty_like(rows, memory_format=torch.contiguous_format)
    count, size = rows.shape
    if count:
        many, number = (by_row(alpha, p, dim), 2.0) if isinstance(alpha, Tensor) else (None, alpha)
        arguments: tuple = (many, number, count, size, rows.stride(0), incoming.stride(0), kind, many is not None)
        if size > LONGEST:
            launch(general_long.backward, count, (rows, incoming, out), (*arguments, LONG.block), LONG.warps, key)
        else:
            here, block, warps = tile(size, light=True)
            arguments = (*arguments, size == block and count % here == 0, here, block)
            launch(general.backward, -(-count // here), (rows, incoming, out), arguments, warps, key)
    return like(out, p, dim)


def _wide(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)
