"""The kernels of maps with bounds as the dispatcher calls them; float64 and very long rows go to plain torch."""

from __future__ import annotations

import math

import torch
from torch import Tensor, float64

from omegamax.kernels import jacobians, reference
from omegamax.kernels.triton import _box, _capped
from omegamax.kernels.triton._launch import again, launch
from omegamax.kernels.triton._layout import LONGEST, along_last, as_rows, by_row, like, tile

Parameter = float | Tensor


def k_subsets(z: Tensor, k: Parameter, dim: int) -> Tensor:
    if type(k) is float and dim == z.dim() - 1 and z.is_contiguous():
        key = ("k_subsets", k, z.shape, z.dtype, z.device)
        p = again(key, z)
        if p is not None:
            return p
    else:
        key = None
    if z.dtype is float64 or z.shape[dim] > LONGEST:
        return along_last(reference.k_subsets, z, k, dim)
    rows = as_rows(z, dim)
    many, number = (by_row(k, z, dim), 0.0) if isinstance(k, Tensor) else (None, k)
    whole = float(math.floor(number))
    p = torch.empty_like(rows, memory_format=torch.contiguous_format)
    arguments = (many, whole, number - whole, *rows.shape, rows.stride(0), many is not None)
    return _run(_box.subsets, (rows, p), arguments, z, dim, key=key)


def k_subsets_vjp(p: Tensor, g: Tensor, dim: int) -> Tensor:
    if p.dtype is float64 or p.shape[dim] > LONGEST:
        wide = torch.promote_types(p.dtype, torch.float32)
        return jacobians.k_subsets_vjp(p.to(wide), g.to(wide), dim).to(p.dtype)
    rows, incoming = as_rows(p, dim), as_rows(g, dim)
    out = torch.empty_like(rows, memory_format=torch.contiguous_format)
    arguments = (out, *rows.shape, rows.stride(0), incoming.stride(0))
    return _run(_box.subsets_backward, (rows, incoming), arguments, p, dim, out)


def box_simplex(z: Tensor, lower: Tensor, upper: Tensor, total: Tensor, dim: int) -> Tensor:
    if z.dtype is float64 or z.shape[dim] > LONGEST:
        return along_last(reference.box_simplex, z, lower, upper, total, dim)
    rows, low, high = as_rows(z, dim), _spread(lower, z, dim), _spread(upper, z, dim)
    p = torch.empty_like(rows, memory_format=torch.contiguous_format)
    arguments = (low, high, by_row(total, z, dim), *rows.shape, rows.stride(0), *low.stride(), *high.stride())
    return _run(_box.bounded, (rows, p), arguments, z, dim)


def capped_softmax(z: Tensor, upper: Tensor, dim: int) -> Tensor:
    if z.dtype is float64 or z.shape[dim] > LONGEST:
        return along_last(reference.capped_softmax, z, upper, dim)
    rows, high = as_rows(z, dim), _spread(upper, z, dim)
    p = torch.empty_like(rows, memory_format=torch.contiguous_format)
    arguments = (high, *rows.shape, rows.stride(0), *high.stride())
    return _run(_capped.capped_softmax, (rows, p), arguments, z, dim)


def _run(kernel, tensors: tuple[Tensor, Tensor], arguments: tuple, x: Tensor, dim: int, out=None, key=None) -> Tensor:
    count, size = tensors[0].shape
    if count:
        here, block, warps = tile(size)
        launch(kernel, -(-count // here), tensors, (*arguments, here, block), warps, key)
    return like(tensors[1] if out is None else out, x, dim)


def _spread(bound: Tensor, z: Tensor, dim: int) -> Tensor:
    """A bound for each entry, as a view of two axes where it can be one: what is shared by entries is not copied."""
    whole = bound.float().expand(z.shape).movedim(dim, -1)
    return whole.flatten(0, -2) if z.dim() > 1 else whole[None]
