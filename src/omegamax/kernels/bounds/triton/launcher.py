"""The kernels of maps with bounds as the dispatcher calls them; float64 and very long rows go to plain torch.

Bounds are numbers or tensors with the rank of the scores. Gradients know by a probability whether it is at a bound: it
is then equal to it, rounded as probabilities are, and nothing else is rounded to that.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, float64

from omegamax.kernels.bounds import jacobians, reference
from omegamax.kernels.bounds.triton import box, clip
from omegamax.kernels.bounds.triton import capped_softmax as capped_softmax_kernels
from omegamax.kernels.bounds.triton import vjp as vjp_kernels
from omegamax.kernels.triton.launch import again, launch
from omegamax.kernels.triton.layout import LONGEST, along_last, as_rows, by_row, like, sheaf, tile

Parameter = float | Tensor

REGISTERS = 128  # for a thread of at most MOST entries in float32, so that more programs run at a time
MOST = 64


def k_subsets(z: Tensor, k: Parameter, dim: int) -> Tensor:
    key = _key("k_subsets", z, None, dim, k)
    if key is not None and (p := again(key, z)) is not None:
        return p
    if _beyond(z, dim):
        return _apart(along_last(reference.k_subsets, z.to(_wide(z)), k, dim), 0.0, 1.0, z.dtype)
    if isinstance(k, Tensor):
        return _clipped(z, by_row(k, z, dim), (0.0, 1.0, 0.0, 0.0), dim)
    whole = float(math.floor(k))
    return _clipped(z, None, (0.0, 1.0, whole, k - whole), dim, key)


def k_subsets_vjp(p: Tensor, g: Tensor, dim: int) -> Tensor:
    return box_simplex_vjp(p, g, 0.0, 1.0, dim)


def box_simplex(z: Tensor, lower: Parameter, upper: Parameter, total: Parameter, dim: int) -> Tensor:
    key = _key("box_simplex", z, None, dim, lower, upper, total)
    if key is not None and (p := again(key, z)) is not None:
        return p
    if _beyond(z, dim):
        p = along_last(reference.box_simplex, z.to(_wide(z)), lower, upper, total, dim)
        return _apart(p, lower, upper, z.dtype)
    if type(lower) is type(upper) is type(total) is float:
        return _clipped(z, None, (lower, max(lower, min(upper, total)), total, 0.0), dim, key)
    rows, low, high = as_rows(z, dim), _spread(lower, z, dim), _spread(upper, z, dim)
    p = torch.empty_like(rows, memory_format=torch.contiguous_format)
    count, size = rows.shape
    if count:
        here, block, warps = tile(size)
        # As many along a tile as all threads hold by one vector each; and a few beside them in short rows.
        width = min(max(block // 4, 1) if here > 1 else block, 16 // rows.itemsize * 32 * warps)
        sums = by_row(total if isinstance(total, Tensor) else low.new_tensor(total), z, dim)
        strides = (*low.stride(), *high.stride())
        ways = (isinstance(lower, Tensor) or lower != 0, size == block and count % here == 0)
        arguments = (low, high, sums, count, size, rows.stride(0), *strides, *ways, here, block // width, width)
        launch(box.bounded, -(-count // here), (rows, p), arguments, warps, None, REGISTERS if warps <= 8 else None)
    return like(p, z, dim)


def box_simplex_vjp(p: Tensor, g: Tensor, lower: Parameter, upper: Parameter, dim: int) -> Tensor:
    key = _key("box_simplex_vjp", p, g, dim, lower, upper)
    if key is not None and (out := again(key, p, g)) is not None:
        return out
    if _beyond(p, dim):
        return _plain(jacobians.box_simplex_vjp, p, g, lower, upper, dim)
    given = isinstance(lower, Tensor) or isinstance(upper, Tensor)
    low, high = (_spread(a, p, dim) if given else None for a in (lower, upper))
    numbers = (0.0, 0.0) if given else (lower, upper)
    return _backward(vjp_kernels.clipped, p, g, (low, high), numbers, dim, key)


def capped_softmax(z: Tensor, upper: Parameter, dim: int) -> Tensor:
    key = _key("capped_softmax", z, None, dim, upper)
    if key is not None and (p := again(key, z)) is not None:
        return p
    if _beyond(z, dim):
        return _apart(along_last(reference.capped_softmax, z.to(_wide(z)), upper, dim), 0.0, upper, z.dtype)
    rows = as_rows(z, dim)
    p = torch.empty_like(rows, memory_format=torch.contiguous_format)
    count, size = rows.shape
    if count:
        high, number = (_spread(upper, z, dim), 0.0) if isinstance(upper, Tensor) else (None, upper)
        here, block, warps = tile(size)
        warps = max(warps // 2, 1)
        even = size == block and count % here == 0
        strides = (0, 0) if high is None else high.stride()
        arguments = (high, number, count, size, rows.stride(0), *strides, high is not None, even, here, block)
        launch(capped_softmax_kernels.capped_softmax, -(-count // here), (rows, p), arguments, warps, key)
    return like(p, z, dim)


def capped_softmax_vjp(p: Tensor, g: Tensor, upper: Parameter, dim: int) -> Tensor:
    key = _key("capped_softmax_vjp", p, g, dim, upper)
    if key is not None and (out := again(key, p, g)) is not None:
        return out
    if _beyond(p, dim):
        return _plain(jacobians.capped_softmax_vjp, p, g, upper, dim)
    high, number = (_spread(upper, p, dim), 0.0) if isinstance(upper, Tensor) else (None, upper)
    return _backward(vjp_kernels.capped, p, g, (high,), (number,), dim, key)


def _clipped(z: Tensor, many: Tensor | None, numbers: tuple[float, ...], dim: int, key: tuple | None = None) -> Tensor:
    """Between two numbers; ``numbers`` are those and the sum, whole and beyond, if there are not ``many`` of them."""
    rows = as_rows(z, dim)
    p = torch.empty_like(rows, memory_format=torch.contiguous_format)
    count, size = rows.shape
    if count:
        here, depth, width, warps = sheaf(size, rows.itemsize)
        even = size == depth * width and count % here == 0
        arguments = (many, *numbers, count, size, rows.stride(0), many is not None, numbers[0] != 0, even)
        few = rows.itemsize == 4 and numbers[0] == 0 and here * depth * width <= 32 * warps * MOST
        registers = REGISTERS if few else None
        launch(clip.forward, -(-count // here), (rows, p), (*arguments, here, depth, width), warps, key, registers)
    return like(p, z, dim)


def _backward(kernel, p: Tensor, g: Tensor, bounds: tuple, numbers: tuple, dim: int, key: tuple | None) -> Tensor:
    rows, incoming = as_rows(p, dim), as_rows(g, dim)
    out = torch.empty_like(rows, memory_format=torch.contiguous_format)
    count, size = rows.shape
    if count:
        here, block, warps = tile(size, light=True)
        given = bounds[0] is not None
        strides = [s for a in bounds for s in (a.stride() if given else (0, 0))]
        even = size == block and count % here == 0
        arguments = (*bounds, *numbers, count, size, rows.stride(0), incoming.stride(0), *strides, given, even)
        launch(kernel, -(-count // here), (rows, incoming, out), (*arguments, here, block), warps, key)
    return like(out, p, dim)


def _key(name: str, x: Tensor, g: Tensor | None, dim: int, *numbers: Parameter) -> tuple | None:
    """What tells a launch from all others, if it can be kept: that of contiguous rows, by numbers."""
    for a in numbers:
        if type(a) is not float:
            return None
    if dim != x.dim() - 1 or not x.is_contiguous() or not (g is None or g.is_contiguous()):
        return None
    return (name, *numbers, x.shape, x.dtype, None if g is None else g.dtype, x.device)


def _beyond(x: Tensor, dim: int) -> bool:
    return x.dtype is float64 or x.shape[dim] > LONGEST


def _wide(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)


def _apart(p: Tensor, lower: Parameter, upper: Parameter, dtype: torch.dtype) -> Tensor:
    """Probabilities in half precision, of which those that are at no bound are not rounded to one."""
    if p.dtype is dtype:
        return p
    near = p.to(dtype)
    for bound in (lower, upper):
        exact = torch.as_tensor(bound, dtype=p.dtype, device=p.device)
        bits = exact.to(dtype).view(torch.int16)
        up, down = (bits + 1).view(dtype), (bits - 1).clamp(min=0).view(dtype)
        higher = p >= exact.to(dtype) if bound is lower else p > exact.to(dtype)
        near = torch.where((p != exact) & (near == exact.to(dtype)), torch.where(higher, up, down), near)
    return near


def _plain(jacobian, p: Tensor, g: Tensor, *rest) -> Tensor:
    """A gradient by plain torch, at least in float32; bounds as probabilities in their own precision hold them."""
    *bounds, dim = rest
    wide = _wide(p)
    if p.dtype is not wide:
        bounds = [torch.as_tensor(a, device=p.device).to(p.dtype).to(wide) for a in bounds]
    return jacobian(p.to(wide), g.to(wide), *bounds, dim).to(p.dtype)


def _spread(bound: Parameter, x: Tensor, dim: int) -> Tensor:
    """A bound for each entry, as a view of two axes where it can be one: what is shared by entries is not copied."""
    if not isinstance(bound, Tensor):
        return x.new_full((1, 1), bound, dtype=torch.float32).expand(max(x.numel() // x.shape[dim], 1), x.shape[dim])
    whole = bound.float().expand(x.shape).movedim(dim, -1)
    return whole.flatten(0, -2) if x.dim() > 1 else whole[None]
